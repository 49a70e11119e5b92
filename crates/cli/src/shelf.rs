//! Data that one run after another of the same process trains on: read once.

use sooner_base::{Clock, StageStats};
use sooner_pipeline::Splits;
use sooner_plan::DataPlan;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The splits that were read so far, by the plan's data section.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<HashMap<String, Arc<Splits>>>);

impl Shelf {
    /// What a plan's data section, as typed, names. Whoever asks again is given the same without the account of reading.
    pub(crate) fn get(
        &self,
        data: &DataPlan,
        threads: usize,
        clock: &dyn Clock,
    ) -> anyhow::Result<Arc<Splits>> {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(splits) = shelf.get(&data.to_toml()) {
            return Ok(splits.clone());
        }
        let splits = sooner_pipeline::load(data, threads, clock)?;
        let (read, decode) = (StageStats::default(), StageStats::default());
        shelf.insert(data.to_toml(), Arc::new(Splits { read, decode, ..splits.clone() }));
        Ok(Arc::new(splits))
    }

    /// Has the same splits for the section that the plan was resolved to, which is what records hold.
    pub(crate) fn add_name(&self, typed: &DataPlan, resolved: &DataPlan) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(splits) = shelf.get(&typed.to_toml()).cloned() {
            shelf.entry(resolved.to_toml()).or_insert(splits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::MonotonicClock;

    #[test]
    fn data_are_read_once_under_both_names() {
        let (shelf, clock) = (Shelf::default(), MonotonicClock::start());
        let typed = DataPlan::parse("kind = \"shapes\"\ntrain = 30\nvalidation = 5\ntest = 5").unwrap();
        let first = shelf.get(&typed, 1, &clock).unwrap();
        let resolved = DataPlan { train: Some(30), path: Some("elsewhere".to_string()), ..typed.clone() };
        shelf.add_name(&typed, &resolved);
        for again in [&typed, &resolved] {
            let again = shelf.get(again, 1, &clock).unwrap();
            assert!(Arc::ptr_eq(&again.train, &first.train));
            assert_eq!((again.read, again.decode), (StageStats::default(), StageStats::default()));
        }
        let other = DataPlan { train: Some(31), ..typed };
        assert_eq!(shelf.get(&other, 1, &clock).unwrap().train.len(), 31);
    }
}
