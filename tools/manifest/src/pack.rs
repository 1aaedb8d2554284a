//! From a checked system and its programs to the bytes the kernel boots from.

use std::collections::{BTreeMap, HashMap};

use fusee_abi::environment;
use fusee_abi::image::{self, Header, Span, System, TABLES, Table, mapping};
use zerocopy::{Immutable, IntoBytes};

use crate::elf;
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::resolve::{Entry, Program, Resolved, Task};
use crate::schema::Panic;

/// Programs by the names the manifest uses: `package/binary`, the path of an ELF file, or a package's firmware.
pub type Binaries = BTreeMap<String, Vec<u8>>;

/// The choices of a run, which the manifest does not have.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// Distance between the CPUs the kernel uses.
    pub cpu_stride: u32,
    /// Enforce engine locks, or not; `None`: as in the manifest.
    pub managed: Option<bool>,
}

/// A packed system, aligned as the kernel expects it.
#[derive(Clone, Debug)]
pub struct PackedSystem {
    words: Vec<u64>,
    bytes: usize,
}

impl PackedSystem {
    fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        Self { words, bytes: bytes.len() }
    }

    /// All bytes: whole pages.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.bytes]
    }

    /// The system, as the kernel reads it.
    ///
    /// # Panics
    /// Never: the bytes packed here can be parsed.
    #[must_use]
    pub fn system(&self) -> System<'_> {
        System::parse(self.bytes()).unwrap_or_else(|error| panic!("what was packed cannot be read: {error:?}"))
    }
}

/// Packs `system`; without binaries the tasks have no code, which is all the simulator needs.
pub(crate) fn pack(
    system: &Resolved,
    binaries: Option<&Binaries>,
    options: PackOptions,
) -> Result<PackedSystem, Reason> {
    let mut packer = Packer {
        system: system.clone(),
        managed: options.managed.unwrap_or(system.managed),
        records: Vec::new(),
        mappings: system.mappings.clone(),
        blobs: Vec::new(),
        blob_bytes: 0,
        shared: HashMap::new(),
    };
    for (index, task) in system.tasks.iter().enumerate() {
        packer.task(index, task, binaries)?;
    }
    packer.doorbells();
    let firmware = match binaries {
        Some(binaries) => {
            let model = system.devices.iter().find(|device| device.processor.is_none());
            let firmware = model.and_then(|device| device.firmware.as_ref());
            firmware.map(|firmware| packer.firmware(firmware, binaries)).transpose()?
        }
        None => None,
    };
    Ok(packer.finish(options.cpu_stride, firmware))
}

struct Packer<'a> {
    system: Resolved,
    managed: bool,
    records: Vec<image::Task>,
    mappings: Vec<image::Mapping>,
    /// Page-aligned bytes behind the tables; offsets count from the first blob until `finish`.
    blobs: Vec<Vec<u8>>,
    blob_bytes: u64,
    /// Blobs that several tasks map, by binary and address of the segment.
    shared: HashMap<(&'a str, u64), u64>,
}

struct Firmware {
    offset: u64,
    bytes: u64,
    entry: u64,
    load: u64,
}

impl<'a> Packer<'a> {
    fn task(&mut self, index: usize, task: &'a Task, binaries: Option<&'a Binaries>) -> Result<(), Reason> {
        let mut entries = task.environment.clone();
        let entry = match binaries {
            Some(binaries) => self.program(index, task, binaries, &mut entries)?,
            None => 0,
        };
        let stack = self.system.allocate(&task.name, task.stack)?;
        self.map(
            index,
            mapping::READ | mapping::WRITE | mapping::FILL,
            layout::STACK_TOP - task.stack,
            stack,
            task.stack,
        );
        let system_devices = self.system.devices.clone();
        if !task.script.is_empty() {
            let steps = task.script.as_bytes();
            let at = self.blob(steps);
            let pages = (steps.len() as u64).next_multiple_of(PAGE);
            self.map(index, mapping::READ | mapping::IN_IMAGE, layout::SCRIPT, at, pages);
            entries.push(Entry {
                name: "script".into(),
                kind: environment::kind::SCRIPT,
                flags: 0,
                handle: 0,
                address: layout::SCRIPT,
                bytes: steps.len() as u64,
                physical: 0,
            });
        }
        for device in system_devices.iter().filter(|device| device.driver == index) {
            let program = device.processor.as_ref().and_then(|processor| processor.program);
            if let (Some(program), Some(name), Some(binaries)) = (program, &device.firmware, binaries) {
                entries.push(self.processor_firmware(index, name, program, binaries)?);
            }
        }
        let page = environment_page(&task.name, &entries);
        let at = self.blob(&page);
        let pages = (page.len() as u64).next_multiple_of(PAGE);
        self.map(index, mapping::READ | mapping::IN_IMAGE, layout::ENVIRONMENT, at, pages);
        self.records.push(image::Task {
            name: padded(&task.name),
            entry,
            stack_top: layout::STACK_TOP,
            environment: layout::ENVIRONMENT,
            cluster: task.cluster,
            supervision: task.supervision.word(),
            flags: if task.sleeps_inside { image::task::SLEEPS_INSIDE } else { 0 },
            reserved: 0,
        });
        Ok(())
    }

    /// Maps the segments of a program: read-only ones in place, written ones from the pool. A task with several lives copies the
    /// written ones itself at the beginning of each, by `entries`.
    fn program(
        &mut self,
        index: usize,
        task: &'a Task,
        binaries: &'a Binaries,
        entries: &mut Vec<Entry>,
    ) -> Result<u64, Reason> {
        let name = task.binary.as_str();
        let has_lives = task.supervision.starts.is_some() || task.supervision.is_dormant;
        let mut initial = layout::INITIAL;
        let bytes = binaries.get(name).ok_or_else(|| Reason::NoBinary { binary: name.to_owned() })?;
        let program = elf::read_task(name, bytes)?;
        for segment in &program.segments {
            let pages = segment.bytes.next_multiple_of(PAGE);
            let at = match self.shared.get(&(name, segment.address)) {
                Some(at) => *at,
                None => {
                    // The file may hold less than the memory; a segment mapped in place needs all of it.
                    let mut data = segment.data.to_vec();
                    if !segment.writable {
                        data.resize(segment.bytes as usize, 0);
                    }
                    let at = self.blob(&data);
                    self.shared.insert((name, segment.address), at);
                    at
                }
            };
            let execute = if segment.executable { mapping::EXECUTE } else { 0 };
            if segment.writable {
                let physical = self.system.allocate(name, pages)?;
                let fill = if has_lives { 0 } else { mapping::FILL };
                self.map(index, mapping::READ | mapping::WRITE | fill, segment.address, physical, pages);
            }
            if segment.writable && has_lives {
                let length = segment.data.len() as u64;
                let source = length.next_multiple_of(PAGE);
                if source != 0 {
                    self.map(index, mapping::READ | mapping::IN_IMAGE, initial, at, source);
                }
                let (kind, address, handle) = (environment::kind::INITIAL, initial, segment.bytes);
                let name = "initial".into();
                entries.push(Entry { name, kind, flags: 0, handle, address, bytes: length, physical: segment.address });
                initial += source + PAGE;
            } else if segment.writable {
                if let Some(last) = self.mappings.last_mut() {
                    last.source_offset = at;
                    last.source_bytes = segment.data.len() as u64;
                }
            } else {
                self.map(index, mapping::READ | execute | mapping::IN_IMAGE, segment.address, at, pages);
            }
        }
        Ok(program.entry)
    }

    fn doorbells(&mut self) {
        let held = if self.managed { mapping::HELD_BACK } else { 0 };
        let of_lock = self.system.engine_users.iter().map(|user| (*user, mapping::WRITE | held));
        let sharer = |user: &image::EngineUser| self.system.engines[user.engine as usize].1.sharer_plus_one;
        let write = |user: &image::EngineUser| if sharer(user) == 0 { mapping::WRITE } else { 0 };
        let without = self.system.shared_users.iter().map(|user| (*user, write(user)));
        for (user, how) in of_lock.chain(without).collect::<Vec<_>>() {
            if user.address == 0 {
                continue;
            }
            // Filled with zeros: the device and its client count submitted commands from there.
            self.map(user.task as usize, mapping::READ | mapping::FILL | how, user.address, user.doorbell, PAGE);
        }
        // Doorbells that a sharer decides on are there once more, and have shadows.
        for index in 0..self.system.engines.len() {
            let Some(endpoint) = self.system.engines[index].1.sharer_plus_one.checked_sub(1) else { continue };
            let server = self.system.endpoints[endpoint as usize].1.server as usize;
            let is_member = |user: &&image::EngineUser| user.engine as usize == index;
            let members: Vec<_> = self.system.shared_users.iter().filter(is_member).copied().collect();
            let access = mapping::READ | mapping::WRITE;
            let shadows = layout::members(index) + members.len() as u64 * PAGE;
            for (number, user) in members.iter().enumerate() {
                let offset = number as u64 * PAGE;
                self.map(server, access, layout::members(index) + offset, user.doorbell, PAGE);
                // In its task the shadow lies behind the doorbell, and is shown in the place of that only.
                let shadow = self.system.engine_shadows[index] + offset;
                let behind = user.address + PAGE;
                self.map(user.task as usize, access | mapping::HELD_BACK | mapping::FILL, behind, shadow, PAGE);
                self.map(server, access, shadows + offset, shadow, PAGE);
            }
        }
    }

    /// Maps the firmware of a processor into its driver, which copies it to where the processor begins.
    fn processor_firmware(
        &mut self,
        task: usize,
        name: &str,
        program: Program,
        binaries: &Binaries,
    ) -> Result<Entry, Reason> {
        let bytes = binaries.get(name).ok_or_else(|| Reason::NoBinary { binary: name.to_owned() })?;
        let Program { memory: from, memory_bytes: limit } = program;
        let mut flat = elf::flatten(&elf::read_arm(name, bytes)?, from, limit).ok_or_else(|| Reason::NotAnElf {
            binary: name.to_owned(),
            why: format!("it is not linked between {from:#x} and {:#x}", from + limit),
        })?;
        flat.resize(flat.len().next_multiple_of(8), 0);
        let (at, bytes) = (self.blob(&flat), flat.len() as u64);
        let pages = bytes.next_multiple_of(PAGE);
        self.map(task, mapping::READ | mapping::IN_IMAGE, layout::FIRMWARE, at, pages);
        let (kind, address) = (image::kind::REGION, layout::FIRMWARE);
        Ok(Entry { name: "firmware".into(), kind, flags: 0, handle: 0, address, bytes, physical: 0 })
    }

    /// The description block, and behind it the firmware.
    fn firmware(&mut self, name: &str, binaries: &Binaries) -> Result<Firmware, Reason> {
        let bytes = binaries.get(name).ok_or_else(|| Reason::NoBinary { binary: name.to_owned() })?;
        let program = elf::read(name, bytes)?;
        let memory = &self.system.board.memory;
        let (base, limit) = (memory.firmware, memory.firmware_bytes.0);
        let flat = elf::flatten(&program, base, limit).ok_or_else(|| Reason::NotAnElf {
            binary: name.to_owned(),
            why: format!("it is not linked between {base:#x} and {:#x}", base + limit),
        })?;
        let mut blob = crate::device::description(&self.system);
        blob.resize(PAGE as usize, 0);
        blob.extend_from_slice(&flat);
        let offset = self.blob(&blob);
        Ok(Firmware { offset, bytes: blob.len() as u64, entry: program.entry, load: base - PAGE })
    }

    /// Adds bytes behind the tables, at a page of their own.
    fn blob(&mut self, bytes: &[u8]) -> u64 {
        let at = self.blob_bytes;
        let mut blob = bytes.to_vec();
        blob.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
        self.blob_bytes += blob.len() as u64;
        self.blobs.push(blob);
        at
    }

    fn map(&mut self, task: usize, flags: u32, address: u64, physical: u64, bytes: u64) {
        self.mappings.push(image::Mapping {
            task: task as u32,
            flags,
            address,
            physical,
            pages: bytes / PAGE,
            source_offset: 0,
            source_bytes: 0,
        });
    }

    fn tables(&self) -> Writer {
        let mut out = Writer { bytes: vec![0; size_of::<Header>()], tables: [Span::default(); TABLES] };
        out.table(Table::Clusters, &values(&self.system.clusters));
        out.table(Table::Tasks, &self.records);
        out.table(Table::Reservations, &self.system.reservations);
        out.table(Table::Endpoints, &values(&self.system.endpoints));
        out.table(Table::Notifications, &values(&self.system.notifications));
        out.table(Table::Engines, &values(&self.system.engines));
        out.table(Table::EngineUsers, &self.system.engine_users);
        out.table(Table::Interrupts, &values(&self.system.interrupts));
        out.table(Table::Regions, &values(&self.system.regions));
        out.table(Table::Handles, &self.system.handles);
        out.table(Table::Mappings, &self.mappings);
        out.table(Table::Pools, &values(&self.system.pools));
        out.table(Table::PoolUsers, &self.system.pool_users);
        out.table(Table::SharedUsers, &self.system.shared_users);
        out.table(Table::Streams, &self.system.streams);
        out
    }

    fn finish(mut self, cpu_stride: u32, firmware: Option<Firmware>) -> PackedSystem {
        // The tables are written twice: their length determines the beginning of the blobs, which mappings refer to.
        let blobs_at = (self.tables().bytes.len() as u64).next_multiple_of(PAGE);
        for mapping in &mut self.mappings {
            if mapping.flags & mapping::IN_IMAGE != 0 {
                mapping.physical += blobs_at;
            }
            if mapping.source_bytes != 0 {
                mapping.source_offset += blobs_at;
            }
        }

        let out = self.tables();
        let mut flags = if self.managed { image::FLAG_MANAGED } else { 0 };
        if firmware.is_some() {
            flags |= image::FLAG_ENGINE_CPU;
        }
        flags |= match self.system.panic {
            Panic::End => 0,
            Panic::Halt => image::FLAG_PANIC_HALT,
            Panic::Reset => image::FLAG_PANIC_RESET,
        };
        let none = Firmware { offset: 0, bytes: 0, entry: 0, load: 0 };
        let (at, firmware) = match firmware {
            Some(firmware) => (blobs_at + firmware.offset, firmware),
            None => (0, none),
        };
        let header = Header {
            magic: image::MAGIC,
            version: image::VERSION,
            flags,
            bytes: blobs_at + self.blob_bytes,
            start: self.system.start,
            cpus: self.system.cpus,
            cpu_stride,
            features: self.system.features(),
            kick_plus_one: self.system.kick.map_or(0, |index| index as u32 + 1),
            firmware_entry: firmware.entry,
            firmware_argument: firmware.load,
            firmware_offset: at,
            firmware_bytes: firmware.bytes,
            firmware_load: firmware.load,
            dma_faults: self.system.dma_faults.unwrap_or(0),
            checksum: 0,
            tables: out.tables,
        };
        let mut bytes = out.bytes;
        bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        bytes.resize(blobs_at as usize, 0);
        for blob in &self.blobs {
            bytes.extend_from_slice(blob);
        }
        let mut packed = PackedSystem::new(&bytes);
        // It has a header.
        let _ = image::seal(packed.words.as_mut_bytes());
        packed
    }
}

struct Writer {
    bytes: Vec<u8>,
    tables: [Span; TABLES],
}

impl Writer {
    fn table<T: IntoBytes + Immutable>(&mut self, table: Table, records: &[T]) {
        self.tables[table as usize] = Span { offset: self.bytes.len() as u32, count: records.len() as u32 };
        self.bytes.extend_from_slice(records.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

fn values<T: Clone>(named: &[(String, T)]) -> Vec<T> {
    named.iter().map(|(_, value)| value.clone()).collect()
}

fn environment_page(task: &str, entries: &[Entry]) -> Vec<u8> {
    let header = environment::Header { magic: environment::MAGIC, entries: entries.len() as u64, task: padded(task) };
    let mut page = header.as_bytes().to_vec();
    for entry in entries {
        let record = environment::Entry {
            name: padded(&entry.name),
            kind: entry.kind,
            flags: entry.flags,
            handle: entry.handle,
            address: entry.address,
            bytes: entry.bytes,
            physical: entry.physical,
        };
        page.extend_from_slice(record.as_bytes());
    }
    page
}

fn padded<const N: usize>(name: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let length = name.len().min(N);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}
