//! Kicks of devices by a call: whichever path a signal takes, it is one, and changes nothing else.
#![allow(missing_docs)]

mod table;

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::{Call, DEADLINE, HandleValue, NEVER, NUMBER};
use fusee_kernel_core::id::NotificationId;
use fusee_kernel_core::object::State;
use fusee_kernel_core::{CpuId, Trap};
use fusee_manifest::Manifest;
use table::{Table, thread};

/// Slots of the task's handles, in this order.
const KICK: u16 = 0;
const EVENT: u16 = 1;
const NOT_TO_SIGNAL: u16 = 2;

fn table() -> Table {
    let text = "[system]\nname = \"kicks\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n\
                [tasks.client]\nbinary = \"model/model\"\nclass = \"background\"\n\
                [tasks.client.handles]\nkick = \"notification kick: signal\"\nevent = \"notification event: signal\"\n\
                not_to_signal = \"notification kick: wait\"\nothers = \"notification event: wait\"\n\
                [notifications.kick]\n[notifications.event]\n";
    let mut table =
        Table::new(&Manifest::parse(Path::new("kicks.toml"), text).unwrap_or_else(|error| panic!("{error}")));
    table.board.kicks.0 = NotificationId::new(0);
    table
}

/// The ways into the kernel that a signal may take: that of a call, that of one which found the kernel busy, and the slow one.
#[derive(Clone, Copy, Debug)]
enum Way {
    Call,
    Late,
    Slow,
}

/// The answer to the client's signal, and how often devices were kicked by then.
fn signal(table: &mut Table, way: Way, slot: u16, bits: u64) -> (u64, u32) {
    let general = &mut table.board.registers[0].general;
    (general[NUMBER], general[0], general[1]) = (Call::Signal as u64, HandleValue::new(slot, 1).0, bits);
    let (kernel, board, cpu) = (&mut table.kernel, &mut table.board, CpuId(0));
    let outcome = match way {
        Way::Call => board.any_trap(kernel, cpu, Trap::Syscall),
        Way::Late => board.trap(kernel, cpu, Trap::Syscall),
        Way::Slow => board.slow_trap(kernel, cpu, Trap::Syscall),
    };
    board.apply(cpu, outcome);
    assert_eq!(outcome.run, Some(thread(0)), "{way:?}");
    kernel.check().expect("its invariants hold");
    (board.registers[0].general[0], board.kicks.1)
}

#[test]
fn a_signal_is_a_kick_by_every_path_and_leaves_no_bits() {
    for way in [Way::Call, Way::Late, Way::Slow] {
        let mut table = table();
        assert_eq!(signal(&mut table, way, KICK, 1), (0, 1), "{way:?}");
        assert_eq!(signal(&mut table, way, KICK, 0), (0, 2), "{way:?}");
        // This notification, as one that kicks nothing, would show any bits left.
        table.board.kicks.0 = None;
        let general = &mut table.board.registers[0].general;
        (general[NUMBER], general[0], general[DEADLINE]) =
            (Call::Wait as u64, HandleValue::new(NOT_TO_SIGNAL, 1).0, NEVER);
        table.trap(CpuId(0), Trap::Syscall);
        assert!(matches!(table.state(0), State::Waiting(_)), "{way:?}");
    }
}

#[test]
fn what_is_no_kick_kicks_nothing() {
    for way in [Way::Call, Way::Late, Way::Slow] {
        let mut table = table();
        assert_eq!(signal(&mut table, way, EVENT, 1), (0, 0), "{way:?}");
        assert_eq!(signal(&mut table, way, EVENT, 0), (Error::BadArgument as u64, 0), "{way:?}");
        assert_eq!(signal(&mut table, way, NOT_TO_SIGNAL, 1), (Error::MissingRight as u64, 0), "{way:?}");
        assert_eq!(signal(&mut table, way, 9, 1), (Error::BadHandle as u64, 0), "{way:?}");
    }
}

/// A client whose signals kick devices, while another thread waits for the same notification.
fn with_waiter(notification: &str) -> Table {
    let text = format!(
        "[system]\nname = \"waiter\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n\
         [tasks.client]\nbinary = \"model/model\"\nclass = \"background\"\n\
         [tasks.client.handles]\nkick = \"notification kick: signal\"\n\
         [tasks.waiter]\nbinary = \"model/model\"\nclass = \"service\"\nbudget = \"1ms\"\nperiod = \"10ms\"\n\
         [tasks.waiter.handles]\nkick = \"notification kick: wait\"\n\
         [notifications.kick]\n{notification}"
    );
    let manifest = Manifest::parse(Path::new("waiter.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let mut table = Table::new(&manifest);
    while table.executes(CpuId(0)) != Some(1) {
        let general = &mut table.board.registers[0].general;
        general[NUMBER] = Call::Yield as u64;
        table.trap(CpuId(0), Trap::Syscall);
    }
    let general = &mut table.board.registers[1].general;
    (general[NUMBER], general[0], general[DEADLINE]) = (Call::Wait as u64, HandleValue::new(KICK, 1).0, NEVER);
    table.trap(CpuId(0), Trap::Syscall);
    assert!(matches!(table.state(1), State::Waiting(_)), "the waiter waits");
    assert_eq!(table.executes(CpuId(0)), Some(0), "the client runs");
    table.board.kicks.0 = NotificationId::new(0);
    table
}

#[test]
fn a_kick_wakes_nobody_by_any_path() {
    for notification in ["", "bound = \"client\"\n"] {
        for way in [Way::Call, Way::Late, Way::Slow] {
            let mut table = with_waiter(notification);
            assert_eq!(signal(&mut table, way, KICK, 1), (0, 1), "{way:?}, {notification}");
            assert!(matches!(table.state(1), State::Waiting(_)), "{way:?}, {notification}");
        }
    }
}
