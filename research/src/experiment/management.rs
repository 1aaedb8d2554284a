//! Managed against unmanaged: the worth of engine locks, and of bottom halves at the waiter's priority, each.
//!
//! One CPU under EDF and a GPU with three engines. `control` computes only; `camera` and `lidar` copy in, run a kernel and
//! copy out before their deadlines; hogs, in the background, do the same as often as they can.
//!
//! # How the numbers were chosen
//!
//! Periods and lengths of operations are round. Kernels of hogs are long, for then the order of clients has to be decided: an
//! operation cannot be preempted. With 3 ms in place of 10 nothing is late without management either, as five of them are
//! shorter then than all that a proof with tokens has to assume. The rest follows, so that no number is there to be tuned:
//!
//! - There are as many hogs as a device has room for, unless its manifest says otherwise: seven clients.
//! - Two tokens: one job can copy while another computes, and of two that want an engine by priority none passes the other again
//!   and again, so that waiting has a bound with any hogs.
//! - The deadlines of `camera` and `lidar` are the shortest in whole milliseconds that are above the bounds of `cargo xtask analyze` in the
//!   arrangement with tokens, which is GPUSync as the text has it, with the costs of kernel paths (`tests`). All other arrangements
//!   have the same. They are not proved: nothing says how often hogs, which have no jobs, let the driver work on budgets of others.
//! - The end of an operation takes two bottom halves: two jobs have tokens, and the driver serves one after the other.
//! - Budgets are three times the computing of a job: holders of objects that it waits for, and bottom halves, take from it.
//! - The bottom half takes the mean that was measured on Linux. Source: Elliott 2015, §4.3.1.1: mean 66.14, median 54.68, maximum
//!   1008.58 us. It is an input here, not a result, and constant: longer ones would only make the difference larger.

use std::fmt::Write;

use fusee_abi::trace::Ledger;
use fusee_kernel_core::limits::LONGEST_PATH;

use super::systems::{Ended, Measure, System};
use super::{Condition, Experiment, Findings, Kind, Quantity, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "management",
    question: "what does the management of a GPU give, beside its own queues, one lock, and bottom halves at a fixed priority?",
    length: 60_000_000_000,
    short: 3_000_000_000,
    kind: Kind::Systems(arrangements, &MEASURES),
    conditions,
};

/// A task that uses the GPU. Times in microseconds.
struct Client {
    name: &'static str,
    period: u64,
    deadline: u64,
    budget: u64,
    /// The time that it computes before its operations, and after them; a hog before them only.
    burn: u64,
    /// Its operations: in, kernel, out.
    operations: [u64; 3],
}

const CONTROL_PERIOD: u64 = 1_000;
const CONTROL_BURN: u64 = 100;
/// Three times its computing.
const CONTROL_DEADLINE: u64 = 300;
const CAMERA: Client = Client {
    name: "camera",
    period: 100_000,
    deadline: 51_000,
    budget: 3_000,
    burn: 500,
    operations: [500, 2_000, 500],
};
const LIDAR: Client = Client {
    name: "lidar",
    period: 200_000,
    deadline: 156_000,
    budget: 6_000,
    burn: 1_000,
    operations: [500, 3_000, 500],
};
/// A client with a budget that is only a time slice.
const HOG: Client =
    Client { name: "hog", period: 10_000, deadline: 10_000, budget: 1_000, burn: 500, operations: [500, 10_000, 500] };
/// Clients of a device, less `camera` and `lidar`.
const HOGS: usize = 5;
const TOKENS: u64 = 2;
/// Engines in the order of a job's operations, with their indices in the device.
const ENGINES: [(&str, usize); 3] = [("ce_in", 1), ("ee", 0), ("ce_out", 2)];
const BOTTOM_HALF: u64 = 66;
/// The declared time of the end of an operation: a bottom half, its interrupt and the driver's calls.
const COMPLETION: u64 = BOTTOM_HALF + 10;
/// The declared time of computing in a hold, and with a token besides: calls.
const CALLS: u64 = 20;
/// First releases, in microseconds: until then the driver opens contexts.
const START: u64 = 10_000;

const FIFO: &str = "device FIFO";
const ONE_LOCK: &str = "one lock";
const FIXED: &str = "fixed";
const FIXED_ALONE: &str = "fixed, no hogs";
const MANAGED: &str = "managed";
const MANAGED_ALONE: &str = "managed, no hogs";
const GPUSYNC: &str = "managed, tokens";

/// The order of an engine's users, and the priority of bottom halves.
#[derive(Clone, Copy)]
struct Choice {
    managed: bool,
    /// The clients that may use the GPU at all.
    whole: Whole,
    /// The driver comes first, with any waiters.
    fixed: bool,
    hogs: bool,
}

/// The object that a job takes before its first operation, and gives back after its last.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Whole {
    Nothing,
    /// The GPU is one resource, under a mutex.
    Mutex,
    /// A token of a pool.
    Token,
}

fn arrangements(length: u64) -> Vec<System> {
    let managed = Choice { managed: true, whole: Whole::Nothing, fixed: false, hogs: true };
    let fixed = Choice { fixed: true, ..managed };
    let all = [
        (FIFO, "clients ring as they like, the device's queues decide", Choice { managed: false, ..managed }),
        (ONE_LOCK, "a mutex from copy-in to copy-out, by priority", Choice { whole: Whole::Mutex, ..managed }),
        (FIXED, "engine locks by priority; the driver comes first, whoever waits", fixed),
        (FIXED_ALONE, "the same without hogs", Choice { hogs: false, ..fixed }),
        (MANAGED, "engine locks by priority; the driver works at the waiter's priority", managed),
        (MANAGED_ALONE, "the same without hogs", Choice { hogs: false, ..managed }),
        (
            GPUSYNC,
            "managed, and a token for all operations of a job, two in all: GPUSync",
            Choice { whole: Whole::Token, ..managed },
        ),
    ];
    let system = |(name, about, choice)| System { name, about, manifest: manifest(name, choice, length) };
    all.into_iter().map(system).collect()
}

// --- Measures

const fn measure(name: &'static str, unit: Unit, charted: bool, of: fn(&Ended<'_>) -> f64) -> Measure {
    Measure { quantity: Quantity { name, unit, charted }, of }
}

/// A quantity of one task.
macro_rules! of_task {
    ($task:literal, jobs) => {
        measure(concat!($task, " jobs"), Unit::Count, false, |run| run.task($task, Ledger::Jobs))
    };
    ($task:literal, missed) => {
        measure(concat!($task, " missed"), Unit::Count, true, |run| run.missed($task))
    };
    ($task:literal, response) => {
        measure(concat!($task, " response"), Unit::Time, true, |run| run.longest_response($task))
    };
}

const MEASURES: [Measure; 10] = [
    measure("hog loops", Unit::PerSecond, true, |run| loops(run) / run.seconds()),
    of_task!("control", jobs),
    of_task!("control", missed),
    of_task!("control", response),
    of_task!("camera", jobs),
    of_task!("camera", missed),
    of_task!("camera", response),
    of_task!("lidar", jobs),
    of_task!("lidar", missed),
    of_task!("lidar", response),
];

/// Loops of all hogs, by their computing time, also known where no lock is taken. Their calls count, too, so these are some
/// percent too many.
fn loops(run: &Ended<'_>) -> f64 {
    let computed = (1..=HOGS).map(|number| run.task(&format!("{}{number}", HOG.name), Ledger::ThreadTime));
    computed.sum::<f64>() / (HOG.burn * 1_000) as f64
}

// --- Conditions

fn conditions(found: &Findings) -> Vec<Condition> {
    let loops = |arrangement| found.value(arrangement, "hog loops");
    let missed = |arrangement| {
        ["control missed", "camera missed", "lidar missed"]
            .map(|name| found.value(arrangement, name))
            .iter()
            .sum::<f64>()
    };
    let control = |arrangement| found.value(arrangement, "control response");
    let us = |time: f64| format!("{:.1} us", time / 1e3);
    let (bottom_half, path) = ((BOTTOM_HALF * 1_000) as f64, LONGEST_PATH as f64);
    vec![
        Condition::new(
            "a lock for each engine lets the hogs do more than one lock",
            loops(GPUSYNC) > loops(ONE_LOCK),
            format!("{:.1} loops a second, {:.1}", loops(GPUSYNC), loops(ONE_LOCK)),
        ),
        Condition::new("without management deadlines are missed", missed(FIFO) > 0.0, format!("{}", missed(FIFO))),
        Condition::new(
            "with management, tokens and engine locks, none is",
            missed(GPUSYNC) == 0.0 && found.value(GPUSYNC, "camera jobs") > 0.0,
            format!("{}", missed(GPUSYNC)),
        ),
        Condition::new("nor is one with engine locks alone", missed(MANAGED) == 0.0, format!("{}", missed(MANAGED))),
        Condition::new(
            "at a fixed priority, bottom halves make control slower than at the waiter's, by one of them but for one kernel path",
            control(FIXED) + path >= control(MANAGED) + bottom_half,
            format!("{}, {}", us(control(FIXED)), us(control(MANAGED))),
        ),
        Condition::new(
            "at the waiter's priority hogs do not make it slower, but for one kernel path",
            control(MANAGED) <= control(MANAGED_ALONE) + path,
            format!("{}, {} without hogs", us(control(MANAGED)), us(control(MANAGED_ALONE))),
        ),
    ]
}

//--- The system

/// The system of one arrangement, which ends itself after `length` nanoseconds of releases.
fn manifest(name: &str, choice: Choice, length: u64) -> String {
    let managed = choice.managed;
    let name = name.replace([' ', ','], "-").replace("--", "-");
    let mut text = format!(
        "[system]\nname = \"management-{name}\"\nboard = \"virt\"\ncpus = 1\nstart = \"{START}us\"\nmanaged = {managed}\n"
    );
    // `control` waits for nothing.
    let (warns, hard) = match choice.whole {
        Whole::Token => ("admission = \"warn\"\n", "hard = true\n"),
        Whole::Nothing | Whole::Mutex => ("", ""),
    };
    text += warns;
    let _ = write!(
        text,
        "[tasks.control]\nscript = [\"burn {CONTROL_BURN}us\"]\nperiod = \"{CONTROL_PERIOD}us\"\n\
         deadline = \"{CONTROL_DEADLINE}us\"\nbudget = \"{}us\"\n{hard}",
        CONTROL_BURN * 3 / 2
    );
    let hogs = if choice.hogs { HOGS } else { 0 };
    let clients = [(CAMERA.name.to_owned(), &CAMERA), (LIDAR.name.to_owned(), &LIDAR)];
    let clients: Vec<(String, &Client)> =
        clients.into_iter().chain((1..=hogs).map(|number| (format!("{}{number}", HOG.name), &HOG))).collect();
    let mut notices = String::new();
    for (name, client) in &clients {
        text += &task(name, client, choice.whole);
        let _ = writeln!(notices, "\"done.{name}\" = \"notification done_{name}: signal\"");
        let bound = if choice.fixed { "" } else { "bound = \"gpu\"" };
        text += &format!("[notifications.done_{name}]\n{bound}\n");
    }
    // A fixed driver has a deadline so soon after each interrupt that it comes before `control` as long as that computes.
    let class = match choice.fixed {
        true => "deadline = \"190us\"\nperiod = \"1ms\"\nbudget = \"190us\"",
        false => "class = \"service\"\nperiod = \"10ms\"\nbudget = \"2ms\"",
    };
    let _ = write!(
        text,
        "[tasks.gpu]\nbinary = \"gpu-driver/gpu-driver\"\n{class}\n\
         parameters = {{ bottom_half_us = {BOTTOM_HALF} }}\n\
         [tasks.gpu.handles]\nline = \"interrupt gpu: acknowledge\"\nevent = \"notification gpu_event: wait\"\n\
         tables = \"region gpu_tables: read write physical\"\n{notices}"
    );
    let _ = write!(
        text,
        "[tasks.end]\nscript = [\"sleep {}us\", \"shutdown\"]\nclass = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"\n\
         handles = {{ system = \"system: shutdown\" }}\n",
        START + length / 1_000
    );
    text += "[notifications.gpu_event]\n[interrupts.gpu]\nline = 112\nnotification = \"gpu_event\"\nedge = true\n\
             [devices.gpu]\ndriver = \"gpu\"\nfirmware = \"engine-core\"\nmemory = \"64KiB\"\n\
             [regions.gpu_tables]\nbytes = \"16KiB\"\n";
    for (engine, index) in ENGINES {
        let _ = write!(
            text,
            "[engines.{engine}]\ndevice = \"gpu\"\nindex = {index}\ninterrupt = \"gpu\"\ncompletion = \"{COMPLETION}us\"\n"
        );
    }
    match choice.whole {
        Whole::Nothing => {}
        Whole::Mutex => text += "[engines.whole]\n",
        Whole::Token => {
            let _ = write!(text, "[pools.whole]\nreplicas = {TOKENS}\nlimit = \"r2dglp\"\n");
        }
    }
    text
}

/// One client; it holds the mutex or a token from its first operation to its last.
fn task(name: &str, client: &Client, whole: Whole) -> String {
    let Client { period, deadline, budget, burn, operations, .. } = client;
    let is_hog = client.name == HOG.name;
    let lock = |verb: &str| (whole != Whole::Nothing).then(|| format!("{verb} whole"));
    let mut steps: Vec<String> = std::iter::once(format!("burn {burn}us")).chain(lock("acquire")).collect();
    for ((engine, _), operation) in ENGINES.iter().zip(operations) {
        steps.push(format!("acquire {engine}"));
        steps.push(format!("submit {engine} {operation}us gpu_done"));
        steps.push(format!("release {engine}"));
    }
    steps.extend(lock("release"));
    steps.push(if is_hog { "repeat".to_owned() } else { format!("burn {burn}us") });
    let mut text = format!("[tasks.{name}]\nscript = {steps:?}\nperiod = \"{period}us\"\nbudget = \"{budget}us\"\n");
    text += &match is_hog {
        // Their operations are as long as is declared: a proof of others has to rely on that.
        true => format!("class = \"background\"\ntrusted = {}\n", whole == Whole::Token),
        false => format!("deadline = \"{deadline}us\"\nwcet = \"{}us\"\n", 2 * burn + 10 * CALLS),
    };
    if whole == Whole::Token {
        let _ = writeln!(text, "uses.whole = {{ cpu = \"{CALLS}us\" }}");
        for ((engine, _), operation) in ENGINES.iter().zip(operations) {
            let held = format!("cpu = \"{CALLS}us\", operation = \"{operation}us\", within = \"whole\"");
            let _ = writeln!(text, "uses.{engine} = {{ {held} }}");
        }
    }
    let _ = write!(text, "[tasks.{name}.handles]\ngpu_done = \"notification done_{name}: wait\"\n");
    for (engine, _) in ENGINES {
        let _ = writeln!(text, "{engine} = \"engine {engine}: acquire\"");
    }
    text += match whole {
        Whole::Nothing => "",
        Whole::Mutex => "whole = \"engine whole: acquire\"\n",
        Whole::Token => "whole = \"pool whole: acquire\"\n",
    };
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fusee_manifest::{Manifest, admission::Study};
    use fusee_sched_analysis::report::Hard;

    use super::*;

    /// Whether all deadlines of the arrangement with tokens are above their bounds if those of `camera` and `lidar` are these.
    fn bounded(camera: u64, lidar: u64) -> bool {
        let system = arrangements(EXPERIMENT.length).into_iter().find(|one| one.name == GPUSYNC).expect("there is one");
        let with = |text: &str, client: &Client, deadline: u64| {
            let deadline_of = |deadline: u64| format!("deadline = \"{deadline}us\"\n");
            assert!(text.contains(&deadline_of(client.deadline)));
            text.replace(&deadline_of(client.deadline), &deadline_of(deadline))
        };
        let text = with(&with(&system.manifest, &CAMERA, camera), &LIDAR, lidar).replace("hard = true\n", "");
        let manifest = Manifest::parse(Path::new(GPUSYNC), &text).expect("a good manifest");
        let study = Study::new(&manifest.system, 0).expect("a good cluster");
        assert_eq!((study.undeclared.len(), study.members.len()), (0, 3));
        let root = fusee_host::system::root().expect("a workspace");
        let costs = fusee_tool::analyze::read_overheads(&root.join("tests/bench/overheads.toml")).expect("costs");
        let (report, blocked) = study.analyse(&costs).expect("bounds");
        // Budgets would have to be longer than that: no hog says how often commands of it end.
        let last = |at: usize| study.reservations[at].execution + blocked[at].lends.0 <= study.reservations[at].budget;
        assert_eq!([0, 1, 2].map(last), [true, false, false]);
        report.tasks.iter().all(|task| task.hard == Hard::Proved)
    }

    #[test]
    fn deadlines_are_the_shortest_above_the_bounds_with_tokens() {
        assert!(bounded(CAMERA.deadline, LIDAR.deadline));
        assert!(!bounded(CAMERA.deadline - 1_000, LIDAR.deadline));
        assert!(!bounded(CAMERA.deadline, LIDAR.deadline - 1_000));
    }

    #[test]
    fn there_are_as_many_clients_as_a_device_has_room_for() {
        assert_eq!(HOGS + 2, fusee_accel_contract::Contexts::DEFAULT.number() - 1);
    }
}
