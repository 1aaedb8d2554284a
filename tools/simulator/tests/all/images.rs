//! Corrupted images: the kernel refuses them or boots them, and a booted one runs without breaking an invariant.
//!
//! Packed systems of the repository are spoilt at random: bits flipped, fields set to extreme values, records exchanged, the end cut
//! off. `cargo test` has overflow checks on, so a sum that wraps is found, too. `FUSEE_IMAGES=1000000` spoils so many.

use std::ops::Range;
use std::path::Path;

use fusee_abi::image::{Header, PAGE, System, release};
use fusee_manifest::{Manifest, PackOptions};
use fusee_simulator::{Checks, Program, Simulation, SimulationError};
use zerocopy::IntoBytes;

const IMAGES: u64 = 20_000;
/// Where good systems are, from the repository.
const FOLDERS: [&str; 3] = ["tests/conformance", "tests/target", "docs/examples"];
/// One image in so many is run, too, if it boots.
const RUN: u64 = 16;
/// Virtual nanoseconds that a booted image runs.
const SPAN: u64 = 25_000_000;
/// Images with releases or replenishments closer than this are booted and not run: they do nothing else.
const SHORTEST: u64 = 100_000;

const EXTREMES: [u64; 14] = [
    0,
    1,
    2,
    63,
    64,
    0xffff,
    1 << 31,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    1 << 32,
    1 << 62,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// A good system, and the programs of its tasks.
struct Good {
    words: Vec<u64>,
    /// Where the header and each table that is not empty lie, in bytes.
    tables: Vec<Range<usize>>,
    programs: Vec<Program>,
}

/// Numbers that look random and are the same each time (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn good_systems() -> Vec<Good> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = FOLDERS.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut systems = Vec::new();
    for path in paths {
        let manifest = Manifest::read(&path).unwrap();
        let packed = manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None }).unwrap();
        let system = packed.system();
        let bytes = system.bytes();
        let mut starts: Vec<usize> =
            system.header().tables.iter().filter(|span| span.count > 0).map(|span| span.offset as usize).collect();
        starts.sort_unstable();
        let end =
            |index: usize| starts.get(index + 1).copied().unwrap_or(starts[index] + PAGE as usize).min(bytes.len());
        let mut tables: Vec<Range<usize>> = (0..starts.len()).map(|index| starts[index]..end(index)).collect();
        tables.push(0..size_of::<Header>());
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        let programs = manifest.system.tasks.iter().map(|task| {
            let steps = if task.script.is_empty() { &task.model } else { &task.script };
            let has_jobs =
                task.reservation.is_some_and(|one| manifest.system.reservations[one].release != release::NONE);
            match steps.is_empty() {
                true => Program::Nothing,
                false => Program::Script { steps: steps.clone(), has_jobs, node: None },
            }
        });
        systems.push(Good { tables, words, programs: programs.collect() });
    }
    assert!(systems.len() > 50, "only {} systems to spoil", systems.len());
    systems
}

/// Spoils `bytes` in one place; the result is how many of them are left.
fn spoil(bytes: &mut [u8], tables: &[Range<usize>], numbers: &mut Numbers) -> usize {
    let length = bytes.len();
    // Each table alike, however long it is: no table's fields are rare.
    let table = tables[numbers.below(tables.len())].clone();
    let bytes = &mut bytes[table.start.min(length - 8)..table.end.min(length)];
    let reach = bytes.len();
    match numbers.below(8) {
        0..=2 => bytes[numbers.below(reach)] ^= 1 << numbers.below(8),
        3..=5 => {
            let value = EXTREMES[numbers.below(EXTREMES.len())].to_le_bytes();
            let size = if numbers.below(2) == 0 { 4 } else { 8 };
            let at = numbers.below(reach / size) * size;
            bytes[at..at + size].copy_from_slice(&value[..size]);
        }
        6 => {
            let size = (8 << numbers.below(4)).min(reach);
            let places = reach / size;
            let (one, other) = (numbers.below(places) * size, numbers.below(places) * size);
            for offset in 0..size {
                bytes.swap(one + offset, other + offset);
            }
        }
        _ if numbers.below(4) == 0 => return numbers.below(length + 1),
        _ => bytes[numbers.below(reach)] = numbers.next() as u8,
    }
    length
}

#[derive(Default)]
struct Outcomes {
    refused: u64,
    booted: u64,
    ran: u64,
    traps: u64,
}

/// Parses and boots one spoilt image, and if it `runs`, lets it do so.
fn look(bytes: &[u8], good: &Good, runs: bool, outcomes: &mut Outcomes) {
    let Ok(system) = System::parse(bytes) else {
        outcomes.refused += 1;
        return;
    };
    let simulation = match Simulation::new(&system, good.programs.clone()) {
        Ok(simulation) => simulation,
        Err(SimulationError::Boot(_)) => {
            outcomes.refused += 1;
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    outcomes.booted += 1;
    let is_quiet = system.reservations().iter().all(|one| one.period >= SHORTEST && one.budget >= SHORTEST / 4);
    if !runs || !is_quiet || system.tasks().len() != good.programs.len() {
        return;
    }
    outcomes.ran += 1;
    match simulation.with_checks(Checks::Instants(4)).run(SPAN, None) {
        Ok(report) => outcomes.traps += report.traps,
        // A script of refused calls alone never gives the CPU up: that is the script's affair.
        Err(SimulationError::Stuck { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
}

/// Given images of all kinds of systems, spoilt in one to four places,
/// when the kernel boots them,
/// then it refuses them or boots them, and those that it boots run, and no invariant is broken.
#[test]
fn a_corrupted_image_is_refused_or_booted_and_what_is_booted_runs() {
    // A kernel is larger than a test's stack.
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(all_images).unwrap();
    thread.join().unwrap();
}

/// Given a system with all kinds of objects,
/// when any one word of its header and tables has an extreme value,
/// then the kernel refuses it or boots it.
#[test]
fn each_word_may_have_any_extreme_value() {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(each_word).unwrap();
    thread.join().unwrap();
}

fn each_word() {
    let systems = good_systems();
    // The one with most tables, and of those with most words.
    let good = systems.iter().max_by_key(|good| (good.tables.len(), good.words.len())).unwrap();
    let mut outcomes = Outcomes::default();
    let mut images = 0;
    for place in good.tables.iter().flat_map(|table| table.clone().step_by(4)) {
        for value in [0, 1, i32::MAX as u32, u32::MAX - 1, u32::MAX] {
            let mut words = good.words.clone();
            words.as_mut_bytes()[place..place + 4].copy_from_slice(&value.to_le_bytes());
            look(words.as_bytes(), good, false, &mut outcomes);
            images += 1;
        }
    }
    assert_eq!(outcomes.refused + outcomes.booted, images);
    assert!(outcomes.refused > 100 && outcomes.booted > 100, "{} of {images} refused", outcomes.refused);
}

fn all_images() {
    let images = std::env::var("FUSEE_IMAGES").map_or(IMAGES, |count| count.parse().expect("a number of images"));
    let systems = good_systems();
    let mut outcomes = Outcomes::default();
    let mut failed = Vec::new();
    for image in 0..images {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ (image + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9));
        let good = &systems[numbers.below(systems.len())];
        let mut words = good.words.clone();
        let bytes = words.as_mut_bytes();
        let mut length = bytes.len();
        for _ in 0..=numbers.below(4) {
            if length > size_of::<Header>() {
                length = spoil(&mut bytes[..length], &good.tables, &mut numbers);
            }
        }
        let spoilt = &bytes[..length];
        let attempt = std::panic::AssertUnwindSafe(|| look(spoilt, good, image.is_multiple_of(RUN), &mut outcomes));
        if std::panic::catch_unwind(attempt).is_err() {
            failed.push(image);
        }
    }
    assert!(failed.is_empty(), "{} images, the first: {:?}", failed.len(), &failed[..failed.len().min(8)]);
    let Outcomes { refused, booted, ran, traps } = outcomes;
    println!("{images} images: {refused} refused, {booted} booted, {ran} of them ran, {traps} traps");
    assert_eq!(refused + booted, images);
    assert!(refused > images / 10 && ran > images / (10 * RUN), "{refused} refused, {ran} ran");
}
