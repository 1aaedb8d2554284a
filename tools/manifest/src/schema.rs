//! The manifest as it is written: one struct per kind of table. Each can be written again ([`crate::Manifest::expanded`]).
//!
//! Nothing here is checked beyond its type; `resolve.rs` does that. Every name and every value that a
//! check may complain about carries its place in the file.

mod devices;
mod graphs;
mod locks;
mod objects;
mod tasks;

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use crate::board::DeviceKind;
pub use crate::board::DeviceQemu;
use crate::quantity::{Bytes, Time};

pub use devices::*;
pub use graphs::*;
pub use locks::*;
pub use objects::*;
pub use tasks::*;

/// Named tables in the order of the file.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(Spanned<String>, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table called `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    /// Adds a table where the place of its name is in the order of the file.
    pub fn insert(&mut self, name: Spanned<String>, value: T) {
        let at = self.0.partition_point(|(other, _)| other.span().start <= name.span().start);
        self.0.insert(at, (name, value));
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name.get_ref(), value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamedVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("named tables")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut entries: Vec<(Spanned<String>, T)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                entries.sort_by_key(|(name, _)| name.span().start);
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(NamedVisitor(PhantomData))
    }
}

/// A whole manifest.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub system: System,
    #[serde(default, skip_serializing_if = "OwnBoard::is_empty")]
    pub board: OwnBoard,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub clusters: Named<Cluster>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub tasks: Named<Task>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub endpoints: Named<Endpoint>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub notifications: Named<Notification>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub interrupts: Named<Interrupt>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub regions: Named<Region>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub devices: Named<Device>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub engines: Named<Engine>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub groups: Named<Group>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub graphs: Named<Graph>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub pools: Named<Pool>,
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub buses: Named<Bus>,
    pub supervisor: Option<Supervisor>,
    pub test: Option<Test>,
    /// Times of kernels are measured: the values in files are not needed.
    #[serde(skip)]
    pub measures: bool,
}

/// The system itself: its name, its board, its CPUs, and rules for all of its tasks.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    pub name: Spanned<String>,
    /// The addition to the name for runs of another policy or other clusters.
    #[serde(skip)]
    pub variant: String,
    pub board: Spanned<String>,
    pub cpus: Spanned<u32>,
    pub start: Option<Spanned<Time>>,
    /// The end of the run: a task that sleeps until then, and shuts the system down.
    pub end: Option<Spanned<End>>,
    /// Policy of the clusters that name none.
    pub policy: Option<Spanned<String>>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub managed: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub trace: Trace,
    #[serde(default, skip_serializing_if = "is_default")]
    pub admission: Admission,
    pub panic: Option<Spanned<Panic>>,
    /// Whether the kernel prints each step of its start on the serial line, and its trace after the end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub speaks: bool,
    /// The distances between devices: percent of the time over a near way.
    pub distance: Option<Spanned<Vec<Vec<Spanned<u32>>>>>,
}

/// The additions of a project to the file of its board.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnBoard {
    /// Devices that the file does not have.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub devices: Named<OwnDevice>,
    /// The system is built for another board than the manifest's.
    #[serde(skip)]
    pub is_elsewhere: bool,
}

impl OwnBoard {
    /// Whether nothing is added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

/// A device of the board.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnDevice {
    /// The kind that its driver knows.
    pub kind: Spanned<DeviceKind>,
    /// The physical address at which its registers begin.
    pub at: Spanned<u64>,
    /// The length of its registers.
    pub bytes: Spanned<Bytes>,
    /// The number of its interrupt.
    pub line: Option<Spanned<u32>>,
    /// The number by which the SMMU knows it.
    pub stream: Option<Spanned<u32>>,
    /// Whether a device of the kind `other` reads and writes memory.
    pub masters_memory: Option<Spanned<bool>>,
    /// QEMU's options, if the emulated board does not have the device always.
    pub qemu: Option<Spanned<DeviceQemu>>,
}

/// The instant at which a system ends: a time, or a table.
#[derive(Clone, Debug, Serialize)]
pub struct End(pub EndTask);

/// The instant, and the reservation of the task that ends the system.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndTask {
    /// From the release of the task until the end.
    pub after: Time,
    /// The cluster of the task.
    pub cluster: Option<Spanned<String>>,
    /// Without a period the task is a service.
    pub period: Option<Spanned<Time>>,
    pub deadline: Option<Spanned<Time>>,
    pub budget: Option<Spanned<Time>>,
    pub suspends: Option<Spanned<Time>>,
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EndVisitor;
        impl<'de> Visitor<'de> for EndVisitor {
            type Value = End;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as \"10ms\" (ns, us, ms, s), or { after = \"10ms\", cluster = \"NAME\" }")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<End, E> {
                let after = Time::deserialize(StrDeserializer::new(text))?;
                Ok(End(EndTask { after, ..EndTask::default() }))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<End, A::Error> {
                EndTask::deserialize(MapAccessDeserializer::new(map)).map(End)
            }
        }
        deserializer.deserialize_any(EndVisitor)
    }
}

/// The events that the kernel keeps in its trace.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trace {
    /// No events.
    Off,
    /// The events by which a run is judged.
    Marks,
    /// Each decision.
    #[default]
    Schedule,
    /// Each trap, too.
    Full,
}

/// The behaviour of a kernel after a panic and its message.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Panic {
    /// The kernel ends the emulator, or switches the board off.
    #[default]
    End,
    /// The kernel stays where it is, for a debugger.
    Halt,
    /// The kernel resets the board.
    Reset,
}

/// The treatment of a system whose deadlines do not hold.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// The system is not packed.
    #[default]
    Refuse,
    /// The system is packed, with a warning.
    Warn,
}

/// CPUs that share one queue of jobs, with their policy.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub cpus: Vec<Spanned<u32>>,
    pub policy: Option<Spanned<String>>,
}

/// The expectations of `cargo xtask test` on the system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    #[serde(default = "det_only")]
    pub profiles: Vec<Profile>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Spanned<String>>,
    /// The faults come in an order that depends on the board.
    #[serde(default, skip_serializing_if = "is_default")]
    pub faults_in_any_order: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_misses: Vec<Spanned<String>>,
    /// The complaints of `cargo xtask run`.
    pub verdict: Option<Vec<String>>,
    /// Tasks from which watchdogs take engines. They take none from others.
    pub taken: Option<Vec<Spanned<String>>>,
    pub seconds: Option<u64>,
    /// The text typed at the board's serial line.
    pub input: Option<String>,
    /// The expected picture on the screen when the console reports that the picture stands.
    pub screenshot: Option<String>,
    /// The button for power is pressed again and again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub power_button: bool,
    /// The number of bytes that the host sends to the system's port 7, and expects back.
    pub echo: Option<usize>,
    /// The expected files on the volume of the disk, after the run.
    pub files: Option<String>,
    /// The package of a program that judges the results of a run.
    pub judge: Option<String>,
    /// Run it on a kernel that checks all its invariants after every trap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub self_check: bool,
    /// A second run does the same, to the record.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeatable: bool,
    /// The test runs long: only if it is named whole.
    #[serde(default, skip_serializing_if = "is_default")]
    pub campaign: bool,
    /// The longest turn of an emulated CPU.
    pub turns: Option<Spanned<Time>>,
    /// Kernels of accelerators run for an eighth of their declared time, at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eighth: bool,
    /// Conformance systems: the policies and the clusters to run it with; each combination is a system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Spanned<String>>,
    /// The golden trace has the CPUs on which tasks run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub places: bool,
    /// Tasks whose longest response times are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<Spanned<String>>,
}

/// How QEMU runs a system.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Instructions are counted: exact and repeatable.
    Det,
    /// Host threads: races and stress.
    Par,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn det_only() -> Vec<Profile> {
    vec![Profile::Det]
}
