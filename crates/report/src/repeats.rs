//! What runs of the best trials with other seeds say: how often the target is reached, what that takes, how the final
//! quality of echo factors compares, and the gradient noise scale beside the measured critical batch.

use crate::echo::echo_points;
use crate::html::number;
use crate::tables::{range, table};
use crate::view::{CONFIDENCE, PointView, StudyView};
use sooner_base::{mean, median};
use sooner_study::{Interval, Reach, Status, Target, Trial};

/// The metric of the gradient noise scale, where trials measured it.
pub const NOISE_SCALE: &str = "train.noise_scale";

/// Runs of one trial with other seeds.
#[derive(Debug, Clone)]
pub struct RepeatsView {
    /// The trial's number in its search.
    pub trial: u64,
    /// How many of the runs reached the target; one that diverged did not.
    pub reach: Reach,
    /// Updates of those that did, rising.
    pub updates: Vec<f64>,
    /// The best value of the target's metric in each run, the worst possible for one that diverged.
    pub best: Vec<f64>,
}

impl RepeatsView {
    /// From the first `wanted` runs by number that came to a result; all if none are wanted any more. A run more that was
    /// made because one diverged would make the share too good.
    pub(crate) fn new(trial: u64, runs: &[Trial], wanted: u64, target: &Target) -> RepeatsView {
        let mut runs: Vec<&Trial> = runs.iter().filter(|t| t.status != Status::Incomplete).collect();
        runs.sort_by_key(|t| t.number);
        if wanted > 0 {
            runs.truncate(wanted as usize);
        }
        let mut updates: Vec<f64> =
            runs.iter().filter_map(|t| target.first_met(t)).map(|p| p.updates.0 as f64).collect();
        updates.sort_by(f64::total_cmp);
        let lower = target.operator.lower_is_better();
        let worst = if lower { f64::INFINITY } else { f64::NEG_INFINITY };
        let best = |t: &&Trial| {
            let values = t.series.of(&target.metric).map(|(_, v)| v).filter(|v| !v.is_nan());
            let finished = values.filter(|_| t.status == Status::Complete);
            finished.fold(worst, |a, b| if lower { a.min(b) } else { a.max(b) })
        };
        let reach = Reach { reached: updates.len() as u32, of: runs.len() as u32 };
        RepeatsView { trial, reach, updates, best: runs.iter().map(best).collect() }
    }
}

/// How often the chosen metaparameters reach the target over seeds.
pub(crate) fn over_seeds(view: &StudyView) -> String {
    let rows: Vec<Vec<String>> = view
        .points()
        .filter_map(|p| Some((p, p.repeats.as_ref()?)))
        .map(|(p, r)| {
            let searched = p.updates.best.map_or(String::new(), |b| number(b.amount));
            let spread = match (r.updates.first(), r.updates.last()) {
                (Some(least), Some(most)) => range(Interval { low: *least, high: *most }),
                _ => String::new(),
            };
            let probability = match r.reach.of {
                0 => String::new(),
                _ => range(r.reach.interval(CONFIDENCE)),
            };
            vec![
                p.plan.label(),
                r.trial.to_string(),
                format!("{} of {}", r.reach.reached, r.reach.of),
                probability,
                searched,
                median(&r.updates).map_or(String::new(), number),
                spread,
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "point",
        "trial",
        "reached",
        &format!("{:.0} % interval of the probability", 100.0 * CONFIDENCE),
        "updates in the search",
        "median over seeds",
        "least to most",
    ];
    format!(
        "<h2 id=\"seeds\">The best trials over seeds</h2>\n<p class=\"note\">Each point's best metaparameters, run again with \
         seeds of their own within the same budget: the best of a search was lucky too. A run that diverged did not reach. The \
         interval is exact (Clopper and Pearson); updates are of the runs that reached.</p>\n{}",
        table(&head, &rows)
    )
}

/// Final quality without echo against that with it, over seeds. Nothing unless runs went to their end.
pub(crate) fn final_quality(view: &StudyView) -> String {
    if !view.to_the_end {
        return String::new();
    }
    let points = echo_points(view);
    let mut rows = Vec::new();
    for p in &points {
        let (Some(with), Some(without)) = (&p.point.repeats, &p.plain.repeats) else { continue };
        let (Some(a), Some(b)) = (mean(&with.best), mean(&without.best)) else { continue };
        let difference = view.bootstrap.mean_difference(&with.best, &without.best);
        let Some((difference, interval)) = difference.filter(|d| d.0.is_finite()) else { continue };
        rows.push(vec![
            p.point.plan.label(),
            format!("{} (n = {})", number(a), with.best.len()),
            format!("{} (n = {})", number(b), without.best.len()),
            number(difference),
            range(interval),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let metric = &view.target.metric;
    let head = [
        "point",
        &format!("mean best {metric}"),
        "without echo",
        "difference",
        &format!("{:.0} % of resampled seeds", 100.0 * CONFIDENCE),
    ];
    format!(
        "<h2 id=\"quality\">Final quality with echo against that without</h2>\n<p class=\"note\">The best value that each run \
         over seeds saw within the same budget, its metaparameters chosen for speed to {}. An interval that holds 0 shows no \
         difference, which with so few seeds is not the same as there being none.</p>\n{}",
        crate::html::escape(&view.target.to_string()),
        table(&head, &rows)
    )
}

/// The gradient noise scale of trials at the evaluation that met the target.
fn noise(view: &StudyView, point: &PointView) -> Vec<f64> {
    let runs = point.trials.iter().chain(&point.repeated);
    let mut scales: Vec<f64> = runs
        .filter_map(|trial| {
            let met = view.target.first_met(trial)?;
            let measured =
                trial.series.of(NOISE_SCALE).filter(|(p, v)| p.updates <= met.updates && v.is_finite());
            measured.last().map(|(_, v)| v)
        })
        .collect();
    scales.sort_by(f64::total_cmp);
    scales
}

/// The gradient noise scale beside the critical batch that was measured; nothing if no trial measured it.
pub(crate) fn noise_scales(view: &StudyView) -> String {
    let mut rows = Vec::new();
    for line in &view.lines {
        for point in &line.points {
            let scales = noise(view, point);
            let Some(middle) = median(&scales) else { continue };
            let (fit, intervals) = match &line.fit {
                Some((fit, intervals)) => (Some(fit.critical_batch), intervals.map(|i| i.critical_batch)),
                None => (None, None),
            };
            rows.push(vec![
                point.plan.label(),
                number(middle),
                range(Interval { low: scales[0], high: scales[scales.len() - 1] }),
                scales.len().to_string(),
                fit.map_or("no fit".into(), number),
                intervals.map_or(String::new(), range),
                fit.map_or(String::new(), |critical| number(middle / critical)),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "point",
        "noise scale (examples)",
        "least to greatest",
        "runs",
        "B_crit (examples)",
        "interval",
        "noise scale / B_crit",
    ];
    format!(
        "<h2 id=\"noise\">Gradient noise scale beside the critical batch</h2>\n<p class=\"note\">tr(Σ) / |G|², estimated from \
         the parts of batches and averaged over about the last hundred estimates, at the evaluation that met the target: median \
         of the runs that reached it. It needs one run, the critical batch a whole study; the two agree where the noise is alike \
         in all directions of the parameters, and otherwise in order only.</p>\n{}",
        table(&head, &rows)
    )
}
