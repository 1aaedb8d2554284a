//! The host's stand-in for the kernel: it refuses every call, so that pure code can be tested on a laptop.

use crate::raw::{Answer, MessageAnswer};
use fusee_abi::Error;

/// Refuses a call with two arguments.
pub fn plain(_number: u64, _first: u64, _second: u64) -> Answer {
    Answer { code: Error::BadCall as u64, value: 0, second: 0 }
}

/// Refuses a call with a handle and a deadline.
pub fn timed(_number: u64, _first: u64, _deadline: u64) -> Answer {
    Answer { code: Error::BadCall as u64, value: 0, second: 0 }
}

/// Refuses a call with message words.
pub fn message(_number: u64, _first: u64, words: [u64; 6], _deadline: u64, _token: u64) -> MessageAnswer {
    MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
}

/// Refuses a call with message words and a handle.
pub fn carrying(_: u64, _: u64, words: [u64; 6], _: u64, _: u64, _: u64, _: u64) -> MessageAnswer {
    MessageAnswer { code: Error::BadCall as u64, value: 0, words, token: 0, given: 0 }
}

/// The same refusals.
pub mod untrapped {
    pub use super::{carrying, message, plain, timed};
}

/// No counter: zero.
#[must_use]
pub fn counter() -> u64 {
    0
}

/// Nobody watches.
pub fn mark(_number: u8) {}

/// Nothing to wait for.
pub fn spin(_rounds: u64) {}

/// No device to wait for.
pub fn complete_stores() {}

/// Nobody to make way for.
pub fn relax() {}
