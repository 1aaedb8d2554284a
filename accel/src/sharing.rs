//! The shared class: whose queued command runs next on an engine.
//!
//! Clients without a real-time promise share what is left of an engine. Each brings its
//! commands in an order of its own that nobody changes; a policy only picks the client
//! whose oldest command goes next.
//!
//! # Invariants
//!
//! 1. A policy picks somebody whenever anybody waits: no engine idles beside a queue.
//! 2. A policy sees the oldest command of each client only, so it cannot reorder a client.
//!
//! # Why a trait this small
//!
//! A command that runs cannot be stopped, so the instant between two commands is the only
//! one at which a policy has something to say.
//!
//! Not here: real-time clients, who hold the engine's lock and are alone on it (`locking`).

/// Who waits: a context of the device, or any other number the caller finds useful.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Client(pub u8);

/// When a command arrived, in nanoseconds of the caller's clock.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Arrival(pub u64);

/// The oldest command of one client that has any.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// Whose command it is.
    pub client: Client,
    /// When it arrived.
    pub arrival: Arrival,
}

/// A rule that picks the next command of an engine.
pub trait Sharing {
    /// Picks one of `waiting`, by its position. `None` if, and only if, nobody waits.
    ///
    /// Each client appears at most once. Called once for each command that starts.
    #[must_use]
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize>;
}

/// The oldest command runs first; of several equally old, the one listed first.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstComeFirstServed;

impl Sharing for FirstComeFirstServed {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        (0..waiting.len()).min_by_key(|&position| waiting[position].arrival)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn nobody_older_is_passed_over(arrivals in prop::collection::vec(0_u64..20, 0..9)) {
            let waiting: Vec<Waiting> = (0..)
                .zip(&arrivals)
                .map(|(client, &at)| Waiting { client: Client(client), arrival: Arrival(at) })
                .collect();
            match FirstComeFirstServed.choose(&waiting) {
                None => prop_assert!(waiting.is_empty()),
                Some(chosen) => {
                    prop_assert!(arrivals[..chosen].iter().all(|&at| at > arrivals[chosen]));
                    prop_assert!(arrivals[chosen..].iter().all(|&at| at >= arrivals[chosen]));
                }
            }
        }
    }
}
