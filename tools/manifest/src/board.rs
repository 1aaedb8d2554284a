//! Boards: memory maps and ways to run them, from `qemu/profiles/*.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::quantity::Bytes;
use crate::schema::Profile;

/// One board. The key words are explained in `qemu/profiles/virt.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Where memory lies.
    pub memory: Memory,
    /// Devices that are the kernel's alone.
    pub owned: Vec<Owned>,
    /// How the accelerator is kicked.
    pub kick: Kick,
    /// What every run of QEMU is given.
    pub qemu: Qemu,
    /// What the runs of one profile are given.
    pub profiles: BTreeMap<Profile, QemuProfile>,
}

/// Where memory lies. Physical addresses and lengths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Start of RAM.
    pub base: u64,
    /// Length of RAM.
    pub bytes: Bytes,
    /// Where the raw kernel image is loaded.
    pub kernel: u64,
    /// Where kernel image and packed system must have ended.
    pub kernel_end: u64,
    /// Where the engine firmware is linked; its description block is the page below.
    pub firmware: u64,
    /// Room for the firmware.
    pub firmware_bytes: Bytes,
    /// Memory of tasks and of the accelerator.
    pub pool: u64,
    /// Length of it.
    pub pool_bytes: Bytes,
}

/// A device that is the kernel's alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// What it is.
    pub name: String,
    /// Its first physical address.
    pub from: u64,
    /// The first after it.
    pub to: u64,
}

/// How the accelerator is kicked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kick {
    /// The page a client stores to.
    pub page: u64,
}

/// What every run of QEMU is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qemu {
    /// The machine and its properties.
    pub machine: String,
    /// Arguments.
    pub arguments: Vec<String>,
}

/// What the runs of one profile are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QemuProfile {
    /// Distance between the CPUs in use.
    pub cpu_stride: u32,
    /// CPUs of the machine, at least.
    pub smp: u32,
    /// Arguments; `{quantum}` stands for virtual microseconds.
    pub arguments: Vec<String>,
}

impl Board {
    /// The boards there are.
    pub const NAMES: [&str; 1] = ["virt"];

    /// The board called `name`, if there is one.
    ///
    /// # Panics
    /// If a board of this repository is written wrongly; a test reads them all.
    #[must_use]
    pub fn named(name: &str) -> Option<Board> {
        let text = match name {
            "virt" => include_str!("../../../qemu/profiles/virt.toml"),
            _ => return None,
        };
        Some(toml::from_str(text).unwrap_or_else(|error| panic!("qemu/profiles/{name}.toml: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel knows by itself which devices are its own; the tool must refuse the same.
    #[test]
    fn the_tool_and_the_kernel_own_the_same_devices() {
        let kernel = include_str!("../../../bsp/src/virt.rs");
        let board = Board::named("virt").unwrap();
        let named = kernel.lines().filter(|line| line.trim_start().starts_with("(\"")).count();
        assert_eq!(named, board.owned.len());
        for device in &board.owned {
            assert!(kernel.contains(&format!("(\"{}\", ", device.name)), "{}", device.name);
        }
        let constant = |name: &str| {
            let (_, rest) = kernel.split_once(&format!("pub const {name}: u64 = 0x")).unwrap();
            let digits = rest.split(';').next().unwrap().replace('_', "");
            u64::from_str_radix(&digits, 16).unwrap()
        };
        let its = constant("ITS");
        let ranges = [(constant("GIC_DISTRIBUTOR"), its), (its, its + 0x1_0000), (its + 0x1_1000, constant("UART"))];
        assert_eq!(board.owned.iter().map(|device| (device.from, device.to)).collect::<Vec<_>>(), ranges);
        assert_eq!(board.kick.page, its + 0x1_0000);
        assert!(constant("GIC_REDISTRIBUTORS") >= ranges[2].0);
    }

    #[test]
    fn the_board_is_read_and_its_memory_does_not_overlap() {
        let Memory { base, bytes, kernel, kernel_end, firmware, firmware_bytes, pool, pool_bytes } =
            Board::named("virt").unwrap().memory;
        let places = [base, kernel, kernel_end, firmware, firmware + firmware_bytes.0, pool, pool + pool_bytes.0];
        assert!(places.is_sorted() && pool + pool_bytes.0 <= base + bytes.0);
        assert!(Board::named("toaster").is_none() && Board::NAMES.iter().all(|name| Board::named(name).is_some()));
    }
}
