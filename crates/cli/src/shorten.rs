//! What would shorten a run, told at its end from its own clock: what most of it could be saved on comes first.

use crate::progress::duration;
use serde::Serialize;
use sooner_plan::{EvaluatePlan, Keep, Plan};
use sooner_record::{Status, Summary};

/// Shares of time below which nothing is worth a line.
const WAITS: f64 = 0.05;
const EVALUATES: f64 = 0.2;
const PREPARES: f64 = 0.3;
const FAR_FROM_PEAK: f64 = 0.5;
/// A run too short to say anything about, in seconds.
const SHORT: f64 = 0.5;

/// A summary as machines get it at the end of a command.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    #[serde(flatten)]
    pub(crate) summary: &'a Summary,
    pub(crate) advice: Vec<String>,
}

/// Sentences on what would shorten this run of the plan, the largest saving first; at most three. What the plan says
/// already is no advice.
pub(crate) fn advice(s: &Summary, plan: &Plan) -> Vec<String> {
    let (time, wall) = (&s.time, s.time.wall().0);
    if wall < SHORT || matches!(s.status, Status::Diverged) || s.position.updates.0 == 0 {
        return Vec::new();
    }
    let training = s.position.training_seconds.0.max(f64::MIN_POSITIVE);
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut savings: Vec<(f64, String)> = Vec::new();
    let waits = time.wait.0 / training;
    if waits >= WAITS {
        savings.push((time.wait.0, waiting(s, plan, waits)));
    }
    // Of the updates alone, which is what a faster engine or a smaller network could shorten.
    let share = s.ceiling.seconds_at_peak.0 / time.train.0.max(f64::MIN_POSITIVE);
    if share < FAR_FROM_PEAK && time.train.0 > 0.5 * training {
        let at_peak = duration(s.ceiling.seconds_at_peak.0);
        savings.push((
            time.train.0 - s.ceiling.seconds_at_peak.0,
            format!(
                "updates ran at {} of this machine's peak, at which their {} would be {at_peak}: the network's \
                 operations are too small to use it, or a larger batch would (`sooner bench --batch N` tells)",
                percent(share),
                duration(time.train.0),
            ),
        ));
    }
    let evaluates = time.evaluate.0 / wall;
    if let Some(fewer) = fewer_evaluations(s, plan).filter(|_| evaluates >= EVALUATES) {
        savings.push((
            0.5 * time.evaluate.0,
            format!(
                "evaluations took {} of the wall time ({}, outside the training clock): {fewer}",
                percent(evaluates),
                duration(time.evaluate.0)
            ),
        ));
    }
    let prepares = time.prepare.0 / wall;
    if prepares >= PREPARES && time.prepare.0 > 2.0 {
        savings.push((
            0.5 * time.prepare.0,
            format!("preparing took {} of the wall time ({})", percent(prepares), duration(time.prepare.0)),
        ));
    }
    savings.sort_by(|a, b| b.0.total_cmp(&a.0));
    savings.into_iter().take(3).map(|(_, text)| text).collect()
}

/// How the plan would evaluate less often; none where it does so once.
fn fewer_evaluations(s: &Summary, plan: &Plan) -> Option<String> {
    let at_updates = "--set 'run.evaluate={updates=N}'";
    match plan.run.evaluate {
        EvaluatePlan::Epoch if s.position.epochs.0 <= 1.0 => None,
        EvaluatePlan::Epoch => Some(format!("fewer of them with {at_updates}, N above an epoch's updates")),
        EvaluatePlan::Updates(every) if every >= s.position.updates.0 => None,
        EvaluatePlan::Updates(every) => {
            Some(format!("fewer of them with --set run.evaluate=epoch, or {at_updates}, N above {every}"))
        }
        _ => Some(format!("fewer of them with --set run.evaluate=epoch or {at_updates}")),
    }
}

/// Updates waited for data: how much there is to gain, by the clock, and with what.
fn waiting(s: &Summary, plan: &Plan, waits: f64) -> String {
    let training = s.position.training_seconds.0;
    let repeats = s.position.examples.0 as f64 / s.position.fresh_examples.0.max(1) as f64;
    // Where downstream is idle this share of time, upstream takes so many passes' time an item.
    let ratio = repeats / (1.0 - waits).max(1e-6);
    let free = ratio.floor().max(1.0);
    let echo = match free > repeats.ceil() {
        true => format!("an echo factor up to {free:.0} costs no time"),
        false => "echo would gain little at this ratio".to_string(),
    };
    let stage = |name: &str| s.stages.get(name).map_or(0.0, |busy| busy.0);
    let (read, decode) = (stage("read"), stage("decode"));
    let kept = plan.pipeline.keep != Keep::Nothing;
    let cause = match (read > decode, read + decode > stage("augment")) {
        (_, false) => "augmenting is its largest part: --set pipeline.threads=N",
        (true, true) if kept => "reading is its largest part: a faster source",
        (true, true) => "reading is its largest part: a faster source, or --set pipeline.keep=memory",
        (false, true) if kept => "decoding is its largest part: --set pipeline.threads=N",
        (false, true) => {
            "decoding is its largest part: --set pipeline.threads=N, or --set pipeline.keep=memory"
        }
    };
    format!(
        "updates waited for data {:.0} % of the training time ({} of {}): R is about {ratio:.1}, so that {echo}; {cause}; \
         `sooner profile` measures what each would bring",
        100.0 * waits,
        duration(s.time.wait.0),
        duration(training)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sooner_base::Seconds;

    fn summary(times: [f64; 4], at_peak: f64) -> Summary {
        let [prepare, wait, train, evaluate] = times;
        let position = json!({
            "updates": 100, "epochs": 1.0, "fresh_examples": 1000, "examples": 1000,
            "training_seconds": wait + train, "wall_seconds": times.iter().sum::<f64>(),
        });
        let value = json!({
            "workload": "w", "status": "done", "target": null, "reached_at": null, "best": null, "final": null,
            "position": position, "examples_per_second": 1.0,
            "time": { "prepare": prepare, "wait": wait, "train": train, "evaluate": evaluate, "checkpoint": 0.0, "log": 0.0 },
            "stages": { "read": 9.0, "decode": 1.0, "augment": 0.5 },
            "ceiling": { "flops_per_example": 1, "peak_gflops": 1.0, "seconds_at_peak": at_peak, "share": 0.5 },
            "record": null,
        });
        serde_json::from_value(value).expect("a summary")
    }

    /// Advice on a run whose plan says nothing of evaluations.
    fn told(s: &Summary) -> Vec<String> {
        advice(s, &plan(&["run.evaluate=auto"]))
    }

    fn plan(settings: &[&str]) -> Plan {
        let mut plan =
            Plan::parse(sooner_models::workload("shapes-cnn").expect("built in").toml).expect("a plan");
        settings.iter().for_each(|setting| plan.set(setting).expect("a setting"));
        plan
    }

    #[test]
    fn what_the_plan_says_already_is_no_advice() {
        let mut evaluated = summary([0.1, 0.1, 25.0, 40.0], 20.0);
        evaluated.position.epochs.0 = 3.0;
        let of = |setting: &str| advice(&evaluated, &plan(&[setting])).join("\n");
        assert!(of("run.evaluate=geometric").contains("--set run.evaluate=epoch or "));
        let by_epoch = of("run.evaluate=epoch");
        assert!(
            by_epoch.contains("N above an epoch's updates") && !by_epoch.contains("=epoch"),
            "{by_epoch}"
        );
        assert!(of("run.evaluate={updates=30}").contains("N above 30"));
        // Once, at the end, is as rare as it gets.
        assert_eq!(of("run.evaluate={updates=100}"), "");
        evaluated.position.epochs.0 = 1.0;
        assert_eq!(advice(&evaluated, &plan(&["run.evaluate=epoch"])), Vec::<String>::new());

        let waited = summary([0.1, 75.0, 25.0, 0.0], 20.0);
        let kept = advice(&waited, &plan(&["pipeline.keep=memory"])).join("\n");
        assert!(kept.contains("a faster source") && !kept.contains("keep=memory"), "{kept}");
    }

    #[test]
    fn the_largest_saving_comes_first() {
        let lines = told(&summary([0.1, 75.0, 25.0, 40.0], 20.0));
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("75 % of the training time") && lines[0].contains("R is about 4.0"),
            "{}",
            lines[0]
        );
        assert!(lines[0].contains("echo factor up to 4") && lines[0].contains("reading is its largest part"));
        assert!(lines[1].contains("evaluations took 29 %"), "{}", lines[1]);
    }

    #[test]
    fn far_from_the_peak() {
        let lines = told(&summary([0.1, 0.1, 25.0, 1.0], 2.5));
        assert!(lines.len() == 1 && lines[0].contains("10 % of this machine's peak"), "{lines:?}");
    }

    #[test]
    fn a_good_run_and_a_short_one_get_none() {
        assert_eq!(told(&summary([1.0, 0.1, 25.0, 2.0], 20.0)), Vec::<String>::new());
        assert_eq!(told(&summary([0.0, 0.2, 0.1, 0.0], 0.1)), Vec::<String>::new());
        let mut none = summary([0.0, 75.0, 25.0, 0.0], 20.0);
        none.position.updates.0 = 0;
        assert_eq!(told(&none), Vec::<String>::new());
        none.position.updates.0 = 1;
        none.time.wait = Seconds(0.0);
        none.time.train = Seconds(100.0);
        none.status = Status::Diverged;
        assert_eq!(told(&none), Vec::<String>::new());
    }

    #[test]
    fn machines_get_it_beside_the_summary() {
        let summary = summary([0.1, 75.0, 25.0, 40.0], 20.0);
        let value = serde_json::to_value(Told { advice: told(&summary), summary: &summary }).unwrap();
        assert_eq!(value["advice"].as_array().unwrap().len(), 2);
        assert_eq!(value["status"], "done");
    }
}
