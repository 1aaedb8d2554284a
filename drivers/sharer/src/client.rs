//! The sharer's view of one client: its progress, and whether it keeps the rules.
//!
//! A client submits up to [`RING_ENTRIES`] commands more than have retired, and never takes its count back. A client that does otherwise stops its own ring, and a policy
//! would wait for commands that never complete. Between two looks a client may do so and then count on, as if nothing were wrong: the sign is that
//! the device, which is kicked at each look, does not see submitted commands.

use fusee::{Instant, Nanoseconds};
use fusee_accel_contract::{RING_ENTRIES, outstanding};
use fusee_sharing::Reading;

/// The words of one client, in the order in which they were read.
pub struct Words {
    /// The count in the doorbell before the others were read.
    pub before: u32,
    /// Commands retired.
    pub retired: u32,
    /// The count that the device has seen in the doorbell.
    pub seen: u32,
    /// The count in the doorbell afterwards.
    pub submitted: u32,
    /// The value of a store that waits.
    pub store: Option<u32>,
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    completed: u64,
    submitted: u32,
    /// The count that the device had seen at the latest look, and the instant since which it is behind. `None`: it was not behind.
    seen: u32,
    unseen_since: Option<Instant>,
    open: bool,
    standing: Standing,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Good,
    /// The client's words broke the rules at the latest look. A fence is written shortly before the retired word, so once proves nothing.
    Suspect,
    /// The client is shut out, and the device may have commands of it.
    Out,
    /// The client is shut out, and the device has none of its commands, which is said once.
    Leaving,
    Left,
}

impl Client {
    /// A client of which `retired` commands have retired.
    pub const fn new(retired: u32) -> Client {
        let (completed, standing) = (retired as u64, Standing::Good);
        Client { completed, submitted: retired, seen: retired, unseen_since: None, open: false, standing }
    }

    /// Takes in the words read at `now`, and returns the client's progress. The client is shut out when the device has not seen its commands for
    /// longer than `limit`.
    pub fn look(&mut self, words: &Words, now: Instant, limit: Nanoseconds) -> Reading {
        self.completed += u64::from(words.retired.wrapping_sub(self.completed as u32));
        let entries = RING_ENTRIES as i32;
        // At the instant at which `retired` was read, the doorbell held something from `before` to `submitted`.
        let [least, most] = [words.before, words.submitted].map(|word| word.wrapping_sub(words.retired) as i32);
        let is_back = (words.submitted.wrapping_sub(self.submitted) as i32) < 0;
        let mut breaks = least > entries || most < 0 || is_back;
        self.submitted = words.submitted;
        let is_news = core::mem::replace(&mut self.seen, words.seen) != words.seen;
        self.unseen_since =
            self.unseen_since.filter(|_| !is_news).or(Some(now)).filter(|_| words.seen != words.submitted);
        if self.unseen_since.is_some_and(|since| now.since(since) > limit) {
            self.shut_out();
        }

        let at_device = match self.standing {
            Standing::Good | Standing::Suspect => most.max(0).unsigned_abs(),
            // A ring that is stopped gets no further than the seen count.
            Standing::Out | Standing::Leaving | Standing::Left => {
                outstanding(words.seen, words.retired).min(RING_ENTRIES)
            }
        };
        let submitted = self.completed + u64::from(at_device);
        let mut reading = Reading { announced: submitted, submitted, completed: self.completed, counters: None };
        if let (Some(store), true) = (words.store, self.is_good()) {
            if (1..=RING_ENTRIES).contains(&outstanding(store, words.retired))
                && store.wrapping_sub(words.submitted) as i32 >= 0
            {
                reading.announced += u64::from(store.wrapping_sub(words.submitted));
            } else {
                breaks |= store != words.submitted;
            }
        }
        self.standing = match (self.standing, breaks) {
            (Standing::Good, true) => Standing::Suspect,
            (Standing::Suspect, true) => Standing::Out,
            (Standing::Good | Standing::Suspect, false) => Standing::Good,
            (Standing::Out, _) if at_device == 0 => Standing::Leaving,
            (standing, _) => standing,
        };
        reading
    }

    /// Whether it may store when the policy says so.
    pub const fn is_good(&self) -> bool {
        matches!(self.standing, Standing::Good | Standing::Suspect)
    }

    /// From now on nothing that it stores reaches the device.
    pub const fn shut_out(&mut self) {
        if self.is_good() {
            self.standing = Standing::Out;
        }
    }

    /// Whether it is shut out, the device has no command of it any more, and this was not said before.
    pub fn just_left(&mut self) -> bool {
        let leaves = self.standing == Standing::Leaving;
        if leaves {
            self.standing = Standing::Left;
        }
        leaves
    }

    /// Whether that was said.
    pub fn has_left(&self) -> bool {
        self.standing == Standing::Left
    }

    /// Opens or shuts the doorbell, as far as the client may have it open. Returns its new state if that is a change.
    pub fn turn(&mut self, open: bool) -> Option<bool> {
        let open = open && self.is_good();
        (core::mem::replace(&mut self.open, open) != open).then_some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Nanoseconds = Nanoseconds(100);

    impl Client {
        /// A look before any time has passed.
        fn looked(&mut self, words: &Words) -> Reading {
            self.look(words, Instant::ZERO, LIMIT)
        }
    }

    fn words(submitted: u32, retired: u32) -> Words {
        Words { before: submitted, retired, seen: submitted, submitted, store: None }
    }

    #[test]
    fn counts_go_on_where_32_bits_end() {
        let mut client = Client::new(u32::MAX - 1);
        let reading = client.looked(&words(3, u32::MAX));
        assert_eq!([reading.completed, reading.submitted], [0xffff_ffff, 0x1_0000_0003]);
        let reading = client.looked(&Words { store: Some(5), ..words(3, 2) });
        assert_eq!(
            [reading.completed, reading.submitted, reading.announced],
            [0x1_0000_0002, 0x1_0000_0003, 0x1_0000_0005]
        );
    }

    /// A client that keeps the rules, with any stores between the reads.
    #[test]
    fn a_client_that_moves_while_it_is_looked_at_stays_good() {
        for (before, retired, submitted) in [(16, 0, 16), (16, 9, 25), (0, 5, 7), (0, 16, 16), (3, 40, 56)] {
            let mut client = Client::new(0);
            for _ in 0..3 {
                client.looked(&Words { before, retired, seen: submitted, submitted, store: None });
                assert!(client.standing == Standing::Good, "{before} {retired} {submitted}");
            }
        }
    }

    #[test]
    fn a_client_that_breaks_the_rules_twice_in_a_row_is_shut_out_and_leaves_when_its_commands_are_done() {
        let too_many = || Words { seen: 4, ..words(20, 3) };
        for broken in [too_many(), Words { seen: 4, ..words(2, 3) }, Words { store: Some(20), ..words(4, 3) }] {
            let mut client = Client::new(3);
            assert_eq!(client.turn(true), Some(true));
            client.looked(&broken);
            assert!(client.is_good(), "once proves nothing");
            client.looked(&broken);
            assert!(!client.is_good());
            assert_eq!(client.turn(true), Some(false));
            let reading = client.looked(&broken);
            assert!(reading.at_device() && !reading.waits() && !client.just_left());
            client.looked(&Words { retired: 4, ..broken });
            assert!(client.just_left() && !client.just_left());
        }
    }

    #[test]
    fn a_count_that_is_taken_back_is_seen_within_the_ring_too() {
        let mut client = Client::new(0);
        client.looked(&words(9, 3));
        client.looked(&words(8, 3));
        assert!(client.standing == Standing::Suspect);
        client.looked(&words(7, 3));
        assert!(!client.is_good());
    }

    /// A client that has taken its count back and counted on, all between two looks: the ring is stopped, and looks like any other.
    #[test]
    fn a_client_of_which_the_device_sees_nothing_is_shut_out_when_the_limit_has_passed() {
        let mut client = Client::new(0);
        let stopped = Words { seen: 2, ..words(11, 2) };
        for now in [0, 60, 100] {
            assert!(client.look(&stopped, Instant(now), LIMIT).at_device());
            assert!(client.is_good(), "{now}");
        }
        assert!(!client.look(&stopped, Instant(101), LIMIT).at_device());
        assert!(!client.is_good() && client.just_left());
    }

    #[test]
    fn a_client_that_is_always_ahead_of_the_device_stays() {
        let mut client = Client::new(0);
        for step in 0..20 {
            client.look(&Words { seen: step, ..words(step + 3, step) }, Instant(u64::from(step) * 90), LIMIT);
            assert!(client.is_good(), "{step}");
        }
        // All was seen in between.
        for now in [2_000, 4_000] {
            client.look(&words(22, 20), Instant(now), LIMIT);
            client.look(&Words { seen: 22, ..words(23, 20) }, Instant(now + 90), LIMIT);
        }
        assert!(client.is_good());
    }
}
