//! Shards made for the purpose: every odd kind, near and far, packed or not.

use super::super::server::serve;
use super::super::tar::{write_end, write_member};
use super::*;
use flate2::{Compression, write::GzEncoder};
use sooner_base::Bytes;
use sooner_plan::{Duplicates, ImagesPlan, KeyRule, Truncated, Unsorted};
use std::fs;
use std::io::Write;
use tempfile::TempDir;

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    members.iter().for_each(|(name, content)| write_member(&mut bytes, name, content).unwrap());
    write_end(&mut bytes).unwrap();
    bytes
}

/// A member that is a link, `1` hard or `2` symbolic, as a header alone.
fn link(name: &str, kind: u8, target: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_member(&mut bytes, name, b"").unwrap();
    bytes[156] = kind;
    bytes[157..157 + target.len()].copy_from_slice(target.as_bytes());
    bytes[148..156].fill(b' ');
    let sum: u64 = bytes[..512].iter().map(|&byte| u64::from(byte)).sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
    folder
}

fn open(path: &str, plan: &ShardsPlan) -> Result<(Shards, Vec<Notice>), PipelineError> {
    let decoder = Decoder::new(&ImagesPlan::default(), Bytes(1 << 20));
    let set = ShardSet::find(path)?;
    Shards::open(&set, Split::Train, plan, (decoder, None), None)
        .map(|shards| shards.expect("training examples"))
}

/// `label key=content` of each example in order.
fn listed(shards: &Shards) -> String {
    let (labels, keys) = (shards.labels(), shards.keys());
    let mut bytes = Vec::new();
    let one = |i: usize| {
        shards.read(i as u64, &mut bytes, &AtomicBool::new(false)).unwrap();
        format!("{} {}={}", labels[i], keys[i], String::from_utf8_lossy(&bytes))
    };
    (0..shards.len()).map(one).collect::<Vec<_>>().join(", ")
}

fn check(archive: Vec<u8>, change: impl FnOnce(&mut ShardsPlan), expect: &str) -> Vec<Notice> {
    let folder = folder(&[("a.tar", archive)]);
    let mut plan = ShardsPlan::default();
    change(&mut plan);
    match open(&folder.path().display().to_string(), &plan) {
        Ok((shards, notices)) => {
            assert_eq!(listed(&shards), expect);
            notices
        }
        Err(error) => {
            let complaint = error.complaint();
            let text =
                format!("expected {}, found {}; {}", complaint.expected, complaint.found, complaint.hint);
            assert!(text.contains(expect), "{text}");
            Vec::new()
        }
    }
}

#[test]
fn members_of_one_key_are_one_example() {
    let archive = tar(&[("b/1.cls", b"2\n"), ("b/1.jpg", b"one"), ("a/1.PNG", b"two"), ("a/1.cls", b" 0 ")]);
    check(archive, |_| (), "2 b/1=one, 0 a/1=two");
    let archive = tar(&[
        ("./1.jpg", b"one"),
        ("./1.cls", b"0"),
        ("\u{82b1}\u{a0}.jpeg", b"two"),
        ("\u{82b1}\u{a0}.cls", b"1"),
    ]);
    check(archive, |_| (), "0 1=one, 1 \u{82b1}\u{a0}=two");
    let long = "x".repeat(150);
    let archive = tar(&[(&format!("{long}.jpg"), b"one"), (&format!("{long}.cls"), b"0")]);
    check(archive, |_| (), &format!("0 {long}=one"));
}

#[test]
fn dots_in_names() {
    let archive =
        tar(&[("22.05.png", b"one"), ("22.05.cls", b"0"), ("22.06.png", b"two"), ("22.06.cls", b"1")]);
    check(archive.clone(), |plan| plan.key = KeyRule::LastDot, "0 22.05=one, 1 22.06=two");
    check(archive, |_| (), "found 05.cls, 05.png, 06.cls, 06.png; names have dots in them");
    let archive = tar(&[("v1.2/1.seg.png", b"mask"), ("v1.2/1.png", b"one"), ("v1.2/1.cls", b"0")]);
    check(archive, |_| (), "0 v1.2/1=one");
}

#[test]
fn what_is_passed_over_is_counted() {
    let archive = tar(&[("1.jpg", b"one"), ("1.cls", b"0"), ("._1.jpg", b"mac"), ("README", b"text")]);
    let notices = check(archive, |_| (), "0 1=one");
    assert!(matches!(&notices[..], [Notice::Ignored { files: 2, .. }]), "{notices:?}");
}

#[test]
fn members_in_any_order() {
    let archive = tar(&[("1.jpg", b"one"), ("2.jpg", b"two"), ("1.cls", b"0"), ("2.cls", b"1")]);
    check(
        archive.clone(),
        |_| (),
        "expected the members of 1 one after the other, found 1.cls, after members of 2",
    );
    check(archive, |plan| plan.unsorted = Unsorted::Gather, "0 1=one, 1 2=two");
}

#[test]
fn second_members_of_one_name() {
    let archive = tar(&[("1.jpg", b"one"), ("1.cls", b"0"), ("1.jpg", b"other")]);
    check(archive.clone(), |_| (), "expected one member named 1.jpg, found a second one");
    let notices = check(archive.clone(), |plan| plan.duplicates = Duplicates::First, "0 1=one");
    assert!(
        matches!(&notices[..], [Notice::Duplicates { members: 1, example }] if example.ends_with("1.jpg"))
    );
    check(archive, |plan| plan.duplicates = Duplicates::Last, "0 1=other");
}

#[test]
fn links_stand_for_what_they_name() {
    let files = tar(&[("d/1.jpg", b"one"), ("d/1.cls", b"1")]);
    let links = [
        link("e/2.cls", b'1', "d/1.cls"),
        link("e/2.jpg", b'2', "../d/1.jpg"),
        link("e/3.jpg", b'2', "2.jpg"),
    ];
    let more = tar(&[("e/3.cls", b"0")]);
    let archive = [&files[..files.len() - 1024], &links.concat(), &more].concat();
    check(archive.clone(), |plan| plan.unsorted = Unsorted::Gather, "1 d/1=one, 0 e/3=one, 1 e/2=one");
    // The same from front to back: what a link needs again is held.
    let folder = folder(&[("a.tar.gz", gzip(&archive))]);
    let plan = ShardsPlan { unsorted: Unsorted::Gather, ..ShardsPlan::default() };
    let (shards, _) = open(&folder.path().display().to_string(), &plan).unwrap();
    assert_eq!(listed(&shards), "1 d/1=one, 0 e/3=one, 1 e/2=one");
    let dangling = [&link("1.jpg", b'2', "nowhere.jpg")[..], &tar(&[("1.cls", b"0")])].concat();
    check(
        dangling,
        |_| (),
        "expected a member named nowhere.jpg, which the link 1.jpg stands for, found none, or a ring",
    );
    let ring = [&link("1.jpg", b'1', "2.jpg")[..], &link("2.jpg", b'1', "1.jpg"), &tar(&[])].concat();
    check(ring, |_| (), "found none, or a ring of links");
}

#[test]
fn shards_that_end_too_early() {
    let whole = tar(&[("1.jpg", b"one"), ("1.cls", b"0"), ("2.jpg", b"two"), ("2.cls", b"1")]);
    for len in [3 * 1024, 3 * 1024 + 512, 2 * 1024 + 600, 2 * 1024] {
        let cut = whole[..len].to_vec();
        check(cut.clone(), |_| (), "found the end of the file; fetch or pack the shard again, or keep");
        let notices = check(cut, |plan| plan.truncated = Truncated::Keep, "0 1=one");
        assert!(matches!(&notices[..], [Notice::Cut { .. }]), "{len}: {notices:?}");
    }
    // The last content is there, its padding is not.
    check(whole[..3 * 1024 + 513].to_vec(), |plan| plan.truncated = Truncated::Keep, "0 1=one, 1 2=two");
    // Without its end mark, everything is there and still the shard may have been longer.
    let notices = check(
        whole[..whole.len() - 1024].to_vec(),
        |plan| plan.truncated = Truncated::Keep,
        "0 1=one, 1 2=two",
    );
    assert!(matches!(&notices[..], [Notice::Cut { offset: 4096, .. }]));
    check(
        Vec::new(),
        |_| (),
        "expected a member or the end-of-archive mark, 1,024 zero bytes, found the end of the file",
    );
    check(b"no archive at all ".repeat(40), |_| (), "expected a tar header with the sum of its bytes");
    let packed = gzip(&whole);
    let folder = folder(&[("a.tar.gz", packed[..packed.len() - 9].to_vec())]);
    let error = open(&folder.path().display().to_string(), &ShardsPlan::default()).unwrap_err();
    assert!(matches!(error, PipelineError::Malformed { .. }), "{error}");
}

/// Of a packed shard that is cut, the examples before the cut are kept, and read; of a zstd shard those before the last
/// window of the decoder, which gives out nothing that a later block might still refer to.
#[test]
fn packed_shards_that_end_too_early() {
    let noise = |k: u32| -> Vec<u8> {
        (0..3000u32).map(|i| ((i + k).wrapping_mul(2_654_435_761) >> 23) as u8).collect()
    };
    let contents: Vec<(String, Vec<u8>)> =
        (0..200).map(|k| (format!("{k:03}.jpg"), noise(k * 7919))).collect();
    let labels: Vec<String> = (0..200).map(|k| format!("{k:03}.cls")).collect();
    let members: Vec<(&str, &[u8])> = contents
        .iter()
        .zip(&labels)
        .flat_map(|((image, content), label)| [(image.as_str(), &content[..]), (label.as_str(), &b"1"[..])])
        .collect();
    let whole = tar(&members);
    for (name, packed) in [("a.tar.zst", zstd(&whole)), ("a.tar.gz", gzip(&whole))] {
        let mut kept = Vec::new();
        for share in [0.4, 0.6, 0.9] {
            let cut = packed[..(packed.len() as f64 * share) as usize].to_vec();
            let folder = folder(&[(name, cut)]);
            let path = folder.path().display().to_string();
            let error = open(&path, &ShardsPlan::default()).unwrap_err();
            assert!(matches!(error, PipelineError::Malformed { .. }), "{name} {share}: {error}");
            let plan = ShardsPlan { truncated: Truncated::Keep, ..ShardsPlan::default() };
            let (shards, notices) = open(&path, &plan).unwrap();
            assert!(matches!(&notices[..], [Notice::Cut { .. }, ..]), "{name} {share}: {notices:?}");
            let mut bytes = Vec::new();
            for i in 0..shards.len() {
                shards.read(i as u64, &mut bytes, &AtomicBool::new(false)).unwrap();
                assert_eq!(bytes, contents[i].1, "{name} {share}, example {i}");
            }
            kept.push(shards.len());
        }
        assert!(kept.is_sorted() && kept[0] > 0 && kept[2] < 200 && kept[0] < kept[2], "{name}: {kept:?}");
    }
}

#[test]
fn labels_that_are_none() {
    check(
        tar(&[("1.jpg", b"one"), ("1.cls", b"-1")]),
        |_| (),
        "expected a class by number or name in 1.cls, found \"-1\"",
    );
    check(tar(&[("1.jpg", b"one"), ("1.cls", b"4000000000")]), |_| (), "found \"4000000000\"");
    check(tar(&[("1.jpg", b"one")]), |_| (), "expected a field cls of the example 1, found jpg");
    check(tar(&[("1.cls", b"0")]), |_| (), "expected a field jpg, jpeg or png of the example 1, found cls");
    let folder = folder(&[
        ("a.tar", tar(&[("1.jpg", b"one"), ("1.cls", b"rose"), ("2.jpg", b"two"), ("2.cls", b"0")])),
        ("classes.txt", b"daisy\nrose\ntulip\n".to_vec()),
    ]);
    let (shards, notices) = open(&folder.path().display().to_string(), &ShardsPlan::default()).unwrap();
    assert_eq!(listed(&shards), "1 1=one, 0 2=two");
    assert_eq!(shards.info().classes, ["daisy", "rose", "tulip"]);
    assert!(matches!(&notices[..], [Notice::EmptyClass { class, .. }] if class == "tulip"));
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Three shards of 40 examples, and what is in them.
fn three() -> ([Vec<u8>; 3], String) {
    let mut all = Vec::new();
    let shards = [0, 1, 2].map(|shard| {
        let mut bytes = Vec::new();
        for i in 0..40 {
            let (key, label) = (format!("{shard}{i:02}"), (i * 7 + shard) % 5);
            write_member(&mut bytes, &format!("{key}.jpg"), key.repeat(i).as_bytes()).unwrap();
            write_member(&mut bytes, &format!("{key}.cls"), label.to_string().as_bytes()).unwrap();
            all.push(format!("{label} {key}={}", key.repeat(i)));
        }
        write_end(&mut bytes).unwrap();
        bytes
    });
    (shards, all.join(", "))
}

#[test]
fn packed_or_not_the_examples_are_the_same() {
    let ([a, b, c], expect) = three();
    let folder = folder(&[("0.tar", a), ("1.tar.gz", gzip(&b)), ("2.tar.zst", zstd(&c))]);
    let (shards, notices) = open(&folder.path().display().to_string(), &ShardsPlan::default()).unwrap();
    assert_eq!((listed(&shards), &notices[..]), (expect.clone(), &[][..]));
    assert_eq!(Source::shards(&shards), Some(&[40, 40, 40][..]));
    // A second pass, and one out of order: slower for packed shards, and the same.
    assert_eq!(listed(&shards), expect);
    let mut bytes = Vec::new();
    for i in (0..120).rev() {
        shards.read(i, &mut bytes, &AtomicBool::new(false)).unwrap();
        assert_eq!(bytes.len(), 3 * (i as usize % 40));
    }
}

#[test]
fn shards_at_addresses_by_list_and_by_pattern() {
    let ([a, b, c], expect) = three();
    let files = [
        ("train-0.tar", a),
        ("train-1.tar.gz", gzip(&b)),
        ("train-2.tar.zst", zstd(&c)),
        ("shards.txt", b"train-0.tar\t40\t1\ntrain-1.tar.gz\t40\t1\ntrain-2.tar.zst\t40\t1\n".to_vec()),
    ];
    let server = serve(files, |server| server.break_after = 20_000);
    let (shards, _) = open(&server.address(""), &ShardsPlan::default()).unwrap();
    assert_eq!(listed(&shards), expect);
    assert_eq!(Source::shards(&shards), Some(&[40, 40, 40][..]));
    let (shards, _) = open(&server.address("train-{0..0}.tar"), &ShardsPlan::default()).unwrap();
    assert_eq!(shards.len(), 40);
    let error = open(&server.address("none/"), &ShardsPlan::default()).unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

/// Any thread may ask for any example.
#[test]
fn threads_share_a_packed_shard() {
    let ([a, ..], _) = three();
    let folder = folder(&[("0.tar.gz", gzip(&a))]);
    let (shards, _) = open(&folder.path().display().to_string(), &ShardsPlan::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let shards = &shards;
            scope.spawn(move || {
                let mut bytes = Vec::new();
                for i in (thread..40).step_by(4) {
                    shards.read(i, &mut bytes, &AtomicBool::new(false)).unwrap();
                    assert_eq!(String::from_utf8_lossy(&bytes), format!("0{i:02}").repeat(i as usize));
                }
            });
        }
    });
}

#[test]
fn sorted_labels_are_warned_of_where_order_matters() {
    let mut bytes = Vec::new();
    for i in 0..120 {
        write_member(&mut bytes, &format!("{i}.jpg"), b"x").unwrap();
        write_member(&mut bytes, &format!("{i}.cls"), (i / 60).to_string().as_bytes()).unwrap();
    }
    write_end(&mut bytes).unwrap();
    assert_eq!(check(bytes.clone(), |_| (), &listed_of(120)), []);
    let folder = folder(&[("a.tar.gz", gzip(&bytes))]);
    let (_, notices) = open(&folder.path().display().to_string(), &ShardsPlan::default()).unwrap();
    assert_eq!(notices, [Notice::Runs { longest: 60, examples: 120 }]);
}

fn listed_of(n: usize) -> String {
    (0..n).map(|i| format!("{} {i}=x", i / 60)).collect::<Vec<_>>().join(", ")
}
