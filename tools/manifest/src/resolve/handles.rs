//! The possessions of tasks: handles, the pages that come with them, and parameters.

use std::collections::BTreeSet;
use std::ops::Range;

use fusee_abi::call::{HandleValue, rights};
use fusee_abi::environment::ALONE;
use fusee_abi::image::{self, kind, mapping};
use fusee_kernel_core::limits;
use toml::Spanned;

use super::{
    Entry,
    Fail::{self, At},
    Of, RegionKind, Resolver, index_of,
};
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::quantity::Bytes;

/// Rights to regions.
pub(super) const READ: u32 = rights::READ;
pub(super) const WRITE: u32 = rights::WRITE;
const MAP: u32 = rights::MAP;
/// The right to use an engine without its lock, of which the kernel has no record: no bit of its rights.
const SHARE: u32 = 1 << 30;
/// The right to know the physical address, which the kernel does not look at: no bit of its rights.
pub(super) const PHYSICAL: u32 = 1 << 31;

/// The right to give copies away, of handles that can be given.
const GRANT: (&str, u32) = ("grant", rights::GRANT);
const INSIDE: (&str, u32) = ("inside", rights::INSIDE);
/// The rights to each kind of object.
pub const RIGHTS: [(&str, &[(&str, u32)]); 8] = [
    ("endpoint", &[("call", rights::CALL), ("send", rights::SEND), ("receive", rights::RECEIVE), GRANT, INSIDE]),
    ("notification", &[("signal", rights::SIGNAL), ("wait", rights::WAIT), GRANT, INSIDE]),
    ("engine", &[("acquire", rights::ACQUIRE), ("share", SHARE), INSIDE]),
    ("pool", &[("acquire", rights::ACQUIRE), INSIDE]),
    ("interrupt", &[("acknowledge", rights::ACKNOWLEDGE)]),
    (
        "region",
        &[
            ("read", READ),
            ("write", WRITE),
            ("map", MAP),
            ("physical", PHYSICAL),
            ("lend", rights::LEND),
            ("lent", rights::LENT),
        ],
    ),
    (
        "task",
        &[
            ("release_job", rights::RELEASE_JOB),
            ("credit", rights::CREDIT),
            ("stop", rights::STOP),
            ("start", rights::RESTART),
            GRANT,
        ],
    ),
    ("system", &[("shutdown", rights::SHUTDOWN)]),
];

/// The kind and the name of the object that a handle is for.
pub(crate) fn object_of(text: &str) -> Option<(&str, &str)> {
    let mut words = text.split_once(':')?.0.split_whitespace();
    Some((words.next()?, words.next()?))
}

impl Resolver<'_> {
    pub(super) fn handles(&mut self) {
        let file = self.file;
        let mut granted = 0;
        for (index, (_, task)) in file.tasks.0.iter().enumerate() {
            for (entry, text) in &task.handles.0 {
                let slot = self.next_slot(index);
                let is_free = self.unused(index, entry.get_ref(), entry.span());
                let given = is_free.and_then(|()| self.handle(index, slot, entry, text));
                let is_given = self.keep(Of::Handles(index), given).is_some();
                // The kernel sets a place aside for each that is copied from.
                let last = self.out.handles.last().filter(|last| is_given && last.rights & rights::GRANT != 0);
                granted += usize::from(last.is_some());
                if last.is_some() && granted == limits::DERIVATIONS + 1 {
                    let (what, limit) = ("handles with the right `grant`", limits::DERIVATIONS);
                    self.keep(Of::Nothing, Err::<(), _>(At(text.span(), Reason::TooMany { what, limit })));
                }
            }
            for (entry, value) in &task.parameters.0 {
                let is_free = self.unused(index, entry.get_ref(), entry.span());
                if self.keep(Of::Nothing, is_free).is_some() {
                    self.parameter(index, entry.get_ref(), *value.get_ref() as u64);
                }
            }
        }
        // Automatic entries come after written ones, in each table.
        for (index, (name, _)) in file.tasks.0.iter().enumerate() {
            let given = self.automatic_handles(index, name);
            self.keep(Of::Handles(index), given);
        }
        for device in 0..self.out.devices.len() {
            let driver = self.out.devices[device].driver;
            for client in self.clients(device) {
                let told = self.sound(Of::Task(client)).and_then(|()| self.tell_of_client(driver, device, client));
                self.keep(Of::Nothing, told);
            }
            let served = self.sessions(device);
            self.keep(Of::Nothing, served);
        }
        self.mark_what_is_alone();
    }

    /// Tells each task which regions of memory it alone has: a driver may keep values there, not bytes to be copied.
    fn mark_what_is_alone(&mut self) {
        let of_regions = || self.out.handles.iter().filter(|handle| handle.kind == kind::REGION);
        let alone = of_regions().filter(|handle| {
            let is_memory = self.region_kinds[handle.object as usize] == RegionKind::Memory;
            let is_told = self.told.iter().any(|(_, region)| *region == handle.object as usize);
            let bytes = |handle: &image::Handle| {
                let region = &self.out.regions[handle.object as usize].1;
                region.physical..region.physical + region.bytes
            };
            // A part of a region is another region, and the same memory.
            let own = bytes(handle);
            let shares = |other: &&image::Handle| {
                let other = bytes(other);
                own.start < other.end && other.start < own.end
            };
            is_memory && !is_told && of_regions().filter(shares).count() == 1
        });
        let alone: Vec<(usize, u64)> =
            alone.map(|handle| (handle.task as usize, HandleValue::new(handle.slot as u16, 1).0)).collect();
        for (task, handle) in alone {
            let entries = self.out.tasks[task].environment.iter_mut();
            for entry in entries.filter(|entry| entry.kind == kind::REGION && entry.handle == handle) {
                entry.flags |= ALONE;
            }
        }
    }

    /// Gives `task` the handle that `text` names, in a slot.
    pub(super) fn handle(
        &mut self,
        task: usize,
        slot: usize,
        entry: &Spanned<String>,
        text: &Spanned<String>,
    ) -> Result<(), Fail> {
        let place = text.span();
        let bad = || At(place.clone(), Reason::BadHandle(text.get_ref().clone()));
        let (what, words) = text.get_ref().split_once(':').ok_or_else(bad)?;
        let mut what = what.split_whitespace();
        let kind = what.next().ok_or_else(bad)?;
        let object = what.next();
        let words: Vec<&str> = words.split_whitespace().collect();
        if what.next().is_some() || (object.is_none() && kind != "system") || words.is_empty() {
            return Err(bad());
        }
        let object = Spanned::new(place.clone(), object.unwrap_or_default().to_owned());
        let file = self.file;
        let &(kind, known) = RIGHTS.iter().find(|(name, _)| *name == kind).ok_or_else(bad)?;
        let set = rights_of(kind, known, &words, &place)?;
        match kind {
            "endpoint" => self.endpoint_handle(task, slot, entry, object, set),
            "notification" => {
                let notification = index_of(&file.notifications, "notification", &object)?;
                self.give(task, slot, entry, kind::NOTIFICATION, notification, set)
            }
            "engine" => {
                let engine = index_of(&file.engines, "engine", &object)?;
                self.sound(Of::Task(task)).and_then(|()| self.sound(Of::Engine(engine)))?;
                if set & SHARE != 0 {
                    if set != SHARE {
                        let (of, with) = (entry.get_ref().clone(), "`acquire`");
                        return Err(At(place, Reason::Excludes { what: "right `share`", of, with }));
                    }
                    return self.shared_user(task, engine, entry, &place);
                }
                self.give(task, slot, entry, kind::ENGINE, engine, set)?;
                self.engine_user(task, engine, entry, &place)
            }
            "pool" => self.pool_handle(task, slot, entry, &object, set),
            "interrupt" => {
                let interrupt = index_of(&file.interrupts, "interrupt", &object)?;
                self.give(task, slot, entry, kind::INTERRUPT, interrupt, set)
            }
            "region" => {
                let region = index_of(&file.regions, "region", &object)?;
                self.sound(Of::Region(region))?;
                if self.region_kinds[region] == RegionKind::Trace && set != READ {
                    let (of, with) = (object.into_inner(), "a right other than `read`");
                    return Err(At(place, Reason::Excludes { what: "trace", of, with }));
                }
                self.may_lend(entry, region, set, &place)?;
                self.share(task, slot, entry, region, set, &place)
            }
            "task" => {
                let other = index_of(&file.tasks, "task", &object)?;
                if set & rights::RESTART != 0 && !self.out.tasks[other].supervision.is_dormant {
                    let (of, needs) = (object.into_inner(), "`dormant = true`: others begin by themselves");
                    return Err(At(place, Reason::Needs { what: "right `start`", of, needs }));
                }
                self.give(task, slot, entry, kind::TASK, other, set)
            }
            "system" => self.give(task, slot, entry, kind::SYSTEM, 0, set),
            _ => Err(bad()),
        }
    }

    /// Gives a handle to an endpoint: only its server receives, and its queue has a place for each caller.
    fn endpoint_handle(
        &mut self,
        task: usize,
        slot: usize,
        entry: &Spanned<String>,
        object: Spanned<String>,
        set: u32,
    ) -> Result<(), Fail> {
        let place = object.span();
        let endpoint = index_of(&self.file.endpoints, "endpoint", &object)?;
        self.sound(Of::Endpoint(endpoint))?;
        let server = self.out.endpoints[endpoint].1.server as usize;
        if set & rights::RECEIVE != 0 && server != task {
            let reason = Reason::NotTheServer {
                task: self.out.tasks[task].name.clone(),
                endpoint: object.into_inner(),
                server: self.out.tasks[server].name.clone(),
            };
            return Err(At(place, reason));
        }
        self.give(task, slot, entry, kind::ENDPOINT, endpoint, set)?;
        let may_call = |handle: &&image::Handle| {
            let is_it = handle.kind == kind::ENDPOINT && handle.object as usize == endpoint;
            is_it && handle.rights & (rights::CALL | rights::SEND) != 0
        };
        let callers: BTreeSet<u32> = self.out.handles.iter().filter(may_call).map(|handle| handle.task).collect();
        let limit = limits::CALLERS;
        if callers.len() > limit {
            let name = self.out.endpoints[endpoint].0.clone();
            return Err(At(place, Reason::Crowded { kind: "endpoint", name, what: "callers", limit }));
        }
        Ok(())
    }

    /// Gives a handle to a pool, of which the task becomes a user.
    fn pool_handle(
        &mut self,
        task: usize,
        slot: usize,
        entry: &Spanned<String>,
        object: &Spanned<String>,
        set: u32,
    ) -> Result<(), Fail> {
        let place = object.span();
        let pool = index_of(&self.file.pools, "pool", object)?;
        self.sound(Of::Task(task)).and_then(|()| self.sound(Of::Pool(pool)))?;
        self.pool_user(task, pool, &place)?;
        self.out.pool_users.push(image::PoolUser { pool: pool as u32, task: task as u32, length: 0 });
        self.give(task, slot, entry, kind::POOL, pool, set)?;
        let record = &self.out.pools[pool].1;
        if let Some(handle) = self.out.tasks[task].environment.last_mut() {
            handle.flags = record.replicas / record.devices.max(1);
        }
        Ok(())
    }

    /// Puts a handle into a slot, and an entry into the environment.
    pub(super) fn give(
        &mut self,
        task: usize,
        slot: usize,
        name: &Spanned<String>,
        kind: u32,
        object: usize,
        rights: u32,
    ) -> Result<(), Fail> {
        if slot >= limits::HANDLES {
            let (name_text, limit) = (self.out.tasks[task].name.clone(), limits::HANDLES);
            return Err(At(name.span(), Reason::Crowded { kind: "task", name: name_text, what: "handles", limit }));
        }
        let badge = task as u32 + 1;
        let record = image::Handle { task: task as u32, slot: slot as u32, kind, object: object as u32, rights, badge };
        self.out.handles.push(record);
        self.out.tasks[task].environment.push(Entry {
            name: name.get_ref().clone(),
            kind,
            flags: 0,
            handle: HandleValue::new(slot as u16, 1).0,
            address: 0,
            bytes: 0,
            physical: 0,
        });
        Ok(())
    }

    /// A lent region is read-only; and a place for it is of limited size, and nothing else.
    pub(super) fn may_lend(
        &self,
        name: &Spanned<String>,
        region: usize,
        set: u32,
        place: &Range<usize>,
    ) -> Result<(), Fail> {
        let of = name.get_ref().clone();
        let refuse = |reason| Err(At(place.clone(), reason));
        let lends = set & rights::LEND != 0;
        if set & (rights::LEND | rights::LENT) == 0 {
            return Ok(());
        }
        if set & READ == 0 {
            let what = if lends { "lend" } else { "lent" };
            return refuse(Reason::Needs { what, of, needs: "the right to read" });
        }
        if set & rights::LENT == 0 {
            return Ok(());
        }
        let others = [("lend", rights::LEND), ("map", MAP), ("physical", PHYSICAL)];
        if let Some((with, _)) = others.into_iter().find(|(_, right)| set & right != 0) {
            return refuse(Reason::Excludes { what: "lent", of, with });
        }
        if matches!(self.region_kinds[region], RegionKind::Device(_)) {
            return refuse(Reason::Excludes { what: "lent", of, with: "a device" });
        }
        let (bytes, limit) = (self.out.regions[region].1.bytes, layout::LENT_MAX);
        if bytes <= limit {
            return Ok(());
        }
        refuse(Reason::TooLargeToLend { place: of, bytes: Bytes(bytes), limit: Bytes(limit) })
    }

    /// Gives a task a region, mapped from the start unless it has the right to map, or it is only lent to it.
    pub(super) fn share(
        &mut self,
        task: usize,
        slot: usize,
        name: &Spanned<String>,
        region: usize,
        set: u32,
        place: &Range<usize>,
    ) -> Result<(), Fail> {
        let twice = |handle: &image::Handle| {
            handle.task as usize == task && handle.kind == kind::REGION && handle.object as usize == region
        };
        let (region_name, record) = self.out.regions[region].clone();
        if self.out.handles.iter().any(twice) || self.told.contains(&(task, region)) {
            let task = self.out.tasks[task].name.clone();
            return Err(At(place.clone(), Reason::RegionTwice { task, region: region_name }));
        }
        if set == PHYSICAL {
            self.told.insert((task, region));
            self.tell(task, name.get_ref(), record.physical, record.bytes);
            return Ok(());
        }
        let is_place = set & rights::LENT != 0;
        self.give(task, slot, name, kind::REGION, region, set & !PHYSICAL)?;
        let entry = self.out.tasks[task].environment.last_mut();
        if let Some(entry) = entry {
            if is_place {
                entry.kind = fusee_abi::environment::kind::PLACE;
            }
            if let RegionKind::Device(number) = self.region_kinds[region] {
                entry.flags = number;
            }
            entry.address = if set & (READ | WRITE) != 0 { record.address } else { 0 };
            entry.bytes = record.bytes;
            entry.physical = if set & PHYSICAL != 0 { record.physical } else { 0 };
        }
        if set & (READ | WRITE) == 0 {
            return Ok(());
        }
        let mut flags = mapping::READ;
        if set & WRITE != 0 {
            flags |= mapping::WRITE;
        }
        if set & MAP != 0 {
            flags |= mapping::HELD_BACK;
        }
        if is_place {
            let scratch = self.scratch(task, place)?;
            self.out.mappings.push(image::Mapping {
                task: task as u32,
                flags: flags | mapping::SCRATCH | mapping::FILL,
                address: record.address,
                physical: scratch,
                pages: record.bytes / PAGE,
                source_offset: 0,
                source_bytes: 0,
            });
            flags |= mapping::LENT;
        }
        let kind = self.region_kinds[region];
        if matches!(kind, RegionKind::Device(_)) {
            flags |= mapping::DEVICE;
        } else if kind == RegionKind::Trace {
            flags |= mapping::TRACE;
        } else if !self.out.mappings.iter().any(|other| other.physical == record.physical) {
            // The first task that has the region lets the kernel zero it.
            flags |= mapping::FILL;
        }
        if kind == RegionKind::Uncached {
            flags |= mapping::UNCACHED;
        }
        self.out.mappings.push(image::Mapping {
            task: task as u32,
            flags,
            address: record.address,
            physical: record.physical,
            pages: record.bytes / PAGE,
            source_offset: 0,
            source_bytes: 0,
        });
        Ok(())
    }

    /// The page that a task finds at its places while a lent region is gone: one for all of them.
    pub(super) fn scratch(&mut self, task: usize, place: &Range<usize>) -> Result<u64, Fail> {
        let is_scratch =
            |mapping: &&image::Mapping| mapping.task as usize == task && mapping.flags & mapping::SCRATCH != 0;
        match self.out.mappings.iter().find(is_scratch) {
            Some(mapping) => Ok(mapping.physical),
            None => self.allocate(&self.out.tasks[task].name.clone(), PAGE, place.clone()),
        }
    }

    pub(super) fn unused(&self, task: usize, name: &str, place: Range<usize>) -> Result<(), Fail> {
        if name.len() > 24 {
            return Err(At(place, Reason::NameTooLong { name: name.to_owned(), limit: 24 }));
        }
        let task = &self.out.tasks[task];
        match task.environment.iter().any(|entry| entry.name == name) {
            true => Err(At(place, Reason::NameTaken { task: task.name.clone(), name: name.to_owned() })),
            false => Ok(()),
        }
    }

    pub(super) fn parameter(&mut self, task: usize, name: &str, value: u64) {
        self.out.tasks[task].environment.push(Entry {
            name: name.to_owned(),
            kind: fusee_abi::environment::kind::PARAMETER,
            flags: 0,
            handle: 0,
            address: value,
            bytes: 0,
            physical: 0,
        });
    }

    /// Gives `task` the place of memory that it cannot reach itself, such as the memory that it lets its device reach. The kernel
    /// knows nothing of it, so there is no handle.
    pub(super) fn tell(&mut self, task: usize, name: &str, physical: u64, bytes: u64) {
        self.out.tasks[task].environment.push(Entry {
            name: name.to_owned(),
            kind: kind::REGION,
            flags: 0,
            handle: 0,
            address: 0,
            bytes,
            physical,
        });
    }

    /// The first slot of `task` after those that are filled.
    pub(super) fn next_slot(&self, task: usize) -> usize {
        let given = self.out.handles.iter().filter(|handle| handle.task as usize == task);
        given.map(|handle| handle.slot as usize + 1).max().unwrap_or(0)
    }
}

/// The bits of some words for rights.
fn rights_of(
    kind: &'static str,
    known: &[(&'static str, u32)],
    words: &[&str],
    place: &Range<usize>,
) -> Result<u32, Fail> {
    words.iter().try_fold(0, |set, word| match known.iter().find(|(name, _)| name == word) {
        Some((_, bit)) => Ok(set | bit),
        None => {
            let choices = known.iter().map(|(name, _)| (*name).to_owned()).collect();
            Err(At(place.clone(), Reason::BadRight { kind, right: (*word).to_owned(), choices }))
        }
    })
}
