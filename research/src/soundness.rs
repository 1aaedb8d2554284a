//! Bounds against schedules: random task sets run in the simulator, and no job is later than the analysis says; random
//! systems with tokens and engine locks do, and no job is blocked for longer than it says.

use std::sync::atomic::{AtomicU64, Ordering};

use fusee_campaigns::arranged::{ArrangedReport, arranged, judged};
use fusee_campaigns::blocking::graphs::{GraphClaims, GraphReport, graphs, graphs_on};
use fusee_campaigns::blocking::{self, BlockingReport, Claim, Family};
use fusee_campaigns::draws::{Draws, Wrong};
use fusee_campaigns::soundness::{GeneratedSet, SoundnessOptions, SoundnessReport, soundness};
use fusee_kernel_core::Planted;
use fusee_manifest::{Manifest, PolicyName, admission};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::blocking::{Locks, On};
use fusee_sched_analysis::report::{Hard, Test, Verdict};
use fusee_sched_analysis::{Above, Cluster, Overheads, Report, Task, analyse};
use num_rational::BigRational;
use num_traits::ToPrimitive;

use crate::campaign::{Campaign, Left, Outcome};

/// Random task sets under EDF and FL and under fixed priorities, each for 20 of its longest periods.
const SETS: [Campaign; 2] = [
    Campaign {
        unit: "sets",
        ..plain("bounds-deadlines", "Is a task under EDF or FL later than its bound?", [2_500, 10_000], |draws| {
            Ok(of_sets(&sets(false, draws), draws))
        })
    },
    Campaign {
        unit: "sets",
        ..plain("bounds-priorities", "Is a task under RM, DM or FP later than its bound?", [1_250, 5_000], |draws| {
            Ok(of_sets(&sets(true, draws), draws))
        })
    },
];

/// Random systems with tokens and engine locks.
const SYSTEMS: [(Family, Campaign); 8] = [
    (Family::Within, blocked("blocking-within", Asked::LOCKS, [200, 1_200], |draws| of(Family::Within, draws))),
    (Family::Across, blocked("blocking-across", Asked::ACROSS, [100, 600], |draws| of(Family::Across, draws))),
    (Family::Devices, blocked("blocking-devices", Asked::DEVICES, [100, 600], |draws| of(Family::Devices, draws))),
    (Family::Waiting, blocked("blocking-waiting", Asked::WAITING, [100, 600], |draws| of(Family::Waiting, draws))),
    (
        Family::Sleeping,
        blocked("blocking-sleeping", Asked::SLEEPING, [500, 6_000], |draws| of(Family::Sleeping, draws)),
    ),
    (Family::Shared, blocked("blocking-shared", Asked::SHARED, [200, 1_200], |draws| of(Family::Shared, draws))),
    (Family::Spatial, blocked("blocking-spatial", Asked::SPATIAL, [160, 1_000], |draws| of(Family::Spatial, draws))),
    (Family::Keyed, blocked("blocking-keyed", Asked::KEYED, [160, 1_000], |draws| of(Family::Keyed, draws))),
];

/// Random systems that call servers: each within its cluster; and such that clusters share.
const CALLING: [(Family, Campaign); 3] = [
    (Family::Calls, blocked("calls-within", Asked::CALLS, [500, 1_400], |draws| of(Family::Calls, draws))),
    (
        Family::CallsAcross,
        blocked("calls-across", Asked::CALLS_ACROSS, [300, 800], |draws| of(Family::CallsAcross, draws)),
    ),
    (Family::Served, blocked("served", Asked::SERVED, [500, 2_400], |draws| of(Family::Served, draws))),
];

/// The questions of systems in which jobs are blocked.
struct Asked;

impl Asked {
    const LOCKS: &str = "Is a job blocked by tokens and engines for longer than its bound, or later?";
    const ACROSS: &str = "The same, where clusters share pools";
    const DEVICES: &str = "The same, where a pool has tokens of several devices";
    const WAITING: &str = "The same, where jobs compute little and wait for engines for long";
    const SLEEPING: &str = "The same, where jobs sleep for long";
    const SHARED: &str = "The same, beside clients without locks";
    const SPATIAL: &str = "The same, beside clients without locks on SMs";
    const KEYED: &str = "The same, on SMs that the device gives by keys";
    const CALLS: &str = "Is a job blocked by servers for longer than its bound, or later?";
    const CALLS_ACROSS: &str = "The same, where clusters share servers";
    const SERVED: &str = "The same, where servers hold engines, and so do their clients";
}

/// Random systems of graphs.
const GRAPHS: Campaign = plain("graphs", "Is a node or a graph later than its bound?", [400, 2_400], |draws| {
    Ok(of_graphs(&graphs(draws, &graph_claims)))
});
/// The least part of them, in percent, that has a bound and a node on an accelerator. With seed 1 it is 42 %.
const WITH_DEVICE: u64 = 30;

/// Random task sets of the study under arrangements of CPUs and GPUs.
const ARRANGED: Campaign = Campaign {
    unit: "sets",
    ..plain(
        "arranged",
        "Is a job under an arrangement blocked for longer than its fine bound, or later?",
        [300, 6_000],
        |draws| Ok(of_arranged(&arranged(draws, &judged))),
    )
};

const fn plain(
    name: &'static str,
    question: &'static str,
    [budget, large]: [u64; 2],
    draw: fn(Draws) -> anyhow::Result<Outcome>,
) -> Campaign {
    Campaign { name, question, unit: "systems", budget, large, block: large.div_ceil(10), draw }
}

const fn blocked(
    name: &'static str,
    question: &'static str,
    sizes: [u64; 2],
    draw: fn(Draws) -> anyhow::Result<Outcome>,
) -> Campaign {
    plain(name, question, sizes, draw)
}

/// All campaigns of this module.
pub fn campaigns() -> Vec<Campaign> {
    let families = SYSTEMS.into_iter().chain(CALLING).map(|(_, campaign)| campaign);
    SETS.into_iter().chain(families).chain([GRAPHS, ARRANGED]).collect()
}

// --- Results of draws

/// Simulates task sets.
fn sets(by_priority: bool, draws: Draws) -> (SoundnessReport, Tally) {
    let policies = match by_priority {
        true => vec![PolicyName::Rm, PolicyName::Dm, PolicyName::Fp],
        false => SoundnessOptions::default().policies,
    };
    let hard = Tally::default();
    let options = SoundnessOptions { draws, policies, ..SoundnessOptions::default() };
    (soundness(&options, &|drawn| bounds(drawn, &hard)), hard)
}

fn of_sets((report, hard): &(SoundnessReport, Tally), draws: Draws) -> Outcome {
    let mut wrong = report.failures.clone();
    wrong.extend(report.violations.iter().map(|one| Wrong {
        seed: draws.seed,
        number: one.origin.1,
        what: format!("task {}, bound {} ns, seen {:?}, in\n{}", one.task, one.bound, one.seen, one.text),
    }));
    Outcome { systems: report.sets, jobs: report.jobs, wrong, report: format!("{report}{hard}") }
}

fn of(family: Family, draws: Draws) -> anyhow::Result<Outcome> {
    let report = blocking::blocking(family, draws, &claims);
    let wrong = [report.failures.as_slice(), &report.violations].concat();
    Ok(Outcome { systems: report.systems, jobs: report.jobs, wrong, report: report.to_string() })
}

fn of_graphs(report: &GraphReport) -> Outcome {
    let wrong = [report.failures.as_slice(), &report.violations].concat();
    Outcome { systems: report.systems, jobs: report.jobs, wrong, report: report.to_string() }
}

fn of_arranged(report: &ArrangedReport) -> Outcome {
    let wrong = [report.failures.as_slice(), &report.violations].concat();
    Outcome { systems: report.systems, jobs: report.jobs, wrong, report: report.to_string() }
}

/// Runs a check; an error is one problem.
fn checked(name: &str, check: impl FnOnce() -> anyhow::Result<(String, Vec<String>)>) -> (String, Vec<String>) {
    check().unwrap_or_else(|error| (name.to_owned(), vec![format!("{error:#}")]))
}

/// Draws the budget of a campaign of blocking.
fn budgeted(family: Family, campaign: &Campaign) -> anyhow::Result<(BlockingReport, bool)> {
    let (mut report, mut drawn) = (BlockingReport::default(), 0);
    for draws in campaign.draws()? {
        report.join(blocking::blocking(family, draws, &claims));
        drawn += draws.count;
    }
    let is_good = report.systems == drawn && report.failures.is_empty() && report.violations.is_empty();
    Ok((report, is_good))
}

//--- Checks

/// Runs all task sets: the comparisons, in words, and the faults.
pub fn check() -> (String, Vec<String>) {
    checked("bounds on lateness hold", || {
        let mut problems = Vec::new();
        let (mut sets_run, mut tasks, mut tardy, mut tightest) = (0, 0, 0, 0.0f64);
        let all_hard = Tally::default();
        for (by_priority, campaign) in [false, true].into_iter().zip(&SETS) {
            for draws in campaign.draws()? {
                let (report, hard) = sets(by_priority, draws);
                all_hard.add(&hard);
                sets_run += report.sets;
                tasks += report.bounded;
                tardy += report.tardy;
                tightest = tightest.max(report.tightest.as_ref().map_or(0.0, |one| one.ratio()));
                if report.sets < draws.count || !report.failures.is_empty() || !report.violations.is_empty() {
                    problems.push(report.to_string());
                }
            }
        }
        let words = format!(
            "bounds on lateness hold: {sets_run} random sets, {tasks} tasks with a bound, {tardy} tardy, tightest {tightest:.3}; {all_hard} ({})",
            Left(&SETS)
        );
        Ok((words, problems))
    })
}

/// Tasks of clusters with fewer CPUs than tasks, and more than one.
#[derive(Default)]
struct Tally {
    /// All of them, under EDF and FL and under fixed priorities.
    tasks: [AtomicU64; 2],
    /// Those that are proved to miss no deadline.
    hard: [AtomicU64; 2],
    /// Those that density alone proves.
    dense: AtomicU64,
}

impl Tally {
    /// Adds the tasks of another.
    fn add(&self, other: &Tally) {
        let pairs = self.tasks.iter().zip(&other.tasks).chain(self.hard.iter().zip(&other.hard));
        for (sum, more) in pairs.chain([(&self.dense, &other.dense)]) {
            sum.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn count(&self, cluster: &Cluster, report: &Report) {
        if cluster.cpus() == 1 || cluster.tasks().len() <= cluster.cpus() as usize {
            return;
        }
        let kind = usize::from(!matches!(cluster.policy(), PolicyName::Edf | PolicyName::Fl));
        // Relaxed: nothing but sums.
        let add = |sum: &AtomicU64, number: usize| sum.fetch_add(number as u64, Ordering::Relaxed);
        add(&self.tasks[kind], report.tasks.len());
        add(&self.hard[kind], report.tasks.iter().filter(|task| task.hard == Hard::Proved).count());
        if report.tests.contains(&(Test::Density, Verdict::Proved)) {
            add(&self.dense, report.tasks.len());
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [deadlines, priorities] = [0, 1].map(|kind| {
            let [hard, tasks] = [&self.hard, &self.tasks].map(|sum| sum[kind].load(Ordering::Relaxed));
            format!("{hard} of {tasks}")
        });
        let dense = self.dense.load(Ordering::Relaxed);
        write!(
            f,
            "on several CPUs {deadlines} tasks proved hard under EDF and FL ({dense} by density), {priorities} under RM, DM and FP"
        )
    }
}

/// Runs all systems with tokens and engine locks: the same.
pub fn check_blocking() -> (String, Vec<String>) {
    checked("bounds on blocking hold", || check_families(&SYSTEMS, words_of_blocking, "blocking"))
}

/// Draws the budgets of some families.
fn check_families(
    families: &[(Family, Campaign)],
    words_of: fn(Family, &BlockingReport) -> String,
    what: &str,
) -> anyhow::Result<(String, Vec<String>)> {
    let (mut words, mut problems, mut campaigns) = (Vec::new(), Vec::new(), Vec::new());
    for (family, campaign) in families {
        let (report, is_good) = budgeted(*family, campaign)?;
        words.push(words_of(*family, &report));
        if !is_good {
            problems.push(report.to_string());
        }
        campaigns.push(*campaign);
    }
    Ok((format!("bounds on {what} hold: {} ({})", words.join("; "), Left(&campaigns)), problems))
}

fn words_of_blocking(family: Family, report: &BlockingReport) -> String {
    let [engines, tokens, donation, _, response, paid] = report.ratios();
    let donors = match family {
        Family::Across => format!(", {} as donors ({donation:.3})", report.blocked[2]),
        _ => String::new(),
    };
    format!(
        "{} random systems {}, of their jobs {} blocked for engines (tightest {engines:.3}), {} for tokens \
         ({tokens:.3}){donors}, response {response:.3}, of {} budgets that pay for engines {paid:.3}",
        report.systems,
        match family {
            Family::Within => "within clusters",
            Family::Across => "across clusters",
            Family::Devices => "with several devices",
            Family::Shared => "beside clients without locks",
            Family::Spatial => "beside clients without locks on SMs",
            Family::Keyed => "on SMs that the device gives by keys",
            Family::Waiting => "that wait for engines alone",
            Family::Sleeping => "that sleep for long",
            Family::Calls | Family::CallsAcross | Family::Served => "with calls",
        },
        report.blocked[0],
        report.blocked[1],
        report.paid
    )
}

/// Runs all systems that call servers: the same.
pub fn check_calls() -> (String, Vec<String>) {
    checked("bounds on calls hold", || check_families(&CALLING, words_of_calls, "calls"))
}

fn words_of_calls(family: Family, report: &BlockingReport) -> String {
    let [.., servers, response, _] = report.ratios();
    format!(
        "{} random systems {}, {} tasks with a bound, {} jobs blocked (tightest {servers:.3}), response {response:.3}",
        report.systems,
        match family {
            Family::Calls => "within clusters",
            Family::CallsAcross => "across clusters",
            _ => "with engines",
        },
        report.bounded[3],
        report.blocked[3],
    )
}

/// Runs all systems of graphs: the same.
pub fn check_graphs() -> (String, Vec<String>) {
    checked("bounds on latencies hold", || {
        let mut report = GraphReport::default();
        for draws in GRAPHS.draws()? {
            report.join(graphs(draws, &graph_claims));
        }
        let is_good = report.failures.is_empty()
            && report.violations.is_empty()
            && report.with_device * 100 >= report.systems * WITH_DEVICE;
        let problems = if is_good { Vec::new() } else { vec![report.to_string()] };
        Ok((format!("bounds on latencies hold: {report} ({})", Left(&[GRAPHS])), problems))
    })
}

/// Runs all task sets under arrangements: the same.
pub fn check_arranged() -> (String, Vec<String>) {
    checked("fine bounds hold", || {
        let mut report = ArrangedReport::default();
        for draws in ARRANGED.draws()? {
            report.join(arranged(draws, &judged));
        }
        let is_good = report.failures.is_empty() && report.violations.is_empty() && report.systems > 0;
        let problems = if is_good { Vec::new() } else { vec![report.to_string()] };
        Ok((format!("fine bounds hold: {} ({})", report.to_string().trim_end(), Left(&[ARRANGED])), problems))
    })
}

/// The number of the first of these systems of graphs that shows a rule that the kernel forgets; `None`: none does.
pub fn search_graphs(planted: Planted, draws: Draws) -> Option<u64> {
    let report = graphs_on(draws.until_wrong(), &graph_claims, Some(planted));
    report.violations.iter().chain(&report.failures).map(|found| found.number).min()
}

/// The bounds of the analysis for a system of graphs.
fn graph_claims(manifest: &Manifest) -> GraphClaims {
    let system = &manifest.system;
    let deadline = |task: &fusee_manifest::Task| Some(system.reservations[task.reservation?].deadline);
    let response = |(task, claim): (&fusee_manifest::Task, Claim)| deadline(task)?.checked_add_signed(claim.lateness?);
    let responses = system.tasks.iter().zip(claims(manifest)).map(response).collect();
    let found = admission::latencies(system, &Overheads::default());
    GraphClaims { responses, nodes: found.into_iter().map(|graph| graph.nodes).collect() }
}

/// The bounds of the analysis of its manifest for each task.
fn claims(manifest: &Manifest) -> Vec<Claim> {
    claims_of(manifest, |_| {})
}

/// The bounds if its locks were others.
fn claims_of(manifest: &Manifest, change: fn(&mut Locks)) -> Vec<Claim> {
    let system = &manifest.system;
    let mut claims = vec![Claim::default(); system.tasks.len()];
    let studied = |index: usize| {
        let mut study = admission::Study::new(system, index).ok()?;
        change(&mut study.locks);
        // An overcommitted system has no bounds.
        let (report, blocked) = study.analyse(&Overheads::default()).ok()?;
        // Nor has anything where there is too much to do, or a budget may run dry.
        let covered = blocked.iter().enumerate().all(|(task, blocked)| study.is_covered(task, blocked));
        (report.bounded != Some(false) && covered).then_some((study, report, blocked))
    };
    let all: Vec<_> = (0..system.clusters.len()).map(studied).collect();
    // Nor where that is so in a cluster that shares a pool, or a server.
    let shares = system.pools.iter().any(|(_, pool)| pool.crosses != 0) || !system.endpoints.is_empty();
    if all.iter().any(Option::is_none) && shares {
        return claims;
    }
    for (study, report, blocked) in all.into_iter().flatten() {
        let counted = study.uncounted.iter().map(Vec::is_empty);
        let each = study.members.iter().zip(report.tasks).zip(blocked).zip(counted);
        for (((member, verdict), blocked), _) in each.filter(|(_, counted)| *counted) {
            let sum = |parts: fn(On) -> bool| -> u64 {
                blocked.parts.iter().filter(|part| parts(part.on)).map(|part| part.span.0).sum()
            };
            let [engines, tokens, donation, servers] = [
                sum(|on| matches!(on, On::Engine(_))),
                sum(|on| matches!(on, On::Token(_))),
                sum(|on| matches!(on, On::Donation(_))),
                sum(|on| matches!(on, On::Server(_))),
            ];
            claims[*member] = Claim {
                blocking: Some([engines, tokens, donation, servers]),
                operations: blocked.operations.0 - blocked.served.0 + blocked.suspends.0,
                served: blocked.served.0,
                services: blocked.services.0,
                boosts: verdict.bound.as_ref().map_or(0, |bound| boosts(&study.cluster, &bound.response)),
                drawn: blocked.drawn.0,
                lateness: verdict.bound.and_then(|bound| bound.lateness.ceil().to_integer().to_i64()),
            };
        }
    }
    claims
}

/// The time in a response time that is taken before all tasks of a cluster.
fn boosts(cluster: &Cluster, response: &BigRational) -> u64 {
    let response = response.ceil().to_integer().to_u64().unwrap_or(u64::MAX);
    let one = |one: &Above| one.span.0 * response.saturating_add(one.jitter.0).div_ceil(one.period.0);
    cluster.above().iter().map(one).sum()
}

/// For each task of the set how late it can be by the analysis.
fn bounds(drawn: &GeneratedSet, hard: &Tally) -> Vec<Option<i64>> {
    let tasks = &drawn.set.tasks;
    let mut bounds = vec![None; tasks.len()];
    for (home, cpus) in drawn.platform.clusters.iter().enumerate() {
        let members: Vec<usize> = (0..tasks.len()).filter(|task| drawn.homes[*task] == home).collect();
        let priorities = drawn.set.priorities();
        let task = |index: &usize| Task {
            execution: Nanoseconds(tasks[*index].execution),
            period: Nanoseconds(tasks[*index].period),
            deadline: Nanoseconds(tasks[*index].deadline),
            priority: priorities[*index],
        };
        // A set that makes no sense, or is overloaded, has no bounds.
        let report =
            Cluster::new(*cpus, drawn.platform.policy, members.iter().map(task).collect()).ok().and_then(|cluster| {
                let report = analyse(&cluster, &Overheads::default(), &[]).ok()?;
                hard.count(&cluster, &report);
                Some(report)
            });
        for (member, verdict) in members.iter().zip(report.into_iter().flat_map(|report| report.tasks)) {
            bounds[*member] = verdict.bound.and_then(|bound| bound.lateness.ceil().to_integer().to_i64());
        }
    }
    bounds
}

#[cfg(test)]
mod tests;
