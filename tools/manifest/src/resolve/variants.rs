//! Variants of a system: another board, policy or clusters than the manifest's.

use std::path::PathBuf;

use fusee_sched::key::PolicyName;
use toml::Spanned;

use crate::schema::{self, Named};

/// Changes the policy and the clusters of the file to those of `--policy` and `--clusters`.
pub(crate) fn vary(file: &mut schema::File, variant: &Variant) {
    file.measures = variant.measures;
    let place = file.system.cpus.span();
    if let Some(board) = &variant.board {
        if board != file.system.board.get_ref() {
            // Its addresses are those of the manifest's board.
            file.board.is_elsewhere = true;
        }
        file.system.board = Spanned::new(file.system.board.span(), board.clone());
    }
    if variant.policy.is_some() || variant.clusters.is_some() {
        file.system.variant = format!(".{variant}");
    }
    let spanned = |text: &str| Spanned::new(place.clone(), text.to_owned());
    if let Some(sizes) = &variant.clusters {
        let total = sizes.iter().sum();
        file.system.cpus = Spanned::new(place.clone(), total);
        let mut next = 0;
        file.clusters = Named::default();
        for (index, size) in sizes.iter().enumerate() {
            let cpus = (next..next + size).map(|cpu| Spanned::new(place.clone(), cpu)).collect();
            next += size;
            file.clusters.0.push((spanned(&format!("c{index}")), schema::Cluster { cpus, policy: None }));
        }
        let share = |task: &schema::Task| match (&task.wcet, &task.budget, &task.period) {
            (Some(time), _, Some(period)) | (None, Some(time), Some(period)) if task.class.is_none() => {
                (time.get_ref().0, period.get_ref().0.max(1))
            }
            _ => (0, 1),
        };
        let shares: Vec<_> = file.tasks.0.iter().map(|(_, task)| share(task)).collect();
        for ((_, task), cluster) in file.tasks.0.iter_mut().zip(worst_fit(&shares, sizes)) {
            task.cluster = Some(spanned(&format!("c{cluster}")));
        }
        for (_, interrupt) in &mut file.interrupts.0 {
            interrupt.cluster = Some(spanned("c0"));
            interrupt.cpu = None;
        }
    }
    if let Some(policy) = variant.policy {
        file.system.policy = Some(spanned(policy.name()));
        for (_, cluster) in &mut file.clusters.0 {
            cluster.policy = None;
        }
    }
}

/// Gives each task, by (time, period), a cluster: worst fit, by decreasing utilisation. Tasks without a time go to the first.
fn worst_fit(shares: &[(u64, u64)], sizes: &[u32]) -> Vec<usize> {
    let parts = |(time, period): (u64, u64)| u128::from(time) * 1_000_000_000 / u128::from(period);
    let mut left: Vec<i128> = sizes.iter().map(|size| i128::from(*size) * 1_000_000_000).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|task| std::cmp::Reverse(parts(shares[*task])));
    let mut clusters = vec![0; shares.len()];
    for task in order {
        let roomiest = (0..left.len()).max_by_key(|cluster| (left[*cluster], std::cmp::Reverse(*cluster))).unwrap_or(0);
        let part = parts(shares[task]) as i128;
        if part > 0 {
            clusters[task] = roomiest;
            left[roomiest] -= part;
        }
    }
    clusters
}

/// The difference of a system from its manifest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Variant {
    /// The policy of all clusters.
    pub policy: Option<PolicyName>,
    /// Numbers of CPUs of the clusters `c0`, `c1` and so on, which replace those of the manifest. Tasks are spread over them, worst
    /// fit, by decreasing utilisation; tasks without a utilisation go to the first.
    pub clusters: Option<Vec<u32>>,
    /// The board, in place of the manifest's.
    pub board: Option<String>,
    /// Times of kernels are measured, which takes none of them from a file.
    pub measures: bool,
    /// The folder of the files beside the manifest, if it is not that of its path.
    pub folder: Option<PathBuf>,
}

impl std::fmt::Display for Variant {
    /// `FL.2-1`: the addition to the system's name; nothing if nothing is varied.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let clusters = self.clusters.as_ref();
        let sizes = clusters.map(|sizes| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("-"));
        let parts: Vec<String> = self.policy.map(|policy| policy.name().to_owned()).into_iter().chain(sizes).collect();
        f.write_str(&parts.join("."))
    }
}

impl Variant {
    /// Reads sizes of clusters: `2,1`. `None` if it is no such list.
    #[must_use]
    pub fn parse_clusters(text: &str) -> Option<Vec<u32>> {
        let sizes = text.split(',').map(|size| size.trim().parse().ok().filter(|size| (1..=64).contains(size)));
        sizes.collect()
    }
}
