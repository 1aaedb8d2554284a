//! Scheduling: the runner of each reservation, and the links of reservations to CPUs.

pub(crate) mod cluster;
pub(crate) mod cpu;
mod fast_switches;
mod only_donor;
mod reschedule;
pub(crate) mod reservation;
pub(crate) mod resting;
mod schedule;
mod settling;
pub(crate) mod thread;
