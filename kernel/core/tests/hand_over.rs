//! The hand-over of threads and reservations between CPUs, model-checked: every order of calls, kicks and timers.
//!
//! [`model`] lists the checks of each state, and their assumptions. One line is printed for each model.
#![allow(missing_docs)]

mod model;
mod table;

use model::Step::{
    Acknowledge, Acquire, AcquireBoth, AcquireFor, Await, Call, CallFor, Exit, Give, NextJob, Release, Restart, Send,
    SendGift, Serve, Signal, Sleep, Stop, Take, TakeFor, Wait, WaitFor, Yield,
};
use model::{Fault, Model, PASSIVE, Step, background, periodic, real_time};

/// Deadlines of three tasks, in every order.
const ORDERS: [[u64; 3]; 6] = [[3, 4, 5], [3, 5, 4], [4, 3, 5], [4, 5, 3], [5, 3, 4], [5, 4, 3]];

/// Explores `model`; a violation fails the test.
fn holds(model: &Model) {
    match model.explore() {
        Ok(report) => println!("{}: {report}", model.name),
        Err(violation) => panic!("{}: {violation}", model.name),
    }
}

fn three_threads(cpus: u8, deadlines: [u64; 3]) -> Model {
    let [a, b, c] = deadlines.map(real_time);
    Model::new(format!("hand-over, {cpus} CPUs, 3 threads, keys {deadlines:?}"), &[cpus])
        .task("a", 0, a, &[Wait("a"), Signal("b"), Signal("c"), Yield])
        .task("b", 0, b, &[Wait("b"), Signal("a"), Signal("c"), Yield])
        .task("c", 0, c, &[Wait("c"), Signal("a"), Signal("b"), Yield])
}

#[test]
fn threads_that_wake_each_other_run_on_one_cpu_each() {
    for deadlines in ORDERS {
        holds(&three_threads(2, deadlines));
    }
    holds(&three_threads(3, ORDERS[0]));
    let four = Model::new("hand-over, 3 CPUs, 4 threads", &[3])
        .task("a", 0, real_time(3), &[Wait("a"), Signal("b")])
        .task("b", 0, real_time(4), &[Wait("b"), Signal("c")])
        .task("c", 0, real_time(5), &[Wait("c"), Signal("a")])
        .task("d", 0, real_time(6), &[Wait("a"), Signal("b")]);
    holds(&four);
}

#[test]
fn background_threads_take_turns_on_one_cpu_each() {
    let model = Model::new("turns, 2 CPUs, 3 background threads", &[2])
        .task("a", 0, background(1), &[Wait("a"), Signal("b"), Signal("c"), Yield])
        .task("b", 0, background(1), &[Wait("b"), Signal("a"), Signal("c"), Yield])
        .task("c", 0, background(1), &[Wait("c"), Signal("a"), Signal("b"), Yield]);
    holds(&model);
    let model = Model::new("turns, 3 CPUs, 4 background threads", &[3])
        .task("a", 0, background(1), &[Wait("a"), Signal("b")])
        .task("b", 0, background(1), &[Wait("b"), Signal("a")])
        .task("c", 0, background(1), &[Yield])
        .task("d", 0, background(1), &[Yield]);
    holds(&model);
}

const CLIENT: [Step; 4] = [Call("s"), Wait("n"), Signal("n"), Signal("m")];
const SERVER: [Step; 3] = [Serve("s"), Signal("n"), Wait("m")];

#[test]
fn a_reservation_follows_its_thread_to_the_server_and_back() {
    for deadlines in ORDERS {
        let [a, b, c] = deadlines.map(real_time);
        let passive = Model::new(format!("passive server, 2 CPUs, 2 clients, bystander, keys {deadlines:?}"), &[2])
            .task("a", 0, a.clone(), &CLIENT)
            .task("b", 0, b.clone(), &CLIENT)
            .task("bystander", 0, c.clone(), &CLIENT[1..])
            .task("server", 0, PASSIVE, &SERVER);
        holds(&passive);
        let active = Model::new(format!("server with a budget, 2 CPUs, 2 clients, keys {deadlines:?}"), &[2])
            .task("a", 0, a, &CLIENT)
            .task("b", 0, b, &CLIENT)
            .task("server", 0, c, &SERVER);
        holds(&active);
    }
    let three = Model::new("passive server, 2 CPUs, 3 clients", &[2])
        .task("a", 0, real_time(3), &CLIENT)
        .task("b", 0, real_time(4), &CLIENT)
        .task("c", 0, real_time(5), &CLIENT)
        .task("server", 0, PASSIVE, &SERVER);
    holds(&three);
}

/// In each state the device knows the key of the holder of its engine, with each loan to it, and the end of its budget or its job.
#[test]
fn a_device_that_decides_knows_the_keys() {
    for (cpus, deadlines) in [(1, [3, 4, 5]), (1, [5, 4, 3]), (2, [3, 5, 4]), (2, [4, 3, 5])] {
        let [a, b, c] = deadlines.map(real_time);
        for (whose, server) in [("passive", PASSIVE.to_owned()), ("active", c.clone())] {
            let name = format!("{whose} server with an engine of keys, {cpus} CPUs, deadlines {deadlines:?}");
            let model = Model { keyed: true, ..Model::new(name, &[cpus]) }
                .task("a", 0, a.clone(), &[Call("s"), Wait("n")])
                .task("b", 0, b.clone(), &[Call("s"), Acquire("m"), Release("m"), Signal("n")])
                .task("server", 0, server, &[Serve("s"), Acquire("l"), Release("l"), Wait("n")]);
            holds(&model);
        }
    }
    for cpus in [1, 2] {
        let model = Model { keyed: true, ..Model::new(format!("engines of keys and budgets, {cpus} CPUs"), &[cpus]) }
            .task("a", 0, periodic(3, 1, 3), &[Acquire("l"), Release("l"), NextJob])
            .task("b", 0, periodic(4, 2, 4), &[Acquire("m"), Release("m"), NextJob, Sleep(1)])
            .ticks(5);
        holds(&model);
    }
}

#[test]
fn a_server_works_for_clients_of_two_clusters() {
    for (clusters, home) in [([1, 1], 0), ([1, 1], 1), ([2, 1], 0), ([2, 1], 1), ([1, 2], 0), ([1, 2], 1)] {
        for deadlines in [[3, 4, 5], [4, 3, 5]] {
            let [a, b, c] = deadlines.map(real_time);
            let name = format!("passive server in {home} of clusters {clusters:?}, 3 clients, keys {deadlines:?}");
            let model = Model::new(name, &clusters)
                .task("a", 0, a, &CLIENT)
                .task("b", 0, b, &CLIENT)
                .task("c", 1, c, &CLIENT)
                .task("server", home, PASSIVE, &SERVER);
            holds(&model);
        }
    }
}

#[test]
fn who_will_signal_runs_on_the_budget_of_who_waits() {
    for deadlines in ORDERS {
        let [a, b, c] = deadlines.map(real_time);
        let mut model = Model::new(format!("bound notifications, 2 CPUs, 2 waiters, keys {deadlines:?}"), &[2])
            .task("a", 0, a, &[Wait("a"), Signal("m")])
            .task("b", 0, b, &[Wait("b"), Signal("m")])
            .task("driver", 0, c, &[Signal("a"), Signal("b"), Wait("m")]);
        model.bound = vec![("a", "driver"), ("b", "driver")];
        holds(&model);
        let [a, b, c] = deadlines.map(real_time);
        let name = format!("bound notification and server, 2 CPUs, 2 clients, waiter, keys {deadlines:?}");
        let mut model = Model::new(name, &[2])
            .task("client", 0, a, &[Call("s"), Signal("m")])
            .task("waiter", 0, b, &[Wait("a"), Call("s")])
            .task("other", 0, c, &[Call("s"), Signal("m")])
            .task("server", 0, PASSIVE, &[Serve("s"), Signal("a"), Wait("m")]);
        model.bound = vec![("a", "server")];
        holds(&model);
    }
}

#[test]
fn bottom_halves_run_at_the_priority_of_who_waits_for_them() {
    for deadlines in ORDERS {
        let [a, b, c] = deadlines.map(real_time);
        let mut model = Model::new(format!("interrupt, 2 CPUs, driver, waiter, bystander, keys {deadlines:?}"), &[2])
            .task("waiter", 0, a.clone(), &[Wait("done"), Wait("n"), Stop("driver")])
            .task("bystander", 0, b.clone(), &[Signal("n"), Wait("m"), Yield])
            .task("driver", 0, c.clone(), &[Wait("event"), Acknowledge("line"), Signal("done"), Signal("m")]);
        (model.bound, model.lines) = (vec![("done", "driver")], vec![("line", "event", 0)]);
        holds(&model);
        let mut model = Model::new(format!("interrupts, 1 CPU, 2 drivers, keys {deadlines:?}"), &[1])
            .task("one", 0, a, &[Wait("first"), Acknowledge("line"), Signal("n"), Sleep(1)])
            .task("other", 0, b, &[Wait("second"), Acknowledge("other_line"), Sleep(1), Exit])
            .task("low", 0, c, &[Wait("n"), Yield]);
        model.lines = vec![("line", "first", 0), ("other_line", "second", 0)];
        holds(&model.ticks(2));
    }
}

/// A driver without a budget signals the thread on the reservation of which it runs, or another one, or while a second one waits, too.
#[test]
fn a_bottom_half_without_a_budget_lets_its_waiter_go_on() {
    for (cpus, waiter) in [(1, real_time(3)), (1, periodic(3, 2, 3)), (1, background(2))] {
        let mut model = Model::new(format!("passive driver, {cpus} CPUs, waiter of {waiter:?}"), &[cpus])
            .task("waiter", 0, waiter, &[Wait("done"), WaitFor("done", 1), Sleep(1)])
            .task("second", 0, real_time(4), &[Wait("other"), Signal("event"), Yield])
            .task("driver", 0, PASSIVE, &[Wait("event"), Signal("done"), Signal("other")]);
        model.bound = vec![("done", "driver"), ("other", "driver")];
        holds(&model.ticks(2));
    }
}

/// A waiter lends to the holder of a mutex and goes on when that lets it, with any classes of both: on one CPU the holder goes on behind it.
#[test]
fn a_mutex_passes_to_its_only_waiter_and_back() {
    let users = [
        (real_time(3), real_time(9)),
        (real_time(3), background(3)),
        (periodic(3, 2, 3), periodic(6, 3, 6)),
        (background(2), background(2)),
    ];
    for (high, low) in users {
        let model = Model::new(format!("mutex, 1 CPU, users of {high:?} and {low:?}"), &[1])
            .task("high", 0, high, &[Acquire("x"), Release("x"), Sleep(1)])
            .task("low", 0, low, &[Acquire("x"), Release("x"), Yield, Signal("n")])
            .task("other", 0, real_time(5), &[Wait("n"), Acquire("x"), Release("x")]);
        holds(&model.ticks(2));
    }
}

/// On one CPU most switches are short: timers, signals, waits and turns, in every order, each compared with the slow path.
#[test]
fn a_fast_switch_does_what_the_slow_path_does() {
    for slices in [1, 3] {
        let model = Model::new(format!("fast switches, 1 CPU, 4 threads, slices of {slices}"), &[1])
            .task("high", 0, periodic(3, 1, 3), &[NextJob, Wait("n"), Sleep(1), Signal("m")])
            .task("low", 0, real_time(9), &[Wait("m"), Signal("n"), Sleep(2)])
            .task("one", 0, background(slices), &[Yield, Signal("n"), Wait("m")])
            .task("other", 0, background(slices), &[Yield, Signal("m"), WaitFor("n", 1)]);
        holds(&Model { late: 1, ..model.ticks(3) });
    }
}

/// A server with a budget of its own takes a message at once, if it comes before the sender.
#[test]
fn what_is_sent_by_the_fast_path_arrives_as_by_the_slow_one() {
    for (cpus, server) in [(1, real_time(3)), (2, real_time(3)), (1, periodic(3, 1, 3)), (1, background(1))] {
        let model = Model::new(format!("sends, {cpus} CPUs, server of {server:?}"), &[cpus])
            .task("low", 0, real_time(9), &[Send("s"), SendGift("s"), Call("s"), Signal("n")])
            .task("turns", 0, background(1), &[Send("s"), Yield])
            .task("server", 0, server, &[Serve("s"), Wait("n"), Sleep(1)]);
        holds(&model.ticks(2));
    }
}

#[test]
fn who_holds_a_mutex_runs_for_whoever_waits_for_it() {
    for deadlines in ORDERS {
        let [a, b, c] = deadlines.map(real_time);
        let one = Model::new(format!("mutex, 2 CPUs, 3 users, keys {deadlines:?}"), &[2])
            .task("a", 0, a.clone(), &[Acquire("x"), Release("x"), Wait("n"), Signal("n")])
            .task("b", 0, b.clone(), &[Acquire("x"), Release("x"), Wait("n"), Signal("n")])
            .task("c", 0, c.clone(), &[Acquire("x"), Release("x"), Signal("n")]);
        holds(&one);
        let two = Model::new(format!("mutexes in both orders, 2 CPUs, keys {deadlines:?}"), &[2])
            .task("a", 0, a.clone(), &[Acquire("x"), Acquire("y"), Release("y"), Release("x")])
            .task("b", 0, b.clone(), &[Acquire("y"), Acquire("x"), Release("x"), Release("y")])
            .task("c", 0, c.clone(), &[Wait("n"), Yield]);
        holds(&two);
        let served = Model::new(format!("mutex held across calls, 2 CPUs, keys {deadlines:?}"), &[2])
            .task("a", 0, a, &[Acquire("x"), Release("x"), Call("s")])
            .task("b", 0, b, &[Acquire("x"), Release("x"), Call("s")])
            .task("c", 0, c, &[Acquire("x"), Release("x")])
            .task("server", 0, PASSIVE, &[Serve("s"), Wait("n")]);
        holds(&served);
    }
    let dying = Model::new("mutex, 2 CPUs, holders that are stopped", &[2])
        .task("a", 0, real_time(3), &[Acquire("x"), Release("x"), Stop("b")])
        .task("b", 0, real_time(4), &[Acquire("x"), Release("x"), Stop("c")])
        .task("c", 0, real_time(5), &[Acquire("x"), Stop("a"), Yield]);
    holds(&dying);
    let timed = Model::new("mutex, 1 CPU, timeouts, budgets that run dry", &[1])
        .task("a", 0, periodic(3, 1, 3) + "overrun = \"signal\"\n", &[AcquireFor("x", 1), Release("x"), NextJob])
        .task("b", 0, background(2), &[Acquire("x"), Release("x"), Yield]);
    holds(&Model { late: 1, ..timed.ticks(5) });
}

#[test]
fn who_acquires_two_at_once_has_both_or_none() {
    for order in ["fifo", "priority"] {
        for deadlines in [[3, 4, 5], [4, 5, 3], [5, 3, 4]] {
            let [a, b, c] = deadlines.map(real_time);
            let model = |name: &str| Model::new(format!("{name}, 2 CPUs, {order}, keys {deadlines:?}"), &[2]);
            let two = model("two groups and a single lock")
                .task("a", 0, a.clone(), &[AcquireBoth("x", "y"), Acquire("y"), Release("x"), Wait("n")])
                .task("b", 0, b.clone(), &[AcquireBoth("y", "x"), Acquire("x"), Release("y"), Signal("n")])
                .task("c", 0, c.clone(), &[Acquire("x"), Release("x"), Yield]);
            holds(&Model { group: Some(order), ..two });
            let dying = model("groups whose holders are stopped")
                .task("a", 0, a, &[AcquireBoth("x", "y"), Release("y"), Stop("b")])
                .task("b", 0, b, &[AcquireBoth("x", "y"), Release("x"), Stop("c")])
                .task("c", 0, c, &[Acquire("y"), Release("y"), Stop("a")]);
            holds(&Model { group: Some(order), ..dying });
        }
        let timed = Model::new(format!("groups, 1 CPU, timeouts, {order}"), &[1])
            .task("a", 0, periodic(3, 1, 3), &[AcquireFor("x", 1), Release("x"), NextJob])
            .task("b", 0, background(2), &[AcquireBoth("x", "y"), Release("x"), Yield])
            .task("c", 0, background(1), &[AcquireFor("y", 2), Release("y")]);
        holds(&Model { group: Some(order), late: 1, ..timed.ticks(4) });
    }
}

#[test]
fn a_token_passes_on_whoever_waits_donates_or_dies() {
    for limit in ["\"unlimited\"", "\"r2dglp\"", "1"] {
        let model = |name: &str, cpus, replicas| {
            let name = format!("{name}, {cpus} CPUs, {replicas} tokens, limit {limit}");
            Model { tokens: (replicas, limit), ..Model::new(name, &[cpus]) }
        };
        for deadlines in [[3, 4, 5], [4, 5, 3], [5, 3, 4]] {
            let [a, b, c] = deadlines.map(real_time);
            let users = model(&format!("tokens, keys {deadlines:?}"), 2, 1)
                .task("a", 0, a.clone(), &[Take("p"), Give("p"), Wait("n"), Signal("n")])
                .task("b", 0, b.clone(), &[Take("p"), Give("p"), Wait("n"), Signal("n")])
                .task("c", 0, c.clone(), &[Take("p"), Give("p"), Signal("n")]);
            holds(&users);
            let dying = model(&format!("tokens whose holders are stopped, keys {deadlines:?}"), 2, 1)
                .task("a", 0, a, &[Take("p"), Give("p"), Stop("b")])
                .task("b", 0, b, &[Take("p"), Give("p"), Stop("c")])
                .task("c", 0, c, &[Take("p"), Stop("a"), Yield]);
            holds(&dying);
        }
        let timed = model("tokens, timeouts, budgets that run dry", 1, 1)
            .task("a", 0, periodic(3, 1, 3) + "overrun = \"early-release\"\n", &[TakeFor("p", 1), Give("p"), NextJob])
            .task("b", 0, periodic(4, 2, 4), &[Take("p"), Give("p"), NextJob]);
        holds(&Model { late: 1, ..timed.ticks(5) });
    }
    let several = Model::new("2 tokens, 2 CPUs, 4 users", &[2])
        .task("a", 0, real_time(3), &[Take("p"), Give("p"), Wait("a")])
        .task("b", 0, real_time(4), &[Take("p"), Give("p"), Wait("b")])
        .task("c", 0, real_time(5), &[Take("p"), Give("p"), Signal("a")])
        .task("d", 0, real_time(6), &[Take("p"), Give("p"), Signal("b")]);
    holds(&Model { tokens: (2, "\"r2dglp\""), ..several });
    let across = Model::new("a pool of two clusters", &[1, 1])
        .task("a", 0, periodic(3, 1, 3), &[Take("p"), Give("p"), NextJob])
        .task("b", 0, periodic(4, 1, 4), &[Yield, NextJob])
        .task("c", 1, periodic(3, 2, 3), &[TakeFor("p", 1), Give("p"), NextJob]);
    holds(&Model { tokens: (1, "\"ck-omlp\""), late: 1, ..across.ticks(4) });
}

/// The holder may keep its token, wait, or die; the others go on, and donors wait no longer than the watchdog.
#[test]
fn a_token_that_is_not_given_back_is_taken_wherever_its_holder_is() {
    for (watchdog, late) in [(1, 0), (2, 1)] {
        let one = Model::new(format!("tokens taken after {watchdog} ticks, 1 CPU"), &[1])
            .task("a", 0, periodic(3, 1, 3), &[TakeFor("p", 1), Give("p"), NextJob])
            .task("b", 0, periodic(4, 2, 4), &[Take("p"), Give("p"), Wait("n"), NextJob]);
        holds(&Model { watchdog, late, ..one.ticks(5) });
    }
    let two = Model::new("tokens taken after a tick, 2 CPUs", &[2])
        .task("a", 0, real_time(3), &[Take("p"), Give("p"), Sleep(1)])
        .task("b", 0, real_time(4), &[Take("p"), Stop("a")])
        .task("c", 0, real_time(5), &[TakeFor("p", 1)]);
    holds(&Model { watchdog: 1, ..two.ticks(3) });
    let across = Model::new("tokens taken after a tick, a pool of two clusters", &[1, 1])
        .task("a", 0, periodic(3, 1, 3), &[Take("p"), Give("p"), NextJob])
        .task("b", 0, periodic(4, 1, 4), &[Sleep(1), NextJob])
        .task("c", 1, periodic(3, 2, 3), &[TakeFor("p", 1), NextJob]);
    holds(&Model { tokens: (1, "\"ck-omlp\""), watchdog: 1, ..across.ticks(3) });
}

/// A server of two clusters is boosted where it does not belong to its client, and for its share only.
#[test]
fn a_boost_begins_ends_and_comes_again_wherever_its_server_is() {
    for (clusters, home) in [([1, 1], 0), ([1, 1], 1)] {
        let model = |name: &str| Model::new(format!("{name}, server in {home} of clusters {clusters:?}"), &clusters);
        let plain = model("boosts")
            .task("a", 0, real_time(3), &[Call("s"), Yield])
            .task("b", 1, real_time(4), &[Call("s"), Sleep(1)])
            .task("server", home, PASSIVE, &[Serve("s")]);
        holds(&Model { service: (1, 3), late: 1, ..plain.ticks(4) });
        let dying = model("boosts, servers and clients that are stopped")
            .task("a", 0, periodic(3, 1, 3), &[CallFor("s", 1), Stop("b")])
            .task("b", 1, periodic(3, 2, 3), &[Call("s"), Stop("server")])
            .task("server", home, background(1), &[Serve("s")]);
        holds(&Model { service: (1, 2), ..dying.ticks(3) });
    }
}

#[test]
fn whoever_dies_leaves_nobody_behind() {
    let model = Model::new("deaths, 2 CPUs, 2 clients, passive server, bystander", &[2])
        .task("a", 0, real_time(3), &[Call("s"), Wait("n"), Exit])
        .task("b", 0, real_time(4), &[Call("s"), Wait("n"), Exit])
        .task("bystander", 0, real_time(5), &[Signal("n"), Exit])
        .task("server", 0, PASSIVE, &[Serve("s"), Exit]);
    holds(&model);
}

/// A small kernel tells one of a death in a trap, so that all others happen between two of its steps.
#[test]
fn whoever_is_stopped_from_another_cpu_leaves_nobody_behind() {
    for deadlines in ORDERS {
        let [a, b, c] = deadlines.map(real_time);
        let server = Model::new(format!("stopped, 2 CPUs, passive server of 2 clients, keys {deadlines:?}"), &[2])
            .task("a", 0, a.clone(), &[Call("s"), Wait("n"), Stop("server")])
            .task("b", 0, b.clone(), &[Call("s"), Signal("n"), Stop("a")])
            .task("killer", 0, c.clone(), &[Stop("server"), Stop("a"), Yield])
            .task("server", 0, PASSIVE, &[Serve("s"), Stop("b")]);
        holds(&server);
        let mut driver = Model::new(format!("stopped, 2 CPUs, who signals 2 waiters, keys {deadlines:?}"), &[2])
            .task("a", 0, a, &[Wait("x"), Signal("m"), Stop("driver")])
            .task("b", 0, b, &[Wait("y"), Signal("m"), Stop("driver")])
            .task("driver", 0, c, &[Signal("x"), Signal("y"), Wait("m"), Stop("a")]);
        driver.bound = vec![("x", "driver"), ("y", "driver")];
        holds(&driver);
    }
    let three = Model::new("stopped, 2 CPUs, a server of 3 clients that stop each other", &[2])
        .task("a", 0, real_time(3), &[Call("s"), Stop("b")])
        .task("b", 0, real_time(4), &[Call("s"), Stop("c")])
        .task("c", 0, real_time(5), &[Call("s"), Stop("server"), Yield])
        .task("server", 0, PASSIVE, &[Serve("s")]);
    holds(&three);
    let three_cpus = Model::new("stopped, 3 CPUs, everybody stops everybody", &[3])
        .task("a", 0, real_time(3), &[Call("s"), Stop("b"), Stop("server")])
        .task("b", 0, real_time(4), &[Call("s"), Stop("c"), Stop("a")])
        .task("c", 0, real_time(5), &[Call("s"), Stop("server"), Stop("b")])
        .task("server", 0, real_time(6), &[Serve("s"), Stop("a")]);
    holds(&three_cpus);
    for (clusters, home) in [([1, 1], 0), ([1, 1], 1), ([2, 1], 0), ([1, 2], 1)] {
        let name = format!("stopped, server in {home} of clusters {clusters:?}, 2 clients");
        let model = Model::new(name, &clusters)
            .task("a", 0, real_time(3), &[Call("s"), Stop("server"), Stop("b")])
            .task("b", 1, real_time(4), &[Call("s"), Stop("server"), Stop("a")])
            .task("killer", 1, real_time(5), &[Stop("a"), Stop("server"), Yield])
            .task("server", home, PASSIVE, &[Serve("s")]);
        holds(&model);
    }
}

/// A server, a task with jobs, and one that holds a lock end and begin again, at any time and on any CPU.
#[test]
fn whoever_begins_again_begins_as_at_first() {
    for (clusters, home) in [([2, 0], 0), ([1, 1], 0), ([1, 1], 1)] {
        let clusters: Vec<u8> = clusters.into_iter().filter(|cpus| *cpus > 0).collect();
        let far = clusters.len() - 1;
        let name = format!("restarted, passive server in {home} of clusters {clusters:?}, supervisor, client");
        let model = Model::new(name, &clusters)
            .task("supervisor", 0, real_time(4), &[Stop("server"), Restart, Await(1)])
            .task("client", far, real_time(3), &[Call("s"), Yield])
            .task("server", home, PASSIVE, &[Serve("s"), Exit]);
        holds(&Model { supervisor: Some(("supervisor", "server")), ..model.ticks(2) });
    }
    let model = Model::new("restarted, 1 CPU, a task with jobs", &[1])
        .task("supervisor", 0, background(1), &[Stop("worker"), Restart])
        .task("worker", 0, periodic(3, 1, 3), &[NextJob, Exit]);
    holds(&Model { supervisor: Some(("supervisor", "worker")), ..model.ticks(5) });
    let model = Model::new("restarted, 2 CPUs, a task with a lock", &[2])
        .task("supervisor", 0, real_time(4), &[Stop("holder"), Restart])
        .task("holder", 0, real_time(3), &[Acquire("x"), Release("x")])
        .task("other", 0, real_time(5), &[Acquire("x"), Release("x")]);
    holds(&Model { supervisor: Some(("supervisor", "holder")), ..model.ticks(2) });
}

#[test]
fn whoever_is_stopped_between_ticks_pays_for_what_it_used_and_no_more() {
    let model = Model::new("stopped in time, 2 CPUs, server, 2 clients", &[2])
        .task("a", 0, periodic(2, 1, 2), &[Call("s"), Stop("b")])
        .task("b", 0, periodic(3, 2, 3), &[CallFor("s", 1), Stop("server")])
        .task("server", 0, PASSIVE, &[Serve("s")]);
    holds(&model.ticks(3));
    let model = Model { late: 1, ..Model::new("stopped while dry, 2 CPUs, late timers", &[2]) }
        .task("a", 0, periodic(2, 1, 2), &[NextJob])
        .task("b", 0, periodic(3, 1, 3) + "overrun = \"early-release\"\n", &[NextJob, Stop("a")])
        .task("c", 0, background(1), &[Stop("b"), Yield]);
    holds(&model.ticks(3));
}

/// Budgets and periods of few ticks, so that they end and come again before the model does.
#[test]
fn jobs_end_and_budgets_run_dry_on_whatever_cpu_they_are() {
    let jobs = |name: &str, more: &str| {
        let keys = |period, budget| periodic(period, budget, period) + more;
        Model::new(format!("{name}, 2 CPUs, 3 tasks"), &[2])
            .task("a", 0, keys(2, 1), &[NextJob])
            .task("b", 0, keys(3, 2), &[NextJob])
            .task("c", 0, keys(4, 2), &[NextJob])
            .ticks(4)
    };
    holds(&jobs("jobs", ""));
    holds(&jobs("jobs released early", "overrun = \"early-release\"\n"));
    holds(&Model { late: 1, ..jobs("late timers", "") }.ticks(3));
    for (clusters, ticks) in [(&[2][..], 5), (&[1, 1], 8)] {
        let model = Model::new(format!("clients run dry, clusters {clusters:?}, passive server"), clusters)
            .task("a", 0, periodic(3, 2, 3), &[Call("s")])
            .task("b", clusters.len() - 1, periodic(3, 1, 2), &[Call("s")])
            .task("server", 0, PASSIVE, &[Serve("s")]);
        holds(&model.ticks(ticks));
    }
}

#[test]
fn timeouts_end_waits_wherever_the_waiter_is() {
    let model = Model::new("timeouts, 2 CPUs, 2 clients, passive server", &[2])
        .task("a", 0, real_time(3), &[CallFor("s", 1), Sleep(1)])
        .task("b", 0, real_time(4), &[CallFor("s", 2), WaitFor("n", 1)])
        .task("server", 0, PASSIVE, &[Serve("s"), Signal("n")]);
    holds(&model.ticks(3));
}

/// A machine that fails once must be found: else the checks above say nothing.
#[test]
fn a_lost_kick_and_an_ignored_outcome_are_found() {
    for fault in [Fault::LosesKick, Fault::IgnoresOutcome] {
        let violation = Model { fault: Some(fault), ..three_threads(2, ORDERS[0]) }.explore().expect_err("a fault");
        println!("{fault:?}: {violation}");
        assert!(violation.path.last().is_some_and(|line| line.contains("fails")), "found as soon as it happens");
    }
}
