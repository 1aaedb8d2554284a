//! Interrupts of devices, for the analysis: how often their top halves hit a cluster, and which bottom halves come before one's own.
//!
//! A line leads to one CPU, for all users of the device. The rate of its interrupts follows from the declarations of clients: an
//! operation ends with one interrupt, a hold is one operation, and a job has as many holds as `times` states. If a client of the
//! device does not declare this, or has no jobs, the rate is unknown.
//!
//! Not here: the time of a top half (`fusee_sched_analysis::overheads`).

use fusee_abi::call::rights;
use fusee_abi::image::{self, class};
use fusee_accel_contract::timing::MODERATION;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Interrupting;
use fusee_sched_analysis::blocking::{Beside, Shared};

use crate::admission::{self, Study, Undeclared, scripts};
use crate::resolve::{DeclaredHold, Resolved};

impl Study {
    /// Counts the interrupts of devices that hit the CPUs of this cluster, which has this index. To be called if paths of the
    /// kernel take time. Interrupts of an unknown number become [`Study::undeclared`], and those without a limit
    /// [`Study::unenforced`].
    pub fn count_interrupts(&mut self, system: &Resolved, index: usize) {
        let cpus = system.clusters[index].1.cpus;
        let mut interrupting = Vec::new();
        for (number, (name, record)) in system.interrupts.iter().enumerate() {
            if cpus >> record.cpu & 1 == 0 {
                continue;
            }
            match raised(system, number) {
                Ok(sources) => interrupting.extend(sources),
                Err(why) => {
                    let lock = format!("top halves of interrupt `{name}`, which leads to CPU {},", record.cpu);
                    let uncounted = format!("waiting for {lock} is not bounded: {why}");
                    self.uncounted.iter_mut().for_each(|reasons| reasons.push(uncounted.clone()));
                    self.undeclared.push(Undeclared { lock, why, members: self.members.clone() });
                }
            }
        }
        self.cluster = self.cluster.clone().interrupted_by(interrupting);
        self.doubt_interrupts(system, index);
    }

    /// Finds the sources that interrupt the cluster's CPUs without a limit.
    ///
    /// - A timer interrupt that ends a wait comes to the CPU that keeps the cluster's time, also while another thread runs there.
    ///   On one CPU a task has to run to ask for the next one; on several it may do so again and again while another is
    ///   interrupted.
    /// - A client of a device may have it work in more and shorter operations than it declares, while it holds an engine; each ends
    ///   with an interrupt.
    pub fn doubt_interrupts(&mut self, system: &Resolved, index: usize) {
        let cpus = system.clusters[index].1.cpus;
        let untrusted = |task: usize| !system.keeps_word[task];
        let has_timeouts = |task: usize| cpus.count_ones() > 1 && system.tasks[task].cluster as usize == index;
        // A server has the device work as often as it is called.
        let works = admission::workers(system);
        let line_of = |task: usize| {
            let used = system.engine_users.iter().filter(|user| works[task].contains(&(user.task as usize)));
            let lines =
                used.filter_map(|user| system.engines[user.engine as usize].1.interrupt_plus_one.checked_sub(1));
            lines.map(|line| &system.interrupts[line as usize]).find(|(_, record)| cpus >> record.cpu & 1 != 0)
        };
        for (member, unenforced) in self.members.iter().zip(&mut self.unenforced) {
            let others = || (0..system.tasks.len()).filter(|task| task != member && untrusted(*task));
            let name = |task: usize| &system.tasks[task].name;
            if unenforced.is_some() {
                continue;
            }
            if let Some(other) = others().find(|task| has_timeouts(*task)) {
                let name = name(other);
                *unenforced = Some(format!(
                    "`{name}` may have the CPU that keeps the cluster's time interrupted by its timeouts again and again"
                ));
            } else if let Some((other, line)) = others().find_map(|task| Some((task, &line_of(task)?.0))) {
                let name = name(other);
                *unenforced = Some(format!(
                    "`{name}` may have interrupt `{line}` fire more often than it says; is it `hard`, or to be `trusted`?"
                ));
            }
        }
    }
}

/// The sources of the interrupt with this number, and their rates; or the reason why these are unknown.
fn raised(system: &Resolved, number: usize) -> Result<Vec<Interrupting>, String> {
    let is_its = |engine: u32| system.engines[engine as usize].1.interrupt_plus_one as usize == number + 1;
    if !(0..system.engines.len() as u32).any(is_its) {
        return Err("nothing says how often it fires".to_owned());
    }
    let users = system.engine_users.iter().zip(&system.engine_holds).filter(|(user, _)| is_its(user.engine));
    let mut sources = Vec::new();
    for (user, hold) in users {
        let name = |task: usize| &system.tasks[task].name;
        let Some(hold) = hold else {
            return Err(format!("`{}` does not say how often it uses the device", name(user.task as usize)));
        };
        // The command from which the engine is taken back ends with an interrupt of its own, and so does a reset of it.
        let each = match system.engine_take_backs[user.engine as usize] {
            Nanoseconds::ZERO => hold.times,
            _ => hold.times.saturating_mul(3),
        };
        // A server uses it as often as it is called.
        for (task, requests) in admission::worked_for(system, user.task as usize) {
            let reservation = system.tasks[task].reservation.map(|one| &system.reservations[one]);
            let Some(one) = reservation.filter(|one| one.class == class::REAL_TIME && one.period > 0) else {
                return Err(format!("`{}` uses the device, and has no period", name(task)));
            };
            let times = u32::try_from(u64::from(each).saturating_mul(requests)).unwrap_or(u32::MAX);
            let (period, pending) = (Nanoseconds(one.period), one.backlog.saturating_add(1));
            sources.push(Interrupting { times, period, pending });
        }
    }
    let is_shared = |user: &image::EngineUser| is_its(user.engine);
    if system.shared_users.iter().any(is_shared) {
        // The device's own moderation limits the rate, for any amount of work of its clients.
        sources.push(Interrupting { times: 1, period: Nanoseconds(MODERATION), pending: 1 });
    }
    Ok(sources)
}

/// The delay that clients without the lock of one of `engines` cause for holders of it.
pub(crate) fn shared(system: &Resolved, engines: &[usize]) -> Shared {
    let take_back = engines.iter().map(|engine| system.engine_take_backs[*engine]).max().unwrap_or_default();
    // Completions of any engine of the device wake its driver.
    let notices = engines.iter().filter_map(|engine| notice(system, *engine));
    match notices.max() {
        Some(notice) => Shared { take_back, period: Nanoseconds(MODERATION), notice },
        None => Shared { take_back, ..Shared::default() },
    }
}

/// The driver's work for clients without locks of the device of `engine`, if there are some: as long as the longest end of an
/// operation.
fn notice(system: &Resolved, engine: usize) -> Option<Nanoseconds> {
    let device_of = |engine: usize| system.engine_places[engine].map(|(device, _)| device);
    let device = device_of(engine)?;
    let of_device = |engine: usize| device_of(engine) == Some(device);
    system.shared_users.iter().any(|user| of_device(user.engine as usize)).then(|| {
        let engines = (0..system.engines.len()).filter(|other| of_device(*other));
        engines.map(|other| system.engine_ends[other].0).max().unwrap_or_default()
    })
}

/// The ends of commands of others that a driver may serve before one of `engines` with these users: one of each other engine of the
/// driver, and less than can work at the same time if tokens of the device are needed (Elliott 2015, 4.48 and 4.50: `min(lambda, rho) - 1`);
/// and one of each user that may have [left](leaves) it. A driver passes over all its clients in turn, so none has two.
pub(crate) fn other_ends(system: &Resolved, engines: &[usize], holds: &[(usize, DeclaredHold)]) -> Nanoseconds {
    let Some(driver) = engines.iter().find_map(|engine| system.driver_of(*engine)) else { return Nanoseconds::ZERO };
    let is_driven = |engine: usize| system.driver_of(engine) == Some(driver);
    let end = |engine: usize| system.engine_ends[engine].0;
    let users = system.engine_users.iter().enumerate().map(|(index, user)| (index, user.engine as usize));
    let left = users.filter(|(index, engine)| is_driven(*engine) && leaves(system, *index));
    let left = left.fold(Nanoseconds::ZERO, |sum, (_, engine)| sum + end(engine));
    let others = |engine: usize| {
        let others = (0..system.engines.len()).filter(|other| *other != engine && is_driven(*other));
        let mut ends: Vec<Nanoseconds> = others.map(end).collect();
        ends.sort_unstable_by_key(|end| std::cmp::Reverse(*end));
        let pool = system.engines[engine].1.pool_plus_one.checked_sub(1).map(|pool| pool as usize);
        let with_token = pool.is_some() && holds.iter().all(|(_, hold)| hold.within == pool);
        let tokens = match pool.filter(|_| with_token) {
            // Copies from one device to another need the token of either.
            Some(pool) => system.pools[pool].1.replicas as usize,
            None => usize::MAX,
        };
        // It may be at work for clients without locks, of any engine.
        let first = notice(system, engine).unwrap_or_default() + left;
        ends.into_iter().take(tokens.saturating_sub(1)).fold(first, |sum, end| sum + end)
    };
    engines.iter().copied().filter(|engine| is_driven(*engine)).map(others).max().unwrap_or(Nanoseconds::ZERO)
}

/// A task that may release an engine before it hears of the end of its commands, with the engine: one of those that have the driver of
/// `engines`, if other tasks use them, too. It may have two commands under way then, or one from the job before, and ends that nobody has
/// heard of.
pub(crate) fn not_awaited(system: &Resolved, engines: &[usize]) -> Option<(usize, usize)> {
    let driver = engines.iter().find_map(|engine| system.driver_of(*engine))?;
    let uses = system.engine_users.iter().zip(&system.engine_holds);
    let mut uses = uses.filter(|(user, _)| system.driver_of(user.engine as usize) == Some(driver));
    let (first, _) = uses.clone().next()?;
    if uses.clone().all(|(user, _)| user.task == first.task) {
        return None;
    }
    let (user, _) =
        uses.find(|(user, hold)| hold.is_some_and(|hold| !hold.awaits) || scripts::starts(system, user.task as usize))?;
    Some((user.task as usize, user.engine as usize))
}

/// Whether the task of the user with this index may end before it hears of the end of its commands.
fn leaves(system: &Resolved, user: usize) -> bool {
    let task = system.engine_users[user].task;
    let stops = |handle: &image::Handle| {
        handle.kind == image::kind::TASK && handle.object == task && handle.rights & rights::STOP != 0
    };
    system.has_lives(task as usize) || system.handles.iter().any(stops)
}

/// The users whose ends of commands are further work of the driver of `engines`: those of its other engines, those that may [leave](leaves) ends,
/// and all if the device decides. `order`: the system's tasks as the analysis counts them.
pub(crate) fn beside(system: &Resolved, engines: &[usize], order: &[usize]) -> Vec<Beside> {
    let Some(driver) = system.driver_of(engines[0]) else { return Vec::new() };
    let decides = system.arbitrated[engines[0]].is_some();
    let is_beside = |index: usize| {
        let engine = system.engine_users[index].engine as usize;
        system.driver_of(engine) == Some(driver)
            && (decides || !engines.contains(&engine) || leaves(system, index))
            && system.engine_ends[engine].0 > Nanoseconds::ZERO
    };
    let uses = || system.engine_users.iter().zip(&system.engine_holds);
    // With the only token of a pool nobody else with a token of it has commands, but an end from before may be left.
    let own = |pool: usize| {
        uses()
            .filter(|(user, _)| engines.contains(&(user.engine as usize)))
            .all(|(_, hold)| hold.is_some_and(|hold| hold.within == Some(pool)))
    };
    let only = (0..system.pools.len()).find(|pool| system.pools[*pool].1.replicas == 1 && own(*pool));
    let beside = uses().enumerate().filter(|(index, _)| is_beside(*index)).filter_map(|(index, (user, hold))| {
        let (task, engine) = (user.task as usize, user.engine as usize);
        let own = system.tasks[task].reservation.map(|own| &system.reservations[own]);
        // Each further life may have a job's commands again.
        let own = own.filter(|own| own.class == class::REAL_TIME && own.period > 0 && !system.has_lives(task));
        // Nobody says how many commands an engine has that is only held together with another one.
        let is_without = |hold: &DeclaredHold| only.is_some() && hold.within == only && !leaves(system, index);
        let commands = |hold: &DeclaredHold| if is_without(hold) { 0 } else { hold.commands };
        let jobs = own
            .zip(hold.filter(|hold| hold.commands > 0))
            .map(|(own, hold)| (Nanoseconds(own.period), commands(&hold)));
        let completion = system.engine_ends[engine].0;
        Some(Beside { engine, task: order.iter().position(|other| *other == task)?, completion, jobs })
    });
    beside.collect()
}
