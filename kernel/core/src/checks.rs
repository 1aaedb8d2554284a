//! The invariants, as tests and self-checking builds see them.

pub mod check;
mod check_locks;
pub mod reach;
pub mod state;
