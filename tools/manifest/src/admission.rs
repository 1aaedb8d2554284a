//! Admission: which promises of a manifest the analysis can prove.

use fusee_abi::image::{self, class};
use fusee_sched::key::PolicyName;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::{Cluster, Nonsense, Task};

use crate::resolve::Resolved;

/// The real-time tasks of a cluster, as the analysis sees them: each job may execute for its whole budget, which is
/// enforced; what is expected of it, its `wcet`, only orders jobs under FL.
///
/// With each goes its index among the system's tasks.
///
/// # Errors
/// What makes no sense, which the checks of the manifest have excluded.
pub fn cluster(system: &Resolved, index: usize) -> Result<(Cluster, Vec<usize>), Nonsense> {
    let record = &system.clusters[index].1;
    let own = |one: &&image::Reservation| one.class == class::REAL_TIME && one.cluster as usize == index;
    let members: Vec<&image::Reservation> = system.reservations.iter().filter(own).collect();
    let task = |one: &&image::Reservation| Task {
        execution: Nanoseconds(one.budget),
        period: Nanoseconds(one.period),
        deadline: Nanoseconds(one.deadline),
        priority: one.priority,
    };
    let expected: Vec<Nanoseconds> = members.iter().map(|one| Nanoseconds(one.execution)).collect();
    let policy = PolicyName::from_number(record.policy).unwrap_or_default();
    let cluster = Cluster::new(record.cpus.count_ones(), policy, members.iter().map(task).collect())?;
    Ok((cluster.expecting(&expected), members.iter().map(|one| one.task as usize).collect()))
}
