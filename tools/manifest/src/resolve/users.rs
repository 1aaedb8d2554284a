//! Users of pools, engines and devices, and the handles that they get without asking.

use std::ops::Range;

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind};
use fusee_accel_contract as contract;
use fusee_accel_contract::EngineIndex;
use fusee_kernel_core::limits;
use toml::Spanned;

use super::handles::{PHYSICAL, READ, WRITE};
use super::{
    Device, Entry,
    Fail::{self, At},
    Of, RegionKind, Resolved, Resolver, plus_one,
};
use crate::error::Reason;
use crate::layout::{self, PAGE};

/// The name of the handle by which tasks kick devices.
pub(super) const KICK: &str = "kick";

impl Resolver<'_> {
    /// Whether `task` may share `pool` with its other users.
    pub(super) fn pool_user(&self, task: usize, pool: usize, place: &Range<usize>) -> Result<(), Fail> {
        let fail = |reason| Err(At(place.clone(), reason));
        let (name, record) = &self.out.pools[pool];
        let one = &self.out.tasks[task];
        if record.crosses == 0 && one.cluster != record.cluster {
            let cluster = self.out.clusters[record.cluster as usize].0.clone();
            return fail(Reason::PoolOfAnotherCluster { pool: name.clone(), cluster, task: one.name.clone() });
        }
        if one.reservation.is_none() {
            return fail(Reason::Needs {
                what: "pool",
                of: one.name.clone(),
                needs: "a budget, or the class background",
            });
        }
        if record.crosses != 0 && !self.out.has_jobs(one) {
            return fail(Reason::Needs { what: "shared pool", of: one.name.clone(), needs: "jobs" });
        }
        let uses = self.out.pool_users.iter();
        let users: Vec<usize> =
            uses.clone().filter(|one| one.pool as usize == pool).map(|one| one.task as usize).collect();
        if users.contains(&task) {
            return fail(Reason::LockTwice { task: one.name.clone(), kind: "pool", name: name.clone() });
        }
        let of_task = uses.clone().filter(|one| one.task as usize == task).count();
        let crowded = |kind, name: &String, what, limit| Reason::Crowded { kind, name: name.clone(), what, limit };
        match () {
            () if users.len() >= limits::USERS_PER_POOL => fail(crowded("pool", name, "users", limits::USERS_PER_POOL)),
            () if of_task >= limits::POOLS_PER_TASK => {
                fail(crowded("task", &one.name, "pools", limits::POOLS_PER_TASK))
            }
            () if uses.count() >= limits::POOL_USERS => {
                fail(Reason::TooMany { what: "uses of pools", limit: limits::POOL_USERS })
            }
            () => Ok(()),
        }
    }

    /// A user of an engine that needs a token can have one; and where a cluster shares a pool with others, there is a place for
    /// each of its jobs.
    pub(super) fn sharing(&mut self) {
        for user in 0..self.out.engine_users.len() {
            let result = self.has_token(self.out.engine_users[user]);
            self.keep(Of::Nothing, result);
        }
        for index in 0..self.out.pools.len() {
            let result = self.has_places(index);
            self.keep(Of::Nothing, result);
        }
    }

    fn has_token(&self, user: image::EngineUser) -> Result<(), Fail> {
        let (task, (engine, record)) = (user.task as usize, &self.out.engines[user.engine as usize]);
        let Some(pool) = record.pool_plus_one.checked_sub(1) else { return Ok(()) };
        self.sound(Of::Handles(task))?;
        if self.out.pool_users.iter().any(|one| one.pool == pool && one.task == user.task) {
            return Ok(());
        }
        let (name, pool) = (&self.file.tasks.0[task].0, self.out.pools[pool as usize].0.clone());
        Err(At(name.span(), Reason::NoToken { engine: engine.clone(), pool, task: name.get_ref().clone() }))
    }

    fn has_places(&self, pool: usize) -> Result<(), Fail> {
        let users = self.out.pool_users.iter().filter(|user| user.pool as usize == pool);
        for user in users.filter(|_| self.out.pools[pool].1.crosses != 0) {
            let cluster = self.out.tasks[user.task as usize].cluster;
            let mates = self.out.tasks.iter().filter(|one| one.cluster == cluster && self.out.has_jobs(one));
            if mates.count() > limits::PENDING_JOBS {
                let (name, limit) = (self.out.clusters[cluster as usize].0.clone(), limits::PENDING_JOBS);
                let reason = Reason::Crowded { kind: "sharing cluster", name, what: "tasks with jobs", limit };
                return Err(At(self.file.pools.0[pool].0.span(), reason));
            }
        }
        Ok(())
    }

    pub(super) fn engine_user(
        &mut self,
        task: usize,
        engine: usize,
        name: &Spanned<String>,
        place: &Range<usize>,
    ) -> Result<(), Fail> {
        if self.out.engine_users.len() >= limits::ENGINE_USERS {
            let limit = limits::ENGINE_USERS;
            return Err(At(place.clone(), Reason::TooMany { what: "uses of engines", limit }));
        }
        let same = |user: &&image::EngineUser| user.engine as usize == engine;
        if self.out.engine_users.iter().filter(same).any(|user| user.task as usize == task) {
            let (of, name) = (self.out.tasks[task].name.clone(), self.out.engines[engine].0.clone());
            return Err(At(place.clone(), Reason::LockTwice { task: of, kind: "engine", name }));
        }
        let limit = limits::USERS_PER_ENGINE;
        if self.out.engine_users.iter().filter(same).count() >= limit {
            let name = self.out.engines[engine].0.clone();
            return Err(At(place.clone(), Reason::Crowded { kind: "engine", name, what: "users", limit }));
        }
        // The users of all engines of its group wait in one queue.
        let group = self.out.engines[engine].1.group_plus_one;
        let in_group =
            |user: &&image::EngineUser| group != 0 && self.out.engines[user.engine as usize].1.group_plus_one == group;
        let mut tasks: Vec<usize> =
            self.out.engine_users.iter().filter(in_group).map(|user| user.task as usize).collect();
        tasks.push(task);
        tasks.sort_unstable();
        tasks.dedup();
        if group != 0 && tasks.len() > limits::USERS_PER_GROUP {
            let (name, limit) = (self.out.engines[engine].0.clone(), limits::USERS_PER_GROUP);
            return Err(At(place.clone(), Reason::Crowded { kind: "group of engine", name, what: "users", limit }));
        }
        if let Some(other) = self.out.engine_users.iter().find(|user| same(user) || in_group(user)) {
            let other = &self.out.tasks[other.task as usize];
            let pool = self.out.engines[engine].1.pool_plus_one.checked_sub(1);
            let crosses = pool.is_some_and(|pool| self.out.pools[pool as usize].1.crosses != 0);
            let clusters = [other.cluster, self.out.tasks[task].cluster].map(|cluster| cluster as usize);
            if !crosses && clusters[0] != clusters[1] && !self.decides_for(engine, clusters) {
                let reason = Reason::EngineInTwoClusters {
                    engine: self.out.engines[engine].0.clone(),
                    first: other.name.clone(),
                    second: self.out.tasks[task].name.clone(),
                };
                return Err(At(place.clone(), reason));
            }
        }
        let mut record = image::EngineUser { engine: engine as u32, task: task as u32, ..Default::default() };
        let Some((device, number)) = self.out.engine_places[engine] else {
            self.out.engine_users.push(record);
            return Ok(());
        };
        if self.shares(device, task) {
            let (of, with) = (name.get_ref().clone(), "the right `share` to an engine of the same device");
            return Err(At(place.clone(), Reason::Excludes { what: "right `acquire`", of, with }));
        }
        let context = self.context(device, task, 0, place)?;
        self.rung(&mut record, (device, number), context, 0, name);
        self.out.engine_users.push(record);
        Ok(())
    }

    /// The device of an engine.
    fn device_of(&self, engine: u32) -> Option<usize> {
        self.out.engine_places[engine as usize].map(|(device, _)| device)
    }

    /// Whether one of `users` is `task`, with an engine of `device`.
    fn is_among(&self, users: &[image::EngineUser], device: usize, task: usize) -> bool {
        users.iter().any(|user| user.task as usize == task && self.device_of(user.engine) == Some(device))
    }

    /// Whether `task` uses engines of `device` without their locks.
    pub(super) fn shares(&self, device: usize, task: usize) -> bool {
        self.is_among(&self.out.shared_users, device, task)
    }

    /// `task` uses `engine` without its lock.
    pub(super) fn shared_user(
        &mut self,
        task: usize,
        engine: usize,
        name: &Spanned<String>,
        place: &Range<usize>,
    ) -> Result<(), Fail> {
        let of = || name.get_ref().clone();
        let needs = |needs| Err(At(place.clone(), Reason::Needs { what: "right `share`", of: of(), needs }));
        let Some((device, number)) = self.out.engine_places[engine] else { return needs("an engine of a device") };
        if self.out.devices[device].processor.is_some() {
            return needs("an engine with a gate, which a processor of the board has not");
        }
        if self.is_among(&self.out.engine_users, device, task) {
            let with = "the right `acquire` to an engine of the same device";
            return Err(At(place.clone(), Reason::Excludes { what: "right `share`", of: of(), with }));
        }
        if self.out.shared_users.len() >= limits::ENGINE_USERS {
            let limit = limits::ENGINE_USERS;
            return Err(At(place.clone(), Reason::TooMany { what: "uses of engines", limit }));
        }
        let mut record = image::EngineUser { engine: engine as u32, task: task as u32, ..Default::default() };
        // Each further handle to an engine is one of a further context.
        let is_same = |user: &&image::EngineUser| (user.engine, user.task) == (record.engine, record.task);
        let ordinal = self.out.shared_users.iter().filter(is_same).count();
        let context = self.context(device, task, ordinal, place)?;
        self.out.tasks[task].environment.push(Entry {
            name: of(),
            kind: kind::ENGINE,
            flags: 0,
            handle: 0,
            address: 0,
            bytes: 0,
            physical: 0,
        });
        self.rung(&mut record, (device, number), context, fusee_abi::environment::SHARED, name);
        self.out.shared_users.push(record);
        Ok(())
    }

    /// A doorbell for `record`, whose engine is the last entry of its task's environment. `more`: the part of its flags beside the
    /// engine's number.
    fn rung(
        &mut self,
        record: &mut image::EngineUser,
        (device, number): (usize, EngineIndex),
        context: usize,
        more: u32,
        name: &Spanned<String>,
    ) {
        let task = record.task as usize;
        let device = &self.out.devices[device];
        record.doorbell = device.doorbells + contract::doorbell_page(number, context);
        record.progress = device.status + contract::status_retired(number, context);
        let doorbells = self.out.engine_users.len() + self.out.shared_users.len();
        record.address = layout::DOORBELLS + doorbells as u64 * layout::DOORBELL_STEP;
        let preemptible = device.preemptible && number == EngineIndex::Execution;
        let flags = number.number() as u32 | if preemptible { fusee_abi::environment::PREEMPTIBLE } else { 0 } | more;
        let address = record.address;
        let environment = &mut self.out.tasks[task].environment;
        if let Some(handle) = environment.last_mut() {
            handle.flags = flags;
        }
        environment.push(Entry {
            name: name.get_ref().clone(),
            kind: fusee_abi::environment::kind::DOORBELL,
            flags,
            handle: 0,
            address,
            bytes: PAGE,
            physical: 0,
        });
    }

    /// The context of `task` on `device` with this number among its own, from zero: a new one if it has none.
    fn context(&mut self, device: usize, task: usize, ordinal: usize, place: &Range<usize>) -> Result<usize, Fail> {
        let mut others = self.out.devices.iter().enumerate().filter(|(index, _)| *index != device);
        let (_, file) = &self.file.tasks.0[task];
        // A step of a script names an engine by its number in its device. The simulator takes the device whose engine
        // the task holds.
        if let Some((_, other)) = others.find(|(_, other)| other.contexts.contains(&task))
            && file.script.is_some()
        {
            let (first, second) = (other.name.clone(), self.out.devices[device].name.clone());
            let task = self.out.tasks[task].name.clone();
            return Err(At(place.clone(), Reason::TwoDevices { task, first, second }));
        }
        if let Some(context) = self.contexts_of(device, task).nth(ordinal) {
            return Ok(context);
        }
        let limit = contract::space::CLIENT_CONTEXTS;
        if ordinal >= limit {
            let (name, what) = (self.out.tasks[task].name.clone(), "contexts of one device");
            return Err(At(place.clone(), Reason::Crowded { kind: "task", name, what, limit }));
        }
        let device = &mut self.out.devices[device];
        if device.contexts.len() >= device.size.number() {
            let (device, limit) = (device.name.clone(), device.size.number() - 1);
            return Err(At(place.clone(), Reason::DeviceFull { device, what: "contexts for clients", limit }));
        }
        device.contexts.push(task);
        Ok(device.contexts.len() - 1)
    }

    /// The contexts of `task` on `device`.
    pub(super) fn contexts_of(&self, device: usize, task: usize) -> impl Iterator<Item = usize> {
        let all = self.out.devices[device].contexts.iter().enumerate();
        all.filter(move |(_, owner)| **owner == task).map(|(context, _)| context)
    }

    /// The clients of `device`, each once.
    pub(super) fn clients(&self, device: usize) -> Vec<usize> {
        let mut clients = Vec::new();
        for owner in self.out.devices[device].contexts.iter().skip(1) {
            if !clients.contains(owner) {
                clients.push(*owner);
            }
        }
        clients
    }

    /// Adds the handles that drivers and clients of a device get without asking.
    pub(super) fn automatic_handles(&mut self, task: usize, name: &Spanned<String>) -> Result<(), Fail> {
        self.sound(Of::Task(task))?;
        for device in 0..self.out.devices.len() {
            let Some(context) = self.out.devices[device].contexts.iter().position(|owner| *owner == task) else {
                continue;
            };
            let is_driver = self.out.devices[device].driver == task;
            let suffix = self.suffix(device, task);
            // The driver of a processor is the device of the contract, and writes the pages that a device writes.
            let is_model = self.out.devices[device].processor.is_none();
            let wanted: &[(&str, u32)] = if is_driver && !is_model {
                &[
                    ("status", READ | WRITE),
                    ("doorbells", READ),
                    ("local", PHYSICAL),
                    ("reset", READ | WRITE),
                    ("registers", READ | WRITE),
                    ("program", READ | WRITE | PHYSICAL),
                ]
            } else if is_driver {
                &[
                    ("control", READ | WRITE | PHYSICAL),
                    ("status", READ | PHYSICAL),
                    ("local", READ | WRITE | PHYSICAL),
                    (KICK, READ | WRITE),
                ]
            } else {
                &[("status", READ), (KICK, READ | WRITE)]
            };
            for (entry, set) in wanted {
                let given = &self.out.devices[device].given;
                let Some((_, region)) = given.iter().find(|(given, _)| given == entry).copied() else { continue };
                // One page for all devices.
                let is_kick = *entry == KICK;
                if is_kick && self.out.devices[..device].iter().any(|earlier| earlier.contexts.contains(&task)) {
                    continue;
                }
                let entry = if is_kick { (*entry).to_owned() } else { format!("{entry}{suffix}") };
                self.unused(task, &entry, name.span())?;
                let slot = self.next_slot(task);
                self.share(task, slot, &Spanned::new(name.span(), entry), region, *set, &name.span())?;
            }
            if is_model {
                self.signal_to_kick(task, &name.span())?;
            }
            if is_driver && is_model && self.out.devices[device].contexts.len() > 1 {
                self.tell_rings(task, device, name.span())?;
            }
            let entry = format!("context{suffix}");
            self.unused(task, &entry, name.span())?;
            self.parameter(task, &entry, context as u64);
            if !suffix.is_empty() {
                let entry = format!("device{suffix}");
                self.unused(task, &entry, name.span())?;
                self.parameter(task, &entry, device as u64);
                self.peers(device, task, context, name)?;
            }
            if !is_driver {
                self.client_handles(device, task, context, name)?;
            }
        }
        Ok(())
    }

    /// Says to `task` where the ring pages of `device` are, by context.
    pub(super) fn tell_rings(&mut self, task: usize, device: usize, place: Range<usize>) -> Result<(), Fail> {
        self.unused(task, "rings", place)?;
        let pages = self.out.devices[device].size.number() as u64 - 1;
        self.tell(task, "rings", self.out.devices[device].rings, pages * PAGE);
        Ok(())
    }

    /// Gives `task` the notification by which devices are kicked, where the board has no page for that, once.
    pub(super) fn signal_to_kick(&mut self, task: usize, place: &Range<usize>) -> Result<(), Fail> {
        let has_it = |kick: &usize| {
            let has = |one: &image::Handle| (one.task as usize, one.kind) == (task, kind::NOTIFICATION);
            self.out.handles.iter().any(|one| has(one) && one.object as usize == *kick)
        };
        let Some(kick) = self.out.kick.filter(|kick| !has_it(kick)) else { return Ok(()) };
        self.unused(task, KICK, place.clone())?;
        let slot = self.next_slot(task);
        let entry = Spanned::new(place.clone(), KICK.to_owned());
        self.give(task, slot, &entry, kind::NOTIFICATION, kick, rights::SIGNAL)
    }

    /// The suffix of the names of `task`'s handles for `device`: nothing if it is the only one it uses.
    pub(super) fn suffix(&self, device: usize, task: usize) -> String {
        let used = self.out.devices.iter().filter(|device| device.contexts.contains(&task)).count();
        let is_driver = self.out.devices[device].driver == task;
        if used > 1 && !is_driver { format!(".{}", self.out.devices[device].name) } else { String::new() }
    }

    /// Gives the other drivers of a client the place of its memory on `device`, if the manifest has the distances of devices.
    pub(super) fn peers(
        &mut self,
        device: usize,
        task: usize,
        context: usize,
        name: &Spanned<String>,
    ) -> Result<(), Fail> {
        if self.file.system.distance.is_none() {
            return Ok(());
        }
        let Device { memory, memory_bytes, ref contexts, .. } = self.out.devices[device];
        let (offset, pages) = contract::space::share(memory_bytes, contexts.len() - 1, context);
        if pages == 0 {
            return Ok(());
        }
        let drivers =
            self.out.devices.iter().enumerate().filter(|(index, other)| {
                *index != device && other.memory_bytes > 0 && other.contexts[1..].contains(&task)
            });
        let drivers: Vec<usize> = drivers.map(|(_, other)| other.driver).collect();
        let entry = format!("peer{device}.{}", name.get_ref());
        let region = self.region(entry.clone(), memory + offset, pages * PAGE, RegionKind::Memory, name.span())?;
        for driver in drivers {
            self.unused(driver, &entry, name.span())?;
            let slot = self.next_slot(driver);
            self.share(driver, slot, &Spanned::new(name.span(), entry.clone()), region, PHYSICAL, &name.span())?;
        }
        Ok(())
    }

    /// For a device without a program, adds the badges by which its driver distinguishes clients. For others, adds a client's ring
    /// page, and the notification of completions, if the client names none itself; the driver gets its ends of both.
    pub(super) fn client_handles(
        &mut self,
        device: usize,
        task: usize,
        context: usize,
        name: &Spanned<String>,
    ) -> Result<(), Fail> {
        let Device { driver, rings, ref processor, .. } = self.out.devices[device];
        if processor.as_ref().is_some_and(|processor| processor.program.is_none()) {
            // The driver of such a device gets calls, and the badge identifies the caller.
            let entry = format!("badge.{}", name.get_ref());
            self.unused(driver, &entry, name.span())?;
            self.parameter(driver, &entry, task as u64 + 1);
            return Ok(());
        }
        let is_model = processor.is_none();
        let suffix = self.suffix(device, task);
        let (ring, done) = (format!("ring{suffix}"), format!("gpu_done{suffix}"));
        let place = name.span();
        let spanned = |text: String| Spanned::new(place.clone(), text);
        let has = |out: &Resolved, entry: &str| out.tasks[task].environment.iter().any(|one| one.name == entry);
        let others: Vec<usize> = self.contexts_of(device, task).filter(|other| *other != context).collect();
        let others = others.into_iter().enumerate().map(|(at, other)| (format!(".{}", at + 2), other));
        for (more, context) in core::iter::once((String::new(), context)).chain(others) {
            let ring = format!("{ring}{more}");
            if has(&self.out, &ring) {
                continue;
            }
            let entry = format!("ring.{}{more}", name.get_ref());
            let physical = rings + (context - 1) as u64 * PAGE;
            let region = self.region(entry.clone(), physical, PAGE, RegionKind::Memory, place.clone())?;
            let slot = self.next_slot(task);
            self.unused(task, &ring, place.clone())?;
            self.share(task, slot, &spanned(ring), region, READ | WRITE, &place)?;
            if is_model {
                // The driver gets the places of all of them.
                self.told.insert((driver, region));
            } else {
                self.unused(driver, &entry, place.clone())?;
                let slot = self.next_slot(driver);
                self.share(driver, slot, &spanned(entry), region, READ | WRITE, &place)?;
            }
        }
        if !has(&self.out, &done) {
            let entry = format!("done.{}", name.get_ref());
            self.unused(driver, &entry, place.clone())?;
            let object = self.notification(entry.clone(), place.clone())?;
            self.out.notifications[object].1.bound_plus_one = plus_one(Some(driver));
            let slot = self.next_slot(task);
            self.unused(task, &done, place.clone())?;
            self.give(task, slot, &spanned(done), kind::NOTIFICATION, object, rights::WAIT)?;
            let slot = self.next_slot(driver);
            self.give(driver, slot, &spanned(entry), kind::NOTIFICATION, object, rights::SIGNAL)?;
        }
        Ok(())
    }
}
