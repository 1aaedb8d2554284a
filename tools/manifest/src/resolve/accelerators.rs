//! Accelerators: devices, their engines and watchdogs, and pools of tokens.

use std::collections::BTreeMap;

use fusee_abi::call::RESET;
use fusee_abi::image::{self, class, kind, order};
use fusee_accel_contract as contract;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{CopyEngines, EngineIndex};
use fusee_kernel_core::limits;
use fusee_sched::key::FAIR_LATENESS_OFFSET;
use fusee_sched::time::Nanoseconds;
use toml::Spanned;

use super::{Device, Fail, Resolver, index_of, plus_one, span};
use crate::error::Reason;
use crate::layout::PAGE;
use crate::schema::{self, Limit, Order};

/// How long a driver may take to reset an engine, at least, if nobody says; in nanoseconds.
const RESET_BOUND: u64 = 10_000_000;
/// After what time an engine is taken from its holder, at least, if its users do not all say how long they hold it; in nanoseconds.
/// Whoever waits for it waits for a long time then, but not for ever.
const UNSAID_WATCHDOG: u64 = 1_000_000_000;
/// The first line of the interrupt controller that is not some CPU's own.
const FIRST_SHARED_LINE: u32 = 32;
/// The farthest distance, in percent of the time over a near way.
const FARTHEST: u32 = 100_000;

impl Resolver<'_> {
    /// The matrix of ways: percent of the time that a byte takes over a near one, by the device that copies and the
    /// device that it copies from.
    pub(super) fn ways(&self) -> Result<Vec<Vec<Slowdown>>, Fail> {
        let count = self.file.devices.0.len();
        let Some(rows) = &self.file.system.distance else { return Ok(vec![vec![Slowdown::NEAR; count]; count]) };
        if rows.get_ref().len() != count || rows.get_ref().iter().any(|row| row.len() != count) {
            return Err((rows.span(), Reason::NotSquare { count }));
        }
        let way = |percent: &Spanned<u32>| {
            let fits = (100..=FARTHEST).contains(percent.get_ref());
            fits.then(|| Slowdown(percent.get_ref() - 100)).ok_or_else(|| (percent.span(), Reason::Distance))
        };
        rows.get_ref().iter().map(|row| row.iter().map(way).collect()).collect()
    }

    pub(super) fn devices(&mut self) -> Result<(), Fail> {
        let Some((first, _)) = self.file.devices.0.first() else {
            return match &self.file.system.distance {
                Some(rows) => Err((rows.span(), Reason::NotSquare { count: 0 })),
                None => Ok(()),
            };
        };
        let ways = self.ways()?;
        // All that devices reach lies before all that is theirs alone.
        let mut rings = Vec::new();
        for (name, _) in &self.file.devices.0 {
            rings.push(self.allocate(name.get_ref(), (contract::CONTEXTS - 1) as u64 * PAGE, name.span())?);
        }
        let system_end = self.out.pool_next;
        let kick =
            self.region(format!("{}.kick", first.get_ref()), self.out.board.kick.page, PAGE, true, first.span())?;
        for (((name, device), rings), ways) in self.file.devices.0.iter().zip(rings).zip(ways) {
            let driver = self.task(&device.driver)?;
            let of = name.get_ref().clone();
            let firmware = device.firmware.get_ref().clone();
            if let Some(other) = self.out.devices.first().filter(|other| other.firmware != firmware) {
                let (first, second) = (other.name.clone(), of);
                return Err((device.firmware.span(), Reason::TwoFirmwares { first, second }));
            }
            if let Some(other) = self.out.devices.iter().find(|other| other.driver == driver) {
                let (what, of, by) = ("driver", of, other.name.clone());
                return Err((device.driver.span(), Reason::PlaceTaken { what, of, by }));
            }
            let place = name.span();
            let copy_engines = match &device.copy_engines {
                None => CopyEngines::Two,
                Some(number) => CopyEngines::from_number(*number.get_ref()).ok_or_else(|| {
                    (number.span(), Reason::TooMany { what: "copy engines", limit: contract::ENGINES - 1 })
                })?,
            };
            let memory_bytes = match (&device.memory, copy_engines != CopyEngines::None) {
                (None, false) => 0,
                (None, true) => {
                    return Err((place, Reason::Needs { what: "device", of, needs: "memory" }));
                }
                (Some(memory), false) => {
                    let with = "`copy_engines = 0`";
                    return Err((memory.span(), Reason::Excludes { what: "memory", of, with }));
                }
                (Some(memory), true) => {
                    let bytes = memory.get_ref().0;
                    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
                        return Err((memory.span(), Reason::NotPages { what: "memory", of }));
                    }
                    bytes
                }
            };
            let control = self.allocate(&of, PAGE, place.clone())?;
            let status = self.allocate(&of, PAGE, place.clone())?;
            let doorbells = self.allocate(&of, contract::DOORBELL_PAGES as u64 * PAGE, place.clone())?;
            let memory_place = device.memory.as_ref().map_or(place.clone(), Spanned::span);
            let memory = self.allocate(&of, memory_bytes, memory_place)?;
            let mut given = vec![("kick", kick)];
            for (entry, physical, bytes) in
                [("control", control, PAGE), ("status", status, PAGE), ("local", memory, memory_bytes)]
            {
                if bytes > 0 {
                    given.push((entry, self.region(format!("{of}.{entry}"), physical, bytes, false, place.clone())?));
                }
            }
            self.out.devices.push(Device {
                name: of,
                firmware,
                driver,
                system_end,
                rings,
                control,
                status,
                doorbells,
                copy_engines,
                preemptible: device.preemptible,
                memory,
                memory_bytes,
                ways,
                given,
                contexts: vec![driver],
                line: 0,
            });
        }
        Ok(())
    }

    pub(super) fn pools(&mut self) -> Result<(), Fail> {
        for (name, pool) in &self.file.pools.0 {
            let of = || name.get_ref().clone();
            let crosses =
                matches!(pool.limit.as_ref().map(Spanned::get_ref), Some(Limit::Named(name)) if name == "ck-omlp");
            let cluster = match &pool.cluster {
                Some(cluster) if crosses => {
                    return Err((cluster.span(), Reason::ClusterOfShared { pool: of() }));
                }
                None if crosses => 0,
                cluster => self.cluster(cluster.as_ref(), name)?,
            };
            let replicas = *pool.replicas.get_ref();
            let to = limits::POOL_REPLICAS as u32;
            if !(1..=to).contains(&replicas) {
                return Err((pool.replicas.span(), Reason::OutOfRange { what: "replicas", of: of(), from: 1, to }));
            }
            let cpus = self.out.clusters[cluster].1.cpus.count_ones();
            let limit = match pool.limit.as_ref().map(|limit| (limit.span(), limit.get_ref())) {
                None => cpus.div_ceil(replicas),
                Some((place, Limit::Number(number))) => {
                    let to = limits::USERS_PER_POOL as u32;
                    if !(1..=to).contains(number) {
                        return Err((place, Reason::OutOfRange { what: "limit", of: of(), from: 1, to }));
                    }
                    *number
                }
                Some((_, Limit::Named(name))) if name == "r2dglp" => cpus.div_ceil(replicas),
                Some((_, Limit::Named(name))) if name == "unlimited" || crosses => 0,
                Some((place, Limit::Named(name))) => {
                    return Err((place, Reason::NotOffered { what: "limit", name: name.clone() }));
                }
            };
            let total_limit = total_limit(name.get_ref(), pool, replicas * limit)?;
            let (cluster, crosses) = (cluster as u32, u32::from(crosses));
            let record = image::Pool { replicas, limit, cluster, crosses, total_limit, ..self.advised(name, pool)? };
            self.out.pools.push((of(), record));
        }
        Ok(())
    }

    pub(super) fn engines(&mut self) -> Result<(), Fail> {
        let mut taken: BTreeMap<(usize, EngineIndex), &str> = BTreeMap::new();
        let mut groups: Vec<(&str, u32)> = Vec::new();
        for (name, engine) in &self.file.engines.0 {
            let of = name.get_ref().clone();
            let interrupt = engine
                .interrupt
                .as_ref()
                .map(|interrupt| index_of(&self.file.interrupts, "interrupt", interrupt))
                .transpose()?;
            let place = match (&engine.device, &engine.index) {
                (None, None) => None,
                (None, Some(index)) => {
                    return Err((index.span(), Reason::Needs { what: "index", of, needs: "a device" }));
                }
                (Some(device), None) => {
                    return Err((device.span(), Reason::Needs { what: "device", of, needs: "an index" }));
                }
                // Nobody would hear of its completions, nor let it go on once it has drained.
                (Some(device), Some(_)) if interrupt.is_none() => {
                    return Err((device.span(), Reason::Needs { what: "device", of, needs: "an interrupt" }));
                }
                (Some(device), Some(index)) => {
                    let owner = index_of(&self.file.devices, "device", device)?;
                    let copy_engines = self.out.devices[owner].copy_engines;
                    let number = EngineIndex::from_number(*index.get_ref());
                    let number = number.filter(|number| copy_engines.include(*number)).ok_or_else(|| {
                        let (device, limit) = (device.get_ref().clone(), copy_engines.engines());
                        (index.span(), Reason::DeviceFull { device, what: "engines", limit })
                    })?;
                    if let Some(by) = taken.insert((owner, number), name.get_ref()) {
                        return Err((index.span(), Reason::PlaceTaken { what: "index", of, by: by.to_owned() }));
                    }
                    if let (Some(interrupt), Some(named)) = (interrupt, &engine.interrupt) {
                        let line = self.out.interrupts[interrupt].1.line;
                        if ![0, line].contains(&self.out.devices[owner].line) {
                            return Err((named.span(), Reason::SecondLine { device: device.get_ref().clone() }));
                        }
                        let mut others = self.out.devices.iter().enumerate().filter(|(index, _)| *index != owner);
                        if let Some((_, other)) = others.find(|(_, other)| other.line == line) {
                            let (what, by) = ("interrupt", other.name.clone());
                            return Err((named.span(), Reason::PlaceTaken { what, of, by }));
                        }
                        self.out.devices[owner].line = line;
                    }
                    Some((owner, number))
                }
            };
            let order = match engine.order {
                Order::Fifo => order::FIFO,
                Order::Priority => order::PRIORITY,
            };
            let group = match &engine.group {
                None => None,
                Some(group) => {
                    let known = groups.iter().position(|(of, _)| of == group.get_ref());
                    let index = known.unwrap_or(groups.len());
                    if known.is_none() {
                        groups.push((group.get_ref(), order));
                    }
                    if groups[index].1 != order {
                        return Err((group.span(), Reason::TwoOrders { group: group.get_ref().clone() }));
                    }
                    if groups.len() > limits::GROUPS {
                        let limit = limits::GROUPS;
                        return Err((group.span(), Reason::TooMany { what: "groups of engines", limit }));
                    }
                    Some(index)
                }
            };
            let pool = engine.pool.as_ref().map(|pool| index_of(&self.file.pools, "pool", pool)).transpose()?;
            let (interrupt_plus_one, group_plus_one) = (plus_one(interrupt), plus_one(group));
            let pool_plus_one = plus_one(pool);
            let (first_token, tokens) = match (pool, &engine.device, place, group) {
                (Some(pool), Some(device), Some((_, EngineIndex::Execution)), None) => {
                    self.own_tokens(pool, device.get_ref())
                }
                _ => (0, 0),
            };
            let record = image::Engine {
                order,
                interrupt_plus_one,
                group_plus_one,
                pool_plus_one,
                first_token,
                tokens,
                ..image::Engine::default()
            };
            if let (Some(time), None) = (&engine.completion, place) {
                return Err((time.span(), Reason::Needs { what: "completion", of, needs: "a device" }));
            }
            self.out.engine_ends.push((span(&engine.completion, name)?, Nanoseconds::ZERO));
            self.out.engines.push((name.get_ref().clone(), record));
            self.out.engine_places.push(place);
        }
        // Without an interrupt nobody would hear of completions.
        let silent = self.out.devices.iter().position(|device| device.line < FIRST_SHARED_LINE);
        match silent.map(|device| &self.file.devices.0[device].0) {
            Some(name) => {
                let of = name.get_ref().clone();
                Err((name.span(), Reason::Needs { what: "device", of, needs: "an engine with an interrupt above 31" }))
            }
            None => Ok(()),
        }
    }

    /// The tokens of `pool` that are for `device`: the first, and how many. None if it says nothing of devices, or they
    /// are not divided evenly, which is refused elsewhere.
    fn own_tokens(&self, pool: usize, device: &str) -> (u32, u32) {
        let pool = &self.file.pools.0[pool].1;
        let named = pool.devices.as_ref().map(Spanned::get_ref);
        let replicas = *pool.replicas.get_ref();
        let place = named.and_then(|named| {
            let at = named.iter().position(|one| one.get_ref() == device)? as u32;
            Some((at, replicas / named.len() as u32))
        });
        place.map_or((0, 0), |(at, each)| (at * each, each))
    }

    /// When engines are taken from those who hold them.
    pub(super) fn watchdogs(&mut self) -> Result<(), Fail> {
        for (index, (name, engine)) in self.file.engines.0.iter().enumerate() {
            let of = || name.get_ref().clone();
            let hangs = engine.hangs.as_ref().filter(|hangs| *hangs.get_ref()).map(Spanned::span);
            let unwatched = |place| Err((place, Reason::Needs { what: "hangs", of: of(), needs: "a watchdog" }));
            let Some((owner, number)) = self.out.engine_places[index] else {
                let key = engine.watchdog.as_ref().map(|time| (time, "watchdog"));
                match key.or(engine.reset_bound.as_ref().map(|time| (time, "reset_bound"))) {
                    Some((time, what)) => {
                        return Err((time.span(), Reason::Needs { what, of: of(), needs: "a device" }));
                    }
                    None => match hangs {
                        Some(place) => return unwatched(place),
                        None => continue,
                    },
                }
            };
            let said = engine.watchdog.as_ref().map(|time| time.get_ref().0);
            let watchdog = said.unwrap_or_else(|| self.engine_watchdog(index));
            let reset_bound = engine.reset_bound.as_ref().map_or(watchdog.max(RESET_BOUND), |time| time.get_ref().0);
            let place = engine.watchdog.as_ref().map_or(name.span(), Spanned::span);
            for (what, time) in [("watchdog", watchdog), ("reset_bound", reset_bound)] {
                if time == 0 {
                    return Err((place, Reason::Zero { what, of: of() }));
                }
                if time > FAIR_LATENESS_OFFSET.0 {
                    return Err((place, Reason::Needs { what, of: of(), needs: "a time of at most 2^56 ns" }));
                }
            }
            if let Some((user, hold)) = self.holds_of(index).find(|(_, hold)| hold.is_some_and(|hold| hold > watchdog))
            {
                let (user, hold) = (self.out.tasks[user].name.clone(), hold.unwrap_or(0));
                return Err((place, Reason::WatchdogTooShort { engine: of(), watchdog, user, hold }));
            }
            let line = self.out.engines[index].1.interrupt_plus_one - 1;
            let driver = self.out.devices[owner].contexts[0];
            let is_heard = |handle: &image::Handle| {
                handle.kind == kind::INTERRUPT && handle.object == line && handle.task as usize == driver
            };
            if !self.out.handles.iter().any(is_heard) {
                let needs = "a driver that may acknowledge its interrupt";
                return Err((place, Reason::Needs { what: "watchdog", of: of(), needs }));
            }
            let reset_bits = RESET << number.number();
            if self.out.interrupts[line as usize].1.bits & reset_bits != 0 {
                let with = "event bits of its interrupt from 32 on";
                return Err((place, Reason::Excludes { what: "watchdog", of: of(), with }));
            }
            if hangs.is_some() {
                self.out.engine_ends[index].1 = Nanoseconds(watchdog.saturating_add(reset_bound));
            }
            let record = &mut self.out.engines[index].1;
            (record.watchdog, record.reset_bound, record.reset_bits) = (watchdog, reset_bound, reset_bits);
        }
        Ok(())
    }

    /// When tokens are taken from those who have them.
    pub(super) fn token_watchdogs(&mut self) -> Result<(), Fail> {
        for (index, (name, pool)) in self.file.pools.0.iter().enumerate() {
            let of = || name.get_ref().clone();
            let explicit = span(&pool.watchdog, name)?.0;
            if let Some(key) = &pool.watchdog {
                if explicit == 0 {
                    return Err((key.span(), Reason::Zero { what: "watchdog", of: of() }));
                }
                let users = self.out.pool_users.iter().filter(|user| user.pool as usize == index);
                if let Some(user) = users.clone().find(|user| user.length > explicit) {
                    let (user, hold) = (self.out.tasks[user.task as usize].name.clone(), user.length);
                    return Err((
                        key.span(),
                        Reason::WatchdogTooShort { engine: of(), watchdog: explicit, user, hold },
                    ));
                }
            }
            let users = self.out.pool_users.iter().filter(|user| user.pool as usize == index);
            let lengths = users.map(|user| (user.task as usize, Some(user.length).filter(|length| *length > 0)));
            let usual = self.usual_watchdog(lengths);
            self.out.pools[index].1.watchdog = pool.watchdog.as_ref().map(|_| explicit).or(usual).unwrap_or(0);
        }
        Ok(())
    }

    /// How long jobs may be suspended and keep their keys: for what they say they suspend themselves, and for their operations.
    pub(super) fn suspensions(&mut self) {
        for reservation in &mut self.out.reservations {
            let holds = self.out.engine_users.iter().zip(&self.out.engine_holds);
            let own = holds.filter(|(user, _)| user.task == reservation.task).filter_map(|(_, hold)| *hold);
            let operations = own.map(|one| one.operations.0);
            reservation.suspension = operations.fold(reservation.suspension, u64::saturating_add);
        }
    }

    /// For each user of `engine` its task, and how long it says that it holds it.
    pub(super) fn holds_of(&self, engine: usize) -> impl Iterator<Item = (usize, Option<u64>)> {
        let users = self.out.engine_users.iter().zip(&self.out.engine_holds);
        let users = users.filter(move |(user, _)| user.engine as usize == engine);
        users.map(|(user, hold)| (user.task as usize, hold.map(|one| one.hold.cpu.0 + one.hold.operation.0)))
    }

    /// A time after which no user, by its task and how long it says that it holds, can still hold an engine or a token if it
    /// meets its deadlines and keeps to what it said: its longest period or deadline, and three of its holds, since the last
    /// may go on after the job. `None`: some user says nothing.
    pub(super) fn usual_watchdog(&self, users: impl Iterator<Item = (usize, Option<u64>)>) -> Option<u64> {
        let mut longest = None;
        for (task, hold) in users {
            let reservation = &self.out.reservations[self.out.tasks[task].reservation?];
            let is_timed = reservation.class != class::BACKGROUND;
            let span = is_timed.then_some(reservation.period.max(reservation.deadline))?;
            longest = longest.max(Some(span.saturating_add(hold?.saturating_mul(3)).min(FAIR_LATENESS_OFFSET.0)));
        }
        longest
    }

    /// A time after which no user can still hold `engine` that meets its deadlines and keeps to what it said: its longest
    /// period or deadline, and three of its holds, since the last may go on after the job. If there is no such time, because one says
    /// nothing or has all the time, a second.
    pub(super) fn engine_watchdog(&self, engine: usize) -> u64 {
        let time_of = |(task, hold): (usize, Option<u64>)| {
            let reservation = self.out.tasks[task].reservation.map(|own| &self.out.reservations[own]);
            let timed = reservation.filter(|reservation| reservation.class != class::BACKGROUND);
            let span = timed.map(|reservation| reservation.period.max(reservation.deadline));
            // What it says it keeps to; that it meets deadlines counts only together with that.
            let holds = hold.unwrap_or(0).saturating_mul(3);
            let says = span.filter(|_| hold.is_some());
            (holds.saturating_add(says.unwrap_or(0)), says.is_some())
        };
        let times: Vec<(u64, bool)> = self.holds_of(engine).map(time_of).collect();
        let longest = times.iter().map(|(least, _)| *least).max().unwrap_or(0);
        let all_say = !times.is_empty() && times.iter().all(|(_, says)| *says);
        if all_say { longest } else { longest.max(UNSAID_WATCHDOG) }
    }
}

/// Requests in all queues of a pool together; zero if each queue has a limit of its own only. `places`: what all of these make.
fn total_limit(of: &str, pool: &schema::Pool, places: u32) -> Result<u32, Fail> {
    let Some(total) = &pool.total_limit else { return Ok(0) };
    let of = || of.to_owned();
    if places == 0 {
        let needs = "a limit for each queue: a number, or \"r2dglp\"";
        return Err((total.span(), Reason::Needs { what: "total_limit", of: of(), needs }));
    }
    // Above that it limits nothing.
    let to = places.min(limits::USERS_PER_POOL as u32);
    if !(1..=to).contains(total.get_ref()) {
        return Err((total.span(), Reason::OutOfRange { what: "total_limit", of: of(), from: 1, to }));
    }
    Ok(*total.get_ref())
}
