//! A store in one SQLite file, for workers on one machine. Write-ahead logging lets readers read while one writes; every
//! change is one transaction that takes the writer's place at its start (`BEGIN IMMEDIATE`), so that two writers wait for
//! each other and never deadlock; a commit is on disk before it is answered.

use super::memory::{gone, lost_note};
use super::{
    Ask, Draw, Hold, Lease, Outcome, Store, StoredStudy, StoredTrial, StudyPoint, TrialEvaluation,
    TrialState, Values, check_insert,
};
use crate::RecordError;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Marks the file as a study of this program: "soon".
const APPLICATION: i64 = 0x736f_6f6e;
/// The version of the tables that this crate writes, and the newest that it reads.
const SCHEMA: i64 = 1;
/// How long a writer waits for the others. Each holds the place for milliseconds, so this is never reached by mere load.
const PATIENCE: Duration = Duration::from_secs(120);

const TABLES: &str = "
    CREATE TABLE study (only INTEGER PRIMARY KEY CHECK (only = 0), definition TEXT NOT NULL);
    CREATE TABLE point (
        id INTEGER PRIMARY KEY, about TEXT NOT NULL, wanted INTEGER NOT NULL, most_lost INTEGER NOT NULL);
    CREATE TABLE trial (
        id INTEGER PRIMARY KEY, point INTEGER NOT NULL REFERENCES point, number INTEGER NOT NULL,
        attempt INTEGER NOT NULL, state TEXT NOT NULL, parameters TEXT NOT NULL, note TEXT NOT NULL,
        last_loss REAL, worker TEXT NOT NULL, lease_until REAL, UNIQUE (point, number));
    CREATE INDEX running ON trial (state) WHERE state = 'running';
    CREATE TABLE evaluation (
        trial INTEGER NOT NULL REFERENCES trial, place INTEGER NOT NULL, updates INTEGER NOT NULL,
        examples INTEGER NOT NULL, fresh INTEGER NOT NULL, epochs REAL, seconds REAL, metrics TEXT NOT NULL,
        PRIMARY KEY (trial, place)) WITHOUT ROWID;
";

/// A study in a file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    connection: Connection,
}

/// What goes wrong inside a transaction.
enum Trouble {
    Sql(rusqlite::Error),
    Told(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl SqliteStore {
    /// A new study's file. Err if there is one already.
    pub fn create(path: &Path) -> Result<SqliteStore, RecordError> {
        let made = std::fs::File::create_new(path);
        if made.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::AlreadyExists) {
            return Err(RecordError::Store { path: path.to_path_buf(), reason: "it exists already".into() });
        }
        made.map_err(RecordError::write(path))?;
        let mut store = SqliteStore::connect(path)?;
        store.write(|t| {
            t.execute_batch(TABLES)?;
            t.pragma_update(None, "application_id", APPLICATION)?;
            t.pragma_update(None, "user_version", SCHEMA)?;
            Ok(())
        })?;
        Ok(store)
    }

    /// The file of a study that was created before. Err if it is no study, or of a later version.
    pub fn open(path: &Path) -> Result<SqliteStore, RecordError> {
        if !path.is_file() {
            let reason = "there is no study here".to_string();
            return Err(RecordError::Store { path: path.to_path_buf(), reason });
        }
        SqliteStore::connect(path)?.checked()
    }

    /// The same for whoever only reads, also where neither the file nor its folder can be written.
    pub fn open_to_read(path: &Path) -> Result<SqliteStore, RecordError> {
        let writable = SqliteStore::open(path);
        if writable.is_ok() || !path.is_file() {
            return writable;
        }
        let with = |query: &str| SqliteStore::connect_to_read(path, query)?.checked();
        // With a writer at work, its index of the log beside the file is there and can be read.
        if let Ok(store) = with("mode=ro") {
            return Ok(store);
        }
        let log = beside(path, "-wal");
        if log.metadata().is_ok_and(|log| log.len() > 0) {
            let reason = format!(
                "it was left with changes in {}, which can only be read where they can be written: copy the folder",
                log.display()
            );
            return Err(RecordError::Store { path: path.to_path_buf(), reason });
        }
        // Nobody writes it: it has no log.
        with("immutable=1").or(writable)
    }

    /// The store, if it is one that this version reads.
    fn checked(self) -> Result<SqliteStore, RecordError> {
        let (store, path) = (&self, &self.path);
        let number = |name: &str| store.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let application = number("application_id").map_err(|e| store.told(e.to_string()))?;
        if application != APPLICATION {
            return Err(store.told("it is a database of another program, or was cut off when created".into()));
        }
        let schema = number("user_version").map_err(|e| store.told(e.to_string()))?;
        if schema > SCHEMA {
            return Err(RecordError::Newer {
                path: path.to_path_buf(),
                found: schema.to_string(),
                known: SCHEMA.to_string(),
            });
        }
        Ok(self)
    }

    fn connect_to_read(path: &Path, query: &str) -> Result<SqliteStore, RecordError> {
        let told =
            |e: rusqlite::Error| RecordError::Store { path: path.to_path_buf(), reason: e.to_string() };
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(address(path, query), flags).map_err(told)?;
        connection.busy_timeout(PATIENCE).map_err(told)?;
        Ok(SqliteStore { path: path.to_path_buf(), connection })
    }

    fn connect(path: &Path) -> Result<SqliteStore, RecordError> {
        let told =
            |e: rusqlite::Error| RecordError::Store { path: path.to_path_buf(), reason: e.to_string() };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(told)?;
        // First of all: the next lines already take locks.
        connection.busy_timeout(PATIENCE).map_err(told)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(told)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(told)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(told)?;
        Ok(SqliteStore { path: path.to_path_buf(), connection })
    }

    fn told(&self, reason: String) -> RecordError {
        RecordError::Store { path: self.path.clone(), reason }
    }

    fn transaction<T>(
        &mut self,
        behavior: TransactionBehavior,
        body: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, RecordError> {
        let run = || -> Result<T, Trouble> {
            let transaction = self.connection.transaction_with_behavior(behavior)?;
            let value = body(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        run().map_err(|trouble| match trouble {
            Trouble::Sql(error) => RecordError::Store { path: self.path.clone(), reason: error.to_string() },
            Trouble::Told(reason) => RecordError::Store { path: self.path.clone(), reason },
        })
    }

    fn write<T>(
        &mut self,
        body: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, RecordError> {
        self.transaction(TransactionBehavior::Immediate, body)
    }

    fn read<T>(
        &mut self,
        body: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, RecordError> {
        self.transaction(TransactionBehavior::Deferred, body)
    }
}

impl Store for SqliteStore {
    fn define(&mut self, study: &StoredStudy) -> Result<(), RecordError> {
        self.write(|t| {
            let mut used = t.prepare("SELECT DISTINCT point FROM trial ORDER BY point")?;
            for point in used.query_map([], |row| row.get::<_, u64>(0))? {
                let point = point?;
                if study.points.iter().all(|p| p.id != point) {
                    return Err(Trouble::Told(gone(point)));
                }
            }
            t.execute("DELETE FROM point WHERE id NOT IN (SELECT point FROM trial)", [])?;
            for p in &study.points {
                t.execute(
                    "INSERT INTO point VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE
                     SET about = excluded.about, wanted = excluded.wanted, most_lost = excluded.most_lost",
                    params![p.id, p.about, p.wanted, p.most_lost],
                )?;
            }
            t.execute("INSERT OR REPLACE INTO study VALUES (0, ?1)", [&study.definition])?;
            Ok(())
        })
    }

    fn study(&mut self) -> Result<StoredStudy, RecordError> {
        self.read(|t| {
            let definition = t.query_row("SELECT definition FROM study", [], |row| row.get(0)).optional()?;
            let definition =
                definition.ok_or_else(|| Trouble::Told("it has no definition yet".to_string()))?;
            Ok(StoredStudy { definition, points: points(t)? })
        })
    }

    fn lease(&mut self, ask: &Ask<'_>, draw: Draw<'_>) -> Result<Option<Lease>, RecordError> {
        self.write(|t| match lease_again(t, ask)? {
            Some(lease) => Ok(Some(lease)),
            None => lease_new(t, ask, draw),
        })
    }

    fn renew(&mut self, lease: &Lease, until: f64, more: &[TrialEvaluation]) -> Result<Hold, RecordError> {
        self.write(|t| {
            let Some(id) = held(t, lease)? else { return Ok(Hold::Lost) };
            t.execute("UPDATE trial SET lease_until = ?2 WHERE id = ?1", params![id, until])?;
            add_evaluations(t, id, more)?;
            Ok(Hold::Held)
        })
    }

    fn finish(
        &mut self,
        lease: &Lease,
        outcome: &Outcome,
        more: &[TrialEvaluation],
    ) -> Result<Hold, RecordError> {
        assert!(outcome.state != TrialState::Running, "a trial that ends is not running");
        self.write(|t| {
            let Some(id) = held(t, lease)? else { return Ok(Hold::Lost) };
            add_evaluations(t, id, more)?;
            t.execute(
                "UPDATE trial SET state = ?2, note = ?3, last_loss = ?4, worker = '', lease_until = NULL
                 WHERE id = ?1",
                params![id, outcome.state.name(), outcome.note, outcome.last_loss],
            )?;
            Ok(Hold::Held)
        })
    }

    fn release(&mut self, worker: &str) -> Result<u64, RecordError> {
        self.write(|t| {
            let sql = "UPDATE trial SET lease_until = NULL WHERE state = 'running' AND worker = ?1";
            Ok(t.execute(sql, [worker])? as u64)
        })
    }

    fn insert(&mut self, trials: &[StoredTrial]) -> Result<(), RecordError> {
        self.write(|t| {
            let points = points(t)?;
            for trial in trials {
                let existing = find(t, trial.point, trial.number)?;
                let known = points.iter().any(|p| p.id == trial.point);
                check_insert(existing.as_ref().map(|(_, old)| old), trial, known).map_err(Trouble::Told)?;
                match existing {
                    Some((_, old)) if old.state != TrialState::Running => continue,
                    Some((id, _)) => {
                        t.execute("DELETE FROM evaluation WHERE trial = ?1", [id])?;
                        t.execute("DELETE FROM trial WHERE id = ?1", [id])?;
                    }
                    None => {}
                }
                t.execute(
                    "INSERT INTO trial (point, number, attempt, state, parameters, note, last_loss, worker)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '')",
                    params![
                        trial.point,
                        trial.number,
                        trial.attempt,
                        trial.state.name(),
                        to_json(&trial.parameters),
                        trial.note,
                        trial.last_loss
                    ],
                )?;
                add_evaluations(t, t.last_insert_rowid(), &trial.evaluations)?;
            }
            Ok(())
        })
    }

    fn trials(&mut self) -> Result<Vec<StoredTrial>, RecordError> {
        self.read(|t| {
            let mut query = t.prepare(&format!("SELECT {COLUMNS} FROM trial ORDER BY point, number"))?;
            let rows = query.query_map([], stored)?.collect::<Result<Vec<_>, _>>()?;
            let mut trials = Vec::with_capacity(rows.len());
            for (id, mut trial) in rows {
                trial.evaluations = evaluations(t, id)?;
                trials.push(trial);
            }
            Ok(trials)
        })
    }
}

/// The file of this ending that SQLite keeps beside its own.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// A path as SQLite takes it where options come with it: what has a meaning there is written by its number.
fn address(path: &Path, query: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/-_.~:".contains(b);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let written = bytes.map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") });
    format!("file:{}?{query}", written.collect::<String>())
}

fn points(t: &Transaction<'_>) -> Result<Vec<StudyPoint>, Trouble> {
    let mut query = t.prepare("SELECT id, about, wanted, most_lost FROM point ORDER BY id")?;
    let point = |row: &Row<'_>| {
        Ok(StudyPoint { id: row.get(0)?, about: row.get(1)?, wanted: row.get(2)?, most_lost: row.get(3)? })
    };
    Ok(query.query_map([], point)?.collect::<Result<_, _>>()?)
}

const COLUMNS: &str = "id, point, number, attempt, state, parameters, note, last_loss, worker, lease_until";

fn damaged(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, what.into())
}

fn stored(row: &Row<'_>) -> rusqlite::Result<(i64, StoredTrial)> {
    let state: String = row.get(4)?;
    let trial = StoredTrial {
        point: row.get(1)?,
        number: row.get(2)?,
        attempt: row.get(3)?,
        state: TrialState::parse(&state).ok_or_else(|| damaged(4, format!("unknown state `{state}`")))?,
        parameters: from_json(row, 5)?,
        note: row.get(6)?,
        last_loss: row.get(7)?,
        worker: row.get(8)?,
        lease_until: row.get(9)?,
        evaluations: Vec::new(),
    };
    Ok((row.get(0)?, trial))
}

fn find(t: &Transaction<'_>, point: u64, number: u64) -> Result<Option<(i64, StoredTrial)>, Trouble> {
    let sql = format!("SELECT {COLUMNS} FROM trial WHERE point = ?1 AND number = ?2");
    let Some((id, mut trial)) = t.query_row(&sql, params![point, number], stored).optional()? else {
        return Ok(None);
    };
    trial.evaluations = evaluations(t, id)?;
    Ok(Some((id, trial)))
}

fn evaluations(t: &Transaction<'_>, trial: i64) -> Result<Vec<TrialEvaluation>, Trouble> {
    let mut query = t.prepare_cached(
        "SELECT updates, examples, fresh, epochs, seconds, metrics FROM evaluation WHERE trial = ?1 ORDER BY place",
    )?;
    let rows = query.query_map([trial], |row| {
        Ok(TrialEvaluation {
            updates: row.get(0)?,
            examples: row.get(1)?,
            fresh: row.get(2)?,
            epochs: row.get(3)?,
            seconds: row.get(4)?,
            metrics: from_json(row, 5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The row of the trial, if this is the attempt that holds it.
fn held(t: &Transaction<'_>, lease: &Lease) -> Result<Option<i64>, Trouble> {
    let sql = "SELECT id FROM trial WHERE point = ?1 AND number = ?2 AND attempt = ?3 AND state = 'running'";
    let key = params![lease.point, lease.number, lease.attempt];
    Ok(t.query_row(sql, key, |row| row.get(0)).optional()?)
}

fn add_evaluations(t: &Transaction<'_>, trial: i64, more: &[TrialEvaluation]) -> Result<(), Trouble> {
    let sql = "SELECT COALESCE(MAX(place) + 1, 0) FROM evaluation WHERE trial = ?1";
    let first: i64 = t.query_row(sql, [trial], |row| row.get(0))?;
    let mut add = t.prepare_cached("INSERT INTO evaluation VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for (place, e) in (first..).zip(more) {
        let metrics = to_json(&e.metrics);
        add.execute(params![trial, place, e.updates, e.examples, e.fresh, e.epochs, e.seconds, metrics])?;
    }
    Ok(())
}

fn lease_again(t: &Transaction<'_>, ask: &Ask<'_>) -> Result<Option<Lease>, Trouble> {
    let sql = format!(
        "SELECT {COLUMNS} FROM trial WHERE state = 'running' AND (lease_until IS NULL OR lease_until <= ?1)
         ORDER BY point, number LIMIT 1"
    );
    while let Some((id, trial)) = t.query_row(&sql, [ask.now], stored).optional()? {
        t.execute("DELETE FROM evaluation WHERE trial = ?1", [id])?;
        if trial.attempt >= ask.most_attempts {
            t.execute(
                "UPDATE trial SET state = 'failed', note = ?2, worker = '', lease_until = NULL WHERE id = ?1",
                params![id, lost_note(trial.attempt)],
            )?;
            continue;
        }
        let StoredTrial { point, number, parameters, .. } = trial;
        let attempt = trial.attempt + 1;
        t.execute(
            "UPDATE trial SET attempt = ?2, worker = ?3, lease_until = ?4 WHERE id = ?1",
            params![id, attempt, ask.worker, ask.until],
        )?;
        return Ok(Some(Lease { point, number, attempt, parameters }));
    }
    Ok(None)
}

fn lease_new(t: &Transaction<'_>, ask: &Ask<'_>, draw: Draw<'_>) -> Result<Option<Lease>, Trouble> {
    let mut query = t.prepare(
        "SELECT point.id, about, wanted, most_lost,
                COUNT(*) FILTER (WHERE state IN ('running', 'complete', 'censored')) AS counted,
                COUNT(*) FILTER (WHERE state IN ('diverged', 'failed')) AS lost, COALESCE(MAX(number) + 1, 0)
         FROM point LEFT JOIN trial ON trial.point = point.id GROUP BY point.id
         HAVING counted < wanted AND lost < most_lost ORDER BY counted, point.id",
    )?;
    let open = query.query_map([], |row| {
        let point =
            StudyPoint { id: row.get(0)?, about: row.get(1)?, wanted: row.get(2)?, most_lost: row.get(3)? };
        Ok((point, row.get::<_, u64>(6)?))
    })?;
    for row in open.collect::<Result<Vec<_>, _>>()? {
        let (point, number) = row;
        let Some(parameters) = draw(&point, number) else { continue };
        t.execute(
            "INSERT INTO trial (point, number, attempt, state, parameters, note, worker, lease_until)
             VALUES (?1, ?2, 1, 'running', ?3, '', ?4, ?5)",
            params![point.id, number, to_json(&parameters), ask.worker, ask.until],
        )?;
        return Ok(Some(Lease { point: point.id, number, attempt: 1, parameters }));
    }
    Ok(None)
}

fn to_json(values: &Values) -> String {
    crate::number::map::to_text(values)
}

fn from_json(row: &Row<'_>, column: usize) -> rusqlite::Result<Values> {
    let text: String = row.get(column)?;
    crate::number::map::from_text(&text).map_err(|e| damaged(column, e.to_string()))
}

#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;
