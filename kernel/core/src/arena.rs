//! Fixed arrays of objects, indexed by the type that names them.
//!
//! An id is made from the index of an object that there is, so it is always in bounds. The arrays of the kernel have powers
//! of two for lengths, so that to make it certain takes one instruction and no branch; builds with assertions look.

use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// An id that is an index underneath.
pub trait Id: Copy {
    /// The index.
    fn index(self) -> usize;
}

impl Id for fusee_sched::cpu::CpuId {
    #[inline]
    fn index(self) -> usize {
        fusee_sched::cpu::CpuId::index(self)
    }
}

/// `N` objects of type `T`, named by `I`.
#[derive(Clone, Debug)]
pub struct Arena<T, I, const N: usize> {
    items: [T; N],
    names: PhantomData<I>,
}

/// `index`, which is below `N`, in a form that the compiler believes.
#[inline(always)]
fn within<const N: usize>(index: usize) -> usize {
    debug_assert!(index < N);
    index % N
}

impl<T, I, const N: usize> Arena<T, I, N> {
    /// An arena of these items.
    pub const fn new(items: [T; N]) -> Self {
        Self { items, names: PhantomData }
    }

    /// All of them.
    #[inline]
    pub fn all(&self) -> &[T; N] {
        &self.items
    }

    /// The same, to be changed.
    #[inline]
    pub fn all_mut(&mut self) -> &mut [T; N] {
        &mut self.items
    }

    /// The object at `index`, for those who know it by nothing else.
    #[inline]
    pub fn at(&self, index: u16) -> &T {
        &self.items[within::<N>(usize::from(index))]
    }

    /// The same, to be changed.
    #[inline]
    pub fn at_mut(&mut self, index: u16) -> &mut T {
        &mut self.items[within::<N>(usize::from(index))]
    }
}

impl<T, I: Id, const N: usize> Index<I> for Arena<T, I, N> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[within::<N>(id.index())]
    }
}

impl<T, I: Id, const N: usize> IndexMut<I> for Arena<T, I, N> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[within::<N>(id.index())]
    }
}
