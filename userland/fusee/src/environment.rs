//! The task's objects: the environment page, read once and then by name.
//!
//! `xtask` writes the page from the manifest, so a missing name is a mistake of the manifest: [`Environment::expect`]
//! says so in one sentence. Names are unique for each kind of object.

use crate::memory::{environment_page, script};
use core::fmt;
use fusee_abi::environment::{Entry, Header, MAGIC, kind};
use fusee_abi::script::Step;
use zerocopy::FromBytes;

use crate::{Endpoint, Engine, Interrupt, Notification, Pool, Region, System, Task};

/// Everything a task was given.
#[derive(Clone, Copy, Debug)]
pub struct Environment {
    task: &'static [u8],
    entries: &'static [Entry],
}

/// The manifest does not give this task an object that its program asks for.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct MissingHandle<'a> {
    /// The name asked for.
    pub name: &'a str,
    /// The kind of object expected, in words.
    pub expected: &'static str,
}

/// A kind of object that an environment can hold.
pub trait Object: Sized {
    /// The number of the kind in the environment page.
    const KIND: u32;
    /// The name of the kind in messages.
    const NAME: &'static str;

    /// The handle that an entry of this kind describes.
    fn from_entry(environment: &Environment, entry: &'static Entry) -> Self;
}

/// Everything this task was given.
///
/// # Panics
/// If the page is damaged, which `xtask` never writes.
#[must_use]
pub fn environment() -> Environment {
    match environment_page() {
        Some(page) => Environment::parse(page).expect("the environment page is damaged"),
        None => Environment { task: b"", entries: &[] },
    }
}

impl Environment {
    fn parse(page: &'static [u8]) -> Option<Environment> {
        let (header, rest) = Header::ref_from_prefix(page).ok()?;
        if header.magic != MAGIC {
            return None;
        }
        let (entries, _) = <[Entry]>::ref_from_prefix_with_elems(rest, header.entries as usize).ok()?;
        Some(Environment { task: unpadded(&header.task), entries })
    }

    /// The task's name.
    #[must_use]
    pub fn task_name(&self) -> &'static str {
        core::str::from_utf8(self.task).unwrap_or("?")
    }

    /// The records of the page, in its order.
    #[must_use]
    pub fn entries(&self) -> &'static [Entry] {
        self.entries
    }

    /// The object of kind `T` named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn get<'a, T: Object>(&self, name: &'a str) -> Result<T, MissingHandle<'a>> {
        let entry = self.find(name, T::KIND).ok_or(MissingHandle { name, expected: T::NAME })?;
        Ok(T::from_entry(self, entry))
    }

    /// The object of kind `T` named `name`.
    ///
    /// # Panics
    /// If the manifest gives none; the message names it.
    #[must_use]
    #[track_caller]
    pub fn expect<T: Object>(&self, name: &str) -> T {
        match self.get(name) {
            Ok(object) => object,
            Err(missing) => panic!("{missing}"),
        }
    }

    /// The object of kind `T` with a handle of this value, as scripts name it.
    #[must_use]
    pub fn by_handle<T: Object>(&self, handle: u64) -> Option<T> {
        let entry = self.entries.iter().find(|entry| entry.kind == T::KIND && entry.handle == handle)?;
        Some(T::from_entry(self, entry))
    }

    /// The endpoint named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn endpoint<'a>(&self, name: &'a str) -> Result<Endpoint, MissingHandle<'a>> {
        self.get(name)
    }

    /// The notification named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn notification<'a>(&self, name: &'a str) -> Result<Notification, MissingHandle<'a>> {
        self.get(name)
    }

    /// The engine named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn engine<'a>(&self, name: &'a str) -> Result<Engine, MissingHandle<'a>> {
        self.get(name)
    }

    /// The pool named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn pool<'a>(&self, name: &'a str) -> Result<Pool, MissingHandle<'a>> {
        self.get(name)
    }

    /// The interrupt named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn interrupt<'a>(&self, name: &'a str) -> Result<Interrupt, MissingHandle<'a>> {
        self.get(name)
    }

    /// The region named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn region<'a>(&self, name: &'a str) -> Result<Region, MissingHandle<'a>> {
        self.get(name)
    }

    /// The task named `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn task<'a>(&self, name: &'a str) -> Result<Task, MissingHandle<'a>> {
        self.get(name)
    }

    /// The system, as `name`.
    ///
    /// # Errors
    /// [`MissingHandle`] if the manifest gives none.
    pub fn system<'a>(&self, name: &'a str) -> Result<System, MissingHandle<'a>> {
        self.get(name)
    }

    /// The number the manifest gives as `name`.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<u64> {
        self.find(name, kind::PARAMETER).map(|entry| entry.address)
    }

    /// The task's script; empty if it has none.
    ///
    /// # Panics
    /// If the script is no whole number of steps, which `xtask` never writes.
    #[must_use]
    pub fn script(&self) -> &'static [Step] {
        let Some(entry) = self.entries.iter().find(|entry| entry.kind == kind::SCRIPT && entry.bytes > 0) else {
            return &[];
        };
        <[Step]>::ref_from_bytes(script(entry)).expect("the script is damaged")
    }

    /// The doorbell page of `engine`, if it has one.
    pub(crate) fn doorbell(&self, engine: &Entry) -> Option<&'static Entry> {
        self.entries.iter().find(|entry| entry.kind == kind::DOORBELL && entry.name == engine.name)
    }

    fn find(&self, name: &str, kind: u32) -> Option<&'static Entry> {
        self.entries.iter().find(|entry| entry.kind == kind && unpadded(&entry.name) == name.as_bytes())
    }
}

impl fmt::Display for MissingHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = environment().task_name();
        write!(f, "the manifest gives task `{task}` no {} named `{}`", self.expected, self.name)
    }
}

impl fmt::Debug for MissingHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for MissingHandle<'_> {}

pub(crate) fn unpadded(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::string::ToString;
    use std::vec::Vec;
    use zerocopy::IntoBytes;

    fn entry(name: &str, kind: u32, handle: u64, address: u64) -> Entry {
        let mut padded = [0; 24];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        Entry { name: padded, kind, flags: 0, handle, address, bytes: 0, physical: 0 }
    }

    fn environment_of(entries: &[Entry]) -> Environment {
        let mut task = [0; 16];
        task[..4].copy_from_slice(b"plan");
        let header = Header { magic: MAGIC, entries: entries.len() as u64, task };
        let mut page: Vec<u64> = std::vec![0; 512];
        let bytes = page.as_mut_bytes();
        bytes[..32].copy_from_slice(header.as_bytes());
        bytes[32..32 + entries.as_bytes().len()].copy_from_slice(entries.as_bytes());
        Environment::parse(Box::leak(page.into_boxed_slice()).as_bytes()).unwrap()
    }

    #[test]
    fn a_name_is_looked_up_within_its_kind() {
        let entries = [
            entry("frames", kind::PARAMETER, 0, 7),
            entry("frames", Endpoint::KIND, 3, 0),
            entry("engine", Engine::KIND, 5, 0),
            entry("engine", kind::DOORBELL, 0, 0x4000),
        ];
        let environment = environment_of(&entries);
        assert_eq!(environment.task_name(), "plan");
        assert_eq!(environment.parameter("frames"), Some(7));
        assert_eq!(environment.parameter("frame"), None);
        assert!(environment.endpoint("frames").is_ok());
        assert!(environment.by_handle::<Endpoint>(3).is_some());
        assert!(environment.by_handle::<Engine>(3).is_none());
        assert_eq!(environment.doorbell(&environment.entries()[2]).map(|entry| entry.address), Some(0x4000));
    }

    /// Safe code can write entries, so they must not become addresses.
    #[test]
    #[should_panic(expected = "not a region or doorbell of this task")]
    fn an_entry_somebody_made_up_opens_no_memory() {
        let made_up = Entry { bytes: 4096, ..entry("clock", Region::KIND, 0, 0x4000) };
        let _ = Region::from_entry(&environment_of(&[]), Box::leak(Box::new(made_up)));
    }

    #[test]
    fn a_missing_handle_says_what_was_expected() {
        let missing = environment_of(&[]).endpoint("console").unwrap_err();
        assert!(missing.to_string().ends_with("no endpoint named `console`"));
    }
}
