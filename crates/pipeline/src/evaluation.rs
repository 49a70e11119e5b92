//! A whole split in order for evaluation: the training stages without chance, one reused buffer, no threads.

use crate::chain::Mode;
use crate::fill::write_slice;
use crate::items::{Item, Scratch};
use crate::recipe::Recipe;
use crate::{Dataset, Image, PipelineError};
use sooner_base::{Batch, Bytes, Origin, Seed, Shape};
use sooner_plan::PipelinePlan;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Batches of a data set in its own order, normalised as the training batches are and not augmented: crops take the
/// middle, flips do nothing. The last batch is smaller where the division leaves a rest.
#[derive(Debug)]
pub struct Evaluation {
    recipe: Recipe,
    next: u64,
    batch: Batch,
    scratch: Scratch,
    /// Examples as the first pass made them, which every later one uses again, while there is room.
    kept: Vec<Option<Arc<Item>>>,
    room: u64,
}

impl Evaluation {
    /// Evaluates `data` as a model trained by this plan expects it, in batches of the size given.
    pub fn new(plan: &PipelinePlan, data: Arc<Dataset>, batch: usize) -> Result<Evaluation, PipelineError> {
        // The seed decides nothing here: there is no order and no choice to draw.
        let recipe = Recipe::new(plan, data.clone(), Seed(0))?;
        Evaluation::of(&recipe, data, batch, plan.budget_bytes()?)
    }

    /// `room` is for what is read and decoded once for all passes.
    pub(crate) fn of(
        recipe: &Recipe,
        data: Arc<Dataset>,
        batch: usize,
        room: Bytes,
    ) -> Result<Evaluation, PipelineError> {
        if data.shape() != recipe.data().shape() {
            return Err(PipelineError::Arrays {
                name: format!("{} ({})", data.info().name, data.info().split),
                expected: format!("images {:?}, as those trained on", recipe.data().shape()),
                found: format!("images {:?}", data.shape()),
            });
        }
        assert!(batch > 0, "evaluation in batches of no examples");
        let [h, w, c] = recipe.shape();
        let shape = Shape::from([0, h, w, c]);
        let buffer = Batch::empty(shape);
        let examples = data.len();
        let recipe = recipe.still(data, batch);
        let kept = if recipe.is_direct() { Vec::new() } else { vec![None; examples] };
        Ok(Evaluation { recipe, next: 0, batch: buffer, scratch: Scratch::default(), kept, room: room.0 })
    }

    /// Height, width and channels of every example in a batch.
    pub fn shape(&self) -> [usize; 3] {
        self.recipe.shape()
    }

    /// The data set evaluated.
    pub fn data(&self) -> &Arc<Dataset> {
        self.recipe.data()
    }

    /// The next batch, valid until the next call; `None` after the last. All origins are of epoch 0. An error if an
    /// example of a source cannot be read: an evaluation leaves nothing out.
    pub fn next_batch(&mut self) -> Result<Option<&Batch>, PipelineError> {
        if self.next >= self.recipe.batches() {
            return Ok(None);
        }
        let places = self.recipe.places(self.next);
        self.next += 1;
        self.recipe.lay_out(places.end - places.start, &mut self.batch);
        self.batch.origins.extend(places.map(|index| Origin { epoch: 0, index, echo: 0 }));
        self.batch.fresh = self.batch.origins.len();
        if !self.recipe.is_direct() {
            self.gather()?;
        }
        write_slice(&self.recipe, Mode::Still, &mut self.batch, &mut self.scratch);
        Ok(Some(&self.batch))
    }

    /// Reads and decodes the batch's examples, and does the stages that repeats would share.
    fn gather(&mut self) -> Result<(), PipelineError> {
        let (data, chain) = (self.recipe.data(), &self.recipe.chain);
        let mut bytes = Vec::new();
        self.scratch.items.clear();
        self.scratch.bases.clear();
        for origin in &self.batch.origins {
            self.scratch.bases.push(0);
            if let Some(item) = &self.kept[origin.index as usize] {
                self.scratch.items.push(item.clone());
                continue;
            }
            let mut image = Image::default();
            let label = match data.source() {
                None => {
                    image.shape = data.shape();
                    image.pixels.extend_from_slice(data.image(origin.index as usize));
                    data.labels()[origin.index as usize]
                }
                Some(source) => {
                    source.read(origin.index, &mut bytes, &AtomicBool::new(false))?;
                    source.decode(origin.index, &bytes, chain.least(), &mut image)?
                }
            };
            chain.run(0..chain.shared(), None, &mut image, &mut self.scratch.spare);
            image.pixels.shrink_to_fit();
            let size = image.pixels.len() as u64;
            let item = Arc::new(Item { image, label, index: origin.index, base: 0 });
            if size <= self.room {
                self.room -= size;
                self.kept[origin.index as usize] = Some(item.clone());
            }
            self.scratch.items.push(item);
        }
        Ok(())
    }

    /// Starts again with the first batch.
    pub fn rewind(&mut self) {
        self.next = 0;
    }
}
