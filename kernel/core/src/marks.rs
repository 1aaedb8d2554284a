//! Lists of the work at the end of a trap.
//!
//! The links lie in the objects, so a mark needs no memory, and an object that is marked again stays marked once.

/// An object's place in a [`List`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link<T> {
    is_listed: bool,
    next: Option<T>,
}

impl<T> Link<T> {
    /// A place in no list.
    pub const NONE: Link<T> = Link { is_listed: false, next: None };
}

impl<T: Copy> Link<T> {
    /// The object behind this one in the list.
    #[inline]
    pub const fn next(self) -> Option<T> {
        self.next
    }
}

/// Objects of one kind, each once, the last one in front.
#[derive(Clone, Copy, Debug)]
pub struct List<T> {
    first: Option<T>,
}

impl<T: Copy> List<T> {
    /// A list of no objects.
    pub const EMPTY: List<T> = List { first: None };

    /// The first object, to be [taken out](List::pop).
    #[inline]
    pub const fn first(self) -> Option<T> {
        self.first
    }

    /// Puts an object with this link in front, unless it is in the list.
    #[inline]
    pub const fn push(&mut self, id: T, link: &mut Link<T>) {
        if !link.is_listed {
            *link = Link { is_listed: true, next: self.first };
            self.first = Some(id);
        }
    }

    /// Takes out the first object, which has this link.
    #[inline]
    pub const fn pop(&mut self, link: &mut Link<T>) {
        self.first = link.next;
        *link = Link { is_listed: false, next: None };
    }
}
