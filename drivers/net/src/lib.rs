//! The parts of the network server that touch no device: the link to the crate `smoltcp`, which has the protocols, and the sockets of clients.
//!
//! | Module | Contents |
//! |---|---|
//! | `link` | frames to and from a device, through a trait for it, as a device of `smoltcp` |
//! | `memory` | buffers of all sockets, which are there from the beginning |
//! | `sockets` | sockets of clients, with their queues and counts |
//! | `server` | clients, and the work for them |
//!
//! `main.rs` has the two tasks, and the device in memory.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod link;
pub mod memory;
pub mod server;
mod sockets;

pub use link::{FRAME, Frames};
pub use memory::Memory;
pub use server::{Address, Server};
