//! Starting CPUs that wait at a table of addresses, as the stub of a Raspberry Pi's firmware leaves them: each looks at a word of its own, again and again,
//! and goes where it says, without an argument. So each finds its argument by its number.
//!
//! The CPU of engines goes to its firmware, which knows where its description is.
//!
//! CPUs that are not used are fetched, too, and wait for interrupts for ever: at the table they would look for ever.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};

use fusee_bsp::board;
use fusee_bsp::start::Start;
use fusee_kernel_core::CpuId;

use crate::engine::EngineCpu;
use crate::translation::{direct, physical};
use crate::{cpu, smp};

global_asm!(
    r#"
    .pushsection .text.boot, "ax"
    .global fusee_table_start
fusee_table_start:
    mrs     x0, mpidr_el1
    and     x0, x0, #0xff
    adrp    x1, fusee_table_arguments
    add     x1, x1, :lo12:fusee_table_arguments
    ldr     x0, [x1, x0, lsl #3]
    b       fusee_secondary_start

    .global fusee_table_park
fusee_table_park:
    wfi
    b       fusee_table_park
    .popsection
"#
);

/// The argument of each CPU of the board in `x0`.
#[unsafe(export_name = "fusee_table_arguments")]
static ARGUMENTS: [AtomicU64; board::CPUS] = [const { AtomicU64::new(0) }; board::CPUS];

/// Starts the kernel's other CPUs and that of engines, and parks the rest.
///
/// # Safety
/// Called once, and the kernel's tables are complete.
pub unsafe fn start(cpus: usize, engine: Option<EngineCpu>) {
    unsafe extern "C" {
        #[link_name = "fusee_table_start"]
        static START: u8;
        #[link_name = "fusee_table_park"]
        static PARK: u8;
    }
    let Start::SpinTable(table) = board::START else { return };
    for id in 1..cpus {
        // SAFETY: the CPU has not started: promised by our caller.
        let cpu = unsafe { cpu::prepare(CpuId(id as u8)) };
        let argument = &ARGUMENTS[smp::on_board(id)];
        // Relaxed: the barrier of `reach_memory` orders it.
        argument.store(cpu.as_ptr() as u64, Ordering::Relaxed);
        reach_memory(argument.as_ptr());
    }
    let used: &dyn Fn(usize) -> bool = &|place| (0..cpus).any(|id| smp::on_board(id) == place);
    for place in (0..board::CPUS).filter(|place| !used(*place)).chain((1..cpus).map(smp::on_board)) {
        let entry = match &engine {
            _ if used(place) => physical(&raw const START),
            Some(engine) if engine.cpu == place => engine.entry,
            _ => physical(&raw const PARK),
        };
        let slot = direct::<u64>(table + 8 * place as u64);
        // SAFETY: the board's file says that the table is there, in memory that the kernel maps and that is given to no task.
        unsafe { slot.write_volatile(entry) };
        reach_memory(slot);
    }
    // SAFETY: wakes CPUs that wait for events; it changes no state.
    unsafe { asm!("sev", options(nomem, nostack, preserves_flags)) };
}

/// Makes a store visible to CPUs with caches off.
fn reach_memory<T>(place: *mut T) {
    // SAFETY: cleaning a line of memory that we own changes nothing that anybody reads through a cache.
    unsafe { asm!("dc cvac, {}", "dsb sy", in(reg) place, options(nostack, preserves_flags)) };
}
