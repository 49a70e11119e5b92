//! The user's own files end to end: found, split, held in memory, packed, and read back.

use super::super::pack::{PackOptions, pack};
use super::*;
use crate::load;
use sooner_base::ManualClock;
use sooner_plan::{ImagesPlan, Truncated};
use std::fs;
use tempfile::TempDir;

/// Real images in class folders of the splits named.
fn folder(splits: &[&str], each: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    let names = ["baseline-420.jpg", "progressive.jpg", "rgb8.png", "grey16.png", "cmyk.jpg"];
    for split in splits {
        for class in ["a", "b"] {
            let to = folder.path().join(split).join(class);
            fs::create_dir_all(&to).unwrap();
            for i in 0..each {
                let name = names[(i + usize::from(class == "b")) % names.len()];
                fs::copy(images.join(name), to.join(format!("{i:03}-{name}"))).unwrap();
            }
        }
    }
    folder
}

fn plan(kind: DataKind, path: &Path, size: Option<usize>) -> DataPlan {
    DataPlan {
        kind,
        path: Some(path.display().to_string()),
        classes: None,
        rate: None,
        train: None,
        validation: 0,
        test: None,
        images: Some(ImagesPlan { size, ..ImagesPlan::default() }),
        shards: None,
    }
}

fn read(plan: &DataPlan, threads: usize) -> Result<Splits, PipelineError> {
    load(plan, threads, &ManualClock::default())
}

fn sizes(splits: &Splits) -> [usize; 3] {
    [&splits.train, &splits.val, &splits.test].map(|data| data.len())
}

#[test]
fn splits_by_folder() {
    let all = folder(&["train", "val", "test"], 3);
    let splits = read(&plan(DataKind::ImageFolder, all.path(), Some(16)), 2).unwrap();
    assert_eq!((sizes(&splits), splits.train.shape()), ([6, 6, 6], [16, 16, 3]));
    assert_eq!(
        (splits.train.labels(), &splits.val.info().classes[..]),
        (&[0, 0, 0, 1, 1, 1][..], &["a", "b"].map(String::from)[..])
    );
    let some = DataPlan {
        train: Some(4),
        validation: 2,
        test: Some(1),
        ..plan(DataKind::ImageFolder, all.path(), Some(16))
    };
    assert_eq!(sizes(&read(&some, 1).unwrap()), [4, 2, 1]);
}

/// Without a folder for it, validation is drawn from all classes, the same for every run.
#[test]
fn validation_is_held_out_of_all_classes() {
    let all = folder(&["."], 20);
    let held = DataPlan { validation: 10, ..plan(DataKind::ImageFolder, all.path(), Some(8)) };
    let splits = read(&held, 1).unwrap();
    assert_eq!(sizes(&splits), [30, 10, 0]);
    let ones = splits.val.labels().iter().sum::<u32>();
    assert!((1..=9).contains(&ones), "{ones}");
    assert_eq!(read(&held, 3).unwrap().val, splits.val);
    let most = DataPlan { validation: 40, ..held };
    assert!(matches!(read(&most, 1), Err(PipelineError::Count { key: "data.validation", .. })));
}

#[test]
fn threads_change_nothing() {
    let all = folder(&["train"], 30);
    let plan = plan(DataKind::ImageFolder, all.path(), Some(12));
    let one = read(&plan, 0).unwrap();
    for threads in [1, 2, 7] {
        assert_eq!(read(&plan, threads).unwrap().train, one.train);
    }
}

#[test]
fn the_first_bad_file_is_the_error() {
    let all = folder(&["train"], 40);
    for name in ["a/017-bad.jpg", "b/030-bad.png"] {
        fs::write(all.path().join("train").join(name), "x").unwrap();
    }
    for threads in [1, 4] {
        let error = read(&plan(DataKind::ImageFolder, all.path(), Some(12)), threads).unwrap_err();
        assert!(error.to_string().contains("017-bad.jpg"), "{error}");
    }
}

#[test]
fn classes_that_the_plan_counts_otherwise() {
    let all = folder(&["train"], 2);
    let wrong = DataPlan { classes: Some(3), ..plan(DataKind::ImageFolder, all.path(), Some(12)) };
    assert!(matches!(read(&wrong, 1), Err(PipelineError::Count { key: "data.classes", .. })));
    let nowhere = plan(DataKind::ImageFolder, Path::new("/no/such/folder"), None);
    assert!(matches!(read(&nowhere, 1), Err(PipelineError::Missing { .. })));
}

#[test]
fn oddities_are_counted() {
    let all = folder(&["train"], 2);
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    for name in ["cut-rgb8.png", "turned-6.jpg"] {
        fs::copy(images.join(name), all.path().join("train/a").join(name)).unwrap();
    }
    let mut plan = plan(DataKind::ImageFolder, all.path(), Some(8));
    assert!(read(&plan, 1).unwrap_err().to_string().contains("cut-rgb8.png"));
    plan.images = Some(ImagesPlan { truncated: Truncated::Keep, ..plan.images() });
    let splits = read(&plan, 1).unwrap();
    let odd = splits.sources[0].oddities();
    assert_eq!((odd.turned, odd.truncated), (1, 1));
}

/// Packing keeps labels, classes and pixels, plain or gzipped; in memory the two ways are one data set.
#[test]
fn packed_shards_hold_the_same_examples() {
    let all = folder(&["train", "val"], 30);
    let whole = plan(DataKind::ImageFolder, all.path(), Some(16));
    let expect = read(&whole, 2).unwrap();
    let streamed = read(&plan(DataKind::ImageFolder, all.path(), None), 1).unwrap();
    for gzip in [false, true] {
        let to = tempfile::tempdir().unwrap();
        let options = PackOptions { shard: Bytes(100_000), gzip, shuffle: None };
        let shards = pack(&[streamed.train.clone(), streamed.val.clone()], to.path(), options).unwrap();
        assert!(shards.len() > 3 && shards.iter().map(|shard| shard.examples).sum::<u64>() == 120);
        let back = read(&plan(DataKind::Webdataset, to.path(), Some(16)), 2).unwrap();
        assert_eq!(
            (back.train.pixels(), back.train.labels()),
            (expect.train.pixels(), expect.train.labels())
        );
        assert_eq!(back.val.pixels(), expect.val.pixels());
        assert_eq!(back.train.info().classes, ["a", "b"]);
        // The index beside each shard says what reading the shard says.
        for entry in fs::read_dir(to.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "index") {
                fs::remove_file(path).unwrap();
            }
        }
        let again = read(&plan(DataKind::Webdataset, to.path(), Some(16)), 1).unwrap();
        assert_eq!(again.train, back.train);
        let error = pack(std::slice::from_ref(&streamed.train), to.path(), options).unwrap_err();
        assert!(error.to_string().contains("nothing is ever overwritten"), "{error}");
    }
}

#[test]
fn packing_in_shuffled_order_mixes_labels() {
    let all = folder(&["train"], 60);
    let streamed = read(&plan(DataKind::ImageFolder, all.path(), None), 1).unwrap();
    let to = tempfile::tempdir().unwrap();
    let options = PackOptions { shard: Bytes(1 << 30), gzip: false, shuffle: Some(Seed(1)) };
    pack(&[streamed.train], to.path(), options).unwrap();
    let back = read(&plan(DataKind::Webdataset, to.path(), Some(4)), 1).unwrap();
    let changes = back.train.labels().windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((40..80).contains(&changes), "{changes}");
}

/// Sets in memory are packed as PNG files, without loss.
#[test]
fn sets_in_memory_are_packed() {
    let mut shapes = plan(DataKind::Shapes, Path::new(""), None);
    (shapes.path, shapes.images, shapes.train, shapes.validation, shapes.test) =
        (None, None, Some(50), 10, Some(10));
    let drawn = read(&shapes, 1).unwrap();
    let to = tempfile::tempdir().unwrap();
    let options = PackOptions { shard: Bytes(1 << 30), gzip: true, shuffle: None };
    pack(&[drawn.train.clone(), drawn.val, drawn.test], to.path(), options).unwrap();
    let back = read(&plan(DataKind::Webdataset, to.path(), Some(32)), 1).unwrap();
    assert_eq!((back.train.pixels(), back.train.labels()), (drawn.train.pixels(), drawn.train.labels()));
    assert_eq!(sizes(&back), [50, 10, 10]);
}

/// A rate slows reading of examples that are in memory too, so that reading can be made to cost.
#[test]
fn a_rate_makes_a_source_of_a_set_in_memory() {
    let mut shapes = plan(DataKind::Shapes, Path::new(""), None);
    (shapes.path, shapes.images, shapes.train, shapes.test) = (None, None, Some(40), Some(5));
    shapes.rate = Some((40 * 3072 * 10).to_string());
    let splits = read(&shapes, 1).unwrap();
    let source = splits.train.source().unwrap();
    let (mut bytes, start) = (Vec::new(), std::time::Instant::now());
    for i in 0..40 {
        source.read(i, &mut bytes, &AtomicBool::new(false)).unwrap();
    }
    // A tenth of a second at this rate, less the credit; a loaded machine may take longer, never less.
    assert!(start.elapsed().as_secs_f64() > 0.08, "{:?}", start.elapsed());
    let mut image = Image::default();
    assert!(source.decode(3, &bytes, None, &mut image).unwrap() < 10);
    assert!(splits.val.source().is_none());
}
