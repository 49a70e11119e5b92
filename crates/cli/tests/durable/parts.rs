//! Runs whose batches are cut into parts.

use crate::bench::{Bench, refusal};
use crate::kill::{Moment, killed, plan_of};
use sooner_record::{Line, RunReader};

/// Four parts; statistics, and so everything that the parts tell each other, as named.
fn words(statistics: &str) -> Vec<String> {
    let norm = format!("model.norm={{statistics={statistics}}}");
    let words =
        ["--replicas", "2", "--set", "run.accumulate=2", "--set", "run.noise_scale=3", "--set", &norm];
    words.map(String::from).to_vec()
}

#[test]
fn a_killed_run_in_parts_goes_on_with_the_same_bits() {
    for statistics in ["\"synchronised\"", "{ghost=4}"] {
        let bench = Bench::new();
        let words = words(statistics);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let whole = bench.train("whole", &words);
        let gradient = &whole["gradient"];
        assert!(gradient["noise"].as_f64().is_some_and(|noise| noise.is_finite()), "{whole}");
        let plan = plan_of(&bench, "whole");
        assert_eq!((plan.run.replicas, plan.run.accumulate, plan.run.parts()), (2, 2, 4));

        killed(&bench.path("one"), &plan, 5, Moment::After(13));
        bench.copy("one", "two");
        bench.copy("one", "three");
        let result = bench.resume_to_equal("one", &[], "whole");
        assert_eq!(&result["gradient"], gradient, "the estimate goes on too");
        // As many parts, computed otherwise, are the same bits; other parts are not.
        bench.resume_to_equal("two", &["--replicas", "4", "--set", "run.accumulate=1"], "whole");
        assert_eq!(plan_of(&bench, "two").run.replicas, 4);
        let text = refusal(bench.resume("three", &["--replicas", "1"]), 1);
        assert!(text.contains("another number of parts"), "{text}");
        bench.resume_to_equal("three", &["--replicas", "1", "--set", "run.accumulate=4"], "whole");
    }
}

#[test]
fn the_log_tells_the_noise_and_bits_are_those_of_a_second_run() {
    let bench = Bench::new();
    let words = words("\"local\"");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    bench.train("first", &words);
    let log = RunReader::open(&bench.path("first")).expect("a record").log;
    let told = log.lines.iter().filter(|line| matches!(line, Line::Progress(p) if p.gradient.is_some()));
    let ended = log.summary().and_then(|summary| summary.gradient).is_some();
    assert!(ended && told.count() > 0);
    let (code, verdict) = bench.run(&["rerun", "@first"]);
    assert_eq!((code, &verdict["agree"]), (0, &true.into()), "{verdict}");
}
