//! The way of a program on the host to the simulator: its calls, its time, its memory and its faults.
//!
//! The simulator starts a program with the variable [`VARIABLE`], and lets it run from one message to the next ([`fusee_abi::door`]). A program that is
//! started by anything else, such as a unit test, has no door: the kernel refuses each of its calls.
//!
//! # Invariants
//!
//! 1. A program with a door has one thread, which never returns to the runtime of the host: [`begin`] runs before that, and ends with the task.
//! 2. Messages map addresses of one span only. The program itself has none of these addresses: they were free when the span was reserved.
//!
//! Not here: the simulator's side (`tools/simulator/src/process.rs`).

extern crate std;

use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fusee_abi::call::NUMBER;
use fusee_abi::door::{
    Answer, Ask, Mapping, NO_MEMORY, OTHER_VERSION, REGISTERS, VARIABLE, VERSION, ask, fault, first,
};
use fusee_abi::image::mapping;
use rustix::io::{Errno, read, write};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::stdio::{stdin, stdout};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Registers of a call.
pub type Registers = [u64; REGISTERS];

/// Bytes of the stack on which faults are reported.
const FAULT_STACK: usize = 64 * 1024;
/// Signals of the host that are faults of the program.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGFPE];

/// Whether the simulator runs this program.
static OPEN: AtomicBool = AtomicBool::new(false);
/// The beginning and the end of the addresses that messages may map.
static SPAN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Whether the simulator runs this program.
#[inline]
pub fn is_open() -> bool {
    // Relaxed, as all accesses here: a program with a door has one thread.
    OPEN.load(Ordering::Relaxed)
}

/// Makes the system call `number` with these registers, and returns the registers after it.
pub fn call(number: u64, mut registers: Registers) -> Registers {
    registers[NUMBER] = number;
    exchange(ask::CALL, registers)
}

/// Computes for so many nanoseconds of virtual time.
pub fn burn(nanoseconds: u64) {
    exchange(ask::BURN, beginning([nanoseconds]));
}

/// Reads the board's counter.
pub fn counter() -> u64 {
    exchange(ask::COUNTER, [0; REGISTERS])[0]
}

/// Begins the task if the simulator has started the program, and ends with it; otherwise returns at once. For the expansion of
/// [`entry!`](crate::entry!), before the host's runtime calls `main`.
pub fn begin(main: extern "C" fn()) {
    let Some(version) = std::env::var_os(VARIABLE) else { return };
    if version != VERSION {
        end(OTHER_VERSION);
    }
    // A program that loops for ever reads no message, and so does not notice the simulator's end. Where the host refuses this, the next message ends the
    // program.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let Answer { registers, mappings } = receive();
    let [environment, life, top, bytes, span, span_end] =
        [first::ENVIRONMENT, first::LIFE, first::STACK_TOP, first::STACK_BYTES, first::SPAN, first::SPAN_END]
            .map(|at| registers[at]);
    reserve(span, span_end);
    map_stack(top - bytes, bytes);
    receive_mappings(mappings);
    report_faults();
    std::panic::set_hook(std::boxed::Box::new(|info| crate::panic::end(info)));
    OPEN.store(true, Ordering::Relaxed);
    // SAFETY: the address must be that of the environment page, and this the first that the program does.
    // - Address: the simulator has put it into the answer, and the page was mapped just now.
    // - First: `entry!` calls this function before `main`, once in the process, which is one life of the task.
    unsafe { crate::memory::start(environment as usize, life as u32) };
    run_on(top, main)
}

//--- Messages

fn beginning<const N: usize>(values: [u64; N]) -> Registers {
    let mut registers = [0; REGISTERS];
    registers[..N].copy_from_slice(&values);
    registers
}

fn exchange(kind: u64, registers: Registers) -> Registers {
    send(kind, registers);
    let answer: Answer = receive();
    receive_mappings(answer.mappings);
    answer.registers
}

fn send(kind: u64, registers: Registers) {
    let message = Ask { kind, registers };
    let mut rest = message.as_bytes();
    while !rest.is_empty() {
        match write(stdin(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // The simulator has ended.
            Err(_) => end(0),
        }
    }
}

fn receive<T: FromBytes + FromZeros + IntoBytes>() -> T {
    let mut message = T::new_zeroed();
    let mut rest = message.as_mut_bytes();
    while !rest.is_empty() {
        match read(stdin(), &mut *rest) {
            Ok(0) => end(0),
            Ok(count) => rest = &mut rest[count..],
            Err(Errno::INTR) => {}
            Err(_) => end(0),
        }
    }
    message
}

fn receive_mappings(count: u64) {
    for _ in 0..count {
        map(&receive());
    }
}

/// Ends the process at once.
fn end(code: c_int) -> ! {
    // SAFETY: the function demands nothing; it runs no code of the program any more.
    unsafe { libc::_exit(code) }
}

//--- Memory

/// Reserves the addresses that messages may map. All of them are free, or the process ends.
fn reserve(from: u64, to: u64) {
    let address = with_exposed_provenance_mut::<c_void>(from as usize);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: the mapping must replace no memory in use: with this flag it replaces none.
    let reserved = unsafe { mmap_anonymous(address, (to - from) as usize, ProtFlags::empty(), flags) };
    // Hosts that do not know the flag choose other addresses.
    if reserved != Ok(address) {
        end(NO_MEMORY);
    }
    SPAN[0].store(from, Ordering::Relaxed);
    SPAN[1].store(to, Ordering::Relaxed);
}

/// Whether messages may map these addresses.
fn is_reserved(address: u64, bytes: u64) -> bool {
    let [from, to] = [&SPAN[0], &SPAN[1]].map(|bound| bound.load(Ordering::Relaxed));
    address >= from && bytes <= to - from && address - from <= to - from - bytes
}

fn map_stack(address: u64, bytes: u64) {
    let at = with_exposed_provenance_mut::<c_void>(address as usize);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    let is_mapped = is_reserved(address, bytes) && {
        // SAFETY: the mapping must replace no memory in use: these addresses are reserved, and nothing was mapped there yet.
        unsafe { mmap_anonymous(at, bytes as usize, ProtFlags::READ | ProtFlags::WRITE, flags) }.is_ok()
    };
    if !is_mapped {
        end(NO_MEMORY);
    }
}

/// Changes the address space as a message says.
fn map(change: &Mapping) {
    let Mapping { address, bytes, offset, access } = *change;
    let at = with_exposed_provenance_mut::<c_void>(address as usize);
    let has = |bit: u32, flag| if access & u64::from(bit) != 0 { flag } else { ProtFlags::empty() };
    let access = has(mapping::READ, ProtFlags::READ) | has(mapping::WRITE, ProtFlags::WRITE);
    let is_mapped = is_reserved(address, bytes)
        && match access.is_empty() {
            // SAFETY: the mapping must replace no memory that the program may use. The kernel has taken it away: an access faults on a board, too.
            true => unsafe {
                mmap_anonymous(at, bytes as usize, access, MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED)
            },
            // SAFETY: the mapping must replace no memory of the program itself: the span has none, and the simulator keeps the stack out of the changes.
            false => unsafe { mmap(at, bytes as usize, access, MapFlags::SHARED | MapFlags::FIXED, stdout(), offset) },
        }
        .is_ok();
    if !is_mapped {
        end(NO_MEMORY);
    }
}

/// Runs `main` on the stack that ends at `top`, and ends the task when it returns.
fn run_on(top: u64, main: extern "C" fn()) -> ! {
    extern "C" fn run(main: extern "C" fn()) -> ! {
        main();
        crate::exit(0)
    }
    // SAFETY: the stack must be memory that nothing else uses, aligned to 16 bytes, and nothing of the old one may be needed.
    // - Memory: `map_stack` mapped it for this purpose; `top` ends a page.
    // - Old stack: `run` does not return.
    unsafe {
        asm!("mov rsp, {top}", "xor ebp, ebp", "call {run}", "ud2", top = in(reg) top, run = sym run, in("rdi") main, options(noreturn))
    }
}

//--- Faults

/// Lets the host report faults of the program to the simulator.
fn report_faults() {
    // SAFETY: the mapping must replace nothing: the host chooses the address.
    let stack =
        unsafe { mmap_anonymous(null_mut(), FAULT_STACK, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let Ok(stack) = stack else { end(NO_MEMORY) };
    let stack = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: FAULT_STACK };
    // SAFETY: the stack must be valid memory for ever: it is never unmapped. The second argument may be null.
    let mut refused = unsafe { libc::sigaltstack(&raw const stack, null_mut()) } != 0;
    for signal in FAULTS {
        // SAFETY: all bytes zero must be a value of the type: it has integers and pointers only.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = faulted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler must be a function of this type that may interrupt the program anywhere: `faulted` allocates nothing, takes no lock, and does
        // not return.
        refused |= unsafe { libc::sigaction(signal, &raw const action, null_mut()) } != 0;
    }
    if refused {
        end(NO_MEMORY);
    }
}

/// Reports the fault for which the host has interrupted the program. The program does not go on.
extern "C" fn faulted(signal: c_int, information: *const libc::siginfo_t, context: *const c_void) {
    /// In the error code of a page fault: the access was a store.
    const STORE: i64 = 1 << 1;
    /// The access was the fetch of an instruction.
    const FETCH: i64 = 1 << 4;
    // SAFETY: the pointer must be valid: the host gives one to handlers of this kind.
    let information = unsafe { &*information };
    // SAFETY: the pointer must be valid: the host gives handlers of this kind one to a value of this type.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let general = &context.uc_mcontext.gregs;
    let [instruction, stack, error] =
        [libc::REG_RIP, libc::REG_RSP, libc::REG_ERR].map(|place| general[place as usize]);
    // SAFETY: the signal must have an address: those of faults have.
    let address = unsafe { information.si_addr() } as u64;
    let (kind, address) = match signal {
        // An address that no address space has: the processor does not say which.
        libc::SIGSEGV if information.si_code == libc::SI_KERNEL => (fault::READ, u64::MAX),
        libc::SIGSEGV if error & FETCH != 0 => (fault::EXECUTE, address),
        libc::SIGSEGV if error & STORE != 0 => (fault::WRITE, address),
        libc::SIGSEGV => (fault::READ, address),
        libc::SIGILL => (fault::ILLEGAL, u64::MAX),
        libc::SIGTRAP => (fault::BREAKPOINT, u64::MAX),
        _ => (fault::OTHER, u64::MAX),
    };
    send(ask::FAULT, beginning([kind, address, instruction as u64, stack as u64]));
    let _: Answer = receive();
    end(0)
}
