//! Runs the kernel on the host, in virtual time, with scripted tasks and the device model.
//!
//! The kernel is the one that boots on boards: [`fusee_kernel_core::Kernel`]. Here it meets a [`Machine`]
//! whose time stands still while the kernel and user code run, and passes only while tasks burn and devices
//! work. After every trap all invariants of the kernel are checked.
//!
//! - [`actor`]: what a task does, step by step.
//! - [`board`]: the machine: registers, interrupts, memory and the device.
//! - [`run`]: the loop over events.
//! - [`system`]: from a manifest to a simulation.
//!
//! [`Machine`]: fusee_kernel_core::Machine
#![forbid(unsafe_code)]

pub mod actor;
pub mod board;
pub mod run;
pub mod system;

pub use actor::{Program, Reply, Request, Until};
pub use run::{Report, Simulation, SimulationError};
pub use system::{Options, simulate, simulate_with};
