//! On made files of the published layout.

use super::*;
use crate::space::Space;
use crate::target::{Target, first_complete, to_target};
use crate::trial::Measure;

const STUDY: &str = r#"{"batch_size": 256, "dataset": "imagenet", "early_stopping": false, "model": "resnet_50",
    "optimizer": "nesterov_momentum", "train_steps": 600000, "parameter_configs": {
        "learning_rate": {"type": "DOUBLE", "min_value": 0.0001, "max_value": 10.0, "scale": "LOG_SCALE"},
        "momentum": {"type": "DOUBLE", "min_value": 0.9, "max_value": 0.9999, "scale": "REVERSE_LOG_SCALE"},
        "learning_rate_decay_steps": {"type": "INTEGER", "min_value": 300000, "max_value": 600000, "scale": ""},
        "end_learning_rate_factor": {"type": "DOUBLE", "min_value": 0.0001, "max_value": 0.1, "scale": "LOG_SCALE"},
        "label_smoothing": {"type": "DISCRETE", "feasible_points": [0, 0.01, "0.1"], "scale": ""},
        "clip": {"type": "DOUBLE", "min_value": 1.0, "max_value": 1.0, "scale": "LINEAR_SCALE"}}}"#;

#[test]
fn studies_give_their_ranges() {
    let study = parse_study("study.json", STUDY).unwrap();
    assert_eq!((study.batch, study.train_updates), (256, Some(600_000)));
    let range = |name: &str| study.parameters.iter().find(|p| p.name == name).unwrap().range.clone();
    assert_eq!(range("learning_rate"), Range::Real { min: 1e-4, max: 10.0, scale: Scale::Log });
    assert_eq!(range("momentum"), Range::Real { min: 0.9, max: 0.9999, scale: Scale::OneMinusLog });
    let steps = Range::Integer { min: 300_000, max: 600_000, scale: Scale::Linear };
    assert_eq!(range("learning_rate_decay_steps"), steps);
    assert_eq!(range("label_smoothing"), Range::Discrete { values: vec![0.0, 0.01, 0.1] });
    assert_eq!(range("clip"), Range::Discrete { values: vec![1.0] });
    // They are a search space whose edges can be checked.
    let space = Space::new(study.parameters).unwrap();
    let best = space.values(&[0.5, 0.99, 0.5, 0.5, 0.5, 0.5]);
    assert_eq!(space.edges(&best, 0.05).iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["momentum"]);
    let timed = STUDY.replace("\"train_steps\": 600000", "\"train_steps\": 0");
    assert_eq!(parse_study("study.json", &timed).unwrap().train_updates, None);
}

#[test]
fn malformed_studies_name_the_key() {
    let fault = |old: &str, new: &str| {
        let error = parse_study("S", &STUDY.replacen(old, new, 1)).unwrap_err();
        (error.fault().place.clone(), error.fault().found.clone())
    };
    let of = |place: &str, found: &str| (place.to_string(), found.to_string());
    assert_eq!(fault("256", "-1"), of("S batch_size", "-1"));
    assert_eq!(fault("256", "0"), of("S batch_size", "0"));
    assert_eq!(fault("600000, \"par", "0.5, \"par"), of("S train_steps", "0.5"));
    assert_eq!(fault("parameter_configs", "parameters"), of("S parameter_configs", "no such key"));
    assert_eq!(fault("DOUBLE", "FLOAT"), of("S parameter_configs learning_rate type", "\"FLOAT\""));
    assert_eq!(fault("LOG_SCALE", "SQUARE"), of("S parameter_configs learning_rate scale", "\"SQUARE\""));
    assert_eq!(fault("0.0001", "\"low\""), of("S parameter_configs learning_rate min_value", "\"low\""));
    assert_eq!(
        fault("[0, 0.01, \"0.1\"]", "7"),
        of("S parameter_configs label_smoothing feasible_points", "7")
    );
    assert!(
        parse_study("S", "[1]").is_err() && parse_study("S", "{").is_err() && parse_study("S", "").is_err()
    );
}

fn metadata(id: u64, status: &str) -> String {
    format!(
        r#"{{"trial_id": {id}, "steps": 10, "status": "{status}", "_internal_x": {{}},
            "parameters": {{"learning_rate": 0.25, "momentum": 0.97, "learning_rate_decay_steps": 400000}}}}"#
    )
}

#[test]
fn trials_give_their_status_and_metaparameters() {
    let trial = parse_metadata("metadata.json", &metadata(7, "COMPLETE")).unwrap();
    assert_eq!((trial.number, trial.status), (7, Status::Complete));
    assert_eq!(trial.parameters["learning_rate"], 0.25);
    assert_eq!(trial.parameters["learning_rate_decay_steps"], 400_000.0);
    let status = |text| parse_metadata("m", &metadata(1, text)).map(|t| t.status);
    assert_eq!(status("INFEASIBLE"), Ok(Status::Infeasible));
    assert_eq!(status("INCOMPLETE"), Ok(Status::Incomplete));
    let error = status("DONE").unwrap_err();
    expect_test::expect![[
        r#"malformed batch-science data: m status: expected COMPLETE, INCOMPLETE or INFEASIBLE, found "DONE""#
    ]]
    .assert_eq(&error.to_string());
}

#[test]
fn measurements_are_sorted_and_gaps_are_nan() {
    let text = "step,train/cross_entropy_error,val/classification_error\n\
        0,6.90948,.999223\n600000,.592377,.24406\n1000,nan,\n";
    let series = parse_measurements("m.csv", text, 256, Some(1_281_167)).unwrap();
    let rows: Vec<(u64, f64)> =
        series.of("val.classification_error").map(|(p, v)| (p.updates.0, v)).collect();
    assert!(
        rows[0] == (0, 0.999223) && rows[1].0 == 1000 && rows[1].1.is_nan() && rows[2] == (600_000, 0.24406)
    );
    let last = series.progress()[2];
    assert_eq!((last.examples.0, last.fresh.0, last.seconds), (153_600_000, 153_600_000, None));
    assert!((last.epochs.unwrap().0 - 119.8907).abs() < 1e-4);
    assert_eq!(
        series.metrics().collect::<Vec<_>>(),
        ["train.cross_entropy_error", "val.classification_error"]
    );
    let place = |text: &str| parse_measurements("m.csv", text, 256, None).unwrap_err().fault().place.clone();
    assert_eq!(place(""), "m.csv line 1");
    assert_eq!(place("epoch,val/x\n1,2\n"), "m.csv line 1");
    assert_eq!(place("step,val/x\n1,2\n3\n"), "m.csv line 3");
    assert_eq!(place("step,val/x\n1,two\n"), "m.csv line 2");
    assert_eq!(place("step,val/x\n1.5,2\n"), "m.csv line 2");
    assert_eq!(place("step,val/x\n-1,2\n"), "m.csv line 2");
    assert_eq!(place("step,val/x\n,2\n"), "m.csv line 2");
}

#[test]
fn a_point_is_analysed_as_the_paper_does() {
    // Trial 4 is fastest but infeasible, 2 incomplete; 5 ties with 3; 6 is beyond the first three complete ones; equality
    // with the goal does not count.
    let csv =
        |updates: u64, error: f64| format!("step,val/classification_error\n0,.9\n10,.3\n{updates},{error}\n");
    let trials: Vec<Trial> = [
        (6, "COMPLETE", csv(15, 0.1)),
        (1, "COMPLETE", csv(90, 0.29)),
        (2, "INCOMPLETE", csv(20, 0.1)),
        (3, "COMPLETE", csv(40, 0.299)),
        (4, "INFEASIBLE", csv(11, 0.1)),
        (5, "COMPLETE", csv(40, 0.1)),
    ]
    .into_iter()
    .map(|(id, status, csv)| {
        let series = parse_measurements("m.csv", &csv, 64, train_examples("cifar_10")).unwrap();
        Trial { series, ..parse_metadata("metadata.json", &metadata(id, status)).unwrap() }
    })
    .collect();
    let target = published_target("cifar_10", "resnet_8").unwrap();
    let chosen: Vec<Trial> = first_complete(&trials, 3).unwrap().into_iter().cloned().collect();
    let result = to_target(&chosen, &target, Measure::Updates).unwrap();
    let best = result.best.unwrap();
    assert_eq!((best.trial, best.amount, best.progress.examples.0), (3, 40.0, 2560));
    assert_eq!((result.amounts, result.infeasible), (vec![90.0, 40.0, 40.0], 1));
    assert!(first_complete(&trials, 5).is_err());
}

#[test]
fn paths_say_what_a_file_is() {
    let point = |dataset: &str, model: &str, optimizer: &str, batch| BatchSciencePoint {
        dataset: dataset.into(),
        model: model.into(),
        optimizer: optimizer.into(),
        batch,
    };
    let resnet = point("cifar_10", "resnet_8", "sgd", 64);
    let subset = point("mnist_subsets/mnist_6875", "simple_cnn_base", "nesterov_momentum", 6875);
    for (path, expected) in [
        ("cifar_10/resnet_8/sgd/64/study.json", Some((resnet.clone(), BatchScienceFile::Study))),
        ("cifar_10/resnet_8/sgd/64/12/metadata.json", Some((resnet.clone(), BatchScienceFile::Metadata(12)))),
        ("cifar_10/resnet_8/sgd/64/12/measurements.csv", Some((resnet, BatchScienceFile::Measurements(12)))),
        (
            "mnist_subsets/mnist_6875/simple_cnn_base/nesterov_momentum/6875/study.json",
            Some((subset, BatchScienceFile::Study)),
        ),
        ("resnet_8/sgd/64/study.json", None),
        ("/resnet_8/sgd/64/study.json", None),
        ("cifar_10/resnet_8/sgd/0/study.json", None),
        ("cifar_10/resnet_8/sgd/x/study.json", None),
        ("cifar_10/resnet_8/sgd/64/best/metadata.json", None),
        ("cifar_10/resnet_8/sgd/64/README.md", None),
        ("study.json", None),
    ] {
        assert_eq!(batch_science_path(path), expected, "{path}");
    }
}

#[test]
fn published_facts_cover_the_first_figure() {
    let target = |dataset, model| published_target(dataset, model).map(|t: Target| t.to_string());
    assert_eq!(target("open_images_v4", "resnet_50").unwrap(), "val.average_precision>0.31");
    assert_eq!(target("lm1b", "lstm").unwrap(), "val.cross_entropy_error<3.9");
    assert_eq!(target("mnist", "fc_1024"), None);
    assert_eq!(train_examples("mnist_subsets/mnist_13750"), Some(13_750));
    assert_eq!(train_examples("solution_quality/fashion_mnist"), Some(55_000));
    assert_eq!(train_examples("common_crawl"), None);
}
