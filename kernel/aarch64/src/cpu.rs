//! The data of one CPU: its kernel stack, and its state.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::{offset_of, size_of};
use core::ptr::NonNull;

use aarch64_cpu::registers::TPIDR_EL1;
use fusee_kernel_core::CpuId;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::limits::CPUS;
use tock_registers::interfaces::{Readable, Writeable};

use crate::frame::{self, Frame};
use crate::trace::Timing;

/// The state of a CPU. At the top of its kernel stack; `TPIDR_EL1` points to it.
#[repr(C, align(64))]
pub struct Cpu {
    /// The number of the CPU.
    pub id: CpuId,
    /// The thread on this CPU.
    running: Option<ThreadId>,
    /// Whether that thread's floating-point registers are in the hardware.
    float_live: bool,
    /// The trap that it handles.
    pub timing: Timing,
}

const STACK: usize = 4 * 4096;
/// Bytes of the page below each stack that is never mapped.
pub const GUARD: usize = 4096;

/// A guard page, a kernel stack that grows down towards it, and the CPU's own data above.
#[repr(C, align(4096))]
struct Area {
    guard: [u8; GUARD],
    stack: [u8; STACK - GUARD - size_of::<Cpu>()],
    cpu: Cpu,
}

const _: () = assert!(size_of::<Area>() == STACK);
const _: () = assert!(offset_of!(Area, cpu) == TOP);
/// Offset of a CPU's [`Cpu`], and so of the top of its stack, in its area. Boot code knows it, too.
pub const TOP: usize = STACK - size_of::<Cpu>();

struct Areas(UnsafeCell<[Area; CPUS]>);

// SAFETY: each area is used by its own CPU only, but for `prepare`, which runs before that CPU starts.
unsafe impl Sync for Areas {}

const EMPTY: Area = Area {
    guard: [0; GUARD],
    stack: [0; STACK - GUARD - size_of::<Cpu>()],
    cpu: Cpu { id: CpuId(0), running: None, float_live: false, timing: Timing::NONE },
};

/// Boot code finds the boot CPU's stack here.
#[unsafe(export_name = "fusee_cpu_areas")]
static AREAS: Areas = Areas(UnsafeCell::new([EMPTY; CPUS]));

/// Prepares the data of the CPU `id`, and returns their place, which is where its stack starts.
///
/// # Panics
/// There is no CPU `id`.
///
/// # Safety
/// The CPU `id` has not started, or is the caller and has no reference to its [`Cpu`].
pub unsafe fn prepare(id: CpuId) -> NonNull<Cpu> {
    assert!(id.index() < CPUS);
    let area = AREAS.0.get().cast::<Area>().wrapping_add(id.index());
    // SAFETY: inside the array by the assertion; it has no other user: promised by our caller.
    let cpu = unsafe { &raw mut (*area).cpu };
    // SAFETY: as above; valid and aligned as part of a static.
    unsafe { (*cpu).id = id };
    NonNull::new(cpu).unwrap_or_else(|| panic!("a static has no address"))
}

/// Virtual addresses of the guard pages below the kernel stacks.
pub fn guards() -> impl Iterator<Item = u64> {
    (0..CPUS).map(|index| AREAS.0.get().cast::<Area>().wrapping_add(index) as u64)
}

/// Makes `TPIDR_EL1` of the calling CPU point to `cpu`.
///
/// # Safety
/// `cpu` is from [`prepare`] for the calling CPU.
pub unsafe fn adopt(cpu: NonNull<Cpu>) {
    TPIDR_EL1.set(cpu.as_ptr() as u64);
}

/// The CPU that executes this.
pub fn current() -> CpuId {
    let cpu = TPIDR_EL1.get() as *const Cpu;
    if cpu.is_null() {
        return CpuId(0);
    }
    // SAFETY: `adopt` was called on this CPU (boot code left zero there), with a `Cpu` that is static; its
    // `id` is never written after `prepare`.
    unsafe { (*cpu).id }
}

impl Cpu {
    /// Whether `thread` is the one on this CPU; with `None`: whether the CPU idles.
    #[inline(always)]
    pub fn runs(&self, thread: Option<ThreadId>) -> bool {
        // As plain numbers: one comparison.
        let number = |thread: Option<ThreadId>| thread.map_or(0, ThreadId::number);
        number(thread) == number(self.running)
    }

    /// The thread on this CPU.
    #[inline(always)]
    pub fn running(&self) -> Option<ThreadId> {
        self.running
    }

    /// Records that `next` is the thread on this CPU from now on, and takes floating point away from the one
    /// before. Only under the kernel's lock, before the kernel's record that the old thread is `off` can be
    /// seen by another CPU.
    #[inline(always)]
    pub fn switch(&mut self, next: Option<ThreadId>) {
        if self.float_live {
            self.put_float_away();
        }
        self.running = next;
    }

    /// Whether the thread on this CPU has used floating point since it came.
    #[inline(always)]
    pub fn has_float(&self) -> bool {
        self.float_live
    }

    /// [`Cpu::switch`] for a thread that has not used floating point.
    #[inline(always)]
    pub fn switch_without_float(&mut self, next: ThreadId) {
        debug_assert!(!self.float_live);
        self.running = Some(next);
    }

    #[cold]
    #[inline(never)]
    fn put_float_away(&mut self) {
        self.float_live = false;
        if let Some(thread) = self.running {
            // SAFETY: the thread is on this CPU, and its registers were restored: `float_live` was set only by
            // `take_float`.
            unsafe { frame::save_float(frame::of(thread)) };
        }
    }

    /// Gives floating point to the thread on this CPU, until the next [`Cpu::switch`].
    pub fn take_float(&mut self) {
        let Some(thread) = self.running else { return };
        self.float_live = true;
        // SAFETY: the thread is on this CPU.
        unsafe { frame::restore_float(frame::of(thread)) };
    }

    /// The frame of `thread`, which [`Cpu::switch`] has made the thread on this CPU; its address space is the
    /// current one from here on.
    #[inline(always)]
    pub fn dispatch(&self, thread: ThreadId) -> *mut Frame {
        let frame = frame::of(thread);
        // SAFETY: in bounds: one of the kernel's threads. The field is written only at boot.
        let translation = unsafe { (*frame).translation };
        // No look whether it is the current one: each thread has an address space of its own.
        // SAFETY: `translation` names a level 1 table that boot code filled (`spaces::build`) and that is never freed,
        // and an address-space number that no other table uses. The kernel itself is mapped through
        // TTBR1_EL1. No `isb`: the exception return that follows is one.
        unsafe { asm!("msr ttbr0_el1, {}", in(reg) translation, options(nostack, preserves_flags)) };
        frame
    }
}
