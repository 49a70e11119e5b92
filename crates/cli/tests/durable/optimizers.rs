//! What optimisers, schedules and averages keep is in checkpoints: killed in any of them, a run ends as if it had not
//! been. And what is saved is what was evaluated.

use crate::bench::Bench;
use crate::kill::{Moment, killed, plan_of};
use sooner_record::Weights;

/// Settings for each run; every one has something of its own to lose.
const RUNS: [&[&str]; 9] = [
    &["optimizer={kind='sgd',clip=0.5}", "schedule={kind='cosine',learning_rate=0.05,end_factor=0.0}"],
    &[
        "optimizer={kind='heavy-ball',momentum=0.9,average={kind='ema',decay=0.9}}",
        "schedule={kind='step',learning_rate=0.05,factor=0.3,drops=[0.3,0.6]}",
    ],
    &[
        "optimizer={kind='nesterov',momentum=0.85,weight_decay=0.0153,units='decoupled-1024',\
         label_smoothing=0.2,average={kind='lookahead',decay=0.95,every=5,power=3},\
         groups=[{parameters='biases',rate_scale=64,decay_scale=0.015625}]}",
        "schedule={kind='one-cycle',learning_rate=5,start_factor=0.2,end_factor=0.07,peak=0.23}",
    ],
    &[
        "optimizer={kind='adam',momentum=0.9,weight_decay=0.001,eps=1e-6}",
        "schedule={kind='constant',learning_rate=0.003,warmup=0.2}",
    ],
    &[
        "optimizer={kind='adamw',momentum=0.9,second_momentum=0.99,weight_decay=0.05,\
         average={kind='ema',decay=0.99,every=5}}",
        "schedule={kind='linear',learning_rate=0.003,end_factor=0.1,decay_updates=20}",
    ],
    &[
        "optimizer={kind='lars',momentum=0.9,weight_decay=0.0005,trust=0.02}",
        "schedule={kind='piecewise',points=[[0.0,0.0],[0.2,0.5],[1.0,0.0]]}",
    ],
    &["optimizer={kind='muon',momentum=0.6,weight_decay=0.01}"],
    &[
        "optimizer={kind='muon',momentum=0.6,rounds=3,norms='kept',average={kind='lookahead',decay=0.9,every=4},\
         groups=[{parameters='weights',prefix='linear',rule='adamw',momentum=0.8},\
         {parameters='all',prefix='prep',rule='sgd',momentum=0,until=1.5}]}",
    ],
    &["optimizer={kind='nesterov',momentum=0.9,decay='decoupled',weight_decay=0.1,clip=1.0}"],
];

fn words(settings: &'static [&'static str]) -> Vec<&'static str> {
    settings.iter().flat_map(|setting| ["--set", *setting]).collect()
}

#[test]
fn every_optimizer_goes_on_with_the_same_bits() {
    let bench = Bench::new();
    for (i, settings) in RUNS.into_iter().enumerate() {
        let whole = format!("whole-{i}");
        let result = bench.train(&whole, &words(settings));
        assert!(result["final"]["loss"].as_f64().is_some_and(|loss| loss < 2.6), "{settings:?}: {result}");
        let plan = plan_of(&bench, &whole);
        // Twice, off the beat of every average.
        let name = format!("killed-{i}");
        killed(&bench.path(&name), &plan, 4, Moment::After(15));
        killed(&bench.path(&name), &plan, 3, Moment::After(23));
        bench.resume_to_equal(&name, &[], &whole);
        assert_eq!(bench.resumptions(&name), [12, 21], "{settings:?}");
    }
}

/// Without averages the same run is another only in what is evaluated.
#[test]
fn what_is_evaluated_is_what_is_saved() {
    let bench = Bench::new();
    let saved = |name: &str| Weights::read(&bench.path(name).join("weights.safetensors")).expect("weights");
    let average = |kind| format!("optimizer.average={{kind='{kind}',decay=0.8,every=3}}");
    let plain = bench.train("plain", &[]);
    let ema = bench.train("ema", &["--set", &average("ema")]);
    let lookahead = bench.train("lookahead", &["--set", &average("lookahead")]);
    let about = |name: &str| saved(name).about.expect("metadata").average;
    assert_eq!((about("plain"), about("ema").as_deref(), about("lookahead")), (None, Some("ema"), None));
    assert_ne!(ema["final"], plain["final"]);
    assert_ne!(lookahead["final"], plain["final"]);
    for name in ["plain", "ema", "lookahead"] {
        let names: Vec<String> = saved(name).tensors.into_keys().collect();
        assert!(names.iter().all(|n| !n.ends_with(".average") && !n.ends_with(".lookahead")), "{names:?}");
        let run = format!("@{name}");
        let (code, result) = bench.run(&["eval", &run, "--split", "val"]);
        assert_eq!(code, 0, "{result}");
        let (_, told) = bench.resume(name, &[]);
        for metric in ["loss", "error", "accuracy"] {
            assert_eq!(
                result["metrics"][metric], told["final"][metric],
                "{name}: {metric} of {result} and {told}"
            );
        }
    }
}

#[test]
fn groups_that_hold_nothing_are_refused() {
    let bench = Bench::new();
    let group = "optimizer.groups=[{parameters='weights',prefix='head',rate_scale=2}]";
    let refused = bench.run(&["train", "@durable.toml", "--out", "@none", "--set", group]);
    let text = crate::bench::refusal(refused, 2);
    assert!(text.contains("optimizer.groups.0.prefix") && text.contains("linear"), "{text}");
}

/// Whitening filters are worked out once, before the first update, and neither training nor a resumption changes them.
#[test]
fn whitening_is_done_once() {
    let bench = Bench::new();
    let model = "model={kind='airbench',channels=[4,4,8],convolutions=2,logit_scale=0.25,\
                 whiten={patch=2,images=100,eps=0.0005}}";
    let optimizer = "optimizer={kind='nesterov',momentum=0.85,\
                     groups=[{parameters='biases',prefix='whiten',until=0.5},{parameters='biases',rate_scale=4}]}";
    let words = ["--set", model, "--set", optimizer];
    let all =
        |name: &str| Weights::read(&bench.path(name).join("weights.safetensors")).expect("weights").tensors;
    bench.train("whole", &words);
    bench.train("longer", &[&words[..], &["--epochs", "4"]].concat());
    let (whole, longer) = (all("whole"), all("longer"));
    assert_eq!(whole["whiten.weight"], longer["whiten.weight"]);
    assert_ne!(whole["linear.weight"], longer["linear.weight"]);
    assert!(whole["whiten.bias"].values.iter().any(|v| *v != 0.0), "trained for half an epoch");
    let plan = plan_of(&bench, "whole");
    killed(&bench.path("killed"), &plan, 4, Moment::After(9));
    bench.resume_to_equal("killed", &[], "whole");
    // Fewer images have other filters, but given ones are kept.
    let fewer = model.replace("images=100", "images=60");
    let words = ["--set", &fewer, "--set", optimizer];
    let other = ["--epochs", "1"];
    bench.train("other", &[&words[..], &other].concat());
    let init = bench.path("whole").join("weights.safetensors").display().to_string();
    bench.train("tuned", &[&words[..], &other, &["--init", &init]].concat());
    assert_ne!(all("other")["whiten.weight"], whole["whiten.weight"]);
    assert_eq!(all("tuned")["whiten.weight"], whole["whiten.weight"]);
}
