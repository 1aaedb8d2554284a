//! Views: the memory that a kernel reads and writes, element by element or many at once.
//!
//! A view is of an engine's memory, through which it reaches by [`Memory`], or of slices of the host. It is never borrowed as a slice:
//! others may write to an engine's memory at any moment.

use core::cell::Cell;

/// The elements that a view can have: plain numbers, little-endian in memory.
pub trait Element: bytemuck::Pod {}

macro_rules! elements {
    ($($type:ty)*) => {$(impl Element for $type {})*};
}

elements!(u8 u16 u32 u64 i8 i16 i32 i64 f32);

impl<T: Element, const N: usize> Element for [T; N] where [T; N]: bytemuck::Pod {}

/// The memory that an engine reaches on behalf of a kernel. Addresses are the engine's.
///
/// All addresses are within the views that were asked for. An access that fails reads zeros, and writes nothing; the launch then fails.
pub trait Memory {
    /// Reads bytes.
    fn read(&self, address: u64, to: &mut [u8]);

    /// Writes bytes.
    fn write(&self, address: u64, from: &[u8]);
}

/// The access of a kernel to a view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Reads: [`Input`].
    Read,
    /// Writes: [`Output`].
    Write,
    /// Both: [`Update`].
    Update,
}

/// The place of the elements of a view.
#[derive(Clone, Copy)]
pub struct Place<'m, T>(Kind<'m, T>);

#[derive(Clone, Copy)]
enum Kind<'m, T> {
    Slice(&'m [T]),
    Cells(&'m [Cell<T>]),
    Engine { memory: &'m dyn Memory, address: u64, length: usize },
}

impl<'m, T: Element> Place<'m, T> {
    /// `length` elements of an engine's memory, from `address` on.
    pub fn of(memory: &'m dyn Memory, address: u64, length: usize) -> Self {
        Self(Kind::Engine { memory, address, length })
    }

    fn len(&self) -> usize {
        match self.0 {
            Kind::Slice(slice) => slice.len(),
            Kind::Cells(cells) => cells.len(),
            Kind::Engine { length, .. } => length,
        }
    }

    #[track_caller]
    fn check(&self, from: usize, count: usize) {
        let length = self.len();
        assert!(
            count <= length && from <= length - count,
            "{count} elements from {from} on are beyond a view of {length}"
        );
    }

    #[track_caller]
    fn get(&self, at: usize) -> T {
        self.check(at, 1);
        match self.0 {
            Kind::Slice(slice) => slice[at],
            Kind::Cells(cells) => cells[at].get(),
            Kind::Engine { memory, address, .. } => {
                let mut element = T::zeroed();
                memory.read(address + (at * size_of::<T>()) as u64, bytemuck::bytes_of_mut(&mut element));
                element
            }
        }
    }

    #[track_caller]
    fn load(&self, from: usize, to: &mut [T]) {
        self.check(from, to.len());
        match self.0 {
            Kind::Slice(slice) => to.copy_from_slice(&slice[from..from + to.len()]),
            Kind::Cells(cells) => to.iter_mut().zip(&cells[from..]).for_each(|(to, cell)| *to = cell.get()),
            Kind::Engine { memory, address, .. } => {
                memory.read(address + (from * size_of::<T>()) as u64, bytemuck::cast_slice_mut(to));
            }
        }
    }

    #[track_caller]
    fn set(&self, at: usize, value: T) {
        self.store(at, &[value]);
    }

    #[track_caller]
    fn store(&self, to: usize, from: &[T]) {
        self.check(to, from.len());
        match self.0 {
            Kind::Slice(_) => unreachable!("a view that is written is made of cells"),
            Kind::Cells(cells) => from.iter().zip(&cells[to..]).for_each(|(from, cell)| cell.set(*from)),
            Kind::Engine { memory, address, .. } => {
                memory.write(address + (to * size_of::<T>()) as u64, bytemuck::cast_slice(from));
            }
        }
    }
}

macro_rules! view {
    ($(#[$meta:meta])* $name:ident, $access:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $name<'m, T>(Place<'m, T>);

        impl<'m, T: Element> View<'m> for $name<'m, T> {
            type Element = T;
            const ACCESS: Access = Access::$access;

            fn at(place: Place<'m, T>) -> Self {
                Self(place)
            }

            fn len(&self) -> usize {
                self.0.len()
            }
        }

        impl<T: Element> $name<'_, T> {
            /// Number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.len() == 0
            }
        }
    };
}

macro_rules! reads {
    ($name:ident) => {
        impl<T: Element> $name<'_, T> {
            /// Element `at`. Panics beyond the end.
            #[must_use]
            #[track_caller]
            pub fn get(&self, at: usize) -> T {
                self.0.get(at)
            }

            /// Reads the elements from `from` on, as many as `to` has. Panics beyond the end. Far faster than one by one.
            #[track_caller]
            pub fn load(&self, from: usize, to: &mut [T]) {
                self.0.load(from, to);
            }
        }
    };
}

macro_rules! writes {
    ($name:ident) => {
        impl<T: Element> $name<'_, T> {
            /// Writes element `at`. Panics beyond the end.
            #[track_caller]
            pub fn set(&self, at: usize, value: T) {
                self.0.set(at, value);
            }

            /// Writes the elements from `to` on. Panics beyond the end. Far faster than one by one.
            #[track_caller]
            pub fn store(&self, to: usize, from: &[T]) {
                self.0.store(to, from);
            }
        }

        impl<'m, T: Element> From<&'m mut [T]> for $name<'m, T> {
            fn from(slice: &'m mut [T]) -> Self {
                Self(Place(Kind::Cells(Cell::from_mut(slice).as_slice_of_cells())))
            }
        }
    };
}

view!(
    /// Memory that a kernel reads.
    Input, Read
);
view!(
    /// Memory that a kernel writes. The former contents are lost, also where the kernel writes nothing.
    Output, Write
);
view!(
    /// Memory that a kernel reads and writes.
    Update, Update
);
reads!(Input);
reads!(Update);
writes!(Output);
writes!(Update);

impl<'m, T: Element> From<&'m [T]> for Input<'m, T> {
    fn from(slice: &'m [T]) -> Self {
        Self(Place(Kind::Slice(slice)))
    }
}

impl Update<'_, u32> {
    /// Adds `more` to counter `at`, wrapping, and returns its former value: as one step, for any accesses of other blocks to it.
    /// Panics beyond the end.
    #[track_caller]
    pub fn add(&self, at: usize, more: u32) -> u32 {
        let before = self.get(at);
        self.set(at, before.wrapping_add(more));
        before
    }
}

/// One view.
pub trait View<'m>: Copy {
    /// The type of its elements.
    type Element: Element;
    /// The access of a kernel to it.
    const ACCESS: Access;

    /// The view of this place.
    fn at(place: Place<'m, Self::Element>) -> Self;

    /// Number of elements.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All views of a kernel: a tuple of none to six.
pub trait Views<'m>: Copy {
    /// A number for each view.
    type Elements: AsRef<[usize]>;
    /// The access to each, and the bytes of an element.
    const EACH: &'static [(Access, usize)];

    /// The views of these places of an engine's memory: their addresses and numbers of elements.
    fn of(memory: &'m dyn Memory, places: &[(u64, usize)]) -> Self;

    /// The number of elements of each.
    fn lengths(&self) -> Self::Elements;
}

macro_rules! tuple {
    ($count:literal $($name:ident $index:tt)*) => {
        impl<'m, $($name: View<'m>),*> Views<'m> for ($($name,)*) {
            type Elements = [usize; $count];
            const EACH: &'static [(Access, usize)] = &[$(($name::ACCESS, size_of::<$name::Element>())),*];

            #[allow(unused_variables, clippy::unused_unit, reason = "there may be no view")]
            fn of(memory: &'m dyn Memory, places: &[(u64, usize)]) -> Self {
                ($($name::at(Place::of(memory, places[$index].0, places[$index].1)),)*)
            }

            fn lengths(&self) -> Self::Elements {
                [$(self.$index.len()),*]
            }
        }
    };
}

tuple!(0);
tuple!(1 A 0);
tuple!(2 A 0 B 1);
tuple!(3 A 0 B 1 C 2);
tuple!(4 A 0 B 1 C 2 D 3);
tuple!(5 A 0 B 1 C 2 D 3 E 4);
tuple!(6 A 0 B 1 C 2 D 3 E 4 F 5);

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::vec::Vec;

    struct Bytes(RefCell<Vec<u8>>);

    impl Memory for Bytes {
        fn read(&self, address: u64, to: &mut [u8]) {
            to.copy_from_slice(&self.0.borrow()[address as usize..][..to.len()]);
        }

        fn write(&self, address: u64, from: &[u8]) {
            self.0.borrow_mut()[address as usize..][..from.len()].copy_from_slice(from);
        }
    }

    #[test]
    fn a_view_of_a_slice_and_of_an_engine_have_the_same_elements() {
        let bytes = Bytes(RefCell::new((0..32).collect()));
        let numbers: Vec<u16> = (0..16).map(|i| u16::from_le_bytes([2 * i, 2 * i + 1])).collect();
        let (slice, engine) = (Input::from(&numbers[2..12]), Input::at(Place::of(&bytes, 4, 10)));
        for at in 0..10 {
            assert_eq!(slice.get(at), engine.get(at));
        }
        let (mut one, mut other) = ([0; 7], [0; 7]);
        slice.load(3, &mut one);
        engine.load(3, &mut other);
        assert_eq!(one, other);
    }

    #[test]
    fn counters_add_up_and_others_are_left_alone() {
        let bytes = Bytes(RefCell::new(std::vec![7; 16]));
        let counters: Update<'_, u32> = Update::at(Place::of(&bytes, 4, 2));
        counters.store(0, &[5, u32::MAX]);
        assert_eq!((counters.add(0, 2), counters.add(1, 2)), (5, u32::MAX));
        assert_eq!((counters.get(0), counters.get(1)), (7, 1));
        assert_eq!(
            (bytes.0.borrow()[..4].to_vec(), bytes.0.borrow()[12..].to_vec()),
            (std::vec![7; 4], std::vec![7; 4])
        );
    }

    #[test]
    #[should_panic(expected = "2 elements from 3 on are beyond a view of 4")]
    fn what_is_beyond_a_view_panics() {
        Input::from(&[1_u8, 2, 3, 4][..]).load(3, &mut [0; 2]);
    }

    #[test]
    #[should_panic(expected = "beyond a view of 1")]
    fn an_index_that_would_wrap_panics() {
        Output::from(&mut [0_u32][..]).set(usize::MAX, 1);
    }
}
