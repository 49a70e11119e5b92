//! Studies end to end, with trials that are commands: interrupted anywhere, extended, reported, exported.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

fn sooner() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sooner"));
    command.current_dir(root());
    command
}

fn study(words: &[&str]) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } =
        sooner().arg("study").args(words).arg("--json").output().expect("the command starts");
    let text = String::from_utf8(stdout).expect("UTF-8");
    let last = text.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&stderr)));
    (status.code(), serde_json::from_str(last).expect("one JSON object on the last line"))
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// A study of shell commands: `body` prints measurements; {n} and {x} are its axis and metaparameter.
fn define(folder: &Path, trials: u32, body: &str) -> String {
    let file = path(folder, "study.toml");
    let text = format!(
        "name = \"commands\"\ntarget = \"val.error<0.5\"\ntrials = {trials}\n[axes]\nn = [1, 2]\n[exec]\ncommand = [\"sh\", \
         \"-c\", '''{body}''']\ntime_limit = 60.0\n[[tune]]\nname = \"x\"\nrange = {{ kind = \"integer\", min = 1, max = 9, \
         scale = \"linear\" }}\n"
    );
    std::fs::write(&file, text).expect("a file");
    file
}

#[test]
fn a_plain_script_is_studied_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (dir, copy, export) =
        (path(folder.path(), "plain"), path(folder.path(), "copy"), path(folder.path(), "plain.jsonl"));
    let (code, made) = study(&["new", "examples/exec-study/plain.toml", "--out", &dir]);
    assert_eq!(
        (code, made["points"].as_u64(), made["trials"].as_u64()),
        (Some(0), Some(4), Some(32)),
        "{made}"
    );
    let (code, ran) = study(&["run", &dir, "--workers", "2"]);
    assert_eq!((code, ran["finished"].as_bool()), (Some(0), Some(true)), "{ran}");
    let points = ran["points"].as_array().expect("points");
    for point in points {
        let counted =
            point["complete"].as_u64().expect("a count") + point["censored"].as_u64().expect("a count");
        assert_eq!(counted, 8, "as many feasible trials at each point: {point}");
    }
    let lost: u64 = points.iter().map(|p| p["diverged"].as_u64().expect("a count")).sum();
    assert!(lost > 0, "rates up to 4 diverge, and are kept: {ran}");
    let needed: Vec<f64> = points.iter().filter_map(|p| p["updates_to_target"].as_f64()).collect();
    assert!(needed.len() == 4 && needed[0] > needed[3], "larger batches need fewer updates: {needed:?}");

    let before = study(&["status", &dir]).1;
    let (code, again) = study(&["run", &dir]);
    assert_eq!((code, again["ran"].as_u64()), (Some(0), Some(0)), "a finished study does nothing");
    assert_eq!(study(&["status", &dir]).1, before);

    assert_eq!(study(&["export", &dir, "--out", &export]).0, Some(0));
    assert_eq!(study(&["import", &export, "--out", &copy]).0, Some(0));
    let mut same = study(&["status", &copy]).1;
    same["ran"] = before["ran"].clone();
    assert_eq!(same, before, "an import is the study");

    let page = path(folder.path(), "page.html");
    let (code, written) = study(&["report", &copy, "--out", &page, "--assets"]);
    assert_eq!(code, Some(0), "{written}");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("B_crit") && html.contains("<svg") && !html.contains("<script"));
    let csv = std::fs::read_to_string(folder.path().join("page-assets/updates.csv")).expect("a CSV file");
    assert_eq!(csv.lines().count(), 5, "{csv}");

    let (code, more) = study(&["run", &dir, "--trials", "9", "--workers", "2"]);
    assert_eq!((code, more["finished"].as_bool()), (Some(0), Some(true)));
    assert!(more["ran"].as_u64().expect("a count") >= 4, "one more at each of four points: {more}");
}

#[test]
fn a_study_is_given_more_points_and_another_budget() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    let file = define(folder.path(), 2, "echo \"{{\\\"updates\\\": {x}, \\\"val.error\\\": 0.{n}5}}\"");
    let text = std::fs::read_to_string(&file).expect("the file").replace("val.error<0.5", "val.error<0.2");
    std::fs::write(&file, &text).expect("a file");
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    assert_eq!(study(&["run", &dir]).1["ran"].as_u64(), Some(4));
    let states = |status: &Value| -> Vec<[Option<u64>; 2]> {
        let points = status["points"].as_array().expect("points");
        points.iter().map(|p| ["complete", "censored"].map(|key| p[key].as_u64())).collect()
    };
    assert_eq!(states(&study(&["status", &dir]).1), [[Some(2), Some(0)], [Some(0), Some(2)]]);

    let (code, twice) = study(&["new", &file, "--out", &dir]);
    assert_eq!(code, Some(1));
    assert!(twice["error"]["hint"].as_str().is_some_and(|hint| hint.contains("--extend")), "{twice}");
    let page = path(folder.path(), "page.html");
    let (code, other) = study(&["report", &dir, "--out", &page, "--target", "val.foo<1"]);
    assert_eq!((code, other["error"]["expected"].as_str()), (Some(2), Some("one of val.error")), "{other}");

    let more = text.replace("n = [1, 2]", "n = [1, 2, 3]") + "[budget]\nupdates = 50\n";
    std::fs::write(&file, more).expect("a file");
    let (code, made) = study(&["new", &file, "--out", &dir, "--extend"]);
    assert_eq!((code, made["points"].as_u64()), (Some(0), Some(3)), "{made}");
    let cut = made["cut_by_another_budget"].as_array().expect("a list");
    assert!(cut.len() == 1 && cut[0].as_str().is_some_and(|label| label.contains('2')), "{made}");
    assert_eq!(study(&["run", &dir]).1["ran"].as_u64(), Some(2), "the new point's trials alone");

    // Another target judges the trials that are there: 0.15 and 0.25 meet it, 0.35 does not.
    let looser = std::fs::read_to_string(&file).expect("the file").replace("val.error<0.2", "val.error<0.3");
    std::fs::write(&file, looser).expect("a file");
    let (code, made) = study(&["new", &file, "--out", &dir, "--extend"]);
    assert_eq!((code, made["judged_by_another_target"].as_str()), (Some(0), Some("val.error<0.2")), "{made}");
    let judged = states(&study(&["status", &dir]).1);
    assert_eq!(judged, [[Some(2), Some(0)], [Some(2), Some(0)], [Some(0), Some(2)]]);

    // An export tells how much of it is new where it comes in.
    let text = path(folder.path(), "s.jsonl");
    assert_eq!(study(&["export", &dir, "--out", &text]).0, Some(0));
    let other = path(folder.path(), "other");
    let new = |(code, told): (Option<i32>, Value)| (code, told["trials"].as_u64(), told["new"].as_u64());
    assert_eq!(new(study(&["import", &text, "--out", &other])), (Some(0), Some(6), Some(6)));
    assert_eq!(new(study(&["import", &text, "--out", &other])), (Some(0), Some(6), Some(0)));
}

#[test]
fn what_a_killed_new_left_is_no_study_and_in_nobodys_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    let file = define(folder.path(), 8, "echo \"{{\\\"updates\\\": 5, \\\"val.error\\\": 0.1}}\"");
    std::fs::create_dir(&dir).expect("a folder");
    for left in ["study.db.begun", "study.db.begun-wal"] {
        std::fs::write(folder.path().join("s").join(left), [0; 4096]).expect("a file");
    }
    assert_eq!(study(&["status", &dir]).0, Some(1));
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    let names: Vec<_> =
        std::fs::read_dir(&dir).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("begun")), "{names:?}");

    // A page of a study that has only begun draws no conclusions.
    let export = path(folder.path(), "s.jsonl");
    assert_eq!(study(&["run", &dir, "--trials", "1"]).0, Some(0));
    assert_eq!(study(&["new", &file, "--out", &dir, "--extend"]).0, Some(0));
    assert_eq!(study(&["export", &dir, "--out", &export]).0, Some(0));
    let page = path(folder.path(), "page.html");
    assert_eq!(study(&["report", &export, "--out", &page]).0, Some(0));
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("Not finished") && !html.contains("∞ times"), "{html}");
}

#[test]
fn commands_that_fail_are_kept_and_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    let body = "echo trial {trial} >&2; if [ {trial} = 0 ]; then exit 3; fi; \
                echo \"{{\\\"updates\\\": {x}, \\\"val.error\\\": 0.4}}\"; sleep 600";
    let file = define(folder.path(), 2, body);
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    let start = Instant::now();
    let (code, ran) = study(&["run", &dir, "--workers", "4"]);
    assert_eq!((code, ran["finished"].as_bool()), (Some(0), Some(true)), "{ran}");
    assert!(start.elapsed() < Duration::from_secs(50), "settled trials end at once, their children too");
    for point in ran["points"].as_array().expect("points") {
        assert_eq!((point["failed"].as_u64(), point["complete"].as_u64()), (Some(1), Some(2)), "{point}");
    }
    let log = std::fs::read_to_string(folder.path().join("s/trials/0-0-1/stderr.log")).expect("a log");
    assert_eq!(log, "trial 0\n");
    let export = path(folder.path(), "s.jsonl");
    study(&["export", &dir, "--out", &export]);
    let text = std::fs::read_to_string(export).expect("an export");
    assert!(text.contains("exit status: 3"), "{text}");
}

#[test]
fn the_best_trials_run_again_over_seeds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (dir, copy, other, export) = (
        path(folder.path(), "s"),
        path(folder.path(), "c"),
        path(folder.path(), "o"),
        path(folder.path(), "s.jsonl"),
    );
    // Points 2 and 3 repeat the best of 0 and 1; the second run of each misses the target.
    let body = "e=0.4; if [ {point} -ge 2 ] && [ {trial} = 1 ]; then e=0.6; fi; \
                echo \"{{\\\"updates\\\": {x}, \\\"val.error\\\": $e}}\"";
    let file = define(folder.path(), 3, body);
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    assert_eq!(study(&["new", &file, "--out", &other]).0, Some(0));
    let (code, ran) = study(&["run", &dir, "--workers", "2"]);
    assert_eq!((code, ran["ran"].as_u64()), (Some(0), Some(6)), "{ran}");
    let (code, ran) = study(&["run", &dir, "--workers", "2", "--confirm", "3"]);
    assert_eq!(
        (code, ran["ran"].as_u64(), ran["finished"].as_bool()),
        (Some(0), Some(6), Some(true)),
        "{ran}"
    );
    let points = ran["points"].as_array().expect("points");
    assert_eq!(points.len(), 4, "{ran}");
    for (search, again) in [(0, 2), (1, 3)] {
        let trial = &points[search]["best_trial"];
        let label = points[again]["label"].as_str().expect("a label");
        assert!(label.ends_with(&format!("trial {trial} over seeds")), "{label}");
        assert_eq!(
            points[again]["updates_to_target"], points[search]["updates_to_target"],
            "the same metaparameters"
        );
        assert_eq!(
            (points[again]["complete"].as_u64(), points[again]["censored"].as_u64()),
            (Some(2), Some(1))
        );
    }
    assert_eq!(study(&["run", &dir]).1["ran"].as_u64(), Some(0), "a finished study does nothing");
    let before = study(&["status", &dir]).1;
    let page = path(folder.path(), "page.html");
    assert_eq!(study(&["report", &dir, "--out", &page]).0, Some(0));
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("<td>2 of 3</td><td>0.0943 to 0.992</td>"), "{html}");

    assert_eq!(study(&["export", &dir, "--out", &export]).0, Some(0));
    assert_eq!(study(&["import", &export, "--out", &copy]).0, Some(0));
    assert_eq!(study(&["status", &copy]).1, before, "an import is the study, runs over seeds and all");
    assert_eq!(
        study(&["import", &export, "--out", &other]).0,
        Some(0),
        "also into one that has none of them"
    );
    assert_eq!(study(&["status", &other]).1["points"][3]["complete"].as_u64(), Some(2));
    // More trials may find a better one; it is repeated too, and what was found before stays.
    let (code, more) = study(&["run", &copy, "--trials", "6", "--workers", "2"]);
    assert_eq!((code, more["finished"].as_bool()), (Some(0), Some(true)), "{more}");
    assert!(more["ran"].as_u64().expect("a count") >= 6, "{more}");
}

/// Waits for a condition, at most a minute.
fn wait_for(what: &str, holds: &mut dyn FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_driver_or_worker_loses_only_what_was_running() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    // The first attempt of trial 1 of each point waits to be killed; all others end by themselves.
    let body = "echo $$ > \"$PLACE/{point}-{trial}-{attempt}\"; if [ {trial}{attempt} = 11 ]; then exec sleep 600; fi; \
                echo \"{{\\\"updates\\\": {x}, \\\"val.error\\\": 0.4}}\"";
    let file = define(folder.path(), 3, body);
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    let place = folder.path().join("pids");
    std::fs::create_dir(&place).expect("a folder");
    let start = || -> Child {
        sooner()
            .args(["study", "run", &dir, "--workers", "3", "--json"])
            .env("PLACE", &place)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts")
    };
    let kill = |pid: &str| {
        let status = Command::new("kill").args(["-9", pid]).status().expect("kill");
        assert!(status.success());
    };
    let mut driver = start();
    let waiting = |name: &str| std::fs::read_to_string(place.join(name)).ok().filter(|t| t.ends_with('\n'));
    wait_for("both first trials to hang", &mut || waiting("0-1-1").is_some() && waiting("1-1-1").is_some());
    wait_for("the other trials", &mut || {
        study(&["status", &dir]).1["points"]
            .as_array()
            .is_some_and(|points| points.iter().all(|p| p["complete"].as_u64() == Some(2)))
    });
    // One worker's command is killed: the driver leases its trial again.
    kill(waiting("0-1-1").expect("a pid").trim());
    wait_for("a second attempt", &mut || waiting("0-1-2").is_some());
    wait_for("its result", &mut || study(&["status", &dir]).1["points"][0]["complete"].as_u64() == Some(3));
    // The driver is killed: the next one sees at once that it is gone.
    driver.kill().expect("killed");
    driver.wait().expect("waited for");
    kill(waiting("1-1-1").expect("a pid").trim());
    let before = study(&["status", &dir]).1;
    let of = |state: &str| before["points"][1][state].as_u64();
    let lost = (of("running"), of("interrupted"));
    assert_eq!(lost, (Some(0), Some(1)), "its trial is still leased, and nobody runs it: {before}");
    let begun = Instant::now();
    let output = start().wait_with_output().expect("the second driver ends");
    assert!(begun.elapsed() < Duration::from_secs(45), "it did not wait for the lease to run out");
    let ran: Value = serde_json::from_slice(output.stdout.trim_ascii()).expect("one JSON object");
    assert_eq!(
        (ran["finished"].as_bool(), ran["ran"].as_u64()),
        (Some(true), Some(1)),
        "only the lost trial: {ran}"
    );
    assert!(waiting("1-1-2").is_some(), "under a new attempt");
}

/// What a driver that is told to end lets go is no longer running, and one at work is.
#[test]
fn status_tells_running_from_interrupted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    let file = define(folder.path(), 1, "echo {x} > \"$PLACE/{point}\"; exec sleep 600");
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    let driver = sooner()
        .args(["study", "run", &dir, "--workers", "2"])
        .env("PLACE", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    wait_for("both trials", &mut || ["0", "1"].iter().all(|name| folder.path().join(name).exists()));
    let counts = |status: &Value| -> Vec<(u64, u64)> {
        let points = status["points"].as_array().expect("points");
        let of = |point: &Value, state: &str| point[state].as_u64().expect("a count");
        points.iter().map(|point| (of(point, "running"), of(point, "interrupted"))).collect()
    };
    assert_eq!(counts(&study(&["status", &dir]).1), [(1, 0), (1, 0)]);
    Command::new("kill").args(["-INT", &driver.id().to_string()]).status().expect("kill starts");
    let output = driver.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("running interrupted") && table.contains("       0           1  no trial yet"),
        "{table}"
    );
    assert_eq!(counts(&study(&["status", &dir]).1), [(0, 1), (0, 1)]);
}

/// The command as somebody who may write nothing in the folder; none where there is no way to be such a one.
#[cfg(unix)]
fn as_reader(folder: &Path) -> Option<Command> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let mode =
        |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("allowed");
    mode(folder.parent().expect("a folder above"), 0o755);
    for entry in std::fs::read_dir(folder).expect("a folder").flatten().filter(|e| e.path().is_file()) {
        mode(&entry.path(), 0o444);
    }
    mode(folder, 0o555);
    if std::fs::write(folder.join("probe"), "").is_err() {
        return Some(sooner());
    }
    // Whoever may write everywhere can become somebody who may not.
    std::fs::remove_file(folder.join("probe")).expect("removed");
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let can =
        Command::new("setpriv").args(nobody).arg(env!("CARGO_BIN_EXE_sooner")).arg("--version").output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: everything can be written here");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(env!("CARGO_BIN_EXE_sooner")).current_dir("/");
    Some(command)
}

#[cfg(unix)]
#[test]
fn a_study_that_cannot_be_written_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    let file = define(folder.path(), 2, "echo \"{{\\\"updates\\\": {x}, \\\"val.error\\\": 0.4}}\"");
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    assert_eq!(study(&["run", &dir]).0, Some(0));
    let expected = study(&["status", &dir]).1;
    let out = folder.path().join("out");
    std::fs::create_dir(&out).expect("a folder");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o777)).expect("allowed");
    let page = path(&out, "page.html");
    for words in [vec!["status", &dir, "--json"], vec!["report", &dir, "--out", &page], vec!["export", &dir]]
    {
        let Some(mut command) = as_reader(Path::new(&dir)) else { return };
        let output = command.arg("study").args(&words).output().expect("the command starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{words:?}");
        if words[0] == "status" {
            let status: Value = serde_json::from_slice(output.stdout.trim_ascii()).expect("one JSON object");
            assert_eq!(status, expected);
        }
    }
    assert!(std::fs::read_to_string(&page).expect("a page").contains("</html>"));
    // Running it needs more.
    let Some(mut command) = as_reader(Path::new(&dir)) else { return };
    let output = command.args(["study", "run", &dir, "--trials", "3"]).output().expect("the command starts");
    assert_eq!(output.status.code(), Some(1));
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).expect("allowed");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = path(folder.path(), "s");
    let (code, error) = study(&["new", "minst-batch", "--out", &dir]);
    assert_eq!(code, Some(2));
    assert!(error["error"]["hint"].as_str().is_some_and(|h| h.contains("mnist-batch")), "{error}");
    assert_eq!(study(&["run", &dir]).0, Some(1), "there is no study");
    let file = define(folder.path(), 1, "echo {y}");
    let (code, error) = study(&["new", &file, "--out", &dir]);
    assert_eq!(code, Some(2), "{error}");
    assert!(!Path::new(&dir).exists(), "nothing is left behind");
    let file = define(folder.path(), 1, "echo {x}");
    assert_eq!(study(&["new", &file, "--out", &dir]).0, Some(0));
    assert_ne!(study(&["new", &file, "--out", &dir]).0, Some(0), "a study is not overwritten");
}

/// A workload of the published layout: two trials at each batch size, one more that diverged.
fn publish(top: &Path) {
    for batch in [64u64, 128, 256] {
        let folder = top.join(format!("mnist/simple_cnn_base/sgd/{batch}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let study = format!(
            r#"{{"batch_size": {batch}, "dataset": "mnist", "model": "simple_cnn_base", "optimizer": "sgd",
            "early_stopping": false, "train_steps": 1000, "parameter_configs": {{"learning_rate": {{"type": "DOUBLE",
            "min_value": 0.0001, "max_value": 10.0, "scale": "LOG_SCALE"}}}}}}"#
        );
        std::fs::write(folder.join("study.json"), study).expect("a file");
        for trial in 1..=3u64 {
            let status = if trial == 3 { "INFEASIBLE" } else { "COMPLETE" };
            let folder = folder.join(trial.to_string());
            std::fs::create_dir(&folder).expect("a folder");
            let metadata = format!(
                r#"{{"trial_id": {trial}, "steps": 1000, "status": "{status}", "parameters": {{"learning_rate": 0.{trial}}}}}"#
            );
            std::fs::write(folder.join("metadata.json"), metadata).expect("a file");
            let met = 100 * trial + 6400 / batch;
            let measured = format!(
                "step,val/classification_error,val/cross_entropy_error\n0,0.9,2.3\n{met},0.009,0.02\n1000,0.008,\n"
            );
            std::fs::write(folder.join("measurements.csv"), measured).expect("a file");
        }
    }
}

#[test]
fn published_data_is_read_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    publish(&folder.path().join("batch_science"));
    let (from, dir) = (path(folder.path(), "batch_science"), path(folder.path(), "s"));
    let (code, made) = study(&["import", "--format", "batch-science", &from, "--out", &dir]);
    assert_eq!(
        (code, made["points"].as_u64(), made["trials"].as_u64()),
        (Some(0), Some(3), Some(9)),
        "{made}"
    );
    let status = study(&["status", &dir]).1;
    assert_eq!(status["target"], "val.classification_error<0.01", "the paper's own target");
    let needed: Vec<f64> = status["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|p| p["updates_to_target"].as_f64().expect("reached"))
        .collect();
    assert_eq!(needed, [200.0, 150.0, 125.0]);
    let page = path(folder.path(), "page.html");
    assert_eq!(study(&["report", &dir, "--out", &page]).0, Some(0));
    // The workload's own folder may be given as well.
    let (inner, other) = (path(folder.path(), "batch_science/mnist"), path(folder.path(), "t"));
    assert_eq!(study(&["import", "--format", "batch-science", &inner, "--out", &other]).0, Some(0));
    assert_eq!(study(&["import", "--format", "odd", &inner, "--out", &other]).0, Some(2));
}

const NATIVE: &str = r#"
name = "native"
workload = "shapes-cnn"
target = "val.accuracy>=0.15"
trials = 3
[axes]
batch = [16, 64]
[set]
data.train = 400
data.validation = 100
data.test = 100
model.kind = "softmax"
schedule.kind = "constant"
schedule.learning_rate = 0.1
run.evaluate = "geometric"
[budget]
updates = 40
[[tune]]
name = "learning_rate"
range = { kind = "real", min = 0.0001, max = 0.01, scale = "log" }
"#;

#[test]
fn trials_of_a_workload_share_its_data_and_repeat_exactly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = path(folder.path(), "native.toml");
    std::fs::write(&file, NATIVE).expect("a file");
    let results = ["one", "two"].map(|name| {
        let dir = path(folder.path(), name);
        let (code, made) = study(&["new", &file, "--out", &dir]);
        assert_eq!(code, Some(0), "{made}");
        assert!(
            made["most_core_hours"].as_f64().is_some_and(|h| h > 0.0 && h < 1.0),
            "its cost is told: {made}"
        );
        let workers = if name == "one" { "1" } else { "3" };
        let (code, ran) = study(&["run", &dir, "--workers", workers]);
        assert_eq!((code, ran["finished"].as_bool()), (Some(0), Some(true)), "{ran}");
        assert!(!folder.path().join(name).join("trials/0-0-1").exists(), "records of trials go unless kept");
        ran["points"].clone()
    });
    assert_eq!(results[0], results[1], "whoever runs them, trials come out the same");
    let export = path(folder.path(), "x.jsonl");
    assert_eq!(study(&["export", &path(folder.path(), "one"), "--out", &export]).0, Some(0));
    let text = std::fs::read_to_string(export).expect("an export");
    let most = text.matches("\"updates\":40,").count() + text.matches("\"state\":\"complete\"").count();
    assert!(most >= 6, "every trial met the target or used its whole budget of 40 updates: {text}");
    assert!(!text.contains("\"updates\":41,"));
}
