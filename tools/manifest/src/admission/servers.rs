//! Calls, waits and sleeps: those that a manifest declares, and those that it does not.
//!
//! A job of a scripted task executes its script, so the script is read. For a binary only its handles are known: with one that lets
//! it call or wait it is taken to do so. Any binary may sleep without a handle. The limit `suspends` of its sleeps is the binary's
//! own promise. The kernel moves the key of a job that is suspended for longer, so only its own deadlines depend on the promise; and
//! those of others that are proved with its suspension as jitter, if it is `hard` or trusted.
//!
//! Not here: how long calls take (`fusee_sched_analysis::servers`); proofs that rest on the behaviour of others (`enforced`).

mod enforced;

use fusee_abi::call::rights;
use fusee_abi::image::{self, class, kind, release};
use fusee_abi::script::operation;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Above;
use fusee_sched_analysis::servers::{Caller, Server};

use super::scripts::Excesses;
use super::{analysed, lives, milliseconds, scripts, unknown};
use crate::resolve::{Device, Graph, Resolved};

/// A system, analysed for the waits of its tasks.
pub(super) struct Waiting<'a> {
    system: &'a Resolved,
    /// For each task the endpoints that it calls, and how often in a job or a service, as far as that is declared.
    calls: Vec<Vec<(usize, u32)>>,
    /// For each endpoint why nothing is known of its calls, if that is so.
    problems: Vec<Option<String>>,
    excesses: Excesses,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(system: &'a Resolved) -> Waiting<'a> {
        let problems = vec![None; system.endpoints.len()];
        let mut waiting = Waiting { system, calls: Vec::new(), problems, excesses: Excesses::new(system) };
        waiting.calls = (0..system.tasks.len()).map(|task| waiting.calls_said(task)).collect();
        for endpoint in 0..system.endpoints.len() {
            waiting.problems[endpoint] = waiting.problem(endpoint);
        }
        // Clients of a server wait for everything that the server waits for.
        for _ in 0..system.endpoints.len() {
            for endpoint in 0..system.endpoints.len() {
                let nested =
                    waiting.calls_of(waiting.server(endpoint)).map(|(other, _)| waiting.problems[other].clone());
                let first = nested.flatten().next();
                if waiting.problems[endpoint].is_none() {
                    waiting.problems[endpoint] = first;
                }
            }
        }
        waiting
    }

    //--- Callers and their calls

    fn name(&self, task: usize) -> &str {
        &self.system.tasks[task].name
    }

    fn server(&self, endpoint: usize) -> usize {
        self.system.endpoints[endpoint].1.server as usize
    }

    /// The handles of `task` of this kind with one of these rights: to which objects.
    fn handles(&self, task: usize, kind: u32, rights: u32) -> impl Iterator<Item = &image::Handle> {
        let is_it =
            move |one: &&image::Handle| one.task as usize == task && one.kind == kind && one.rights & rights != 0;
        self.system.handles.iter().filter(is_it)
    }

    fn reservation(&self, task: usize) -> Option<&image::Reservation> {
        self.system.tasks[task].reservation.map(|one| &self.system.reservations[one])
    }

    fn is_real_time(&self, task: usize) -> bool {
        self.reservation(task).is_some_and(|one| one.class == class::REAL_TIME)
    }

    fn cluster(&self, task: usize) -> usize {
        self.system.tasks[task].cluster as usize
    }

    fn is_server(&self, task: usize) -> bool {
        self.handles(task, kind::ENDPOINT, rights::RECEIVE).next().is_some()
    }

    /// The steps of a scripted task with this operation: the objects they are about.
    fn steps(&self, task: usize, operation: u32) -> impl Iterator<Item = usize> {
        let steps = self.system.tasks[task].script.iter().filter(move |step| step.operation == operation);
        steps.filter_map(move |step| self.system.handle(task, step.handle).map(|one| one.object as usize))
    }

    fn is_scripted(&self, task: usize) -> bool {
        !self.system.tasks[task].script.is_empty()
    }

    /// The number of times that a job of `task` declares to call `endpoint`; for a script, the larger of that and the number of its
    /// calls.
    fn times(&self, task: usize, endpoint: usize) -> Option<u32> {
        let said = self.system.calls.iter().filter(|(by, at, _)| (*by, *at) == (task, endpoint));
        let said = said.map(|(_, _, times)| *times).reduce(u32::saturating_add);
        if !self.is_scripted(task) {
            return said;
        }
        let done = self.steps(task, operation::CALL).filter(|at| *at == endpoint).count() as u32;
        said.map(|said| said.max(done)).or((done == 0).then_some(0))
    }

    /// The endpoints that `task` calls, and how often in a job or a service, as far as that is declared.
    fn calls_of(&self, task: usize) -> impl Iterator<Item = (usize, u32)> {
        self.calls[task].iter().copied()
    }

    /// The endpoints that `task` calls, as the manifest declares them.
    fn calls_said(&self, task: usize) -> Vec<(usize, u32)> {
        let called = self.handles(task, kind::ENDPOINT, rights::CALL).map(|handle| handle.object as usize);
        let mut called: Vec<usize> = called.collect();
        called.sort_unstable();
        called.dedup();
        let times = called.into_iter().map(|at| (at, self.times(task, at).unwrap_or(1)));
        times.filter(|(_, times)| *times > 0).collect()
    }

    /// The tasks that call `endpoint` themselves.
    fn callers(&self, endpoint: usize) -> impl Iterator<Item = usize> {
        (0..self.system.tasks.len()).filter(move |task| self.calls_of(*task).any(|(at, _)| at == endpoint))
    }

    /// The tasks whose requests come to `endpoint`, directly or through servers. A server is among them if it has a budget of its
    /// own: it may call while it serves no request.
    fn reach(&self, endpoint: usize) -> Vec<usize> {
        let (mut endpoints, mut tasks) = (vec![endpoint], Vec::new());
        let mut at = 0;
        while at < endpoints.len() {
            for task in self.callers(endpoints[at]) {
                let served = self.handles(task, kind::ENDPOINT, rights::RECEIVE).map(|handle| handle.object as usize);
                let mut is_server = false;
                for other in served {
                    is_server = true;
                    if !endpoints.contains(&other) {
                        endpoints.push(other);
                    }
                }
                let calls_by_itself = !is_server || self.reservation(task).is_some();
                if calls_by_itself && !tasks.contains(&task) {
                    tasks.push(task);
                }
            }
            at += 1;
        }
        tasks
    }

    /// Whether `task` is a passive server that may call others in the background, before its first `receive`.
    fn calls_at_start(&self, task: usize) -> bool {
        self.reservation(task).is_none() && !self.is_scripted(task) && !self.system.keeps_word[task]
    }

    /// The endpoints at which jobs of `task` make requests, directly or through servers.
    fn asked(&self, task: usize) -> Vec<usize> {
        self.with_further(self.calls_of(task).map(|(endpoint, _)| endpoint).collect())
    }

    /// `endpoint`, and those that requests there lead to.
    fn leads_to(&self, endpoint: usize) -> Vec<usize> {
        self.with_further(vec![endpoint])
    }

    /// These endpoints, and those that requests there lead to.
    fn with_further(&self, mut found: Vec<usize>) -> Vec<usize> {
        let mut at = 0;
        while at < found.len() {
            let calls: Vec<usize> = self.calls_of(self.server(found[at])).map(|(other, _)| other).collect();
            found.extend(calls.into_iter().filter(|other| !found.contains(other)).collect::<Vec<_>>());
            at += 1;
        }
        found
    }

    fn clusters(&self, endpoint: usize) -> Vec<usize> {
        let mut clusters: Vec<usize> = self.reach(endpoint).into_iter().map(|task| self.cluster(task)).collect();
        clusters.sort_unstable();
        clusters.dedup();
        clusters
    }

    //--- Unknown times

    /// The reason why the length of calls of `endpoint` is unknown, leaving aside those that its server makes.
    fn problem(&self, endpoint: usize) -> Option<String> {
        let (name, record) = &self.system.endpoints[endpoint];
        let server = self.server(endpoint);
        if record.service_max == 0 {
            return Some(format!("endpoint `{name}` has no `service_max`"));
        }
        if let Some(why) = self.server_problem(server).or_else(|| self.engine_problem(endpoint)) {
            return Some(why);
        }
        let handles = |right: u32| {
            let all =
                self.system.handles.iter().filter(move |one| one.kind == kind::ENDPOINT && one.rights & right != 0);
            all.filter(move |one| one.object as usize == endpoint).map(|one| one.task as usize)
        };
        if let Some(task) = handles(rights::GRANT).next() {
            return Some(format!("`{}` may let any task call `{name}`", self.name(task)));
        }
        let sends = |task: &usize| {
            let does = !self.is_scripted(*task) || self.steps(*task, operation::SEND).any(|at| at == endpoint);
            self.is_real_time(*task) && does
        };
        // A server without a budget cannot be sent to.
        let has_budget = self.reservation(server).is_some();
        if let Some(task) = handles(rights::SEND).find(sends).filter(|_| has_budget) {
            let task = self.name(task);
            return Some(format!("`{task}` may send to `{name}`, which is served on the budget of those who call"));
        }
        if let Some(device) = self.driven(server) {
            let holds = |task: &usize| self.says_how_long_it_holds(*task, device);
            if let Some(task) = self.callers(endpoint).filter(|task| self.is_real_time(*task)).find(|task| !holds(task))
            {
                let (task, device) = (self.name(task), &self.system.devices[device].name);
                return Some(format!("`{task}` calls it, and says nothing of holding an engine of `{device}`"));
            }
        }
        let is_silent = |task: &usize| self.times(*task, endpoint).is_none();
        let mut counted = self.callers(endpoint).filter(|task| self.is_real_time(*task));
        counted.find(is_silent).map(|task| silence(self.name(task), name))
    }

    /// The reason why the time that the server of `endpoint` waits for engines and tokens is unknown, if it waits.
    fn engine_problem(&self, endpoint: usize) -> Option<String> {
        let server = self.server(endpoint);
        let name = self.name(server);
        let used = |kind: u32| self.handles(server, kind, rights::ACQUIRE).map(|one| one.object as usize);
        let (engines, pools) = (used(kind::ENGINE).collect::<Vec<_>>(), used(kind::POOL).collect::<Vec<_>>());
        if engines.is_empty() && pools.is_empty() {
            return None;
        }
        if self.clusters(endpoint).into_iter().any(|cluster| cluster != self.cluster(server)) {
            return Some(format!(
                "server `{name}` holds engines or tokens, and tasks of another cluster than its own call it"
            ));
        }
        let mut reach = self.reach(endpoint).into_iter();
        let pays = |task: &usize| self.reservation(*task).is_some_and(|one| one.covers_engines != 0);
        if let Some(task) = reach.find(pays) {
            return Some(format!(
                "server `{name}` holds engines, and the budget of `{}` pays for engines",
                self.name(task)
            ));
        }
        let mut engines = engines.into_iter().map(|engine| unknown::of_one_lock(self.system, engine));
        let unknown = engines.find_map(|engines| unknown::engines(self.system, &engines));
        let of_pool =
            |pool: usize| unknown::tokens(self.system, pool).or_else(|| unknown::engines_within(self.system, pool));
        unknown.or_else(|| pools.into_iter().find_map(of_pool))
    }

    /// `task`, and the servers that it calls, directly or through others.
    pub(super) fn works_for(&self, task: usize) -> Vec<usize> {
        let servers = self.asked(task).into_iter().map(|endpoint| self.server(endpoint));
        [task].into_iter().chain(servers).collect()
    }

    /// The device that has `server` as its driver and that works on commands of its driver. A caller of such a driver that holds no
    /// engine is refused at once; so the holder of an engine waits for no work of another.
    fn driven(&self, server: usize) -> Option<usize> {
        let is_told = |device: &Device| device.processor.as_ref().is_some_and(|processor| processor.program.is_none());
        self.system.devices.iter().position(|device| device.driver == server && is_told(device))
    }

    fn says_how_long_it_holds(&self, task: usize, device: usize) -> bool {
        let users = self.system.engine_users.iter().zip(&self.system.engine_holds);
        let mut held = users.filter(|(user, hold)| user.task as usize == task && hold.is_some());
        held.any(|(user, _)| self.system.engine_places[user.engine as usize].is_some_and(|(place, _)| place == device))
    }

    /// The reason why the length of services of `server` is unknown.
    fn server_problem(&self, server: usize) -> Option<String> {
        let name = self.name(server);
        let mut served: Vec<u32> =
            self.handles(server, kind::ENDPOINT, rights::RECEIVE).map(|one| one.object).collect();
        served.dedup();
        if served.len() > 1 {
            return Some(format!("`{name}` serves several endpoints"));
        }
        if self.reservation(server).is_some_and(|one| one.release != release::NONE) {
            return Some(format!("server `{name}` has jobs of its own"));
        }
        if self.is_scripted(server) && !scripts::serves(&self.system.tasks[server].script) {
            return Some(format!("the script of server `{name}` does more than to serve"));
        }
        let waits = |of: u32, right: u32| {
            // A script is read instead. Completions belong to operations, which `uses` declares.
            let mut handles = self.handles(server, of, right).filter(|one| !self.system.is_completion(one));
            !self.is_scripted(server) && handles.next().is_some()
        };
        // For its device a driver waits while its client holds the engine, with a declared length.
        if self.driven(server).is_none() && waits(kind::NOTIFICATION, rights::WAIT) {
            return Some(format!("server `{name}` may wait for notifications"));
        }
        if waits(kind::ENDPOINT, rights::SEND) {
            return Some(format!("server `{name}` may wait for those to whom it sends"));
        }
        let silent = self.calls_of(server).find(|(at, _)| self.times(server, *at).is_none());
        silent.map(|(at, _)| silence(name, &self.system.endpoints[at].0))
    }

    /// The waits of a job of `task` that its bound does not count.
    pub(super) fn uncounted(&self, task: usize) -> Vec<String> {
        let system = self.system;
        let mut found = Vec::new();
        let suspends = self.reservation(task).map_or(0, |_| system.suspends[task].0);
        let is_scripted = self.is_scripted(task);
        for (endpoint, times) in self.calls_of(task) {
            let name = &system.endpoints[endpoint].0;
            match &self.problems[endpoint] {
                Some(why) => found.push(format!("it calls `{name}`, and {why}")),
                None if times > 0 && self.times(task, endpoint).is_none() => found.push(format!("it calls `{name}`")),
                None => {}
            }
        }
        let sent = self.handles(task, kind::ENDPOINT, rights::SEND).map(|one| one.object as usize);
        for endpoint in sent.filter(|at| !is_scripted || self.steps(task, operation::SEND).any(|other| other == *at)) {
            let name = &system.endpoints[endpoint].0;
            found.push(format!("it sends to `{name}`, and how long that is not taken is not bounded"));
        }
        for handle in self.handles(task, kind::ENDPOINT, rights::RECEIVE) {
            let endpoint = handle.object as usize;
            let is_said = system.calls.iter().any(|(by, at, _)| (*by, *at) == (task, endpoint)) && suspends > 0;
            let receives = [operation::SERVE, operation::RECEIVE, operation::REPLY];
            if !is_said && (!is_scripted || receives.iter().any(|one| self.steps(task, *one).any(|at| at == endpoint)))
            {
                let name = &system.endpoints[endpoint].0;
                found.push(format!(
                    "it waits for requests at `{name}`, for how long is not said in `uses` and `suspends`"
                ));
            }
        }
        for handle in self.handles(task, kind::NOTIFICATION, rights::WAIT) {
            let notification = handle.object as usize;
            let is_said = system.waits.contains(&(task, notification)) && suspends > 0;
            let waits = !is_scripted || self.steps(task, operation::WAIT).any(|at| at == notification);
            let tells = self.is_completion(task, notification) || self.is_room(task, notification);
            if waits && !is_said && !tells {
                let name = &system.notifications[notification].0;
                found.push(format!("it waits for `{name}`, for how long is not said in `uses` and `suspends`"));
            }
        }
        found.extend(self.lent_elsewhere(task));
        for graph in &system.graphs {
            let own = graph.objects.iter().filter(|object| graph.nodes[object.writer].0 == task);
            found.extend(own.filter_map(|object| object.short.clone()));
        }
        let (steps, _) = scripts::written(system, task);
        // A sleep ends so long after the release, whatever came before it; a pause is added.
        let slept = steps.iter().filter(|step| step.operation == operation::SLEEP).map(|step| step.value).max();
        let pauses = steps.iter().filter(|step| step.operation == operation::PAUSE).map(|step| step.value);
        let paused = pauses.fold(0, u64::saturating_add);
        let longest = slept.unwrap_or(0).saturating_add(paused);
        if longest > suspends {
            let (longest, said) = (milliseconds(longest), milliseconds(suspends));
            found.push(format!("it sleeps for up to {longest}, and its `suspends` is {said}"));
        }
        found.extend(lives::uncounted(system, task));
        if !self.excesses.is_empty() {
            found.extend(self.excesses.concerning(system, task, &self.asked(task)));
        }
        found
    }

    /// A task of another cluster that may wait for a notification bound to `task`, which then runs there, with that one's key.
    fn lent_elsewhere(&self, task: usize) -> Option<String> {
        let system = self.system;
        let own = system.notifications.iter().enumerate();
        let mut own = own.filter(|(_, (_, one))| one.bound_plus_one as usize == task + 1);
        own.find_map(|(notification, (name, _))| {
            let of_it = |one: &&image::Handle| one.kind == kind::NOTIFICATION && one.object as usize == notification;
            let may = system.handles.iter().filter(of_it);
            let may = may.filter(|one| one.rights & (rights::WAIT | rights::GRANT) != 0).map(|one| one.task as usize);
            let waits = |other: &usize| {
                !self.is_scripted(*other) || self.steps(*other, operation::WAIT).any(|at| at == notification)
            };
            let mut elsewhere = may.filter(|other| self.cluster(*other) != self.cluster(task)).filter(waits);
            let (who, own) = (self.name(elsewhere.next()?), self.name(task));
            Some(format!(
                "`{who}` of another cluster may wait for `{name}`, which is bound to `{own}`: it runs there meanwhile"
            ))
        })
    }

    /// Whether `notification` signals free frames to `task`, as a node of a graph. Whether the task ever waits for one is decided
    /// for each object.
    fn is_room(&self, task: usize, notification: usize) -> bool {
        let own = self.system.graphs.iter().filter(|graph| graph.nodes.iter().any(|(node, _)| *node == task));
        let room = |graph: &Graph| format!("{}.{}", graph.name, self.name(task));
        own.map(room).any(|room| room == self.system.notifications[notification].0)
    }

    /// Whether `notification` signals the ends of operations of `task`: its driver signals it. The lengths of these are declared in
    /// `uses`.
    fn is_completion(&self, task: usize, notification: usize) -> bool {
        let mut handles = self.handles(task, kind::NOTIFICATION, rights::WAIT);
        handles.any(|one| one.object as usize == notification && self.system.is_completion(one))
    }

    //--- Suspensions

    /// Whether `task` is a node of a graph, which waits for frames; gives others further lives, and waits for them to begin; or may
    /// have further lives, which begin in the middle of a job.
    pub(super) fn is_special(&self, task: usize) -> bool {
        let is_node = self.system.graphs.iter().any(|graph| graph.nodes.iter().any(|(node, _)| *node == task));
        is_node || self.system.supervisor == Some(task) || self.system.has_lives(task)
    }

    /// Whether `task` waits for no other thread, and no thread for it.
    pub(super) fn is_alone(&self, task: usize) -> bool {
        let kinds = [kind::ENDPOINT, kind::NOTIFICATION, kind::ENGINE, kind::POOL];
        let holds = |one: &image::Handle| one.task as usize == task && kinds.contains(&one.kind);
        let serves = |at: usize| self.server(at) == task;
        let drives = self.system.devices.iter().any(|device| device.driver == task);
        let is_waited_for = (0..self.system.endpoints.len()).any(serves) || self.signallers().contains(&task) || drives;
        !is_waited_for && !self.system.handles.iter().any(holds)
    }

    /// Whether `task` waits for nothing but the ends of its commands on `engines`, and no thread waits for it.
    pub(super) fn uses_only(&self, task: usize, engines: &[usize]) -> bool {
        let is_it = |one: &image::Handle| match one.kind {
            kind::ENGINE => engines.contains(&(one.object as usize)),
            kind::NOTIFICATION => one.rights & rights::WAIT == 0 || self.system.is_completion(one),
            kind::ENDPOINT | kind::POOL => false,
            _ => true,
        };
        let serves = (0..self.system.endpoints.len()).any(|at| self.server(at) == task);
        let drives = self.system.devices.iter().any(|device| device.driver == task);
        let mut handles = self.system.handles.iter().filter(|one| one.task as usize == task);
        !serves && !drives && !self.signallers().contains(&task) && handles.all(is_it)
    }

    /// Whether others may rely on the declarations of `task`. A script whose steps are within them does nothing else; but the length
    /// of a wait for others is no part of it.
    pub(super) fn keeps_word(&self, task: usize, is_alone: bool) -> bool {
        self.system.keeps_word[task] || is_alone && self.is_scripted(task)
    }

    /// Whether no job of `task` is suspended for longer than declared while jobs with earlier keys use their allowances: it keeps its
    /// word, or each of its sleeps ends with a new key.
    pub(super) fn sleeps_as_said(&self, task: usize) -> bool {
        let is_alone = self.is_alone(task);
        self.keeps_word(task, is_alone) || is_alone && self.system.suspends[task].0 == 0
    }

    //--- For the analysis

    /// The servers that tasks of the cluster called `index` use, with their callers, and the names of the servers. `number`: tasks
    /// as the analysis counts them. Tasks of other clusters whose response times are assumed come to `assumed`.
    pub(super) fn servers(
        &self,
        index: usize,
        number: impl Fn(usize) -> Option<usize>,
        assumed: &mut Vec<usize>,
    ) -> (Vec<Server>, Vec<String>) {
        let endpoints = 0..self.system.endpoints.len();
        let is_used = |at: &usize| self.clusters(*at).contains(&index);
        let is_asked = |at: usize| self.leads_to(at).into_iter().any(|at| is_used(&at));
        let used: Vec<usize> = endpoints.filter(|at| self.problems[*at].is_none() && is_asked(*at)).collect();
        let mut servers = Vec::new();
        for at in &used {
            let record = &self.system.endpoints[*at].1;
            let clusters = self.clusters(*at);
            let is_shared = clusters.len() > 1;
            // A passive server without requests of this cluster may call in the background, until its first `receive`; another one
            // is counted with its calls.
            let is_counted = |task: usize| used.iter().any(|at| self.server(*at) == task);
            let at_start = |task: usize| self.calls_at_start(task) && !is_counted(task);
            let callers = self.callers(*at).filter(|task| !self.is_server(*task) || at_start(*task));
            let mut caller = |task: usize| {
                let is_foreign = self.is_real_time(task) && self.cluster(task) != index;
                let jobs = self.reservation(task).filter(|_| is_foreign).map(|one| {
                    assumed.push(task);
                    (Nanoseconds(one.period), Nanoseconds(one.deadline))
                });
                let times = if self.is_real_time(task) { self.times(task, *at).unwrap_or(1) } else { 1 };
                Some(Caller { task: number(task)?, times, jobs })
            };
            let callers = callers.filter_map(&mut caller).collect();
            let calls = self.calls_of(self.server(*at));
            let calls = calls.filter_map(|(other, times)| Some((used.iter().position(|one| *one == other)?, times)));
            let is_bounded = !is_shared || self.is_boosted_at_once(*at, index);
            let elsewhere = Nanoseconds(if is_shared { record.boost_period() } else { 0 });
            let service = Nanoseconds(record.service_max);
            let kinds = [kind::ENGINE, kind::POOL].into_iter();
            let holds = kinds.flat_map(|kind| self.handles(self.server(*at), kind, rights::ACQUIRE)).next();
            let task = holds.and_then(|_| number(self.server(*at)));
            servers.push(Server { task, service, elsewhere, calls: calls.collect(), callers, is_shared, is_bounded });
        }
        (servers, used.iter().map(|at| self.system.endpoints[*at].0.clone()).collect())
    }

    /// Whether `endpoint`, which several clusters share, is served at once in the others when a job of cluster `index` waits: it is
    /// boosted there, and no more servers are than there are CPUs.
    fn is_boosted_at_once(&self, endpoint: usize, index: usize) -> bool {
        // A server that another calls is boosted for that one; but a client that waits for a server that waits for another may not be
        // seen there.
        let is_nested = self.calls_of(self.server(endpoint)).next().is_some();
        let shared: Vec<Vec<usize>> = (0..self.system.endpoints.len()).map(|at| self.clusters(at)).collect();
        let boosted = |cluster: usize| shared.iter().filter(|all| all.len() > 1 && all.contains(&cluster)).count();
        let cpus = |cluster: usize| self.system.clusters[cluster].1.cpus.count_ones() as usize;
        !is_nested && shared[endpoint].iter().all(|other| *other == index || boosted(*other) <= cpus(*other))
    }

    /// The time that servers execute above all tasks of the cluster `index`, by the declarations; or the reason why it is not
    /// bounded.
    pub(super) fn above(&self, index: usize, assumed: &mut Vec<usize>) -> Result<Vec<Above>, String> {
        let mut found = Vec::new();
        for (at, (name, record)) in self.system.endpoints.iter().enumerate() {
            let reach = self.reach(at);
            let is_here = |task: &&usize| self.cluster(**task) == index;
            let is_shared = reach.iter().any(|task| self.cluster(*task) != index);
            let server = self.server(at);
            let is_home = self.reservation(server).is_some() && self.cluster(server) == index;
            if !is_shared || (!is_home && !reach.iter().any(|task| is_here(&task))) {
                continue;
            }
            if record.service_max == 0 {
                continue;
            }
            let span = Nanoseconds(record.service_max);
            if record.service_period > 0 {
                let period = Nanoseconds(record.service_period);
                found.push(Above { span, period, jitter: Nanoseconds::ZERO });
                continue;
            }
            if let Some(why) = &self.problems[at] {
                return Err(format!("`{}` is boosted here, and {why}", self.name(server)));
            }
            let (here, elsewhere): (Vec<usize>, Vec<usize>) =
                reach.iter().partition(|task| self.cluster(**task) == index);
            let has_jobs = |task: &usize| self.is_real_time(*task);
            let others_here = !here.iter().all(has_jobs);
            if others_here && !elsewhere.iter().all(has_jobs) {
                return Err(format!(
                    "`{}` is boosted here, and endpoint `{name}` has no `service_period`",
                    self.name(server)
                ));
            }
            // Services for jobs of this cluster; of others, one at most for each request from elsewhere.
            let sources = here.iter().chain(elsewhere.iter().filter(|_| others_here));
            for task in sources.copied().filter(|task| self.is_real_time(*task)) {
                let Some(one) = self.reservation(task) else { continue };
                let requests = self.requests(task, at);
                assumed.push(task);
                let span = Nanoseconds(span.0.saturating_mul(requests));
                found.push(Above { span, period: Nanoseconds(one.period), jitter: Nanoseconds(one.deadline) });
            }
        }
        Ok(found)
    }

    /// The number of requests that one job of `task` makes at `endpoint`, directly or through servers, which call each other in no
    /// circle.
    fn requests(&self, task: usize, endpoint: usize) -> u64 {
        fn of(waiting: &Waiting<'_>, task: usize, endpoint: usize, depth: usize) -> u64 {
            let each = waiting.calls_of(task).map(|(at, times)| {
                let more = match (at == endpoint, depth) {
                    (true, _) => 1,
                    (false, 0) => 0,
                    _ => of(waiting, waiting.server(at), endpoint, depth - 1),
                };
                u64::from(times).saturating_mul(more)
            });
            each.fold(0, u64::saturating_add)
        }
        of(self, task, endpoint, fusee_kernel_core::limits::CHAIN_MAX)
    }

    /// The tasks whose jobs have `server` work for them, and how many services it is for a job.
    pub(super) fn requests_to(&self, server: usize) -> Vec<(usize, u64)> {
        let served = self.handles(server, kind::ENDPOINT, rights::RECEIVE).map(|one| one.object as usize);
        let requests = |endpoint: usize| {
            let tasks = self.reach(endpoint).into_iter();
            tasks.map(move |task| (task, self.requests(task, endpoint)))
        };
        served.flat_map(requests).collect()
    }

    /// Tasks that may have the priority of another while they call a server: tasks whose signals others wait for.
    pub(super) fn signallers(&self) -> Vec<usize> {
        let bound = self.system.notifications.iter().filter_map(|(_, one)| one.bound_plus_one.checked_sub(1));
        bound.map(|task| task as usize).collect()
    }
}

/// The complaint about a caller that declares nothing, with the place for the declaration.
fn silence(task: &str, endpoint: &str) -> String {
    format!("`{task}` does not say in its `uses` how often it calls `{endpoint}`")
}
