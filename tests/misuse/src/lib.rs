//! Programs that must not compile are in `tests/ui`.
#![forbid(unsafe_code)]
#![no_std]
