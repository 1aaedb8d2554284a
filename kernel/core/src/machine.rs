//! The only door from the kernel to hardware.
//!
//! `kernel/aarch64` opens it onto a board, `tools/simulator` onto virtual time on the host. Everything the
//! kernel decides that is not one of these calls goes out as an [`Outcome`](crate::Outcome).

use fusee_abi::call::{FIRST_WORD, MESSAGE_WORDS, page};
use fusee_abi::trace::{Level, Record};
use fusee_sched::time::{Instant, Nanoseconds};

use crate::Fault;
use crate::id::{EngineId, EngineUserId, InterruptId, NotificationId, RegionId, ThreadId};

/// The registers of a thread, as its last trap left them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Registers {
    /// `x0` to `x30`.
    pub general: [u64; 31],
    /// `SP_EL0`.
    pub stack: u64,
    /// `ELR_EL1`: the next instruction.
    pub program_counter: u64,
    /// `SPSR_EL1`.
    pub state: u64,
}

impl Registers {
    /// All zero.
    pub const EMPTY: Registers = Registers { general: [0; 31], stack: 0, program_counter: 0, state: 0 };
}

/// The mapping at a *place*: the addresses of a task at which a region appears while another task lends it to this one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Place {
    /// No page: an access faults. Each place begins so at boot.
    Empty,
    /// The lent region.
    Lent {
        /// Whether the task may store to the region, if the place allows it at all.
        writable: bool,
    },
    /// Memory of the task's own, instead of a region that was taken back while the task was at work on it.
    Scratch,
}

/// Content of the place of a member's doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Page {
    /// No page.
    Absent,
    /// The doorbell, to be read.
    ReadOnly,
    /// The doorbell, to be read and stored to.
    Open,
    /// The *shadow* of the doorbell: a page of memory that no device looks at and that the sharer has, too.
    Shadow,
}

impl Page {
    /// The page with this number, one of [`page`].
    #[must_use]
    pub fn of(number: u64) -> Option<Page> {
        match number {
            page::ABSENT => Some(Page::Absent),
            page::READ_ONLY => Some(Page::ReadOnly),
            page::OPEN => Some(Page::Open),
            page::SHADOW => Some(Page::Shadow),
            _ => None,
        }
    }
}

/// A store to the doorbell of a member.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The engine.
    pub engine: EngineId,
    /// The member's place among all members of all engines.
    pub place: u16,
    /// The word that was to be stored.
    pub value: u32,
    /// Whether another CPU has meanwhile let the member store.
    pub is_allowed: bool,
}

/// Members of one engine, which have numbers that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    /// Number of the engine's first member, among all members of all engines.
    pub first: u16,
    /// Members of the engine, a bit each, from the first on.
    pub set: u16,
}

impl Members {
    /// The numbers of these members, among all members of all engines.
    pub fn each(self) -> impl Iterator<Item = usize> {
        let mut left = self.set;
        core::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < u16::BITS).then(|| usize::from(self.first) + bit as usize)
        })
    }
}

/// Services that the kernel asks of hardware.
pub trait Machine {
    /// Level of the trace. The level is decided when the kernel is built, so that it pays nothing for higher levels. Traps
    /// are for the machine to trace ([`Level::Full`]): they begin before the kernel is entered.
    const TRACE: Level;

    /// The time now.
    fn now(&mut self) -> Instant;

    /// The registers of `thread`. The kernel touches only those of the trapping thread and of threads that
    /// are `off`.
    fn registers(&mut self, thread: ThreadId) -> &mut Registers;

    /// Copies the message words of `from` to `to`.
    #[inline]
    fn copy_message(&mut self, from: ThreadId, to: ThreadId) {
        let mut words = [0; MESSAGE_WORDS];
        words.copy_from_slice(&self.registers(from).general[FIRST_WORD..FIRST_WORD + MESSAGE_WORDS]);
        self.registers(to).general[FIRST_WORD..FIRST_WORD + MESSAGE_WORDS].copy_from_slice(&words);
    }

    /// Maps the doorbell page of this engine user into its task. Its page slot was provided at boot: this
    /// cannot fail.
    fn map_doorbell(&mut self, user: EngineUserId);

    /// Unmaps the doorbell page and invalidates it on every CPU; returns when no store through it can
    /// still be on its way.
    fn unmap_doorbell(&mut self, user: EngineUserId);

    /// Puts memory of the task's own in the place of its doorbell page, which was mapped; returns when no store to that page
    /// can still be on its way. [`Machine::unmap_doorbell`] takes this memory away, and must be called before the page is
    /// mapped again. The task recognizes the memory by a word in it (`fusee_abi::environment::LOST_WORD`). Cannot fail: the
    /// memory was provided at boot.
    fn replace_doorbell(&mut self, user: EngineUserId);

    /// Reads the idle probe: has the device seen and retired every command that `user` submitted to its engine? The doorbell page is
    /// unmapped, or `user` is the thread that trapped; so if the answer is yes, it stays so until the next grant to `user`.
    fn engine_is_idle(&mut self, user: EngineUserId) -> bool;

    /// Opens the gate of this engine and kicks its device, or shuts the gate; returns when the device can see that.
    fn set_gate(&mut self, _engine: EngineId, _open: bool) {}

    /// Reads whether as many shared commands have ended as have begun on this engine, whose gate is shut. If the answer is
    /// yes, it stays so until the gate is opened.
    fn is_shared_idle(&mut self, _engine: EngineId) -> bool {
        true
    }

    /// Stores the key of a job for the device that decides on the engine of `user`. With `rouse` the device also looks at all
    /// keys, and reports the time that each user has occupied.
    fn set_engine_key(&mut self, _user: EngineUserId, _key: u64, _rouse: bool) {}

    /// Reads the time for which `user` has occupied its engine in all, as the deciding device reported when it looked last.
    /// If the engine is idle, the report is complete.
    fn occupied(&mut self, _user: EngineUserId) -> Nanoseconds {
        Nanoseconds::ZERO
    }

    /// The store that `fault` of `thread` is, if it stores a word to the doorbell of a member, and the kernel can tell that
    /// word. See the module `stores`.
    fn doorbell_store(&mut self, _thread: ThreadId, _fault: &Fault) -> Option<Store> {
        None
    }

    /// Puts `page` in the place of the doorbells of these members; returns when no store that it forbids can still be on its way. Cannot fail: the
    /// pages' slots were provided at boot.
    fn set_doorbells(&mut self, _members: Members, _page: Page) {}

    /// Maps pages `first..first + count` of a region into `thread`'s task, or unmaps them.
    fn set_region_pages(&mut self, thread: ThreadId, region: RegionId, first: u64, count: u64, mapped: bool);

    /// Whether a device may reach its memory, for a region of registers of a device with translated addresses and the driver
    /// `thread`; a `value` of one or zero changes that, any other changes nothing. For the region of DMA faults: the result
    /// of [`Call::Dma`](fusee_abi::call::Call::Dma). `None`: the region is neither.
    fn set_dma(&mut self, _thread: ThreadId, _region: RegionId, _value: u64) -> Option<u64> {
        None
    }

    /// Changes the content of the place for `region` in `thread`'s task; returns when no access to the content before can
    /// still be on its way. The thread may be running on another CPU. Constant time, and cannot fail: all tables were
    /// provided at boot.
    fn set_place(&mut self, thread: ThreadId, region: RegionId, place: Place);

    /// Whether `fault` of `thread` hit the moment between two mappings of a place, while another CPU changed it: then the
    /// same access succeeds now.
    fn has_passed(&mut self, thread: ThreadId, fault: &Fault) -> bool;

    /// Makes every address of `thread`'s task invalid, for good, on every CPU; returns when no access through one can
    /// still be on its way. The thread may be running on another CPU. Constant time.
    fn close_space(&mut self, thread: ThreadId);

    /// Makes the addresses of `thread`'s task, which were closed, valid again as they were mapped then, and sets its registers as at boot. The thread is on
    /// no CPU. Constant time.
    fn open_space(&mut self, thread: ThreadId);

    /// Lets an interrupt line fire, or keeps it from firing.
    fn set_interrupt_enabled(&mut self, interrupt: InterruptId, enabled: bool);

    /// Whether devices are kicked by a call, a signal to a notification that [`Machine::kick`] knows. Without such devices,
    /// no path asks.
    const KICKS: bool = false;

    /// Interrupts the CPU that plays accelerators, if `notification` stands for it. Returns whether it does.
    fn kick(&mut self, _notification: NotificationId) -> bool {
        false
    }

    /// Keeps one trace record.
    fn trace(&mut self, record: Record);

    /// Ends the system as a panic of the kernel does, with the message `why`. The ledgers are already traced. Does not come
    /// back where there is a machine to end.
    fn give_up(&mut self, why: &'static str);

    /// Ends the system with an exit code, once the current trap is done. The ledgers are already traced.
    fn shutdown(&mut self, code: u32);
}

/// [`Machine::kick`] of a call that found the kernel busy.
#[cold]
#[inline(never)]
pub(crate) fn late_kick<M: Machine>(machine: &mut M, notification: NotificationId) -> bool {
    machine.kick(notification)
}
