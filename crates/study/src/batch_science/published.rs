//! What the paper says of its workloads and its files do not.

use crate::target::{Operator, Target};

/// Examples in a data set's training split, validation split taken off; `None` where it is not known.
pub fn train_examples(dataset: &str) -> Option<u64> {
    let name = dataset.rsplit('/').next().unwrap_or(dataset);
    match name {
        "mnist" | "fashion_mnist" => Some(55_000),
        "cifar_10" => Some(45_000),
        "imagenet" => Some(1_281_167),
        "open_images_v4" => Some(4_526_492),
        "lm1b" => Some(30_301_028),
        // Subsets are named for their size.
        _ => name.strip_prefix("mnist_")?.parse().ok(),
    }
}

/// The target of the paper's Figure 1 for a workload; `None` if it is not one of that figure's, and a target has to be
/// chosen.
pub fn published_target(dataset: &str, model: &str) -> Option<Target> {
    let target = |metric: &str, operator, value| Some(Target { metric: metric.into(), operator, value });
    let error = |value| target("val.classification_error", Operator::Below, value);
    match (dataset, model) {
        ("mnist", "simple_cnn_base") => error(0.01),
        ("fashion_mnist", "simple_cnn_base") => error(0.10),
        ("cifar_10", "resnet_8") => error(0.30),
        ("imagenet", "resnet_50") => error(0.25),
        ("imagenet", "vgg_11") => error(0.35),
        ("open_images_v4", "resnet_50") => target("val.average_precision", Operator::Above, 0.31),
        ("lm1b", "transformer_base" | "lstm") | ("common_crawl", "transformer_base") => {
            target("val.cross_entropy_error", Operator::Below, 3.9)
        }
        _ => None,
    }
}
