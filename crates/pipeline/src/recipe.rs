//! A plan's stages, checked against each other and the data, as one function from a place in the stream to a batch.

use crate::chain::{ByteStage, Chain, Geometry};
use crate::notes::{self, Note};
use crate::resample::shorter_to;
use crate::stages::{
    Crop, Cutout, Echo, Flip, Jitter, Mix, MixKind, Mixing, Order, RandomResizedCrop, Spread, table,
    unit_table,
};
use crate::{Dataset, PipelineError};
use sooner_base::{Batch, Bytes, Examples, FreshExamples, Origin, Purpose, Seed, Shape};
use sooner_plan::{EchoFactor, LastBatch, OnBad, PipelinePlan, ShuffleKind, StagePlan};
use std::ops::Range;
use std::sync::Arc;

/// A place in the stream of batches: what a stopped run needs to know to go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The pass over the data, from 0.
    pub epoch: u32,
    /// The batch within the epoch, from 0; repeats of batches count.
    pub batch: u64,
}

/// Which share of every batch a stream gives: one of several ranks that together train on whole batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) rank: u64,
    pub(crate) ranks: u64,
}

impl Share {
    pub(crate) const WHOLE: Share = Share { rank: 0, ranks: 1 };

    /// This rank's part of a range; parts differ by at most one.
    pub(crate) fn of(self, range: Range<u64>) -> Range<u64> {
        let len = range.end - range.start;
        let at = |rank: u64| range.start + len * rank / self.ranks;
        at(self.rank)..at(self.rank + 1)
    }
}

/// How to make any batch of the stream.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) data: Arc<Dataset>,
    pub(crate) order: Arc<Order>,
    /// The order of batches, where an echo stage repeats them.
    pub(crate) batch_order: Option<Arc<Order>>,
    /// An echo stage whose repeats depend on time, and the most uses of an item.
    pub(crate) auto: Option<u32>,
    pub(crate) chain: Chain,
    /// What mixes the examples of a batch, and whether it stands behind the echo of batches.
    pub(crate) mix: Option<(Mix, bool)>,
    pub(crate) share: Share,
    pub(crate) on_bad: OnBad,
    /// The most uses of one item: where those of an example that stands in for a bad one begin.
    pub(crate) most_uses: u32,
    batch: usize,
    last: LastBatch,
    shape: [usize; 3],
    /// How well a shuffle buffer mixes; none without one, or where labels are not known before they are read.
    mixing: Option<Mixing>,
    notes: Vec<Note>,
}

/// What flows between two stages. Heights and widths of 0 are those of each image.
#[derive(Debug, Clone)]
enum Flow {
    Pixels([usize; 3]),
    Features([usize; 3]),
    Batches([usize; 4]),
}

impl Flow {
    /// The same with other heights and widths.
    fn sized(&self, [h, w]: [usize; 2]) -> Flow {
        match self {
            Flow::Pixels([_, _, c]) => Flow::Pixels([h, w, *c]),
            Flow::Features([_, _, c]) => Flow::Features([h, w, *c]),
            Flow::Batches(shape) => Flow::Batches(*shape),
        }
    }
}

impl std::fmt::Display for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Flow::Pixels([0, _, c]) => write!(f, "u8 examples of sizes of their own, {c} channels"),
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
        let mut chain = Chain::new(plan.draws);
        let (mut shuffled_at, mut echo, mut mix, mut normal) = (None, None, None, false);
        // The salt counts the stages that choose at random, so that the choices of one do not depend on whether
        // stages without choices (shuffle, normalize, batch) stand before it.
        let mut choosers = 0;
        for (position, stage) in plan.stages.iter().enumerate() {
            let name = stage.name();
            let refuse = |[expected, found, hint]: [String; 3]| PipelineError::Stage {
                position,
                stage: name,
                expected,
                found,
                hint,
            };
            let mixes = matches!(stage, StagePlan::Mixup(_) | StagePlan::Cutmix(_));
            let is_echo = matches!(stage, StagePlan::Echo(_));
            let shape = match flow {
                Flow::Pixels(shape) | Flow::Features(shape) if !mixes => shape,
                Flow::Batches([_, h, w, c]) if mixes || is_echo => [h, w, c],
                Flow::Batches(_) => {
                    let hint = format!("move `{name}` before `batch`, and keep one `batch`");
                    return Err(refuse(["examples [H, W, C]".into(), flow.to_string(), hint]));
                }
                _ => {
                    let hint = format!("move `{name}` behind `batch`");
                    return Err(refuse(["batches [N, H, W, C]".into(), flow.to_string(), hint]));
                }
            };
            let [h, w, c] = shape;
            let known = |what: &str| -> Result<(), PipelineError> {
                if h > 0 {
                    return Ok(());
                }
                let hint = "put `resize` and `center-crop`, or `random-resized-crop`, before it".into();
                Err(refuse([what.into(), flow.to_string(), hint]))
            };
            let bytes_only = |done: bool| {
                let hint =
                    format!("move `{name}` before `normalize` and before covers of normalised features");
                if done { Ok(()) } else { Err(refuse(["u8 examples".into(), flow.to_string(), hint])) }
            };
            let key = seed.key(Purpose::Augment, choosers);
            match stage {
                StagePlan::Shuffle(kind) => {
                    if shuffled_at.replace((position, *kind)).is_some() {
                        let hint = "remove one of the two".into();
                        return Err(refuse([
                            "examples in their own order".into(),
                            "shuffled examples".into(),
                            hint,
                        ]));
                    }
                }
                StagePlan::Echo(plan) => {
                    let batched = matches!(flow, Flow::Batches(_));
                    if echo.replace((position, *plan, batched)).is_some() {
                        let fields = ["items used once", "items repeated already", "remove one of the two"];
                        return Err(refuse(fields.map(String::from)));
                    }
                    if plan.fixed().is_some_and(|factor| !(1.0..=4096.0).contains(&factor)) {
                        let found = plan.fixed().unwrap_or_default().to_string();
                        return Err(refuse(["a factor from 1 to 4096".into(), found, "repeat less".into()]));
                    }
                    if matches!(plan.factor, EchoFactor::Auto { .. }) && batched {
                        let fields =
                            ["examples, to repeat those that are there", "batches", "move it before `batch`"];
                        return Err(refuse(fields.map(String::from)));
                    }
                    chain.echo();
                }
                StagePlan::Resize(0) | StagePlan::CenterCrop(0) => {
                    return Err(refuse(["at least 1 pixel".into(), "0".into(), "give a size".into()]));
                }
                StagePlan::Resize(size) => {
                    bytes_only(chain.push_bytes(ByteStage::Resize(*size)))?;
                    flow = flow.sized(if h > 0 { shorter_to([h, w], *size) } else { [0, 0] });
                }
                StagePlan::CenterCrop(size) => {
                    if h > 0 && *size > h.min(w) {
                        let expected = format!("at most {}, the shorter side", h.min(w));
                        return Err(refuse([
                            expected,
                            size.to_string(),
                            "crop less, or resize to more".into(),
                        ]));
                    }
                    // Of images of their own sizes the stage before has to have made both sides long enough.
                    if h == 0
                        && !matches!(position.checked_sub(1).map(|at| &plan.stages[at]), Some(StagePlan::Resize(s)) if s >= size)
                    {
                        let hint = format!("put {{ resize = {size} }} before it");
                        return Err(refuse([format!("sides of at least {size}"), flow.to_string(), hint]));
                    }
                    bytes_only(chain.push_geometry(Geometry::Centre(*size)))?;
                    flow = flow.sized([*size; 2]);
                }
                StagePlan::RandomResizedCrop(plan) => {
                    let crop = RandomResizedCrop::new(*plan, key);
                    bytes_only(chain.push_bytes(ByteStage::Scaled(crop)))?;
                    flow = flow.sized([plan.size; 2]);
                    choosers += 1;
                }
                StagePlan::Crop(crop) => {
                    known("examples of one size")?;
                    let crop = Crop::new(*crop, key, [h, w]).map_err(refuse)?;
                    let shape = crop.shape();
                    // Cropping before and after normalising gives the same features: padding is black, byte 0, in both.
                    bytes_only(chain.push_geometry(Geometry::Crop(crop)))?;
                    flow = flow.sized(shape);
                    choosers += 1;
                }
                StagePlan::Flip(kind) => {
                    bytes_only(chain.push_geometry(Geometry::Flip(Flip::new(*kind, key))))?;
                    choosers += 1;
                }
                StagePlan::Jitter(plan) => {
                    bytes_only(chain.push_bytes(ByteStage::Jitter(Jitter::new(*plan, key))))?;
                    choosers += 1;
                }
                StagePlan::Cutout(size) => {
                    known("examples of one size")?;
                    chain.push_cover(Cutout::new(*size, key, [h, w]).map_err(refuse)?);
                    choosers += 1;
                }
                StagePlan::Normalize(constants) => {
                    if normal {
                        let hint = "remove one `normalize`".into();
                        let expected = format!("u8 examples {shape:?}");
                        return Err(refuse([expected, flow.to_string(), hint]));
                    }
                    chain.normalize(table(constants, c).map_err(refuse)?);
                    (normal, flow) = (true, Flow::Features(shape));
                }
                StagePlan::Batch(0) => {
                    return Err(refuse([
                        "at least 1 example".into(),
                        "0".into(),
                        "give a batch size".into(),
                    ]));
                }
                StagePlan::Batch(size) => {
                    known("examples of one size")?;
                    flow = Flow::Batches([*size, h, w, c]);
                }
                StagePlan::Mixup(alpha) | StagePlan::Cutmix(alpha) => {
                    if alpha.is_nan() || *alpha <= 0.0 || mix.is_some() {
                        let expected = "one stage that mixes, with a number above 0".into();
                        let found = if mix.is_some() { "two".into() } else { alpha.to_string() };
                        return Err(refuse([expected, found, "leave one out, or give a number".into()]));
                    }
                    let kind = match stage {
                        StagePlan::Mixup(_) => MixKind::Mixup,
                        _ => MixKind::Cutmix,
                    };
                    mix = Some((Mix::new(kind, *alpha, key), matches!(echo, Some((_, _, true)))));
                    choosers += 1;
                }
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
        chain.finish(unit_table(channels));
        // Behind an echo stage a shuffle shuffles repeats.
        let before_echo = |at: usize| echo.as_ref().is_none_or(|(position, ..)| at < *position);
        let shards = data.source().and_then(|source| source.shards());
        let mut order = match (shuffled_at, shards) {
            (Some((_, ShuffleKind::Epoch)), None) => Order::shuffled(seed, data.len()),
            (Some((at, kind)), shards) if before_echo(at) => {
                let size = match kind {
                    ShuffleKind::Epoch => ShuffleKind::BUFFER,
                    ShuffleKind::Buffer(size) => size.max(1),
                };
                let whole = [data.len() as u64];
                Order::buffered(seed, shards.unwrap_or(&whole).to_vec(), size)
            }
            _ => Order::sequential(data.len()),
        };
        let (mixing, last) = (order.mixing(&data), plan.last_batch);
        let (mut batch_order, mut auto, mut most_uses) = (None, None, 1);
        if let Some((position, plan, batched)) = echo {
            let key = seed.key(Purpose::Echo, 0);
            match plan.factor {
                EchoFactor::Auto { max } => (auto, most_uses) = (Some(max), max),
                EchoFactor::Fixed(factor) => {
                    most_uses = factor.ceil() as u32;
                    // A shuffle behind the echo stage shuffles repeats too, over the whole epoch.
                    let behind = shuffled_at.filter(|(at, _)| !batched && *at > position);
                    let whole = matches!(behind, Some((_, ShuffleKind::Epoch)));
                    let buffer = match behind {
                        Some((_, ShuffleKind::Buffer(size))) => plan.buffer.max(size),
                        _ => plan.buffer,
                    };
                    if whole && factor > 1.0 {
                        // The permutation of uses is the shuffle; the items before it are in the data's order.
                        order = Order::sequential(data.len());
                    }
                    let spread = Spread { buffer, whole: whole && factor > 1.0 };
                    let needed = factor > 1.0 || buffer > 1;
                    if batched && needed {
                        let held = last.held(data.len() as u64, batch as u64);
                        let batches = held.div_ceil(batch as u64);
                        let echo = Echo::new(factor, spread, key, batches);
                        batch_order = Some(Arc::new(Order::sequential(batches as usize).echoed(echo)));
                    } else if needed {
                        order = order.echoed(Echo::new(factor, spread, key, data.len() as u64));
                    }
                }
            }
        }
        let left = order.places() - last.held(order.places(), batch as u64);
        if left == order.places() {
            let expected = format!("at least {batch} examples an epoch, since a smaller batch is dropped");
            return Err(PipelineError::Stage {
                position: plan.stages.len() - 1,
                stage: "batch",
                expected,
                found: order.places().to_string(),
                hint: "make batches smaller, or keep the last one".into(),
            });
        }
        let mut notes = notes::of(plan, &data, &chain, mix.as_ref().map(|(_, behind)| *behind));
        if left > 0 {
            notes.push(notes::of_dropped(plan, left, order.places()));
        }
        if let Some((position, kind)) = shuffled_at {
            let sequential = shards.is_some();
            notes.extend(notes::of_shuffle(position, (kind, sequential), mixing.as_ref()));
        }
        Ok(Recipe {
            data,
            order: Arc::new(order),
            batch_order,
            auto,
            chain,
            mix,
            share: Share::WHOLE,
            on_bad: plan.on_bad,
            most_uses,
            batch,
            last,
            shape: [h, w, c],
            mixing,
            notes,
        })
    }

    /// The same stages without order and chance: the data's own order, crops of the middle, no flips, no repeats.
    pub(crate) fn still(&self, data: Arc<Dataset>, batch: usize) -> Recipe {
        let order = Arc::new(Order::sequential(data.len()));
        let (batch_order, mix, share) = (None, None, Share::WHOLE);
        // There are no repeats, so that all of an example's byte stages are shared.
        let chain = self.chain.whole();
        Recipe {
            data,
            order,
            batch_order,
            batch,
            auto: None,
            chain,
            mix,
            share,
            most_uses: 1,
            last: LastBatch::Keep,
            ..self.clone()
        }
    }

    /// Height, width and channels of every example that comes out.
    pub(crate) fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Examples of a full batch, as the plan has it.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// Bytes of one example's features.
    pub(crate) fn example_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<f32>()
    }

    /// The data set that is read.
    pub(crate) fn data(&self) -> &Arc<Dataset> {
        &self.data
    }

    /// How well a shuffle buffer mixes classes.
    pub(crate) fn mixing(&self) -> Option<Mixing> {
        self.mixing
    }

    /// What should be known about this order of stages.
    pub(crate) fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Whether every example is written straight from memory, so that nothing is read, held or waited for.
    pub(crate) fn is_direct(&self) -> bool {
        self.data.source().is_none() && self.chain.is_direct() && self.auto.is_none()
    }

    /// Whether examples are made once and used several times.
    pub(crate) fn holds_items(&self) -> bool {
        self.order.repeats() && (self.data.source().is_some() || self.chain.shares_work())
    }

    /// Batches of an epoch before any is repeated; the last one may be smaller where the plan keeps it.
    pub(crate) fn fresh_batches(&self) -> u64 {
        self.places_used().div_ceil(self.batch as u64)
    }

    /// Places of an epoch that batches hold, before any is repeated.
    fn places_used(&self) -> u64 {
        self.last.held(self.order.places(), self.batch as u64)
    }

    /// Batches of an epoch.
    pub(crate) fn batches(&self) -> u64 {
        self.batch_order.as_ref().map_or(self.fresh_batches(), |order| order.places())
    }

    /// Bytes of the largest batch with its labels and origins; `None` where that is no number of this machine.
    pub(crate) fn batch_bytes(&self) -> Option<Bytes> {
        let features =
            self.shape.iter().try_fold(size_of::<f32>(), |bytes, &extent| bytes.checked_mul(extent))?;
        let example = features.checked_add(size_of::<u32>() + size_of::<Origin>())?;
        let most = usize::try_from(self.order.places()).ok()?;
        Some(Bytes(example.checked_mul(self.batch.min(most))? as u64))
    }

    /// Bytes of one batch in memory.
    pub(crate) fn bytes_of(batch: &Batch) -> Bytes {
        let features = batch.features.len() * size_of::<f32>();
        Bytes((features + batch.len() * (size_of::<u32>() + size_of::<Origin>())) as u64)
    }

    /// Places of the epoch that one batch (before any is repeated) holds, over all ranks.
    pub(crate) fn places(&self, number: u64) -> Range<u64> {
        let start = number * self.batch as u64;
        start..(start + self.batch as u64).min(self.places_used())
    }

    /// Places of one batch that this rank writes: its own, or all where examples of other ranks are mixed in.
    pub(crate) fn written(&self, number: u64) -> Range<u64> {
        let places = self.places(number);
        if self.mix.is_some() { places } else { self.share.of(places) }
    }

    /// Makes `batch` ready for so many examples, keeping its memory.
    pub(crate) fn lay_out(&self, examples: u64, batch: &mut Batch) {
        let n = examples as usize;
        let [h, w, c] = self.shape;
        batch.features.resize(n * h * w * c, 0.0);
        batch.labels.clear();
        batch.mixes.clear();
        batch.origins.clear();
        batch.fresh = 0;
        if batch.shape.dims() != [n, h, w, c] {
            batch.shape = Shape::from([n, h, w, c]);
        }
    }

    /// What an epoch's first so many batches use: examples, and those read afresh for them. Of all ranks together.
    fn counts_within(&self, epoch: u32, batches: u64) -> (u64, u64) {
        match &self.batch_order {
            None => {
                let places = (batches * self.batch as u64).min(self.places_used());
                (places, self.order.epoch(epoch).fresh_before(places))
            }
            Some(order) => {
                let order = order.epoch(epoch);
                (0..batches).fold((0, 0), |(examples, fresh), batch| {
                    let pick = order.pick(batch);
                    let places = self.places(u64::from(pick.item));
                    let n = places.end - places.start;
                    (examples + n, fresh + if pick.origin.echo == 0 { n } else { 0 })
                })
            }
        }
    }

    /// What the stream uses before one place of it, exactly.
    pub(crate) fn counts(&self, at: Position) -> (Examples, FreshExamples) {
        let (mut examples, mut fresh) = (0, 0);
        match (&self.batch_order, self.last) {
            (None, LastBatch::Keep) => {
                examples = u64::from(at.epoch) * self.order.places();
                fresh = u64::from(at.epoch) * self.data.len() as u64;
            }
            // Which batch has one more use may matter: the smaller one, or another; and which uses are dropped.
            _ => {
                for epoch in 0..at.epoch {
                    let (e, f) = self.counts_within(epoch, self.batches());
                    (examples, fresh) = (examples + e, fresh + f);
                }
            }
        }
        let (e, f) = self.counts_within(at.epoch, at.batch);
        (Examples(examples + e), FreshExamples(fresh + f))
    }
}
