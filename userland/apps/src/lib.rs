//! Small tasks for examples and tests; each lives in `bin/`, and its header has its purpose.
//!
//! Here: the agreements of two of them, or of one of them and a host tool.
#![no_std]
#![forbid(unsafe_code)]

pub mod contents;
pub mod meeting;
pub mod rows;
pub mod scenes;
pub mod signals;

use core::hint::black_box;

/// Reads the counter, right after a computation with floating point if `FLOATS`.
#[inline(always)]
#[must_use]
pub fn counter<const FLOATS: bool>() -> u64 {
    compute::<FLOATS>();
    fusee::counter()
}

/// The shortest of `samples` times that `work` takes, ticks: work of others meanwhile is not in it.
#[inline(always)]
pub fn least(samples: usize, mut work: impl FnMut()) -> u64 {
    let sample = |_| {
        let before = fusee::counter();
        work();
        fusee::counter() - before
    };
    (0..samples).map(sample).min().unwrap_or(0)
}

/// Computes with floating point if `FLOATS`.
#[inline(always)]
pub fn compute<const FLOATS: bool>() {
    if FLOATS {
        black_box(black_box(1.5_f64) * 1.25);
    }
}
