//! From a saved frame to the frame to go on with.

use core::arch::asm;
use core::ptr;

use fusee_abi::trace::{BY_INTERRUPT, TRAP_FAULT, TRAP_KICK, TRAP_TIMER};
use fusee_bsp::interrupt::SPECIAL;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::{Entry, Fault, Kernel, Machine, Outcome, Trap};
use fusee_sched::time::Instant;

use crate::cpu::Cpu;
use crate::frame::{self, Frame};
use crate::interrupts;
use crate::lock::{Guard, Ticket, TicketLock};
use crate::machine::Board;
use crate::{clock, fault};

/// The data that the lock protects: the kernel, and its door to the hardware.
pub struct State {
    pub kernel: Kernel,
    pub board: Board,
}

/// The one kernel. All zero, so that it lies in .bss until boot fills it in place.
pub static STATE: TicketLock<State> = TicketLock::new(State { kernel: Kernel::EMPTY, board: Board::EMPTY });

/// Where a CPU goes after a trap.
#[must_use]
enum Next {
    /// On with the thread that trapped.
    Same,
    /// To another thread.
    Other(*mut Frame),
    /// To sleep.
    Idle,
}

/// `svc`. The vector calls it with the CPU it runs on. Null: go on with the thread that trapped; the kernel
/// has written to its `x0` to `x18` and program counter at most.
///
/// The fast paths are inlined here; everything else is a call at the end of the function, so that the fast
/// ones need no stack.
#[unsafe(export_name = "fusee_syscall")]
extern "C" fn syscall(cpu: &mut Cpu) -> *mut Frame {
    let running = cpu.running();
    // SAFETY: the thread is on this CPU.
    cpu.timing.begin(|| running.map_or(0, |thread| unsafe { frame::call_of(thread) }));
    match STATE.queue() {
        Ok(guard) => locked_syscall(cpu, guard),
        Err(ticket) => late_syscall(cpu, ticket),
    }
}

/// `svc`, under the lock: by a fast path if one can.
#[inline(always)]
fn locked_syscall(cpu: &mut Cpu, mut guard: Guard<'_, State>) -> *mut Frame {
    cpu.timing.lock();
    let state = &mut *guard;
    match state.kernel.fast_call(&mut state.board, cpu.id) {
        Some(thread) => go_to(cpu, guard, thread),
        None => slow_syscall(cpu, guard),
    }
}

/// The end of a short `svc`.
#[inline(always)]
fn go_to(cpu: &mut Cpu, mut guard: Guard<'_, State>, thread: ThreadId) -> *mut Frame {
    cpu.timing.end(cpu.id, cpu.running(), |record| guard.board.trace(record));
    if cpu.runs(Some(thread)) {
        return ptr::null_mut();
    }
    if cpu.has_float() {
        return switch_with_float(cpu, guard, thread);
    }
    cpu.switch_without_float(thread);
    drop(guard);
    cpu.dispatch(thread)
}

/// `svc` that has to wait for the lock. The caller pays for that, as for all of its call. It takes the slow path, which can do
/// everything: the fast ones are not compiled a second time for rare cases.
#[cold]
#[inline(never)]
fn late_syscall(cpu: &mut Cpu, ticket: Ticket<'_, State>) -> *mut Frame {
    let guard = ticket.wait();
    cpu.timing.lock();
    slow_syscall(cpu, guard)
}

/// `svc` that the fastest paths decline.
#[inline(never)]
fn slow_syscall(cpu: &mut Cpu, mut guard: Guard<'_, State>) -> *mut Frame {
    let state = &mut *guard;
    if let Some(thread) = state.kernel.fast_call_until(&mut state.board, cpu.id) {
        return go_to(cpu, guard, thread);
    }
    match decide(cpu, guard) {
        Next::Same => ptr::null_mut(),
        Next::Other(frame) => frame,
        Next::Idle => idle(cpu),
    }
}

/// The end of a short `svc` of a thread that has used floating point.
#[inline(never)]
fn switch_with_float(cpu: &mut Cpu, guard: Guard<'_, State>, thread: ThreadId) -> *mut Frame {
    cpu.switch(Some(thread));
    drop(guard);
    cpu.dispatch(thread)
}

/// An interrupt. Null: go on with the thread it interrupted.
#[unsafe(export_name = "fusee_interrupt")]
extern "C" fn interrupt(cpu: &mut Cpu) -> *mut Frame {
    match take_interrupt::<false>(cpu) {
        Next::Same => ptr::null_mut(),
        Next::Other(frame) => frame,
        Next::Idle => idle(cpu),
    }
}

/// Any other exception from EL0, told by its syndrome. Null as above.
#[unsafe(export_name = "fusee_fault")]
extern "C" fn fault(cpu: &mut Cpu, syndrome: u64) -> *mut Frame {
    cpu.timing.begin(|| TRAP_FAULT);
    match enter_fault(cpu, fault::decode(syndrome)) {
        Next::Same => ptr::null_mut(),
        Next::Other(frame) => frame,
        Next::Idle => idle(cpu),
    }
}

/// First use of floating point since the thread was dispatched. No business of the kernel's state machine.
#[unsafe(export_name = "fusee_float")]
extern "C" fn float(cpu: &mut Cpu) {
    cpu.take_float();
}

/// Fetches the interrupt that the controller has, and handles it. `IDLE`: there is no thread on this CPU.
#[inline(always)]
fn take_interrupt<const IDLE: bool>(cpu: &mut Cpu) -> Next {
    let at = Some(clock::now());
    let taken = interrupts::controller().acknowledge();
    let number = taken.number();
    let next = match event(cpu, number) {
        // Each in a place of its own where speed counts more than size.
        Some(trap @ Trap::Interrupt(_)) if !IDLE => enter::<IDLE>(cpu, trap, at),
        Some(_) if !IDLE => enter::<IDLE>(cpu, Trap::Timer, at),
        Some(trap) => enter::<IDLE>(cpu, trap, at),
        None => match number {
            interrupts::KICK => {
                cpu.timing.begin(|| TRAP_KICK);
                let guard = STATE.lock();
                cpu.timing.lock();
                declined(cpu, guard, Entry { trap: Trap::Kick, at })
            }
            // It was gone when we looked: there is nothing to end.
            SPECIAL.. => return Next::Same,
            _ => {
                interrupts::refuse(number);
                Next::Same
            }
        },
    };
    interrupts::controller().end(taken);
    next
}

/// The trap of the interrupt with this number, if it is a line of a task, or the timer: both have a fast path.
#[inline(always)]
fn event(cpu: &mut Cpu, number: u32) -> Option<Trap> {
    if let Some(interrupt) = interrupts::of_line(number) {
        cpu.timing.begin(|| BY_INTERRUPT + u32::from(interrupt.number()));
        Some(Trap::Interrupt(interrupt))
    } else if number == interrupts::TIMER {
        // The line is level, and would come again; but the kernel answers this trap by setting the timer anew.
        cpu.timing.begin(|| TRAP_TIMER);
        Some(Trap::Timer)
    } else {
        None
    }
}

/// One trap through the kernel, and everything its outcome asks for.
#[inline(always)]
fn enter<const IDLE: bool>(cpu: &mut Cpu, trap: Trap, at: Option<Instant>) -> Next {
    let mut guard = STATE.lock();
    cpu.timing.lock();
    let state = &mut *guard;
    match state.kernel.fast_trap_on::<_, IDLE>(&mut state.board, cpu.id, trap, at) {
        Some(outcome) => finish(cpu, guard, outcome),
        None => declined(cpu, guard, Entry { trap, at }),
    }
}

/// A fault through the kernel. No fast path is for one.
#[inline(always)]
fn enter_fault(cpu: &mut Cpu, fault: Fault) -> Next {
    let mut guard = STATE.lock();
    cpu.timing.lock();
    let state = &mut *guard;
    let entry = Entry { trap: Trap::Fault(fault), at: None };
    let outcome = state.kernel.slow_trap(&mut state.board, cpu.id, entry);
    finish(cpu, guard, outcome)
}

/// One trap by the slow path, for entries that need not have it in place.
#[inline(never)]
fn declined(cpu: &mut Cpu, mut guard: Guard<'_, State>, entry: Entry) -> Next {
    let state = &mut *guard;
    let outcome = state.kernel.slow_trap(&mut state.board, cpu.id, entry);
    finish(cpu, guard, outcome)
}

/// A call through the kernel that the first fast paths decline, with the lock already held.
#[inline(always)]
fn decide(cpu: &mut Cpu, mut guard: Guard<'_, State>) -> Next {
    let state = &mut *guard;
    let outcome = state.kernel.trap_on::<_, false>(&mut state.board, cpu.id, Trap::Syscall, None);
    finish(cpu, guard, outcome)
}

/// The end of a trap: under the lock the effects that others may see, and then the rest.
#[inline(always)]
fn finish(cpu: &mut Cpu, mut guard: Guard<'_, State>, outcome: Outcome) -> Next {
    check(&guard);
    cpu.timing.end(cpu.id, cpu.running(), |record| guard.board.trace(record));
    let same = cpu.runs(outcome.run);
    if !same {
        cpu.switch(outcome.run);
    }
    drop(guard);
    apply(cpu, outcome, same)
}

/// The kernel's invariants, and the reach of tasks and devices, in builds that check themselves.
#[cfg(feature = "check")]
fn check(state: &State) {
    if let Err(which) = state.kernel.check().and_then(|()| state.kernel.check_reach(&state.board)) {
        panic!("invariant: {which}");
    }
}

/// The kernel's invariants, unchecked.
#[cfg(not(feature = "check"))]
#[inline(always)]
fn check(_: &State) {}

/// Carries out an outcome with a thread that is recorded as on this CPU. Outside the lock: all of it is this CPU's
/// own, or a hint to others.
#[inline(always)]
fn apply(cpu: &mut Cpu, outcome: Outcome, same: bool) -> Next {
    if let Some(timer) = outcome.timer {
        clock::arm(timer);
    }
    if !outcome.kick.is_empty() {
        interrupts::kick(outcome.kick);
    }
    if same {
        return Next::Same;
    }
    match outcome.run {
        Some(thread) => Next::Other(cpu.dispatch(thread)),
        None => Next::Idle,
    }
}

/// Sleeps until an interrupt brings something to run. Interrupts stay masked: `wfi` ends all the same, and
/// the interrupt is fetched from the controller, not taken.
#[cold]
#[inline(never)]
fn idle(cpu: &mut Cpu) -> *mut Frame {
    loop {
        // SAFETY: `wfi` waits; it changes no state. Not `nomem`: everything stored before it must be.
        unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
        // "The same" is to go on sleeping here.
        if let Next::Other(frame) = take_interrupt::<true>(cpu) {
            return frame;
        }
    }
}

/// The calling CPU enters service: asks the kernel for its first outcome and never comes back.
///
/// `before` runs under the lock, before the kernel hears of the CPU.
pub fn run(cpu: &mut Cpu, before: impl FnOnce(&mut State)) -> ! {
    let mut guard = STATE.lock();
    before(&mut guard);
    let state = &mut *guard;
    let outcome = state.kernel.enter(&mut state.board, cpu.id, clock::now());
    cpu.switch(outcome.run);
    drop(guard);
    let frame = match apply(cpu, outcome, false) {
        Next::Other(frame) => frame,
        Next::Same | Next::Idle => idle(cpu),
    };
    resume(frame)
}

/// Enters EL0 by `frame`; the current stack is forgotten.
fn resume(frame: *mut Frame) -> ! {
    // SAFETY: `fusee_resume` wants the frame of the thread on this CPU in x0: `Cpu::dispatch` made it so. It never
    // returns; the next exception starts at the top of the kernel stack.
    unsafe { asm!("b fusee_resume", in("x0") frame, options(noreturn)) }
}
