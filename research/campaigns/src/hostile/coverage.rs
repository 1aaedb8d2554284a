//! Coverage: which keys of manifests are in systems in which something is proved, alone and together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use crate::keys::{Key, keys, used};
use toml::Table;

/// All keys that a manifest may have.
pub(super) static KEYS: LazyLock<BTreeMap<String, Key>> = LazyLock::new(keys);

/// Keys that no system of this campaign can have, by how they begin, and why.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("devices.*.device", "the board has no processor, nor a device that is an engine"),
    ("devices.*.times", "a file beside the manifest says what was measured"),
    ("regions.*.dma", "a device of the board writes there, and the simulator has none"),
    ("tasks.*.uses.*.operation.", "how long a launch takes is in a file beside the manifest"),
    ("test.", "it says what tests expect, and neither kernel nor analysis reads it"),
];

/// The part of all pairs of keys that has to be in systems in which something is proved, percent.
pub const PAIRS: u64 = 95;

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

    /// Adds the keys of other systems.
    pub fn join(&mut self, other: &Coverage) {
        self.drawn.iter_mut().zip(&other.drawn).for_each(|(sum, more)| *sum += more);
        self.proved.iter_mut().zip(&other.proved).for_each(|(sum, more)| *sum += more);
    }

    /// Keys that are in no system in which something is proved, and in how many systems that were drawn, but for exceptions.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, u64)> {
        let names = KEYS.keys().enumerate().filter(|(place, name)| !self.is_there(*place) && exception(name).is_none());
        names.map(|(place, name)| (name.as_str(), self.drawn[place])).collect()
    }

    /// Keys that were never drawn.
    #[must_use]
    pub fn undrawn(&self) -> Vec<&'static str> {
        KEYS.keys().zip(&self.drawn).filter(|(_, drawn)| **drawn == 0).map(|(name, _)| name.as_str()).collect()
    }

    /// Exceptions that no key needs, as none begins so, or all that do are there.
    #[must_use]
    pub fn idle_exceptions(&self) -> Vec<&'static str> {
        let is_needed =
            |start: &str| KEYS.keys().enumerate().any(|(place, name)| name.starts_with(start) && !self.is_there(place));
        EXCEPTIONS.iter().map(|(start, _)| *start).filter(|start| !is_needed(start)).collect()
    }

    /// Number of pairs of keys that can be in one manifest, and of those that are in some system in which something is proved.
    #[must_use]
    pub fn pairs(&self) -> (u64, u64) {
        let mut found = (0, 0);
        self.each_pair(|_, is_there| {
            found.0 += 1;
            found.1 += u64::from(is_there);
        });
        found
    }

    /// Pairs of keys that are in no system in which something is proved.
    #[must_use]
    pub fn missing_pairs(&self) -> Vec<[&'static str; 2]> {
        let mut found = Vec::new();
        self.each_pair(|pair, is_there| found.extend((!is_there).then_some(pair)));
        found
    }

    fn each_pair(&self, mut see: impl FnMut([&'static str; 2], bool)) {
        let names: Vec<&'static str> = KEYS.keys().map(String::as_str).collect();
        for one in (0..names.len()).filter(|one| exception(names[*one]).is_none()) {
            for other in (0..one).filter(|other| exception(names[*other]).is_none()) {
                let both = [names[other], names[one]];
                if excludes(both).is_none() {
                    see(both, self.proved[pair(one, other)] > 0);
                }
            }
        }
    }

    fn is_there(&self, place: usize) -> bool {
        self.proved[pair(place, place)] > 0
    }
}

fn exception(name: &str) -> Option<&'static str> {
    EXCEPTIONS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, why)| *why)
}

/// Tables of which a manifest has one, so a key there has one value.
const SINGLE: [&str; 2] = ["system.", "supervisor."];

/// Why no manifest has both keys, if none has.
fn excludes(both: [&str; 2]) -> Option<&'static str> {
    let of = |name: &'_ str| name.split('=').next().unwrap_or_default().to_owned();
    let are_values = both.iter().all(|name| name.contains('=') && SINGLE.iter().any(|start| name.starts_with(start)));
    (are_values && of(both[0]) == of(both[1])).then_some("they are values of one key")
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  drawn   proved  key")?;
        for (place, name) in KEYS.keys().enumerate() {
            let why = exception(name).map_or_else(String::new, |why| format!(" (exception: {why})"));
            writeln!(f, "{:>7} {:>8}  {name}{why}", self.drawn[place], self.proved[pair(place, place)])?;
        }
        for [one, other] in self.missing_pairs() {
            writeln!(f, "never both: `{one}` and `{other}`")?;
        }
        let (all, there) = self.pairs();
        writeln!(
            f,
            "{there} of {all} pairs of keys are in systems in which something is proved, {:.1} %",
            there as f64 * 100.0 / all.max(1) as f64
        )
    }
}
