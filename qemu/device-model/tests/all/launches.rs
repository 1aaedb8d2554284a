//! Kernels on the device: their results, against the same kernels as plain functions on a private copy of all memory; and the results of launches
//! that are wrong in every way that a client or an author of kernels can think of.

use std::ops::Range;

use crate::rig::{BASE, DESCRIPTION, LOCAL, TABLE_ENTRIES, local, ring_page, table};
use fusee_accel_contract::*;
use fusee_compute::{self as compute, Entry, Input, Kernel, Output, Update, arguments, identity};
use fusee_device_model::bench::caught;
use fusee_device_model::{BlockTime, Bus, BusError, Device, Job, Ran, Times};
use picture_kernels::{Histogram, Median};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

mod wrong;

//--- Kernels

arguments! {
    /// Reads with a stride, counts, writes: as much as a kernel can do with memory.
    struct Blend {
        length: u32,
        stride: u32,
    }
}

impl Kernel for Blend {
    const NAME: &'static str = "blend";
    type Views<'m> = (Input<'m, u8>, Input<'m, u16>, Update<'m, u32>, Output<'m, u64>);

    fn is_valid(&self) -> bool {
        self.length > 0
    }

    fn elements(&self) -> [usize; 4] {
        let length = self.length as usize;
        [length, length.div_ceil(2), length.div_ceil(3), length.div_ceil(5)]
    }

    fn blocks(&self) -> u32 {
        self.length.div_ceil(100)
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        1_000_000 * u64::from(blocks.end - blocks.start)
    }

    fn block(&self, block: u32, (bytes, halves, counters, sums): Self::Views<'_>) {
        for at in (100 * block as usize..bytes.len()).take(100) {
            let other = at.wrapping_mul(self.stride as usize) % halves.len();
            let both = u32::from(bytes.get(at)) * u32::from(halves.get(other));
            counters.add(other % counters.len(), both);
            let mut near = [0; 2];
            halves.load(other.min(halves.len().saturating_sub(2)), &mut near[..halves.len().min(2)]);
            sums.set(at % sums.len(), u64::from(both) << 32 | u64::from(near[0]) << 16 | u64::from(near[1]));
        }
    }
}

arguments! {
    /// More arguments than fit into a command.
    struct Many { a: u32, b: u64, c: u16, d: u8, e: u32, f: u64, g: u32, h: u64, i: u32, j: u32, k: u32 }
}

impl Kernel for Many {
    const NAME: &'static str = "many";
    type Views<'m> = (Output<'m, u64>,);

    fn elements(&self) -> [usize; 1] {
        [11]
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn time(&self, _: Range<u32>) -> u64 {
        100_000
    }

    fn block(&self, _: u32, (to,): Self::Views<'_>) {
        let Self { a, b, c, d, e, f, g, h, i, j, k } = *self;
        to.store(0, &[a.into(), b, c.into(), d.into(), e.into(), f, g.into(), h, i.into(), j.into(), k.into()]);
    }
}

arguments! {
    /// Does wrong in the way that its argument says.
    struct Wrong { how: u32 }
}

impl Kernel for Wrong {
    const NAME: &'static str = "wrong";
    type Views<'m> = (Input<'m, u8>, Output<'m, u8>);

    fn elements(&self) -> [usize; 2] {
        assert!(self.how != PLANS, "an author who forgot a case");
        if self.how == HUGE { [usize::MAX, 8] } else { [8, 8] }
    }

    fn blocks(&self) -> u32 {
        2
    }

    fn time(&self, blocks: Range<u32>) -> u64 {
        if self.how == ENDLESS { u64::MAX - 1 } else { 50_000 * u64::from(blocks.end - blocks.start) }
    }

    fn block(&self, block: u32, (from, to): Self::Views<'_>) {
        to.set(block as usize, 1);
        match self.how {
            READS => to.set(1, from.get(8 + block as usize)),
            WRITES => to.set(usize::MAX, 0),
            LOADS => from.load(4, &mut [0; 5]),
            DIVIDES => to.set(0, (1 / self.how.wrapping_sub(DIVIDES)) as u8),
            OVERFLOWS => to.set(0, (self.how as u8).wrapping_sub(1).checked_add(255).expect("too much")),
            _ => {}
        }
    }
}

const PLANS: u32 = 1;
const READS: u32 = 2;
const WRITES: u32 = 3;
const LOADS: u32 = 4;
const DIVIDES: u32 = 5;
const OVERFLOWS: u32 = 6;
const HUGE: u32 = 7;
const ENDLESS: u32 = 8;

arguments! {
    /// Finds out how long it takes by itself; its author does not know.
    struct Search { length: u32, seed: u32 }
}

impl Kernel for Search {
    const NAME: &'static str = "search";
    type Views<'m> = (Output<'m, u8>,);

    fn elements(&self) -> [usize; 1] {
        [8]
    }

    fn blocks(&self) -> u32 {
        3
    }

    fn class(&self) -> u32 {
        self.length
    }

    fn block(&self, block: u32, (to,): Self::Views<'_>) {
        to.set(block as usize, self.seed as u8);
    }
}

/// Times that are known of launches with one length.
const TIMES: Times = Times::Known(&[BlockTime { identity: identity::<Search>(), class: 64, time: 70_000 }]);

const KERNELS: &[Entry] = &compute::table([
    Entry::of::<Blend>(),
    Entry::of::<Many>(),
    Entry::of::<Wrong>(),
    Entry::of::<Search>(),
    Entry::of::<Median>(),
    Entry::of::<Histogram>(),
]);

/// The words of a launch: addresses, then arguments.
fn words<K: Kernel>(kernel: &K, addresses: &[u32]) -> [u32; LAUNCH_WORDS] {
    let mut words = [0; LAUNCH_WORDS];
    words[..addresses.len()].copy_from_slice(addresses);
    kernel.encode(&mut words[addresses.len()..]);
    words
}

fn launch<K: Kernel>(kernel: &K, addresses: &[u32]) -> Launch {
    Launch { kernel: identity::<K>(), first: 0, blocks: kernel.blocks(), words: words(kernel, addresses) }
}

// --- A device with memory that is watched, and in which kernels do no more than fail

struct Watched {
    bytes: Vec<u8>,
    /// Nanoseconds that kernels have run, and by how many each time is longer than the one before.
    spent: u64,
    longer: u64,
    /// Runs that are interrupted before anything is executed, after 60 us each.
    interrupted: u32,
    /// Pages that were written.
    written: Vec<bool>,
}

impl Watched {
    fn at(&self, address: u64, length: usize) -> Result<usize, BusError> {
        let offset = address.checked_sub(BASE).ok_or(BusError)? as usize;
        assert!(address % PAGE_BYTES + length as u64 <= PAGE_BYTES, "an access crosses a page");
        if offset + length <= self.bytes.len() { Ok(offset) } else { Err(BusError) }
    }
}

impl Bus for Watched {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        let at = self.at(address, buffer.len())?;
        buffer.copy_from_slice(&self.bytes[at..at + buffer.len()]);
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), BusError> {
        let at = self.at(address, data.len())?;
        self.written[at / PAGE_BYTES as usize] = true;
        self.bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Result<Ran, (FaultKind, u64)> {
        if self.interrupted > 0 {
            (self.interrupted, self.spent) = (self.interrupted - 1, self.spent + 60_000);
            return Ok(Ran::Unfinished);
        }
        self.longer += 100;
        self.spent += self.longer;
        caught(|| job.run(self))
    }

    fn spent(&self) -> u64 {
        self.spent
    }
}

struct World {
    device: Box<Device>,
    ram: Watched,
    now: u64,
    submitted: u32,
    /// The entries of the context's pages.
    pages: Vec<Option<TableEntry>>,
}

const CONTEXT: usize = 1;

impl World {
    fn new() -> Self {
        Self::with(TIMES, true)
    }

    fn with(times: Times, is_exact: bool) -> Self {
        let ram =
            Watched { bytes: vec![0; 0x30_0000], spent: 0, longer: 0, interrupted: 0, written: vec![false; 0x300] };
        let mut device = Box::new(Device::EMPTY);
        device.offer(KERNELS, times, is_exact);
        let mut world = Self { device, ram, now: 0, submitted: 0, pages: vec![None; TABLE_ENTRIES as usize] };
        world.device.configure(DESCRIPTION, &mut world.ram).unwrap();
        let words = DESCRIPTION.control + control_context(CONTEXT);
        world.ram.write_u64(words + CONTEXT_TABLE, table(CONTEXT)).unwrap();
        world.ram.write_u32(words + CONTEXT_TABLE_ENTRIES, TABLE_ENTRIES).unwrap();
        world.ram.write_u32(words + CONTEXT_FLAGS, CONTEXT_VALID).unwrap();
        let ring = TableEntry { page: ring_page(CONTEXT), writable: true, memory: Memory::System };
        world.map(RING_BASE, Some(ring));
        for page in 0..64 {
            let at = LOCAL + page * PAGE_BYTES;
            world.map(at, Some(TableEntry { page: local(CONTEXT, at), writable: true, memory: Memory::Local }));
        }
        world
    }

    fn map(&mut self, address: u64, entry: Option<TableEntry>) {
        let word = entry.map_or(0, TableEntry::encode);
        self.pages[table_index(address) as usize] = entry;
        self.ram.write_u64(table(CONTEXT) + table_index(address) * ENTRY_BYTES, word).unwrap();
    }

    /// Lets the device do a launch; the fault, and how long it took.
    fn launch(&mut self, launch: Launch) -> (Option<FaultWord>, u64, u64) {
        let fence = Some(Fence { address: fence_address(0), value: 1 + self.submitted % 1000 });
        let command = Command { operation: Operation::Launch(launch), fence };
        self.submit(&command.encode(), command.encode_more())
    }

    fn submit(&mut self, bytes: &[u8; COMMAND_BYTES], more: Option<[u8; MORE_BYTES]>) -> (Option<FaultWord>, u64, u64) {
        let (ring, engine) = (ring_page(CONTEXT), EngineIndex::Execution);
        let words = DESCRIPTION.control + control_context(CONTEXT);
        self.ram.write_u32(words + CONTEXT_FAULT, 0).unwrap();
        self.ram.write(ring + ring_slot(engine, self.submitted), bytes).unwrap();
        if let Some(more) = more {
            self.ram.write(ring + more_offset(self.submitted), &more).unwrap();
        }
        self.submitted += 1;
        self.ram.write_u32(DESCRIPTION.doorbells + doorbell_page(engine, CONTEXT), self.submitted).unwrap();
        self.ram.written.fill(false);
        let started = self.now;
        while let Some(next) = self.device.poll(self.now, &mut self.ram).next {
            self.now = next;
        }
        assert_eq!(self.ram.read_u32(DESCRIPTION.status + status_retired(engine, CONTEXT)), Ok(self.submitted));
        let fault = FaultWord::decode(self.ram.read_u32(words + CONTEXT_FAULT).unwrap());
        let address = self.ram.read_u64(words + CONTEXT_FAULT_ADDRESS).unwrap();
        (fault, address, self.now - started)
    }

    /// The physical address of a byte, or its fault.
    fn translate(&self, address: u64, writes: bool) -> Result<u64, FaultKind> {
        let entry = self.pages.get(table_index(address) as usize).copied().flatten().ok_or(FaultKind::NotMapped)?;
        if entry.memory != Memory::Local {
            return Err(FaultKind::WrongMemory);
        }
        if writes && !entry.writable {
            return Err(FaultKind::NotWritable);
        }
        if !DESCRIPTION.local.contains(entry.page, PAGE_BYTES) {
            return Err(FaultKind::OutsideWindow);
        }
        Ok(entry.page + address % PAGE_BYTES)
    }
}

//--- The oracle

/// Address, bytes, size of an element, whether it is read, whether it is written.
type Needed = (u64, usize, u64, bool, bool);

/// A function that does the work of a launch, on copies of its views.
type Act = dyn Fn(&mut [Vec<u8>]);

/// The needs and the work of a kernel's launch, written once more.
struct Expected {
    views: Vec<Needed>,
    act: Box<Act>,
}

fn numbers<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytemuck::pod_collect_to_vec(bytes)
}

/// The blocks of a kernel on copies of its views.
fn blocks(launch: &Launch) -> Range<u32> {
    launch.first..launch.first + launch.blocks
}

fn blend(kernel: Blend, launch: Launch) -> Expected {
    let length = kernel.length as usize;
    let at = |view: usize| u64::from(launch.words[view]);
    let (halves, counters, sums) = (length.div_ceil(2), length.div_ceil(3), length.div_ceil(5));
    let views = vec![
        (at(0), length, 1, true, false),
        (at(1), 2 * halves, 2, true, false),
        (at(2), 4 * counters, 4, true, true),
        (at(3), 8 * sums, 8, false, true),
    ];
    let act = move |views: &mut [Vec<u8>]| {
        let (bytes, halves) = (views[0].clone(), numbers::<u16>(&views[1]));
        let (mut counters, mut sums) = (numbers::<u32>(&views[2]), numbers::<u64>(&views[3]));
        for block in blocks(&launch) {
            let to = (Update::from(&mut counters[..]), Output::from(&mut sums[..]));
            kernel.block(block, (Input::from(&bytes[..]), Input::from(&halves[..]), to.0, to.1));
        }
        views[2] = bytemuck::cast_slice(&counters).to_vec();
        views[3] = bytemuck::cast_slice(&sums).to_vec();
    };
    Expected { views, act: Box::new(act) }
}

fn median(kernel: Median, launch: Launch) -> Expected {
    let pixels = usize::from(kernel.width) * usize::from(kernel.height);
    let at = |view: usize| u64::from(launch.words[view]);
    let act = move |views: &mut [Vec<u8>]| {
        let (from, mut to) = (views[0].clone(), views[1].clone());
        for block in blocks(&launch) {
            kernel.block(block, (Input::from(&from[..]), Output::from(&mut to[..])));
        }
        views[1] = to;
    };
    Expected { views: vec![(at(0), pixels, 1, true, false), (at(1), pixels, 1, false, true)], act: Box::new(act) }
}

fn histogram(kernel: Histogram, launch: Launch) -> Expected {
    let at = |view: usize| u64::from(launch.words[view]);
    let act = move |views: &mut [Vec<u8>]| {
        let (from, mut to) = (views[0].clone(), numbers::<u32>(&views[1]));
        for block in blocks(&launch) {
            kernel.block(block, (Input::from(&from[..]), Update::from(&mut to[..])));
        }
        views[1] = bytemuck::cast_slice(&to).to_vec();
    };
    let views = vec![(at(0), kernel.pixels as usize, 1, true, false), (at(1), 1024, 4, true, true)];
    Expected { views, act: Box::new(act) }
}

fn many(launch: Launch) -> Expected {
    let act = move |views: &mut [Vec<u8>]| {
        let w = |at: usize| u64::from(launch.words[1 + at]);
        let wide = |at: usize| w(at) | w(at + 1) << 32;
        let all = [w(0), wide(1), w(3), w(4), w(5), wide(6), w(8), wide(9), w(11), w(12), w(13)];
        views[0] = bytemuck::cast_slice(&all).to_vec();
    };
    Expected { views: vec![(launch.words[0].into(), 88, 8, false, true)], act: Box::new(act) }
}

struct Chance(ChaCha8Rng);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }

    /// Once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// An address of a view: within mapped pages, but for once in a while, and aligned but for once in a while.
    fn address(&mut self) -> u32 {
        let within = LOCAL + self.below(64 * PAGE_BYTES - 4096);
        let address = if self.once_in(40) { self.below(1 << 22) } else { within };
        (if self.once_in(40) { address } else { address / 8 * 8 }) as u32
    }
}

/// A random launch, and its expected result: nothing, if its words or blocks are none that the kernel takes.
fn any_launch(chance: &mut Chance) -> (Launch, Option<Expected>, bool) {
    let address = [(); 4].map(|()| chance.address());
    let cut = |chance: &mut Chance, mut launch: Launch| {
        let count = launch.blocks;
        if chance.once_in(3) {
            launch.first = chance.below(u64::from(count) + 2) as u32;
            launch.blocks = 1 + chance.below(u64::from(count) + 1) as u32;
        }
        let is_within = launch.first + launch.blocks <= count;
        (launch, is_within)
    };
    match chance.below(8) {
        0..3 => {
            let kernel = Blend { length: 1 + chance.below(900) as u32, stride: chance.below(1000) as u32 };
            let (launch, is_within) = cut(chance, launch(&kernel, &address));
            (launch, is_within.then(|| blend(kernel, launch)), true)
        }
        3 => {
            let (width, height) = (1 + chance.below(70) as u16, 1 + chance.below(40) as u16);
            let kernel = Median { width, height };
            let (launch, is_within) = cut(chance, launch(&kernel, &address[..2]));
            (launch, is_within.then(|| median(kernel, launch)), true)
        }
        4 | 5 => {
            let kernel = Histogram { pixels: 1 + chance.below(9_000) as u32 };
            let (launch, is_within) = cut(chance, launch(&kernel, &address[..2]));
            (launch, is_within.then(|| histogram(kernel, launch)), true)
        }
        6 => {
            let mut words = [0; LAUNCH_WORDS];
            words[0] = address[0];
            words[1..15].fill_with(|| chance.below(1 << 32) as u32);
            // A `u16` and a `u8` are among them, mostly.
            let fits = !chance.once_in(10);
            (words[4], words[5]) = if fits { (words[4] % 65_536, words[5] % 256) } else { (words[4], 256) };
            let launch = Launch { kernel: identity::<Many>(), first: 0, blocks: 1, words };
            (launch, fits.then(|| many(launch)), true)
        }
        _ => {
            let words = [(); LAUNCH_WORDS].map(|()| chance.address());
            let kernel = if chance.once_in(2) { identity::<Histogram>() } else { 7 };
            (Launch { kernel, first: 0, blocks: 1, words }, None, kernel != 7)
        }
    }
}

/// The entries of pages change between launches.
fn remap(world: &mut World, chance: &mut Chance) {
    let page = chance.below(64);
    let at = LOCAL + page * PAGE_BYTES;
    let own = TableEntry { page: local(CONTEXT, at), writable: true, memory: Memory::Local };
    let entry = match chance.below(12) {
        0 => None,
        1 => Some(TableEntry { writable: false, ..own }),
        2 => Some(TableEntry { memory: Memory::System, ..own }),
        3 => Some(TableEntry { page: 0x10_0000, ..own }),
        _ => Some(own),
    };
    world.map(at, entry);
    // Few are wrong at a time.
    let other = LOCAL + chance.below(64) * PAGE_BYTES;
    world.map(other, Some(TableEntry { page: local(CONTEXT, other), writable: true, memory: Memory::Local }));
}

/// Does so many launches; how many were right, and how many of each fault there were.
/// Makes `count` launches of a seed, in the stream of random numbers with the number `first`.
fn random_launches(count: u32, (seed, first): (u64, u64)) -> (u32, Vec<(FaultKind, u32)>) {
    let mut chance = Chance(ChaCha8Rng::seed_from_u64(seed));
    chance.0.set_stream(first);
    let mut world = World::new();
    let local_at = (DESCRIPTION.local.base - BASE) as usize;
    let window = local_at..local_at + DESCRIPTION.local.length as usize;
    chance.0.fill_bytes(&mut world.ram.bytes[window.clone()]);
    let mut copy = world.ram.bytes.clone();
    let (mut right, mut faults): (u32, Vec<(FaultKind, u32)>) = (0, Vec::new());
    for number in 0..count {
        if chance.once_in(4) {
            remap(&mut world, &mut chance);
        }
        let (launch, expected, is_known) = any_launch(&mut chance);
        // The possible faults.
        let mut wrong = Vec::new();
        let mut pages = vec![0, 1, ((ring_page(CONTEXT) - BASE) / PAGE_BYTES) as usize];
        match &expected {
            None => wrong.push(if is_known { FaultKind::BadCommand } else { FaultKind::NoKernel }),
            Some(Expected { views, .. }) => {
                for (place, &(address, bytes, size, reads, writes)) in views.iter().enumerate() {
                    if address % size != 0 {
                        wrong.push(FaultKind::BadCommand);
                    }
                    let starts = (table_index(address) + 1)..=table_index(address + bytes as u64 - 1);
                    for at in std::iter::once(address).chain(starts.map(|page| page * PAGE_BYTES)) {
                        if reads {
                            wrong.extend(world.translate(at, false).err());
                        }
                        if writes {
                            match world.translate(at, true) {
                                Ok(physical) => pages.push(((physical - BASE) / PAGE_BYTES) as usize),
                                Err(kind) => wrong.push(kind),
                            }
                        }
                    }
                    let overlap = |other: &Needed| {
                        (writes || other.4) && address < other.0 + other.1 as u64 && other.0 < address + bytes as u64
                    };
                    if views[..place].iter().any(overlap) {
                        wrong.push(FaultKind::Overlap);
                    }
                }
            }
        }
        let (fault, ..) = world.launch(launch);
        let kind = fault.map(|fault| fault.kind);
        assert_eq!(kind.is_some(), !wrong.is_empty(), "launch {number}: {kind:?}, but {wrong:?}: {launch:?}");
        for (page, _) in world.ram.written.iter().enumerate().filter(|(_, written)| **written) {
            assert!(pages.contains(&page), "launch {number} writes to page {page}: {launch:?}");
        }
        match kind {
            Some(kind) => {
                assert!(wrong.contains(&kind), "launch {number}: {kind:?}, but {wrong:?}: {launch:?}");
                match faults.iter_mut().find(|(one, _)| *one == kind) {
                    Some((_, count)) => *count += 1,
                    None => faults.push((kind, 1)),
                }
            }
            None => {
                right += 1;
                let Some(Expected { views, act }) = expected else { unreachable!("it has no fault") };
                let places = |world: &World, (address, bytes, ..): Needed| -> Vec<usize> {
                    (address..address + bytes as u64)
                        .map(|at| (world.translate(at, false).expect("mapped") - BASE) as usize)
                        .collect()
                };
                let mut bytes: Vec<Vec<u8>> =
                    views.iter().map(|view| places(&world, *view).iter().map(|at| copy[*at]).collect()).collect();
                act(&mut bytes);
                for (view, bytes) in views.iter().zip(&bytes) {
                    for (at, byte) in places(&world, *view).into_iter().zip(bytes) {
                        copy[at] = *byte;
                        assert_eq!(world.ram.bytes[at], *byte, "launch {number}, byte {at:#x}: {launch:?}");
                    }
                }
            }
        }
        if number % 1000 == 999 || number + 1 == count {
            assert!(world.ram.bytes[window.clone()] == copy[window.clone()], "a byte nobody was to write, by {number}");
        }
    }
    assert_eq!(world.device.late_completions(), 0);
    (right, faults)
}

/// `FUSEE_LAUNCHES` is the number of launches, `FUSEE_LAUNCHES_SEED` and `FUSEE_LAUNCHES_FIRST` say which.
#[test]
fn random_launches_write_what_the_plain_functions_write_and_nothing_else() {
    let number =
        |name: &str, otherwise| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let count = number("FUSEE_LAUNCHES", 20_000) as u32;
    let draws = (number("FUSEE_LAUNCHES_SEED", 1), number("FUSEE_LAUNCHES_FIRST", 0));
    let (right, mut faults) = random_launches(count, draws);
    faults.sort_by_key(|(kind, _)| *kind as u8);
    println!("{count} launches, {right} right, {faults:?}");
    assert!(right > count / 4, "{right} of {count}");
    let met: Vec<FaultKind> = faults.into_iter().map(|(kind, _)| kind).collect();
    let every = [
        FaultKind::BadCommand,
        FaultKind::NotMapped,
        FaultKind::NotWritable,
        FaultKind::WrongMemory,
        FaultKind::OutsideWindow,
        FaultKind::NoKernel,
        FaultKind::Overlap,
    ];
    assert_eq!(met, every);
}
