//! Tables of a study's page.

use crate::html::{escape, number};
use crate::view::{CONFIDENCE, LineView, StudyView};
use sooner_study::{Advice, BatchAdvice, Interval, batch_advice, regimes};

/// Excess over perfect scaling, or over the fewest updates, that ends a regime.
const TOLERANCE: f64 = 0.2;

pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    // A last column of words reads from the left.
    let words = matches!(head.last(), Some(&"advice" | &"verdict" | &"its metaparameters"));
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

pub(crate) fn range(interval: Interval) -> String {
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
        // A law whose critical batch is 0 is flat: no batch size can be held against it.
        if fit.critical_batch <= 0.0 {
            continue;
        }
        for p in &line.points {
            let Some(batch) = p.batch() else { continue };
            let told = batch_advice(batch, fit.critical_batch, intervals.critical_batch);
            rows.push(vec![
                p.plan.label(),
                format!("{} times", number(told.share)),
                range(told.range),
                advice_words(&told),
            ]);
        }
    }
    if rows.is_empty() {
        String::new()
    } else {
        table(&["point", "batch / B_crit", "interval", "advice"], &rows)
    }
}

/// The advice as a sentence, with how far the batch is from the critical size and the interval of that.
fn advice_words(told: &BatchAdvice) -> String {
    let times = |share: f64, range: Interval, side: &str| {
        format!(
            "this batch is {} ({} to {}) times {side} the critical size",
            number(share),
            number(range.low),
            number(range.high)
        )
    };
    // Below it, how many times smaller: the interval turns over.
    let below = || {
        times(1.0 / told.share, Interval { low: 1.0 / told.range.high, high: 1.0 / told.range.low }, "below")
    };
    let place = if told.share < 1.0 { below() } else { times(told.share, told.range, "above") };
    match told.advice {
        Advice::GrowBatch => format!("{place}: grow the batch"),
        Advice::Echo => format!("{place}: echo, a larger batch hardly pays"),
        Advice::Neither => format!("{place}, not surely on either side of it: neither"),
    }
}

/// Best trials at the edge of their space: results that a wider search may change.
pub(crate) fn edges(view: &StudyView) -> String {
    let items: String = view
        .points()
        .filter(|p| !p.edges.is_empty())
        .map(|p| format!("<li>{}: {}</li>\n", escape(&p.plan.label()), escape(&p.edges.join(", "))))
        .collect();
    if view.points().all(|p| p.updates.best.is_none()) {
        return "<p class=\"note\">No trial has reached the target so far.</p>\n".into();
    }
    if items.is_empty() {
        return "<p class=\"note\">No best trial lies near an edge of its search space that could be widened.</p>\n".into();
    }
    format!(
        "<p class=\"warn\"><b>The best trial lies near an edge of its search space</b>: a wider search may do better, and the \
         curve may bend later than it seems. <code>sooner study run STUDY --widen</code> extends these edges.</p>\n\
         <ul class=\"warn\">\n{items}</ul>\n"
    )
}
