//! The entries of the manifest for each client of a driver: `context.CLIENT`, `ring.CLIENT` and so on.

use fusee::abi::environment::{Entry, kind};
use fusee::{Environment, Object, Place};

/// The clients of a device, and the context of each.
pub fn clients(environment: &Environment) -> impl Iterator<Item = (&'static str, usize)> {
    let entries = environment.entries().iter();
    entries.filter_map(|entry| Some((name_of(entry)?.strip_prefix("context.")?, entry.address as usize)))
}

/// The object of kind `T` that is called `prefix` and then the name of the client, if there is one.
#[must_use]
pub fn of_client<T: Object>(environment: &Environment, prefix: &str, client: &str) -> Option<T> {
    let is_it = |entry: &&Entry| {
        entry.kind == T::KIND && name_of(entry).and_then(|name| name.strip_prefix(prefix)) == Some(client)
    };
    environment.entries().iter().find(is_it).map(|entry| T::from_entry(environment, entry))
}

/// The parameter that is called `prefix` and then the name of the client, if there is one.
#[must_use]
pub fn parameter_of_client(environment: &Environment, prefix: &str, client: &str) -> Option<u64> {
    let is_it = |entry: &&Entry| {
        entry.kind == kind::PARAMETER && name_of(entry).and_then(|name| name.strip_prefix(prefix)) == Some(client)
    };
    environment.entries().iter().find(is_it).map(|entry| entry.address)
}

/// The places with names that begin with `prefix`, and the rest of each name.
pub fn places(environment: &Environment, prefix: &str) -> impl Iterator<Item = (&'static str, Place)> {
    let entries = environment.entries().iter().filter(|entry| entry.kind == Place::KIND);
    entries
        .filter_map(move |entry| Some((name_of(entry)?.strip_prefix(prefix)?, Place::from_entry(environment, entry))))
}

/// The name of an entry of the environment.
#[must_use]
pub fn name_of(entry: &Entry) -> Option<&str> {
    let length = entry.name.iter().position(|byte| *byte == 0).unwrap_or(entry.name.len());
    core::str::from_utf8(&entry.name[..length]).ok()
}
