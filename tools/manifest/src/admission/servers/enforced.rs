//! Proofs that hold for any behaviour of other tasks: the reasons why some do not.

use std::iter;

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind, release};
use fusee_abi::script::operation;
use fusee_sched::key::PolicyName;

use super::Waiting;
use super::analysed;
use crate::admission::scripts;
use crate::resolve::Graph;

impl Waiting<'_> {
    /// Whether `task` may call with the priority of jobs that wait for an object that it holds, serves or signals. While it holds
    /// an engine or a token, it calls where it has the right `inside`.
    fn may_inherit(&self, task: usize) -> bool {
        let holds = || {
            let kinds = [kind::ENGINE, kind::POOL].into_iter();
            kinds.flat_map(|kind| self.handles(task, kind, rights::ACQUIRE)).next().is_some()
        };
        let mut inside = self.handles(task, kind::ENDPOINT, rights::INSIDE);
        inside.any(|handle| handle.rights & rights::CALL != 0) && holds()
            || self.is_server(task)
            || self.signallers().contains(&task)
    }

    /// The reason why the deadlines of `task` rest on the behaviour of other clients of its servers, which nothing enforces.
    pub(in crate::admission) fn unenforced(&self, task: usize) -> Option<String> {
        let index = self.cluster(task);
        let mut asked = self.asked(task);
        asked.sort_unstable();
        for endpoint in asked {
            let name = &self.system.endpoints[endpoint].0;
            // `serve` computes for as long as a request asks.
            let server = self.server(endpoint);
            let obeys = self.system.tasks[server].script.iter().any(|step| step.operation == operation::SERVE);
            let works = self.works_for(task);
            let is_free =
                |other: &usize| !self.is_scripted(*other) && !self.system.keeps_word[*other] && !works.contains(other);
            if let Some(other) = self.callers(endpoint).find(|other| obeys && is_free(other)) {
                let (who, server) = (self.name(other), self.name(server));
                return Some(format!(
                    "`{who}` may ask `{server}` for a longer service than the `service_max` of `{name}`"
                ));
            }
            for other in self.reach(endpoint).into_iter().filter(|other| *other != task) {
                let who = self.name(other);
                if self.may_inherit(other) {
                    return Some(format!(
                        "`{who}` may call `{name}` with the priority of a job that waits for what it holds"
                    ));
                }
                let is_after = self.cluster(other) == index && self.comes_after(task, other);
                if self.is_real_time(other) && !is_after && !self.system.keeps_word[other] {
                    let task = self.name(task);
                    return Some(format!(
                        "`{who}` may call `{name}` before `{task}` again and again; is it `hard`, or to be `trusted`?"
                    ));
                }
                if self.cluster(other) != index && self.system.endpoints[endpoint].1.service_period == 0 {
                    return Some(format!("`{who}` of another cluster calls `{name}`, which has no `service_period`"));
                }
            }
        }
        let heard = || self.unheard(task).or_else(|| self.drained(task));
        let devices = || heard().or_else(|| self.unmanaged(task)).or_else(|| self.driven_by_jobs(task));
        let devices = || devices().or_else(|| self.pays_unnoticed(task));
        self.ended(task).or_else(devices)
    }

    /// A task that runs on the budget of a driver, for which `task` or a server for it waits: the driver waits for its interrupt, and that is bound.
    fn drained(&self, task: usize) -> Option<String> {
        let system = self.system;
        let mut drivers = self.engines_for(task).filter_map(|user| system.driver_of(user.engine as usize));
        drivers.find_map(|driver| {
            let interrupts = self.handles(driver, kind::INTERRUPT, rights::ACKNOWLEDGE);
            let mut notified = interrupts.map(|one| system.interrupts[one.object as usize].1.notification as usize);
            notified.find_map(|at| {
                let (notification, record) = &system.notifications[at];
                let by = (record.bound_plus_one as usize).checked_sub(1)?;
                let (by, driver) = (self.name(by), self.name(driver));
                Some(format!("`{by}` runs on the budget of driver `{driver}`, as `{notification}` is bound to it"))
            })
        })
    }

    /// The uses of engines by `task` and by servers that work for it.
    fn engines_for(&self, task: usize) -> impl Iterator<Item = &image::EngineUser> {
        let works = self.works_for(task);
        self.system.engine_users.iter().filter(move |user| works.contains(&(user.task as usize)))
    }

    /// Whether the driver of a device that `task` uses, or a server for it, has jobs of its own: it serves the device when these are released.
    fn driven_by_jobs(&self, task: usize) -> Option<String> {
        let mut drivers = self.engines_for(task).filter_map(|user| self.system.driver_of(user.engine as usize));
        let has_jobs = |driver: &usize| self.reservation(*driver).is_some_and(|one| one.release != release::NONE);
        let driver = drivers.find(has_jobs)?;
        Some(format!("driver `{}` has jobs of its own", self.name(driver)))
    }

    /// Whether the budget of `task` pays for an operation that may go on after the release of its engine. Its end is noticed once the driver has
    /// acknowledged earlier interrupts of the device. No thread waits for the driver then, so jobs of any key may keep the driver from it, and the budget
    /// pays until it runs.
    fn pays_unnoticed(&self, task: usize) -> Option<String> {
        let system = self.system;
        let mut uses = system.engine_users.iter().filter(|user| user.task as usize == task);
        self.reservation(task).filter(|one| one.covers_engines != 0)?;
        let driver = self.name(uses.find_map(|user| system.driver_of(user.engine as usize))?);
        let may_release = !self.is_scripted(task) || scripts::starts(system, task);
        let task = self.name(task);
        may_release.then(|| {
            format!("`{task}` may release an engine at work, and pays for it until driver `{driver}` has time to notice its end")
        })
    }

    /// Whether the locks of engines that `task` uses, or a server for it, are there in name only.
    fn unmanaged(&self, task: usize) -> Option<String> {
        let system = self.system;
        let engines = self.engines_for(task);
        let engine =
            engines.map(|user| &system.engines[user.engine as usize]).find(|(_, one)| one.interrupt_plus_one != 0);
        let (engine, _) = engine.filter(|_| !system.managed)?;
        Some(format!("with `managed = false` the lock of engine `{engine}` keeps nobody from it"))
    }

    /// A task that may take from the driver of a device that `task` uses, or a server for it, the notice that an operation has ended.
    fn unheard(&self, task: usize) -> Option<String> {
        let system = self.system;
        let engines = self.engines_for(task);
        let devices = engines.filter_map(|user| system.engine_places[user.engine as usize]);
        let mut found = devices.flat_map(|(device, _)| {
            let driver = system.devices[device].driver;
            let interrupts = self.handles(driver, kind::INTERRUPT, rights::ACKNOWLEDGE);
            let notified = interrupts.map(|handle| system.interrupts[handle.object as usize].1.notification);
            // A driver of two tasks leaves the wait to the other one.
            let own =
                move |at: &u32| self.handles(driver, kind::NOTIFICATION, rights::WAIT).any(|one| one.object == *at);
            notified.filter(own).flat_map(move |notification| {
                let is_it = move |one: &&image::Handle| {
                    let may = one.rights & (rights::WAIT | rights::GRANT) != 0;
                    one.kind == kind::NOTIFICATION && one.object == notification && may && one.task as usize != driver
                };
                let others = system.handles.iter().filter(is_it).map(|one| one.task as usize);
                others.map(move |other| (other, driver, notification as usize))
            })
        });
        let waits = |(other, _, notification): &(usize, usize, usize)| {
            !self.is_scripted(*other) || self.steps(*other, operation::WAIT).any(|at| at == *notification)
        };
        let (who, driver, notification) = found.find(waits)?;
        let (who, driver) = (self.name(who), self.name(driver));
        let notification = &system.notifications[notification].0;
        Some(format!("`{who}` may wait for `{notification}`, and then the driver `{driver}` does not hear of it"))
    }

    /// Tasks for which `task` may wait for a free frame of an object that it writes, and that object by its graph and its number:
    /// readers, the writers of tokens that these wait for, and the tasks that may keep one of these waiting.
    fn frames_from(&self, task: usize) -> Vec<(usize, &Graph, usize)> {
        let mut found = Vec::new();
        for graph in &self.system.graphs {
            let writes = |node: usize| {
                let all = graph.objects.iter().enumerate();
                all.filter(move |(_, one)| one.writer == node && !one.overwrites)
            };
            let number = graph.nodes.iter().position(|(node, _)| *node == task);
            for (object, written) in number.into_iter().flat_map(writes) {
                let mut waited: Vec<usize> = written.readers.iter().map(|(reader, _)| *reader).collect();
                let mut at = 0;
                while let Some(node) = waited.get(at).copied() {
                    let producers = graph.edges.iter().filter(|edge| edge.to == node).map(|edge| edge.from);
                    let readers = writes(node).flat_map(|(_, one)| one.readers.iter().map(|(reader, _)| *reader));
                    let more: Vec<usize> = producers.chain(readers).filter(|one| !waited.contains(one)).collect();
                    waited.extend(more);
                    at += 1;
                }
                let tasks = waited.into_iter().map(|node| graph.nodes[node].0).filter(|one| *one != task);
                found.extend(tasks.map(|other| (other, graph, object)));
            }
        }
        found
    }

    /// A task that may keep `task` waiting for a free frame: only a node itself reports its own progress.
    pub(in crate::admission) fn kept_waiting(&self, task: usize) -> Option<String> {
        let mut all = self.frames_from(task).into_iter();
        let (who, graph, object) = all.find(|(other, ..)| !self.system.keeps_word[*other])?;
        let (graph, object, who) = (&graph.name, &graph.objects[object].name, self.name(who));
        Some(format!(
            "`{who}` may keep `{}` waiting for a frame of `{graph}.{object}`; is it `hard`, or to be `trusted`?",
            self.name(task)
        ))
    }

    /// The task that may end `task` or a node for whose frames it waits, a server that works for one of them, or the driver of a
    /// device that one uses. The supervisor ends a task only to have it begin again.
    fn ended(&self, task: usize) -> Option<String> {
        let system = self.system;
        let is_right = |one: &&image::Handle| one.kind == kind::TASK && one.rights & rights::STOP != 0;
        let mut stopping = system.handles.iter().filter(is_right).peekable();
        stopping.peek()?;
        let frames = self.frames_from(task).into_iter().map(|(other, ..)| other);
        let own: Vec<usize> = iter::once(task).chain(frames).collect();
        let of_one = |one: usize| {
            let drivers = self.engines_for(one).filter_map(|user| system.driver_of(user.engine as usize));
            self.works_for(one).into_iter().chain(drivers)
        };
        let needed: Vec<usize> = own.iter().flat_map(|one| of_one(*one)).collect();
        let stops = |handle: &&image::Handle| {
            let (by, target) = (handle.task as usize, handle.object as usize);
            let is_trusted = system.keeps_word[by] || system.supervisor == Some(by);
            let does = !self.is_scripted(by) || self.steps(by, operation::STOP).any(|other| other == target);
            // A script that ends a task ends it, also if others trust the script's task. Servers and drivers may have further lives,
            // and a trusted one ends them at the right time.
            let supervision = system.tasks[target].supervision;
            let has_lives = supervision.starts.is_some() || supervision.is_dormant;
            let is_certain = self.is_scripted(by) && (own.contains(&target) || !has_lives);
            does && (is_certain || !is_trusted && by != target) && needed.contains(&target)
        };
        let found = stopping.find(stops)?;
        let (by, target) = (found.task as usize, self.name(found.object as usize));
        let is_told = system.keeps_word[by];
        let by = self.name(by);
        Some(match is_told {
            true => format!("`{by}` ends `{target}`, as its script says"),
            false => format!("`{by}` may end `{target}`; is it `hard`, or to be `trusted`?"),
        })
    }

    /// Whether keys of `other` are always later than those of `task`, of the same cluster.
    fn comes_after(&self, task: usize, other: usize) -> bool {
        let record = &self.system.clusters[self.cluster(task)].1;
        let policy = PolicyName::from_number(record.policy).unwrap_or_default();
        let one = |task: usize| self.reservation(task).map(analysed);
        one(task).zip(one(other)).is_some_and(|(own, other)| own.always_precedes(&other, policy))
    }

    /// The reason why nothing hard is proved in the cluster `index`: a server is boosted there, and nothing declares how often.
    pub(in crate::admission) fn unbounded_boost(&self, index: usize) -> Option<String> {
        let boosted = self.system.endpoints.iter().enumerate().find(|(at, (_, record))| {
            let clusters = self.clusters(*at);
            let server = self.server(*at);
            let is_home = self.reservation(server).is_some() && self.cluster(server) == index;
            let is_foreign = clusters.iter().any(|other| *other != index);
            record.service_max > 0 && record.service_period == 0 && is_foreign && (is_home || clusters.contains(&index))
        });
        boosted.map(|(at, (name, _))| {
            format!(
                "`{}` is boosted here for other clusters, and endpoint `{name}` has no `service_period`",
                self.name(self.server(at))
            )
        })
    }
}
