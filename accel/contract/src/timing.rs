//! The time of each command, but for the blocks of a launch: their kernel has that.
//!
//! The device does real work on real data, but *when* it is done comes from here, so the
//! same command takes the same time in every run and in every program that asks.
//!
//! # The rule behind the numbers
//!
//! An emulated engine core shares one timeline with up to three busy CPUs and executes one instruction in a nanosecond. Real work
//! must fit in half the modelled time even so: a command may cost at most an eighth of its modelled nanoseconds in instructions.
//! The comment on each rate below has the need of it. Measured with release code in QEMU, one nanosecond an instruction: a copy of
//! 8 bytes takes 92 % of it, all else less than 80 %, with eight contexts open.
//!
//! All results are nanoseconds. Sums saturate: an endless burn is allowed.

use crate::{Command, EngineIndex, Operation};

/// The time to fetch and check a command. A refused command takes this time, and no command takes less: so no client can keep the
/// device busier than its model allows. 3,100 instructions.
pub const SETUP: u64 = 25_000;
/// The time to fetch and check a launch, for which memory has to be checked. 5,000 instructions.
pub const EXECUTION_SETUP: u64 = 40_000;
/// Each byte of a copy: 100 MB/s. 10 instructions for 8 bytes.
pub const COPY_BYTE: u64 = 10;

/// Modelled nanoseconds for each instruction that real work may cost: the rule above.
pub const INSTRUCTION: u64 = 8;

/// The nanoseconds by which an announcement may follow the modelled instant of a completion and not count as late: a quarter of the
/// 1 ms grid on which conformance systems compare their traces.
pub const LATE_TOLERANCE: u64 = 250_000;

/// The lateness of interrupts under [`crate::INJECT_LATE`].
pub const INJECT_DELAY: u64 = 3_000_000;
/// The time from one spurious interrupt of [`crate::INJECT_SPURIOUS`] to the next.
pub const INJECT_PERIOD: u64 = 100_000;

/// The least time from an interrupt for completions of [shared](crate::CONTEXT_SHARED) contexts to the next one, of all of them
/// together. An interrupt that a client may wait for behind a [shut gate](crate::GATE_SHUT) is not kept back.
pub const MODERATION: u64 = 250_000;

/// The extra time for each byte of a copy, in percent of [`COPY_BYTE`], because the way is far or the bus is busy.
///
/// The manifest's `distance` or a parameter of a run sets it, and it is constant in a run. [`NEAR`](Slowdown::NEAR) is 0 %.
/// A copy is never faster than at `NEAR`, so the module's rule about the cost of instructions holds for all ways.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Slowdown(pub u32);

impl Slowdown {
    /// The ordinary speed of copies.
    pub const NEAR: Self = Self(0);
}

/// Nanoseconds for which `command` keeps `engine` busy, if a copy has the [full speed](Slowdown::NEAR).
///
/// A command that `engine` does not know is refused, which takes [`SETUP`]. A command that faults while it runs takes as long
/// as one that does not. For a launch the result is its setup, without the time of its blocks.
#[must_use]
pub const fn modelled_time(command: &Command, engine: EngineIndex) -> u64 {
    modelled_time_over(Slowdown::NEAR, command, engine)
}

/// The modelled time of a command, if a copy takes a way that is `slower`.
#[must_use]
pub const fn modelled_time_over(slower: Slowdown, command: &Command, engine: EngineIndex) -> u64 {
    if !command.operation.runs_on(engine) {
        return SETUP;
    }
    match command.operation {
        Operation::Burn { time } if time < SETUP => SETUP,
        Operation::Burn { time } => time,
        Operation::Copy { length, .. } | Operation::PeerCopy { length, .. } => {
            let near = length.saturating_mul(COPY_BYTE);
            let more = near.saturating_mul(slower.0 as u64) / 100;
            near.saturating_add(more).saturating_add(SETUP)
        }
        Operation::Launch(_) => EXECUTION_SETUP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LAUNCH_WORDS, Launch};

    fn time(operation: Operation, engine: EngineIndex) -> u64 {
        modelled_time(&Command { operation, fence: None }, engine)
    }

    fn launch() -> Operation {
        Operation::Launch(Launch { kernel: 1, first: 0, blocks: 3, words: [0; LAUNCH_WORDS] })
    }

    #[test]
    fn the_published_times_hold() {
        let page = Operation::Copy { source: 0, destination: 0, length: 4096 };
        assert_eq!(time(page, EngineIndex::CopyIn), 65_960);
        assert_eq!(time(page, EngineIndex::Execution), SETUP);
        assert_eq!(time(launch(), EngineIndex::Execution), EXECUTION_SETUP);
        assert_eq!(time(launch(), EngineIndex::CopyOut), SETUP);
    }

    #[test]
    fn only_copies_are_slower_over_a_slow_way_and_they_by_the_byte() {
        let (source, destination, length) = (0, 0, 4096);
        let over = |percent, operation, engine| {
            modelled_time_over(Slowdown(percent), &Command { operation, fence: None }, engine)
        };
        let copies =
            [Operation::Copy { source, destination, length }, Operation::PeerCopy { source, destination, length }];
        for copy in copies {
            let times = [0, 100, 120].map(|percent| over(percent, copy, EngineIndex::CopyIn));
            assert_eq!(times, [SETUP + 40_960, SETUP + 81_920, SETUP + 90_112]);
        }
        let peer = Operation::PeerCopy { source, destination, length: u64::MAX };
        assert!(over(100, peer, EngineIndex::CopyIn) > u64::MAX / 2, "for ever, but no overflow");
        assert_eq!(over(100, peer, EngineIndex::CopyOut), SETUP, "the device that gets the bytes fetches them");
        assert_eq!(over(100, launch(), EngineIndex::Execution), EXECUTION_SETUP);
    }

    #[test]
    fn an_explicit_time_is_exact_and_may_be_endless() {
        for engine in EngineIndex::ALL {
            assert_eq!(time(Operation::Burn { time: 0 }, engine), SETUP);
            assert_eq!(time(Operation::Burn { time: 3_000_000 }, engine), 3_000_000);
            assert_eq!(time(Operation::Burn { time: u64::MAX }, engine), u64::MAX);
        }
    }
}
