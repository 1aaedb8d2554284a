//! The contract between an accelerator and its users: pages, rings, commands, faults and times.
//!
//! The device has one execution engine and up to two [copy engines](CopyEngines), and is shared by up to [`CONTEXTS`] contexts: a
//! GPU, or without copy engines an integrated one or a signal processor. All its input and output lies in plain memory; there are
//! no registers. This crate names the places and gives the words their meaning, for all four parties: device, driver, client,
//! kernel. It never touches memory itself: a reader brings bytes and gets values, a writer brings values and gets bytes.
//!
//! ```text
//! page                            written by       seen by
//! control                         driver, device,  driver
//!                                 kernel (gates)
//! status                          device           driver, kernel; clients may read it
//! doorbell (engine, context)      client           device, kernel; client while it holds the engine
//! ring page (context)             client, device   client, device
//! translation table (context)     driver           device
//! ```
//!
//! # How a command travels
//!
//! 1. The client writes command *n* into slot *n* mod [`RING_ENTRIES`] of its ring page.
//! 2. It stores *n* + 1 into word 0 of the doorbell page (release order), then kicks the
//!    device. How a kick is made is the board's business; a kick is a hint and may be stray.
//! 3. The device copies the count it read into the seen word of that engine and context, and
//!    reads the doorbell again. If the count is still the same, it goes on; else it has seen nothing.
//! 4. The device runs the command, writes its results, then its fence, then adds one to the
//!    retired word of that engine and context, then raises its interrupt.
//!
//! # Invariants
//!
//! 1. The counters only grow, and wrap. They are not cleared when a context changes hands: a
//!    new client continues at the value it finds in the doorbell page.
//! 2. At most [`RING_ENTRIES`] commands are outstanding for each engine and context.
//! 3. An engine is idle for a context if, and only if, doorbell word, seen word and retired word
//!    are equal ([`is_idle`]). The kernel decides by this whether an engine lock can move on. Seen
//!    and retired word are in the status page, which no client can write.
//! 4. While the gate of an engine is shut, no command of a shared context begins there ([`status_ended`]). The kernel decides by
//!    this whether an engine whose lock is wanted is that of clients without a lock no more.
//! 5. Until its fence is written, the output of a command is undefined. A slot of the ring may be used again once its command has
//!    retired.
//! 6. All words are little-endian and naturally aligned.
//!
//! Not here: the device's behaviour (`qemu/device-model`), MMIO (`drivers/framework`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod command;
mod fault;
mod layout;
pub mod space;
pub mod timing;
mod translation;

pub use command::*;
pub use fault::*;
pub use layout::*;
pub use translation::*;
