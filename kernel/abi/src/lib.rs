//! The interface of the kernel, user tasks and host tools.
//!
//! System-call numbers and registers (`call`), errors (`error`), the packed system that `xtask` writes and
//! the kernel boots from (`image`), the page that lists the objects of a task (`environment`), the
//! binary trace (`trace`), the scripts of conformance systems (`script`), the lines of a kernel that speaks (`speech`), the note in each program that says
//! which version it was built for (`program`), and the messages between a program on the host and the simulator
//! (`door`).
//!
//! Everything here is plain data with a fixed layout. Not here: the effect of a call (`kernel/core`), how it
//! is trapped (`kernel/aarch64`), and the safe wrappers tasks use (`userland/fusee`).
#![no_std]
#![forbid(unsafe_code)]

pub mod call;
pub mod door;
pub mod environment;
pub mod error;
pub mod image;
pub mod lives;
pub mod program;
pub mod script;
pub mod speech;
pub mod trace;

pub use call::Call;
pub use error::Error;
