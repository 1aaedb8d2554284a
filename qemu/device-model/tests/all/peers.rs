//! Copies from the memory of other devices.

use crate::rig::*;
use fusee_accel_contract::timing::{Slowdown, modelled_time_over};
use fusee_accel_contract::*;
use fusee_device_model::{Description, DescriptionError, PEERS, Peer, Window};
use fusee_library::Transform;

const LOCAL_WINDOW: Window = Window { base: DESCRIPTION.local.base, length: 0xC_0000 };
const FAR: Slowdown = Slowdown(120);
const BUSY: Slowdown = Slowdown(400);
/// Device addresses of the two peers' memory, and their windows.
const NEAR_AT: u64 = 192 * PAGE_BYTES;
const FAR_AT: u64 = 208 * PAGE_BYTES;
const NEAR_WINDOW: Window = Window { base: LOCAL_WINDOW.base + 0xC_0000, length: 0x1_0000 };
const FAR_WINDOW: Window = Window { base: LOCAL_WINDOW.base + 0xE_0000, length: 0x1_0000 };
const LENGTH: u64 = 0x2800;

fn description() -> Description {
    let mut peers = [Peer::NONE; PEERS];
    peers[0] = Peer { memory: NEAR_WINDOW, slowdown: Slowdown::NEAR };
    peers[PEERS - 1] = Peer { memory: FAR_WINDOW, slowdown: FAR };
    Description { local: LOCAL_WINDOW, slowdown: BUSY, peers, ..DESCRIPTION }
}

fn rig() -> Rig {
    let mut rig = Rig::with(description());
    for (address, window) in [(NEAR_AT, NEAR_WINDOW), (FAR_AT, FAR_WINDOW)] {
        for offset in (0..window.length).step_by(PAGE_BYTES as usize) {
            rig.map_raw(1, address + offset, peer(window.base + offset));
        }
    }
    rig
}

fn peer(page: u64) -> u64 {
    TableEntry { page, writable: true, memory: Memory::Peer }.encode()
}

fn peer_copy(source: u64, destination: u64) -> Operation {
    Operation::PeerCopy { source, destination, length: LENGTH }
}

fn time(slowdown: Slowdown, operation: Operation) -> u64 {
    modelled_time_over(slowdown, &Command { operation, fence: None }, EngineIndex::CopyIn)
}

#[test]
fn bytes_come_from_near_and_far_and_take_as_long_as_the_way_says() {
    let mut rig = rig();
    let data = noise(2 * LENGTH as usize);
    let (near, far) = data.split_at(LENGTH as usize);
    // Across pages, and not from the start of one.
    rig.fill(NEAR_WINDOW.base + 0x800, near);
    rig.fill(FAR_WINDOW.base, far);
    rig.submit(EngineIndex::CopyIn, 1, peer_copy(NEAR_AT + 0x800, LOCAL), 0);
    rig.submit(EngineIndex::CopyIn, 1, peer_copy(FAR_AT, LOCAL + 0x4000), 1);
    let copy = Operation::Copy { source: SYSTEM, destination: LOCAL + 0x8000, length: LENGTH };
    rig.submit(EngineIndex::CopyIn, 1, copy, 2);
    let first = time(Slowdown::NEAR, peer_copy(NEAR_AT, LOCAL));
    let second = first + time(FAR, peer_copy(FAR_AT, LOCAL));
    assert_eq!(rig.run(0), [first, second, second + time(BUSY, copy)]);
    assert_eq!(rig.bytes(local(1, LOCAL), near.len()), near);
    assert_eq!(rig.bytes(local(1, LOCAL + 0x4000), far.len()), far);
    assert_eq!(rig.faults(1), 0);
}

#[test]
fn a_peers_memory_is_for_peer_copies_and_they_for_a_peers_memory() {
    let cases = [
        (EngineIndex::CopyIn, peer_copy(SYSTEM, LOCAL), FaultKind::WrongMemory),
        (EngineIndex::CopyIn, peer_copy(LOCAL + 0x4000, LOCAL), FaultKind::WrongMemory),
        (EngineIndex::CopyIn, peer_copy(NEAR_AT, SYSTEM), FaultKind::WrongMemory),
        (EngineIndex::CopyIn, peer_copy(NEAR_AT, FAR_AT), FaultKind::WrongMemory),
        (
            EngineIndex::CopyIn,
            Operation::Copy { source: NEAR_AT, destination: LOCAL, length: LENGTH },
            FaultKind::WrongMemory,
        ),
        (
            EngineIndex::Execution,
            launch(&Transform { points: 8 }, &[NEAR_AT, LOCAL, LOCAL + 0x1000]),
            FaultKind::WrongMemory,
        ),
        (EngineIndex::CopyOut, peer_copy(NEAR_AT, LOCAL), FaultKind::BadCommand),
        // Beyond the last page of the peer that the context has.
        (EngineIndex::CopyIn, peer_copy(FAR_AT + 0xF000, LOCAL), FaultKind::NotMapped),
    ];
    for (engine, operation, fault) in cases {
        let mut rig = rig();
        rig.submit(engine, 1, operation, 0);
        rig.run(0);
        assert_eq!((rig.fence(1, 0), rig.first_fault(1)), (FenceState::Failed, Some(fault)), "{operation:?}");
    }
}

#[test]
fn a_page_that_is_in_no_peer_is_out_of_reach() {
    for page in [NEAR_WINDOW.base + NEAR_WINDOW.length, LOCAL_WINDOW.base, DESCRIPTION.control, DESCRIPTION.system.base]
    {
        let mut rig = rig();
        rig.map_raw(1, NEAR_AT, peer(page));
        rig.submit(EngineIndex::CopyIn, 1, peer_copy(NEAR_AT, LOCAL), 0);
        rig.run(0);
        assert_eq!(rig.first_fault(1), Some(FaultKind::OutsideWindow));
    }
}

#[test]
fn a_peer_that_shares_an_address_with_this_device_is_refused() {
    for base in [DESCRIPTION.control, DESCRIPTION.system.base, LOCAL_WINDOW.base + 0xB_0000, FAR_WINDOW.base] {
        let mut rig = Rig::new();
        let mut description = description();
        description.peers[1].memory = Window { base, length: PAGE_BYTES };
        assert_eq!(rig.device.configure(description, &mut rig.ram), Err(DescriptionError::Overlap));
    }
}
