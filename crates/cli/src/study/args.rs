//! What the user typed after `sooner study`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    pub(crate) command: StudyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// Set up a study from a preset or a file, or give a study more axes, and say what it will cost
    New(NewArgs),
    /// Run what is left of a study's trials; running a finished study does nothing
    Run(RunArgs),
    /// Say how far a study is
    Status(StatusArgs),
    /// Write a study's page
    Report(ReportArgs),
    /// Write a study as one text of JSON lines
    Export(ExportArgs),
    /// Make a study of an export, or add its trials to one; or read published data
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// A preset, or a study's file ending in .toml; without, presets are listed
    #[arg(value_name = "PRESET|FILE.toml")]
    pub(crate) from: Option<String>,
    /// The study's folder [default: studies/NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the definition of a study that exists; points that it has keep their trials
    #[arg(long)]
    pub(crate) extend: bool,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The study's folder
    #[arg(value_name = "STUDY")]
    pub(crate) study: PathBuf,
    /// Trials side by side [default: cores over threads of a trial]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// Folder of the data set's files
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// From now on, this many feasible trials at each point
    #[arg(long, value_name = "N")]
    pub(crate) trials: Option<u64>,
    /// From now on, run each point's best trial again with this many other seeds once its search is done; 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) confirm: Option<u64>,
    /// Where the best trial lies near an edge of its space, extend that edge and go on
    #[arg(long)]
    pub(crate) widen: bool,
    /// Keep the records of single trials
    #[arg(long)]
    pub(crate) keep: bool,
    /// End after so many seconds; what runs then is run again next time
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The study's folder
    #[arg(value_name = "STUDY")]
    pub(crate) study: PathBuf,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The study's folder, or an export
    #[arg(value_name = "STUDY")]
    pub(crate) study: PathBuf,
    /// The page
    #[arg(short, long, value_name = "PAGE.html", default_value = "study.html")]
    pub(crate) out: PathBuf,
    /// Write every figure also as SVG and CSV files, in a folder beside the page
    #[arg(long)]
    pub(crate) assets: bool,
    /// Judge the trials by another target
    #[arg(long, value_name = "T")]
    pub(crate) target: Option<String>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The study's folder
    #[arg(value_name = "STUDY")]
    pub(crate) study: PathBuf,
    /// The file [default: stdout]
    #[arg(short, long, value_name = "FILE.jsonl")]
    pub(crate) out: Option<PathBuf>,
    /// Print exactly one JSON object on the last line of stdout; needs --out
    #[arg(long, requires = "out")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// An export, or a folder of published data
    #[arg(value_name = "FILE.jsonl|DIR")]
    pub(crate) from: PathBuf,
    /// The study's folder; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// `sooner`: an export; `batch-science`: the published layout of the data-parallelism paper
    #[arg(long, value_name = "FORMAT", default_value = "sooner")]
    pub(crate) format: String,
    /// What trials are to reach, where the published data does not say
    #[arg(long, value_name = "T")]
    pub(crate) target: Option<String>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

impl StudyCommand {
    /// Whether the answer is for a machine.
    pub(crate) fn json(&self) -> bool {
        match self {
            StudyCommand::New(args) => args.json,
            StudyCommand::Run(args) => args.json,
            StudyCommand::Status(args) => args.json,
            StudyCommand::Report(args) => args.json,
            StudyCommand::Export(args) => args.json,
            StudyCommand::Import(args) => args.json,
        }
    }
}
