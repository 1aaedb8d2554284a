//! Accelerators: devices, their engines and watchdogs, and pools of tokens.

use std::collections::BTreeMap;

use fusee_abi::call::{RESET, rights};
use fusee_abi::image::{self, class, kind, order};
use fusee_accel_contract as contract;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{Contexts, CopyEngines, EngineIndex};
use fusee_kernel_core::limits;
use fusee_sched::key::FAIR_LATENESS_OFFSET;
use fusee_sched::time::Nanoseconds;
use fusee_spatial::Mechanism;
use toml::Spanned;

use super::spatial::mechanism;
use super::users::KICK;
use super::{
    Device,
    Fail::{self, At},
    Of, Processor, Program, RegionKind, Resolver, index_of, plus_one, span,
};
use crate::device::TIMES;
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::quantity::Time;
use crate::schema::{self, Arbiter, Limit, NamedLimit, Order};

const _: () = assert!(image::GATE_SHUT == contract::GATE_SHUT, "the kernel stores what devices look for");

/// The least time that a driver may take to reset an engine, if the manifest states none; in nanoseconds.
const RESET_BOUND: u64 = 10_000_000;
/// The least time after which an engine is taken from its holder, if its users do not all declare how long they hold it; in
/// nanoseconds. A task that waits for the engine waits for a long time then, but not for ever.
const UNSAID_WATCHDOG: u64 = 1_000_000_000;
/// The first line of the interrupt controller that is not some CPU's own.
const FIRST_SHARED_LINE: u32 = 32;
/// The longest change of context, in nanoseconds.
const SWITCH_MAX: u32 = 1_000_000_000;
/// The farthest distance, in percent of the time over a near way.
const FARTHEST: u32 = 100_000;

/// The copy engines of a device; a processor that works on commands of its driver has none.
fn copy_engines(of: &str, device: &schema::Device, is_told: bool) -> Result<CopyEngines, Fail> {
    match &device.copy_engines {
        None if is_told => Ok(CopyEngines::None),
        None => Ok(CopyEngines::Two),
        Some(number) if is_told && *number.get_ref() != 0 => {
            let (of, with) = (of.to_owned(), "a `device` that runs no firmware");
            Err(At(number.span(), Reason::Excludes { what: "copy_engines", of, with }))
        }
        Some(number) => CopyEngines::from_number(*number.get_ref()).ok_or_else(|| {
            let (what, to) = ("copy_engines", contract::ENGINES as u32 - 1);
            At(number.span(), Reason::OutOfRange { what, of: of.to_owned(), from: 0, to })
        }),
    }
}

/// The bytes of local memory, to which copy engines copy.
fn local_memory(name: &Spanned<String>, device: &schema::Device, engines: CopyEngines) -> Result<u64, Fail> {
    let of = name.get_ref().clone();
    match (&device.memory, engines != CopyEngines::None) {
        (None, false) => Ok(0),
        (None, true) => Err(At(name.span(), Reason::Needs { what: "device", of, needs: "memory" })),
        (Some(memory), false) => {
            let with = "`copy_engines = 0`";
            Err(At(memory.span(), Reason::Excludes { what: "memory", of, with }))
        }
        (Some(memory), true) => {
            let bytes = memory.get_ref().0;
            if bytes == 0 || !bytes.is_multiple_of(PAGE) {
                return Err(At(memory.span(), Reason::NotPages { what: "memory", of }));
            }
            Ok(bytes)
        }
    }
}

/// The number of contexts of `device`.
fn contexts(of: &str, device: &schema::Device) -> Result<Contexts, Fail> {
    let Some(number) = &device.contexts else { return Ok(Contexts::DEFAULT) };
    let (what, to) = ("contexts", contract::CONTEXTS as u32);
    let range = Reason::OutOfRange { what, of: of.to_owned(), from: 2, to };
    Contexts::new(*number.get_ref()).ok_or_else(|| At(number.span(), range))
}

/// An engine, its device and its number there, and the time of the end of an operation.
type Made = (image::Engine, Option<(usize, EngineIndex)>, Nanoseconds);

impl Resolver<'_> {
    /// The matrix of ways: percent of the time that a byte takes over a near one, by the device that copies and the
    /// device that it copies from.
    pub(super) fn ways(&self) -> Result<Vec<Vec<Slowdown>>, Fail> {
        let count = self.file.devices.0.len();
        let Some(rows) = &self.file.system.distance else { return Ok(vec![vec![Slowdown::NEAR; count]; count]) };
        if count == 0 || rows.get_ref().len() != count || rows.get_ref().iter().any(|row| row.len() != count) {
            return Err(At(rows.span(), Reason::NotSquare { count }));
        }
        let way = |percent: &Spanned<u32>| {
            let fits = (100..=FARTHEST).contains(percent.get_ref());
            fits.then(|| Slowdown(percent.get_ref() - 100)).ok_or_else(|| At(percent.span(), Reason::Distance))
        };
        rows.get_ref().iter().map(|row| row.iter().map(way).collect()).collect()
    }

    pub(super) fn devices(&mut self) {
        let ways = self.ways();
        let ways = self.keep(Of::Nothing, ways);
        // All that devices reach lies before all that is theirs alone.
        let mut rings = Vec::new();
        for (index, (name, device)) in self.file.devices.0.iter().enumerate() {
            let size = contexts(name.get_ref(), device).unwrap_or_default();
            let own = self.allocate(name.get_ref(), (size.number() - 1) as u64 * PAGE, name.span());
            rings.push(self.keep(Of::Device(index), own).unwrap_or(0));
        }
        let system_end = self.out.pool_next;
        let Some((first, _)) = self.file.devices.0.first() else { return };
        // A processor of the board is kicked by its driver alone.
        let is_kicked = self.file.devices.0.iter().any(|(_, device)| device.device.is_none());
        let page = self.out.board.kick.as_ref().map(|kick| kick.page);
        let kick = page.filter(|_| is_kicked).map(|page| {
            let kick =
                self.region(format!("{}.kick", first.get_ref()), page, PAGE, RegionKind::Device(0), first.span());
            self.keep(Of::Nothing, kick).unwrap_or(0)
        });
        if is_kicked && page.is_none() {
            let kick = self.notification(format!("{}.kick", first.get_ref()), first.span());
            self.out.kick = self.keep(Of::Nothing, kick);
        }
        let near = vec![Slowdown::NEAR; self.file.devices.0.len()];
        // One CPU plays all devices that are none of the board's, so one program has the kernels of all.
        let played = || self.file.devices.0.iter().filter(|(_, device)| device.device.is_none());
        let kernels = || played().map(|(_, device)| device.kernels.as_ref());
        let kernels: String = match kernels().flatten().next() {
            Some(_) => kernels().map(|name| format!("+{}", name.map_or("", |name| name.get_ref()))).collect(),
            None => String::new(),
        };
        for (index, (name, device)) in self.file.devices.0.iter().enumerate() {
            let ways = ways.as_ref().map_or(near.clone(), |ways| ways[index].clone());
            let nothing = Device {
                name: name.get_ref().clone(),
                firmware: device.firmware.as_ref().map(|firmware| match device.device {
                    None => firmware.get_ref().clone() + &kernels,
                    Some(_) => firmware.get_ref().clone(),
                }),
                processor: None,
                time_file: device.times.as_ref().map(|file| file.get_ref().clone()),
                times: times(device, self.file.measures),
                driver: 0,
                system_end,
                rings: rings[index],
                control: 0,
                status: 0,
                doorbells: 0,
                copy_engines: CopyEngines::None,
                preemptible: device.preemptible,
                size: Contexts::DEFAULT,
                arbiter: device.arbiter.as_ref().map_or(Arbiter::Arrival, |arbiter| *arbiter.get_ref()),
                weighed: Vec::new(),
                switch: 0,
                counters: false,
                sms: 0,
                keyed: false,
                mechanism: Mechanism::Switch,
                memory: 0,
                memory_bytes: 0,
                ways,
                given: Vec::new(),
                contexts: Vec::new(),
                line: 0,
            };
            let made = self.device(name, device, nothing.clone(), kick);
            let made = self.keep(Of::Device(index), made).unwrap_or(nothing);
            self.out.devices.push(made);
        }
    }

    /// Fills in the fields that `nothing` leaves empty.
    fn device(
        &mut self,
        name: &Spanned<String>,
        device: &schema::Device,
        nothing: Device,
        kick: Option<usize>,
    ) -> Result<Device, Fail> {
        let missing = || At(name.span(), Reason::MissingKey("driver".to_owned()));
        let driver_name = device.driver.as_ref().ok_or_else(missing)?;
        let driver = self.task(driver_name)?;
        let of = name.get_ref().clone();
        let processor = device.device.as_ref().map(|wanted| self.processor(&of, wanted)).transpose()?;
        self.fits_its_processor(&of, device, processor.is_some())?;
        self.firmware(name, device, processor.as_ref())?;
        let size = contexts(&of, device)?;
        let (weighed, switch) = self.arbitration(name, device)?;
        if let Some(other) = self.out.devices.iter().find(|other| other.contexts.first() == Some(&driver)) {
            let (what, by) = ("driver", other.name.clone());
            return Err(At(driver_name.span(), Reason::PlaceTaken { what, of, by }));
        }
        // The device works on commands of its driver.
        let is_told = processor.as_ref().is_some_and(|processor| processor.program.is_none());
        let copy_engines = copy_engines(&of, device, is_told)?;
        let memory_bytes = local_memory(name, device, copy_engines)?;
        let mut made = Device { driver, processor, copy_engines, size, weighed, switch, memory_bytes, ..nothing };
        self.place_device(name, device, &mut made)?;
        self.give_regions(name, &mut made, kick)?;
        made.counters = self.counts(name, device);
        made.sms = self.sms(name, device)?;
        made.mechanism = mechanism(name, device)?;
        made.contexts = vec![driver];
        Ok(made)
    }

    /// Refuses keys that a device that is a processor of the board does not have, and tables of times that cannot be used.
    fn fits_its_processor(&self, of: &str, device: &schema::Device, is_processor: bool) -> Result<(), Fail> {
        let excludes = |what, with| Reason::Excludes { what, of: of.to_owned(), with };
        let wanted = device.device.as_ref().filter(|_| is_processor).map(Spanned::span);
        if let (Some(place), true) = (&wanted, device.preemptible) {
            return Err(At(place.clone(), excludes("device", "`preemptible`")));
        }
        if let (Some(place), Some(_)) = (&wanted, &device.kernels) {
            return Err(At(place.clone(), excludes("device", "`kernels`")));
        }
        let Some(times) = &device.times else { return Ok(()) };
        if wanted.is_some() {
            return Err(At(times.span(), excludes("times", "`device`")));
        }
        if let Some(Err(reason)) = &device.time_table {
            return Err(At(times.span(), reason.clone()));
        }
        let tables = self.file.devices.0.iter().filter_map(|(_, device)| device.measured());
        let all: usize = tables.map(|table| table.kernels.len()).sum();
        if all > TIMES {
            let what = "classes of launches whose times were measured, of all devices together";
            return Err(At(times.span(), Reason::TooMany { what, limit: TIMES }));
        }
        Ok(())
    }

    /// Allocates the pages of a device and its local memory.
    fn place_device(&mut self, name: &Spanned<String>, device: &schema::Device, made: &mut Device) -> Result<(), Fail> {
        let (of, place) = (name.get_ref(), name.span());
        made.control = if made.processor.is_none() { self.allocate(of, PAGE, place.clone())? } else { 0 };
        made.status = self.allocate(of, PAGE, place.clone())?;
        made.doorbells = self.allocate(of, contract::DOORBELL_PAGES as u64 * PAGE, place.clone())?;
        let memory_place = device.memory.as_ref().map_or(place, Spanned::span);
        made.memory = self.allocate(of, made.memory_bytes, memory_place)?;
        Ok(())
    }

    /// Makes the regions of a device that its driver is given.
    fn give_regions(&mut self, name: &Spanned<String>, made: &mut Device, kick: Option<usize>) -> Result<(), Fail> {
        let (is_model, own) = (made.processor.is_none(), RegionKind::Memory);
        let only_if = |is_so: bool, bytes: u64| if is_so { bytes } else { 0 };
        let mut wanted = vec![
            ("control", made.control, only_if(is_model, PAGE), own),
            ("status", made.status, PAGE, own),
            ("local", made.memory, made.memory_bytes, own),
            ("doorbells", made.doorbells, only_if(!is_model, contract::DOORBELL_PAGES as u64 * PAGE), own),
        ];
        if let Some(Processor { name, program }) = &made.processor
            && let Some(registers) = self.out.board.devices.get(name)
        {
            let entry = if program.is_some() { "reset" } else { "registers" };
            wanted.push((entry, registers.at, registers.bytes.0, RegionKind::Device(registers.kind.number())));
            // As device memory, so that stores reach the memory where the processor looks: it shares no cache.
            let Program { memory, memory_bytes } = program.unwrap_or(Program { memory: 0, memory_bytes: 0 });
            wanted.push(("program", memory, memory_bytes, RegionKind::Device(0)));
        }
        made.given = kick.filter(|_| is_model).map(|kick| ("kick", kick)).into_iter().collect();
        for (entry, physical, bytes, kind) in wanted.into_iter().filter(|(_, _, bytes, _)| *bytes > 0) {
            let region = self.region(format!("{}.{entry}", name.get_ref()), physical, bytes, kind, name.span())?;
            made.given.push((entry, region));
            if let (RegionKind::Device(1..), Some(processor)) = (kind, &made.processor) {
                self.out.board_regions.push((region, processor.name.clone()));
            }
        }
        Ok(())
    }

    /// The choice of a device among the commands of clients without locks: tasks with their weights, and the cost of a change of
    /// context.
    fn arbitration(&self, name: &Spanned<String>, device: &schema::Device) -> Result<(Vec<(usize, u8)>, u32), Fail> {
        let of = || name.get_ref().clone();
        let places = [
            ("arbiter", device.arbiter.as_ref().map(Spanned::span)),
            ("switch", device.switch.as_ref().map(Spanned::span)),
            ("counters", device.counters.as_ref().map(Spanned::span)),
            ("weights", device.weights.0.first().map(|(task, _)| task.span())),
        ];
        for (what, place) in places {
            if let (Some(place), Some(_)) = (place, &device.device) {
                return Err(At(place, Reason::Excludes { what, of: of(), with: "`device`" }));
            }
        }
        if let (Some((task, _)), Some(Arbiter::Arrival | Arbiter::RoundRobin) | None) =
            (device.weights.0.first(), device.arbiter.as_ref().map(Spanned::get_ref))
        {
            return Err(At(
                task.span(),
                Reason::Needs { what: "weights", of: of(), needs: "`arbiter = \"weighted\"`" },
            ));
        }
        if let (Some(switch), true) = (&device.switch, device.preemptible) {
            // No term has the number of times that a hold changes hands between two blocks.
            return Err(At(switch.span(), Reason::Excludes { what: "switch", of: of(), with: "`preemptible`" }));
        }
        let weight = |(task, weight): &(Spanned<String>, Spanned<u32>)| {
            let fits = u8::try_from(*weight.get_ref()).ok().filter(|weight| *weight > 0);
            let range =
                || Reason::OutOfRange { what: "weight", of: task.get_ref().clone(), from: 1, to: u8::MAX.into() };
            Ok((self.task(task)?, fits.ok_or_else(|| At(weight.span(), range()))?))
        };
        let weights: Result<Vec<_>, Fail> = device.weights.0.iter().map(weight).collect();
        let switch = device.switch.as_ref().map(|switch| {
            let short = u32::try_from(switch.get_ref().0).ok().filter(|time| *time <= SWITCH_MAX);
            let (what, to) = ("switch, in microseconds,", SWITCH_MAX / 1_000);
            short.ok_or_else(|| At(switch.span(), Reason::OutOfRange { what, of: of(), from: 0, to }))
        });
        Ok((weights?, switch.transpose()?.unwrap_or(0)))
    }

    /// Whether a device counts the work of each context: as it declares, or because a server decides by that.
    fn counts(&self, name: &Spanned<String>, device: &schema::Device) -> bool {
        let mut engines = self.file.engines.0.iter().map(|(_, engine)| engine);
        let is_shared = |engine: &schema::Engine| {
            engine.sharer.is_some() && engine.device.as_ref().is_some_and(|device| device.get_ref() == name.get_ref())
        };
        device.counters.as_ref().map_or_else(|| engines.any(is_shared), |counters| *counters.get_ref())
    }

    /// Whether `device` has a firmware, and the same as the others, if it runs one.
    fn firmware(
        &self,
        name: &Spanned<String>,
        device: &schema::Device,
        processor: Option<&Processor>,
    ) -> Result<(), Fail> {
        let of = || name.get_ref().clone();
        let is_told = processor.is_some_and(|processor| processor.program.is_none());
        let firmware = match &device.firmware {
            None if is_told => return Ok(()),
            None => return Err(At(name.span(), Reason::Needs { what: "device", of: of(), needs: "firmware" })),
            Some(firmware) if is_told => {
                let with = "a `device` that runs none";
                return Err(At(firmware.span(), Reason::Excludes { what: "firmware", of: of(), with }));
            }
            Some(firmware) => firmware,
        };
        let others = self.file.devices.0.iter();
        let mut others = others.filter_map(|(first, other)| Some((first, other.firmware.as_ref()?)));
        if let Some((first, _)) = others.next().filter(|(_, other)| other.get_ref() != firmware.get_ref()) {
            let (first, second) = (first.get_ref().clone(), of());
            return Err(At(firmware.span(), Reason::TwoFirmwares { first, second }));
        }
        Ok(())
    }

    /// The processor that the board calls `wanted`, for the device `of`; or the device that can be an engine.
    fn processor(&self, of: &str, wanted: &Spanned<String>) -> Result<Processor, Fail> {
        let device = self.board_device(wanted.get_ref(), wanted.span())?;
        let program = match (device.memory, device.memory_bytes) {
            (Some(memory), Some(bytes)) => Some(Program { memory, memory_bytes: bytes.0 }),
            _ if device.engine => None,
            _ => {
                let (of, needs) = (of.to_owned(), "a processor of the board");
                return Err(At(wanted.span(), Reason::Needs { what: "device", of, needs }));
            }
        };
        let has_it = |other: &&Device| other.processor.as_ref().is_some_and(|other| other.name == *wanted.get_ref());
        if let Some(other) = self.out.devices.iter().find(has_it) {
            let (of, by) = (of.to_owned(), other.name.clone());
            return Err(At(wanted.span(), Reason::PlaceTaken { what: "processor", of, by }));
        }
        Ok(Processor { name: wanted.get_ref().clone(), program })
    }

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

    /// Sets the times after which engines are taken from their holders.
    pub(super) fn watchdogs(&mut self) {
        for index in 0..self.out.engines.len() {
            let result = self.sound(Of::Engine(index)).and_then(|()| self.watchdog(index));
            self.keep(Of::Nothing, result);
        }
    }

    fn watchdog(&mut self, index: usize) -> Result<(), Fail> {
        let (name, engine) = &self.file.engines.0[index];
        let of = || name.get_ref().clone();
        let hangs = engine.hangs.as_ref().filter(|hangs| *hangs.get_ref()).map(Spanned::span);
        let unwatched = |place| Err(At(place, Reason::Needs { what: "hangs", of: of(), needs: "a watchdog" }));
        let Some((owner, number)) = self.out.engine_places[index] else {
            let key = engine.watchdog.as_ref().map(|time| (time, "watchdog"));
            match key.or(engine.reset_bound.as_ref().map(|time| (time, "reset_bound"))) {
                Some((time, what)) => {
                    return Err(At(time.span(), Reason::Needs { what, of: of(), needs: "a device" }));
                }
                None => match hangs {
                    Some(place) => return unwatched(place),
                    None => return Ok(()),
                },
            }
        };
        let said = engine.watchdog.as_ref().map(|time| time.get_ref().0);
        let watchdog = said.unwrap_or_else(|| self.engine_watchdog(index));
        let reset_bound = engine.reset_bound.as_ref().map_or(watchdog.max(RESET_BOUND), |time| time.get_ref().0);
        let place = engine.watchdog.as_ref().map_or(name.span(), Spanned::span);
        for (what, time) in [("watchdog", watchdog), ("reset_bound", reset_bound)] {
            if time == 0 {
                return Err(At(place, Reason::Zero { what, of: of() }));
            }
            if time > FAIR_LATENESS_OFFSET.0 {
                return Err(At(place, Reason::TooLong { what, of: of(), time: Time(time) }));
            }
        }
        if let Some((user, hold)) = self.holds_of(index).find(|(_, hold)| hold.is_some_and(|hold| hold > watchdog)) {
            let (user, hold) = (self.out.tasks[user].name.clone(), Time(hold.unwrap_or(0)));
            let watchdog = Time(watchdog);
            return Err(At(place, Reason::WatchdogTooShort { engine: of(), watchdog, user, hold }));
        }
        let line = self.out.engines[index].1.interrupt_plus_one - 1;
        let driver = self.out.devices[owner].contexts[0];
        let is_heard = |handle: &image::Handle| {
            handle.kind == kind::INTERRUPT && handle.object == line && handle.task as usize == driver
        };
        if !self.out.handles.iter().any(is_heard) {
            self.sound(Of::Handles(driver))?;
            let needs = "a driver that may acknowledge its interrupt";
            return Err(At(place, Reason::Needs { what: "watchdog", of: of(), needs }));
        }
        let reset_bits = RESET << number.number();
        // The event bits of each user of an engine whose device decides, too: see `split`.
        if self.out.interrupts[line as usize].1.bits & (u64::MAX << RESET.trailing_zeros()) != 0 {
            let with = "event bits of its interrupt from 32 on";
            return Err(At(place, Reason::Excludes { what: "watchdog", of: of(), with }));
        }
        if hangs.is_some() {
            self.out.engine_ends[index].1 = Nanoseconds(watchdog.saturating_add(reset_bound));
        }
        let record = &mut self.out.engines[index].1;
        (record.watchdog, record.reset_bound, record.reset_bits) = (watchdog, reset_bound, reset_bits);
        Ok(())
    }

    /// Sets the times that jobs wait for engines that clients without a lock have meanwhile.
    pub(super) fn gates(&mut self) {
        self.out.engine_take_backs = vec![Nanoseconds::ZERO; self.out.engines.len()];
        self.out.engine_shadows = vec![0; self.out.engines.len()];
        // The kernel numbers those of one engine one after the other.
        self.out.shared_users.sort_by_key(|user| user.engine);
        for index in 0..self.out.engines.len() {
            let result = self.sound(Of::Engine(index)).and_then(|()| self.gate(index));
            let result = result.and_then(|()| self.sharer(index));
            self.keep(Of::Nothing, result);
        }
    }

    /// Sets the server that decides on the doorbells of an engine's clients without its lock.
    fn sharer(&mut self, index: usize) -> Result<(), Fail> {
        let (name, engine) = &self.file.engines.0[index];
        let of = || name.get_ref().clone();
        let Some(sharer) = &engine.sharer else { return Ok(()) };
        let endpoint = index_of(&self.file.endpoints, "endpoint", sharer)?;
        self.sound(Of::Endpoint(endpoint))?;
        let server = self.out.endpoints[endpoint].1.server as usize;
        let is_client = |user: &&image::EngineUser| user.engine as usize == index;
        let members: Vec<usize> =
            self.out.shared_users.iter().filter(is_client).map(|user| user.task as usize).collect();
        let Some((device, number)) = self.out.engine_places[index].filter(|_| !members.is_empty()) else {
            let needs = "a task with the right `share`";
            return Err(At(sharer.span(), Reason::Needs { what: "sharer", of: of(), needs }));
        };
        if members.contains(&server) {
            let (of, with) =
                (self.out.tasks[server].name.clone(), "the right `share` to the engine that it decides on");
            return Err(At(sharer.span(), Reason::Excludes { what: "serving a sharer's endpoint", of, with }));
        }
        if let Some(hard) =
            members.iter().find(|task| self.file.tasks.0[**task].1.hard.as_ref().is_some_and(|hard| *hard.get_ref()))
        {
            let (of, with) = (self.out.tasks[*hard].name.clone(), "`hard`: nothing bounds how long it waits");
            return Err(At(
                sharer.span(),
                Reason::Excludes { what: "the right `share` to an engine with a sharer", of, with },
            ));
        }
        let of_all = |limit: usize, what: &'static str, count: usize| match count > limit {
            true => Err(At(sharer.span(), Reason::Crowded { kind: "engine", name: of(), what, limit })),
            false => Ok(()),
        };
        of_all(limits::MEMBERS_PER_ENGINE, "clients with a sharer", members.len())?;
        let all = self.out.shared_users.len();
        of_all(limits::MEMBERS, "clients without locks of all engines, where one has a sharer", all)?;
        let first = self.out.shared_users.iter().take_while(|user| user.engine as usize != index).count();
        let record = &mut self.out.engines[index].1;
        record.sharer_plus_one = endpoint as u32 + 1;
        (record.first_member, record.members) = (first as u16, members.len() as u16);
        self.out.engine_shadows[index] = self.allocate(name.get_ref(), members.len() as u64 * PAGE, sharer.span())?;

        let place = sharer.span();
        let named = |what: &str| Spanned::new(place.clone(), format!("{what}.{}", name.get_ref()));
        let entry = named("doorbells");
        self.unused(server, entry.get_ref(), place.clone())?;
        let slot = self.next_slot(server);
        self.give(server, slot, &entry, kind::DOORBELLS, index, rights::MAP)?;
        let first = self.out.devices[device].doorbells + contract::doorbell_page(number, 0);
        let doorbells = self.out.shared_users.iter().filter(is_client).map(|user| user.doorbell);
        let contexts = doorbells.enumerate().map(|(at, doorbell)| ((doorbell - first) / PAGE) << (4 * at)).sum();
        if let Some(entry) = self.out.tasks[server].environment.last_mut() {
            entry.address = layout::members(index);
            entry.bytes = 2 * members.len() as u64 * PAGE;
            entry.physical = contexts;
            entry.flags = number.number() as u32;
        }
        let plain = Spanned::new(place.clone(), KICK.to_owned());
        let given = |what: &str| self.out.devices[device].given.iter().find(|(given, _)| *given == what).copied();
        let wanted =
            [(given("status"), named("status"), rights::READ), (given(KICK), plain, rights::READ | rights::WRITE)];
        for (region, entry, rights) in wanted {
            let has = self.out.tasks[server].environment.iter().any(|one| one.name == *entry.get_ref());
            // One page lets all devices look.
            let Some((_, region)) = region.filter(|_| !(has && entry.get_ref() == KICK)) else { continue };
            self.unused(server, entry.get_ref(), place.clone())?;
            let slot = self.next_slot(server);
            self.share(server, slot, &entry, region, rights, &place)?;
        }
        self.signal_to_kick(server, &place)
    }

    fn gate(&mut self, index: usize) -> Result<(), Fail> {
        let (name, engine) = &self.file.engines.0[index];
        let of = || name.get_ref().clone();
        let switch = self.out.engine_places[index].map_or(0, |(device, _)| u64::from(self.out.devices[device].switch));
        let longest = span("shared_longest", &engine.shared_longest, name)?.0;
        let clients: Vec<u32> =
            self.out.shared_users.iter().filter(|one| one.engine as usize == index).map(|one| one.task).collect();
        if self.has_sms(index) {
            let drains = self.out.engine_places[index]
                .filter(|(device, _)| self.out.devices[*device].mechanism == Mechanism::Drain);
            if let (Some((device, _)), false) = (drains, clients.is_empty()) {
                // The length of their blocks is not declared.
                let place = self.file.devices.0[device].1.preemption.as_ref().map_or(name.span(), Spanned::span);
                let (of, with) = (self.out.devices[device].name.clone(), "clients without a lock");
                return Err(At(place, Reason::Excludes { what: "preemption = \"drain\"", of, with }));
            }
            // A client without a lock makes room at once: nothing is shut out.
            let excluded = [
                ("shared_longest", engine.shared_longest.as_ref().map(Spanned::span)),
                ("sharer", engine.sharer.as_ref().map(Spanned::span)),
            ];
            let found = excluded.into_iter().find_map(|(what, place)| Some((what, place?)));
            return found.map_or(Ok(()), |(what, place)| {
                Err(At(place, Reason::Excludes { what, of: of(), with: "`sms` of its device" }))
            });
        }
        let Some(said) = &engine.shared_longest else {
            return match clients.is_empty() {
                true => Ok(()),
                false => {
                    Err(At(name.span(), Reason::Needs { what: "right `share`", of: of(), needs: "`shared_longest`" }))
                }
            };
        };
        if longest == 0 {
            return Err(At(said.span(), Reason::Zero { what: "shared_longest", of: of() }));
        }
        if clients.is_empty() {
            // Or the task is one that has other mistakes.
            (0..self.out.tasks.len()).try_for_each(|task| self.sound(Of::Handles(task)))?;
            let needs = "a task with the right `share`";
            return Err(At(said.span(), Reason::Needs { what: "shared_longest", of: of(), needs }));
        }
        let Some((device, number)) = self.out.engine_places[index] else { return Ok(()) };
        // Commands that hang are reset; trusted clients have none that hangs.
        let trusted = clients.iter().all(|task| self.out.keeps_word[*task as usize]);
        let reset = if trusted { 0 } else { self.out.engines[index].1.reset_bound };
        let (completion, _) = self.out.engine_ends[index];
        let longest = longest.saturating_add(switch);
        self.out.engine_take_backs[index] = Nanoseconds(longest.saturating_add(completion.0).saturating_add(reset));
        let Device { control, status, .. } = self.out.devices[device];
        let record = &mut self.out.engines[index].1;
        record.shared_longest = longest;
        record.gate = control + contract::control_gate(number);
        record.shared_progress = status + contract::status_ended(number);
        Ok(())
    }

    /// Sets the times after which tokens are taken from their holders.
    pub(super) fn token_watchdogs(&mut self) {
        for index in 0..self.out.pools.len() {
            let watchdog = self.sound(Of::Pool(index)).and_then(|()| self.token_watchdog(index));
            self.out.pools[index].1.watchdog = self.keep(Of::Nothing, watchdog).unwrap_or(0);
        }
    }

    fn token_watchdog(&self, index: usize) -> Result<u64, Fail> {
        let (name, pool) = &self.file.pools.0[index];
        let of = || name.get_ref().clone();
        let explicit = span("watchdog", &pool.watchdog, name)?.0;
        if let Some(key) = &pool.watchdog {
            if explicit == 0 {
                return Err(At(key.span(), Reason::Zero { what: "watchdog", of: of() }));
            }
            let users = self.out.pool_users.iter().filter(|user| user.pool as usize == index);
            if let Some(user) = users.clone().find(|user| user.length > explicit) {
                let (user, hold) = (self.out.tasks[user.task as usize].name.clone(), Time(user.length));
                let watchdog = Time(explicit);
                return Err(At(key.span(), Reason::WatchdogTooShort { engine: of(), watchdog, user, hold }));
            }
        }
        let users = self.out.pool_users.iter().filter(|user| user.pool as usize == index);
        let lengths = users.map(|user| (user.task as usize, Some(user.length).filter(|length| *length > 0)));
        let usual = self.usual_watchdog(lengths);
        Ok(pool.watchdog.as_ref().map(|_| explicit).or(usual).unwrap_or(0))
    }

    /// Sets the time that jobs may be suspended and keep their keys: their declared suspensions, and their operations.
    pub(super) fn suspensions(&mut self) {
        for reservation in &mut self.out.reservations {
            let holds = self.out.engine_users.iter().zip(&self.out.engine_holds);
            let own = holds.filter(|(user, _)| user.task == reservation.task).filter_map(|(_, hold)| *hold);
            let operations = own.map(|one| one.operations.0);
            reservation.suspension = operations.fold(reservation.suspension, u64::saturating_add);
        }
    }

    /// For each user of `engine` its task, and its declared hold.
    pub(super) fn holds_of(&self, engine: usize) -> impl Iterator<Item = (usize, Option<u64>)> {
        let users = self.out.engine_users.iter().zip(&self.out.engine_holds);
        let users = users.filter(move |(user, _)| user.engine as usize == engine);
        users.map(|(user, hold)| (user.task as usize, hold.map(|one| one.hold.cpu.0 + one.hold.operation.0)))
    }

    /// A time after which no user, by its task and its declared hold, can still hold an engine or a token if it meets its deadlines
    /// and keeps to its declaration: its longest period or deadline, and three of its holds, since the last may go on after the
    /// job. `None`: some user declares nothing.
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

    /// A time after which no user can still hold `engine` that meets its deadlines and keeps to its declaration: its longest period
    /// or deadline, and three of its holds, since the last may go on after the job. If there is no such time, because a user
    /// declares nothing or has no deadline, it is a second.
    pub(super) fn engine_watchdog(&self, engine: usize) -> u64 {
        let time_of = |(task, hold): (usize, Option<u64>)| {
            let reservation = self.out.tasks[task].reservation.map(|own| &self.out.reservations[own]);
            let timed = reservation.filter(|reservation| reservation.class != class::BACKGROUND);
            let span = timed.map(|reservation| reservation.period.max(reservation.deadline));
            // A user keeps to its declared holds; that it meets deadlines counts only together with that.
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

/// The times of blocks of a device's kernels, as far as they were measured; `None`: they are being measured.
fn times(device: &schema::Device, measures: bool) -> Option<Vec<(u32, u32, u64)>> {
    if measures && device.times.is_some() {
        return None;
    }
    let each =
        device.measured().into_iter().flat_map(|table| table.kernels.iter().map(move |one| (one, table.block(one))));
    Some(each.map(|(kernel, time)| (kernel.identity, kernel.class, time)).collect())
}
