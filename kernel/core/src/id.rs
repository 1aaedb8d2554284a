//! Names of kernel objects: typed indices.
//!
//! An id is an index + 1 in a non-zero word, so that `Option<Id>` is one word and all-zero memory means "none": thus
//! `Kernel::EMPTY` can live in .bss.
//!
//! A kernel that is built without a feature has no objects of its kinds. There such an id is a type without values, so
//! the compiler knows that code for such an id never runs, and leaves it out.

use core::num::NonZeroU16;

/// An index + 1, or its substitute in a kernel without such objects.
trait Number: Copy {
    const EXISTS: bool;
}

impl Number for NonZeroU16 {
    const EXISTS: bool = true;
}

/// The number of a kind of object of which the kernel has none.
#[allow(dead_code, reason = "a kernel with all features has no need of it")]
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Never {}

impl Number for Never {
    const EXISTS: bool = false;
}

#[allow(dead_code, reason = "a kernel with all features has no need of it")]
impl Never {
    const fn new(_: u16) -> Option<Self> {
        None
    }

    const fn get(self) -> u16 {
        match self {}
    }
}

macro_rules! number {
    ($name:ident: $feature:literal) => {
        #[cfg(feature = $feature)]
        type $name = NonZeroU16;
        #[cfg(not(feature = $feature))]
        type $name = Never;
    };
}

number!(Engines: "engines");
number!(Groups: "groups");
number!(Pools: "pools");
number!(Advice: "advice");
number!(Loans: "loans");
number!(Grants: "grants");

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident: $number:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(transparent)]
        pub struct $name($number);

        impl $name {
            /// Whether this kernel has such objects.
            pub const EXISTS: bool = <$number as Number>::EXISTS;

            /// The id of the object at `index`; `None` if no arena is that large.
            #[must_use]
            #[inline]
            pub const fn new(index: usize) -> Option<Self> {
                if index >= u16::MAX as usize {
                    return None;
                }
                match $number::new(index as u16 + 1) {
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

            /// The id of the object with this number (index + 1) in a packed system; zero is none.
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
    ThreadId: NonZeroU16;
    /// A reservation.
    ReservationId: NonZeroU16;
    /// An endpoint.
    EndpointId: NonZeroU16;
    /// A notification.
    NotificationId: NonZeroU16;
    /// An engine.
    EngineId: Engines;
    /// One task's use of one engine.
    EngineUserId: Engines;
    /// Engines that may be acquired together.
    GroupId: Groups;
    /// A pool of tokens.
    PoolId: Pools;
    /// One task's use of one pool.
    PoolUserId: Pools;
    /// An interrupt.
    InterruptId: NonZeroU16;
    /// A region.
    RegionId: NonZeroU16;
    /// A cluster.
    ClusterId: NonZeroU16;
    /// A handle that is copied from.
    DerivationId: Grants;
    /// The plugin of a pool.
    AdviserId: Advice;
    /// A region that is lent.
    LoanId: Loans;
}

/// The use of an engine that a user of its lock stands for.
#[inline]
pub(crate) const fn user_of(number: u16) -> Option<EngineUserId> {
    EngineUserId::new(number as usize)
}

impl LoanId {
    /// The loan of `region`; `None` in a kernel without loans.
    pub const fn of(region: RegionId) -> Option<LoanId> {
        LoanId::new(region.index())
    }

    /// The region that is lent.
    pub const fn region(self) -> RegionId {
        RegionId(match NonZeroU16::new(self.0.get()) {
            Some(number) => number,
            None => NonZeroU16::MIN,
        })
    }
}
