//! Arrangements of CPUs and GPUs: clusters of both, the way of migration, and the tokens of each GPU.
//!
//! # Source
//! Elliott 2015, section 4.2 and 4.3.3: twelve organisations with one, two or three tokens for each GPU, or with as many as there are tasks.
//! That makes 57 on a platform of 12 CPUs and 8 GPUs. GPUs of different memory nodes cannot reach each other, so one cluster of all GPUs
//! migrates through memory only.

use std::fmt;

use crate::engines::Migration;

/// CPUs and GPUs of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Platform {
    /// Number of CPUs.
    pub cpus: u64,
    /// Number of GPUs.
    pub gpus: u64,
}

/// The platform of the text: two memory nodes with six CPUs and four GPUs each.
pub const PLATFORM: Platform = Platform { cpus: 12, gpus: 8 };

/// The speeds of the GPUs of a machine, eight at most: a kernel takes the longer, the slower its GPU is. Copies go by the bus, and take as long on each GPU.
///
/// # Source
/// Ours: Elliott 2015 has equal GPUs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Speeds(
    /// Percent of the speed by which kernels are given, of each GPU by its number.
    pub [u64; 8],
);

impl Speeds {
    /// GPUs as fast as kernels are given for.
    pub const EQUAL: Speeds = Speeds([100; 8]);

    /// The speed on which a job can count in a GPU cluster of `size` GPUs: that of its slowest, in percent and one at least. GPUs beyond the eighth, and
    /// clusters without any, have 100.
    #[must_use]
    pub fn of(&self, cluster: usize, size: u64) -> u64 {
        let gpus = self.0.iter().skip(cluster.saturating_mul(size as usize)).take(size as usize);
        gpus.copied().min().unwrap_or(100).max(1)
    }

    /// The time of a kernel of `span` on a GPU of `speed` percent, in the unit of `span`, rounded up. A result above `u64::MAX` saturates.
    #[must_use]
    pub fn time(span: u64, speed: u64) -> u64 {
        u64::try_from((u128::from(span) * 100).div_ceil(u128::from(speed.max(1)))).unwrap_or(u64::MAX)
    }
}

/// An arrangement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrangement {
    /// The machine.
    pub platform: Platform,
    /// CPUs of each CPU cluster.
    pub cpu_cluster: u64,
    /// GPUs of each GPU cluster.
    pub gpu_cluster: u64,
    /// The way of a task's state from GPU to GPU.
    pub migration: Migration,
    /// Tokens of each GPU; `None`: as many as there are tasks.
    pub tokens: Option<u64>,
    /// The speeds of the GPUs: a cluster has GPUs of consecutive numbers.
    pub speeds: Speeds,
}

/// The owner of a GPU cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner {
    /// One CPU cluster, by its number.
    One(usize),
    /// Several, by their numbers.
    Shared(std::ops::Range<usize>),
}

impl Arrangement {
    /// The 57 arrangements of the text, in the order of its tables.
    #[must_use]
    pub fn all() -> Vec<Arrangement> {
        let Platform { cpus, gpus } = PLATFORM;
        let ways = |gpu_cluster| match gpu_cluster {
            1 => vec![Migration::Never],
            2 | 4 => vec![Migration::System, Migration::Peer],
            _ => vec![Migration::System],
        };
        let mut all = Vec::new();
        for cpu_cluster in [1, cpus / 2, cpus] {
            for gpu_cluster in [1, 2, 4, gpus] {
                for migration in ways(gpu_cluster) {
                    let unlimited = (gpu_cluster == 1).then_some(None);
                    let tokens = [Some(1), Some(2), Some(3)].into_iter().chain(unlimited);
                    let speeds = Speeds::EQUAL;
                    let one = |tokens| Arrangement {
                        platform: PLATFORM,
                        cpu_cluster,
                        gpu_cluster,
                        migration,
                        tokens,
                        speeds,
                    };
                    all.extend(tokens.map(one));
                }
            }
        }
        all
    }

    /// The speed on which a job can count in a GPU cluster, percent.
    #[must_use]
    pub fn speed(&self, gpu_cluster: usize) -> u64 {
        self.speeds.of(gpu_cluster, self.gpu_cluster)
    }

    /// Number of CPU clusters.
    #[must_use]
    pub fn cpu_clusters(&self) -> usize {
        (self.platform.cpus / self.cpu_cluster) as usize
    }

    /// Number of GPU clusters.
    #[must_use]
    pub fn gpu_clusters(&self) -> usize {
        (self.platform.gpus / self.gpu_cluster) as usize
    }

    /// Whether each CPU is a cluster, and each GPU is.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.cpu_cluster == 1 && self.gpu_cluster == 1
    }

    /// Whether CPU clusters share GPU clusters.
    #[must_use]
    pub fn shares(&self) -> bool {
        self.cpu_clusters() > self.gpu_clusters() && !self.is_apart()
    }

    /// The CPU clusters whose tasks may use a GPU cluster. With a cluster for each CPU and each GPU, the CPUs without a GPU are the last.
    #[must_use]
    pub fn owner(&self, gpu_cluster: usize) -> Owner {
        let (cpus, gpus) = (self.cpu_clusters(), self.gpu_clusters());
        match () {
            () if self.is_apart() => Owner::One(gpu_cluster % cpus),
            () if cpus <= gpus => Owner::One(gpu_cluster * cpus / gpus),
            () => Owner::Shared(gpu_cluster * cpus / gpus..(gpu_cluster + 1) * cpus / gpus),
        }
    }
}

/// As in the text: clusters of CPUs and of GPUs (P: of one, C: of some, G: of all), and tokens.
impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Platform { cpus, gpus } = self.platform;
        let organisation = |size, all| {
            if size == 1 {
                "P"
            } else if size == all {
                "G"
            } else {
                "C"
            }
        };
        write!(f, "({},{}", organisation(self.cpu_cluster, cpus), organisation(self.gpu_cluster, gpus))?;
        if organisation(self.gpu_cluster, gpus) == "C" {
            write!(f, "{}", self.gpu_cluster)?;
        }
        f.write_str(if self.migration == Migration::Peer { "p2p," } else { "," })?;
        match self.tokens {
            Some(tokens) => write!(f, "{tokens})"),
            None => f.write_str("inf)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arrangement {
        Arrangement::all().into_iter().find(|one| one.to_string() == name).unwrap()
    }

    #[test]
    fn there_are_57_arrangements_with_names_of_their_own() {
        let mut names: Vec<String> = Arrangement::all().iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 57);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 57);
    }

    #[test]
    fn a_cluster_is_as_fast_as_its_slowest_gpu_and_kernels_are_rounded_up() {
        let speeds = Speeds([200, 200, 200, 200, 100, 100, 50, 300]);
        let of = |name: &str| {
            let one = Arrangement { speeds, ..named(name) };
            (0..one.gpu_clusters()).map(|cluster| one.speed(cluster)).collect::<Vec<_>>()
        };
        assert_eq!(of("(C,P,1)"), speeds.0);
        assert_eq!(of("(C,C2,1)"), [200, 200, 100, 50]);
        assert_eq!((of("(C,C4,1)"), of("(C,G,1)")), (vec![200, 50], vec![50]));
        assert_eq!([100, 200, 300].map(|speed| Speeds::time(1_001, speed)), [1_001, 501, 334]);
        assert_eq!(Speeds::time(u64::MAX, 50), u64::MAX);
    }

    #[test]
    fn gpu_clusters_belong_to_the_cpus_of_their_node() {
        assert_eq!(named("(C,P,inf)").owner(3), Owner::One(0));
        assert_eq!(named("(C,P,inf)").owner(4), Owner::One(1));
        assert_eq!(named("(G,C2p2p,1)").owner(3), Owner::One(0));
        assert_eq!(named("(P,P,2)").owner(7), Owner::One(7));
        assert_eq!(named("(P,C2,1)").owner(1), Owner::Shared(3..6));
        assert_eq!(named("(C,G,1)").owner(0), Owner::Shared(0..2));
        let shared: Vec<String> =
            Arrangement::all().into_iter().filter(Arrangement::shares).map(|one| one.to_string()).collect();
        // (P,C2), (P,C4) both ways, (P,G), (C,G), with three numbers of tokens.
        assert_eq!(shared.len(), 18);
        assert!(shared.iter().all(|name| name.starts_with("(P,") || name.starts_with("(C,G,")), "{shared:?}");
    }
}
