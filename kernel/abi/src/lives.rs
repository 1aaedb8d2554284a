//! The instant at which a task that has ended is given another life: the keys of the manifest, and the words for a supervisor.
//!
//! A supervisor finds three parameters for each task that it watches, with the task's name behind `restart.`, `delay.` and `start.`: the words of
//! [`Policy`]. The kernel knows nothing of them.

/// When, and how often, a task is given another life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Policy {
    /// So many further lives in any interval of `within`; [`Policy::ALWAYS`]: any number; zero: none.
    pub at_most: u16,
    /// Milliseconds.
    pub within: u32,
    /// The number of the task, and so of the bit that tells of its end (`image::Supervision::bit`).
    pub task: u16,
    /// Microseconds from its end to its next life, the first time. After each further end within `within` they double,
    pub first_delay: u32,
    /// up to so many microseconds.
    pub longest_delay: u32,
    /// For how many microseconds the supervisor lends it its own budget to start with, at most.
    pub start_within: u32,
}

impl Policy {
    /// The value of [`Policy::at_most`] without a limit.
    pub const ALWAYS: u16 = u16::MAX;
    /// The largest other value of [`Policy::at_most`].
    pub const MOST: u16 = 32;

    /// The words of the parameters `restart`, `delay` and `start`.
    #[must_use]
    pub const fn words(self) -> [u64; 3] {
        [
            self.at_most as u64 | (self.task as u64) << 16 | (self.within as u64) << 32,
            self.first_delay as u64 | (self.longest_delay as u64) << 32,
            self.start_within as u64,
        ]
    }

    /// The policy in these words.
    #[must_use]
    pub const fn of([restart, delay, start]: [u64; 3]) -> Self {
        Self {
            at_most: restart as u16,
            task: (restart >> 16) as u16,
            within: (restart >> 32) as u32,
            first_delay: delay as u32,
            longest_delay: (delay >> 32) as u32,
            start_within: start as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_into_them() {
        let policy = Policy {
            at_most: 0x1234,
            within: 0x89ab_cdef,
            task: 0x5678,
            first_delay: 0xfedc_ba98,
            longest_delay: 0x7654_3210,
            start_within: 0xffff_ffff,
        };
        assert_eq!(Policy::of(policy.words()), policy);
    }
}
