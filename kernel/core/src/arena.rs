//! Fixed arrays of objects, indexed by the type that names them.
//!
//! An id is made from the index of an object that there is, so it is always in bounds. The arrays of the kernel have powers
//! of two for lengths, so that to make it certain takes one instruction and no branch; builds with assertions look. Ids count from
//! one, so the object of the last index lies in front of all others: that spares each access a subtraction.

use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// An id that is an index underneath.
pub trait Id: Copy {
    /// The index.
    fn index(self) -> usize;
    /// Place of the object, modulo the length of the arena.
    #[inline]
    fn place(self) -> usize {
        self.index() + 1
    }
}

impl Id for fusee_sched::cpu::CpuId {
    #[inline]
    fn index(self) -> usize {
        fusee_sched::cpu::CpuId::index(self)
    }
    #[inline]
    fn place(self) -> usize {
        fusee_sched::cpu::CpuId::index(self)
    }
}

/// `N` objects of type `T`, named by `I`.
#[derive(Clone, Debug)]
pub struct Arena<T, I, const N: usize> {
    items: [T; N],
    names: PhantomData<I>,
}

/// `place`, in a form that the compiler believes to be in bounds.
#[inline(always)]
fn within<const N: usize>(place: usize) -> usize {
    debug_assert!(place <= N);
    place % N
}

impl<T, I, const N: usize> Arena<T, I, N> {
    /// An arena of these items.
    pub const fn new(items: [T; N]) -> Self {
        Self { items, names: PhantomData }
    }

    /// All objects, to be changed, in no order.
    #[inline]
    pub fn all_mut(&mut self) -> &mut [T; N] {
        &mut self.items
    }
}

impl<T, I: Id, const N: usize> Index<I> for Arena<T, I, N> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[within::<N>(id.place())]
    }
}

impl<T, I: Id, const N: usize> IndexMut<I> for Arena<T, I, N> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[within::<N>(id.place())]
    }
}
