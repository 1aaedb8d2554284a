//! The interface of an accelerator's kernels.
//!
//! A *kernel* is a function that an execution engine runs: a type whose fields are its arguments, with the memory that it reads and writes as
//! [views](Views), cut into *blocks* that are worked on one after the other or side by side. It is safe Rust without a board, so the same code is
//! firmware of an engine, runs in the simulator's device, and is a plain function in its author's tests.
//!
//! ```
//! use fusee_compute::{Input, Kernel, Output, arguments};
//! use core::ops::Range;
//!
//! arguments! {
//!     /// `to[i] = by * from[i]`, wrapping.
//!     pub struct Scale {
//!         /// Elements.
//!         pub length: u32,
//!         /// The factor.
//!         pub by: u32,
//!     }
//! }
//!
//! impl Kernel for Scale {
//!     const NAME: &'static str = "scale";
//!     type Views<'m> = (Input<'m, u32>, Output<'m, u32>);
//!
//!     fn elements(&self) -> [usize; 2] {
//!         [self.length as usize; 2]
//!     }
//!
//!     fn blocks(&self) -> u32 {
//!         self.length.div_ceil(256)
//!     }
//!
//!     fn time(&self, blocks: Range<u32>) -> u64 {
//!         20_000 * u64::from(blocks.end - blocks.start)
//!     }
//!
//!     fn block(&self, block: u32, (from, to): Self::Views<'_>) {
//!         let begin = 256 * block as usize;
//!         for at in begin..(begin + 256).min(from.len()) {
//!             to.set(at, from.get(at).wrapping_mul(self.by));
//!         }
//!     }
//! }
//!
//! let mut tripled = [0; 3];
//! fusee_compute::run(&Scale { length: 3, by: 3 }, (Input::from(&[1, 2, 3][..]), Output::from(&mut tripled[..])));
//! assert_eq!(tripled, [3, 6, 9]);
//! ```
//!
//! # Treatment by an engine
//!
//! | Behaviour of a kernel | Effect |
//! |---|---|
//! | reads or writes beyond a view, or panics otherwise | its launch fails, with the line of its source |
//! | recurs until its stack is full | its launch fails |
//! | takes longer than its [time](Kernel::time) | it is late, which is counted; a kernel that takes far longer fails |
//! | writes a view that it only reads | does not compile: an [`Input`] has no such function |
//!
//! Nothing else fails or is late because of that. A view that is not mapped, or may not be written, and one that is written while
//! another view has bytes of it, are found before the first block runs.
//!
//! # Invariants
//!
//! 1. A kernel touches its views and nothing else: it has nothing else.
//! 2. Blocks of one launch may run in any order, unless [`Kernel::ORDERED`]; so none may count on the output of another.
//!
//! Not here: commands and their place in memory (`accel/contract`), the device (`qemu/device-model`), buffers of clients (`fusee::gpu`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

mod arguments;
mod entry;
mod views;

pub use arguments::{Argument, Arguments};
pub use entry::{Entry, Plan, ViewPlan, find, identity, table, words};
pub use views::{Access, Element, Input, Memory, Output, Place, Update, View, Views};

use core::ops::Range;

/// Views that a kernel has at most.
pub const VIEWS_MAX: usize = 6;
/// Words of 32 bits that the addresses of its views and its arguments take at most.
pub const WORDS_MAX: usize = 20;
/// Blocks of a launch at most.
pub const BLOCKS_MAX: u32 = 65_536;
/// The [time](Kernel::time) of a kernel whose author does not know it: it is measured.
pub const MEASURED: u64 = u64::MAX;

/// A function that an engine runs. The fields of the type are the arguments, see [`arguments!`].
pub trait Kernel: Arguments {
    /// The name of the kernel, in reports. With the types of its views it distinguishes one kernel from others: change it when the
    /// behaviour of the kernel changes for its users.
    const NAME: &'static str;

    /// The views that it reads and writes: a tuple of [`Input`], [`Output`] and [`Update`], at most [`VIEWS_MAX`].
    type Views<'m>: Views<'m>;

    /// Whether blocks run in their order, each after the one before has ended. If not, an engine may run several at once.
    const ORDERED: bool = false;

    /// The needs of a block on an engine that runs several at once.
    const RESOURCES: Resources = Resources { threads: 1, registers: 32, shared: 0 };

    /// Whether the arguments are within the limits of this kernel. Other arguments are refused, and no other function gets them.
    fn is_valid(&self) -> bool {
        true
    }

    /// The number of elements that it needs of each view, in their order.
    fn elements(&self) -> <Self::Views<'static> as Views<'static>>::Elements;

    /// The number of blocks, 1 to [`BLOCKS_MAX`].
    fn blocks(&self) -> u32;

    /// Nanoseconds that these blocks take, without the time to start the launch. A function of the arguments alone. The
    /// instructions of an emulated engine for a block must not be more than an eighth of that number.
    ///
    /// [`MEASURED`], unless a kernel returns something else: then the device takes, for each block, the time that a measuring
    /// system has written down for its [class](Kernel::class), and refuses launches without a measurement.
    fn time(&self, blocks: Range<u32>) -> u64 {
        let _ = blocks;
        MEASURED
    }

    /// Distinguishes launches whose blocks take different times, where times are measured: those of one class have the longest of
    /// all. Unless a kernel returns something else, two launches are of one class if all their arguments are equal.
    fn class(&self) -> u32 {
        let mut words = [0; WORDS_MAX];
        self.encode(&mut words[..Self::WORDS]);
        entry::hash(words[..Self::WORDS].iter().flat_map(|word| word.to_le_bytes()))
    }

    /// Does a block. Indices beyond a view panic.
    fn block(&self, block: u32, views: Self::Views<'_>);
}

/// The needs of a block on an engine that runs several at once. An engine that runs one block after the other uses none of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resources {
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of memory that the threads of a block share.
    pub shared: u32,
}

/// Does all blocks, in their order: a kernel as a plain function.
///
/// # Panics
/// As the kernel does; and if its arguments are not valid, or a view has not the number of elements it needs.
#[track_caller]
pub fn run<K: Kernel>(kernel: &K, views: K::Views<'_>) {
    assert!(kernel.is_valid(), "{}: arguments out of its limits", K::NAME);
    let elements = kernel.elements();
    for (number, (has, needs)) in views.lengths().as_ref().iter().zip(elements.as_ref()).enumerate() {
        assert!(needs == has, "{}: view {number} has {has} elements, not {needs}", K::NAME);
    }
    (0..kernel.blocks()).for_each(|block| kernel.block(block, views));
}
