//! Rings, doorbells and the device that reads them: a client stores anything to its ring and its doorbells, while a driver resets it.
//!
//! # Checks
//!
//! 1. The device makes aligned accesses, none across a page (`Rig`).
//! 2. It writes to the control page, the status page, ring pages, and memory mapped for the context that submits: to nothing else.
//! 3. After a reset of an engine nothing is left to do there for the context.

use fusee_accel_contract::{EngineIndex, PAGE_BYTES, RING_ENTRIES, control_reset_request, doorbell_page, ring_slot};
use fusee_device_model::{Bus, Description, Mechanism, Sms};

use crate::bytes::Bytes;
use crate::rig::{DESCRIPTION, LOCAL, Rig, SYSTEM, local, ring_page, system};

/// The context of the client that does anything. The neighbour submits nothing, so nothing of it changes.
const CLIENT: usize = 1;
const NEIGHBOUR: usize = 2;
/// Bytes of a command.
const COMMAND: usize = 64;

/// Lets the client act as `data` says.
///
/// # Panics
/// Something does not hold.
pub fn run(data: &[u8]) {
    run_on(None, data);
    run_on(Some(Sms::of(4, Mechanism::Switch)), data);
}

/// Runs the client on a device with these SMs.
fn run_on(sms: Option<Sms>, data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut rig = Rig::with(Description { sms, ..DESCRIPTION });
    rig.ram.written.clear();
    let mut now = 0;
    while let Some(what) = bytes.next() {
        let engine = EngineIndex::ALL[usize::from(what >> 4) % EngineIndex::ALL.len()];
        match what & 7 {
            // A whole command, then the count.
            0 => {
                let mut command = [0; COMMAND];
                let taken = bytes.take(COMMAND);
                command[..taken.len()].copy_from_slice(taken);
                rig.submit_bytes(engine, CLIENT, &command);
            }
            // Some bytes of one that may be read at the moment.
            1 => {
                let slot = bytes.number(1) as u32 % RING_ENTRIES;
                let at = usize::from(bytes.byte()) % COMMAND;
                let taken = bytes.take(COMMAND - at);
                store(&mut rig, ring_page(CLIENT) + ring_slot(engine, slot) + at as u64, taken);
            }
            // Words behind the rings: arguments and fences.
            2 => {
                let at = bytes.number(2) % (PAGE_BYTES / 4) * 4;
                let value = bytes.number(4) as u32;
                store(&mut rig, ring_page(CLIENT) + at, &value.to_le_bytes());
            }
            3 => {
                let count = match bytes.byte() {
                    by @ 0..32 => rig.submitted(engine, CLIENT).wrapping_add(u32::from(by)),
                    by @ 32..64 => rig.submitted(engine, CLIENT).wrapping_sub(u32::from(by)),
                    _ => bytes.number(4) as u32,
                };
                rig.ring(engine, CLIENT, count);
            }
            4 => {
                let request = DESCRIPTION.control + control_reset_request(CLIENT, engine);
                let before = rig.ram.read_u32(request).expect("a word of the control page");
                rig.ram.write_u32(request, before.wrapping_add(1)).expect("a word of the control page");
                let _ = rig.poll(now);
                // Its ring is stopped, or it has nothing left to do.
                assert_ne!(rig.device.working_for(engine), Some(CLIENT), "a reset leaves something to do");
            }
            _ => {
                now += [0, 1_000, 30_000, 200_000, 3_000_000, 50_000_000][usize::from(bytes.byte()) % 6];
                let _ = rig.poll(now);
            }
        }
    }
    let _ = rig.poll(now);
    for page in &rig.ram.written {
        assert!(may_be_written(*page), "the device wrote to the page at {page:#x}");
    }
}

/// The client's own stores are not the device's.
fn store(rig: &mut Rig, address: u64, bytes: &[u8]) {
    rig.fill(address, bytes);
}

fn may_be_written(page: u64) -> bool {
    let is_in = |first: u64, pages: u64| (first..first + pages * PAGE_BYTES).contains(&page);
    let doorbells = EngineIndex::ALL.map(|engine| DESCRIPTION.doorbells + doorbell_page(engine, CLIENT));
    is_in(DESCRIPTION.control, 1)
        || is_in(DESCRIPTION.status, 1)
        || doorbells.contains(&page)
        || is_in(ring_page(CLIENT), 1)
        || is_in(ring_page(NEIGHBOUR), 1)
        || is_in(local(CLIENT, LOCAL), 64)
        || is_in(system(CLIENT, SYSTEM), 64)
}
