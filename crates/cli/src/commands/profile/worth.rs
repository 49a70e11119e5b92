//! What repeats are worth: from the user's own records where they tell, else a stated range.

use crate::fail::Failure;
use serde::Serialize;
use sooner_pipeline::Repeats;
use sooner_plan::{Plan, StagePlan};
use sooner_record::RunReader;
use sooner_study::RepeatValue;
use std::path::PathBuf;

/// A worth, and where it comes from.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Worth {
    #[serde(flatten)]
    pub(crate) value: RepeatValue,
    pub(crate) source: String,
}

/// The worth of each kind of repeats.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Worths {
    augmented: Worth,
    copies: Worth,
    batches: Worth,
}

impl Worths {
    pub(crate) fn at(&self, repeats: Repeats) -> &Worth {
        match repeats {
            Repeats::Augmented => &self.augmented,
            Repeats::Copies => &self.copies,
            Repeats::Batches => &self.batches,
        }
    }

    /// The same by the kind's name in reports.
    pub(crate) fn named(&self, repeats: &str) -> &Worth {
        match repeats {
            "augmented afresh" => &self.augmented,
            "copies" => &self.copies,
            _ => &self.batches,
        }
    }

    /// From records of runs with echo and without, to one target.
    pub(crate) fn of(records: &[PathBuf]) -> anyhow::Result<Worths> {
        let runs = records.iter().map(|path| RunReader::open(path)).collect::<Result<Vec<_>, _>>()?;
        let reached: Vec<Reached> = runs.iter().filter_map(Reached::of).collect();
        if let Some(other) = reached.iter().find(|run| run.target != reached[0].target) {
            let fields = [
                &*format!("one target, `{}`", reached[0].target),
                &*format!("`{}`", other.target),
                "give records of one workload and target",
            ];
            return Err(Failure::usage("the records have different targets", "--records", fields).into());
        }
        let plain: Vec<f64> = reached.iter().filter(|run| run.echo.is_none()).map(|run| run.fresh).collect();
        let plain = sooner_base::mean(&plain);
        if !records.is_empty() && (plain.is_none() || reached.iter().all(|run| run.echo.is_none())) {
            let found = format!("{} of {} runs reached a target", reached.len(), records.len());
            let expected = "runs that reached their target, at least one with echo and one without";
            let hint = "without --records a stated range is assumed";
            let fields = [expected, &found, hint];
            return Err(Failure::usage(
                "the records do not tell what repeats are worth",
                "--records",
                fields,
            )
            .into());
        }
        let of = |kind: Repeats, assumed: RepeatValue| {
            let echoed = reached
                .iter()
                .filter_map(|run| run.echo.filter(|(_, k)| *k == kind).map(|e| (e.0, run.fresh)));
            let ratios: Vec<(f64, f64)> =
                plain.map_or(Vec::new(), |plain| echoed.map(|(e, f)| (e, f / plain)).collect());
            match RepeatValue::measured(&ratios) {
                Some(value) => Worth { value, source: format!("{} of your records with echo", ratios.len()) },
                None => Worth { value: assumed, source: "assumed, not measured".into() },
            }
        };
        Ok(Worths {
            augmented: of(Repeats::Augmented, RepeatValue::AUGMENTED),
            copies: of(Repeats::Copies, RepeatValue::COPIES),
            batches: of(Repeats::Batches, RepeatValue::BATCHES),
        })
    }
}

/// A run that reached its target.
struct Reached {
    target: String,
    fresh: f64,
    /// The factor and what its repeats show; none without echo.
    echo: Option<(f64, Repeats)>,
}

impl Reached {
    fn of(run: &RunReader) -> Option<Reached> {
        let summary = run.log.summary()?;
        let at = summary.reached_at?;
        let echo = echo_of(&run.plan).filter(|(factor, _)| *factor > 1.0);
        Some(Reached { target: summary.target.clone()?, fresh: at.fresh_examples.0 as f64, echo })
    }
}

/// A plan's fixed echo factor, and what its repeats show.
fn echo_of(plan: &Plan) -> Option<(f64, Repeats)> {
    let (echo, batched) = plan.pipeline.echo()?;
    let stages = &plan.pipeline.stages;
    let at = stages.iter().position(|stage| matches!(stage, StagePlan::Echo(_)))?;
    let draws = |stage: &StagePlan| {
        matches!(
            stage,
            StagePlan::RandomResizedCrop(_)
                | StagePlan::Crop(_)
                | StagePlan::Flip(_)
                | StagePlan::Jitter(_)
                | StagePlan::Cutout(_)
        )
    };
    let repeats = match (batched, stages[..at].iter().any(draws), stages[at..].iter().any(draws)) {
        (true, ..) => Repeats::Batches,
        (false, false, true) => Repeats::Augmented,
        (false, ..) => Repeats::Copies,
    };
    Some((echo.fixed()?, repeats))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_plans() {
        let of = |stages: &str| {
            let mut plan = Plan::parse(sooner_models::workloads()[0].toml).unwrap();
            plan.set(&format!("pipeline.stages=[{stages}]")).unwrap();
            echo_of(&plan)
        };
        assert_eq!(of("{ batch = 8 }"), None);
        assert_eq!(of("{ echo = 2 }, { flip = \"random\" }, { batch = 8 }"), Some((2.0, Repeats::Augmented)));
        assert_eq!(of("{ flip = \"random\" }, { echo = 2.5 }, { batch = 8 }"), Some((2.5, Repeats::Copies)));
        assert_eq!(of("{ echo = 3 }, { batch = 8 }"), Some((3.0, Repeats::Copies)));
        assert_eq!(of("{ flip = \"random\" }, { batch = 8 }, { echo = 3 }"), Some((3.0, Repeats::Batches)));
    }

    #[test]
    fn without_records_the_range_is_said() {
        let worths = Worths::of(&[]).unwrap();
        assert_eq!(worths.at(Repeats::Batches).value, RepeatValue::BATCHES);
        assert!(worths.at(Repeats::Augmented).source.contains("assumed"));
    }
}
