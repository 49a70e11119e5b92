//! CIFAR-10 from its archive: the same examples as from files, and every way of being malformed.

use super::*;
use flate2::{Compression, write::GzEncoder};
use sooner_base::ManualClock;
use std::fs;
use std::io::Write;
use tempfile::TempDir;

const RECORD: usize = 3073;
const ARCHIVE: &str = "cifar-10-binary.tar.gz";
/// The order in the authors' archive is not that of the names.
const ORDER: [usize; 6] = [0, 3, 5, 4, 2, 1];

/// Members of an archive: name and content.
type Files = Vec<(String, Vec<u8>)>;

fn file(number: usize, records: usize) -> Vec<u8> {
    let byte = |i: usize| match i % RECORD {
        0 => ((number + i / RECORD) % 10) as u8,
        place => (number * 101 + i / RECORD * 53 + place * 7) as u8,
    };
    (0..records * RECORD).map(byte).collect()
}

fn name(number: usize) -> &'static str {
    cifar10::FILES[number]
}

/// A tar of members (name, content), with the authors' other members around them.
fn tar(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = ::tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = ::tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, &content[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn members(records: usize) -> Vec<(String, Vec<u8>)> {
    let place = |name: &str| format!("cifar-10-batches-bin/{name}");
    let files = ORDER.iter().map(|&number| (place(name(number)), file(number, records)));
    let mut all: Vec<_> = files.collect();
    all.insert(1, (place("batches.meta.txt"), b"airplane\n".to_vec()));
    all.push((place("readme.html"), vec![b' '; 100]));
    all
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn plan(path: &Path) -> DataPlan {
    let text = format!("kind = \"cifar10\"\npath = {:?}\nvalidation = 5\n", path.to_str().unwrap());
    DataPlan::parse(&text).unwrap()
}

fn read(path: &Path) -> Result<Splits, PipelineError> {
    load(&plan(path), 1, &ManualClock::default())
}

#[test]
fn archives_hold_the_same_examples_as_files() {
    let folder = TempDir::new().unwrap();
    for number in 0..6 {
        fs::write(folder.path().join(name(number)), file(number, 4)).unwrap();
    }
    let expected = read(folder.path()).unwrap();
    let packed = TempDir::new().unwrap();
    let tar = tar(&members(4));
    for (name, bytes) in [(ARCHIVE, gzip(&tar)), ("renamed", gzip(&tar)), ("plain.tar", tar)] {
        let path = packed.path().join(name);
        fs::write(&path, bytes).unwrap();
        let mut places = vec![path];
        if name == ARCHIVE {
            places.push(packed.path().to_path_buf());
        }
        for place in places {
            let splits = read(&place).unwrap();
            for split in [Split::Train, Split::Val, Split::Test] {
                assert_eq!(splits.get(split), expected.get(split), "{}", place.display());
            }
            assert_eq!((splits.read.items, splits.decode.items), (24, 24));
            assert_eq!(peek(&plan(&place)).unwrap(), splits.facts());
        }
    }
    // Unpacked files come before an archive beside them.
    fs::write(folder.path().join(ARCHIVE), b"not looked at").unwrap();
    assert_eq!(read(folder.path()).unwrap().train, expected.train);
}

#[test]
fn malformed_archives_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(ARCHIVE);
    let check = |bytes: &[u8], expect: &str| {
        fs::write(&path, bytes).unwrap();
        let Err(error) = read(&path) else { panic!("accepted, instead of: {expect}") };
        let complaint = error.complaint();
        assert!(!complaint.what.is_empty() && !complaint.hint.is_empty(), "{complaint:?}");
        let text = format!("{}: expected {}, found {}", complaint.place, complaint.expected, complaint.found);
        let text = text.replace(folder.path().to_str().unwrap(), "DIR");
        assert!(text.starts_with(expect), "{text}\ninstead of\n{expect}");
        let looked = peek(&plan(&path));
        if let Ok(facts) = looked {
            assert_eq!(facts.classes, 10);
        }
    };
    let changed = |change: &dyn Fn(&mut Files)| {
        let mut all = members(3);
        change(&mut all);
        gzip(&tar(&all))
    };
    let whole = gzip(&tar(&members(3)));
    check(
        b"",
        "DIR/cifar-10-binary.tar.gz, byte 0: expected a tar archive, plain or gzipped, found an empty file",
    );
    check(
        &[7; 2000],
        "DIR/cifar-10-binary.tar.gz, byte 512: expected a tar archive, plain or gzipped, found damage: ",
    );
    check(&whole[..whole.len() / 2], "DIR/cifar-10-binary.tar.gz");
    let plain = tar(&members(3));
    check(
        &plain[..512 + 5000],
        "DIR/cifar-10-binary.tar.gz/cifar-10-batches-bin/data_batch_1.bin, byte 5000: expected 9219 bytes, as the \
         member's header says, found the end of the archive",
    );
    check(
        &gzip(&tar(&[])),
        "DIR/cifar-10-binary.tar.gz/data_batch_1.bin: expected CIFAR-10 in its binary version",
    );
    check(
        &gzip(&tar(&[("cifar-10-batches-py/data_batch_1".into(), vec![0; 9])])),
        "DIR/cifar-10-binary.tar.gz/data_batch_1.bin: expected CIFAR-10 in its binary version (not the Python one): \
         data_batch_1.bin in the archive, found an archive of data_batch_1, ...",
    );
    check(
        &changed(&|all| drop(all.remove(0))),
        "DIR/cifar-10-binary.tar.gz/data_batch_1.bin: expected CIFAR-10 in its binary version (not the Python one): \
         data_batch_1.bin in the archive, found an archive without it",
    );
    check(&changed(&|all| all.push(all[0].clone())), "DIR/cifar-10-binary.tar.gz, byte ");
    let inside = "DIR/cifar-10-binary.tar.gz/cifar-10-batches-bin/data_batch_1.bin";
    check(
        &changed(&|all| all[0].1.clear()),
        &format!("{inside}, byte 0: expected records of 3073 bytes, found an empty file"),
    );
    check(
        &changed(&|all| all[0].1.push(1)),
        &format!("{inside}, byte 9219: expected whole records of 3073 bytes, found 1 bytes, then the end"),
    );
    check(
        &changed(&|all| all[0].1.truncate(2 * RECORD)),
        &format!("{inside}, byte 6146: expected 3 records, as in the longest of the six files"),
    );
    check(
        &changed(&|all| all[0].1[2 * RECORD] = 10),
        &format!("{inside}, byte 6146: expected a label from 0 to 9, found 10"),
    );
    check(
        &changed(&|all| all[0].1 = vec![0; 10_001 * RECORD]),
        &format!("{inside}, byte 30730000: expected the end of the file after 10000 records"),
    );
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_entry_type(::tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "a/data_batch_1.bin", "/etc/passwd").unwrap();
    check(
        &gzip(&builder.into_inner().unwrap()),
        "DIR/cifar-10-binary.tar.gz/a/data_batch_1.bin: expected a file, found a folder, link or device in its place",
    );
}

/// Sets in the authors' format with other sizes: the plan is held against what is there.
#[test]
fn a_look_tells_the_sizes() {
    let folder = TempDir::new().unwrap();
    let header = |count: u32, images: bool| {
        let mut bytes = vec![0, 0, 8, if images { 3 } else { 1 }];
        bytes.extend(count.to_be_bytes());
        if images {
            bytes.extend([0, 0, 0, 28, 0, 0, 0, 28]);
        }
        bytes
    };
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
    let set = |kind: &str, more: &str| {
        let path = folder.path().to_str().unwrap();
        DataPlan::parse(&format!("kind = \"{kind}\"\npath = {path:?}\n{more}")).unwrap()
    };
    // Headers alone, which is all that is looked at.
    write("train-images-idx3-ubyte", header(120_000, true));
    write("t10k-images.idx3-ubyte.gz", gzip(&header(60_000, true)));
    for kind in ["mnist", "fashion-mnist"] {
        let facts = peek(&set(kind, "validation = 70000\n")).unwrap();
        assert_eq!((facts.train_examples, facts.val_examples, facts.test_examples), (50_000, 70_000, 60_000));
        let facts = peek(&set(kind, "train = 9\nvalidation = 200000\ntest = 7\n")).unwrap();
        assert_eq!((facts.train_examples, facts.val_examples, facts.test_examples), (0, 120_000, 7));
    }
    write("t10k-images.idx3-ubyte.gz", gzip(&header(60_000, true))[..12].to_vec());
    let error = peek(&set("mnist", "validation = 0\n")).unwrap_err().to_string();
    assert!(error.contains("whole gzipped data"), "{error}");
    write("train-images-idx3-ubyte", header(3, false));
    let error = peek(&set("mnist", "validation = 0\n")).unwrap_err().to_string();
    assert!(error.contains("a header of 16 bytes"), "{error}");
    let missing = peek(&set("cifar10", "validation = 0\n")).unwrap_err();
    assert!(matches!(missing, PipelineError::Missing { .. }), "{missing}");
}
