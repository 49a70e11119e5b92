//! A plan's stages, checked against each other and the data, as one function from a place in the stream to a batch.
//!
//! A later echo stage has its place here: `Origin::echo` is 0 for every example now, and every random choice already
//! depends on it.

use crate::pixels::{Placement, Table};
use crate::stages::{Crop, Flip, Order, table, unit_table};
use crate::{Dataset, PipelineError};
use sooner_base::{Batch, Bytes, Origin, Purpose, Seed, Shape};
use sooner_plan::{PipelinePlan, StagePlan};
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

/// A place in the stream of batches: what a stopped run needs to know to go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The pass over the data, from 0.
    pub epoch: u32,
    /// The batch within the epoch, from 0.
    pub batch: u64,
}

/// How to make any batch of the stream.
#[derive(Debug)]
pub(crate) struct Recipe {
    data: Arc<Dataset>,
    order: Order,
    geometry: Vec<Geometry>,
    table: Table,
    batch: usize,
    shape: [usize; 3],
}

/// A stage that moves pixels about.
#[derive(Debug, Clone)]
enum Geometry {
    Crop(Crop),
    Flip(Flip),
}

impl Geometry {
    fn draw(&self, origins: &[Origin], out: &mut Vec<[u32; 2]>) {
        match self {
            Geometry::Crop(crop) => crop.draw(origins, out),
            Geometry::Flip(flip) => flip.draw(origins, out),
        }
    }

    fn place(&self, choice: [u32; 2], placement: &mut Placement) {
        match self {
            Geometry::Crop(crop) => crop.place(choice, placement),
            Geometry::Flip(flip) => flip.place(choice, placement),
        }
    }

    /// The choice that evaluation makes.
    fn still(&self) -> [u32; 2] {
        match self {
            Geometry::Crop(crop) => crop.centre(),
            Geometry::Flip(_) => [0, 0],
        }
    }
}

/// What one worker needs again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    placement: Placement,
    choices: Vec<[u32; 2]>,
}

/// What flows between two stages.
#[derive(Debug, Clone)]
enum Flow {
    Pixels([usize; 3]),
    Features([usize; 3]),
    Batches([usize; 4]),
}

impl std::fmt::Display for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flow::Pixels(shape) => write!(f, "u8 examples {shape:?}"),
            Flow::Features(shape) => write!(f, "f32 examples {shape:?}"),
            Flow::Batches(shape) => write!(f, "f32 batches {shape:?}"),
        }
    }
}

impl Recipe {
    /// Checks every stage against what reaches it.
    pub(crate) fn new(plan: &PipelinePlan, data: Arc<Dataset>, seed: Seed) -> Result<Recipe, PipelineError> {
        let [h, w, channels] = data.shape();
        let mut flow = Flow::Pixels([h, w, channels]);
        let mut order = None;
        let mut geometry = Vec::new();
        let mut features = None;
        for (position, stage) in plan.stages.iter().enumerate() {
            let name = stage.name();
            let refuse = |[expected, found, hint]: [String; 3]| PipelineError::Stage {
                position,
                stage: name,
                expected,
                found,
                hint,
            };
            let shape = match flow {
                Flow::Pixels(shape) | Flow::Features(shape) => shape,
                Flow::Batches(_) => {
                    let hint = format!("move `{name}` before `batch`, and keep one `batch`");
                    return Err(refuse(["examples [H, W, C]".into(), flow.to_string(), hint]));
                }
            };
            let [h, w, c] = shape;
            // The salt counts the stages that choose at random, so that the choices of one do not depend on whether
            // stages without choices (shuffle, normalize, batch) stand before it.
            let key = seed.key(Purpose::Augment, geometry.len() as u64);
            match stage {
                StagePlan::Shuffle(sooner_plan::ShuffleKind::Epoch) => {
                    if order.replace(Order::shuffled(seed, data.len())).is_some() {
                        let hint = "remove one of the two".into();
                        return Err(refuse([
                            "examples in their own order".into(),
                            "shuffled examples".into(),
                            hint,
                        ]));
                    }
                }
                StagePlan::Crop(crop) => {
                    let crop = Crop::new(*crop, key, [h, w]).map_err(refuse)?;
                    let [h, w] = crop.shape();
                    geometry.push(Geometry::Crop(crop));
                    // Cropping before and after normalising gives the same features: padding is black, byte 0, in both.
                    flow = match flow {
                        Flow::Features(_) => Flow::Features([h, w, c]),
                        _ => Flow::Pixels([h, w, c]),
                    };
                }
                StagePlan::Flip(kind) => geometry.push(Geometry::Flip(Flip::new(*kind, key))),
                StagePlan::Normalize(constants) => {
                    if matches!(flow, Flow::Features(_)) {
                        let hint = "remove one `normalize`".into();
                        let expected = format!("u8 examples {shape:?}");
                        return Err(refuse([expected, flow.to_string(), hint]));
                    }
                    features = Some(table(constants, c).map_err(refuse)?);
                    flow = Flow::Features(shape);
                }
                StagePlan::Batch(0) => {
                    return Err(refuse([
                        "at least 1 example".into(),
                        "0".into(),
                        "give a batch size".into(),
                    ]));
                }
                StagePlan::Batch(size) => flow = Flow::Batches([*size, h, w, c]),
            }
        }
        let Flow::Batches([batch, h, w, c]) = flow else {
            return Err(PipelineError::Stage {
                position: plan.stages.len(),
                stage: "batch",
                expected: "batches at the end of the stages".into(),
                found: flow.to_string(),
                hint: "end the stages with { batch = N }".into(),
            });
        };
        let order = order.unwrap_or_else(|| Order::sequential(data.len()));
        let table = features.unwrap_or_else(|| unit_table(channels));
        Ok(Recipe { data, order, geometry, table, batch, shape: [h, w, c] })
    }

    /// The same stages without order and chance: the data's own order, crops of the middle, no flips.
    pub(crate) fn still(&self, data: Arc<Dataset>, batch: usize) -> Recipe {
        let order = Order::sequential(data.len());
        let (geometry, table) = (self.geometry.clone(), self.table.clone());
        Recipe { data, order, geometry, table, batch, shape: self.shape }
    }

    /// Height, width and channels of every example that comes out.
    pub(crate) fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Examples of a full batch; the plan's, however few examples there are.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// The data set that is read.
    pub(crate) fn data(&self) -> &Arc<Dataset> {
        &self.data
    }

    /// Batches of an epoch, the last one smaller where the division leaves a rest.
    pub(crate) fn batches(&self) -> u64 {
        self.data.len().div_ceil(self.batch) as u64
    }

    /// Bytes of the largest batch with its labels and origins; `None` where that is no number of this machine.
    pub(crate) fn batch_bytes(&self) -> Option<Bytes> {
        let features =
            self.shape.iter().try_fold(size_of::<f32>(), |bytes, &extent| bytes.checked_mul(extent))?;
        let example = features.checked_add(size_of::<u32>() + size_of::<Origin>())?;
        Some(Bytes(example.checked_mul(self.batch.min(self.data.len()))? as u64))
    }

    /// Makes `batch` ready for the examples of one batch, keeping its memory, and gives their places in the epoch.
    pub(crate) fn lay_out(&self, number: u64, batch: &mut Batch) -> Range<u64> {
        let start = number * self.batch as u64;
        let end = (start + self.batch as u64).min(self.data.len() as u64);
        let n = (end - start) as usize;
        let [h, w, c] = self.shape;
        batch.features.resize(n * h * w * c, 0.0);
        batch.labels.clear();
        batch.origins.clear();
        if batch.shape.dims() != [n, h, w, c] {
            batch.shape = Shape::from([n, h, w, c]);
        }
        start..end
    }

    /// Appends the origins of the examples at these places of an epoch.
    pub(crate) fn choose(&self, epoch: u32, places: Range<u64>, batch: &mut Batch) {
        let order = self.order.epoch(epoch);
        batch.origins.extend(places.map(|place| order.origin(place)));
    }

    /// Writes labels and augmented features of all examples that have an origin but no label yet.
    pub(crate) fn write(&self, batch: &mut Batch, scratch: &mut Scratch) {
        self.write_with(batch, scratch, |stage, origins, out| stage.draw(origins, out));
    }

    /// Writes them without augmentation.
    pub(crate) fn write_still(&self, batch: &mut Batch, scratch: &mut Scratch) {
        self.write_with(batch, scratch, |stage, origins, out| {
            out.extend(origins.iter().map(|_| stage.still()))
        });
    }

    fn write_with(
        &self,
        batch: &mut Batch,
        scratch: &mut Scratch,
        draw: impl Fn(&Geometry, &[Origin], &mut Vec<[u32; 2]>),
    ) {
        let done = batch.labels.len();
        let origins = &batch.origins[done..];
        let Scratch { placement, choices } = scratch;
        // The choices of a slice are drawn stage by stage, in bulk, before a pixel is touched.
        choices.clear();
        self.geometry.iter().for_each(|stage| draw(stage, origins, choices));
        let [h, w, _] = self.data.shape();
        let size: usize = self.shape.iter().product();
        let out = batch.features[done * size..].chunks_exact_mut(size);
        for (k, (origin, out)) in origins.iter().zip(out).enumerate() {
            placement.rows.reset(h);
            placement.cols.reset(w);
            for (s, stage) in self.geometry.iter().enumerate() {
                stage.place(choices[s * origins.len() + k], placement);
            }
            placement.write(self.data.image(origin.index as usize), w, &self.table, out);
        }
        batch.labels.extend(origins.iter().map(|origin| self.data.labels()[origin.index as usize]));
    }
}
