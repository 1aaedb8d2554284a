//! Fusee for AArch64: the bootable kernel.
//!
//! `kernel/core` decides; this crate carries decisions out. It owns the parts that a pure state machine cannot have:
//! exception vectors and register frames ([`vectors`], [`frame`]), translation ([`translation`]), the one
//! lock around the kernel ([`lock`]), time ([`clock`]), interrupts ([`interrupts`]), the start of this and
//! the other CPUs ([`boot`], [`smp`]), the trace in memory ([`trace`]), and the lines of a kernel that
//! speaks ([`speak`]).
//!
//! # How a trap travels
//!
//! The vector saves all registers straight into the frame of the thread on this CPU, takes the CPU's kernel
//! stack, and calls [`trap`]. There: lock, `Kernel::trap`, floating point away if another thread is next,
//! unlock, timer and kicks, frame and address space of the next thread. Then the vector restores that
//! frame. Interrupts stay masked all the way; with nothing to run the CPU sleeps in `wfi` and looks for the
//! interrupt that ended it.
//!
//! # Invariants
//!
//! 1. While a CPU runs at EL0, its `SP_EL1` points to the frame of the thread it runs, and `TPIDR_EL1` to its
//!    [`cpu::Cpu`]. No exception is ever taken from EL1, except fatal ones.
//! 2. A frame is touched only by the CPU its thread is `on`, or under the lock if it is `off`.
//! 3. No memory is writable and executable, for the kernel or for a task. Memory that a task may touch, no other
//!    task and no kernel path needs to trust.
//! 4. Only boot code allocates, and only from fixed pools.
//!
//! Not here: policy (`kernel/core` and below), board addresses and device drivers (`bsp`).
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod boot;
#[cfg(target_os = "none")]
mod cell;
#[cfg(target_os = "none")]
mod clock;
#[cfg(target_os = "none")]
mod cpu;
#[cfg(target_os = "none")]
mod engine;
#[cfg(target_os = "none")]
mod fault;
#[cfg(target_os = "none")]
mod frame;
#[cfg(target_os = "none")]
mod interrupts;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
mod smp;
#[cfg(target_os = "none")]
mod spaces;
#[cfg(target_os = "none")]
mod speak;
#[cfg(start = "spin-table")]
mod spin_table;
mod streams;
#[cfg(target_os = "none")]
mod trace;
#[cfg(target_os = "none")]
mod translation;
#[cfg(target_os = "none")]
mod trap;
#[cfg(target_os = "none")]
mod vectors;

/// On a host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {}
