//! What a racer uses: the ceiling's arithmetic, runs over seeds, and what is handed in.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::{contents, folder, run, tiny};

#[test]
fn the_ceiling_counts_what_the_networks_cost() {
    let here = Path::new(".");
    let json = |words: &[&str]| run(here, &[&["ceiling"][..], words, &["--json"]].concat()).json();
    // Page's ResNet-9: 379 million multiply-adds, 24 epochs, all 50,000 examples.
    let r = json(&["cifar10-resnet9", "--peak", "125000"]);
    assert_eq!(r["parameters"], 6_573_120, "{r}");
    assert_eq!((r["examples_per_epoch"].as_u64(), r["epochs"].as_f64()), (Some(50_000), Some(24.0)), "{r}");
    let flops = r["flops_per_example"].as_f64().expect("a number");
    assert_eq!(format!("{:.2}", flops / 1e9), "2.28");
    assert_eq!(r["total_flops"].as_f64().expect("a number"), flops * 24.0 * 50_000.0);
    assert_eq!(format!("{:.2}", r["seconds_at_peak"].as_f64().expect("a number")), "21.85");
    assert_eq!(r["measured_on_threads"], Value::Null);
    // Half an epoch in whole updates of 512.
    let half = json(&["cifar10-resnet9", "--peak", "1", "--epochs", "0.5"]);
    assert_eq!(half["examples"], 25_088, "{half}");
    // This machine's own peak, where none is given.
    let own = json(&["shapes-cnn", "--threads", "1"]);
    assert_eq!(own["measured_on_threads"], 1, "{own}");
    assert!(own["peak_gflops"].as_f64().is_some_and(|peak| peak > 0.1), "{own}");

    let page = run(here, &["ceiling", "cifar10-resnet9", "--peak", "125000"]);
    assert!(page.stdout.contains("2.73 PFLOP") && page.stdout.contains("21.8 s"), "{}", page.stdout);
    for (option, value) in [("--peak", "0"), ("--peak", "nan"), ("--epochs", "-1"), ("--epochs", "inf")] {
        let done = run(here, &["ceiling", option, value, "--json"]);
        assert_eq!((done.code, done.error()["where"].as_str()), (Some(2), Some(option)), "{option} {value}");
    }
}

#[test]
fn a_series_of_seeds_goes_on_and_is_summed_up() {
    let here = folder();
    let series = |more: &[&str]| {
        run(
            here.path(),
            &tiny(&[&["--seeds", "1..3", "--out", "s", "--set", "run.target=none"], more].concat()),
        )
    };
    let first = series(&["--json"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let first = first.json();
    let runs = first["runs"].as_array().expect("runs");
    assert_eq!(runs.iter().map(|r| r["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let values: Vec<f64> = runs.iter().map(|r| r["final"]["accuracy"].as_f64().unwrap()).collect();
    let mean = values.iter().sum::<f64>() / 3.0;
    let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert_eq!(first["final"]["n"], 3);
    assert!((first["final"]["mean"].as_f64().unwrap() - mean).abs() < 1e-12, "{first}");
    assert!((first["final"]["sd"].as_f64().unwrap() - sd).abs() < 1e-12, "{first}");
    // Other seeds are other runs, and each is the run that its seed gives alone.
    assert_ne!(
        fs::read(here.path().join("s/seed-1/weights.safetensors")).unwrap(),
        fs::read(here.path().join("s/seed-2/weights.safetensors")).unwrap()
    );
    let alone = run(here.path(), &tiny(&["--seed", "2", "--out", "alone", "--set", "run.target=none"]));
    assert_eq!(alone.code, Some(0));
    assert_eq!(
        fs::read(here.path().join("alone/weights.safetensors")).unwrap(),
        fs::read(here.path().join("s/seed-2/weights.safetensors")).unwrap()
    );

    // A run cut off in the middle and one that is gone are made again; the finished one is not touched.
    let finished = fs::read(here.path().join("s/seed-1/run.jsonl")).expect("a log");
    let log = here.path().join("s/seed-2/run.jsonl");
    let bytes = fs::read(&log).expect("a log");
    fs::write(&log, &bytes[..bytes.len() / 2]).expect("cut");
    fs::remove_dir_all(here.path().join("s/seed-3")).expect("removed");
    let again = series(&["--json"]).json();
    assert_eq!(again["final"], first["final"]);
    // Another machine's number of cores is no other plan.
    let threads = series(&["--threads", "2", "--json"]).json();
    assert_eq!(threads["final"], first["final"], "{threads}");
    assert_eq!(fs::read(here.path().join("s/seed-1/run.jsonl")).expect("a log"), finished);

    let table = series(&[]);
    assert_eq!(table.code, Some(0));
    assert!(
        table.stdout.contains("val.accuracy mean ") && table.stdout.contains("n = 3"),
        "{}",
        table.stdout
    );
    // Another plan's runs are not mixed in.
    let other = series(&["--set", "schedule.learning_rate=0.01", "--json"]);
    assert_eq!(other.code, Some(1));
    assert!(
        other.error()["expected"].as_str().unwrap().contains("schedule.learning_rate = 0.01"),
        "{}",
        other.stdout
    );
    for wrong in ["3..1", "1,1", "", "x"] {
        let done = run(here.path(), &tiny(&["--seeds", wrong, "--json"]));
        assert_eq!((done.code, done.error()["where"].as_str()), (Some(2), Some("--seeds")), "{wrong}");
    }
}

#[test]
fn a_series_is_judged_by_its_mean_where_the_end_is_judged() {
    let here = folder();
    let judged = |target: &str, stop: &str, out: &str| {
        let stop = format!("run.stop=\"{stop}\"");
        run(
            here.path(),
            &tiny(&["--seeds", "1,2", "--out", out, "--target", target, "--set", &stop, "--json"]),
        )
    };
    let easy = judged("val.accuracy>=0.0", "end", "a");
    assert_eq!((easy.code, easy.json()["mean_meets_target"].as_bool()), (Some(0), Some(true)));
    let hard = judged("val.accuracy>=1.0", "end", "b");
    assert_eq!((hard.code, hard.json()["mean_meets_target"].as_bool()), (Some(3), Some(false)));
    assert_eq!(judged("val.accuracy>=1.0", "target", "c").code, Some(3));
}

#[test]
fn a_submission_holds_the_run() {
    let here = folder();
    let done = run(here.path(), &tiny(&["--target", "test.accuracy>=0.99", "--out", "run"]));
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let submit = ["submit", "run", "--author", "A \"quoted\" name", "--goal", "0.01", "--json"];
    let report = run(here.path(), &submit).json();
    let folder = here.path().join("run/submission");
    let name = report["name"].as_str().expect("a name");
    let names: Vec<String> =
        contents(&folder).iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(
        names,
        ["plan.toml".into(), "run.jsonl".into(), format!("{name}.json"), format!("{name}.tsv")]
    );
    let description: Value =
        serde_json::from_str(&fs::read_to_string(folder.join(format!("{name}.json"))).unwrap()).unwrap();
    assert_eq!(description["author"], "A \"quoted\" name");
    // Drawings need no files.
    assert_eq!(description["misc"]["commandLine"], "sooner train plan.toml");
    assert_eq!((&description["misc"]["views"], &description["misc"]["final"]), (&"one".into(), &Value::Null));
    assert_eq!(description["version"], "v1.0");
    // Our own reader of such tables finds the time that was said.
    let table = folder.join(format!("{name}.tsv")).display().to_string();
    let read = run(here.path(), &["dawnbench", &table, "--goal", "0.01", "--json"]).json();
    assert_eq!(read["entries"][0]["seconds"], report["seconds"], "{read} {report}");
    assert_eq!(
        fs::read(folder.join("run.jsonl")).unwrap(),
        fs::read(here.path().join("run/run.jsonl")).unwrap()
    );

    // Nothing is overwritten.
    let again = run(here.path(), &submit);
    assert_eq!((again.code, again.error()["found"].as_str()), (Some(1), Some("files in it")));
    let missed = run(here.path(), &["submit", "run", "--author", "A", "--goal", "1", "--out", "o"]);
    assert!(missed.stdout.contains("not reached"), "{}", missed.stdout);
    for nobody in ["", "  "] {
        let refused = run(here.path(), &["submit", "run", "--author", nobody, "--out", "n", "--json"]);
        assert_eq!((refused.code, refused.error()["where"].as_str()), (Some(2), Some("--author")));
        assert!(!here.path().join("n").exists());
    }
    // Validation is not what such races are about.
    let done = run(here.path(), &tiny(&["--out", "val"]));
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let val = run(here.path(), &["submit", "val", "--author", "A", "--json"]);
    assert_eq!((val.code, val.error()["what"].as_str()), (Some(1), Some("nothing to hand in")));
}

#[test]
fn the_end_is_judged_by_several_views_and_says_what_one_view_gives() {
    let here = folder();
    let words = ["--out", "r", "--set", "run.stop=end", "--set", "run.views=flips-shifts", "--json"];
    let done = run(here.path(), &tiny(&words)).json();
    let seen = &done["seen"];
    assert_eq!(seen["views"], "flips-shifts", "{done}");
    assert_ne!(seen["one"]["loss"], done["final"]["loss"], "other views change the loss");
    assert!(done["final_evaluation"].as_f64().is_some_and(|seconds| seconds > 0.0), "{done}");
    let log = fs::read_to_string(here.path().join("r/run.jsonl")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let evaluations: Vec<Value> = lines.filter(|line| line["line"] == "evaluation").collect();
    let (last, before) = evaluations.split_last().expect("evaluations");
    assert_eq!((&last["seen"], &last["loss"]), (seen, &done["final"]["loss"]));
    assert!(!before.is_empty() && before.iter().all(|line| line.get("seen").is_none()), "only the end");

    // The weights say which views they were judged by; others are asked for.
    let split = done["final"]["split"].as_str().expect("a split");
    let eval =
        |more: &[&str]| run(here.path(), &[&["eval", "r", "--split", split, "--json"], more].concat()).json();
    let same = |found: &Value, expected: &Value| {
        for key in ["loss", "error", "accuracy"] {
            assert_eq!(found[key], expected[key], "{key}");
        }
    };
    let all = eval(&[]);
    same(&all["metrics"], &done["final"]);
    same(&all["one_view"], &seen["one"]);
    same(&eval(&["--views", "one"])["metrics"], &seen["one"]);
    let flips = eval(&["--views", "flips"]);
    assert_ne!(flips["metrics"]["loss"], all["metrics"]["loss"]);
    let wrong = run(here.path(), &["eval", "r", "--views", "all", "--json"]);
    assert_eq!((wrong.code, wrong.error()["where"].as_str()), (Some(2), Some("--views")));

    // Where any evaluation may end the run, all of them see so.
    let words = ["--out", "t", "--set", "run.views=flips", "--target", "val.accuracy>=0.999", "--json"];
    run(here.path(), &tiny(&words));
    let log = fs::read_to_string(here.path().join("t/run.jsonl")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    assert!(lines.filter(|line| line["line"] == "evaluation").all(|line| line["seen"]["views"] == "flips"));
    // Run again, both rules see as they saw.
    for record in ["r", "t"] {
        let again = run(here.path(), &["rerun", record, "--json"]).json();
        assert_eq!(again["agree"], true, "{again}");
    }
}

/// A column of accuracies that can be compared with each other; what the end is judged by stands apart.
#[test]
fn the_rows_of_a_submission_are_of_one_kind() {
    let here = folder();
    let submitted = |name: &str, stop: &str| {
        let stop = format!("run.stop={stop}");
        let words = ["--target", "test.accuracy>=0.99", "--set", "run.views=flips", "--set", &stop];
        let words = tiny(&[&words[..], &["--set", "run.evaluate=epoch", "--out", name]].concat());
        assert_eq!(run(here.path(), &words).code, Some(3));
        let report = run(here.path(), &["submit", name, "--author", "A", "--json", "--goal", "0.01"]).json();
        let file = |ending: &str| {
            let name = format!("{name}/submission/{}.{ending}", report["name"].as_str().expect("a name"));
            fs::read_to_string(here.path().join(name)).expect("a file")
        };
        let description: Value = serde_json::from_str(&file("json")).expect("JSON");
        let log = fs::read_to_string(here.path().join(name).join("run.jsonl")).expect("a log");
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let evaluations: Vec<Value> = lines.filter(|line| line["line"] == "evaluation").collect();
        let rows: Vec<f64> =
            file("tsv").lines().skip(1).map(|l| l.rsplit('\t').next().unwrap().parse().unwrap()).collect();
        assert_eq!(rows.len(), evaluations.len());
        (report, description["misc"].clone(), evaluations, rows)
    };
    let near = |percent: f64, accuracy: &Value| {
        (percent - 100.0 * accuracy.as_f64().expect("a number")).abs() < 1e-3
    };

    let (report, misc, evaluations, rows) = submitted("end", "end");
    let last = evaluations.last().expect("evaluations");
    assert_eq!(
        (&report["views"], &misc["views"], &misc["final"]["views"]),
        (&"one".into(), &"one".into(), &"flips".into())
    );
    assert!(near(rows[rows.len() - 1], &last["seen"]["one"]["accuracy"]), "{rows:?} {last}");
    assert!(
        near(misc["final"]["top1Accuracy"].as_f64().expect("a number"), &last["accuracy"]),
        "{misc} {last}"
    );
    let told = run(here.path(), &["submit", "end", "--author", "A", "--out", "told"]);
    assert!(told.stdout.contains("by 2 views of each image; "), "{}", told.stdout);

    // Where every evaluation may end the run, all of them have the same views.
    let (report, misc, evaluations, rows) = submitted("target", "target");
    assert_eq!(
        (&report["views"], &misc["views"], &misc["final"]),
        (&"flips".into(), &"flips".into(), &Value::Null)
    );
    assert!(rows.iter().zip(&evaluations).all(|(row, e)| near(*row, &e["accuracy"])), "{rows:?}");
}
