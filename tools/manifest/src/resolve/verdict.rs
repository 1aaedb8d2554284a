//! Whether the system as a whole is accepted: admission, and what its test expects.

use std::ops::Range;

use fusee_sched::key::PolicyName;
use fusee_sched_analysis::report::Hard;
use fusee_sched_analysis::{Overheads, approximate};
use num_bigint::BigInt;
use toml::Spanned;

use super::{Fail, Resolver, Variant};
use crate::admission;
use crate::error::Reason;
use crate::schema::Admission;

impl Resolver<'_> {
    /// Refuses what is overloaded, and hard tasks that the analysis cannot prove.
    pub(super) fn admission(&mut self) -> Result<(), Fail> {
        for index in 0..self.out.clusters.len() {
            for (place, reason) in self.complaints(index)? {
                match self.file.system.admission {
                    Admission::Refuse => return Err((place, reason)),
                    Admission::Warn => self.out.warnings.push(reason.to_string()),
                }
            }
        }
        Ok(())
    }

    /// What does not hold in the cluster with this index.
    pub(super) fn complaints(&self, index: usize) -> Result<Vec<Fail>, Fail> {
        let (name, record) = &self.out.clusters[index];
        let key = self.file.clusters.0.get(index).map_or(self.file.system.cpus.span(), |(key, _)| key.span());
        let study =
            admission::Study::new(&self.out, index).map_err(|why| (key.clone(), Reason::Nonsense(why.to_string())))?;
        let members = &study.members;
        let hard = |member: usize| self.file.tasks.0[member].1.hard.as_ref().filter(|hard| *hard.get_ref());
        let mut complaints: Vec<Fail> = Vec::new();
        let (report, blocked) = match study.analyse(&Overheads::default()) {
            Ok(found) => found,
            Err(why) => {
                let reason = study.unbounded(name, &why);
                complaints.push((self.place_of(&reason).unwrap_or(key), reason));
                return Ok(complaints);
            }
        };
        if report.bounded == Some(false) {
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
                let reason = match drawn {
                    0 => Reason::LendsTooMuch { task: name, execution, lends, budget },
                    _ => Reason::DrawsTooMuch { task: name, execution, lends, drawn, budget },
                };
                complaints.push((task.span(), reason));
            }
            let Hard::NotProved(why) = verdict.hard else { continue };
            if let Some(hard) = hard(*member) {
                let task = task.get_ref().clone();
                let bound = verdict.bound.as_ref();
                let mostly = bound.map(|bound| study.term(bound.dominating, &blocked[at]));
                let late_by = bound.map(|bound| approximate(&bound.lateness) / 1e6);
                let late = mostly.zip(late_by).map(|(mostly, by)| format!("{by:.3} ms late, mostly {mostly}"));
                complaints.push((hard.span(), Reason::NotProved { task, why: why.words(), late }));
            }
        }
        if let Some(undeclared) = study.undeclared.first() {
            let first = members.iter().find_map(|member| Some((*member, hard(*member)?)));
            complaints.extend(first.map(|(member, hard)| {
                let (task, why) = (self.out.tasks[member].name.clone(), undeclared.why.clone());
                (hard.span(), Reason::Undeclared { task, why })
            }));
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
