//! The state of threads, which one module alone writes.

mod waiting;
