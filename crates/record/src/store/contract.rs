//! What every store must do, as one function that a test of any store calls; a panic says what it does not.

use super::{
    Ask, Hold, Lease, Outcome, Store, StoredStudy, StoredTrial, StudyPoint, TrialEvaluation, TrialState,
    Values,
};

/// A study of so many points that each want two trials and bear three lost ones.
pub(super) fn study(points: u64) -> StoredStudy {
    let point = |id| StudyPoint { id, about: format!("{{\"batch\":{id}}}"), wanted: 2, most_lost: 3 };
    StoredStudy { definition: "name = \"test\"".into(), points: (0..points).map(point).collect() }
}

fn evaluation(updates: u64, error: f64) -> TrialEvaluation {
    TrialEvaluation {
        updates,
        examples: 8 * updates,
        fresh: 4 * updates,
        epochs: Some(0.1 * updates as f64),
        seconds: None,
        metrics: Values::from([("val.error".to_string(), error)]),
    }
}

/// A trial of one evaluation.
pub(super) fn trial(point: u64, number: u64, state: TrialState) -> StoredTrial {
    StoredTrial {
        point,
        number,
        attempt: 1,
        state,
        parameters: Values::from([("learning_rate".to_string(), 0.1)]),
        note: String::new(),
        last_loss: Some(2.5),
        worker: String::new(),
        lease_until: None,
        evaluations: vec![evaluation(10, 0.5)],
    }
}

/// The metaparameters of a test's trials: a function of point and number.
fn drawn(point: &StudyPoint, number: u64) -> Option<Values> {
    let rate = 0.1 + 0.2 * number as f64 + point.id as f64 / 3.0;
    (number < 100).then(|| Values::from([("learning_rate".to_string(), rate)]))
}

fn ask(worker: &str, now: f64) -> Ask<'_> {
    Ask { worker, now, until: now + 10.0, most_attempts: 3 }
}

fn take(store: &mut dyn Store, worker: &str, now: f64) -> Option<Lease> {
    store.lease(&ask(worker, now), &mut drawn).expect("a lease or none")
}

fn end(store: &mut dyn Store, lease: &Lease, state: TrialState) -> Hold {
    let outcome = Outcome { state, note: "as told".into(), last_loss: Some(1.5) };
    store.finish(lease, &outcome, &[]).expect("finished, or refused")
}

fn defined(make: &mut dyn FnMut() -> Box<dyn Store>, points: u64) -> Box<dyn Store> {
    let mut store = make();
    store.define(&study(points)).expect("a new store takes a definition");
    store
}

/// Checks a store; `make` gives an empty one each time it is called. Panics where the contract is broken.
pub fn check_store(make: &mut dyn FnMut() -> Box<dyn Store>) {
    definitions(make);
    trials_are_spread_evenly_and_end(make);
    infeasible_trials_do_not_count(make);
    late_results_are_refused(make);
    lost_too_often_is_failed(make);
    released_leases_are_free_at_once(make);
    evaluations_come_back_exactly(make);
    studies_are_extended(make);
    finished_trials_are_inserted(make);
}

fn definitions(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = make();
    assert!(store.study().is_err(), "an empty store has no study");
    store.define(&study(3)).expect("defined");
    assert_eq!(store.study().expect("a definition"), study(3));
    assert!(store.trials().expect("trials").is_empty());
}

fn trials_are_spread_evenly_and_end(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 3);
    let leases: Vec<Lease> = (0..6).map(|_| take(&mut *store, "a", 0.0).expect("work")).collect();
    let places: Vec<(u64, u64)> = leases.iter().map(|l| (l.point, l.number)).collect();
    assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)], "points take turns");
    for lease in &leases {
        let point = &study(3).points[lease.point as usize];
        assert_eq!(lease.parameters, drawn(point, lease.number).expect("drawn"), "drawn for this very trial");
    }
    assert_eq!(take(&mut *store, "b", 1.0), None, "running trials count among those wanted");
    for lease in &leases {
        assert_eq!(end(&mut *store, lease, TrialState::Complete), Hold::Held);
    }
    let before = store.trials().expect("trials");
    assert_eq!(take(&mut *store, "b", 1e9), None, "a finished study has nothing to do");
    assert_eq!(store.trials().expect("trials"), before, "and asking changes nothing");
    let one = &before[0];
    assert_eq!((one.state, one.note.as_str(), one.last_loss), (TrialState::Complete, "as told", Some(1.5)));
    assert!(one.worker.is_empty() && one.lease_until.is_none());
}

fn infeasible_trials_do_not_count(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    for (number, state) in [(0, TrialState::Diverged), (1, TrialState::Censored), (2, TrialState::Failed)] {
        let lease = take(&mut *store, "a", 0.0).expect("the point wants two feasible trials");
        assert_eq!(lease.number, number);
        assert_eq!(end(&mut *store, &lease, state), Hold::Held);
    }
    let last = take(&mut *store, "a", 0.0).expect("one is missing still");
    assert_eq!(end(&mut *store, &last, TrialState::Diverged), Hold::Held);
    assert_eq!(take(&mut *store, "a", 0.0), None, "three lost trials end a hopeless point");
    let states: Vec<TrialState> = store.trials().expect("trials").iter().map(|t| t.state).collect();
    use TrialState::*;
    assert_eq!(states, [Diverged, Censored, Failed, Diverged], "none is dropped");
}

fn late_results_are_refused(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    let first = take(&mut *store, "a", 0.0).expect("work");
    assert_eq!(store.renew(&first, 20.0, &[evaluation(1, 0.9)]).expect("renewed"), Hold::Held);
    let other = take(&mut *store, "b", 15.0).expect("work");
    assert_eq!((other.number, other.attempt), (1, 1), "a renewed lease is not given away");
    let second = take(&mut *store, "b", 20.5).expect("the lease ran out");
    assert_eq!((second.number, second.attempt), (0, 2));
    assert_eq!(second.parameters, first.parameters, "the same trial, not another");
    assert_eq!(store.renew(&first, 99.0, &[evaluation(2, 0.8)]).expect("answered"), Hold::Lost);
    assert_eq!(end(&mut *store, &first, TrialState::Complete), Hold::Lost, "a late result is refused");
    assert_eq!(store.renew(&second, 40.0, &[evaluation(3, 0.7)]).expect("renewed"), Hold::Held);
    assert_eq!(end(&mut *store, &second, TrialState::Censored), Hold::Held);
    assert_eq!(end(&mut *store, &second, TrialState::Complete), Hold::Lost, "a trial ends once");
    let trial = &store.trials().expect("trials")[0];
    assert_eq!((trial.state, trial.attempt), (TrialState::Censored, 2));
    let updates: Vec<u64> = trial.evaluations.iter().map(|e| e.updates).collect();
    assert_eq!(updates, [3], "what the lost attempt measured is gone");
}

fn lost_too_often_is_failed(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    for attempt in 1..=3 {
        let lease = take(&mut *store, "a", 100.0 * attempt as f64).expect("work");
        assert_eq!((lease.number, lease.attempt), (0, attempt));
    }
    let next = take(&mut *store, "a", 1000.0).expect("another trial in its place");
    assert_eq!((next.number, next.attempt), (1, 1));
    let trial = &store.trials().expect("trials")[0];
    assert!(trial.state == TrialState::Failed && trial.note.contains("lost"), "{trial:?}");
}

fn released_leases_are_free_at_once(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    let dead = take(&mut *store, "dead", 0.0).expect("work");
    let alive = take(&mut *store, "alive", 0.0).expect("work");
    assert_eq!(store.release("dead").expect("released"), 1);
    let again = take(&mut *store, "new", 1.0).expect("free before its time");
    assert_eq!((again.number, again.attempt), (dead.number, 2));
    assert_eq!(take(&mut *store, "new", 1.0), None, "others keep theirs");
    assert_eq!(end(&mut *store, &alive, TrialState::Complete), Hold::Held);
    assert_eq!(store.release("nobody").expect("released"), 0);
}

fn evaluations_come_back_exactly(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    let lease = take(&mut *store, "a", 0.0).expect("work");
    let rows = [evaluation(1, 0.1 + 0.2), evaluation(1, 1.0 / 3.0), evaluation(u64::MAX >> 12, 5e-324)];
    assert_eq!(store.renew(&lease, 5.0, &rows[..1]).expect("renewed"), Hold::Held);
    let outcome = Outcome { state: TrialState::Diverged, note: "\"<&'".into(), last_loss: None };
    let mut bad = evaluation(u64::MAX >> 12, 0.0);
    bad.metrics.insert("val.loss".into(), f64::NAN);
    let rest = [rows[1].clone(), rows[2].clone(), bad];
    assert_eq!(store.finish(&lease, &outcome, &rest).expect("finished"), Hold::Held);
    let trial = &store.trials().expect("trials")[0];
    assert_eq!(trial.evaluations[..3], rows, "in the order sent, to the last bit");
    assert!(trial.evaluations[3].metrics["val.loss"].is_nan(), "no number comes back as no number");
    assert_eq!((trial.note.as_str(), trial.last_loss), ("\"<&'", None));
}

fn studies_are_extended(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    for _ in 0..2 {
        let lease = take(&mut *store, "a", 0.0).expect("work");
        assert_eq!(end(&mut *store, &lease, TrialState::Complete), Hold::Held);
    }
    assert_eq!(take(&mut *store, "a", 0.0), None);
    let mut more = study(2);
    more.points[0].wanted = 3;
    store.define(&more).expect("extended");
    assert_eq!(store.study().expect("a definition"), more);
    let places: Vec<(u64, u64)> =
        (0..3).map(|_| take(&mut *store, "a", 0.0).map(|l| (l.point, l.number)).expect("work")).collect();
    assert_eq!(places, [(1, 0), (1, 1), (0, 2)], "the point with fewest first; old trials stay");
    assert!(store.define(&study(1)).is_err(), "a point with trials cannot go");
    let last = store.lease(&ask("a", 1e9), &mut |_, _| None).expect("answered").expect("a lease ran out");
    assert_eq!(last.attempt, 2, "trials that exist need no drawing");
}

fn finished_trials_are_inserted(make: &mut dyn FnMut() -> Box<dyn Store>) {
    let mut store = defined(make, 1);
    let running = take(&mut *store, "a", 0.0).expect("work");
    let mut arriving = [trial(0, 0, TrialState::Complete), trial(0, 1, TrialState::Diverged)];
    store.insert(&arriving).expect("inserted");
    store.insert(&arriving).expect("the same again is nothing new");
    assert_eq!(store.trials().expect("trials"), arriving);
    assert_eq!(end(&mut *store, &running, TrialState::Censored), Hold::Lost, "the inserted result stands");
    arriving[1].parameters.insert("learning_rate".into(), 9.0);
    assert!(store.insert(&arriving).is_err(), "a different trial of the same number is refused");
    assert!(store.insert(&[trial(5, 0, TrialState::Complete)]).is_err(), "at an unknown point");
    assert!(store.insert(&[trial(0, 7, TrialState::Running)]).is_err(), "running trials are no results");
    assert_eq!(store.trials().expect("trials").len(), 2, "what is refused leaves no trace");
    let next = take(&mut *store, "a", 0.0).expect("one of two wanted is missing");
    assert_eq!(next.number, 2);
}
