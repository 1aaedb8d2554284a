//! Graphs that share one GPU: how evenly the last node of each completes, and how long a frame is under way.
//!
//! Source: Elliott 2015, section 5.5.3, tables 5.2 to 5.14 and figures 5.10 to 5.22. The workload, with the numbers that the text leaves open, is
//! [`fusee_campaigns::video`]. The text's second measurement is another run than its first; here both are the same.
//!
//! # The kernel
//!
//! 136 tasks share the pool, where a kernel for a board has room for 20: with so many, its longest path would be far longer than the one that is
//! measured and promised. So the kernel of these runs is compiled with other limits, feature `large`, and is not that of `xtask`: each arrangement is a process of
//! its own, the program `video` of the simulator. All else is the same code.
//!
//! # How it is measured
//!
//! Both as in the text: the gap between two completions of a graph's last node, by its clock, and from the release of the first node to that completion. Both are counted in the
//! graph's periods. Numbers of gaps are means over graphs. Frames that should be complete and are not are dropped. The first two seconds do not count: until
//! then pipelines fill.
//!
//! # No bound
//!
//! Nothing is proved of this workload, and nothing could be by counting a suspension as execution: 5.76 CPUs and 66 % of an engine are more than six.

mod curves;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fusee_campaigns::soundness::in_parallel;
use fusee_campaigns::video::{Outcome, Scheduling, Setup, Sharing, WITH_TOKEN};

use super::{Condition, Experiment, Findings, Further, Kind, Quantity, Unit};
use fusee_host::project::Project;

/// How even completions are.
pub const GRAPHS: Experiment = Experiment {
    name: "graphs",
    question: "how even are completions of seventeen graphs on one GPU, by tokens, order of locks, and policy of CPUs?",
    length: 60_000_000_000,
    short: 15_000_000_000,
    kind: Kind::Graphs(arrangements, &GAPS, curves::gaps),
    conditions: conditions_on_gaps,
};

/// How long frames are under way.
pub const LATENCY: Experiment = Experiment {
    name: "latency",
    question: "how long is a frame of them under way from the first node to the last?",
    length: 60_000_000_000,
    short: 6_000_000_000,
    kind: Kind::Graphs(early_and_not, &LATENCIES, curves::latencies),
    conditions: conditions_on_latencies,
};

/// Until then pipelines fill.
const WARM_UP: u64 = 2_000_000_000;

const SLICES: &str = "background";
const FIXED: &str = "fixed priority";
const POLLED: &str = "C-EDF, polled";
const ONE: [&str; 2] = ["(1,6,FIFO)", "(1,6,PRIO)"];
const TWO: [&str; 2] = ["(2,3,FIFO)", "(2,3,PRIO)"];
const THREE: [&str; 2] = ["(3,2,FIFO)", "(3,2,PRIO)"];
const SIX: [&str; 2] = ["(6,1,FIFO)", "(6,1,PRIO)"];
const EARLY: [&str; 2] = ["(3,2,FIFO), early", "(6,1,FIFO), early"];
const TWO_LONGER: &str = "(2,3,FIFO), 20 %";
const UNMANAGED: [&str; 3] = [SLICES, FIXED, POLLED];

/// One way to run the graphs, with its name, and in a sentence.
pub type Arrangement = (&'static str, &'static str, Setup);

fn arrangements() -> Vec<Arrangement> {
    let polled = |scheduling| Setup { scheduling, sharing: Sharing::Polled, with_token: WITH_TOKEN, early: false };
    let mut all = vec![
        (
            SLICES,
            "in the background by turns of 3 ms; who waits for the GPU looks until it is done",
            polled(Scheduling::Slices),
        ),
        (FIXED, "by base priority and depth; the same", polled(Scheduling::Fixed)),
    ];
    all.extend(by_deadline());
    let (_, _, setup) = all.iter().find(|one| one.0 == TWO[0]).expect("it is one of them");
    all.push((
        TWO_LONGER,
        "the same, with 20 % of a node's computing with its token, in place of 5 %",
        Setup { with_token: 200, ..*setup },
    ));
    all
}

fn by_deadline() -> Vec<Arrangement> {
    let setup = |sharing| Setup { scheduling: Scheduling::Edf, sharing, with_token: WITH_TOKEN, early: false };
    let managed = |tokens, by_priority| setup(Sharing::Managed { tokens, by_priority });
    vec![
        (POLLED, "by deadline; who waits for the GPU looks until it is done", setup(Sharing::Polled)),
        (ONE[0], "by deadline, one token, six requests in its queue; engine locks by arrival", managed(1, false)),
        (ONE[1], "engine locks by priority", managed(1, true)),
        (TWO[0], "two tokens, three requests in each queue; by arrival", managed(2, false)),
        (TWO[1], "by priority", managed(2, true)),
        (THREE[0], "three tokens, two requests in each queue; by arrival", managed(3, false)),
        (THREE[1], "by priority", managed(3, true)),
        (SIX[0], "six tokens, one request in each queue; by arrival", managed(6, false)),
        (SIX[1], "by priority", managed(6, true)),
    ]
}

/// All of them, and two with nodes that begin early.
fn early_and_not() -> Vec<Arrangement> {
    let mut all = by_deadline();
    for (name, of) in [(EARLY[0], THREE[0]), (EARLY[1], SIX[0])] {
        let (_, _, setup) = all.iter().find(|one| one.0 == of).expect("it is one of them");
        all.push((name, "the same, and nodes begin early", Setup { early: true, ..*setup }));
    }
    all
}

//--- Running it

/// A quantity of a run.
pub struct Measure {
    /// The quantity.
    pub quantity: Quantity,
    /// Its value.
    pub of: fn(&Run) -> f64,
}

const fn measure(name: &'static str, unit: Unit, charted: bool, of: fn(&Run) -> f64) -> Measure {
    Measure { quantity: Quantity { name, unit, charted }, of }
}

/// Files besides the table: of all arrangements, by name.
pub type Files = fn(&[(&'static str, Run)]) -> Vec<Further>;

/// Runs all arrangements, as many at a time as there are CPUs.
pub fn simulate(
    arrangements: &[Arrangement],
    measures: &[Measure],
    files: Files,
    seed: u64,
    length: u64,
) -> Result<Findings> {
    let project = Project::fusee()?;
    let program = build(&project)?;
    let one = |done: &mut Vec<(u64, Result<Run>)>, number: u64| {
        let (name, _, setup) = &arrangements[number as usize];
        done.push((number, run(&program, *setup, seed, length).context(*name)));
    };
    let mut done = in_parallel(arrangements.len() as u64, &one, |all, some| all.extend(some));
    done.sort_by_key(|(number, _)| *number);
    let runs = done.into_iter().map(|(number, run)| Ok((arrangements[number as usize].0, run?)));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    let values = |run: &Run| measures.iter().map(|measure| (measure.of)(run)).collect();
    Ok(Findings {
        arrangements: arrangements.iter().map(|(name, about, _)| (*name, *about)).collect(),
        quantities: measures.iter().map(|measure| measure.quantity).collect(),
        values: runs.iter().map(|(_, run)| values(run)).collect(),
        further: files(&runs),
    })
}

/// Compiles the program with a kernel that has room for so many.
fn build(project: &Project) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--package", "fusee-campaigns", "--bin", PROGRAM, "--features", "large"]);
    command.arg("--target-dir").arg(&project.target).current_dir(&project.root);
    ensure!(command.status()?.success(), "`{PROGRAM}` does not build with larger limits");
    Ok(project.target.join("debug").join(PROGRAM))
}

const PROGRAM: &str = "video";

fn run(program: &Path, setup: Setup, seed: u64, length: u64) -> Result<Run> {
    let length = length + WARM_UP;
    let output =
        Command::new(program).args(setup.words()).args([seed, length].map(|number| number.to_string())).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome = Outcome::of_lines(&String::from_utf8(output.stdout)?).context("it broke off")?;
    Ok(Run::new(outcome, length))
}

// --- Results

/// The results of a run, from the end of its warm-up on.
pub struct Run {
    /// The period of each graph in nanoseconds, and its gaps between completions, in periods, the least first.
    graphs: Vec<(u64, Vec<f64>)>,
    /// The share of missing frames of each graph.
    dropped: Vec<f64>,
    /// Latencies in periods, in the order of completion.
    latencies: Vec<f64>,
    /// The values, the least first.
    sorted: Vec<f64>,
    /// CPUs that were busy, and tokens that were held, on average; not a number if there are none.
    busy: f64,
    held: f64,
    /// How long the nodes of a frame wait for tokens, and for engines, in sum, nanoseconds.
    waited: [f64; 2],
    throttles: u64,
}

impl Run {
    fn new(outcome: Outcome, length: u64) -> Run {
        let Outcome { graphs, busy, held, waited, throttles } = outcome;
        let frames = graphs.iter().map(|frames| frames.done.len()).sum::<usize>() as f64;
        let (mut gaps, mut dropped, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
        for frames in graphs {
            let period = frames.period as f64;
            let done: Vec<_> = frames.done.into_iter().filter(|[_, done]| *done >= WARM_UP).collect();
            let due = (length - WARM_UP) as f64 / period;
            dropped.push((1.0 - done.len() as f64 / due).max(0.0));
            latencies.extend(done.iter().map(|[release, done]| (*done, (done - release) as f64 / period)));
            gaps.push((frames.period, sorted(done.windows(2).map(|pair| (pair[1][1] - pair[0][1]) as f64 / period))));
        }
        latencies.sort_by_key(|(done, _)| *done);
        let latencies: Vec<f64> = latencies.into_iter().map(|(_, latency)| latency).collect();
        let sorted = sorted(latencies.iter().copied());
        let [busy, held] = [busy, held].map(|sum| if sum == 0 { f64::NAN } else { sum as f64 / length as f64 });
        let waited = waited.map(|sum| if held > 0.0 { sum as f64 / frames } else { f64::NAN });
        Run { graphs: gaps, dropped, latencies, sorted, busy, held, waited, throttles }
    }

    /// The mean over graphs that completed more than two frames.
    fn mean(&self, of: fn(&[f64]) -> f64) -> f64 {
        self.mean_of(0..u64::MAX, of)
    }

    /// The mean of graphs with periods in milliseconds that are some of these.
    fn mean_of(&self, periods: Range<u64>, of: fn(&[f64]) -> f64) -> f64 {
        let counts = |(period, gaps): &&(u64, Vec<f64>)| periods.contains(&(period / 1_000_000)) && gaps.len() > 1;
        mean(&self.graphs.iter().filter(counts).map(|(_, gaps)| of(gaps)).collect::<Vec<_>>())
    }

    /// The mean over graphs of this period, in milliseconds.
    fn dropped(&self, period: u64) -> f64 {
        let of = self.graphs.iter().zip(&self.dropped).filter(|((own, _), _)| *own == period * 1_000_000);
        mean(&of.map(|(_, dropped)| *dropped).collect::<Vec<_>>())
    }

    /// The median latency of the second half of frames, by that of the first.
    fn growth(&self) -> f64 {
        let (first, second) = self.latencies.split_at(self.latencies.len() / 2);
        let [first, second] = [first, second].map(|half| quantile(&sorted(half.iter().copied()), 0.5));
        second / first
    }

    /// From the latency of one frame in a thousand to that of all but one.
    fn spread(&self) -> f64 {
        quantile(&self.sorted, 0.999) - quantile(&self.sorted, 0.001)
    }

    /// The largest part of the spread in which only 3 % of the frames are, of the tenth with the longest latencies.
    fn shelf(&self) -> f64 {
        let at = |thousandth: u32| quantile(&self.sorted, f64::from(thousandth) / 1_000.0);
        (900..=969).map(|from| at(from + 30) - at(from)).fold(0.0, f64::max) / self.spread()
    }

    fn above(&self, periods: f64) -> f64 {
        let from = self.sorted.partition_point(|latency| *latency <= periods);
        (self.sorted.len() - from) as f64 / self.sorted.len() as f64
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The least of sorted values that so large a share does not exceed; not a number without any.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    (values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

const DROPPED: &str = "dropped";
const DROPPED_BY_PERIOD: [&str; 6] =
    ["dropped, 20 ms", "dropped, 30 ms", "dropped, 40 ms", "dropped, 60 ms", "dropped, 80 ms", "dropped, 100 ms"];
const SIGMA: &str = "gap, sigma";
const SIGMA_FAST: &str = "sigma, 20 to 60 ms";
const SIGMA_SLOW: &str = "sigma, 80, 100 ms";
const BUSY: &str = "CPUs busy";
const HELD: &str = "tokens held";
const TOKEN_WAIT: &str = "tokens awaited";
const ENGINE_WAIT: &str = "engines awaited";

const GAPS: [Measure; 20] = [
    measure(DROPPED, Unit::Share, true, |run| mean(&run.dropped)),
    measure(DROPPED_BY_PERIOD[0], Unit::Share, false, |run| run.dropped(20)),
    measure(DROPPED_BY_PERIOD[1], Unit::Share, false, |run| run.dropped(30)),
    measure(DROPPED_BY_PERIOD[2], Unit::Share, false, |run| run.dropped(40)),
    measure(DROPPED_BY_PERIOD[3], Unit::Share, false, |run| run.dropped(60)),
    measure(DROPPED_BY_PERIOD[4], Unit::Share, false, |run| run.dropped(80)),
    measure(DROPPED_BY_PERIOD[5], Unit::Share, false, |run| run.dropped(100)),
    measure("gap, most", Unit::Fine, false, |run| run.mean(|gaps| quantile(gaps, 1.0))),
    measure("gap, 99.9 %", Unit::Fine, false, |run| run.mean(|gaps| quantile(gaps, 0.999))),
    measure("gap, 99 %", Unit::Fine, true, |run| run.mean(|gaps| quantile(gaps, 0.99))),
    measure("gap, median", Unit::Fine, true, |run| run.mean(|gaps| quantile(gaps, 0.5))),
    measure("gap, mean", Unit::Fine, false, |run| run.mean(mean)),
    measure(SIGMA, Unit::Fine, true, |run| run.mean(deviation)),
    measure(SIGMA_FAST, Unit::Fine, false, |run| run.mean_of(20..61, deviation)),
    measure(SIGMA_SLOW, Unit::Fine, false, |run| run.mean_of(80..101, deviation)),
    measure(BUSY, Unit::Fine, false, |run| run.busy),
    measure(HELD, Unit::Fine, false, |run| run.held),
    measure(TOKEN_WAIT, Unit::Time, false, |run| run.waited[0]),
    measure(ENGINE_WAIT, Unit::Time, false, |run| run.waited[1]),
    measure("budgets ended", Unit::Count, false, |run| run.throttles as f64),
];

const MEDIAN: &str = "median";
const MOST: &str = "most";
const SPREAD: &str = "spread";
const SHELF: &str = "shelf";
const GROWTH: &str = "growth";

const LATENCIES: [Measure; 12] = [
    measure("0.1 %", Unit::Fine, false, |run| quantile(&run.sorted, 0.001)),
    measure(MEDIAN, Unit::Fine, true, |run| quantile(&run.sorted, 0.5)),
    measure("95 %", Unit::Fine, false, |run| quantile(&run.sorted, 0.95)),
    measure("99.9 %", Unit::Fine, false, |run| quantile(&run.sorted, 0.999)),
    measure(MOST, Unit::Fine, false, |run| quantile(&run.sorted, 1.0)),
    measure(SPREAD, Unit::Fine, true, Run::spread),
    measure(SHELF, Unit::Share, true, Run::shelf),
    measure("above 20", Unit::Share, false, |run| run.above(20.0)),
    measure("above 23", Unit::Share, false, |run| run.above(23.0)),
    measure(GROWTH, Unit::Fine, true, Run::growth),
    measure(TOKEN_WAIT, Unit::Time, false, |run| run.waited[0]),
    measure(ENGINE_WAIT, Unit::Time, false, |run| run.waited[1]),
];

// --- Conditions

/// The share of frames that counts as none: a frame more or less at the end of a short run.
const NONE: f64 = 0.005;

fn conditions_on_gaps(found: &Findings) -> Vec<Condition> {
    let value = |arrangement, quantity| found.value(arrangement, quantity);
    let dropped = |all: &[&'static str]| all.iter().map(|one| value(*one, DROPPED)).collect::<Vec<_>>();
    let sigma = |all: &[&'static str]| all.iter().map(|one| value(*one, SIGMA)).collect::<Vec<_>>();
    let (three, managed) = (value(THREE[0], SIGMA), [ONE, TWO, THREE, SIX].concat());
    let least = sigma(&[managed.as_slice(), &UNMANAGED].concat()).into_iter().fold(f64::INFINITY, f64::min);
    let [one, two] = [ONE, TWO].map(|one| dropped(&one));
    let many = dropped(&[THREE, SIX].concat());
    let starved = DROPPED_BY_PERIOD.map(|quantity| value(FIXED, quantity));
    let is_equal = |[fifo, priority]: [&str; 2]| {
        let of = |arrangement, one: &Quantity| found.value(arrangement, one.name);
        found.quantities.iter().all(|one| of(fifo, one).total_cmp(&of(priority, one)).is_eq())
    };
    vec![
        Condition::new(
            "CPUs are busy for what the text says, 5.76, where nothing is dropped",
            (value(THREE[0], BUSY) - 5.76).abs() < 0.05,
            list(Unit::Fine, &[value(THREE[0], BUSY)]),
        ),
        Condition::new(
            "with one token more than a fifth of the frames is dropped",
            one.iter().all(|share| *share > 0.2),
            list(Unit::Share, &one),
        ),
        Condition {
            why_not: Some(
                "with 5 % of the computing, tokens are held for hardly longer than operations take, and two are just enough",
            ),
            ..Condition::new(
                "with two tokens some are dropped, and fewer",
                two.iter().zip(&one).all(|(two, one)| *two > NONE && two < one),
                format!("{}; {} of 2 are held", list(Unit::Share, &two), Unit::Fine.show(value(TWO[0], HELD))),
            )
        },
        Condition::new(
            "with 20 % of the computing in place of 5 % with a token, two tokens drop some, and fewer than one",
            value(TWO_LONGER, DROPPED) > NONE && value(TWO_LONGER, DROPPED) < value(ONE[0], DROPPED),
            list(Unit::Share, &[value(TWO_LONGER, DROPPED)]),
        ),
        Condition::new(
            "with three or six tokens none is dropped, but for what is under way at the end",
            many.iter().all(|share| *share <= NONE),
            list(Unit::Share, &many),
        ),
        Condition::new(
            "with one token or two the order of engine locks changes nothing: no two tasks wait for one engine",
            [ONE, TWO].into_iter().all(is_equal),
            list(Unit::Fine, &sigma(&[ONE, TWO].concat())),
        ),
        Condition::new(
            "with three or six, engines are awaited for less long by arrival than by priority",
            [THREE, SIX].into_iter().all(|[fifo, priority]| value(fifo, ENGINE_WAIT) < value(priority, ENGINE_WAIT)),
            list(Unit::Time, &[THREE, SIX].concat().iter().map(|one| value(one, ENGINE_WAIT)).collect::<Vec<_>>()),
        ),
        Condition {
            why_not: Some(
                "the more tokens, the less a frame waits for one, and what six of them cost in the text, interference on buses and in drivers, is not modelled; \
                 most of it is of graphs of 80 and 100 ms, which wait longest for CPUs",
            ),
            ..Condition::new(
                "gaps vary least with (3,2,FIFO)",
                three <= least,
                format!(
                    "{}; of 20 to 60 ms {}, of 80 and 100 ms {}",
                    list(Unit::Fine, &sigma(&[THREE, SIX].concat())),
                    list(
                        Unit::Fine,
                        &[THREE, SIX].concat().iter().map(|one| value(one, SIGMA_FAST)).collect::<Vec<_>>()
                    ),
                    list(
                        Unit::Fine,
                        &[THREE, SIX].concat().iter().map(|one| value(one, SIGMA_SLOW)).collect::<Vec<_>>()
                    )
                ),
            )
        },
        Condition::new(
            "in the background and by fixed priority they vary four times as much at least",
            sigma(&[SLICES, FIXED]).iter().all(|one| *one >= 4.0 * three),
            list(Unit::Fine, &sigma(&[SLICES, FIXED])),
        ),
        Condition {
            why_not: Some(
                "who looks at the GPU keeps a CPU, so the six are overloaded, and under EDF all graphs fall behind alike: frames are late more and more, but evenly",
            ),
            ..Condition::new(
                "so they do under C-EDF without management",
                value(POLLED, SIGMA) >= 4.0 * three,
                format!(
                    "{}; {} are dropped, {} CPUs busy",
                    list(Unit::Fine, &[value(POLLED, SIGMA)]),
                    Unit::Share.show(value(POLLED, DROPPED)),
                    Unit::Fine.show(value(POLLED, BUSY))
                ),
            )
        },
        Condition::new(
            "by fixed priority graphs of 100 ms starve, and those of 20 to 60 ms drop nothing",
            starved[5] > 0.5 && starved[..4].iter().all(|share| *share <= NONE * 4.0),
            list(Unit::Share, &starved),
        ),
        Condition {
            why_not: Some(
                "looking at the GPU takes more than graphs of 100 ms would compute, so those of 80 ms are next",
            ),
            ..Condition::new("nor do those of 80 ms", starved[4] <= NONE, list(Unit::Share, &[starved[4]]))
        },
    ]
}

fn conditions_on_latencies(found: &Findings) -> Vec<Condition> {
    let all = |arrangements: &[&'static str], quantity| {
        arrangements.iter().map(|one| found.value(one, quantity)).collect::<Vec<_>>()
    };
    let spread = all(&[THREE[0], SIX[0], THREE[1]], SPREAD);
    let shelves = all(&[THREE, SIX].concat(), SHELF);
    let engines = all(&[THREE, SIX].concat(), ENGINE_WAIT);
    let waits = [TOKEN_WAIT, ENGINE_WAIT].map(|what| all(&[THREE[0], SIX[0], THREE[1]], what));
    let awaited: Vec<f64> = waits[0].iter().zip(&waits[1]).map(|(token, engine)| token + engine).collect();
    let pairs = [(THREE[0], EARLY[0]), (SIX[0], EARLY[1])].map(|(late, early)| [late, early]);
    let falls = |quantity: &'static str| {
        pairs.iter().all(|pair| found.value(pair[1], quantity) < found.value(pair[0], quantity))
    };
    let [one, many] = [ONE.to_vec(), [THREE, SIX].concat()].map(|one| all(&one, GROWTH));
    vec![
        Condition::new(
            "with one token latencies grow as long as it runs, by half and more from the first half to the second",
            one.iter().all(|growth| *growth > 1.5),
            list(Unit::Fine, &one),
        ),
        Condition::new(
            "with three or six they do not",
            many.iter().all(|growth| (0.8..1.25).contains(growth)),
            list(Unit::Fine, &many),
        ),
        Condition::new(
            "where nodes begin early, half of the frames take less long, and so do those that take longest, and latencies are spread less",
            [MEDIAN, MOST, SPREAD].into_iter().all(falls),
            list(Unit::Fine, &[MEDIAN, MOST, SPREAD].map(|one| all(&pairs.concat(), one)).concat()),
        ),
        Condition {
            why_not: Some(
                "in all three a frame waits for the GPU for few milliseconds of its one to two periods, and for CPUs for the rest",
            ),
            ..Condition::new(
                "latencies are spread least with (3,2,FIFO), and less with (6,1,FIFO) than with (3,2,PRIO)",
                spread[0] < spread[1] && spread[1] < spread[2],
                format!("{}; the GPU awaited for {}", list(Unit::Fine, &spread), list(Unit::Time, &awaited)),
            )
        },
        Condition {
            why_not: Some(
                "an engine is awaited for a millisecond or less by each operation, in either order: no job is passed over again and again",
            ),
            ..Condition::new(
                "where engine locks are by priority, 3 % of the frames are over half of the spread, and nowhere else",
                shelves.iter().enumerate().all(|(place, shelf)| (*shelf > 0.5) == (place % 2 == 1)),
                format!(
                    "{}; engines awaited for {} in a frame",
                    list(Unit::Share, &shelves),
                    list(Unit::Time, &engines)
                ),
            )
        },
    ]
}

fn list(unit: Unit, values: &[f64]) -> String {
    values.iter().map(|value| unit.show(*value)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_campaigns::video::{Frames, periods};

    const SECOND: u64 = 1_000_000_000;

    /// A run of a second in which each frame of each graph takes as long as `latency` says of its number, in periods.
    fn uniform(latency: fn(u64) -> f64) -> Run {
        let frames = |period: u64| {
            let at = |number: u64| number * period;
            let done = |number| [at(number), at(number) + (latency(number) * period as f64) as u64];
            let all = (0..(WARM_UP + SECOND) / period).map(done);
            Frames { period, done: all.filter(|[_, done]| *done < WARM_UP + SECOND).collect() }
        };
        let graphs = periods().map(frames).collect();
        Run::new(Outcome { graphs, busy: 3 * SECOND, held: 6 * SECOND, waited: [0; 2], throttles: 0 }, WARM_UP + SECOND)
    }

    #[test]
    fn frames_that_are_even_have_gaps_of_a_period_and_none_is_dropped() {
        let run = uniform(|_| 0.5);
        assert!(run.dropped.iter().all(|share| *share < 0.05), "{:?}", run.dropped);
        assert!((run.mean(mean) - 1.0).abs() < 1e-6 && run.mean(deviation) < 1e-6);
        assert!((run.growth() - 1.0).abs() < 1e-6 && run.spread() < 1e-6);
        assert_eq!((run.busy, run.held, run.above(0.4), run.above(0.6)), (1.0, 2.0, 1.0, 0.0));
    }

    #[test]
    fn frames_that_take_longer_and_longer_are_missing_and_latencies_grow() {
        let run = uniform(|number| number as f64);
        assert!(run.dropped.iter().all(|share| (0.44..0.56).contains(share)), "{:?}", run.dropped);
        assert!((run.mean(|gaps| quantile(gaps, 0.5)) - 2.0).abs() < 1e-6 && run.growth() > 1.1);
    }

    #[test]
    fn a_shelf_is_where_few_frames_take_much_longer() {
        let frames = |late: usize| {
            let all = (0..1_000).map(|number| if number < late { 30.0 } else { 10.0 + number as f64 / 500.0 });
            let latencies: Vec<f64> = all.collect();
            let sorted = sorted(latencies.iter().copied());
            Run {
                graphs: Vec::new(),
                dropped: Vec::new(),
                latencies,
                sorted,
                busy: 0.0,
                held: 0.0,
                waited: [0.0; 2],
                throttles: 0,
            }
        };
        assert!(frames(40).shelf() > 0.5 && frames(0).shelf() < 0.1);
    }

    #[test]
    fn quantiles_are_values_that_so_many_do_not_exceed() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!([0.0, 0.25, 0.5, 0.51, 1.0].map(|share| quantile(&values, share)), [1.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(deviation(&[1.0, 3.0]), 1.0);
    }
}
