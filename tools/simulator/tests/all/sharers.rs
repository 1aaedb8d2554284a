//! Engines with sharers, in random systems: clients that keep the rules of the contract beside others that break them, and real-time users of the same engine.
//!
//! With any clients, the kernel's invariants hold (the simulator checks them after every trap), a real-time user waits for one command, and commands
//! of clients that keep the rules is done. If the sharer dies, answers never, or answers nonsense, the first two are still true.

use std::fmt::Write;

use fusee_abi::call::{Call, page};
use fusee_abi::trace::{Event, Record};
use fusee_kernel_core::object::State;
use fusee_manifest::Manifest;
use fusee_manifest::trace::wide;
use fusee_simulator::{Options, Program, Reply, Report, Request, Until, simulate_with};
use proptest::prelude::*;

use super::common::{self, Device, MS, US, handle, index};

/// When the system ends.
const END: u64 = 2_000 * MS;
/// How long a shared command takes at most once the engine is asked for.
const LONGEST: u64 = 3 * MS;
/// The marks of the sharer: another verdict on a member, and that its doorbell is open.
const VERDICT: u32 = 4;
const OPEN: u64 = 2;

/// A client of the engine without its lock.
#[derive(Clone, Debug)]
enum Client {
    /// Keeps the rules: sleeps until an instant, in microseconds, and then has a command of so many done, again and again.
    Patient(Vec<(u64, u64)>),
    /// Keeps the rules: at an instant submits so many commands at once, of so many microseconds.
    Hoarder(u64, usize, u64),
    /// Does these again and again; is stopped at an instant, if there is one.
    Hostile(Vec<Request>, Option<u64>),
}

/// The fate of the sharer.
#[derive(Clone, Debug)]
enum Life {
    /// The sharer lives.
    Good,
    /// The sharer faults, the first time it runs from an instant on.
    Dies(u64),
    /// The sharer takes requests and answers none.
    Silent,
    /// The sharer changes pages and answers as this says, again and again: `share` and replies, with these numbers.
    Nonsense(Vec<(bool, u16, u64)>),
}

#[derive(Clone, Debug)]
struct Drawn {
    policy: u64,
    poll: u64,
    slice: u64,
    has_group: bool,
    has_sessions: bool,
    may_stop: bool,
    /// The device's choice among these clients, and the cost of a change of context, in microseconds.
    arbiter: &'static str,
    switch: u64,
    clients: Vec<Client>,
    /// Real-time users: period in milliseconds, phase and hold in microseconds.
    users: Vec<(u64, u64, u64)>,
}

fn hostile_request() -> impl Strategy<Value = Request> {
    let ring = (prop::sample::select(vec![-20, -3, -1, 0, 1, 2, 15, 17, 40, i32::MIN]), any::<bool>());
    let sleep = |span| call(Call::SleepUntil, 0, 0, [0; 2], Until::After(span), Reply::Nobody);
    prop_oneof![
        6 => (10u64..2_000).prop_map(|time| Request::Submit(0, time * US)),
        1 => Just(Request::Submit(0, 10_000 * MS)),
        3 => ring.prop_map(|(change, kicks)| Request::Ring(0, change, kicks)),
        2 => (1u64..500).prop_map(|time| Request::Burn(time * US)),
        2 => (100u64..20_000).prop_map(move |time| sleep(time * US)),
        // Requests to the sharer's endpoint, with a deadline or without.
        2 => (0u64..6, any::<u64>(), prop_oneof![Just(Until::Never), Just(Until::After(200 * US))])
            .prop_map(|(what, word, until)| call(Call::Call, REQUESTS, 0, [what, word], until, Reply::Nobody)),
    ]
}

/// Numbers in place of a handle in drawn requests: the endpoint of the sharer, and the doorbells.
const REQUESTS: u64 = 1 << 50;
const DOORBELLS: u64 = 1 << 51;

fn call(call: Call, first: u64, second: u64, words: [u64; 2], until: Until, reply: Reply) -> Request {
    Request::Call { number: call as u64, first, second, words, until, reply }
}

fn client() -> impl Strategy<Value = Client> {
    let command = (0u64..3_000, 30u64..1_500);
    prop_oneof![
        3 => prop::collection::vec(command, 1..5).prop_map(Client::Patient),
        1 => (0u64..50_000, 1usize..16, 30u64..1_500).prop_map(|(at, count, time)| Client::Hoarder(at, count, time)),
        3 => (prop::collection::vec(hostile_request(), 1..8), prop::option::of(12u64..300))
            .prop_map(|(requests, end)| Client::Hostile(requests, end.map(|end| end * MS + 1))),
    ]
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let user = (prop::sample::select(vec![20u64, 35, 150]), 0u64..20_000, 100u64..2_000);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>());
    (
        0u64..6,
        (
            prop::sample::select(vec!["arrival", "round-robin", "weighted"]),
            prop::sample::select(vec![0u64, 0, 50, 400]),
        ),
        500u64..4_000,
        4_000u64..20_000,
        switches,
        prop::collection::vec(client(), 2..6),
        prop::collection::vec(user, 1..3),
    )
        .prop_map(
            |(policy, (arbiter, switch), poll, slice, (has_group, has_sessions, may_stop), clients, users)| Drawn {
                policy,
                arbiter,
                switch,
                poll,
                slice,
                has_group: has_group && policy >= 3,
                has_sessions,
                may_stop,
                clients,
                users,
            },
        )
}

fn life() -> impl Strategy<Value = Life> {
    let step = (any::<bool>(), any::<u16>(), prop_oneof![0u64..3, any::<u64>()]);
    prop_oneof![
        (1u64..200_000).prop_map(|at| Life::Dies(10 * MS + at * US)),
        Just(Life::Silent),
        prop::collection::vec(step, 1..8).prop_map(Life::Nonsense),
    ]
}

impl Drawn {
    fn text(&self) -> String {
        let Drawn { policy, poll, slice, .. } = self;
        let sampling = (poll / 2).max(10);
        let mut text = common::system(3, "admission = \"warn\"");
        for (index, client) in self.clients.iter().enumerate() {
            let steps: Vec<String> = match client {
                Client::Patient(commands) => commands
                    .iter()
                    .enumerate()
                    .flat_map(|(place, (at, time))| {
                        let at = 12_000 + 5_000 * place as u64 + at;
                        [format!("sleep {at}us"), format!("submit ee {time}us gpu_done")]
                    })
                    .collect(),
                Client::Hoarder(at, count, time) => {
                    let starts = std::iter::repeat_n(format!("start ee {time}us"), *count);
                    std::iter::once(format!("sleep {}us", 12_000 + at)).chain(starts).collect()
                }
                Client::Hostile(..) => vec!["burn 1us".to_owned()],
            };
            let _ = write!(
                text,
                "[tasks.c{index}]\nscript = {steps:?}\ncluster = \"all\"\nclass = \"background\"\n\
                 handles = {{ ee = \"engine ee: share\", requests = \"endpoint requests: call\" }}\n"
            );
            if self.has_group && index > 0 {
                let _ = writeln!(text, "shares.ee = {{ group = \"some\", weight = {index} }}");
            }
        }
        for (index, (period, phase, hold)) in self.users.iter().enumerate() {
            let _ = write!(
                text,
                "[tasks.user{index}]\nscript = [\"acquire ee\", \"submit ee {hold}us gpu_done\", \"release ee\"]\n\
                 cluster = \"all\"\nperiod = \"{period}ms\"\nphase = \"{phase}us\"\nbudget = \"5ms\"\nsuspends = \"15ms\"\n\
                 handles = {{ ee = \"engine ee: acquire\" }}\n"
            );
        }
        let _ = write!(
            text,
            "[tasks.sharer]\nbinary = \"sharer/sharer\"\nstack = \"32KiB\"\ncluster = \"all\"\nclass = \"service\"\n\
             period = \"10ms\"\nbudget = \"4ms\"\nparameters = {{ policy = {policy}, poll_us = {poll}, slice_us = {slice}, \
             sample_us = 2000, sample_most_us = 4000, sample_poll_us = {sampling}, request_limit_us = 20000, log_verdicts = 1 }}\n\
             [tasks.sharer.handles]\nrequests = \"endpoint requests: receive\"\n"
        );
        if self.has_sessions {
            text += "sessions = \"endpoint sessions: call\"\n";
        }
        if self.may_stop {
            (0..self.clients.len()).for_each(|index| {
                let _ = writeln!(text, "\"stop.c{index}\" = \"task c{index}: stop\"");
            });
        }
        text += "[endpoints.requests]\nserver = \"sharer\"\n";
        if self.has_group {
            text += "[groups.some]\nengine = \"ee\"\nweight = 2\n";
        }
        let engine = format!(
            "shared_longest = \"{}us\"\nsharer = \"requests\"\nwatchdog = \"60ms\"\nreset_bound = \"10ms\"\norder = \"fifo\"",
            LONGEST / US
        );
        let device = Device { engines: &[("ee", &engine)], ..Device::GPU }.text();
        let keys = format!("[devices.gpu]\narbiter = \"{}\"\nswitch = \"{}us\"\n", self.arbiter, self.switch);
        let device = device.replace("[devices.gpu]\n", &keys);
        if self.has_sessions {
            text += "[tasks.sessions]\nbinary = \"gpu-driver/sessions\"\ncluster = \"all\"\n\
                     handles = { sessions = \"endpoint sessions: receive\" }\n[endpoints.sessions]\nserver = \"sessions\"\n";
            text += &device.replace("[devices.gpu]\n", "[devices.gpu]\nsessions = { endpoint = \"sessions\" }\n");
        } else {
            text += &device;
        }
        text
    }

    /// Runs it; the failure, if a rule of the kernel was broken.
    fn run(&self, life: &Life) -> Result<(Manifest, Report), TestCaseError> {
        let text = self.text();
        let manifest = common::parse(&text);
        let mut options = Options::default();
        for (number, client) in self.clients.iter().enumerate() {
            let Client::Hostile(requests, end) = client else { continue };
            let task = index(&manifest, &format!("c{number}"));
            // It begins with the system, and lets time pass each time.
            let start = call(Call::SleepUntil, 0, 0, [0; 2], Until::After(12 * MS), Reply::Nobody);
            let mut all = vec![start, Request::Burn(20 * US)];
            all.extend(requests.iter().map(|request| named(&manifest, task, *request)));
            options.programs.push((task, Program::Requests { requests: all, again_from: Some(1) }));
            options.faults.extend(end.map(|end| (end, task)));
        }
        let task = index(&manifest, "sharer");
        let receive = call(Call::Receive, REQUESTS, 0, [0; 2], Until::Never, Reply::Nobody);
        match life {
            Life::Good => {}
            Life::Dies(at) => options.faults.push((*at, task)),
            Life::Silent => {
                let requests = vec![named(&manifest, task, receive)];
                options.programs.push((task, Program::Requests { requests, again_from: Some(0) }));
            }
            Life::Nonsense(steps) => {
                let step = |(shares, members, word): &(bool, u16, u64)| match shares {
                    true => {
                        let page = u64::from(*members) % (page::SHADOW + 2);
                        let which = u64::from(*members >> 4) & word | page << fusee_abi::call::PAGE_SHIFT;
                        call(Call::Share, DOORBELLS, which, [0; 2], Until::Never, Reply::Nobody)
                    }
                    false => call(Call::ReplyReceive, REQUESTS, 0, [*word; 2], Until::After(MS), Reply::Last),
                };
                let timed = call(Call::Receive, REQUESTS, 0, [0; 2], Until::After(MS), Reply::Nobody);
                let steps = [Request::Burn(20 * US), timed].into_iter().chain(steps.iter().map(step));
                let requests = steps.map(|step| named(&manifest, task, step)).collect();
                options.programs.push((task, Program::Requests { requests, again_from: Some(0) }));
            }
        }
        let report =
            simulate_with(&manifest, &options, END).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        Ok((manifest, report))
    }

    /// A real-time user waits for the command that runs, or for its reset, and for the other users that came before it.
    fn longest_wait(&self) -> u64 {
        let switch = self.switch * US;
        let holds: Vec<u64> = self.users.iter().map(|(.., hold)| hold * US + switch).collect();
        LONGEST + switch + holds.iter().sum::<u64>() - holds.iter().min().unwrap_or(&0)
    }
}

/// The request, with the handles of `task` in the place of these numbers.
fn named(manifest: &Manifest, task: usize, request: Request) -> Request {
    let Request::Call { number, first, second, words, until, reply } = request else { return request };
    let first = match first {
        REQUESTS => handle(manifest, task, "requests").expect("all have it"),
        DOORBELLS => handle(manifest, task, "doorbells.ee").expect("the sharer has it"),
        other => other,
    };
    Request::Call { number, first, second, words, until, reply }
}

/// How long each request of a real-time user for the engine waited, of those that were granted; and whether one waits at the end for longer than `most`.
fn waits(manifest: &Manifest, report: &Report, most: u64) -> (Vec<u64>, bool) {
    let mut asked: Vec<Option<u64>> = vec![None; manifest.system.tasks.len() + 1];
    let mut waits = Vec::new();
    for record in &report.records {
        let Some(place) = asked.get_mut(usize::from(record.thread)).filter(|_| record.thread > 0) else { continue };
        if record.event == Event::EngineRequest as u8 {
            *place = Some(record.time);
        } else if record.event == Event::EngineGrant as u8
            && let Some(since) = place.take()
        {
            waits.push(record.time - since);
        }
    }
    let is_late = asked.iter().flatten().any(|since| report.ended_at - since > most);
    (waits, is_late)
}

/// The last mark of the sharer on this member by then, at that instant included: whether its doorbell was open at some time of the instant.
fn was_open(logs: &[&Record], member: u64, at: u64) -> bool {
    let of_member = || logs.iter().filter(|record| wide(record) & 0xff == member);
    let is_open = |record: &&&Record| wide(record) >> 8 & 0xff == OPEN;
    let before = of_member().rfind(|record| record.time < at).is_some_and(|record| is_open(&record));
    before || of_member().filter(|record| record.time == at).any(|record| is_open(&record))
}

fn check_users(drawn: &Drawn, manifest: &Manifest, report: &Report) -> Result<(), TestCaseError> {
    let most = drawn.longest_wait();
    let (waits, is_late) = waits(manifest, report, most);
    prop_assert!(!waits.is_empty());
    prop_assert!(waits.iter().all(|wait| *wait <= most) && !is_late, "{:?} of {most}\n{}", waits, drawn.text());
    for number in 0..drawn.users.len() {
        let state = report.states[index(manifest, &format!("user{number}"))];
        prop_assert!(state != State::Stopped, "user {number}\n{}", drawn.text());
    }
    Ok(())
}

/// Runs it with a sharer that lives, and checks that commands of clients that keep the rules are done, and that none stored to a doorbell that was
/// shut.
fn check_clients(drawn: &Drawn) -> Result<(), TestCaseError> {
    let (manifest, report) = drawn.run(&Life::Good)?;
    check_users(drawn, &manifest, &report)?;
    let sharer = index(&manifest, "sharer");
    prop_assert!(report.states[sharer] != State::Stopped, "{}", drawn.text());
    let is_verdict = |record: &&Record| {
        record.event == Event::Log as u8 && record.object == VERDICT && usize::from(record.thread) == sharer + 1
    };
    let logs: Vec<&Record> = report.records.iter().filter(is_verdict).collect();
    // Clients are members in their order.
    let first = index(&manifest, "c0");
    for (at, task) in &report.own_stores {
        prop_assert!(was_open(&logs, (task - first) as u64, *at), "{task} at {at}\n{}", drawn.text());
    }
    for (number, client) in drawn.clients.iter().enumerate() {
        let task = index(&manifest, &format!("c{number}"));
        let commands = report.commands.iter().find(|one| one.task == task).expect("it is a client");
        let asked = match client {
            Client::Patient(commands) => commands.len() as u32,
            Client::Hoarder(_, count, _) => *count as u32,
            Client::Hostile(..) => continue,
        };
        prop_assert_eq!((commands.submitted, commands.retired), (asked, asked), "client {}\n{}", number, drawn.text());
    }
    Ok(())
}

/// At its first instruction it takes its count back, which stops its ring, and counts on.
#[test]
fn a_client_that_takes_its_count_back_between_two_looks_keeps_others_waiting_for_the_limit_only() {
    let pause = call(Call::SleepUntil, 0, 0, [0; 2], Until::After(757 * US), Reply::Nobody);
    let hostile = vec![Request::Ring(0, -1, false), pause, Request::Submit(0, 10 * US), Request::Submit(0, 10 * US)];
    let drawn = Drawn {
        policy: 3,
        arbiter: "arrival",
        switch: 0,
        poll: 777,
        slice: 4_000,
        has_group: false,
        has_sessions: false,
        may_stop: false,
        clients: vec![
            Client::Hostile(vec![Request::Submit(0, 1_492 * US)], None),
            Client::Patient(vec![(40, 609), (0, 30)]),
            Client::Hostile(hostile, None),
            Client::Patient(vec![(140, 30), (0, 30)]),
        ],
        users: vec![(20, 0, 100)],
    };
    check_clients(&drawn).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_clients_submit_that_keep_the_rules_is_done_whatever_others_do(drawn in drawn()) {
        check_clients(&drawn)?;
    }

    #[test]
    fn a_sharer_that_is_no_good_costs_no_job_its_engine(drawn in drawn(), life in life()) {
        let (manifest, report) = drawn.run(&life)?;
        check_users(&drawn, &manifest, &report)?;
    }
}
