//! One budget: what is left, what is owed, when it is refilled.
//!
//! A kernel path cannot be stopped halfway, so a thread may run a little past its budget. The excess is not
//! forgiven: it becomes debt, which the next replenishments pay before anything else.
//!
//! It is the same with an engine whose time is drawn from a budget, only longer: the engine cannot be stopped, and its
//! time is known when it is idle. What a CPU has used up to then may be charged before or after: until the next
//! replenishment only the sum counts.

use crate::time::{Instant, Nanoseconds};

/// A budget of so much each period.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// Time a period, of CPUs and, if it covers them, of engines.
    pub budget: Nanoseconds,
    /// Time between replenishments.
    pub period: Nanoseconds,
    /// Budget left until the next replenishment.
    pub left: Nanoseconds,
    /// Time used beyond the budget and not yet paid for.
    pub debt: Nanoseconds,
    /// When it was last replenished.
    pub replenished: Instant,
}

impl Account {
    /// All zero.
    pub const EMPTY: Account = Account {
        budget: Nanoseconds::ZERO,
        period: Nanoseconds::ZERO,
        left: Nanoseconds::ZERO,
        debt: Nanoseconds::ZERO,
        replenished: Instant::ZERO,
    };

    /// A full account.
    #[must_use]
    pub const fn new(budget: Nanoseconds, period: Nanoseconds) -> Account {
        Account { budget, period, left: budget, debt: Nanoseconds::ZERO, replenished: Instant::ZERO }
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

    /// Refills the budget at `at`, debt first.
    pub fn replenish(&mut self, at: Instant) {
        let paid = self.debt.0.min(self.budget.0);
        self.debt = Nanoseconds(self.debt.0 - paid);
        self.left = Nanoseconds(self.budget.0 - paid);
        self.replenished = at;
    }

    /// When a dry account may be refilled, seen from `now`.
    #[must_use]
    pub fn next_replenishment(&self, now: Instant) -> Instant {
        (self.replenished + self.period).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        /// Replenished is spent, left, or was paid for what was owed.
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
                    account.replenish(Instant(0));
                } else {
                    account.charge(Nanoseconds(used));
                    spent += used;
                }
                prop_assert_eq!(given + account.debt.0, spent + account.left.0 + discarded);
                prop_assert!(account.left.0 <= budget);
            }
        }
    }

    /// What happens in a period: a CPU is used for so long and then, at the end of a hold, an engine.
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

    /// The account as a heap of coins of a nanosecond each, and a list of what was had on credit.
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
                        account.replenish(Instant(0));
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
                as_it_comes.replenish(Instant(0));
                engines_first.replenish(Instant(0));
            }
        }
    }
}
