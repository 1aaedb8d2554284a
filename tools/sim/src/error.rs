//! Errors of this crate: each names its place and the choices.

use std::path::PathBuf;
use std::time::Duration;

use fusee_manifest::ManifestErrors;

use crate::run::Reached;

/// The reason for which a system could not be loaded, changed, built, run or looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The manifest could not be read.
    #[error("{}: {source}", file.display())]
    Unreadable {
        /// The manifest.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The manifest is no TOML.
    #[error("{}: {why}", file.display())]
    Syntax {
        /// The manifest.
        file: PathBuf,
        /// The reason, with its line.
        why: String,
    },
    /// A key of [`System::set`](crate::System::set) leads through a table that the manifest does not have.
    #[error("{}: `{key}` cannot be set: there is no table `{part}`; {}", file.display(), choices_of(choices))]
    NoTable {
        /// The manifest.
        file: PathBuf,
        /// The whole key.
        key: String,
        /// The part of the key that is no table.
        part: String,
        /// The tables that there are in its place.
        choices: Vec<String>,
    },
    /// The manifest, with its changes, has mistakes.
    #[error(transparent)]
    Manifest(#[from] ManifestErrors),
    /// A manifest names a program that no workspace has, or that two have.
    #[error("{}: the program `{binary}` of `{task}` {why}; {}", file.display(), choices_of(choices))]
    NoProgram {
        /// The manifest.
        file: PathBuf,
        /// The task.
        task: String,
        /// Its program, as the manifest writes it.
        binary: String,
        /// The reason.
        why: &'static str,
        /// All programs that could be named.
        choices: Vec<String>,
    },
    /// The program of a task cannot run on this host.
    #[error(
        "{}: the program of `{task}` cannot run in the simulator: {why}; a `model`, a server with a script, or `System::leave_out` can take its place",
        file.display()
    )]
    Unsuited {
        /// The manifest.
        file: PathBuf,
        /// The task.
        task: String,
        /// The reason.
        why: String,
    },
    /// Cargo could not build programs, or describe a workspace.
    #[error("{what}: {why}")]
    Build {
        /// The work of cargo.
        what: String,
        /// The messages of cargo.
        why: String,
    },
    /// The simulation ended with an error.
    #[error(transparent)]
    Simulation(#[from] fusee_simulator::system::Error),
    /// The system has no task of this name.
    #[error("there is no task `{name}`; {}", choices_of(choices))]
    NoTask {
        /// The name.
        name: String,
        /// All tasks.
        choices: Vec<String>,
    },
    /// The system has no region of this name whose bytes can be read.
    #[error("the bytes of `{name}` cannot be read: {why}; {}", choices_of(choices))]
    NoRegion {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
        /// All regions that can be read.
        choices: Vec<String>,
    },
    /// A task uses no accelerator with a model of its own, so no fault of a device can reach it.
    #[error("`{task}` uses no engine of a device; {}", choices_of(choices))]
    NoDevice {
        /// The task.
        task: String,
        /// The tasks that do.
        choices: Vec<String>,
    },
    /// A run is asked to go to an instant before its present one.
    #[error("the run is at {now:?} already, after {asked:?}")]
    Past {
        /// The present instant.
        now: Duration,
        /// The instant that was asked for.
        asked: Duration,
    },
    /// The event that a run waited for did not come.
    #[error("nothing of that kind happened until {limit:?}: {reached}")]
    NotSeen {
        /// The instant until which the run waited.
        limit: Duration,
        /// The reason for which it waits no longer.
        reached: Reached,
    },
}

/// The choices, in words.
fn choices_of(choices: &[String]) -> String {
    let quoted: Vec<String> = choices.iter().map(|one| format!("`{one}`")).collect();
    match quoted.is_empty() {
        true => "there is none".to_owned(),
        false => format!("there are {}", quoted.join(", ")),
    }
}
