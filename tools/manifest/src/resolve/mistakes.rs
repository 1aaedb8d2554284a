//! Where mistakes are collected: the first of each object, and no consequence of another one.
//!
//! An object with a mistake is *spoiled*. Something harmless stands in its place, so that indices stay those of the file. A check
//! that would have to look at it gives up without a message ([`Fail::Follows`]) and its own object is spoiled in turn.

use std::mem::discriminant;
use std::ops::Range;

use toml::Spanned;
use zerocopy::FromZeros;

use super::Resolver;
use crate::error::Reason;
use crate::read::Mistake;

/// The reason why something cannot be resolved.
#[derive(Debug)]
pub(super) enum Fail {
    /// There is a mistake here.
    At(Range<usize>, Reason),
    /// The object refers to something that has a mistake, which is reported there.
    Follows,
}

/// The objects that may be spoiled, by index in their tables.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Of {
    /// Something that nothing else looks at.
    Nothing,
    /// The number of CPUs.
    Cpus,
    /// A cluster.
    Cluster(usize),
    /// A task, but for its handles and its uses.
    Task(usize),
    /// The handles of a task, as some are missing.
    Handles(usize),
    /// The declared uses of a task.
    Uses(usize),
    /// An endpoint.
    Endpoint(usize),
    /// A notification.
    Notification(usize),
    /// An interrupt.
    Interrupt(usize),
    /// A region.
    Region(usize),
    /// A device.
    Device(usize),
    /// An engine.
    Engine(usize),
    /// A group of clients without a lock.
    Group(usize),
    /// A pool.
    Pool(usize),
}

impl Resolver<'_> {
    /// The value of the result; or nothing, and the mistake is noted, and its object is spoiled.
    pub(super) fn keep<T>(&mut self, of: Of, result: Result<T, Fail>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(Fail::At(place, reason)) => self.mistakes.push((place, reason)),
            Err(Fail::Follows) => {}
        }
        self.spoiled.insert(of);
        None
    }

    /// The value of the result, or zeros in place of a spoiled one.
    pub(super) fn keep_or_zero<T: FromZeros>(&mut self, of: Of, result: Result<T, Fail>) -> T {
        self.keep(of, result).unwrap_or_else(T::new_zeroed)
    }

    /// Gives up if this is spoiled.
    pub(super) fn sound(&self, of: Of) -> Result<(), Fail> {
        if self.spoiled.contains(&of) { Err(Fail::Follows) } else { Ok(()) }
    }

    /// The mistakes to be shown: one of a kind at a place, as copies of a task share theirs; and each message on a count that is
    /// too large once.
    pub(super) fn mistakes(&mut self) -> Vec<Mistake> {
        let mut shown: Vec<Mistake> = Vec::new();
        for (place, reason) in std::mem::take(&mut self.mistakes) {
            let is_count = matches!(reason, Reason::TooMany { .. } | Reason::Crowded { .. });
            let is_same = |(other, said): &Mistake| {
                *other == place && discriminant(said) == discriminant(&reason) || is_count && *said == reason
            };
            if !shown.iter().any(is_same) {
                shown.push((place, reason));
            }
        }
        shown
    }
}

/// Whether `text` has `name` as one of its words.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| c == ':' || c.is_whitespace()).any(|word| word == name)
}

/// The names of a table.
pub(super) fn names<'a, T: 'a>(table: impl IntoIterator<Item = &'a (Spanned<String>, T)>) -> Vec<String> {
    table.into_iter().map(|(name, _)| name.get_ref().clone()).collect()
}
