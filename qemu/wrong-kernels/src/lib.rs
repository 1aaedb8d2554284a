//! A GPU kernel that does wrong in as many ways as a safe one can, for tests of the cost to others: nothing; and one without a time by its author.
#![no_std]
#![forbid(unsafe_code)]

use core::hint::black_box;
use core::ops::Range;

use fusee_compute::{Entry, Kernel, Update, arguments, table};

/// All of them.
pub const KERNELS: &[Entry] = &table([Entry::of::<Wrong>(), Entry::of::<Rounds>()]);

/// The number of elements, of one byte each, in the view of the kernel [`Wrong`].
pub const LENGTH: usize = 64;

/// The ways of this kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum How {
    /// The right way: each element becomes one more.
    Right,
    /// Panics in its second block.
    Panics,
    /// Reads an element behind its view.
    ReadsBeyond,
    /// Writes an element behind its view.
    WritesBeyond,
    /// Divides by zero.
    Divides,
    /// Uses an index that has wrapped.
    Overflows,
    /// Calls itself until its stack is full.
    Recurs,
    /// Has more on its stack than there is.
    Fills,
    /// Does not end.
    Endless,
    /// Takes ten times its time.
    Slow,
    /// Panics as it computes its needs.
    PlanPanics,
    /// Does not end as it is asked.
    PlanEndless,
}

impl How {
    /// All that is wrong.
    pub const WRONG: [Self; 11] = [
        Self::Panics,
        Self::ReadsBeyond,
        Self::WritesBeyond,
        Self::Divides,
        Self::Overflows,
        Self::Recurs,
        Self::Fills,
        Self::Endless,
        Self::Slow,
        Self::PlanPanics,
        Self::PlanEndless,
    ];
}

arguments! {
    /// Does wrong.
    pub struct Wrong {
        /// A [`How`], as a number.
        pub how: u8,
    }
}

impl Wrong {
    fn is(self, how: How) -> bool {
        self.how == how as u8
    }
}

/// Nanoseconds of a block.
const TIME: u64 = 100_000;

impl Kernel for Wrong {
    const NAME: &'static str = "wrong";
    type Views<'m> = (Update<'m, u8>,);

    fn elements(&self) -> [usize; 1] {
        if self.is(How::PlanPanics) {
            panic!("an author who forgot a case");
        }
        while self.is(How::PlanEndless) {
            black_box(());
        }
        [LENGTH]
    }

    fn blocks(&self) -> u32 {
        2
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        TIME * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, block: u32, (numbers,): Self::Views<'_>) {
        if self.is(How::Panics) && block == 1 {
            panic!("in the second block");
        }
        let zero = black_box(0_u32);
        if self.is(How::ReadsBeyond) {
            black_box(numbers.get(LENGTH));
        } else if self.is(How::WritesBeyond) {
            numbers.store(LENGTH - 1, &[0; 2]);
        } else if self.is(How::Divides) {
            black_box(1 / zero);
        } else if self.is(How::Overflows) {
            black_box([0_u8; 4][zero.wrapping_sub(1) as usize % 8]);
        } else if self.is(How::Recurs) {
            black_box(depth(black_box(u64::MAX)));
        } else if self.is(How::Fills) {
            fill();
        } else if self.is(How::Slow) {
            (0..10 * TIME).for_each(|step| _ = black_box(step));
        }
        while self.is(How::Endless) {
            black_box(());
        }
        let half = LENGTH / 2;
        for at in half * block as usize..half * (block as usize + 1) {
            numbers.set(at, numbers.get(at).wrapping_add(1));
        }
    }
}

arguments! {
    /// Multiplies each number as often as the number says: the time depends on the numbers, which its author does not know.
    pub struct Rounds {
        /// Numbers.
        pub length: u32,
    }
}

/// Numbers of a block of [`Rounds`].
const TOGETHER: usize = 16;

impl Kernel for Rounds {
    const NAME: &'static str = "rounds";
    type Views<'m> = (Update<'m, u32>,);

    fn elements(&self) -> [usize; 1] {
        [self.length as usize]
    }

    fn blocks(&self) -> u32 {
        self.length.div_ceil(TOGETHER as u32).max(1)
    }

    fn class(&self) -> u32 {
        self.length
    }

    fn block(&self, block: u32, (numbers,): Self::Views<'_>) {
        for at in (TOGETHER * block as usize..numbers.len()).take(TOGETHER) {
            let rounds = numbers.get(at);
            numbers.set(at, (0..rounds).fold(1, |product: u32, round| product.wrapping_mul(5) ^ black_box(round)));
        }
    }
}

/// More than a stack holds, and not part of the frame of its caller.
#[inline(never)]
fn fill() {
    black_box([0_u64; 1 << 14]);
}

#[inline(never)]
fn depth(more: u64) -> u64 {
    if more == 0 { 0 } else { 1 + black_box(depth(black_box(more - 1))) }
}
