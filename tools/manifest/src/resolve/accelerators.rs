//! Accelerators: devices, their memory, contexts, firmware and arbitration.

use fusee_accel_contract as contract;
use fusee_accel_contract::timing::Slowdown;
use fusee_accel_contract::{Contexts, CopyEngines};
use fusee_spatial::Mechanism;
use toml::Spanned;

use super::spatial::mechanism;
use super::{
    Device,
    Fail::{self, At},
    Of, Processor, Program, RegionKind, Resolver,
};
use crate::device::TIMES;
use crate::error::Reason;
use crate::layout::PAGE;
use crate::schema::{self, Arbiter};

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
