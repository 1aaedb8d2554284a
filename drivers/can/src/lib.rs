//! The parts of the CAN server that touch no device: bit timing, the controller behind its registers, and the queues of clients.
//!
//! | Module | Contents |
//! |---|---|
//! | `timing` | the bit timing of a bit rate |
//! | `controller` | one controller of a ZynqMP, through a trait for its registers |
//! | `server` | clients, their filters and queues, and the order of frames |
//! | `model` | in tests: a register model of the controller, and a bus that takes time |
//!
//! `main.rs` has the two tasks, and the registers in memory.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod controller;
#[cfg(test)]
mod model;
pub mod server;
pub mod timing;

pub use controller::{Controller, Dead, Mode, Register, Registers};
pub use server::{Bus, Clock};
pub use timing::{Timing, TimingError};
