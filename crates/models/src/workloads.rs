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
    "shapes-cnn": "ResNet-9 an eighth as wide, on drawings made by code; needs no files",
    "mnist-cnn": "Simple CNN of Shallue et al. on MNIST",
    "fashion-cnn": "Simple CNN of Shallue et al. on Fashion-MNIST",
    "cifar10-resnet8": "ResNet-8 without normalisation of Shallue et al. on CIFAR-10",
    "cifar10-resnet9": "Page's ResNet-9 on CIFAR-10, to 94 % test accuracy in 24 epochs",
}

/// All built-in workloads, the default first.
pub fn workloads() -> &'static [Workload] {
    WORKLOADS
}

/// The built-in workload of this name.
pub fn workload(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|w| w.name == name)
}
