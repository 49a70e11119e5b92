//! `echo = "auto"`: what was repeated depends on time, stands in the record before it is used, and can be repeated.

use crate::bench::{Bench, refusal};
use crate::kill::{Moment, killed, plan_of};
use sooner_record::{Checkpoint, Fresh, Line, RunReader};
use std::fs;

/// Reading 330 drawings takes about half a second an epoch, so that updates would have to wait.
const AUTO: [&str; 6] = [
    "--set",
    "data.rate=\"2MiB\"",
    "--set",
    "pipeline.stages=[{shuffle=\"epoch\"},{echo=\"auto\"},{crop={size=32,pad=4}},{flip=\"random\"},{batch=32}]",
    "--set",
    "pipeline.threads=1",
];

/// The schedule of a record, and that no line about an update stands before what its batch was to be.
fn schedule(bench: &Bench, name: &str) -> Vec<u32> {
    let log = RunReader::open(&bench.path(name)).expect("a record").log;
    let mut told = 0;
    for line in &log.lines {
        match line {
            Line::Fresh(Fresh { updates, .. }) => assert!(updates.0 > told, "{line:?} after update {told}"),
            Line::Resumed(resumed) => told = resumed.updates.0,
            other => told = other.updates().map_or(told, |updates| updates.0),
        }
    }
    log.fresh(log.last_update().expect("updates")).expect("a schedule")
}

#[test]
fn the_schedule_is_recorded_and_gives_the_same_bits_again() {
    let bench = Bench::new();
    let result = bench.train("whole", &AUTO);
    let schedule = schedule(&bench, "whole");
    let position = &result["position"];
    assert_eq!(position["updates"], schedule.len());
    assert_eq!(position["fresh_examples"], schedule.iter().sum::<u32>());
    assert_eq!(position["examples"], 32 * schedule.len());
    // Three epochs of fresh examples, whatever was repeated, and something was.
    let fresh = position["fresh_examples"].as_u64().expect("a number");
    assert!((990..990 + 32).contains(&fresh), "{result}");
    assert!(schedule.len() > 33, "nothing was repeated: {schedule:?}");
    assert!(result["data"]["duplicates"].is_number(), "{result}");
    assert_eq!(schedule[0], 32, "the first batch has nothing to repeat");

    let (code, verdict) = bench.run(&["rerun", "@whole"]);
    assert_eq!((code, &verdict["weights"]), (0, &true.into()), "{verdict}");
    // With other threads, and whatever time it takes: the schedule decides.
    let (code, again) =
        bench.run(&["train", "--replay", "@whole", "--out", "@again", "--set", "pipeline.threads=3"]);
    assert_eq!((code, &again["status"]), (0, &"done".into()), "{again}");
    bench.assert_equal("again", "whole");
    assert_eq!(schedule, self::schedule(&bench, "again"));
}

#[test]
fn a_killed_run_goes_on_from_its_schedule() {
    let bench = Bench::new();
    bench.train("whole", &AUTO);
    let plan = plan_of(&bench, "whole");
    for (i, (every, moment)) in
        [(100, Moment::After(3)), (4, Moment::After(10)), (1, Moment::In(14, 0)), (5, Moment::After(21))]
            .into_iter()
            .enumerate()
    {
        let name = format!("killed-{i}");
        killed(&bench.path(&name), &plan, every, moment);
        let before = Checkpoint::find(&bench.path(&name)).expect("readable");
        let before = before.map_or(0, |c| c.about.position.updates.0) as usize;
        let kept = RunReader::open(&bench.path(&name)).expect("a record").log;
        let kept = kept.fresh(sooner_base::Updates(before as u64)).unwrap_or_default();
        let (code, result) = bench.resume(&name, &[]);
        assert_eq!((code, &result["status"]), (0, &"done".into()), "{result}");
        assert_eq!(bench.resumptions(&name), [before as u64]);
        let schedule = schedule(&bench, &name);
        assert_eq!(schedule[..before], kept, "what the checkpoint rests on is as it was");
        assert_eq!(result["position"]["fresh_examples"], schedule.iter().sum::<u32>());
        // The whole of it, in one piece, is the run that was never killed.
        let again = format!("again-{i}");
        let (code, _) = bench.run(&["train", "--replay", &format!("@{name}"), "--out", &format!("@{again}")]);
        assert_eq!(code, 0);
        bench.assert_equal(&again, &name);
    }
}

/// A run that follows a record and is killed follows it to the end.
#[test]
fn a_replay_goes_on_after_a_kill() {
    let bench = Bench::new();
    bench.train("whole", &AUTO);
    let mut plan = plan_of(&bench, "whole");
    plan.run.replay = Some(bench.path("whole").display().to_string());
    killed(&bench.path("replay"), &plan, 3, Moment::After(11));
    bench.resume_to_equal("replay", &[], "whole");
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let bench = Bench::new();
    bench.train("plain", &[]);
    let text = refusal(bench.run(&["train", "--replay", "@plain", "--out", "@new"]), 2);
    assert!(text.starts_with("there is no schedule to follow | run.replay"), "{text}");
    let auto = [&["train", "@durable.toml", "--out", "@new", "--replay", "@plain"][..], &AUTO].concat();
    let text = refusal(bench.run(&auto), 1);
    assert!(text.contains("no schedule of fresh examples in its run.jsonl"), "{text}");
    let text = refusal(
        bench.run(
            &[&["train", "@durable.toml", "--set", "schedule.decay_updates=9", "--out", "@new"][..], &AUTO]
                .concat(),
        ),
        2,
    );
    assert!(text.contains("schedule.decay_updates"), "{text}");
    assert!(!bench.path("new").exists());

    // A checkpoint whose record has lost its schedule.
    bench.train("whole", &AUTO);
    let plan = plan_of(&bench, "whole");
    killed(&bench.path("lost"), &plan, 4, Moment::After(10));
    let log = fs::read_to_string(bench.log("lost")).expect("a log");
    let kept: Vec<&str> = log.lines().filter(|line| !line.contains("\"line\":\"fresh\"")).collect();
    fs::write(bench.log("lost"), kept.join("\n") + "\n").expect("a log without schedule");
    let text = refusal(bench.resume("lost", &[]), 1);
    assert!(text.contains("record does not say what was repeated"), "{text}");
}
