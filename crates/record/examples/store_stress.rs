//! Thirty-two worker processes and a reading one on a single study for a given time, ten minutes unless said otherwise:
//! no error, no trial twice, no trial half seen. Now and then a worker is killed; what it ran is leased again.
//!
//! cargo run --release -p sooner-record --example store_stress -- [--minutes M] [--workers N]

use sooner_record::{
    Ask, Hold, Outcome, SqliteStore, Store, StoredStudy, StudyPoint, TrialEvaluation, TrialState, Values,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Short, so that killed workers' trials come back while this runs.
const LEASE_SECONDS: f64 = 5.0;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("work") => work(Path::new(&words[1]), words[2].parse()?),
        Some("read") => read(Path::new(&words[1]), words[2].parse()?),
        _ => {
            let (mut minutes, mut workers) = (10.0, 32);
            for pair in words.chunks(2) {
                match pair {
                    [name, value] if name == "--minutes" => minutes = value.parse::<f64>()?,
                    [name, value] if name == "--workers" => workers = value.parse()?,
                    _ => return Err(format!("expected --minutes M or --workers N, found {pair:?}").into()),
                }
            }
            watch((60.0 * minutes) as u64, workers)
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn draw(point: &StudyPoint, number: u64) -> Option<Values> {
    Some(Values::from([("x".to_string(), (point.id * 1_000_000 + number) as f64)]))
}

fn spawn(role: &str, path: &Path, seconds: u64) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).arg(role).arg(path).arg(seconds.to_string()).spawn()
}

fn watch(seconds: u64, workers: u64) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("store-stress-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path: PathBuf = folder.join("study.db");
    let point = |id| StudyPoint { id, about: String::new(), wanted: u64::MAX >> 1, most_lost: u64::MAX >> 1 };
    let study = StoredStudy { definition: "stress".into(), points: (0..8).map(point).collect() };
    SqliteStore::create(&path)?.define(&study)?;
    let start = Instant::now();
    let mut reader = spawn("read", &path, seconds)?;
    let mut crowd: Vec<Child> =
        (0..workers).map(|_| spawn("work", &path, seconds)).collect::<Result<_, _>>()?;
    let (mut killed, mut turn) = (0u64, 0usize);
    while start.elapsed().as_secs() + 10 < seconds {
        std::thread::sleep(Duration::from_secs(5));
        let victim = turn % crowd.len();
        turn += 1;
        crowd[victim].kill()?;
        crowd[victim].wait()?;
        killed += 1;
        crowd[victim] = spawn("work", &path, seconds.saturating_sub(start.elapsed().as_secs()))?;
    }
    for worker in &mut crowd {
        assert!(worker.wait()?.success(), "a worker failed");
    }
    assert!(reader.wait()?.success(), "the reader failed");
    let trials = SqliteStore::open(&path)?.trials()?;
    let finished = trials.iter().filter(|t| t.state != TrialState::Running).count();
    let again = trials.iter().filter(|t| t.attempt > 1).count();
    for (point, trials) in trials.chunk_by(|a, b| a.point == b.point).enumerate() {
        assert!(
            trials.iter().enumerate().all(|(i, t)| t.number == i as u64),
            "numbers of point {point} have gaps"
        );
    }
    println!(
        "{workers} workers and a reader, {:.0} s: {finished} trials finished, {killed} workers killed, {again} trials \
         leased again, no error",
        start.elapsed().as_secs_f64()
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn work(path: &Path, seconds: u64) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut store = SqliteStore::open(path)?;
    let worker = std::process::id().to_string();
    while start.elapsed().as_secs() < seconds {
        let ask = Ask { worker: &worker, now: now(), until: now() + LEASE_SECONDS, most_attempts: 100 };
        let Some(lease) = store.lease(&ask, &mut draw)? else { continue };
        for updates in 0..5 {
            let row = TrialEvaluation {
                updates,
                examples: updates,
                fresh: updates,
                epochs: None,
                seconds: None,
                metrics: lease.parameters.clone(),
            };
            // A worker that waited longer than its lease for its turn has lost it, which is no error.
            if store.renew(&lease, now() + LEASE_SECONDS, &[row])? == Hold::Lost {
                break;
            }
        }
        let state = if lease.number % 7 == 3 { TrialState::Diverged } else { TrialState::Complete };
        let _ = store.finish(&lease, &Outcome { state, note: String::new(), last_loss: None }, &[])?;
    }
    Ok(())
}

fn read(path: &Path, seconds: u64) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    while start.elapsed().as_secs() < seconds {
        for trial in SqliteStore::open(path)?.trials()? {
            let whole = trial.state == TrialState::Running || trial.evaluations.len() == 5;
            assert!(whole, "a finished trial with {} evaluations", trial.evaluations.len());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}
