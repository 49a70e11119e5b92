//! Which part of the search space works within a budget of epochs and one of updates (Figures 9 and 10).

use crate::chart::{Axis, AxisScale, Chart, Datum, Shape};
use crate::figures::{Figure, SMALL, csv, series};
use crate::html::number;
use crate::view::{PointView, StudyView};
use sooner_study::{Budget, Class, ClassCounts, Measure, Trial, classify, to_target};

/// How much more than the best trial of the anchoring batch a budget allows.
const ROOM: f64 = 2.0;

/// A budget of examples from the smallest batch's best trial, or of updates from the largest one's.
fn budget(points: &[&PointView], view: &StudyView, measure: Measure) -> Option<Budget> {
    let order: Vec<&&PointView> =
        if measure == Measure::Updates { points.iter().rev().collect() } else { points.iter().collect() };
    let found = order.into_iter().find_map(|p| to_target(&p.trials, &view.target, measure).ok()?.best)?;
    Some(Budget { measure, limit: ROOM * found.amount })
}

/// Small charts, one for each batch size and budget, of the first line of points.
pub(crate) fn regions(view: &StudyView) -> Option<Figure> {
    let line = view.lines.first()?;
    let points: Vec<&PointView> = line
        .points
        .iter()
        .filter(|p| p.trials.iter().any(|t| t.parameters.contains_key("learning_rate")))
        .collect();
    let mut charts = Vec::new();
    let mut rows = Vec::new();
    let mut shares = Chart {
        title: "Share of the search space that works".into(),
        x: Axis { ticks: view.batches(), ..Axis::new("batch size (examples)", AxisScale::Log) },
        y: Axis::new("good trials / all trials", AxisScale::Linear),
        series: Vec::new(),
        size: (500.0, 240.0),
    };
    for (color, measure) in [Measure::Examples, Measure::Updates].into_iter().enumerate() {
        let Some(budget) = budget(&points, view, measure) else { continue };
        let named = format!("{} {}", number(budget.limit), measure.name());
        let mut data = Vec::new();
        for point in &points {
            charts.push(scatter(view, point, &budget));
            let counts = ClassCounts::of(&point.trials, &view.target, &budget);
            if let (Some(batch), Some(share)) = (point.batch(), counts.good_share()) {
                let title = format!(
                    "batch {}: {} good, {} not reached, {} infeasible",
                    number(batch),
                    counts.good,
                    counts.not_reached,
                    counts.infeasible
                );
                data.push(Datum { title, ..Datum::new(batch, share) });
            }
            for trial in &point.trials {
                let Some(class) = classify(trial, &view.target, &budget) else { continue };
                let (rate, momentum) = place(trial);
                rows.push(vec![
                    measure.name().into(),
                    budget.limit.to_string(),
                    point.plan.label(),
                    trial.number.to_string(),
                    rate.to_string(),
                    momentum.to_string(),
                    format!("{class:?}"),
                ]);
            }
        }
        shares.series.push(series(&format!("within {named}"), color, Shape::LineDots, data));
    }
    if rows.is_empty() {
        return None;
    }
    if view.batches().len() > 1 {
        charts.insert(0, shares);
    }
    let label = if line.label.is_empty() { String::new() } else { format!(" ({})", line.label) };
    Some(Figure {
        key: "regions".into(),
        heading: format!("Which metaparameters work{label}"),
        note: format!(
            "Every trial by its class: dots met the target within the budget, triangles did not, crosses diverged; the star \
             is the best. Budgets: {ROOM} times the examples that the smallest batch needed, and {ROOM} times the updates \
             that the largest needed. A fixed number of examples should leave less that works as the batch grows, a fixed \
             number of updates more."
        ),
        charts,
        drawn: Vec::new(),
        csv: csv(&["measure", "budget", "point", "trial", "learning_rate", "momentum", "class"], &rows),
    })
}

fn place(trial: &Trial) -> (f64, f64) {
    let get = |name: &str| trial.parameters.get(name).copied();
    (get("learning_rate").unwrap_or(f64::NAN), get("momentum").unwrap_or(0.0))
}

fn scatter(view: &StudyView, point: &PointView, budget: &Budget) -> Chart {
    let momentum = point.trials.iter().any(|t| t.parameters.contains_key("momentum"));
    let y_label = if momentum { "1 − momentum" } else { "trial" };
    let y_scale = if momentum { AxisScale::Log } else { AxisScale::Linear };
    let mut classes = [
        (Class::Good, 0, Shape::Dots),
        (Class::NotReached, 1, Shape::Triangle),
        (Class::Infeasible, 7, Shape::Cross),
    ]
    .map(|(class, color, shape)| (class, series("", color, shape, Vec::new())));
    let mut star = series("", 4, Shape::Star, Vec::new());
    for trial in &point.trials {
        let Some(class) = classify(trial, &view.target, budget) else { continue };
        let (rate, momentum_value) = place(trial);
        let y = if momentum { 1.0 - momentum_value } else { trial.number as f64 };
        let title =
            format!("trial {}: rate {}, momentum {}", trial.number, number(rate), number(momentum_value));
        let datum = Datum { title, ..Datum::new(rate, y) };
        if point.updates.best.is_some_and(|b| b.trial == trial.number) {
            star.data.push(datum.clone());
        }
        let (_, of_class) = classes.iter_mut().find(|(c, _)| *c == class).expect("three classes");
        of_class.data.push(datum);
    }
    let mut all: Vec<_> = classes.into_iter().map(|(_, s)| s).collect();
    all.push(star);
    let batch = point.batch().map_or_else(|| point.plan.label(), |b| format!("batch {}", number(b)));
    Chart {
        title: format!("{batch}, {} {}", number(budget.limit), budget.measure.name()),
        x: Axis::new("learning rate", AxisScale::Log),
        y: Axis::new(y_label, y_scale),
        series: all,
        size: SMALL,
    }
}
