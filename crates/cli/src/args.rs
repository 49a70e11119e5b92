//! What the user typed. Nothing is looked up or resolved here.

use crate::study::args::StudyArgs;
use clap::{Args, Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Trains a neural network to a stated target in the least time, and shows where the time goes.
#[derive(Debug, Parser)]
#[command(name = "sooner", version, long_version = crate::version::long(), max_term_width = 100)]
#[command(
    after_help = "Begin with `sooner train`, which needs no files; `sooner workloads` lists what else there is to train."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How a run ended, for scripts.
const EXIT_CODES: &str = "Exit codes: 0 target reached (or nothing to reach and done), 1 error, 2 usage, 3 budget ended \
                          before the target, 4 diverged, 130 interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a workload to its target.
    #[command(after_help = EXIT_CODES)]
    Train(TrainArgs),
    /// Run a record's own plan again and say whether the bits agree.
    Rerun(RerunArgs),
    /// Measure the update that `train` runs: examples/s, GFLOP/s, share of the machine's peak.
    Bench(BenchArgs),
    /// Count a run's arithmetic: FLOPs, and the time they take at 100 % of a peak.
    Ceiling(CeilingArgs),
    /// Measure where the input pipeline's time goes and what would shorten it: echo, threads, caching.
    Profile(ProfileArgs),
    /// Evaluate the weights of a record.
    Eval(EvalArgs),
    /// List the built-in workloads, or print one as TOML.
    Workloads(WorkloadsArgs),
    /// Look at data, check them against what was published, fetch them, or pack them into shards.
    Data(DataArgs),
    /// Read DAWNBench tables: the time of the first row at or over the goal, for each file.
    Dawnbench(DawnbenchArgs),
    /// Solve the noisy quadratic model: fewest fresh batches to the goal for each batch size and echo factor.
    Nqm(NqmArgs),
    /// Study updates-to-target over batch size, echo factor and more, tuned at every point.
    Study(StudyArgs),
    /// Write a page of runs: curves, where their time went, the ceiling.
    Report(ReportArgs),
    /// Write what a racer hands in: DAWNBench's two files, plan, machine, log.
    Submit(SubmitArgs),
}

/// Which data; the same words as in a plan's data section.
#[derive(Debug, Args)]
pub(crate) struct WhichData {
    /// The kind: image-folder, webdataset, cifar10, mnist, fashion-mnist or shapes
    #[arg(value_name = "KIND")]
    pub(crate) kind: String,
    /// The folder or address of the files; none for shapes
    #[arg(value_name = "DIR")]
    pub(crate) path: Option<String>,
    /// Set one key of the data section, e.g. --set shards.key=last-dot; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(crate) data: WhichData,
    /// Decode every image too, and count what is odd or damaged
    #[arg(long)]
    pub(crate) decode: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    pub(crate) data: WhichData,
    /// Folder to write to: empty, or not there yet
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Bytes of a shard
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) shard_bytes: u64,
    /// Gzip the shards
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Seed of the order that examples are written in
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Keep the data's own order
    #[arg(long, conflicts_with = "seed")]
    pub(crate) in_order: bool,
}

/// What names and changes a plan; shared by every command that takes one.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// A built-in workload (see `sooner workloads`) or a plan file ending in .toml [default: shapes-cnn]
    #[arg(value_name = "WORKLOAD|PLAN.toml")]
    pub(crate) workload: Option<String>,
    /// Folder of the data set's files; of cifar10 also its tar.gz, of tar shards also their address
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Engine threads [default: all cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Parts of each batch that are computed at the same time, on threads shared out [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<usize>,
    /// Change one value of the plan, e.g. --set optimizer.momentum=0.95; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// A seed that a plan can be written with: TOML's integers end below 2^63.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|seed| i64::try_from(*seed).is_ok());
    number.ok_or_else(|| "a seed is a whole number from 0 to 2^63 - 1".to_string())
}

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// What to reach, e.g. 'val.error<0.30' or 'test.accuracy>=0.94'
    #[arg(long, value_name = "T")]
    pub(crate) target: Option<String>,
    /// The run's length and its schedule's horizon, in epochs
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) epochs: Option<f64>,
    /// Decides initial values, order and augmentation
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// The same plan once for each seed, e.g. 1..5 or 1,2,7; with --out, goes on with what is there
    #[arg(long, value_name = "LIST", conflicts_with_all = ["seed", "resume"])]
    pub(crate) seeds: Option<String>,
    /// Folder of the record, or with --seeds of a record for each [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Start from the weights of a record or a weights file (fine-tuning)
    #[arg(long, value_name = "RECORD|WEIGHTS")]
    pub(crate) init: Option<PathBuf>,
    /// With --init: variables whose names begin like this keep the network's own initial values; may be repeated
    #[arg(long, value_name = "PREFIX", requires = "init")]
    pub(crate) init_except: Vec<String>,
    /// With echo = "auto", repeat what this record's run repeated, and when, instead of what time asks for; without
    /// WORKLOAD by the record's own plan
    #[arg(long, value_name = "RECORD", conflicts_with = "resume")]
    pub(crate) replay: Option<PathBuf>,
    /// Go on with the run of this record; --target, --epochs (its end alone), --threads, --replicas (if
    /// replicas times accumulate stays), --set run.noise_scale, --set pipeline.threads and
    /// --set pipeline.on_bad may change with it
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// A record's folder
    #[arg(value_name = "RECORD")]
    pub(crate) record: PathBuf,
    /// Keep the second run's record in this folder [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Examples a batch [default: the plan's]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<usize>,
    /// Measure updates for so long, one at least, and neither single operations nor memory [default: 3, five updates at
    /// least, and both]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seconds: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct CeilingArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// The peak in GFLOP/s, for another machine's time [default: this one's, measured]
    #[arg(long, value_name = "GFLOPS", allow_negative_numbers = true)]
    pub(crate) peak: Option<f64>,
    /// The run's length in epochs [default: the plan's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) epochs: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// A record's folder; its run must have ended, and have evaluated the test split
    #[arg(value_name = "RECORD")]
    pub(crate) record: PathBuf,
    /// Folder to write to: empty, or not there yet [default: RECORD/submission]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Who hands it in
    #[arg(long, value_name = "NAME")]
    pub(crate) author: String,
    /// How to reach them
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    pub(crate) email: String,
    /// Where the code can be read
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub(crate) code_url: String,
    /// What the machine is called [default: its processor and cores, as recorded]
    #[arg(long, value_name = "TEXT")]
    pub(crate) hardware: Option<String>,
    /// Dollars an hour of it, on demand [default: none]
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) cost_per_hour: Option<f64>,
    /// Accuracy that the printed time is to
    #[arg(long, value_name = "A", default_value_t = 0.94)]
    pub(crate) goal: f64,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Draw the two lanes, upstream and downstream, as they are and as advised
    #[arg(short, long, value_name = "PICTURE.svg")]
    pub(crate) out: Option<PathBuf>,
    /// Run the pipeline and updates as advised, and say what came of it
    #[arg(long)]
    pub(crate) verify: bool,
    /// Records of this workload, with echo and without, to the same target: what repeats are worth is then theirs
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) records: Vec<PathBuf>,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// A record's folder, or a weights.safetensors file
    #[arg(value_name = "RECORD|WEIGHTS")]
    pub(crate) weights: PathBuf,
    /// Folder of the data set's files [default: where the run had them]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Which split: test, val or train [default: test]
    #[arg(long, value_name = "SPLIT")]
    pub(crate) split: Option<String>,
    /// Which views of each image to average: one, flips or flips-shifts [default: those of the run's last evaluation]
    #[arg(long, value_name = "VIEWS")]
    pub(crate) views: Option<String>,
    /// Engine threads [default: all cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkloadsArgs {
    /// Print this one's plan as TOML
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    pub(crate) command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// List the published sets: size, terms, addresses.
    List(DataListArgs),
    /// Compare files with what the set's authors published: size, hashes, labels, counts.
    Check(DataSetArgs),
    /// Fetch a set from its authors, or what is missing of it; goes on where it was interrupted.
    Get(DataGetArgs),
    /// Count examples, classes, sizes and bytes, and say how well the order mixes classes.
    Stat(StatArgs),
    /// Write any data set as tar shards, in shuffled order.
    Pack(PackArgs),
}

impl DataCommand {
    fn json(&self) -> bool {
        match self {
            DataCommand::Stat(args) => args.data.json,
            DataCommand::Pack(args) => args.data.json,
            DataCommand::List(args) => args.json,
            DataCommand::Check(args) => args.json,
            DataCommand::Get(args) => args.set.json,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DataListArgs {
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DataSetArgs {
    /// A published set (see `sooner data list`)
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Folder of the set's files, or the folder above theirs; to compare, also an archive of them
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DataGetArgs {
    #[command(flatten)]
    pub(crate) set: DataSetArgs,
    /// A mirror's folder on the web, in place of the authors' addresses
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DawnbenchArgs {
    /// Tab-separated tables with the columns epoch, hours and top1Accuracy (in percent)
    #[arg(value_name = "FILE.tsv", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Accuracy to reach, as a fraction
    #[arg(long, value_name = "A", default_value_t = 0.94, allow_negative_numbers = true)]
    pub(crate) goal: f64,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NqmArgs {
    /// Dimensions of the model; dimension i has curvature 1/i
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) dims: usize,
    /// Loss to get below, as a share of the initial loss
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, allow_negative_numbers = true)]
    pub(crate) goal: f64,
    /// Update rule: sgd, momentum or nesterov
    #[arg(long, value_name = "RULE")]
    pub(crate) optimizer: String,
    /// Batch sizes, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    pub(crate) batch: Vec<u64>,
    /// Echo factors, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub(crate) echo: Vec<u32>,
    /// Threads; the answer does not depend on them [default: all cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Folders of records
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// The page
    #[arg(short, long, value_name = "PAGE.html", default_value = "runs.html")]
    pub(crate) out: PathBuf,
    /// Write every figure also as SVG and CSV files, in a folder beside the page
    #[arg(long)]
    pub(crate) assets: bool,
    /// Print exactly one JSON object on the last line of stdout
    #[arg(long)]
    pub(crate) json: bool,
}

impl Command {
    /// Whether the answer is for a machine.
    pub(crate) fn json(&self) -> bool {
        match self {
            Command::Train(args) => args.plan.json,
            Command::Rerun(args) => args.json,
            Command::Bench(args) => args.plan.json,
            Command::Ceiling(args) => args.plan.json,
            Command::Profile(args) => args.plan.json,
            Command::Eval(args) => args.json,
            Command::Workloads(args) => args.json,
            Command::Data(args) => args.command.json(),
            Command::Dawnbench(args) => args.json,
            Command::Nqm(args) => args.json,
            Command::Study(args) => args.command.json(),
            Command::Report(args) => args.json,
            Command::Submit(args) => args.json,
        }
    }
}
