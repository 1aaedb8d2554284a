//! The parts of the kernel that a system needs.

use fusee_abi::call::rights;
use fusee_abi::image::{Supervision, advice, feature, kind};

use super::Resolved;

impl Resolved {
    /// Bits of [`feature`].
    #[must_use]
    pub fn features(&self) -> u32 {
        let watched = self
            .engines
            .iter()
            .map(|(_, engine)| engine.watchdog)
            .chain(self.pools.iter().map(|(_, pool)| pool.watchdog));
        let gives = |right: u32| self.handles.iter().any(|handle| handle.rights & right != 0);
        let needs = [
            (feature::ENGINES, !self.engines.is_empty()),
            (feature::GROUPS, self.engines.iter().any(|(_, engine)| engine.group_plus_one != 0)),
            (feature::POOLS, !self.pools.is_empty()),
            (feature::ADVICE, self.pools.iter().any(|(_, pool)| pool.advice != advice::NOBODY)),
            (feature::WATCHDOGS, watched.into_iter().any(|watchdog| watchdog != 0)),
            (feature::LOANS, gives(rights::LEND)),
            (feature::GRANTS, gives(rights::GRANT)),
            (feature::CLUSTERS, self.clusters.len() > 1),
            (feature::RESTART, self.tasks.iter().any(|task| task.supervision != Supervision::default())),
            (feature::STREAMS, self.has_smmu()),
            (
                feature::CREDITS,
                self.handles.iter().any(|handle| handle.kind == kind::TASK && handle.rights & rights::CREDIT != 0),
            ),
            (feature::SPATIAL, self.engine_users.iter().any(|user| user.key != 0)),
            (feature::SPEAKS, self.speaks),
            (feature::SHARING, self.engines.iter().any(|(_, engine)| engine.shared_longest != 0)),
        ];
        needs.into_iter().filter(|(_, needed)| *needed).fold(0, |features, (bit, _)| features | bit)
    }
}
