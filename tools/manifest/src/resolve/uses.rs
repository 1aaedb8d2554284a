//! Declarations of tasks on their use of engines and tokens: `[tasks.NAME.uses]`.
//!
//! Not here: the conclusions (`admission`).

use std::ops::Range;

use fusee_abi::call::rights;
use fusee_abi::image::{self, class, kind};
use fusee_accel_contract::timing::EXECUTION_SETUP;
use fusee_sched::key::FAIR_LATENESS_OFFSET;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::Hold;
use toml::Spanned;

use super::{
    Entry,
    Fail::{self, At},
    Of, Resolver,
};
use crate::error::Reason;
use crate::quantity::{Launched, Operation, Time};
use crate::schema;

/// The declared use of an engine by a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeclaredHold {
    /// The number of holds in a job, or in a service of a server; zero: only together with another engine of its group, which has
    /// the number.
    pub times: u32,
    /// For how long.
    pub hold: Hold,
    /// The time that the engine works in all of them together.
    pub operations: Nanoseconds,
    /// The number of commands in all of them together.
    pub commands: u64,
    /// Whether the task hears of their ends before it releases the engine.
    pub awaits: bool,
    /// The pool whose token the task has in each of these holds.
    pub within: Option<usize>,
    /// The pools whose tokens the task has in some of these holds, a bit each.
    pub tokens: u32,
}

impl DeclaredHold {
    /// The declaration that covers both, in one job.
    #[must_use]
    pub fn or(self, other: DeclaredHold) -> DeclaredHold {
        let (cpu, operation) = (self.hold.cpu.max(other.hold.cpu), self.hold.operation.max(other.hold.operation));
        DeclaredHold {
            times: self.times.saturating_add(other.times),
            hold: Hold { cpu, operation, commands: self.hold.commands.max(other.hold.commands) },
            operations: Nanoseconds(self.operations.0.saturating_add(other.operations.0)),
            commands: self.commands.saturating_add(other.commands),
            awaits: self.awaits && other.awaits,
            within: self.within.filter(|within| other.within == Some(*within)),
            tokens: self.tokens | other.tokens,
        }
    }
}

impl Resolver<'_> {
    /// Reads the declared times for which tasks hold engines, and have tokens.
    pub(super) fn uses(&mut self) {
        self.out.engine_holds = vec![None; self.out.engine_users.len()];
        for (index, (_, task)) in self.file.tasks.0.iter().enumerate() {
            for (handle, used) in &task.uses.0 {
                let result = self.used(index, handle, used);
                self.keep(Of::Uses(index), result);
            }
        }
        for (index, (_, task)) in self.file.tasks.0.iter().enumerate() {
            for (handle, used) in &task.uses.0 {
                if let (Some((kind::ENGINE, engine)), Some(with)) =
                    (self.object_of(index, handle.get_ref()), &used.with)
                {
                    let result = self.used_with(index, engine, with);
                    self.keep(Of::Uses(index), result);
                }
            }
        }
    }

    fn used(&mut self, task: usize, handle: &Spanned<String>, used: &schema::Use) -> Result<(), Fail> {
        match self.object_of(task, handle.get_ref()) {
            Some((kind::ENGINE, engine)) => return self.engine_use(task, engine, handle, used),
            Some((kind::POOL, pool)) => return self.pool_use(task, pool, used),
            Some((kind::ENDPOINT, endpoint)) => {
                let times = self.times_of(task, used, "an endpoint")?;
                self.out.calls.push((task, endpoint, times));
            }
            Some((kind::NOTIFICATION, notification)) => {
                self.times_of(task, used, "a notification")?;
                self.out.waits.push((task, notification));
            }
            _ => return Err(self.not_used(task, handle, "an engine, a pool, an endpoint or a notification")),
        }
        Ok(())
    }

    /// `task` has no handle `name` to one of these, unless that may be one that is missing because of a mistake.
    fn not_used(&self, task: usize, name: &Spanned<String>, to: &'static str) -> Fail {
        let (of, text) = (self.out.tasks[task].name.clone(), name.get_ref().clone());
        let reason = Reason::NotUsed { task: of, name: text, to };
        self.sound(Of::Handles(task)).err().unwrap_or(At(name.span(), reason))
    }

    /// Kind and number of the object that the handle `name` of `task` names.
    pub(super) fn object_of(&self, task: usize, name: &str) -> Option<(u32, usize)> {
        let kinds = [kind::ENGINE, kind::POOL, kind::ENDPOINT, kind::NOTIFICATION];
        let is_used = |entry: &&Entry| entry.name == name && kinds.contains(&entry.kind);
        let entry = self.out.tasks[task].environment.iter().find(is_used)?;
        let handle = self.out.handle(task, entry.handle)?;
        Some((handle.kind, handle.object as usize))
    }

    /// Whether `task` receives requests.
    fn serves(&self, task: usize) -> bool {
        let receives = |one: &image::Handle| one.kind == kind::ENDPOINT && one.rights & rights::RECEIVE != 0;
        self.out.handles.iter().any(|one| one.task as usize == task && receives(one))
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
            // A task that acquires the engine must have a token.
            None => self.out.engines[engine].1.pool_plus_one.checked_sub(1).map(|pool| pool as usize),
            Some(within) => match self.object_of(task, within.get_ref()) {
                Some((kind::POOL, pool)) => Some(pool),
                _ => return Err(self.not_used(task, within, "a pool")),
            },
        };
        let times = used.times.as_ref().map_or(1, |times| *times.get_ref());
        if let Some(place) = used.times.as_ref().map(Spanned::span) {
            let reservation = self.out.tasks[task].reservation.map(|one| self.out.reservations[one].class);
            match times {
                0 => return Err(At(place, Reason::Zero { what: "number of uses", of: of() })),
                // With one token as often as that.
                _ if reservation == Some(class::REAL_TIME) || within.is_some() || self.serves(task) => {}
                _ => {
                    let with = "a class other than real-time";
                    return Err(At(place, Reason::Excludes { what: "number of uses", of: of(), with }));
                }
            }
        }
        let (cpu, operation) = (span("cpu", &used.cpu, name)?, self.operation(engine, used, name)?);
        let commands = used.commands.as_ref().map_or(1, |commands| *commands.get_ref());
        let hold = Hold { cpu, operation, commands };
        if hold.cpu.0.max(hold.operation.0) == 0 {
            return Err(At(handle.span(), Reason::Zero { what: "longest use", of: of() }));
        }
        let most = Nanoseconds(hold.operation.0.saturating_mul(times.into()));
        let operations = match &used.operations {
            None => most,
            Some(said) => {
                let sum = span("operations", &used.operations, name)?;
                if sum < hold.operation || sum > most {
                    let (least, most) = (Time(hold.operation.0), Time(most.0));
                    return Err(At(said.span(), Reason::OperationsOutOfRange { of: of(), least, most }));
                }
                sum
            }
        };
        let tokens = within.map_or(0, |pool| 1 << pool);
        // The first command of a hold may come after one of another context.
        let place = self.out.engine_places[engine].filter(|_| hold.operation > Nanoseconds::ZERO);
        let switch = place.map_or(0, |(device, _)| u64::from(self.out.devices[device].switch));
        // Each command of a hold waits for room on the SMs.
        if let (Some(said), 0) = (&used.commands, commands) {
            return Err(At(said.span(), Reason::Zero { what: "number of commands", of: of() }));
        }
        self.says_block(engine, used, handle)?;
        let room = place.map_or(0, |_| self.room(engine, task).saturating_mul(commands.into()));
        let later = Nanoseconds(switch.saturating_add(room));
        let hold = Hold { operation: hold.operation + later, ..hold };
        let operations = operations + Nanoseconds(later.0.saturating_mul(times.into()));
        if let Some(user) = self.user_of(task, engine) {
            let commands = u64::from(times).saturating_mul(commands.into());
            let awaits = used.awaits.as_ref().is_none_or(|awaits| *awaits.get_ref());
            self.out.engine_holds[user] =
                Some(DeclaredHold { times, hold, operations, commands, awaits, within, tokens });
        }
        Ok(())
    }

    /// The time that `engine` works in one hold: the declared one, or the one that follows from the measurement of a kernel.
    fn operation(&self, engine: usize, used: &schema::Use, of: &Spanned<String>) -> Result<Nanoseconds, Fail> {
        let Some(said) = &used.operation else { return Ok(Nanoseconds::ZERO) };
        let time = match said.get_ref() {
            Operation::Time(time) => Ok(*time),
            Operation::Launch(Launched { blocks: 0, .. }) => {
                Err(Reason::Zero { what: "number of blocks", of: of.get_ref().clone() })
            }
            Operation::Launch(launched) => self.measured(engine, launched),
        };
        let time = time.map_err(|reason| At(said.span(), reason))?;
        span("operation", &Some(Spanned::new(said.span(), time)), of)
    }

    /// The time of a launch on `engine` by the measurements.
    fn measured(&self, engine: usize, launched: &Launched) -> Result<Time, Reason> {
        let Launched { kernel, class, blocks } = launched;
        let device = self.file.engines.0[engine].1.device.as_ref();
        let device = device.and_then(|name| self.file.devices.0.iter().find(|(other, _)| other == name));
        let table = device.and_then(|(_, device)| device.measured());
        if let Some(time) = table.and_then(|table| table.launch(kernel, *class, *blocks)) {
            return Ok(Time(time));
        }
        // The time is being measured, or its absence follows from another mistake.
        if self.file.measures || device.is_some_and(|(_, device)| matches!(device.time_table, Some(Err(_)))) {
            return Ok(Time(EXECUTION_SETUP));
        }
        let all = || table.iter().flat_map(|table| &table.kernels);
        let classes: Vec<String> = all().filter(|one| one.name == *kernel).map(|one| one.class.to_string()).collect();
        // The missing part is the class, or the kernel.
        let class = class.filter(|_| !classes.is_empty());
        let choices = if class.is_some() { classes } else { all().map(|one| one.name.clone()).collect() };
        Err(Reason::NotMeasured { kernel: kernel.clone(), class, choices })
    }

    /// The number of times that a job uses an endpoint or a notification. Such a use has no other keys.
    fn times_of(&self, task: usize, used: &schema::Use, with: &'static str) -> Result<u32, Fail> {
        let of = || self.file.tasks.0[task].0.get_ref().clone();
        self.excludes(task, used, ("CPU time", used.cpu.as_ref().map(Spanned::span)), with)?;
        match &used.times {
            Some(times) if *times.get_ref() == 0 => {
                Err(At(times.span(), Reason::Zero { what: "number of uses", of: of() }))
            }
            times => Ok(times.as_ref().map_or(1, |times| *times.get_ref())),
        }
    }

    /// Refuses `first`, and the keys that are for engines only, in a declaration of `task` for the use of something else: `with`.
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
            ("awaits", used.awaits.as_ref().map(Spanned::span)),
            ("within", used.within.as_ref().map(Spanned::span)),
            ("with", used.with.as_ref().map(Spanned::span)),
        ];
        let of = self.file.tasks.0[task].0.get_ref().clone();
        let found = places.into_iter().find_map(|(what, place)| Some((what, place?)));
        found.map_or(Ok(()), |(what, place)| Err(At(place, Reason::Excludes { what, of, with })))
    }

    fn pool_use(&mut self, task: usize, pool: usize, used: &schema::Use) -> Result<(), Fail> {
        let name = &self.file.tasks.0[task].0;
        let times = used.times.as_ref().map(Spanned::span);
        self.excludes(task, used, ("number of uses", times), "a pool, of which a job has a token once")?;
        self.out.sections.push((task, pool, span("cpu", &used.cpu, name)?));
        Ok(())
    }

    /// `task` acquires `engine` together with the one that its handle `with` names: that is held for as long, too.
    fn used_with(&mut self, task: usize, engine: usize, with: &Spanned<String>) -> Result<(), Fail> {
        let of = || self.out.tasks[task].name.clone();
        let Some((kind::ENGINE, other)) = self.object_of(task, with.get_ref()) else {
            return Err(self.not_used(task, with, "an engine"));
        };
        let group = |engine: usize| self.out.engines[engine].1.group_plus_one;
        if other == engine || group(other) == 0 || group(other) != group(engine) {
            let needs = "another engine of the same group";
            return Err(At(with.span(), Reason::Needs { what: "with", of: of(), needs }));
        }
        let (Some(one), Some(other)) = (self.user_of(task, engine), self.user_of(task, other)) else { return Ok(()) };
        let Some(held) = self.out.engine_holds[one] else { return Ok(()) };
        let none = DeclaredHold { times: 0, operations: Nanoseconds::ZERO, commands: 0, awaits: true, ..held };
        let own = self.out.engine_holds[other].unwrap_or(none);
        let DeclaredHold { times, operations, commands, .. } = own;
        self.out.engine_holds[other] = Some(DeclaredHold { times, operations, commands, ..own.or(held) });
        Ok(())
    }
}

/// A time of which sums cannot overflow; without one, none.
pub(super) fn span(
    what: &'static str,
    time: &Option<Spanned<Time>>,
    of: &Spanned<String>,
) -> Result<Nanoseconds, Fail> {
    match time {
        Some(time) if time.get_ref().0 > FAIR_LATENESS_OFFSET.0 => {
            Err(At(time.span(), Reason::TooLong { what, of: of.get_ref().clone(), time: *time.get_ref() }))
        }
        time => Ok(Nanoseconds(time.as_ref().map_or(0, |time| time.get_ref().0))),
    }
}
