//! Things made once and used several times, by any thread: what an echo stage repeats.
//!
//! Design note. Whoever needs a thing first makes it; others who need it meanwhile wait for that one, who waits for
//! nobody: making a thing needs no other thing. So there is no cycle to deadlock in. A thing leaves with its last
//! use. Where the budget has no room for it, it is not held, and made again for its next use: slower, never stuck, and
//! the same bytes. Which things are held depends on time, what comes out does not.

use sooner_base::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a thing is known by: its epoch and its number in it.
pub(crate) type StoreKey = (u32, u32);

/// Things in use, within a budget of bytes.
#[derive(Debug)]
pub(crate) struct Store<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    budget: Bytes,
}

#[derive(Debug)]
struct State<T> {
    slots: HashMap<StoreKey, Slot<T>>,
    resident: u64,
    most: u64,
    remade: u64,
}

#[derive(Debug)]
enum Slot<T> {
    /// Somebody makes it.
    Making,
    /// Held for so many more uses.
    Held { thing: Arc<T>, left: u32, bytes: u64 },
    /// Not held, but needed so many more times.
    Gone { left: u32 },
}

/// What a store has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoreStats {
    /// The most bytes held at once.
    pub(crate) most: Bytes,
    /// Things made again because there was no room to hold them.
    pub(crate) remade: u64,
}

/// How long a waiting thread sleeps before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

impl<T> Store<T> {
    pub(crate) fn new(budget: Bytes) -> Store<T> {
        let state = State { slots: HashMap::new(), resident: 0, most: 0, remade: 0 };
        Store { state: Mutex::new(state), changed: Condvar::new(), budget }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> StoreStats {
        let state = self.lock();
        StoreStats { most: Bytes(state.most), remade: state.remade }
    }

    /// The thing of this key, of which there are `uses` uses in all; made if nobody holds it. `None` once cancelled.
    /// An error is the maker's alone: whoever waits for the thing tries itself.
    pub(crate) fn get<E>(
        &self,
        key: StoreKey,
        uses: u32,
        cancelled: &AtomicBool,
        make: impl FnOnce() -> Result<(T, Bytes), E>,
    ) -> Option<Result<Arc<T>, E>> {
        if uses <= 1 {
            return Some(make().map(|(thing, _)| Arc::new(thing)));
        }
        let mut state = self.lock();
        let left = loop {
            match state.slots.get_mut(&key) {
                None => break uses - 1,
                Some(Slot::Gone { left }) => {
                    let left = left.saturating_sub(1);
                    state.remade += 1;
                    break left;
                }
                Some(Slot::Held { thing, left, bytes }) => {
                    let (thing, bytes) = (thing.clone(), *bytes);
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        state.slots.remove(&key);
                        state.resident -= bytes;
                    }
                    return Some(Ok(thing));
                }
                Some(Slot::Making) => {
                    if cancelled.load(Ordering::Acquire) {
                        return None;
                    }
                    let waited = self.changed.wait_timeout(state, LOOK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        state.slots.insert(key, Slot::Making);
        drop(state);
        let mut guard = Guard { store: self, key, slot: (left > 0).then_some(Slot::Gone { left }) };
        let made = make();
        Some(made.map(|(thing, bytes)| {
            let thing = Arc::new(thing);
            let mut state = self.lock();
            if left > 0 && state.resident + bytes.0 <= self.budget.0 {
                state.resident += bytes.0;
                state.most = state.most.max(state.resident);
                guard.slot = Some(Slot::Held { thing: thing.clone(), left, bytes: bytes.0 });
            }
            drop(state);
            thing
        }))
    }
}

/// Settles a slot that is being made, also when making it fails or panics.
struct Guard<'a, T> {
    store: &'a Store<T>,
    key: StoreKey,
    slot: Option<Slot<T>>,
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.store.lock();
        match self.slot.take() {
            Some(slot) => state.slots.insert(self.key, slot),
            None => state.slots.remove(&self.key),
        };
        self.store.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::within;
    use std::sync::atomic::AtomicU32;

    fn get(store: &Store<u32>, key: u32, uses: u32, bytes: u64, made: &AtomicU32) -> u32 {
        let make = || {
            made.fetch_add(1, Ordering::SeqCst);
            Ok::<_, ()>((key * 10, Bytes(bytes)))
        };
        *store.get((0, key), uses, &AtomicBool::new(false), make).unwrap().unwrap()
    }

    /// Bytes held and slots in use.
    fn left_over(store: &Store<u32>) -> (u64, usize) {
        let state = store.lock();
        (state.resident, state.slots.len())
    }

    #[test]
    fn a_thing_is_made_once_and_leaves_with_its_last_use() {
        let (store, made) = (Store::new(Bytes(100)), AtomicU32::new(0));
        for round in 1..=3 {
            for _ in 0..4 {
                assert_eq!(get(&store, 7, 4, 60, &made), 70);
            }
            assert_eq!(made.load(Ordering::SeqCst), round);
            assert_eq!(left_over(&store), (0, 0));
        }
        get(&store, 1, 1, 60, &made);
        assert_eq!(store.stats(), StoreStats { most: Bytes(60), remade: 0 });
    }

    #[test]
    fn what_has_no_room_is_made_again() {
        let (store, made) = (Store::new(Bytes(100)), AtomicU32::new(0));
        assert_eq!((get(&store, 1, 3, 60, &made), get(&store, 2, 3, 60, &made)), (10, 20));
        assert_eq!((get(&store, 2, 3, 60, &made), made.load(Ordering::SeqCst)), (20, 3));
        (0..2).for_each(|_| assert_eq!(get(&store, 1, 3, 60, &made), 10));
        // With the first gone there is room; it was the second's last use though.
        assert_eq!((get(&store, 2, 3, 60, &made), made.load(Ordering::SeqCst)), (20, 4));
        assert_eq!(left_over(&store), (0, 0));
        assert_eq!(store.stats(), StoreStats { most: Bytes(60), remade: 2 });
    }

    #[test]
    fn many_threads_share_one_making() {
        let (most, made) = within(20, || {
            let (store, made) = (Store::new(Bytes(1 << 20)), AtomicU32::new(0));
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        (0..200).for_each(|key| assert_eq!(get(&store, key, 8, 4, &made), key * 10))
                    });
                }
            });
            assert_eq!(store.lock().slots.len(), 0);
            (store.stats().most, made.load(Ordering::SeqCst))
        });
        assert!(made == 200 && most.0 <= 200 * 4);
    }

    #[test]
    fn a_failed_or_panicked_maker_leaves_the_work_to_the_next() {
        within(20, || {
            let store: Store<u32> = Store::new(Bytes(100));
            let go = AtomicBool::new(false);
            assert_eq!(store.get((0, 1), 3, &go, || Err::<(u32, Bytes), _>("no")).unwrap(), Err("no"));
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                store.get((0, 1), 3, &go, || -> Result<(u32, Bytes), ()> { panic!("at the disco") })
            }));
            assert!(panicked.is_err());
            assert_eq!(*store.get((0, 1), 3, &go, || Ok::<_, ()>((5, Bytes(1)))).unwrap().unwrap(), 5);
            store.lock().slots.insert((0, 2), Slot::Making);
            let cancelled = AtomicBool::new(true);
            assert!(store.get((0, 2), 3, &cancelled, || Ok::<_, ()>((5, Bytes(1)))).is_none());
        });
    }
}
