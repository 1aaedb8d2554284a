//! `cargo xtask experiment`: one workload in several arrangements, the results of each, and whether these have the shape they should.
//!
//! An experiment is a value, [`Experiment`]: arrangements, quantities, conditions. To add one, write a module beside
//! [`management`] and name it in [`ALL`]; tables, CSV, pictures and the verdict are the same for all. There are six kinds: systems,
//! which the simulator and QEMU run, those of one large workload ([`gpusync`]), of which QEMU runs a smaller one, those of a
//! workload for which a board's kernel has no room ([`graphs`]), those of processes on an engine of many SMs, in which the
//! kernel has no part ([`spatial`]), those of clients that share an engine ([`sharing`]), of which QEMU runs a part of four, and those of
//! virtual GPUs ([`gdev`]).
//!
//! # Limits of the results
//!
//! Caches and buses are not modelled anywhere, and kernel paths take round figures. So the order of arrangements counts,
//! and the conditions, not the last digit. A condition that does not hold stays, with the reason.

mod budgets;
mod chart;
mod gdev;
mod gpusync;
mod graphs;
mod management;
mod migration;
mod sharing;
mod spatial;
mod systems;

use anyhow::{Result, bail};
use clap::Args;
use fusee_manifest::Time;

use self::systems::{Measure, System};
use crate::faults;
use fusee_host::project::Project;
use fusee_host::report;
use fusee_host::system::Workspace;
use fusee_host::table::Table;
use fusee_tool::values::time;

/// All experiments.
const ALL: [Experiment; 21] = [
    management::EXPERIMENT,
    budgets::EXPERIMENT,
    migration::EXPERIMENT,
    graphs::GRAPHS,
    graphs::LATENCY,
    spatial::PRIORITY,
    spatial::THROUGHPUT,
    spatial::SHARING,
    sharing::PAIRS,
    sharing::COST,
    sharing::IDLE,
    sharing::FOUR,
    sharing::LIMITS,
    sharing::FAIR,
    sharing::GROUP_COST,
    sharing::NESTED,
    sharing::CLASSES,
    gdev::BANDWIDTH,
    gdev::QUEUES,
    gdev::FOUR,
    gdev::MEMORY,
];
/// The longest run in QEMU, in nanoseconds.
const EMULATED: u64 = 3_000_000_000;
/// Where results are written.
const FOLDER: &str = "experiments";

/// Arguments of `cargo xtask experiment`.
#[derive(Args)]
pub struct ExperimentArguments {
    /// Which; `--list` says what there is.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Say what experiments there are, and what they ask.
    #[arg(long)]
    list: bool,
    /// Virtual time that each arrangement runs for; if absent, the experiment's own.
    #[arg(long = "for", value_parser = time)]
    length: Option<Time>,
    /// What random numbers are drawn from.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// So many draws, from that seed on: the least, the mean and the most of each, and which conditions hold in which draw.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// How many workloads of each size the spatial experiments run. [default: 40]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=1_000))]
    workloads: Option<u64>,
    /// Times of blocks of the spatial experiments are those of the paper's table, and kernels a 13th as long.
    #[arg(long)]
    block_mode: bool,
    /// How often `faults` runs its system. [default: 1000; in QEMU 20]
    #[arg(long)]
    runs: Option<u64>,
    /// The number of the first of them: that of one that went wrong, to see it again.
    #[arg(long, default_value_t = 0, requires = "runs")]
    from: u64,
    /// Run the arrangements in QEMU, too, for 3 s of virtual time at most, and compare with the simulator.
    #[arg(long)]
    qemu: bool,
}

/// The seed unless another is asked for.
const SEED: u64 = 1;

// --- Experiments

/// One workload in several arrangements.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// Virtual nanoseconds of an arrangement, or workloads of each size,
    pub length: u64,
    /// and in `cargo xtask test`.
    pub short: u64,
    /// The workload.
    pub kind: Kind,
    /// The conditions on the measurements.
    pub conditions: fn(&Findings) -> Vec<Condition>,
}

impl Experiment {
    const fn is_spatial(&self) -> bool {
        matches!(self.kind, Kind::Spatial(..))
    }

    /// Refuses an experiment that QEMU cannot run.
    fn has_form_for_qemu(&self) -> Result<()> {
        let name = self.name;
        match self.kind {
            Kind::Systems(..) | Kind::Clusters(..) => Ok(()),
            Kind::Graphs(..) => {
                bail!(
                    "`{name}` is for the simulator only: a kernel that QEMU boots has no room for so many tasks in a pool"
                )
            }
            Kind::Sharing(..) if sharing::has_form(name) => Ok(()),
            Kind::Sharing(..) | Kind::Gdev(..) => {
                let others = sharing::emulated_names().collect::<Vec<_>>().join(", ");
                bail!(
                    "`{name}` is for the simulator only: it runs hundreds of systems; of those that share an engine these have a form for QEMU: {others}"
                )
            }
            Kind::Spatial(..) => bail!("`{name}` is for the host only: the kernel has no part in it"),
        }
    }

    /// The name of all experiments of its kind, if they have one.
    const fn family(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Spatial(..) => Some(spatial::ALL),
            Kind::Sharing(..) => Some(sharing::ALL),
            Kind::Gdev(..) => Some(gdev::ALL),
            Kind::Systems(..) | Kind::Clusters(..) | Kind::Graphs(..) => None,
        }
    }
}

/// The workload of an experiment.
pub enum Kind {
    /// Systems that run for so many nanoseconds and then end themselves, and the measures of each.
    Systems(fn(u64) -> Vec<System>, &'static [Measure]),
    /// The workload of [`gpusync`], and its measures.
    Clusters(fn() -> Vec<gpusync::Arrangement>, &'static [gpusync::Measure]),
    /// The workload of [`graphs`], its measures, and its further files.
    Graphs(fn() -> Vec<graphs::Arrangement>, &'static [graphs::Measure], graphs::Files),
    /// The workloads of [`spatial`], and their measures.
    Spatial(fn() -> Vec<spatial::Arrangement>, &'static [spatial::Measure]),
    /// Clients of one engine in the simulator, and what is found.
    Sharing(fn(&sharing::Runs) -> Result<Findings>),
    /// Clients of virtual GPUs in the simulator, and what is found.
    Gdev(fn(&sharing::Runs) -> Result<Findings>),
}

/// Something that is measured.
#[derive(Clone, Copy)]
pub struct Quantity {
    /// Its name, in tables and in conditions.
    pub name: &'static str,
    /// The unit in which it is counted.
    pub unit: Unit,
    /// Whether the picture shows it.
    pub charted: bool,
}

impl Quantity {
    /// A name with the unit behind it.
    fn title(&self, name: &str) -> String {
        format!("{name} {}", self.unit.name()).trim_end().to_owned()
    }
}

/// The unit of a quantity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Things.
    Count,
    /// Things in a second.
    PerSecond,
    /// A part of the whole, from 0 to 1.
    Share,
    /// One number by another.
    Ratio,
    /// One number by another, where a hundredth matters,
    Hundredths,
    /// or a thousandth.
    Fine,
    /// Nanoseconds.
    Time,
}

impl Unit {
    /// The value as people read it.
    pub fn show(self, value: f64) -> String {
        let number = self.number(value);
        match self.name() {
            "" => number,
            _ if value.is_nan() => number,
            name => format!("{number} {name}"),
        }
    }

    /// The value without its unit.
    fn number(self, value: f64) -> String {
        match self {
            _ if value.is_nan() => "-".to_owned(),
            Unit::Count => format!("{value:.0}"),
            Unit::Ratio | Unit::PerSecond => format!("{value:.1}"),
            Unit::Hundredths => format!("{value:.2}"),
            Unit::Fine => format!("{value:.3}"),
            Unit::Share => format!("{:.1}", value * 100.0),
            Unit::Time => format!("{:.3}", value / 1e6),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Count | Unit::Ratio | Unit::Hundredths | Unit::Fine => "",
            Unit::PerSecond => "/s",
            Unit::Share => "%",
            Unit::Time => "ms",
        }
    }
}

/// A condition, and whether it holds.
pub struct Condition {
    /// In a sentence.
    pub claim: &'static str,
    /// Whether it does.
    pub holds: bool,
    /// The numbers that say so.
    pub numbers: String,
    /// Why it does not, if that is known: then the experiment does not fail for it.
    pub why_not: Option<&'static str>,
    /// Why it does not with some seeds, if that is known: then the experiment does not fail for these.
    pub some_draws: Option<&'static str>,
    /// The number of a paper that it is about.
    pub paper: Option<Paper>,
}

/// A number of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// The experiment, as the page numbers it.
    pub experiment: &'static str,
    /// The number.
    pub value: &'static str,
}

impl Condition {
    fn new(claim: &'static str, holds: bool, numbers: String) -> Self {
        Self { claim, holds, numbers, why_not: None, some_draws: None, paper: None }
    }

    fn of(self, paper: Paper) -> Self {
        Self { paper: Some(paper), ..self }
    }

    fn reason(&self) -> Option<&'static str> {
        self.why_not.or(self.some_draws)
    }

    fn line(&self) -> String {
        let Self { claim, numbers, .. } = self;
        match (self.holds, self.reason()) {
            (true, _) => format!("{}: {claim} ({numbers})", report::green("holds")),
            (false, Some(why)) => format!("{}: {claim} ({numbers}): {why}", report::yellow("does not hold")),
            (false, None) => format!("{}: {claim} ({numbers})", report::red("does not hold")),
        }
    }
}

/// The measurements of all arrangements.
pub struct Findings {
    /// Their names, and each in a sentence.
    pub arrangements: Vec<(&'static str, &'static str)>,
    /// The measurements.
    pub quantities: Vec<Quantity>,
    /// The values of each arrangement, in the order of the quantities.
    pub values: Vec<Vec<f64>>,
    /// Further files.
    pub further: Vec<Further>,
}

/// A file besides table and picture.
pub struct Further {
    /// How its name ends, behind that of the experiment.
    pub name: String,
    /// The contents of the file.
    pub text: String,
}

impl Findings {
    /// One number. Both names are the experiment's own.
    pub fn value(&self, arrangement: &str, quantity: &str) -> f64 {
        let row =
            self.arrangements.iter().position(|one| one.0 == arrangement).expect("an arrangement of the experiment");
        let column = self.quantities.iter().position(|one| one.name == quantity).expect("a quantity of the experiment");
        self.values[row][column]
    }
}

//--- Running it

/// Runs an experiment, prints its findings and writes them down; `false` if a condition does not hold, or QEMU disagrees.
pub fn experiment(arguments: &ExperimentArguments, install: bool) -> Result<bool> {
    if arguments.list {
        let others = [
            (spatial::ALL, spatial::ALL_QUESTION),
            (sharing::ALL, sharing::ALL_QUESTION),
            (gdev::ALL, gdev::ALL_QUESTION),
            (faults::NAME, faults::QUESTION),
        ];
        let all = ALL.iter().map(|one| (one.name, one.question)).chain(others);
        all.for_each(|(name, question)| fusee_host::sayln!("{name}: {question}"));
        return Ok(true);
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    if name == faults::NAME {
        if arguments.length.is_some() || arguments.seeds > 1 {
            bail!("`{name}` has `--runs`, each of a fixed length, and no other draws than those of its seed");
        }
        let workspace = if arguments.qemu { Some(Workspace::open(install)?) } else { None };
        return faults::faults(arguments.seed, arguments.from, arguments.runs, workspace.as_ref());
    }
    if arguments.runs.is_some() {
        bail!("`--runs` is for the experiment `{}`", faults::NAME);
    }
    let is_chosen = |one: &&Experiment| one.name == name || one.family() == Some(name);
    let chosen: Vec<&Experiment> = ALL.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let known = ALL
            .iter()
            .map(|one| one.name)
            .chain([spatial::ALL, sharing::ALL, gdev::ALL, faults::NAME])
            .collect::<Vec<_>>()
            .join(", ");
        bail!("no experiment `{name}`; known: {known}");
    }
    if arguments.qemu {
        chosen.iter().try_for_each(|one| one.has_form_for_qemu())?;
    }
    let replays = spatial::Replays::default();
    let (mut is_good, mut judged) = (true, Vec::new());
    for one in &chosen {
        if chosen.len() > 1 {
            fusee_host::sayln!("{}: {}", one.name, one.question);
        }
        let (holds, conditions) = run(one, arguments, &replays, install)?;
        is_good &= holds;
        judged.extend(conditions);
    }
    if [sharing::ALL, gdev::ALL].contains(&name) && !judged.is_empty() {
        fusee_host::sayln!("{}", scoreboard(&judged));
    }
    Ok(is_good)
}

/// The numbers of papers beside ours, and the verdicts; then the reason of each that is not as in the paper.
fn scoreboard(conditions: &[Condition]) -> String {
    let mut table = Table::new(vec!["", "paper", "here", "holds"]);
    let of_papers = || conditions.iter().filter_map(|one| Some((one.paper?, one)));
    for (Paper { experiment, value }, one) in of_papers() {
        let verdict = if one.holds { "yes" } else { "no" };
        // The first numbers are ours; what stands beside them is in the condition's own line.
        let ours = one.numbers.split([';', ':']).next().unwrap_or_default();
        table.add_row([experiment, value, ours, verdict].map(str::to_owned).to_vec());
    }
    let mut text = table.to_string();
    for (paper, one) in of_papers().filter(|(_, one)| !one.holds) {
        text += &format!("\n{}, {}: {}", paper.experiment, paper.value, one.reason().unwrap_or("not known why"));
    }
    text
}

/// Runs one experiment. Returns whether all is as it should be, and the conditions of the one draw, if there is one.
fn run(
    chosen: &Experiment,
    arguments: &ExperimentArguments,
    replays: &spatial::Replays,
    install: bool,
) -> Result<(bool, Vec<Condition>)> {
    let (name, is_spatial) = (chosen.name, chosen.is_spatial());
    let length = match (arguments.length, arguments.workloads) {
        (Some(_), _) if is_spatial => {
            bail!("`{name}` runs until all processes are done three times; it has `--workloads`")
        }
        (_, Some(_)) if !is_spatial => bail!("`--workloads` is for the spatial experiments"),
        (Some(time), _) => time.0,
        (None, workloads) => workloads.unwrap_or(chosen.length),
    };
    if arguments.block_mode && !is_spatial {
        bail!("`--block-mode` is for the spatial experiments");
    }
    let form = spatial::Form::full(arguments.block_mode);
    if arguments.seeds > 1 {
        return Ok((draws(chosen, length, arguments, &form, replays)?, Vec::new()));
    }
    let found = find(chosen, length, arguments.seed, &form, replays)?;
    if is_spatial {
        fusee_host::sayln!("{}", form.words(length));
    }
    for (name, about) in &found.arrangements {
        fusee_host::sayln!("{name}: {about}");
    }
    fusee_host::sayln!("{}", table(&found));
    let project = Project::fusee()?;
    let folder = project.kept(FOLDER)?;
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{name}.csv")), csv(&found))?;
    std::fs::write(folder.join(format!("{name}.svg")), chart::picture(name, &found))?;
    let shown = folder.strip_prefix(&project.root).unwrap_or(&folder).display();
    fusee_host::sayln!("written: {shown}/{name}.csv, {shown}/{name}.svg");
    for Further { name: ends, text } in &found.further {
        std::fs::write(folder.join(format!("{name}-{ends}")), text)?;
        fusee_host::sayln!("written: {shown}/{name}-{ends}");
    }
    let judged = conditions(chosen, &found, &form);
    let is_good = judge(&judged);
    if !arguments.qemu {
        return Ok((is_good, judged));
    }
    let workspace = Workspace::open(install)?;
    let length = length.min(EMULATED);
    fusee_host::sayln!("in QEMU, {:.1} s:", length as f64 / 1e9);
    let (is_also_good, differences) = match chosen.kind {
        Kind::Systems(arrangements, measures) => {
            let (emulated, differences) = systems::emulate(&workspace, &arrangements(length), measures, length)?;
            fusee_host::sayln!("{}", table(&emulated));
            (judge(&(chosen.conditions)(&emulated)), differences)
        }
        Kind::Clusters(arrangements, measures) => {
            let (found, differences) = gpusync::emulate(&workspace, &arrangements(), measures, arguments.seed, length)?;
            fusee_host::sayln!("{}\nthe same in the simulator:\n{}", table(&found[0]), table(&found[1]));
            (true, differences)
        }
        Kind::Sharing(..) => {
            let runs = sharing::Runs { seed: arguments.seed, length };
            let (found, differences) = sharing::emulate(&workspace, name, &runs)?;
            fusee_host::sayln!("{}\nthe same in the simulator:\n{}", table(&found[0]), table(&found[1]));
            (true, differences)
        }
        Kind::Graphs(..) | Kind::Spatial(..) | Kind::Gdev(..) => (true, Vec::new()),
    };
    differences.iter().for_each(|line| fusee_host::sayln!("{}: {line}", report::red("differs")));
    Ok((is_also_good && differences.is_empty() && is_good, judged))
}

/// Runs an experiment with several seeds, and prints their common results.
fn draws(
    experiment: &Experiment,
    length: u64,
    arguments: &ExperimentArguments,
    form: &spatial::Form,
    replays: &spatial::Replays,
) -> Result<bool> {
    if matches!(experiment.kind, Kind::Systems(..)) || arguments.qemu {
        bail!("`--seeds` is for experiments that draw their tasks, in the simulator: {} does not", experiment.name);
    }
    let seeds = arguments.seed..arguments.seed + arguments.seeds;
    let found = seeds.clone().map(|seed| find(experiment, length, seed, form, replays)).collect::<Result<Vec<_>>>()?;
    fusee_host::sayln!("{}", drawn_table(&found));
    let conditions: Vec<Vec<Condition>> = found.iter().map(|found| conditions(experiment, found, form)).collect();
    let mut is_good = true;
    for number in 0..conditions[0].len() {
        let one = || seeds.clone().zip(conditions.iter().map(|conditions| &conditions[number]));
        let failed: Vec<_> = one().filter(|(_, condition)| !condition.holds).collect();
        let first = &conditions[0][number];
        fusee_host::sayln!("in {} of {}: {}", arguments.seeds - failed.len() as u64, arguments.seeds, first.claim);
        for (seed, condition) in &failed {
            fusee_host::sayln!("  not with seed {seed} ({})", condition.numbers);
        }
        match (failed.is_empty(), first.reason()) {
            (true, _) => {}
            (false, Some(why)) => fusee_host::sayln!("  {}: {why}", report::yellow("known")),
            (false, None) => {
                fusee_host::sayln!("  {}", report::red("not known why"));
                is_good = false;
            }
        }
    }
    Ok(is_good)
}

/// The least, the mean and the most that was found of each quantity of the picture.
fn drawn_table(found: &[Findings]) -> String {
    let first = &found[0];
    let mut header = vec![""];
    header.extend(first.arrangements.iter().map(|one| one.0));
    let mut table = Table::new(header);
    for (index, quantity) in first.quantities.iter().enumerate().filter(|(_, quantity)| quantity.charted) {
        let of = |arrangement: usize| found.iter().map(move |one| one.values[arrangement][index]);
        let ways: [(&str, &dyn Fn(usize) -> f64); 3] = [
            ("least", &|one| of(one).fold(f64::INFINITY, f64::min)),
            ("mean", &|one| of(one).sum::<f64>() / found.len() as f64),
            ("most", &|one| of(one).fold(f64::NEG_INFINITY, f64::max)),
        ];
        for (way, value) in ways {
            let mut row = vec![quantity.title(&format!("{}, {way}", quantity.name))];
            row.extend((0..first.arrangements.len()).map(|one| quantity.unit.number(value(one))));
            table.add_row(row);
        }
    }
    table.to_string()
}

/// The conditions. In a form of [`spatial`] with a reason of its own why something does not hold, that is the reason.
fn conditions(experiment: &Experiment, found: &Findings, form: &spatial::Form) -> Vec<Condition> {
    let mut all = (experiment.conditions)(found);
    if let Some(why) = form.reason().filter(|_| experiment.is_spatial()) {
        all.iter_mut().for_each(|condition| condition.why_not = Some(why));
    }
    all
}

/// Says which conditions hold, and whether all do that should.
fn judge(conditions: &[Condition]) -> bool {
    conditions.iter().for_each(|condition| fusee_host::sayln!("{}", condition.line()));
    conditions.iter().all(|condition| condition.holds || condition.reason().is_some())
}

/// Runs each experiment shortly, on the host: its name, and which conditions are not as they are said to be.
pub fn check() -> impl Iterator<Item = (String, Vec<String>)> {
    let replays = spatial::Replays::default();
    ALL.iter().map(move |experiment| {
        let problems = match find(experiment, experiment.short, SEED, &spatial::Form::SHORT, &replays) {
            Ok(found) => surprises(&(experiment.conditions)(&found)),
            Err(error) => vec![format!("{error:#}")],
        };
        let extent = match experiment.kind {
            Kind::Spatial(..) => format!("{} workloads of a size", experiment.short),
            _ => format!("{} s", experiment.short / 1_000_000_000),
        };
        (format!("experiment {}, {extent}", experiment.name), problems)
    })
}

/// The name of the check by [`check_emulated`].
pub const EMULATED_CHECK: &str = "experiment budgets, 1 s in QEMU";

/// Runs one arrangement of budgets in QEMU and in the simulator: where they disagree.
pub fn check_emulated(workspace: &Workspace) -> Result<Vec<String>> {
    Ok(gpusync::emulate(workspace, &[budgets::early()], &[], SEED, 1_000_000_000)?.1)
}

/// The name of the check by [`check_shared`].
pub const SHARED_CHECK: &str = "experiments sharing-idle and two-classes, 1 s in QEMU";

/// Runs two of the forms of clients that share an engine, in QEMU and in the simulator: where they disagree.
pub fn check_shared(workspace: &Workspace) -> Result<Vec<String>> {
    let runs = sharing::Runs { seed: SEED, length: 1_000_000_000 };
    let mut differences = Vec::new();
    for name in [sharing::IDLE.name, sharing::CLASSES.name] {
        differences.extend(sharing::emulate(workspace, name, &runs)?.1);
    }
    Ok(differences)
}

/// The conditions that do not hold though they should; and those that hold though a reason is given why not.
fn surprises(conditions: &[Condition]) -> Vec<String> {
    let surprising = conditions.iter().filter(|condition| condition.holds == condition.why_not.is_some());
    surprising.map(Condition::line).collect()
}

/// Runs an experiment. `form` and `replays` are for those of [`spatial`].
fn find(
    experiment: &Experiment,
    length: u64,
    seed: u64,
    form: &spatial::Form,
    replays: &spatial::Replays,
) -> Result<Findings> {
    match experiment.kind {
        Kind::Systems(arrangements, measures) => systems::simulate(&arrangements(length), measures, length),
        Kind::Clusters(arrangements, measures) => gpusync::simulate(&arrangements(), measures, seed, length),
        Kind::Graphs(arrangements, measures, files) => graphs::simulate(&arrangements(), measures, files, seed, length),
        Kind::Sharing(find) | Kind::Gdev(find) => find(&sharing::Runs { seed, length }),
        Kind::Spatial(arrangements, measures) => {
            Ok(spatial::simulate(arrangements(), measures, form, seed, length, replays))
        }
    }
}

// --- Output

fn table(found: &Findings) -> String {
    let mut header = vec![""];
    header.extend(found.arrangements.iter().map(|one| one.0));
    let mut table = Table::new(header);
    for (index, quantity) in found.quantities.iter().enumerate() {
        let mut row = vec![quantity.title(quantity.name)];
        row.extend(found.values.iter().map(|values| quantity.unit.number(values[index])));
        table.add_row(row);
    }
    table.to_string()
}

/// One line for each arrangement; times in nanoseconds, shares from 0 to 1.
fn csv(found: &Findings) -> String {
    let quoted = |text: &str| format!("\"{text}\"");
    let header = found.quantities.iter().map(|quantity| quoted(quantity.name));
    let mut lines = vec![std::iter::once(quoted("arrangement")).chain(header).collect::<Vec<_>>().join(",")];
    for ((name, _), values) in found.arrangements.iter().zip(&found.values) {
        let cells = values.iter().map(|value| if value.is_nan() { String::new() } else { value.to_string() });
        lines.push(std::iter::once(quoted(name)).chain(cells).collect::<Vec<_>>().join(","));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Findings {
        let quantity = |name, unit| Quantity { name, unit, charted: true };
        Findings {
            arrangements: vec![("a", "the first"), ("b & c", "the second")],
            quantities: vec![quantity("late", Unit::Time), quantity("busy", Unit::Share)],
            values: vec![vec![2e6, 0.5], vec![f64::NAN, 1.0]],
            further: Vec::new(),
        }
    }

    #[test]
    fn csv_has_a_line_for_each_arrangement_and_nothing_where_nothing_is_known() {
        assert_eq!(csv(&found()), "\"arrangement\",\"late\",\"busy\"\n\"a\",2000000,0.5\n\"b & c\",,1\n");
    }

    #[test]
    fn a_picture_has_a_bar_for_each_value_and_escapes_names() {
        let picture = chart::picture("x", &found());
        assert_eq!(picture.matches("class=\"bar\"").count(), 4);
        assert!(picture.contains("b &amp; c") && picture.contains("2.000 ms") && picture.contains("50.0 %"));
    }

    #[test]
    fn what_fails_without_a_reason_and_what_holds_in_spite_of_one_are_surprises() {
        let condition = |holds, why_not| Condition { why_not, ..Condition::new("", holds, String::new()) };
        let surprising = |holds, why_not| !surprises(&[condition(holds, why_not)]).is_empty();
        assert!(!surprising(true, None) && !surprising(false, Some("known")));
        assert!(surprising(false, None) && surprising(true, Some("known")));
        // The seed of the tests is none of those for which there is a reason.
        let with_some = Condition { some_draws: Some("known"), ..condition(false, None) };
        assert!(with_some.reason().is_some() && !surprises(&[with_some]).is_empty());
    }

    #[test]
    fn in_block_mode_its_own_reason_is_given_and_in_kernel_mode_that_of_the_condition() {
        let condition = |_: &Findings| vec![Condition::new("", false, String::new())];
        let reason = |block_mode| {
            let form = spatial::Form::full(block_mode);
            conditions(&Experiment { conditions: condition, ..spatial::SHARING }, &found(), &form)[0].reason()
        };
        assert_eq!(reason(false), None);
        assert!(reason(true).is_some_and(|why| why.starts_with("in block mode")));
    }

    #[test]
    fn of_several_draws_the_table_has_the_least_the_mean_and_the_most_without_what_no_picture_shows() {
        let with = |late: f64| {
            let mut one = found();
            one.values[0][0] = late;
            one.quantities[1].charted = false;
            one
        };
        let table = drawn_table(&[with(1e6), with(3e6)]);
        for line in ["late, least ms   1.000", "late, mean ms   2.000", "late, most ms   3.000"] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_it = |row: &str| row.split_whitespace().collect::<Vec<_>>().starts_with(&words);
            assert!(table.lines().any(is_it), "{line}: {table}");
        }
        assert!(!table.contains("busy"));
    }
}
