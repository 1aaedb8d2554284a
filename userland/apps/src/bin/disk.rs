//! Writes a disk, reads it back in another order, and compares every word; then makes requests that no disk can serve.
//!
//! Handles: endpoint "disk" (call), region "memory" (read, write, lend; a mebibyte and a page), region "other" (the same rights), of which the server knows nothing; the
//! system as "system". Parameters: "mebibytes", one if absent; "again", how often a request that its server's death cuts short is made again: not at all if absent.
//!
//! Logs `log(1, MiB written)`, `log(2, MiB that were read back equal)`, and the codes of refusals: `log(3, code)`, once for each of a list.
//! Ends the system, with code 0 if all words were equal.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::block::{ALIGNMENT, Disk, DiskError, SECTOR};
use fusee::{Endpoint, Instant, Nanoseconds, Region, Rights, environment, log, shutdown};

fusee::entry!(main);

const MEBIBYTE: u64 = 1 << 20;
const NEVER: Instant = Instant::NEVER;

fn main() {
    let environment = environment();
    let server = environment.expect::<Endpoint>("disk");
    let (memory, other) = (environment.expect::<Region>("memory"), environment.expect::<Region>("other"));
    let bytes = environment.parameter("mebibytes").unwrap_or(1) * MEBIBYTE;
    let again = environment.parameter("again").unwrap_or(0) as u32;
    let disk = Disk::open(server, NEVER).expect("there is a disk").again(again, Nanoseconds(100_000));
    let each = MEBIBYTE / SECTOR as u64;
    let rounds = bytes / MEBIBYTE;

    for round in 0..rounds {
        fill(&memory, round * each);
        disk.write(round * each, each, &memory, 0, NEVER).expect("the disk takes what fits");
    }
    disk.flush(NEVER).expect("the disk keeps what it took");
    log(1, rounds);

    // From the end, and one sector at the wrong end of each piece first: a sector in the wrong place differs from the expected one.
    let mut equal = 0;
    for round in (0..rounds).rev() {
        memory.shared().fill(0, memory.shared().len(), 0xEE);
        let first = round * each;
        let last = MEBIBYTE - SECTOR as u64;
        disk.read(first + each - 1, 1, &memory, last, NEVER).expect("the disk gives the last sector");
        disk.read(first, each - 1, &memory, 0, NEVER).expect("the disk gives the others");
        equal += u64::from(is_filled(&memory, first));
    }
    log(2, equal);

    let end = disk.sectors();
    let whole = memory.bytes();
    refused(disk.read(end, 1, &memory, 0, NEVER));
    refused(disk.write(end - 1, 2, &memory, 0, NEVER));
    refused(disk.read(u64::MAX, u64::MAX, &memory, 0, NEVER));
    refused(disk.read(0, 0, &memory, 0, NEVER));
    refused(disk.read(0, 1, &memory, whole, NEVER));
    refused(disk.read(0, 1, &memory, ALIGNMENT / 2, NEVER));
    refused(disk.write(0, whole / SECTOR as u64 + 1, &memory, 0, NEVER));
    // The server has no place for it.
    refused(disk.write(0, 1, &other, 0, NEVER));
    // The request of a client that makes its own words.
    let raw = |words, rights| {
        let answer = server.call_lending(words, &memory, rights, NEVER).expect("the server answers");
        log(3, answer.words[0]);
    };
    raw([1, 0, 1, 0, 0, 0], Rights::READ);
    raw([u64::MAX; 6], Rights::READ | Rights::WRITE);
    let unlent = server.call([2, 0, 1, 0, 0, 0], NEVER).expect("the server answers");
    log(3, unlent[0]);
    // And nothing of that has changed anything.
    disk.read(0, each, &memory, 0, NEVER).expect("the disk goes on");
    shutdown(environment.expect("system"), u64::from(equal != rounds || !is_filled(&memory, 0)))
}

/// Logs why it was refused: the server's code, 100 for a refusal of the kernel, or 0 for none.
fn refused(result: Result<(), DiskError>) {
    let code = match result {
        Ok(()) => 0,
        Err(DiskError::Refused(refusal)) => refusal as u64,
        Err(DiskError::Call(_)) => 100,
    };
    log(3, code);
}

/// Writes into each word the content of sector `first` and those behind it.
fn fill(memory: &Region, first: u64) {
    let words = MEBIBYTE as usize / 8;
    for word in 0..words {
        memory.shared().write_u64(word * 8, pattern(first, word));
    }
}

fn is_filled(memory: &Region, first: u64) -> bool {
    let words = MEBIBYTE as usize / 8;
    (0..words).all(|word| memory.shared().read_u64(word * 8) == pattern(first, word))
}

/// Another value for each word of the disk (Steele, Lea, Flood 2014, the finalizer of SplitMix).
fn pattern(first: u64, word: usize) -> u64 {
    let mut mixed = (first * (SECTOR as u64 / 8) + word as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 27
}
