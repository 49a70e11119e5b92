//! The sets that are known. MD5s are the authors'; SHA-256s were computed from files that have them.

use super::{Download, Form, PublishedFile, PublishedSet, blocks};
use crate::source::cifar10;
use sooner_plan::{DataKind, Split};

const fn records(index: usize, split: Split, [md5, sha256]: [&'static str; 2]) -> PublishedFile {
    let blocks = blocks::CIFAR10[index];
    PublishedFile {
        name: cifar10::FILES[index],
        split,
        bytes: 30_730_000,
        md5,
        sha256,
        form: Form::Records,
        blocks,
    }
}

const IDX_FILES: [(&str, Split, u64, Form); 4] = [
    ("train-images-idx3-ubyte", Split::Train, 47_040_016, Form::Images),
    ("train-labels-idx1-ubyte", Split::Train, 60_008, Form::Labels),
    ("t10k-images-idx3-ubyte", Split::Test, 7_840_016, Form::Images),
    ("t10k-labels-idx1-ubyte", Split::Test, 10_008, Form::Labels),
];

const fn idx_file(
    index: usize,
    blocks: &[&'static [u32]; 4],
    [md5, sha256]: [&'static str; 2],
) -> PublishedFile {
    let (name, split, bytes, form) = IDX_FILES[index];
    PublishedFile { name, split, bytes, md5, sha256, form, blocks: blocks[index] }
}

/// The page of MNIST's authors no longer hands out files; these two carry them unchanged.
const MNIST_ADDRESSES: &[&str] = &[
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
];

/// As the authors' page names them: the store, then the repository.
const FASHION_ADDRESSES: &[&str] = &[
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
];

const fn idx_download(
    addresses: &'static [&'static str],
    name: &'static str,
    (bytes, md5): (u64, &'static str),
    files: &'static [&'static str],
) -> Download {
    Download { name, addresses, bytes, md5, files }
}

pub(super) static SETS: [PublishedSet; 3] = [
    PublishedSet {
        kind: DataKind::Mnist,
        name: "mnist",
        about: "handwritten digits, 60,000 + 10,000 of 28x28, grey, 10 classes (LeCun, Cortes and Burges)",
        terms: "CC BY-SA 3.0, as commonly stated",
        folder: "mnist",
        files: &[
            idx_file(
                0,
                &blocks::MNIST,
                [
                    "6bbc9ace898e44ae57da46a324031adb",
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ],
            ),
            idx_file(
                1,
                &blocks::MNIST,
                [
                    "a25bea736e30d166cdddb491f175f624",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ],
            ),
            idx_file(
                2,
                &blocks::MNIST,
                [
                    "2646ac647ad5339dbf082846283269ea",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ],
            ),
            idx_file(
                3,
                &blocks::MNIST,
                [
                    "27ae3e4e09519cfbb04c329615203637",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ],
            ),
        ],
        downloads: &[
            idx_download(
                MNIST_ADDRESSES,
                "train-images-idx3-ubyte.gz",
                (9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                &["train-images-idx3-ubyte"],
            ),
            idx_download(
                MNIST_ADDRESSES,
                "train-labels-idx1-ubyte.gz",
                (28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
                &["train-labels-idx1-ubyte"],
            ),
            idx_download(
                MNIST_ADDRESSES,
                "t10k-images-idx3-ubyte.gz",
                (1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
                &["t10k-images-idx3-ubyte"],
            ),
            idx_download(
                MNIST_ADDRESSES,
                "t10k-labels-idx1-ubyte.gz",
                (4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
                &["t10k-labels-idx1-ubyte"],
            ),
        ],
    },
    PublishedSet {
        kind: DataKind::FashionMnist,
        name: "fashion-mnist",
        about: "articles of clothing, 60,000 + 10,000 of 28x28, grey, 10 classes (Zalando Research)",
        terms: "MIT",
        folder: "fashion-mnist",
        files: &[
            idx_file(
                0,
                &blocks::FASHION_MNIST,
                [
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                ],
            ),
            idx_file(
                1,
                &blocks::FASHION_MNIST,
                [
                    "9018921c3c673c538a1fc5bad174d6f9",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                ],
            ),
            idx_file(
                2,
                &blocks::FASHION_MNIST,
                [
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                ],
            ),
            idx_file(
                3,
                &blocks::FASHION_MNIST,
                [
                    "15d484375f8d13e6eb1aabb0c3f46965",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ],
            ),
        ],
        downloads: &[
            idx_download(
                FASHION_ADDRESSES,
                "train-images-idx3-ubyte.gz",
                (26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                &["train-images-idx3-ubyte"],
            ),
            idx_download(
                FASHION_ADDRESSES,
                "train-labels-idx1-ubyte.gz",
                (29_515, "25c81989df183df01b3e8a0aad5dffbe"),
                &["train-labels-idx1-ubyte"],
            ),
            idx_download(
                FASHION_ADDRESSES,
                "t10k-images-idx3-ubyte.gz",
                (4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
                &["t10k-images-idx3-ubyte"],
            ),
            idx_download(
                FASHION_ADDRESSES,
                "t10k-labels-idx1-ubyte.gz",
                (5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
                &["t10k-labels-idx1-ubyte"],
            ),
        ],
    },
    PublishedSet {
        kind: DataKind::Cifar10,
        name: "cifar10",
        about: "photographs, 50,000 + 10,000 of 32x32, colour, 10 classes (Krizhevsky, 2009), binary version",
        terms: "none stated by its author; cite the technical report",
        folder: "cifar-10-batches-bin",
        files: &[
            records(
                0,
                Split::Train,
                [
                    "5dd7e06a14cb22eb9f671a540d1b7c25",
                    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                ],
            ),
            records(
                1,
                Split::Train,
                [
                    "5ea93a67294ea407fff1d09f752e9692",
                    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                ],
            ),
            records(
                2,
                Split::Train,
                [
                    "942cd6a4bcdd0dd3c604fbe906cb4421",
                    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                ],
            ),
            records(
                3,
                Split::Train,
                [
                    "ae636b3ba5c66a11e91e8cb52e771fcb",
                    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                ],
            ),
            records(
                4,
                Split::Train,
                [
                    "53f37980c15c3d472c316c40844f3f0d",
                    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                ],
            ),
            records(
                5,
                Split::Test,
                [
                    "803d5f7f4d78ea53de84dbe85f74fb6d",
                    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                ],
            ),
        ],
        downloads: &[Download {
            name: cifar10::ARCHIVE,
            addresses: &["https://www.cs.toronto.edu/~kriz/"],
            bytes: 170_052_171,
            md5: "c32a1d4ab5d03f1284b67883e8d87530",
            files: &cifar10::FILES,
        }],
    },
];
