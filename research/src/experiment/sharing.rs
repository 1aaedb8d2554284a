//! Clients without its lock that share one engine: by the device's own order, and by the policies of `accel/sharing`.
//!
//! Sources: Menychtas, Shen and Scott, ASPLOS 2014 (experiments X1 to X16 on the page), and Fleig, master's thesis, KIT 2016 (Y1 to Y9).
//!
//! # How it is measured
//!
//! The simulator runs the kernel and the sharer's own course, and a script for each client. *Slowdown* is the rate of a client's rounds alone, without
//! a sharer, by its rate beside the others. *Efficiency* is the sum of the inverse slowdowns, and a *loss* is the part of the efficiency of direct
//! access that a policy has not.
//!
//! # How the numbers were chosen
//!
//! All times of the papers are multiplied by [`SCALE`], as are those of the policies (`accel/sharing/src/parameters.rs`): the device's shortest command
//! takes longer than the papers' shortest requests. The device serves clients in turn, as the papers' did. Clients read their fence until a command has
//! ended, as the papers' libraries did, and have a CPU each; where there are more clients than CPUs they wait for the driver's notice instead. What the
//! papers leave open of the clients is at the head of `sharing/loads.toml`. The start of a client is drawn from one longest request.

mod classes;
mod cost;
mod emulated;
mod fair;
mod four;
mod group_cost;
mod idle;
mod limits;
mod nested;
mod pairs;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use fusee_campaigns::soundness::in_parallel;
use fusee_manifest::Manifest;
use fusee_simulator::workload::Source;
use fusee_simulator::{Checks, Options, Overheads, simulate_observed};
use serde::Deserialize;

use super::{Findings, Quantity, Unit};

pub use self::classes::EXPERIMENT as CLASSES;
pub use self::cost::EXPERIMENT as COST;
pub use self::emulated::{emulate, has_form, names as emulated_names};
pub use self::fair::EXPERIMENT as FAIR;
pub use self::four::EXPERIMENT as FOUR;
pub use self::group_cost::EXPERIMENT as GROUP_COST;
pub use self::idle::EXPERIMENT as IDLE;
pub use self::limits::EXPERIMENT as LIMITS;
pub use self::nested::EXPERIMENT as NESTED;
pub use self::pairs::EXPERIMENT as PAIRS;

/// The name of all of them, one after the other.
pub const ALL: &str = "sharing";
/// The question of all.
pub const ALL_QUESTION: &str = "all experiments of this kind, and the papers' numbers beside ours";

/// The factor between times here and in the papers.
const SCALE: u64 = 4;
/// A microsecond of the papers, in nanoseconds.
const MICROSECOND: u64 = 1_000 * SCALE;
/// The costs of kernel paths. A store that the sharer is asked about is three traps, and they have the time that was measured for all of it, the sharer's
/// own computing among it (`cargo xtask bench`); a test compares. Other paths cost nothing: [`Overheads::ROUND`] has those of slow traps, and a store goes
/// by fast ones.
const OVERHEADS: Overheads = Overheads { call_in: 400, call_out: 400, ..Overheads::NONE };
/// Rounds of a script before it begins again.
const ROUNDS: usize = 32;
/// The first release, in microseconds: until then the driver opens contexts.
pub(super) const START: u64 = 10_000;
/// CPUs of a board.
pub(super) const CPUS: usize = 8;
/// Where the requests of a client are drawn from; each client's start has a stream of its own below it.
const LENGTHS: u64 = 1 << 32;

//--- Loads

/// One line of the table of loads.
#[derive(Deserialize)]
struct Line {
    name: String,
    round: u64,
    requests: Vec<u64>,
}

#[derive(Deserialize)]
struct Lines {
    table: Vec<Line>,
}

/// The behaviour of a client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Load {
    name: String,
    /// Nanoseconds of each request of a round, in order.
    requests: Vec<u64>,
    /// Nanoseconds for which it is away after a round.
    away: u64,
    /// Whether lengths are drawn.
    varies: bool,
    /// Whether the requests of a round are submitted all at once.
    at_once: bool,
}

impl Load {
    /// The names of all programs of the table, in its order.
    fn names() -> Vec<String> {
        Self::lines().into_iter().map(|line| line.name).collect()
    }

    fn lines() -> Vec<Line> {
        let lines: Lines = toml::from_str(include_str!("sharing/loads.toml")).expect("the table of loads is TOML");
        lines.table
    }

    /// A program of the table.
    fn program(name: &str) -> Load {
        let line = Self::lines().into_iter().find(|line| line.name == name).expect("a program of the table");
        let once: u64 = line.requests.iter().sum();
        // Half of one more is where it comes nearer.
        let times = ((line.round + once / 2) / once).max(1);
        let requests = (0..times).flat_map(|_| line.requests.iter().map(|time| time * MICROSECOND)).collect();
        let away = line.round.saturating_sub(times * once) * MICROSECOND;
        Load { name: line.name, requests, away, varies: true, at_once: false }
    }

    /// The program with as many requests as fit into a round, and away for the rest of it.
    fn with_gaps(name: &str) -> Load {
        let line = Self::lines().into_iter().find(|line| line.name == name).expect("a program of the table");
        let once: u64 = line.requests.iter().sum();
        let whole = Self::program(name);
        let times = (line.round / once).max(1);
        let count = line.requests.len() * times as usize;
        let away = line.round.saturating_sub(times * once) * MICROSECOND;
        Load {
            name: format!("{name} with gaps"),
            away,
            requests: whole.requests.into_iter().take(count).collect(),
            ..whole
        }
    }

    /// One of the kinds of requests of a program that has several, alone.
    fn part(name: &str, kind: usize) -> Load {
        let whole = Self::program(name);
        let kinds = Self::lines().into_iter().find(|line| line.name == name).map_or(1, |line| line.requests.len());
        let requests = whole.requests.into_iter().skip(kind).step_by(kinds).collect();
        Load { name: format!("{name}.{kind}"), requests, away: 0, varies: true, at_once: false }
    }

    /// One request, and nothing for an hour.
    fn silent() -> Load {
        Load { away: 3_600_000_000_000, ..Self::throttle(100, 0) }
    }

    /// Blocking requests of so many microseconds of the papers, the client being away for that part of the time if it is alone.
    fn throttle(time: u64, percent_away: u64) -> Load {
        let request = time * MICROSECOND;
        let away = request * percent_away / (100 - percent_away);
        Load { name: "Throttle".to_owned(), requests: vec![request], away, varies: false, at_once: false }
    }

    /// So many requests at once, and as many again when the last has ended.
    fn queued(time: u64, count: usize) -> Load {
        Load { requests: vec![time * MICROSECOND; count], at_once: true, ..Self::throttle(time, 0) }
    }

    /// The requests of a script, round by round.
    fn drawn(&self, seed: u64) -> Vec<Vec<u64>> {
        let stream = self.name.bytes().fold(LENGTHS, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut source = Source::new(seed, stream);
        let mut length = |mean: u64| if self.varies { source.draw(mean - mean / 4, mean + mean / 4) } else { mean };
        (0..ROUNDS).map(|_| self.requests.iter().map(|mean| length(*mean)).collect()).collect()
    }

    /// The steps of its script.
    fn steps(&self, seed: u64, start: u64) -> Vec<String> {
        let mut steps = vec![format!("sleep {start}ns")];
        for round in self.drawn(seed) {
            let (last, earlier) = round.split_last().expect("a round has requests");
            let step = |time: &u64| match self.at_once {
                true => format!("start ee {time}ns"),
                false => format!("submit ee {time}ns gpu_done"),
            };
            steps.extend(earlier.iter().map(step));
            steps.push(format!("submit ee {last}ns gpu_done"));
            steps.extend((self.away > 0).then(|| format!("pause {}ns", self.away)));
        }
        steps.push("repeat".to_owned());
        steps
    }
}

//--- Systems

/// A client of the engine.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Client {
    load: Load,
    /// The group it stands in.
    group: Option<&'static str>,
    /// Its part of the turns of the device, compared with the others.
    turns: u32,
}

impl From<Load> for Client {
    fn from(load: Load) -> Client {
        Client { load, group: None, turns: 1 }
    }
}

/// One system.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Setup {
    clients: Vec<Client>,
    /// The policy of the sharer; without one clients have direct access.
    policy: Option<u64>,
    /// Further parameters of the sharer.
    parameters: Vec<(&'static str, u64)>,
    cpus: usize,
}

impl Setup {
    fn new(policy: Option<u64>, clients: impl IntoIterator<Item = impl Into<Client>>) -> Setup {
        let clients: Vec<Client> = clients.into_iter().map(Into::into).collect();
        // One more, for the driver and the sharer.
        let cpus = (clients.len() + 1).min(CPUS);
        Setup { clients, policy, parameters: Vec::new(), cpus }
    }

    /// One client, on one CPU: as in the system in which the price of a store was measured.
    fn alone(policy: Option<u64>, client: impl Into<Client>) -> Setup {
        Setup { cpus: 1, ..Setup::new(policy, [client.into()]) }
    }

    /// Nanoseconds of the longest mean request.
    fn longest(&self) -> u64 {
        self.clients.iter().flat_map(|client| &client.load.requests).max().copied().unwrap_or(0)
    }

    /// The manifest of the system, the clients of which may end after so many nanoseconds ([`emulated`]).
    fn manifest(&self, seed: u64, length: Option<u64>) -> String {
        let trace = if length.is_some() { "marks" } else { "off" };
        let mut text = format!(
            "[system]\nname = \"sharing\"\nboard = \"virt\"\ncpus = {}\nstart = \"{START}us\"\nadmission = \"warn\"\n\
             trace = \"{trace}\"\n",
            self.cpus
        );
        let longest = self.longest();
        for (index, client) in self.clients.iter().enumerate() {
            let start = START * 1_000 + Source::new(seed, index as u64).draw(0, longest);
            let _ = write!(
                text,
                "[tasks.c{index}]\nscript = {:?}\nclass = \"background\"\nhandles = {{ ee = \"engine ee: share\" }}\n",
                client.load.steps(seed, start)
            );
            text += &length.map(emulated::parameters).unwrap_or_default();
            if let Some(group) = client.group {
                let _ = writeln!(text, "shares.ee = {{ group = \"{group}\" }}");
            }
        }
        let mut groups: Vec<&str> = self.clients.iter().filter_map(|client| client.group).collect();
        groups.dedup();
        groups.iter().for_each(|group| text += &format!("[groups.{group}]\nengine = \"ee\"\n"));
        if let Some(policy) = self.policy {
            let parameters: String =
                self.parameters.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
            let _ = write!(
                text,
                "[tasks.sharer]\nbinary = \"sharer/sharer\"\nstack = \"32KiB\"\nclass = \"service\"\nperiod = \"10ms\"\n\
                 budget = \"4ms\"\nparameters = {{ policy = {policy}{parameters} }}\n\
                 handles = {{ requests = \"endpoint requests: receive\" }}\n[endpoints.requests]\nserver = \"sharer\"\n"
            );
        }
        // Turns in equal parts are those of round-robin.
        let turns = match self.clients.iter().all(|client| client.turns == 1) {
            true => "arbiter = \"round-robin\"\n".to_owned(),
            false => {
                let weights = self.clients.iter().enumerate();
                let weights: Vec<_> = weights.map(|(index, client)| format!("c{index} = {}", client.turns)).collect();
                format!("arbiter = \"weighted\"\nweights = {{ {} }}\n", weights.join(", "))
            }
        };
        text += &length.map(|length| emulated::end(length, emulated::REST)).unwrap_or_default();
        let contexts = if self.clients.len() < CPUS { "" } else { "contexts = 16\n" };
        let _ = write!(
            text,
            "[devices.gpu]\n{contexts}{turns}[engines.ee]\norder = \"fifo\"\nshared_longest = \"{longest}ns\"\n"
        );
        if self.policy.is_some() {
            text += "sharer = \"requests\"\n";
        }
        text
    }

    /// The requests of each client that were done within `length` nanoseconds, and the time that the sharer booked for it.
    fn run(&self, seed: u64, length: u64) -> Result<Counts> {
        let manifest = Manifest::parse(Path::new("sharing"), &self.manifest(seed, None))?;
        self.simulated(&manifest, self.clients.len() < CPUS, length)
    }

    /// Runs `manifest`, a form of the system, in the simulator; clients read their fence (`polls`) or wait for the driver's notice.
    fn simulated(&self, manifest: &Manifest, polls: bool, length: u64) -> Result<Counts> {
        let options = Options { overheads: OVERHEADS, checks: Checks::Instants(10_000), polls, ..Options::default() };
        let report = simulate_observed(manifest, &options, manifest.system.start + length, &mut |_| {})?;
        let task = |index: usize| manifest.system.tasks.iter().position(|task| task.name == format!("c{index}"));
        let of = |index| {
            let task = task(index)?;
            let done = report.commands.iter().find(|one| one.shares && one.task == task)?.retired;
            let booked = report.booked.iter().flatten().next().map_or(0, |shown| shown.members[index].used);
            Some((done, booked))
        };
        (0..self.clients.len()).map(|index| of(index).ok_or_else(|| anyhow!("client {index} has no context"))).collect()
    }
}

/// Requests that were done for each client, and the nanoseconds that the sharer booked for it.
type Counts = Vec<(u32, u64)>;

/// The outcome of one system, for each of its clients.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests that were done.
    requests: Vec<f64>,
    /// The rate alone, with direct access, by the rate here.
    slowdowns: Vec<f64>,
    /// The part of the time for which the engine worked for it.
    times: Vec<f64>,
    /// The part of the time that the sharer booked for it.
    booked: Vec<f64>,
}

impl Outcome {
    /// The sum of the inverse slowdowns.
    fn efficiency(&self) -> f64 {
        self.slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum()
    }

    /// The client's part of the time for which the engine worked.
    fn share(&self, client: usize) -> f64 {
        self.times[client] / self.times.iter().sum::<f64>()
    }
}

/// Runs of systems with one seed and of one length.
pub struct Runs {
    /// The seed of lengths and starts.
    pub seed: u64,
    /// Virtual nanoseconds of each.
    pub length: u64,
}

impl Runs {
    /// The outcomes of these systems, in order. Each load's run alone is done once.
    fn all(&self, setups: &[Setup]) -> Result<Vec<Outcome>> {
        let plan = Plan::of(setups);
        let systems = &plan.systems;
        let one = |done: &mut Vec<(usize, Result<Counts>)>, number: u64| {
            let number = number as usize;
            done.push((number, systems[number].run(self.seed, self.length)));
        };
        let mut done = in_parallel(systems.len() as u64, &one, |all, some| all.extend(some));
        done.sort_by_key(|(number, _)| *number);
        let done: Vec<Counts> = done
            .into_iter()
            .map(|(number, counts)| counts.with_context(|| format!("{:?}", systems[number])))
            .collect::<Result<_>>()?;
        Ok(plan.outcomes(self, &done))
    }
}

/// The systems to run for the outcomes of some.
struct Plan {
    systems: Vec<Setup>,
    /// The number of each wanted system, and the numbers of the runs of each of its clients alone.
    wanted: Vec<(usize, Vec<usize>)>,
}

impl Plan {
    fn of(setups: &[Setup]) -> Plan {
        let mut systems: Vec<Setup> = Vec::new();
        let mut places: HashMap<Setup, usize> = HashMap::new();
        let mut place = |setup: Setup| {
            *places.entry(setup).or_insert_with_key(|setup| {
                systems.push(setup.clone());
                systems.len() - 1
            })
        };
        let wanted = setups
            .iter()
            .map(|setup| {
                // With as many CPUs, if it is alone in any case.
                let cpus = if setup.clients.len() == 1 { setup.cpus } else { 2 };
                let alone = |client: &Client| Setup { cpus, ..Setup::new(None, [client.load.clone()]) };
                let alone = setup.clients.iter().map(|client| place(alone(client)));
                let alone = alone.collect();
                (place(setup.clone()), alone)
            })
            .collect();
        Plan { systems, wanted }
    }

    /// The outcomes of the wanted systems, in order, from the counts of all.
    fn outcomes(&self, runs: &Runs, done: &[Counts]) -> Vec<Outcome> {
        let outcome = |(own, alone): &(usize, Vec<usize>)| {
            let (setup, counts) = (&self.systems[*own], &done[*own]);
            let mean = |load: &Load| {
                let lengths = load.drawn(runs.seed).concat();
                lengths.iter().sum::<u64>() as f64 / lengths.len() as f64
            };
            Outcome {
                requests: counts.iter().map(|(count, _)| f64::from(*count)).collect(),
                // One that had nothing done is no faster than one request in the whole time.
                slowdowns: (counts.iter().zip(alone))
                    .map(|((count, _), alone)| f64::from(done[*alone][0].0) / f64::from((*count).max(1)))
                    .collect(),
                times: (counts.iter().zip(&setup.clients))
                    .map(|((count, _), client)| f64::from(*count) * mean(&client.load) / runs.length as f64)
                    .collect(),
                booked: counts.iter().map(|(_, booked)| *booked as f64 / runs.length as f64).collect(),
            }
        };
        self.wanted.iter().map(outcome).collect()
    }
}

//--- Findings

/// A row of the table, with its value in each column.
pub(super) struct Row {
    quantity: Quantity,
    values: Vec<f64>,
}

/// A row that the picture shows.
pub(super) fn row(name: &'static str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Row {
    Row { quantity: Quantity { name, unit, charted: true }, values: values.into_iter().collect() }
}

/// The findings with these columns and rows.
pub(super) fn findings(arrangements: Vec<(&'static str, &'static str)>, rows: Vec<Row>) -> Findings {
    let values = (0..arrangements.len()).map(|column| rows.iter().map(|row| row.values[column]).collect()).collect();
    Findings {
        arrangements,
        quantities: rows.into_iter().map(|row| row.quantity).collect(),
        values,
        further: Vec::new(),
    }
}

const DIRECT: &str = "direct";
const ENGAGED: &str = "engaged slices";
const SLICES: &str = "slices";
const SAMPLED: &str = "sampled";
const BACKLOG: &str = "backlog";
const COUNTED: &str = "counted";

/// Direct access and five policies: name, sentence, number.
const WAYS: [(&str, &str, Option<u64>); 6] = [
    (DIRECT, "the device serves all in turn, nobody decides", None),
    (ENGAGED, "timeslices of 120 ms, each store asked about (policy 1): the paper's engaged timeslice", Some(1)),
    (SLICES, "timeslices of 120 ms (policy 2): the paper's disengaged timeslice", Some(2)),
    (SAMPLED, "fair queueing by sampled sizes of requests (policy 3): the paper's disengaged fair queueing", Some(3)),
    (BACKLOG, "fair queueing by sampled sizes and counts, aware of backlogs (policy 4)", Some(4)),
    (COUNTED, "fair queueing by the device's counters (policy 5)", Some(5)),
];

fn ways() -> Vec<(&'static str, &'static str)> {
    WAYS.iter().map(|(name, about, _)| (*name, *about)).collect()
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().collect();
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_as_many_requests_as_come_nearest_or_as_fit_and_the_rest_of_it_the_client_is_away() {
        let shape = |load: &Load| (load.requests.len(), load.away / MICROSECOND);
        assert_eq!(shape(&Load::program("DCT")), (3, 0));
        assert_eq!(shape(&Load::with_gaps("DCT")), (2, 197 - 2 * 66));
        assert_eq!(shape(&Load::program("oclParticles")), (12, 2_006 - 6 * 314));
        assert_eq!(Load::part("oclParticles", 1).requests, vec![302 * MICROSECOND; 6]);
        assert_eq!(shape(&Load::throttle(430, 80)), (1, 4 * 430));
    }

    #[test]
    fn lengths_are_drawn_once_for_a_seed_and_keep_to_a_quarter_of_the_mean() {
        let load = Load::program("FFT");
        let drawn = load.drawn(1).concat();
        let mean = 48 * MICROSECOND;
        assert_eq!(drawn, load.drawn(1).concat());
        assert_ne!(drawn, load.drawn(2).concat());
        assert!(drawn.iter().all(|length| (mean - mean / 4..=mean + mean / 4).contains(length)));
        assert!(drawn.iter().any(|length| *length < mean) && drawn.iter().any(|length| *length > mean));
    }

    #[test]
    fn two_clients_with_equal_requests_that_are_served_in_turn_take_twice_as_long_and_have_half_each() {
        let pair = Setup::new(None, [Load::throttle(100, 0), Load::throttle(100, 0)]);
        let found = &Runs { seed: 1, length: 500_000_000 }.all(&[pair]).unwrap()[0];
        assert!(found.slowdowns.iter().all(|slowdown| (slowdown - 2.0).abs() < 0.02), "{found:?}");
        assert!((found.share(0) - 0.5).abs() < 0.01 && (found.efficiency() - 1.0).abs() < 0.02, "{found:?}");
    }
}
