//! Studies that come with the program.

use crate::fail::Failure;

/// A study's file that is compiled in.
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) toml: &'static str,
}

macro_rules! presets {
    ($($name:literal: $about:literal,)*) => {
        pub(crate) const PRESETS: &[Preset] = &[
            $(Preset { name: $name, about: $about, toml: include_str!(concat!("../../studies/", $name, ".toml")) },)*
        ];
    };
}

presets! {
    "shapes-batch": "batch size on drawings made by code: minutes, no files",
    "mnist-batch": "updates-to-target against batch size, SGD and Nesterov, Simple CNN on MNIST",
    "fashion-echo": "echo factor, place and batch size, Simple CNN on Fashion-MNIST",
    "cifar10-smoothing": "label smoothing at three batch sizes, ResNet-8 on a fifth of CIFAR-10",
}

/// The preset of this name, or an error that names the nearest.
pub(crate) fn preset(name: &str) -> anyhow::Result<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
        let hint = match sooner_plan::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? A study's file ends in .toml"),
            None => "`sooner study new` lists them; a study's file ends in .toml".to_string(),
        };
        let expected = format!("one of {}, or a file", names.join(", "));
        Failure::usage("no such preset", "PRESET", [&expected, &format!("`{name}`"), &hint]).into()
    })
}

#[cfg(test)]
mod tests {
    use super::PRESETS;
    use sooner_study::definition::StudyPlan;

    #[test]
    fn presets_are_studies() {
        for preset in PRESETS {
            let plan = StudyPlan::parse(preset.toml).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            assert_eq!(plan.name, preset.name);
            for point in plan.points().unwrap() {
                let values = plan.draw(&point, 0).expect("a first trial");
                super::super::native::trial_plan(&plan, &point, &values, 1)
                    .unwrap_or_else(|e| panic!("{} at {}: {e:#}", preset.name, point.label()));
            }
        }
    }
}
