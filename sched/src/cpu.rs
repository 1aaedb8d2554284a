//! CPUs and sets of them.

/// A CPU of the kernel: 0 is the one that boots.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct CpuId(pub u8);

impl CpuId {
    /// The CPU's index.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of up to 32 CPUs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(transparent)]
pub struct CpuSet(pub u32);

impl CpuSet {
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet(0);

    /// Only `cpu`.
    #[must_use]
    #[inline]
    pub const fn only(cpu: CpuId) -> CpuSet {
        CpuSet(1 << cpu.0)
    }

    /// Whether `cpu` is in the set.
    #[must_use]
    #[inline]
    pub const fn contains(self, cpu: CpuId) -> bool {
        self.0 >> cpu.0 & 1 != 0
    }

    /// Adds `cpu`.
    #[inline]
    pub const fn insert(&mut self, cpu: CpuId) {
        self.0 |= 1 << cpu.0;
    }

    /// Takes `cpu` out.
    #[inline]
    pub const fn remove(&mut self, cpu: CpuId) {
        self.0 &= !(1 << cpu.0);
    }

    /// All CPUs of either set.
    #[must_use]
    #[inline]
    pub const fn union(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 | other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of CPUs in the set.
    #[must_use]
    #[inline]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The CPUs of the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = CpuId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let lowest = rest.trailing_zeros() as u8;
            rest &= rest - 1;
            Some(CpuId(lowest))
        })
    }

    /// The lowest CPU of the set.
    #[must_use]
    pub const fn lowest(self) -> Option<CpuId> {
        if self.0 == 0 { None } else { Some(CpuId(self.0.trailing_zeros() as u8)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    proptest! {
        /// Against a set that knows no bits.
        #[test]
        fn a_set_of_cpus_holds_what_was_put_into_it(
            steps in proptest::collection::vec((0u8..32, any::<bool>()), 0..80),
            others in proptest::collection::btree_set(0u8..32, 0..32),
        ) {
            let (mut set, mut oracle) = (CpuSet::EMPTY, BTreeSet::new());
            for (cpu, adds) in steps {
                if adds {
                    set.insert(CpuId(cpu));
                    oracle.insert(cpu);
                } else {
                    set.remove(CpuId(cpu));
                    oracle.remove(&cpu);
                }
                let cpus: Vec<u8> = set.iter().take(40).map(|cpu| cpu.0).collect();
                prop_assert_eq!(&cpus, &oracle.iter().copied().collect::<Vec<_>>());
                prop_assert!((0..32).all(|cpu| set.contains(CpuId(cpu)) == oracle.contains(&cpu)));
                prop_assert_eq!((set.count() as usize, set.is_empty()), (oracle.len(), oracle.is_empty()));
                prop_assert_eq!(set.lowest().map(|cpu| cpu.0), oracle.first().copied());
                prop_assert_eq!(CpuSet::only(CpuId(cpu)).iter().collect::<Vec<_>>(), [CpuId(cpu)]);
            }
            let other = others.iter().fold(CpuSet::EMPTY, |set, cpu| set.union(CpuSet::only(CpuId(*cpu))));
            prop_assert_eq!(other.count() as usize, others.len());
            let both: Vec<u8> = set.union(other).iter().map(|cpu| cpu.0).collect();
            prop_assert_eq!(both, oracle.union(&others).copied().collect::<Vec<_>>());
        }
    }
}
