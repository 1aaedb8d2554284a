//! Handles: what a task may name, copies of handles, and handles in messages.

pub mod derivation;
pub(crate) mod grants;
pub(crate) mod handle;
mod lookup;
