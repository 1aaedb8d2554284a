//! Limits of attackers: each test is a system in which one task does a forbidden thing, at the worst instant, and the
//! task that was proved misses nothing.
//!
//! The first test of each group is a case that broke an earlier kernel; the others are the same idea under other policies, in
//! other clusters, or by other means.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger, Record};
use fusee_manifest::Manifest;
use fusee_simulator::{Overheads, Reply};

use super::common::{self, Asked, MS, NEXT_JOB, Plan, Run, US, burn, call, sleep, through};

/// Runs the system for so many milliseconds.
fn run(text: &str, milliseconds: u64, attacks: &[Plan<'_>]) -> Run {
    common::run_for(text, Overheads::NONE, milliseconds * MS, attacks)
}

/// Answers the last request, and waits for the next.
const fn answer(endpoint: &'static str) -> Asked {
    call(Call::ReplyReceive, endpoint).replying(Reply::Last)
}

/// The named task has completed at least so many jobs, all in time, and no release of it was dropped.
fn misses_nothing(run: &Run, name: &str, jobs: usize) {
    let completed = run.events(Event::Complete, name).count();
    assert!(completed >= jobs, "{name} completes {completed} jobs instead of {jobs}");
    let late = run.events(Event::Complete, name).filter(|record| record.lateness() > 0).count();
    assert_eq!(late, 0, "late jobs of {name}");
    assert_eq!(run.events(Event::Skip, name).count(), 0, "releases of {name} that were dropped");
}

/// One CPU, a victim of 5 ms in 10 ms that is proved, and an attacker of 40 % with a long period.
fn one_cpu(policy: &str, attacker: &str) -> String {
    format!(
        r#"
[system]
name = "one_cpu"
board = "virt"
cpus = 1
start = "1ms"
policy = "{policy}"
[tasks.attacker]
period = "100ms"
budget = "40ms"
priority = 2
{attacker}
[tasks.victim]
script = ["burn 4ms"]
period = "10ms"
budget = "5ms"
priority = 1
hard = true
"#
    )
}

//--- Budgets that are saved for the worst instant

#[test]
fn a_job_that_sleeps_until_just_before_its_deadline_has_an_old_key_no_longer() {
    for policy in ["EDF", "FL", "RM", "DM"] {
        let text = one_cpu(policy, r#"script = ["sleep 99ms", "burn 39ms"]"#);
        let run = run(&text, 1_010, &[]);
        misses_nothing(&run, "victim", 100);
    }
}

#[test]
fn releases_that_queue_behind_a_sleeping_job_bring_no_budgets() {
    let text = one_cpu("EDF", "script = [\"sleep 299ms\", \"burn 39ms\"]\nbacklog = 200");
    let run = run(&text, 2_000, &[]);
    misses_nothing(&run, "victim", 199);
    let most = 2_000 * 4 / 10 * MS + 40 * MS;
    assert!(run.ledger(Ledger::Charged, 0) <= most, "more than 40 % of the CPU");
}

#[test]
fn a_job_that_sleeps_in_many_short_rests_has_no_more_than_its_share_of_any_interval() {
    for policy in ["EDF", "RM"] {
        let text = one_cpu(policy, "script = [\"repeat\"]");
        let nap = sleep(3 * MS);
        let program = [NEXT_JOB, nap, burn(2 * MS)];
        let run = run(&text, 1_010, &[("attacker", &program, Some(1))]);
        misses_nothing(&run, "victim", 100);
        let shares = ran(&run, "attacker", 1_010);
        let most = shares.windows(100).map(|window| window.iter().sum::<u64>()).max().expect("ten periods");
        assert!(most <= 80 * MS, "{most} ns in a period: more than two budgets");
    }
}

/// How long the task ran in each millisecond.
fn ran(run: &Run, task: &str, milliseconds: u64) -> Vec<u64> {
    let mut shares = vec![0; milliseconds as usize];
    let mut since = None;
    let switches = run.of(task).filter_map(|record| Some((Event::from_number(record.event)?, record.time)));
    for (event, time) in switches.chain([(Event::SwitchAway, milliseconds * MS)]) {
        if event == Event::SwitchTo {
            since = Some(time);
        }
        let Some(mut at) = since.filter(|_| event == Event::SwitchAway) else { continue };
        since = None;
        while at < time {
            let end = ((at / MS + 1) * MS).min(time);
            if let Some(share) = shares.get_mut((at / MS) as usize) {
                *share += end - at;
            }
            at = end;
        }
    }
    shares
}

#[test]
fn a_job_that_waits_for_a_friend_until_its_deadline_has_an_old_key_no_longer() {
    let friend = "[tasks.friend]\nscript = [\"sleep 98ms\", \"signal done 1\"]\nperiod = \"100ms\"\nbudget = \"1ms\"\n\
                  deadline = \"100ms\"\nhandles = { done = \"notification done: signal\" }\n[notifications.done]\n";
    let attacker = "script = [\"wait done\", \"burn 39ms\"]\nhandles = { done = \"notification done: wait\" }";
    let text = one_cpu("EDF", attacker) + friend;
    let run = run(&text, 1_010, &[]);
    misses_nothing(&run, "victim", 100);
}

#[test]
fn a_job_that_calls_a_server_that_sleeps_has_an_old_key_no_longer() {
    let server = "[tasks.friend]\nscript = [\"serve door\"]\nhandles = { door = \"endpoint door: receive\" }\n\
                  [endpoints.door]\nserver = \"friend\"\n";
    let attacker = "script = [\"call door 0ns\", \"burn 39ms\"]\nhandles = { door = \"endpoint door: call\" }";
    let text = one_cpu("EDF", attacker) + server;
    let nap = sleep(98 * MS);
    let program = [call(Call::Receive, "door"), nap, answer("door")];
    let run = run(&text, 1_010, &[("friend", &program, Some(1))]);
    misses_nothing(&run, "victim", 100);
}

#[test]
fn suspension_that_was_declared_keeps_the_key_and_no_longer_than_declared() {
    // The job sleeps for 3 ms and computes for 2 ms, of 10 ms until its deadline; a rival has 5 ms of work with a deadline between.
    let text = |suspends: &str| {
        format!(
            r#"
[system]
name = "declared"
board = "virt"
cpus = 1
start = "1ms"
[tasks.sleeper]
script = ["burn 1ms", "sleep 4ms", "burn 1ms"]
period = "40ms"
deadline = "10ms"
budget = "3ms"
{suspends}
[tasks.rival]
script = ["burn 5ms"]
period = "40ms"
deadline = "10200us"
budget = "6ms"
phase = "3500us"
"#
        )
    };
    let lateness = |suspends: &str| {
        let run = run(&text(suspends), 30, &[]);
        run.events(Event::Complete, "sleeper").next().map(Record::lateness)
    };
    // With its key it preempts the rival when it wakes, 4 ms after its release.
    assert_eq!(lateness("suspends = \"3ms\""), Some(-5_000_000));
    // Without, its key is that of a job released then: behind the rival.
    assert_eq!(lateness(""), Some(-500_000));
}

// --- The start, and late events

/// An attacker of higher priority with 60 % of the CPU, and a victim that needs the rest.
fn tight(attacker: &str, victim: &str) -> String {
    format!(
        r#"
[system]
name = "tight"
board = "virt"
cpus = 2
start = "1ms"
[clusters.a]
cpus = [0]
policy = "DM"
[clusters.b]
cpus = [1]
[tasks.attacker]
cluster = "a"
period = "5ms"
budget = "3ms"
deadline = "4ms"
{attacker}
[tasks.victim]
cluster = "a"
script = ["burn 1900us"]
period = "5ms"
budget = "2ms"
hard = true
{victim}
"#
    )
}

#[test]
fn what_is_used_before_the_start_brings_nobody_a_second_budget_after_it() {
    // It never asks for a job, so the time before the start and after it is one row of computing to it. Another one computes before the
    // start, and has its first job at once.
    let first = "[tasks.first]\ncluster = \"a\"\nscript = [\"burn 1us\"]\nperiod = \"20ms\"\nbudget = \"900us\"\ndeadline = \"3ms\"\n";
    for before in [500, 800, 890] {
        let text = (tight("script = [\"burn 1us\"]", "") + first).replace("budget = \"3ms\"", "budget = \"2ms\"");
        let first = [burn(before * US), NEXT_JOB, burn(850 * US)];
        let run = run(&text, 101, &[("first", &first, Some(1)), ("attacker", &[burn(MS)], Some(0))]);
        misses_nothing(&run, "victim", 19);
    }
}

#[test]
fn a_first_job_that_has_to_wait_loses_no_release() {
    // Its deadline is late enough for two jobs at a time. It has not asked for its first one when the second is released.
    let text = tight("script = [\"burn 1us\"]", "deadline = \"9ms\"\nbacklog = 1")
        .replace("budget = \"3ms\"\ndeadline = \"4ms\"", "budget = \"6500us\"\ndeadline = \"8ms\"")
        .replacen("period = \"5ms\"", "period = \"14ms\"", 1);
    let run = run(&text, 101, &[("attacker", &[burn(MS)], Some(0))]);
    misses_nothing(&run, "victim", 19);
}

#[test]
fn a_late_job_of_a_server_has_its_budget_from_when_it_is_back() {
    // A server with jobs is called from another cluster while its own budget rests. So begins its next job, which is late.
    let server = "handles = { e = \"endpoint e: receive\" }\nbacklog = 200\nscript = [\"serve e\"]";
    let program = [call(Call::Receive, "e"), NEXT_JOB, answer("e").within(0), burn(3 * MS)];
    for phase in 0..5 {
        let text = tight(server, &format!("phase = \"{phase}ms\""))
            + "[tasks.client]\ncluster = \"b\"\nperiod = \"20ms\"\nbudget = \"20ms\"\n\
               script = [\"burn 6900us\", \"call e 0ns\", \"burn 3200us\", \"call e 0ns\", \"repeat\"]\n\
               handles = { e = \"endpoint e: call\" }\n[endpoints.e]\nserver = \"attacker\"\n";
        let run = run(&text, 1_001, &[("attacker", &program, Some(0))]);
        misses_nothing(&run, "victim", 199);
    }
}

#[test]
fn two_donors_of_one_holder_do_not_take_turns_each_nanosecond() {
    let text = r#"
[system]
name = "turns"
board = "virt"
cpus = 3
start = "1ms"
admission = "warn"
[tasks.holder]
script = ["acquire m", "burn 20ms", "release m"]
period = "40ms"
deadline = "4ms"
budget = "3ms"
handles = { m = "engine m: acquire" }
[tasks.first]
script = ["acquire m", "burn 1ms", "release m"]
period = "5ms"
budget = "2ms"
phase = "1ms"
handles = { m = "engine m: acquire" }
[tasks.second]
script = ["acquire m", "burn 1ms", "release m"]
period = "5ms"
budget = "2ms"
phase = "1500us"
handles = { m = "engine m: acquire" }
[engines.m]
"#;
    let run = run(text, 400, &[]);
    assert!(run.report.traps < 5_000, "{} traps", run.report.traps);
}

//--- Early releases

#[test]
fn early_releases_need_a_permission_and_keys_that_are_deadlines() {
    let early = [NEXT_JOB, burn(39 * MS), through(Call::EarlyRelease, 0)];
    // The call is refused, and the attacker has its budget.
    for policy in ["EDF", "RM", "DM"] {
        let text = one_cpu(policy, "script = [\"repeat\"]");
        let run = run(&text, 1_010, &[("attacker", &early, Some(1))]);
        misses_nothing(&run, "victim", 100);
    }
    // The permission is refused under constant keys, with any admission,
    for policy in ["RM", "DM", "FP"] {
        for permission in ["early_release = true", "overrun = \"early-release\""] {
            let text = one_cpu(policy, permission).replace("cpus = 1", "cpus = 1\nadmission = \"warn\"");
            let text = text.replace("overrun", "script = [\"repeat\"]\noverrun");
            let text = text.replace("early_release", "script = [\"repeat\"]\nearly_release");
            let error = Manifest::parse(Path::new("isolation.toml"), &text).expect_err("it may not");
            assert!(error.to_string().contains("may not release early"), "{error}");
        }
    }
    // and bounded by deadlines where it is given.
    let text = one_cpu("EDF", "script = [\"repeat\"]\nearly_release = true");
    let run = run(&text, 1_010, &[("attacker", &early, Some(1))]);
    misses_nothing(&run, "victim", 100);
}

//--- Tokens that are not given back

/// Two clusters share a pool; the victim has nothing to do with it.
fn tokens(x: &str, y: &str, limit: &str, watchdog: &str) -> String {
    format!(
        r#"
[system]
name = "tokens"
board = "virt"
cpus = 2
start = "1ms"
admission = "warn"
[clusters.x]
cpus = [0]
[clusters.y]
cpus = [1]
[pools.p]
replicas = 1
limit = "{limit}"
{watchdog}
[tasks.attacker]
script = ["acquire p", "burn 100s"]
cluster = "{x}"
period = "100ms"
budget = "1ms"
handles = {{ p = "pool p: acquire" }}
uses.p = {{ cpu = "100us" }}
[tasks.other]
script = ["acquire p", "burn 50us", "release p"]
cluster = "{y}"
period = "100ms"
budget = "2ms"
wcet = "100us"
handles = {{ p = "pool p: acquire" }}
uses.p = {{ cpu = "100us" }}
[tasks.victim]
script = ["burn 1ms"]
cluster = "x"
period = "10ms"
budget = "3ms"
wcet = "1100us"
phase = "5ms"
"#
    )
}

#[test]
fn a_token_that_is_not_given_back_is_taken_away_and_donors_go_on() {
    for (x, y) in [("x", "y"), ("y", "x")] {
        let run = run(&tokens(x, y, "ck-omlp", "watchdog = \"500us\""), 511, &[]);
        misses_nothing(&run, "victim", 50);
        assert!(run.events(Event::TokenTaken, "attacker").count() >= 1);
        // The others have it again and again.
        assert!(run.events(Event::TokenGrant, "other").count() >= 4);
    }
}

#[test]
fn a_token_is_taken_from_a_holder_that_sleeps_or_was_preempted_and_it_hears_of_it() {
    let text = tokens("x", "x", "r2dglp", "watchdog = \"2ms\"").replace("limit", "cluster = \"x\"\nlimit");
    let text = text.replace("burn 100s", "sleep 20ms\", \"release p");
    let run = run(&text, 211, &[]);
    misses_nothing(&run, "victim", 20);
    let taken = run.events(Event::TokenTaken, "attacker").count();
    assert_eq!(taken, 3, "once in each job");
}

//--- Boosts

/// A server of cluster x that many background clients there and one of y call for ever.
fn boosts(service: &str) -> String {
    format!(
        r#"
[system]
name = "boosts"
board = "virt"
cpus = 2
start = "1ms"
admission = "warn"
[clusters.x]
cpus = [0]
[clusters.y]
cpus = [1]
[tasks.victim]
script = ["burn 1ms"]
cluster = "x"
period = "10ms"
budget = "2ms"
[tasks.low]
copies = 20
script = ["call door 1ms", "repeat"]
cluster = "x"
class = "background"
handles = {{ door = "endpoint door: call" }}
[tasks.friend]
script = ["call door 2ms", "repeat"]
cluster = "y"
class = "background"
handles = {{ door = "endpoint door: call" }}
[tasks.server]
script = ["serve door"]
cluster = "x"
handles = {{ door = "endpoint door: receive" }}
[endpoints.door]
server = "server"
{service}
"#
    )
}

#[test]
fn a_server_is_boosted_for_no_more_than_its_share_however_many_call() {
    // 3 ms in 30 ms unless the manifest says otherwise: with 1 ms of its own the victim is done after 4.
    for service in ["service_max = \"3ms\"", "service_max = \"3ms\"\nservice_period = \"20ms\""] {
        let run = run(&boosts(service), 1_010, &[]);
        misses_nothing(&run, "victim", 100);
    }
}

#[test]
fn a_boost_is_not_carried_to_another_server_by_a_short_call() {
    let text = boosts("service_max = \"3ms\"").replace("receive\" }", "receive\", other = \"endpoint other: call\" }")
        + "[endpoints.other]\nserver = \"helper\"\n[tasks.helper]\nscript = [\"serve other\"]\ncluster = \"x\"\n\
           handles = { other = \"endpoint other: receive\" }\n";
    let server = [call(Call::Receive, "door"), burn(2 * MS), call(Call::Call, "other"), answer("door")];
    let helper = [call(Call::Receive, "other"), burn(10 * MS), answer("other")];
    let run = run(&text, 1_010, &[("server", &server, Some(1)), ("helper", &helper, Some(1))]);
    misses_nothing(&run, "victim", 100);
}

#[test]
fn a_boost_reaches_through_a_nested_call() {
    // `local` calls `door`, which calls `inner`; `urgent` of the other cluster waits for `door`. `middle` must not come between.
    let text = r#"
[system]
name = "nested"
board = "virt"
cpus = 2
start = "1ms"
[clusters.x]
cpus = [0]
[clusters.y]
cpus = [1]
[tasks.local]
script = ["call door 0ns"]
cluster = "x"
period = "100ms"
budget = "10ms"
handles = { door = "endpoint door: call" }
[tasks.middle]
script = ["burn 30ms"]
cluster = "x"
period = "100ms"
deadline = "60ms"
budget = "31ms"
phase = "1ms"
[tasks.urgent]
script = ["call door 0ns"]
cluster = "y"
period = "100ms"
deadline = "20ms"
budget = "9ms"
phase = "2ms"
handles = { door = "endpoint door: call" }
[tasks.door]
cluster = "x"
script = ["serve door"]
handles = { door = "endpoint door: receive", inner = "endpoint inner: call" }
[tasks.inner]
cluster = "x"
script = ["serve inner"]
handles = { inner = "endpoint inner: receive" }
[endpoints.door]
server = "door"
service_max = "5ms"
service_period = "50ms"
[endpoints.inner]
server = "inner"
service_max = "5ms"
service_period = "50ms"
"#;
    let door = [call(Call::Receive, "door"), call(Call::Call, "inner"), answer("door")];
    let inner = [call(Call::Receive, "inner"), burn(2 * MS), answer("inner")];
    let run = run(text, 90, &[("door", &door, Some(1)), ("inner", &inner, Some(1))]);
    let done = run.events(Event::Complete, "urgent").next().expect("it completes");
    // Of 2 ms for `local` 1 ms is left when `urgent` calls, and then come its own 2 ms: it is done 3 ms after its release.
    assert_eq!(done.value as i32, -17_000_000);
}

//--- Instants that mean something else

#[test]
fn a_deadline_at_the_end_of_time_neither_stops_a_timer_nor_lets_it_fire_for_ever() {
    let text = r#"
[system]
name = "instants"
board = "virt"
cpus = 1
start = "1ms"
[tasks.sleeper]
class = "background"
script = ["repeat"]
[tasks.server]
script = ["serve door"]
handles = { door = "endpoint door: receive" }
[tasks.worker]
class = "background"
script = ["burn 1ms", "repeat"]
[endpoints.door]
server = "server"
"#;
    for distance in 0..4 {
        let end = u64::MAX - distance;
        let forever = [sleep(end)];
        let server = [call(Call::Receive, "door").within(2 * MS), call(Call::Receive, "door")];
        let run = run(text, 21, &[("sleeper", &forever, None), ("server", &server, None)]);
        let worked: u64 = ran(&run, "worker", 21).iter().sum();
        assert!(worked >= 18 * MS, "{worked}");
        assert!(run.report.traps < 200, "{} traps", run.report.traps);
    }
}

// --- Time without a payer

/// A task of 10 % for each CPU does nothing but enter the kernel, so that the lock is taken all the time; one of 80 % is among them. The time that a
/// task waits for the lock, and the time of interrupts that it has asked for, is its own. In a cluster of its own with one of them the other loses
/// nothing, and the kernel takes next to none of its CPU. Where CPUs share a cluster, interrupts of timeouts come to its first CPU, with any running
/// thread.
#[test]
fn tasks_that_only_enter_the_kernel_take_no_more_than_their_budgets() {
    let overheads = Overheads { call_in: 250, call_out: 250, schedule: 500, interrupt: 500, ..Overheads::NONE };
    let yields = through(Call::Yield, 0);
    let floods: [&[Asked]; 3] = [&[yields], &[sleep(1)], &[sleep(2_000), yields, sleep(0)]];
    for (cpus, flood) in [2, 4, 8].into_iter().flat_map(|cpus| floods.map(|flood| (cpus, flood))) {
        for is_global in [false, true] {
            let cluster = |cpu: u32| if is_global { 0 } else { cpu };
            let mut text = format!("[system]\nname = \"floods\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\n");
            let all: Vec<u32> = (0..cpus).collect();
            match is_global {
                true => text += &format!("[clusters.c0]\ncpus = {all:?}\n"),
                false => all.iter().for_each(|cpu| text += &format!("[clusters.c{cpu}]\ncpus = [{cpu}]\n")),
            }
            let mut task = |name: &str, cpu: u32, rest: &str| {
                text += &format!("[tasks.{name}]\ncluster = \"c{}\"\nperiod = \"10ms\"\n{rest}\n", cluster(cpu));
            };
            let names: Vec<String> = all.iter().map(|cpu| format!("a{cpu}")).collect();
            all.iter().zip(&names).for_each(|(cpu, name)| task(name, *cpu, "binary = \"apps/any\"\nbudget = \"1ms\""));
            task("victim", 0, "script = [\"burn 7950us\"]\nbudget = \"8ms\"\nhard = true");
            let end = "script = [\"sleep 504ms\", \"shutdown\"]\nbudget = \"1ms\"\nhandles = { system = \"system: shutdown\" }";
            task("end", 1, end);
            let attacks: Vec<Plan<'_>> = names.iter().map(|name| (name.as_str(), flood, Some(0))).collect();
            let run = common::run_for(&text, overheads, 600 * MS, &attacks);
            // There it may be late, and with costs nothing of it is proved.
            if !is_global {
                misses_nothing(&run, "victim", 50);
            }
            let share = |what, of| run.ledger(what, of) * 1_000 / (505 * MS);
            let kernel = share(Ledger::Kernel, 0);
            assert!(
                kernel <= if is_global { 85 } else { 1 },
                "{cpus} CPUs, {is_global}: {kernel} per mille for the kernel"
            );
            for name in &names {
                let charged = share(Ledger::Charged, run.index(name));
                assert!((50..=101).contains(&charged), "{cpus} CPUs, {is_global}: {charged} per mille for {name}");
            }
        }
    }
}

//--- Releases by others

#[test]
fn releases_that_come_in_a_burst_or_unevenly_each_have_their_job() {
    let text = |script: &str, producer: &str| {
        format!(
            r#"
[system]
name = "releases"
board = "virt"
cpus = 1
start = "10ms"
policy = "FP"
admission = "warn"
[tasks.hog]
script = ["burn {script}"]
{producer}
priority = 1
[tasks.consumer]
script = ["burn 1ms"]
release = "sporadic"
period = "10ms"
budget = "2ms"
priority = 3
backlog = 255
[tasks.producer]
script = ["burn 1ms", "release_job consumer"]
period = "PERIODms"
budget = "2ms"
priority = 2
backlog = 255
handles = {{ consumer = "task consumer: release_job" }}
"#
        )
    };
    let burst = text("35ms", "period = \"100ms\"\nbudget = \"36ms\"").replace("PERIOD", "10");
    let uneven = text("60ms", "period = \"130ms\"\nphase = \"3ms\"\nbudget = \"61ms\"").replace("PERIOD", "13");
    for (text, milliseconds) in [(burst, 1_090), (uneven, 1_390)] {
        let run = run(&text, milliseconds, &[]);
        let produced = run.events(Event::Complete, "producer").count();
        let consumed = run.events(Event::Release, "consumer").count();
        // Of those that came together the last three may still wait for their instants.
        assert!(produced >= 100 && consumed + 4 >= produced, "{consumed} of {produced}");
        assert_eq!(run.events(Event::Skip, "consumer").count(), 0);
        let releases: Vec<u64> = run.events(Event::Release, "consumer").map(|record| record.time).collect();
        assert!(releases.is_sorted());
    }
}

#[test]
fn a_release_beyond_the_backlog_is_counted_and_its_producer_told() {
    let text = r#"
[system]
name = "beyond"
board = "virt"
cpus = 1
start = "1ms"
[tasks.producer]
class = "background"
script = ["repeat"]
handles = { consumer = "task consumer: release_job" }
[tasks.consumer]
script = ["burn 1ms"]
release = "sporadic"
period = "10ms"
budget = "2ms"
backlog = 3
"#;
    let release = call(Call::ReleaseJob, "consumer").with(0);
    let nap = sleep(2 * MS);
    // One begins at once, three queue, two are too many.
    let run = run(text, 60, &[("producer", &[nap, release, release, release, release, release, release], None)]);
    assert_eq!(run.events(Event::Release, "consumer").count(), 4);
    assert_eq!(run.events(Event::Skip, "consumer").count(), 2);
    let told = run.results("producer");
    assert_eq!(told.iter().filter(|result| **result == Error::BacklogFull as u64).count(), 2);
}
