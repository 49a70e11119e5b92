//! `sooner data` and archives on the authors' own files, as `real_data.rs`: without `SOONER_DATA` these tests skip, loudly.

mod support;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use support::server::{Manners, Server};
use support::{folder, real_data, run};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn check(name: &str, place: &Path) -> (Option<i32>, Value) {
    let done = run(Path::new("."), &["data", "check", name, text(place), "--json"]);
    (done.code, done.json())
}

#[test]
fn the_authors_files_pass() {
    for (name, set, train, test) in [
        ("mnist", "mnist", 60_000, 10_000),
        ("fashion-mnist", "fashion-mnist", 60_000, 10_000),
        ("cifar10", "cifar-10-batches-bin", 50_000, 10_000),
    ] {
        let Some(root) = real_data("data check", set) else { continue };
        for place in [root.clone(), root.join(set)] {
            let (code, report) = check(name, &place);
            assert_eq!(code, Some(0), "{report}");
            assert_eq!((&report["ok"], &report["train_examples"]), (&Value::from(true), &Value::from(train)));
            assert_eq!(report["test_examples"], test);
            let classes = report["classes"].as_array().expect("classes");
            assert_eq!(classes.len(), 10);
            if name != "mnist" {
                // Both have their classes in equal parts.
                assert!(
                    classes.iter().all(|class| class["train"] == train / 10 && class["test"] == test / 10)
                );
            }
        }
    }
}

#[test]
fn one_changed_bit_is_found() {
    let Some(root) = real_data("data check, changed", "mnist") else { return };
    let here = folder();
    for entry in fs::read_dir(root.join("mnist")).expect("a folder").flatten() {
        fs::copy(entry.path(), here.path().join(entry.file_name())).expect("copied");
    }
    for (file, at, place) in [
        ("t10k-images-idx3-ubyte", 7_000_000, 6 << 20),
        ("t10k-images-idx3-ubyte", 7_840_015, 7 << 20),
        ("train-labels-idx1-ubyte", 60_007, 0),
        ("train-images-idx3-ubyte", 3 << 20, 3 << 20),
    ] {
        let path = here.path().join(file);
        let right = fs::read(&path).expect("read");
        let mut changed = right.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).expect("written");
        let (code, report) = check("mnist", here.path());
        let expected = format!("{}, byte {place}", path.display());
        assert_eq!((code, report["error"]["where"].as_str()), (Some(1), Some(expected.as_str())), "{report}");
        fs::write(&path, right).expect("written");
    }
    assert_eq!(check("mnist", here.path()).0, Some(0));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A mirror that packs anew, answers with parts and breaks off twice.
#[test]
fn get_brings_a_set_that_passes() {
    let Some(root) = real_data("data get", "mnist") else { return };
    let packed = fs::read_dir(root.join("mnist")).expect("a folder").flatten().map(|entry| {
        let name = format!("{}.gz", entry.file_name().to_string_lossy());
        (name, gzip(&fs::read(entry.path()).expect("read")))
    });
    let server = Server::start(
        packed.collect(),
        Manners { ranges: true, cuts: vec![5_000_000, 1000], ..Manners::default() },
    );
    let here = folder();
    let get = ["data", "get", "mnist", "sets", "--from", server.address(), "--json"];
    let done = run(here.path(), &get);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    assert_eq!(done.json()["train_examples"], 60_000);
    let asked = server.asked();
    assert_eq!(asked.len(), 6, "{asked:?}");
    assert_eq!(asked[1], "train-images-idx3-ubyte.gz from 5000000");
    for entry in fs::read_dir(root.join("mnist")).expect("a folder").flatten() {
        let got = fs::read(here.path().join("sets/mnist").join(entry.file_name())).expect("read");
        assert_eq!(got, fs::read(entry.path()).expect("read"));
    }
    // What is there and right is left alone; what is not is brought again, and only that.
    assert_eq!(run(here.path(), &get).code, Some(0));
    assert_eq!(server.asked().len(), 6);
    let labels = here.path().join("sets/mnist/t10k-labels-idx1-ubyte");
    fs::write(&labels, "damaged").expect("written");
    assert_eq!(run(here.path(), &get).code, Some(0));
    assert_eq!(server.asked()[6..], ["t10k-labels-idx1-ubyte.gz"]);
    let names: Vec<_> = support::contents(&here.path().join("sets"));
    assert_eq!(names.len(), 5, "nothing else is left: {names:?}");
}

/// The archive as the authors pack it, brought by hand: checked, and trained on with the same bits as from files.
#[test]
fn an_archive_is_as_good_as_its_files() {
    let Some(root) = real_data("archive", "cifar-10-batches-bin") else { return };
    let here = folder();
    let archive = here.path().join("cifar-10-binary.tar.gz");
    let encoder = GzEncoder::new(File::create(&archive).expect("created"), Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    builder.append_dir_all("cifar-10-batches-bin", root.join("cifar-10-batches-bin")).expect("packed");
    builder.into_inner().and_then(GzEncoder::finish).expect("finished");

    let (code, report) = check("cifar10", &archive);
    assert_eq!((code, &report["train_examples"]), (Some(0), &Value::from(50_000)), "{report}");
    let train = |place: &Path, out: &str| {
        let out = here.path().join(out);
        let words = [
            "train",
            "cifar10-resnet8",
            "--data",
            text(place),
            "--set",
            "model={kind=\"softmax\"}",
            "--set",
            "data.train=256",
            "--set",
            "data.test=100",
            "--set",
            "data.validation=100",
            "--target",
            "val.loss<1e9",
            "--epochs",
            "1",
            "--threads",
            "1",
            "--out",
            text(&out),
            "--json",
        ];
        let done = run(here.path(), &words);
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
        fs::read(out.join("weights.safetensors")).expect("weights")
    };
    let from_files = train(&root, "files");
    assert!(!from_files.is_empty());
    let values = |bytes: &[u8]| {
        let header = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
        bytes[8 + header..].to_vec()
    };
    // The header holds the data's path; the numbers behind it must agree.
    assert_eq!(values(&train(&archive, "archive")), values(&from_files));
    assert_eq!(values(&train(here.path(), "folder")), values(&from_files));

    let done = run(here.path(), &["data", "get", "cifar10", ".", "--from", "http://127.0.0.1:9/", "--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    assert_eq!(done.json()["train_examples"], 50_000);

    // One bit changed inside the archive.
    let mut bytes = fs::read(&archive).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let changed = here.path().join("changed.tar.gz");
    fs::write(&changed, bytes).expect("written");
    let (code, report) = check("cifar10", &changed);
    let place = report["error"]["where"].as_str().unwrap_or_default();
    assert_eq!(code, Some(1));
    assert!(place.starts_with(text(&changed)) && place.contains(", byte "), "{report}");
}
