//! Faults of the kernel itself: prints the known facts on the serial line, and ends the run with code 101.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::mem::offset_of;
use core::panic::PanicInfo;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use aarch64_cpu::registers::{ESR_EL1, FAR_EL1};
use fusee_abi::image::{FLAG_PANIC_HALT, FLAG_PANIC_RESET};
use fusee_bsp::console::Console;
use fusee_bsp::start::{Conduit, reset_by_watchdog};
use fusee_bsp::{board, semihosting};
use fusee_kernel_core::Registers;
use tock_registers::interfaces::Readable;

use crate::cell::BootCell;
use crate::translation::direct;
use crate::{cpu, speak};

/// Exit code of a run that ends by a panic.
pub const PANIC: u32 = 101;

/// How the firmware is called; known once boot has read the device tree.
pub static CONDUIT: BootCell<Option<Conduit>> = BootCell::new(None);

/// The flags of the packed system, once it was read: they select the next step.
pub static FLAGS: BootCell<u32> = BootCell::new(0);

/// Set by the first CPU that stops, so that only one speaks, and once.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// Set before semihosting is tried: if it is off, the instruction is undefined and comes back as an exception.
static LEAVING: AtomicBool = AtomicBool::new(false);

#[repr(C, align(16))]
struct LastStack(UnsafeCell<[u8; 8192]>);
// SAFETY: used as a stack by the first CPU with a fatal exception; others that follow may spoil its report,
// nothing else.
unsafe impl Sync for LastStack {}
#[unsafe(export_name = "fusee_last_stack")]
static LAST_STACK: LastStack = LastStack(UnsafeCell::new([0; 8192]));

#[repr(transparent)]
struct LastRegisters(UnsafeCell<Registers>);
// SAFETY: written by the first CPU that stops, by the vectors on a fatal exception or by a panic, and read on the same CPU; as above.
unsafe impl Sync for LastRegisters {}
#[unsafe(export_name = "fusee_last_registers")]
static LAST_REGISTERS: LastRegisters = LastRegisters(UnsafeCell::new(Registers::EMPTY));

/// The serial line as long as nothing better is known to work.
pub fn console() -> Console {
    let base = NonNull::new(direct(board::CONSOLE)).unwrap_or(NonNull::dangling());
    // SAFETY: the board has its serial line there, switched on at reset or by the boot loader, and both the boot tables and the kernel's
    // own map it.
    unsafe { Console::new(base) }
}

/// Whether this is the first time the system stops.
fn first() -> bool {
    // Relaxed: nothing else is read or written under its protection.
    !STOPPING.swap(true, Ordering::Relaxed)
}

/// Text as it is. That of `core` is a KiB longer, because it could be padded: `Option::expect` links it, too.
pub struct Plain(pub &'static str);

impl fmt::Display for Plain {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.0)
    }
}

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
    if first() {
        keep_place();
        // A failure of the console cannot be reported.
        let _ = complain(&mut console(), information);
    }
    end()
}

/// Leaves where this CPU is in [`LAST_REGISTERS`], for a host that looks into the memory: the calls that led here are on the stack.
#[inline(always)]
fn keep_place() {
    const _: () = assert!(offset_of!(Registers, stack) == 248 && offset_of!(Registers, program_counter) == 256);
    // SAFETY: stores four registers in a static that only the first CPU that stops writes: our caller.
    unsafe {
        asm!(
            "stp x29, x30, [{registers}, #232]",
            "mov {value}, sp",
            "str {value}, [{registers}, #248]",
            "adr {value}, .",
            "str {value}, [{registers}, #256]",
            registers = in(reg) LAST_REGISTERS.0.get(),
            value = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

// Numbers of any width are printed as 64 bits: each width has code of its own.

fn complain(console: &mut Console, information: &PanicInfo<'_>) -> fmt::Result {
    write!(console, "\nkernel panic on CPU {}: ", u64::from(cpu::current().0))?;
    if let Some(place) = information.location() {
        console.write_str(place.file())?;
        writeln!(console, ":{}:{}:", u64::from(place.line()), u64::from(place.column()))?;
    }
    writeln!(console, "{}", information.message())
}

/// An exception the kernel does not expect, at vector `vector`: its own mistake. Called by the vectors on the
/// last stack.
#[unsafe(export_name = "fusee_stop")]
extern "C" fn stop(vector: u64) -> ! {
    // Relaxed: set by this CPU, or we are lost anyway.
    if LEAVING.load(Ordering::Relaxed) {
        power_off();
    }
    if first() {
        // SAFETY: the vector has just filled it, and only the first CPU comes here.
        let registers = unsafe { &*LAST_REGISTERS.0.get() };
        let _ = report(&mut console(), vector, registers);
    }
    end()
}

fn report(console: &mut Console, vector: u64, registers: &Registers) -> fmt::Result {
    let (syndrome, address) = (ESR_EL1.get(), FAR_EL1.get());
    writeln!(console, "\nkernel panic on CPU {}: unexpected exception, vector {vector}", u64::from(cpu::current().0))?;
    writeln!(console, "  pc {:#018x}  sp {:#018x}", registers.program_counter, registers.stack)?;
    writeln!(console, "  esr {syndrome:#010x}  far {address:#018x}  spsr {:#010x}", registers.state)?;
    for (index, value) in registers.general.iter().enumerate() {
        let end = Plain(if index % 4 == 3 || index == 30 { "\n" } else { "" });
        write!(console, "  x{index:<2} {value:#018x}{end}")?;
    }
    Ok(())
}

/// The end after a panic, by the manifest.
fn end() -> ! {
    let flags = *FLAGS.get();
    if flags & FLAG_PANIC_RESET != 0 {
        if let Some(watchdog) = board::WATCHDOG.and_then(|base| NonNull::new(direct(base))) {
            // SAFETY: the board's file says that it is there, among devices, which the kernel maps.
            unsafe { reset_by_watchdog(watchdog) };
        }
        if let Some(conduit) = CONDUIT.get() {
            conduit.reset();
        }
    }
    if flags & (FLAG_PANIC_RESET | FLAG_PANIC_HALT) != 0 {
        halt();
    }
    exit(PANIC)
}

/// Ends the run with `code`.
pub fn exit(code: u32) -> ! {
    speak::end(code);
    // Relaxed: for this CPU's own exception vector.
    LEAVING.store(true, Ordering::Relaxed);
    semihosting::exit(code);
    power_off()
}

fn power_off() -> ! {
    if let Some(conduit) = CONDUIT.get() {
        conduit.switch_off();
    }
    halt()
}

pub fn halt() -> ! {
    loop {
        // SAFETY: `wfi` waits; it changes no state.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}
