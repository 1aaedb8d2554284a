//! `cargo xtask experiment faults`: the demo, again and again, while drivers, servers and clients of it end at other instants.
//!
//! Not here: the faults that are drawn, and the judgement of a run (`research/campaigns/src/faults.rs`).

use anyhow::{Context, Result, anyhow};
use fusee_campaigns::draws::{Draws, Wrong};
use fusee_campaigns::faults::{Campaign, Fault, FaultReport, How, SABOTEUR, Verdict, script};
use fusee_campaigns::hostile::{ANALYSED, COSTS};
use fusee_campaigns::soundness::in_parallel;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Profile};
use fusee_sched_analysis::Overheads;
use fusee_views::metrics::Metrics;

use crate::campaign::{self, Left, Outcome};
use fusee_host::build::Programs;
use fusee_host::evidence::Evidence;
use fusee_host::report;
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_host::table::Table;
use fusee_host::turns::Turns;

/// Its name among the experiments.
pub const NAME: &str = "faults";
/// The question of the campaign.
pub const QUESTION: &str =
    "who notices that a driver, a server or a client ends, at any instant, and when is it there again?";
/// Runs in the simulator, unless told otherwise,
const SIMULATED: u64 = 1_000;
/// and in QEMU.
const EMULATED: u64 = 20;
/// The runs of the suite in the simulator, and the large number of them.
pub const CAMPAIGN: campaign::Campaign = campaign::Campaign {
    name: NAME,
    question: "Is each driver, server and client that ends there again in time, and does all else go on?",
    unit: "runs",
    budget: 150,
    large: 1_000,
    block: 100,
    draw,
};
/// The seed of the checks in QEMU.
const SEED: u64 = 1;
/// Length of a run in the simulator, nanoseconds,
const SHORT: u64 = 250_000_000;
/// and in QEMU,
const LONG: u64 = 700_000_000;
/// with so many frames
const FRAMES: i64 = 18;
/// and so many blocks of samples.
const BLOCKS: i64 = 30;
/// Seconds of the host in which a run in QEMU has ended.
const PATIENCE: u64 = 300;

/// Runs the campaign, in QEMU if a workspace is given, and prints the results; `false` if something is wrong.
pub fn faults(seed: u64, first: u64, runs: Option<u64>, emulated: Option<&Workspace>) -> Result<bool> {
    let manifest = manifest()?;
    let (campaign, report) = match emulated {
        Some(workspace) => emulate(workspace, &manifest, seed, first, runs.unwrap_or(EMULATED))?,
        None => simulate(&manifest, seed, first, runs.unwrap_or(SIMULATED))?,
    };
    fusee_host::sayln!("{}\n{} runs", table(&campaign, &manifest, &report), report.runs);
    violations(&campaign, &report, seed).iter().for_each(|line| fusee_host::sayln!("{line}"));
    let is_good = report.violations.is_empty();
    fusee_host::sayln!(
        "{}",
        match is_good {
            true => report::green("Whatever ended, the others went on, and it was there again in time."),
            false => report::red("Something is wrong."),
        }
    );
    Ok(is_good)
}

/// Draws and judges some runs.
fn draw(draws: Draws) -> Result<Outcome> {
    let manifest = manifest()?;
    let (campaign, report) = simulate(&manifest, draws.seed, draws.first, draws.count)?;
    let wrong = report.violations.iter().map(|(number, faults, problems)| Wrong {
        seed: draws.seed,
        number: *number,
        what: format!("{}: {}", campaign.words(faults), problems.join("; ")),
    });
    let wrong = wrong.collect();
    let jobs = report.ends.values().map(|(times, ..)| times).sum();
    Ok(Outcome { systems: report.runs, jobs, wrong, report: table(&campaign, &manifest, &report).to_string() })
}

/// The campaign in the simulator, as it is checked: its name, and the faults.
pub fn check() -> (String, Vec<String>) {
    let checked = manifest().and_then(|manifest| {
        let (mut all, mut problems) = (FaultReport::default(), Vec::new());
        for draws in CAMPAIGN.draws()? {
            let (campaign, report) = simulate(&manifest, draws.seed, draws.first, draws.count)?;
            problems.extend(violations(&campaign, &report, draws.seed));
            all.join(report);
        }
        Ok((format!("{} ({})", words(&all, "the simulator"), Left(&[CAMPAIGN])), problems))
    });
    checked.unwrap_or_else(|error| (format!("experiment {NAME}"), vec![format!("{error:#}")]))
}

/// The name of the campaign in QEMU, as it is checked.
pub const EMULATED_CHECK: &str = "experiment faults, 20 runs in QEMU";

/// Runs the check. Returns the faults.
pub fn check_emulated(workspace: &Workspace) -> Result<Vec<String>> {
    let manifest = manifest()?;
    let (campaign, report) = emulate(workspace, &manifest, SEED, 0, EMULATED)?;
    Ok(violations(&campaign, &report, SEED))
}

fn manifest() -> Result<Manifest> {
    Ok(Manifest::read(&system::root()?.join(demo_judge::FAULTS_MANIFEST))?)
}

//--- In the simulator

fn simulate(manifest: &Manifest, seed: u64, first: u64, runs: u64) -> Result<(Campaign<'_>, FaultReport)> {
    let campaign = Campaign::new(manifest, SHORT, (COSTS, ANALYSED)).map_err(|why| anyhow!(why))?;
    let report = campaign.run(seed, first, runs);
    Ok((campaign, report))
}

//--- In QEMU

/// The results of a run in QEMU.
struct Ran {
    trace: Trace,
    work: demo_judge::Work,
    code: Option<i32>,
}

fn emulate<'a>(
    workspace: &Workspace,
    manifest: &'a Manifest,
    seed: u64,
    first: u64,
    runs: u64,
) -> Result<(Campaign<'a>, FaultReport)> {
    let campaign = Campaign::new(manifest, LONG, (COSTS, Overheads::default())).map_err(|why| anyhow!(why))?;
    let text = std::fs::read_to_string(&manifest.file)?;
    let any = shortened(manifest, &text, ("all", &[]))?;
    let programs = workspace.image_of_manifest(any, Profile::Det, false)?.programs;
    let run = |name: &str, faults: &[Fault]| -> Result<Ran> {
        let shortened = shortened(manifest, &text, (name, &script(&manifest.system, faults)))?;
        let is_archive = |fault: &Fault| manifest.system.tasks[fault.victim].name == "archive";
        let has_archive = !faults.iter().any(is_archive);
        run_one(workspace, shortened, programs.clone(), has_archive)
    };
    let calm = run("calm", &[])?;
    let campaign = campaign.beside(Metrics::of(&calm.trace, &manifest.system));
    let judge = |number: u64, faults: &[Fault]| match run(&number.to_string(), faults) {
        Ok(ran) => {
            let mut verdict = campaign.judge(&ran.trace.records, faults);
            verdict.problems.extend(ran.work.problems.iter().cloned());
            if ran.code != Some(0) {
                verdict.problems.push(format!("the system ended with {:?}", ran.code));
            }
            let concerned = campaign.concerned(&verdict.ends);
            let mut compare = |task: &str, what: &str, found: usize, calm: usize| {
                if !concerned.contains(&task) && found < calm {
                    verdict.problems.push(format!("{found} {what} were seen to, not {calm}"));
                }
            };
            compare("stabiliser", "frames", ran.work.frames, calm.work.frames);
            compare("vibration", "blocks", ran.work.blocks, calm.work.blocks);
            verdict
        }
        Err(error) => Verdict { problems: vec![format!("{error:#}")], ..Verdict::default() },
    };
    let one = |report: &mut FaultReport, index: u64| {
        let number = first + index;
        let faults = campaign.draw(seed, number, false);
        report.judge(number, &faults, &|faults: &[Fault]| judge(number, faults));
    };
    let report = in_parallel(runs, &one, FaultReport::join);
    Ok((campaign, report))
}

/// The system with another name and another script of its saboteur, that ends when a run does.
fn shortened(manifest: &Manifest, text: &str, (name, script): (&str, &[String])) -> Result<Manifest> {
    let mut table: toml::Table = text.parse()?;
    let mut set = |path: &[&str], value: toml::Value| -> Result<()> {
        let (last, path) = path.split_last().context("an empty path")?;
        let mut at = &mut table;
        for key in path {
            at = at.get_mut(*key).and_then(toml::Value::as_table_mut).with_context(|| format!("no `{key}`"))?;
        }
        at.insert((*last).to_owned(), value);
        Ok(())
    };
    // A script has a step.
    let script = if script.is_empty() { &[format!("sleep {}ms", LONG / 2_000_000)] } else { script };
    set(&["system", "name"], format!("{}-{name}", manifest.system.name).into())?;
    set(&["tasks", SABOTEUR, "script"], script.to_vec().into())?;
    set(&["tasks", "camera", "parameters", "count"], FRAMES.into())?;
    set(&["tasks", "director", "parameters", "count"], FRAMES.into())?;
    set(&["tasks", "director", "parameters", "end_us"], (LONG as i64 / 1_000).into())?;
    set(&["tasks", "vibration", "parameters", "count"], BLOCKS.into())?;
    Ok(Manifest::parse(&manifest.file, &toml::to_string(&table)?)?)
}

fn run_one(workspace: &Workspace, manifest: Manifest, programs: Programs, has_archive: bool) -> Result<Ran> {
    let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
    let options =
        RunOptions { quantum: Turns::of(&image.manifest.system, None).quantum, ..RunOptions::quiet(PATIENCE) };
    let run = system::run(workspace, &image, &options)?;
    let work = demo_judge::work(&Evidence::of(&workspace.project, &image, &run)?, has_archive)?;
    let code = run.outcome.code;
    std::fs::remove_file(&image.path)?;
    Ok(Ran { trace: run.trace?, work, code })
}

// --- Results

fn words(report: &FaultReport, place: &str) -> String {
    let ends: u64 = report.ends.values().map(|(times, ..)| times).sum();
    let again: u64 = report.ends.values().map(|(_, again, _)| again).sum();
    format!("experiment {NAME}, {} runs in {place}: {ends} tasks ended, {again} began again", report.runs)
}

fn violations(campaign: &Campaign<'_>, report: &FaultReport, seed: u64) -> Vec<String> {
    let line = |(number, faults, problems): &(u64, Vec<Fault>, Vec<String>)| {
        format!("seed {seed}, run {number}: {}: {}", campaign.words(faults), problems.join("; "))
    };
    report.violations.iter().map(line).collect()
}

/// The tasks that ended, the tasks that noticed, and the instants at which they were there again.
fn table(campaign: &Campaign<'_>, manifest: &Manifest, report: &FaultReport) -> Table {
    let header = vec!["task", "ended", "times", "noticed by", "up again", "longest ms", "bound ms"];
    let mut table = Table::new(header).left(&["ended", "noticed by"]);
    let time = |time: u64| format!("{:.3}", time as f64 / 1e6);
    for ((victim, how), (times, again, longest)) in &report.ends {
        let bound = match how {
            How::Device(_) => campaign.device_of(*victim).map(|device| campaign.longest_hold(device)),
            _ => campaign.bound(*victim),
        };
        table.add_row(vec![
            manifest.system.tasks[*victim].name.clone(),
            match how {
                How::Stopped => "stopped",
                How::Faults => "fault",
                How::Device(wrong) => wrong.words(),
            }
            .to_owned(),
            times.to_string(),
            match (how, bound) {
                (How::Device(_), _) if *again > 0 => "watchdog",
                (How::Device(_), _) => "nobody",
                (_, Some(_)) => "kernel, supervisor",
                _ => "kernel",
            }
            .to_owned(),
            again.to_string(),
            if *longest > 0 { time(*longest) } else { "-".to_owned() },
            bound.map_or_else(|| "-".to_owned(), time),
        ]);
    }
    table
}
