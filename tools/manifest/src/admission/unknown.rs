//! Engines and tokens for which the time that tasks wait for them is unknown, with the reason.
//!
//! Not here: how long others are (`fusee_sched_analysis::blocking`).

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind, measure, order, release};

use fusee_sched_analysis::blocking::{Measure, Protocol, Rules};

use super::{decided, is_silent, names_of, users_of, words_of};
use crate::interrupts;
use crate::resolve::{DeclaredHold, Resolved};

/// The users of these engines, with their declarations.
fn users<'a>(
    system: &'a Resolved,
    engines: &'a [usize],
) -> impl Iterator<Item = (&'a image::EngineUser, Option<DeclaredHold>)> {
    let uses = system.engine_users.iter().zip(system.engine_holds.iter().copied());
    uses.filter(|(user, _)| engines.contains(&(user.engine as usize)))
}

/// The engines that are one lock with `engine`.
pub(super) fn of_one_lock(system: &Resolved, engine: usize) -> Vec<usize> {
    (0..system.engines.len()).filter(|other| system.are_one_lock(*other, engine)).collect()
}

/// Whether `task` uses engines for its callers, and in no jobs of its own.
pub(super) fn is_for_others(system: &Resolved, task: usize) -> bool {
    let serves = |one: &image::Handle| {
        one.task as usize == task && one.kind == kind::ENDPOINT && one.rights & rights::RECEIVE != 0
    };
    let reservation = system.tasks[task].reservation.map(|own| &system.reservations[own]);
    reservation.is_none_or(|one| one.release == release::NONE) && system.handles.iter().any(serves)
}

/// The reason why the time that jobs wait for `engines`, which are one lock, is unknown.
pub(super) fn engines(system: &Resolved, engines: &[usize]) -> Option<String> {
    let lock = words_of(&names_of(system, engines));
    if let Some((user, _)) = users(system, engines).find(|(_, hold)| hold.is_none()) {
        return Some(is_silent(system, user.task as usize, &lock));
    }
    if let Some((task, engine)) = interrupts::not_awaited(system, engines) {
        let (task, engine) = (&system.tasks[task].name, &system.engines[engine].0);
        return Some(format!("`{task}` may release engine `{engine}` before it hears of the end of its commands"));
    }
    let is_arbitrated = system.arbitrated[engines[0]].is_some();
    let tasks: Vec<usize> = users(system, engines).map(|(user, _)| user.task as usize).collect();
    // Keys that are lent to it let it take SMs, however often.
    let jobless = tasks.iter().find(|task| system.period_and_window(**task).is_none());
    if let Some(task) = jobless.filter(|_| is_arbitrated && tasks.len() > 1) {
        let name = &system.tasks[*task].name;
        return Some(format!("`{name}` has no jobs, so nothing says how often it may take {lock} from others"));
    }
    if let Some(found) = decided::unknown(system, engines) {
        return found.map(|why| format!("clusters share {lock}, and no bound is known: {why}"));
    }
    if let Some(driver) = engines.iter().find_map(|engine| overstretched(system, *engine)) {
        return Some(format!("clusters share its driver `{driver}`, but not the tokens of all its engines"));
    }
    let mut servers = tasks.iter().filter(|task| is_for_others(system, **task));
    servers.find_map(|server| unknown_to(system, *server, engines))
}

/// The reason why the time that the server `task` waits for `engines`, or that others wait for it, is unknown.
fn unknown_to(system: &Resolved, task: usize, engines: &[usize]) -> Option<String> {
    let server = &system.tasks[task].name;
    let lock = words_of(&names_of(system, engines));
    let record = &system.engines[engines[0]].1;
    let with_tokens = users(system, engines).any(|(_, hold)| hold.is_some_and(|hold| hold.tokens != 0));
    let is_passed = record.order == order::PRIORITY && users(system, engines).count() > 2;
    let cluster = |task: usize| system.tasks[task].cluster as usize;
    let cpus = system.clusters[cluster(task)].1.cpus.count_ones();
    let is_alone = users(system, engines).count() == 1;
    let why = match () {
        () if record.group_plus_one != 0 => "holds engines of a group",
        () if is_passed && with_tokens => "holds it by priority, which comes and goes with tokens",
        () if is_passed && cpus > 1 => {
            "holds it by priority on several CPUs: its requests may pass others with the priority of whoever waits"
        }
        () if users(system, engines).any(|(user, _)| cluster(user.task as usize) != cluster(task)) => {
            "is of another cluster than others who hold it"
        }
        () if is_alone && system.arbitrated[engines[0]].is_some() => "has no jobs, and its device decides",
        () => return None,
    };
    Some(format!("server `{server}`, which uses {lock}, {why}"))
}

/// The rule by which requests for tokens of the pool with this number wait.
pub(super) fn protocol(system: &Resolved, pool: usize) -> Protocol {
    let record = &system.pools[pool].1;
    let cpus = system.clusters[record.cluster as usize].1.cpus.count_ones() as u16;
    let [limit, total] = [record.limit, record.total_limit].map(|limit| (limit != 0).then_some(limit as u16));
    let measure = if record.measure == measure::LENGTHS { Measure::CriticalSections } else { Measure::Requests };
    let replicas = record.replicas as u8;
    match record.crosses {
        0 => Protocol::Pool(Rules { replicas, cpus, limit, total, measure }),
        _ => Protocol::CkOmlp { replicas },
    }
}

/// The reason why the time that jobs or servers wait for tokens of the pool with this number is unknown, apart from engines that
/// are held with them.
pub(super) fn tokens(system: &Resolved, pool: usize) -> Option<String> {
    let lock = format!("pool `{}`", system.pools[pool].0);
    let users = || users_of(system, pool);
    let is_said = |task: usize| system.sections.iter().any(|(by, of, _)| *by == task && *of == pool);
    if let Some(task) = users().find(|task| !is_said(*task)) {
        return Some(is_silent(system, task, &lock));
    }
    let server = users().find(|task| is_for_others(system, *task))?;
    (!protocol(system, pool).is_by_arrival(users().count())).then(|| {
        let server = &system.tasks[server].name;
        format!("server `{server}` uses {lock}, where priority says who joins a queue, and it has none of its own")
    })
}

/// The reason why the time that jobs wait for engines that are held with tokens of the pool with this number is unknown.
pub(super) fn engines_within(system: &Resolved, pool: usize) -> Option<String> {
    let uses = system.engine_users.iter().zip(&system.engine_holds);
    let mut within = uses.filter(|(_, hold)| hold.is_some_and(|hold| hold.tokens >> pool & 1 != 0));
    within.find_map(|(user, _)| engines(system, &of_one_lock(system, user.engine as usize)))
}

/// The driver of `engine`, if tasks of several clusters wait for it, some without a token that their clusters share: clients without a lock
/// have none. These may keep the others waiting for as long as they are not among the highest of their cluster, as a driver runs on a lent
/// reservation in its own cluster.
fn overstretched(system: &Resolved, engine: usize) -> Option<&str> {
    let driver = system.driver_of(engine)?;
    let of_driver = |user: &&image::EngineUser| system.driver_of(user.engine as usize) == Some(driver);
    let clients = system.engine_users.iter().chain(&system.shared_users).filter(of_driver);
    let cluster = |user: &image::EngineUser| system.tasks[user.task as usize].cluster;
    let asks_for_token = |user: &image::EngineUser| {
        let pool = system.engines[user.engine as usize].1.pool_plus_one.checked_sub(1);
        pool.is_some_and(|pool| system.pools[pool as usize].1.crosses != 0)
    };
    let is_shared = clients.clone().any(|one| clients.clone().any(|other| cluster(one) != cluster(other)));
    let all_ask = system.shared_users.iter().find(of_driver).is_none() && clients.clone().all(asks_for_token);
    (is_shared && !all_ask).then(|| system.tasks[driver].name.as_str())
}
