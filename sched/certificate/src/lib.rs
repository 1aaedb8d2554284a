//! Certificates of schedulability: claims on response times with witnesses, and a checker of them.
//!
//! An analysis searches for bounds, and the search may be wrong. A *certificate* has the tasks of a system, a bound for each of them,
//! and a *witness* with which the bound follows from a few inequalities. The checker evaluates these inequalities. It searches for
//! nothing, and uses nothing of the analysis: neither its code nor its types.
//!
//! Three principles:
//!
//! 1. **No trust in the writer.** Any text may be a certificate. It is accepted only if each of its claims follows from its tasks.
//! 2. **Exact.** Times are whole nanoseconds, sums of utilisations are fractions of any size.
//! 3. **Nothing is left out.** A bound without a form of witness stands in the certificate as [`format::Uncertified`].
//!
//! # What is not checked
//!
//! The periods, deadlines and named parts of costs are inputs. The checker adds the parts up, and does not derive them: how long a job
//! waits for a lock, and how much the kernel takes, stand in the certificate for a reader to compare. The same holds for the flags of
//! [`format::Suspended`].
//!
//! - [`format`](mod@format): the text.
//! - [`check`](mod@check): the checker; in `one_cpu`, `several_cpus` and `waiting` the inequalities.
//! - [`refusal`]: the place and the numbers of a claim that does not hold.
#![forbid(unsafe_code)]

pub mod check;
pub mod format;
mod model;
mod one_cpu;
pub mod refusal;
mod several_cpus;
mod waiting;

pub use check::{Accepted, check};
pub use format::Certificate;
pub use refusal::Refusal;
