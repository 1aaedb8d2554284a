//! Processes that share one GPU of many SMs: the workloads of an experiment on preemption, replayed.
//!
//! Source: Tanasic et al., "Enabling Preemptive Multiprogramming on GPUs", ISCA 2014, section 4. The SMs, the policies and the ways
//! to take an SM away are [`fusee_spatial`]. **The kernel has no part in it**: each process has a CPU of its own, so the kernel
//! would decide nothing but the keys, and these are given here.
//!
//! - [`workload`]: the steps of a process, and the processes that run together.
//! - [`process`]: a process that replays its trace.
//! - [`mod@run`]: the loop over events: the CPUs, one copy engine, the execution engine.
//! - [`metrics`]: the measures of a run.
//!
//! # The machine
//!
//! At most eight processes on eight CPUs, as the paper's machine has threads. One copy engine for both directions, as the paper's text
//! has one data transfer engine: a copy that has begun runs to its end. One execution engine of 13 SMs with 13 places.
//!
//! # A process
//!
//! A process computes, copies in, launches its kernels without waiting for any of them, copies out and begins anew. All that it
//! asks of the device is in one command queue. A command is issued when the one before it in its queue has ended, and not before
//! (section 2 of the paper). So when a kernel ends, the engine looks for another one before it sees the next one of the same process:
//! an SM goes to a kernel of a smaller priority for an instant, and is taken away again.
//!
//! # Inputs that are not published
//!
//! The paper publishes for each kernel how often it is launched, its time and its blocks ([`fusee_spatial::parboil`]), and for a whole
//! run a class: SHORT below 5 ms, MEDIUM 30 to 115 ms, LONG above 400 ms. All else is ours. It was chosen once, from these ranges alone,
//! before anything was run.
//!
//! - *The length of a whole run*: three [variants](workload::VARIANTS), at the lower end of the range of its class, in its middle and at its
//!   upper end. LONG has no upper end; it is twice its lower one, 800 ms. SHORT has no lower end; it is where the kernels take four fifths
//!   of a run, which leaves a fifth to others under exclusive priorities, or these would take for ever. Nothing is shorter than that: the kernels
//!   of mri-q take 6.8 ms, more than its class says of the whole run.
//! - *The part besides kernels*: three quarters computing, all of it before the copy in, and one quarter copies, of which two thirds in. The rate of
//!   the bus is not published either, so copies are given as times.
//! - *The order of launches*: those of each kernel are spread evenly over the run; of several at one place the first of the table first.
//! - *How much the times of blocks vary*: [`SPREAD`].
//! - *Which programs run together*: each process is drawn from all ten, independently of the others. The paper says "random".
//! - *All processes but one* have the same priority where there are priorities.

pub mod metrics;
pub mod process;
pub mod run;
pub mod workload;

pub use metrics::Metrics;
pub use run::{Copies, Member, Outcome, Setup, run};
pub use workload::{Inputs, Trace, VARIANTS, Variant, trace, workloads};

/// SMs of the paper's GPU.
pub const SMS: u8 = 13;
/// How far a block's time is off the mean at most, in thousandths of the mean, evenly: the longest is three times the shortest. No time of a
/// block is published, and zero would be a choice, too: the blocks of an SM would end together, and draining cost nothing.
pub const SPREAD: u16 = 500;
/// Complete runs that each process has at least.
pub const RUNS: usize = 3;
