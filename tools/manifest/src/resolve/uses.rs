//! What tasks say of their use of engines and tokens: `[tasks.NAME.uses]`.
//!
//! Not here: what follows from it (`admission`).

use std::ops::Range;

use fusee_abi::call::HandleValue;
use fusee_abi::image::{self, class, kind};
use fusee_sched::key::FAIR_LATENESS_OFFSET;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::Hold;
use toml::Spanned;

use super::{Entry, Fail, Resolver};
use crate::error::Reason;
use crate::schema;

/// What a task says of its use of an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeclaredHold {
    /// How often in a job; zero: only together with another one of its group, of which that is said.
    pub times: u32,
    /// For how long.
    pub hold: Hold,
    /// How long the engine works in all of them together.
    pub operations: Nanoseconds,
    /// The pool with whose token it holds it.
    pub within: Option<usize>,
}

impl DeclaredHold {
    /// What covers both, in the same job.
    #[must_use]
    pub fn or(self, other: DeclaredHold) -> DeclaredHold {
        let (cpu, operation) = (self.hold.cpu.max(other.hold.cpu), self.hold.operation.max(other.hold.operation));
        DeclaredHold {
            times: self.times.saturating_add(other.times),
            hold: Hold { cpu, operation },
            operations: Nanoseconds(self.operations.0.saturating_add(other.operations.0)),
            within: self.within.filter(|within| other.within == Some(*within)),
        }
    }
}

impl Resolver<'_> {
    /// What tasks say about how long they hold engines, and have tokens.
    pub(super) fn uses(&mut self) -> Result<(), Fail> {
        self.out.engine_holds = vec![None; self.out.engine_users.len()];
        for (index, (name, task)) in self.file.tasks.0.iter().enumerate() {
            for (handle, used) in &task.uses.0 {
                match self.object_of(index, handle.get_ref()) {
                    Some((kind::ENGINE, engine)) => self.engine_use(index, engine, handle, used)?,
                    Some((kind::POOL, pool)) => self.pool_use(index, pool, used)?,
                    Some((kind::ENDPOINT, endpoint)) => {
                        let times = self.times_of(index, used, "an endpoint")?;
                        self.out.calls.push((index, endpoint, times));
                    }
                    Some((kind::NOTIFICATION, notification)) => {
                        self.times_of(index, used, "a notification")?;
                        self.out.waits.push((index, notification));
                    }
                    _ => {
                        let (task, name) = (name.get_ref().clone(), handle.get_ref().clone());
                        let to = "an engine, a pool, an endpoint or a notification";
                        return Err((handle.span(), Reason::NotUsed { task, name, to }));
                    }
                }
            }
        }
        for (index, (_, task)) in self.file.tasks.0.iter().enumerate() {
            for (handle, used) in &task.uses.0 {
                if let (Some((_, engine)), Some(with)) = (self.object_of(index, handle.get_ref()), &used.with) {
                    self.used_with(index, engine, with)?;
                }
            }
        }
        Ok(())
    }

    /// Kind and number of what the handle `name` of `task` names.
    fn object_of(&self, task: usize, name: &str) -> Option<(u32, usize)> {
        let kinds = [kind::ENGINE, kind::POOL, kind::ENDPOINT, kind::NOTIFICATION];
        let is_used = |entry: &&Entry| entry.name == name && kinds.contains(&entry.kind);
        let entry = self.out.tasks[task].environment.iter().find(is_used)?;
        let slot = u32::from(HandleValue(entry.handle).slot());
        let handle = self.out.handles.iter().find(|one| one.task as usize == task && one.slot == slot)?;
        Some((handle.kind, handle.object as usize))
    }

    /// The number of `task` among the users of `engine`.
    fn user_of(&self, task: usize, engine: usize) -> Option<usize> {
        let is_it = |user: &image::EngineUser| user.task as usize == task && user.engine as usize == engine;
        self.out.engine_users.iter().position(is_it)
    }

    fn engine_use(
        &mut self,
        task: usize,
        engine: usize,
        handle: &Spanned<String>,
        used: &schema::Use,
    ) -> Result<(), Fail> {
        let name = &self.file.tasks.0[task].0;
        let of = || name.get_ref().clone();
        let within = match &used.within {
            // Who acquires it must have a token.
            None => self.out.engines[engine].1.pool_plus_one.checked_sub(1).map(|pool| pool as usize),
            Some(within) => match self.object_of(task, within.get_ref()) {
                Some((kind::POOL, pool)) => Some(pool),
                _ => {
                    let reason = Reason::NotUsed { task: of(), name: within.get_ref().clone(), to: "a pool" };
                    return Err((within.span(), reason));
                }
            },
        };
        let times = used.times.as_ref().map_or(1, |times| *times.get_ref());
        if let Some(place) = used.times.as_ref().map(Spanned::span) {
            let reservation = self.out.tasks[task].reservation.map(|one| self.out.reservations[one].class);
            match times {
                0 => return Err((place, Reason::Zero { what: "number of uses", of: of() })),
                // With one token as often as that.
                _ if reservation == Some(class::REAL_TIME) || within.is_some() => {}
                _ => {
                    let with = "a class other than real-time";
                    return Err((place, Reason::Excludes { what: "number of uses", of: of(), with }));
                }
            }
        }
        let hold = Hold { cpu: span(&used.cpu, name)?, operation: span(&used.operation, name)? };
        if hold == Hold::default() {
            return Err((handle.span(), Reason::Zero { what: "longest use", of: of() }));
        }
        let most = Nanoseconds(hold.operation.0.saturating_mul(times.into()));
        let operations = match &used.operations {
            None => most,
            Some(said) => {
                let sum = span(&used.operations, name)?;
                if sum < hold.operation || sum > most {
                    let (least, most) = (hold.operation.0, most.0);
                    return Err((said.span(), Reason::OperationsOutOfRange { of: of(), least, most }));
                }
                sum
            }
        };
        if let Some(user) = self.user_of(task, engine) {
            self.out.engine_holds[user] = Some(DeclaredHold { times, hold, operations, within });
        }
        Ok(())
    }

    /// How often a job uses an endpoint or a notification, of which nothing else can be said.
    fn times_of(&self, task: usize, used: &schema::Use, with: &'static str) -> Result<u32, Fail> {
        let of = || self.file.tasks.0[task].0.get_ref().clone();
        self.excludes(task, used, ("CPU time", used.cpu.as_ref().map(Spanned::span)), with)?;
        match &used.times {
            Some(times) if *times.get_ref() == 0 => {
                Err((times.span(), Reason::Zero { what: "number of uses", of: of() }))
            }
            times => Ok(times.as_ref().map_or(1, |times| *times.get_ref())),
        }
    }

    /// Refuses `first`, and the keys that are for engines only, in what `task` says of a use of something else: `with`.
    fn excludes(
        &self,
        task: usize,
        used: &schema::Use,
        first: (&'static str, Option<Range<usize>>),
        with: &'static str,
    ) -> Result<(), Fail> {
        let places = [
            first,
            ("operation", used.operation.as_ref().map(Spanned::span)),
            ("operations", used.operations.as_ref().map(Spanned::span)),
            ("within", used.within.as_ref().map(Spanned::span)),
            ("with", used.with.as_ref().map(Spanned::span)),
        ];
        let of = self.file.tasks.0[task].0.get_ref().clone();
        let found = places.into_iter().find_map(|(what, place)| Some((what, place?)));
        found.map_or(Ok(()), |(what, place)| Err((place, Reason::Excludes { what, of, with })))
    }

    fn pool_use(&mut self, task: usize, pool: usize, used: &schema::Use) -> Result<(), Fail> {
        let name = &self.file.tasks.0[task].0;
        let times = used.times.as_ref().map(Spanned::span);
        self.excludes(task, used, ("number of uses", times), "a pool, of which a job has a token once")?;
        self.out.sections.push((task, pool, span(&used.cpu, name)?));
        Ok(())
    }

    /// `task` acquires `engine` together with the one that its handle `with` names: that is held for as long, too.
    fn used_with(&mut self, task: usize, engine: usize, with: &Spanned<String>) -> Result<(), Fail> {
        let of = || self.out.tasks[task].name.clone();
        let Some((kind::ENGINE, other)) = self.object_of(task, with.get_ref()) else {
            let reason = Reason::NotUsed { task: of(), name: with.get_ref().clone(), to: "an engine" };
            return Err((with.span(), reason));
        };
        let group = |engine: usize| self.out.engines[engine].1.group_plus_one;
        if other == engine || group(other) == 0 || group(other) != group(engine) {
            let needs = "another engine of the same group";
            return Err((with.span(), Reason::Needs { what: "with", of: of(), needs }));
        }
        let (Some(one), Some(other)) = (self.user_of(task, engine), self.user_of(task, other)) else { return Ok(()) };
        let Some(held) = self.out.engine_holds[one] else { return Ok(()) };
        let none = DeclaredHold { times: 0, operations: Nanoseconds::ZERO, ..held };
        let own = self.out.engine_holds[other].unwrap_or(none);
        let DeclaredHold { times, operations, .. } = own;
        self.out.engine_holds[other] = Some(DeclaredHold { times, operations, ..own.or(held) });
        Ok(())
    }
}

/// A time of which sums cannot overflow; without one, none.
pub(super) fn span(time: &Option<Spanned<crate::Time>>, of: &Spanned<String>) -> Result<Nanoseconds, Fail> {
    match time {
        Some(time) if time.get_ref().0 > FAIR_LATENESS_OFFSET.0 => {
            let (execution, budget) = (time.get_ref().0, FAIR_LATENESS_OFFSET.0);
            Err((time.span(), Reason::ExecutionExceeds { task: of.get_ref().clone(), execution, budget }))
        }
        time => Ok(Nanoseconds(time.as_ref().map_or(0, |time| time.get_ref().0))),
    }
}
