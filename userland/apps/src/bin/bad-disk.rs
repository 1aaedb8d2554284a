//! Uses a disk of which one sector cannot be read.
//!
//! Handles: endpoint "disk" (call), region "memory" (read, write, lend), the system as "system". Parameter: "bad", the number of that sector.
//!
//! Logs the result of each request, zero or the code of the refusal, as `log(number, code)`: writing the first sectors, the bad one among them;
//! reading the bad one; some with the bad one in the middle; the first one, compared with the written data.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::block::{Disk, DiskError, SECTOR};
use fusee::{Endpoint, Instant, Region, environment, log, shutdown};

fusee::entry!(main);

const NEVER: Instant = Instant::NEVER;
const MARK: u64 = 0x0123_4567_89ab_cdef;

fn main() {
    let environment = environment();
    let memory = environment.expect::<Region>("memory");
    let bad = environment.parameter("bad").expect("the parameter `bad` says which sector is");
    let disk = Disk::open(environment.expect::<Endpoint>("disk"), NEVER).expect("there is a disk");
    memory.shared().fill(0, memory.shared().len(), 0);
    memory.shared().write_u64(0, MARK);
    tell(1, disk.write(0, bad + 1, &memory, 0, NEVER));
    memory.shared().write_u64(0, 0);
    tell(2, disk.read(bad, 1, &memory, SECTOR as u64, NEVER));
    tell(3, disk.read(bad - 1, 3, &memory, SECTOR as u64, NEVER));
    let first = disk.read(0, 1, &memory, 0, NEVER);
    tell(4, first);
    shutdown(environment.expect("system"), u64::from(first.is_ok() && memory.shared().read_u64(0) != MARK))
}

fn tell(number: u64, result: Result<(), DiskError>) {
    let code = match result {
        Ok(()) => 0,
        Err(DiskError::Refused(refusal)) => refusal as u64,
        Err(DiskError::Call(_)) => 100,
    };
    log(number, code);
}
