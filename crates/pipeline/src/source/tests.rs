//! Real files, made small: what is read back, and every way of being malformed.

use super::*;
use flate2::{Compression, write::GzEncoder};
use sooner_base::ManualClock;
use std::fs;
use std::io::Write;
use tempfile::TempDir;

const RECORD: usize = 3073;

fn data(kind: DataKind, folder: &Path, validation: usize) -> DataPlan {
    let path = Some(folder.to_str().unwrap().to_string());
    DataPlan {
        kind,
        path,
        classes: None,
        rate: None,
        train: None,
        validation,
        test: None,
        images: None,
        shards: None,
    }
}

fn read(plan: &DataPlan) -> Result<Splits, PipelineError> {
    load(plan, 1, &ManualClock::default())
}

/// What `load` says, with the folder's name taken out.
fn complaint(plan: &DataPlan, folder: &TempDir) -> String {
    match read(plan) {
        Ok(splits) => format!("fine: {} {} {}", splits.train.len(), splits.val.len(), splits.test.len()),
        Err(error) => {
            let complaint = error.complaint();
            assert!(!complaint.what.is_empty() && !complaint.hint.is_empty(), "{complaint:?}");
            let text =
                format!("{}: expected {}, found {}", complaint.place, complaint.expected, complaint.found);
            text.replace(folder.path().to_str().unwrap(), "DIR")
        }
    }
}

/// A byte of made CIFAR: every file, record, channel and place differs from its neighbours.
fn cifar_byte(file: usize, record: usize, channel: usize, place: usize) -> u8 {
    (file * 101 + record * 53 + channel * 29 + place * 3) as u8
}

fn cifar_file(file: usize, records: usize) -> Vec<u8> {
    (0..records)
        .flat_map(|record| {
            let pixels = (0..3072).map(move |i| cifar_byte(file, record, i / 1024, i % 1024));
            std::iter::once(((file + record) % 10) as u8).chain(pixels)
        })
        .collect()
}

fn cifar_folder(folder: &Path, records: usize) {
    fs::create_dir_all(folder).unwrap();
    for file in 1..=5 {
        fs::write(folder.join(format!("data_batch_{file}.bin")), cifar_file(file, records)).unwrap();
    }
    fs::write(folder.join("test_batch.bin"), cifar_file(6, records)).unwrap();
}

#[test]
fn cifar_is_read_back() {
    let folder = TempDir::new().unwrap();
    cifar_folder(&folder.path().join("cifar-10-batches-bin"), 4);
    for path in [folder.path().to_path_buf(), folder.path().join("cifar-10-batches-bin")] {
        let splits = read(&data(DataKind::Cifar10, &path, 6)).unwrap();
        let facts = splits.facts();
        assert_eq!((facts.train_examples, facts.val_examples, facts.test_examples), (14, 6, 4));
        assert_eq!((facts.image, facts.classes), ([32, 32, 3], 10));
        assert_eq!(splits.train.info().classes[9], "truck");
        assert_eq!((splits.read.items, splits.decode.items), (24, 24));
        let all = (0..14).map(|i| (&splits.train, i)).chain((0..6).map(|i| (&splits.val, i)));
        for (k, (set, i)) in all.enumerate() {
            let (file, record) = (1 + k / 4, k % 4);
            assert_eq!(set.labels()[i] as usize, (file + record) % 10);
            let image = set.image(i);
            for place in [0, 1, 31, 32, 1023] {
                for channel in 0..3 {
                    assert_eq!(image[place * 3 + channel], cifar_byte(file, record, channel, place));
                }
            }
        }
        assert_eq!(splits.get(Split::Test).image(3)[5], cifar_byte(6, 3, 2, 1));
    }
}

#[test]
fn malformed_cifar_is_refused() {
    let check = |file: &str, change: &dyn Fn(&Path), expect: &str| {
        let folder = TempDir::new().unwrap();
        cifar_folder(folder.path(), 3);
        change(&folder.path().join(file));
        assert_eq!(complaint(&data(DataKind::Cifar10, folder.path(), 1), &folder), expect);
    };
    let write = |bytes: Vec<u8>| move |path: &Path| fs::write(path, &bytes).unwrap();
    check("data_batch_1.bin", &|_| (), "fine: 14 1 3");
    check(
        "data_batch_1.bin",
        &|path| fs::remove_file(path).unwrap(),
        "DIR: expected CIFAR-10 in its binary version (not the Python one): data_batch_1.bin here or in \
         cifar-10-batches-bin/, found data_batch_2.bin, data_batch_3.bin, data_batch_4.bin, data_batch_5.bin, ... \
         (5 entries)",
    );
    check(
        "data_batch_3.bin",
        &|path| fs::remove_file(path).unwrap(),
        "DIR/data_batch_3.bin: expected a file of the set whose other files are here, found no such file",
    );
    check(
        "test_batch.bin",
        &|path| fs::remove_file(path).unwrap(),
        "DIR/test_batch.bin: expected a file of the set whose other files are here, found no such file",
    );
    check(
        "data_batch_2.bin",
        &|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        "DIR/data_batch_2.bin: expected a file, found a folder",
    );
    check(
        "data_batch_2.bin",
        &write(Vec::new()),
        "DIR/data_batch_2.bin, byte 0: expected records of 3073 bytes, found an empty file",
    );
    check(
        "data_batch_4.bin",
        &write(cifar_file(4, 3)[..3 * RECORD - 1].to_vec()),
        "DIR/data_batch_4.bin, byte 6146: expected whole records of 3073 bytes, found 3072 bytes, then the end of \
         the file",
    );
    check(
        "test_batch.bin",
        &write(cifar_file(6, 4)[..3 * RECORD + 1].to_vec()),
        "DIR/test_batch.bin, byte 9219: expected whole records of 3073 bytes, found 1 bytes, then the end of the file",
    );
    check(
        "data_batch_5.bin",
        &write(cifar_file(5, 2)),
        "DIR/data_batch_5.bin, byte 6146: expected 3 records, as in the longest of the six files, found the end of \
         the file after 2",
    );
    check(
        "data_batch_5.bin",
        &|path| fs::File::options().write(true).open(path).unwrap().set_len(10_001 * RECORD as u64).unwrap(),
        "DIR/data_batch_5.bin, byte 30730000: expected the end of the file after 10000 records of 3073 bytes, found \
         3073 more bytes",
    );
    let mut wrong = cifar_file(3, 3);
    wrong[2 * RECORD] = 10;
    check(
        "data_batch_3.bin",
        &write(wrong),
        "DIR/data_batch_3.bin, byte 6146: expected a label from 0 to 9, found 10",
    );
}

fn idx(magic: u32, extents: &[u32], data: &[u8]) -> Vec<u8> {
    let header = std::iter::once(&magic).chain(extents).flat_map(|field| field.to_be_bytes());
    header.chain(data.iter().copied()).collect()
}

fn images(n: usize) -> Vec<u8> {
    let pixels: Vec<u8> = (0..n * 784).map(|i| (i / 784 * 17 + i % 784) as u8).collect();
    idx(0x803, &[n as u32, 28, 28], &pixels)
}

fn labels(n: usize) -> Vec<u8> {
    idx(0x801, &[n as u32], &(0..n).map(|i| (i * 3 % 10) as u8).collect::<Vec<_>>())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const IDX_FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// A set of 5 training and 2 test images under names and in packing of the caller's choice.
fn idx_folder(folder: &Path, name: impl Fn(&str) -> String, pack: impl Fn(&[u8]) -> Vec<u8>) {
    fs::create_dir_all(folder).unwrap();
    for (file, bytes) in IDX_FILES.iter().zip([images(5), labels(5), images(2), labels(2)]) {
        fs::write(folder.join(name(file)), pack(&bytes)).unwrap();
    }
}

#[test]
fn idx_is_read_back_under_all_its_names() {
    type Name = fn(&str) -> String;
    let names: [(Name, bool); 6] = [
        (|name| name.to_string(), false),
        (|name| format!("{name}.gz"), true),
        (|name| name.replace("-idx", ".idx"), false),
        (|name| name.replace("-idx", ".idx") + ".gz", true),
        // Unpacked or packed without a change of name.
        (|name| format!("{name}.gz"), false),
        (|name| name.to_string(), true),
    ];
    for (name, packed) in names {
        for (kind, below) in [
            (DataKind::Mnist, ""),
            (DataKind::Mnist, "mnist"),
            (DataKind::Mnist, "MNIST/raw"),
            (DataKind::FashionMnist, "fashion-mnist"),
            (DataKind::FashionMnist, "FashionMNIST/raw"),
        ] {
            let folder = TempDir::new().unwrap();
            let pack = |bytes: &[u8]| if packed { gzip(bytes) } else { bytes.to_vec() };
            idx_folder(&folder.path().join(below), name, pack);
            let splits = read(&data(kind, folder.path(), 2)).unwrap();
            assert_eq!((splits.train.len(), splits.val.len(), splits.test.len()), (3, 2, 2));
            assert_eq!(splits.val.labels(), [9, 2]);
            assert_eq!(splits.val.image(1)[..3], [4 * 17, 4 * 17 + 1, 4 * 17 + 2]);
            assert_eq!(splits.test.shape(), [28, 28, 1]);
            let shirt = if kind == DataKind::Mnist { "6" } else { "Shirt" };
            assert_eq!(splits.test.info().classes[6], shirt);
        }
    }
}

#[test]
fn malformed_idx_is_refused() {
    let check = |file: usize, bytes: Vec<u8>, expect: &str| {
        let folder = TempDir::new().unwrap();
        idx_folder(folder.path(), str::to_string, <[u8]>::to_vec);
        fs::write(folder.path().join(IDX_FILES[file]), bytes).unwrap();
        let plan = data(DataKind::Mnist, folder.path(), 1);
        let file = format!("DIR/{}, ", IDX_FILES[file]);
        assert_eq!(complaint(&plan, &folder).replace(&file, ""), expect);
    };
    check(0, images(5), "fine: 4 1 2");
    check(0, Vec::new(), "byte 0: expected a header of 16 bytes, found an empty file");
    check(1, labels(5)[..7].to_vec(), "byte 7: expected a header of 8 bytes, found 7 bytes");
    check(0, labels(5), "byte 13: expected a header of 16 bytes, found 13 bytes");
    check(
        0,
        idx(0x801, &[5, 28, 28], &[0; 5 * 784]),
        "byte 0: expected the magic number 0x00000803 of unsigned bytes in 3 dimensions, found 0x00000801",
    );
    check(
        3,
        idx(0x0d01, &[2], &[0; 8]),
        "byte 0: expected the magic number 0x00000801 of unsigned bytes in 1 dimensions, found 0x00000d01",
    );
    check(0, idx(0x803, &[0, 28, 28], &[]), "byte 4: expected 1 to 1000000 items, found 0");
    check(
        2,
        idx(0x803, &[u32::MAX, 28, 28], &[0; 784]),
        "byte 4: expected 1 to 1000000 items, found 4294967295",
    );
    check(
        0,
        idx(0x803, &[5, 28, 29], &[0; 5 * 784]),
        "byte 12: expected images of 28x28, found an extent of 29",
    );
    check(
        0,
        idx(0x803, &[5, 1 << 31, 28], &[0; 784]),
        "byte 8: expected images of 28x28, found an extent of 2147483648",
    );
    check(
        0,
        images(5)[..16 + 5 * 784 - 1].to_vec(),
        "byte 3935: expected the end of the file after 5 items, at byte 3936, found the end of the file 1 bytes before",
    );
    check(
        0,
        [images(5), vec![0]].concat(),
        "byte 3936: expected the end of the file after 5 items, at byte 3936, found more bytes",
    );
    check(
        1,
        labels(4),
        "byte 4: expected 5 labels, one for each image of DIR/train-images-idx3-ubyte, found 4",
    );
    let mut wrong = labels(5);
    wrong[8 + 3] = 10;
    check(1, wrong, "byte 11: expected a label from 0 to 9, found 10");
    let packed = gzip(&images(5));
    for cut in [3, 10, 20, packed.len() - 9, packed.len() - 1] {
        let folder = TempDir::new().unwrap();
        idx_folder(folder.path(), str::to_string, <[u8]>::to_vec);
        fs::write(folder.path().join(IDX_FILES[0]), &packed[..cut]).unwrap();
        let text = complaint(&data(DataKind::Mnist, folder.path(), 1), &folder);
        assert!(text.contains("expected whole gzipped data, found damage"), "{cut}: {text}");
    }
    let mut damaged = packed.clone();
    damaged[packed.len() / 2] ^= 0x55;
    check_damaged(damaged);
}

fn check_damaged(bytes: Vec<u8>) {
    let folder = TempDir::new().unwrap();
    idx_folder(folder.path(), str::to_string, <[u8]>::to_vec);
    fs::write(folder.path().join(IDX_FILES[0]), bytes).unwrap();
    let text = complaint(&data(DataKind::Mnist, folder.path(), 1), &folder);
    assert!(text.contains("expected whole gzipped data, found damage"), "{text}");
}

#[test]
fn missing_folders_say_what_is_there() {
    let folder = TempDir::new().unwrap();
    let plan = data(DataKind::FashionMnist, folder.path(), 1);
    let expected = "DIR: expected Fashion-MNIST: train-images-idx3-ubyte here or in fashion-mnist/ or \
                    FashionMNIST/raw/, found ";
    assert_eq!(complaint(&plan, &folder), format!("{expected}an empty folder"));
    let plan = data(DataKind::FashionMnist, &folder.path().join("none"), 1);
    assert_eq!(complaint(&plan, &folder), format!("{expected}no such folder").replace("DIR:", "DIR/none:"));
    fs::write(folder.path().join("file"), "text").unwrap();
    let plan = data(DataKind::FashionMnist, &folder.path().join("file"), 1);
    assert!(complaint(&plan, &folder).contains("DIR/file: expected Fashion-MNIST"));
    let plan = DataPlan { path: None, ..plan };
    assert!(matches!(read(&plan), Err(PipelineError::Plan(_))));
}

#[test]
fn splits_are_counted() {
    let folder = TempDir::new().unwrap();
    idx_folder(folder.path(), str::to_string, <[u8]>::to_vec);
    let check = |train, validation, test, expect: &str| {
        let plan = DataPlan { train, test, ..data(DataKind::Mnist, folder.path(), validation) };
        assert_eq!(complaint(&plan, &folder), expect);
    };
    check(None, 0, None, "fine: 5 0 2");
    check(Some(2), 2, Some(1), "fine: 2 2 1");
    check(Some(3), 2, Some(2), "fine: 3 2 2");
    let too_many = "data.train: expected 1 to 3, the examples that there are, found 4";
    check(Some(4), 2, None, too_many);
    check(Some(0), 2, None, "data.train: expected 1 to 3, the examples that there are, found 0");
    check(None, 2, Some(3), "data.test: expected 1 to 2, the examples that there are, found 3");
    let validation = "data.validation: expected fewer than the 5 examples of the training files, found 5";
    check(None, 5, None, validation);
    check(None, usize::MAX, None, &validation.replace("found 5", &format!("found {}", usize::MAX)));
}

#[test]
fn shapes_are_counted() {
    let folder = TempDir::new().unwrap();
    let check = |train, validation, test, expect: &str| {
        let plan = DataPlan { path: None, train, test, ..data(DataKind::Shapes, Path::new(""), validation) };
        assert_eq!(complaint(&plan, &folder), expect);
    };
    check(Some(11), 0, Some(3), "fine: 11 0 3");
    check(Some(0), 1, Some(3), "data.train: expected 1 to 1000000 drawings, found 0");
    check(
        Some(1),
        usize::MAX,
        None,
        &format!("data.validation: expected 0 to 1000000 drawings, found {}", usize::MAX),
    );
}
