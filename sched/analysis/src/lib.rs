//! Analysis of a task set before it runs: bounds on response times, cluster by cluster.
//!
//! A cluster's tasks, its CPUs and its policy go in; verdicts and bounds come out, each with the name of the
//! test that gave it. Runs on the host only.
//!
//! Four principles:
//!
//! 1. **Exact.** Times are integers, quotients are rationals of any size. No decision rests on floating point,
//!    so a verdict never depends on the order of a sum.
//! 2. **Never wrong, sometimes silent.** A search that grows too long ends in [`uniprocessor::Unanswered`], a
//!    test outside its assumptions in a `DoesNotApply`.
//! 3. **The analysis is of the kernel's own rules.** Priority points come from `fusee_sched`, and ties count against the task,
//!    because the kernel decides them by lateness.
//! 4. **Each cluster alone.** Nothing here sees two clusters. Suspension counts as execution: the tests see no locks, only
//!    execution times that are longer by the waits of jobs. Two tests are the exception, `suspension` and `windows`.
//!
//! - [`task`]: tasks and clusters.
//! - [`utilisation`]: sums of e / p, and the tests that need nothing else.
//! - [`devi`]: tardiness under global EDF.
//! - [`compliant`]: lateness under global EDF and FL, for any deadlines.
//! - [`interference`]: response times on several CPUs under any policy.
//! - [`reachability`]: exact response times where the clock alone releases jobs.
//! - [`uniprocessor`]: exact tests for one CPU.
//! - [`overheads`]: the costs of the kernel itself.
//! - [`blocking`]: how long jobs wait for engines and tokens.
//! - [`servers`]: how long they wait for servers.
//! - [`decided`]: response times of tasks of several CPUs that share an engine that its device arbitrates.
//! - [`pi_blocking`]: which delays of a schedule a blocking term has to cover.
//! - [`report`]: all of it, for one cluster.
//! - [`certify`]: a report with witnesses, for a checker that does not trust this crate.
//! - [`can`]: response times of the frames of a CAN bus.
#![forbid(unsafe_code)]

pub mod blocking;
pub mod can;
pub mod certify;
pub mod compliant;
pub mod decided;
pub mod devi;
mod drawn;
pub mod interference;
mod locks;
pub mod overheads;
pub mod pi_blocking;
pub mod reachability;
pub mod report;
pub mod servers;
mod suspension;
pub mod task;
pub mod uniprocessor;
pub mod utilisation;
mod windows;

pub use overheads::{Locking, Overheads};
pub use report::{Report, analyse};
pub use task::{Above, Cluster, Interrupting, Nonsense, Task};

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

/// The fraction as the nearest number a printer can show. For the edge only: no decision may rest on it.
#[must_use]
pub fn approximate(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

/// `value + whole`, without the search for common divisors that general addition makes: there are none.
fn plus(value: &BigRational, whole: impl Into<BigInt>) -> BigRational {
    BigRational::new_raw(value.numer() + value.denom() * whole.into(), value.denom().clone())
}

/// Compares by two multiplications: fractions of thousands of digits make the general way slow.
fn compare(one: &BigRational, other: &BigRational) -> std::cmp::Ordering {
    (one.numer() * other.denom()).cmp(&(other.numer() * one.denom()))
}

/// A span as a fraction.
fn whole(span: fusee_sched::time::Nanoseconds) -> BigRational {
    BigRational::from_integer(span.0.into())
}
