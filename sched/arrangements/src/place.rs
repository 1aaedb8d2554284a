//! Places of tasks: GPU tasks on GPU clusters, then on CPU clusters, then all other tasks; each time the heaviest first, where there is most room.
//!
//! # Source
//! Elliott 2015, section 4.3.3, eq. 4.1 and 4.52: three-phase worst fit. Where GPU clusters have different speeds, a task counts with its share of the
//! cluster, and comes to the one with the least load with it; that is ours.

use crate::arrangement::{Arrangement, Owner};

/// Utilisations are counted in so many parts of one CPU.
pub const ONE: u64 = 1 << 32;

/// The utilisation `span / period` of one CPU or GPU, in units of 1 / [`ONE`], rounded up. A result above `u64::MAX` saturates.
///
/// # Panics
/// `period` is zero.
#[must_use]
pub fn share(span: u64, period: u64) -> u64 {
    let share = (u128::from(span) * u128::from(ONE)).div_ceil(period.into());
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The place of a task.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Place {
    /// Its CPU cluster.
    pub cpus: usize,
    /// Its GPU cluster, if it uses GPUs.
    pub gpus: Option<usize>,
}

/// A task that uses GPUs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct User {
    /// Its number among all tasks.
    pub task: usize,
    /// Its share of a GPU in each GPU cluster; [`u64::MAX`]: it needs more than its period there.
    pub gpu: Vec<u64>,
    /// Its share of a CPU in each GPU cluster.
    pub cpu: Vec<u64>,
}

/// The places of the GPU tasks.
pub fn gpu_tasks(users: &[User], arrangement: &Arrangement, places: &mut [Place]) {
    let mut order: Vec<&User> = users.iter().collect();
    let heaviest = |shares: &[u64]| std::cmp::Reverse(shares.iter().copied().max());
    order.sort_by_key(|user| (heaviest(&user.gpu), user.task));
    let mut loads = vec![0u64; arrangement.gpu_clusters()];
    for user in &order {
        let with = |cluster: &usize| (loads[*cluster].saturating_add(user.gpu[*cluster]), *cluster);
        let Some(cluster) = (0..loads.len()).min_by_key(with) else { return };
        loads[cluster] = loads[cluster].saturating_add(user.gpu[cluster]);
        places[user.task].gpus = Some(cluster);
    }
    let share = |user: &User, places: &[Place]| places[user.task].gpus.map_or(0, |cluster| user.cpu[cluster]);
    order.sort_by_key(|user| (std::cmp::Reverse(share(user, places)), user.task));
    let mut loads = vec![0u64; arrangement.cpu_clusters()];
    for user in &order {
        let cluster = match places[user.task].gpus.map(|gpus| arrangement.owner(gpus)) {
            Some(Owner::One(cluster)) => cluster,
            Some(Owner::Shared(clusters)) => lightest(&loads, clusters),
            None => 0,
        };
        loads[cluster] = loads[cluster].saturating_add(share(user, places));
        places[user.task].cpus = cluster;
    }
}

/// The places of the other tasks, where GPU tasks take `loads` of the CPU clusters: `(task, share of a CPU)`.
pub fn cpu_tasks(tasks: &[(usize, u64)], loads: &mut [u64], places: &mut [Place]) {
    let mut order = tasks.to_vec();
    order.sort_by_key(|(task, share)| (std::cmp::Reverse(*share), *task));
    for (task, share) in order {
        let cluster = lightest(loads, 0..loads.len());
        loads[cluster] = loads[cluster].saturating_add(share);
        places[task].cpus = cluster;
    }
}

/// The first of the clusters with the least load; all are of equal size.
fn lightest(loads: &[u64], among: std::ops::Range<usize>) -> usize {
    let first = among.start;
    among.min_by_key(|cluster| (loads[*cluster], *cluster)).unwrap_or(first)
}
