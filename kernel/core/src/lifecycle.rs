//! Boot, the death of threads, and their further lives.

pub mod boot;
mod death;
pub mod lives;
mod restart;
mod shutdown;
