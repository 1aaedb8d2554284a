//! Time as tasks pay for it: jobs, releases, budgets, and the events of the timekeeper.

mod budgets;
mod early;
pub(crate) mod job;
mod jobs;
mod releases;
mod timekeeper;
