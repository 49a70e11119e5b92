//! `sooner study export` and `import`: a study as one text, and the published data of others.

use super::args::{ExportArgs, ImportArgs};
use super::folder::{Folder, read};
use crate::fail::Failure;
use anyhow::Context;
use serde_json::json;
use sooner_record::{Store, StoredTrial, StudyExport, TrialEvaluation, TrialState, replace_file};
use sooner_study::batch_science::{
    BatchSciencePoint, batch_science_path, parse_measurements, parse_metadata, parse_study, published_target,
    train_examples,
};
use sooner_study::definition::{AxisValue, ExecPlan, PointPlan, StudyPlan, TrialBudget};
use sooner_study::points::Sequence;
use sooner_study::{Measure, Status, Trial};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let mut folder = Folder::open_to_read(&args.study)?;
    let export = StudyExport::new(folder.store.study()?, folder.trials()?);
    match &args.out {
        None => print!("{}", export.to_text()),
        Some(path) => {
            replace_file(path, |file| file.write_all(export.to_text().as_bytes()))?;
            match args.json {
                true => {
                    println!(
                        "{}",
                        json!({ "file": path.display().to_string(), "trials": export.trials.len() })
                    );
                }
                false => println!("{}: {} trials", path.display(), export.trials.len()),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An export, from a file.
pub(crate) fn read_export(path: &Path) -> anyhow::Result<StudyExport> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(StudyExport::parse(&text, path)?)
}

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let (plan, points, trials) = match args.format.as_str() {
        "sooner" => {
            let export = read_export(&args.from)?;
            let (plan, points) = read(&export.study)?;
            (plan, points, export.trials)
        }
        "batch-science" => batch_science(&args.from, args.target.as_deref())?,
        other => {
            let expected = "sooner or batch-science";
            return Err(Failure::usage("unknown format", "--format", [expected, other, ""]).into());
        }
    };
    let mut folder = if args.out.join("study.db").exists() {
        let mut folder = Folder::open(&args.out)?;
        anyhow::ensure!(
            points.iter().all(|(_, p)| folder.points.iter().any(|(_, q)| q.axes == p.axes)),
            "{} has other points than {}; `study new --extend` gives it more",
            args.out.display(),
            args.from.display()
        );
        // A trial that was repeated there need not be the best here; its runs are kept all the same.
        for (_, point) in points.iter().filter(|(_, p)| p.confirms.is_some()) {
            if !folder.points.iter().any(|(_, q)| q.is(point)) {
                let next = folder.points.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
                folder.points.push((next, point.clone()));
            }
        }
        folder.save()?;
        folder
    } else {
        let mut folder = Folder::create(&args.out, plan)?;
        folder.points = points.clone();
        folder.save()?;
        folder
    };
    // Points are told by their axes, and by what they repeat: their numbers may differ here.
    let placed: Vec<StoredTrial> = trials
        .into_iter()
        .map(|mut trial| {
            let (_, point) =
                points.iter().find(|(id, _)| *id == trial.point).context("a trial without a point")?;
            let here = folder.points.iter().find(|(_, p)| p.is(point)).context("a point is missing")?;
            trial.point = here.0;
            Ok(trial)
        })
        .collect::<anyhow::Result<_>>()?;
    let ended = |trials: &[StoredTrial]| trials.iter().filter(|t| t.state != TrialState::Running).count();
    let before = ended(&folder.trials()?);
    folder.store.insert(&placed)?;
    let new = ended(&folder.trials()?) - before;
    if args.json {
        println!(
            "{}",
            json!({ "study": args.out.display().to_string(), "points": folder.points.len(), "trials": placed.len(),
                "new": new })
        );
    } else {
        println!(
            "{}: {} trials at {} points, {new} of them new",
            args.out.display(),
            placed.len(),
            folder.points.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Folders below `root`, at most six deep, that hold a `study.json`.
fn searches(root: &Path, depth: usize, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if root.join("study.json").is_file() {
        found.push(root.to_path_buf());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let entries = fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))?;
    let mut folders: Vec<PathBuf> = entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    folders.sort();
    for folder in folders.into_iter().filter(|f| f.is_dir()) {
        searches(&folder, depth - 1, found)?;
    }
    Ok(())
}

type Word = fn(&BatchSciencePoint) -> &String;

/// Which search a folder holds, by its path: the layout's top folder may be `root` or any folder above it.
fn place(root: &Path, folder: &Path) -> anyhow::Result<BatchSciencePoint> {
    let full = folder.canonicalize().with_context(|| format!("cannot read {}", folder.display()))?;
    let parts: Vec<_> = full.iter().map(|p| p.to_string_lossy()).collect();
    let below = folder.strip_prefix(root).map_or(0, |rest| rest.iter().count());
    // DATASET/MODEL/OPTIMIZER/BATCH are four; what lies between `root` and them belongs to the data set's name.
    let count = below.max(4).min(parts.len());
    let path = format!("{}/study.json", parts[parts.len() - count..].join("/"));
    let (point, _) = batch_science_path(&path)
        .with_context(|| format!("{} is not DATASET/MODEL/OPTIMIZER/BATCH", folder.display()))?;
    Ok(point)
}

type Read = (StudyPlan, Vec<(u64, PointPlan)>, Vec<StoredTrial>);

/// A workload of the published layout: every search below the folder is a point.
fn batch_science(root: &Path, target: Option<&str>) -> anyhow::Result<Read> {
    let mut folders = Vec::new();
    searches(root, 6, &mut folders)?;
    anyhow::ensure!(!folders.is_empty(), "{} holds no study.json", root.display());
    let mut searches = Vec::new();
    for folder in folders {
        let (name, text) = text_of(&folder.join("study.json"))?;
        searches.push((place(root, &folder)?, parse_study(&name, &text)?, folder));
    }
    searches.sort_by(|a, b| a.0.cmp(&b.0));
    let first = searches[0].0.clone();
    let target = match target {
        Some(text) => text.to_string(),
        None => published_target(&first.dataset, &first.model)
            .map(|t| t.to_string())
            .context("the paper's first figure has no target for this workload: give one with --target")?,
    };
    let words: [(&str, Word); 3] =
        [("dataset", |p| &p.dataset), ("model", |p| &p.model), ("optimizer", |p| &p.optimizer)];
    let varies = |of: Word| searches.iter().any(|(place, ..)| of(place) != of(&first));
    let axes: Vec<(&str, Word)> = words.into_iter().filter(|(_, of)| varies(*of)).collect();
    let (mut points, mut trials) = (Vec::new(), Vec::new());
    for (id, (place, search, folder)) in searches.iter().enumerate() {
        let mut values: Vec<(String, AxisValue)> =
            axes.iter().map(|(name, of)| (name.to_string(), AxisValue::Word(of(place).clone()))).collect();
        values.push(("batch".into(), AxisValue::Whole(place.batch as i64)));
        let budget = TrialBudget { updates: search.train_updates, ..Default::default() };
        points.push((
            id as u64,
            PointPlan { axes: values, tune: search.parameters.clone(), budget, confirms: None },
        ));
        trials.extend(published_trials(folder, id as u64, place)?);
    }
    let mut table = toml::Table::new();
    for (axis, _) in &points[0].1.axes {
        let mut list: Vec<toml::Value> = Vec::new();
        for (_, point) in &points {
            let value = toml::Value::try_from(point.value(axis).expect("points share axes"))?;
            if !list.contains(&value) {
                list.push(value);
            }
        }
        table.insert(axis.clone(), toml::Value::Array(list));
    }
    let complete =
        |id: u64| trials.iter().filter(|t: &&StoredTrial| t.point == id && t.state.counts()).count();
    let plan = StudyPlan {
        name: [&first.dataset, &first.model].map(|s| s.replace('/', "-")).join("-"),
        about: "Published raw data of the data-parallelism paper.".into(),
        seed: sooner_base::Seed(0),
        workload: None,
        target,
        // No trial is to be run here: every point has what it has.
        trials: points.iter().map(|(id, _)| complete(*id) as u64).min().unwrap_or(1).max(1),
        most_lost: None,
        sequence: Sequence::Halton,
        beyond_best: None,
        threads: 1,
        budget: TrialBudget::default(),
        axes: table,
        set: toml::Table::new(),
        tune: Vec::new(),
        exec: Some(ExecPlan {
            command: vec!["false".into()],
            env: Default::default(),
            time_limit: None,
            to_the_end: true,
        }),
        confirm: None,
        at: Vec::new(),
    };
    Ok((plan, points, trials))
}

fn text_of(path: &Path) -> anyhow::Result<(String, String)> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((path.display().to_string(), text))
}

fn published_trials(
    folder: &Path,
    point: u64,
    place: &BatchSciencePoint,
) -> anyhow::Result<Vec<StoredTrial>> {
    let mut trials = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if !path.join("metadata.json").is_file() {
            continue;
        }
        let (name, text) = text_of(&path.join("metadata.json"))?;
        let mut trial = parse_metadata(&name, &text)?;
        let measured = path.join("measurements.csv");
        if measured.is_file() {
            let (name, text) = text_of(&measured)?;
            let examples = train_examples(&place.dataset);
            trial.series = parse_measurements(&name, &text, place.batch, examples)?;
        }
        trials.push(stored_trial(point, &trial));
    }
    trials.sort_by_key(|t| t.number);
    Ok(trials)
}

fn stored_trial(point: u64, trial: &Trial) -> StoredTrial {
    let metrics: Vec<&str> = trial.series.metrics().collect();
    let columns: Vec<Vec<f64>> =
        metrics.iter().map(|m| trial.series.of(m).map(|(_, value)| value).collect()).collect();
    let evaluation = |(row, p): (usize, &sooner_study::Progress)| TrialEvaluation {
        updates: p.updates.0,
        examples: p.examples.0,
        fresh: p.fresh.0,
        epochs: Measure::Epochs.of(p),
        seconds: Measure::Seconds.of(p),
        metrics: metrics.iter().zip(&columns).map(|(m, c)| (m.to_string(), c[row])).collect(),
    };
    StoredTrial {
        point,
        number: trial.number,
        attempt: 1,
        state: match trial.status {
            Status::Complete => TrialState::Complete,
            Status::Infeasible => TrialState::Diverged,
            Status::Incomplete => TrialState::Failed,
        },
        parameters: trial.parameters.clone(),
        note: String::new(),
        last_loss: None,
        worker: String::new(),
        lease_until: None,
        evaluations: trial.series.progress().iter().enumerate().map(evaluation).collect(),
    }
}
