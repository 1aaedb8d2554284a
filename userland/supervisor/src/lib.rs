//! The decisions of a supervisor, apart from its calls to the kernel: its program (`main.rs`) and the simulator's follow the same plan.
#![no_std]
#![forbid(unsafe_code)]

pub mod plan;
