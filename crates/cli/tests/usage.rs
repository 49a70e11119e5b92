//! What is refused before any work: exit code, one JSON object, and nothing left on the disk.

mod support;

use serde_json::Value;
use sooner_plan::Plan;
use std::fs;
use support::{contents, folder, run, tiny};

/// Refused with this exit code, both for people and for machines; the error's fields.
fn refused(words: &[&str], code: i32) -> Value {
    let folder = folder();
    let for_people = run(folder.path(), words);
    assert_eq!(
        (for_people.code, for_people.stdout.as_str()),
        (Some(code), ""),
        "{words:?}\n{}",
        for_people.stderr
    );
    assert!(for_people.stderr.starts_with("error: "), "{words:?}\n{}", for_people.stderr);
    let with_json: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let for_machines = run(folder.path(), &with_json);
    assert_eq!(for_machines.code, Some(code), "{words:?}\n{}", for_machines.stdout);
    let error = for_machines.error();
    assert!(contents(folder.path()).is_empty(), "{words:?} left {:?}", contents(folder.path()));
    error
}

/// A refused setting of a tiny run: its place is the key.
fn refused_setting(settings: &[&str], place: &str) -> Value {
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let error = refused(&tiny(&settings), 2);
    let found = error["where"].as_str().unwrap_or_default();
    assert!(found.contains(place), "{settings:?}: {error}");
    error
}

#[test]
fn words_that_mean_nothing() {
    for words in [
        &["trian"][..],
        &["train", "--nonsense"],
        &["train", "--epochs"],
        &["train", "--epochs", "many"],
        &["train", "a", "b"],
        &["dawnbench"],
        &["data", "fetch"],
        &["data", "check", "mnist"],
        &["nqm", "--optimizer", "sgd"],
        &["nqm", "--optimizer", "sgd", "--batch", "1,x"],
        &["nqm", "--optimizer", "sgd", "--batch", "1", "--threads", "0"],
        &["eval"],
        &["bench", "--batch", "-3"],
        &["bench", "--seconds", "0"],
    ] {
        refused(words, 2);
    }
    let folder = folder();
    for words in [&[][..], &["data"]] {
        let done = run(folder.path(), words);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(done.stderr.contains("Usage: sooner"), "{words:?}: {}", done.stderr);
    }
    assert_eq!(run(folder.path(), &["data", "--json"]).error()["where"], "arguments");
    for words in [&["--help"][..], &["--version"], &["train", "--help"], &["data", "--help"]] {
        let done = run(folder.path(), words);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(!done.stdout.is_empty());
    }
}

#[test]
fn names_have_a_nearest() {
    let nearest = |words: &[&str], near: &str| {
        let error = refused(words, 2);
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(&format!("`{near}`")), "{words:?}: {error}");
    };
    nearest(&["train", "mnist-cn"], "mnist-cnn");
    nearest(&["bench", "shapes-cn"], "shapes-cnn");
    nearest(&["workloads", "cifar10-resnet"], "cifar10-resnet8");
    nearest(&["train", "--set", "optimizer.momentun=0.9"], "optimizer.momentum");
    nearest(&["train", "--set", "optimiser.momentum=0.9"], "optimizer.momentum");
    nearest(&["train", "--target", "val.acuracy>=0.9"], "accuracy");
    nearest(&["data", "check", "cifar-10", "."], "cifar10");
    nearest(&["data", "get", "fashion", "."], "fashion-mnist");
}

#[test]
fn two_ways_of_saying_one_thing() {
    let overlap = |words: &[&str]| {
        let error = refused(words, 2);
        let text = error.to_string();
        assert!(text.contains("--set"), "{words:?}: {error}");
    };
    overlap(&["train", "--seed", "3", "--set", "seed=4"]);
    overlap(&["train", "--seed", "3", "--set", "seed=3"]);
    overlap(&["train", "--threads", "1", "--set", "run.threads=2"]);
    overlap(&["train", "--epochs", "1", "--set", "run.epochs=2"]);
    overlap(&["train", "--target", "val.error<0.1", "--set", "run.target=none"]);
    overlap(&["train", "mnist-cnn", "--data", ".", "--set", "data.path=x"]);
    overlap(&["train", "--set", "optimizer.momentum=0.8", "--set", "optimizer.momentum=0.9"]);
    overlap(&["train", "--set", "optimizer.momentum=0.8", "--set", "optimizer={kind=\"sgd\"}"]);
    overlap(&["bench", "--batch", "3", "--set", "pipeline.stages.batch=4"]);
}

#[test]
fn values_that_cannot_be_meant() {
    for (setting, place) in [
        ("schedule.learning_rate=nan", "schedule.learning_rate"),
        ("schedule.learning_rate=inf", "schedule.learning_rate"),
        ("schedule.learning_rate=-0.1", "schedule.learning_rate"),
        ("schedule.learning_rate=0", "schedule.learning_rate"),
        ("schedule.learning_rate=fast", "schedule.learning_rate"),
        ("schedule.end_factor=2", "schedule.end_factor"),
        ("optimizer.momentum=1", "optimizer.momentum"),
        ("optimizer.momentum=nan", "optimizer.momentum"),
        ("optimizer.weight_decay=-1e-4", "optimizer.weight_decay"),
        ("optimizer.label_smoothing=1", "optimizer.label_smoothing"),
        ("optimizer.kind=adamant", "optimizer.kind"),
        ("model.kind=resnet7", "model.kind"),
        ("data.kind=cifar", "data.kind"),
        ("data.train=0", "data.train"),
        ("data.train=-5", "data.train"),
        ("data.train=1.5", "data.train"),
        ("data.train=99999999999999999999", "data.train"),
        ("pipeline.threads=-1", "pipeline.threads"),
        ("pipeline.threads=100000", "pipeline.threads"),
        ("pipeline.budget=0", "pipeline.budget"),
        ("pipeline.budget=lots", "pipeline.budget"),
        ("run.threads=0", "run.threads"),
        ("run.evaluate={updates=0}", "run.evaluate"),
        ("run.evaluate=never", "run.evaluate"),
        ("run.stop=soon", "run.stop"),
        ("run.target=val.error", "run.target"),
        ("run.target=val.speed<1", "run.target"),
        ("run.target=dev.error<0.1", "run.target"),
        ("run.target=val.accuracy>=94", "run.target"),
        ("run.target=val.error<nan", "run.target"),
        ("seed=-1", "seed"),
        ("seed=x", "seed"),
        ("name=\"\"", "name"),
    ] {
        refused_setting(&[setting], place);
    }
    // TOML could not write it, nor a record hold it.
    for words in [["--seed", "9223372036854775808"], ["--seed", "18446744073709551616"], ["--seed", "-1"]] {
        let done = run(folder().path(), &["train", words[0], words[1]]);
        assert_eq!(done.code, Some(2));
        assert!(done.stderr.contains("a seed is a whole number from 0 to 2^63 - 1"), "{}", done.stderr);
    }
    let error = refused(&["train", "--seeds", "1,9223372036854775808"], 2);
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("2^63 - 1")), "{error}");
    let error = refused_setting(&["seed=9223372036854775808"], "seed");
    assert_eq!(error["expected"], "a whole number below 2^63", "{error}");
    // Sizes that each are legal, and no machine can hold.
    let error = refused(
        &["train", "shapes-cnn", "--set", "model={kind=\"fully-connected\",hidden=[1000000,1000000]}"],
        2,
    );
    assert_eq!(error["where"], "model", "{error}");
    for words in [
        ["--epochs", "nan"],
        ["--epochs", "0"],
        ["--epochs", "-1"],
        ["--epochs", "inf"],
        ["--epochs", "1e12"],
    ] {
        let error = refused(&["train", words[0], words[1]], 2);
        assert!(error["where"].as_str().is_some_and(|place| place.contains("epochs")), "{error}");
    }
    for batch in ["0", "121", "1000000000"] {
        let setting = format!("pipeline.stages.batch={batch}");
        let mut words = tiny(&[]);
        let at = words.iter().position(|word| word.contains("stages.batch")).expect("tiny runs set it");
        words[at] = &setting;
        let error = refused(&words, 2);
        assert!(error["where"].as_str().is_some_and(|place| place.contains("batch")), "{error}");
    }
}

#[test]
fn plan_files() {
    let folder = folder();
    let check = |name: &str, content: Option<&[u8]>, code: i32, place: &str| {
        let path = folder.path().join(name);
        if let Some(content) = content {
            fs::write(&path, content).expect("written");
        }
        let error = refused(&["train", path.to_str().expect("UTF-8")], code);
        assert!(error["where"].as_str().is_some_and(|found| found.contains(place)), "{name}: {error}");
    };
    let whole = run(folder.path(), &["workloads", "shapes-cnn"]).stdout;
    check("none.toml", None, 1, "none.toml");
    check("empty.toml", Some(b""), 2, "empty.toml");
    check("broken.toml", Some(b"name = \n"), 2, "broken.toml: line 1");
    check("latin.toml", Some(b"name = \"caf\xe9\"\n"), 1, "latin.toml");
    let unknown = format!("{whole}\n[trainer]\nepochs = 3\n");
    check("unknown.toml", Some(unknown.as_bytes()), 2, "unknown.toml: line ");
    let cut: String =
        whole.lines().take_while(|line| *line != "[run]").map(|line| format!("{line}\n")).collect();
    check("cut.toml", Some(cut.as_bytes()), 2, "cut.toml");
}

#[test]
fn workloads_read_back() {
    let folder = folder();
    let list = run(folder.path(), &["workloads", "--json"]).json();
    let names: Vec<String> = list["workloads"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|workload| workload["name"].as_str().expect("a name").to_string())
        .collect();
    assert!(names.len() >= 30, "{names:?}");
    let for_people = run(folder.path(), &["workloads"]).stdout;
    for name in &names {
        assert!(for_people.lines().any(|line| line.starts_with(name.as_str())), "{name}");
        let done = run(folder.path(), &["workloads", name]);
        let plan = Plan::parse(&done.stdout).unwrap_or_else(|error| panic!("{name}: {error}"));
        plan.check_without_data().unwrap_or_else(|error| panic!("{name}: {error}"));
        let json = run(folder.path(), &["workloads", name, "--json"]).json();
        assert_eq!(json["plan"]["name"], plan.name.as_str());
        // As a file it is taken up to the point where something is wrong with it.
        let file = folder.path().join(format!("{name}.toml"));
        fs::write(&file, &done.stdout).expect("written");
        let error = refused(&["train", file.to_str().expect("UTF-8"), "--epochs", "nan"], 2);
        assert!(error["where"].as_str().is_some_and(|place| place.contains("epochs")), "{error}");
    }
}

#[test]
fn studies_of_others() {
    for goal in ["0", "-0.1", "1.01", "94", "nan"] {
        refused(&["dawnbench", "x.tsv", "--goal", goal], 2);
    }
    for (option, value) in
        [("--dims", "0"), ("--goal", "0"), ("--goal", "1"), ("--goal", "nan"), ("--echo", "0")]
    {
        let error = refused(&["nqm", "--optimizer", "sgd", "--batch", "8", option, value], 2);
        assert_eq!(error["where"].as_str(), Some(&option[2..]), "{error}");
    }
    refused(&["nqm", "--optimizer", "sgd", "--batch", "8,0"], 2);
    refused(&["nqm", "--optimizer", "adam", "--batch", "8"], 2);
    let error = refused(&["dawnbench", "none.tsv"], 1);
    assert_eq!(error["where"], "none.tsv");
}

/// Records are text: a folder that they could not name is refused as it is typed, not as the file that is missing then.
#[cfg(unix)]
#[test]
fn paths_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let here = folder();
    let name = std::ffi::OsStr::from_bytes(b"d\xe9j\xe0");
    for (command, option) in [("train", "--data"), ("train", "--init"), ("profile", "--data")] {
        let mut command = support::command(here.path(), &[command, "mnist-cnn", "--json", option]);
        let output = command.arg(name).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(2));
        let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let error = &found["error"];
        assert_eq!((&error["what"], &error["where"]), (&"path is no text".into(), &option.into()), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("rename it")), "{error}");
    }
    assert!(contents(here.path()).is_empty());
}

/// A result that did not arrive is no success, whoever printed it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_an_error() {
    let here = folder();
    let full = |words: &[&str]| {
        let device = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let output =
            support::command(here.path(), words).stdout(device).output().expect("the command starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let record = tiny(&["--target", "none", "--out", "run", "--json"]);
    for words in [
        &record[..],
        &["eval", "run", "--split", "val"],
        &["rerun", "run", "--json"],
        &["workloads"],
        &["workloads", "shapes-cnn"],
        &["data", "list", "--json"],
        &["ceiling", "--peak", "1"],
        &["study", "new"],
        &["report", "run"],
        &["train", "--help"],
        &["--version"],
    ] {
        let (code, stderr) = full(words);
        assert_eq!(code, Some(1), "{words:?}: {stderr}");
        assert!(
            stderr.contains("stdout: the result could not be printed: No space left"),
            "{words:?}: {stderr}"
        );
    }
    // The run itself is there, and a failure keeps its own code.
    assert!(
        fs::read_to_string(here.path().join("run/run.jsonl")).expect("a log").contains("\"line\":\"end\"")
    );
    let missed = tiny(&["--target", "val.loss<1e-9", "--out", "missed", "--json"]);
    assert_eq!(full(&missed).0, Some(3));
    // Whoever reads only the beginning has all that they wanted.
    let mut child = support::command(here.path(), &["workloads"]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().expect("the command starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
