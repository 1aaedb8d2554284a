//! Which thread runs on which reservation, and which reservation on which CPU.

mod fast_switches;
mod reschedule;
pub(crate) mod resting;
mod schedule;
mod settling;
mod thread;
