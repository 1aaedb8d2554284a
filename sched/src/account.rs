//! One budget: the time left, the time owed, and the instants when used time comes back.
//!
//! The account is a sporadic server. Time is used in *chunks*: a chunk has a release, and its used time comes back one period after
//! that release. A reservation that is suspended and resumes starts a new chunk, which is released at that instant. So in any
//! interval the account gives no more than a sporadic task with this budget and this period would ask for, with any behaviour of
//! the thread that runs on it (the proof is below).
//!
//! A kernel path cannot be stopped halfway, so a thread may run a little past its budget. The excess is not
//! forgiven: it becomes debt, which the next refills pay before anything else.
//!
//! An engine whose time is drawn from a budget may run past it, too, and for longer: the engine cannot be stopped, and its time is
//! known when it is idle. The time that a CPU has used up to then may be charged before or after: until the next refill only the
//! sum counts.
//!
//! # Invariant
//!
//! A1. `left`, the used time of the present chunk, and the pending refills add up to the budget.
//!
//! # Why no interval gets more than its share
//!
//! Call *group* a maximal row of chunks that together are no longer than the budget. By A1 a chunk that begins at `t` has at most
//! the budget without the time used in the last period before `t`. So the first chunk of the next group is released a period or
//! more after the last chunk of this group, and `k` groups need an interval of `(k - 1) * period` between their releases. A chunk
//! has the deadline of a job that is released with it. So demand in any interval, and requests in any interval, are at most those
//! of the sporadic task (budget, period, deadline).
//!
//! Two refills that would not both fit in the list, or are less than [`GRAIN`] apart, are joined at the later of their instants.
//! Joining only delays.
//!
//! # Source
//!
//! Sprunt, Sha, Lehoczky 1989 (sporadic server), with the corrections of Stanovich et al. 2010: a chunk is the time left, not the
//! budget before, and a refill counts from the release of its chunk. We differ: a list of [`REFILLS`] entries, and debt.

use crate::time::{Instant, Nanoseconds};

/// The number of refills that are kept apart.
pub const REFILLS: usize = 4;

/// Refills that are so close to each other are joined: a refill that is used up before the next one comes costs more than it gives.
pub const GRAIN: Nanoseconds = Nanoseconds(50_000);

/// Time that comes back.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Refill {
    /// The amount of the refill. Zero: none is pending.
    pub amount: Nanoseconds,
    /// The instant of the refill.
    pub at: Instant,
}

/// A budget of so much each period.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// Time a period, of CPUs and, if it covers them, of engines.
    pub budget: Nanoseconds,
    /// Time after which used time comes back, from the release of its chunk.
    pub period: Nanoseconds,
    /// Budget left in the present chunk.
    pub left: Nanoseconds,
    /// Time used beyond the budget and not yet paid for.
    pub debt: Nanoseconds,
    /// The release of the present chunk.
    pub release: Instant,
    /// The sum of the pending refills.
    pending: Nanoseconds,
    /// and in parts, earliest first.
    refills: [Refill; REFILLS],
}

impl Account {
    /// All zero.
    pub const EMPTY: Account = Account {
        budget: Nanoseconds::ZERO,
        period: Nanoseconds::ZERO,
        left: Nanoseconds::ZERO,
        debt: Nanoseconds::ZERO,
        release: Instant::ZERO,
        pending: Nanoseconds::ZERO,
        refills: [Refill { amount: Nanoseconds::ZERO, at: Instant::ZERO }; REFILLS],
    };

    /// A full account.
    #[must_use]
    pub const fn new(budget: Nanoseconds, period: Nanoseconds) -> Account {
        Account { budget, period, left: budget, ..Account::EMPTY }
    }

    /// Takes `used` from the budget. Returns the excess, which is now debt.
    #[inline]
    pub fn charge(&mut self, used: Nanoseconds) -> Nanoseconds {
        let excess = used.saturating_sub(self.left);
        self.left = self.left.saturating_sub(used);
        self.debt += excess;
        excess
    }

    /// Whether nothing is left.
    #[must_use]
    #[inline]
    pub const fn is_dry(&self) -> bool {
        self.left.0 == 0
    }

    /// The refills that are pending, earliest first.
    pub fn refills(&self) -> impl Iterator<Item = Refill> + '_ {
        self.refills.iter().copied().take_while(|refill| refill.amount != Nanoseconds::ZERO)
    }

    /// Begins a chunk that is released at `at`: with the time left, and with the refills due by then, debt first. An instant before
    /// the release of the present chunk changes nothing: a chunk is never older than the one before.
    #[inline(never)]
    pub fn resume(&mut self, at: Instant) {
        if at <= self.release {
            return;
        }
        if self.pending == Nanoseconds::ZERO && self.release + self.period <= at {
            // Only the used time of one chunk comes back, and all of it.
            self.release = at;
            let used = self.budget.saturating_sub(self.left);
            self.give(used);
            return;
        }
        self.close();
        self.release = at;
        while self.refills[0].amount != Nanoseconds::ZERO && self.refills[0].at <= at {
            let amount = self.refills[0].amount;
            self.refills.rotate_left(1);
            self.refills[REFILLS - 1] = Refill::default();
            self.pending = self.pending.saturating_sub(amount);
            self.give(amount);
        }
    }

    /// Begins a chunk at `at` of a nanosecond, and one with the rest of the time left directly behind it. Serves a reservation
    /// whose key cannot change now: it changes when that nanosecond has been used.
    #[inline(never)]
    pub fn resume_behind(&mut self, at: Instant) {
        if at < self.release {
            // Its key is later than that of a job released now.
            return;
        }
        self.resume(at);
        let rest = self.left.saturating_sub(Nanoseconds(1));
        if rest == Nanoseconds::ZERO {
            return;
        }
        self.left = Nanoseconds(1);
        self.pending += rest;
        let last = self.refills[REFILLS - 1];
        self.refills.rotate_right(1);
        self.refills[0] = Refill { amount: rest, at: at + Nanoseconds(1) };
        if last.amount != Nanoseconds::ZERO {
            let joined = &mut self.refills[REFILLS - 1];
            *joined = Refill { amount: joined.amount + last.amount, at: last.at };
        }
    }

    /// Starts over at `at`, with the whole budget and without debt: for a reservation that has only a time slice, and for the start
    /// of a system.
    pub fn restart(&mut self, at: Instant) {
        (self.left, self.debt, self.release) = (self.budget, Nanoseconds::ZERO, at);
        if self.pending != Nanoseconds::ZERO {
            self.pending = Nanoseconds::ZERO;
            self.refills = [Refill::default(); REFILLS];
        }
    }

    /// Sets another budget for each period from `now` on. The time left stays, up to the new budget; the rest counts as used at
    /// `now`. So no interval gives more than the largest budget that there was, each of the shortest period.
    pub fn change(&mut self, budget: Nanoseconds, period: Nanoseconds, now: Instant) {
        self.resume(now);
        let Account { left, debt, release, .. } = *self;
        *self = Account { budget, period, left: left.min(budget), debt, release, ..Account::EMPTY };
    }

    /// The instant when a dry account may be refilled, seen from `now`. The used time of the present chunk is due a period after
    /// its release.
    #[must_use]
    #[inline(never)]
    pub fn next_refill(&mut self, now: Instant) -> Instant {
        self.close();
        // Nothing is left, so by A1 something is pending.
        self.refills[0].at.max(now)
    }

    /// So much comes back, debt first.
    fn give(&mut self, amount: Nanoseconds) {
        let paid = self.debt.0.min(amount.0);
        self.debt = Nanoseconds(self.debt.0 - paid);
        self.left += Nanoseconds(amount.0 - paid);
    }

    /// Turns the used time of the present chunk into a refill.
    #[inline(never)]
    fn close(&mut self) {
        let used = self.budget.saturating_sub(self.left).saturating_sub(self.pending);
        if used == Nanoseconds::ZERO {
            return;
        }
        self.pending += used;
        let at = self.release + self.period;
        let joins = |refill: &Refill| refill.amount == Nanoseconds::ZERO || at <= refill.at + GRAIN;
        let place = self.refills.iter().position(joins).unwrap_or(REFILLS - 1);
        let refill = &mut self.refills[place];
        refill.amount += used;
        refill.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The time left, the time owed, and the refills.
    fn seen(account: &Account) -> (u64, u64, Vec<(u64, u64)>) {
        let refills = account.refills().map(|refill| (refill.amount.0, refill.at.0)).collect();
        (account.left.0, account.debt.0, refills)
    }

    const MS: u64 = 1_000_000;

    fn account() -> Account {
        Account::new(Nanoseconds(10 * MS), Nanoseconds(100 * MS))
    }

    #[test]
    fn a_chunk_that_begins_behind_a_nanosecond_has_the_rest_then() {
        let mut one = account();
        one.charge(Nanoseconds(4 * MS));
        one.resume_behind(Instant(20 * MS));
        // 4 ms of the chunk before come back at 100 ms; of the other 6 a nanosecond now.
        assert_eq!(seen(&one), (1, 0, [(6 * MS - 1, 20 * MS + 1), (4 * MS, 100 * MS)].to_vec()));
        assert_eq!(one.release, Instant(20 * MS));
        // A chunk that has begun later is as it is; one that began now gets nothing behind it twice.
        let before = seen(&one);
        one.resume_behind(Instant(20 * MS - 1));
        assert_eq!(seen(&one), before);
        one.resume_behind(Instant(20 * MS));
        assert_eq!(seen(&one), before, "nothing is left but the nanosecond");
    }

    #[test]
    fn a_list_without_room_joins_its_last_two_behind_a_nanosecond() {
        let mut one = account();
        for chunk in 0..REFILLS as u64 {
            one.charge(Nanoseconds(MS));
            one.resume(Instant((chunk + 1) * 10 * MS));
        }
        assert_eq!(one.refills().count(), REFILLS);
        one.resume_behind(Instant(40 * MS));
        let expected = [(6 * MS - 1, 40 * MS + 1), (MS, 100 * MS), (MS, 110 * MS), (2 * MS, 130 * MS)];
        assert_eq!(seen(&one), (1, 0, expected.to_vec()));
    }

    #[test]
    fn an_account_that_starts_over_owes_nothing_and_expects_nothing() {
        let mut one = account();
        one.charge(Nanoseconds(4 * MS));
        one.resume(Instant(10 * MS));
        one.charge(Nanoseconds(9 * MS));
        assert_eq!(seen(&one), (0, 3 * MS, [(4 * MS, 100 * MS)].to_vec()));
        one.restart(Instant(15 * MS));
        assert_eq!(seen(&one), (10 * MS, 0, Vec::new()));
        assert_eq!(one.release, Instant(15 * MS));
        // All of a later chunk comes back a period after that, and not before.
        one.charge(Nanoseconds(10 * MS));
        assert_eq!(one.next_refill(Instant(30 * MS)), Instant(115 * MS));
        assert_eq!(one.next_refill(Instant(120 * MS)), Instant(120 * MS), "it is over");
    }

    #[test]
    fn refills_that_are_less_than_a_grain_apart_are_one() {
        let two_chunks = |apart: u64| {
            let mut one = account();
            one.charge(Nanoseconds(MS));
            one.resume(Instant(apart));
            one.charge(Nanoseconds(MS));
            one.resume(Instant(50 * MS));
            seen(&one).2
        };
        assert_eq!(two_chunks(GRAIN.0), [(2 * MS, 100 * MS + GRAIN.0)]);
        assert_eq!(two_chunks(GRAIN.0 + 1), [(MS, 100 * MS), (MS, 100 * MS + GRAIN.0 + 1)]);
        assert_eq!(two_chunks(1), [(2 * MS, 100 * MS + 1)]);
    }

    /// A period after the release of the chunk all that was used of it comes back.
    fn next_period(account: &mut Account) {
        account.resume(account.release + account.period);
    }

    #[test]
    fn another_budget_keeps_what_is_left_and_the_rest_comes_a_period_later() {
        let mut one = account();
        one.charge(Nanoseconds(13 * MS));
        one.resume(Instant(20 * MS));
        assert_eq!(seen(&one), (0, 3 * MS, [(10 * MS, 100 * MS)].to_vec()));
        // The refill at 100 ms paid 3 ms of debt.
        one.change(Nanoseconds(8 * MS), Nanoseconds(50 * MS), Instant(110 * MS));
        assert_eq!(seen(&one), (7 * MS, 0, Vec::new()));
        one.charge(Nanoseconds(7 * MS));
        assert_eq!(one.next_refill(Instant(120 * MS)), Instant(160 * MS));
        // Before it has come back there is another one: of the more nothing comes earlier than of the rest.
        one.change(Nanoseconds(10 * MS), Nanoseconds(100 * MS), Instant(150 * MS));
        assert_eq!(seen(&one), (0, 0, Vec::new()));
        assert_eq!(one.next_refill(Instant(150 * MS)), Instant(250 * MS));
        one.resume(Instant(250 * MS));
        assert_eq!(one.left, Nanoseconds(10 * MS));
        // Less than is left.
        one.change(Nanoseconds(2 * MS), Nanoseconds(100 * MS), Instant(260 * MS));
        assert_eq!(seen(&one), (2 * MS, 0, Vec::new()));
    }

    /// The time left at `now`, and a nanosecond later.
    fn within_a_nanosecond(account: &Account, now: u64) -> u64 {
        let soon = account.refills().filter(|refill| refill.at.0 <= now + 1);
        account.left.0 + soon.map(|refill| refill.amount.0).sum::<u64>()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        /// No interval gives more than a sporadic task with this budget and this period asks for, whenever the account is
        /// used, suspended and resumed; and nothing gets lost.
        #[test]
        fn no_interval_gives_more_than_a_sporadic_task_asks_for(
            budget in 1u64..30,
            slack in 0u64..40,
            steps in proptest::collection::vec((0u64..50, 0u64..40, 0u8..7), 1..40),
            others in proptest::collection::vec((1u64..30, 0u64..40), 0..4),
        ) {
            // Some refills are closer to each other than the grain, and some are not.
            let tick = GRAIN.0 / 4;
            let (budget, period) = (tick * budget, tick * (budget + slack));
            let mut account = Account::new(Nanoseconds(budget), Nanoseconds(period));
            let mut now = 0;
            // The release of each chunk, and its used time.
            let mut chunks: Vec<(u64, u64)> = std::vec![(0, 0)];
            let mut others = others.into_iter();
            for (pause, run, kind) in steps {
                let is_behind = kind < 3;
                now += tick * pause;
                if kind == 6 && let Some((less, more)) = others.next() {
                    // No more than at first, no more often.
                    account.change(Nanoseconds((tick * less).min(budget)), Nanoseconds(period + tick * more), Instant(now));
                }
                if account.is_dry() {
                    now = account.next_refill(Instant(now)).0;
                }
                let mut at_once = account;
                at_once.resume(Instant(now));
                if is_behind {
                    account.resume_behind(Instant(now));
                    prop_assert_eq!(within_a_nanosecond(&account, now), within_a_nanosecond(&at_once, now));
                } else {
                    account = at_once;
                }
                if chunks.last().is_none_or(|chunk| chunk.0 != account.release.0) {
                    chunks.push((account.release.0, 0));
                }
                let run = (tick * run).min(account.left.0);
                account.charge(Nanoseconds(run));
                now += run;
                chunks.last_mut().expect("one is there").1 += run;
                for (first, chunk) in chunks.iter().enumerate() {
                    let used: u64 = chunks[first..].iter().map(|chunk| chunk.1).sum();
                    let groups = (account.release.0 - chunk.0) / period + 1;
                    prop_assert!(used <= budget * groups, "{used} in {groups} groups of {budget}");
                }
                let pending: u64 = account.refills().map(|refill| refill.amount.0).sum();
                prop_assert_eq!(account.pending.0, pending);
                prop_assert!(account.left.0 + pending <= budget);
            }
            // Left alone for two periods, it is full.
            account.resume(Instant(now + 2 * account.period.0));
            prop_assert_eq!(account.left, account.budget);
        }

        /// Replenished time is spent, left, or was paid for a debt.
        #[test]
        fn every_nanosecond_is_left_spent_or_owed(
            budget in 1u64..1000,
            steps in proptest::collection::vec((any::<bool>(), 0u64..1500), 0..50),
        ) {
            let mut account = Account::new(Nanoseconds(budget), Nanoseconds(2 * budget));
            let (mut given, mut spent, mut discarded) = (budget, 0, 0);
            for (refills, used) in steps {
                if refills {
                    discarded += account.left.0;
                    given += budget;
                    next_period(&mut account);
                } else {
                    account.charge(Nanoseconds(used));
                    spent += used;
                }
                prop_assert_eq!(given + account.debt.0, spent + account.left.0 + discarded);
                prop_assert!(account.left.0 <= budget);
            }
        }
    }

    /// The events of a period: a CPU is used for so long and then, at the end of a hold, an engine.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Cpu(u64),
        Engine(u64),
        Refill,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..40).prop_map(Step::Cpu),
            2 => (0u64..120).prop_map(Step::Engine),
            2 => Just(Step::Refill),
        ]
    }

    /// The account as a heap of coins of a nanosecond each, and a list of coins had on credit.
    #[derive(Default)]
    struct Coins {
        left: Vec<()>,
        owed: Vec<()>,
    }

    impl Coins {
        fn pay(&mut self) {
            if self.left.pop().is_none() {
                self.owed.push(());
            }
        }

        fn refill(&mut self, budget: u64) {
            self.left.clear();
            for _ in 0..budget {
                if self.owed.pop().is_none() {
                    self.left.push(());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn one_budget_pays_for_cpus_and_engines_coin_by_coin(
            budget in 1u64..60,
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let mut account = Account::new(Nanoseconds(budget), Nanoseconds(2 * budget));
            let mut coins = Coins::default();
            coins.refill(budget);
            for step in steps {
                match step {
                    Step::Cpu(used) | Step::Engine(used) => {
                        let owed = coins.owed.len();
                        let excess = account.charge(Nanoseconds(used));
                        (0..used).for_each(|_| coins.pay());
                        prop_assert_eq!(excess.0 as usize, coins.owed.len() - owed);
                    }
                    Step::Refill => {
                        next_period(&mut account);
                        coins.refill(budget);
                    }
                }
                prop_assert_eq!(account.left.0 as usize, coins.left.len());
                prop_assert_eq!(account.debt.0 as usize, coins.owed.len());
                prop_assert_eq!(account.is_dry(), coins.left.is_empty());
            }
        }

        /// CPU time is booked when its CPU looks, engine time when the engine is idle.
        #[test]
        fn when_cpu_and_engine_time_are_booked_does_not_matter_within_a_period(
            budget in 1u64..60,
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let mut as_it_comes = Account::new(Nanoseconds(budget), Nanoseconds(2 * budget));
            let mut engines_first = as_it_comes;
            for period in steps.split(|step| matches!(step, Step::Refill)) {
                let mut late = 0;
                for step in period {
                    match step {
                        Step::Cpu(used) => {
                            as_it_comes.charge(Nanoseconds(*used));
                            late += used;
                        }
                        Step::Engine(used) => {
                            as_it_comes.charge(Nanoseconds(*used));
                            engines_first.charge(Nanoseconds(*used));
                        }
                        Step::Refill => {}
                    }
                }
                engines_first.charge(Nanoseconds(late));
                prop_assert_eq!(as_it_comes, engines_first);
                next_period(&mut as_it_comes);
                next_period(&mut engines_first);
            }
        }
    }
}
