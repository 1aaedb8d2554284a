//! System calls as the ABI has them: numbers in, numbers out.
//!
//! For tests that give the kernel nonsense, and for benchmarks that measure the trap and nothing else. Everything
//! else is better served by the typed calls of this crate.

pub use crate::syscall::{carrying, message, plain, timed, untrapped};

/// The result of a call without message words.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Zero, or an error code.
    pub code: u64,
    /// `x1`.
    pub value: u64,
    /// `x2`.
    pub second: u64,
}

/// The result of a call with message words.
#[derive(Clone, Copy, Debug)]
pub struct MessageAnswer {
    /// Zero, or an error code.
    pub code: u64,
    /// `x1`: a value or the sender's badge.
    pub value: u64,
    /// `x2` to `x7`.
    pub words: [u64; 6],
    /// `x10`: the reply token.
    pub token: u64,
    /// `x11`: the handle that came with the message. It means something only where the ABI says that one came.
    pub given: u64,
}
