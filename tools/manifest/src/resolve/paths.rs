//! The lengths of the kernel's paths in a system, and the budgets that are too small for them.

use std::collections::BTreeSet;

use fusee_abi::image::{self, advice};
use fusee_kernel_core::limits::{FEW_GROUP_USERS, FEW_POOL_USERS, LONGEST_PATH, LONGEST_PATH_CROWDED, least_budget};
use toml::Spanned;

use super::{Fail::At, Of, Resolved, Resolver};
use crate::error::Reason;
use crate::quantity::Time;

impl Resolved {
    /// The longest path through the kernel in this system, in instructions.
    #[must_use]
    pub fn longest_path(&self) -> u64 {
        let users_of = |pool: usize| self.pool_users.iter().filter(|user| user.pool as usize == pool).count();
        let crowded = |(index, (_, pool)): (usize, &(String, image::Pool))| {
            pool.advice != advice::NOBODY || users_of(index) > FEW_POOL_USERS
        };
        let in_group = |group: u32| {
            let of_it = |engine: u32| self.engines[engine as usize].1.group_plus_one == group;
            let tasks: BTreeSet<u32> =
                self.engine_users.iter().filter(|user| of_it(user.engine)).map(|user| user.task).collect();
            tasks.len()
        };
        let groups: BTreeSet<u32> = self.engines.iter().map(|(_, engine)| engine.group_plus_one).collect();
        let is_crowded = self.pools.iter().enumerate().any(crowded)
            || groups.into_iter().any(|group| group != 0 && in_group(group) > FEW_GROUP_USERS);
        if is_crowded { LONGEST_PATH_CROWDED } else { LONGEST_PATH }
    }
}

impl Resolver<'_> {
    /// Whether each budget is long enough to be enforced.
    pub(super) fn budgets(&mut self) {
        let least = least_budget(self.out.longest_path());
        for index in 0..self.out.reservations.len() {
            let image::Reservation { task, budget, .. } = self.out.reservations[index];
            if budget < least {
                let (name, task) = &self.file.tasks.0[task as usize];
                let place = task.budget.as_ref().map_or(name.span(), Spanned::span);
                let (budget, least) = (Time(budget), Time(least));
                let reason = Reason::BudgetTooSmall { task: name.get_ref().clone(), budget, least };
                self.keep(Of::Nothing, Err::<(), _>(At(place, reason)));
            }
        }
    }
}
