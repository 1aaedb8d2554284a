//! Views of a trace that few ask for. A user's project compiles them when one is first asked for.
//!
//! - [`litmus`]: the records that LITMUS^RT has, in its format.
//! - [`perfetto`]: all of it for Perfetto.
//! - [`overheads`]: what the kernel's paths took, for SchedCAT.
//! - [`audit`]: whether explanations are right.
//!
//! Not here: views that each run may print (`fusee_views`), and the commands (`tools/looks`).
#![forbid(unsafe_code)]

pub mod audit;
pub mod litmus;
pub mod overheads;
pub mod perfetto;
#[cfg(test)]
#[path = "../../views/src/random.rs"]
mod random;
