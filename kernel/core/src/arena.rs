//! Fixed arrays of objects, indexed by the type that names them.

use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// An id that is an index underneath.
pub trait Id: Copy {
    /// The index.
    fn index(self) -> usize;
}

/// `N` objects of type `T`, named by `I`.
#[derive(Clone, Debug)]
pub struct Arena<T, I, const N: usize> {
    items: [T; N],
    names: PhantomData<I>,
}

impl<T, I, const N: usize> Arena<T, I, N> {
    /// An arena of these items.
    pub const fn new(items: [T; N]) -> Self {
        Self { items, names: PhantomData }
    }

    /// The object at `index`, for those who know it by nothing else.
    #[inline]
    pub fn at(&self, index: u16) -> &T {
        &self.items[usize::from(index)]
    }

    /// The same, to be changed.
    #[inline]
    pub fn at_mut(&mut self, index: u16) -> &mut T {
        &mut self.items[usize::from(index)]
    }
}

impl<T, I: Id, const N: usize> Index<I> for Arena<T, I, N> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<T, I: Id, const N: usize> IndexMut<I> for Arena<T, I, N> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}
