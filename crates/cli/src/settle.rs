//! From what the user typed to a plan: the workload or file, then settings and the options that are short for them.

use crate::args::{PlanArgs, TrainArgs};
use crate::fail::Failure;
use crate::machine;
use sooner_models::{DEFAULT_WORKLOAD, Model, Workload, workload, workloads};
use sooner_pipeline::Splits;
use sooner_plan::{DataFacts, Plan, Setting};
use sooner_record::{RunReader, WEIGHTS_FILE};
use std::path::Path;

/// The built-in workload of this name, or an error that names the nearest.
pub(crate) fn builtin(name: &str) -> Result<&'static Workload, Failure> {
    workload(name).ok_or_else(|| {
        let names: Vec<&str> = workloads().iter().map(|w| w.name).collect();
        let list = "`sooner workloads` lists all of them; a plan file's name ends in .toml";
        let hint = match sooner_plan::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? {list}"),
            None => list.to_string(),
        };
        let expected = format!("one of {} workloads, or a plan file", names.len());
        Failure::usage("no such workload", "WORKLOAD", [&expected, &format!("`{name}`"), &hint])
    })
}

/// The plan that a command works on, before it is resolved.
pub(crate) fn plan(args: &PlanArgs, more: &[Setting]) -> anyhow::Result<Plan> {
    let name = args.workload.as_deref().unwrap_or(DEFAULT_WORKLOAD);
    let plan = if name.ends_with(".toml") {
        let text = std::fs::read_to_string(name).map_err(|error| {
            let hint = "`sooner workloads NAME` prints a plan to start from";
            Failure::world("cannot read the plan file", name, ["a text file", &error.to_string(), hint])
        })?;
        Plan::parse(&text).map_err(|e| e.in_file(name))?
    } else {
        Plan::parse(builtin(name)?.toml)?
    };
    with_settings(plan, args, more)
}

/// A plan with what else was typed.
fn with_settings(mut plan: Plan, args: &PlanArgs, more: &[Setting]) -> anyhow::Result<Plan> {
    let mut settings = args.set.iter().map(|s| Setting::parse(s)).collect::<Result<Vec<_>, _>>()?;
    if let Some(folder) = &args.data {
        settings.push(Setting::option("--data", "data.path", &quoted(&place(folder)?)));
    }
    if let Some(threads) = args.threads {
        settings.push(Setting::option("--threads", "run.threads", &threads.to_string()));
    }
    if let Some(replicas) = args.replicas {
        settings.push(Setting::option("--replicas", "run.replicas", &replicas.to_string()));
    }
    settings.extend_from_slice(more);
    plan.apply(&settings)?;
    if let Some(path) = plan.data.path.as_mut().filter(|path| !path.contains("://")) {
        *path = absolute("data.path", Path::new(path.as_str()))?;
    }
    Ok(plan)
}

/// The plan of a training run.
pub(crate) fn train_plan(args: &TrainArgs) -> anyhow::Result<Plan> {
    let mut more = Vec::new();
    if let Some(target) = &args.target {
        // The bare word takes the target away; in quotes it would be read as one.
        let value = if target == "none" { target.clone() } else { quoted(target) };
        more.push(Setting::option("--target", "run.target", &value));
    }
    if let Some(seed) = args.seed {
        more.push(Setting::option("--seed", "seed", &seed.to_string()));
    }
    if let Some(path) = &args.init {
        let file = if path.is_dir() { path.join(WEIGHTS_FILE) } else { path.clone() };
        more.push(Setting::option("--init", "run.init.weights", &quoted(&absolute("--init", &file)?)));
    }
    if !args.init_except.is_empty() {
        let list = args.init_except.iter().map(|prefix| quoted(prefix)).collect::<Vec<_>>().join(", ");
        more.push(Setting::option("--init-except", "run.init.except", &format!("[{list}]")));
    }
    // To do what a record's run did asks for its plan.
    let base = match (&args.replay, &args.plan.workload) {
        (Some(record), None) => Some(RunReader::open_started(record)?.plan),
        _ => None,
    };
    let plan = |args: &PlanArgs, more: &[Setting]| match &base {
        Some(base) => with_settings(base.clone(), args, more),
        None => plan(args, more),
    };
    if let Some(record) = &args.replay {
        more.push(Setting::option("--replay", "run.replay", &quoted(&absolute("--replay", record)?)));
    }
    let Some(epochs) = args.epochs else { return plan(&args.plan, &more) };
    // Stretching moves the schedule's horizon along with it; said here, before that is found wrong for it.
    positive("--epochs", epochs)?;
    // The setting finds overlaps; so does this one, which the stretched horizon would overrule.
    let before = plan(&args.plan, &more)?;
    if let Some(setting) = args.plan.set.iter().find(|s| sets_length(s)) {
        let fields = [
            "each length to be set once",
            &format!("also --set {setting}"),
            "--epochs sets the schedule's horizon too; --set run.epochs=N leaves it alone",
        ];
        return Err(Failure::usage("length is set twice", "--epochs", fields).into());
    }
    more.push(Setting::option("--epochs", "run.epochs", &format!("{epochs:?}")));
    plan(&args.plan, &more)?;
    Ok(before.with_epochs(epochs))
}

/// Refuses what is no finite number above 0.
pub(crate) fn positive(option: &str, value: f64) -> Result<(), Failure> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => {
            Err(Failure::usage("value cannot be used", option, ["a number above 0", &value.to_string(), ""]))
        }
    }
}

/// Refuses a goal that is no fraction.
pub(crate) fn goal(goal: f64) -> Result<(), Failure> {
    if goal > 0.0 && goal <= 1.0 {
        return Ok(());
    }
    let hint = "accuracies are fractions here; only the files speak in percent";
    let fields = ["a number above 0, at most 1", &goal.to_string(), hint];
    Err(Failure::usage("goal is no fraction", "--goal", fields))
}

/// Whether a setting decides how long the schedule is.
fn sets_length(setting: &str) -> bool {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let within = key.trim() == "schedule" && (value.contains("horizon") || value.contains("decay_updates"));
    within || ["schedule.horizon", "schedule.decay_updates"].contains(&key.trim())
}

pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// The folder given by `--data` as records have it, or an address, which stays as it is.
pub(crate) fn place(path: &Path) -> Result<String, Failure> {
    match path.to_str() {
        Some(address) if address.contains("://") => Ok(address.to_string()),
        _ => absolute("--data", path),
    }
}

/// Paths in records must mean the same from any folder, and records are text.
pub(crate) fn absolute(option: &str, path: &Path) -> Result<String, Failure> {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    whole.into_os_string().into_string().map_err(|whole| {
        let shown = whole.to_string_lossy();
        let hint = "records are text and could not name it: rename it, or make a link with another name";
        Failure::usage("path is no text", option, ["a path in UTF-8", &format!("`{shown}`"), hint])
    })
}

/// The sizes of the data by a look at the files. If there is something wrong with both the plan and the files, the plan's
/// error comes first.
pub(crate) fn peek(plan: &Plan) -> anyhow::Result<DataFacts> {
    match sooner_pipeline::peek(&plan.data) {
        Ok(facts) => Ok(facts),
        Err(error) => {
            plan.check_without_data()?;
            Err(error.into())
        }
    }
}

/// Refuses a network whose parameters alone cannot be trained in this machine's memory: allocating them would end the
/// process, or everything else on the machine.
pub(crate) fn check_model(model: &Model) -> Result<(), Failure> {
    let Some(memory) = machine::memory() else { return Ok(()) };
    let vars = model.vars();
    let count: u128 =
        vars.ids().map(|id| vars.get(id).shape.dims().iter().map(|&n| n as u128).product::<u128>()).sum();
    // Each with its gradient, and four bytes a number.
    let bytes = 2 * 4 * count;
    if bytes <= u128::from(memory) {
        return Ok(());
    }
    let gib = |bytes: f64| format!("{:.1} GiB", bytes / f64::from(1 << 30));
    let expected = format!("parameters and gradients within this machine's {}", gib(memory as f64));
    let found = format!("{count} parameters, {} with their gradients", gib(bytes as f64));
    Err(Failure::usage(
        "network does not fit in memory",
        "model",
        [&expected, &found, "make its layers smaller"],
    ))
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
