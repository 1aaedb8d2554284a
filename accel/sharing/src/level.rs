//! A policy of one group: the second level of sharing.
//!
//! A group that is left to its manager gets its share of the engine from the engine's sharer, and its manager chooses which of its
//! members are let in. A doorbell is open while both let its member in: the stricter one counts. Any [`Policy`] can be the
//! manager's. It runs on the values that the sharer shows of the members and sees no store and no word of the device, in one of two
//! ways, which differ in the source of the members' use:
//!
//! - *exported usage*: the sharer's bookings stand for the counters of a device
//!   ([`Estimator::Counted`](crate::Estimator::Counted)). The group takes no samples of its own.
//! - *nested*: the policy takes samples of its own ([`Estimator::SampledSize`](crate::Estimator::SampledSize),
//!   [`Estimator::BacklogAware`](crate::Estimator::BacklogAware)) and knows nothing of the other level's seasons.
//!
//! # Costs of nesting
//!
//! The seasons of the two levels are not coordinated. While the manager samples a member, clients of other groups may have the
//! engine, and then a request seems as long as it waited for theirs; or the sharer holds back the whole group, and then it seems
//! longer still. So nested estimates are wrong in a way that depends on the others, and exported usage is not. The test
//! `a_managers_policy_errs_more_by_samples_of_its_own_than_by_exported_usage` (`tests/model`) prints both.
//!
//! # Source
//!
//! Fleig 2016: nested scheduling, central accounting with exported usage. Ours: one page and one message in the place of a second
//! level of page tables.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::member::{MEMBERS, Members};
use crate::policy::{Counters, JoinError, Place, Policy, Reading, Readings};
use crate::{Doorbell, Group, Member, Weight};

/// The values that a sharer shows of one member.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    /// Engine time that it is booked.
    pub used: Nanoseconds,
    /// Commands that the device is done with.
    pub completed: u64,
    /// Commands that the device has and is not done with.
    pub at_device: u32,
    /// Whether a store of it waits, at either level.
    pub waits: bool,
}

/// The members that a manager lets in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Admission {
    /// The members that are let in: all while none of them wants the engine, since the first store would not be seen.
    pub members: Members,
    /// The latest instant of the next step. `None`: none of them wants the engine, as far as was seen.
    pub call_again: Option<Instant>,
}

/// The input of a policy for the members of one group, and the admissions by its verdicts. Time is that which the sharer shows,
/// during which the engine was its class's.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Whether the sharer's bookings stand for counters of a device.
    exported: bool,
    joined: Members,
    admitted: Members,
    looked: Instant,
    /// Time during which members had commands at the device, as seen from look to look.
    backlogged: [Nanoseconds; MEMBERS],
}

impl Level {
    /// A level without members.
    #[must_use]
    pub const fn new(exported: bool) -> Level {
        let backlogged = [Nanoseconds::ZERO; MEMBERS];
        let (joined, admitted) = (Members::EMPTY, Members::EMPTY);
        Level { exported, joined, admitted, looked: Instant::ZERO, backlogged }
    }

    /// Takes `member` in, and lets it join `policy`.
    ///
    /// # Errors
    /// [`JoinError`]; then nothing has changed.
    pub fn join(
        &mut self,
        policy: &mut dyn Policy,
        member: Member,
        weight: Weight,
        seen: &Seen,
        now: Instant,
    ) -> Result<(), JoinError> {
        let reading = self.reading(member, seen);
        policy.join(member, Place { group: Group::ROOT, weight }, &reading, now)?;
        self.joined.insert(member);
        Ok(())
    }

    /// Decides by `policy`, which all members have joined, which members are let in until the next step.
    pub fn step(&mut self, policy: &mut dyn Policy, now: Instant, seen: &[Seen; MEMBERS]) -> Admission {
        let passed = now.since(self.looked);
        self.looked = self.looked.max(now);
        let mut readings = Readings::default();
        for member in self.joined.iter() {
            let one = &seen[member.index()];
            if one.at_device > 0 {
                self.backlogged[member.index()] += passed;
            }
            readings.members[member.index()] = self.reading(member, one);
        }
        let verdict = policy.step(now, &readings);
        let is_idle = verdict.call_again.is_none();
        self.admitted = self.joined.filter(|member| is_idle || verdict.doorbell(member) != Doorbell::SHUT);
        Admission { members: self.admitted, call_again: verdict.call_again }
    }

    fn reading(&self, member: Member, seen: &Seen) -> Reading {
        let submitted = seen.completed + u64::from(seen.at_device);
        // A member that is let in and has commands at the device will send more, as far as the policy is concerned: its stores are
        // not trapped.
        let goes_on = seen.at_device > 0 && self.admitted.contains(member);
        let announced = submitted + u64::from(seen.waits || goes_on);
        let counters = Counters { busy: seen.used, backlogged: self.backlogged[member.index()] };
        Reading { announced, submitted, completed: seen.completed, counters: self.exported.then_some(counters) }
    }
}
