//! How an SM changes hands while blocks are on it.
//!
//! | | Switch | Drain |
//! |---|---|---|
//! | Procedure | the SM stops, saves the state of its blocks, and is free | the SM is given no more blocks, and is free when the last has ended |
//! | Delay | bytes of state divided by the SM's share of the bandwidth | the remaining time of the longest block on it |
//! | Cost | the SM does nothing while it saves, and nothing while the blocks are restored later | slots of the SM are empty |
//! | Fails for | nothing | blocks that do not end |
//!
//! A restore that is under way is not interrupted: its blocks are saved, or drained, when it has ended. So the delay of a switch is
//! at most the rest of one restore, plus one save.
//!
//! Source: Tanasic et al., ISCA 2014, section 3.2. Draining with a limit is ours.

/// A way to take an SM away from the kernel that runs on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mechanism {
    /// The blocks are stopped and saved.
    Switch,
    /// The blocks run to their end.
    Drain,
    /// The blocks run on for a while; those that have not ended by then are stopped and saved.
    DrainThenSwitch {
        /// The time for which they run on, in nanoseconds.
        limit: u64,
    },
}

impl Mechanism {
    /// The instant when an SM that is reserved at `now` starts to save, unless all its blocks have ended. `u64::MAX`: never.
    #[must_use]
    pub const fn saves_at(self, now: u64) -> u64 {
        match self {
            Mechanism::Switch => now,
            Mechanism::Drain => u64::MAX,
            Mechanism::DrainThenSwitch { limit } => now.saturating_add(limit),
        }
    }

    /// The longest time that a kernel waits for an SM that it may take, in nanoseconds, if it has a place in the active queue.
    ///
    /// `save`: the longest save of a full SM, of all kernels that the SM may belong to; a restore takes no longer. `block`: the
    /// longest time of a block of these kernels. The kernel may take the SM from the instant on at which its key is smaller than
    /// those of all others and it has blocks to issue.
    ///
    /// Without saves there are no restores, so a drain waits for blocks only.
    #[must_use]
    pub const fn delay(self, save: u64, block: u64) -> u64 {
        match self {
            Mechanism::Switch => save.saturating_add(save),
            Mechanism::Drain => block,
            Mechanism::DrainThenSwitch { limit } => {
                let stopped = (if limit > save { limit } else { save }).saturating_add(save);
                let ended = save.saturating_add(block);
                if stopped < ended { stopped } else { ended }
            }
        }
    }
}
