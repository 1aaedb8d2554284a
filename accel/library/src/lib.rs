//! Kernels for [pictures](picture), [matrices](Product) and [signals]: those of a device unless its manifest names a package of
//! other kernels. A package of a project's own may have some of them in its table.
//!
//! # The rule behind their times
//!
//! An emulated engine core shares one timeline with up to three busy CPUs and executes one instruction in a nanosecond. Real work
//! must fit in half the modelled time even so: a launch may cost at most an eighth of its nanoseconds in instructions, setup
//! included. The numbers in front of each kernel are its needs;
//! `tests/target/the_kernels_that_every_device_has_need_an_eighth_of_their_time.toml` measures them. Operands that do not begin at
//! a multiple of eight bytes are read and written byte by byte, which may be more than that.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use fusee_compute::{Entry, table};

mod matrix;
pub mod picture;
pub mod signals;

pub use matrix::{ORDER_MAX, Product};
pub use picture::{BlockMatch, Gradient, Match, Shift};
pub use signals::{Filter, Transform};

/// All of them.
pub const KERNELS: &[Entry] = &table([
    Entry::of::<Gradient>(),
    Entry::of::<BlockMatch>(),
    Entry::of::<Shift>(),
    Entry::of::<Product>(),
    Entry::of::<Filter>(),
    Entry::of::<Transform>(),
]);

/// Elements at a multiple of eight bytes, as views are: so they are moved word by word.
#[repr(align(8))]
struct Aligned<T>(T);
