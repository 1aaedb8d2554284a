//! Coverage: which keys of manifests are in systems in which something is proved, alone and together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use fusee_manifest::keys::{Key, keys, used};
use toml::Table;

/// All keys that a manifest may have.
pub(super) static KEYS: LazyLock<BTreeMap<String, Key>> = LazyLock::new(keys);

/// How often which keys were drawn.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// For each key, by its place among all: systems that were drawn with it,
    drawn: Vec<u64>,
    /// and for each pair with a key before it, or with itself, systems in which some task is proved.
    proved: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        let count = KEYS.len();
        Coverage { drawn: vec![0; count], proved: vec![0; pair(count, 0)] }
    }
}

/// The place of the pair of two keys, the second of which is none after the first.
fn pair(one: usize, other: usize) -> usize {
    one * (one + 1) / 2 + other
}

/// The places of the keys of a manifest, in their order.
fn places(tree: &Table) -> Vec<usize> {
    let used = used(tree, &KEYS);
    KEYS.keys().enumerate().filter(|(_, name)| used.contains(*name)).map(|(place, _)| place).collect()
}

impl Coverage {
    /// A system was drawn, which admission may refuse.
    pub(super) fn draw(&mut self, tree: &Table) {
        places(tree).into_iter().for_each(|place| self.drawn[place] += 1);
    }

    /// Some task of a system is proved.
    pub(super) fn prove(&mut self, tree: &Table) {
        let places = places(tree);
        for (at, one) in places.iter().enumerate() {
            places[..=at].iter().for_each(|other| self.proved[pair(*one, *other)] += 1);
        }
    }

    /// Adds what came out of other systems.
    pub fn join(&mut self, other: &Coverage) {
        self.drawn.iter_mut().zip(&other.drawn).for_each(|(sum, more)| *sum += more);
        self.proved.iter_mut().zip(&other.proved).for_each(|(sum, more)| *sum += more);
    }

    /// Keys that are in no system in which something is proved, and in how many systems that were drawn.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, u64)> {
        let names = KEYS.keys().enumerate().filter(|(place, _)| self.proved[pair(*place, *place)] == 0);
        names.map(|(place, name)| (name.as_str(), self.drawn[place])).collect()
    }

    /// Pairs of keys of which each is in some system in which something is proved, but never both in one.
    #[must_use]
    pub fn missing_pairs(&self) -> Vec<(&'static str, &'static str)> {
        let names: Vec<&str> = KEYS.keys().map(String::as_str).collect();
        let is_there = |place: usize| self.proved[pair(place, place)] > 0;
        let pairs = (0..names.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let pairs =
            pairs.filter(|(one, other)| is_there(*one) && is_there(*other) && self.proved[pair(*one, *other)] == 0);
        pairs.map(|(one, other)| (names[other], names[one])).collect()
    }

    /// Number of keys that are there.
    #[must_use]
    pub fn keys(&self) -> usize {
        KEYS.len() - self.missing().len()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in KEYS.keys().enumerate() {
            writeln!(f, "{:>8} {:>8} {name}", self.drawn[place], self.proved[pair(place, place)])?;
        }
        Ok(())
    }
}
