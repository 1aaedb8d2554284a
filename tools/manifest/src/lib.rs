//! System manifests: read, checked, resolved to indices, packed for the kernel; and traces, read back.
//!
//! [`Manifest::read`] does all checking; its result can be simulated or, with programs, packed. Each mistake comes with its line,
//! and the reason is an enum ([`Reason`]): text is made at the edge. All mistakes of a stage are found at once: syntax, schema,
//! short forms, copies of tasks, resolution, admission.
//!
//! ```text
//! manifest.toml -> read -> schema -> short -> resolve -> pack -> bytes for the kernel
//!                                                     -> pack_tables -> the simulator
//! ring buffers  -> trace  -> records, canonical form, ledgers
//! ```
//!
//! # Invariants
//!
//! 1. Slots, indices and addresses follow the order of the file, and nothing else: the same manifest gives
//!    the same bytes.
//! 2. No physical page is given out twice, except through one region that several tasks name.
//! 3. No page is both writable and executable.
//!
//! Not here: building programs and running QEMU (`tools/host`), the meaning of records (`kernel/abi`).
#![forbid(unsafe_code)]

pub mod admission;
mod board;
pub mod device;
mod elf;
mod error;
mod expect;
mod interrupts;
pub mod layout;
mod pack;
mod quantity;
mod read;
mod resolve;
#[doc(hidden)]
pub mod schema;
mod script;
mod short;
pub mod times;
pub mod trace;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use board::{
    Board, BoardDevice, Conduit, Console, Controller, ControllerKind, Cpus, DeviceKind, Fair, Kick, Memory, Owned,
    Qemu, QemuProfile, Smmu, Start, Timer, Windows,
};
pub use error::{ManifestError, ManifestErrors, Reason, nearest};
pub use expect::{Expectations, LONGEST_TURN, Mark};
pub use fusee_sched::key::PolicyName;
pub use pack::{Binaries, PackOptions, PackedSystem};
pub use quantity::{Bytes, Time};
pub use resolve::{Bus, BusFrame, Device, Entry, Graph, Processor, Program, Resolved, Task, UNLIMITED, Variant};
pub use schema::{Arbiter, Panic, Profile};

/// A manifest without mistakes.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file that it was read from.
    pub file: PathBuf,
    /// The text of the manifest.
    pub text: String,
    /// The system, with all names resolved.
    pub system: Resolved,
    /// The expectations of tests.
    pub expectations: Option<Expectations>,
    /// The line that names each binary first.
    binary_lines: BTreeMap<String, usize>,
}

impl Manifest {
    /// Reads and checks the manifest at `path`.
    ///
    /// # Errors
    /// All mistakes of the first stage that has some, each with its line.
    pub fn read(path: &Path) -> Result<Self, ManifestErrors> {
        Self::read_variant(path, &Variant::default())
    }

    /// Reads and checks the manifest at `path`, varied.
    ///
    /// # Errors
    /// All mistakes of the first stage that has some, each with its line.
    pub fn read_variant(path: &Path, variant: &Variant) -> Result<Self, ManifestErrors> {
        let text = std::fs::read_to_string(path).map_err(|error| ManifestError {
            file: path.to_owned(),
            line: 0,
            reason: Reason::Unreadable(error.to_string()),
        })?;
        Self::parse_variant(path, &text, variant)
    }

    /// Checks the manifest `text`; errors name `path`.
    ///
    /// # Errors
    /// All mistakes of the first stage that has some, each with its line.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ManifestErrors> {
        Self::parse_variant(path, text, &Variant::default())
    }

    /// Checks the manifest `text`, varied; errors name `path`.
    ///
    /// # Errors
    /// All mistakes of the first stage that has some, each with its line.
    pub fn parse_variant(path: &Path, text: &str, variant: &Variant) -> Result<Self, ManifestErrors> {
        let line_of = |place| line_of(text, place);
        let all = |mistakes| at_lines(path, text, mistakes);
        let mut file = read::read(text, line_of).map_err(all)?;
        let names = resolve::names::bad(&file);
        short::expand(&mut file).map_err(all)?;
        resolve::expand(&mut file).map_err(all)?;
        let folder = variant.folder.as_deref().or(path.parent()).unwrap_or(Path::new(""));
        let whole = |mut file: schema::File, replicas: &resolve::graphs::Replicas| {
            let graphs = resolve::graphs::expand(&mut file, replicas)?;
            resolve::vary(&mut file, variant);
            resolve::read_times(&mut file, folder);
            resolve::resolve(&file, graphs).map(|system| (file, system))
        };
        // The number of frames of objects follows from the lateness of nodes if no node waits for one.
        let first = whole(file.clone(), &BTreeMap::new());
        let first =
            if names.is_empty() { first } else { Err(first.err().into_iter().flatten().chain(names).collect()) };
        let (mut resolved, mut system) = first.map_err(all)?;
        if system.graphs.iter().any(|graph| !graph.objects.is_empty()) {
            (resolved, system) = whole(file, &admission::replicas(&system)).map_err(all)?;
        }
        let file = resolved;
        let task = |name: &str| system.tasks.iter().position(|task| task.name == name);
        let expectations = file.test.as_ref().map(|test| Expectations::new(test, task));
        let programs = file.tasks.0.iter().filter_map(|(_, task)| task.binary.as_ref());
        let firmwares = file.devices.0.iter().filter_map(|(_, device)| device.firmware.as_ref());
        let kernels = file.devices.0.iter().filter_map(|(_, device)| device.kernels.as_ref());
        let named = programs.chain(firmwares).chain(kernels).map(|name| (name.get_ref().clone(), name));
        let elves = file.tasks.0.iter().filter_map(|(_, task)| task.elf.as_ref());
        let named = named.chain(elves.map(|path| (resolve::elf_binary(path.get_ref()), path)));
        let mut binary_lines = BTreeMap::new();
        for (binary, place) in named {
            binary_lines.entry(binary).or_insert_with(|| line_of(place.span().start));
        }
        Ok(Self { file: path.to_owned(), text: text.to_owned(), system, expectations, binary_lines })
    }

    /// The manifest `text` without short forms: each table that a key stands for is written out. Comments are lost. Errors name
    /// `path`.
    ///
    /// # Errors
    /// All mistakes of the first stage that has some, each with its line. Names are not resolved.
    pub fn expanded(path: &Path, text: &str) -> Result<String, ManifestErrors> {
        let all = |mistakes| at_lines(path, text, mistakes);
        let mut file = read::read(text, |place| line_of(text, place)).map_err(all)?;
        short::expand(&mut file).map_err(all)?;
        toml::to_string(&file).map_err(|error| all(vec![(0..0, Reason::Syntax(error.to_string()))]))
    }

    /// The first line that names `binary`: a task's `package/binary`, or the package of a firmware.
    #[must_use]
    pub fn line_of_binary(&self, binary: &str) -> Option<usize> {
        self.binary_lines.get(binary).copied()
    }

    /// Packs the system with its programs.
    ///
    /// # Errors
    /// A program that is missing or cannot be mapped, or too little memory.
    pub fn pack(&self, binaries: &Binaries, options: PackOptions) -> Result<PackedSystem, ManifestError> {
        pack::pack(&self.system, Some(binaries), options).map_err(|reason| self.at_binary(reason))
    }

    /// Packs the system without programs, for the simulator.
    ///
    /// # Errors
    /// Too little memory.
    pub fn pack_tables(&self, options: PackOptions) -> Result<PackedSystem, ManifestError> {
        pack::pack(&self.system, None, options).map_err(|reason| self.at_binary(reason))
    }

    /// The place of the reason, if it is about a binary: the line that names it first. Serves reasons that are found after the
    /// manifest was read.
    #[must_use]
    pub fn at_binary(&self, reason: Reason) -> ManifestError {
        let line = reason.binary().and_then(|binary| self.line_of_binary(binary)).unwrap_or(0);
        ManifestError { file: self.file.clone(), line, reason }
    }
}

/// The line of a place in `text`, from 1.
fn line_of(text: &str, place: usize) -> usize {
    text.as_bytes()[..place.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The mistakes in the order of their lines.
fn at_lines(path: &Path, text: &str, mistakes: Vec<read::Mistake>) -> ManifestErrors {
    let at = |(place, reason): (Range<usize>, _)| ManifestError {
        file: path.to_owned(),
        line: line_of(text, place.start),
        reason,
    };
    let mut errors: Vec<ManifestError> = mistakes.into_iter().map(at).collect();
    errors.sort_by_key(|error| error.line);
    ManifestErrors(errors)
}

/// The words of manifests that checks of this repository look through: types with their keys, rights, first words of steps.
#[doc(hidden)]
pub mod grammar {
    pub use crate::quantity::{Launched, Operation};
    pub use crate::resolve::handles::RIGHTS;
    pub use crate::script::STEPS;
}
