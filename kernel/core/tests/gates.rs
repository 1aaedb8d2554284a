//! Gates, model-checked: engines that are taken back from clients without a lock, and handed back to them, in every order of the steps of the kernel, its
//! tasks and the device do.
//!
//! [`model`] lists the checks of each state, and [`table::device`] the acts of the device. One line is printed for each model.
#![allow(missing_docs)]

mod model;
mod table;

use model::Step::{
    Acknowledge, Acquire, AcquireBoth, AcquireFor, Complete, Exit, Release, Reset, Restart, Stop, Submit, Wait, Yield,
};
use model::{Gates, Model, Step, background, real_time};
use table::device::Wrong;

const GATES: Gates = Gates { longest: 1, watchdog: 2, reset: 1, wrong: None };

/// Explores `model`; a violation fails the test.
fn holds(model: &Model) {
    match model.explore() {
        Ok(report) => println!("{}: {report}", model.name),
        Err(violation) => panic!("{}: {violation}", model.name),
    }
}

fn model(name: &str, cpus: u8) -> Model {
    let name = format!("{name}, {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
    Model { gates: Some(GATES), lines: vec![("line", "event", 0)], ..Model::new(name, &[cpus]) }
}

/// A driver that makes no resets.
const DRIVER: [Step; 2] = [Wait("event"), Acknowledge("line")];
const USER: [Step; 3] = [Acquire("x"), Submit("x"), Release("x")];

/// A task that waits for the driver with the latest key has to lend to it.
const ORDERS: [[u64; 3]; 3] = [[3, 4, 5], [3, 5, 4], [4, 5, 3]];

fn two_users(cpus: u8, deadlines: [u64; 3]) -> Model {
    let [a, b, driver] = deadlines.map(real_time);
    model(&format!("gate, 2 users, keys {deadlines:?}"), cpus)
        .task("a", 0, a, &[Acquire("x"), Submit("x"), Release("x"), Wait("n")])
        .task("b", 0, b, &[Acquire("x"), Submit("x"), Release("x"), Wait("m")])
        .task("driver", 0, driver, &DRIVER)
}

#[test]
fn an_engine_is_taken_back_and_handed_back_in_every_order() {
    for deadlines in ORDERS {
        holds(&two_users(1, deadlines));
    }
    let [a, b, driver] = [4, 5, 3].map(real_time);
    let two =
        model("gate, 2 users", 2).task("a", 0, a, &USER).task("b", 0, b, &USER).task("driver", 0, driver, &DRIVER);
    holds(&two);
}

#[test]
fn whoever_dies_leaves_the_engine_to_the_class() {
    for deadlines in ORDERS {
        let [a, b, driver] = deadlines.map(real_time);
        let users = model(&format!("gate, users that are stopped, keys {deadlines:?}"), 1)
            .task("a", 0, a.clone(), &[Acquire("x"), Submit("x"), Release("x"), Stop("b"), Exit, Wait("m")])
            .task("b", 0, b.clone(), &[Acquire("x"), Submit("x"), Release("x"), Stop("a"), Wait("n")])
            .task("driver", 0, driver.clone(), &DRIVER);
        holds(&users);
        let all = model(&format!("gate, everybody is stopped, keys {deadlines:?}"), 1)
            .task("a", 0, a, &[Acquire("x"), Submit("x"), Release("x"), Stop("driver"), Wait("n")])
            .task("b", 0, b, &[Acquire("x"), Submit("x"), Stop("a"), Wait("m")])
            .task("driver", 0, driver, &[Wait("event"), Acknowledge("line"), Stop("b"), Exit]);
        holds(&all);
    }
    let [a, b, driver] = [4, 5, 3].map(real_time);
    let two = model("gate, users that are stopped", 2)
        .task("a", 0, a, &[Acquire("x"), Submit("x"), Stop("b")])
        .task("b", 0, b, &[Acquire("x"), Release("x"), Stop("a")])
        .task("driver", 0, driver, &DRIVER);
    holds(&two);
}

/// A driver ends and begins again, at any time: a task that wants the engine has it or hears why not, and clients without a lock have it back.
#[test]
fn a_driver_that_begins_again_opens_the_gates_that_stayed_shut() {
    for cpus in 1..=2 {
        let [supervisor, user, driver] = [4, 5, 3].map(real_time);
        let one = model("gate, a driver that is restarted", cpus)
            .task("supervisor", 0, supervisor, &[Stop("driver"), Restart])
            .task("user", 0, user, &USER)
            .task("driver", 0, driver, &DRIVER);
        holds(&Model { supervisor: Some(("supervisor", "driver")), ..one });
    }
    let reset = model("gate, a driver that is restarted, resets after 1, watchdog after 1", 1)
        .task("supervisor", 0, background(1), &[Stop("driver"), Restart, Yield])
        .task("user", 0, background(1), &[AcquireFor("x", 1), Submit("x"), Yield])
        .task("driver", 0, background(1), &RESETTER);
    let gates = Some(Gates { watchdog: 1, ..GATES });
    holds(&Model { supervisor: Some(("supervisor", "driver")), gates, ..reset.ticks(2) });
}

/// A driver that answers or does not, and resets the engines that it names or does not.
const RESETTER: [Step; 4] = [Wait("event"), Acknowledge("line"), Reset("x"), Complete("line", "x")];

#[test]
fn a_command_that_does_not_end_is_reset_when_its_time_behind_the_shut_gate_is_over() {
    for (longest, watchdog) in [(1, 2), (2, 1)] {
        let name = format!("gate, resets after {longest}, watchdog after {watchdog}, 1 user");
        let one = model(&name, 1)
            .task("a", 0, background(1), &[AcquireFor("x", 1), Submit("x"), Release("x"), Yield])
            .task("driver", 0, background(1), &RESETTER);
        holds(&Model { gates: Some(Gates { longest, watchdog, ..GATES }), ..one.ticks(3) });
    }
    let two = model("gate, resets after 1, watchdog after 1, 2 users", 1)
        .task("a", 0, background(1), &[AcquireFor("x", 1), Submit("x"), Yield])
        .task("b", 0, background(1), &[Acquire("x"), Release("x"), Yield])
        .task("driver", 0, background(1), &RESETTER);
    holds(&Model { gates: Some(Gates { watchdog: 1, ..GATES }), ..two.ticks(2) });
}

#[test]
fn engines_of_a_device_are_taken_back_one_by_one() {
    let [a, b, driver] = [4, 5, 3].map(real_time);
    let apart = model("2 gates, 2 users", 1)
        .task("a", 0, a, &[Acquire("x"), Submit("x"), Release("x"), Acquire("y"), Release("y")])
        .task("b", 0, b, &[Acquire("x"), Release("x"), Acquire("y"), Submit("y"), Release("y")])
        .task("driver", 0, driver, &DRIVER);
    holds(&apart);
}

#[test]
fn engines_that_are_acquired_together_are_taken_back_and_handed_back_as_they_are_wanted() {
    for (order, deadlines) in [("fifo", ORDERS[0]), ("priority", ORDERS[2])] {
        let [a, b, driver] = deadlines.map(real_time);
        let group = model(&format!("2 gates, group, {order}, keys {deadlines:?}"), 1)
            .task("a", 0, a, &[AcquireBoth("x", "y"), Acquire("y"), Submit("y"), Release("y"), Wait("n")])
            .task("b", 0, b, &[Acquire("x"), Release("x"), Stop("a"), Wait("m")])
            .task("driver", 0, driver, &DRIVER);
        holds(&Model { group: Some(order), ..group });
    }
}

/// Each planted fault must be found: else the checks say nothing.
#[test]
fn devices_that_do_not_keep_to_their_half_of_the_handshake_are_found() {
    for (wrong, found) in [
        (Wrong::ReadsGateFirst, "runs on x beside"),
        (Wrong::RetractsInSilence, "waits for an idle engine for ever"),
        (Wrong::EndsInSilence, "waits for an idle engine for ever"),
    ] {
        let gates = Some(Gates { wrong: Some(wrong), ..GATES });
        let violation = Model { gates, ..two_users(1, ORDERS[0]) }.explore().expect_err("it is wrong");
        println!("{wrong:?}: {violation}");
        assert!(violation.what.contains(found), "{wrong:?}: {violation}");
    }
}
