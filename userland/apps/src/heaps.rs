// What programs with a heap have in common. A module of theirs, and not of the library: a crate that names `alloc` asks all its users for a heap.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use fusee::{counter, environment, exit, log, next_job};

/// Number of allocations at a time, at most.
const PLACES: usize = 64;
/// The largest of them, bytes.
const LARGEST: u64 = 512;

/// The longest operations of a history, in ticks of the board's counter: instructions, where these are counted and a tick is a nanosecond.
#[derive(Clone, Copy, Default)]
struct Longest {
    allocate: u64,
    free: u64,
}

/// The program: `peak` is the most that was allocated at one time, bytes.
///
/// # Panics
/// The heap is at fault, or an operation is longer than the parameter "bound".
pub fn run(peak: impl Fn() -> usize) {
    let environment = environment();
    next_job().expect("this task has jobs");
    if environment.parameter("exhaust").is_some() {
        exit(exhaust().len() as u64);
    }
    assert!(collections(), "collections hold what is put into them");
    // The first use of vector registers in a job is a trap, and is not measured.
    let _ = random(10, 1);
    let longest = random(environment.parameter("rounds").unwrap_or(1_000), 7);
    let bound = environment.parameter("bound").unwrap_or(u64::MAX);
    assert!(longest.allocate.max(longest.free) <= bound, "an operation takes {bound} ticks at most");
    log(1, longest.allocate);
    log(2, longest.free);
    log(3, peak() as u64);
}

/// Allocates and frees `rounds` times in random order, and checks that nobody else wrote what was written.
///
/// # Panics
/// A byte has changed, or the heap is too small.
fn random(rounds: u64, seed: u64) -> Longest {
    let mut places: [Option<Box<[u8]>>; PLACES] = [const { None }; PLACES];
    let (mut longest, mut random) = (Longest::default(), seed | 1);
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = (random % PLACES as u64) as usize;
        let letter = at as u8 ^ 0x5a;
        if let Some(bytes) = places[at].take() {
            assert!(bytes.iter().all(|byte| *byte == letter), "round {round}: a byte has changed");
            let begun = counter();
            drop(bytes);
            longest.free = longest.free.max(counter() - begun);
        } else {
            let size = (random >> 32) % LARGEST + 1;
            let mut bytes = Vec::new();
            let begun = counter();
            bytes.reserve_exact(size as usize);
            longest.allocate = longest.allocate.max(counter() - begun);
            bytes.resize(size as usize, letter);
            places[at] = Some(bytes.into_boxed_slice());
        }
    }
    longest
}

/// Whether the collections of `alloc` hold what is put into them.
fn collections() -> bool {
    let mut words: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in 0..500_u64 {
        words.entry((number % 50).to_string()).or_default().push(number);
    }
    let sums: Vec<u64> = words.values().map(|numbers| numbers.iter().sum()).collect();
    words.len() == 50 && sums.iter().sum::<u64>() == 499 * 500 / 2 && vec![7_u8; 1_000].iter().all(|byte| *byte == 7)
}

/// Allocates until the heap has no more: the task ends with a panic.
fn exhaust() -> Vec<Box<[u8]>> {
    let mut all = Vec::with_capacity(4_096);
    loop {
        all.push(vec![0_u8; 1_000].into_boxed_slice());
    }
}
