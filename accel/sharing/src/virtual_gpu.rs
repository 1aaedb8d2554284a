//! Virtual GPUs: one at a time has the engine, request by request, and a rule chooses the next one.
//!
//! A *virtual GPU* is a group directly below the root, with all its members, or a member that stands there alone. Its part of the
//! engine is its weight by the weights of all virtual GPUs that have members, active or not. Inside a virtual GPU the member with
//! the larger weight goes first: there a weight is a priority. Among equals the one goes first that had the engine longest ago.
//!
//! Each store is trapped. A member that is *dispatched* sends what it has announced, and the next member is chosen when all of that
//! has completed. The rules differ in two decisions: whether a virtual GPU goes to the tail of the queue when a request of it has
//! completed, and whether the head of the queue follows at once.
//!
//! | [`Succession`] | To the tail | The head with a request that waits follows |
//! |---|---|---|
//! | `Fifo` | always | at once |
//! | `Credit` | if its credit is used up | at once |
//! | `Band` | if its credit is used up, and it has used more than its part | after `wait`, if it is another one and has used more than its part |
//!
//! The *credit* grows by a virtual GPU's part of each period, and shrinks by its use. A credit beyond a period on either
//! side becomes zero. The *use* is measured over a window of a second, and looked at once in a period. While `Band` waits, the first
//! request to come has the engine: the time is for a virtual GPU with short requests and the next one just on its way.
//!
//! # Invariants
//!
//! 1. Commands of one member only are at the device, but for those that were there when their member joined.
//! 2. A member that waits behind another one's turn waits for the commands that were announced by then, not for later ones.
//! 3. A lone virtual GPU never waits. With nothing at the device, no other waits for longer than `wait`.
//!
//! # Limits
//!
//! A client with one request at a time has nothing queued when the next one is chosen, so `Credit` equals `Fifo`. `Band`
//! helps it only if its next request comes within `wait`; otherwise this time is lost. A member with a smaller weight than others of
//! its virtual GPU can wait for ever. Groups inside groups have no parts of their own. [`Shares`](crate::Shares) mean nothing here.
//!
//! # Corrections of the paper
//!
//! - *A member sends nothing more while another one waits.* In the paper a context that always has two launches under way keeps the
//!   engine for ever, because the next one is chosen when none is.
//! - *The wait begins with the end of the request*, as the device counts it, and not when the scheduler gets to run.
//!
//! # Source
//!
//! Kato et al., USENIX ATC 2012 (Gdev): `Credit` and `Band`. The text has no rule for `Fifo`; the authors' published program does.

use fusee_sched::time::{Instant, Nanoseconds};

use crate::ledger::Ledger;
use crate::member::{MEMBERS, Member, Members};
use crate::parameters::{ParameterError, Parameters};
use crate::policy::{Doorbell, JoinError, Place, Policy, Reading, Readings, Usage, Verdict};
use crate::tree::{NODES, Tree, Weight};
use crate::watch::Watch;

/// The least length of the window of use.
const WINDOW: u64 = 1_000_000_000;

/// The rule that chooses the next virtual GPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Succession {
    /// In turn.
    Fifo,
    /// In turn, but a virtual GPU stays at the head until its credit is used up.
    Credit,
    /// By credit and use, with a wait for those that have used less than their part.
    Band,
}

/// A member with commands at the device.
#[derive(Clone, Copy, Debug)]
struct Turn {
    member: Member,
    since: Instant,
    /// Its words at the beginning.
    mark: Reading,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No member wants the engine.
    Idle,
    Busy(Turn),
    /// The head of the queue waits. `passed_over`: the members that waited when this began.
    Buffering {
        until: Instant,
        passed_over: Members,
    },
}

/// The account of one virtual GPU.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Its place in the queue: the smallest number is the head.
    queued: u64,
    credit: i64,
    /// Engine time used in the present window.
    busy: u64,
    /// Engine time used, and the length of the window, at the end of the last period.
    used: (u64, u64),
}

/// Virtual GPUs on one engine.
#[derive(Clone, Copy, Debug)]
pub struct VirtualGpus {
    parameters: Parameters,
    succession: Succession,
    tree: Tree,
    joined: Members,
    clock: Instant,
    /// Periods since the beginning, and since that of the window.
    periods: u64,
    in_window: u64,
    state: State,
    /// By the node of the tree that is the virtual GPU.
    accounts: [Account; NODES],
    /// The order of dispatches.
    dispatched: [u64; MEMBERS],
    /// The last number given to a place in a queue or to a dispatch.
    number: u64,
    ledger: Ledger,
    watch: Watch,
}

impl VirtualGpus {
    /// Virtual GPUs for members that will join groups of `tree`.
    ///
    /// # Errors
    /// A parameter that is out of its range.
    pub fn new(parameters: &Parameters, succession: Succession, tree: Tree) -> Result<VirtualGpus, ParameterError> {
        parameters.check()?;
        Ok(VirtualGpus {
            parameters: *parameters,
            succession,
            tree,
            joined: Members::EMPTY,
            clock: Instant::ZERO,
            periods: 0,
            in_window: 0,
            state: State::Idle,
            accounts: [Account { queued: 0, credit: 0, busy: 0, used: (0, 1) }; NODES],
            dispatched: [0; MEMBERS],
            number: 0,
            ledger: Ledger::EMPTY,
            watch: Watch::new(parameters.request_limit),
        })
    }

    /// The member with the turn.
    #[must_use]
    pub const fn dispatched(&self) -> Option<Member> {
        match self.state {
            State::Busy(turn) => Some(turn.member),
            State::Idle | State::Buffering { .. } => None,
        }
    }

    /// Whether the head of the queue waits.
    #[must_use]
    pub const fn buffers(&self) -> bool {
        matches!(self.state, State::Buffering { .. })
    }

    //--- Accounts

    /// The weight of this virtual GPU, and the weights of all that have members.
    fn parts(&self, gpu: usize) -> (u64, u64) {
        (self.tree.shares_of(gpu), self.gpus().map(|one| self.tree.shares_of(one)).sum())
    }

    /// The virtual GPUs that have members.
    fn gpus(&self) -> impl Iterator<Item = usize> + use<> {
        let found: u32 = self.joined.iter().fold(0, |found, member| found | 1 << self.tree.top(member));
        (0..NODES).filter(move |gpu| found & 1 << gpu != 0)
    }

    /// Moves the accounts of all virtual GPUs with members to the present period.
    fn account(&mut self, now: Instant) {
        let period = self.parameters.period.0;
        let passed = now.0 / period - self.periods;
        if passed == 0 {
            return;
        }
        self.periods += passed;
        let in_window = WINDOW.div_ceil(period);
        for gpu in self.gpus() {
            let (own, all) = self.parts(gpu);
            let grant = (u128::from(period) * u128::from(own) / u128::from(all)) as u64;
            let account = &mut self.accounts[gpu];
            account.credit = granted(account.credit, grant, period, passed);
            account.measure(self.in_window, in_window, period, passed);
        }
        self.in_window = (self.in_window + passed) % in_window;
    }

    fn has_overdrawn(&self, gpu: usize) -> bool {
        self.accounts[gpu].credit < 0
    }

    /// Whether the virtual GPU has used more than its part.
    fn is_over_used(&self, gpu: usize) -> bool {
        let ((used, time), (own, all)) = (self.accounts[gpu].used, self.parts(gpu));
        u128::from(used) * u128::from(all) > u128::from(time) * u128::from(own)
    }

    const fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    //--- Decisions

    /// The member of `candidates` that follows.
    fn head(&self, candidates: Members) -> Option<Member> {
        let order = |member: &Member| {
            let place = self.accounts[self.tree.top(*member)].queued;
            (place, core::cmp::Reverse(self.tree.shares_of_member(*member)), self.dispatched[member.index()])
        };
        candidates.iter().min_by_key(order)
    }

    fn dispatch(&mut self, member: Member, now: Instant, readings: &Readings) {
        self.dispatched[member.index()] = self.next_number();
        self.state = State::Busy(Turn { member, since: now, mark: *readings.of(member) });
    }

    /// The turn is over, and all its commands have completed.
    fn complete(&mut self, turn: Turn, now: Instant, readings: &Readings) {
        let counted = turn.mark.counters.zip(readings.of(turn.member).counters);
        let used = counted.map_or(now.since(turn.since), |(mark, now)| now.busy.saturating_sub(mark.busy));
        let ended = (turn.since + used).min(now);
        let gpu = self.tree.top(turn.member);
        let account = &mut self.accounts[gpu];
        account.credit = account.credit.saturating_sub_unsigned(used.0);
        account.busy = account.busy.saturating_add(used.0);
        let goes_to_tail = match self.succession {
            Succession::Fifo => true,
            Succession::Credit => self.has_overdrawn(gpu),
            Succession::Band => self.has_overdrawn(gpu) && self.is_over_used(gpu),
        };
        if goes_to_tail {
            self.accounts[gpu].queued = self.next_number();
        }
        let waiting = readings.waiting(self.joined);
        self.state = State::Idle;
        let Some(next) = self.head(waiting) else { return };
        let head = self.tree.top(next);
        if self.succession == Succession::Band && head != gpu && self.is_over_used(head) {
            self.state = State::Buffering { until: ended + self.parameters.wait, passed_over: waiting };
        }
    }

    /// The member that follows now, if the engine is free for one.
    fn next(&self, now: Instant, readings: &Readings) -> Option<Member> {
        let waiting = readings.waiting(self.joined);
        match self.state {
            State::Busy(_) => None,
            State::Idle => self.head(waiting),
            State::Buffering { until, passed_over } => {
                self.head(waiting.without(passed_over)).or_else(|| self.head(waiting).filter(|_| now >= until))
            }
        }
    }
}

impl Account {
    /// Takes in `passed` ends of periods; `before` have passed in the window, which has `window` of them.
    fn measure(&mut self, before: u64, window: u64, period: u64, passed: u64) {
        let to_end = window - before;
        self.used = match passed.cmp(&to_end) {
            core::cmp::Ordering::Less => (self.busy, (before + passed) * period),
            core::cmp::Ordering::Equal => (self.busy, window * period),
            // Nothing has been used since the window began anew.
            core::cmp::Ordering::Greater => (0, period),
        };
        if passed >= to_end {
            self.busy = 0;
        }
    }
}

/// The credit after `passed` ends of periods, in each of which it grows by `grant`, and is cut off beyond `period`.
fn granted(credit: i64, grant: u64, period: u64, passed: u64) -> i64 {
    let (grant, period) = (grant as i64, period as i64);
    let first = credit.saturating_add(grant);
    let (credit, rest) = (if first.abs() > period { 0 } else { first }, passed - 1);
    let to_cut = ((period - credit) / grant) as u64;
    if rest <= to_cut {
        return credit + rest as i64 * grant;
    }
    // From zero on it is the same again and again.
    let round = (period / grant) as u64 + 1;
    ((rest - to_cut - 1) % round) as i64 * grant
}

impl Policy for VirtualGpus {
    fn join(&mut self, member: Member, place: Place, reading: &Reading, now: Instant) -> Result<(), JoinError> {
        if self.joined.contains(member) {
            return Err(JoinError::AlreadyJoined(member));
        }
        if !self.tree.has(place.group) {
            return Err(JoinError::UnknownGroup(place.group));
        }
        let now = now.max(self.clock);
        self.account(now);
        self.tree.join(member, place.group, place.weight);
        let gpu = self.tree.top(member);
        let is_new = !self.joined.iter().any(|other| self.tree.top(other) == gpu);
        self.joined.insert(member);
        if is_new {
            self.accounts[gpu] = Account { queued: self.next_number(), credit: 0, busy: 0, used: (0, 1) };
        }
        self.dispatched[member.index()] = self.next_number();
        self.ledger.join(member, reading);
        self.watch.join(member, reading, now);
        Ok(())
    }

    fn leave(&mut self, member: Member, now: Instant) {
        if !self.joined.contains(member) {
            return;
        }
        self.account(now.max(self.clock));
        self.joined.remove(member);
        self.tree.leave(member);
        // The virtual GPU behind the wait may be gone.
        if self.dispatched().is_none_or(|dispatched| dispatched == member) {
            self.state = State::Idle;
        }
    }

    fn reweigh(&mut self, member: Member, weight: Weight) {
        if self.joined.contains(member) {
            self.account(self.clock);
            self.tree.reweigh(member, weight);
        }
    }

    fn step(&mut self, now: Instant, readings: &Readings) -> Verdict {
        let now = now.max(self.clock);
        self.clock = now;
        self.ledger.book(now, readings, self.joined);
        let accused = self.watch.look(now, readings, self.joined, self.dispatched());
        self.account(now);
        if let State::Busy(turn) = self.state
            && !readings.of(turn.member).at_device()
        {
            self.complete(turn, now, readings);
        }
        // Those that waited may have given up.
        if self.buffers() && readings.waiting(self.joined).is_empty() {
            self.state = State::Idle;
        }
        let next = self.next(now, readings);
        if let Some(member) = next {
            self.dispatch(member, now, readings);
        }

        let (waiting, at_device) = (readings.waiting(self.joined), readings.at_device(self.joined));
        let mut verdict = Verdict { accused, ..Verdict::QUIET };
        match self.state {
            State::Idle if at_device.is_empty() && waiting.is_empty() => {}
            State::Idle => verdict.call_again = Some(now + self.parameters.poll),
            State::Buffering { until, .. } => verdict.call_again = Some(until.min(now + self.parameters.poll)),
            State::Busy(Turn { member, .. }) => {
                let reading = readings.of(member);
                let others = waiting.without(Members::only(member));
                // All that was announced when its turn began, and more only while no other member waits.
                if next == Some(member) || others.is_empty() {
                    let pass = reading.announced.saturating_sub(reading.submitted);
                    verdict.doorbells[member.index()] = Doorbell::Trapped { pass };
                } else if at_device.contains(member) {
                    verdict.drain = Members::only(member);
                }
                verdict.call_again = Some(now + self.parameters.sample_poll);
            }
        }
        verdict
    }

    fn usage(&self, member: Member) -> Usage {
        if !self.joined.contains(member) {
            return Usage::default();
        }
        let credit = self.accounts[self.tree.top(member)].credit;
        let ahead = Nanoseconds(credit.min(0).unsigned_abs());
        let denied = match self.state {
            State::Idle => false,
            State::Busy(turn) => turn.member != member,
            State::Buffering { passed_over, .. } => passed_over.contains(member),
        };
        Usage { ahead, denied, ..self.ledger.usage(member) }
    }

    fn counts(&self) -> bool {
        true
    }

    fn season(&self) -> u64 {
        match self.state {
            State::Idle => 0,
            State::Busy(turn) => 1 | (turn.member.index() as u64) << 8,
            State::Buffering { .. } => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_periods_at_once_are_as_one_after_the_other() {
        for period in [7_u64, 30, 1_000] {
            for grant in (1..=period).step_by(period.div_ceil(9) as usize) {
                for start in [0, 1, -1, period as i64, -(period as i64), -3 * period as i64, 2 * period as i64] {
                    let mut one = start;
                    for passed in 1..4 * (period / grant + 3) {
                        one += grant as i64;
                        if one.unsigned_abs() > period {
                            one = 0;
                        }
                        assert_eq!(granted(start, grant, period, passed), one, "{start} {grant} {period} {passed}");
                    }
                }
            }
        }
    }
}
