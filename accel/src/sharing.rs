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

/// Contexts one engine can have, for arbiters that remember something of each.
const CLIENTS: usize = 256;

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

/// Clients are served in proportion to their weights, as evenly as possible: smooth weighted round robin.
///
/// At each choice every client that waits gains its weight, and the one with the most is served and pays what all of them
/// gained. Credits of clients that wait add up to what they were before, so nobody falls behind for ever. A client that
/// does not wait loses its credit: it hoards nothing.
#[derive(Clone, Copy, Debug)]
pub struct Weighted {
    weights: [u8; CLIENTS],
    credits: [i32; CLIENTS],
}

impl Weighted {
    /// Each client with its weight, by its number. A weight of zero counts as one, or its client would never be served.
    #[must_use]
    pub const fn new(weights: [u8; CLIENTS]) -> Weighted {
        Weighted { weights, credits: [0; CLIENTS] }
    }
}

impl Sharing for Weighted {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        let mut credits = [0; CLIENTS];
        let mut all = 0;
        let mut chosen: Option<usize> = None;
        for (position, waiting_client) in waiting.iter().enumerate() {
            let client = usize::from(waiting_client.client.0);
            let weight = i32::from(self.weights[client].max(1));
            all += weight;
            credits[client] = self.credits[client] + weight;
            let most = chosen.map_or(i32::MIN, |position| credits[usize::from(waiting[position].client.0)]);
            if credits[client] > most {
                chosen = Some(position);
            }
        }
        credits[usize::from(waiting[chosen?].client.0)] -= all;
        self.credits = credits;
        chosen
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

        #[test]
        fn weighted_is_what_its_rule_says(rounds in prop::collection::vec(prop::collection::btree_set(0_u8..8, 0..6), 0..40)) {
            let mut weights = [1; CLIENTS];
            (0..8).for_each(|client| weights[client] = client as u8);
            let mut policy = Weighted::new(weights);
            let mut credits = std::collections::BTreeMap::new();
            for clients in rounds {
                let waiting = waiting_of(clients.iter().copied());
                let chosen = policy.choose(&waiting).map(|position| waiting[position].client.0);
                if clients.is_empty() {
                    prop_assert_eq!(chosen, None);
                    continue;
                }
                credits.retain(|client, _| clients.contains(client));
                for &client in &clients {
                    *credits.entry(client).or_insert(0) += i64::from(client.max(1));
                }
                let most = *credits.values().max().unwrap();
                let best = clients.iter().copied().find(|client| credits[client] == most);
                prop_assert_eq!(chosen, best);
                *credits.get_mut(&best.unwrap()).unwrap() -= clients.iter().map(|&client| i64::from(client.max(1))).sum::<i64>();
            }
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
