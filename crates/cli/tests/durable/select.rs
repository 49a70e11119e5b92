//! Runs whose updates are made of a part of each batch.

use crate::bench::{Bench, PER_EPOCH};
use crate::kill::{Moment, killed, plan_of};

const SELECT: &str = "run.select={keep=0.5,power=1.0,from=0.25,until=0.75}";

#[test]
fn selection_goes_on_with_the_same_bits() {
    let bench = Bench::new();
    let whole = bench.train("whole", &["--set", SELECT]);
    let plan = plan_of(&bench, "whole");
    // Before any selection, and in the midst of it.
    killed(&bench.path("killed"), &plan, 4, Moment::After(7));
    killed(&bench.path("killed"), &plan, 3, Moment::After(17));
    bench.resume_to_equal("killed", &["--set", "pipeline.threads=1"], "whole");
    assert_eq!(bench.resumptions("killed"), [4, 15]);
    // Of 33 updates those after 9 to 24 (shares from 9/33 to below 3/4) are of half a batch: one of them of 5 examples
    // instead of 10, the other 15 of 16 instead of 32.
    let position = &whole["position"];
    assert_eq!(position["updates"], 3 * PER_EPOCH);
    assert_eq!(position["fresh_examples"], 3 * 330);
    let halves = (9..25).map(|at| if at % PER_EPOCH == PER_EPOCH - 1 { 5 } else { 16 }).sum::<u64>();
    assert_eq!(position["examples"], 3 * 330 - halves);
}

#[test]
fn all_of_a_batch_is_no_selection() {
    let bench = Bench::new();
    bench.train("plain", &[]);
    bench.train("all", &["--set", "run.select={keep=1.0}"]);
    let weights = |name: &str| {
        let read = sooner_record::Weights::read(&bench.path(name).join("weights.safetensors"));
        read.expect("weights").tensors
    };
    assert!(weights("plain") == weights("all"));
}
