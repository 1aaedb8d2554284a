//! Handles: names of objects, copies of handles, and handles in messages.

pub mod derivation;
pub(crate) mod grants;
pub(crate) mod handle;
mod lookup;
