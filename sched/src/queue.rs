//! A fixed-capacity priority queue of small indices, O(log n), with removal by index.
//!
//! # Invariants
//!
//! 1. `places[id]` is the position of `id` in `entries`, plus one; zero if it is not queued.
//! 2. No entry's key is earlier than its parent's.
//!
//! A queued key changes by [`Queue::insert`] only.

use crate::key::Key;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    id: u16,
}

/// The queue. `N` bounds both the ids and the number of entries.
// In this order, the fields that every look needs are near the start.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Queue<const N: usize> {
    length: u16,
    entries: [Entry; N],
    places: [u16; N],
}

impl<const N: usize> Queue<N> {
    /// No entries; all zero bytes.
    pub const EMPTY: Self =
        Self { length: 0, entries: [Entry { key: Key::at(crate::time::Instant::ZERO), id: 0 }; N], places: [0; N] };

    /// Whether nothing is queued.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// The earliest entry.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<(Key, u16)> {
        if self.length == 0 { None } else { self.entries.first().map(|entry| (entry.key, entry.id)) }
    }

    /// Whether the entry after the earliest one has a key no later than this.
    #[must_use]
    #[inline]
    pub fn second_is_until(&self, key: Key) -> bool {
        (1..3.min(usize::from(self.length))).any(|at| self.entries[at].key <= key)
    }

    /// Whether `id` is queued.
    #[must_use]
    #[inline]
    pub fn contains(&self, id: u16) -> bool {
        self.places.get(usize::from(id)).is_some_and(|place| *place != 0)
    }

    /// The key `id` is queued with.
    #[must_use]
    pub fn key_of(&self, id: u16) -> Option<Key> {
        let place = *self.places.get(usize::from(id))?;
        Some(self.entries[usize::from(place.checked_sub(1)?)].key)
    }

    /// Queues `id`; if it is queued already, it is moved to its new key.
    pub fn insert(&mut self, id: u16, key: Key) {
        let place = *self.place_mut(id);
        if place == 0 {
            self.push(id, key);
            return;
        }
        let (at, moved) = (usize::from(place - 1), Entry { key, id });
        if at == 0 || self.entry((at - 1) / 2).key <= key {
            self.sift_down(at, moved);
        } else {
            self.sift_up(at, moved);
        }
    }

    /// Queues `id`, which is not queued.
    pub fn push(&mut self, id: u16, key: Key) {
        debug_assert!(!self.contains(id));
        let at = usize::from(self.length);
        self.length += 1;
        self.sift_up(at, Entry { key, id });
    }

    /// Takes `id` out; returns whether it was queued.
    pub fn remove(&mut self, id: u16) -> bool {
        let place = core::mem::take(self.place_mut(id));
        if place == 0 {
            return false;
        }
        let at = usize::from(place - 1);
        self.length -= 1;
        let last = usize::from(self.length);
        if at != last {
            let moved = self.entry(last);
            if at == 0 || self.entry((at - 1) / 2).key <= moved.key {
                self.sift_down(at, moved);
            } else {
                self.sift_up(at, moved);
            }
        }
        true
    }

    /// Takes the earliest entry out.
    pub fn pop(&mut self) -> Option<(Key, u16)> {
        let first = self.first()?;
        self.remove(first.1);
        Some(first)
    }

    /// All queued ids with their keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u16)> + '_ {
        self.entries[..usize::from(self.length)].iter().map(|entry| (entry.key, entry.id))
    }

    // Positions and ids are below `N`, which is a power of two where it matters: then this costs no branch.

    #[inline(always)]
    fn entry(&self, at: usize) -> Entry {
        debug_assert!(at < N);
        self.entries[at % N]
    }

    #[inline(always)]
    fn entry_mut(&mut self, at: usize) -> &mut Entry {
        debug_assert!(at < N);
        &mut self.entries[at % N]
    }

    #[inline(always)]
    fn place_mut(&mut self, id: u16) -> &mut u16 {
        debug_assert!(usize::from(id) < N);
        &mut self.places[usize::from(id) % N]
    }

    /// Puts `moved` at `at` or nearer to the first, past those that come later.
    fn sift_up(&mut self, mut at: usize, moved: Entry) {
        while at > 0 {
            let parent = (at - 1) / 2;
            let above = self.entry(parent);
            if above.key <= moved.key {
                break;
            }
            *self.entry_mut(at) = above;
            *self.place_mut(above.id) = at as u16 + 1;
            at = parent;
        }
        *self.entry_mut(at) = moved;
        *self.place_mut(moved.id) = at as u16 + 1;
    }

    /// Puts `moved` at `at` or farther from the first, past those that come earlier.
    fn sift_down(&mut self, mut at: usize, moved: Entry) {
        let length = usize::from(self.length);
        loop {
            let left = 2 * at + 1;
            if left >= length {
                break;
            }
            let right = left + 1;
            let child = if right < length && self.entry(right).key < self.entry(left).key { right } else { left };
            let below = self.entry(child);
            if moved.key <= below.key {
                break;
            }
            *self.entry_mut(at) = below;
            *self.place_mut(below.id) = at as u16 + 1;
            at = child;
        }
        *self.entry_mut(at) = moved;
        *self.place_mut(moved.id) = at as u16 + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Against a plain list: insert, move, remove and pop in any order.
        #[test]
        fn the_queue_orders_like_a_sorted_list(steps in proptest::collection::vec((0u16..16, 0u64..20, 0u8..4), 0..80)) {
            let mut queue = Queue::<16>::EMPTY;
            let mut list: std::vec::Vec<(u64, u16)> = std::vec::Vec::new();
            for (id, time, action) in steps {
                match action {
                    0 | 1 => {
                        queue.insert(id, Key::at(Instant(time)));
                        list.retain(|entry| entry.1 != id);
                        list.push((time, id));
                    }
                    2 => {
                        prop_assert_eq!(queue.remove(id), list.iter().any(|entry| entry.1 == id));
                        list.retain(|entry| entry.1 != id);
                    }
                    _ => {
                        let earliest = list.iter().map(|entry| entry.0).min();
                        let popped = queue.pop();
                        prop_assert_eq!(popped.map(|entry| entry.0.instant().0), earliest);
                        if let Some((_, id)) = popped {
                            list.retain(|entry| entry.1 != id);
                        }
                    }
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
                let mut times: std::vec::Vec<u64> = list.iter().map(|entry| entry.0).collect();
                times.sort_unstable();
                for until in 0..20 {
                    let second = times.get(1).is_some_and(|second| *second <= until);
                    prop_assert_eq!(queue.second_is_until(Key::at(Instant(until))), second);
                }
                prop_assert_eq!(queue.first().map(|entry| entry.0.instant().0), list.iter().map(|e| e.0).min());
                for (time, id) in &list {
                    prop_assert_eq!(queue.key_of(*id), Some(Key::at(Instant(*time))));
                }
            }
        }
    }
}
