//! Random systems and faults in the simulator, and the conditions that must hold in them.
//!
//! - [`draws`]: which random systems are simulated, and which of them went wrong.
//! - [`soundness`]: bounds against observations, in many random task sets.
//! - [`blocking`]: the same for bounds on blocking, in random systems with engines.
//! - [`arranged`]: the same for fine bounds, in task sets of the study under arrangements of CPUs and GPUs.
//! - [`by_clock`]: the same where the clock alone releases jobs.
//! - [`decided`]: the same where the device of an engine decides for several CPUs.
//! - [`hostile`]: deadlines that are proved, among tasks that do anything.
//! - [`faults`]: tasks that end and are given further lives, and all others.
//! - [`keys`]: the keys of manifests, of which each is to be drawn.
//! - [`obligations`]: how each key enters the proofs.
//! - [`stress`]: random calls, signals and waits of clients and servers.
//! - [`video`]: many graphs on one GPU, with more tasks in a pool than a board's kernel has room for.
//! - [`spatial`]: processes that share a GPU of many SMs. The kernel has no part in these.
//!
//! Not here: the simulator ([`fusee_simulator`]), which users have, too; budgets of campaigns, and commands (`research`).
#![forbid(unsafe_code)]

pub mod arranged;
pub mod blocking;
pub mod by_clock;
pub mod decided;
pub mod draws;
pub mod faults;
pub mod hostile;
pub mod keys;
pub mod obligations;
pub mod soundness;
pub mod spatial;
pub mod stress;
pub mod video;
