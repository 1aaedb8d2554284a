//! Every interleaving of the operations of a lock's users: breadth first through all states of the lock.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::println;
use std::vec::Vec;

/// Visits all states that `next` leads to from `start`, and returns their number. `check` is called once for each state; it and `next` fail a
/// test if a state is wrong.
pub fn explore<State: Clone + Eq + Hash>(
    name: &str,
    start: State,
    next: impl Fn(&State) -> Vec<State>,
    check: impl Fn(&State),
) -> usize {
    // No adversary chooses the states, so a fast hash is enough.
    let mut seen = HashSet::with_hasher(foldhash::fast::FixedState::default());
    check(&start);
    seen.insert(start.clone());
    let mut open = VecDeque::from([start]);
    let mut transitions = 0;
    while let Some(state) = open.pop_front() {
        for reached in next(&state) {
            transitions += 1;
            if !seen.contains(&reached) {
                check(&reached);
                seen.insert(reached.clone());
                open.push_back(reached);
            }
        }
    }
    println!("{name}: {} states, {transitions} transitions", seen.len());
    seen.len()
}
