//! A device with its memory, for the tests of this folder.
#![allow(dead_code, reason = "each test uses a part of it")]

use fusee_accel_contract::*;
use fusee_compute::{Kernel, identity, words};
use fusee_device_model::{Actions, Arbiter, Bus, BusError, Description, Device, Equipment, PEERS, Peer, Window};
use std::collections::BTreeSet;

pub const BASE: u64 = 0x4000_0000;
pub const DESCRIPTION: Description = Description {
    control: BASE,
    status: BASE + 0x1000,
    doorbells: BASE + 0x2000,
    local: Window { base: BASE + 0x20_0000, length: 0x10_0000 },
    system: Window { base: BASE + 0x10_0000, length: 0x10_0000 },
    copy_engines: CopyEngines::Two,
    preemptible: false,
    slowdown: timing::Slowdown::NEAR,
    peers: [Peer::NONE; PEERS],
    contexts: Contexts::DEFAULT,
    arbiter: Arbiter::ARRIVAL,
    switch: 0,
    counters: false,
    sms: None,
};
pub const TABLE_ENTRIES: u32 = 256;

/// Memory that remembers which pages were touched, and insists on the promises of `Bus`.
pub struct Ram {
    pub bytes: Vec<u8>,
    pub read: BTreeSet<u64>,
    pub written: BTreeSet<u64>,
    pub bulk: usize,
}

impl Ram {
    fn at(&self, address: u64, length: usize) -> Result<usize, BusError> {
        let offset = address.checked_sub(BASE).ok_or(BusError)? as usize;
        assert!(address % PAGE_BYTES + length as u64 <= PAGE_BYTES, "an access crosses a page");
        if offset + length <= self.bytes.len() { Ok(offset) } else { Err(BusError) }
    }

    fn word(&mut self, address: u64, length: usize) -> Result<usize, BusError> {
        assert_eq!(address % length as u64, 0, "a word is not aligned");
        self.at(address, length)
    }
}

impl Bus for Ram {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        let at = self.at(address, buffer.len())?;
        self.read.insert(address / PAGE_BYTES * PAGE_BYTES);
        self.bulk += buffer.len();
        buffer.copy_from_slice(&self.bytes[at..at + buffer.len()]);
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        let at = self.at(address, data.len())?;
        self.written.insert(address / PAGE_BYTES * PAGE_BYTES);
        self.bulk += data.len();
        self.bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn read_u32(&mut self, address: u64) -> Result<u32, BusError> {
        let at = self.word(address, 4)?;
        self.read.insert(address / PAGE_BYTES * PAGE_BYTES);
        Ok(u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()))
    }

    fn write_u32(&mut self, address: u64, value: u32) -> Result<(), BusError> {
        let at = self.word(address, 4)?;
        self.written.insert(address / PAGE_BYTES * PAGE_BYTES);
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn read_u64(&mut self, address: u64) -> Result<u64, BusError> {
        let at = self.word(address, 8)?;
        self.read.insert(address / PAGE_BYTES * PAGE_BYTES);
        Ok(u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap()))
    }

    fn write_u64(&mut self, address: u64, value: u64) -> Result<(), BusError> {
        let at = self.word(address, 8)?;
        self.written.insert(address / PAGE_BYTES * PAGE_BYTES);
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}

/// The memory of a rig in which something happens after each access of the device.
pub struct Watched<'a, F> {
    pub ram: &'a mut Ram,
    pub each: F,
}

impl<F: FnMut(&mut Ram)> Watched<'_, F> {
    fn access<T>(&mut self, access: impl FnOnce(&mut Ram) -> T) -> T {
        let result = access(self.ram);
        (self.each)(self.ram);
        result
    }
}

impl<F: FnMut(&mut Ram)> Bus for Watched<'_, F> {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        self.access(|ram| ram.read(address, buffer))
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        self.access(|ram| ram.write(address, data))
    }

    fn read_u32(&mut self, address: u64) -> Result<u32, BusError> {
        self.access(|ram| ram.read_u32(address))
    }

    fn write_u32(&mut self, address: u64, value: u32) -> Result<(), BusError> {
        self.access(|ram| ram.write_u32(address, value))
    }

    fn read_u64(&mut self, address: u64) -> Result<u64, BusError> {
        self.access(|ram| ram.read_u64(address))
    }

    fn write_u64(&mut self, address: u64, value: u64) -> Result<(), BusError> {
        self.access(|ram| ram.write_u64(address, value))
    }
}

/// All blocks of `kernel`, with its views at these device addresses.
pub fn launch<K: Kernel>(kernel: &K, addresses: &[u64]) -> Operation {
    let addresses: Vec<u32> = addresses.iter().map(|address| *address as u32).collect();
    // A kernel that is not valid may not know its number of blocks.
    let blocks = if kernel.is_valid() { kernel.blocks() } else { 1 };
    Operation::Launch(Launch { kernel: identity::<K>(), first: 0, blocks, words: words(kernel, &addresses) })
}

/// The time of all blocks of `kernel`, with the setup.
pub fn time_of<K: Kernel>(kernel: &K) -> u64 {
    timing::EXECUTION_SETUP + kernel.time(0..kernel.blocks())
}

/// A device with its memory; the test plays driver and clients.
pub struct Rig {
    pub device: Box<Device>,
    pub ram: Ram,
}

impl Rig {
    /// Contexts 1 and 2 each have 64 local pages from device address 64 * 4096 on, 64 system
    /// pages from 128 * 4096 on, and their ring page.
    pub fn new() -> Self {
        Self::with(DESCRIPTION)
    }

    /// A rig with a device of this description; a device without copy engines has no local memory.
    pub fn with(description: Description) -> Self {
        let ram = Ram { bytes: vec![0; 0x30_0000], read: BTreeSet::new(), written: BTreeSet::new(), bulk: 0 };
        let mut rig = Self { device: Box::new(Device::EMPTY), ram };
        rig.device.offer(fusee_library::KERNELS, fusee_device_model::Times::Known(&[]), true);
        rig.device.equip(Equipment::owned(description.sms.as_ref()));
        assert_eq!(rig.device.configure(description, &mut rig.ram), Ok(()));
        for context in 1..=2 {
            rig.open(context);
            for page in 0..64 {
                rig.map(context, LOCAL + page * PAGE_BYTES, local(context, LOCAL + page * PAGE_BYTES), true);
                rig.map(context, SYSTEM + page * PAGE_BYTES, system(context, SYSTEM + page * PAGE_BYTES), true);
            }
        }
        rig
    }

    pub fn open(&mut self, context: usize) {
        let words = DESCRIPTION.control + control_context(context);
        self.ram.write_u64(words + CONTEXT_TABLE, table(context)).unwrap();
        self.ram.write_u32(words + CONTEXT_TABLE_ENTRIES, TABLE_ENTRIES).unwrap();
        self.ram.write_u32(words + CONTEXT_FLAGS, CONTEXT_VALID).unwrap();
        self.map(context, RING_BASE, ring_page(context), true);
    }

    pub fn map(&mut self, context: usize, address: u64, page: u64, writable: bool) {
        let memory = if DESCRIPTION.local.contains(page, 1) { Memory::Local } else { Memory::System };
        self.map_raw(context, address, TableEntry { page, writable, memory }.encode());
    }

    pub fn map_raw(&mut self, context: usize, address: u64, entry: u64) {
        self.ram.write_u64(table(context) + table_index(address) * ENTRY_BYTES, entry).unwrap();
    }

    pub fn submitted(&mut self, engine: EngineIndex, context: usize) -> u32 {
        self.ram.read_u32(DESCRIPTION.doorbells + doorbell_page(engine, context)).unwrap()
    }

    pub fn retired(&mut self, engine: EngineIndex, context: usize) -> u32 {
        self.ram.read_u32(DESCRIPTION.status + status_retired(engine, context)).unwrap()
    }

    pub fn seen(&mut self, engine: EngineIndex, context: usize) -> u32 {
        self.ram.read_u32(DESCRIPTION.status + status_seen(engine, context)).unwrap()
    }

    /// The kernel's finding.
    pub fn is_idle(&mut self, engine: EngineIndex, context: usize) -> bool {
        is_idle(self.submitted(engine, context), self.seen(engine, context), self.retired(engine, context))
    }

    pub fn ring(&mut self, engine: EngineIndex, context: usize, submitted: u32) {
        self.ram.write_u32(DESCRIPTION.doorbells + doorbell_page(engine, context), submitted).unwrap();
    }

    pub fn submit_bytes(&mut self, engine: EngineIndex, context: usize, bytes: &[u8; 64]) {
        let number = self.submitted(engine, context);
        self.ram.write(ring_page(context) + ring_slot(engine, number), bytes).unwrap();
        self.ring(engine, context, number.wrapping_add(1));
    }

    /// Submits with fence number `fence`, value 1 + `fence`.
    pub fn submit(&mut self, engine: EngineIndex, context: usize, operation: Operation, fence: usize) {
        let fence = Some(Fence { address: fence_address(fence), value: 1 + fence as u32 });
        self.submit_bytes(engine, context, &Command { operation, fence }.encode());
    }

    pub fn fence(&mut self, context: usize, fence: usize) -> FenceState {
        let word = self.ram.read_u32(ring_page(context) + fence_offset(fence)).unwrap();
        fence_state(word, 1 + fence as u32)
    }

    /// Polls at `now` until the device asks for a later instant.
    pub fn poll(&mut self, now: u64) -> Actions {
        let mut interrupt = false;
        loop {
            let actions = self.device.poll(now, &mut self.ram);
            interrupt |= actions.interrupt;
            if actions.next.is_none_or(|next| next > now) {
                return Actions { interrupt, ..actions };
            }
        }
    }

    /// Polls at each instant the device asks for; returns those at which it interrupted.
    pub fn run(&mut self, mut now: u64) -> Vec<u64> {
        let mut interrupts = Vec::new();
        loop {
            let actions = self.poll(now);
            if actions.interrupt {
                interrupts.push(now);
            }
            let Some(next) = actions.next else { return interrupts };
            now = next;
        }
    }

    /// Runs as above, but not after `end`.
    pub fn run_until(&mut self, end: u64) {
        let mut now = 0;
        while let Some(next) = self.poll(now).next.filter(|next| *next <= end) {
            now = next;
        }
    }

    pub fn faults(&mut self, context: usize) -> u32 {
        self.ram.read_u32(DESCRIPTION.control + control_context(context) + CONTEXT_FAULT_COUNT).unwrap()
    }

    pub fn first_fault(&mut self, context: usize) -> Option<FaultKind> {
        let word = self.ram.read_u32(DESCRIPTION.control + control_context(context) + CONTEXT_FAULT).unwrap();
        FaultWord::decode(word).map(|word| word.kind)
    }

    pub fn fill(&mut self, physical: u64, bytes: &[u8]) {
        let at = (physical - BASE) as usize;
        self.ram.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self, physical: u64, length: usize) -> &[u8] {
        &self.ram.bytes[(physical - BASE) as usize..][..length]
    }
}

/// Device addresses at which contexts 1 and 2 have memory.
pub const LOCAL: u64 = 64 * PAGE_BYTES;
pub const SYSTEM: u64 = 128 * PAGE_BYTES;

pub fn table(context: usize) -> u64 {
    DESCRIPTION.system.base + context as u64 * PAGE_BYTES
}

pub fn ring_page(context: usize) -> u64 {
    DESCRIPTION.system.base + 0x1_0000 + context as u64 * PAGE_BYTES
}

/// The physical address behind a local device address.
pub fn local(context: usize, address: u64) -> u64 {
    DESCRIPTION.local.base + context as u64 * 0x4_0000 + (address - LOCAL)
}

pub fn system(context: usize, address: u64) -> u64 {
    DESCRIPTION.system.base + context as u64 * 0x4_0000 + (address - SYSTEM)
}

pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}
