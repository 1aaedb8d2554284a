//! Graphs of tasks: nodes that are released by tokens.
//!
//! A node is a sporadic task. An *edge* leads from a producer to a consumer: each job of the producer puts tokens on it when it ends, each job of the consumer takes some
//! when it begins, and may begin when enough are there. A node without edges that lead to it is a *source*, and is released by the clock.
//!
//! - [`rate`]: how often each node runs, from the source's period.
//! - [`lateness`](mod@lateness): how late each node's jobs are at most.
//! - [`edge`]: tokens as arithmetic: up to which job a consumer may run.
//! - [`progress`]: the steps of a node at the end of a job, beside others on other CPUs.
//! - [`names`]: the entries of a node in its environment.
//!
//! # Tokens are not counted
//!
//! Each job produces and consumes a fixed number, so the number of jobs that a producer has ended says all about the tokens it has put anywhere. A node has one word, which it
//! alone writes; the number of a consumer's job determines the tokens it has taken. From these follows up to which job the consumer may be released,
//! and the kernel is told that number (`Task::credit`). To say it twice changes nothing, so producers need no lock.
//!
//! Source: Goddard 1998, processing graphs and their rates; Elliott 2015, tokens in a real-time system. Ours: one word a node, and credit in the place of flags and atomic exchanges.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod edge;
pub mod lateness;
pub mod names;
pub mod progress;
pub mod rate;

pub use edge::{Edge, EdgeError, NODES, Tokens};
pub use lateness::{Lateness, Timing, Unbounded, lateness, source_job};
pub use progress::{Begun, Words, begin, begin_job, end_job, give_back, is_lost};
pub use rate::{Rate, RateError, starved};
