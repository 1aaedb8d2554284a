//! Deaths: a task is stopped in the middle of something, with the consequences for all others.
//!
//! `requests.rs` has the property, over random systems; here are the cases one by one.

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Ledger};
use fusee_kernel_core::limits::TOLD_AT_DEATH;
use fusee_kernel_core::object::State;
use fusee_simulator::{Overheads, Request};

use super::common::{
    self, Asked, Device, LIMIT, MS, NEXT_JOB, Run, URGENT, US, burn, call, plain, sleep, submit, system, through,
};

/// Runs the system of `text` with an end; each task that is named makes its requests once.
fn run(text: &str, overheads: Overheads, asked: &[(&str, &[Asked])]) -> Run {
    common::run(&format!("{text}{}", common::end("85ms", URGENT)), overheads, asked)
}

/// The task that stops another 4 ms after the start.
fn supervisor(victim: &str) -> String {
    format!(
        r#"
[tasks.supervisor]
script = ["sleep 4ms", "stop victim"]
cluster = "all"
period = "100ms"
deadline = "1ms"
budget = "1ms"
handles = {{ victim = "task {victim}: stop" }}
"#
    )
}

const DIED: u64 = Error::PeerDied as u64;

//--- Clients and servers

const SERVICE: &str = r#"
[endpoints.service]
server = "server"

[tasks.server]
script = ["serve service"]
cluster = "all"
handles = { service = "endpoint service: receive" }

[tasks.client]
script = ["call service 10ms"]
cluster = "all"
period = "80ms"
budget = "20ms"
handles = { service = "endpoint service: call" }

[tasks.other]
script = ["call service 1ms"]
cluster = "all"
period = "80ms"
budget = "20ms"
phase = "10ms"
handles = { service = "endpoint service: call" }
"#;

fn service(victim: &str) -> String {
    system(2, "") + SERVICE + &supervisor(victim)
}

/// The client calls at 10 ms and dies at 14, with 6 of 10 ms to go. No task pays for them until the other calls, at 20:
/// on its budget the server goes on, replies to no client, and serves it until 27.
#[test]
fn a_client_killed_in_the_middle_of_a_call_leaves_its_server_runnable() {
    for kick_delay in [0, 50 * US] {
        let run = run(&service("client"), Overheads::kicks(kick_delay), &[]);
        let died = run.times(Event::Stop, "client")[0];
        assert!(died / 1_000 == 14);
        assert_eq!(run.times(Event::SwitchTo, "server").iter().filter(|at| (died..20_000).contains(*at)).count(), 0);
        // The part that the server computes until the kick arrives, it need not compute then.
        let done = run.times(Event::Complete, "other")[0];
        assert!(done.abs_diff(27_000) <= 2 * kick_delay / US, "done at {done}");
        assert!(matches!(run.state("server"), State::Receiving(_)));
    }
}

/// Three more call while the server works for the first: one is served, three queue, all hear of its death.
#[test]
fn a_server_killed_in_the_middle_gives_every_caller_a_typed_error() {
    let text = service("server").replace("[tasks.client]", "[tasks.client]\ncopies = 4");
    let text = text.replace(r#"["call service 10ms"]"#, r#"["call service 10ms", "burn 1ms"]"#);
    let calls = [NEXT_JOB, call(Call::Call, "service").with(10 * MS), burn(MS)];
    let again = [calls[0], calls[1], calls[1], calls[2]];
    let programs: [(&str, &[Asked]); 4] =
        [("client1", &calls), ("client2", &calls), ("client3", &calls), ("client4", &again)];
    let run = run(&text, Overheads::NONE, &programs);
    for client in ["client1", "client2", "client3"] {
        assert_eq!(run.results(client), [0, DIED]);
    }
    assert_eq!(run.results("client4"), [0, DIED, DIED], "the second call finds nobody");
    assert_eq!(run.state("server"), State::Stopped);
    assert_eq!(run.times(Event::Reply, "client1"), []);
}

/// Forty clients and a kernel in which a trap takes a microsecond: at no instant more are woken than a trap may tell.
#[test]
fn a_trap_tells_no_more_than_it_may_of_a_death_and_none_is_forgotten() {
    let text = service("server").replace("[tasks.client]", "[tasks.client]\ncopies = 40");
    let text = text.replace("budget = \"20ms\"", "budget = \"40us\"").replace("cpus = 2", "cpus = 1");
    let run = run(&text.replace("[0, 1]", "[0]"), Overheads { interrupt: US, ..Overheads::NONE }, &[]);
    let died = run.times(Event::Stop, "server")[0] * US;
    let mut woken: Vec<u64> = Vec::new();
    for client in 1..=40 {
        let resumed = run.of(&format!("client{client}")).find(|record| record.event == Event::Resume as u8);
        woken.push(resumed.expect("it hears of it").time);
    }
    woken.sort_unstable();
    assert!(woken[0] >= died, "nobody was served");
    let most = woken.chunk_by(|one, other| one == other).map(<[u64]>::len).max();
    assert_eq!(most, Some(TOLD_AT_DEATH));
    assert!(woken[39] <= died + 40 * US, "one trap after the other: {woken:?}");
}

const DEFERRING: &str = r#"
[endpoints.service]
server = "server"

[tasks.server]
script = ["burn 1ms"]
cluster = "all"
class = "service"
period = "100ms"
budget = "50ms"
handles = { service = "endpoint service: receive" }

[tasks.client]
copies = 6
script = ["burn 1ms"]
cluster = "all"
class = "background"
handles = { service = "endpoint service: call send" }
"#;

/// The server owes four replies; a fifth client queues, and so does the request of a sixth, which does not wait for a
/// reply.
#[test]
fn a_server_that_owes_four_replies_leaves_neither_callers_nor_senders_behind() {
    let receive = call(Call::Receive, "service");
    let server = [receive, receive, receive, receive, burn(30 * MS)];
    let asks = [call(Call::Call, "service")];
    let late = [sleep(2 * MS), call(Call::Call, "service")];
    let send = [sleep(3 * MS), call(Call::Send, "service")];
    let programs: [(&str, &[Asked]); 7] = [
        ("server", &server),
        ("client1", &asks),
        ("client2", &asks),
        ("client3", &asks),
        ("client4", &asks),
        ("client5", &late),
        ("client6", &send),
    ];
    let run = run(&(system(2, "") + DEFERRING + &supervisor("server")), Overheads::NONE, &programs);
    for client in ["client1", "client2", "client3", "client4"] {
        assert_eq!(run.results(client), [DIED]);
    }
    for client in ["client5", "client6"] {
        assert_eq!(run.results(client), [0, DIED]);
    }
}

//--- Wherever it runs

const BUSY: &str = r#"
[tasks.victim]
script = ["burn 1ms"]
cluster = "all"
class = "background"
handles = { itself = "task victim: stop" }

[tasks.supervisor]
script = ["sleep 4ms", "stop victim", "stop victim"]
cluster = "all"
period = "40ms"
deadline = "1ms"
budget = "1ms"
handles = { victim = "task victim: stop" }
"#;

/// The victim logs a line every 10 us. The kick that ends it takes 50 us, during which it enters the kernel as before.
#[test]
fn a_task_killed_while_it_runs_on_another_cpu_does_nothing_more() {
    let text = system(2, "") + BUSY + &common::end("85ms", URGENT);
    let victim = [through(Call::Log, 1).with(2), burn(10 * US)];
    for kick_delay in [0, 50 * US] {
        let run = common::run_for(&text, Overheads::kicks(kick_delay), LIMIT, &[("victim", &victim, Some(0))]);
        let died = run.times(Event::Stop, "victim");
        assert_eq!(died.len(), 1, "the second `stop` finds it dead");
        assert_eq!(run.times(Event::Log, "victim").last(), Some(&died[0]), "up to then it goes on");
        let mut after = run.of("victim").skip_while(|record| record.event != Event::Stop as u8);
        assert!(after.all(|record| record.event != Event::Log as u8), "a line from the dead");
        let gone = run.times(Event::SwitchAway, "victim").last().copied().expect("it leaves");
        // Its own trap, if that comes before the kick.
        assert!((died[0]..=died[0] + 10).contains(&gone), "gone at {gone}");
        // Until it leaves, its CPU works for it.
        assert_eq!(run.ledger(Ledger::Charged, 0), gone * US);
    }
}

#[test]
fn a_task_that_stops_itself_is_gone_like_one_that_exits() {
    let itself = [burn(MS), call(Call::Stop, "itself"), burn(MS)];
    let run = run(&(system(2, "") + BUSY), Overheads::NONE, &[("victim", &itself)]);
    assert_eq!(run.times(Event::Stop, "victim"), [1_000]);
    assert_eq!(run.results("victim"), []);
    assert_eq!(run.ledger(Ledger::Charged, 0), MS);
}

const LOAN: &str = r#"
[system]
name = "loan"
board = "virt"
cpus = 2
start = "10ms"

[clusters.first]
cpus = [0]

[clusters.all]
cpus = [1]

[endpoints.service]
server = "server"

[tasks.server]
script = ["serve service"]
cluster = "all"
handles = { service = "endpoint service: receive" }

[tasks.client]
script = ["call service 10ms"]
cluster = "first"
period = "80ms"
budget = "20ms"
handles = { service = "endpoint service: call" }

[tasks.here]
script = ["call service 1ms"]
cluster = "all"
period = "80ms"
budget = "20ms"
phase = "2ms"
handles = { service = "endpoint service: call" }
"#;

/// The server works on CPU 0 on the client's budget, and a client of its own cluster queues. When the first dies it goes
/// on for the second, on CPU 1, as soon as CPU 0 has let go.
#[test]
fn a_reservation_on_loan_to_a_server_comes_back_to_nobody() {
    let text = LOAN.to_owned() + &supervisor("client");
    for kick_delay in [0, US, 50 * US] {
        let run = run(&text, Overheads::kicks(kick_delay), &[]);
        assert_eq!(run.ledger(Ledger::Charged, 0), 4 * MS + kick_delay);
        let done = run.times(Event::Complete, "here")[0];
        assert!(done.abs_diff(21_000) <= 3 * kick_delay / US, "done at {done}");
    }
}

/// Before its first receive a passive server runs on background time that is lent to it.
#[test]
fn a_passive_server_killed_before_its_first_receive_is_gone() {
    let text = service("server").replace("start = \"10ms\"", "start = \"0ms\"");
    let text = text.replace("[\"sleep 4ms\", \"stop victim\"]", "[\"stop victim\"]");
    let burn = [burn(50 * MS)];
    let run = run(&text, Overheads::NONE, &[("server", &burn)]);
    assert_eq!(run.state("server"), State::Stopped);
    assert_eq!(run.times(Event::Stop, "server"), [0]);
    assert!(run.of("server").all(|record| record.time / US == 0 || record.event == Event::Ledger as u8));
    assert!(matches!(run.state("client"), State::BetweenJobs), "its calls are refused, its jobs go on");
}

//--- Engines and drivers

const ENGINE: &str = r#"
[tasks.holder]
script = ["burn 1ms"]
cluster = "all"
class = "background"
handles = { ee = "engine ee: acquire" }

[tasks.next]
script = ["burn 1ms"]
cluster = "all"
class = "background"
handles = { ee = "engine ee: acquire" }

[tasks.third]
script = ["burn 1ms"]
cluster = "all"
class = "background"

[tasks.third.handles]
ee = "engine ee: acquire"
gpu_done = "notification done: wait"

[notifications.done]
bound = "gpu"
"#;

/// Tasks with an engine, of which one is stopped.
fn engine(victim: &str) -> String {
    let device = Device { engines: &[("ee", "order = \"fifo\"")], ..Device::GPU };
    system(2, "") + ENGINE + &device.text() + &supervisor(victim)
}

const ACQUIRE: Asked = call(Call::Acquire, "ee");
const RELEASE: Asked = call(Call::Release, "ee");
const NAP: Asked = sleep(MS);

/// With an idle engine at once; with an operation in flight when that has ended, at 16 ms; then by the next to the third.
#[test]
fn a_killed_holders_engine_goes_to_the_next_in_line() {
    for (submitted, granted) in [(None, 14_000), (Some(15 * MS), 15_000), (Some(17 * MS), 17_000)] {
        let mut holder = vec![ACQUIRE];
        holder.extend(submitted.map(|span| submit(0, span)));
        holder.push(burn(80 * MS));
        let next = [NAP, ACQUIRE, burn(MS), RELEASE];
        let third = [NAP, NAP, ACQUIRE, RELEASE];
        let programs: [(&str, &[Asked]); 3] = [("holder", &holder), ("next", &next), ("third", &third)];
        let run = run(&engine("holder"), Overheads::NONE, &programs);
        assert_eq!(run.times(Event::EngineRelease, "holder"), [14_000]);
        assert_eq!(run.times(Event::EngineGrant, "next"), [granted]);
        assert_eq!(run.times(Event::EngineGrant, "third"), [granted + 1_000]);
        assert_eq!(run.results("next"), [0, 0, 0]);
    }
}

/// Any end of the holder, at 14 ms: it gives back its objects, as values in Rust do that go out of scope, exits, faults, or is
/// killed. A task that waits for the token, lends its budget meanwhile, and then asks for engine and mutex is in time, even if the engine
/// works until 17 ms.
#[test]
fn a_token_an_engine_and_a_mutex_pass_on_however_their_holder_ends() {
    let text = engine("VICTIM").replace("class = \"background\"\nhandles = { ee", "period = \"80ms\"\nhandles = { ee");
    let text = text.replace("[tasks.holder]", "[tasks.holder]\nbudget = \"60ms\"");
    let text = text.replace("[tasks.next]", "[tasks.next]\nphase = \"1ms\"\ndeadline = \"8ms\"\nbudget = \"6ms\"");
    let more = "acquire\", gpu = \"pool gpu: acquire\", lock = \"engine lock: acquire\" }\n";
    let text = text.replace("acquire\" }\n", more) + "[engines.lock]\n\n[pools.gpu]\nreplicas = 1\n";
    let taken = ["gpu", "ee", "lock"].map(|name| call(Call::Acquire, name));
    let given_back = ["lock", "ee", "gpu"].map(|name| call(Call::Release, name));
    let ends: [(&[Asked], &str); 4] = [
        (&given_back, "third"),
        (&[through(Call::Exit, 0).with(7)], "third"),
        (&[plain(Request::Load(0))], "third"),
        (&[burn(30 * MS)], "holder"),
    ];
    for (end, work) in ends.into_iter().flat_map(|end| [(end, None), (end, Some(submit(0, 7 * MS)))]) {
        let begin = [NEXT_JOB];
        let holder = [&begin, &taken[..], work.as_slice(), &[burn(4 * MS)], end.0];
        let next = [&begin, &taken[..], &[submit(0, MS), burn(MS)], &given_back, &begin].concat();
        let run =
            run(&text.replace("VICTIM", end.1), Overheads::NONE, &[("holder", &holder.concat()), ("next", &next)]);
        let free = if work.is_some() { 17_000 } else { 14_000 };
        assert_eq!(run.times(Event::TokenGrant, "next"), [14_000]);
        assert_eq!(run.times(Event::EngineGrant, "next"), [free, free]);
        assert_eq!(run.times(Event::Complete, "next"), [free + 1_000]);
        assert_eq!(run.ledger(Ledger::Misses, run.index("next")), 0);
        assert!(run.results("next").iter().all(|result| *result == 0));
    }
}

#[test]
fn a_killed_waiters_place_in_line_is_taken_by_the_next() {
    let holder = [ACQUIRE, burn(20 * MS), RELEASE];
    let next = [NAP, ACQUIRE, burn(80 * MS)];
    let third = [NAP, NAP, ACQUIRE, RELEASE];
    let programs: [(&str, &[Asked]); 3] = [("holder", &holder), ("next", &next), ("third", &third)];
    let run = run(&engine("next"), Overheads::NONE, &programs);
    assert_eq!(run.times(Event::EngineGrant, "next"), []);
    assert_eq!(run.times(Event::EngineGrant, "third"), [20_000]);
}

/// `third` waits for the driver's signal, and hears of its death. So does `next`, which waits for the engine that drains
/// until 20 ms, and asks again in vain; at 24 the engine is found idle, without a driver.
#[test]
fn a_killed_drivers_waiters_hear_of_it() {
    let holder = [ACQUIRE, submit(0, 20 * MS), burn(2 * MS), RELEASE];
    let wait = sleep(10 * MS);
    let next = [NAP, ACQUIRE, ACQUIRE, wait, ACQUIRE, RELEASE];
    let third = [call(Call::Wait, "gpu_done"), burn(MS)];
    let programs: [(&str, &[Asked]); 3] = [("holder", &holder), ("next", &next), ("third", &third)];
    let run = run(&engine("gpu"), Overheads::NONE, &programs);
    assert_eq!(run.results("third"), [DIED]);
    assert_eq!(run.results("next"), [0, DIED, DIED, 0, 0, 0]);
    assert_eq!(run.times(Event::EngineGrant, "next"), [24_000]);
}

/// The driver dies without waiters. An engine given back in the middle of an operation notifies the tasks that wait then.
#[test]
fn an_engine_that_drains_after_its_drivers_death_tells_who_waits_for_it() {
    let holder = [ACQUIRE, submit(0, 30 * MS), burn(20 * MS), RELEASE];
    let programs: [(&str, &[Asked]); 3] = [("holder", &holder), ("next", &[NAP, ACQUIRE]), ("third", &[NAP, ACQUIRE])];
    let run = run(&engine("gpu"), Overheads::NONE, &programs);
    assert_eq!(run.results("next"), [0, DIED]);
    assert_eq!(run.results("third"), [0, DIED]);
    assert_eq!(run.times(Event::Resume, "next").last(), Some(&20_000));
}
