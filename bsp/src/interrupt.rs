//! The common part of all interrupt controllers, as the kernel sees them.

/// Numbers from here on are not interrupts but "nothing to acknowledge" and its kin.
pub const SPECIAL: u32 = 1020;
/// First number of a shared interrupt.
pub const SHARED: u32 = 32;
/// Numbers of interrupts that are not message-signalled: below [`SPECIAL`].
pub const LINES: usize = SPECIAL as usize;

/// How a line tells that it wants something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// By being high.
    Level,
    /// By going high.
    Edge,
}

/// Set-up did not go as it should: there is no such controller, line or CPU, or a line cannot be told by edges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetupError;
