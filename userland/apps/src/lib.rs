//! Small tasks for examples and tests; each lives in `bin/` and says what it is for.
//!
//! Here: what two of them, or one of them and a host tool, must agree on.
#![no_std]
#![forbid(unsafe_code)]

pub mod rows;
