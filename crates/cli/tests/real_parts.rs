//! Batches of real CIFAR-10 in parts: replicas and accumulation come to what the whole batch comes to, whatever the
//! statistics are of, augmentation and an uneven last batch included. `SOONER_DATA` as in `real_data.rs`: without it this
//! skips, loudly.

mod support;

use sooner_record::{WEIGHTS_FILE, Weights};
use std::path::Path;
use support::{real_data, run, say};

/// Nine batches of 128 and one of 88: ten updates.
const SETTINGS: [&str; 8] = [
    "data.train=1240",
    "data.validation=100",
    "data.test=100",
    "pipeline.stages.batch=128",
    "run.epochs=1",
    "schedule.horizon=1",
    "run.evaluate={updates=1000}",
    "run.target=\"val.loss<1e9\"",
];

/// What differs at most, as the issue of parts has it, for updates in single precision.
const MOST: f64 = 1e-4;

/// Weights after ten updates in so many parts, and the loss then on held-out examples.
fn trained(folder: &Path, data: &Path, words: &[&str], [replicas, accumulate]: [usize; 2]) -> (Weights, f64) {
    let out = folder.join(format!("{replicas}x{accumulate}"));
    let (replicas, accumulate) = (replicas.to_string(), format!("run.accumulate={accumulate}"));
    let [data, to] = [data, &out].map(|path| path.to_str().expect("UTF-8"));
    let mut all = vec!["train"];
    all.extend(words);
    for setting in SETTINGS.iter().chain([&&*accumulate]) {
        all.extend(["--set", setting]);
    }
    all.extend(["--replicas", &replicas, "--data", data, "--out", to, "--json"]);
    let done = run(folder, &all);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let result = done.json();
    assert_eq!(result["position"]["updates"], 10, "{result}");
    let loss = result["final"]["loss"].as_f64().expect("a loss");
    (Weights::read(&out.join(WEIGHTS_FILE)).expect("weights"), loss)
}

/// The largest difference of a variable's values, over the variable's largest value.
fn distance(a: &Weights, b: &Weights) -> f64 {
    assert!(a.tensors.keys().eq(b.tensors.keys()) && !a.tensors.is_empty());
    let variable = |(a, b): (&Vec<f32>, &Vec<f32>)| {
        let most = a.iter().fold(1e-9, |most: f64, v| most.max(f64::from(v.abs())));
        a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| worst.max(f64::from((a - b).abs()))) / most
    };
    let values = |w: &Weights| w.tensors.values().map(|t| t.values.clone()).collect::<Vec<_>>();
    values(a).iter().zip(&values(b)).map(variable).fold(0.0, f64::max)
}

#[test]
fn any_split_of_cifar10_batches_comes_to_the_whole() {
    let test = "real-parts";
    let set = "cifar-10-batches-bin";
    let Some(data) = real_data(test, set).map(|root| root.join(set)) else { return };
    // Behind normalisation a kink multiplies rounding: a ReLU that switches in one cut and not in another. Networks of
    // smooth activations show what the cut alone does; the plain network has no normalisation. Their poolings are kinks too: fast
    // convolutions, which round ten times as much, make a choice switch within ten updates, so these sums are direct.
    let narrow = [
        "cifar10-airbench94",
        "--set",
        "model.channels=[16,32,32]",
        "--set",
        "run.convolutions=\"direct\"",
        "--set",
    ];
    let statistics = ["model.norm.statistics={ghost=16}", "model.norm.statistics=\"synchronised\""];
    let networks = [
        vec!["cifar10-resnet8"],
        [&narrow[..], &statistics[..1]].concat(),
        [&narrow[..], &statistics[1..]].concat(),
    ];
    for words in networks {
        let here = support::folder();
        let train = |parts| trained(here.path(), &data, &words, parts);
        let (whole, loss) = train([1, 1]);
        let mut told = Vec::new();
        for parts in [[2, 1], [1, 2], [2, 2], [1, 4]] {
            let (cut, cut_loss) = train(parts);
            let apart = distance(&whole, &cut);
            told.push(format!("{}x{} {apart:.1e}", parts[0], parts[1]));
            assert!(apart < MOST, "{words:?} {told:?}");
            assert!((cut_loss - loss).abs() < MOST * loss, "{words:?} {parts:?}: {loss} {cut_loss}");
        }
        let bits = |a: &str, b: &str| {
            let [a, b] =
                [a, b].map(|name| std::fs::read(here.path().join(name).join(WEIGHTS_FILE)).expect("weights"));
            a == b
        };
        assert!(bits("2x1", "1x2") && bits("2x2", "1x4"), "as many parts are the same bits: {words:?}");
        say(&format!(
            "REAL DATA {test} {}: from the whole after 10 updates {}",
            words.join(" "),
            told.join(", ")
        ));
    }
}
