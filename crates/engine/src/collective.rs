//! Lanes: runs of programs at the same time, each on a part of one batch, that meet at certain operations
//! ([`crate::Op::AllReduce`]) to put together what each of them has. Synchronised batch normalisation needs that.
//!
//! What comes out does not depend on who arrives first: values are merged in the order of the lanes, in pairs, in f64.

use crate::real::Real;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What lanes put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Statistics `[2, C]`, mean and biased variance, of each lane's elements become those of all lanes' elements
    /// (merged by the formula of Chan, Golub and LeVeque, 1979).
    Moments,
    /// Values become their sum over all lanes, times the lane's own share of all elements: what its gradients by the
    /// elements that the values were summed over need, where those of one lane alone would be the values themselves.
    Share,
}

/// Where lanes meet. Each of them must go through the same meetings in the same order.
#[derive(Debug)]
pub struct Meeting {
    lanes: usize,
    round: Mutex<Round>,
    changed: Condvar,
}

#[derive(Debug)]
struct Round {
    /// Counts the meetings that are over.
    number: u64,
    arrived: usize,
    /// By lane: how many elements its values are about, and the values.
    parts: Vec<(f64, Vec<f64>)>,
    /// What the last meeting came to: the count of all elements, and values.
    total: (f64, Vec<f64>),
    /// Whether a lane has left for good.
    left: bool,
}

/// Turns of lanes that share threads: one of them computes while the others wait, at a meeting or for their turn.
#[derive(Debug, Default)]
pub struct Turn {
    taken: Mutex<bool>,
    freed: Condvar,
}

/// One lane's place in a meeting.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    meeting: &'a Meeting,
    index: usize,
    turn: Option<&'a Turn>,
}

/// Held while a lane runs: whichever way the run ends, by a panic too, the others do not wait for it any longer than
/// they must.
#[derive(Debug)]
pub struct Attendance<'a> {
    lane: Lane<'a>,
    done: bool,
}

impl Meeting {
    /// For so many lanes.
    pub fn new(lanes: usize) -> Meeting {
        let round = Round {
            number: 0,
            arrived: 0,
            parts: vec![(0.0, vec![]); lanes],
            total: (0.0, vec![]),
            left: false,
        };
        Meeting { lanes, round: Mutex::new(round), changed: Condvar::new() }
    }

    /// The place of lane `index`, from 0, which shares threads with the lanes that take the same turns.
    pub fn lane<'a>(&'a self, index: usize, turn: Option<&'a Turn>) -> Lane<'a> {
        assert!(index < self.lanes, "lane {index} of {}", self.lanes);
        Lane { meeting: self, index, turn }
    }

    fn lock(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    fn take(&self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
    }

    fn free(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.freed.notify_one();
    }
}

impl<'a> Lane<'a> {
    /// Takes part from here on; waits for its turn.
    pub fn attend(self) -> Attendance<'a> {
        if let Some(turn) = self.turn {
            turn.take();
        }
        Attendance { lane: self, done: false }
    }

    /// Whether a lane has left without being done, so that what the others computed since is worth nothing.
    pub fn is_broken(&self) -> bool {
        self.meeting.lock().left
    }

    /// Meets the other lanes: `values`, about `count` elements, become what [`Reduction`] says. Where a lane has left
    /// nobody waits and the result is the lane's own values.
    pub(crate) fn reduce<T: Real>(&self, how: Reduction, count: usize, values: &[T], out: &mut [T]) {
        let count = count as f64;
        let mut round = self.meeting.lock();
        if round.left {
            out.copy_from_slice(values);
            return;
        }
        let (known, part) = &mut round.parts[self.index];
        *known = count;
        part.clear();
        part.extend(values.iter().map(|v| v.to_f64()));
        round.arrived += 1;
        if round.arrived == self.meeting.lanes {
            round.merge(how);
            round.arrived = 0;
            round.number += 1;
            self.meeting.changed.notify_all();
        } else {
            round = self.wait(round);
        }
        if round.left {
            out.copy_from_slice(values);
            return;
        }
        let (all, total) = &round.total;
        assert_eq!(total.len(), out.len(), "lanes go through the same meetings");
        let share = match how {
            Reduction::Moments => 1.0,
            Reduction::Share => count / all,
        };
        for (out, total) in out.iter_mut().zip(total) {
            *out = T::from_f64(total * share);
        }
    }

    /// Lets others have the turn until the meeting is over.
    fn wait<'m>(&self, mut round: MutexGuard<'m, Round>) -> MutexGuard<'m, Round>
    where
        'a: 'm,
    {
        let number = round.number;
        if let Some(turn) = self.turn {
            turn.free();
        }
        while round.number == number && !round.left {
            round = self.meeting.changed.wait(round).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(turn) = self.turn {
            // Not while others wait for the meeting: the lane whose turn it is may be one of them.
            drop(round);
            turn.take();
            // Nobody can have gone on to the end of another meeting meanwhile: this lane would have to be there.
            round = self.meeting.lock();
        }
        round
    }
}

impl<'a> Attendance<'a> {
    /// The lane.
    pub fn lane(&self) -> Lane<'a> {
        self.lane
    }

    /// The lane has been through all meetings.
    pub fn finish(mut self) {
        self.done = true;
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.lane.meeting.lock().left = true;
            self.lane.meeting.changed.notify_all();
        }
        if let Some(turn) = self.lane.turn {
            turn.free();
        }
    }
}

impl Round {
    fn merge(&mut self, how: Reduction) {
        let length = self.parts[0].1.len();
        assert!(self.parts.iter().all(|(_, part)| part.len() == length), "lanes reduce values of one shape");
        let parts = &self.parts;
        let (all, total) = &mut self.total;
        total.clear();
        total.resize(length, 0.0);
        *all = in_pairs(parts.iter().map(|(count, _)| *count), |a, b| a + b).unwrap_or(0.0);
        match how {
            Reduction::Share => {
                for (i, total) in total.iter_mut().enumerate() {
                    *total = in_pairs(parts.iter().map(|(_, part)| part[i]), |a, b| a + b).unwrap_or(0.0);
                }
            }
            Reduction::Moments => {
                let channels = length / 2;
                for c in 0..channels {
                    let each = parts.iter().map(|(n, part)| (*n, part[c], part[channels + c] * n));
                    let merged = in_pairs(each, |(n, mean, squares), (m, other, more)| {
                        let (both, delta) = (n + m, other - mean);
                        (both, mean + delta * m / both, squares + more + delta * delta * n * m / both)
                    });
                    let (n, mean, squares) = merged.unwrap_or((1.0, 0.0, 0.0));
                    (total[c], total[channels + c]) = (mean, squares / n);
                }
            }
        }
    }
}

/// Merges items in a fixed tree: neighbours first, then neighbouring pairs, and so on; what is left over at the end,
/// smallest first. None of nothing.
pub fn in_pairs<T>(items: impl IntoIterator<Item = T>, mut merge: impl FnMut(T, T) -> T) -> Option<T> {
    let mut tree = PairTree::new();
    for item in items {
        tree.push(item, &mut merge);
    }
    tree.finish(merge)
}

/// The tree of [`in_pairs`] while items come in one by one: it holds about log2 of them.
#[derive(Debug, Clone)]
pub struct PairTree<T> {
    /// Merged runs of items, longest first, with the binary logarithm of their lengths.
    runs: Vec<(u32, T)>,
}

impl<T> PairTree<T> {
    /// Nothing yet.
    pub fn new() -> PairTree<T> {
        PairTree { runs: Vec::new() }
    }

    /// The next item; `merge(earlier, later)` makes one of two.
    pub fn push(&mut self, item: T, mut merge: impl FnMut(T, T) -> T) {
        let (mut level, mut item) = (0, item);
        while self.runs.last().is_some_and(|(l, _)| *l == level) {
            let (_, earlier) = self.runs.pop().expect("there is a last one");
            item = merge(earlier, item);
            level += 1;
        }
        self.runs.push((level, item));
    }

    /// All items in one; nothing is left. None of nothing.
    pub fn finish(&mut self, mut merge: impl FnMut(T, T) -> T) -> Option<T> {
        let (_, mut item) = self.runs.pop()?;
        while let Some((_, earlier)) = self.runs.pop() {
            item = merge(earlier, item);
        }
        Some(item)
    }
}

impl<T> Default for PairTree<T> {
    fn default() -> Self {
        PairTree::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread::scope;

    #[test]
    fn the_tree_depends_on_the_number_of_items_alone() {
        let shown = |n: usize| {
            let join = |a: String, b: String| format!("({a}{b})");
            in_pairs((0..n).map(|i| i.to_string()), join)
        };
        assert_eq!(shown(0), None);
        for (n, tree) in
            [(1, "0"), (2, "(01)"), (3, "((01)2)"), (4, "((01)(23))"), (7, "(((01)(23))((45)6))")]
        {
            assert_eq!(shown(n).as_deref(), Some(tree));
        }
    }

    /// Lanes that each reduce what they are given, in the order of the list.
    fn meet(lanes: &[(usize, Vec<f64>)], how: Reduction, turns: usize) -> Vec<Vec<f64>> {
        let meeting = Meeting::new(lanes.len());
        let turns: Vec<Turn> = (0..turns).map(|_| Turn::default()).collect();
        scope(|scope| {
            let run = |(index, (count, values)): (usize, &(usize, Vec<f64>))| {
                let turn = (!turns.is_empty()).then(|| &turns[index % turns.len()]);
                let lane = meeting.lane(index, turn);
                let (count, values) = (*count, values.clone());
                scope.spawn(move || {
                    let attendance = lane.attend();
                    let mut out = vec![0.0; values.len()];
                    // Often, so that lanes overtake each other if they can.
                    for _ in 0..200 {
                        attendance.lane().reduce(how, count, &values, &mut out);
                    }
                    assert!(!lane.is_broken());
                    attendance.finish();
                    out
                })
            };
            let threads: Vec<_> = lanes.iter().enumerate().map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("no lane panics")).collect()
        })
    }

    #[test]
    fn moments_are_those_of_all_elements() {
        let elements: Vec<Vec<f64>> = vec![vec![1.0, 5.0, 2.0], vec![100.0], vec![-3.0, 4.0, 4.0, 8.5]];
        let stats = |x: &[f64]| {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            vec![mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64]
        };
        let expected = stats(&elements.concat());
        let lanes: Vec<_> = elements.iter().map(|x| (x.len(), stats(x))).collect();
        for turns in [0, 1, 2] {
            for out in meet(&lanes, Reduction::Moments, turns) {
                for (out, expected) in out.iter().zip(&expected) {
                    assert!((out / expected - 1.0).abs() < 1e-13, "{out} {expected}");
                }
            }
        }
    }

    #[test]
    fn shares_add_up_to_the_sum() {
        let lanes = vec![(3, vec![1.0, 10.0]), (1, vec![2.0, 20.0]), (4, vec![5.0, 0.0])];
        let out = meet(&lanes, Reduction::Share, 1);
        assert_eq!(out, [vec![3.0, 11.25], vec![1.0, 3.75], vec![4.0, 15.0]]);
        // Alone, nothing changes.
        assert_eq!(meet(&lanes[..1], Reduction::Share, 0), [vec![1.0, 10.0]]);
    }

    #[test]
    fn nobody_waits_for_a_lane_that_has_left() {
        for turns in [0, 1] {
            let meeting = Meeting::new(3);
            let turn = Turn::default();
            let turn = (turns == 1).then_some(&turn);
            let broken = scope(|scope| {
                let stay = |index| {
                    let lane = meeting.lane(index, turn);
                    scope.spawn(move || {
                        let attendance = lane.attend();
                        let mut out = [0.0];
                        for _ in 0..3 {
                            attendance.lane().reduce(Reduction::Share, 1, &[7.0], &mut out);
                        }
                        attendance.finish();
                        lane.is_broken()
                    })
                };
                let others = [stay(0), stay(2)];
                let lane = meeting.lane(1, turn);
                let run = || {
                    let attendance = lane.attend();
                    attendance.lane().reduce(Reduction::Share, 1, &[1.0], &mut [0.0]);
                    panic!("told to");
                };
                assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
                others.map(|thread| thread.join().expect("the others live on"))
            });
            assert_eq!(broken, [true, true]);
        }
    }
}
