#![allow(missing_docs)]
//! The gate of an engine, in every order of accesses by the kernel and the device: the kernel shuts it after each access of the device, and looks
//! whether the engine is idle after each later one.

use crate::rig::{DESCRIPTION, Ram, Rig, Watched};
use fusee_accel_contract::*;
use fusee_device_model::Bus;

const ENGINE: EngineIndex = EngineIndex::Execution;
const MICROSECOND: u64 = 1_000;
/// The client that holds the lock, once the engine is idle.
const HOLDER: usize = 3;
const WORK: u64 = 100 * MICROSECOND;
/// Commands of the two shared clients.
const TIMES: [[u64; 2]; 2] = [[30 * MICROSECOND, 25 * MICROSECOND], [25 * MICROSECOND, 40 * MICROSECOND]];

fn word(ram: &mut Ram, address: u64) -> u32 {
    ram.read_u32(address).unwrap()
}

/// The kernel's read in one access.
fn is_idle(ram: &mut Ram) -> bool {
    let both = ram.read_u64(DESCRIPTION.status + status_ended(ENGINE)).unwrap();
    both as u32 == (both >> 32) as u32
}

fn set_gate(ram: &mut Ram, gate: u32) {
    ram.write_u32(DESCRIPTION.control + control_gate(ENGINE), gate).unwrap();
}

fn rig() -> Rig {
    let mut rig = Rig::new();
    for context in 1..=2 {
        let flags = DESCRIPTION.control + control_context(context) + CONTEXT_FLAGS;
        rig.ram.write_u32(flags, CONTEXT_VALID | CONTEXT_SHARED).unwrap();
    }
    rig.open(HOLDER);
    for (context, times) in (1..).zip(TIMES) {
        for (fence, time) in times.into_iter().enumerate() {
            rig.submit(ENGINE, context, Operation::Burn { time }, fence);
        }
    }
    rig
}

/// The result for a kernel that shuts the gate and looks at these accesses of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    /// The device had ended all by then.
    TooLate,
    Idle,
    /// The kernel was interrupted when the engine became idle.
    Waited,
}

fn take_back(shuts_at: usize, looks_at: usize) -> Ending {
    let at = format!("shut after {shuts_at} accesses, looked after {looks_at}");
    let mut rig = rig();
    let (mut now, mut accesses, mut waits) = (0, 0, false);
    let ending = loop {
        let mut found_idle = None;
        let mut kernel = |ram: &mut Ram, accesses: usize| {
            if accesses == shuts_at {
                set_gate(ram, GATE_SHUT);
            }
            if accesses == looks_at {
                found_idle = Some(is_idle(ram));
            }
        };
        kernel(&mut rig.ram, accesses);
        let each = |ram: &mut Ram| {
            accesses += 1;
            kernel(ram, accesses);
        };
        let actions = rig.device.poll(now, &mut Watched { ram: &mut rig.ram, each });
        // The device interrupts at the end of a poll.
        waits |= found_idle == Some(false);
        if found_idle == Some(true) || waits && actions.interrupt && is_idle(&mut rig.ram) {
            assert_eq!(rig.device.working_for(ENGINE), None, "{at}: an engine that was said to be idle works");
            break if waits { Ending::Waited } else { Ending::Idle };
        }
        match actions.next {
            Some(next) => now = now.max(next),
            None if accesses < looks_at => return Ending::TooLate,
            None => panic!("{at}: the kernel waits for ever"),
        }
    };
    // The holder has the engine for itself, and its operation takes as long as on a device of its own.
    rig.submit(ENGINE, HOLDER, Operation::Burn { time: WORK }, 0);
    let began = now;
    loop {
        let actions = rig.poll(now);
        if rig.fence(HOLDER, 0) == FenceState::Done {
            break;
        }
        assert_eq!(rig.device.working_for(ENGINE), Some(HOLDER), "{at}");
        now = actions.next.unwrap_or_else(|| panic!("{at}: the holder's operation does not end"));
    }
    assert_eq!(rig.device.working_for(ENGINE), None, "{at}");
    assert_eq!(now, began + WORK, "{at}");
    set_gate(&mut rig.ram, 0);
    rig.run(now);
    for (context, times) in (1..).zip(TIMES) {
        for fence in 0..times.len() {
            assert_eq!(rig.fence(context, fence), FenceState::Done, "{at}: client {context}, command {fence}");
        }
    }
    let status = DESCRIPTION.status;
    let [begun, ended] = [status_begun(ENGINE), status_ended(ENGINE)].map(|at| word(&mut rig.ram, status + at));
    assert_eq!(begun, ended, "{at}");
    assert_eq!(rig.device.late_completions(), 0, "{at}");
    ending
}

#[test]
fn an_engine_behind_a_shut_gate_is_idle_when_it_is_said_to_be_and_whoever_waits_for_that_hears_of_it() {
    let [mut idle, mut waited] = [0, 0];
    for shuts_at in 0.. {
        let mut looks = 0;
        for looks_at in shuts_at.. {
            match take_back(shuts_at, looks_at) {
                Ending::TooLate => break,
                Ending::Idle => idle += 1,
                Ending::Waited => waited += 1,
            }
            looks += 1;
            // The device has gone to sleep by then, or goes on as after any later access.
            if looks > 250 {
                break;
            }
        }
        if looks == 0 {
            break;
        }
    }
    println!("{idle} take-backs of an idle engine, {waited} of one that worked");
    assert!(idle > 1_000 && waited > 1_000);
}

/// Shared commands that end while no task waits for the engine interrupt once in a quarter of a millisecond; commands of a holder interrupt at once.
#[test]
fn completions_of_shared_contexts_are_announced_together() {
    let mut rig = rig();
    for _ in 0..10 {
        rig.submit(ENGINE, 1, Operation::Burn { time: timing::SETUP }, 0);
    }
    let ends = rig.run(0);
    // All that ended until then; after that, again.
    assert_eq!(
        ends,
        [30 * MICROSECOND, 30 * MICROSECOND + timing::MODERATION, 30 * MICROSECOND + 2 * timing::MODERATION]
    );
    let begin = 2_000 * MICROSECOND;
    for _ in 0..3 {
        rig.submit(ENGINE, HOLDER, Operation::Burn { time: timing::SETUP }, 0);
    }
    assert_eq!(rig.run(begin), [1, 2, 3].map(|number| begin + number * timing::SETUP));
}

/// A client without a lock may have its context reset as often as it likes, gate or no gate: it interrupts as seldom as by completions.
#[test]
fn resets_of_shared_contexts_are_announced_together() {
    for gate in [0, GATE_SHUT] {
        let mut rig = rig();
        rig.run(0);
        set_gate(&mut rig.ram, gate);
        let begin = 2_000 * MICROSECOND;
        let request = |context: usize, rig: &mut Rig| {
            let request = DESCRIPTION.control + control_reset_request(context, ENGINE);
            let next = word(&mut rig.ram, request) + 1;
            rig.ram.write_u32(request, next).unwrap();
        };
        let mut ends = Vec::new();
        for at in (begin..begin + 1_000 * MICROSECOND).step_by(10 * MICROSECOND as usize) {
            request(1, &mut rig);
            if rig.poll(at).interrupt {
                ends.push(at - begin);
            }
        }
        assert_eq!(ends, [0, 1, 2, 3].map(|number| number * timing::MODERATION));
        request(HOLDER, &mut rig);
        assert!(rig.poll(begin + 1_010 * MICROSECOND).interrupt, "its client may wait for it");
    }
}

/// The driver resets the context that runs, and the others lose nothing.
#[test]
fn a_reset_of_the_running_context_costs_its_client_alone() {
    let mut rig = rig();
    let running = DESCRIPTION.status + status_running(ENGINE);
    rig.submit(ENGINE, 2, Operation::Burn { time: u64::MAX }, 5);
    rig.run_until(1_000 * MICROSECOND);
    assert_eq!(word(&mut rig.ram, running), 2 + 1);
    set_gate(&mut rig.ram, GATE_SHUT);
    assert!(!is_idle(&mut rig.ram));
    rig.submit(ENGINE, 1, Operation::Burn { time: WORK }, 6);
    rig.ram.write_u32(DESCRIPTION.control + control_reset_request(2, ENGINE), 1).unwrap();
    assert!(rig.poll(1_000 * MICROSECOND).interrupt);
    assert!(is_idle(&mut rig.ram));
    assert_eq!(word(&mut rig.ram, running), 0);
    assert_eq!(rig.fence(2, 5), FenceState::Failed);
    set_gate(&mut rig.ram, 0);
    rig.run(2_000 * MICROSECOND);
    assert_eq!(
        (rig.fence(1, 6), rig.fence(1, 0), rig.fence(2, 0)),
        (FenceState::Done, FenceState::Done, FenceState::Done)
    );
}
