//! The answer for machines.

use super::instead::Instead;
use super::worth::Worths;
use super::{Outcome, inline, setting};
use crate::machine;
use crate::ready::Ready;
use serde::Serialize;
use sooner_base::{Bytes, StageStats};
use sooner_pipeline::{CutTimes, Profile, Repeats, Side};
use sooner_plan::{EchoPlan, Plan, StagePlan};
use sooner_study::{PlaceAdvice, TimeLaw};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) workload: String,
    pub(crate) batch: usize,
    pub(crate) examples: usize,
    pub(crate) cores: usize,
    pub(crate) threads: usize,
    pub(crate) pipeline_threads: usize,
    pub(crate) stages: Vec<Stage>,
    /// In stream order; seconds an example.
    pub(crate) cuts: Vec<Cut>,
    pub(crate) together: Together,
    /// The best first.
    pub(crate) advice: Vec<Advice>,
    /// Why there is no advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// F(e) = 1 / (1 + u (e - 1)); u of each kind of repeats.
    pub(crate) repeats_worth: Worths,
    pub(crate) instead: Vec<Instead>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verified: Option<Verified>,
}

/// What a stage did while the plan ran as it is.
#[derive(Debug, Serialize)]
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) items: u64,
    /// Seconds of all its threads.
    pub(crate) busy: f64,
    pub(crate) blocked_in: f64,
    pub(crate) blocked_out: f64,
    pub(crate) items_per_second: f64,
    pub(crate) bytes: u64,
    pub(crate) queue_bytes: u64,
    /// The seconds that all of this is of.
    pub(crate) seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Cut {
    pub(crate) position: String,
    /// Where in the plan's stages.
    pub(crate) index: usize,
    pub(crate) t_upstream: f64,
    pub(crate) t_downstream: f64,
    #[serde(rename = "R")]
    pub(crate) ratio: f64,
    pub(crate) cpu_upstream: f64,
    pub(crate) cpu_downstream: f64,
    /// The share of time that downstream waits without echo, by the law.
    pub(crate) idle: f64,
    /// Seconds an example without echo, by the law.
    pub(crate) seconds: f64,
    pub(crate) item_bytes: u64,
    pub(crate) repeats: &'static str,
}

/// Upstream and downstream overlapped, as the plan has it without echo.
#[derive(Debug, Serialize)]
pub(crate) struct Together {
    /// Seconds an example.
    pub(crate) seconds: f64,
    /// What the law says of the last cut.
    pub(crate) predicted: f64,
    pub(crate) cpu: f64,
    pub(crate) idle: f64,
    pub(crate) examples: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Advice {
    pub(crate) position: String,
    /// Which of `cuts`.
    pub(crate) cut: usize,
    pub(crate) echo: f64,
    pub(crate) buffer: usize,
    pub(crate) speedup_low: f64,
    pub(crate) speedup: f64,
    pub(crate) speedup_high: f64,
    /// Seconds of a fresh example by the law, without echo and with it.
    pub(crate) seconds_without: f64,
    pub(crate) seconds: f64,
    /// The stage to put there.
    pub(crate) stage: String,
    /// The whole list of stages with it, for `--set`.
    pub(crate) set: String,
}

/// What came of the advice.
#[derive(Debug, Serialize)]
pub(crate) struct Verified {
    pub(crate) position: String,
    pub(crate) echo: f64,
    /// Seconds of a fresh example: by the law, and measured with its repeats.
    pub(crate) predicted: f64,
    pub(crate) measured: f64,
    /// Uses of examples a second over those without echo.
    pub(crate) uses_speedup: f64,
    pub(crate) idle: f64,
    pub(crate) examples: u64,
}

impl Verified {
    pub(crate) fn new(profile: &Profile, best: &PlaceAdvice, side: Side, idle: f64) -> Verified {
        let measured = side.seconds.0;
        Verified {
            position: best.position.clone(),
            echo: best.echo,
            predicted: best.seconds[1],
            measured,
            uses_speedup: best.echo * profile.together.seconds.0 / measured,
            idle,
            examples: side.examples,
        }
    }
}

impl Advice {
    pub(crate) fn new(advice: PlaceAdvice, echo: EchoPlan, profile: &Profile, plan: &Plan) -> Advice {
        Advice {
            stage: inline(&StagePlan::Echo(echo)),
            set: setting(plan, profile.cuts[advice.place].cut.index, echo),
            position: advice.position,
            cut: advice.place,
            echo: advice.echo,
            buffer: echo.buffer,
            speedup_low: advice.range.low,
            speedup: advice.speedup,
            speedup_high: advice.range.high,
            seconds_without: advice.seconds[0],
            seconds: advice.seconds[1],
        }
    }
}

impl Report {
    pub(super) fn new(ready: &Ready, profile: &Profile, outcome: Outcome) -> Report {
        let Outcome { laws, advice, instead, verified, worths } = outcome;
        let plan = &ready.plan;
        let cuts: Vec<Cut> = profile.cuts.iter().zip(&laws).map(|(times, law)| cut(times, law)).collect();
        let reason = advice.is_empty().then(|| reason(&cuts));
        let together = Together {
            seconds: profile.together.seconds.0,
            predicted: laws.last().map_or(f64::NAN, |law| law.seconds(1.0)),
            cpu: profile.together.work.0,
            idle: profile.idle,
            examples: profile.together.examples,
        };
        Report {
            workload: plan.name.clone(),
            batch: plan.batch_size(),
            examples: ready.facts.train_examples,
            cores: machine::cores(),
            threads: ready.engine.pool.threads(),
            pipeline_threads: plan.pipeline.threads,
            stages: stages(profile),
            cuts,
            together,
            advice,
            reason,
            repeats_worth: worths,
            instead,
            verified,
        }
    }
}

fn cut(times: &CutTimes, law: &TimeLaw) -> Cut {
    Cut {
        position: times.cut.position.clone(),
        index: times.cut.index,
        t_upstream: law.up,
        t_downstream: law.down,
        ratio: law.ratio(),
        cpu_upstream: times.upstream.work.0,
        cpu_downstream: times.downstream.work.0,
        idle: law.idle(1.0),
        seconds: law.seconds(1.0),
        item_bytes: times.item.0,
        repeats: match times.cut.repeats {
            Repeats::Augmented => "augmented afresh",
            Repeats::Copies => "copies",
            Repeats::Batches => "batches",
        },
    }
}

/// The pipeline's stages and the update.
fn stages(profile: &Profile) -> Vec<Stage> {
    let row = |name: &str, stats: &StageStats, seconds: f64| Stage {
        name: name.to_string(),
        items: stats.items,
        busy: stats.busy.0,
        blocked_in: stats.blocked_in.0,
        blocked_out: stats.blocked_out.0,
        items_per_second: if seconds > 0.0 { stats.items as f64 / seconds } else { 0.0 },
        bytes: stats.bytes.0,
        queue_bytes: stats.queue_bytes.0,
        seconds,
    };
    let mut rows: Vec<Stage> = profile.stages.iter().map(|s| row(s.name, &s.stats, s.seconds.0)).collect();
    if let Some(batch) = profile.stages.last() {
        let seconds = batch.seconds.0;
        let [busy, blocked_in] =
            [1.0 - profile.idle, profile.idle].map(|share| sooner_base::Seconds(share * seconds));
        let stats = StageStats { busy, blocked_in, bytes: Bytes(0), queue_bytes: Bytes(0), ..batch.stats };
        rows.push(row("update", &StageStats { blocked_out: sooner_base::Seconds(0.0), ..stats }, seconds));
    }
    rows
}

/// Why echo would not help.
fn reason(cuts: &[Cut]) -> String {
    let most = cuts.iter().map(|cut| cut.ratio).fold(0.0, f64::max);
    let told = super::text::digits(most);
    if most <= 1.0 {
        format!("downstream is the slower side at every place (R is {told} at most): it never waits for data")
    } else {
        format!("R is {told} at most, and cores or threads that both sides share leave repeats too dear")
    }
}
