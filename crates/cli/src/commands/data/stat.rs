//! `sooner data stat`: what a data set holds, and how well its own order mixes classes.

use crate::args::{StatArgs, WhichData};
use crate::fail::Failure;
use crate::machine;
use serde::Serialize;
use sooner_base::{Bytes, MonotonicClock};
use sooner_pipeline::{Dataset, Decoder, Image, Oddities, PipelineError, Splits, load};
use sooner_plan::DataPlan;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The answer for machines.
#[derive(Debug, Serialize)]
struct Report {
    kind: String,
    classes: usize,
    /// Equal for equal class lists, and for equal lists of training examples; none for sets in memory.
    class_hash: Option<String>,
    example_hash: Option<String>,
    splits: Vec<SplitReport>,
    oddities: Option<OddityReport>,
    bad: Vec<String>,
    notices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SplitReport {
    split: String,
    examples: u64,
    bytes: u64,
    class_examples: BTreeMap<String, u64>,
    formats: BTreeMap<String, u64>,
    /// Least, median and most.
    height: Option<[usize; 3]>,
    width: Option<[usize; 3]>,
    longest_run: u64,
    mean_run: f64,
    /// What `mean_run` is expected to be in random order.
    mean_run_shuffled: f64,
}

#[derive(Debug, Serialize)]
struct OddityReport {
    turned: u64,
    truncated: u64,
}

pub(crate) fn run(args: &StatArgs) -> anyhow::Result<ExitCode> {
    let plan = data_plan(&args.data)?;
    let splits = splits(&plan)?;
    let mut report = Report {
        kind: args.data.kind.clone(),
        classes: splits.train.classes(),
        class_hash: splits.sources.first().map(|own| format!("{:016x}", own.class_hash())),
        example_hash: splits.sources.first().map(|own| format!("{:016x}", own.name_hash())),
        splits: Vec::new(),
        oddities: None,
        bad: Vec::new(),
        notices: splits.notices.iter().map(ToString::to_string).collect(),
    };
    for data in [&splits.train, &splits.val, &splits.test] {
        if !data.is_empty() {
            let (split, mut bad) = look(&plan, data, args.decode)?;
            report.splits.push(split);
            report.bad.append(&mut bad);
        }
    }
    if args.decode {
        let mut odd = Oddities::default();
        splits.sources.iter().for_each(|own| odd += own.oddities());
        report.oddities = Some(OddityReport { turned: odd.turned, truncated: odd.truncated });
    }
    if args.data.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", text(&report));
    }
    Ok(ExitCode::SUCCESS)
}

/// The data section that the arguments say.
pub(crate) fn data_plan(which: &WhichData) -> anyhow::Result<DataPlan> {
    let quoted = |text: &str| toml::Value::String(text.to_string()).to_string();
    let mut section = format!("kind = {}\n", quoted(&which.kind));
    if let Some(path) = &which.path {
        let address = path.starts_with("http://") || path.starts_with("https://");
        let path = if address { path.clone() } else { crate::settle::absolute("PATH", path.as_ref())? };
        section += &format!("path = {}\n", quoted(&path));
    }
    if !which.set.iter().any(|set| set.trim_start().starts_with("validation")) {
        section += "validation = 0\n";
    }
    for set in &which.set {
        let (key, value) = set.split_once('=').unwrap_or((set, ""));
        // A bare word is a text, as in `--set` of other commands.
        let value = match value.parse::<toml::Value>() {
            Ok(_) => value.to_string(),
            Err(_) => quoted(value),
        };
        section += &format!("{key} = {value}\n");
    }
    let plan = DataPlan::parse(&section)?;
    if plan.kind.has_files() && plan.path.is_none() {
        let expected = format!("the folder or address of the {} files", which.kind);
        let fields = [&*expected, "none", "name it behind the kind"];
        return Err(Failure::usage("no folder to read the data from", "DIR", fields).into());
    }
    Ok(plan)
}

/// All splits; the user's own files not in memory, whatever their size.
pub(crate) fn splits(plan: &DataPlan) -> Result<Splits, PipelineError> {
    load(plan, machine::cores(), &MonotonicClock::start())
}

/// What one image adds.
#[derive(Default)]
struct Seen {
    bytes: u64,
    formats: BTreeMap<String, u64>,
    heights: Vec<usize>,
    widths: Vec<usize>,
    labels: Vec<(u64, u32)>,
    bad: Vec<(u64, String)>,
}

impl Seen {
    fn merge(&mut self, other: Seen) {
        self.bytes += other.bytes;
        other.formats.into_iter().for_each(|(format, n)| *self.formats.entry(format).or_default() += n);
        self.heights.extend(other.heights);
        self.widths.extend(other.widths);
        self.labels.extend(other.labels);
        self.bad.extend(other.bad);
    }
}

/// Looks at every example of a split on all cores.
fn look(plan: &DataPlan, data: &Dataset, decode: bool) -> anyhow::Result<(SplitReport, Vec<String>)> {
    let Some(source) = data.source() else {
        let bytes = data.pixels().len() as u64;
        let [h, w, _] = data.shape();
        let sizes = (Some([h; 3]), Some([w; 3]));
        return Ok((split_report(data, data.labels(), bytes, BTreeMap::new(), sizes), Vec::new()));
    };
    let decoder = Decoder::new(&plan.images(), Bytes(1 << 30));
    let (next, all) = (AtomicU64::new(0), Mutex::new(Seen::default()));
    let run = || {
        let (mut seen, mut bytes, mut image) = (Seen::default(), Vec::new(), Image::default());
        loop {
            // In the source's own order, which shards read from front to back need.
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= data.len() as u64 {
                break;
            }
            let result = source.read(index, &mut bytes, &AtomicBool::new(false)).and_then(|()| {
                // Without decoding whole images, the smallest scale still shows the label.
                let at_least = (!decode).then_some([1, 1]);
                source.decode(index, &bytes, at_least, &mut image)
            });
            match result {
                Ok(label) => seen.labels.push((index, label)),
                Err(error) => seen.bad.push((index, error.to_string())),
            }
            seen.bytes += bytes.len() as u64;
            if let Ok(header) = decoder.header(&bytes) {
                *seen.formats.entry(header.format.to_string()).or_default() += 1;
                seen.heights.push(header.size[0]);
                seen.widths.push(header.size[1]);
            }
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).merge(seen);
    };
    std::thread::scope(|scope| {
        (1..machine::cores()).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    let mut seen = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    seen.labels.sort_unstable();
    seen.bad.sort_unstable();
    let labels: Vec<u32> = seen.labels.iter().map(|(_, label)| *label).collect();
    let sizes = (three(seen.heights), three(seen.widths));
    let report = split_report(data, &labels, seen.bytes, seen.formats, sizes);
    Ok((report, seen.bad.into_iter().map(|(_, text)| text).collect()))
}

fn three(mut values: Vec<usize>) -> Option<[usize; 3]> {
    values.sort_unstable();
    Some([*values.first()?, values[values.len() / 2], *values.last()?])
}

fn split_report(
    data: &Dataset,
    labels: &[u32],
    bytes: u64,
    formats: BTreeMap<String, u64>,
    (height, width): (Option<[usize; 3]>, Option<[usize; 3]>),
) -> SplitReport {
    let mut counts = vec![0u64; data.classes()];
    labels.iter().for_each(|&label| counts[label as usize] += 1);
    let runs = labels.chunk_by(|a, b| a == b);
    let n = labels.len() as f64;
    // In random order the next example has another class with probability 1 - sum p^2.
    let same: f64 = counts.iter().map(|&count| (count as f64 / n).powi(2)).sum();
    SplitReport {
        split: data.info().split.to_string(),
        examples: data.len() as u64,
        bytes,
        class_examples: data.info().classes.iter().cloned().zip(counts.iter().copied()).collect(),
        formats,
        height,
        width,
        longest_run: runs.clone().map(|run| run.len() as u64).max().unwrap_or(0),
        mean_run: n / (runs.count().max(1) as f64),
        mean_run_shuffled: n / (1.0 + (n - 1.0).max(0.0) * (1.0 - same)),
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}: {} classes", report.kind, report.classes);
    if let (Some(classes), Some(examples)) = (&report.class_hash, &report.example_hash) {
        text += &format!(", class list {classes}, training examples {examples}");
    }
    text.push('\n');
    for split in &report.splits {
        text += &format!("{}: {} examples, {} bytes", split.split, split.examples, split.bytes);
        let formats: Vec<String> = split.formats.iter().map(|(format, n)| format!("{n} {format}")).collect();
        if !formats.is_empty() {
            text += &format!(" ({})", formats.join(", "));
        }
        if let (Some(h), Some(w)) = (split.height, split.width) {
            text += &format!(
                ", height {} to {} (median {}), width {} to {} (median {})",
                h[0], h[2], h[1], w[0], w[2], w[1]
            );
        }
        text += &format!(
            "\n  runs of one class: mean {:.2}, longest {}; mean {:.2} in random order{}\n",
            split.mean_run,
            split.longest_run,
            split.mean_run_shuffled,
            if split.mean_run > 3.0 * split.mean_run_shuffled {
                ": shuffle whole epochs, or pack in shuffled order"
            } else {
                ""
            },
        );
        let classes: Vec<String> =
            split.class_examples.iter().map(|(class, n)| format!("{class} {n}")).collect();
        text += &format!("  {}\n", classes.join(", "));
    }
    if let Some(odd) = &report.oddities {
        text += &format!(
            "decoded: {} turned by a note of the camera, {} cut short, {} bad\n",
            odd.turned,
            odd.truncated,
            report.bad.len()
        );
    }
    report.bad.iter().for_each(|bad| text += &format!("bad: {bad}\n"));
    report.notices.iter().for_each(|notice| text += &format!("warning: {notice}\n"));
    text
}
