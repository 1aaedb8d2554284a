//! The times of blocks of GPU kernels whose authors do not know them: a file beside the manifest, which a run that measures writes.
//!
//! Not here: the use of a kernel's time by an engine (`qemu/device-model`).

use std::fmt::Write;
use std::path::Path;

use fusee_accel_contract::{KERNELS, timing};
use serde::Deserialize;

use crate::quantity::Time;

/// The measurements of the kernels of a device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TimeTable {
    /// Percent that are added to the measured times.
    pub margin: u32,
    /// The measurements, by kernel and class.
    #[serde(default)]
    pub kernels: Vec<KernelTime>,
}

/// The measurements of the launches of a kernel that are of one class.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct KernelTime {
    /// The kernel's name.
    pub name: String,
    /// The number by which launches name the kernel.
    pub identity: u32,
    /// The class.
    pub class: u32,
    /// The number of measured launches.
    pub launches: u32,
    /// The longest that a block ran for.
    pub longest: Time,
}

/// Percent, where the file has no other margin.
const MARGIN: u32 = 25;
/// Percent at most: ten times the measured time.
const MARGIN_MAX: u32 = 900;

impl Default for TimeTable {
    fn default() -> Self {
        Self { margin: MARGIN, kernels: Vec::new() }
    }
}

impl TimeTable {
    /// Reads the file of such a table.
    ///
    /// # Errors
    /// The mistake in the file, in words.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    /// Reads `text`.
    ///
    /// # Errors
    /// The mistake in the text, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: Self = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        if table.margin > MARGIN_MAX {
            return Err(format!("a margin of {} %, and the largest is {MARGIN_MAX}", table.margin));
        }
        if table.kernels.len() > KERNELS {
            return Err(format!("{} classes, and a device has room for {KERNELS}", table.kernels.len()));
        }
        Ok(table)
    }

    /// Takes over new measurements: in place of entries with their kernel and class, or of a kernel of that name that is no more.
    pub fn update(&mut self, measured: Vec<KernelTime>) {
        let is_new = |old: &KernelTime| {
            measured.iter().any(|new| {
                (new.name == old.name && new.identity != old.identity)
                    || (new.identity, new.class) == (old.identity, old.class)
            })
        };
        self.kernels.retain(|old| !is_new(old));
        self.kernels.extend(measured);
        self.kernels.sort_by(|one, other| (&one.name, one.class).cmp(&(&other.name, other.class)));
    }

    /// Nanoseconds that the device takes for a block of this class: eight times the instructions of an emulated engine, and the
    /// margin.
    #[must_use]
    pub fn block(&self, kernel: &KernelTime) -> u64 {
        let whole = u128::from(kernel.longest.0) * u128::from(timing::INSTRUCTION) * u128::from(100 + self.margin);
        u64::try_from(whole.div_ceil(100)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds that a launch of so many blocks of kernel `name` takes at most, with the time to start it: of one class, or of
    /// the longest that was measured. `None`: nothing was.
    #[must_use]
    pub fn launch(&self, name: &str, class: Option<u32>, blocks: u32) -> Option<u64> {
        let all = self.kernels.iter().filter(|kernel| kernel.name == name);
        let those = all.filter(|kernel| class.is_none_or(|class| kernel.class == class));
        let longest = those.map(|kernel| self.block(kernel)).max()?;
        Some(longest.saturating_mul(blocks.into()).saturating_add(timing::EXECUTION_SETUP))
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "# How long blocks of kernels ran for at most, of those whose authors do not know: written by `cargo xtask run --measure`.\n\
             # An emulated engine executes an instruction in a nanosecond; a block is taken to take eight times as long as it ran, and the margin, in\n\
             # percent, which may be changed here.\n\
             margin = {}\n",
            self.margin
        );
        for KernelTime { name, identity, class, launches, longest: Time(longest) } in &self.kernels {
            let _ = write!(
                text,
                "\n[[kernels]]\nname = {name:?}\nidentity = {identity:#010x}\nclass = {class}\nlaunches = {launches}\nlongest = \"{longest}ns\"\n"
            );
        }
        text
    }
}
