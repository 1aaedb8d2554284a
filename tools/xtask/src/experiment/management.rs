//! Managed against unmanaged: what engine locks, and bottom halves at the waiter's priority, are worth each.
//!
//! One CPU under EDF and a GPU with three engines. `control` computes only; `camera` and `lidar` copy in, run a kernel and
//! copy out before their deadlines; three hogs do the same as often as they can.
//!
//! # How the numbers were chosen
//!
//! Lengths of operations are round, and a hog's kernel is as long as the longest of the others. The rest follows, so that no
//! number is there to be tuned:
//!
//! - A hog's period is the sum of its operations: it can never complete more often.
//! - The deadlines of `camera` and `lidar` are the shortest in whole milliseconds for which they are proved, if each of
//!   their operations waits for one foreign one, the longest, and for the bottom halves of three completions. Waiting counts
//!   as execution; the test is the exact one for EDF on one CPU ([`tests`]).
//! - There are as many tokens as engines: with fewer one would rest, and more only bring variance (Elliott 2015, section 5.5). The
//!   deadlines are those without tokens.
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
    /// What it computes before its operations, and after them.
    burn: u64,
    /// Its operations: in, kernel, out.
    operations: [u64; 3],
}

const CONTROL_PERIOD: u64 = 1_000;
const CONTROL_BURN: u64 = 100;
/// Twice its computing.
const CONTROL_DEADLINE: u64 = 200;
const CAMERA: Client = Client {
    name: "camera",
    period: 20_000,
    deadline: 12_000,
    budget: 3_000,
    burn: 500,
    operations: [1_000, 2_000, 1_000],
};
const LIDAR: Client = Client {
    name: "lidar",
    period: 50_000,
    deadline: 38_000,
    budget: 6_000,
    burn: 1_000,
    operations: [1_000, 3_000, 1_000],
};
const HOG: Client =
    Client { name: "hog", period: 5_000, deadline: 1_000_000, budget: 500, burn: 0, operations: [1_000, 3_000, 1_000] };
const HOGS: usize = 3;
/// Engines in the order of a job's operations, with their indices in the device.
const ENGINES: [(&str, usize); 3] = [("ce_in", 1), ("ee", 0), ("ce_out", 2)];
const BOTTOM_HALF: u64 = 66;
/// First releases, in microseconds: until then the driver opens contexts.
const START: u64 = 10_000;

const FIFO: &str = "device FIFO";
const ONE_LOCK: &str = "one lock";
const FIXED: &str = "fixed";
const FIXED_ALONE: &str = "fixed, no hogs";
const MANAGED: &str = "managed";
const MANAGED_ALONE: &str = "managed, no hogs";
const GPUSYNC: &str = "managed, tokens";

/// Who may use an engine next, and at whose priority bottom halves run.
#[derive(Clone, Copy)]
struct Choice {
    managed: bool,
    /// Who may use the GPU at all.
    whole: Whole,
    /// The driver comes first, whoever waits.
    fixed: bool,
    hogs: bool,
}

/// What a job takes before its first operation, and gives back after its last.
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
            "managed, and a token for all operations of a job, three in all: GPUSync",
            Choice { whole: Whole::Token, ..managed },
        ),
    ];
    let system = |(name, about, choice)| System { name, about, manifest: manifest(name, choice, length) };
    all.into_iter().map(system).collect()
}

//--- What is measured

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

const MEASURES: [Measure; 13] = [
    measure("hog loops", Unit::PerSecond, true, |run| loops(run) / run.seconds()),
    measure("ce_in busy", Unit::Share, false, |run| busy(run, 0)),
    measure("ee busy", Unit::Share, true, |run| busy(run, 1)),
    measure("ce_out busy", Unit::Share, false, |run| busy(run, 2)),
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

/// Loops of all hogs.
fn loops(run: &Ended<'_>) -> f64 {
    (1..=HOGS).map(|number| run.task(&format!("{}{number}", HOG.name), Ledger::Jobs)).sum()
}

/// How much of the time an engine worked, by the jobs that are complete: also known where no lock is taken.
fn busy(run: &Ended<'_>, operation: usize) -> f64 {
    let of = |jobs: f64, client: &Client| jobs * client.operations[operation] as f64 / 1e6;
    let worked = of(loops(run), &HOG)
        + [&CAMERA, &LIDAR].map(|client| of(run.task(client.name, Ledger::Jobs), client)).iter().sum::<f64>();
    worked / run.seconds()
}

//--- What must hold

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
            loops(MANAGED) > loops(ONE_LOCK),
            format!("{:.1} loops a second, {:.1}", loops(MANAGED), loops(ONE_LOCK)),
        ),
        Condition::new("without management deadlines are missed", missed(FIFO) > 0.0, format!("{}", missed(FIFO))),
        Condition::new(
            "with management none is",
            missed(MANAGED) == 0.0 && found.value(MANAGED, "camera jobs") > 0.0,
            format!("{}", missed(MANAGED)),
        ),
        Condition {
            why_not: Some(
                "with three hogs all three tokens may be taken, and camera waits until a hog is done with all its operations; its \
                 deadline is proved for one operation at each engine",
            ),
            ..Condition::new("with tokens on top none is", missed(GPUSYNC) == 0.0, format!("{}", missed(GPUSYNC)))
        },
        // The longest response without hogs may have kernel paths that the job which waits for a bottom half has not.
        Condition::new(
            "at a fixed priority, bottom halves of hogs make control slower, by one of them but for one kernel path",
            control(FIXED) + path >= control(FIXED_ALONE) + bottom_half,
            format!("{}, {} without hogs", us(control(FIXED)), us(control(FIXED_ALONE))),
        ),
        Condition::new(
            "at the waiter's priority they do not, but for one kernel path",
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
    let _ = write!(
        text,
        "[tasks.control]\nscript = [\"burn {CONTROL_BURN}us\"]\nperiod = \"{CONTROL_PERIOD}us\"\n\
         deadline = \"{CONTROL_DEADLINE}us\"\nbudget = \"{}us\"\n",
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
    // Its only job begins at once and never ends, so its deadline is the earliest for ever.
    let class = if choice.fixed { "deadline = \"2ms\"" } else { "class = \"service\"" };
    let _ = write!(
        text,
        "[tasks.gpu]\nbinary = \"gpu-driver/gpu-driver\"\n{class}\nperiod = \"10ms\"\nbudget = \"2ms\"\n\
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
        let _ = write!(text, "[engines.{engine}]\ndevice = \"gpu\"\nindex = {index}\ninterrupt = \"gpu\"\n");
    }
    match choice.whole {
        Whole::Nothing => {}
        Whole::Mutex => text += "[engines.whole]\n",
        Whole::Token => {
            let _ = write!(text, "[pools.whole]\nreplicas = {}\nlimit = \"r2dglp\"\n", ENGINES.len());
        }
    }
    text
}

/// One client; it holds the mutex or a token from its first operation to its last.
fn task(name: &str, client: &Client, whole: Whole) -> String {
    let Client { period, deadline, budget, burn, operations, .. } = client;
    let burn = (*burn > 0).then(|| format!("burn {burn}us"));
    let lock = |verb: &str| (whole != Whole::Nothing).then(|| format!("{verb} whole"));
    let mut steps: Vec<String> = burn.clone().into_iter().chain(lock("acquire")).collect();
    for ((engine, _), operation) in ENGINES.iter().zip(operations) {
        steps.push(format!("acquire {engine}"));
        steps.push(format!("submit {engine} {operation}us gpu_done"));
        steps.push(format!("release {engine}"));
    }
    steps.extend(lock("release").into_iter().chain(burn));
    let mut text = format!(
        "[tasks.{name}]\nscript = {steps:?}\nperiod = \"{period}us\"\ndeadline = \"{deadline}us\"\nbudget = \"{budget}us\"\n\
         [tasks.{name}.handles]\ngpu_done = \"notification done_{name}: wait\"\n"
    );
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
    use fusee_sched::time::Nanoseconds;
    use fusee_sched_analysis::Task;
    use fusee_sched_analysis::uniprocessor::meets_demand;

    use super::*;

    /// Its jobs with all they may wait for, as if it were computed.
    fn inflated(client: &Client, deadline: u64) -> Task {
        let longest = |operation: usize| {
            let others = [&CAMERA, &LIDAR, &HOG].into_iter().filter(|other| other.name != client.name);
            others.map(|other| other.operations[operation]).max().unwrap_or(0)
        };
        let operations = (0..3).map(|one| client.operations[one] + longest(one) + 3 * BOTTOM_HALF).sum::<u64>();
        used(2 * client.burn + operations, client.period, deadline)
    }

    fn used(execution: u64, period: u64, deadline: u64) -> Task {
        let [execution, period, deadline] = [execution, period, deadline].map(|us| Nanoseconds(us * 1_000));
        Task { execution, period, deadline, priority: 0 }
    }

    fn proved(camera: u64, lidar: u64) -> bool {
        let control = used(CONTROL_BURN, CONTROL_PERIOD, CONTROL_DEADLINE);
        meets_demand(&[control, inflated(&CAMERA, camera), inflated(&LIDAR, lidar)]).expect("three tasks")
    }

    #[test]
    fn deadlines_are_the_shortest_that_are_proved() {
        assert!(proved(CAMERA.deadline, LIDAR.deadline));
        assert!(!proved(CAMERA.deadline - 1_000, LIDAR.deadline));
        assert!(!proved(CAMERA.deadline, LIDAR.deadline - 1_000));
    }

    #[test]
    fn a_hog_is_released_as_often_as_it_could_complete_alone() {
        assert_eq!(HOG.period, HOG.operations.iter().sum::<u64>());
    }
}
