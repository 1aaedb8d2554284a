//! A bench for authors of kernels: a device of the host, in virtual time, with memory for one launch at a time.
//!
//! ```
//! use fusee_device_model::bench::{Bench, Failure};
//! # use fusee_accel_contract::FaultKind;
//! # use fusee_compute::{Entry, Input, Kernel, Output, arguments, table};
//! # arguments! { struct Negative { pixels: u32 } }
//! # impl Kernel for Negative {
//! #     const NAME: &'static str = "negative";
//! #     type Views<'m> = (Input<'m, u8>, Output<'m, u8>);
//! #     fn elements(&self) -> [usize; 2] { [self.pixels as usize; 2] }
//! #     fn blocks(&self) -> u32 { 1 }
//! #     fn time(&self, _: core::ops::Range<u32>) -> u64 { 1_000_000 }
//! #     fn block(&self, _: u32, (from, to): Self::Views<'_>) {
//! #         (0..from.len()).for_each(|at| to.set(at, 255 - from.get(at)));
//! #     }
//! # }
//! static KERNELS: &[Entry] = &table([Entry::of::<Negative>()]);
//! let mut bench = Bench::new(KERNELS);
//! let mut negative = [0; 3];
//! let took = bench.launch(&Negative { pixels: 3 }, &mut [&mut [1, 2, 3], &mut negative]);
//! assert_eq!((took, negative), (Ok(1_040_000), [254, 253, 252]));
//! let short = bench.launch(&Negative { pixels: 0xFF_FFFF }, &mut [&mut [1], &mut negative]);
//! assert!(matches!(short, Err(Failure { kind: FaultKind::NotMapped, .. })));
//! ```

use std::boxed::Box;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;
use std::vec;
use std::vec::Vec;

use fusee_accel_contract::{
    CONTEXT_FAULT, CONTEXT_FAULT_ADDRESS, CONTEXT_FLAGS, CONTEXT_TABLE, CONTEXT_TABLE_ENTRIES, CONTEXT_VALID, Command,
    CopyEngines, DOORBELL_PAGES, ENTRY_BYTES, EngineIndex, FaultKind, FaultWord, Launch, Memory, Operation, PAGE_BYTES,
    RING_BASE, TableEntry, control_context, doorbell_page, more_offset, ring_slot, table_index,
};
use fusee_compute::{Entry, Kernel, identity, words};

use crate::{Bus, BusError, Description, Device, Job, Ran, Times, Window};

/// Why a launch failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// Where: see [`FaultKind`]. Of a kernel that panicked, the line.
    pub address: u64,
}

/// A device with memory of its own.
pub struct Bench {
    device: Box<Device>,
    ram: Ram,
    now: u64,
    submitted: u32,
}

/// Bytes that the views of a launch may have together, each rounded up to eight.
pub const ROOM: usize = 8 << 20;

const CONTEXT: usize = 1;
const STATUS: u64 = PAGE_BYTES;
const DOORBELLS: u64 = 2 * PAGE_BYTES;
const SYSTEM: u64 = DOORBELLS + DOORBELL_PAGES as u64 * PAGE_BYTES;
const RING: u64 = SYSTEM;
const TABLE: u64 = RING + PAGE_BYTES;
/// Device address of the first view.
const VIEWS: u64 = 16 * PAGE_BYTES;
const ENTRIES: u64 = VIEWS / PAGE_BYTES + ROOM as u64 / PAGE_BYTES;
const DATA: u64 = TABLE + (ENTRIES * ENTRY_BYTES).next_multiple_of(PAGE_BYTES);
const END: u64 = DATA + ROOM as u64;

impl Bench {
    /// A device with these kernels and no copy engines.
    ///
    /// # Panics
    /// Never: the memory is there.
    #[must_use]
    pub fn new(kernels: &'static [Entry]) -> Self {
        let ram = Ram(vec![0; END as usize]);
        let mut bench = Self { device: Box::new(Device::EMPTY), ram, now: 0, submitted: 0 };
        let description = Description {
            control: 0,
            status: STATUS,
            doorbells: DOORBELLS,
            system: Window { base: SYSTEM, length: END - SYSTEM },
            copy_engines: CopyEngines::None,
            ..Description::default()
        };
        bench.device.offer(kernels, Times::Measuring, true);
        bench.device.configure(description, &mut bench.ram).expect("the places are apart");
        let words = control_context(CONTEXT) as usize;
        bench.ram.put(words + CONTEXT_TABLE as usize, &TABLE.to_le_bytes());
        bench.ram.put(words + CONTEXT_TABLE_ENTRIES as usize, &(ENTRIES as u32).to_le_bytes());
        bench.ram.put(words + CONTEXT_FLAGS as usize, &CONTEXT_VALID.to_le_bytes());
        let views = (0..ROOM as u64 / PAGE_BYTES).map(|page| (VIEWS + page * PAGE_BYTES, DATA + page * PAGE_BYTES));
        for (address, page) in views.chain([(RING_BASE, RING)]) {
            let entry = TableEntry { page, writable: true, memory: Memory::System }.encode();
            bench.ram.put((TABLE + table_index(address) * ENTRY_BYTES) as usize, &entry.to_le_bytes());
        }
        bench
    }

    /// Launches all blocks of `kernel` with these bytes as its views, in their order; those that it writes are changed. Returns the nanoseconds that
    /// it takes by its own account, with the setup; the setup alone if that is to be measured.
    ///
    /// # Errors
    /// [`Failure`]. The results of the launch are then undefined.
    ///
    /// # Panics
    /// If there are not as many views as the kernel has, or they do not fit into [`ROOM`].
    pub fn launch<K: Kernel>(&mut self, kernel: &K, views: &mut [&mut [u8]]) -> Result<u64, Failure> {
        let (mut addresses, mut places) = (Vec::new(), Vec::new());
        let mut at = 0;
        for view in views.iter() {
            assert!(at + view.len() <= ROOM, "the views are larger than the bench");
            addresses.push((VIEWS + at as u64) as u32);
            places.push(DATA as usize + at);
            self.ram.put(DATA as usize + at, view);
            at = (at + view.len()).next_multiple_of(8);
        }
        let words = words(kernel, &addresses);
        let launch = Launch { kernel: identity::<K>(), first: 0, blocks: kernel.blocks(), words };
        let took = self.run(launch);
        for (place, view) in places.into_iter().zip(views) {
            view.copy_from_slice(&self.ram.0[place..place + view.len()]);
        }
        took
    }

    fn run(&mut self, launch: Launch) -> Result<u64, Failure> {
        let command = Command { operation: Operation::Launch(launch), fence: None };
        let (ring, engine) = (RING as usize, EngineIndex::Execution);
        self.ram.put(ring + ring_slot(engine, self.submitted) as usize, &command.encode());
        if let Some(more) = command.encode_more() {
            self.ram.put(ring + more_offset(self.submitted) as usize, &more);
        }
        self.submitted = self.submitted.wrapping_add(1);
        let doorbell = DOORBELLS + doorbell_page(engine, CONTEXT);
        self.ram.put(doorbell as usize, &self.submitted.to_le_bytes());
        let fault = (control_context(CONTEXT) + CONTEXT_FAULT) as usize;
        self.ram.put(fault, &0_u32.to_le_bytes());
        let started = self.now;
        while let Some(next) = self.device.poll(self.now, &mut self.ram).next {
            self.now = next;
        }
        let word = |ram: &mut Ram, at: u64| ram.read_u64(at / 8 * 8).unwrap_or(0) >> (at % 8 * 8);
        match FaultWord::decode(word(&mut self.ram, fault as u64) as u32) {
            None => Ok(self.now - started),
            Some(FaultWord { kind, .. }) => {
                let address = word(&mut self.ram, control_context(CONTEXT) + CONTEXT_FAULT_ADDRESS);
                Err(Failure { kind, address })
            }
        }
    }
}

/// Memory from address 0 on.
struct Ram(Vec<u8>);

impl Ram {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Bus for Ram {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        let from = self.0.get(address as usize..).and_then(|rest| rest.get(..buffer.len())).ok_or(BusError)?;
        buffer.copy_from_slice(from);
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        let to = self.0.get_mut(address as usize..).and_then(|rest| rest.get_mut(..data.len())).ok_or(BusError)?;
        to.copy_from_slice(data);
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Result<Ran, (FaultKind, u64)> {
        caught(|| job.run(self))
    }
}

std::thread_local! {
    /// Whether a kernel runs in this thread, and the line in which one panicked.
    static KERNEL: Cell<(bool, u32)> = const { Cell::new((false, 0)) };
}

/// Runs code of a kernel; a panic of it is no more than a fault.
///
/// # Errors
/// Those of `run`, and [`FaultKind::Panicked`], with the line.
pub fn caught(run: impl FnOnce() -> Result<Ran, (FaultKind, u64)>) -> Result<Ran, (FaultKind, u64)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match KERNEL.get() {
            (true, _) => KERNEL.set((true, panic.location().map_or(0, Location::line))),
            _ => before(panic),
        }));
    });
    KERNEL.set((true, 0));
    let ran = catch_unwind(AssertUnwindSafe(run));
    let (_, line) = KERNEL.replace((false, 0));
    ran.unwrap_or(Err((FaultKind::Panicked, line.into())))
}
