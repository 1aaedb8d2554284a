//! Advice on the arrangement of tasks on CPUs, which few ask for: a user's project compiles it when it is first asked for.
//!
//! An *arrangement* is a choice of clusters with their policies, of the cluster of each task, and of the rules by which locks and
//! pools are granted. Each arrangement is written as a manifest: the user's own text with a few lines changed. Admission of
//! `fusee_manifest` reads this text and judges it; nothing here has an analysis of its own.
//!
//! ```text
//! command      `cargo xtask advise`: its arguments and its output
//! search       the arrangements that are tried, and their order
//! judge        the verdict of admission on one manifest
//! arrangement  the parts of a system that can be arranged in another way
//! text         the manifest of an arrangement
//! ```
//!
//! # Invariants
//!
//! 1. A search draws nothing at random: one manifest and one limit give one answer.
//! 2. The user's file is read only.
#![forbid(unsafe_code)]

pub mod arrangement;
pub mod command;
pub mod judge;
pub mod search;
pub mod text;
