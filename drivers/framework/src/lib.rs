//! The common part of driver servers: a typed window on a device, and the manifest's entries for each client.
//!
//! A driver is a task like any other. It reaches its device through a region the manifest gives it, hears of
//! interrupts through a notification, and serves clients through an endpoint. It runs with the key and budget of
//! the threads that wait for it; nothing here knows about that.
//!
//! Lives here: `registers`, the one place where a region becomes registers; `clients`, the entries of the clients of a device; `halves`, servers
//! with a bottom half; `loans`, the regions that clients lend; `pci`, how a function there is enabled; `virtio`, the one
//! where memory is given to a device that reads and writes it by itself. Does not: devices.
#![no_std]

mod clients;
mod halves;
mod loans;
pub mod pci;
mod registers;
#[cfg(feature = "virtio")]
pub mod virtio;

pub use clients::{clients, name_of, of_client, parameter_of_client, places};
pub use halves::{BottomHalf, Wakes};
pub use loans::{Lease, Loan, Loans};
pub use registers::{ClaimError, claim};
pub use safe_mmio;
