//! One cluster: the reservation that each CPU should run, and the CPUs whose links changed.
//!
//! A reservation is *linked* to the CPU where policy wants it and *scheduled* where it runs; the two
//! differ while a kick is on its way. This module decides links, nothing else.
//!
//! # Invariants
//!
//! 1. A reservation is absent, ready, or linked to exactly one CPU.
//! 2. No ready reservation has an earlier key than a linked one; no CPU is free while one is ready.
//! 3. A queued key never changes in place: it is removed, changed, inserted ([`Cluster::change_key`]).
//!
//! # Why one queue per cluster, not one per CPU
//!
//! The lateness bounds hold for a shared queue only.
//!
//! Not here: budgets (`account.rs`), runners of a reservation (`kernel/core`). Source: link-based scheduling after LITMUS^RT's
//! GSN-EDF; Block et al., RTCSA 2007.

use crate::cpu::{CpuId, CpuSet};
use crate::key::Key;
use crate::queue::Queue;

const ABSENT: u8 = 0;
const READY: u8 = 1;
const LINKED: u8 = 2;

#[derive(Clone, Copy, Debug)]
struct Link {
    key: Key,
    /// Id + 1; zero: the CPU is free.
    id_plus_one: u16,
}

/// The cluster. `N` bounds the ids, `CPUS` the CPUs of the whole system.
// In this order, the fields that every look needs are near the start.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Cluster<const N: usize, const CPUS: usize> {
    cpus: CpuSet,
    links: [Link; CPUS],
    ready: Queue<N>,
    /// `ABSENT`, `READY`, or `LINKED` + CPU.
    places: [u8; N],
}

impl<const N: usize, const CPUS: usize> Cluster<N, CPUS> {
    /// No CPUs, no reservations; all zero bytes.
    pub const EMPTY: Self = Self {
        cpus: CpuSet::EMPTY,
        links: [Link { key: Key::at(crate::time::Instant::ZERO), id_plus_one: 0 }; CPUS],
        ready: Queue::EMPTY,
        places: [ABSENT; N],
    };

    /// Names the cluster's CPUs. Only while it is empty.
    pub fn set_cpus(&mut self, cpus: CpuSet) {
        self.cpus = cpus;
    }

    /// The cluster's CPUs.
    #[must_use]
    #[inline]
    pub const fn cpus(&self) -> CpuSet {
        self.cpus
    }

    /// The reservation linked to `cpu`.
    #[must_use]
    #[inline]
    pub fn linked(&self, cpu: CpuId) -> Option<u16> {
        self.links[cpu.index() % CPUS].id_plus_one.checked_sub(1)
    }

    /// The CPU that `id` is linked to.
    #[must_use]
    #[inline]
    pub fn link_of(&self, id: u16) -> Option<CpuId> {
        self.place(id).checked_sub(LINKED).map(CpuId)
    }

    /// Whether `id` is ready or linked.
    #[must_use]
    #[inline]
    pub fn contains(&self, id: u16) -> bool {
        self.place(id) != ABSENT
    }

    /// The earliest reservation that is ready but not linked.
    #[must_use]
    #[inline]
    pub fn first_ready(&self) -> Option<u16> {
        self.ready.first().map(|entry| entry.1)
    }

    /// The key of the first ready reservation.
    #[must_use]
    #[inline]
    pub fn first_ready_key(&self) -> Option<Key> {
        self.ready.first().map(|entry| entry.0)
    }

    /// The number of CPUs that run nothing with an earlier key than `key`.
    #[must_use]
    pub fn free_behind(&self, key: Key) -> usize {
        let links = self.cpus.iter().map(|cpu| self.links[cpu.index() % CPUS]);
        links.filter(|link| link.id_plus_one == 0 || key < link.key).count()
    }

    /// Whether there is one CPU only.
    #[must_use]
    #[inline]
    pub fn has_one_cpu(&self) -> bool {
        self.only_cpu().is_some()
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpu_count(&self) -> usize {
        self.cpus.count() as usize
    }

    /// Adds `id`, which must be absent. Returns the CPU whose link changed, if one did.
    ///
    /// Where several CPUs are free the choice is free too: `preferred` is taken if it is one of them.
    pub fn insert(&mut self, id: u16, key: Key, preferred: Option<CpuId>) -> Option<CpuId> {
        debug_assert!(!self.contains(id));
        match self.victim(preferred) {
            Some((cpu, None)) => {
                self.link(cpu, id, key);
                Some(cpu)
            }
            Some((cpu, Some((latest, _)))) if key < latest => {
                self.displace(cpu, id, key);
                Some(cpu)
            }
            _ => {
                self.queue(id, key);
                None
            }
        }
    }

    /// Adds `id`, which must be absent, behind all links: as [`Cluster::insert`] does if no CPU is free and `key` is no earlier than any linked one.
    #[inline]
    pub fn queue(&mut self, id: u16, key: Key) {
        debug_assert!(!self.contains(id) && self.free_behind(key) == 0, "a reservation queues behind the linked ones");
        *self.place_mut(id) = READY;
        self.ready.push(id, key);
    }

    /// Whether [`Cluster::insert`] would link a reservation with this key to `cpu`.
    #[must_use]
    #[inline(always)]
    pub fn would_take(&self, cpu: CpuId, key: Key, preferred: Option<CpuId>) -> bool {
        if self.cpus == CpuSet::only(cpu) {
            // No choice, and no need to look at all CPUs.
            let link = &self.links[cpu.index() % CPUS];
            return link.id_plus_one == 0 || key < link.key;
        }
        self.would_take_of_several(cpu, key, preferred)
    }

    /// [`Cluster::would_take`] in a cluster of several CPUs.
    #[inline(never)]
    fn would_take_of_several(&self, cpu: CpuId, key: Key, preferred: Option<CpuId>) -> bool {
        match self.victim(preferred) {
            Some((victim, content)) => victim == cpu && content.is_none_or(|(latest, _)| key < latest),
            None => false,
        }
    }

    /// Adds `id`, which must be absent, as the link of `cpu`, which has none: as [`Cluster::displace`] does there.
    #[inline(always)]
    pub fn occupy(&mut self, cpu: CpuId, id: u16, key: Key) {
        debug_assert!(self.linked(cpu).is_none(), "a CPU without a link");
        self.link(cpu, id, key);
    }

    /// Adds `id`, which must be absent, in place of the link of `cpu`, if there is one: as [`Cluster::insert`] does if it
    /// [would](Cluster::would_take).
    #[inline(always)]
    pub fn displace(&mut self, cpu: CpuId, id: u16, key: Key) {
        let Link { key: latest, id_plus_one } = self.links[cpu.index() % CPUS];
        if let Some(displaced) = id_plus_one.checked_sub(1) {
            *self.place_mut(displaced) = READY;
            self.ready.push(displaced, latest);
        }
        self.link(cpu, id, key);
    }

    /// Takes `id` out. Returns the CPU whose link changed, if one did.
    pub fn remove(&mut self, id: u16) -> Option<CpuId> {
        let place = self.place(id);
        *self.place_mut(id) = ABSENT;
        match place {
            ABSENT => None,
            READY => {
                self.ready.remove(id);
                None
            }
            _ => {
                let cpu = CpuId(place - LINKED);
                match self.ready.pop() {
                    Some((key, next)) => self.link(cpu, next, key),
                    None => self.links[cpu.index() % CPUS].id_plus_one = 0,
                }
                Some(cpu)
            }
        }
    }

    /// Gives `id`, which must be ready or linked, another key. Returns the CPUs whose links changed: none while
    /// the same reservations stay in front, else one.
    pub fn change_key(&mut self, id: u16, key: Key) -> Option<CpuId> {
        match self.link_of(id) {
            Some(cpu) if self.ready.first().is_none_or(|(first, _)| key <= first) => {
                self.links[cpu.index() % CPUS].key = key;
                None
            }
            Some(cpu) => {
                // The first of those that were ready takes its place.
                if let Some((first, next)) = self.ready.pop() {
                    self.link(cpu, next, first);
                }
                *self.place_mut(id) = READY;
                self.ready.push(id, key);
                Some(cpu)
            }
            None => {
                self.remove(id);
                self.insert(id, key, None)
            }
        }
    }

    // As in `queue`.

    #[inline(always)]
    fn place(&self, id: u16) -> u8 {
        debug_assert!(usize::from(id) < N);
        self.places[usize::from(id) % N]
    }

    #[inline(always)]
    fn place_mut(&mut self, id: u16) -> &mut u8 {
        debug_assert!(usize::from(id) < N);
        &mut self.places[usize::from(id) % N]
    }

    fn link(&mut self, cpu: CpuId, id: u16, key: Key) {
        self.links[cpu.index() % CPUS] = Link { key, id_plus_one: id + 1 };
        *self.place_mut(id) = LINKED + cpu.0;
    }

    /// The cluster's CPU, if it has one only.
    #[inline(always)]
    fn only_cpu(&self) -> Option<CpuId> {
        self.cpus.lowest().filter(|cpu| self.cpus == CpuSet::only(*cpu))
    }

    /// The CPU a new reservation would get: a free one, else the one with the latest key and its link.
    fn victim(&self, preferred: Option<CpuId>) -> Option<(CpuId, Option<(Key, u16)>)> {
        if let Some(cpu) = preferred
            && self.cpus.contains(cpu)
            && self.linked(cpu).is_none()
        {
            return Some((cpu, None));
        }
        if let Some(cpu) = self.only_cpu() {
            let link = &self.links[cpu.index() % CPUS];
            return Some((cpu, link.id_plus_one.checked_sub(1).map(|id| (link.key, id))));
        }
        let mut latest: Option<(CpuId, Option<(Key, u16)>)> = None;
        for cpu in self.cpus.iter() {
            let link = self.links[cpu.index() % CPUS];
            let Some(id) = link.id_plus_one.checked_sub(1) else {
                return Some((cpu, None));
            };
            if latest.is_none_or(|(_, content)| content.is_none_or(|(key, _)| key < link.key)) {
                latest = Some((cpu, Some((link.key, id))));
            }
        }
        latest
    }

    /// Checks the invariants, of ids below `members`; for tests and self-checking builds.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self, members: usize) -> Result<(), &'static str> {
        for cpu in self.cpus.iter() {
            match self.linked(cpu) {
                Some(id) if self.place(id) != LINKED + cpu.0 => return Err("S1: link without a place"),
                Some(_) => {
                    let key = self.links[cpu.index() % CPUS].key;
                    if self.ready.first().is_some_and(|(first, _)| first < key) {
                        return Err("S2: a ready reservation is earlier than a linked one");
                    }
                }
                None if !self.ready.is_empty() => return Err("S3: a CPU is free while a reservation is ready"),
                None => {}
            }
        }
        for (id, place) in self.places.iter().take(members).enumerate() {
            let id = id as u16;
            let holds = match *place {
                ABSENT => !self.ready.contains(id),
                READY => self.ready.contains(id),
                place => self.linked(CpuId(place - LINKED)) == Some(id) && !self.ready.contains(id),
            };
            if !holds {
                return Err("S4: a place that is not true");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        /// The oracle sorts everything and takes the first m.
        #[test]
        fn the_m_earliest_reservations_are_linked(
            m in 1u8..5,
            steps in proptest::collection::vec((0u16..12, 0u64..30, any::<bool>(), 0u8..8), 0..60),
        ) {
            let mut cluster = Cluster::<12, 8>::EMPTY;
            cluster.set_cpus(CpuSet((1 << m) - 1));
            let mut all: Vec<(u64, u16)> = Vec::new();
            for (id, time, adds, preferred) in steps {
                // Distinct points, so that the oracle's choice is unique.
                let time = time * 16 + u64::from(id);
                let before: Vec<_> = (0..m).map(|cpu| cluster.linked(CpuId(cpu))).collect();
                let key = Key::at(Instant(time));
                let free_behind = (0..m).filter(|cpu| {
                    let linked = cluster.linked(CpuId(*cpu));
                    linked.is_none_or(|linked| all.iter().any(|entry| entry.1 == linked && entry.0 > time))
                });
                prop_assert_eq!(cluster.free_behind(key), free_behind.count());
                prop_assert_eq!((cluster.has_one_cpu(), cluster.cpu_count()), (m == 1, usize::from(m)));
                let would_take: Vec<bool> =
                    (0..m).map(|cpu| cluster.would_take(CpuId(cpu), key, Some(CpuId(preferred)))).collect();
                let inserts = adds && !cluster.contains(id);
                let changed = match (cluster.contains(id), adds) {
                    (false, false) => None,
                    (false, true) => cluster.insert(id, key, Some(CpuId(preferred))),
                    (true, false) => cluster.remove(id),
                    (true, true) => cluster.change_key(id, key),
                };
                all.retain(|entry| entry.1 != id);
                if adds {
                    all.push((time, id));
                }
                all.sort_unstable();
                let mut linked: Vec<u16> = (0..m).filter_map(|cpu| cluster.linked(CpuId(cpu))).collect();
                let mut expected: Vec<u16> = all.iter().take(usize::from(m)).map(|entry| entry.1).collect();
                linked.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(linked, expected);
                prop_assert_eq!(cluster.check(12), Ok(()));
                let ready = all.get(usize::from(m)).copied();
                prop_assert_eq!(cluster.first_ready(), ready.map(|entry| entry.1));
                prop_assert_eq!(cluster.first_ready_key(), ready.map(|entry| Key::at(Instant(entry.0))));
                if inserts {
                    let took: Vec<bool> = (0..m).map(|cpu| changed == Some(CpuId(cpu))).collect();
                    prop_assert_eq!(would_take, took);
                    // A free CPU that is preferred is taken.
                    let is_free = preferred < m && before[usize::from(preferred)].is_none();
                    prop_assert!(!is_free || changed == Some(CpuId(preferred)));
                }
                // Exactly the announced link changed.
                for cpu in 0..m {
                    let differs = cluster.linked(CpuId(cpu)) != before[usize::from(cpu)];
                    prop_assert_eq!(changed == Some(CpuId(cpu)), differs, "link of CPU {}", cpu);
                }
            }
        }
    }

    /// Two CPUs, which run 0 and 1 at 10 and 20, and 2 that is ready at 30.
    fn three() -> Cluster<12, 8> {
        let mut cluster = Cluster::EMPTY;
        cluster.set_cpus(CpuSet(3));
        for id in 0..3 {
            cluster.insert(id, Key::at(Instant(10 + 10 * u64::from(id))), None);
        }
        assert_eq!(cluster.check(12), Ok(()));
        cluster
    }

    #[test]
    fn each_invariant_that_does_not_hold_is_named() {
        let broken = |breaks: &dyn Fn(&mut Cluster<12, 8>)| {
            let mut cluster = three();
            breaks(&mut cluster);
            cluster.check(12).map_err(|what| &what[..2])
        };
        assert_eq!(broken(&|cluster| cluster.places[1] = READY), Err("S1"));
        assert_eq!(broken(&|cluster| cluster.places[1] = LINKED), Err("S1"));
        // The second CPU's link, at 20, against one at 30 that is ready: as late is not too late.
        assert_eq!(broken(&|cluster| cluster.links[1].key = Key::at(Instant(30))), Ok(()));
        assert_eq!(broken(&|cluster| cluster.links[1].key = Key::at(Instant(31))), Err("S2"));
        assert_eq!(broken(&|cluster| cluster.links[1].id_plus_one = 0), Err("S3"));
        assert_eq!(broken(&|cluster| cluster.places[3] = READY), Err("S4"));
        assert_eq!(broken(&|cluster| cluster.places[2] = ABSENT), Err("S4"));
        // On the path of 1, whose link is right, and which is queued as well.
        assert_eq!(broken(&|cluster| cluster.ready.push(1, Key::at(Instant(40)))), Err("S4"));
        assert_eq!(broken(&|cluster| cluster.places[3] = LINKED + 1), Err("S4"));
        // An index that is no member is not looked at.
        let mut cluster = three();
        cluster.places[3] = READY;
        assert_eq!(cluster.check(3), Ok(()));
    }

    #[test]
    fn an_equal_key_displaces_nothing() {
        for cpus in [CpuSet(1), CpuSet(8), CpuSet(3), CpuSet(12)] {
            let mut cluster = Cluster::<12, 8>::EMPTY;
            cluster.set_cpus(cpus);
            let key = Key::at(Instant(10));
            let count = cpus.count() as u16;
            let took: Vec<_> = (0..count).filter_map(|id| cluster.insert(id, key, None)).collect();
            assert_eq!(took, cpus.iter().collect::<Vec<_>>());
            assert!(cpus.iter().all(|cpu| !cluster.would_take(cpu, key, None)), "{cpus:?}");
            assert_eq!(cluster.insert(count, key, None), None);
            let earlier = Key::at(Instant(9));
            // Among equal ones the first is displaced.
            let victim = cpus.lowest();
            let would: Vec<_> = cpus.iter().filter(|cpu| cluster.would_take(*cpu, earlier, None)).collect();
            assert_eq!((would.first().copied(), would.len()), (victim, 1));
            assert_eq!(cluster.insert(count + 1, earlier, None), victim);
            assert_eq!(cluster.check(12), Ok(()));
        }
    }

    #[test]
    fn what_is_absent_is_not_removed() {
        let mut cluster = three();
        assert_eq!(cluster.remove(7), None);
        assert_eq!(
            (cluster.linked(CpuId(0)), cluster.linked(CpuId(1)), cluster.first_ready()),
            (Some(0), Some(1), Some(2))
        );
    }
}
