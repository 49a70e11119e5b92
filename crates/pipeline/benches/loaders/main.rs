//! Examples a second of whole pipelines, and of what they are to be compared with. One JSON line a row:
//!
//! ```sh
//! cargo bench -p sooner-pipeline --bench loaders -- ROW [--data DIR] [--threads N] [--batch N] [--seconds S]
//! ```
//!
//! | row | what it does |
//! |---|---|
//! | `cifar10` | CIFAR-10 in memory: pad-crop, flip, cutout, normalise, batch |
//! | `images` | JPEG files of a folder: read, decode, random-resized crop to 224, flip, normalise, batch |
//! | `images-bare` | the same work in plain loops, one a thread, each into one buffer that it uses again and again |
//! | `small-reduced` | JPEG files: read, decode at a reduced scale, resize to 72, crop to 64, flip, normalise, batch |
//! | `small-full` | the same, decoded at full scale |
//! | `items` | examples of one byte in memory, shuffled: what the pipeline itself costs |
//! | `source-items` | the same from a source whose reading and decoding do nothing |
//!
//! `bench/peers/loaders.py` runs these rows and those of other loaders in turn.

mod bare;
// The bare loop does the very same arithmetic as the pipeline.
#[allow(dead_code)]
#[path = "../../src/resample.rs"]
mod resample;
#[allow(dead_code)]
#[path = "../../src/stages/resized.rs"]
mod resized;

use sooner_base::{Clock, MonotonicClock, Seed};
use sooner_pipeline::{Dataset, DatasetInfo, Image, Pipeline, PipelineError, Position, Source, load};
use sooner_plan::{
    CropPlan, DataPlan, FlipKind, NormalizePlan, Padding, PipelinePlan, RandomResizedCropPlan, ShuffleKind,
    Split, StagePlan,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[global_allocator]
static ALLOCATOR: sooner_engine::LargePages = sooner_engine::LargePages;

/// What the command line says.
struct Arguments {
    row: String,
    data: String,
    threads: usize,
    batch: usize,
    seconds: f64,
}

impl Arguments {
    fn read(given: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn Error>> {
        // Cargo itself adds `--bench`.
        let mut given = given.filter(|word| word != "--bench");
        let row = given.next().ok_or("which row?")?;
        let mut read = Arguments { row, data: String::new(), threads: 0, batch: 512, seconds: 2.0 };
        while let Some(key) = given.next() {
            let value = given.next().ok_or_else(|| format!("{key} wants a value"))?;
            match key.as_str() {
                "--data" => read.data = value,
                "--threads" => read.threads = value.parse()?,
                "--batch" => read.batch = value.parse()?,
                "--seconds" => read.seconds = value.parse()?,
                _ => return Err(format!("no such option: {key}").into()),
            }
        }
        Ok(read)
    }
}

/// The authors' constants of ImageNet, which everybody uses.
const NORMAL: ([f64; 3], [f64; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

fn normalize() -> StagePlan {
    StagePlan::Normalize(NormalizePlan { mean: NORMAL.0.to_vec(), std: NORMAL.1.to_vec() })
}

/// The cut that everybody trains ImageNet with.
const CUT: RandomResizedCropPlan =
    RandomResizedCropPlan { size: 224, scale: [0.08, 1.0], ratio: [0.75, 4.0 / 3.0] };

fn cifar_stages() -> Vec<StagePlan> {
    vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        StagePlan::Crop(CropPlan { size: 32, pad: 4, padding: Padding::Reflect }),
        StagePlan::Flip(FlipKind::Random),
        StagePlan::Cutout(8),
        normalize(),
    ]
}

fn image_stages() -> Vec<StagePlan> {
    vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        StagePlan::RandomResizedCrop(CUT),
        StagePlan::Flip(FlipKind::Random),
        normalize(),
    ]
}

fn small_stages() -> Vec<StagePlan> {
    vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        StagePlan::Resize(72),
        StagePlan::CenterCrop(64),
        StagePlan::Flip(FlipKind::Random),
        normalize(),
    ]
}

fn data(kind: &str, path: &str) -> Result<Arc<Dataset>, Box<dyn Error>> {
    let plan = DataPlan::parse(&format!("kind = \"{kind}\"\nvalidation = 0"))?;
    let plan = DataPlan { path: Some(path.to_string()), ..plan };
    Ok(load(&plan, 1, &MonotonicClock::start())?.train)
}

/// Examples whose reading and decoding do nothing, or those of another source decoded at full scale.
#[derive(Debug)]
struct Plain {
    info: DatasetInfo,
    inner: Option<Arc<dyn Source>>,
}

impl Source for Plain {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        self.inner.as_ref().map_or(1 << 20, |inner| inner.len())
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        self.inner.as_ref().map_or(Ok(()), |inner| inner.read(index, into, cancelled))
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        if let Some(inner) = &self.inner {
            return inner.decode(index, bytes, None, into);
        }
        into.shape = [1, 1, 1];
        into.pixels.clear();
        into.pixels.push(0);
        Ok(0)
    }
}

fn one_byte() -> DatasetInfo {
    DatasetInfo { name: "nothing".into(), split: Split::Train, shape: [1, 1, 1], classes: vec!["one".into()] }
}

/// Examples a second of a pipeline whose consumer does nothing. Queues are full before time counts.
fn pace(arguments: &Arguments, stages: Vec<StagePlan>, data: Arc<Dataset>) -> Result<f64, Box<dyn Error>> {
    let mut plan = PipelinePlan::new(stages);
    plan.stages.push(StagePlan::Batch(arguments.batch));
    (plan.threads, plan.budget) = (arguments.threads, "1GiB".into());
    let clock = Arc::new(MonotonicClock::start());
    let pipeline = Pipeline::new(&plan, data, Seed(1), clock.clone())?;
    let mut stream = pipeline.stream(Position::default());
    let mut some = |seconds: f64| -> Result<f64, PipelineError> {
        let (since, mut examples) = (clock.now().0, 0);
        while clock.now().0 - since < seconds {
            let batch = stream.next().expect("a stream over all epochs does not end")?;
            examples += batch.len();
            pipeline.recycle(batch);
        }
        Ok(examples as f64 / (clock.now().0 - since))
    };
    some(0.25 * arguments.seconds)?;
    Ok(some(arguments.seconds)?)
}

fn run(arguments: &Arguments) -> Result<f64, Box<dyn Error>> {
    let files = || data("image-folder", &arguments.data);
    match arguments.row.as_str() {
        "cifar10" => pace(arguments, cifar_stages(), data("cifar10", &arguments.data)?),
        "images" => pace(arguments, image_stages(), files()?),
        "images-bare" => {
            let files = files()?;
            bare::pace(arguments, &files)
        }
        "small-reduced" => pace(arguments, small_stages(), files()?),
        "small-full" => {
            let inner = files()?.source().cloned();
            let info = inner.as_ref().ok_or("files are read while training")?.info().clone();
            pace(arguments, small_stages(), Arc::new(Dataset::streamed(Arc::new(Plain { info, inner }))))
        }
        "items" => {
            let n = 1 << 20;
            let data = Dataset::new(one_byte(), vec![0; n], vec![0; n])?;
            pace(arguments, vec![StagePlan::Shuffle(ShuffleKind::Epoch)], Arc::new(data))
        }
        "source-items" => {
            let data = Dataset::streamed(Arc::new(Plain { info: one_byte(), inner: None }));
            pace(arguments, vec![StagePlan::Shuffle(ShuffleKind::Epoch)], Arc::new(data))
        }
        row => Err(format!("no such row: {row}").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(std::env::args().skip(1))?;
    let rate = run(&arguments)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{{\"row\": \"{}\", \"examples_per_second\": {rate:.1}, \"ns_an_example\": {:.1}, \"threads\": {}, \
         \"batch\": {}, \"cores\": {cores}, \"version\": \"sooner-pipeline {}\"}}",
        arguments.row,
        1e9 / rate,
        arguments.threads,
        arguments.batch,
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}
