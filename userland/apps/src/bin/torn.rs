//! Overwrites a disk again and again, with deadlines that pass in the middle, and checks the disk each time.
//!
//! Handles: endpoint "disk" (call), region "memory" (read, write, lend), the system as "system". Parameters: "rounds"; "step_us", how much longer each
//! deadline is than the one before.
//!
//! Logs `log(1, 1)` if some deadlines passed, and `log(2, sectors that were neither as before nor as they were to be)`.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::block::{Disk, DiskError, SECTOR, STAMP};
use fusee::{CallLendingError, Endpoint, Instant, Nanoseconds, Region, SharedBytes, environment, log, now, shutdown};

fusee::entry!(main);

const WORDS: usize = SECTOR / 8;

fn main() {
    let environment = environment();
    let memory = environment.expect::<Region>("memory");
    let (rounds, step) =
        (environment.parameter("rounds").unwrap_or(10), environment.parameter("step_us").unwrap_or(100));
    let disk = Disk::open(environment.expect::<Endpoint>("disk"), Instant::NEVER).expect("there is a disk");
    let sectors = (memory.bytes() - STAMP) / SECTOR as u64;
    let (mut late, mut torn) = (0, 0);
    for round in 0..=rounds {
        for word in 0..sectors as usize * WORDS {
            memory.shared().write_u64(word * 8, value(round, word));
        }
        // The first time there is time enough.
        let deadline = if round == 0 { Instant::NEVER } else { now().now + Nanoseconds(round * step * 1_000) };
        match disk.write(0, sectors, &memory, 0, deadline) {
            Ok(()) => {}
            Err(DiskError::Call(CallLendingError::TimedOut)) => late += 1,
            Err(error) => panic!("the disk takes what fits: {error:?}"),
        }
        disk.read(0, sectors, &memory, 0, Instant::NEVER).expect("the disk goes on");
        torn += (0..sectors as usize).filter(|sector| !is_whole(memory.shared(), *sector, round)).count() as u64;
    }
    log(1, u64::from(late > 0));
    log(2, torn);
    shutdown(environment.expect("system"), u64::from(torn > 0))
}

/// The content of a word of the disk after a round.
fn value(round: u64, word: usize) -> u64 {
    (round + 1) << 32 | word as u64
}

/// Whether a sector is that of this round or of one before, in all its words.
fn is_whole(memory: SharedBytes, sector: usize, round: u64) -> bool {
    let words = sector * WORDS..(sector + 1) * WORDS;
    let of = (memory.read_u64(words.start * 8) >> 32).wrapping_sub(1);
    of <= round && words.into_iter().all(|word| memory.read_u64(word * 8) == value(of, word))
}
