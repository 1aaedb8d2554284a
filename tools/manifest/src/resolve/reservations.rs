//! Tasks and their reservations.

use std::ops::Range;

use fusee_abi::image::{self, class, overrun, release};
use fusee_kernel_core::limits;
use fusee_sched::key::PolicyName;
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, Task, UNLIMITED, elf_binary, span,
};
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::quantity::Time;
use crate::schema::{self, Class, Covers, Overrun, Release};

/// The replenishment period of such a task, which is never used.
const UNLIMITED_PERIOD: u64 = 1_000_000_000;
/// Releases of one task that may queue.
const BACKLOG_MAX: u32 = 255;

impl Resolver<'_> {
    pub(super) fn tasks(&mut self) {
        let mut queued = 0;
        for (index, (name, task)) in self.file.tasks.0.iter().enumerate() {
            let of = Of::Task(index);
            let cluster = self.cluster(task.cluster.as_ref(), name);
            let cluster = self.keep(of, cluster);
            let at = cluster.unwrap_or(0);
            let binary = self.keep(of, binary(name, task)).unwrap_or_default();
            let stack = self.keep(of, stack(name, task)).unwrap_or_default();
            let reservation = self.keep(of, reservation(index, at, name, task)).flatten();
            let suspends = self.keep(of, span("suspends", &task.suspends, name)).unwrap_or_default();
            let has_key = cluster.map_or(Ok(()), |cluster| self.has_key(name, cluster, reservation.as_ref()));
            self.keep(of, has_key);
            // Releases of sporadic jobs queue one by one.
            let places = reservation.filter(|one| one.release == release::SPORADIC).map_or(0, |one| one.backlog.max(1));
            let had_room = queued <= limits::RELEASES;
            queued += places as usize;
            if had_room && queued > limits::RELEASES {
                let place = task.backlog.as_ref().map_or(name.span(), Spanned::span);
                let (what, limit) = ("queued releases, as the `backlog` of sporadic tasks is in sum", limits::RELEASES);
                self.keep(of, Err::<(), _>(At(place, Reason::TooMany { what, limit })));
            }
            let hard = task.hard.as_ref().is_some_and(|hard| *hard.get_ref());
            self.out.suspends.push(suspends);
            self.out.keeps_word.push(task.trusted.unwrap_or(false) || hard);
            self.out.reservations.extend(reservation);
            self.out.tasks.push(Task {
                sleeps_inside: false,
                name: name.get_ref().clone(),
                binary,
                script: Vec::new(),
                model: Vec::new(),
                cluster: at as u32,
                reservation: reservation.map(|_| self.out.reservations.len() - 1),
                hard,
                stack,
                environment: Vec::new(),
                supervision: image::Supervision {
                    is_dormant: task.dormant.as_ref().is_some_and(|dormant| *dormant.get_ref()),
                    ..image::Supervision::default()
                },
            });
        }
    }

    /// Whether the cluster's policy finds a key for the jobs.
    fn has_key(
        &self,
        name: &Spanned<String>,
        cluster: usize,
        reservation: Option<&image::Reservation>,
    ) -> Result<(), Fail> {
        self.sound(Of::Cluster(cluster))?;
        let is_fixed = self.out.clusters[cluster].1.policy == PolicyName::Fp as u32;
        if is_fixed && reservation.is_some_and(|one| one.class == class::REAL_TIME && one.priority == 0) {
            let of = name.get_ref().clone();
            return Err(At(name.span(), Reason::Needs { what: "policy", of, needs: "a priority" }));
        }
        Ok(())
    }
}

fn binary(name: &Spanned<String>, task: &schema::Task) -> Result<String, Fail> {
    match (&task.binary, &task.elf, &task.script) {
        (Some(binary), None, None) => Ok(binary.get_ref().clone()),
        (None, Some(elf), None) => Ok(elf_binary(elf.get_ref())),
        (None, None, Some(_)) => Ok("apps/scripted".to_owned()),
        _ => Err(At(name.span(), Reason::BinaryOrScript { task: name.get_ref().clone() })),
    }
}

fn stack(name: &Spanned<String>, task: &schema::Task) -> Result<u64, Fail> {
    let Some(stack) = &task.stack else { return Ok(16 << 10) };
    let bytes = stack.get_ref().0;
    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
        return Err(At(stack.span(), Reason::NotPages { what: "stack", of: name.get_ref().clone() }));
    }
    if bytes > layout::STACK_MAX {
        return Err(At(stack.span(), Reason::NoAddresses { of: format!("stack of {}", name.get_ref()) }));
    }
    Ok(bytes)
}

/// The place where the manifest permits the jobs of `task` to take the budget of the next one before its release.
pub(super) fn may_release_early(task: &schema::Task) -> Option<Range<usize>> {
    let by_key = task.early_release.as_ref().filter(|permitted| *permitted.get_ref()).map(Spanned::span);
    let by_policy = task.overrun.as_ref().filter(|overrun| *overrun.get_ref() == Overrun::EarlyRelease);
    by_key.or(by_policy.map(Spanned::span))
}

/// A time of a task that must not be zero, in nanoseconds.
fn positive(
    time: &Option<Spanned<crate::Time>>,
    what: &'static str,
    name: &Spanned<String>,
) -> Result<Option<u64>, Fail> {
    match time {
        Some(time) if time.get_ref().0 == 0 => Err(At(time.span(), Reason::Zero { what, of: name.get_ref().clone() })),
        None => Ok(None),
        time => Ok(Some(span(what, time, name)?.0)),
    }
}

/// Refuses the keys that only a task with jobs has.
fn has_no_key_of_jobs(name: &Spanned<String>, task: &schema::Task, class: Option<Class>) -> Result<(), Fail> {
    let with = if class.is_none() { "no period" } else { "a class other than real-time" };
    let excluded = [
        ("deadline", task.deadline.as_ref().map(Spanned::span)),
        ("release", task.release.as_ref().map(Spanned::span)),
        ("phase", task.phase.as_ref().map(Spanned::span)),
        ("hard", task.hard.as_ref().map(Spanned::span)),
        ("wcet", task.wcet.as_ref().map(Spanned::span)),
        ("priority", task.priority.as_ref().map(Spanned::span)),
        ("overrun", task.overrun.as_ref().map(Spanned::span)),
        ("budget_covers", task.budget_covers.as_ref().map(Spanned::span)),
        ("backlog", task.backlog.as_ref().map(Spanned::span)),
        ("suspends", task.suspends.as_ref().map(Spanned::span)),
        ("early_release", task.early_release.as_ref().map(Spanned::span)),
        ("early", task.early.as_ref().map(Spanned::span)),
    ];
    for (what, place) in excluded {
        if let Some(place) = place {
            return Err(At(place, Reason::Excludes { what, of: name.get_ref().clone(), with }));
        }
    }
    Ok(())
}

/// The numbers of a class and a release, with the budget and the period; `None` without any of them.
fn class_of(
    name: &Spanned<String>,
    class: Option<Class>,
    release: u32,
    budget: Option<u64>,
    period: Option<u64>,
) -> Result<Option<(u32, u32, u64, u64)>, Fail> {
    let needs = |what, needs| At(name.span(), Reason::Needs { what, of: name.get_ref().clone(), needs });
    Ok(Some(match (class, budget, period) {
        (None, None, _) => return Ok(None),
        (None, Some(_), _) => return Err(needs("budget", "a period")),
        (Some(Class::RealTime | Class::Service), _, None) => return Err(needs("class", "a period")),
        (Some(_), None, Some(_)) => return Err(needs("period", "a budget")),
        (Some(Class::RealTime), Some(budget), Some(period)) => (class::REAL_TIME, release, budget, period),
        (Some(Class::Service), Some(budget), Some(period)) => (class::SERVICE, release::NONE, budget, period),
        (Some(Class::Background), None, None) => (class::BACKGROUND, release::NONE, UNLIMITED, UNLIMITED_PERIOD),
        (Some(Class::Background), Some(budget), Some(period)) => (class::BACKGROUND, release::NONE, budget, period),
        (Some(Class::Background), Some(_), None) => return Err(needs("budget", "a period")),
    }))
}

/// The reservation of a task, if it has a class or a period.
fn reservation(
    index: usize,
    cluster: usize,
    name: &Spanned<String>,
    task: &schema::Task,
) -> Result<Option<image::Reservation>, Fail> {
    let of = || name.get_ref().clone();
    let period = positive(&task.period, "period", name)?;
    let deadline = positive(&task.deadline, "deadline", name)?;
    let budget = positive(&task.budget, "budget", name)?;
    let class = match (&task.class, period) {
        (Some(class), _) => Some(*class.get_ref()),
        (None, Some(_)) => Some(Class::RealTime),
        (None, None) => None,
    };
    if class != Some(Class::RealTime) {
        has_no_key_of_jobs(name, task, class)?;
    }
    let release = match task.release.as_ref().map(Spanned::get_ref) {
        None | Some(Release::Periodic) => release::PERIODIC,
        Some(Release::Sporadic) => release::SPORADIC,
    };
    let Some((class, release, budget, period)) = class_of(name, class, release, budget, period)? else {
        return Ok(None);
    };
    let deadline = deadline.unwrap_or(period);
    if budget != UNLIMITED {
        let place = task.budget.as_ref().map_or(name.span(), Spanned::span);
        for (what, limit) in [("period", period), ("deadline", deadline)] {
            if budget > limit {
                let (budget, limit) = (Time(budget), Time(limit));
                return Err(At(place, Reason::BudgetExceeds { task: of(), budget, what, limit }));
            }
        }
    }
    let execution = positive(&task.wcet, "wcet", name)?.unwrap_or(budget);
    if let Some(place) = task.wcet.as_ref().filter(|_| execution > budget) {
        let reason = Reason::ExecutionExceeds { task: of(), execution: Time(execution), budget: Time(budget) };
        return Err(At(place.span(), reason));
    }
    let priority = task.priority.as_ref().map_or(0, |priority| *priority.get_ref());
    if let Some(place) = task.priority.as_ref().filter(|_| priority == 0) {
        return Err(At(place.span(), Reason::Zero { what: "priority", of: of() }));
    }
    let backlog = task.backlog.as_ref().map_or(1, |backlog| *backlog.get_ref());
    if let Some(place) = task.backlog.as_ref().filter(|_| backlog == 0 || backlog > BACKLOG_MAX) {
        return Err(At(place.span(), Reason::OutOfRange { what: "backlog", of: of(), from: 1, to: BACKLOG_MAX }));
    }
    let overrun = match task.overrun.as_ref().map_or(Overrun::default(), |overrun| *overrun.get_ref()) {
        Overrun::Throttle => overrun::THROTTLE,
        Overrun::Signal => overrun::SIGNAL,
        Overrun::EarlyRelease => overrun::EARLY_RELEASE,
    };
    let covers = task.budget_covers.as_ref().map_or(Covers::default(), |covers| *covers.get_ref());
    Ok(Some(image::Reservation {
        task: index as u32,
        cluster: cluster as u32,
        class,
        release,
        budget,
        period,
        deadline,
        phase: span("phase", &task.phase, name)?.0,
        execution,
        priority,
        overrun,
        backlog,
        covers_engines: u32::from(covers == Covers::CpuAndEngines),
        suspension: span("suspends", &task.suspends, name)?.0,
        early_release: u32::from(may_release_early(task).is_some()),
        begins_early: 0,
    }))
}
