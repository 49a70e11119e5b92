use super::super::contract::study;
use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

#[test]
fn keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    super::super::check_store(&mut || {
        count += 1;
        Box::new(SqliteStore::create(&folder.path().join(format!("{count}.db"))).unwrap())
    });
}

fn drawn(point: &StudyPoint, number: u64) -> Option<Values> {
    Some(Values::from([("x".to_string(), (point.id * 1000 + number) as f64)]))
}

#[test]
fn is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let mut store = SqliteStore::create(&path).unwrap();
    store.define(&study(1)).unwrap();
    let ask = Ask { worker: "w", now: 0.0, until: 10.0, most_attempts: 3 };
    let lease = store.lease(&ask, &mut drawn).unwrap().unwrap();
    // As after a kill: nothing is closed or flushed.
    std::mem::forget(store);
    let mut store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.study().unwrap(), study(1));
    assert_eq!(store.renew(&lease, 20.0, &[]).unwrap(), Hold::Held);
    assert!(matches!(SqliteStore::create(&path), Err(RecordError::Store { .. })), "never overwritten");
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    assert!(SqliteStore::open(&path).unwrap_err().to_string().contains("no study here"));
    std::fs::write(&path, "not a database, but long enough to be taken for one by its size").unwrap();
    assert!(SqliteStore::open(&path).is_err());
    let newer = folder.path().join("newer.db");
    let store = SqliteStore::create(&newer).unwrap();
    store.connection.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    drop(store);
    assert!(matches!(SqliteStore::open(&newer), Err(RecordError::Newer { .. })));
    let other = folder.path().join("other.db");
    let store = SqliteStore::create(&other).unwrap();
    store.connection.pragma_update(None, "application_id", 7).unwrap();
    drop(store);
    assert!(SqliteStore::open(&other).unwrap_err().to_string().contains("another program"));
}

/// Enough for everybody to meet everybody; `examples/store_stress.rs` goes on for ten minutes, with processes and kills.
const CROWD_TRIALS: u64 = 160;

#[test]
fn thirty_two_workers_and_a_reader_get_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let mut crowd = study(4);
    for point in &mut crowd.points {
        point.wanted = CROWD_TRIALS / 4;
        point.most_lost = CROWD_TRIALS;
    }
    SqliteStore::create(&path).unwrap().define(&crowd).unwrap();
    let (done, finished) = (AtomicBool::new(false), AtomicU64::new(0));
    let deadline = Instant::now() + Duration::from_secs(100);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                let trials = SqliteStore::open(&path).unwrap().trials().unwrap();
                let whole = trials.iter().filter(|t| t.state == TrialState::Complete);
                assert!(whole.into_iter().all(|t| t.evaluations.len() == 2), "a reader sees whole trials");
                reads += 1;
            }
            reads
        });
        let workers: Vec<_> = (0..32)
            .map(|w| {
                let (path, finished) = (&path, &finished);
                scope.spawn(move || {
                    // All open at once: the start is where others report "database is locked".
                    let mut store = SqliteStore::open(path).unwrap();
                    let name = format!("w{w}");
                    let ask = Ask { worker: &name, now: 0.0, until: 1e9, most_attempts: 3 };
                    while let Some(lease) = store.lease(&ask, &mut drawn).unwrap() {
                        assert!(Instant::now() < deadline, "workers starve");
                        let row = |updates| TrialEvaluation {
                            updates,
                            examples: 0,
                            fresh: 0,
                            epochs: None,
                            seconds: None,
                            metrics: lease.parameters.clone(),
                        };
                        assert_eq!(store.renew(&lease, 1e9, &[row(1)]).unwrap(), Hold::Held);
                        let diverges = lease.number % 5 == 4;
                        let state = if diverges { TrialState::Diverged } else { TrialState::Complete };
                        let outcome = Outcome { state, note: String::new(), last_loss: None };
                        assert_eq!(store.finish(&lease, &outcome, &[row(2)]).unwrap(), Hold::Held);
                        finished.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    let trials = SqliteStore::open(&path).unwrap().trials().unwrap();
    assert_eq!(trials.len() as u64, finished.load(Ordering::Relaxed), "every trial exactly once");
    let complete = trials.iter().filter(|t| t.state == TrialState::Complete).count() as u64;
    assert_eq!(complete, CROWD_TRIALS, "as many as wanted, whoever came first");
    assert!(
        trials
            .iter()
            .all(|t| Some(&t.parameters) == drawn(&crowd.points[t.point as usize], t.number).as_ref())
    );
}

/// What a folder that cannot be written asks for, also where its name has characters that mean something in an address.
#[test]
fn reading_needs_no_place_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("50% of a?b#c d");
    std::fs::create_dir(&odd).unwrap();
    let path = odd.join("study.db");
    SqliteStore::create(&path).unwrap().define(&study(1)).unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&odd).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for query in ["immutable=1", "mode=ro"] {
        let mut store = SqliteStore::connect_to_read(&path, query).unwrap().checked().unwrap();
        assert_eq!((store.study().unwrap(), store.trials().unwrap()), (study(1), Vec::new()), "{query}");
        assert!(matches!(store.define(&study(2)), Err(RecordError::Store { .. })), "{query}");
        if query == "immutable=1" {
            assert_eq!(names(), before, "nothing is put beside it");
        }
    }
    let mut store = SqliteStore::open_to_read(&path).unwrap();
    assert_eq!(store.study().unwrap(), study(1));
    let error = SqliteStore::open_to_read(&odd.join("none.db")).unwrap_err().to_string();
    assert!(error.contains("no study here"), "{error}");
}
