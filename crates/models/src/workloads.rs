//! The built-in workloads: plans in `workloads/`, compiled in.

/// A built-in plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// What it is called on the command line.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The plan as TOML.
    pub toml: &'static str,
}

/// The workload that runs when none is named; needs no files.
pub const DEFAULT_WORKLOAD: &str = "shapes-cnn";

macro_rules! workloads {
    ($($name:literal: $about:literal,)*) => {
        const WORKLOADS: &[Workload] = &[
            $(Workload { name: $name, about: $about, toml: include_str!(concat!("../workloads/", $name, ".toml")) },)*
        ];
    };
}

workloads! {
    "shapes-cnn": "an eighth of ResNet-9; drawings by code",
    "mnist-cnn": "Simple CNN of Shallue et al. (2018)",
    "mnist-cnn-narrow": "the same at half the width",
    "mnist-cnn-wide": "the same at twice the width",
    "mnist-fc-1024": "one hidden layer (Shallue et al.)",
    "mnist-fc-1024x2": "two hidden layers",
    "mnist-fc-1024x3": "three hidden layers",
    "mnist-fc-2048x3": "three, twice as wide",
    "mnist-fc-512x3": "three of 512 units",
    "mnist-fc-256x3": "three of 256 units",
    "mnist-fc-128x3": "three of 128 units",
    "mnist-fc-64x3": "three of 64 units",
    "fashion-cnn": "Simple CNN of Shallue et al. (2018)",
    "cifar10-resnet8": "without normalisation (Shallue et al.)",
    "cifar10-resnet9": "Page (2018), to 94 % in 24 epochs",
    "cifar10-resnet32": "He et al. (2015)",
    "cifar10-vgg11": "with normalisation, 512 hidden units",
    "cifar10-dawn-redundant": "DAWNBench's ResNet-18 as first entered",
    "cifar10-dawn-resnet18": "without its redundant norm-ReLU",
    "cifar10-page-1x1": "its short branches alone",
    "cifar10-page-3x3": "3x3 convolutions for 1x1",
    "cifar10-page-pool": "max pooling for strides",
    "cifar10-page-max-head": "global max pooling, 512 channels",
    "cifar10-page-scaled": "gains from 1, logits scaled",
    "cifar10-page-wide": "twice as wide, 60 epochs",
    "cifar10-page-extra": "three more convolutions, 60 epochs",
    "cifar10-page-residual": "residual pairs: ResNet-9, 20 epochs",
    "cifar10-page-early-pool": "pooling before normalisation",
    "cifar10-page-smoothing": "and smoothed labels",
    "cifar10-page-celu": "and CELU",
    "cifar10-page-ghost": "and statistics of 32 examples",
    "cifar10-page-fixed-gain": "and gains of 1, fast biases",
    "cifar10-page-whiten": "and whitened patches, 14 epochs",
    "cifar10-page-ema": "and averaged weights, 13 epochs",
    "cifar10-94": "Muon, 94 % by the final weights",
    "cifar10-airbench94": "Jordan (2024), to 94 %",
    "cifar10-airbench94-muon": "filters by Muon, 8 epochs",
    "cifar10-airbench95": "wider, to 95 %",
    "cifar10-airbench96": "wider and deeper, to 96 %",
    "flowers-resnet": "ResNet-8 on 64x64 crops, an image folder",
    "flowers-resnet50": "He et al. (2015), 224 px, an image folder",
}

/// All built-in workloads, the default first.
pub fn workloads() -> &'static [Workload] {
    WORKLOADS
}

/// The built-in workload of this name.
pub fn workload(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|w| w.name == name)
}
