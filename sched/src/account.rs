//! One budget: what is left, what is owed, when it is refilled.
//!
//! A kernel path cannot be stopped halfway, so a thread may run a little past its budget. The excess is not
//! forgiven: it becomes debt, which the next replenishments pay before anything else.

use crate::time::{Instant, Nanoseconds};

/// A budget of so much each period.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// CPU time a period.
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
}
