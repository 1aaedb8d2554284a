//! Virtual GPUs: parts of an engine's time by three rules, and of a device's memory.
//!
//! Source: Kato, McThrow, Maltzahn and Brandt, *Gdev: First-Class GPU Resource Management in the Operating System*, USENIX ATC 2012 (E9 to E13).
//!
//! # How it is measured
//!
//! The simulator runs the kernel and the sharer's own course, and a script for each client: a kernel (or a copy), then a pause, the *think time*, and again.
//! Every store of a client is answered by the sharer, and the command begins then. So the work of a client in a window is the sum of its commands' lengths
//! from these answers on, as far as they lie in the window. Windows are a second long. The *error* is the mean, over windows and clients, of the
//! difference between a client's part of the time and the part that it should have.
//!
//! # How the numbers were chosen
//!
//! The text has no lengths of kernels: the short ones are 1 and 2 ms here, the long ones 20 and 50 ms. Period and wait are the text's. The sharer looks at a
//! running command each [`LOOK`] microseconds. Kernel paths are without cost, so a think time is the whole time between a completion and the next request.

mod bandwidth;
mod four;
mod memory;
mod queues;

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use fusee_abi::trace::{Event, Record};
use fusee_campaigns::soundness::in_parallel;
use fusee_manifest::Manifest;
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, Options, simulate_observed};

pub use self::bandwidth::EXPERIMENT as BANDWIDTH;
pub use self::four::EXPERIMENT as FOUR;
pub use self::memory::EXPERIMENT as MEMORY;
pub use self::queues::EXPERIMENT as QUEUES;
use super::sharing::{CPUS, START};

/// The name of all of them, one after the other.
pub const ALL: &str = "gdev";
/// The question of all.
pub const ALL_QUESTION: &str = "all experiments of virtual GPUs, and the paper's numbers beside ours";

/// Microseconds between two looks of the sharer at a running command.
const LOOK: u64 = 50;
/// Nanoseconds of a window.
const WINDOW: u64 = 1_000_000_000;

const FIFO: &str = "FIFO";
const CREDIT: &str = "Credit";
const BAND: &str = "BAND";

/// The rules: name, sentence, number of the sharer's policy.
const RULES: [(&str, &str, u64); 3] = [
    (FIFO, "virtual GPUs in turn, request by request (policy 6)", 6),
    (CREDIT, "the head of the queue stays until its credit is used up (policy 7)", 7),
    (BAND, "by credit and use, and a wait of 500 us for short requests (policy 8): the paper's", 8),
];

fn rules() -> Vec<(&'static str, &'static str)> {
    RULES.iter().map(|(name, about, _)| (*name, *about)).collect()
}

/// The engine of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum On {
    Compute,
    Copy,
}

/// A client: commands one after the other, then it thinks.
#[derive(Clone, Debug)]
struct Client {
    /// Microseconds of each command of a round, with its kind.
    round: Vec<(On, u64)>,
    think: u64,
    /// Nanoseconds after the start of the system.
    begins: u64,
    gpu: Option<&'static str>,
}

impl Client {
    fn of(kernel: u64, think: u64) -> Client {
        Client { round: vec![(On::Compute, kernel)], think, begins: 0, gpu: None }
    }
}

/// A job with a deadline on the same engine.
#[derive(Clone, Copy, Debug)]
struct RealTime {
    /// Microseconds.
    period: u64,
    operation: u64,
}

/// One system.
#[derive(Clone, Debug)]
struct System {
    clients: Vec<Client>,
    policy: u64,
    /// Whether copies have an engine and a sharer of their own; otherwise they are commands of the execution engine.
    has_copy_engine: bool,
    real_time: Option<RealTime>,
}

/// The outcome of one system.
#[derive(Debug)]
struct Outcome {
    /// By client: when each command began, its length, and where it ran.
    commands: Vec<Vec<(u64, u64, On)>>,
    missed: u64,
    late_completions: u32,
}

impl Outcome {
    /// The part of the time from `from` to `to` for which the engine worked for the client.
    fn part(&self, client: usize, on: On, from: u64, to: u64) -> f64 {
        let of = self.commands[client].iter().filter(|(.., kind)| *kind == on);
        let worked = of.map(|(begin, length, _)| (begin + length).min(to).saturating_sub((*begin).max(from)));
        worked.sum::<u64>() as f64 / (to - from) as f64
    }

    /// The mean difference between a client's part of a window and `aim`.
    fn error(&self, aim: f64, from: u64, to: u64) -> f64 {
        let windows = (to - from) / WINDOW;
        let begins = (0..windows).map(|window| from + window * WINDOW);
        let off = |begin: u64| {
            (0..self.commands.len())
                .map(move |client| (self.part(client, On::Compute, begin, begin + WINDOW) - aim).abs())
        };
        begins.flat_map(off).sum::<f64>() / (windows as usize * self.commands.len()) as f64
    }
}

impl System {
    fn new(policy: u64, clients: Vec<Client>) -> System {
        System { clients, policy, has_copy_engine: false, real_time: None }
    }

    fn engine(&self, on: On) -> &'static str {
        if on == On::Copy && self.has_copy_engine { "ce" } else { "ee" }
    }

    /// Microseconds of the longest command.
    fn longest(&self) -> u64 {
        self.clients.iter().flat_map(|client| &client.round).map(|(_, length)| *length).max().unwrap_or(0)
    }

    fn engines(&self) -> &'static [&'static str] {
        if self.has_copy_engine { &["ee", "ce"] } else { &["ee"] }
    }

    fn manifest(&self, seed: u64) -> String {
        // One more, for the driver, the sharers and real time.
        let cpus = (self.clients.len() + 1).min(CPUS);
        let mut text = format!(
            "[system]\nname = \"gdev\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"{START}us\"\nadmission = \"warn\"\n"
        );
        let longest = self.longest();
        for (index, client) in self.clients.iter().enumerate() {
            let begin = START * 1_000 + client.begins + Source::new(seed, index as u64).draw(0, longest * 1_000);
            let mut steps = vec![format!("sleep {begin}ns")];
            for (on, length) in &client.round {
                steps.push(format!("submit {} {length}us gpu_done", self.engine(*on)));
            }
            steps.push(format!("pause {}us", client.think));
            steps.push("repeat".to_owned());
            let handles = self.engines().iter().map(|engine| format!("{engine} = \"engine {engine}: share\""));
            let handles = handles.collect::<Vec<_>>().join(", ");
            let _ = write!(
                text,
                "[tasks.c{index}]\nscript = {steps:?}\nclass = \"background\"\nhandles = {{ {handles} }}\n"
            );
            if let Some(gpu) = client.gpu {
                let _ = writeln!(text, "shares.ee = {{ group = \"{gpu}\" }}");
            }
        }
        let mut gpus: Vec<&str> = self.clients.iter().filter_map(|client| client.gpu).collect();
        gpus.dedup();
        gpus.iter().for_each(|gpu| text += &format!("[groups.{gpu}]\nengine = \"ee\"\n"));
        if let Some(RealTime { period, operation }) = self.real_time {
            let _ = write!(
                text,
                "[tasks.rt]\nscript = [\"acquire ee\", \"submit ee {operation}us gpu_done\", \"release ee\"]\n\
                 period = \"{period}us\"\nbudget = \"1ms\"\nuses.ee = {{ cpu = \"100us\", operation = \"{operation}us\" }}\n\
                 handles = {{ ee = \"engine ee: acquire\" }}\n"
            );
        }
        let memory = if self.has_copy_engine { "copy_engines = 1\nmemory = \"64KiB\"\n" } else { "" };
        let contexts = if self.clients.len() < CPUS { "" } else { "contexts = 16\n" };
        let _ = write!(text, "[devices.gpu]\n{memory}{contexts}arbiter = \"round-robin\"\n");
        for (index, engine) in self.engines().iter().enumerate() {
            let _ = write!(
                text,
                "[tasks.sharer_{engine}]\nbinary = \"sharer/sharer\"\nstack = \"32KiB\"\nclass = \"service\"\nperiod = \"10ms\"\n\
                 budget = \"4ms\"\nparameters = {{ policy = {}, sample_poll_us = {LOOK} }}\n\
                 handles = {{ requests = \"endpoint requests_{engine}: receive\" }}\n[endpoints.requests_{engine}]\n\
                 server = \"sharer_{engine}\"\n[engines.{engine}]\ndevice = \"gpu\"\nindex = {index}\norder = \"fifo\"\nshared_longest = \"{longest}us\"\n\
                 sharer = \"requests_{engine}\"\n",
                self.policy
            );
        }
        text
    }

    fn run(&self, seed: u64, length: u64) -> Result<Outcome> {
        let manifest = Manifest::parse(Path::new("gdev"), &self.manifest(seed))?;
        let options = Options { checks: Checks::Instants(10_000), ..Options::default() };
        let tasks = &manifest.system.tasks;
        let client = |thread: u16| {
            let name = tasks.get(usize::from(thread).checked_sub(1)?)?.name.strip_prefix('c')?;
            name.parse::<usize>().ok().filter(|index| *index < self.clients.len())
        };
        let clients: Vec<Option<usize>> = (0..=tasks.len() as u16).map(client).collect();
        let mut commands: Vec<Vec<(u64, u64, On)>> = vec![Vec::new(); self.clients.len()];
        let mut missed = 0;
        let begin = manifest.system.start;
        let report = simulate_observed(&manifest, &options, begin + length, &mut |record: &Record| {
            if record.event == Event::Reply as u8
                && let Some(client) = clients.get(usize::from(record.thread)).copied().flatten()
            {
                let round = &self.clients[client].round;
                let (on, length) = round[commands[client].len() % round.len()];
                commands[client].push((record.time.saturating_sub(begin), length * 1_000, on));
            }
            missed += u64::from(record.event == Event::Complete as u8 && record.lateness() > 0);
            missed += u64::from(record.event == Event::Skip as u8);
        })?;
        Ok(Outcome { commands, missed, late_completions: report.late_completions })
    }
}

/// The outcomes of these systems, in order.
fn run_all(systems: &[System], seed: u64, length: u64) -> Result<Vec<Outcome>> {
    let one = |done: &mut Vec<(usize, Result<Outcome>)>, number: u64| {
        done.push((number as usize, systems[number as usize].run(seed, length)));
    };
    let mut done = in_parallel(systems.len() as u64, &one, |all, some| all.extend(some));
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_that_of_the_part_of_a_command_which_lies_in_the_window() {
        let commands = vec![vec![(0, 100, On::Compute), (150, 100, On::Copy), (900, 200, On::Compute)]];
        let outcome = Outcome { commands, missed: 0, late_completions: 0 };
        assert!((outcome.part(0, On::Compute, 0, 1_000) - 0.2).abs() < 1e-9);
        assert!((outcome.part(0, On::Compute, 50, 1_050) - 0.2).abs() < 1e-9);
        assert!((outcome.part(0, On::Copy, 200, 300) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_client_alone_has_all_but_its_think_time_and_the_looks() {
        let system = System::new(8, vec![Client::of(1_000, 200)]);
        let outcome = system.run(1, 100_000_000).unwrap();
        let part = outcome.part(0, On::Compute, 10_000_000, 90_000_000);
        assert!((part - 1_000.0 / 1_200.0).abs() < 0.01, "{part}");
    }
}
