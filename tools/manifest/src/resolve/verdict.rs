//! Whether the system as a whole is accepted: admission, and the expectations of its test.

use std::ops::Range;

use fusee_sched::key::PolicyName;
use fusee_sched_analysis::report::Hard;
use fusee_sched_analysis::{Nonsense, Overheads, approximate};
use num_bigint::BigInt;
use toml::Spanned;

use super::reservations::may_release_early;
use super::{
    Fail::{self, At},
    Of, Resolved, Resolver, Variant, unknown_policy,
};
use crate::admission::{self, Analysis, Study};
use crate::error::Reason;
use crate::quantity::Time;
use crate::read::Mistake;
use crate::schema::Admission;

/// A cluster, and the result of its analysis.
struct Look {
    study: Study,
    found: Analysis,
}

impl Look {
    fn new(system: &Resolved, index: usize) -> Result<Look, Nonsense> {
        let study = Study::new(system, index)?;
        let found = study.analyse(&Overheads::default());
        Ok(Look { study, found })
    }
}

impl Resolver<'_> {
    /// Refuses overloaded clusters, and hard tasks that the analysis cannot prove.
    pub(super) fn admission(&mut self) {
        let mut looks = Vec::new();
        for index in 0..self.out.clusters.len() {
            let look = Look::new(&self.out, index);
            if let Ok(Look { study, found: Ok((_, blocked)) }) = &look {
                // The time that the analysis adds to the execution of a job is the time for which it may be suspended and keep its
                // key.
                for (member, one) in study.members.iter().zip(blocked) {
                    if let Some(reservation) = self.out.tasks[*member].reservation {
                        self.out.reservations[reservation].suspension = one.suspension().0;
                    }
                }
            }
            let name = &self.out.clusters[index].0;
            let doubt = look.as_ref().ok().and_then(|look| look.study.doubt(name, &look.found));
            self.out.doubts.push(doubt);
            looks.push(look);
        }
        // Doubts on a cluster are doubts on objects that others share with it.
        if self.out.doubts.iter().any(Option::is_some) {
            looks = (0..self.out.clusters.len()).map(|index| Look::new(&self.out, index)).collect();
        }
        for (index, look) in looks.into_iter().enumerate() {
            let found = self.complaints(index, look);
            let complaints = self.keep(Of::Nothing, found).unwrap_or_default();
            match self.file.system.admission {
                // Where there is no bound, or a budget does not do, it follows that nothing is proved.
                Admission::Refuse => {
                    let first = complaints.iter().map(|(_, reason)| depth(reason)).min();
                    self.mistakes.extend(complaints.into_iter().filter(|(_, reason)| Some(depth(reason)) == first));
                }
                Admission::Warn => self.out.warnings.extend(complaints.iter().map(|(_, reason)| reason.to_string())),
            }
        }
        // Bounds of graphs follow from bounds of tasks.
        if self.mistakes.is_empty() {
            let late: Vec<Mistake> = self.late_graphs().into_iter().chain(self.late_frames()).collect();
            match self.file.system.admission {
                Admission::Refuse => self.mistakes.extend(late),
                Admission::Warn => self.out.warnings.extend(late.iter().map(|(_, reason)| reason.to_string())),
            }
        }
    }

    /// Graphs whose `latency` is not proved.
    fn late_graphs(&self) -> Vec<Mistake> {
        let mut complaints = Vec::new();
        if self.out.graphs.iter().all(|graph| graph.latency.is_none()) {
            return complaints;
        }
        for (graph, found) in self.out.graphs.iter().zip(admission::latencies(&self.out, &Overheads::default())) {
            let Some(latency) = graph.latency else { continue };
            let name = graph.name.clone();
            let reason = match (&found.longest, found.why_not.or(found.unenforced)) {
                (Some(longest), _) if longest.latency > latency.0 => {
                    let path = self.out.path(graph, longest);
                    Reason::TooLate { graph: name, path, bound: Time(longest.latency), latency }
                }
                (_, Some(why)) => Reason::LatencyNotProved { graph: name, why },
                _ => continue,
            };
            complaints.push((graph.place.clone(), reason));
        }
        complaints
    }

    /// Buses that are overloaded, and frames that may be late.
    fn late_frames(&self) -> Vec<Mistake> {
        let mut complaints = Vec::new();
        for (bus, found) in self.out.buses.iter().zip(admission::buses(&self.out, &Overheads::default())) {
            if found.is_overloaded() {
                let per_mille = (&found.utilisation * BigInt::from(1_000)).ceil().to_integer();
                let per_mille = u64::try_from(per_mille).unwrap_or(u64::MAX);
                complaints.push((bus.place.clone(), Reason::BusOverload { bus: bus.name.clone(), per_mille }));
                continue;
            }
            for (one, found) in bus.frames.iter().zip(&found.frames).filter(|(_, found)| !found.is_proved()) {
                let frame = one.name.clone();
                let reason = match (&found.response, &found.unenforced) {
                    (Ok(response), _) if !response.is_met => {
                        let (bound, deadline) = (Time(response.longest.0), Time(one.frame.deadline.0));
                        Reason::FrameTooLate { frame, bound, deadline }
                    }
                    (Err(why), _) | (Ok(_), Some(why)) => Reason::FrameNotProved { frame, why: why.clone() },
                    (Ok(_), None) => continue,
                };
                complaints.push((one.place.clone(), reason));
            }
        }
        complaints
    }

    /// The conditions that do not hold in the cluster with this index.
    fn complaints(&self, index: usize, look: Result<Look, Nonsense>) -> Result<Vec<Mistake>, Fail> {
        let (name, record) = &self.out.clusters[index];
        let key = self.file.clusters.0.get(index).map_or(self.file.system.cpus.span(), |(key, _)| key.span());
        let Look { study, found } = look.map_err(|why| {
            let why = why.to_string();
            At(key.clone(), Reason::Unbounded { cluster: name.clone(), why })
        })?;
        let members = &study.members;
        let mut complaints: Vec<Mistake> = Vec::new();
        // Without deadlines in the keys nothing keeps such a task from one budget after the other.
        let is_constant =
            [PolicyName::Rm, PolicyName::Dm, PolicyName::Fp].iter().any(|one| *one as u32 == record.policy);
        for member in members.iter().filter(|_| is_constant) {
            let (task, file) = &self.file.tasks.0[*member];
            if let Some(place) = may_release_early(file) {
                let (task, cluster) = (task.get_ref().clone(), name.clone());
                // No kernel boots such a system, under any `admission`.
                return Err(At(place, Reason::ReleasesEarly { task, cluster }));
            }
        }
        let hard = |member: usize| self.file.tasks.0[member].1.hard.as_ref().filter(|hard| *hard.get_ref());
        let (report, blocked) = match found {
            Ok(found) => found,
            Err(why) => {
                let reason = study.unbounded(name, &why);
                complaints.push((self.place_of(&reason).unwrap_or(key), reason));
                return Ok(complaints);
            }
        };
        for reason in study.too_long(&report, &blocked) {
            complaints.push((self.place_of(&reason).unwrap_or(key.clone()), reason));
        }
        if report.bounded == Some(false) && complaints.is_empty() {
            let cpus = record.cpus.count_ones();
            let utilisation = (&report.utilisation * BigInt::from(1_000)).ceil().to_integer();
            let per_mille = u64::try_from(utilisation).unwrap_or(u64::MAX);
            let waiting = study.longest_wait(&blocked);
            complaints.push((key, Reason::Overload { cluster: name.clone(), per_mille, cpus, waiting }));
        }
        for (at, (member, verdict)) in members.iter().zip(&report.tasks).enumerate() {
            let (task, _) = &self.file.tasks.0[*member];
            if let Some(reason) = study.too_small(at, &blocked) {
                complaints.push((task.span(), reason));
            }
            let Some(hard) = hard(*member) else { continue };
            let name = || task.get_ref().clone();
            if let Some(why) = study.uncounted[at].first().cloned() {
                complaints.push((hard.span(), Reason::NotCounted { task: name(), why }));
                continue;
            }
            if let Hard::NotProved(why) = verdict.hard {
                let task = name();
                let bound = verdict.bound.as_ref();
                let mostly = bound.map(|bound| study.term(bound.dominating, &blocked[at]));
                let late_by = bound.map(|bound| approximate(&bound.lateness) / 1e6);
                let late = mostly.zip(late_by).map(|(mostly, by)| format!("{by:.3} ms late, mostly {mostly}"));
                complaints.push((hard.span(), Reason::NotProved { task, why: why.words(), late }));
            } else if let Some((queued, backlog)) = study.dropped(at, &report) {
                complaints.push((hard.span(), Reason::Drops { task: name(), queued, backlog }));
            } else if let Some(why) = study.not_enforced(at, &report).next() {
                complaints.push((hard.span(), Reason::NotEnforced { task: name(), why }));
            }
        }
        Ok(complaints)
    }

    /// The place of the object of `reason`, if that is one task, engine or pool.
    pub(super) fn place_of(&self, reason: &Reason) -> Option<Range<usize>> {
        let file = self.file;
        let name = match reason {
            Reason::Overcommitted { engine, .. } => {
                file.engines.0.iter().map(|one| &one.0).find(|name| name.get_ref() == engine)
            }
            Reason::TooFewTokens { pool, .. } => {
                file.pools.0.iter().map(|one| &one.0).find(|name| name.get_ref() == pool)
            }
            Reason::WaitsTooLong { task, .. } => {
                file.tasks.0.iter().map(|one| &one.0).find(|name| name.get_ref() == task)
            }
            _ => None,
        };
        name.map(Spanned::span)
    }

    pub(super) fn test(&mut self) {
        let Some(test) = &self.file.test else { return };
        let names = test.faults.iter().chain(&test.no_misses).chain(test.taken.iter().flatten()).chain(&test.responses);
        for name in names {
            let task = self.task(name);
            self.keep(Of::Nothing, task);
        }
        let task = |name: &str| self.file.tasks.0.iter().position(|(task, _)| task.get_ref() == name);
        let check = |text: &Spanned<String>, is_good: bool, reason: fn(String) -> Reason| {
            if is_good { Ok(()) } else { Err(At(text.span(), reason(text.get_ref().clone()))) }
        };
        let is_known = |policy: &Spanned<String>| PolicyName::from_name(policy.get_ref()).ok_or(unknown_policy(policy));
        let is_mark = |mark: &str| crate::expect::Mark::parse(mark, task).is_some();
        let is_exit = |exit: &str| crate::expect::parse_exit(exit, task).is_some();
        let is_list = |sizes: &str| Variant::parse_clusters(sizes).is_some();
        let policies = test.policies.iter().map(|one| is_known(one).map(drop));
        let clusters = test.clusters.iter().map(|one| check(one, is_list(one.get_ref()), Reason::BadClusters));
        let marks = test.marks.iter().map(|one| check(one, is_mark(one.get_ref()), Reason::BadMark));
        let exits = test.exits.iter().map(|one| check(one, is_exit(one.get_ref()), Reason::BadExit));
        let turns = test.turns.iter().map(|one| match crate::expect::turns_of(*one.get_ref()) {
            Some(_) => Ok(()),
            None => Err(At(one.span(), Reason::BadTurns(*one.get_ref()))),
        });
        let results: Vec<_> = policies.chain(clusters).chain(marks).chain(exits).chain(turns).collect();
        for result in results {
            self.keep(Of::Nothing, result);
        }
    }
}

/// The order of causes: complaints of a lower depth come first, and the others follow from them.
fn depth(reason: &Reason) -> u32 {
    match reason {
        Reason::NotCounted { .. } | Reason::NotProved { .. } | Reason::NotEnforced { .. } | Reason::Drops { .. } => 2,
        Reason::LendsTooMuch { .. } | Reason::DrawsTooMuch { .. } => 1,
        _ => 0,
    }
}
