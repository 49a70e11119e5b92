//! Data that one run after another of the same process trains on: read once.

use crate::fail::Failure;
use sooner_base::{Clock, StageStats};
use sooner_pipeline::{PipelineError, Splits};
use sooner_plan::DataPlan;
use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often whoever waits for data asks whether they are still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// The splits that were read so far, by the plan's data section.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<HashMap<String, Arc<Splits>>>);

impl Shelf {
    /// What a plan's data section, as typed, names. Whoever asks again is given the same without the account of reading.
    /// An interruption once they are `unwanted`, though a server that they are read from is silent.
    pub(crate) fn get(
        &self,
        data: &DataPlan,
        threads: usize,
        clock: &Arc<dyn Clock>,
        unwanted: &dyn Fn() -> bool,
    ) -> anyhow::Result<Arc<Splits>> {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(splits) = shelf.get(&data.to_toml()) {
            return Ok(splits.clone());
        }
        let splits = load(data, threads, clock, unwanted)?;
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

/// Reads in a thread of its own, which is left behind where the data are no longer wanted: it may wait for a server, and
/// whoever interrupts ends the process soon.
fn load(
    data: &DataPlan,
    threads: usize,
    clock: &Arc<dyn Clock>,
    unwanted: &dyn Fn() -> bool,
) -> anyhow::Result<Splits> {
    let (sender, loaded) = channel::<Result<Splits, PipelineError>>();
    let (data, clock) = (data.clone(), clock.clone());
    let thread = std::thread::Builder::new().name("load".into()).spawn(move || {
        // Nobody takes what is no longer wanted.
        let _ = sender.send(sooner_pipeline::load(&data, threads, clock.as_ref()));
    })?;
    loop {
        match loaded.recv_timeout(LOOK) {
            Ok(splits) => return Ok(splits?),
            Err(RecvTimeoutError::Timeout) if unwanted() => return Err(Failure::interrupted().into()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a thread that ends has sent what it read"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::MonotonicClock;

    #[test]
    fn data_are_read_once_under_both_names() {
        let (shelf, clock): (_, Arc<dyn Clock>) = (Shelf::default(), Arc::new(MonotonicClock::start()));
        let get = |data: &DataPlan| shelf.get(data, 1, &clock, &|| false).unwrap();
        let typed = DataPlan::parse("kind = \"shapes\"\ntrain = 30\nvalidation = 5\ntest = 5").unwrap();
        let first = get(&typed);
        let resolved = DataPlan { train: Some(30), path: Some("elsewhere".to_string()), ..typed.clone() };
        shelf.add_name(&typed, &resolved);
        for again in [&typed, &resolved] {
            let again = get(again);
            assert!(Arc::ptr_eq(&again.train, &first.train));
            assert_eq!((again.read, again.decode), (StageStats::default(), StageStats::default()));
        }
        let other = DataPlan { train: Some(31), ..typed };
        assert_eq!(get(&other).train.len(), 31);
    }

    #[test]
    fn nobody_waits_for_data_that_are_not_wanted() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let path = format!("http://{}/", silent.local_addr().unwrap());
        let data =
            DataPlan::parse(&format!("kind = \"webdataset\"\npath = \"{path}\"\nvalidation = 0")).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
        let error = Shelf::default().get(&data, 1, &clock, &|| true).unwrap_err();
        assert!(Failure::is_interruption(&error), "{error}");
        assert!(clock.now().0 < 10.0, "the server's silence is waited out for 20 s");
    }
}
