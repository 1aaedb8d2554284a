//! Kernels on the device: the needs of a launch are checked, and then its blocks run one after the other.
//!
//! Code of a kernel's author is run by the bus ([`Bus::run`]), so that one that panics, fills its stack or does not end costs its own command.
//! Here it gets its limits and its memory.

use core::cell::{Cell, RefCell};

use fusee_accel_contract::{FaultKind, LAUNCH_WORDS, Launch, Memory, PAGE_BYTES, table_index};
use fusee_compute::{Access as Use, Entry, Plan};

use crate::space::{Access, Fault, Space};
use crate::{Bus, BusError};

/// Code of a kernel's author, and the memory that it may touch.
#[derive(Clone, Copy)]
pub struct Job {
    entry: &'static Entry,
    words: [u32; LAUNCH_WORDS],
    what: What,
    space: Space,
    /// The device that runs the job, and the number of the job there.
    pub identity: (u64, u64),
}

#[derive(Clone, Copy)]
enum What {
    Plan { first: u32, blocks: u32 },
    Block(u32),
}

/// The result of a job.
#[derive(Clone, Copy, Debug)]
pub enum Ran {
    /// The job has computed the needs of its launch, unless that is none.
    Planned(Option<Plan>),
    /// The job did its block.
    Done,
    /// The job goes on when it is run again.
    Unfinished,
}

impl Job {
    pub(crate) fn plan(entry: &'static Entry, launch: &Launch, space: Space, identity: (u64, u64)) -> Self {
        let what = What::Plan { first: launch.first, blocks: launch.blocks };
        Self { entry, words: launch.words, what, space, identity }
    }

    pub(crate) fn block(
        entry: &'static Entry,
        launch: &Launch,
        block: u32,
        space: Space,
        identity: (u64, u64),
    ) -> Self {
        Self { entry, words: launch.words, what: What::Block(block), space, identity }
    }

    /// The name of its kernel.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        self.entry.name
    }

    /// Runs it from beginning to end. May panic, not end, or use any depth of stack.
    ///
    /// # Errors
    /// If its memory was not there: the kind, and the device address.
    pub fn run(&self, bus: &mut impl Bus) -> Result<Ran, (FaultKind, u64)> {
        match self.what {
            What::Plan { first, blocks } => {
                Ok(Ran::Planned(self.entry.plan(&self.words, first..first.saturating_add(blocks))))
            }
            What::Block(number) => {
                let memory = Reach {
                    space: self.space,
                    bus: RefCell::new(bus),
                    fault: Cell::new(None),
                    last: Default::default(),
                };
                self.entry.block(&self.words, number, &memory);
                memory.fault.get().map_or(Ok(Ran::Done), |fault| Err((fault.kind, fault.address)))
            }
        }
    }
}

/// Memory as a block reaches it: by the context's table.
struct Reach<'b, B> {
    space: Space,
    bus: RefCell<&'b mut B>,
    /// The first thing that went wrong.
    fault: Cell<Option<Fault>>,
    /// The pages that were read and written last, and where they are.
    last: [Cell<Option<(u64, u64)>>; 2],
}

impl<B: Bus> Reach<'_, B> {
    /// Does something with each piece of these bytes that lies in one page: physical address, offset, and length.
    fn each(
        &self,
        address: u64,
        length: usize,
        access: Access,
        mut act: impl FnMut(&mut B, u64, usize, usize) -> Result<(), BusError>,
    ) {
        if self.fault.get().is_some() {
            return;
        }
        let mut bus = self.bus.borrow_mut();
        let mut done = 0;
        while done < length {
            let at = address + done as u64;
            let piece = (length - done).min((PAGE_BYTES - at % PAGE_BYTES) as usize);
            let page = table_index(at);
            let last = &self.last[usize::from(access == Access::Write)];
            let physical = match last.get().filter(|last| last.0 == page) {
                Some((_, base)) => Ok(base + at % PAGE_BYTES),
                None => self.space.translate(&mut **bus, at, self.space.copy_engines.operands(), access),
            };
            let acted = physical.and_then(|physical| {
                last.set(Some((page, physical - at % PAGE_BYTES)));
                act(&mut bus, physical, done, piece).map_err(|BusError| Fault { kind: FaultKind::Bus, address: at })
            });
            if let Err(fault) = acted {
                self.fault.set(Some(fault));
                return;
            }
            done += piece;
        }
    }
}

impl<B: Bus> fusee_compute::Memory for Reach<'_, B> {
    fn read(&self, address: u64, to: &mut [u8]) {
        let length = to.len();
        self.each(address, length, Access::Read, |bus, physical, done, piece| {
            bus.read(physical, &mut to[done..done + piece])
        });
        if self.fault.get().is_some() {
            to.fill(0);
        }
    }

    fn write(&self, address: u64, from: &[u8]) {
        self.each(address, from.len(), Access::Write, |bus, physical, done, piece| {
            bus.write(physical, &from[done..done + piece])
        });
    }
}

/// Whether a context may use all of these views so, and no view that is written has bytes of another one.
pub(crate) fn check(plan: &Plan, space: &Space, memory: Memory, bus: &mut impl Bus) -> Result<(), Fault> {
    for view in plan.views() {
        let end =
            view.address.checked_add(view.bytes).ok_or(Fault { kind: FaultKind::NotMapped, address: view.address })?;
        let mut at = view.address;
        while at < end {
            if view.access != Use::Write {
                space.translate(bus, at, memory, Access::Read)?;
            }
            if view.access != Use::Read {
                space.translate(bus, at, memory, Access::Write)?;
            }
            at = (at / PAGE_BYTES + 1) * PAGE_BYTES;
        }
    }
    plan.overlap().map_or(Ok(()), |address| Err(Fault { kind: FaultKind::Overlap, address }))
}
