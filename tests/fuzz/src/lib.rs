//! Functions that read bytes of others, given any bytes: nothing panics, and their invariants hold.
//!
//! Each [`Target`] is a function of a string of bytes. `cargo xtask fuzz` lets libFuzzer look for strings that reach code which no
//! other has reached. Strings worth keeping are in `corpus`, and are read again by each `cargo test`, which needs neither libFuzzer nor
//! a C++ compiler.
//!
//! - [`calls`]: tasks that make any call, on several CPUs, with kicks, timers, interrupts, deaths and time.
//! - [`manifest`]: the text of a manifest.
//! - [`image`]: a packed system, damaged, and a kernel that boots it.
//! - [`device`]: rings and doorbells, and the device that reads them.
//! - [`trace`]: bytes from a serial line, and all views of them.
//!
//! Not here: tasks that mean harm and the deadlines of others (`tools/simulator`, `hostile`), every order of a few calls (`kernel/core/tests`).
#![forbid(unsafe_code)]

mod bytes;
pub mod calls;
pub mod device;
pub mod image;
pub mod manifest;
pub mod trace;

#[path = "../../../qemu/device-model/tests/all/rig/mod.rs"]
#[allow(missing_docs)]
mod rig;
#[path = "../../../kernel/core/tests/table/mod.rs"]
mod table;

use std::fmt;
use std::str::FromStr;

/// A function that is given any bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// Calls of tasks.
    Calls,
    /// The text of a manifest.
    Manifest,
    /// A packed system.
    Image,
    /// Rings and doorbells.
    Device,
    /// A trace over a serial line.
    Trace,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 5] = [Target::Calls, Target::Manifest, Target::Image, Target::Device, Target::Trace];

    /// Its name, which is that of its corpus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Target::Calls => "calls",
            Target::Manifest => "manifest",
            Target::Image => "image",
            Target::Device => "device",
            Target::Trace => "trace",
        }
    }

    /// Reads `data`; panics if something does not hold. How many steps were taken: calls, or strings read.
    pub fn read(self, data: &[u8]) -> u64 {
        match self {
            Target::Calls => return calls::run(data, None),
            Target::Manifest => manifest::run(data),
            Target::Image => image::run(data),
            Target::Device => device::run(data),
            Target::Trace => trace::run(data),
        }
        1
    }
}

/// No target has this name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NoTarget(String);

impl fmt::Display for NoTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no target `{}`; there are {}", self.0, Target::ALL.map(Target::name).join(", "))
    }
}

impl std::error::Error for NoTarget {}

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(name: &str) -> Result<Target, NoTarget> {
        Target::ALL.into_iter().find(|target| target.name() == name).ok_or_else(|| NoTarget(name.to_owned()))
    }
}
