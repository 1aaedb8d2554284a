//! Waiting: deadlines of calls, engines that drain, chains, and threads that move between CPUs.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_simulator::{Options, Overheads, Program, Reply, Report, Request, Until, simulate_with};

const MS: u64 = 1_000_000;

/// Runs the system of `text`; the tasks named in `programs` make requests in place of what the text says.
fn run(text: &str, kick_delay: u64, programs: &[(&str, Vec<Asked>)]) -> (Manifest, Report) {
    let text = format!("{text}{END}");
    let manifest = Manifest::parse(Path::new("waiting.toml"), &text).unwrap_or_else(|error| panic!("{error}"));
    let programs = programs
        .iter()
        .map(|(name, asked)| {
            let index = manifest.system.tasks.iter().position(|task| task.name == *name).expect("a task of the text");
            let requests = asked.iter().map(|asked| asked.request(&manifest, index)).collect();
            (index, Program::Requests { requests, again_from: None })
        })
        .collect();
    let options = Options { overheads: Overheads::kicks(kick_delay), programs, ..Options::default() };
    let report = simulate_with(&manifest, &options, 1_000 * MS).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.exit, Some(0));
    (manifest, report)
}

/// A request with the name of the handle it goes through.
enum Asked {
    Burn(u64),
    Submit(u32, u64),
    Call(Call, &'static str, u64, Until),
}

impl Asked {
    fn request(&self, manifest: &Manifest, task: usize) -> Request {
        match *self {
            Asked::Burn(span) => Request::Burn(span),
            Asked::Submit(engine, span) => Request::Submit(engine, span),
            Asked::Call(call, name, word, until) => {
                let entries = &manifest.system.tasks[task].environment;
                let first = entries.iter().find(|entry| entry.name == name).map_or(0, |entry| entry.handle);
                Request::Call { number: call as u64, first, second: word, word, until, reply: Reply::Nobody }
            }
        }
    }
}

const NEXT_JOB: Asked = Asked::Call(Call::NextJob, "", 0, Until::Never);

fn task(manifest: &Manifest, name: &str) -> u16 {
    manifest.system.tasks.iter().position(|task| task.name == name).expect("a task of the text") as u16
}

/// Instants, in microseconds, of the events of one kind of one task.
fn times(manifest: &Manifest, report: &Report, event: Event, name: &str) -> Vec<u64> {
    let number = task(manifest, name) + 1;
    let is = |record: &&Record| record.event == event as u8 && record.thread == number;
    report.records.iter().filter(is).map(|record| record.time / 1_000).collect()
}

fn ledger(report: &Report, ledger: Ledger, index: u16) -> u64 {
    Trace::from_records(report.records.clone()).ledgers().get(&(ledger as u16, index)).copied().unwrap_or(0)
}

const END: &str = r#"
[tasks.end]
script = ["sleep 80ms", "shutdown"]
cluster = "all"
period = "1s"
deadline = "1ms"
budget = "1ms"
handles = { system = "system: shutdown" }
"#;

//--- Budgets across CPUs

const TIMED_CALL: &str = r#"
[system]
name = "timed_call"
board = "virt"
cpus = 2
start = "10ms"

[clusters.all]
cpus = [0, 1]

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
        let client =
            vec![NEXT_JOB, Asked::Call(Call::Call, "service", 30 * MS, Until::After(6 * MS)), Asked::Burn(20 * MS)];
        let (manifest, report) = run(TIMED_CALL, kick_delay, &[("client", client)]);
        let client = task(&manifest, "client");
        assert_eq!(report.results[usize::from(client)][1], Error::TimedOut as u64);
        assert!(ledger(&report, Ledger::Overshoot, 0) <= kick_delay, "{}", ledger(&report, Ledger::Overshoot, 0));
        let throttled = times(&manifest, &report, Event::Throttle, "client");
        assert!(throttled[0].abs_diff(21_000) <= 3 * kick_delay / 1_000, "{throttled:?}");
    }
}

const LATE: &str = r#"
[system]
name = "late"
board = "virt"
cpus = 2
start = "10ms"
admission = "warn"

[clusters.all]
cpus = [0, 1]

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
/// job has a whole budget: what the first used since 18 is booked before the budget is refilled.
#[test]
fn a_late_job_does_not_use_the_budget_of_the_next() {
    let (manifest, report) = run(LATE, 0, &[]);
    let done = times(&manifest, &report, Event::Complete, "late");
    assert_eq!(done[..3], [21_000, 29_000, 38_000]);
    assert_eq!(times(&manifest, &report, Event::Throttle, "late"), []);
}

const MIGRATION: &str = r#"
[system]
name = "migration"
board = "virt"
cpus = 2
start = "10ms"

[clusters.all]
cpus = [0, 1]

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
        let (manifest, report) = run(MIGRATION, kick_delay, &[]);
        let number = task(&manifest, "moved") + 1;
        let of = |event: Event| {
            // Several tasks are released at the start.
            let is =
                move |record: &&Record| record.event == event as u8 && record.thread == number && record.time > 11 * MS;
            report.records.iter().filter(is).copied().collect::<Vec<Record>>()
        };
        let (on, off) = (of(Event::SwitchTo), of(Event::SwitchAway));
        assert_eq!((on.len(), off.len()), (1, 2), "{on:?}");
        assert_eq!((off[0].cpu, on[0].cpu), (1, 0));
        assert!(on[0].time >= off[0].time && off[0].time == 12 * MS + kick_delay);
        let done = times(&manifest, &report, Event::Complete, "moved")[0];
        assert!((20_010..=20_010 + latest).contains(&done), "{done}");
        assert_eq!(ledger(&report, Ledger::ThreadTime, number - 1), 10 * MS);
    }
}

//--- Deadlines

const TIMEOUTS: &str = r#"
[system]
name = "timeouts"
board = "virt"
cpus = 2
start = "10ms"

[clusters.all]
cpus = [0, 1]

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
handles = { service = "endpoint service: call", never = "notification never: wait", ee = "engine ee: acquire" }

[tasks.other]
script = ["burn 1ms"]
cluster = "all"
period = "100ms"
deadline = "90ms"
budget = "50ms"
handles = { service = "endpoint service: call", ee = "engine ee: acquire" }
"#;

const DEVICE: &str = r#"
[tasks.gpu]
binary = "gpu-driver/gpu-driver"
cluster = "all"
class = "service"
period = "10ms"
budget = "1ms"

[tasks.gpu.handles]
line = "interrupt gpu: acknowledge"
event = "notification gpu_event: wait"

[notifications.gpu_event]

[interrupts.gpu]
line = 112
notification = "gpu_event"
cluster = "all"
edge = true

[devices.gpu]
driver = "gpu"
firmware = "engine-core"
memory = "64KiB"

[engines.ee]
device = "gpu"
index = 0
order = "priority"
interrupt = "gpu"
"#;

#[test]
fn waiting_ends_at_its_deadline_and_leaves_nothing_behind() {
    let timed_out = Error::TimedOut as u64;
    let patient = vec![
        NEXT_JOB,
        Asked::Call(Call::Wait, "never", 0, Until::After(2 * MS)),
        Asked::Call(Call::Acquire, "ee", 0, Until::After(3 * MS)),
        Asked::Call(Call::Call, "service", MS, Until::After(5 * MS)),
        // Once `other` is through, both are to be had.
        Asked::Call(Call::SleepUntil, "", 0, Until::After(20 * MS)),
        Asked::Call(Call::Acquire, "ee", 0, Until::After(0)),
        Asked::Call(Call::Call, "service", MS, Until::After(5 * MS)),
    ];
    let other = vec![
        NEXT_JOB,
        Asked::Call(Call::Acquire, "ee", 0, Until::Never),
        Asked::Call(Call::Call, "service", 25 * MS, Until::Never),
        Asked::Call(Call::Release, "ee", 0, Until::Never),
    ];
    let text = format!("{TIMEOUTS}{DEVICE}");
    let (manifest, report) = run(&text, 0, &[("patient", patient), ("other", other)]);
    let results = |name| &report.results[usize::from(task(&manifest, name))];
    assert_eq!(results("patient")[..], [0, timed_out, timed_out, timed_out, 0, 0, 0]);
    assert_eq!(results("other")[..], [0, 0, 0, 0]);
    let resumed = times(&manifest, &report, Event::Resume, "patient");
    assert_eq!(resumed[..3], [13_000, 16_000, 21_000]);
}

//--- Engines

const ENGINES: &str = r#"
[system]
name = "engines"
board = "virt"
cpus = 1
start = "10ms"

[clusters.all]
cpus = [0]

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
    let text = format!("{ENGINES}{DEVICE}");
    let (manifest, report) = run(&text, 0, &[]);
    let granted = |name| times(&manifest, &report, Event::EngineGrant, name)[0];
    assert_eq!((granted("low"), granted("high")), (10_000, 16_000));
    assert!(granted("last") > granted("high"));
    assert_eq!(times(&manifest, &report, Event::Complete, "high"), [17_000]);
    // From 12 to 14 `high` paid.
    assert_eq!(ledger(&report, Ledger::Charged, 2), 2 * MS);
}

#[test]
fn an_engine_given_back_with_work_in_flight_is_granted_when_that_ends() {
    let leaver = vec![
        NEXT_JOB,
        Asked::Call(Call::Acquire, "ee", 0, Until::Never),
        Asked::Submit(0, 9 * MS),
        Asked::Call(Call::Release, "ee", 0, Until::Never),
        Asked::Burn(MS),
        // It may wait for its own work, too.
        Asked::Call(Call::Acquire, "ee", 0, Until::After(MS)),
        NEXT_JOB,
    ];
    let text = format!("{ENGINES}{DEVICE}");
    let (manifest, report) = run(&text, 0, &[("low", leaver)]);
    let results = &report.results[usize::from(task(&manifest, "low"))];
    assert_eq!(results[..], [0, 0, 0, Error::TimedOut as u64]);
    assert_eq!(times(&manifest, &report, Event::EngineRelease, "low"), [10_000]);
    assert_eq!(times(&manifest, &report, Event::EngineIdle, "low"), [19_000]);
    assert_eq!(times(&manifest, &report, Event::EngineGrant, "high"), [19_000]);
    assert_eq!(ledger(&report, Ledger::EngineTime, task(&manifest, "low")), 9 * MS);
}

/// The holder submits and faults: its doorbell is gone, the work in flight ends, the next has the engine then.
#[test]
fn an_engine_whose_holder_dies_is_granted_when_its_work_ends() {
    let dying = vec![
        NEXT_JOB,
        Asked::Call(Call::Acquire, "ee", 0, Until::Never),
        Asked::Submit(0, 9 * MS),
        Asked::Submit(1, 1),
    ];
    let text = format!("{ENGINES}{DEVICE}");
    let (manifest, report) = run(&text, 0, &[("low", dying)]);
    assert_eq!(times(&manifest, &report, Event::Fault, "low"), [10_000]);
    assert_eq!(times(&manifest, &report, Event::EngineGrant, "high"), [19_000]);
}

//--- Cycles and chains

/// A system of `count` tasks, each of which serves an endpoint `s0`, `s1` ... and may call every other; task `0`
/// starts last.
fn callers(count: usize) -> String {
    let mut text =
        "[system]\nname = \"callers\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\n[clusters.all]\ncpus = [0]\n"
            .to_owned();
    for index in 0..count {
        let phase = count - index;
        text += &format!(
            "[endpoints.s{index}]\nserver = \"t{index}\"\n[tasks.t{index}]\nscript = [\"burn 1ms\"]\ncluster = \"all\"\n\
             period = \"100ms\"\nbudget = \"5ms\"\ndeadline = \"{}ms\"\nphase = \"{phase}ms\"\n[tasks.t{index}.handles]\n",
            100 - phase
        );
        for other in 0..count {
            let receive = if other == index { " receive" } else { "" };
            text += &format!("s{other} = \"endpoint s{other}: call{receive}\"\n");
        }
    }
    text
}

const fn call(endpoint: &'static str) -> Asked {
    Asked::Call(Call::Call, endpoint, 0, Until::Never)
}

#[test]
fn a_call_that_would_close_a_cycle_is_refused_and_the_others_are_served() {
    // Of 2, 1 and 0, in this order, each calls the next below; 0 would close the cycle.
    let serve = || Asked::Call(Call::Receive, "s0", 0, Until::Never);
    let programs = [
        ("t2", vec![NEXT_JOB, call("s1")]),
        ("t1", vec![NEXT_JOB, call("s0")]),
        ("t0", vec![NEXT_JOB, call("s2"), call("s0"), serve()]),
    ];
    let (_, report) = run(&callers(3), 0, &programs);
    let cycle = Error::WouldDeadlock as u64;
    assert_eq!(report.results[0], [0, cycle, cycle, 0]);
    // It ended without replying; so did the one that waited for it.
    assert_eq!(report.results[1], [0, Error::PeerDied as u64]);
    assert_eq!(report.results[2], [0, Error::PeerDied as u64]);
}

#[test]
fn a_chain_of_callers_has_eight_links_at_most() {
    const S: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
    const T: [&str; 10] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
    // 9 sleeps; 8 calls it, 7 calls 8, and so on.
    let mut programs: Vec<_> = (0..9).map(|index| (T[index], vec![NEXT_JOB, call(S[index + 1])])).collect();
    programs.push((T[9], vec![NEXT_JOB, Asked::Call(Call::SleepUntil, "", 0, Until::After(30 * MS))]));
    let (_, report) = run(&callers(10), 0, &programs);
    let refused: Vec<usize> = (0..9).filter(|index| report.results[*index][1] == Error::ChainTooLong as u64).collect();
    // 2 to 8 wait for the next: with 9 that are eight. When 1 ends refused, 0 finds nobody to call.
    assert_eq!(refused, [1]);
    assert_eq!(report.results[0][1], Error::PeerDied as u64);
}

/// The same tasks, which share the one token of a pool. Who is called last has the highest key of those who ask.
fn sharers(count: usize) -> String {
    let text = callers(count).replace(".handles]\n", ".handles]\none = \"pool one: acquire\"\n");
    text + "[pools.one]\nreplicas = 1\n"
}

const fn acquire(until: Until) -> Asked {
    Asked::Call(Call::Acquire, "one", 0, until)
}

/// 1 donates to 2, who holds the token, until 0 takes its place; then 2 calls 1, who waits for nobody any more. When 0
/// gives up, 1 should donate to 2 again.
#[test]
fn a_wait_for_a_token_that_closes_a_cycle_later_is_refused_then() {
    let serve = Asked::Call(Call::Receive, "s1", 0, Until::Never);
    let programs = [
        ("t2", vec![NEXT_JOB, acquire(Until::Never), Asked::Burn(3 * MS), call("s1")]),
        ("t1", vec![NEXT_JOB, acquire(Until::Never), serve]),
        ("t0", vec![NEXT_JOB, acquire(Until::After(10 * MS))]),
    ];
    let (manifest, report) = run(&sharers(3), 0, &programs);
    assert_eq!(report.results[0], [0, Error::TimedOut as u64]);
    assert_eq!(report.results[1], [0, Error::ChainTooLong as u64, 0]);
    // It was served, by one that ended without replying.
    assert_eq!(report.results[2], [0, 0, Error::PeerDied as u64]);
    // 0 asks at 13 ms and gives up at 23 ms; at that time 1 is told.
    assert_eq!(times(&manifest, &report, Event::Resume, "t1"), [23_000]);
}

/// 8 is pushed out of its place by 1, as above; meanwhile seven callers wait for it in a row.
#[test]
fn a_wait_for_a_token_whose_chain_has_become_too_long_is_refused_then() {
    const S: [&str; 9] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];
    const T: [&str; 8] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];
    let sleep = Asked::Call(Call::SleepUntil, "", 0, Until::After(60 * MS));
    let mut programs = vec![("t9", vec![NEXT_JOB, acquire(Until::Never), sleep])];
    programs.push(("t8", vec![NEXT_JOB, acquire(Until::Never)]));
    programs.extend((2..8).map(|index| (T[index], vec![NEXT_JOB, call(S[index + 1])])));
    programs.push(("t1", vec![NEXT_JOB, acquire(Until::After(20 * MS))]));
    programs.push(("t0", vec![NEXT_JOB, call("s2")]));
    let (manifest, report) = run(&sharers(10), 0, &programs);
    assert_eq!(report.results[1], [0, Error::TimedOut as u64]);
    assert_eq!(report.results[8], [0, Error::ChainTooLong as u64]);
    for caller in [0, 2, 3, 4, 5, 6, 7] {
        assert_eq!(report.results[caller], [0, Error::PeerDied as u64]);
    }
    // With six callers the chain to 9 was as long as it may be; the seventh, 0, came when it ended at 8. 1 asks at 19 ms.
    assert_eq!(times(&manifest, &report, Event::Resume, "t8"), [39_000]);
}

#[test]
fn a_server_with_four_open_requests_receives_no_fifth() {
    let receive = || Asked::Call(Call::Receive, "s0", 0, Until::Never);
    let mut programs = vec![("t0", vec![NEXT_JOB, receive(), receive(), receive(), receive(), receive()])];
    for client in ["t1", "t2", "t3", "t4", "t5"] {
        programs.push((client, vec![NEXT_JOB, call("s0")]));
    }
    let (_, report) = run(&callers(6), 0, &programs);
    assert_eq!(report.results[0], [0, 0, 0, 0, 0, Error::NoReplySlot as u64]);
    for client in 1..6 {
        assert_eq!(report.results[client], [0, Error::PeerDied as u64]);
    }
}

/// Elliott 2015, figure 3.10, with servers in place of locks and threads: eight tasks wait for a holder, which waits for
/// a callback thread, which waits for the thread of the bottom half, and a ninth waits for that one alone. Of the eight
/// one comes before a bystander, until it is taken away; then they all fall below it.
#[test]
fn all_helpers_of_a_chain_run_at_its_earliest_key_and_fall_when_that_one_is_taken_away() {
    const WAITERS: [&str; 9] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];
    let mut text = "[system]\nname = \"figure\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\n\
                    [clusters.all]\ncpus = [0]\n"
        .to_owned();
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
    let receive = |name| Asked::Call(Call::Receive, name, 0, Until::Never);
    let mut programs = vec![
        ("holder", vec![receive("holder"), call("callback")]),
        ("callback", vec![receive("callback"), call("bottom")]),
        ("bottom", vec![receive("bottom"), Asked::Burn(10 * MS)]),
    ];
    for name in WAITERS {
        let asked = match name {
            "t4" => Asked::Call(Call::Call, "holder", 0, Until::After(3 * MS)),
            "t9" => call("bottom"),
            _ => call("holder"),
        };
        programs.push((name, vec![NEXT_JOB, asked]));
    }
    let (manifest, report) = run(&text, 0, &programs);
    // From 11 ms on at the key of the first of the eight, from 12 at that of the fourth, which gives up at 15.
    let runs = times(&manifest, &report, Event::SwitchTo, "bystander");
    assert_eq!(runs.last(), Some(&15_000), "{runs:?}");
    assert_eq!(times(&manifest, &report, Event::Complete, "bystander"), [17_000]);
    let resumed: Vec<u64> = times(&manifest, &report, Event::SwitchTo, "bottom");
    assert_eq!(resumed.last(), Some(&17_000));
    assert_eq!(report.results[usize::from(task(&manifest, "t4"))], [0, Error::TimedOut as u64]);
    // It ended without replying, ten milliseconds of its own time after it began; everybody heard.
    assert_eq!(times(&manifest, &report, Event::Exit, "bottom"), [23_000]);
    let peer_died = Error::PeerDied as u64;
    assert!(["t1", "t8", "t9"].iter().all(|name| report.results[usize::from(task(&manifest, name))][1] == peer_died));
}
