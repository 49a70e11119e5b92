//! Every family of networks learns from real images: forty updates of a narrow version take its loss on held-out examples
//! well below that of guessing. `SOONER_DATA` as in `real_data.rs`: without it this skips, loudly.

mod support;

use support::{real_data, run, say};

/// Workload, settings that make it small, and the loss that it has to be below; guessing among ten has ln 10 = 2.303.
type Case = (&'static str, &'static [&'static str], f64);

const CIFAR10: [Case; 9] = [
    ("cifar10-resnet32", &["model.channels=[8,16,32]", "schedule.learning_rate=0.05"], 2.15),
    (
        "cifar10-vgg11",
        &["model.channels=[16,16,32,32,64,64,64,64]", "model.hidden=[64,64]", "model.dropout=0.1"],
        2.15,
    ),
    ("cifar10-dawn-resnet18", &["model.channels=[8,16,32,32]"], 2.15),
    (
        "cifar10-resnet32",
        &["model={kind=\"resnet50\",channels=[8,16,32,64],blocks=[1,2,2,1]}", "schedule.learning_rate=0.02"],
        2.25,
    ),
    ("cifar10-page-residual", &["model.channels=[8,16,16,32]"], 2.15),
    ("cifar10-page-whiten", &["model.channels=[8,16,16,32]"], 2.25),
    // Their rate is one for 1024 examples.
    ("cifar10-airbench94", &["model.channels=[16,32,32]"], 2.27),
    ("cifar10-airbench96", &["model.channels=[16,32,32]"], 2.27),
    ("cifar10-airbench94-muon", &["model.channels=[16,32,32]"], 2.0),
];

const MNIST: [Case; 5] = [
    ("mnist-fc-64x3", &[], 1.0),
    ("mnist-fc-512x3", &[], 1.0),
    ("mnist-fc-1024", &[], 1.0),
    ("mnist-cnn-narrow", &[], 1.0),
    ("mnist-cnn-wide", &[], 1.0),
];

fn check(set: &str, cases: &[Case]) {
    let test = "real-models";
    let Some(data) = real_data(test, set).map(|root| root.join(set)) else { return };
    let data = data.to_str().expect("UTF-8");
    for (workload, settings, most) in cases {
        let here = support::folder();
        let mut words =
            vec!["train", workload, "--data", data, "--target", "none", "--epochs", "1", "--json"];
        let small = [
            "data.train=2560",
            "data.validation=500",
            "data.test=100",
            "pipeline.stages.batch=64",
            "run.evaluate={updates=1000}",
        ];
        small.iter().chain(*settings).for_each(|setting| words.extend(["--set", setting]));
        let done = run(here.path(), &words);
        assert_eq!(done.code, Some(0), "{workload}: {}{}", done.stdout, done.stderr);
        let result = done.json();
        let loss = result["final"]["loss"].as_f64().expect("a loss");
        say(&format!(
            "REAL DATA {test}: {workload} {} has loss {loss:.3} after {} updates",
            settings.join(" "),
            result["position"]["updates"],
        ));
        assert!(loss < *most, "{workload} {settings:?}: {loss}");
    }
}

#[test]
fn families_learn_from_cifar10() {
    check("cifar-10-batches-bin", &CIFAR10);
}

#[test]
fn families_learn_from_mnist() {
    check("mnist", &MNIST);
}
