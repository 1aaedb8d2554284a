//! The decisions of a sharer, apart from its calls to the kernel and its reads of the device: its program (`main.rs`) and the simulator's follow the
//! same course.
//!
//! - [`setup`]: the parameters of the manifest: the policy, its parameters, groups.
//! - [`course`]: the next step, one at a time.
//! - [`program`]: both with the calls to the kernel, for any policy.
#![no_std]
#![forbid(unsafe_code)]

mod client;
pub mod course;
mod groups;
pub mod program;
pub mod setup;
