//! Waits for tokens of pools: the sections of others, in the rounds of each protocol.

use std::collections::HashMap;

use fusee_locking::pool;
use fusee_sched::time::Nanoseconds;

use super::{Measure, On, Pool, Protocol, Section, Study, Total, Unbounded, Wait, on_one_device, plus, section, times};

impl Study<'_> {
    /// The time that each user of `pool` has its token, and the time that it computes in that: phases 1 and 2, eq. 4.5.
    pub(super) fn sections(&self, pool: &Pool) -> Result<Vec<Wait>, Unbounded> {
        let one = |one: &Section| {
            let mut cpus = vec![(None, section(self.overheads, one.cpu)?)];
            let mut waits = Vec::new();
            for index in &pool.engines {
                let engine = &self.locks.engines[*index];
                let Some(user) = engine.users.iter().find(|user| user.task == one.task) else { continue };
                let blocked = self.engine(*index, user)?;
                waits.push((engine.alternative, blocked.span));
                let held = times(user.times.into(), engine.lent(user, self.overheads, false)?)?;
                cpus.push((engine.alternative, plus(held, blocked.cpu)?));
            }
            // The device with the longest holds need not be the one with the longest waits.
            let span = plus(self.locks.alone(pool, one, self.overheads)?, on_one_device(&waits)?)?;
            Ok(Wait { task: one.task, span, cpu: on_one_device(&cpus)? })
        };
        pool.sections.iter().map(one).collect()
    }

    /// The time that the request of a job of `task` for a token of the pool at `index`, which has these sections, is blocked: phase
    /// 3.
    ///
    /// - k-FMLP: eq. 2.31, with the longest sections of as many tasks (4.35, 4.38) in place of the longest so many times;
    ///   2.32 where the shortest queue is one of lengths.
    /// - R2DGLP: eq. 2.35 and 4.37 with the c of the cluster and the bound f on queues, which may be above `ceil(c / k)`;
    ///   4.35 as long as all tasks fit into the queues (the text: while there are no more than CPUs).
    /// - R2DGLP with a limit on the requests in all queues, of as many as CPUs or more: the bound of R2DGLP, for the reason in
    ///   [`pool`]; with fewer, as by priority. No bound is known for the k-FMLP with such a limit.
    /// - Either of these with advice: all requests that its queue has room for, since it is unknown which queue that is. With more users than
    ///   room the R2DGLP has its bound as without: a request joins a queue with room at any time, of as many places at most, and waits
    ///   elsewhere only while all are full, as a donor (the argument in [`pool`] names no queue).
    /// - By priority: as an engine, if there is one token, but with all jobs that have a place in its queue instead of one holder;
    ///   no bound is known for several tokens.
    /// - CK-OMLP: eq. 2.36, with the longest sections of as many tasks, of each cluster no more than it has CPUs (4.39 to 4.41;
    ///   4.41 prints the CPUs of one cluster where 2.36 has those of all that share).
    pub(super) fn token(&self, index: usize, task: usize, sections: &[Wait]) -> Result<Total, Unbounded> {
        let pool = &self.locks.pools[index];
        if !pool.protocol.is_by_arrival(pool.sections.len())
            && self.serves(pool.sections.iter().map(|section| section.task))
        {
            return Err(Unbounded::NoBound(On::Token(index)));
        }
        let others: Vec<Wait> = sections.iter().filter(|one| one.task != task).copied().collect();
        let mut total = Total::default();
        match pool.protocol {
            Protocol::Pool(rules) => {
                let (users, replicas) = (sections.len() as u64, rules.replicas);
                let room = rules.capacity().map_or(u64::MAX, u64::from);
                // With fewer places in all queues than tokens, some of these are always free.
                let held = room.min(replicas.into());
                match (rules.limit, rules.measure) {
                    (None, _) if rules.total.is_some() => return Err(Unbounded::NoBound(On::Token(index))),
                    (None, _) if pool.advised => total.add_longest(&others, usize::MAX, 1)?,
                    (Some(limit), _) if pool.advised && users <= room => {
                        total.add_longest(&others, usize::from(limit).saturating_sub(1), 1)?;
                    }
                    _ if users <= held => {}
                    (None, Measure::CriticalSections) => {
                        let spans: Vec<Nanoseconds> = others.iter().map(|other| other.span).collect();
                        total.add_longest(&others, usize::MAX, 1)?;
                        total.span = pool::k_fmlp_blocking_by_length(&spans, replicas);
                    }
                    (None, Measure::Requests) => {
                        total.add_longest(&others, pool::k_fmlp_requests(users, replicas) as usize, 1)?;
                    }
                    (Some(_), _) if rules.admits_by_priority() => {
                        if replicas != 1 {
                            return Err(Unbounded::NoBound(On::Token(index)));
                        }
                        // Jobs in the queue when it joins those outside, of any priority; from there on only jobs of a higher one.
                        total.add_longest(&others, usize::try_from(room).unwrap_or(usize::MAX), 1)?;
                        if sections.len() > 2 {
                            // The order is by the job's own priority, not by a lent one; then it runs on its own reservation.
                            let all = sections.iter().map(|one| Wait { cpu: Nanoseconds::ZERO, ..*one });
                            let passing = self.passing(On::Token(index), task, false, &all.collect::<Vec<_>>())?;
                            passing.into_iter().try_for_each(|(other, jobs)| total.add(other, jobs))?;
                        }
                    }
                    (Some(_), _) if users <= room => {
                        total.add_longest(&others, pool::k_fmlp_requests(users, replicas) as usize, 1)?;
                    }
                    (Some(limit), _) => {
                        // The requests ahead may be of one task, again and again: with each of its jobs.
                        let requests = pool::r2dglp_requests(limit.saturating_mul(replicas.into()), replicas);
                        let span = |other| others.iter().find(|one| one.task == other).map(|one| one.span);
                        total.add_distinct(&others, 1, requests, |other| self.jobs(task, other, span(other)?))?;
                    }
                }
            }
            Protocol::CkOmlp { replicas } => self.add_rounds(sections, task, replicas, &mut total)?,
        }
        Ok(total)
    }

    /// Adds how long a request of `task`, which is of this cluster, waits for one of `replicas` tokens by arrival, lending
    /// nothing. No more jobs of a cluster than it has CPUs have requests. All tokens are held meanwhile, so of those ahead one
    /// token sees no more than its share, and never rests.
    fn add_rounds(&self, sections: &[Wait], task: usize, replicas: u8, total: &mut Total) -> Result<(), Unbounded> {
        let mut ahead: Vec<Wait> = sections.iter().filter(|other| other.task != task).copied().collect();
        ahead.sort_by_key(|wait| std::cmp::Reverse(wait.span));
        let mut room = HashMap::from([(None, self.cluster.cpus() - 1)]);
        ahead.retain_mut(|wait| {
            wait.cpu = Nanoseconds::ZERO;
            let abroad = self.abroad(wait.task);
            let of = abroad.map(|abroad| abroad.cluster);
            let left = room.entry(of).or_insert_with(|| abroad.map_or(0, |abroad| abroad.cpus));
            let is_ahead = *left > 0;
            *left = left.saturating_sub(1);
            is_ahead
        });
        total.add_longest(&ahead, ahead.len() / usize::from(replicas.max(1)), 1)
    }

    /// The time that a job of `task` is blocked as a donor because of `pool`: as long as a request of another task of its cluster
    /// takes, its wait and its section (eq. 2.37, 4.42).
    pub(super) fn donation(&self, pool: &Pool, task: usize) -> Result<Total, Unbounded> {
        let mut longest = Total::default();
        let Protocol::CkOmlp { replicas } = pool.protocol else { return Ok(longest) };
        let sections = self.sections(pool)?;
        let mut cpu = Nanoseconds::ZERO;
        for donee in sections.iter().filter(|one| one.task != task && self.abroad(one.task).is_none()) {
            let mut total = Total::default();
            total.add(*donee, 1)?;
            self.add_rounds(&sections, donee.task, replicas, &mut total)?;
            cpu = cpu.max(total.cpu);
            if total.span > longest.span {
                longest = total;
            }
        }
        longest.cpu = cpu;
        Ok(longest)
    }
}
