//! Every interleaving of what users of a lock may do: breadth first through all its states.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::println;
use std::vec::Vec;

/// Visits all states that `next` leads to from `start`, and says how many there are. `next` fails a test if a state is
/// wrong.
pub fn explore<State: Clone + Eq + Hash>(name: &str, start: State, next: impl Fn(&State) -> Vec<State>) -> usize {
    let mut seen = HashSet::from([start.clone()]);
    let mut open = VecDeque::from([start]);
    let mut transitions = 0;
    while let Some(state) = open.pop_front() {
        for reached in next(&state) {
            transitions += 1;
            if seen.insert(reached.clone()) {
                open.push_back(reached);
            }
        }
    }
    println!("{name}: {} states, {transitions} transitions", seen.len());
    seen.len()
}
