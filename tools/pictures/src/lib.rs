//! Pictures of a schedule.
//!
//! ```text
//! picture   as SVG
//! page      as a page to look around in
//! files     files that a command is asked for, in pixels by `tools/raster`, too
//! ```
//!
//! Not here: the intervals of a schedule (`tools/views`).
#![forbid(unsafe_code)]

pub mod files;
pub mod page;
pub mod picture;
#[cfg(test)]
#[path = "../../views/src/random.rs"]
mod random;

pub use files::Pictures;
