//! The invariants, as tests and self-checking builds see them.

pub mod check;
pub mod reach;
pub mod state;
