//! The figures of a study: each a chart and its numbers as CSV.

use crate::chart::{Axis, AxisScale, Chart, Datum, GREY, Series, Shape};
use crate::html::number;
use crate::view::{CONFIDENCE, LineView, PointView, StudyView};
use sooner_study::{Budget, Measure, RateRule, Status, Target, best_rates, best_within, to_target};
use std::fmt::Write;

/// A figure of a page.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// The start of its files' names.
    pub(crate) key: String,
    pub(crate) heading: String,
    /// What it shows and how to read it.
    pub(crate) note: String,
    pub(crate) charts: Vec<Chart>,
    /// Pictures that are no charts, as SVG.
    pub(crate) drawn: Vec<String>,
    pub(crate) csv: String,
}

pub(crate) const WIDE: (f64, f64) = (760.0, 340.0);
pub(crate) const SMALL: (f64, f64) = (330.0, 220.0);

/// Rows of a CSV file; a field with a comma, a quote or a line break is quoted.
pub(crate) fn csv(header: &[&str], rows: &[Vec<String>]) -> String {
    let field = |text: &str| {
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.into()
        }
    };
    let mut out = header.join(",") + "\n";
    for row in rows {
        let fields: Vec<String> = row.iter().map(|f| field(f)).collect();
        writeln!(out, "{}", fields.join(",")).expect("a string takes everything");
    }
    out
}

fn name(view: &StudyView, line: &LineView) -> String {
    if line.label.is_empty() { view.name.clone() } else { line.label.clone() }
}

fn batch_axis(view: &StudyView) -> Axis {
    Axis { ticks: view.batches(), ..Axis::new("batch size (examples)", AxisScale::Log) }
}

/// All figures that the study's axes allow.
pub(crate) fn figures(view: &StudyView) -> Vec<Figure> {
    let mut figures = Vec::new();
    if view.batches().len() >= 2 {
        figures.push(updates_to_target(view));
        figures.extend(varied_targets(view));
        figures.extend(rates(view));
    }
    figures.extend(crate::regions::regions(view));
    if view.batches().len() >= 2 {
        figures.push(within_budgets(view));
        figures.extend(compute(view));
    }
    figures.extend(crate::echo::echo(view));
    figures
}

fn datum(point: &PointView, x: f64) -> Option<Datum> {
    let best = point.updates.best?;
    let interval = point.interval?;
    let title = format!(
        "{}: {} updates, trial {}; {} of {} trials reached; resampled searches {} to {}",
        point.plan.label(),
        number(best.amount),
        best.trial,
        point.updates.reached,
        point.updates.amounts.len(),
        number(interval.low),
        number(interval.high)
    );
    Some(Datum { x, y: best.amount, range: Some((interval.low, interval.high)), title })
}

/// Updates to the target against batch size (Figures 1, 3 to 7 of the paper on data parallelism).
fn updates_to_target(view: &StudyView) -> Figure {
    let mut chart = Chart {
        title: format!("Updates to {}", view.target),
        x: batch_axis(view),
        y: Axis::new("updates", AxisScale::Log),
        series: Vec::new(),
        size: WIDE,
    };
    let mut rows = Vec::new();
    let (mut perfect_named, mut fit_named) = (false, false);
    for (color, line) in view.lines.iter().enumerate() {
        let data: Vec<Datum> = line.points.iter().filter_map(|p| datum(p, p.batch()?)).collect();
        let missing = line.points.iter().filter(|p| p.updates.best.is_none()).filter_map(PointView::batch);
        let missing: Vec<Datum> = missing
            .map(|b| Datum {
                title: format!("batch {}: no trial reached the target", number(b)),
                ..Datum::new(b, 1.0)
            })
            .collect();
        if let Some(first) = data.first() {
            let largest = line.points.iter().filter_map(PointView::batch).fold(first.x, f64::max);
            let ends = [first.x, largest].map(|b| Datum::new(b, first.y * first.x / b));
            let named = if perfect_named { "" } else { "perfect scaling" };
            perfect_named = true;
            chart.series.push(series(named, GREY, Shape::Dashed, ends.to_vec()));
        }
        if let Some((fit, _)) = &line.fit {
            let batches: Vec<f64> = line.points.iter().filter_map(PointView::batch).collect();
            let (low, high) = (batches[0].ln(), batches[batches.len() - 1].ln());
            let curve = (0..=60).map(|i| (low + (high - low) * f64::from(i) / 60.0).exp());
            let curve: Vec<Datum> = curve.map(|b| Datum::new(b, fit.updates(b))).collect();
            let named = if fit_named { "" } else { "fit S_min (1 + B_crit / B)" };
            fit_named = true;
            chart.series.push(series(named, color, Shape::Line, curve));
        }
        chart.series.push(series(&name(view, line), color, Shape::Dots, data));
        if !missing.is_empty() {
            chart.series.push(series("", color, Shape::Censored, missing));
        }
        rows.extend(line.points.iter().map(|p| row(line, p)));
    }
    let header =
        ["line", "batch", "updates", "low", "high", "trial", "reached", "censored", "infeasible", "failed"];
    Figure {
        key: "updates".into(),
        heading: "Updates to the target against batch size".into(),
        note: format!(
            "Each point is the best of its feasible trials, with the middle {:.0} % of the best of resampled searches \
             (n = {} resamples of its trials): how much worse an equally large search might have done. Dashed: perfect \
             scaling from the smallest batch. A triangle at the upper edge: no trial reached the target.",
            100.0 * CONFIDENCE,
            view.bootstrap.resamples
        ),
        charts: vec![chart],
        drawn: Vec::new(),
        csv: csv(&header, &rows),
    }
}

fn row(line: &LineView, p: &PointView) -> Vec<String> {
    let u = &p.updates;
    let text = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    vec![
        line.label.clone(),
        text(p.batch()),
        text(u.best.map(|b| b.amount)),
        text(p.interval.map(|i| i.low)),
        text(p.interval.map(|i| i.high)),
        u.best.map_or(String::new(), |b| b.trial.to_string()),
        u.reached.to_string(),
        u.censored.to_string(),
        u.infeasible.to_string(),
        p.failed.to_string(),
    ]
}

pub(crate) fn series(name: &str, color: usize, shape: Shape, data: Vec<Datum>) -> Series {
    Series { name: name.to_string(), color, shape, data }
}

/// Targets near the study's own: harder by nothing, easier by these factors of the error or loss.
const EASIER: [f64; 4] = [1.0, 1.25, 1.5, 2.0];

fn nearby(target: &Target, factor: f64) -> Target {
    let value = if target.operator.lower_is_better() {
        target.value * factor
    } else {
        // A share: what is missing to 1 grows.
        1.0 - (1.0 - target.value) * factor
    };
    Target { value: (value * 1e6).round() / 1e6, ..target.clone() }
}

/// The same curve for nearby targets (Figure 2).
fn varied_targets(view: &StudyView) -> Option<Figure> {
    let mut charts = Vec::new();
    let mut rows = Vec::new();
    for line in view.lines.iter().take(4) {
        let mut chart = Chart {
            title: name(view, line),
            x: batch_axis(view),
            y: Axis::new("updates", AxisScale::Log),
            series: Vec::new(),
            size: (500.0, 260.0),
        };
        for (color, factor) in EASIER.into_iter().enumerate() {
            let target = nearby(&view.target, factor);
            let mut data = Vec::new();
            for p in &line.points {
                let (Some(batch), Ok(found)) = (p.batch(), to_target(&p.trials, &target, Measure::Updates))
                else {
                    continue;
                };
                if let Some(best) = found.best {
                    let title =
                        format!("batch {}: {} updates to {target}", number(batch), number(best.amount));
                    data.push(Datum { title, ..Datum::new(batch, best.amount) });
                    rows.push(vec![
                        line.label.clone(),
                        target.to_string(),
                        batch.to_string(),
                        best.amount.to_string(),
                        best.trial.to_string(),
                    ]);
                }
            }
            chart.series.push(series(&target.to_string(), color, Shape::LineDots, data));
        }
        charts.push(chart);
    }
    (!rows.is_empty()).then(|| Figure {
        key: "targets".into(),
        heading: "Nearby targets".into(),
        note: "The same trials judged by easier targets: the curve should move down and keep its shape. Metaparameters \
               are the best for each target. Trials end where they meet the study's own target."
            .into(),
        charts,
        drawn: Vec::new(),
        csv: csv(&["line", "target", "batch", "updates", "trial"], &rows),
    })
}

/// The best effective learning rate against batch size, with the rules of thumb (Figure 8).
fn rates(view: &StudyView) -> Option<Figure> {
    let mut chart = Chart {
        title: "Best effective learning rate".into(),
        x: batch_axis(view),
        y: Axis::new("learning rate / (1 − momentum)", AxisScale::Log),
        series: Vec::new(),
        size: WIDE,
    };
    let mut rows = Vec::new();
    for (color, line) in view.lines.iter().enumerate() {
        let points: Vec<_> =
            line.points.iter().filter_map(|p| Some((p.batch()? as u64, p.trials.clone()))).collect();
        let Ok(best) = best_rates(&points, &view.target) else { continue };
        let Some(first) = best.first() else { continue };
        let anchor = (first.batch as f64, first.effective);
        let ends = [first.batch as f64, best[best.len() - 1].batch as f64];
        for (rule, named, shape) in [
            (RateRule::Linear, "linear rule", Shape::Dashed),
            (RateRule::SquareRoot, "square-root rule", Shape::Line),
        ] {
            let data = ends.map(|b| Datum::new(b, rule.rate(anchor, b))).to_vec();
            chart.series.push(series(if color == 0 { named } else { "" }, GREY, shape, data));
        }
        let data = best.iter().map(|r| {
            let title = format!(
                "batch {}: rate {}, momentum {}, {} of the linear rule, trial {}",
                r.batch,
                number(r.rate),
                number(r.momentum),
                number(r.over_linear),
                r.trial
            );
            Datum { title, ..Datum::new(r.batch as f64, r.effective) }
        });
        chart.series.push(series(&name(view, line), color, Shape::LineDots, data.collect()));
        rows.extend(best.iter().map(|r| {
            let numbers = [r.rate, r.momentum, r.effective, r.over_linear, r.over_square_root];
            let mut row = vec![line.label.clone(), r.batch.to_string(), r.trial.to_string()];
            row.extend(numbers.map(|v| v.to_string()));
            row
        }));
    }
    (!rows.is_empty()).then(|| Figure {
        key: "rates".into(),
        heading: "The best learning rate against batch size".into(),
        note: "Grey: the linear (dashed) and square-root rules of thumb, from the smallest batch that reaches the target. \
               n = 1 trial a point, the best one; its neighbours in the search may be nearly as good."
            .into(),
        charts: vec![chart],
        drawn: Vec::new(),
        csv: csv(
            &["line", "batch", "trial", "rate", "momentum", "effective", "over_linear", "over_square_root"],
            &rows,
        ),
    })
}

/// Three budgets that spread over what trials used, each a third of a decade or more apart.
fn budgets(view: &StudyView, measure: Measure) -> Vec<Budget> {
    let ends = view.points().flat_map(|p| &p.trials).filter(|t| t.status == Status::Complete);
    let used: Vec<f64> = ends.filter_map(|t| measure.of(t.series.progress().last()?)).collect();
    let most = used.iter().copied().fold(0.0, f64::max);
    [0.05, 0.2, 1.0].map(|share| Budget { measure, limit: (most * share).round().max(1.0) }).to_vec()
}

/// The best value of the target's metric within budgets, against batch size (Figure 11).
fn within_budgets(view: &StudyView) -> Figure {
    let lower = view.target.operator.lower_is_better();
    let mut charts = Vec::new();
    let mut rows = Vec::new();
    for measure in [Measure::Updates, Measure::Examples] {
        for line in view.lines.iter().take(4) {
            let mut chart = Chart {
                title: format!("{}: budgets of {}", name(view, line), measure.name()),
                x: batch_axis(view),
                y: Axis::new(&format!("best {}", view.target.metric), AxisScale::Linear),
                series: Vec::new(),
                size: (500.0, 240.0),
            };
            for (color, budget) in budgets(view, measure).into_iter().enumerate() {
                let mut data = Vec::new();
                for p in &line.points {
                    let (Some(batch), Some(best)) =
                        (p.batch(), best_within(&p.trials, &view.target.metric, lower, &budget))
                    else {
                        continue;
                    };
                    let title =
                        format!("batch {}: {} (trial {})", number(batch), number(best.value), best.trial);
                    data.push(Datum { title, ..Datum::new(batch, best.value) });
                    rows.push(vec![
                        line.label.clone(),
                        measure.name().into(),
                        budget.limit.to_string(),
                        batch.to_string(),
                        best.value.to_string(),
                        best.trial.to_string(),
                    ]);
                }
                let named = format!("{} {}", number(budget.limit), measure.name());
                chart.series.push(series(&named, color, Shape::LineDots, data));
            }
            charts.push(chart);
        }
    }
    Figure {
        key: "budgets".into(),
        heading: "The best result within a budget, against batch size".into(),
        note: "At a fixed number of updates larger batches should do at least as well, at a fixed number of examples \
               smaller ones. Best over all feasible trials; trials that met the target ended there, so values beyond it \
               are cut off."
            .into(),
        charts,
        drawn: Vec::new(),
        csv: csv(&["line", "measure", "budget", "batch", "value", "trial"], &rows),
    }
}

/// The best value so far over all trials, against examples, for each batch size (Figure 12).
fn compute(view: &StudyView) -> Option<Figure> {
    let lower = view.target.operator.lower_is_better();
    let mut charts = Vec::new();
    let mut rows = Vec::new();
    for line in view.lines.iter().take(4) {
        let mut chart = Chart {
            title: name(view, line),
            x: Axis::new("examples in updates", AxisScale::Log),
            y: Axis::new(&format!("best {}", view.target.metric), AxisScale::Linear),
            series: Vec::new(),
            size: (500.0, 260.0),
        };
        for (color, p) in line.points.iter().enumerate() {
            let Some(batch) = p.batch() else { continue };
            let complete = p.trials.iter().filter(|t| t.status == Status::Complete);
            let mut all: Vec<(f64, f64)> = complete
                .flat_map(|t| t.series.of(&view.target.metric))
                .map(|(progress, value)| (progress.examples.0 as f64, value))
                .filter(|(_, value)| value.is_finite())
                .collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut best = f64::NAN;
            let mut data = Vec::new();
            for (examples, value) in all {
                if best.is_nan() || (lower && value < best) || (!lower && value > best) {
                    best = value;
                    data.push(Datum::new(examples, best));
                    rows.push(vec![
                        line.label.clone(),
                        batch.to_string(),
                        examples.to_string(),
                        best.to_string(),
                    ]);
                }
            }
            chart.series.push(series(&format!("batch {}", number(batch)), color, Shape::Line, data));
        }
        charts.push(chart);
    }
    (!rows.is_empty()).then(|| Figure {
        key: "compute".into(),
        heading: "The best result against compute".into(),
        note: "The best value so far of all feasible trials of a batch size, against the examples that went into their \
               updates: if quality follows compute, the curves lie together where none is at its limit."
            .into(),
        charts,
        drawn: Vec::new(),
        csv: csv(&["line", "batch", "examples", "best"], &rows),
    })
}
