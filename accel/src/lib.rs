//! Accelerator policy: who may use an engine next, decided without touching one.
//!
//! Pure and safe: no register, no clock, no allocation. What is known about the waiting
//! clients comes in as an argument, the choice goes out as a value.
//!
//! Not here: what device and driver agree on (`accel/contract`), locks on engines
//! (`locking`), the device itself (`qemu/device-model`, `drivers/gpu`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod sharing;
