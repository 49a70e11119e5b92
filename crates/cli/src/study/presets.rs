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
    "mnist-batch": "updates-to-target against batch size, SGD and Nesterov, a narrow Simple CNN on MNIST",
    "mnist-widths": "updates-to-target against batch size, three widths of a fully connected network on MNIST",
    "fashion-echo": "echo factor, place and batch size, Simple CNN on Fashion-MNIST, its best trials over seeds",
    "cifar10-smoothing": "label smoothing at three batch sizes, ResNet-8 on a fifth of CIFAR-10",
    "mnist-batch-large": "the published Simple CNN to 1 %, 14 batch sizes, 100 trials a point: weeks of a core",
    "fashion-echo-large": "the same to 10 %, echo factors up to 16, 100 trials a point: weeks of a core",
    "cifar10-smoothing-large": "the same on all of CIFAR-10 to 30 %, 13 batch sizes, 100 trials a point: weeks of a core",
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
    use super::super::native::trial_plan;
    use super::PRESETS;
    use sooner_models::Model;
    use sooner_study::definition::{Confirms, PointPlan, StudyPlan};

    #[test]
    fn presets_are_studies() {
        for preset in PRESETS {
            let plan = StudyPlan::parse(preset.toml).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            assert_eq!(plan.name, preset.name);
            for point in plan.points().unwrap() {
                let values = plan.draw(&point, 0).expect("a first trial");
                let told = |e| panic!("{} at {}: {e:#}", preset.name, point.label());
                trial_plan(&plan, &point, &values, 1).unwrap_or_else(told);
                let confirms = Some(Confirms { trial: 0, values: values.clone() });
                let again = PointPlan { confirms, ..point.clone() };
                let run = trial_plan(&plan, &again, &values, 1).unwrap_or_else(told);
                let facts = run.data.expected_facts();
                run.resolve(&facts, 2)
                    .unwrap_or_else(|e| panic!("{} at {}: {e}", preset.name, again.label()));
            }
        }
    }

    #[test]
    fn small_presets_fit_into_eight_core_hours() {
        // If every trial used its whole budget, evaluations a third of an update each, on a core that makes 80 GFLOP/s.
        let hours = |name: &str| -> f64 {
            let plan = StudyPlan::parse(super::preset(name).unwrap().toml).unwrap();
            let confirm = plan.confirm.as_ref().map_or(0, |c| c.runs);
            let of_point = |point: &PointPlan| {
                let run = trial_plan(&plan, point, &plan.draw(point, 0).unwrap(), 1).unwrap();
                let facts = run.data.expected_facts();
                let model =
                    Model::new(&run.model, run.pipeline.image_shape(facts.image), facts.classes).unwrap();
                let evaluations = run.evaluation_points(&facts).iter().count() as f64;
                let evaluated = facts.examples_of(run.evaluation_split()) as f64 / 3.0;
                let examples = run.total_examples(facts.train_examples).0 as f64 + evaluations * evaluated;
                (plan.trials + confirm) as f64 * examples * model.flops_per_example().unwrap() as f64
            };
            plan.points().unwrap().iter().map(of_point).sum::<f64>() / 80e9 / 3600.0
        };
        let small = ["mnist-batch", "mnist-widths", "fashion-echo", "cifar10-smoothing"].map(hours);
        assert!(small.iter().sum::<f64>() < 8.0 && small[0] < 3.5, "{small:?}");
    }
}
