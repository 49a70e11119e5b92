//! What echoing is worth: F(e) against the echo factor (Figures 1 and 5 of the paper on data echoing), times by the time
//! law, and whether repeats pay where larger batches stop paying.

use crate::chart::{Axis, AxisScale, Chart, Datum, GREY, Shape};
use crate::figures::{Figure, WIDE, csv, series};
use crate::html::number;
use crate::tables::{range, table};
use crate::view::{CONFIDENCE, PointView, StudyView};
use sooner_study::definition::AxisValue;
use sooner_study::{FreshRatio, Interval, Measure, fit_scaling, fresh_ratio, time_map, to_target};

/// The axes of the echo stage itself.
const STAGE: [&str; 3] = ["echo", "echo_place", "echo_buffer"];

/// What one point's repeats are worth.
pub(crate) struct EchoPoint<'a> {
    pub(crate) point: &'a PointView,
    /// The point without echo that it is compared with.
    pub(crate) plain: &'a PointView,
    /// What it shares with other echo factors.
    line: String,
    pub(crate) echo: f64,
    /// None if either search never reached the target.
    ratio: Option<FreshRatio>,
}

fn factor(point: &PointView) -> Option<f64> {
    point.plan.value("echo").and_then(AxisValue::number)
}

fn without(point: &PointView, axes: &[&str]) -> String {
    let rest = point.plan.axes.iter().filter(|(name, _)| !axes.contains(&name.as_str()));
    let parts: Vec<String> = rest.map(|(name, value)| format!("{name} {value}")).collect();
    parts.join(", ")
}

/// Every point with echo that there is one without for: at the same place of the pipeline if a study has it there, else
/// wherever, for without repeats all places are one.
pub(crate) fn echo_points(view: &StudyView) -> Vec<EchoPoint<'_>> {
    let with: Vec<&PointView> = view.points().filter(|p| factor(p).is_some()).collect();
    let mut found = Vec::new();
    for point in with.iter().copied().filter(|p| factor(p) != Some(1.0)) {
        let plain = |axes: &[&str]| {
            with.iter().copied().find(|p| factor(p) == Some(1.0) && without(p, axes) == without(point, axes))
        };
        let Some(plain) = plain(&STAGE[..1]).or_else(|| plain(&STAGE)) else { continue };
        let amounts = |p: &PointView| {
            to_target(&p.trials, &view.target, Measure::FreshExamples).ok().map(|t| t.amounts)
        };
        let ratio = match (amounts(point), amounts(plain)) {
            (Some(echoed), Some(fresh)) => fresh_ratio(&echoed, &fresh, &view.bootstrap).ok(),
            _ => None,
        };
        let (line, echo) = (without(point, &STAGE[..1]), factor(point).expect("it has a factor"));
        found.push(EchoPoint { point, plain, line, echo, ratio });
    }
    found
}

/// The echo points that have a ratio, by their lines, echo factors rising.
fn lines<'a>(points: &'a [EchoPoint<'a>]) -> Vec<(&'a str, Vec<(&'a EchoPoint<'a>, FreshRatio)>)> {
    let mut lines: Vec<(&str, Vec<(&EchoPoint<'_>, FreshRatio)>)> = Vec::new();
    for (p, ratio) in points.iter().filter_map(|p| Some((p, p.ratio?))) {
        match lines.iter_mut().find(|(line, _)| *line == p.line) {
            Some((_, of)) => of.push((p, ratio)),
            None => lines.push((&p.line, vec![(p, ratio)])),
        }
    }
    for (_, of) in &mut lines {
        of.sort_by(|a, b| a.0.echo.total_cmp(&b.0.echo));
    }
    lines
}

/// F(e), fresh examples with echo over those without.
pub(crate) fn echo(view: &StudyView) -> Option<Figure> {
    let points = echo_points(view);
    let lines = lines(&points);
    if lines.is_empty() {
        return None;
    }
    let mut factors: Vec<f64> = lines.iter().flat_map(|(_, of)| of).map(|(p, _)| p.echo).collect();
    factors.push(1.0);
    factors.sort_by(f64::total_cmp);
    factors.dedup();
    let mut chart = Chart {
        title: "F(e): fresh examples with echo over those without".into(),
        x: Axis { ticks: factors.clone(), ..Axis::new("echo factor e", AxisScale::Log) },
        y: Axis::new("F(e)", AxisScale::Log),
        series: Vec::new(),
        size: WIDE,
    };
    let mut rows = Vec::new();
    for (color, (label, of)) in lines.iter().enumerate() {
        let mut data = vec![Datum::new(1.0, 1.0)];
        for (p, r) in of {
            let interval = (r.interval.low, r.interval.high);
            let [value, low, high] = [r.value, interval.0, interval.1].map(number);
            let title = format!("{label}, e = {}: F = {value} ({low} to {high})", number(p.echo));
            data.push(Datum { x: p.echo, y: r.value, range: Some(interval), title });
            let numbers = [p.echo, r.value, r.interval.low, r.interval.high, r.extremes.low, r.extremes.high];
            let mut row = vec![label.to_string()];
            row.extend(numbers.map(|v| v.to_string()));
            rows.push(row);
        }
        let named = if label.is_empty() { view.name.clone() } else { label.to_string() };
        chart.series.push(series(&named, color, Shape::LineDots, data));
    }
    let ideal = factors.iter().map(|e| Datum::new(*e, 1.0 / e)).collect();
    let useless = factors.iter().map(|e| Datum::new(*e, 1.0)).collect();
    chart.series.push(series("repeats as good as fresh, 1/e", GREY, Shape::Dashed, ideal));
    chart.series.push(series("repeats worthless", GREY, Shape::Line, useless));
    Some(Figure {
        key: "echo".into(),
        heading: "What repeats are worth".into(),
        note: format!(
            "F(e) of the best trials, with the middle {:.0} % over resampled searches of both sides (n = {} resamples); the \
             file also has their least and greatest. Below 1 echo saves fresh examples.",
            100.0 * CONFIDENCE,
            view.bootstrap.resamples
        ),
        charts: vec![chart],
        drawn: Vec::new(),
        csv: csv(&["line", "echo", "f", "low", "high", "least", "greatest"], &rows),
    })
}

/// How many downstream passes fit into the time of one upstream item, for the map of times.
const RATIOS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 4.0, 8.0];

/// Time to the target with echo over that without, for each line of points: below 1 echo pays.
pub(crate) fn echo_times(view: &StudyView) -> String {
    let points = echo_points(view);
    let mut rows = Vec::new();
    for (label, of) in lines(&points) {
        let factors: Vec<(f64, f64)> = of.iter().map(|(p, ratio)| (p.echo, ratio.value)).collect();
        let map = time_map(&factors, &RATIOS);
        rows.extend(factors.iter().zip(map).map(|((e, f), times)| {
            let mut row = vec![label.to_string(), number(*e), number(*f)];
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

/// What an interval of F(e) says.
fn verdict(interval: Interval) -> &'static str {
    if interval.high < 1.0 {
        "repeats save fresh examples"
    } else if interval.low > 1.0 {
        "repeats cost fresh examples"
    } else {
        "not settled by so many trials"
    }
}

/// Whether echo pays where larger batches stop paying: F(e) with its interval, beside where each batch stands on the
/// curve without echo.
pub(crate) fn echo_worth(view: &StudyView) -> String {
    let points = echo_points(view);
    let mut rows = Vec::new();
    for p in &points {
        let Some(ratio) = p.ratio else { continue };
        let same = |other: &&PointView| {
            factor(other) == Some(1.0)
                && other.plan.axes.iter().all(|(name, value)| {
                    name == "batch" || p.plain.plan.axes.iter().any(|(n, v)| n == name && v == value)
                })
        };
        let curve: Vec<sooner_study::CurvePoint> = view
            .points()
            .filter(same)
            .filter_map(|q| {
                Some(sooner_study::CurvePoint { batch: q.batch()?, updates: q.updates.best?.amount })
            })
            .collect();
        let share = fit_scaling(&curve).ok().and_then(|fit| Some(p.point.batch()? / fit.critical_batch));
        rows.push(vec![
            p.point.plan.label(),
            number(ratio.value),
            range(ratio.interval),
            range(ratio.extremes),
            share.map_or("?".into(), number),
            verdict(ratio.interval).into(),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let interval = format!("{:.0} % of resamples", 100.0 * CONFIDENCE);
    format!(
        "<h2 id=\"worth\">Does echo pay where larger batches stop paying?</h2>\n<p class=\"note\">F(e) over resampled searches \
         of both sides, n = {} resamples, and the batch over the critical one of the searches without echo: above 1 larger \
         batches hardly pay.</p>\n{}",
        view.bootstrap.resamples,
        table(&["point", "F(e)", &interval, "least to greatest", "batch / B_crit", "verdict"], &rows)
    )
}
