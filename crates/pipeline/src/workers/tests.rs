use super::*;
use crate::testing::within;
use sooner_base::ManualClock;
use std::cell::Cell;

type Filler = Box<dyn FnMut(u64, &mut Vec<u64>, &AtomicBool) -> Result<(), PipelineError> + Send>;

fn spawn(threads: usize, depth: usize, filler: impl Fn() -> Filler) -> Workers<Vec<u64>> {
    let control = Arc::new(Control::new(Arc::new(ManualClock::default()), None));
    let queue = Queue { depth, item: Bytes(1), timeout: None };
    Workers::spawn(queue, control, (0..threads).map(|_| filler())).unwrap()
}

/// Issues and takes `n` batches; each as its numbers, or its error's message.
fn drain(mut workers: Workers<Vec<u64>>, n: u64) -> Vec<Result<Vec<u64>, String>> {
    let mut out = Vec::new();
    while out.len() < n as usize {
        while workers.has_room() && workers.next_job() < n {
            workers.issue(Vec::new());
        }
        out.push(workers.take().map_err(|error| error.complaint().found));
    }
    out
}

#[test]
fn batches_come_in_order() {
    for (threads, depth) in [(1, 1), (1, 4), (2, 1), (2, 2), (4, 9), (16, 3)] {
        let out = within(10, move || {
            let filler = || -> Filler {
                Box::new(|number, batch, _| {
                    // Later numbers are done sooner, as far as the scheduler lets them.
                    (0..(97 - number % 97) * 50).for_each(|i| {
                        std::hint::black_box(i);
                    });
                    batch.push(number);
                    Ok(())
                })
            };
            drain(spawn(threads, depth, filler), 300)
        });
        assert_eq!(out, (0..300).map(|k| Ok(vec![k])).collect::<Vec<_>>(), "{threads} {depth}");
    }
}

type Fault = fn() -> Result<(), PipelineError>;

/// Filler of the number, but for one batch that goes wrong.
fn faulty(at: u64, fault: Fault) -> impl Fn() -> Filler {
    move || {
        Box::new(move |number, batch, _| {
            batch.push(number);
            if number == at { fault() } else { Ok(()) }
        })
    }
}

#[test]
fn a_fault_comes_in_its_batchs_place() {
    let faults: [(Fault, &str); 4] = [
        (|| panic!("at the disco"), "at the disco"),
        (|| panic!("with {}", 7), "with 7"),
        (|| std::panic::panic_any(7), "no message"),
        (|| Err(PipelineError::Panicked { batch: 0, message: "an error".into() }), "an error"),
    ];
    for (fault, message) in faults {
        for threads in [1, 2, 7] {
            for at in [0, 1, 5, 29] {
                let out = within(10, move || drain(spawn(threads, 4, faulty(at, fault)), 30));
                let expect = |k| if k == at { Err(message.to_string()) } else { Ok(vec![k]) };
                assert_eq!(
                    out,
                    (0..30).map(expect).collect::<Vec<_>>(),
                    "{threads} threads, {message} at {at}"
                );
            }
        }
    }
}

#[test]
fn dropping_interrupts_a_long_batch() {
    within(10, || {
        let (started_in, started) = std::sync::mpsc::channel();
        let filler = move || -> Filler {
            let started = started_in.clone();
            Box::new(move |_, _, cancelled| {
                let _ = started.send(());
                while !cancelled.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Ok(())
            })
        };
        let mut workers = spawn(2, 3, filler);
        (0..3).for_each(|_| workers.issue(Vec::new()));
        started.recv().unwrap();
        let since = std::time::Instant::now();
        drop(workers);
        assert!(since.elapsed().as_secs_f64() < 1.0);
    });
}

#[test]
fn whoever_waits_may_give_up_and_still_gets_the_same_batch() {
    within(10, || {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let filler = move || -> Filler {
            let held = held.clone();
            Box::new(move |number, out, _| {
                let _ = held.lock().unwrap().recv();
                out.push(number);
                Ok(())
            })
        };
        let mut workers = spawn(1, 3, filler);
        (0..2).for_each(|_| workers.issue(Vec::new()));
        let asked = Cell::new(0);
        let twice = || asked.replace(asked.get() + 1) == 2;
        assert!(workers.take_unless(&twice).is_none());
        assert_eq!(asked.get(), 3);
        drop(release);
        assert_eq!(workers.take_unless(&|| false).unwrap().unwrap(), [0]);
        assert_eq!(workers.take().unwrap(), [1]);
    });
}

#[test]
fn all_workers_gone_is_an_error() {
    // A fault of ours that ends the threads themselves must not leave the consumer waiting.
    within(10, || {
        let mut workers = spawn(2, 3, || Box::new(|_, _, _| Ok(())));
        workers.jobs = None;
        workers.threads.drain(..).for_each(|thread| thread.join().unwrap());
        workers.jobs = Some(sync_channel(3).0);
        workers.issue(Vec::new());
        let error = workers.take().unwrap_err();
        assert_eq!(error.complaint().found, "every worker has ended");
    });
}
