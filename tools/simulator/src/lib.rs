//! Runs the kernel on the host, in virtual time, with scripted tasks and the device model.
//!
//! The kernel is the one that boots on boards: [`fusee_kernel_core::Kernel`]. Here it meets a [`Machine`] whose
//! time passes while tasks burn and devices work, and in the kernel only as far as [`Overheads`] say. All
//! invariants of the kernel are checked after every trap, or as often as [`Checks`] say.
//!
//! - [`actor`]: what a task does, step by step.
//! - [`gpu_job`]: what a task with several GPUs does.
//! - [`graph`]: what a scripted task does as a node of a graph.
//! - [`watcher`]: what a supervisor does.
//! - [`sharing`]: what a sharer does, and the server of sessions that resets for it.
//! - [`board`]: the machine: registers, interrupts, memory and the device.
//! - [`run`]: the loop over events.
//! - [`overheads`]: what paths of the kernel cost.
//! - [`system`]: from a manifest to a simulation.
//! - [`workload`]: from a task set to a manifest; random task sets.
//! - [`metrics`]: from a trace to response times and lateness.
//! - [`draws`]: which random systems are simulated, and which of them went wrong.
//! - [`soundness`]: bounds against what happens, in many random task sets.
//! - [`blocking`]: the same for bounds on blocking, in random systems with engines.
//! - [`faults`]: tasks that end and are given further lives, and all others.
//! - [`video`]: many graphs on one GPU, with more tasks in a pool than a board's kernel has room for.
//! - [`spatial`]: processes that share a GPU of many SMs. The kernel has no part in these.
//! - [`stress`]: random calls, signals and waits of clients and servers.
//! - [`hostile`]: deadlines that are proved, among tasks that do anything.
//!
//! [`Machine`]: fusee_kernel_core::Machine
#![forbid(unsafe_code)]

pub mod actor;
pub mod blocking;
pub mod board;
pub mod draws;
pub mod faults;
pub mod gpu_job;
pub mod graph;
pub mod hostile;
pub mod latency;
pub mod metrics;
pub mod overheads;
pub mod run;
pub mod services;
pub mod sharing;
pub mod soundness;
pub mod spatial;
pub mod stress;
pub mod system;
pub mod video;
pub mod watcher;
pub mod workload;

pub use actor::{Part, Program, RECEIVED, Reply, Request, Until};
pub use overheads::Overheads;
pub use run::{Checks, First, Report, Simulation, SimulationError};
pub use system::{Options, simulate, simulate_observed, simulate_with, unmodelled};
