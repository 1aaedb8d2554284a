//! Names of kernel objects: typed indices.
//!
//! An id is an index + 1 in a non-zero word, so that `Option<Id>` is one word and all-zero memory means
//! "none": that is what lets `Kernel::EMPTY` live in .bss.

use core::num::NonZeroU16;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(transparent)]
        pub struct $name(NonZeroU16);

        impl $name {
            /// The id of the object at `index`; `None` if no arena is that large.
            #[must_use]
            #[inline]
            pub const fn new(index: usize) -> Option<Self> {
                if index >= u16::MAX as usize {
                    return None;
                }
                match NonZeroU16::new(index as u16 + 1) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            /// The index of the object.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0.get() as usize - 1
            }

            /// The id of the object whose number (index + 1) a packed system gives; zero is none.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                if number == 0 { None } else { Self::new(number as usize - 1) }
            }

            /// Index + 1, as traced.
            #[must_use]
            #[inline]
            pub const fn number(self) -> u16 {
                self.0.get()
            }
        }

        impl crate::arena::Id for $name {
            #[inline]
            fn index(self) -> usize {
                $name::index(self)
            }
            #[inline]
            fn place(self) -> usize {
                self.0.get() as usize
            }
        }
    )*};
}

ids! {
    /// A thread; threads and tasks share indices.
    ThreadId;
    /// A reservation.
    ReservationId;
    /// An endpoint.
    EndpointId;
    /// A notification.
    NotificationId;
    /// An engine.
    EngineId;
    /// One task's use of one engine.
    EngineUserId;
    /// Engines that may be acquired together.
    GroupId;
    /// A pool of tokens.
    PoolId;
    /// One task's use of one pool.
    PoolUserId;
    /// An interrupt.
    InterruptId;
    /// A region.
    RegionId;
    /// A cluster.
    ClusterId;
    /// A handle that is copied from.
    DerivationId;
}
