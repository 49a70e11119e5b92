//! The page of runs: what they reached when, where their time went, and how near the machine's limit they were.

use crate::chart::{Axis, AxisScale, Chart, Datum, Shape};
use crate::figures::{Figure, WIDE, csv, series};
use crate::html::{document, escape, number};
use crate::page::{Page, render};
use sooner_record::{Evaluation, Line, Position, RunReader};
use std::fmt::Write;

/// What a run is called on its page: its folder's name.
fn name(run: &RunReader) -> String {
    run.folder.file_name().map_or_else(|| run.plan.name.clone(), |n| n.to_string_lossy().into_owned())
}

fn evaluations(run: &RunReader) -> impl Iterator<Item = &Evaluation> {
    run.log.lines.iter().filter_map(|line| match line {
        Line::Evaluation(e) => Some(e),
        _ => None,
    })
}

type Of = fn(&Position) -> f64;

/// The ways to count how far a run is.
const MEASURES: [(&str, Of); 3] = [
    ("training seconds", |p| p.training_seconds.0),
    ("updates", |p| p.updates.0 as f64),
    ("fresh examples", |p| p.fresh_examples.0 as f64),
];

/// The page of runs.
pub fn run_page(runs: &[RunReader]) -> Page {
    let title = match runs {
        [one] => format!("Run {}", name(one)),
        many => format!("{} runs", many.len()),
    };
    let mut body = format!("<h1>{}</h1>\n", escape(&title));
    body.push_str(&summaries(runs));
    let figures = [curves(runs), losses(runs), speed(runs), noise(runs), clock(runs), lanes(runs)];
    let shown: Vec<Figure> = figures.into_iter().flatten().collect();
    let assets = render(&shown, &mut body);
    Page { html: document(&title, &body), assets }
}

fn summaries(runs: &[RunReader]) -> String {
    let head = [
        "run",
        "plan",
        "status",
        "target",
        "reached after",
        "updates",
        "training seconds",
        "examples/s",
        "of the peak",
        "at 100 % of it",
        "noise scale",
        "machine",
    ];
    let mut out = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for h in head {
        write!(out, "<th>{h}</th>").expect("a string takes everything");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for run in runs {
        let machine = run.log.header.as_ref().map_or(String::new(), |h| {
            format!("{}, {} threads, {:.0} GFLOP/s", h.machine.cpu, h.threads, h.peak_gflops)
        });
        let mut cells = vec![name(run), run.plan.name.clone()];
        match run.log.summary() {
            Some(s) => cells.extend([
                s.status.to_string(),
                s.target.clone().unwrap_or_default(),
                s.reached_at.map_or("never".into(), |at| format!("{} s", number(at.training_seconds.0))),
                number(s.position.updates.0 as f64),
                number(s.position.training_seconds.0),
                number(s.examples_per_second),
                format!("{:.0} %", 100.0 * s.ceiling.share),
                format!("{} s", number(s.ceiling.seconds_at_peak.0)),
                s.gradient
                    .and_then(|g| g.scale)
                    .map_or(String::new(), |scale| format!("{} examples", number(scale))),
            ]),
            None => cells.extend(["not ended", "", "", "", "", "", "", "", ""].map(String::from)),
        }
        cells.push(machine);
        let row: String = cells.iter().map(|c| format!("<td>{}</td>", escape(c))).collect();
        writeln!(out, "<tr>{row}</tr>").expect("a string takes everything");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn curves(runs: &[RunReader]) -> Option<Figure> {
    let mut charts = Vec::new();
    for (measure, of) in MEASURES {
        let mut chart = Chart {
            title: format!("Error against {measure}"),
            x: Axis::new(measure, AxisScale::Linear),
            y: Axis::new("error (a share)", AxisScale::Linear),
            series: Vec::new(),
            size: (500.0, 250.0),
        };
        for (color, run) in runs.iter().enumerate() {
            let data = evaluations(run).map(|e| {
                let title = format!("{} {}: error {}", number(of(&e.at)), measure, number(e.metrics.error));
                Datum { title, ..Datum::new(of(&e.at), e.metrics.error) }
            });
            let split = evaluations(run).next().map_or(String::new(), |e| format!(", {}", e.metrics.split));
            chart.series.push(series(
                &format!("{}{split}", name(run)),
                color,
                Shape::LineDots,
                data.collect(),
            ));
        }
        charts.push(chart);
    }
    let rows: Vec<Vec<String>> = runs
        .iter()
        .flat_map(|run| evaluations(run).map(move |e| (run, e)))
        .map(|(run, e)| {
            let mut row = vec![name(run), e.metrics.split.to_string()];
            row.extend(MEASURES.map(|(_, of)| of(&e.at).to_string()));
            row.extend([e.metrics.loss, e.metrics.error, e.metrics.accuracy].map(|v| v.to_string()));
            row
        })
        .collect();
    let header = ["run", "split", "seconds", "updates", "fresh_examples", "loss", "error", "accuracy"];
    (!rows.is_empty()).then(|| Figure {
        key: "curves".into(),
        heading: "Evaluations".into(),
        note: "Training seconds hold preprocessing, waiting and updates; evaluations and checkpoints are outside them. n = 1 \
               run a line."
            .into(),
        charts,
        drawn: Vec::new(),
        csv: csv(&header, &rows),
    })
}

fn progress_figure(
    runs: &[RunReader],
    (key, heading, label): (&str, &str, &str),
    of: fn(&sooner_record::Progress) -> f64,
) -> Option<Figure> {
    let note = "Averages over about a second of training each.";
    known_progress_figure(runs, [key, heading, label, note], |p| Some(of(p)))
}

/// A figure of what some progress lines say.
fn known_progress_figure(
    runs: &[RunReader],
    [key, heading, label, note]: [&str; 4],
    of: impl Fn(&sooner_record::Progress) -> Option<f64>,
) -> Option<Figure> {
    let mut chart = Chart {
        title: heading.to_string(),
        x: Axis::new("training seconds", AxisScale::Linear),
        y: Axis::new(label, AxisScale::Linear),
        series: Vec::new(),
        size: WIDE,
    };
    let mut rows = Vec::new();
    for (color, run) in runs.iter().enumerate() {
        let mut data = Vec::new();
        for line in &run.log.lines {
            let Line::Progress(p) = line else { continue };
            let Some(value) = of(p) else { continue };
            data.push(Datum::new(p.at.training_seconds.0, value));
            rows.push(vec![
                name(run),
                p.at.training_seconds.0.to_string(),
                p.at.updates.0.to_string(),
                value.to_string(),
            ]);
        }
        // A short run has few such averages, perhaps one.
        let shape = if data.len() < 40 { Shape::LineDots } else { Shape::Line };
        chart.series.push(series(&name(run), color, shape, data));
    }
    (!rows.is_empty()).then(|| Figure {
        key: key.into(),
        heading: heading.into(),
        note: note.into(),
        charts: vec![chart],
        drawn: Vec::new(),
        csv: csv(&["run", "seconds", "updates", key], &rows),
    })
}

fn losses(runs: &[RunReader]) -> Option<Figure> {
    progress_figure(runs, ("loss", "Training loss", "loss (nats, smoothed labels)"), |p| p.loss)
}

/// Of runs that were told to estimate it.
fn noise(runs: &[RunReader]) -> Option<Figure> {
    let note = "Noise over signal of the gradient: the batch size at which they are equal. Signal and noise are each \
                averaged over the last 100 estimates or so.";
    known_progress_figure(runs, ["noise_scale", "Gradient noise scale", "examples", note], |p| {
        p.gradient?.scale
    })
}

fn speed(runs: &[RunReader]) -> Option<Figure> {
    progress_figure(runs, ("speed", "Speed", "examples/s"), |p| p.examples_per_second)
}

const BAR_HEIGHT: f64 = 22.0;
const COLORS: [&str; 6] = ["#9aa3ad", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00"];

/// Horizontal bars, parts of one after the other, as SVG: a name, and its parts' lengths in seconds.
fn bars(title: &str, parts: &[&str], rows: &[(String, Vec<f64>)]) -> String {
    let (left, width) = (230.0, 760.0);
    let most = rows.iter().map(|(_, v)| v.iter().sum::<f64>()).fold(1e-9, f64::max);
    let height = 58.0 + (BAR_HEIGHT + 8.0) * rows.len() as f64;
    let mut o = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" \
         height=\"{height}\" fill=\"#fff\"/>\n<title>{0}</title>\n<text x=\"0\" y=\"16\" font-size=\"14\" \
         font-weight=\"600\" fill=\"#1b1f24\">{0}</text>\n",
        escape(title)
    );
    let mut x = 0.0;
    for (i, part) in parts.iter().enumerate() {
        let text = escape(part);
        writeln!(
            o,
            "<rect x=\"{x:.1}\" y=\"26\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.1}\" y=\"36\" fill=\"#1b1f24\">{text}</text>",
            COLORS[i % COLORS.len()],
            x + 17.0
        )
        .expect("a string takes everything");
        x += 36.0 + 6.8 * part.chars().count() as f64;
    }
    for (row, (label, values)) in rows.iter().enumerate() {
        let y = 50.0 + (BAR_HEIGHT + 8.0) * row as f64;
        let short: String = if label.chars().count() > 34 {
            label.chars().take(33).chain(['…']).collect()
        } else {
            label.clone()
        };
        writeln!(o, "<text x=\"0\" y=\"{:.1}\" fill=\"#1b1f24\">{}</text>", y + 15.0, escape(&short))
            .expect("a string");
        let mut x = left;
        for (i, value) in values.iter().enumerate() {
            let w = value.max(0.0) / most * (width - left - 70.0);
            let part = parts.get(i).copied().unwrap_or_default();
            writeln!(
                o,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{BAR_HEIGHT}\" fill=\"{}\"><title>{}: {} s</title></rect>",
                COLORS[i % COLORS.len()],
                escape(part),
                number(*value)
            )
            .expect("a string takes everything");
            x += w;
        }
        writeln!(
            o,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#57606a\">{} s</text>",
            x + 6.0,
            y + 15.0,
            number(values.iter().sum())
        )
        .expect("a string takes everything");
    }
    o.push_str("</svg>\n");
    o
}

fn bar_figure(
    key: &str,
    heading: &str,
    note: &str,
    parts: &[&str],
    rows: Vec<(String, Vec<f64>)>,
) -> Option<Figure> {
    if rows.is_empty() {
        return None;
    }
    let mut header = vec!["name"];
    header.extend(parts);
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, values)| {
            std::iter::once(name.clone()).chain(values.iter().map(f64::to_string)).collect()
        })
        .collect();
    Some(Figure {
        key: key.into(),
        heading: heading.into(),
        note: note.into(),
        charts: Vec::new(),
        csv: csv(&header, &lines),
        drawn: vec![bars(heading, parts, &rows)],
    })
}

/// The trainer's time, which sums to wall time.
fn clock(runs: &[RunReader]) -> Option<Figure> {
    let parts = ["prepare", "wait", "train", "evaluate", "checkpoint", "log"];
    let rows = runs.iter().filter_map(|run| {
        let t = run.log.summary()?.time;
        let seconds = [t.prepare, t.wait, t.train, t.evaluate, t.checkpoint, t.log].map(|s| s.0);
        Some((name(run), seconds.to_vec()))
    });
    let note = "The trainer thread is always in one of these; they sum to wall time.";
    bar_figure("clock", "Where the trainer's time went", note, &parts, rows.collect())
}

/// Busy seconds of each pipeline stage, beside the updates that wait for them.
fn lanes(runs: &[RunReader]) -> Option<Figure> {
    let mut rows = Vec::new();
    for run in runs {
        let Some(summary) = run.log.summary() else { continue };
        let prefix = if runs.len() > 1 { format!("{}: ", name(run)) } else { String::new() };
        rows.extend(summary.stages.iter().map(|(stage, busy)| (format!("{prefix}{stage}"), vec![busy.0])));
        rows.push((format!("{prefix}updates"), vec![summary.time.train.0]));
    }
    let note = "Busy seconds summed over each stage's threads; they overlap with the updates and are no part of the clock above.";
    bar_figure("lanes", "Lanes of the pipeline", note, &["busy"], rows)
}
