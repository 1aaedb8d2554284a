//! Engines, their groups and places on devices, and pools of tokens.

use std::collections::BTreeMap;

use fusee_abi::image::{self, order};
use fusee_accel_contract::EngineIndex;
use fusee_kernel_core::limits;
use fusee_sched::time::Nanoseconds;
use toml::Spanned;

use super::{
    Fail::{self, At},
    Of, Resolver, index_of, plus_one, span,
};
use crate::error::Reason;
use crate::schema::{self, Limit, NamedLimit, Order};

/// The first line of the interrupt controller that is not some CPU's own.
const FIRST_SHARED_LINE: u32 = 32;

/// An engine, its device and its number there, and the time of the end of an operation.
type Made = (image::Engine, Option<(usize, EngineIndex)>, Nanoseconds);

impl Resolver<'_> {
    pub(super) fn pools(&mut self) {
        for (index, (name, pool)) in self.file.pools.0.iter().enumerate() {
            let record = self.pool(name, pool);
            let record = self.keep_or_zero(Of::Pool(index), record);
            self.out.pools.push((name.get_ref().clone(), record));
        }
    }

    fn pool(&self, name: &Spanned<String>, pool: &schema::Pool) -> Result<image::Pool, Fail> {
        let of = || name.get_ref().clone();
        let crosses = pool.limit.as_ref().is_some_and(|limit| *limit.get_ref() == Limit::Named(NamedLimit::CkOmlp));
        let cluster = match &pool.cluster {
            Some(cluster) if crosses => {
                return Err(At(cluster.span(), Reason::ClusterOfShared { pool: of() }));
            }
            None if crosses => 0,
            cluster => self.cluster(cluster.as_ref(), name)?,
        };
        let replicas = *pool.replicas.get_ref();
        let to = limits::POOL_REPLICAS as u32;
        if !(1..=to).contains(&replicas) {
            return Err(At(pool.replicas.span(), Reason::OutOfRange { what: "replicas", of: of(), from: 1, to }));
        }
        self.sound(Of::Cluster(cluster))?;
        let cpus = self.out.clusters[cluster].1.cpus.count_ones();
        let limit = match pool.limit.as_ref().map(|limit| (limit.span(), limit.get_ref())) {
            None => cpus.div_ceil(replicas),
            Some((place, Limit::Number(number))) => {
                let to = limits::USERS_PER_POOL as u32;
                if !(1..=to).contains(number) {
                    return Err(At(place, Reason::OutOfRange { what: "limit", of: of(), from: 1, to }));
                }
                *number
            }
            Some((_, Limit::Named(NamedLimit::R2dglp))) => cpus.div_ceil(replicas),
            Some((_, Limit::Named(NamedLimit::Unlimited | NamedLimit::CkOmlp))) => 0,
        };
        let total_limit = total_limit(name.get_ref(), pool, replicas * limit)?;
        let (cluster, crosses) = (cluster as u32, u32::from(crosses));
        Ok(image::Pool { replicas, limit, cluster, crosses, total_limit, ..self.advised(name, pool)? })
    }

    pub(super) fn engines(&mut self) {
        let mut taken = BTreeMap::new();
        let mut groups = Vec::new();
        for (index, (name, engine)) in self.file.engines.0.iter().enumerate() {
            let made = self.engine(name, engine, &mut taken, &mut groups);
            let made = self.keep(Of::Engine(index), made);
            let (record, place, completion) = made.unwrap_or_default();
            self.out.engines.push((name.get_ref().clone(), record));
            self.out.engine_ends.push((completion, Nanoseconds::ZERO));
            self.out.engine_places.push(place);
        }
        for index in 0..self.out.devices.len() {
            let result = self.is_heard(index);
            self.keep(Of::Device(index), result);
        }
    }

    /// Without an interrupt the completions of this device would not be seen.
    fn is_heard(&self, index: usize) -> Result<(), Fail> {
        self.sound(Of::Device(index))?;
        if self.out.devices[index].line >= FIRST_SHARED_LINE {
            return Ok(());
        }
        let (name, _) = &self.file.devices.0[index];
        for (engine, (_, file)) in self.file.engines.0.iter().enumerate() {
            // An engine with a mistyped device may be meant for this one.
            let is_other = |device: &Spanned<String>| {
                device.get_ref() != name.get_ref() && index_of(&self.file.devices, "device", device).is_ok()
            };
            if file.device.as_ref().is_some_and(|device| !is_other(device)) {
                self.sound(Of::Engine(engine))?;
            }
        }
        let (of, needs) = (name.get_ref().clone(), "an engine with an interrupt above 31");
        Err(At(name.span(), Reason::Needs { what: "device", of, needs }))
    }

    /// An engine with its place in a device and the time of its completions. `taken`: the engines at the places so far; `groups`:
    /// the groups so far, with their orders.
    fn engine<'a>(
        &mut self,
        name: &'a Spanned<String>,
        engine: &'a schema::Engine,
        taken: &mut BTreeMap<(usize, EngineIndex), &'a str>,
        groups: &mut Vec<(&'a str, u32)>,
    ) -> Result<Made, Fail> {
        let of = name.get_ref().clone();
        let interrupt = engine.interrupt.as_ref().map(|named| index_of(&self.file.interrupts, "interrupt", named));
        let interrupt = interrupt.transpose()?;
        let pool = engine.pool.as_ref().map(|pool| index_of(&self.file.pools, "pool", pool)).transpose()?;
        let place = match (&engine.device, &engine.index) {
            (None, None) => None,
            (None, Some(index)) => {
                return Err(At(index.span(), Reason::Needs { what: "index", of, needs: "a device" }));
            }
            (Some(device), None) => {
                return Err(At(device.span(), Reason::Needs { what: "device", of, needs: "an index" }));
            }
            // Without an interrupt its completions would not be seen, and it would not go on once it has drained.
            (Some(device), Some(_)) if interrupt.is_none() => {
                return Err(At(device.span(), Reason::Needs { what: "device", of, needs: "an interrupt" }));
            }
            (Some(device), Some(index)) => Some(self.place(name, engine, (device, index), interrupt, taken)?),
        };
        // The kernel would take it for one that works.
        if let (Some(line), None) = (&engine.interrupt, place) {
            return Err(At(line.span(), Reason::Needs { what: "interrupt", of, needs: "a device" }));
        }
        if let (Some(time), None) = (&engine.completion, place) {
            return Err(At(time.span(), Reason::Needs { what: "completion", of, needs: "a device" }));
        }
        let completion = span("completion", &engine.completion, name)?;
        self.may_arbitrate(name, engine, place)?;
        let order = match engine.order {
            Order::Fifo => order::FIFO,
            Order::Priority => order::PRIORITY,
        };
        let group = engine.group.as_ref().map(|group| group_of(group, order, groups)).transpose()?;
        let (first_token, tokens) = match (pool, &engine.device, place, group) {
            (Some(pool), Some(device), Some((_, EngineIndex::Execution)), None) => {
                self.own_tokens(pool, device.get_ref())
            }
            _ => (0, 0),
        };
        let record = image::Engine {
            order,
            interrupt_plus_one: plus_one(interrupt),
            group_plus_one: plus_one(group),
            pool_plus_one: plus_one(pool),
            first_token,
            tokens,
            ..image::Engine::default()
        };
        Ok((record, place, completion))
    }

    /// The device of an engine, and its number there.
    fn place<'a>(
        &mut self,
        name: &'a Spanned<String>,
        engine: &schema::Engine,
        (device, index): (&Spanned<String>, &Spanned<usize>),
        interrupt: Option<usize>,
        taken: &mut BTreeMap<(usize, EngineIndex), &'a str>,
    ) -> Result<(usize, EngineIndex), Fail> {
        let of = name.get_ref().clone();
        let owner = index_of(&self.file.devices, "device", device)?;
        self.sound(Of::Device(owner))?;
        let copy_engines = self.out.devices[owner].copy_engines;
        let number = EngineIndex::from_number(*index.get_ref());
        let number = number.filter(|number| copy_engines.include(*number)).ok_or_else(|| {
            let (device, limit) = (device.get_ref().clone(), copy_engines.engines());
            At(index.span(), Reason::DeviceFull { device, what: "engines", limit })
        })?;
        if let Some(by) = taken.insert((owner, number), name.get_ref()) {
            return Err(At(index.span(), Reason::PlaceTaken { what: "index", of, by: by.to_owned() }));
        }
        if let (Some(interrupt), Some(named)) = (interrupt, &engine.interrupt) {
            self.sound(Of::Interrupt(interrupt))?;
            let line = self.out.interrupts[interrupt].1.line;
            if ![0, line].contains(&self.out.devices[owner].line) {
                return Err(At(named.span(), Reason::SecondLine { device: device.get_ref().clone() }));
            }
            let mut others = self.out.devices.iter().enumerate().filter(|(index, _)| *index != owner);
            if let Some((_, other)) = others.find(|(_, other)| other.line == line) {
                let (what, by) = ("interrupt", other.name.clone());
                return Err(At(named.span(), Reason::PlaceTaken { what, of, by }));
            }
            self.out.devices[owner].line = line;
        }
        Ok((owner, number))
    }

    /// The tokens of `pool` that are for `device`: the first, and how many. None if it names no devices, or they are not divided
    /// evenly, which is refused elsewhere.
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
}

/// Requests in all queues of a pool together; zero if each queue has a limit of its own only. `places`: the sum of these limits.
fn total_limit(of: &str, pool: &schema::Pool, places: u32) -> Result<u32, Fail> {
    let Some(total) = &pool.total_limit else { return Ok(0) };
    let of = || of.to_owned();
    if places == 0 {
        let needs = "a limit for each queue: a number, or \"r2dglp\"";
        return Err(At(total.span(), Reason::Needs { what: "total_limit", of: of(), needs }));
    }
    // Above that it limits nothing.
    let to = places.min(limits::USERS_PER_POOL as u32);
    if !(1..=to).contains(total.get_ref()) {
        return Err(At(total.span(), Reason::OutOfRange { what: "total_limit", of: of(), from: 1, to }));
    }
    Ok(*total.get_ref())
}

/// The number of a group of engines in this order, of those so far.
fn group_of<'a>(group: &'a Spanned<String>, order: u32, groups: &mut Vec<(&'a str, u32)>) -> Result<usize, Fail> {
    let known = groups.iter().position(|(of, _)| of == group.get_ref());
    let index = known.unwrap_or(groups.len());
    if known.is_none() {
        groups.push((group.get_ref(), order));
    }
    if groups[index].1 != order {
        return Err(At(group.span(), Reason::TwoOrders { group: group.get_ref().clone() }));
    }
    if index >= limits::GROUPS {
        let limit = limits::GROUPS;
        return Err(At(group.span(), Reason::TooMany { what: "groups of engines", limit }));
    }
    Ok(index)
}
