//! A device's memory at run time: sessions allocate objects out of one pool, share them, and lend each other frames when there is not enough.
//!
//! The crate is pure: it touches no memory. A [`Pool`] returns a [`Step`] for each page that is to be cleared or copied, and its caller carries the
//! steps out, in order, before the next call. The caller chooses the size of a page.
//!
//! - [`pool`]: sessions and objects: allocate, share, attach, detach, close.
//! - [`residency`]: the data of objects that lie on the same frames: its place, and the moves before a copy or a launch.
//!
//! # Words
//!
//! An *object* is a run of pages with one owner. A *frame* is a page of device memory. Objects that lie on the same frames *overlap*: each frame then has
//! the data of one of them. Data that is not in its frame is in the *temporal space*, a reserved tail of the frames, or in the *host buffer*, which has a
//! place for each page of each object. A page without a write is zero, and is nowhere.
//!
//! # Invariants
//!
//! 1. A session reads its own data and that of segments that it has attached, or zeros; never the data of an object before.
//! 2. A session attaches a segment only if an owner has named it, by the badge of its requests. The number alone gives no access.
//! 3. A segment lives until the last session has left it, its owner's end included.
//! 4. A copy to the device moves the pages of its range and no others; a copy from it moves none. A launch finds all pages of its session in their frames.
//! 5. Data of a session with a launch under way is not moved: the caller gets [`Error::Busy`], waits for the end, and asks again.
//!
//! # Guarantees of the caller
//!
//! A session's page table maps the objects that it had at its latest launch, and no later ones: the frames of an object may have another session's data
//! until the next launch. After a move of its data a session cannot submit commands until [`Pool::launch`] has returned. Frames are copied to only
//! after [`Pool::copy_in`] for these pages, and before any further call.
//!
//! # Deviations from the paper
//!
//! - *Segments have no keys*: the paper's have, as in System V, and any process can destroy one.
//! - *Residency is of pages.* The paper's reference has one holder for a whole object.
//! - *A session has no two overlapping objects*, because a launch could never have both. The paper does not say how it avoids this. So a segment that
//!   overlaps an object of a session cannot be attached by it ([`Error::Overlaps`]).
//! - *Host buffers are counted* against the quota of each session that shares frames; the text has no bound.
//!
//! # Source
//!
//! Kato et al., USENIX ATC 2012 (Gdev), sections on shared device memory and data swapping.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod pool;
pub mod residency;

pub use pool::{Error, ObjectId, Pool, Quota, SESSIONS, Session};
pub use residency::{Place, Source, Step};
