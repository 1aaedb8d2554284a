//! Runs the kernel on the host, in virtual time, with scripted tasks, programs that are built for the host, and the device model.
//!
//! The kernel is the one that boots on boards: [`fusee_kernel_core::Kernel`]. Here it meets a [`Machine`] with
//! time that passes while tasks burn and devices work, and in the kernel only as far as [`Overheads`] say. All
//! invariants of the kernel are checked after every trap, or as often as [`Checks`] say.
//!
//! - [`actor`]: the program of a task, step by step.
//! - [`gpu_job`]: the program of a task with several GPUs.
//! - [`graph`]: a scripted task as a node of a graph.
//! - [`watcher`]: the program of a supervisor.
//! - [`sharing`]: the program of a sharer, and the server of sessions that resets for it.
//! - [`board`]: the machine: registers, interrupts, memory and the device.
//! - [`run`]: the loop over events.
//! - [`process`]: a task with a program that is built for the host, as a process.
//! - [`overheads`]: the costs of kernel paths.
//! - [`system`]: from a manifest to a simulation.
//! - [`workload`]: from a task set to a manifest; random task sets.
//! - [`lives`]: how long tasks with further lives may be away, and when they were.
//!
//! Not here: metrics of a trace (`tools/views`), the command (`tools/simulate`), random systems and their conditions (`research/campaigns`).
//!
//! [`Machine`]: fusee_kernel_core::Machine
#![forbid(unsafe_code)]

pub mod actor;
pub mod board;
pub mod gpu_job;
pub mod graph;
pub mod lives;
pub mod overheads;
pub mod process;
pub mod run;
pub mod sharing;
pub mod system;
pub mod watcher;
pub mod workload;

pub use actor::{Part, Program, RECEIVED, Reply, Request, Until};
pub use overheads::Overheads;
pub use process::{Failure, Hosted, PATIENCE, Pace, unsuited};
pub use run::{Checks, EndedBy, First, Report, Simulation, SimulationError};
pub use system::{Options, has_substitute, simulate, simulate_observed, simulate_with, unmodelled};
