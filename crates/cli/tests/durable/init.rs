//! Runs that start from given weights.

use crate::bench::{Bench, refusal};
use crate::kill::plan_of;
use sooner_base::Shape;
use sooner_record::{Weights, write_weights};
use std::fs;

fn weights(bench: &Bench, name: &str) -> Weights {
    Weights::read(&bench.path(name).join("weights.safetensors")).expect("weights")
}

/// A rate so small that what a run ends with is what it began with, nearly.
const STILL: [&str; 6] =
    ["--epochs", "0.1", "--set", "schedule.learning_rate=1e-12", "--set", "optimizer.weight_decay=0"];

#[test]
fn a_run_starts_from_given_weights() {
    let bench = Bench::new();
    bench.train("first", &[]);
    let words = [&["--init", "first"], &STILL[..]].concat();
    bench.train("second", &words);
    let (a, b) = (weights(&bench, "first"), weights(&bench, "second"));
    for (name, tensor) in a.tensors.iter().filter(|(name, _)| !name.ends_with(".running")) {
        let far = tensor.values.iter().zip(&b.tensors[name].values).any(|(x, y)| (x - y).abs() > 1e-6);
        assert!(!far, "{name}");
    }
    // The plan says which weights: the same file goes on to mean the same run.
    let init = plan_of(&bench, "second").run.init.expect("weights to start from");
    assert!(init.weights.ends_with("first/weights.safetensors"), "{init:?}");
    assert_eq!(init.crc32.as_deref(), Some(&*format!("{:08x}", a.crc32)));
    let (code, verdict) = bench.run(&["rerun", "@second"]);
    assert_eq!((code, verdict["agree"].as_bool()), (0, Some(true)), "{verdict}");
    fs::copy(bench.path("second/weights.safetensors"), bench.path("first/weights.safetensors"))
        .expect("a copy");
    let text = refusal(bench.run(&["rerun", "@second"]), 1);
    assert!(text.contains("have changed"), "{text}");
}

#[test]
fn a_new_head_is_asked_for_by_name() {
    let bench = Bench::new();
    bench.train("first", &["--epochs", "1"]);
    // A head of other classes, and a tensor that the network does not have.
    let old = weights(&bench, "first");
    let head = (Shape::from([8, 3]), vec![0.5; 24]);
    let mut tensors: Vec<(&str, &Shape, &[f32])> =
        old.tensors.iter().map(|(n, t)| (n.as_str(), &t.shape, &t.values[..])).collect();
    tensors.retain(|t| t.0 != "linear.weight");
    tensors.push(("linear.weight", &head.0, &head.1));
    let refs: Vec<_> = tensors
        .iter()
        .map(|(name, shape, values)| sooner_record::TensorRef { name, shape, values })
        .collect();
    write_weights(&bench.path("other.safetensors"), old.about.as_ref().expect("metadata"), &refs)
        .expect("weights");

    let start = |words: &[&str]| {
        let all = ["train", "@durable.toml", "--out", "@second", "--init", "other.safetensors"];
        bench.run(&[&all[..], &STILL[..], words].concat())
    };
    let text = refusal(start(&[]), 1);
    assert!(text.contains("of another shape: `linear.weight` [8, 3] instead of [8, 10]"), "{text}");
    assert!(text.contains("--init-except"), "{text}");
    assert!(!bench.path("second").exists(), "nothing is made before the error");
    let text = refusal(start(&["--init-except", "head"]), 1);
    assert!(text.contains("no variable begins with `head`"), "{text}");
    assert!(!bench.path("second").exists(), "nothing is made before the error");
    let (code, result) = start(&["--init-except", "linear"]);
    assert_eq!(code, 0, "{result}");
    let new = weights(&bench, "second");
    let near = |name: &str| {
        let pairs = old.tensors[name].values.iter().zip(&new.tensors[name].values);
        pairs.clone().all(|(x, y)| (x - y).abs() < 1e-6)
    };
    assert!(near("prep.conv.weight"), "the body is the old one's");
    assert_eq!(new.tensors["linear.weight"].shape, Shape::from([8, 10]));
}

#[test]
fn weights_of_another_network_are_refused() {
    let bench = Bench::new();
    bench.train("first", &["--epochs", "0.1", "--set", "model.kind=softmax"]);
    let text = refusal(bench.run(&["train", "@durable.toml", "--out", "@second", "--init", "first"]), 1);
    assert!(text.contains("tensors do not fit the network") && text.contains("missing `"), "{text}");
    assert!(text.contains("not in the network: `layer1.bias`, `layer1.weight`"), "{text}");
    let text = refusal(bench.run(&["train", "@durable.toml", "--init", "nowhere.safetensors"]), 1);
    assert!(text.contains("nowhere.safetensors"), "{text}");
    let text = refusal(bench.run(&["train", "@durable.toml", "--init-except", "linear"]), 2);
    assert!(text.contains("--init"), "{text}");
}
