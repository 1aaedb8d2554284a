//! The pulse of a kernel while it runs: its time, and the threads that have ended.
//!
//! Not here: the memory of a system that stands (`look`), and the ends of runs (`ends`).

use anyhow::Result;

use crate::build::KERNEL_OFFSET;
use crate::look::{Look, Objects, STOPPED};
use crate::qemu::GuestMemory;
use crate::typed::{Static, Types};

/// The pulse of a kernel. The kernel may be about to write the words that are read, so one look shows no more than that time goes on, and that a thread has
/// ended for good.
pub struct Pulse<'a> {
    types: &'a Types,
    /// The places of the thread, of the instant until which time is booked, and of the setting of the timer, for each CPU of the kernel.
    cpus: Vec<[Static; 3]>,
    /// The places of the threads' states.
    threads: Vec<Static>,
    stopping: Static,
}

impl Pulse<'_> {
    fn bytes(memory: &GuestMemory, of: Static) -> Option<Vec<u8>> {
        memory.read(of.address - KERNEL_OFFSET, of.bytes).ok()
    }

    /// The bits of a value, of which all are zero if it is an `Option` of an id that is `None`.
    fn number(memory: &GuestMemory, of: Static) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..of.bytes)?.copy_from_slice(&Pulse::bytes(memory, of)?);
        Some(u64::from_le_bytes(word))
    }

    /// The latest instant that the kernel has come to; and the next at which it wants to be woken, if all of its CPUs are idle. Nanoseconds. `None`: the
    /// memory cannot be read.
    #[must_use]
    pub fn read(&self, memory: &GuestMemory) -> Option<(u64, Option<u64>)> {
        let number = |of: Static| Pulse::number(memory, of);
        let (mut latest, mut next) = (0, Some(u64::MAX));
        for [current, mark, armed] in &self.cpus {
            latest = latest.max(number(*mark)?);
            next =
                next.filter(|_| number(*current) == Some(0)).zip(number(*armed)).map(|(next, armed)| next.min(armed));
        }
        Some((latest, next))
    }

    /// Whether a task has ended. `None`: its state cannot be read.
    #[must_use]
    pub fn has_ended(&self, memory: &GuestMemory, task: usize) -> Option<bool> {
        let state = *self.threads.get(task)?;
        let (name, _) = self.types.value(state, "state", &Pulse::bytes(memory, state)?).ok()?.variant().ok()?;
        Some(name == STOPPED)
    }

    /// Whether the kernel has panicked.
    #[must_use]
    pub fn has_panicked(&self, memory: &GuestMemory) -> Option<bool> {
        Pulse::number(memory, self.stopping).map(|number| number != 0)
    }
}

impl Look<'_> {
    /// How the kernel is looked at while it runs.
    ///
    /// # Errors
    /// The kernel lacks one of its objects.
    pub fn pulse(&self) -> Result<Pulse<'_>> {
        let whole = vec![0; self.state.bytes];
        let kernel = self.types.value(self.state, "STATE", &whole)?.field("value.kernel")?;
        let objects = Objects { look: self, kernel };
        let cpu = |number: usize| {
            let cpu = objects.kernel.field("cpus")?.element(number)?;
            let place = |field: &str| anyhow::Ok(cpu.field(field)?.static_in(self.state, &whole));
            Ok([place("current")?, place("mark")?, place("armed")?])
        };
        let cpus = (0..self.system.cpus as usize).map(cpu).collect::<Result<_>>()?;
        let thread = |index| Ok(objects.object("threads", index)?.field("state")?.static_in(self.state, &whole));
        let threads = (0..self.system.tasks.len()).map(thread).collect::<Result<_>>()?;
        Ok(Pulse { types: &self.types, cpus, threads, stopping: self.stopping })
    }
}
