//! From what the user typed to a plan: the workload or file, then settings and the options that are short for them.

use crate::args::{PlanArgs, TrainArgs};
use crate::fail::Failure;
use anyhow::Context;
use sooner_models::{DEFAULT_WORKLOAD, Workload, workload, workloads};
use sooner_pipeline::Splits;
use sooner_plan::{DataFacts, Plan, Setting};
use std::path::Path;

/// The built-in workload of this name, or an error that names the nearest.
pub(crate) fn builtin(name: &str) -> Result<&'static Workload, Failure> {
    workload(name).ok_or_else(|| {
        let names: Vec<&str> = workloads().iter().map(|w| w.name).collect();
        let hint = match sooner_plan::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? A plan file's name ends in .toml"),
            None => "`sooner workloads` lists them; a plan file's name ends in .toml".to_string(),
        };
        let expected = format!("one of {}, or a plan file", names.join(", "));
        Failure::usage("no such workload", "WORKLOAD", [&expected, &format!("`{name}`"), &hint])
    })
}

/// The plan that a command works on, before it is resolved.
pub(crate) fn plan(args: &PlanArgs, more: &[Setting]) -> anyhow::Result<Plan> {
    let name = args.workload.as_deref().unwrap_or(DEFAULT_WORKLOAD);
    let mut plan = if name.ends_with(".toml") {
        let text =
            std::fs::read_to_string(name).with_context(|| format!("cannot read the plan file `{name}`"))?;
        Plan::parse(&text).map_err(|e| e.in_file(name))?
    } else {
        Plan::parse(builtin(name)?.toml)?
    };
    let mut settings = args.set.iter().map(|s| Setting::parse(s)).collect::<Result<Vec<_>, _>>()?;
    if let Some(folder) = &args.data {
        settings.push(Setting::option("--data", "data.path", &quoted(&absolute(folder))));
    }
    if let Some(threads) = args.threads {
        settings.push(Setting::option("--threads", "run.threads", &threads.to_string()));
    }
    settings.extend_from_slice(more);
    plan.apply(&settings)?;
    Ok(plan)
}

/// The plan of a training run.
pub(crate) fn train_plan(args: &TrainArgs) -> anyhow::Result<Plan> {
    let mut more = Vec::new();
    if let Some(target) = &args.target {
        more.push(Setting::option("--target", "run.target", &quoted(target)));
    }
    if let Some(seed) = args.seed {
        more.push(Setting::option("--seed", "seed", &seed.to_string()));
    }
    let Some(epochs) = args.epochs else { return plan(&args.plan, &more) };
    // The setting finds overlaps and impossible values; stretching moves the schedule's horizon along with it.
    let before = plan(&args.plan, &more)?;
    more.push(Setting::option("--epochs", "run.epochs", &format!("{epochs:?}")));
    plan(&args.plan, &more)?;
    Ok(before.with_epochs(epochs))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// Paths in records must mean the same from any folder.
pub(crate) fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// The sizes of loaded data.
pub(crate) fn facts(splits: &Splits) -> DataFacts {
    DataFacts {
        train_examples: splits.train.len(),
        val_examples: splits.val.len(),
        test_examples: splits.test.len(),
        image: splits.train.shape(),
        classes: splits.train.classes(),
    }
}

/// Height, width and channels of what a network sees: images, cut where the plan cuts them.
pub(crate) fn input_shape([h, w, c]: [usize; 3], crop: Option<usize>) -> [usize; 3] {
    let [h, w] = crop.map_or([h, w], |size| [size; 2]);
    [h, w, c]
}
