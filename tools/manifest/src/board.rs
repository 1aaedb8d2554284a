//! Boards: where things are and how QEMU runs them, from `bsp/boards/*.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fusee_abi::environment::device;
use serde::{Deserialize, Serialize};

use crate::quantity::Bytes;
use crate::schema::Profile;

/// One board. The key words are explained in `bsp/boards/virt.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// The name of the board.
    #[serde(skip)]
    pub name: String,
    /// The `compatible` string in a device tree of this board.
    pub tree: Option<String>,
    /// The place of memory.
    pub memory: Memory,
    /// Devices that are the kernel's alone.
    pub owned: Vec<Owned>,
    /// The physical addresses that are devices.
    pub windows: Windows,
    /// The interrupt controller.
    pub controller: Controller,
    /// The SMMU through which devices reach memory.
    pub smmu: Option<Smmu>,
    /// Interrupts of timers.
    pub timer: Timer,
    /// The device on which a panic is printed.
    pub console: Console,
    /// CPUs.
    pub cpus: Cpus,
    /// A watchdog by which the kernel resets the board, if its firmware does not: the first physical address of a BCM2835's power management.
    pub watchdog: Option<u64>,
    /// The longest path of the kernel on the board itself, in nanoseconds, if it was measured there. In QEMU's `det` an instruction is a
    /// nanosecond, and nowhere else.
    pub longest_path: Option<u64>,
    /// Devices that manifests name.
    #[serde(default)]
    pub devices: BTreeMap<String, BoardDevice>,
    /// The page by which the accelerator is kicked; without it, a call does that.
    pub kick: Option<Kick>,
    /// The arguments of every run of QEMU.
    pub qemu: Qemu,
    /// The arguments of the runs of each profile.
    pub profiles: BTreeMap<Profile, QemuProfile>,
}

/// The place of memory. Physical addresses and lengths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Start of RAM.
    pub base: u64,
    /// Length of the RAM that may be used.
    pub bytes: Bytes,
    /// Length of all RAM, as QEMU has it, if that is more.
    pub ram: Option<Bytes>,
    /// The address to which the raw kernel image is loaded.
    pub kernel: u64,
    /// The address before which kernel image and packed system must have ended.
    pub kernel_end: u64,
    /// The address to which the engine firmware is linked; its description block is the page below.
    pub firmware: u64,
    /// Room for the firmware.
    pub firmware_bytes: Bytes,
    /// Memory of tasks and of the accelerator.
    pub pool: u64,
    /// Length of it.
    pub pool_bytes: Bytes,
}

/// A range of physical addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// The first.
    pub from: u64,
    /// The first after it.
    pub to: u64,
}

/// The interrupt controller: its kind and its physical addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// The kind of the controller.
    pub kind: ControllerKind,
    /// The registers that are common to all CPUs.
    pub distributor: u64,
    /// The registers that each CPU has for itself: the address of the first CPU's.
    pub cpu: u64,
    /// The interrupt translation service.
    pub its: Option<u64>,
}

/// An SMMUv3.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smmu {
    /// The first physical address of the SMMU.
    pub at: u64,
    /// The interrupt of the SMMU for accesses that it refused.
    pub line: u32,
    /// The arguments of QEMU if a system has a device behind the SMMU.
    pub qemu: DeviceQemu,
}

/// The kind of the interrupt controller.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ControllerKind {
    /// GICv3, of which CPUs have system registers.
    Gicv3,
    /// GICv2: lines below 1020, eight CPUs.
    Gicv2,
    /// BCM2836 and BCM2835: lines 32 to 95, all to one CPU, none triggered by edges.
    Bcm2836,
}

/// Interrupts of each CPU's timers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timer {
    /// The kernel's.
    pub r#virtual: u32,
    /// The timer with which the kernel naps.
    pub physical: u32,
}

/// The device on which a panic is printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Console {
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The physical address of the device.
    pub at: u64,
}

/// The board's CPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpus {
    /// The number of CPUs.
    pub count: u32,
    /// Numbers of Arm's errata that the compiler and the linker keep away from: 835769, 843419.
    #[serde(default)]
    pub errata: Vec<u32>,
    /// The number of them that share an affinity 1.
    pub per_cluster: u32,
    /// The method by which all but the first are started.
    pub start: Start,
    /// The method by which the firmware is called, if that starts them.
    pub conduit: Option<Conduit>,
    /// The place where they wait, if they are not started by the firmware: the physical address of the word of the first one.
    pub release: Option<u64>,
}

/// The methods by which CPUs are started.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The firmware starts them.
    Psci,
    /// An address in a table starts them.
    SpinTable,
}

/// The methods by which the firmware is called.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Conduit {
    /// The method in the device tree.
    Tree,
    /// The instruction `smc`.
    Smc,
    /// The instruction `hvc`.
    Hvc,
}

/// A device that manifests name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardDevice {
    /// The kind of the device, which its driver needs.
    pub kind: DeviceKind,
    /// The first physical address of the device.
    pub at: u64,
    /// The bytes of its registers, in whole pages.
    pub bytes: Bytes,
    /// The interrupt of the device, if it has one.
    pub line: Option<u32>,
    /// The number by which the SMMU knows it, if its addresses are translated.
    pub stream: Option<u32>,
    /// The first physical address of a processor's own memory, where it begins.
    pub memory: Option<u64>,
    /// The bytes of that memory.
    pub memory_bytes: Option<Bytes>,
    /// Whether its driver can make it the engine of an accelerator, as a processor can be one.
    #[serde(default)]
    pub engine: bool,
    /// Whether it has a screen, of which QEMU makes pictures.
    #[serde(default)]
    pub screen: bool,
    /// Whether a device of another kind than the known ones reads and writes memory by addresses that its driver chooses. Nobody knows unless this says
    /// so, and then it is taken to.
    pub masters_memory: Option<bool>,
    /// The arguments of QEMU if a system has the device, unless it is always there.
    pub qemu: Option<DeviceQemu>,
}

/// The arguments with which QEMU has a device.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceQemu {
    /// Options, each with its value; `{file}` stands for the file that is behind the device. Devices may share an option.
    pub arguments: Vec<String>,
    /// Length of that file, which is made for each run, full of zeros.
    pub bytes: Option<Bytes>,
}

/// The kinds of devices.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// Arm's serial line.
    Pl011,
    /// Cadence's.
    Cadence,
    /// A processor, Cortex-R5F: the registers that hold and release it.
    R5f,
    /// A channel of Xilinx's DMA controller.
    Zdma,
    /// A slot for a virtio device, its registers in memory.
    VirtioMmio,
    /// Arm's general purpose lines.
    Pl061,
    /// Arm's real-time clock.
    Pl031,
    /// QEMU's device for teaching.
    Edu,
    /// The configuration space of a function on PCI.
    Pci,
    /// A CAN controller of Xilinx's ZynqMP.
    ZynqmpCan,
    /// Any other device: only its driver knows it.
    Other,
}

impl DeviceKind {
    /// The number by which a driver knows it: `abi::environment::device`.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            DeviceKind::Pl011 => device::PL011,
            DeviceKind::Cadence => device::CADENCE,
            DeviceKind::R5f => device::R5F,
            DeviceKind::Zdma => device::ZDMA,
            DeviceKind::VirtioMmio => device::VIRTIO,
            DeviceKind::Pl061 => device::PL061,
            DeviceKind::Pl031 => device::PL031,
            DeviceKind::Edu => device::EDU,
            DeviceKind::Pci => device::PCI,
            DeviceKind::ZynqmpCan => device::ZYNQMP_CAN,
            DeviceKind::Other => 0,
        }
    }

    /// Whether the device may raise its line by itself. Serial lines and general purpose lines need a cause outside the board.
    #[must_use]
    pub fn acts_alone(self) -> bool {
        !matches!(self, DeviceKind::Pl011 | DeviceKind::Cadence | DeviceKind::Pl061)
    }
}

impl BoardDevice {
    /// Whether the device reads and writes memory by addresses that its driver chooses. Unless an SMMU translates them
    /// ([`BoardDevice::stream`]), the driver of such a device reaches all memory.
    #[must_use]
    pub fn masters_memory(&self) -> bool {
        match self.kind {
            DeviceKind::VirtioMmio | DeviceKind::R5f | DeviceKind::Zdma | DeviceKind::Edu => true,
            DeviceKind::Pl011 | DeviceKind::Cadence | DeviceKind::Pl061 | DeviceKind::Pl031 => false,
            DeviceKind::ZynqmpCan => false,
            // The device that it enables is another one, with registers of its own.
            DeviceKind::Pci => false,
            DeviceKind::Other => self.masters_memory.unwrap_or(true),
        }
    }
}

/// A device that is the kernel's alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// The name of the window.
    pub name: String,
    /// The first physical address of the window.
    pub from: u64,
    /// The first after it.
    pub to: u64,
}

/// The kick of the accelerator, by a store to a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kick {
    /// The page a client stores to.
    pub page: u64,
}

/// The arguments of every run of QEMU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qemu {
    /// The machine and its properties.
    pub machine: String,
    /// The first version that has the machine, if that is not the first that can be used at all.
    pub since: Option<u32>,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Arguments for a second serial port, for the trace; `{file}` stands for where it goes.
    pub stream: Vec<String>,
}

/// The arguments of the runs of one profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QemuProfile {
    /// Distance between the CPUs in use.
    pub cpu_stride: u32,
    /// The settings that let a run use all CPUs, for systems that need more than these.
    pub fair: Option<Fair>,
    /// CPUs of the machine, at least.
    pub smp: u32,
    /// Arguments; `{quantum}` stands for virtual microseconds.
    pub arguments: Vec<String>,
}

/// A QEMU that lets all CPUs take turns, and none starve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fair {
    /// The first version that does.
    pub since: u32,
    /// Further arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Board {
    /// The boards there are.
    pub const NAMES: [&str; BOARDS.len()] = {
        let mut names = [""; BOARDS.len()];
        let mut index = 0;
        while index < BOARDS.len() {
            names[index] = BOARDS[index].0;
            index += 1;
        }
        names
    };

    /// The board called `name`, if there is one.
    ///
    /// # Panics
    /// If a board of this repository is written wrongly; a test reads them all.
    #[must_use]
    pub fn named(name: &str) -> Option<Board> {
        // Each file is read once: campaigns resolve many systems of one board.
        static READ: [OnceLock<Board>; BOARDS.len()] = [const { OnceLock::new() }; BOARDS.len()];
        let place = BOARDS.iter().position(|(known, _)| *known == name)?;
        let read = || {
            let (name, text) = BOARDS[place];
            let board: Board = toml::from_str(text).unwrap_or_else(|error| panic!("bsp/boards/{name}.toml: {error}"));
            Board { name: name.to_owned(), ..board }
        };
        Some(READ[place].get_or_init(read).clone())
    }

    /// CPUs that a system may have in runs of this profile, the engines' included.
    #[must_use]
    pub fn usable(&self, profile: Profile) -> u32 {
        if self.profiles.get(&profile).is_some_and(|profile| profile.fair.is_some()) {
            return self.cpus.count;
        }
        self.apart(profile)
    }

    /// CPUs that it may have with any QEMU.
    fn apart(&self, profile: Profile) -> u32 {
        let stride = self.profiles.get(&profile).map_or(1, |profile| profile.cpu_stride);
        self.cpus.count.div_ceil(stride)
    }

    /// The settings that a run with so many CPUs needs to use them side by side; `None` if there is room for a distance between
    /// them.
    #[must_use]
    pub fn fair(&self, profile: Profile, cpus: u32) -> Option<&Fair> {
        self.profiles.get(&profile)?.fair.as_ref().filter(|_| cpus > self.apart(profile))
    }

    /// Distance between the CPUs of a run of so many.
    #[must_use]
    pub fn stride(&self, profile: Profile, cpus: u32) -> u32 {
        let stride = self.profiles.get(&profile).map_or(1, |profile| profile.cpu_stride);
        if self.fair(profile, cpus).is_some() { 1 } else { stride }
    }

    /// Bytes of RAM, as QEMU has it.
    #[must_use]
    pub fn ram(&self) -> u64 {
        self.memory.ram.unwrap_or(self.memory.bytes).0
    }
}

/// The boards of this repository, and their files.
const BOARDS: [(&str, &str); 6] = [
    ("virt", include_str!("../../../bsp/boards/virt.toml")),
    ("virt-gicv2", include_str!("../../../bsp/boards/virt-gicv2.toml")),
    ("zcu102", include_str!("../../../bsp/boards/zcu102.toml")),
    ("raspi3b", include_str!("../../../bsp/boards/raspi3b.toml")),
    ("raspi4b", include_str!("../../../bsp/boards/raspi4b.toml")),
    ("versal", include_str!("../../../bsp/boards/versal.toml")),
];
