//! Products of matrices.

use core::ops::Range;

use fusee_compute::{Input, Kernel, Output, arguments};

use crate::Aligned;

/// Most rows and columns of a matrix.
pub const ORDER_MAX: u16 = 32;

/// Nanoseconds of each multiplication: 5.2 ms for order 32. 20 instructions.
const STEP: u64 = 160;

const ELEMENTS: usize = ORDER_MAX as usize * ORDER_MAX as usize;

arguments! {
    /// Multiplies two square matrices of wrapping `u32`, row by row in memory: left factor, right factor, product.
    pub struct Product {
        /// Rows and columns, 1 to [`ORDER_MAX`].
        pub order: u16,
        /// Nanoseconds to take, without the time to start a launch, if that is more than the product needs.
        pub time: u64,
    }
}

impl Product {
    const fn count(self) -> usize {
        self.order as usize * self.order as usize
    }
}

impl Kernel for Product {
    const NAME: &'static str = "product";
    type Views<'m> = (Input<'m, u32>, Input<'m, u32>, Output<'m, u32>);

    fn is_valid(&self) -> bool {
        (1..=ORDER_MAX).contains(&self.order)
    }

    fn elements(&self) -> [usize; 3] {
        [self.count(); 3]
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn time(&self, _: Range<u32>) -> u64 {
        self.time.max(u64::from(self.order).pow(3) * STEP)
    }

    fn block(&self, _: u32, views: Self::Views<'_>) {
        match self.order {
            ..=8 => self.multiply::<64>(views),
            _ => self.multiply::<ELEMENTS>(views),
        }
    }
}

impl Product {
    /// All of it, with room for `N` elements of each matrix: to clear more than that takes longer than to multiply small ones.
    fn multiply<const N: usize>(self, (left, right, product): <Self as Kernel>::Views<'_>) {
        let [mut rows, mut others, mut out] = [const { Aligned([0; N]) }; 3];
        let [rows, others, out] = [&mut rows, &mut others, &mut out].map(|all| &mut all.0[..self.count()]);
        left.load(0, rows);
        right.load(0, others);
        let order = usize::from(self.order);
        for (row, out) in rows.chunks_exact(order).zip(out.chunks_exact_mut(order)) {
            for (factor, other) in row.iter().zip(others.chunks_exact(order)) {
                for (sum, other) in out.iter_mut().zip(other) {
                    *sum = sum.wrapping_add(factor.wrapping_mul(*other));
                }
            }
        }
        product.store(0, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_product_equals_its_definition(order in 1_u16..9, words in prop::collection::vec(any::<u32>(), 128)) {
            let n = usize::from(order);
            let (left, right) = (&words[..n * n], &words[64..][..n * n]);
            let mut out = vec![0; n * n];
            run(&Product { order, time: 0 }, (left.into(), right.into(), out.as_mut_slice().into()));
            for row in 0..n {
                for column in 0..n {
                    let terms = (0..n).map(|k| left[row * n + k].wrapping_mul(right[k * n + column]));
                    prop_assert_eq!(out[row * n + column], terms.fold(0, u32::wrapping_add));
                }
            }
        }
    }

    #[test]
    fn its_time_is_what_is_asked_for_or_what_it_needs() {
        let time = |time| Product { order: 8, time }.time(0..1);
        assert_eq!([0, 5_000_000, u64::MAX].map(time), [81_920, 5_000_000, u64::MAX]);
    }
}
