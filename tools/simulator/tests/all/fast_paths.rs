//! The traps that take a fast path, and those that do not.
//!
//! A fast path does the work of the slow path, so all other tests pass without it. Here each is counted, in a system that needs it and beside traps
//! that it must leave to the slow path.

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{BY_INTERRUPT, TRAP_TIMER};
use fusee_simulator::Overheads;

use super::common::*;

/// The kind of a trap, as the records of traps say it.
const fn of(call: Call) -> u32 {
    call as u32
}

/// How many traps of each kind took a fast path, of all that the system of `text` does in ten jobs of each task.
fn fast(text: &str, asked: &[Plan<'_>]) -> Vec<(u32, u64)> {
    let text = system(1, "admission = \"warn\"") + text;
    run_for(&text, Overheads::NONE, 105 * MS, asked).report.fast.into_iter().collect()
}

/// A real-time task of this name, which does something in each of ten jobs; the shorter its deadline, the earlier its key.
fn job(name: &str, deadline: &str, phase: &str, rest: &str) -> String {
    format!(
        "[tasks.{name}]\ncluster = \"all\"\nperiod = \"10ms\"\ndeadline = \"{deadline}\"\nbudget = \"1ms\"\nphase = \"{phase}\"\n{rest}\n"
    )
}

const SERVER: &str = "[tasks.server]\nscript = [\"serve desk\"]\nhandles = { desk = \"endpoint desk: receive\" }\n[endpoints.desk]\nserver = \"server\"\n";

#[test]
fn calls_and_replies_between_two_tasks() {
    let client = "script = [\"call desk 10us\"]\nhandles = { desk = \"endpoint desk: call\" }";
    let text = job("client", "5ms", "0ns", client) + SERVER;
    assert_eq!(fast(&text, &[]), [(of(Call::Call), 10), (of(Call::ReplyReceive), 10)]);
    // A server with a budget of its own runs on the client's, which has the earlier key.
    let own = SERVER.replace(
        "[tasks.server]\n",
        "[tasks.server]\ncluster = \"all\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n",
    );
    let text = job("client", "5ms", "0ns", client) + &own;
    assert_eq!(fast(&text, &[]), [(of(Call::Call), 10), (of(Call::ReplyReceive), 10)]);
    // The reply finds another caller, with a call that came while the server was busy.
    let two = job("client", "5ms", "0ns", client) + &job("second", "2ms", "5us", client) + SERVER;
    assert_eq!(fast(&two, &[]), [(of(Call::Call), 10), (of(Call::ReplyReceive), 10)]);
}

#[test]
fn calls_under_a_deadline_for_which_the_timer_need_not_be_set() {
    let client = "script = [\"burn 1us\"]\nhandles = { desk = \"endpoint desk: call\" }";
    let text = job("client", "5ms", "0ns", client) + SERVER;
    let calls = |span| [NEXT_JOB, call(Call::Call, "desk").within(span)];
    // The budget ends before the deadline: the timer fires then in any case.
    let late = fast(&text, &[("client", &calls(5 * MS), Some(0))]);
    assert_eq!(late, [(of(Call::Call), 10), (of(Call::ReplyReceive), 10)]);
    let early = fast(&text, &[("client", &calls(100 * US), Some(0))]);
    assert_eq!(
        early,
        [(of(Call::ReplyReceive), 10)],
        "the timer is set for the call, and the reply leaves it as it is"
    );
}

#[test]
fn a_call_that_does_nothing() {
    let text = job("client", "5ms", "0ns", "script = [\"burn 1us\"]");
    let calls = [NEXT_JOB, through(Call::Null, 0), through(Call::Null, 0), burn(10 * US)];
    assert_eq!(fast(&text, &[("client", &calls, Some(0))]), [(of(Call::Null), 20)]);
}

#[test]
fn locks_and_tokens_that_nobody_else_wants() {
    let locks =
        "script = [\"acquire lock\", \"burn 10us\", \"release lock\"]\nhandles = { lock = \"engine lock: acquire\" }";
    let lock = "[engines.lock]\n";
    let both = [(of(Call::Acquire), 10), (of(Call::Release), 10)];
    assert_eq!(fast(&(job("client", "5ms", "0ns", locks) + lock), &[]), both);
    // The second preempts the first and waits for it: neither its request nor the release that grants it is fast, nor is the rest of that job.
    let two = job("client", "5ms", "0ns", locks) + &job("second", "2ms", "5us", locks) + lock;
    assert_eq!(fast(&two, &[]), both);

    let tokens =
        "script = [\"acquire pool\", \"burn 10us\", \"release pool\"]\nhandles = { pool = \"pool pool: acquire\" }";
    let pool = "[pools.pool]\nreplicas = 1\ncluster = \"all\"\n";
    assert_eq!(fast(&(job("client", "5ms", "0ns", tokens) + pool), &[]), both);
    let two = job("client", "5ms", "0ns", tokens) + &job("second", "2ms", "5us", tokens) + pool;
    assert_eq!(fast(&two, &[]), both);
}

/// A background task of this name.
fn background(name: &str, rest: &str) -> String {
    format!("[tasks.{name}]\ncluster = \"all\"\nclass = \"background\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n{rest}\n")
}

#[test]
fn mutexes_that_one_other_task_wants() {
    let count = |text: &str| {
        let all = fast(text, &[]);
        [Call::Acquire, Call::Release].map(|call| all.iter().find(|(kind, _)| *kind == of(call)).map_or(0, |one| one.1))
    };
    let locks = |burn| format!("\"acquire lock\", \"burn {burn}\", \"release lock\"");
    let handles = "handles = { lock = \"engine lock: acquire\", go = \"notification go: wait\" }";
    let holder = background("holder", &format!("script = [\"wait go\", {}, \"repeat\"]\n{handles}", locks("100us")));
    let starter = "script = [\"signal go 1\"]\nhandles = { go = \"notification go: signal\" }";
    let holder = holder + &job("starter", "9ms", "0ns", starter) + "[notifications.go]\n[engines.lock]\n";
    let waiter = |script: &str| format!("script = [{script}]\nhandles = {{ lock = \"engine lock: acquire\" }}");
    assert_eq!(count(&holder), [10, 10]);
    // The waiter lends to the holder, which lets it go on.
    let one = holder.clone() + &job("waiter", "5ms", "20us", &waiter(&locks("10us")));
    assert_eq!(count(&one), [20, 20]);
    // With a second waiter, all but the first request of each job take the slow path until the last of the three has the mutex.
    let two = one.clone() + &job("second", "2ms", "50us", &waiter(&locks("10us")));
    assert_eq!(count(&two), [20, 10]);
    // A holder with jobs of its own rests while it runs for another, which is for the slow path to count.
    let jobs = job("holder", "9ms", "0ns", &waiter(&locks("100us"))) + "[engines.lock]\n";
    assert_eq!(count(&(jobs + &job("waiter", "5ms", "20us", &waiter(&locks("10us"))))), [10, 10]);
}

#[test]
fn a_bottom_half_that_runs_for_the_only_thread_that_waits() {
    let driver = "[tasks.driver]\nscript = [\"wait event\", \"burn 10us\", \"signal done 1\", \"repeat\"]\n\
                  handles = { event = \"notification event: wait\", done = \"notification done: signal\" }\n\
                  [notifications.event]\n[notifications.done]\nbound = \"driver\"\n";
    let helped = "script = [\"signal event 1\", \"wait done\", \"burn 1us\"]\n\
                  handles = { event = \"notification event: signal\", done = \"notification done: wait\" }";
    assert_eq!(fast(&(job("helped", "5ms", "0ns", helped) + driver), &[]), [(of(Call::Signal), 10)]);
}

#[test]
fn signals_and_waits() {
    let notification = "[notifications.event]\n";
    let signals = job(
        "signaller",
        "5ms",
        "0ns",
        "script = [\"burn 1us\", \"signal event 1\", \"burn 1us\"]\nhandles = { event = \"notification event: signal\" }",
    ) + notification;
    let waits =
        "script = [\"wait event\", \"burn 1us\", \"repeat\"]\nhandles = { event = \"notification event: wait\" }";
    let service = |script: &str| {
        "[tasks.waiter]\ncluster = \"all\"\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n".to_owned()
            + script
            + "\n"
    };
    // No task waits, for enough has been signalled.
    let late = waits.replace("[\"wait", "[\"burn 900us\", \"burn 900us\", \"wait").replace("burn 1us", "burn 9ms");
    assert_eq!(fast(&(signals.clone() + &service(&late)), &[])[0], (of(Call::Signal), 10));
    // It is woken, and comes later.
    assert_eq!(fast(&(signals.clone() + &service(waits)), &[]), []);
    // It preempts the signaller, which goes on when it waits again.
    let both = [(of(Call::Signal), 10), (of(Call::Wait), 11)];
    assert_eq!(fast(&(signals + &job("waiter", "2ms", "0ns", waits)), &[]), both);
}

#[test]
fn messages_that_a_server_with_an_earlier_key_takes_at_once() {
    let sends = "script = [\"burn 1us\", \"send desk 1us\"]\nhandles = { desk = \"endpoint desk: send\" }";
    let serves = "script = [\"serve desk\"]\nhandles = { desk = \"endpoint desk: receive\" }";
    let desk = "[endpoints.desk]\nserver = \"server\"\n";
    let system = |deadline| job("client", "5ms", "0ns", sends) + &job("server", deadline, "0ns", serves) + desk;
    assert_eq!(fast(&system("2ms"), &[]), [(of(Call::Send), 10)]);
    assert_eq!(fast(&system("8ms"), &[]), []);
}

/// A receiver takes no message that comes to another endpoint of its, and none while it waits no longer than until some time.
#[test]
fn messages_for_which_a_server_does_not_wait() {
    let sends = "script = [\"burn 1us\"]\nhandles = { desk = \"endpoint other: send\" }";
    let serves =
        "script = [\"burn 1us\"]\nhandles = { desk = \"endpoint desk: receive\", other = \"endpoint other: receive\" }";
    let text = job("client", "5ms", "1us", sends)
        + &job("server", "2ms", "0ns", serves)
        + "[endpoints.desk]\nserver = \"server\"\n[endpoints.other]\nserver = \"server\"\n";
    let text = system(1, "admission = \"warn\"") + &text;
    let send = [NEXT_JOB, call(Call::Send, "desk").with(7)];
    for (receives, within) in [("desk", None), ("other", Some(20 * MS)), ("desk", Some(20 * MS))] {
        let receive = within.map_or(call(Call::Receive, receives), |span| call(Call::Receive, receives).within(span));
        let asked = [NEXT_JOB, receive];
        let plans: [Plan<'_>; 2] = [("client", &send, None), ("server", &asked, None)];
        let run = run_for(&text, Overheads::NONE, 50 * MS, &plans);
        assert_eq!(run.report.fast.get(&of(Call::Send)), None, "{receives} {within:?}");
        let came: &[u64] = match (receives, within) {
            ("other", _) => &[0, 0],
            (_, Some(_)) => &[0, Error::TimedOut as u64],
            (_, None) => &[0],
        };
        assert_eq!(run.results("server"), came, "{receives} {within:?}");
    }
}

#[test]
fn tasks_of_one_class_that_take_turns() {
    let text = |name| {
        format!(
            "[tasks.{name}]\ncluster = \"all\"\nclass = \"background\"\nscript = [\"burn 100us\", \"yield\", \"repeat\"]\n"
        )
    };
    assert_eq!(fast(&text("one"), &[]), [], "there is nobody else");
    assert_eq!(fast(&(text("one") + &text("two")), &[]), [(of(Call::Yield), 1_050)]);
}

#[test]
fn sleeps_that_are_over_and_completions_of_devices() {
    let sleeper = job("sleeper", "9ms", "0ns", "script = [\"burn 1us\", \"sleep 1ms\", \"burn 1us\"]");
    assert_eq!(fast(&sleeper, &[]), [(TRAP_TIMER, 10)], "on a CPU that idles");
    let other = "[tasks.other]\ncluster = \"all\"\nclass = \"background\"\nscript = [\"burn 1s\"]\n";
    assert_eq!(fast(&(sleeper + other), &[]), [(TRAP_TIMER, 10)], "on one that is busy");

    // A task that waits for the driver would donate to it.
    let client = "script = [\"start ee 100us\"]\nhandles = { ee = \"engine ee: share\" }";
    let device = Device { engines: &[("ee", "shared_longest = \"1ms\"")], ..Device::GPU };
    let text = system(1, "admission = \"warn\"") + &job("client", "9ms", "0ns", client) + &device.text();
    let report = run_for(&text, Overheads::NONE, 105 * MS, &[]).report;
    assert_eq!(report.fast.last_key_value(), Some((&(BY_INTERRUPT + 1), &10)), "the driver is woken");
    // Of a job: its release, and its end. Of the driver: the interrupt, its acknowledgement, a signal to the client, and that it waits again. Nothing fires in vain.
    assert_eq!(report.traps, 2 + 10 * 6);
}
