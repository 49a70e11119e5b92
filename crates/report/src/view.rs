//! What a study's page shows, computed from its definition and trials.

use crate::html::number;
use crate::repeats::RepeatsView;
use crate::trials::study_trials;
use sooner_base::Seed;
use sooner_record::{StoredTrial, TrialState};
use sooner_study::definition::{AxisValue, PointPlan, StudyPlan};
use sooner_study::{
    Bootstrap, CurvePoint, Interval, Measure, Scaling, ScalingIntervals, StudyError, Target, ToTarget, Trial,
    fit_scaling, scaling_intervals, to_target,
};
use std::collections::BTreeMap;

/// Fewer trials than this say nothing of what another search would have found.
pub const FEWEST: usize = 3;
/// The share of resamples inside the intervals that pages show.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// One point of a study's axes, with what its trials came to.
#[derive(Debug, Clone)]
pub struct PointView {
    /// Its number in the study.
    pub id: u64,
    /// What it is.
    pub plan: PointPlan,
    /// Its trials.
    pub trials: Vec<Trial>,
    /// Updates to the target.
    pub updates: ToTarget,
    /// The middle of the best of resampled trials, in updates; infinite above if some never reach. None of too few trials.
    pub interval: Option<Interval>,
    /// Runs of the best trial with other seeds, where there are any.
    pub repeats: Option<RepeatsView>,
    /// Their trials.
    pub(crate) repeated: Vec<Trial>,
    /// Trials that came to no result.
    pub failed: usize,
    /// Trials that are running.
    pub running: usize,
    /// The best trial's metaparameters that lie near an edge of their space.
    pub edges: Vec<String>,
}

impl PointView {
    /// Examples in a batch, where that is an axis.
    pub fn batch(&self) -> Option<f64> {
        self.plan.value("batch").and_then(AxisValue::number)
    }

    /// Whether it has as many feasible trials as each point is to get.
    pub(crate) fn is_complete(&self, wanted: u64) -> bool {
        self.updates.amounts.len() as u64 >= wanted
    }

    fn best(&self) -> Option<u64> {
        self.updates.best.map(|b| b.trial)
    }

    /// The metaparameters of the best trial.
    pub fn best_parameters(&self) -> Option<&BTreeMap<String, f64>> {
        let best = self.updates.best?;
        self.trials.iter().find(|t| t.number == best.trial).map(|t| &t.parameters)
    }
}

/// The points that differ in batch size alone, smallest first.
#[derive(Debug, Clone)]
pub struct LineView {
    /// What they share: `optimizer sgd`.
    pub label: String,
    /// The points.
    pub points: Vec<PointView>,
    /// The scaling law, where enough batch sizes reach the target.
    pub fit: Option<(Scaling, Option<ScalingIntervals>)>,
}

impl LineView {
    /// Updates to the target at the batch sizes that reach it.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let reached = self.points.iter().filter_map(|p| Some((p.batch()?, p.updates.best?.amount)));
        reached.map(|(batch, updates)| CurvePoint { batch, updates }).collect()
    }
}

/// A study, ready to be shown.
#[derive(Debug, Clone)]
pub struct StudyView {
    /// What it is called.
    pub name: String,
    /// What it asks.
    pub about: String,
    /// What trains.
    pub workload: String,
    /// What is to be reached.
    pub target: Target,
    /// Feasible trials each point gets.
    pub wanted: u64,
    /// Whether runs over seeds went on after they met the target.
    pub to_the_end: bool,
    /// The points, by what they share beside the batch size.
    pub lines: Vec<LineView>,
    /// Decides resamples.
    pub bootstrap: Bootstrap,
}

impl StudyView {
    /// Computes the view. Err if the target cannot be read.
    pub fn new(
        plan: &StudyPlan,
        points: &[(u64, PointPlan)],
        trials: &[StoredTrial],
    ) -> Result<StudyView, StudyError> {
        let target = plan.target()?;
        let bootstrap = Bootstrap { seed: Seed(plan.seed.0), resamples: 1000, confidence: CONFIDENCE };
        let mut lines: Vec<LineView> = Vec::new();
        for (id, point) in points.iter().filter(|(_, p)| p.confirms.is_none()) {
            let label = line_label(point);
            let mut view = point_view(*id, point, trials, (&target, &bootstrap))?;
            let repeats =
                |p: &PointPlan| p.axes == point.axes && p.confirms.as_ref().map(|c| c.trial) == view.best();
            // What was repeated before a better trial was found says nothing of that one.
            if let Some((id, plan_of)) = points.iter().find(|(_, p)| p.confirms.is_some() && repeats(p)) {
                let trial = view.best().expect("it is the best one that is repeated");
                view.repeated = study_trials(trials, *id);
                view.repeats = Some(RepeatsView::new(trial, &view.repeated, plan.wanted(plan_of).0, &target));
            }
            match lines.iter_mut().find(|line| line.label == label) {
                Some(line) => line.points.push(view),
                None => lines.push(LineView { label, points: vec![view], fit: None }),
            }
        }
        for line in &mut lines {
            line.points.sort_by(|a, b| a.batch().unwrap_or(0.0).total_cmp(&b.batch().unwrap_or(0.0)));
            let fit = fit_scaling(&line.curve()).ok();
            line.fit = fit.map(|fit| {
                let amounts: Vec<(f64, Vec<f64>)> = line
                    .points
                    .iter()
                    .filter(|p| !p.updates.amounts.is_empty())
                    .filter_map(|p| Some((p.batch()?, p.updates.amounts.clone())))
                    .collect();
                let enough = amounts.iter().all(|(_, amounts)| amounts.len() >= FEWEST);
                let intervals = enough.then(|| scaling_intervals(&amounts, &bootstrap).ok());
                (fit, intervals.flatten())
            });
        }
        let workload = match (&plan.workload, &plan.exec) {
            (Some(name), _) => name.clone(),
            (None, Some(exec)) => exec.command.join(" "),
            (None, None) => "several workloads".into(),
        };
        Ok(StudyView {
            name: plan.name.clone(),
            about: plan.about.clone(),
            workload,
            target,
            wanted: plan.trials,
            to_the_end: plan.confirm.as_ref().is_some_and(|c| c.to_the_end),
            lines,
            bootstrap,
        })
    }

    /// All points.
    pub fn points(&self) -> impl Iterator<Item = &PointView> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    /// All batch sizes, rising.
    pub fn batches(&self) -> Vec<f64> {
        let mut batches: Vec<f64> = self.points().filter_map(PointView::batch).collect();
        batches.sort_by(f64::total_cmp);
        batches.dedup();
        batches
    }
}

fn line_label(point: &PointPlan) -> String {
    let parts: Vec<String> = point
        .axes
        .iter()
        .filter(|(name, _)| name != "batch")
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    parts.join(", ")
}

fn point_view(
    id: u64,
    plan: &PointPlan,
    all: &[StoredTrial],
    (target, bootstrap): (&Target, &Bootstrap),
) -> Result<PointView, StudyError> {
    let trials = study_trials(all, id);
    let updates = to_target(&trials, target, Measure::Updates)?;
    let count = |state| all.iter().filter(|t| t.point == id && t.state == state).count();
    let interval = match updates.best {
        Some(_) if updates.amounts.len() < FEWEST => None,
        Some(_) => bootstrap.interval(&bootstrap.minima(&updates.amounts, id as usize)),
        None => None,
    };
    let mut view = PointView {
        id,
        plan: plan.clone(),
        trials,
        updates,
        interval,
        repeats: None,
        repeated: Vec::new(),
        failed: count(TrialState::Failed),
        running: count(TrialState::Running),
        edges: Vec::new(),
    };
    if let Some(parameters) = view.best_parameters() {
        let edges = plan.space().tight_edges(parameters);
        view.edges = edges.iter().map(|edge| format!("{} = {}", edge.name, number(edge.value))).collect();
    }
    Ok(view)
}
