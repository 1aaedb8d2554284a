//! Clusters of one CPU each that share an engine that its device arbitrates: the conditions under which bounds are known.
//!
//! The device compares the keys of jobs of all these clusters. So these have one policy, with constant points, and the point of a
//! task is its priority on the device as well. The driver of the device runs on the time of a job that waits for it, on a CPU of
//! its cluster. While jobs of other clusters wait, too, it is *boosted* there: it comes before all tasks, on an account of its own.
//! That account is made long enough never to run dry, for the number of commands that the tasks declare: the kernel keeps a driver
//! that does more from taking more.
//!
//! Not here: the bounds (`fusee_sched_analysis::decided`).

use fusee_abi::call::rights;
use fusee_abi::image::{self, class, kind};
use fusee_sched::account::GRAIN;
use fusee_sched::key::{Policy as _, PolicyName, PriorityPoint};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{Blocked, On, Part, Unbounded};
use fusee_sched_analysis::decided::{self, Response, System, Work};
use fusee_sched_analysis::{Overheads, Report};
use fusee_spatial::Mechanism;

use super::servers::Waiting;
use super::{Study, analysed, comes_early, unknown};
use crate::resolve::{Resolved, SAVE};

/// The tasks of all clusters that share an engine that its device arbitrates.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    /// The tasks, for the analysis.
    system: System,
    /// The number of each among the system's tasks.
    tasks: Vec<usize>,
    /// The clusters.
    clusters: Vec<usize>,
    /// The device.
    device: usize,
}

/// The account for which a driver comes before all tasks of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Boost {
    /// The driver.
    pub driver: usize,
    /// The name of its device.
    pub device: String,
    /// The longest time in each period, in nanoseconds.
    pub most: u64,
    /// The period, in nanoseconds.
    pub period: u64,
}

/// The engines of the image that are parts of the engine that clusters share, if its device decides.
fn shared(system: &Resolved) -> Option<Vec<usize>> {
    let parts = |engine: usize| unknown::of_one_lock(system, engine);
    let is_across = |parts: &Vec<usize>| {
        let users = || users_of(system, parts);
        users().any(|one| users().any(|other| system.tasks[one].cluster != system.tasks[other].cluster))
    };
    let arbitrated =
        (0..system.engines.len()).filter(|engine| system.arbitrated.get(*engine).is_some_and(Option::is_some));
    arbitrated.map(parts).find(is_across)
}

fn users_of<'a>(system: &'a Resolved, engines: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let users = system.engine_users.iter().filter(|user| engines.contains(&(user.engine as usize)));
    users.map(|user| user.task as usize)
}

/// The tasks of all clusters that share an engine that its device arbitrates, if such an engine exists; or the reason why no bounds are known,
/// in words.
pub(super) fn decided(system: &Resolved, waiting: &Waiting<'_>) -> Option<Result<Decided, String>> {
    let engines = shared(system)?;
    Some(Decided::new(system, waiting, &engines))
}

/// The account with which bounds for a device that decides for several clusters are known, if its driver has none.
pub(crate) fn needed_boost(system: &Resolved) -> Option<Boost> {
    shared(system)?;
    let decided = decided(system, &Waiting::new(system))?.ok()?;
    let driver = system.devices[decided.device].driver;
    let is_server = system.endpoints.iter().any(|(_, endpoint)| endpoint.server as usize == driver);
    // Without a bound for all of them, the boosts would only disturb.
    let found = decided.system.responses();
    if is_server || found.iter().any(Option::is_none) {
        return None;
    }
    let period = decided.period(&found)?;
    let most = decided.most(&found, period);
    Some(Boost { driver, device: system.devices[decided.device].name.clone(), most, period })
}

impl Decided {
    fn new(system: &Resolved, waiting: &Waiting<'_>, engines: &[usize]) -> Result<Decided, String> {
        let name = |task: usize| &system.tasks[task].name;
        let users: Vec<usize> = users_of(system, engines).collect();
        let (device, _) = system.engine_places[engines[0]].ok_or("it has no device")?;
        let mut clusters: Vec<usize> = users.iter().map(|task| system.tasks[*task].cluster as usize).collect();
        clusters.sort_unstable();
        clusters.dedup();
        let policy = |cluster: &usize| system.clusters[*cluster].1.policy;
        let one = PolicyName::from_number(policy(&clusters[0])).unwrap_or_default();
        let is_several = |cluster: &&usize| system.clusters[**cluster].1.cpus.count_ones() > 1;
        if let Some(cluster) = clusters.iter().find(is_several) {
            return Err(format!("cluster `{}` has several CPUs", system.clusters[*cluster].0));
        }
        if !matches!(one, PolicyName::Rm | PolicyName::Dm | PolicyName::Fp) {
            return Err(format!("bounds are known under RM, DM and FP only, not under {}", one.name()));
        }
        if clusters.iter().any(|cluster| policy(cluster) != policy(&clusters[0])) {
            return Err("the policies of the clusters differ".to_owned());
        }
        let of_device = |user: &image::EngineUser| {
            system.engine_places[user.engine as usize].is_some_and(|(place, _)| place == device)
        };
        if system.shared_users.iter().any(of_device) {
            return Err("there are clients without a lock".to_owned());
        }
        let is_other = |user: &&image::EngineUser| of_device(user) && !engines.contains(&(user.engine as usize));
        if let Some(user) = system.engine_users.iter().find(is_other) {
            return Err(format!("`{}` uses another engine of the device", name(user.task as usize)));
        }
        if system.devices[device].mechanism == Mechanism::Drain {
            return Err("its blocks run to their end".to_owned());
        }
        if engines.iter().any(|engine| system.engine_ends[*engine].1 > Nanoseconds::ZERO) {
            return Err("it may hang".to_owned());
        }
        driver(system, waiting, device, &users, &clusters)?;
        let mut found = Decided { system: System::default(), tasks: Vec::new(), clusters, device };
        found.system.completion = engines.iter().map(|engine| system.engine_ends[*engine].0).max().unwrap_or_default();
        for record in system.reservations.iter().filter(|record| record.class == class::REAL_TIME) {
            if found.clusters.contains(&(record.cluster as usize)) {
                let task = task(system, waiting, record, engines)?;
                found.system.tasks.push(task);
                found.tasks.push(record.task as usize);
            }
        }
        match users.iter().find(|user| !found.tasks.contains(user)) {
            Some(user) => Err(format!("`{}` has no jobs", name(*user))),
            None => Ok(found),
        }
    }

    /// The longest time that the driver works in a boost period: so much that its account never runs dry. A refill comes a period
    /// after the boost that it is for. Refills that find no place are joined with the last one, until the first comes; those less
    /// than [`GRAIN`] apart are joined in rows, which are shorter than a period here. So used time comes back within three periods.
    fn most(&self, found: &[Option<Response>], period: u64) -> u64 {
        self.commands(found, period).saturating_mul(self.system.completion.0).max(1)
    }

    /// The largest number of ends of commands that the driver works for in three periods of `period`; no account is long enough if
    /// that is not known, as a user without a bound may have ends of many jobs at once.
    fn commands(&self, found: &[Option<Response>], period: u64) -> u64 {
        let commands = self.system.tasks.iter().zip(found).filter_map(|(task, response)| {
            let work = task.work?;
            let Some(response) = response else { return Some(u64::MAX) };
            let window = period.saturating_mul(3).saturating_add(response.longest.0);
            Some(window.div_ceil(task.period.0.max(1)).saturating_mul(work.commands).saturating_add(1))
        });
        commands.fold(0, u64::saturating_add)
    }

    /// A period for boosts, in which rows of refills end and the driver does not work all the time.
    fn period(&self, found: &[Option<Response>]) -> Option<u64> {
        let periods = (0..14).map(|power| 1_000_000u64 << power);
        // A boost begins with an end, and again with each change of those that wait for the driver.
        let rows = |period: u64| self.commands(found, period).saturating_mul(4 * GRAIN.0);
        periods.into_iter().find(|period| rows(*period) < *period && self.most(found, *period) <= *period)
    }

    /// The reason why the driver may not come before all tasks when it has to.
    fn lacks_boost(&self, system: &Resolved, found: &[Option<Response>]) -> Option<String> {
        let driver = system.devices[self.device].driver;
        let mut accounts = system.endpoints.iter().filter(|(_, endpoint)| endpoint.server as usize == driver);
        let (Some((_, account)), None) = (accounts.next(), accounts.next()) else {
            return Some("its driver does not come before the tasks of each".to_owned());
        };
        let period = account.boost_period();
        let is_long = account.service_period > 0 && account.service_max >= self.most(found, period);
        let has_rows = self.commands(found, period).saturating_mul(4 * GRAIN.0) < period;
        (!is_long || !has_rows).then(|| "its driver comes before the tasks of each for too short a time".to_owned())
    }

    /// Whether the tasks of the cluster with this index are among them.
    pub(super) fn has(&self, cluster: usize) -> bool {
        self.clusters.contains(&cluster)
    }

    /// The task on whose declarations the others rely, with no mechanism that enforces these.
    pub(super) fn untrusted(&self, task: usize) -> Option<usize> {
        let relies = |(other, one): (&usize, &decided::Task)| {
            let waits = one.work.is_some() || one.suspends > Nanoseconds::ZERO;
            (*other != task && waits && !one.keeps_word).then_some(*other)
        };
        self.tasks.iter().zip(&self.system.tasks).find_map(relies)
    }

    /// The tasks that share the engine, among the system's.
    pub(super) fn bounds(&self) -> Vec<Option<Response>> {
        self.system.responses()
    }

    /// The report on the cluster of `study`, and the waits of its tasks.
    pub(super) fn analyse(
        &self,
        study: &Study,
        overheads: &Overheads,
        engine: usize,
    ) -> Result<(Report, Vec<Blocked>), Unbounded> {
        if *overheads != Overheads::default() {
            return Err(Unbounded::NoBound(On::Engine(engine)));
        }
        let place = |task: &usize| self.tasks.iter().position(|other| other == task);
        let members: Vec<usize> = study.members.iter().filter_map(place).collect();
        let found = self.bounds();
        let report = decided::report(&study.cluster, &self.system, &members);
        let report = report.map_err(|why| Unbounded::Infeasible(why, Vec::new()))?;
        let number = |at: usize| study.order.iter().position(|task| *task == self.tasks[at]).unwrap_or(at);
        let blocked = |at: &usize| {
            let (task, response) = (&self.system.tasks[*at], found[*at].unwrap_or_default());
            let Some(work) = task.work else { return Blocked { suspends: task.suspends, ..Blocked::default() } };
            let ends = self.system.completion.0.saturating_mul(work.commands);
            let blocking = Nanoseconds(response.device.0.saturating_add(response.driver.0));
            // Without a rival on the device it is the driver that works, for any other user.
            let mut users =
                (0..self.tasks.len()).filter(|other| other != at && self.system.tasks[*other].work.is_some());
            let largest = response.rival.or_else(|| users.next()).map_or(usize::MAX, number);
            let part = Part { on: On::Engine(engine), span: blocking, largest };
            Blocked {
                requests: u32::try_from(work.commands).unwrap_or(u32::MAX),
                operations: Nanoseconds(work.operations.0.saturating_add(ends)),
                suspends: task.suspends,
                blocking,
                // The driver runs on the budget of any job that waits for it.
                lends: response.driver,
                parts: if blocking > Nanoseconds::ZERO { vec![part] } else { Vec::new() },
                ..Blocked::default()
            }
        };
        Ok((report, members.iter().map(blocked).collect()))
    }
}

/// The task of a reservation, for the analysis.
fn task(
    system: &Resolved,
    waiting: &Waiting<'_>,
    record: &image::Reservation,
    engines: &[usize],
) -> Result<decided::Task, String> {
    let number = record.task as usize;
    let name = &system.tasks[number].name;
    if comes_early(record) || record.covers_engines != 0 || waiting.is_special(number) {
        return Err(format!("`{name}` is a node, has further lives or budgets in advance, or pays for engines"));
    }
    let uses = system.engine_users.iter().zip(&system.engine_holds);
    let mut uses = uses.filter(|(user, _)| user.task as usize == number && engines.contains(&(user.engine as usize)));
    let is_alone = waiting.is_alone(number);
    let keeps_word = waiting.keeps_word(number, is_alone);
    let work = match (uses.next(), uses.next()) {
        (None, _) if is_alone => None,
        (None, _) => return Err(format!("`{name}` shares something else")),
        (Some((user, Some(hold))), None) => {
            if hold.tokens != 0 || !waiting.uses_only(number, engines) {
                return Err(format!("`{name}` shares something else"));
            }
            // A hold has a command at least, also where `commands` is not written: one number is for costs on the device and for ends.
            let commands = hold.commands;
            Some(Work {
                operations: hold.operations,
                switching: Nanoseconds(commands.saturating_mul(switching(system, user))),
                commands,
                rank: point(system, record),
                ..Work::default()
            })
        }
        _ => return Err(format!("`{name}` does not say how long it uses the engine, or uses it in two ways")),
    };
    // A job that sleeps and says nothing of it goes on with a new chunk of its budget. By the theorem of accounts chunks ask for no more than a
    // sporadic task, and one of a higher priority that is ready executes at once: so it needs no jitter, also where keys are constant
    // (`fusee_sched_analysis::suspension`). Nothing is said of the job that sleeps: it is not proved then (`Study::uncounted`).
    let waits = work.is_some() || system.suspends[number] > Nanoseconds::ZERO;
    if let Some(why) = waiting.uncounted(number).into_iter().next().filter(|_| waits) {
        return Err(format!("of `{name}`, {why}"));
    }
    Ok(decided::Task {
        cpu: record.cluster as usize,
        execution: Nanoseconds(record.budget),
        suspends: system.suspends[number],
        period: Nanoseconds(record.period),
        priority: point(system, record),
        keeps_word,
        work,
    })
}

/// The time by which a command of `user` delays those of others besides its own time: its room may be taken on one unit after the
/// other, and saved state is restored. A restore that is under way when a command arrives, and the save after it, are in its own time: for
/// each command `Mechanism::delay` has the rest of one restore and a save ([`Work::operations`]).
fn switching(system: &Resolved, user: &image::EngineUser) -> u64 {
    let place = system.engine_places[user.engine as usize];
    let room = place.map_or(0, |(device, _)| system.devices[device].mechanism.delay(SAVE, u64::MAX));
    room.saturating_add(SAVE)
}

/// The constant point of the jobs of a reservation.
fn point(system: &Resolved, record: &image::Reservation) -> u64 {
    let policy = PolicyName::from_number(system.clusters[record.cluster as usize].1.policy).unwrap_or_default();
    match policy.priority_point(&analysed(record).parameters(1)) {
        PriorityPoint::Constant(point) => point,
        PriorityPoint::AfterRelease(_) => 0,
    }
}

/// Whether the driver of `device` works for nobody but the ends of commands of `users`.
fn driver(
    system: &Resolved,
    waiting: &Waiting<'_>,
    device: usize,
    users: &[usize],
    clusters: &[usize],
) -> Result<(), String> {
    let driver = system.devices[device].driver;
    let name = |task: usize| &system.tasks[task].name;
    let has_others = system.devices.iter().filter(|other| other.driver == driver).count() > 1;
    if has_others || system.has_lives(driver) {
        return Err(format!("driver `{}` has other devices or further lives", name(driver)));
    }
    let heard = |one: &image::Handle| one.kind == kind::NOTIFICATION && one.rights & rights::WAIT != 0;
    let told = |object: u32| {
        let mut signals =
            system.handles.iter().filter(|one| one.task as usize == driver && one.kind == kind::NOTIFICATION);
        signals.any(|one| one.object == object && one.rights & rights::SIGNAL != 0)
    };
    let mut others = system.handles.iter().filter(|one| heard(one) && told(one.object));
    let is_user = |task: usize| users.contains(&task) || task == driver;
    if let Some(other) = others.find(|one| !is_user(one.task as usize)) {
        return Err(format!("`{}` waits for driver `{}`, too", name(other.task as usize), name(driver)));
    }
    for cluster in clusters {
        if waiting.above(*cluster, &mut Vec::new()) != Ok(Vec::new()) {
            return Err(format!("a server is boosted in cluster `{}`", system.clusters[*cluster].0));
        }
    }
    Ok(())
}

impl Study {
    /// The users of the engine that the cluster shares with others, as they are counted here, if its device decides.
    pub(super) fn users_of_decided(&self) -> Option<impl Iterator<Item = usize>> {
        let share = self.decided.as_ref()?;
        Some(self.locks.engines[share.engine].users.iter().map(|user| user.task))
    }

    /// The tasks of all clusters that share an engine with this one, for the analysis, and their numbers among the system's; if that
    /// engine's device decides, and bounds are known.
    #[must_use]
    pub fn decided(&self) -> Option<(&System, &[usize])> {
        self.decided.as_ref().map(|share| (&share.all.system, share.all.tasks.as_slice()))
    }
}

/// The facts that the analysis of a cluster has of an engine that its device arbitrates for several clusters.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// All tasks that share it.
    pub all: Decided,
    /// The index of the engine in the locks.
    pub engine: usize,
}

/// The reason why the time that jobs wait for `engines` is unknown, if clusters share them and their device decides.
pub(super) fn unknown(system: &Resolved, engines: &[usize]) -> Option<Option<String>> {
    let parts = shared(system).filter(|parts| engines.iter().any(|engine| parts.contains(engine)))?;
    let waiting = Waiting::new(system);
    Some(match Decided::new(system, &waiting, &parts) {
        Ok(all) => all.lacks_boost(system, &all.bounds()),
        Err(why) => Some(why),
    })
}
