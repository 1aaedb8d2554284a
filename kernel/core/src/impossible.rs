//! Cases that an invariant excludes.
//!
//! A build with debug assertions (tests, models, simulations) panics at such a case and names the invariant. A kernel on a board has no such
//! assertions, and goes on with the statement after the macro: the safe way. So `return` and `continue` stay visible where they are, and the
//! path costs a board nothing.
//!
//! Results of operations that cannot fail are checked by `debug_assert!` in the same manner.
//!
//! Not here: cases that a task, a device or a manifest can cause. These are errors with a type.

/// Says which invariant excludes this case.
macro_rules! impossible {
    ($invariant:literal) => {
        debug_assert!(false, concat!("an invariant does not hold: ", $invariant))
    };
}
