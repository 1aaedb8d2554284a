//! Tasks that begin later, and the end of the supervisor. A crash loop beside tasks that are proved is in `research/campaigns/tests`.

use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::Call;
use fusee_abi::trace::{Event, Record};
use fusee_manifest::Manifest;
use fusee_simulator::{Options, Program, Reply, Report, Request, Until, simulate_with};

use super::common::{self, MS};

/// The instants of all records of `event` about the task `name`.
fn times(manifest: &Manifest, report: &Report, event: Event, name: &str) -> Vec<u64> {
    let task = manifest.system.tasks.iter().position(|task| task.name == name).unwrap();
    let is_it = |record: &&Record| record.event == event as u8 && usize::from(record.thread) == task + 1;
    report.records.iter().filter(is_it).map(|record| record.time).collect()
}

/// A server that begins when it is started, a client of it, and a task with jobs that begins so, too; on one CPU.
const DORMANT: &str = r#"
[system]
name = "dormant"
board = "virt"
cpus = 1
start = "1ms"

[tasks.director]
script = ["call door 10us", "start server", "call door 10us", "start worker", "stop server", "call door 10us", "start server", "call door 10us", "call door 10us", "sleep 40ms", "stop worker", "start worker", "start worker", "sleep 80ms", "shutdown"]
period = "200ms"
budget = "10ms"

[tasks.director.handles]
door = "endpoint door: call"
server = "task server: start stop"
worker = "task worker: start stop"
system = "system: shutdown"

[tasks.server]
script = ["serve door"]
dormant = true
handles = { door = "endpoint door: receive" }

[tasks.worker]
script = ["burn 100us"]
period = "10ms"
phase = "3ms"
budget = "1ms"
dormant = true

[endpoints.door]
server = "server"
"#;

/// Calls before the first start are answered as calls to a dead task, and no client is told of another life until there is a second; releases by the
/// clock are on the task's own grid.
#[test]
fn a_dormant_task_begins_when_it_is_started_and_again_when_it_has_ended() {
    let manifest = Manifest::parse(Path::new("dormant.toml"), DORMANT).unwrap_or_else(|errors| panic!("{errors}"));
    let report = simulate_with(&manifest, &Options::default(), 1_000 * MS).unwrap();
    let begun = |name: &str| times(&manifest, &report, Event::Restart, name).len();
    // The third start of the worker finds that it has begun.
    assert_eq!((begun("server"), begun("worker")), (2, 2));
    let lives: Vec<u32> = { report.records.iter() }
        .filter(|record| record.event == Event::Restart as u8)
        .map(|record| record.value)
        .collect();
    assert_eq!(lives, [0, 0, 1, 1], "a first life has number zero");
    // The first call, that after the end, and the first after the second start came to nothing.
    let answered = report.records.iter().filter(|record| record.event == Event::Reply as u8).count();
    assert_eq!(answered, 2, "requests were answered");
    let expected: Vec<u64> = (0..8).map(|number| (4 + 10 * number) * MS).collect();
    assert_eq!(times(&manifest, &report, Event::Release, "worker"), expected);
}

/// A dormant task that is given less, more seldom, has that from its next start on; its releases go on from the next one that there would have been, and none is
/// earlier than a period after the one before.
#[test]
fn a_dormant_task_has_the_budget_that_it_was_given_last() {
    let manifest = Manifest::parse(Path::new("dormant.toml"), DORMANT).unwrap_or_else(|errors| panic!("{errors}"));
    let director = manifest.system.tasks.iter().position(|task| task.name == "director").unwrap();
    let worker = common::handle(&manifest, director, "worker").unwrap();
    let call = |call: Call, words: [u64; 2], until| {
        let (number, reply) = (call as u64, Reply::Nobody);
        Request::Call { number, first: worker, second: 0, words, until, reply }
    };
    let plain = |number| call(number, [0; 2], Until::Never);
    let sleep = |span: u64| call(Call::SleepUntil, [0; 2], Until::After(span));
    let set = |budget, period| call(Call::SetReservation, [budget, period], Until::Never);
    let requests = vec![
        set(MS + 1, 10 * MS),
        set(MS, 10 * MS - 1),
        set(0, 10 * MS),
        set(MS / 2, 15 * MS),
        plain(Call::Start),
        set(MS, 10 * MS),
        // It ends behind the release at 34 ms.
        sleep(35 * MS),
        plain(Call::Stop),
        set(MS / 20, 20 * MS),
        plain(Call::Start),
        sleep(100 * MS),
    ];
    let programs = vec![(director, Program::Requests { requests, again_from: None })];
    let report = simulate_with(&manifest, &Options { programs, ..Options::default() }, 130 * MS).unwrap();
    let refused = Error::BadArgument as u64;
    let expected = [refused, refused, refused, 0, 0, Error::NotEnded as u64, 0, 0, 0, 0];
    assert_eq!(report.results[director][..], expected);
    // On a grid of 15 ms from its first release on, at 4 ms; the next one of that was at 49 ms. From then on there are 50 of the 100 us that a job takes, each 20 ms.
    let releases = times(&manifest, &report, Event::Release, "worker");
    assert_eq!(releases[..4], [4, 19, 34, 49].map(|at| at * MS));
    let throttles = times(&manifest, &report, Event::Throttle, "worker");
    assert_eq!(throttles, [49, 69, 89, 109, 129].map(|at| at * MS + MS / 20));
}

/// A supervisor that ends is the end of the system, as if the kernel had panicked.
#[test]
fn a_supervisor_that_ends_ends_the_system() {
    let system = common::system(1, "panic = \"halt\"");
    let text = system
        + "[supervisor]\ntask = \"director\"\n\
           [tasks.director]\nscript = [\"burn 1s\"]\ncluster = \"all\"\nclass = \"background\"\n\
           [tasks.server]\nscript = [\"burn 1ms\"]\ncluster = \"all\"\nclass = \"background\"\nrestart = \"always\"\n";
    let end = |name: &'static str| {
        let exit = [common::through(Call::Exit, 0)];
        let report = common::run_for(&text, fusee_simulator::Overheads::NONE, 100 * MS, &[(name, &exit, None)]).report;
        report.exit
    };
    assert_eq!(end("server"), None);
    assert_eq!(end("director"), Some(fusee_abi::trace::PANIC_CODE as u32));
}
