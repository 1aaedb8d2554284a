//! What a supervisor decides, apart from what it asks of the kernel: its program (`main.rs`) and the simulator's follow the same plan.
#![no_std]
#![forbid(unsafe_code)]

pub mod plan;
