//! Disengaged fair queueing: members reach the device together, and a member that is too far ahead waits.
//!
//! Four seasons follow each other:
//!
//! | Season | Doorbells | Ends when |
//! |---|---|---|
//! | [`Season::Barrier`] | all shut | the words are read again: no store is under way any more |
//! | [`Season::Draining`] | all shut | nothing is at the device |
//! | [`Season::Sampling`] | each store of one member goes on, one member after the other | each had its time or requests |
//! | [`Season::FreeRun`] | open, but for members that are denied | an interval `L` has passed |
//!
//! Between sampling and the next free run accounts are settled: the use of each member since the last settlement is estimated and
//! charged, the system time moves on, and members that lead by more than `L` are denied the next free run. An estimator that needs
//! no samples goes from one free run to the next, and shuts only the doorbells of denied members. When no member wants the engine,
//! the policy stays in the barrier until a store is trapped: no ticks.
//!
//! # Invariants
//!
//! 1. While members are sampled, only the sampled one has commands at the device.
//! 2. One of the members that set the system time at a settlement is let in.
//! 3. A lone member is neither drained nor sampled nor denied.
//! 4. An active member's lead is at most the sum of three: the threshold it was under when it was let in, the interval that
//!    elapsed, and its use while it was sampled. With intervals of `L` that is 2 `L` and the drain of one request.
//!
//! # Corrections of the paper
//!
//! - *A lone member is not drained.* Draining it loses engine time for no member's benefit.
//! - *The estimate is the mean size of requests*, not how busy the engine was during the sample: alone, every member looks busy,
//!   and fairness is not enforced.
//! - *The interval that elapsed is billed*, up to the end of the drain, not the nominal length of the coming one. The use of a
//!   member while it is sampled is billed as well, otherwise a group gains by having more members.
//! - *Deny when the lead is more than `L`*, not when it is equal.
//! - *The sample is at least 8 times the longest mean request*, otherwise it is of two or three requests, and noise.
//! - *Only backlogged members set the system time* ([`Estimator::BacklogAware`], [`Estimator::Counted`]). With all active
//!   members, as in [`Estimator::SampledSize`], a member that is mostly idle is the slowest for ever, and the others
//!   wait for it in vain.
//! - *An idle device is not ticked*, and *a free run ends early* when all admitted members have been idle for a poll while a denied
//!   member waits.
//!
//! # Limits of estimators
//!
//! Sampled estimates assume that a member behaves as it does while it is sampled. A client that sends small requests then, and
//! large ones otherwise, gets nearly the whole engine. No paper mentions this. Counters of the device cannot be deceived.
//!
//! A member that joins during a free run is let in, and billed as if it had been there from the beginning.
//!
//! # Source
//!
//! Menychtas et al., ASPLOS 2014, disengaged fair queueing; Fleig 2016 for groups ([`Tree`]).

use fusee_sched::time::{Instant, Nanoseconds};

use crate::interval::{Elapsed, Interval};
use crate::member::{MEMBERS, Member, Members};
use crate::parameters::{ParameterError, Parameters};
use crate::policy::{Doorbell, Interception, JoinError, Place, Policy, Reading, Readings, Usage, Verdict};
use crate::tree::{Tree, Weight};
use crate::watch::Watch;

/// The least number of a member's requests that fit into a sample.
const REQUESTS_IN_SAMPLE: u64 = 8;

/// The source of the policy's knowledge of members' use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Estimator {
    /// The interval is divided in proportion to the mean sizes of sampled requests: a device that serves its queues in turn
    /// does the same. All active members set the system time. The paper's.
    SampledSize,
    /// Commands completed, times the mean size of sampled requests. Backlogged members set the system time.
    BacklogAware,
    /// The device's counters, without samples. Backlogged members set the system time. Where counters are
    /// switched off, as [`Estimator::BacklogAware`].
    Counted,
}

/// The present phase of the policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Season {
    /// Doorbells are shut, and the words are about to be read; or no member wants the engine.
    Barrier,
    /// Commands at the device are waited for.
    Draining,
    /// A member is alone with the engine.
    Sampling(Member),
    /// All go on but those that are denied.
    FreeRun,
}

/// One member's sample.
#[derive(Clone, Copy, Debug)]
struct Window {
    member: Member,
    ends: Instant,
    /// The words when it began.
    mark: Reading,
    /// Since when the member has had commands at the device without a break.
    at_device_since: Option<Instant>,
    /// Time before that during which it had.
    used: Nanoseconds,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Barrier,
    Draining,
    /// `queue`: the members whose turn is still to come. `window`: `None` if the member has left.
    Sampling {
        queue: Members,
        length: Nanoseconds,
        window: Option<Window>,
    },
    /// `busy`: the latest step at which a member that is let in was seen to want the engine.
    FreeRun {
        until: Instant,
        busy: Instant,
    },
}

/// Fair queueing of the members of a tree.
#[derive(Clone, Copy, Debug)]
pub struct FairQueueing {
    parameters: Parameters,
    estimator: Estimator,
    tree: Tree,
    joined: Members,
    denied: Members,
    clock: Instant,
    state: State,
    interval: Interval,
    /// The interval that ended with the last drain.
    elapsed: Elapsed,
    /// Mean request, once known.
    means: [Option<Nanoseconds>; MEMBERS],
    /// Engine time used in samples since the last settlement.
    sampled: [Nanoseconds; MEMBERS],
    latest: Readings,
    completed_before: [u64; MEMBERS],
    used: [Nanoseconds; MEMBERS],
    watch: Watch,
}

impl FairQueueing {
    /// Fair queueing for members that will join groups of `tree`.
    ///
    /// # Errors
    /// A parameter that is out of its range.
    pub fn new(parameters: &Parameters, estimator: Estimator, tree: Tree) -> Result<FairQueueing, ParameterError> {
        parameters.check()?;
        Ok(FairQueueing {
            parameters: *parameters,
            estimator,
            tree,
            joined: Members::EMPTY,
            denied: Members::EMPTY,
            clock: Instant::ZERO,
            state: State::Barrier,
            interval: Interval::new(),
            elapsed: Elapsed::NONE,
            means: [None; MEMBERS],
            sampled: [Nanoseconds::ZERO; MEMBERS],
            latest: Readings::default(),
            completed_before: [0; MEMBERS],
            used: [Nanoseconds::ZERO; MEMBERS],
            watch: Watch::new(parameters.request_limit),
        })
    }

    /// The season.
    #[must_use]
    pub const fn season(&self) -> Season {
        match self.state {
            State::Barrier => Season::Barrier,
            State::Draining => Season::Draining,
            State::Sampling { window: Some(window), .. } => Season::Sampling(window.member),
            State::Sampling { window: None, .. } => Season::Draining,
            State::FreeRun { .. } => Season::FreeRun,
        }
    }

    /// The members that are denied the engine until the next settlement.
    #[must_use]
    pub const fn denied(&self) -> Members {
        self.denied
    }

    /// The groups and the leads of all nodes.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    //--- Seasons

    /// Goes through the seasons until one has to be waited in. Returns whether the barrier was entered just now.
    fn advance(&mut self, now: Instant, readings: &Readings) -> bool {
        loop {
            match self.state {
                State::FreeRun { until, .. } => {
                    if now < until && !self.stranded(now, readings) {
                        return false;
                    }
                    let elapsed = self.elapsed_now(now, readings);
                    if elapsed.active.is_empty() || self.needs_samples(&elapsed) {
                        self.state = State::Barrier;
                        return true;
                    }
                    self.settle(&elapsed, now, readings);
                    return false;
                }
                State::Barrier => {
                    let elapsed = self.elapsed_now(now, readings);
                    if elapsed.active.is_empty() {
                        self.interval.begin(now, readings);
                        return false;
                    }
                    self.state = State::Draining;
                }
                State::Draining => {
                    let elapsed = self.elapsed_now(now, readings);
                    if !self.needs_samples(&elapsed) {
                        self.settle(&elapsed, now, readings);
                        return false;
                    }
                    if !readings.at_device(self.joined).is_empty() {
                        return false;
                    }
                    self.elapsed = elapsed;
                    let queue = elapsed.active.without(self.denied);
                    self.state = State::Sampling { queue, length: self.sample_length(elapsed.active), window: None };
                }
                // All members to be billed have left. A member that waits now was idle, and may have been denied when it was last
                // awake.
                State::Sampling { .. } if self.elapsed.active.is_empty() => {
                    self.interval.begin(now, readings);
                    self.state = State::Barrier;
                }
                State::Sampling { queue, length, window } => {
                    let window = window.and_then(|window| self.sample(window, now, readings));
                    if self.elapsed.active.len() > 1 && window.is_some() {
                        self.state = State::Sampling { queue, length, window };
                        return false;
                    }
                    let Some(member) = queue.iter().next().filter(|_| self.elapsed.active.len() > 1) else {
                        let elapsed = self.elapsed;
                        self.settle(&elapsed, now, readings);
                        return false;
                    };
                    let window = Some(Window {
                        member,
                        ends: now + length,
                        mark: *readings.of(member),
                        at_device_since: None,
                        used: Nanoseconds::ZERO,
                    });
                    self.state = State::Sampling { queue: queue.without(Members::only(member)), length, window };
                }
            }
        }
    }

    /// Whether a denied member waits while all members that are let in have been idle for a poll, or have left.
    fn stranded(&mut self, now: Instant, readings: &Readings) -> bool {
        let State::FreeRun { busy, .. } = &mut self.state else { return false };
        let latest = &self.latest;
        let let_in = self.joined.without(self.denied);
        let wanted = let_in.filter(|member| {
            let reading = readings.of(member);
            reading.waits() || reading.at_device() || reading.completed != latest.of(member).completed
        });
        if !wanted.is_empty() {
            *busy = now;
        }
        let idle = let_in.is_empty() || now.since(*busy) >= self.parameters.poll;
        idle && !readings.waiting(self.denied).is_empty()
    }

    fn elapsed_now(&self, now: Instant, readings: &Readings) -> Elapsed {
        self.interval.elapsed(now, readings, self.joined, self.parameters.backlogged)
    }

    /// Whether the estimator has to see more of the members' requests than it has. A lone member is never sampled.
    fn needs_samples(&self, elapsed: &Elapsed) -> bool {
        let mut let_in = elapsed.active.without(self.denied).iter();
        elapsed.active.len() > 1
            && match self.estimator {
                // If one member was let in, the whole interval was its.
                Estimator::SampledSize => let_in.count() > 1,
                Estimator::BacklogAware => let_in.next().is_some(),
                Estimator::Counted => let_in.any(|member| elapsed.busy[member.index()].is_none()),
            }
    }

    /// The time for which each member is sampled: at least 8 times the longest mean request of `active` members.
    fn sample_length(&self, active: Members) -> Nanoseconds {
        let longest = active.iter().filter_map(|member| self.means[member.index()]).max().unwrap_or_default();
        let wanted = Nanoseconds(longest.0.saturating_mul(REQUESTS_IN_SAMPLE));
        wanted.clamp(self.parameters.sample, self.parameters.sample_most)
    }

    /// Takes in the work of the sampled member. `None`: its sample is complete.
    fn sample(&mut self, mut window: Window, now: Instant, readings: &Readings) -> Option<Window> {
        let reading = readings.of(window.member);
        if !reading.at_device() {
            window.used += window.at_device_since.take().map_or(Nanoseconds::ZERO, |since| now.since(since));
        } else if window.at_device_since.is_none() {
            window.at_device_since = Some(now);
        }
        let over = window.is_over(now, reading, &self.parameters);
        if reading.at_device() || !over {
            if !over && window.pass(reading, &self.parameters) > 0 {
                window.at_device_since.get_or_insert(now);
            }
            return Some(window);
        }
        let counted = window.mark.counters.zip(reading.counters);
        let used = counted.map_or(window.used, |(mark, now)| now.busy.saturating_sub(mark.busy));
        if let Some(mean) = used.0.checked_div(window.completed(reading)) {
            self.means[window.member.index()] = Some(Nanoseconds(mean));
        }
        self.sampled[window.member.index()] += used;
        None
    }

    //--- Settlement

    /// The use of each member in an interval. Commands of a denied member that were still at the device are its own, too; without a
    /// drain they run after the free run has begun.
    fn charges(&self, elapsed: &Elapsed) -> [Nanoseconds; MEMBERS] {
        let size = |member: Member| {
            let completed = elapsed.completed[member.index()];
            self.means[member.index()].map_or_else(|| elapsed.time.0 / completed.max(1), |mean| mean.0).max(1)
        };
        let mut charges = [Nanoseconds::ZERO; MEMBERS];
        let mut rest = elapsed.time;
        let in_proportion = match self.estimator {
            Estimator::SampledSize => elapsed.active.without(self.denied),
            _ => Members::EMPTY,
        };
        for member in elapsed.active.without(in_proportion).iter() {
            let by_size = Nanoseconds(size(member).saturating_mul(elapsed.completed[member.index()])).min(elapsed.time);
            let counted = elapsed.busy[member.index()].filter(|_| self.estimator == Estimator::Counted);
            charges[member.index()] = counted.unwrap_or(by_size);
            rest = rest.saturating_sub(charges[member.index()]);
        }
        let sizes: u128 = in_proportion.iter().map(|member| u128::from(size(member))).sum();
        for member in in_proportion.iter() {
            charges[member.index()] = Nanoseconds((u128::from(rest.0) * u128::from(size(member)) / sizes) as u64);
        }
        charges
    }

    /// Charges the members' use, moves the system time, denies members that are too far ahead, and begins a free run.
    fn settle(&mut self, elapsed: &Elapsed, now: Instant, readings: &Readings) {
        let charges = self.charges(elapsed);
        for member in self.joined.iter() {
            let index = member.index();
            let used = charges[index] + self.sampled[index];
            self.sampled[index] = Nanoseconds::ZERO;
            self.used[index] += used;
            self.tree.charge(member, used);
            if self.estimator == Estimator::Counted {
                let mean = elapsed.busy[index].and_then(|busy| busy.0.checked_div(elapsed.completed[index]));
                self.means[index] = mean.map(Nanoseconds).or(self.means[index]);
            }
        }
        let setters = if self.estimator == Estimator::SampledSize { elapsed.active } else { elapsed.backlogged };
        self.tree.settle(elapsed.active, setters);
        let members = elapsed.active.len().max(1) as u64;
        let length = self.sample_length(elapsed.active).0 * members * u64::from(self.parameters.free_run);
        self.denied = self.tree.denied(Nanoseconds(length));
        self.state = State::FreeRun { until: now + Nanoseconds(length), busy: now };
        self.interval.begin(now, readings);
    }
}

impl Window {
    fn completed(&self, reading: &Reading) -> u64 {
        reading.completed.saturating_sub(self.mark.completed)
    }

    fn is_over(&self, now: Instant, reading: &Reading, parameters: &Parameters) -> bool {
        now >= self.ends || self.completed(reading) >= u64::from(parameters.sample_requests)
    }

    /// The number of announced commands that the sample still has room for.
    fn pass(&self, reading: &Reading, parameters: &Parameters) -> u64 {
        let submitted = reading.submitted.saturating_sub(self.mark.submitted);
        let room = u64::from(parameters.sample_requests).saturating_sub(submitted);
        room.min(reading.announced.saturating_sub(reading.submitted))
    }
}

impl Policy for FairQueueing {
    fn join(&mut self, member: Member, place: Place, reading: &Reading, now: Instant) -> Result<(), JoinError> {
        if self.joined.contains(member) {
            return Err(JoinError::AlreadyJoined(member));
        }
        if !self.tree.has(place.group) {
            return Err(JoinError::UnknownGroup(place.group));
        }
        self.joined.insert(member);
        self.tree.join(member, place.group, place.weight);
        self.interval.join(member, reading);
        self.means[member.index()] = None;
        self.sampled[member.index()] = Nanoseconds::ZERO;
        self.used[member.index()] = Nanoseconds::ZERO;
        self.latest.members[member.index()] = *reading;
        self.completed_before[member.index()] = reading.completed;
        self.watch.join(member, reading, now.max(self.clock));
        Ok(())
    }

    fn leave(&mut self, member: Member, _: Instant) {
        self.joined.remove(member);
        self.denied.remove(member);
        self.tree.leave(member);
        self.elapsed.forget(member);
        if let State::Sampling { queue, window, .. } = &mut self.state {
            queue.remove(member);
            *window = window.filter(|window| window.member != member);
        }
    }

    fn reweigh(&mut self, member: Member, weight: Weight) {
        self.tree.reweigh(member, weight);
    }

    fn step(&mut self, now: Instant, readings: &Readings) -> Verdict {
        let now = now.max(self.clock);
        self.clock = now;
        let alone = match self.state {
            State::Sampling { window, .. } => window.map(|window| window.member),
            _ => None,
        };
        let accused = self.watch.look(now, readings, self.joined, alone);
        if !matches!(self.state, State::Sampling { .. }) {
            self.interval.note(now, readings, self.joined);
        }
        let entered_barrier = self.advance(now, readings);
        self.latest = *readings;

        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        match self.state {
            State::Barrier => verdict.call_again = entered_barrier.then_some(now),
            State::Draining => {
                verdict.drain = readings.at_device(self.joined);
                verdict.call_again = Some(now + self.parameters.poll);
            }
            State::Sampling { window, .. } => {
                verdict.call_again = Some(now + self.parameters.sample_poll);
                if let Some(window) = window {
                    let reading = readings.of(window.member);
                    if window.is_over(now, reading, &self.parameters) {
                        verdict.drain = Members::only(window.member);
                    } else {
                        let pass = window.pass(reading, &self.parameters);
                        verdict.doorbells[window.member.index()] = Doorbell::Trapped { pass };
                        verdict.call_again = Some(window.ends.min(now + self.parameters.sample_poll));
                    }
                }
            }
            State::FreeRun { until, .. } => {
                for member in self.joined.without(self.denied).iter() {
                    verdict.let_in(member, Interception::Disengaged, readings);
                }
                verdict.call_again = Some(until.min(now + self.parameters.poll));
            }
        }
        verdict
    }

    fn usage(&self, member: Member) -> Usage {
        if !self.joined.contains(member) {
            return Usage::default();
        }
        let completed = self.latest.of(member).completed;
        Usage {
            used: self.used[member.index()],
            commands: completed.saturating_sub(self.completed_before[member.index()]),
            ahead: self.tree.lead(member),
            denied: self.denied.contains(member),
        }
    }

    fn counts(&self) -> bool {
        self.estimator == Estimator::Counted
    }

    fn season(&self) -> u64 {
        match FairQueueing::season(self) {
            Season::Barrier => 0,
            Season::Draining => 1,
            Season::Sampling(member) => 2 | (member.index() as u64) << 8,
            Season::FreeRun => 3,
        }
    }
}
