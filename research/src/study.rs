//! `cargo xtask study`: random task sets under 57 arrangements of CPUs and GPUs, and which arrangement accepts most.
//!
//! ```text
//! costs     inputs: four platforms of the text, and Fusee, which has five rules to compare policies, and unequal GPUs
//! grid      the points of the study, and one item of work
//! results   the file to which results are appended
//! ranks     ranks, and the observations of the text about them
//! figure    curves of one setting
//! ```
//!
//! Each worker takes the next item; results are written in the order of items. So an interrupted study has a coarse form of all of its results, and `--resume`
//! goes on from there.
//!
//! Not here: the test of a task set (`sched/arrangements`).

mod costs;
mod figure;
mod grid;
mod ranks;
mod results;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use fusee_arrangements::arrangement::Arrangement;
use fusee_host::project::Project;
use fusee_host::report;
use fusee_host::table::Table;
use fusee_manifest::Time;
use fusee_tool::values;
use indicatif::{ProgressBar, ProgressStyle};

use self::costs::Named;
use self::figure::Figure;
use self::grid::{Found, GRIDS, Grid, judged};
use self::ranks::{Observation, Ranks, Standing, Workload, standings, workloads};
use self::results::{Results, heading};

/// Arguments of `cargo xtask study`.
#[derive(Args)]
pub struct StudyArguments {
    /// The extent: smoke takes seconds, coarse ten minutes of one core, full half a day.
    #[arg(long, default_value = "smoke", value_parser = ["smoke", "coarse", "full"])]
    grid: String,
    /// Go on with the results of a study that was interrupted.
    #[arg(long)]
    resume: bool,
    /// End after this time, such as 30m, with the results so far; `--resume` goes on.
    #[arg(long, value_parser = budget)]
    budget: Option<Time>,
    /// Number of workers. [default: the CPUs of this host]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    workers: Option<u64>,
    /// The seed of all task sets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file of results. [default: target/study/GRID.txt, GRID-policies.txt or GRID-unequal.txt]
    #[arg(long)]
    file: Option<PathBuf>,
    /// Compare FL, EDF and RM with the costs of Fusee, in place of costs under FL.
    #[arg(long, conflicts_with = "figure")]
    policies: bool,
    /// Compare places of fast and slow GPUs with the costs of Fusee, in place of costs with equal GPUs.
    #[arg(long, conflicts_with_all = ["figure", "policies"])]
    unequal: bool,
    /// Judge nothing: print the tables of the results so far.
    #[arg(long, conflicts_with_all = ["resume", "budget", "workers"])]
    show: bool,
    /// Sets for each point of the curves of figure 4.16; zero: no curves.
    #[arg(long, default_value_t = 0)]
    figure: u64,
    /// The costs of these curves. [default: those of the text's figure]
    #[arg(long, default_value = "AC/L", hide_default_value = true, value_parser = ["AC/I", "AC/L", "WC/I", "WC/L", "Fusee"])]
    costs: String,
}

/// A time in minutes or hours, or in a unit of manifests.
fn budget(text: &str) -> Result<Time, String> {
    let (digits, seconds) = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(minutes), _) => (minutes, 60),
        (_, Some(hours)) => (hours, 3_600),
        _ => return values::time(text),
    };
    let number: u64 = digits.parse().map_err(|_| "a time with its unit, such as `30m` (s, m, h)".to_owned())?;
    number.checked_mul(seconds * 1_000_000_000).map(Time).ok_or_else(|| "the time is too long".to_owned())
}

/// The folder of results, in the folder of builds.
const FOLDER: &str = "study";

/// Runs a study and prints its tables. The result says whether it ran.
///
/// # Errors
/// A file cannot be read or written.
pub fn study(arguments: &StudyArguments) -> Result<bool> {
    let project = Project::fusee()?;
    let grid = GRIDS.into_iter().find(|one| one.name == arguments.grid).context("no such grid")?;
    let (costs, of) = match (arguments.policies, arguments.unequal) {
        (true, _) => (costs::policies(&project.root)?, "-policies"),
        (_, true) => (costs::unequal(&project.root)?, "-unequal"),
        _ => (costs::all(&project.root)?, ""),
    };
    let path = match &arguments.file {
        Some(path) => path.clone(),
        None => project.kept(FOLDER)?.join(format!("{}{of}.txt", grid.name)),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let heading = heading(&grid, arguments.seed, &costs);
    let mut results = Results::open(&path, &heading, arguments.resume || arguments.show)?;
    let workers = arguments.workers.map_or_else(cpus, |workers| workers as usize);
    if !arguments.show {
        let work = Work { grid: &grid, costs: &costs, seed: arguments.seed };
        let budget = arguments.budget.map(|time| Duration::from_nanos(time.0));
        let (tests, elapsed) = work.run(&mut results, workers, budget)?;
        let rate = tests as f64 / elapsed.as_secs_f64() / workers as f64;
        eprintln!("{tests} sets judged, {rate:.0} a second and worker; {}", path.display());
    }
    if results.found.is_empty() {
        bail!("{}: there are no results yet", path.display());
    }
    if arguments.policies || arguments.unequal {
        print_columns(&grid, &results.found, &costs);
        return Ok(true);
    }
    for Named { name, .. } in costs.iter().filter(|one| one.name != costs::FUSEE) {
        let [printed, prose, ours] = costs::origins(name)?;
        fusee_host::sayln!("costs {name}: {printed} values printed in the text, {prose} from its prose, {ours} ours");
    }
    print(&grid, &results.found, &costs);
    if arguments.figure > 0 {
        let chosen = costs.iter().find(|one| one.name == arguments.costs).context("no costs of that name")?;
        let figure = Figure::run(arguments.figure, chosen, arguments.seed, workers).context("no such setting")?;
        print_figure(&figure, chosen);
    }
    Ok(true)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A study under way.
struct Work<'a> {
    grid: &'a Grid,
    costs: &'a [Named],
    seed: u64,
}

impl Work<'_> {
    /// Judges the items that have no results yet, until `budget` is over. Returns the number of sets judged, and the time it took.
    fn run(&self, results: &mut Results, workers: usize, budget: Option<Duration>) -> Result<(u64, Duration)> {
        let (first, last) = (results.found.len() as u64, self.grid.items());
        let (started, next) = (Instant::now(), AtomicU64::new(first));
        let bar = progress(last - first.min(last));
        let mut tests = 0;
        let (send, receive) = mpsc::sync_channel::<(u64, Found)>(4 * workers);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let send = send.clone();
                let next = &next;
                scope.spawn(move || {
                    while budget.is_none_or(|budget| started.elapsed() < budget) {
                        // Relaxed: a number for each, and nothing else is shared.
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= last {
                            return;
                        }
                        let item = self.grid.item(number);
                        let found = judged(self.grid, item, self.costs, self.seed);
                        if send.send((number, found)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            // Items that are done before one that was begun earlier.
            let mut waiting = BTreeMap::new();
            let mut written = first;
            for (number, found) in receive {
                tests += found.tests;
                waiting.insert(number, found);
                while let Some(found) = waiting.remove(&written) {
                    results.append(found)?;
                    written += 1;
                    bar.inc(1);
                }
            }
            Ok::<_, anyhow::Error>(())
        })?;
        bar.finish_and_clear();
        Ok((tests, started.elapsed()))
    }
}

fn progress(items: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} sets, {eta} left");
    ProgressBar::new(items).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

//--- Tables

/// The arrangements in tables with little room.
const SHOWN: [&str; 6] = ["(P,P,inf)", "(C,P,inf)", "(G,P,inf)", "(C,C2p2p,1)", "(G,C2p2p,1)", "(C,C4,1)"];

/// The standings with all costs, after a line about their extent.
fn ranks<'a>(grid: &Grid, found: &[Found], costs: &'a [Named]) -> Ranks<'a> {
    let all: Vec<(&str, Vec<Standing>, usize)> = costs
        .iter()
        .enumerate()
        .map(|(set, one)| {
            let (standings, settings) = standings(grid, found, set);
            (one.name.as_str(), standings, settings)
        })
        .collect();
    let settings = all.first().map_or(0, |one| one.2);
    fusee_host::sayln!("{} of {} task sets of {settings} settings, grid {}", found.len(), grid.items(), grid.name);
    Ranks { all: all.into_iter().map(|(name, standings, _)| (name, standings)).collect(), settings }
}

/// Prints the utilisation that some arrangements accept in each column, a policy or places of GPUs, and ranks.
fn print_columns(grid: &Grid, found: &[Found], costs: &[Named]) {
    let ranks = ranks(grid, found, costs);
    let mut header = vec!["CPUs accepted"];
    header.extend(ranks.all.iter().map(|(name, _)| *name));
    let mut table = Table::new(header).left(&["CPUs accepted"]);
    for name in SHOWN {
        let accepted = |(_, all): &(&str, Vec<Standing>)| {
            let one = all.iter().find(|one| one.arrangement.to_string() == name);
            one.map_or_else(String::new, |one| format!("{:.2}", one.accepted as f64 / 1e3))
        };
        table.add_row(std::iter::once(name.to_owned()).chain(ranks.all.iter().map(accepted)));
    }
    fusee_host::sayln!("{table}");
    fusee_host::sayln!("{}", all_ranks(&ranks));
}

/// Prints ranks and observations.
fn print(grid: &Grid, found: &[Found], costs: &[Named]) {
    let ranks = ranks(grid, found, costs);
    fusee_host::sayln!("{}", best(&ranks));
    fusee_host::sayln!("{}", by_workload(grid, found, costs.len().saturating_sub(1)));
    fusee_host::sayln!("{}", all_ranks(&ranks));
    ranks.observations().iter().for_each(|one| fusee_host::sayln!("{}", line(one)));
}

/// The best arrangements with the costs of Fusee.
fn best(ranks: &Ranks<'_>) -> Table {
    const SHOWN: usize = 12;
    let mut table = Table::new(["arrangement", "rank", "median", "mean", "best in", "accepts"]).left(&["arrangement"]);
    let mut standings: Vec<&Standing> = ranks.all.last().into_iter().flat_map(|(_, all)| all).collect();
    standings.sort_by_key(|one| one.rank);
    for one in standings.into_iter().take(SHOWN) {
        table.add_row([
            one.arrangement.to_string(),
            one.rank.to_string(),
            format!("{:.1}", one.median),
            format!("{:.2}", one.mean),
            one.best.to_string(),
            format!("{:.2}", one.accepted as f64 / 1e3),
        ]);
    }
    table
}

/// The utilisation that some arrangements accept of each class of workloads, in CPUs.
fn by_workload(grid: &Grid, found: &[Found], set: usize) -> Table {
    let names: Vec<String> = Arrangement::all().iter().map(ToString::to_string).collect();
    let mut header = vec!["tasks, data, state"];
    header.extend(SHOWN);
    let mut table = Table::new(header).left(&["tasks, data, state"]);
    for one in workloads(grid, found, set) {
        let Workload { utilisation: (least, most), data, state, accepted } = one;
        let data = if data < 1 << 20 { format!("{} KiB", data >> 10) } else { format!("{} MiB", data >> 20) };
        let of = |name: &&str| {
            let place = names.iter().position(|one| one == name);
            place.map_or_else(String::new, |place| format!("{:.1}", accepted[place]))
        };
        let cells = SHOWN.iter().map(of);
        table.add_row(std::iter::once(format!("{least}-{most} %, {data}, {state} %")).chain(cells));
    }
    table
}

/// The rank of each arrangement with each of the costs.
fn all_ranks(ranks: &Ranks<'_>) -> Table {
    let mut header = vec!["arrangement"];
    header.extend(ranks.all.iter().map(|(name, _)| *name));
    let mut table = Table::new(header).left(&["arrangement"]);
    let Some((_, first)) = ranks.all.first() else { return table };
    for (number, one) in first.iter().enumerate() {
        let of = ranks.all.iter().map(|(_, standings)| standings[number].rank.to_string());
        table.add_row(std::iter::once(one.arrangement.to_string()).chain(of));
    }
    table
}

fn line(one: &Observation) -> String {
    let verdict = if one.holds { report::green("holds") } else { report::yellow("does not hold") };
    format!("observation {}: {verdict}: {} ({})", one.number, one.claim, one.figures)
}

fn print_figure(figure: &Figure, costs: &Named) {
    fusee_host::sayln!("{}; {}", figure.setting, costs.name);
    let shown: Vec<f64> = figure::targets().collect();
    let every = |number: usize| number % 2 == 1;
    let mut header = vec!["accepted in % at".to_owned()];
    header.extend(
        shown.iter().enumerate().filter(|(number, _)| every(*number)).map(|(_, target)| format!("{target:.0}")),
    );
    let mut table = Table::new(header).left(&["accepted in % at"]);
    for (arrangement, shares) in &figure.shares {
        let cells = shares.iter().enumerate().filter(|(number, _)| every(*number));
        let cells = cells.map(|(_, share)| format!("{:.0}", share * 100.0));
        table.add_row(std::iter::once(arrangement.to_string()).chain(cells));
    }
    fusee_host::sayln!("{table}");
    figure.observations().iter().for_each(|one| fusee_host::sayln!("{}", line(one)));
}

//--- Checks

/// Runs the smallest grid with one worker and with two, and once more from a part of its results: the findings, and the faults.
pub fn check() -> (String, Vec<String>) {
    match smoke() {
        Ok(found) => found,
        Err(error) => ("study".to_owned(), vec![format!("{error:#}")]),
    }
}

fn smoke() -> Result<(String, Vec<String>)> {
    let project = Project::fusee()?;
    let [grid, ..] = GRIDS;
    let costs = costs::all(&project.root)?;
    let folder = std::env::temp_dir().join(format!("fusee-study-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let work = Work { grid: &grid, costs: &costs, seed: 1 };
    let heading = heading(&grid, 1, &costs);
    let path = |name: &str| folder.join(name);
    let run = |name: &str, workers: usize, resume: bool| -> Result<(u64, Vec<u8>)> {
        let mut results = Results::open(&path(name), &heading, resume)?;
        let (tests, _) = work.run(&mut results, workers, None)?;
        Ok((tests, std::fs::read(path(name))?))
    };
    let (tests, one) = run("one", 1, false)?;
    let (_, two) = run("two", 2, false)?;
    // As if the run had been killed in the middle of a line.
    std::fs::write(path("killed"), &one[..one.len() * 2 / 3])?;
    let (rest, resumed) = run("killed", 1, true)?;
    let found = Results::open(&path("one"), &heading, true)?.found;
    std::fs::remove_dir_all(&folder)?;
    let mut problems = Vec::new();
    if one != two {
        problems.push("one worker and two wrote different results".to_owned());
    }
    if one != resumed || rest == 0 || rest >= tests {
        problems.push(format!("a run that was resumed wrote other results: {rest} of {tests} tests"));
    }
    let (standings, _) = standings(&grid, &found, costs.len() - 1);
    let rank = |name: &str| standings.iter().find(|one| one.arrangement.to_string() == name).map_or(0, |one| one.rank);
    let (first, last) = (rank("(C,P,inf)"), rank("(P,G,3)"));
    if first > 5 || last < 45 {
        problems.push(format!("(C,P,inf) has rank {first}, (P,G,3) rank {last}"));
    }
    Ok((format!("study: {tests} sets judged, (C,P,inf) has rank {first} of 57"), problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_in_minutes_or_hours_or_as_in_manifests() {
        let nanoseconds = |text: &str| budget(text).map(|time| time.0);
        assert_eq!(nanoseconds("30m"), Ok(1_800_000_000_000));
        assert_eq!(nanoseconds("2h"), Ok(7_200_000_000_000));
        assert_eq!(nanoseconds("90s"), Ok(90_000_000_000));
        assert!(["m", "half an h", "9999999999h"].iter().all(|text| budget(text).is_err()));
    }
}
