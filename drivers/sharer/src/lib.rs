//! What a sharer decides, apart from what it asks of the kernel and reads of the device: its program (`main.rs`) and the simulator's follow the same course.
//!
//! - [`setup`]: what the manifest says: the policy, its parameters, groups.
//! - [`course`]: what comes next, one step at a time.
#![no_std]
#![forbid(unsafe_code)]

mod client;
pub mod course;
mod groups;
pub mod setup;
