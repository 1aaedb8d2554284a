//! Whether the system as a whole is accepted: admission, and what its test expects.

use std::ops::Range;

use fusee_sched::key::PolicyName;
use fusee_sched_analysis::report::Hard;
use fusee_sched_analysis::{Overheads, approximate};
use num_bigint::BigInt;
use toml::Spanned;

use super::reservations::may_release_early;
use super::{Fail, Resolver, Variant};
use crate::admission;
use crate::error::Reason;
use crate::schema::Admission;

impl Resolver<'_> {
    /// Refuses what is overloaded, and hard tasks that the analysis cannot prove.
    pub(super) fn admission(&mut self) -> Result<(), Fail> {
        for index in 0..self.out.clusters.len() {
            for (reservation, suspension) in self.suspended(index) {
                self.out.reservations[reservation].suspension = suspension;
            }
            for (place, reason) in self.complaints(index)? {
                match self.file.system.admission {
                    Admission::Refuse => return Err((place, reason)),
                    Admission::Warn => self.out.warnings.push(reason.to_string()),
                }
            }
        }
        Ok(())
    }

    /// For the reservations of the cluster with this index what the analysis adds to the execution of a job, which is how long it may be
    /// suspended and keep its key. Nothing, where there are no bounds: then only what tasks declare is.
    fn suspended(&self, index: usize) -> Vec<(usize, u64)> {
        let Ok(study) = admission::Study::new(&self.out, index) else { return Vec::new() };
        let Ok((_, blocked)) = study.analyse(&Overheads::default()) else { return Vec::new() };
        let each = study.members.iter().zip(blocked);
        each.filter_map(|(member, one)| Some((self.out.tasks[*member].reservation?, one.suspension().0))).collect()
    }

    /// What does not hold in the cluster with this index.
    pub(super) fn complaints(&self, index: usize) -> Result<Vec<Fail>, Fail> {
        let (name, record) = &self.out.clusters[index];
        let key = self.file.clusters.0.get(index).map_or(self.file.system.cpus.span(), |(key, _)| key.span());
        let study =
            admission::Study::new(&self.out, index).map_err(|why| (key.clone(), Reason::Nonsense(why.to_string())))?;
        let members = &study.members;
        let mut complaints: Vec<Fail> = Vec::new();
        // Without deadlines in the keys nothing keeps such a task from one budget after the other.
        let is_constant =
            [PolicyName::Rm, PolicyName::Dm, PolicyName::Fp].iter().any(|one| *one as u32 == record.policy);
        for member in members.iter().filter(|_| is_constant) {
            let (task, file) = &self.file.tasks.0[*member];
            if let Some(place) = may_release_early(file) {
                let (task, cluster) = (task.get_ref().clone(), name.clone());
                // No kernel boots such a system, whatever is admitted.
                return Err((place, Reason::ReleasesEarly { task, cluster }));
            }
        }
        let hard = |member: usize| self.file.tasks.0[member].1.hard.as_ref().filter(|hard| *hard.get_ref());
        let (report, blocked) = match study.analyse(&Overheads::default()) {
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
            let reservation = study.reservations[at];
            let (execution, budget) = (reservation.execution, reservation.budget);
            let (lends, drawn) = (blocked[at].lends.0, blocked[at].drawn.0);
            if !study.is_covered(at, &blocked[at]) {
                let name = task.get_ref().clone();
                let services = blocked[at].services.0;
                let reason = match drawn {
                    0 => Reason::LendsTooMuch { task: name, execution, services, lends, budget },
                    _ => Reason::DrawsTooMuch { task: name, execution, services, lends, drawn, budget },
                };
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
            } else if let Some(why) = study.unenforced[at].clone() {
                complaints.push((hard.span(), Reason::NotEnforced { task: name(), why }));
            }
        }
        Ok(complaints)
    }

    /// Where it is written what `reason` is about, if that is one task, engine or pool.
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

    pub(super) fn test(&self) -> Result<(), Fail> {
        let Some(test) = &self.file.test else { return Ok(()) };
        for name in test.faults.iter().chain(&test.no_misses).chain(test.taken.iter().flatten()).chain(&test.responses)
        {
            self.task(name)?;
        }
        let task = |name: &str| self.out.tasks.iter().position(|task| task.name == name);
        for policy in &test.policies {
            if PolicyName::from_name(policy.get_ref()).is_none() {
                let reason = Reason::NotOffered { what: "policy", name: policy.get_ref().clone() };
                return Err((policy.span(), reason));
            }
        }
        for clusters in &test.clusters {
            if Variant::parse_clusters(clusters.get_ref()).is_none() {
                return Err((clusters.span(), Reason::BadClusters(clusters.get_ref().clone())));
            }
        }
        for mark in &test.marks {
            crate::expect::Mark::parse(mark.get_ref(), task)
                .ok_or_else(|| (mark.span(), Reason::BadMark(mark.get_ref().clone())))?;
        }
        for exit in &test.exits {
            crate::expect::parse_exit(exit.get_ref(), task)
                .ok_or_else(|| (exit.span(), Reason::BadExit(exit.get_ref().clone())))?;
        }
        Ok(())
    }
}
