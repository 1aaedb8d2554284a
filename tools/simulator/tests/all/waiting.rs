//! Waiting: deadlines of calls, engines that drain, chains, and threads that move between CPUs.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_kernel_core::limits::REPLY_SLOTS;
use fusee_manifest::Manifest;
use fusee_simulator::{First, Options, Overheads, simulate_observed};
use fusee_views::metrics::Metrics;

use super::common::{self, Asked, Device, MS, NEXT_JOB, Run, URGENT, burn, call, sleep, submit, system};

/// Runs the system of `text` with an end; each task that is named makes its requests once.
fn run(text: &str, kick_delay: u64, asked: &[(&str, Vec<Asked>)]) -> Run {
    let text = format!("{text}{}", common::end("80ms", URGENT));
    let asked: Vec<(&str, &[Asked])> = asked.iter().map(|(name, asked)| (*name, &asked[..])).collect();
    common::run(&text, Overheads::kicks(kick_delay), &asked)
}

//--- Budgets across CPUs

const TIMED_CALL: &str = r#"
[endpoints.service]
server = "server"

[tasks.server]
script = ["serve service"]
cluster = "all"
handles = { service = "endpoint service: receive" }

[tasks.client]
script = ["burn 1ms"]
cluster = "all"
period = "50ms"
budget = "10ms"
handles = { service = "endpoint service: call" }

[tasks.short]
script = ["burn 1ms"]
cluster = "all"
period = "100ms"
deadline = "5ms"
budget = "2ms"
phase = "1ms"

[tasks.long]
script = ["burn 2ms"]
cluster = "all"
period = "100ms"
deadline = "5ms"
budget = "3ms"
phase = "1ms"
"#;

/// The client calls at 10 ms on CPU 0. At 11 `long` takes CPU 0; the server goes on at 12 on CPU 1, after `short`.
/// At 16 the call is given up and the client is back on CPU 0, of 10 ms five used: at 21 it is dry.
#[test]
fn a_client_that_gives_up_a_call_has_only_the_budget_that_its_server_left() {
    for kick_delay in [0, 1_000, 50_000] {
        let client = vec![NEXT_JOB, call(Call::Call, "service").with(30 * MS).within(6 * MS), burn(20 * MS)];
        let run = run(&(system(2, "") + TIMED_CALL), kick_delay, &[("client", client)]);
        assert_eq!(run.results("client")[1], Error::TimedOut as u64);
        assert!(run.ledger(Ledger::Overshoot, 0) <= kick_delay, "{}", run.ledger(Ledger::Overshoot, 0));
        let throttled = run.times(Event::Throttle, "client");
        assert!(throttled[0].abs_diff(21_000) <= 3 * kick_delay / 1_000, "{throttled:?}");
    }
}

const LATE: &str = r#"
[tasks.first]
script = ["burn 100us"]
cluster = "all"
period = "20ms"
deadline = "1ms"
budget = "1ms"

[tasks.long]
script = ["burn 50ms"]
cluster = "all"
period = "80ms"
deadline = "70ms"
budget = "60ms"

[tasks.late]
script = ["burn 8ms"]
cluster = "all"
period = "10ms"
deadline = "10ms"
budget = "9ms"

[tasks.blocker]
script = ["burn 4ms"]
cluster = "all"
period = "100ms"
deadline = "4ms"
budget = "4ms"
phase = "5ms"

[tasks.other]
script = ["burn 3ms"]
cluster = "all"
period = "100ms"
deadline = "4ms"
budget = "4ms"
phase = "5ms"
"#;

/// `late` runs on CPU 1 from 10 to 15 and, after `other`, from 18 to 21, so that its release at 20 queues. The second
/// job has a whole budget: the time that the first used since 18 is booked before the budget is refilled.
#[test]
fn a_late_job_does_not_use_the_budget_of_the_next() {
    let run = run(&(system(2, "admission = \"warn\"") + LATE), 0, &[]);
    let done = run.times(Event::Complete, "late");
    assert_eq!(done[..3], [21_000, 29_000, 38_000]);
    assert_eq!(run.times(Event::Throttle, "late"), []);
}

const MIGRATION: &str = r#"
[tasks.short]
script = ["burn 2010us"]
cluster = "all"
period = "100ms"
deadline = "10ms"
budget = "3ms"

[tasks.moved]
script = ["burn 10ms"]
cluster = "all"
period = "100ms"
deadline = "30ms"
budget = "12ms"

[tasks.high]
script = ["burn 5ms"]
cluster = "all"
period = "100ms"
deadline = "6ms"
budget = "6ms"
phase = "2ms"
"#;

/// `high` takes `moved`'s CPU at 12 ms; 10 us later `short` ends, and `moved` goes on where that was: at once if
/// kicks take no time. If they take 50 us it is still on its first CPU then, which is asked to let it go first.
#[test]
fn a_thread_moves_to_another_cpu_once_its_first_has_let_it_go() {
    for (kick_delay, latest) in [(0, 0), (50_000, 150)] {
        let run = run(&(system(2, "") + MIGRATION), kick_delay, &[]);
        let of = |event: Event| {
            // Several tasks are released at the start.
            run.events(event, "moved").filter(|record| record.time > 11 * MS).copied().collect::<Vec<Record>>()
        };
        let (on, off) = (of(Event::SwitchTo), of(Event::SwitchAway));
        assert_eq!((on.len(), off.len()), (1, 2), "{on:?}");
        assert_eq!((off[0].cpu, on[0].cpu), (1, 0));
        assert!(on[0].time >= off[0].time && off[0].time == 12 * MS + kick_delay);
        let done = run.times(Event::Complete, "moved")[0];
        assert!((20_010..=20_010 + latest).contains(&done), "{done}");
        assert_eq!(run.ledger(Ledger::ThreadTime, run.index("moved")), 10 * MS);
    }
}

//--- Deadlines

const TIMEOUTS: &str = r#"
[endpoints.service]
server = "server"

[notifications.never]

[tasks.server]
script = ["serve service"]
cluster = "all"
handles = { service = "endpoint service: receive" }

[tasks.patient]
script = ["burn 1ms"]
cluster = "all"
period = "100ms"
budget = "10ms"
phase = "1ms"
handles = { service = "endpoint service: call inside", never = "notification never: wait", ee = "engine ee: acquire" }

[tasks.other]
script = ["burn 1ms"]
cluster = "all"
period = "100ms"
deadline = "90ms"
budget = "50ms"
handles = { service = "endpoint service: call inside", ee = "engine ee: acquire" }
"#;

/// `text` with a device.
fn with_device(text: String) -> String {
    text + &Device { engines: &[("ee", "order = \"priority\"")], ..Device::GPU }.text()
}

#[test]
fn waiting_ends_at_its_deadline_and_leaves_nothing_behind() {
    let timed_out = Error::TimedOut as u64;
    let patient = vec![
        NEXT_JOB,
        call(Call::Wait, "never").within(2 * MS),
        call(Call::Acquire, "ee").within(3 * MS),
        call(Call::Call, "service").with(MS).within(5 * MS),
        // Once `other` is through, both are to be had.
        sleep(20 * MS),
        call(Call::Acquire, "ee").within(0),
        call(Call::Call, "service").with(MS).within(5 * MS),
    ];
    let other =
        vec![NEXT_JOB, call(Call::Acquire, "ee"), call(Call::Call, "service").with(25 * MS), call(Call::Release, "ee")];
    let run = run(&with_device(system(2, "") + TIMEOUTS), 0, &[("patient", patient), ("other", other)]);
    assert_eq!(run.results("patient"), [0, timed_out, timed_out, timed_out, 0, 0, 0]);
    assert_eq!(run.results("other"), [0, 0, 0, 0]);
    let resumed = run.times(Event::Resume, "patient");
    assert_eq!(resumed[..3], [13_000, 16_000, 21_000]);
}

//--- Engines

const ENGINES: &str = r#"
[tasks.low]
script = ["acquire ee", "burn 4ms", "submit ee 2ms gpu_done", "release ee", "burn 1ms"]
cluster = "all"
period = "100ms"
deadline = "60ms"
budget = "9ms"
handles = { ee = "engine ee: acquire" }

[tasks.middle]
script = ["burn 10ms"]
cluster = "all"
period = "100ms"
deadline = "50ms"
budget = "11ms"
phase = "3ms"

[tasks.high]
script = ["acquire ee", "submit ee 1ms gpu_done", "release ee"]
cluster = "all"
period = "100ms"
deadline = "20ms"
budget = "9ms"
phase = "2ms"
handles = { ee = "engine ee: acquire" }

[tasks.last]
script = ["acquire ee", "submit ee 1ms gpu_done", "release ee"]
cluster = "all"
period = "100ms"
deadline = "70ms"
budget = "9ms"
phase = "1ms"
handles = { ee = "engine ee: acquire" }
"#;

/// `low` has the engine from 10 ms. `last` would ask at 11, but has no CPU before `low` waits; `high` asks at 12 and
/// lends: `low` ends its 4 ms at 14, before `middle`, which came at 13 with an earlier deadline than its own. `high`
/// is granted at 16, when `low`'s work ends, and `last`, which asked while `middle` did not yet run, comes after it.
#[test]
fn a_low_holder_runs_at_the_key_of_a_high_waiter_which_is_granted_first() {
    let run = run(&with_device(system(1, "") + ENGINES), 0, &[]);
    let granted = |name| run.times(Event::EngineGrant, name)[0];
    assert_eq!((granted("low"), granted("high")), (10_000, 16_000));
    assert!(granted("last") > granted("high"));
    assert_eq!(run.times(Event::Complete, "high"), [17_000]);
    // From 12 to 14 `high` paid.
    assert_eq!(run.ledger(Ledger::Charged, 2), 2 * MS);
}

#[test]
fn an_engine_given_back_with_work_in_flight_is_granted_when_that_ends() {
    let leaver = vec![
        NEXT_JOB,
        call(Call::Acquire, "ee"),
        submit(0, 9 * MS),
        call(Call::Release, "ee"),
        burn(MS),
        // It may wait for its own work, too.
        call(Call::Acquire, "ee").within(MS),
        NEXT_JOB,
    ];
    let run = run(&with_device(system(1, "") + ENGINES), 0, &[("low", leaver)]);
    assert_eq!(run.results("low"), [0, 0, 0, Error::TimedOut as u64]);
    assert_eq!(run.times(Event::EngineRelease, "low"), [10_000]);
    assert_eq!(run.times(Event::EngineIdle, "low"), [19_000]);
    assert_eq!(run.times(Event::EngineGrant, "high"), [19_000]);
    assert_eq!(run.ledger(Ledger::EngineTime, run.index("low")), 9 * MS);
}

/// The holder submits and faults: its doorbell is gone, the work in flight ends, the next has the engine then.
#[test]
fn an_engine_whose_holder_dies_is_granted_when_its_work_ends() {
    let dying = vec![NEXT_JOB, call(Call::Acquire, "ee"), submit(0, 9 * MS), submit(1, 1)];
    let run = run(&with_device(system(1, "") + ENGINES), 0, &[("low", dying)]);
    assert_eq!(run.times(Event::Fault, "low"), [10_000]);
    assert_eq!(run.times(Event::EngineGrant, "high"), [19_000]);
}

//--- Cycles and chains

/// A system of `count` tasks, each of which serves an endpoint `s0`, `s1` ... and may call every other; task `0`
/// starts last.
fn callers(count: usize) -> String {
    let mut text = system(1, "");
    for index in 0..count {
        let phase = count - index;
        text += &format!(
            "[endpoints.s{index}]\nserver = \"t{index}\"\n[tasks.t{index}]\nscript = [\"burn 1ms\"]\ncluster = \"all\"\n\
             period = \"100ms\"\nbudget = \"5ms\"\ndeadline = \"{}ms\"\nphase = \"{phase}ms\"\nsleeps_inside = true\n[tasks.t{index}.handles]\n",
            100 - phase
        );
        for other in 0..count {
            let receive = if other == index { " receive" } else { "" };
            text += &format!("s{other} = \"endpoint s{other}: call inside{receive}\"\n");
        }
    }
    text
}

#[test]
fn a_call_that_would_close_a_cycle_is_refused_and_the_others_are_served() {
    // Of 2, 1 and 0, in this order, each calls the next below; 0 would close the cycle.
    let serve = call(Call::Receive, "s0");
    let programs = [
        ("t2", vec![NEXT_JOB, call(Call::Call, "s1")]),
        ("t1", vec![NEXT_JOB, call(Call::Call, "s0")]),
        ("t0", vec![NEXT_JOB, call(Call::Call, "s2"), call(Call::Call, "s0"), serve]),
    ];
    let run = run(&callers(3), 0, &programs);
    let cycle = Error::WouldDeadlock as u64;
    assert_eq!(run.report.results[0], [0, cycle, cycle, 0]);
    // It ended without replying; so did the one that waited for it.
    assert_eq!(run.report.results[1], [0, Error::PeerDied as u64]);
    assert_eq!(run.report.results[2], [0, Error::PeerDied as u64]);
}

#[test]
fn a_chain_of_callers_has_eight_links_at_most() {
    const S: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
    const T: [&str; 10] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
    // 9 sleeps; 8 calls it, 7 calls 8, and so on.
    let mut programs: Vec<_> = (0..9).map(|index| (T[index], vec![NEXT_JOB, call(Call::Call, S[index + 1])])).collect();
    programs.push((T[9], vec![NEXT_JOB, sleep(30 * MS)]));
    let run = run(&callers(10), 0, &programs);
    let refused: Vec<usize> =
        (0..9).filter(|index| run.report.results[*index][1] == Error::ChainTooLong as u64).collect();
    // 2 to 8 wait for the next: with 9 that are eight. When 1 ends refused, 0 finds no server to call.
    assert_eq!(refused, [1]);
    assert_eq!(run.report.results[0][1], Error::PeerDied as u64);
}

/// Tasks as above, which share the one token of a pool. The task that is called last has the highest key of those that ask.
fn sharers(count: usize) -> String {
    let text = callers(count).replace(".handles]\n", ".handles]\none = \"pool one: acquire\"\n");
    text + "[pools.one]\nreplicas = 1\n"
}

/// 1 donates to 2, which holds the token, until 0 takes its place; then 2 calls 1, which waits for no task any more. When 0
/// gives up, 1 should donate to 2 again.
#[test]
fn a_wait_for_a_token_that_closes_a_cycle_later_is_refused_then() {
    let serve = call(Call::Receive, "s1");
    let programs = [
        ("t2", vec![NEXT_JOB, call(Call::Acquire, "one"), burn(3 * MS), call(Call::Call, "s1")]),
        ("t1", vec![NEXT_JOB, call(Call::Acquire, "one"), serve]),
        ("t0", vec![NEXT_JOB, call(Call::Acquire, "one").within(10 * MS)]),
    ];
    let run = run(&sharers(3), 0, &programs);
    assert_eq!(run.report.results[0], [0, Error::TimedOut as u64]);
    assert_eq!(run.report.results[1], [0, Error::ChainTooLong as u64, 0]);
    // It was served, by one that ended without replying.
    assert_eq!(run.report.results[2], [0, 0, Error::PeerDied as u64]);
    // 0 asks at 13 ms and gives up at 23 ms; at that time 1 is told.
    assert_eq!(run.times(Event::Resume, "t1"), [23_000]);
}

/// 8 is pushed out of its place by 1, as above; meanwhile seven callers wait for it in a row.
#[test]
fn a_wait_for_a_token_whose_chain_has_become_too_long_is_refused_then() {
    const S: [&str; 9] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];
    const T: [&str; 8] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];
    let sleep = sleep(60 * MS);
    let mut programs = vec![("t9", vec![NEXT_JOB, call(Call::Acquire, "one"), sleep])];
    programs.push(("t8", vec![NEXT_JOB, call(Call::Acquire, "one")]));
    programs.extend((2..8).map(|index| (T[index], vec![NEXT_JOB, call(Call::Call, S[index + 1])])));
    programs.push(("t1", vec![NEXT_JOB, call(Call::Acquire, "one").within(20 * MS)]));
    programs.push(("t0", vec![NEXT_JOB, call(Call::Call, "s2")]));
    let run = run(&sharers(10), 0, &programs);
    assert_eq!(run.report.results[1], [0, Error::TimedOut as u64]);
    assert_eq!(run.report.results[8], [0, Error::ChainTooLong as u64]);
    for caller in [0, 2, 3, 4, 5, 6, 7] {
        assert_eq!(run.report.results[caller], [0, Error::PeerDied as u64]);
    }
    // With six callers the chain to 9 was as long as it may be; the seventh, 0, came when it ended at 8. 1 asks at 19 ms.
    assert_eq!(run.times(Event::Resume, "t8"), [39_000]);
}

#[test]
fn a_server_whose_reply_slots_are_taken_receives_no_more() {
    let count = REPLY_SLOTS + 2;
    let receive = call(Call::Receive, "s0");
    let clients: Vec<String> = (1..count).map(|client| format!("t{client}")).collect();
    let mut programs = vec![("t0", [vec![NEXT_JOB], vec![receive; REPLY_SLOTS + 1]].concat())];
    programs.extend(clients.iter().map(|client| (client.as_str(), vec![NEXT_JOB, call(Call::Call, "s0")])));
    let run = run(&callers(count), 0, &programs);
    assert_eq!(run.report.results[0], [vec![0; REPLY_SLOTS + 1], vec![Error::NoReplySlot as u64]].concat());
    for client in 1..count {
        assert_eq!(run.report.results[client], [0, Error::PeerDied as u64]);
    }
}

/// Elliott 2015, figure 3.10, with servers in place of locks and threads: eight tasks wait for a holder, which waits for
/// a callback thread, which waits for the thread of the bottom half, and a ninth waits for that one alone. Of the eight
/// one comes before a bystander, until it is taken away; then they all fall below it.
#[test]
fn all_helpers_of_a_chain_run_at_its_earliest_key_and_fall_when_that_one_is_taken_away() {
    const WAITERS: [&str; 9] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
    let mut text = system(1, "");
    let handles = [("holder", "callback"), ("callback", "bottom"), ("bottom", "bottom")];
    for (server, other) in handles {
        let call = if server == other { String::new() } else { format!("{other} = \"endpoint {other}: call\"\n") };
        text += &format!(
            "[endpoints.{server}]\nserver = \"{server}\"\n[tasks.{server}]\nscript = [\"burn 1ms\"]\n\
             cluster = \"all\"\n[tasks.{server}.handles]\n{server} = \"endpoint {server}: receive\"\n{call}"
        );
    }
    let mut job = |name: &str, phase: u64, deadline: u64, handles: &str| {
        text += &format!(
            "[tasks.{name}]\nscript = [\"burn 2ms\"]\ncluster = \"all\"\nperiod = \"100ms\"\nbudget = \"8ms\"\n\
             deadline = \"{deadline}ms\"\nphase = \"{phase}ms\"\n[tasks.{name}.handles]\n{handles}\n"
        );
    };
    job("bystander", 3, 30, "");
    for (index, name) in WAITERS.into_iter().enumerate() {
        let (phase, deadline) = if name == "t4" { (2, 20) } else { (1, 60 + index as u64) };
        job(name, phase, deadline, "holder = \"endpoint holder: call\"\nbottom = \"endpoint bottom: call\"");
    }
    let receive = |name| call(Call::Receive, name);
    let mut programs = vec![
        ("holder", vec![receive("holder"), call(Call::Call, "callback")]),
        ("callback", vec![receive("callback"), call(Call::Call, "bottom")]),
        ("bottom", vec![receive("bottom"), burn(10 * MS)]),
    ];
    for name in WAITERS {
        let asked = match name {
            "t4" => call(Call::Call, "holder").within(3 * MS),
            "t9" => call(Call::Call, "bottom"),
            _ => call(Call::Call, "holder"),
        };
        programs.push((name, vec![NEXT_JOB, asked]));
    }
    let run = run(&text, 0, &programs);
    // From 11 ms on at the key of the first of the eight, from 12 at that of the fourth, which gives up at 15.
    let runs = run.times(Event::SwitchTo, "bystander");
    assert_eq!(runs.last(), Some(&15_000), "{runs:?}");
    assert_eq!(run.times(Event::Complete, "bystander"), [17_000]);
    let resumed: Vec<u64> = run.times(Event::SwitchTo, "bottom");
    assert_eq!(resumed.last(), Some(&17_000));
    assert_eq!(run.results("t4"), [0, Error::TimedOut as u64]);
    // It ended without replying, ten milliseconds of its own time after it began; everybody heard.
    assert_eq!(run.times(Event::Exit, "bottom"), [23_000]);
    let peer_died = Error::PeerDied as u64;
    assert!(["t1", "t8", "t9"].iter().all(|name| run.results(name)[1] == peer_died));
}

/// The server is boosted where it serves the background task for a tenth of the time, and then waits for a job there. That is part of how long a job of the
/// other cluster waits, so its key stays, and with it its budget.
#[test]
fn a_job_that_waits_for_a_boost_that_is_used_up_keeps_its_budget() {
    let manifest = Manifest::parse(Path::new("boosts.toml"), include_str!("boosts.toml")).expect("a good manifest");
    let mut metrics = Metrics::new(&manifest.system);
    let options = Options { first: First::Tasks, ..Options::default() };
    simulate_observed(&manifest, &options, 3_000 * MS, &mut |record| metrics.observe(record)).expect("it runs");
    let dry: Vec<_> = metrics.tasks.iter().map(|task| (task.name.as_str(), task.throttles)).collect();
    assert!(dry.iter().all(|(_, throttles)| *throttles == 0), "{dry:?}");
    assert!(metrics.tasks.iter().map(|task| task.jobs()).sum::<u64>() > 500);
}

/// While a task holds an engine or a token it waits for nothing that its manifest does not name: the kernel refuses that at once, and all is as before.
#[test]
fn waits_inside_a_hold_are_refused_unless_the_manifest_names_them() {
    let holding = Error::Holding as u64;
    let waits = [
        call(Call::Call, "service").with(MS),
        call(Call::Wait, "never").within(2 * MS),
        call(Call::Acquire, "two"),
        call(Call::Acquire, "one"),
        sleep(MS),
        NEXT_JOB,
    ];
    let inside = |lock: &'static str| {
        [&[NEXT_JOB, call(Call::Acquire, lock)][..], &waits, &[call(Call::Release, lock)]].concat()
    };
    let text = with_device(system(2, "") + TIMEOUTS) + "[engines.two]\n[pools.one]\nreplicas = 1\n";
    let locks = ", two = \"engine two: acquire\", one = \"pool one: acquire\" }";
    let text = text
        .replace(" inside\"", "\"")
        .replace("ee = \"engine ee: acquire\" }", &format!("ee = \"engine ee: acquire\"{locks}"));
    // An engine is asked for with a token, the usual use of a device; of one that it has, it is told that.
    let has = Error::AlreadyHeld as u64;
    for (lock, expected) in [
        ("two", [holding, holding, has, holding, holding, holding]),
        ("one", [holding, holding, 0, holding, holding, holding]),
    ] {
        let run = run(&text, 0, &[("patient", inside(lock))]);
        let results = run.results("patient");
        assert_eq!((&results[..2], &results[2..8], results[8]), (&[0, 0][..], &expected[..], 0), "{lock}");
    }
    // With the right to each of them, nothing is refused because of a hold.
    let named =
        text.replace("service: call\"", "service: call inside\"").replace("never: wait\"", "never: wait inside\"");
    let named =
        named.replace("two: acquire\"", "two: acquire inside\"").replace("one: acquire\"", "one: acquire inside\"");
    let named = named.replace("phase = \"1ms\"\n", "phase = \"1ms\"\nsleeps_inside = true\n");
    let run = run(&named, 0, &[("patient", inside("two"))]);
    assert!(run.results("patient").iter().all(|result| *result != holding), "{:?}", run.results("patient"));
}
