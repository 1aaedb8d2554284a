//! Tests of the library over systems of this repository: runs, their errors, and seeds that find planted races.

mod errors;
mod races;
mod runs;
