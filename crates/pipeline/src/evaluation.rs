//! A whole split in order for evaluation: the training stages without chance, one reused buffer, no threads.

use crate::recipe::{Recipe, Scratch};
use crate::{Dataset, PipelineError};
use sooner_base::{Batch, Seed, Shape};
use sooner_plan::PipelinePlan;
use std::sync::Arc;

/// Batches of a data set in its own order, normalised as the training batches are and not augmented: crops take the
/// middle, flips do nothing. The last batch is smaller where the division leaves a rest.
#[derive(Debug)]
pub struct Evaluation {
    recipe: Recipe,
    next: u64,
    batch: Batch,
    scratch: Scratch,
}

impl Evaluation {
    /// Evaluates `data` as a model trained by this plan expects it, in batches of the size given.
    pub fn new(plan: &PipelinePlan, data: Arc<Dataset>, batch: usize) -> Result<Evaluation, PipelineError> {
        // The seed decides nothing here: there is no order and no choice to draw.
        let recipe = Recipe::new(plan, data.clone(), Seed(0))?;
        Evaluation::of(&recipe, data, batch)
    }

    pub(crate) fn of(recipe: &Recipe, data: Arc<Dataset>, batch: usize) -> Result<Evaluation, PipelineError> {
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
        let buffer = Batch { features: Vec::new(), shape, labels: Vec::new(), origins: Vec::new() };
        Ok(Evaluation {
            recipe: recipe.still(data, batch),
            next: 0,
            batch: buffer,
            scratch: Scratch::default(),
        })
    }

    /// The data set evaluated.
    pub fn data(&self) -> &Arc<Dataset> {
        self.recipe.data()
    }

    /// The next batch, valid until the next call; `None` after the last. All origins are of epoch 0.
    pub fn next_batch(&mut self) -> Option<&Batch> {
        if self.next >= self.recipe.batches() {
            return None;
        }
        let places = self.recipe.lay_out(self.next, &mut self.batch);
        self.next += 1;
        self.recipe.choose(0, places, &mut self.batch);
        self.recipe.write_still(&mut self.batch, &mut self.scratch);
        Some(&self.batch)
    }

    /// Starts again with the first batch.
    pub fn rewind(&mut self) {
        self.next = 0;
    }
}
