//! The shared class: the client whose queued command runs next on an engine.
//!
//! Clients without a real-time promise share the rest of an engine. Each brings its commands in a fixed order of its own; a policy
//! only picks the client whose oldest command goes next.
//!
//! # Invariants
//!
//! 1. A policy picks a client whenever any waits: no engine idles beside a queue.
//! 2. A policy sees the oldest command of each client only, so it cannot reorder a client.
//!
//! # Why a trait this small
//!
//! A command that runs cannot be stopped, so the instant between two commands is the only one at which a policy can choose.
//!
//! Not here: real-time clients, which hold the engine's lock and are alone on it (`locking`).

/// A waiting client: a context of the device, or any other number the caller finds useful.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Client(pub u8);

/// The arrival of a command, in nanoseconds of the caller's clock.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Arrival(pub u64);

/// The oldest command of one client that has any.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// The client of the command.
    pub client: Client,
    /// The instant of its arrival.
    pub arrival: Arrival,
}

/// A rule that picks the next command of an engine.
pub trait Sharing {
    /// Picks one of `waiting`, by its position. `None` if, and only if, no client waits.
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

/// Clients one engine can have, for arbiters that remember something of each: their numbers are below it.
pub const CLIENTS: usize = 16;

/// Clients are served in turn: next is the first that waits behind the one served last, by number.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    last: u8,
}

impl Sharing for RoundRobin {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        let behind = |position: usize| waiting[position].client.0.wrapping_sub(self.last).wrapping_sub(1);
        let chosen = (0..waiting.len()).min_by_key(|&position| behind(position))?;
        self.last = waiting[chosen].client.0;
        Some(chosen)
    }
}

/// Clients are served in proportion to their weights, as evenly as possible: start-time fair queueing, with commands of equal length.
///
/// Each command of a client begins at a point of virtual time, a step behind the one before, and the earliest is served. A step is
/// the longer the less weight a client has. Virtual time is where the command that was served last began; a new command of a client
/// begins there at the earliest, so a client that waits for nothing hoards nothing, and one that has had more than its share pays
/// for that only as long as others wait.
///
/// For two clients that both wait all the time, their service, divided by their weights, differs by one command of each at most.
/// Source: Goyal, Vin and Cheng 1996.
#[derive(Clone, Copy, Debug)]
pub struct Weighted {
    weights: [u8; CLIENTS],
    /// The beginning of the next command of each client.
    starts: [u64; CLIENTS],
    now: u64,
}

/// The step of a client of weight 1: divided by any weight it is a whole number but for some millionths, and the sum of all steps fits for years.
const STEP: u64 = 1 << 20;

impl Weighted {
    /// Each client with its weight, by its number. A weight of zero counts as one, or its client would never be served.
    #[must_use]
    pub const fn new(weights: [u8; CLIENTS]) -> Weighted {
        Weighted { weights, starts: [0; CLIENTS], now: 0 }
    }
}

impl Sharing for Weighted {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        let place = |position: usize| usize::from(waiting[position].client.0) % CLIENTS;
        let start = |position: usize| self.starts[place(position)].max(self.now);
        let chosen = (0..waiting.len()).min_by_key(|&position| start(position))?;
        self.now = start(chosen);
        let client = place(chosen);
        self.starts[client] = self.now.saturating_add(STEP / u64::from(self.weights[client].max(1)));
        Some(chosen)
    }
}

/// One of the rules above, chosen when the device is described.
#[derive(Clone, Copy, Debug)]
pub enum Arbiter {
    /// [`FirstComeFirstServed`].
    Arrival(FirstComeFirstServed),
    /// [`RoundRobin`].
    RoundRobin(RoundRobin),
    /// [`Weighted`].
    Weighted(Weighted),
}

impl Arbiter {
    /// In order of arrival.
    pub const ARRIVAL: Arbiter = Arbiter::Arrival(FirstComeFirstServed);
    /// In turn.
    pub const ROUND_ROBIN: Arbiter = Arbiter::RoundRobin(RoundRobin { last: 0 });

    /// In proportion to these weights.
    #[must_use]
    pub const fn weighted(weights: [u8; CLIENTS]) -> Arbiter {
        Arbiter::Weighted(Weighted::new(weights))
    }
}

impl Default for Arbiter {
    fn default() -> Arbiter {
        Arbiter::ARRIVAL
    }
}

impl Sharing for Arbiter {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        match self {
            Arbiter::Arrival(rule) => rule.choose(waiting),
            Arbiter::RoundRobin(rule) => rule.choose(waiting),
            Arbiter::Weighted(rule) => rule.choose(waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn waiting_of(clients: impl IntoIterator<Item = u8>) -> Vec<Waiting> {
        clients.into_iter().map(|client| Waiting { client: Client(client), arrival: Arrival(0) }).collect()
    }

    proptest! {
        #[test]
        fn round_robin_goes_round_the_circle(rounds in prop::collection::vec(prop::collection::btree_set(0_u8.., 0..6), 0..40)) {
            let mut policy = RoundRobin::default();
            let mut last = 0_u8;
            for clients in rounds {
                let waiting = waiting_of(clients.iter().copied().rev());
                // Walk on, client by client, until one waits.
                let next = (1..=256_u16).map(|step| last.wrapping_add(step as u8)).find(|client| clients.contains(client));
                let chosen = policy.choose(&waiting).map(|position| waiting[position].client.0);
                prop_assert_eq!(chosen, next);
                last = next.unwrap_or(last);
            }
        }

        #[test]
        fn weighted_serves_each_by_its_weight_in_each_round(weights in prop::collection::vec(1_u8..8, 1..6)) {
            let mut all = [1; CLIENTS];
            all[..weights.len()].copy_from_slice(&weights);
            let mut policy = Weighted::new(all);
            let waiting = waiting_of(0..weights.len() as u8);
            for _ in 0..3 {
                let mut served = std::vec![0_u8; weights.len()];
                for _ in 0..weights.iter().map(|&weight| u32::from(weight)).sum() {
                    served[policy.choose(&waiting).unwrap()] += 1;
                }
                prop_assert_eq!(&served, &weights);
            }
        }

        /// For any behaviour of others: over any time in which two clients wait, each has been served by its weight but for one
        /// command.
        #[test]
        fn two_that_wait_are_served_by_their_weights_but_for_a_command_of_each(
            weights in prop::collection::vec(1_u8..9, 4),
            rounds in prop::collection::vec(prop::collection::btree_set(0_usize..4, 0..5), 0..60),
        ) {
            let mut all = [1; CLIENTS];
            all[..4].copy_from_slice(&weights);
            let mut policy = Weighted::new(all);
            let mut served = Vec::new();
            for clients in &rounds {
                let waiting = waiting_of(clients.iter().map(|&client| client as u8));
                served.push(policy.choose(&waiting).map(|position| usize::from(waiting[position].client.0)));
                prop_assert_eq!(served[served.len() - 1].is_none(), clients.is_empty());
            }
            for (one, other) in (0..4).flat_map(|one| (0..one).map(move |other| (one, other))) {
                for first in 0..rounds.len() {
                    let mut counts = [0_u64; 2];
                    for (clients, served) in rounds[first..].iter().zip(&served[first..]) {
                        if !clients.contains(&one) || !clients.contains(&other) {
                            break;
                        }
                        counts[0] += u64::from(*served == Some(one));
                        counts[1] += u64::from(*served == Some(other));
                        let [this, that] = [one, other].map(|client| u64::from(weights[client]));
                        // n / w - m / v <= 1 / w + 1 / v, without fractions.
                        prop_assert!((counts[0] * that).abs_diff(counts[1] * this) <= this + that, "{:?}", (one, other, counts));
                    }
                }
            }
        }

        /// A client with a whole ring gains nothing over one that asks again whenever it was served.
        #[test]
        fn coming_back_gains_nothing_and_loses_one_turn(others in 1_u8..6, absent in 1_usize..5) {
            let mut policy = Weighted::new([1; CLIENTS]);
            let mut served = [0_usize; CLIENTS];
            let mut back_at = 0;
            for round in 0..600 {
                let waiting = waiting_of((0..=others).filter(|client| *client > 0 || round >= back_at));
                let client = usize::from(waiting[policy.choose(&waiting).unwrap()].client.0);
                served[client] += 1;
                if client == 0 {
                    back_at = round + 1 + absent;
                }
            }
            prop_assert!(served[1..=usize::from(others)].iter().all(|count| *count + 1 >= served[0]), "{:?}", served);
        }

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
