//! Accelerator policy: the choice of an accelerator for a task, and of the next user of an engine, decided without touching one.
//!
//! Pure and safe: no register, no clock, no allocation. The facts about the waiting clients come in as an argument, the choice goes
//! out as a value.
//!
//! - [`heuristics`]: advice to a pool of tokens: the queue to wait in, the request to donate to, the request to steal.
//! - [`plugin`]: the adviser of a pool: these heuristics, none, or chance.
//! - [`predictor`]: how long a task will hold its token.
//! - [`topology`]: which token is of which GPU, and how far those are apart.
//! - [`sharing`]: the class without a real-time promise.
//!
//! Not here: the contract of device and driver (`accel/contract`), locks on engines and the rules of pools (`locking`), the device
//! itself (`qemu/device-model`, `drivers/gpu`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod heuristics;
pub mod plugin;
pub mod predictor;
pub mod sharing;
pub mod topology;
