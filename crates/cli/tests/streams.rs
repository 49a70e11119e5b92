//! Training on the user's own files end to end: a folder of images, tar shards near and far, what is said of them, and
//! evaluating what came of it.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::server::{Manners, Server};
use support::{folder, run};

/// Packs a few drawings into shards, in their own order or shuffled.
fn pack(into: &Path, more: &[&str]) {
    let out = into.to_str().expect("UTF-8");
    let sizes = ["--set", "train=130", "--set", "validation=40", "--set", "test=30"];
    let words = [&["data", "pack", "shapes", "--out", out][..], &sizes, more].concat();
    let done = run(Path::new("."), &words);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

const STAGES: &str =
    "pipeline.stages=[{shuffle={buffer=64}},{resize=32},{center-crop=32},{flip=\"random\"},{batch=20}]";

/// Trains a linear model for two epochs; the data section and stages are the caller's.
fn train(out: &Path, data: &str, more: &[&str]) -> Value {
    let out = out.to_str().expect("UTF-8");
    let data = format!("data={data}");
    let words = ["train", "shapes-cnn", "--set", "model={kind=\"softmax\"}", "--set", &data, "--set"];
    let rest = ["--epochs", "2", "--target", "none", "--json", "--out", out];
    let stages =
        if more.iter().any(|word| word.starts_with("pipeline.stages=")) { "run.threads=1" } else { STAGES };
    let done = run(Path::new("."), &[&words[..], &[stages], &rest, more].concat());
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    done.json()
}

fn losses(record: &Path) -> Vec<Value> {
    let log = fs::read_to_string(record.join("run.jsonl")).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["line"] == "evaluation").map(|line| line["loss"].clone()).collect()
}

fn quoted(path: &str) -> String {
    format!("{path:?}")
}

#[test]
fn shards_near_and_far_are_one_stream() {
    let work = folder();
    let shards = work.path().join("shards");
    pack(&shards, &[]);
    let data = |path: &str| format!("{{kind=\"webdataset\",path={},validation=0}}", quoted(path));
    let near = work.path().join("near");
    let result = train(&near, &data(shards.to_str().expect("UTF-8")), &[]);
    assert_eq!(result["position"]["fresh_examples"], 260);
    assert_eq!(result["final"]["split"], "val", "the split that the shards hold is evaluated: {result}");

    let files = fs::read_dir(&shards).expect("a folder").map(|entry| {
        let path = entry.expect("an entry").path();
        (path.file_name().expect("a name").to_string_lossy().to_string(), fs::read(&path).expect("readable"))
    });
    let server = Server::start(
        files.collect(),
        Manners { ranges: true, cuts: vec![150_000; 6], ..Manners::default() },
    );
    let address = server.address().trim_end_matches('/').to_string();
    // Front to back, a line that breaks once, held to a rate: the same examples in the same order.
    for (name, rate, more) in
        [("far", "", &[][..]), ("held", ",rate=\"4MiB\"", &["--set", "pipeline.threads=3"])]
    {
        let far = work.path().join(name);
        let there = data(&address).replace(",validation=0", &format!(",validation=0{rate}"));
        let result = train(&far, &there, more);
        assert_eq!(losses(&far), losses(&near), "{name}: {result}");
    }
    // Gzip is not read at random even here.
    let gzipped = work.path().join("gzipped");
    pack(&gzipped, &["--gzip"]);
    let packed = work.path().join("packed");
    train(&packed, &data(gzipped.to_str().expect("UTF-8")), &[]);
    assert_eq!(losses(&packed), losses(&near));

    let done = run(Path::new("."), &["eval", near.to_str().expect("UTF-8"), "--split", "val", "--json"]);
    let metrics = done.json();
    assert_eq!(metrics["metrics"]["loss"], result_of(&near)["final"]["loss"], "{metrics}");
}

fn result_of(record: &Path) -> Value {
    let log = fs::read_to_string(record.join("run.jsonl")).expect("a log");
    serde_json::from_str(log.lines().last().expect("lines")).expect("JSON")
}

#[test]
fn a_folder_of_images_and_what_is_said_of_it() {
    let work = folder();
    let (shards, images) = (work.path().join("shards"), work.path().join("images"));
    pack(&shards, &["--in-order"]);
    unpack(&shards, &images);
    fs::create_dir(images.join("train/zebra")).expect("an empty class");
    let data = |more: &str| {
        format!(
            "{{kind=\"image-folder\",path={},validation=0{more}}}",
            quoted(images.to_str().expect("UTF-8"))
        )
    };
    let record = work.path().join("folder");
    let result = train(&record, &data(""), &["--set", "pipeline.threads=2"]);
    let report = &result["data"];
    assert_eq!(report["class_hash"].as_str().map(str::len), Some(16), "{result}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("class zebra has no examples"), "{notes}");
    // Advice is made of what is recorded, and printed alone.
    let mut printed = result.clone();
    printed.as_object_mut().expect("an object").remove("advice").expect("advice");
    assert_eq!(printed, result_of(&record).without_line(), "what is printed is what is recorded");

    // The resolved plan trains again, and its weights are evaluated, to the same numbers.
    let plan = record.join("plan.toml");
    let again = work.path().join("again");
    let words = ["train", plan.to_str().expect("UTF-8"), "--json", "--out", again.to_str().expect("UTF-8")];
    assert_eq!(run(Path::new("."), &words).code, Some(0));
    assert_eq!(losses(&record), losses(&again));
    for (split, expect) in [("val", 40), ("test", 30), ("train", 130)] {
        let done = run(Path::new("."), &["eval", record.to_str().expect("UTF-8"), "--split", split]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stdout.contains(&format!("{split} ({expect} examples)")), "{}", done.stdout);
    }

    // Held out by rule where the folder has no split of its own.
    fs::remove_dir_all(images.join("val")).expect("removed");
    let held = work.path().join("held");
    let held_out = format!(
        "{{kind=\"image-folder\",path={},validation=30,rate=\"8MiB\"}}",
        quoted(images.to_str().expect("UTF-8"))
    );
    let result = train(&held, &held_out, &[]);
    assert_eq!(
        (&result["final"]["split"], &result["position"]["fresh_examples"]),
        (&"val".into(), &200.into())
    );
}

/// Notes of the pipeline: echo where it is pointless, duplicates in a batch, labels in runs.
#[test]
fn notes_are_printed_and_recorded() {
    let work = folder();
    let shards = work.path().join("shards");
    pack(&shards, &["--in-order"]);
    let sorted = work.path().join("sorted");
    sort_by_class(&shards, &sorted);
    let data =
        format!("{{kind=\"webdataset\",path={},validation=0}}", quoted(sorted.to_str().expect("UTF-8")));
    let stages = "pipeline.stages=[{shuffle={buffer=4}},{flip=\"random\"},{resize=32},{center-crop=32},{echo=3},{batch=20}]";
    let record = work.path().join("notes");
    let result = train(&record, &data, &["--set", stages]);
    let notes: Vec<&str> =
        result["data"]["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect();
    for part in ["labels come in runs", "repeats are equal", "a buffer after echo spreads them"] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
    }
    // 20 places show 7 or 8 examples of three uses each.
    let (duplicates, examples) = (&result["data"]["duplicates"], &result["position"]["examples"]);
    let share = duplicates.as_f64().expect("a number") / examples.as_f64().expect("a number");
    assert!((0.55..0.68).contains(&share), "{result}");
}

trait WithoutLine {
    fn without_line(self) -> Value;
}

impl WithoutLine for Value {
    /// The object without the key that says which line of a log it is.
    fn without_line(mut self) -> Value {
        self.as_object_mut().expect("an object").remove("line");
        self
    }
}

/// The members of a folder's shards: split, key, label and image.
fn members(shards: &Path) -> Vec<(String, String, usize, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(shards).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().to_string();
        let Some(split) = name.strip_suffix(".tar").and_then(|name| name.split('-').next()) else { continue };
        let mut archive = tar::Archive::new(fs::File::open(&path).expect("readable"));
        let (mut image, mut label) = (None, None);
        for member in archive.entries().expect("a tar") {
            let mut member = member.expect("a member");
            let name = member.path().expect("a name").display().to_string();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut member, &mut bytes).expect("readable");
            match name.rsplit_once('.').expect("a field") {
                (_, "cls") => label = String::from_utf8(bytes).expect("UTF-8").trim().parse().ok(),
                _ => image = Some((name.clone(), bytes)),
            }
            if let (Some((name, bytes)), Some(class)) = (&image, label) {
                let key = name.split('.').next().unwrap_or_default().to_string();
                all.push((split.to_string(), key, class, bytes.clone()));
                (image, label) = (None, None);
            }
        }
    }
    all
}

/// Shards as a folder of images.
fn unpack(shards: &Path, into: &Path) {
    for (split, key, class, bytes) in members(shards) {
        let folder = into.join(&split).join(format!("class-{class}"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("{key}.png")), bytes).expect("written");
    }
}

/// The same shards with all examples of a class behind one another.
fn sort_by_class(shards: &Path, into: &Path) {
    fs::create_dir(into).expect("a folder");
    let mut all = members(shards);
    all.sort_by(|a, b| (&a.0, a.2, &a.1).cmp(&(&b.0, b.2, &b.1)));
    for split in ["train", "val"] {
        let mut builder =
            tar::Builder::new(fs::File::create(into.join(format!("{split}-0.tar"))).expect("a file"));
        for (_, key, class, bytes) in all.iter().filter(|(of, ..)| of == split) {
            for (field, content) in [("png", &bytes[..]), ("cls", class.to_string().as_bytes())] {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                header.set_cksum();
                builder.append_data(&mut header, format!("{key}.{field}"), content).expect("written");
            }
        }
        builder.into_inner().expect("written");
    }
}

/// Series whose plans say less than their records do: how many images there are, and what measuring chose.
#[test]
fn series_on_own_images_and_tuned_ones_go_on() {
    let work = folder();
    let (shards, images) = (work.path().join("shards"), work.path().join("images"));
    pack(&shards, &["--in-order"]);
    unpack(&shards, &images);
    let own = format!(
        "data={{kind=\"image-folder\",path={},validation=0}}",
        quoted(images.to_str().expect("UTF-8"))
    );
    let drawn = "data={kind=\"shapes\",train=130,validation=40,test=30}".to_string();
    let tuned = vec![&*drawn, "pipeline.stages.batch=20", "pipeline.tune=2"];
    for (name, settings) in [("own", vec![&*own, STAGES]), ("tuned", tuned)] {
        let series = |more: &[&str]| {
            let mut words = vec!["train", "shapes-cnn", "--seeds", "1..3", "--out", name, "--target", "none"];
            words.extend(["--epochs", "2", "--threads", "1", "--json", "--set", "model={kind=\"softmax\"}"]);
            settings.iter().chain(more).for_each(|setting| words.extend(["--set", setting]));
            run(work.path(), &words)
        };
        let first = series(&[]);
        assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
        let first = first.json();
        let reading = |seed: usize| first["runs"][seed]["stages"]["decode"].as_f64().expect("seconds");
        if name == "tuned" {
            assert!(reading(0) > 0.0 && reading(1) == 0.0, "drawn once: {first}");
        }
        // One that is gone and one that was cut off in the middle are made again.
        fs::remove_dir_all(work.path().join(name).join("seed-2")).expect("removed");
        let log = work.path().join(name).join("seed-3/run.jsonl");
        let bytes = fs::read(&log).expect("a log");
        fs::write(&log, &bytes[..bytes.len() / 2]).expect("cut");
        let again = series(&[]);
        assert_eq!(again.code, Some(0), "{}{}", again.stdout, again.stderr);
        assert_eq!(again.json()["final"], first["final"]);
        let other = series(&["schedule.learning_rate=0.01"]);
        assert_eq!(other.code, Some(1), "{}", other.stdout);
        let expected = other.error()["expected"].to_string();
        assert!(expected.contains("schedule.learning_rate = 0.01"), "{expected}");
    }
}

/// Sends Ctrl-C to a command that waits for a server, and returns its exit code, result and what it said; it must not wait
/// for the server's silence to be long enough.
fn interrupted(child: std::process::Child) -> (Option<i32>, Value, String) {
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let sent = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    let (took, stderr) = (sent.elapsed(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(took < Duration::from_secs(10), "{took:?}: {stderr}");
    (output.status.code(), serde_json::from_slice(output.stdout.trim_ascii()).expect("JSON"), stderr)
}

/// A command in the background, once something holds.
fn started(words: &[&str], mut holds: impl FnMut(u32) -> bool) -> std::process::Child {
    let mut command = support::command(Path::new("."), words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds(child.id()) {
        assert!(Instant::now() < deadline, "it does not come to the place");
        std::thread::yield_now();
    }
    child
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_does_not_wait_for_a_silent_server() {
    let work = folder();
    let out = work.path().join("run");
    let words = |address: &str| -> Vec<String> {
        let data = format!("data={{kind=\"webdataset\",path={},validation=0}}", quoted(address));
        let fixed =
            ["train", "shapes-cnn", "--set", "model={kind=\"softmax\"}", "--set", STAGES, "--target", "none"];
        let more = ["--json", "--out", out.to_str().expect("UTF-8"), "--set", &data];
        fixed.iter().chain(&more).map(ToString::to_string).collect()
    };
    // It takes the connection and says nothing: there is no run yet.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let loading = words(&format!("http://{}", silent.local_addr().expect("an address")));
    let loading: Vec<&str> = loading.iter().map(String::as_str).collect();
    let child = started(&loading, |_| silent.accept().is_ok());
    let (code, result, _) = interrupted(child);
    assert_eq!((code, &result["error"]["what"]), (Some(130), &"interrupted before the run began".into()));
    assert!(!out.exists());

    // It falls silent in the middle of a shard: the run ends as interrupted, and can go on.
    let shards = work.path().join("shards");
    pack(&shards, &[]);
    let files = fs::read_dir(&shards).expect("a folder").map(|entry| {
        let path = entry.expect("an entry").path();
        (path.file_name().expect("a name").to_string_lossy().to_string(), fs::read(&path).expect("readable"))
    });
    let server = Server::start(files.collect(), Manners { stalls: Some(300_000), ..Manners::default() });
    let training = words(server.address().trim_end_matches('/'));
    let training: Vec<&str> = training.iter().map(String::as_str).collect();
    let child = started(&training, |_| out.join("run.jsonl").metadata().is_ok_and(|log| log.len() > 0));
    let (code, result, stderr) = interrupted(child);
    assert_eq!((code, &result["status"]), (Some(130), &"interrupted".into()), "{result} {stderr}");
    assert!(out.join("checkpoint").exists());
}

/// A bad image ends a run that fails on such, and the run goes on without it as if it had left it out from the start.
#[test]
fn a_run_that_a_bad_image_ended_goes_on_without_it() {
    let work = folder();
    let (shards, images) = (work.path().join("shards"), work.path().join("images"));
    pack(&shards, &["--in-order"]);
    unpack(&shards, &images);
    let victim = fs::read_dir(images.join("train/class-3")).expect("a folder").next().expect("an image");
    fs::write(victim.expect("an entry").path(), "no image").expect("written");
    let data = format!(
        "data={{kind=\"image-folder\",path={},validation=0}}",
        quoted(images.to_str().expect("UTF-8"))
    );
    let train = |name: &str, more: &[&str]| {
        let words =
            ["train", "shapes-cnn", "--set", "model={kind=\"softmax\"}", "--set", &data, "--set", STAGES];
        let rest = ["--epochs", "2", "--target", "none", "--out", name];
        run(work.path(), &[&words[..], &rest, more].concat())
    };
    let failed = train("failed", &[]);
    assert_eq!(failed.code, Some(1), "{}", failed.stdout);
    assert!(failed.stderr.contains("on_bad"), "{}", failed.stderr);
    let resumed = run(work.path(), &["train", "--resume", "failed", "--set", "pipeline.on_bad=skip"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(resumed.stdout.contains("1 bad example"), "{}", resumed.stdout);
    let whole = train("whole", &["--set", "pipeline.on_bad=skip"]);
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    let weights = |name: &str| fs::read(work.path().join(name).join("weights.safetensors")).expect("weights");
    assert!(weights("failed") == weights("whole"));
}

/// What cannot be had from a server has nothing to do with permissions.
#[test]
fn servers_without_the_file_get_a_hint_of_their_own() {
    let server = Server::start(Vec::new(), Manners::default());
    let done = run(Path::new("."), &["data", "stat", "webdataset", server.address().trim_end_matches('/')]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("is the address right"), "{}", done.stderr);
    assert!(!done.stderr.contains("permission"), "{}", done.stderr);
    assert_eq!(done.stderr.matches("404").count(), 1, "{}", done.stderr);
}
