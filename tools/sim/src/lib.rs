//! Lets a project test its own system in `#[test]`, on the host, in virtual time.
//!
//! The system of a manifest runs in the simulator: the kernel that boots on boards, and the programs of tasks, built for the host, as processes. Time is
//! virtual, so a run takes milliseconds and repeats exactly; the load of the host changes nothing. Linux on x86-64.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut system = fusee_sim::System::load("system.toml")?;
//! system.set("tasks.control.period", "10ms")?;
//! let mut run = system.start()?;
//! run.until(Duration::from_millis(35))?;
//! run.crash("driver")?;
//! run.until(Duration::from_millis(100))?;
//! assert_eq!(run.misses(), []);
//! assert!(run.latest_completion("control")? <= Some(Duration::from_millis(2)));
//! assert!(run.console().contains("driver: again"));
//! # Ok(())
//! # }
//! ```
//!
//! A check of many runs finds what depends on order: [`System::seeds`] varies phases, execution times and the order of CPUs, and a failure has the seed and
//! the few things that it has to vary.
//!
//! ```text
//! error     errors, with places and choices
//! programs  programs of tasks, built for the host
//! run       a run: time, faults, observations
//! seeds     runs that a seed varies
//! system    a system before it starts
//! ```
//!
//! Not here: the simulator (`tools/simulator`), the command `cargo xtask simulate` (`tools/simulate`).
#![forbid(unsafe_code)]

pub mod error;
pub mod programs;
pub mod run;
pub mod seeds;
pub mod system;

pub use error::Error;
pub use fusee_abi::trace::{Event, Record};
pub use fusee_simulator::{Overheads, Pace};
pub use run::{Job, Reached, Run, Seen};
pub use seeds::{Draws, Failure, Varied};
pub use system::System;
pub use toml_edit::Value;
