//! A study's folder: `study.db`, and logs and records of single trials in `trials`.

use crate::fail::Failure;
use anyhow::Context;
use sooner_record::{RecordError, SqliteStore, Store, StoredStudy, StoredTrial, StudyPoint, TrialState};
use sooner_study::definition::{PointPlan, StudyPlan, place_points};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const DATABASE: &str = "study.db";
/// What it is called until it is whole.
const BEGUN: &str = "study.db.begun";

/// An open study.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) store: SqliteStore,
    pub(crate) plan: StudyPlan,
    /// The points by their numbers in the store.
    pub(crate) points: Vec<(u64, PointPlan)>,
}

/// What a study with another definition keeps of before.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Points at which trials ended by another budget than now: those are not run again.
    pub(crate) short: Vec<String>,
    /// The target that its trials ended by, if that is another now.
    pub(crate) target: Option<String>,
}

impl Folder {
    /// Makes the folder and the store.
    pub(crate) fn create(path: &Path, plan: StudyPlan) -> anyhow::Result<Folder> {
        let points = place_points(plan.points()?, &[]);
        Folder::must_not_be(path)?;
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        // Under another name until it is whole: whatever ends this process leaves a study or none.
        let begun = path.join(BEGUN);
        for left in [BEGUN.to_string(), format!("{BEGUN}-wal"), format!("{BEGUN}-shm")] {
            let gone = std::fs::remove_file(path.join(left));
            if let Err(e) = gone.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) }) {
                return Err(e).with_context(|| format!("cannot remove what is left in {}", path.display()));
            }
        }
        let mut store = SqliteStore::create(&begun)?;
        store.define(&stored(&plan, &points))?;
        drop(store);
        let file = path.join(DATABASE);
        std::fs::rename(&begun, &file).with_context(|| format!("cannot make {}", file.display()))?;
        Ok(Folder { path: path.to_path_buf(), store: SqliteStore::open(&file)?, plan, points })
    }

    /// Err if a study is there already.
    pub(crate) fn must_not_be(path: &Path) -> anyhow::Result<()> {
        let file = path.join(DATABASE);
        if !file.exists() {
            return Ok(());
        }
        let fields = [
            "no study there yet",
            "one that was made before",
            "`sooner study run` goes on with it, --extend gives it another definition, --out DIR makes another",
        ];
        Err(Failure::world("there is a study already", &path.display().to_string(), fields).into())
    }

    /// Opens a study that is there.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Folder> {
        Folder::of(path, SqliteStore::open(&Folder::database(path)?)?)
    }

    /// Opens a study that is there only to read it, which needs no folder that can be written.
    pub(crate) fn open_to_read(path: &Path) -> anyhow::Result<Folder> {
        Folder::of(path, SqliteStore::open_to_read(&Folder::database(path)?)?)
    }

    /// Where the study's store is; an error where there is none.
    fn database(path: &Path) -> Result<PathBuf, Failure> {
        let file = path.join(DATABASE);
        if file.exists() {
            return Ok(file);
        }
        let found = if path.is_dir() { format!("no {DATABASE} in it") } else { "no such folder".to_string() };
        let fields = ["a study's folder", &*found, "`sooner study new PRESET --out DIR` makes one"];
        Err(Failure::world("there is no study", &path.display().to_string(), fields))
    }

    fn of(path: &Path, mut store: SqliteStore) -> anyhow::Result<Folder> {
        let (plan, points) = read(&store.study()?)?;
        Ok(Folder { path: path.to_path_buf(), store, plan, points })
    }

    /// Gives the study another definition; points told by their axes keep their trials and, if it was widened, their space.
    /// Returns what of before stays as it is.
    pub(crate) fn redefine(&mut self, plan: StudyPlan) -> anyhow::Result<Kept> {
        let before = StudyPlan::points(&self.plan)?;
        let new = plan.points()?;
        let mut points = place_points(new, &self.points);
        let trials = self.trials()?;
        let mut short = Vec::new();
        for (id, point) in &mut points {
            // A space that only widening changed stays wide.
            let stored = self.points.iter().find(|(_, p)| p.is(point));
            let written = before.iter().find(|p| p.is(point));
            if let (Some((_, stored)), Some(written)) = (stored, written)
                && written.tune == point.tune
            {
                point.tune = stored.tune.clone();
            }
            let cut = trials.iter().any(|t| t.point == *id && t.state == TrialState::Censored);
            if cut && stored.is_some_and(|(_, stored)| stored.budget != point.budget) {
                short.push(point.label());
            }
        }
        let target =
            (self.plan.target != plan.target && !trials.is_empty()).then(|| self.plan.target.clone());
        (self.plan, self.points) = (plan, points);
        self.save()?;
        Ok(Kept { short, target })
    }

    /// Writes the definition and the points as they are now.
    pub(crate) fn save(&mut self) -> anyhow::Result<()> {
        Ok(self.store.define(&stored(&self.plan, &self.points))?)
    }

    /// Whether a point has all trials that it wants, or has lost all that it may.
    pub(crate) fn is_done(&self, id: u64, trials: &[StoredTrial]) -> bool {
        let point = &self.points.iter().find(|(i, _)| *i == id).expect("a point of the study").1;
        self.left(id, point, trials) == 0
    }

    /// How many more trials all points want.
    pub(crate) fn trials_left(&self, trials: &[StoredTrial]) -> u64 {
        self.points.iter().map(|(id, point)| self.left(*id, point, trials)).sum()
    }

    /// How many more trials a point wants; none if it has lost all that it may.
    fn left(&self, id: u64, point: &PointPlan, trials: &[StoredTrial]) -> u64 {
        let (wanted, most_lost) = self.plan.wanted(point);
        let ended = || trials.iter().filter(|t| t.point == id && t.state != TrialState::Running);
        let counted = ended().filter(|t| t.state.counts()).count() as u64;
        let lost = ended().count() as u64 - counted;
        if lost >= most_lost { 0 } else { wanted.saturating_sub(counted) }
    }

    pub(crate) fn trials(&mut self) -> Result<Vec<StoredTrial>, RecordError> {
        self.store.trials()
    }
}

/// A definition and its points, as the store keeps them.
pub(crate) fn stored(plan: &StudyPlan, points: &[(u64, PointPlan)]) -> StoredStudy {
    let point = |(id, point): &(u64, PointPlan)| StudyPoint {
        id: *id,
        about: point.to_text(),
        wanted: plan.wanted(point).0,
        most_lost: plan.wanted(point).1,
    };
    StoredStudy { definition: plan.to_toml(), points: points.iter().map(point).collect() }
}

/// A definition and its points, read.
pub(crate) fn read(stored: &StoredStudy) -> anyhow::Result<(StudyPlan, Vec<(u64, PointPlan)>)> {
    let plan = StudyPlan::parse(&stored.definition)?;
    let points = stored
        .points
        .iter()
        .map(|point| Ok((point.id, PointPlan::parse(&point.about)?)))
        .collect::<anyhow::Result<_>>()?;
    Ok((plan, points))
}
