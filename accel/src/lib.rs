//! Accelerator policy: which accelerator a task should use, and who may use an engine next, decided without touching one.
//!
//! Pure and safe: no register, no clock, no allocation. What is known about the waiting
//! clients comes in as an argument, the choice goes out as a value.
//!
//! - [`heuristics`]: advice to a pool of tokens: where to wait, to whom to donate, whom to steal.
//! - [`plugin`]: who advises a pool: these heuristics, nobody, or chance.
//! - [`predictor`]: how long a task will hold its token.
//! - [`topology`]: which token is of which GPU, and how far those are apart.
//! - [`sharing`]: the class without a real-time promise.
//!
//! Not here: what device and driver agree on (`accel/contract`), locks on engines and the rules of pools
//! (`locking`), the device itself (`qemu/device-model`, `drivers/gpu`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod heuristics;
pub mod plugin;
pub mod predictor;
pub mod sharing;
pub mod topology;
