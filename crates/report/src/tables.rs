//! Tables of a study's page.

use crate::figures::echo_ratios;
use crate::html::{escape, number};
use crate::view::{CONFIDENCE, LineView, StudyView};
use sooner_study::{Advice, Interval, batch_advice, regimes, time_map};

/// Excess over perfect scaling, or over the fewest updates, that ends a regime.
const TOLERANCE: f64 = 0.2;

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    // A last column of words reads from the left.
    let words = matches!(head.last(), Some(&"advice" | &"its metaparameters"));
    let class = if words { " class=\"words\"" } else { "" };
    let cells = |tag: &str, row: &[String]| -> String {
        row.iter().map(|c| format!("<{tag}>{}</{tag}>", escape(c))).collect()
    };
    let head: Vec<String> = head.iter().map(|h| h.to_string()).collect();
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<div class=\"scroll\"><table{class}>\n<thead><tr>{}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n",
        cells("th", &head)
    )
}

fn range(interval: Interval) -> String {
    format!("{} to {}", number(interval.low), number(interval.high))
}

/// Every point with its counts and its best trial.
pub(crate) fn points(view: &StudyView) -> String {
    let rows: Vec<Vec<String>> = view
        .points()
        .map(|p| {
            let u = &p.updates;
            let parameters = p.best_parameters().map_or(String::new(), |values| {
                let parts: Vec<String> = values.iter().map(|(n, v)| format!("{n} {}", number(*v))).collect();
                parts.join(", ")
            });
            vec![
                p.plan.label(),
                u.best.map_or("not reached".into(), |b| number(b.amount)),
                p.interval.map_or(String::new(), range),
                format!("{} of {}", u.reached, u.amounts.len()),
                u.censored.to_string(),
                u.infeasible.to_string(),
                (p.failed + p.running).to_string(),
                u.best.map_or(String::new(), |b| b.trial.to_string()),
                parameters,
            ]
        })
        .collect();
    let interval = format!("{:.0} % of resamples", 100.0 * CONFIDENCE);
    let head = [
        "point",
        "updates",
        &interval,
        "reached",
        "censored",
        "diverged",
        "no result",
        "best trial",
        "its metaparameters",
    ];
    table(&head, &rows)
}

/// What the curve of each line says.
pub(crate) fn laws(view: &StudyView) -> String {
    let rows: Vec<Vec<String>> = view.lines.iter().filter_map(|line| law(view, line)).collect();
    if rows.is_empty() {
        return "<p class=\"note\">No law is fitted: it takes three batch sizes that reach the target.</p>\n"
            .into();
    }
    let head = [
        "line",
        "S_min (updates)",
        "interval",
        "B_crit (examples)",
        "interval",
        "largest residual",
        "perfect until",
        "largest useful batch",
    ];
    table(&head, &rows)
}

fn law(view: &StudyView, line: &LineView) -> Option<Vec<String>> {
    let (fit, intervals) = line.fit.as_ref()?;
    let regimes = regimes(&line.curve(), TOLERANCE).ok()?;
    let bend =
        |b: sooner_study::Bend| if b.seen { number(b.batch) } else { format!("beyond {}", number(b.batch)) };
    let residual = fit.residuals.iter().fold(0.0f64, |a, r| a.max(r.abs()));
    Some(vec![
        if line.label.is_empty() { view.name.clone() } else { line.label.clone() },
        number(fit.least_updates),
        intervals.map_or(String::new(), |i| range(i.least_updates)),
        number(fit.critical_batch),
        intervals.map_or(String::new(), |i| range(i.critical_batch)),
        format!("{:.0} %", 100.0 * residual.exp_m1()),
        bend(regimes.perfect_until),
        bend(regimes.flat_from),
    ])
}

/// What follows for each batch size.
pub(crate) fn advice(view: &StudyView) -> String {
    let mut rows = Vec::new();
    for line in &view.lines {
        let Some((fit, Some(intervals))) = &line.fit else { continue };
        for p in &line.points {
            let Some(batch) = p.batch() else { continue };
            let told = batch_advice(batch, fit.critical_batch, intervals.critical_batch);
            let words = match told.advice {
                Advice::GrowBatch => "below the critical size: grow the batch",
                Advice::Echo => "above the critical size: echo may pay, a larger batch hardly",
                Advice::Neither => "within the interval of the critical size: neither is sure to pay",
            };
            rows.push(vec![
                p.plan.label(),
                format!("{} times", number(told.share)),
                range(told.range),
                words.to_string(),
            ]);
        }
    }
    if rows.is_empty() {
        String::new()
    } else {
        table(&["point", "batch / B_crit", "interval", "advice"], &rows)
    }
}

/// How many downstream passes fit into the time of one upstream item, for the map of times.
const RATIOS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 4.0, 8.0];

/// Time to the target with echo over that without, for each line of points: below 1 echo pays.
pub(crate) fn echo_times(view: &StudyView) -> String {
    let mut rows = Vec::new();
    for (label, factors) in echo_ratios(view) {
        let map = time_map(&factors, &RATIOS);
        rows.extend(factors.iter().zip(map).map(|((e, f), times)| {
            let mut row = vec![label.clone(), number(*e), number(*f)];
            row.extend(times.into_iter().map(number));
            row
        }));
    }
    if rows.is_empty() {
        return String::new();
    }
    let ratios: Vec<String> = RATIOS.iter().map(|r| format!("R = {}", number(*r))).collect();
    let mut head = vec!["line", "e", "F(e)"];
    head.extend(ratios.iter().map(String::as_str));
    format!(
        "<h2 id=\"times\">Time with echo over time without</h2>\n<p class=\"note\">F(e) max(R, e) / max(R, 1), for stages with \
         processors of their own; R is the time of one upstream item over that of one downstream pass. Below 1 echo \
         pays.</p>\n{}",
        table(&head, &rows)
    )
}

/// Best trials at the edge of their space: results that a wider search may change.
pub(crate) fn edges(view: &StudyView) -> String {
    let items: String = view
        .points()
        .filter(|p| !p.edges.is_empty())
        .map(|p| format!("<li>{}: {}</li>\n", escape(&p.plan.label()), escape(&p.edges.join(", "))))
        .collect();
    if items.is_empty() {
        return "<p class=\"note\">No best trial lies near an edge of its search space that could be widened.</p>\n".into();
    }
    format!(
        "<p class=\"warn\"><b>The best trial lies near an edge of its search space</b>: a wider search may do better, and the \
         curve may bend later than it seems. <code>sooner study run STUDY --widen</code> extends these edges.</p>\n\
         <ul class=\"warn\">\n{items}</ul>\n"
    )
}
