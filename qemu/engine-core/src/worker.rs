//! Kernels as guests of this CPU: each device has a stack on which its job runs, a slice at a time.
//!
//! The loop of the firmware runs with the stack pointer of EL1, jobs with that of EL0, both at EL1. So an exception of a job, with any stack,
//! is taken on the loop's stack, and is the end of a slice: an interrupt in the middle, of which the registers are kept; or the end of the job,
//! of its own will (`svc`) or not.
//!
//! # Invariants
//!
//! 1. Interrupts are open in a job and nowhere else.
//! 2. A job that has ended or was followed by another is never entered again. The values that it left on its stack own nothing.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;

use fusee_accel_contract::{DEVICES, FaultKind};
use fusee_device_model::{Job, Ran};

use crate::memory::Memory;
use crate::start;

/// Registers of a job between two slices.
#[repr(C)]
struct Frame {
    general: [u64; 31],
    stack: u64,
    counter: u64,
    state: u64,
}

/// A device's stack, and the job that runs on it.
struct Worker {
    frame: Frame,
    /// None: nothing to go on with.
    job: Option<Job>,
    ran: Option<Result<Ran, (FaultKind, u64)>>,
}

struct Workers(UnsafeCell<[Worker; DEVICES]>);
// SAFETY: one CPU runs this firmware. The loop uses a worker while no job runs, the job of a worker uses that one alone.
unsafe impl Sync for Workers {}
static WORKERS: Workers = Workers(UnsafeCell::new(
    [const { Worker { frame: Frame { general: [0; 31], stack: 0, counter: 0, state: 0 }, job: None, ran: None } };
        DEVICES],
));

/// EL1 with the stack of EL0, interrupts open, all else masked.
const STATE: u64 = 0x344;

/// How a slice ended; see `fusee_engine_enter`.
const INTERRUPTED: u64 = 0;
const ENDED: u64 = 1;
const PANICKED: u64 = 2;

global_asm!(
    r#"
    .pushsection .text.worker, "ax"
    // x0: a frame. Runs the job until a slice ends; returns how (x0), and a number (x1).
    .global fusee_engine_enter
fusee_engine_enter:
    stp     x19, x20, [sp, #-96]!
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    msr     tpidr_el1, x0
    ldp     x1, x2, [x0, #248]
    ldr     x3, [x0, #264]
    msr     sp_el0, x1
    msr     elr_el1, x2
    msr     spsr_el1, x3
    ldp     x2, x3, [x0, #16]
    ldp     x4, x5, [x0, #32]
    ldp     x6, x7, [x0, #48]
    ldp     x8, x9, [x0, #64]
    ldp     x10, x11, [x0, #80]
    ldp     x12, x13, [x0, #96]
    ldp     x14, x15, [x0, #112]
    ldp     x16, x17, [x0, #128]
    ldp     x18, x19, [x0, #144]
    ldp     x20, x21, [x0, #160]
    ldp     x22, x23, [x0, #176]
    ldp     x24, x25, [x0, #192]
    ldp     x26, x27, [x0, #208]
    ldp     x28, x29, [x0, #224]
    ldr     x30, [x0, #240]
    ldp     x0, x1, [x0]
    eret

    // An interrupt in a job.
    .global fusee_engine_interrupted
fusee_engine_interrupted:
    stp     x0, x1, [sp, #-16]!
    mrs     x0, tpidr_el1
    stp     x2, x3, [x0, #16]
    stp     x4, x5, [x0, #32]
    stp     x6, x7, [x0, #48]
    stp     x8, x9, [x0, #64]
    stp     x10, x11, [x0, #80]
    stp     x12, x13, [x0, #96]
    stp     x14, x15, [x0, #112]
    stp     x16, x17, [x0, #128]
    stp     x18, x19, [x0, #144]
    stp     x20, x21, [x0, #160]
    stp     x22, x23, [x0, #176]
    stp     x24, x25, [x0, #192]
    stp     x26, x27, [x0, #208]
    stp     x28, x29, [x0, #224]
    str     x30, [x0, #240]
    ldp     x2, x3, [sp], #16
    stp     x2, x3, [x0]
    mrs     x1, sp_el0
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    stp     x1, x2, [x0, #248]
    str     x3, [x0, #264]
    mov     x0, #0
    mov     x1, #0
    b       1f

    // Any other exception in a job: its end. That of an `svc` says in x0 and x1 which.
    .global fusee_engine_ended
fusee_engine_ended:
    mrs     x2, esr_el1
    lsr     x2, x2, #26
    cmp     x2, #0x15
    b.eq    1f
    mov     x0, #3
    mrs     x1, far_el1
1:  ldp     x21, x22, [sp, #16]
    ldp     x23, x24, [sp, #32]
    ldp     x25, x26, [sp, #48]
    ldp     x27, x28, [sp, #64]
    ldp     x29, x30, [sp, #80]
    ldp     x19, x20, [sp], #96
    ret

    // Where a job begins, and ends.
fusee_engine_begin:
    bl      fusee_engine_job
    mov     x0, #1
    mov     x1, #0
    svc     #0
    .popsection
"#
);

/// The end of a slice.
#[repr(C)]
struct Slice {
    how: u64,
    number: u64,
}

unsafe extern "C" {
    fn fusee_engine_enter(frame: *mut Frame) -> Slice;
    fn fusee_engine_begin();
}

/// Runs a slice of `job` on the stack of device `device`, until an interrupt comes: the timer's, or a kick.
///
/// # Errors
/// If it ended otherwise than it should.
pub fn run(device: usize, job: &Job) -> Result<Ran, (FaultKind, u64)> {
    // SAFETY: no job runs, so this is the only reference. It ends before the job is entered.
    let worker = unsafe { &mut (*WORKERS.0.get())[device] };
    if worker.job.as_ref().is_none_or(|before| before.identity != job.identity) {
        worker.job = Some(*job);
        worker.frame.general = [0; 31];
        worker.frame.general[0] = device as u64;
        worker.frame.stack = start::stack(device);
        worker.frame.counter = fusee_engine_begin as *const () as u64;
        worker.frame.state = STATE;
    }
    let frame = &raw mut worker.frame;
    // SAFETY: the frame is of a job that may be entered: new, or interrupted. It uses its stack, its worker, and the memory that `Memory` gives.
    let slice = unsafe { fusee_engine_enter(frame) };
    // SAFETY: as above: the job does not run.
    let worker = unsafe { &mut (*WORKERS.0.get())[device] };
    if slice.how == INTERRUPTED {
        return Ok(Ran::Unfinished);
    }
    worker.job = None;
    match slice.how {
        ENDED => worker.ran.take().expect("a job that ended says how"),
        PANICKED => Err((FaultKind::Panicked, slice.number)),
        _ => Err((FaultKind::Exception, slice.number)),
    }
}

/// The job of device `device`, on its own stack.
#[unsafe(export_name = "fusee_engine_job")]
extern "C" fn job(device: usize) {
    // SAFETY: the loop does not use this worker while its job runs; no other reference to the place of the result exists.
    let worker = unsafe { &raw mut (*WORKERS.0.get())[device] };
    // SAFETY: as above; the job is copied, so no reference lasts.
    let job = unsafe { (*worker).job };
    let ran = job.map(|job| job.run(&mut Memory::of_job(start::own())));
    // SAFETY: as above.
    unsafe { (*worker).ran = ran };
}

/// Whether this runs in a job.
pub fn is_job() -> bool {
    let selected: u64;
    // SAFETY: reading SPSel changes nothing.
    unsafe { asm!("mrs {}, spsel", out(reg) selected, options(nomem, nostack, preserves_flags)) };
    selected == 0
}

/// Ends the job in which this is called: it panicked, in this line.
pub fn give_up(line: u32) -> ! {
    // SAFETY: the exception is taken on the loop's stack, and this one is never used again.
    unsafe { asm!("svc #0", in("x0") PANICKED, in("x1") u64::from(line), options(noreturn)) }
}
