//! Launches of kernels: which buffer is which view.
//!
//! A kernel declares by types the views that it reads and writes, and a launch names their buffers by references: `&buffer` for an
//! [`Input`](compute::Input), `&mut buffer` for a view that is written. A buffer that does not fit does not compile:
//!
//! ```
//! # use fusee::gpu::{Buffer, Local, Work, compute};
//! # use compute::{Input, Kernel, Output, arguments};
//! # arguments! { struct Negative { pixels: u32 } }
//! # impl Kernel for Negative {
//! #     const NAME: &'static str = "negative";
//! #     type Views<'m> = (Input<'m, u8>, Output<'m, u8>);
//! #     fn elements(&self) -> [usize; 2] { [self.pixels as usize; 2] }
//! #     fn blocks(&self) -> u32 { 1 }
//! #     fn time(&self, _: core::ops::Range<u32>) -> u64 { 1_000_000 }
//! #     fn block(&self, _: u32, _: Self::Views<'_>) {}
//! # }
//! # fn negative(picture: &Buffer<Local>, negative: &mut Buffer<Local>) {
//! let work = Work::launch(Negative { pixels: 4096 }, (picture, negative));
//! # drop(work);
//! # }
//! ```

use super::work::Buffer;
use super::{Launch, Operation, compute};
use compute::{Access, Element, Input, Kernel, Output, Update, VIEWS_MAX, View, Views, identity, words};

/// A buffer as a view of type `V`.
pub trait Operand<'b, V>: sealed::Sealed {
    /// The memory it is in.
    type Memory;

    /// The first device address of the buffer, and its bytes.
    fn place(&self) -> (u64, u64);
}

/// Buffers as the views `V` of a kernel: a tuple of references, in the order of the views, all to the same memory.
pub trait Operands<'b, V>: sealed::Sealed {
    /// Where each is.
    fn places(&self) -> [(u64, u64); VIEWS_MAX];
}

mod sealed {
    pub trait Sealed {}
}

impl<M> sealed::Sealed for &Buffer<M> {}
impl<M> sealed::Sealed for &mut Buffer<M> {}

impl<'b, M, T: Element> Operand<'b, Input<'_, T>> for &'b Buffer<M> {
    type Memory = M;

    fn place(&self) -> (u64, u64) {
        self.range()
    }
}

impl<'b, M, T: Element> Operand<'b, Output<'_, T>> for &'b mut Buffer<M> {
    type Memory = M;

    fn place(&self) -> (u64, u64) {
        self.range()
    }
}

impl<'b, M, T: Element> Operand<'b, Update<'_, T>> for &'b mut Buffer<M> {
    type Memory = M;

    fn place(&self) -> (u64, u64) {
        self.range()
    }
}

macro_rules! operands {
    ($($view:ident $buffer:ident $index:tt)*) => {
        impl<'b, 'm, M, $($view: View<'m>, $buffer: Operand<'b, $view, Memory = M>),*> Operands<'b, ($($view,)*)> for ($($buffer,)*)
        where
            ($($buffer,)*): sealed::Sealed,
        {
            fn places(&self) -> [(u64, u64); VIEWS_MAX] {
                let mut places = [(0, 0); VIEWS_MAX];
                $(places[$index] = self.$index.place();)*
                places
            }
        }

        impl<$($buffer: sealed::Sealed),*> sealed::Sealed for ($($buffer,)*) {}
    };
}

operands!(V0 B0 0);
operands!(V0 B0 0 V1 B1 1);
operands!(V0 B0 0 V1 B1 1 V2 B2 2);
operands!(V0 B0 0 V1 B1 1 V2 B2 2 V3 B3 3);
operands!(V0 B0 0 V1 B1 1 V2 B2 2 V3 B3 3 V4 B4 4);
operands!(V0 B0 0 V1 B1 1 V2 B2 2 V3 B3 3 V4 B4 4 V5 B5 5);

/// All blocks of `kernel`, with its views at these device addresses, one for each: the contents of the memory there are not known here.
///
/// # Panics
/// If there are not as many addresses as views.
#[must_use]
pub fn launch_at<K: Kernel>(kernel: &K, addresses: &[u32]) -> Operation {
    let words = words(kernel, addresses);
    Operation::Launch(Launch { kernel: identity::<K>(), first: 0, blocks: kernel.blocks(), words })
}

/// The launch with views at these places; nothing, if it cannot be.
pub(super) fn operation<K: Kernel>(kernel: &K, places: &[(u64, u64); VIEWS_MAX]) -> Option<Operation> {
    if !kernel.is_valid() {
        return None;
    }
    let each: &[(Access, usize)] = <K::Views<'static> as Views<'static>>::EACH;
    let elements = kernel.elements();
    let mut addresses = [0; VIEWS_MAX];
    for (word, ((_, size), (elements, (address, bytes)))) in
        addresses.iter_mut().zip(each.iter().zip(elements.as_ref().iter().zip(places)))
    {
        let needs = (*elements as u64).checked_mul(*size as u64)?;
        if needs > *bytes {
            return None;
        }
        *word = u32::try_from(*address).ok()?;
    }
    Some(launch_at(kernel, addresses.get(..each.len())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Local, Work};
    use core::ops::Range;
    use fusee_accel_contract::{LAUNCH_WORDS, space};

    compute::arguments! {
        struct Count {
            pixels: u32,
            from: u8,
        }
    }

    impl Kernel for Count {
        const NAME: &'static str = "count";
        type Views<'m> = (Input<'m, u8>, Update<'m, u32>);

        fn is_valid(&self) -> bool {
            self.pixels > 0
        }

        fn elements(&self) -> [usize; 2] {
            [self.pixels as usize, 4]
        }

        fn blocks(&self) -> u32 {
            self.pixels.div_ceil(8)
        }

        fn time(&self, _: Range<u32>) -> u64 {
            0
        }

        fn block(&self, _: u32, _: Self::Views<'_>) {}
    }

    #[test]
    fn a_launch_has_the_addresses_of_its_buffers_and_then_its_arguments() {
        let mut first: Buffer<Local> = Buffer::local(64);
        let mut second = first.split_off(24);
        let work = Work::launch(Count { pixels: 20, from: 7 }, (&first, &mut second));
        let mut words = [0; LAUNCH_WORDS];
        words[..4].copy_from_slice(&[space::LOCAL_BASE as u32, space::LOCAL_BASE as u32 + 24, 20, 7]);
        let expected = Launch { kernel: identity::<Count>(), first: 0, blocks: 3, words };
        assert_eq!(work.operation, Some(Operation::Launch(expected)));
    }

    #[test]
    fn a_launch_that_cannot_be_is_none() {
        let mut first: Buffer<Local> = Buffer::local(64);
        let mut second = first.split_off(24);
        let mut tried = |pixels| Work::launch(Count { pixels, from: 0 }, (&first, &mut second)).operation.is_some();
        assert_eq!([0, 1, 24, 25, u32::MAX].map(&mut tried), [false, true, true, false, false]);
        let mut short = second.split_off(8);
        assert!(Work::launch(Count { pixels: 1, from: 0 }, (&first, &mut second)).operation.is_none());
        assert!(Work::launch(Count { pixels: 1, from: 0 }, (&first, &mut short)).operation.is_some());
    }
}
