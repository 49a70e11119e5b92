//! Data at the door: files that are not what they should be, sets of other sizes, and `sooner data`.

mod support;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use support::server::{Manners, Server};
use support::{contents, folder, run};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn images(count: u32) -> Vec<u8> {
    let header = [0x803, count, 28, 28].map(u32::to_be_bytes).concat();
    [header, (0..count * 784).map(|i| (i * 7 % 253) as u8).collect()].concat()
}

fn labels(count: u32) -> Vec<u8> {
    let header = [0x801, count].map(u32::to_be_bytes).concat();
    [header, (0..count).map(|i| (i % 10) as u8).collect()].concat()
}

const FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

fn write_set(folder: &Path, train: u32, test: u32) {
    for (name, bytes) in FILES.iter().zip([images(train), labels(train), images(test), labels(test)]) {
        fs::write(folder.join(name), bytes).expect("written");
    }
}

/// A run of a second on the files of a folder.
const RUN: [&str; 8] =
    ["train", "mnist-cnn", "--set", "model={kind=\"softmax\"}", "--epochs", "1", "--json", "--data"];

fn train(data: &Path, out: &Path, more: &[&str]) -> support::Done {
    let (data, out) = (data.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    let words: Vec<&str> =
        RUN.iter().copied().chain([data, "--out", out]).chain(more.iter().copied()).collect();
    run(Path::new("."), &words)
}

#[test]
fn malformed_files_end_the_run_before_it_begins() {
    let check = |file: &str, change: &dyn Fn(&Path), offset: Option<u64>, what: &str| {
        let data = folder();
        write_set(data.path(), 70, 30);
        let path = data.path().join(file);
        change(&path);
        let out = folder();
        let done = train(
            data.path(),
            &out.path().join("run"),
            &["--set", "data.validation=20", "--set", "pipeline.stages.batch=10"],
        );
        assert_eq!(done.code, Some(1), "{what}: {}{}", done.stdout, done.stderr);
        let error = done.error();
        let place = error["where"].as_str().unwrap_or_default();
        assert!(place.starts_with(path.to_str().expect("UTF-8")) || offset.is_none(), "{what}: {error}");
        if let Some(offset) = offset {
            assert!(place.ends_with(&format!("byte {offset}")), "{what}: {error}");
        }
        assert!(contents(out.path()).is_empty(), "{what} left {:?}", contents(out.path()));
    };
    let write = |bytes: Vec<u8>| move |path: &Path| fs::write(path, &bytes).expect("written");
    let with = |mut bytes: Vec<u8>, at: usize, value: u8| {
        bytes[at] = value;
        bytes
    };
    let file = FILES[0];
    check(file, &|path| fs::remove_file(path).expect("removed"), None, "missing images");
    check(FILES[3], &|path| fs::remove_file(path).expect("removed"), None, "missing labels");
    check(file, &write(Vec::new()), Some(0), "empty");
    check(file, &write(images(70)[..10].to_vec()), Some(10), "cut in the header");
    check(file, &write(images(70)[..5000].to_vec()), Some(5000), "truncated");
    check(file, &write([images(70), vec![0]].concat()), Some(16 + 70 * 784), "oversized");
    check(file, &write(with(images(70), 3, 1)), Some(0), "wrong magic");
    check(file, &write(with(images(70), 2, 9)), Some(0), "wrong type");
    check(file, &write(with(images(70), 11, 27)), Some(8), "wrong extent");
    check(file, &write(with(images(70), 4, 0xff)), Some(4), "absurd count");
    check(file, &write(with(images(70), 7, 0)), Some(4), "no images");
    check(FILES[1], &write(labels(69)), Some(4), "a label too few");
    check(FILES[1], &write(with(labels(70), 8 + 5, 10)), Some(13), "label out of range");
    check(FILES[3], &write(with(labels(30), 8, 255)), Some(8), "test label out of range");
    check(FILES[2], &write(gzip(&images(30))[..300].to_vec()), None, "gzip cut off");
}

#[test]
fn what_the_set_does_not_have_is_refused_as_usage() {
    let data = folder();
    write_set(data.path(), 70, 30);
    for (setting, place) in [
        ("data.validation=70", "data.validation"),
        ("data.validation=5000", "data.validation"),
        ("data.train=71", "data.train"),
        ("data.test=31", "data.test"),
        ("pipeline.stages.batch=71", "batch"),
    ] {
        let out = folder();
        let more: &[&str] = match setting {
            _ if setting.contains("validation") => &["--set", setting],
            _ => &["--set", setting, "--set", "data.validation=0", "--set", "run.target=none"],
        };
        let done = train(data.path(), &out.path().join("run"), more);
        assert_eq!(done.code, Some(2), "{setting}: {}{}", done.stdout, done.stderr);
        let error = done.error();
        assert!(error["where"].as_str().is_some_and(|found| found.contains(place)), "{setting}: {error}");
        assert!(contents(out.path()).is_empty());
    }
    let done = run(data.path(), &["train", "mnist-cnn", "--json"]);
    assert_eq!((done.code, done.error()["where"].as_str()), (Some(2), Some("data.path")));
    assert_eq!(contents(data.path()).len(), 4);
}

/// A set in MNIST's format that is larger than MNIST: validation and training may be larger than its authors' files.
#[test]
fn larger_sets_of_the_same_format_work() {
    let data = folder();
    write_set(data.path(), 65_000, 10_100);
    let out = folder();
    let more = [
        "--set",
        "data.validation=61000",
        "--set",
        "data.train=4000",
        "--set",
        "data.test=10050",
        "--target",
        "val.loss<1e9",
        "--set",
        "run.evaluate=epoch",
    ];
    let done = train(data.path(), &out.path().join("run"), &more);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let plan = fs::read_to_string(out.path().join("run/plan.toml")).expect("plan.toml");
    for line in ["train = 4000", "validation = 61000", "test = 10050"] {
        assert!(plan.contains(line), "{plan}");
    }
}

#[test]
fn sets_are_listed() {
    let here = folder();
    let list = run(here.path(), &["data", "list", "--json"]).json();
    let sets = list["sets"].as_array().expect("a list");
    let names: Vec<&str> = sets.iter().filter_map(|set| set["name"].as_str()).collect();
    assert_eq!(names, ["mnist", "fashion-mnist", "cifar10"]);
    let address = &sets[2]["downloads"][0]["addresses"][0];
    assert_eq!(address, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz");
    assert_eq!(sets[0]["files"][0]["md5"], "6bbc9ace898e44ae57da46a324031adb");
    let for_people = run(here.path(), &["data", "list"]);
    assert!(names.iter().all(|name| for_people.stdout.contains(name)));
    assert_eq!((for_people.code, for_people.stderr.as_str()), (Some(0), ""));
}

fn check(name: &str, folder: &Path) -> (Option<i32>, Value) {
    let done = run(folder, &["data", "check", name, ".", "--json"]);
    (done.code, done.error())
}

#[test]
fn check_names_the_first_fault() {
    for name in ["mnist", "fashion-mnist", "cifar10"] {
        let here = folder();
        let (code, error) = check(name, here.path());
        assert_eq!((code, error["found"].as_str()), (Some(1), Some("an empty folder")), "{error}");
        assert!(contents(here.path()).is_empty());
    }
    let here = folder();
    write_set(here.path(), 70, 30);
    let (code, error) = check("mnist", here.path());
    assert_eq!(code, Some(1));
    assert_eq!(error["where"], format!("./train-images-idx3-ubyte, byte {}", images(70).len()));
    assert_eq!(error["expected"], "47040016 bytes");
    // Right in size and form, and still not the authors'.
    fs::write(here.path().join(FILES[0]), images(60_000)).expect("written");
    let (code, error) = check("mnist", here.path());
    assert_eq!((code, error["where"].as_str()), (Some(1), Some("./train-images-idx3-ubyte, byte 0")));
    assert!(error["expected"].as_str().is_some_and(|text| text.contains("bytes 0 to 1048575")), "{error}");
}

fn get(name: &str, here: &Path, server: &Server) -> support::Done {
    run(here, &["data", "get", name, "sets", "--from", server.address(), "--json"])
}

#[test]
fn get_keeps_nothing_that_is_wrong() {
    let here = folder();
    let wrong = FILES.iter().map(|name| (format!("{name}.gz"), gzip(&labels(5)))).collect();
    let server = Server::start(wrong, Manners::default());
    let done = get("mnist", here.path(), &server);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let error = done.error();
    assert_eq!(error["where"], format!("{}train-images-idx3-ubyte.gz", server.address()));
    let expected = "9912422 bytes with MD5 f68b3c2dcbeaaa9fbdd348bbdeb94873";
    assert_eq!(error["expected"], expected);
    assert_eq!(contents(&here.path().join("sets")), [here.path().join("sets/mnist")]);
    assert_eq!(done.stderr.lines().count(), 2, "quiet but for the error: {}", done.stderr);
}

#[test]
fn get_without_network_says_what_to_bring() {
    let here = folder();
    let server = Server::start(Vec::new(), Manners::default());
    let done = get("cifar10", here.path(), &server);
    assert_eq!(done.code, Some(1));
    let error = done.error();
    assert!(error["found"].as_str().is_some_and(|text| text.contains("404")), "{error}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(
        hint.contains("https://www.cs.toronto.edu/~kriz/") && hint.contains("cifar-10-binary.tar.gz"),
        "{error}"
    );
    let done = run(here.path(), &["data", "get", "mnist", "sets", "--from", "ftp://x", "--json"]);
    assert_eq!((done.code, done.error()["where"].as_str()), (Some(2), Some("--from")));
}
