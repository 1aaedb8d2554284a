//! Places of tasks: GPU tasks on GPU clusters, then on CPU clusters, then all other tasks; each time the heaviest first, where there is most room.
//!
//! # Source
//! Elliott 2015, section 4.3.3, eq. 4.1 and 4.52: three-phase worst fit.

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

/// The places of the GPU tasks, by their number among all tasks: `(task, share of a GPU, share of a CPU)`.
pub fn gpu_tasks(tasks: &[(usize, u64, u64)], arrangement: &Arrangement, places: &mut [Place]) {
    let mut order = tasks.to_vec();
    order.sort_by_key(|(task, gpu, _)| (std::cmp::Reverse(*gpu), *task));
    let mut loads = vec![0; arrangement.gpu_clusters()];
    for (task, gpu, _) in &order {
        let cluster = lightest(&loads, 0..loads.len());
        loads[cluster] += gpu;
        places[*task].gpus = Some(cluster);
    }
    order.sort_by_key(|(task, _, cpu)| (std::cmp::Reverse(*cpu), *task));
    let mut loads = vec![0; arrangement.cpu_clusters()];
    for (task, _, cpu) in &order {
        let cluster = match places[*task].gpus.map(|gpus| arrangement.owner(gpus)) {
            Some(Owner::One(cluster)) => cluster,
            Some(Owner::Shared(clusters)) => lightest(&loads, clusters),
            None => 0,
        };
        loads[cluster] += cpu;
        places[*task].cpus = cluster;
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
