//! Further lives of tasks: the supervisor that is signalled at their ends, and its parameters for when to give them another.

use std::ops::Range;

use fusee_abi::call::rights;
use fusee_abi::image::{self, Supervision, kind};
use fusee_abi::lives::Policy;
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, index_of,
};
use crate::error::Reason;
use crate::quantity::Time;
use crate::schema::{Restart, RestartLimits, RestartName, SupervisorDies};

/// The delays from an end to the next life, without a delay in the manifest: at first, and at most. Microseconds.
const DELAYS: [u32; 2] = [1_000, 1_000_000];
/// For how long a supervisor lends a task its budget to start with. Microseconds.
const START_WITHIN: u32 = 10_000;

impl Resolver<'_> {
    /// Connects tasks that have the key `restart` with their supervisor.
    pub(super) fn lives(&mut self) {
        let file = self.file;
        let Some(supervisor) = &file.supervisor else {
            let first = file.tasks.0.iter().find_map(|(name, task)| Some((name, task.restart.as_ref()?)));
            if let Some((name, restart)) = first {
                let needs = "a supervisor: `[supervisor]` with its `task`";
                let reason = Reason::Needs { what: "restart", of: name.get_ref().clone(), needs };
                self.keep(Of::Nothing, Err::<(), _>(At(restart.span(), reason)));
            }
            return;
        };
        let watcher = index_of(&file.tasks, "task", &supervisor.task);
        let Some(watcher) = self.keep(Of::Nothing, watcher) else { return };
        let ends = self.ends_of_tasks(watcher, &supervisor.task);
        let Some(ends) = self.keep(Of::Handles(watcher), ends) else { return };
        self.out.supervisor = Some(watcher);
        self.out.tasks[watcher].supervision.is_vital = supervisor.dies == SupervisorDies::Panic;
        for (index, (_, task)) in file.tasks.0.iter().enumerate() {
            if let Some(restart) = &task.restart {
                let watched = self.watch(watcher, index, restart, ends);
                self.keep(Of::Handles(watcher), watched);
            }
        }
    }

    /// The notification by which `watcher` gets ends.
    fn ends_of_tasks(&mut self, watcher: usize, name: &Spanned<String>) -> Result<usize, Fail> {
        self.sound(Of::Task(watcher))?;
        if self.file.tasks.0.iter().all(|(_, task)| task.restart.is_none()) {
            let of = name.get_ref().clone();
            return Err(At(
                name.span(),
                Reason::Needs { what: "supervisor", of, needs: "a task with the key `restart`" },
            ));
        }
        // The task would get ends, and its device nothing.
        if self.out.devices.iter().any(|device| device.driver == watcher) {
            let (of, with) = (name.get_ref().clone(), "being the driver of a device");
            return Err(At(name.span(), Reason::Excludes { what: "supervisor", of, with }));
        }
        let ends = self.notification("ends".to_owned(), name.span())?;
        self.add(watcher, &Spanned::new(name.span(), "ends".to_owned()), kind::NOTIFICATION, ends, rights::WAIT)?;
        self.out.waits.push((watcher, ends));
        Ok(ends)
    }

    /// Gives `task` a handle in its next slot, if it has nothing of that name.
    fn add(&mut self, task: usize, name: &Spanned<String>, kind: u32, object: usize, rights: u32) -> Result<(), Fail> {
        self.unused(task, name.get_ref(), name.span())?;
        let slot = self.next_slot(task);
        self.give(task, slot, name, kind, object, rights)
    }

    /// Whether `task`, which has several lives by the key `what`, may have them.
    fn may_begin_again(&self, task: usize, what: &'static str, place: Range<usize>) -> Result<(), Fail> {
        let of = || self.out.tasks[task].name.clone();
        let excludes = |with| Err(At(place.clone(), Reason::Excludes { what, of: of(), with }));
        let serves = |endpoint: u32| self.out.endpoints[endpoint as usize].1.server as usize == task;
        if self.out.devices.iter().any(|device| device.driver == task && device.processor.is_some()) {
            return excludes("driving a processor of the board, which goes on without it");
        }
        if self.serves_sessions(task) {
            return excludes("serving `sessions`: what clients have opened and mapped is known to this life alone");
        }
        if self.out.engines.iter().any(|(_, engine)| engine.sharer_plus_one.checked_sub(1).is_some_and(serves)) {
            return excludes("sharing an engine: its clients are stopped with their sharer");
        }
        Ok(())
    }

    /// Tasks that begin when they are started: some task must start each.
    pub(super) fn dormant(&mut self) {
        for (index, (name, task)) in self.file.tasks.0.iter().enumerate() {
            let Some(dormant) = task.dormant.as_ref().filter(|dormant| *dormant.get_ref()) else { continue };
            let found = self.starts(index, name, dormant.span());
            self.keep(Of::Nothing, found);
        }
    }

    fn starts(&self, task: usize, name: &Spanned<String>, place: Range<usize>) -> Result<(), Fail> {
        self.sound(Of::Task(task))?;
        self.may_begin_again(task, "dormant", place.clone())?;
        if self.out.supervisor == Some(task) {
            let with = "being the supervisor";
            return Err(At(place, Reason::Excludes { what: "dormant", of: name.get_ref().clone(), with }));
        }
        let starts = |handle: &image::Handle| {
            (handle.kind, handle.object as usize) == (kind::TASK, task) && handle.rights & rights::RESTART != 0
        };
        let others = self.out.handles.iter().filter(|handle| Some(handle.task as usize) != self.out.supervisor);
        if !{ others }.any(starts) {
            let needs = "a task that starts it: with the right `start`";
            return Err(At(place, Reason::Needs { what: "dormant", of: name.get_ref().clone(), needs }));
        }
        Ok(())
    }

    /// Makes `watcher` get the ends of `task`, and able to give it another life.
    fn watch(&mut self, watcher: usize, task: usize, restart: &Spanned<Restart>, ends: usize) -> Result<(), Fail> {
        self.sound(Of::Task(task))?;
        let name = self.out.tasks[task].name.clone();
        if watcher == task {
            let with = "being the supervisor: nobody is left to do it";
            return Err(At(restart.span(), Reason::Excludes { what: "restart", of: name, with }));
        }
        self.may_begin_again(task, "restart", restart.span())?;
        let policy = policy(task, &name, restart)?;
        let has_lives = policy.at_most != 0;
        let place = restart.span();
        let entry = |prefix: &str| Spanned::new(place.clone(), format!("{prefix}.{name}"));
        let task_rights = if has_lives { rights::RESTART | rights::STOP } else { rights::RESTART };
        let is_dormant = self.out.tasks[task].supervision.is_dormant;
        let mut supervision = Supervision { ends: u16::try_from(ends).ok(), is_dormant, ..Supervision::default() };
        self.add(watcher, &entry("task"), kind::TASK, task, task_rights)?;
        if has_lives {
            let starts = self.notification(format!("starts.{name}"), place.clone())?;
            self.out.notifications[starts].1 = image::Notification { bound_plus_one: task as u32 + 1, flags: 0 };
            self.add(watcher, &entry("starts"), kind::NOTIFICATION, starts, rights::WAIT)?;
            self.out.waits.push((watcher, starts));
            supervision.starts = u16::try_from(starts).ok();
        }
        for (prefix, word) in ["restart", "delay", "start"].into_iter().zip(policy.words()) {
            let entry = entry(prefix);
            self.unused(watcher, entry.get_ref(), place.clone())?;
            self.parameter(watcher, entry.get_ref(), word);
        }
        self.out.tasks[task].supervision = supervision;
        self.out.policies.push(policy);
        Ok(())
    }
}

/// The policy in `restart` of the task `name`.
fn policy(task: usize, name: &str, restart: &Spanned<Restart>) -> Result<Policy, Fail> {
    let none = RestartLimits { at_most: None, within: None, delay: None, longest_delay: None, start_within: None };
    let (limits, is_never) = match restart.get_ref() {
        Restart::Named(RestartName::Always) => (&none, false),
        Restart::Named(RestartName::Never) => (&none, true),
        Restart::Limited(limits) => (limits, false),
    };
    let of = || name.to_owned();
    let refuse = |reason| At(restart.span(), reason);
    let needs = |what, needs| refuse(Reason::Needs { what, of: of(), needs });
    let at_most = match (limits.at_most, limits.within) {
        (None, None) if is_never => 0,
        (None, None) => Policy::ALWAYS,
        (Some(_), None) => return Err(needs("at_most", "`within`: in how long")),
        (None, Some(_)) => return Err(needs("within", "`at_most`: how many lives")),
        (Some(number), Some(_)) => match u16::try_from(number) {
            Ok(number) if (1..=Policy::MOST).contains(&number) => number,
            _ => {
                let to = u32::from(Policy::MOST);
                return Err(refuse(Reason::OutOfRange { what: "at_most", of: of(), from: 1, to }));
            }
        },
    };
    // In units of so many nanoseconds, rounded up.
    let time = |key: Option<Time>, what: &'static str, unit: u64, default: u32| match key {
        None => Ok(default),
        Some(Time(0)) => Err(refuse(Reason::Zero { what, of: of() })),
        Some(time) => {
            u32::try_from(time.0.div_ceil(unit)).map_err(|_| refuse(Reason::TooLong { what, of: of(), time }))
        }
    };
    let first_delay = time(limits.delay, "delay", 1_000, DELAYS[0])?;
    let longest_delay = time(limits.longest_delay, "longest_delay", 1_000, DELAYS[1].max(first_delay))?;
    if longest_delay < first_delay {
        return Err(needs("longest_delay", "to be `delay` at least"));
    }
    Ok(Policy {
        at_most,
        within: time(limits.within, "within", 1_000_000, 0)?,
        task: task as u16,
        first_delay,
        longest_delay,
        start_within: time(limits.start_within, "start_within", 1_000, START_WITHIN)?,
    })
}
