//! The accelerator of `accel/contract`, as a pure state machine in virtual time.
//!
//! Time comes in as an argument, memory is reached through a [`Bus`], and the actions that must follow
//! go out as [`Actions`]. The same code runs in the simulator and as the firmware of
//! an emulated engine core; the two differ in their bus and in where time comes from.
//!
//! # Invariants
//!
//! 1. On behalf of a context the device touches only pages that the context's translation
//!    table maps, of the right memory, inside the windows of its [`Description`].
//! 2. Commands of one engine and context run in ring order, one at a time for each engine; on an execution engine with SMs one at a time of each context.
//! 3. A completion is announced at its modelled instant or later, never earlier, and only
//!    after the real work is done. Announcing too late is counted.
//! 4. With any stores of a client, the device keeps going, and other contexts notice nothing.
//!
//! # Why the work is done in slices
//!
//! A search in two pictures is a millisecond of real work. If one call did it all, a copy that ends
//! meanwhile would be announced late. So each call of [`Device::poll`] copies a page at most, and asks to be called again. How long a block of
//! a kernel takes is its author's choice: the player of the device interrupts it ([`Bus::run`]).
//!
//! Not here: kicks, interrupts lines, clocks (`qemu/engine-core`); pages and times
//! (`accel/contract`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
pub mod bench;
mod bus;
mod description;
mod device;
mod launch;
mod space;
mod spatial;
mod times;
mod work;

pub use bus::{Bus, BusError};
pub use description::{Description, DescriptionError};
pub use device::{Actions, Device};
pub use fusee_accel::sharing::Arbiter;
pub use fusee_spatial::Mechanism;
pub use launch::{Job, Ran};
pub use space::{PEERS, Peer, Window};
pub use spatial::{Equipment, Sms, UNITS, Units};
pub use times::{BlockTime, Times};
