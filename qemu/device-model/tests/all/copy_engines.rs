//! Devices with fewer than two copy engines.

use crate::rig::*;
use fusee_accel_contract::*;
use fusee_compute::run;
use fusee_device_model::{Bus, Description, DescriptionError, Window};
use fusee_library::{Filter, Transform};

const NO_MEMORY: Window = Window { base: 0, length: 0 };

fn with(copy_engines: CopyEngines) -> Rig {
    let local = if copy_engines == CopyEngines::None { NO_MEMORY } else { DESCRIPTION.local };
    Rig::with(Description { copy_engines, local, ..DESCRIPTION })
}

fn copy(source: u64, destination: u64) -> Operation {
    Operation::Copy { source, destination, length: 0x2000 }
}

fn time(operation: Operation, engine: EngineIndex) -> u64 {
    timing::modelled_time(&Command { operation, fence: None }, engine)
}

#[test]
fn a_device_says_how_many_engines_it_has() {
    for (copy_engines, engines) in [(CopyEngines::None, 1), (CopyEngines::One, 2), (CopyEngines::Two, 3)] {
        let rig = with(copy_engines);
        let at = (DESCRIPTION.control - BASE + CONTROL_ENGINES) as usize;
        assert_eq!(rig.ram.bytes[at..at + 4], u32::to_le_bytes(engines));
    }
}

#[test]
fn device_memory_without_a_copy_engine_is_refused_and_the_reverse() {
    let mut rig = Rig::new();
    let none = Description { copy_engines: CopyEngines::None, ..DESCRIPTION };
    assert_eq!(rig.device.configure(none, &mut rig.ram), Err(DescriptionError::Memory));
    let one = Description { copy_engines: CopyEngines::One, local: NO_MEMORY, ..DESCRIPTION };
    assert_eq!(rig.device.configure(one, &mut rig.ram), Err(DescriptionError::Memory));
}

#[test]
fn without_copy_engines_operands_are_in_system_memory() {
    let mut rig = with(CopyEngines::None);
    let (coefficients, filtered, spectrum, unfinished) =
        (SYSTEM + 0x4000, SYSTEM + 0x5000, SYSTEM + 0x8000, SYSTEM + 0xA000);
    let (filter, transform) = (Filter { samples: 700, length: 33 }, Transform { points: 256 });
    let signal = noise(2 * (700 + 32));
    let response = noise(2 * 33);
    rig.fill(system(1, SYSTEM), &signal);
    rig.fill(system(1, coefficients), &response);
    rig.submit(EngineIndex::Execution, 1, launch(&filter, &[SYSTEM, coefficients, filtered]), 0);
    rig.submit(EngineIndex::Execution, 1, launch(&transform, &[filtered, spectrum, unfinished]), 1);
    assert_eq!(rig.run(0), [time_of(&filter), time_of(&filter) + time_of(&transform)]);

    let numbers = |bytes: &[u8]| -> Vec<i16> {
        bytes.chunks_exact(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]])).collect()
    };
    let mut expected = vec![0; 700];
    run(&filter, (numbers(&signal)[..].into(), numbers(&response)[..].into(), expected.as_mut_slice().into()));
    assert_eq!(numbers(rig.bytes(system(1, filtered), 1400)), expected);
    let points: Vec<[i16; 2]> = expected[..512].as_chunks().0.to_vec();
    let (mut out, mut between) = (vec![[0; 2]; 256], vec![[0; 2]; 256]);
    run(&transform, (points[..].into(), out.as_mut_slice().into(), between.as_mut_slice().into()));
    assert_eq!(numbers(rig.bytes(system(1, spectrum), 1024)), out.as_flattened());
    assert_eq!(rig.faults(1), 0);

    // A page that claims to be device memory is no operand, and there is no way to copy.
    rig.map_raw(1, LOCAL, TableEntry { page: system(1, SYSTEM), writable: true, memory: Memory::Local }.encode());
    rig.submit(EngineIndex::Execution, 1, launch(&transform, &[LOCAL, spectrum, unfinished]), 2);
    rig.run(20_000_000);
    assert_eq!((rig.fence(1, 2), rig.first_fault(1)), (FenceState::Failed, Some(FaultKind::WrongMemory)));
    rig.submit(EngineIndex::Execution, 1, copy(SYSTEM, SYSTEM + 0x2000), 3);
    assert_eq!(rig.run(40_000_000), [40_000_000 + timing::SETUP]);
    assert_eq!(rig.fence(1, 3), FenceState::Failed);
}

#[test]
fn an_only_copy_engine_copies_in_both_directions_one_after_the_other() {
    let mut rig = with(CopyEngines::One);
    let data = noise(0x2000);
    rig.fill(system(1, SYSTEM), &data);
    rig.submit(EngineIndex::CopyIn, 1, copy(SYSTEM, LOCAL), 0);
    rig.submit(EngineIndex::CopyIn, 1, copy(LOCAL, SYSTEM + 0x2000), 1);
    let once = time(copy(SYSTEM, LOCAL), EngineIndex::CopyIn);
    assert_eq!(rig.run(0), [once, 2 * once], "half duplex");
    assert_eq!(rig.bytes(local(1, LOCAL), data.len()), data);
    assert_eq!(rig.bytes(system(1, SYSTEM + 0x2000), data.len()), data);
    assert_eq!(rig.faults(1), 0);
}

#[test]
fn an_only_copy_engine_does_not_copy_within_one_memory() {
    for (source, destination) in [(SYSTEM, SYSTEM + 0x2000), (LOCAL, LOCAL + 0x2000)] {
        let mut rig = with(CopyEngines::One);
        rig.submit(EngineIndex::CopyIn, 1, copy(source, destination), 0);
        rig.run(0);
        assert_eq!((rig.fence(1, 0), rig.first_fault(1)), (FenceState::Failed, Some(FaultKind::WrongMemory)));
    }
    let mut rig = with(CopyEngines::One);
    rig.submit(EngineIndex::CopyIn, 1, copy(7 * PAGE_BYTES, LOCAL), 0);
    rig.run(0);
    assert_eq!(rig.first_fault(1), Some(FaultKind::NotMapped));
}

#[test]
fn one_of_two_copy_engines_keeps_its_direction() {
    let mut rig = Rig::new();
    rig.submit(EngineIndex::CopyIn, 1, copy(LOCAL, SYSTEM), 0);
    rig.run(0);
    assert_eq!(rig.first_fault(1), Some(FaultKind::WrongMemory));
}

#[test]
fn the_doorbell_of_a_missing_engine_faults_and_is_reset() {
    let missing = [(CopyEngines::None, EngineIndex::CopyIn), (CopyEngines::One, EngineIndex::CopyOut)];
    for (copy_engines, engine) in missing {
        let mut rig = with(copy_engines);
        rig.submit(engine, 1, Operation::Burn { time: 1 }, 0);
        rig.submit(EngineIndex::Execution, 2, Operation::Burn { time: 1_000_000 }, 1);
        assert_eq!(rig.run(0), [0, 1_000_000], "told at once, and nobody else waits");
        assert_eq!((rig.faults(1), rig.first_fault(1)), (1, Some(FaultKind::NoEngine)));
        assert_eq!((rig.fence(1, 0), rig.retired(engine, 1)), (FenceState::Pending, 0));
        assert_eq!(rig.fence(2, 1), FenceState::Done);
        rig.ram.write_u32(DESCRIPTION.control + control_reset_request(1, engine), 1).unwrap();
        rig.run(2_000_000);
        assert_eq!((rig.retired(engine, 1), rig.faults(1)), (1, 1), "idle again");
    }
}
