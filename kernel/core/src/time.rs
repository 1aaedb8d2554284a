//! Time as tasks pay for it: jobs, releases, budgets, and the events of the timekeeper.

mod budgets;
mod early;
mod jobs;
mod releases;
mod timekeeper;
