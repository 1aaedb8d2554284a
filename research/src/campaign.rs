//! `cargo xtask campaign`: random systems in large numbers, and the budget of them that `cargo xtask test` draws.
//!
//! A campaign draws systems by seed and number, and judges each. The suite draws a *budget* of each campaign: first every system
//! that ever failed (`tests/campaigns/failed.toml`), then the first systems of a seed that is made from the commit, so that each
//! commit draws others. The command draws the *large* number, block by block; an interrupted run goes on where it was.
//!
//! # Invariants
//!
//! 1. A budget is a number of systems, not a time: a slow host draws the same systems.
//! 2. A check that draws a budget prints the number that the budget leaves out ([`Left`]).
//! 3. `tests/campaigns/ran.toml` names runs that came to their end on one commit, without changes of files.
//!
//! Not here: the systems that are drawn, and their faults (`soundness`, `hostile`, `faults`, `fusee_campaigns`).

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use fusee_campaigns::draws::{Draws, Wrong};
use serde::{Deserialize, Serialize};

use fusee_host::{report, system};

use crate::{by_clock, decided, faults, hostile, launches, runs, soundness};

/// Arguments of `cargo xtask campaign`.
#[derive(Args)]
pub struct CampaignArguments {
    /// Only these campaigns, or those whose names begin so: `blocking` means `blocking-within`, `blocking-across` and so on. [default: all]
    names: Vec<String>,
    /// Print the campaigns, what they ask, and their sizes; draw nothing.
    #[arg(long)]
    list: bool,
    /// Draw this multiple of each campaign's large number of systems.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    times: u64,
    /// Draw only the budgets, as `cargo xtask test` does. Such a run is not recorded.
    #[arg(long, conflicts_with_all = ["times", "afresh"])]
    budget: bool,
    /// The seed. [default: that of an interrupted run, else one made from the commit]
    #[arg(long)]
    seed: Option<u32>,
    /// Forget interrupted runs.
    #[arg(long)]
    afresh: bool,
    /// Search for each planted fault instead, with several seeds, and print the number of the system that shows it.
    #[arg(long, conflicts_with_all = ["names", "list", "times", "afresh", "budget"])]
    planted: bool,
    /// Number of seeds, one after the other, with --planted.
    #[arg(long, default_value_t = 5, requires = "planted", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,
}

// --- Campaigns

/// Random systems of one kind.
#[derive(Clone, Copy)]
pub struct Campaign {
    /// The name on the command line and in files.
    pub name: &'static str,
    /// The question that the campaign answers.
    pub question: &'static str,
    /// The name of its systems, in the plural.
    pub unit: &'static str,
    /// Number of systems that the suite draws.
    pub budget: u64,
    /// Number of systems that the command draws.
    pub large: u64,
    /// Number of systems between two entries in the file of an interrupted run.
    pub block: u64,
    /// Draws and judges systems.
    pub draw: fn(Draws) -> Result<Outcome>,
}

/// The results of some draws.
#[derive(Default)]
pub struct Outcome {
    /// Systems judged.
    pub systems: u64,
    /// Jobs judged in them; in `faults` tasks that ended, in `launches` launches that were right, in `runs` runs.
    pub jobs: u64,
    /// Systems in which something is wrong.
    pub wrong: Vec<Wrong>,
    /// The figures in words.
    pub report: String,
}

impl Campaign {
    /// The draws of the suite: systems that failed before, then the budget.
    ///
    /// # Errors
    /// The list of those that failed cannot be read.
    pub fn draws(&self) -> Result<Vec<Draws>> {
        let mut draws = failed(&system::root()?, self.name)?;
        draws.push(Draws::new(seed(), self.budget));
        Ok(draws)
    }
}

/// All campaigns, in the order of the page.
#[must_use]
pub fn all() -> Vec<Campaign> {
    let mut all = soundness::campaigns();
    all.extend([
        by_clock::CAMPAIGN,
        decided::CAMPAIGN,
        hostile::CAMPAIGN,
        faults::CAMPAIGN,
        launches::CAMPAIGN,
        runs::PAIRS,
        runs::KILLED,
    ]);
    all
}

/// The systems that the budgets of some campaigns leave out, in words.
pub struct Left<'a>(pub &'a [Campaign]);

impl fmt::Display for Left<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |size: fn(&Campaign) -> u64| thousands(self.0.iter().map(size).sum());
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return Ok(()) };
        // Campaigns of one check have names that begin in the same way.
        let name = if self.0.len() > 1 { first.name.split('-').next().unwrap_or(first.name) } else { last.name };
        let (budget, large) = (sum(|one| one.budget), sum(|one| one.large));
        write!(f, "{budget} of {large} {}, seed {}; the rest: `cargo xtask campaign {name}`", first.unit, seed())
    }
}

/// A number with commas.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

//--- Seeds

/// The environment variable that replaces the commit's seed.
const SEED: &str = "FUSEE_SEED";
/// The seed where there is no commit, as in an unpacked archive.
const NO_COMMIT: u64 = 1;

/// The seed of this run of the suite.
pub fn seed() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let asked = std::env::var(SEED).ok();
        let text = asked.or_else(|| system::root().ok().and_then(|root| commit(&root)));
        text.map_or(NO_COMMIT, |text| seed_of(&text))
    })
}

/// The seed that a text gives: a number is itself, a commit its first eight digits, any other text a hash of it.
fn seed_of(text: &str) -> u64 {
    let commit = || u32::from_str_radix(text.get(..8)?, 16).ok();
    let hash = || text.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    text.parse().ok().or_else(commit).unwrap_or_else(hash).into()
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The commit that is checked out.
fn commit(root: &Path) -> Option<String> {
    git(root, &["rev-parse", "HEAD"])
}

/// Whether files differ from the commit, but for those that campaigns write.
fn is_changed(root: &Path) -> bool {
    let [files, page] = [FOLDER, PAGE].map(|path| format!(":!{path}"));
    git(root, &["status", "--porcelain", "--", ".", &files, &page]).is_none_or(|changes| !changes.is_empty())
}

//--- Systems that failed

/// The folder of findings of campaigns.
const FOLDER: &str = "tests/campaigns";
/// Systems that failed before, in [`FOLDER`].
const FAILED: &str = "failed.toml";

/// A system that failed before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    campaign: String,
    seed: u64,
    number: u64,
    /// The problem that was found.
    #[allow(dead_code)]
    why: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllFailed {
    #[serde(default)]
    failed: Vec<Failed>,
}

fn all_failed(root: &Path) -> Result<Vec<Failed>> {
    let path = root.join(FOLDER).join(FAILED);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let all: AllFailed = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(all.failed)
}

/// The systems of campaign `name` that failed before.
fn failed(root: &Path, name: &str) -> Result<Vec<Draws>> {
    let of_name = all_failed(root)?.into_iter().filter(|one| one.campaign == name);
    Ok(of_name.map(|one| Draws::one(one.seed, one.number)).collect())
}

/// Adds a system that failed to the list, unless it is there.
fn keep_failed(root: &Path, name: &str, wrong: &Wrong) -> Result<()> {
    let Wrong { seed, number, what } = wrong;
    if failed(root, name)?.contains(&Draws::one(*seed, *number)) {
        return Ok(());
    }
    let path = root.join(FOLDER).join(FAILED);
    let mut text = std::fs::read_to_string(&path)?;
    let why = toml::Value::from(what.lines().next().unwrap_or_default());
    let _ = write!(text, "\n[[failed]]\ncampaign = \"{name}\"\nseed = {seed}\nnumber = {number}\nwhy = {why}\n");
    system::write(&path, text.as_bytes())
}

//--- Large runs

/// A large run that is not at its end.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct State {
    commit: String,
    seed: u64,
    /// Number of systems of the whole run.
    size: u64,
    /// Number of the next system.
    next: u64,
    systems: u64,
    jobs: u64,
    violations: u64,
}

/// A large run that came to its end.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Ran {
    /// The day, in UTC.
    date: String,
    commit: String,
    seed: u64,
    systems: u64,
    jobs: u64,
    violations: u64,
}

/// Large runs that came to their ends, in [`FOLDER`].
const RAN: &str = "ran.toml";
/// Where interrupted runs are kept.
const STATES: &str = "target/campaigns";

fn state_path(root: &Path, name: &str) -> PathBuf {
    root.join(STATES).join(format!("{name}.toml"))
}

/// Runs the large campaigns that are asked for; `false` if something is wrong.
pub fn campaign(arguments: &CampaignArguments) -> Result<bool> {
    let root = system::root()?;
    if arguments.planted {
        return hostile::planted_table(arguments.seed.map_or_else(seed, u64::from), arguments.seeds);
    }
    let is_named = |one: &Campaign| {
        let of = |name: &String| one.name == *name || one.name.starts_with(&format!("{name}-"));
        arguments.names.is_empty() || arguments.names.iter().any(of)
    };
    let chosen: Vec<Campaign> = all().into_iter().filter(is_named).collect();
    if chosen.is_empty() {
        bail!("no such campaign; known: {}", all().iter().map(|one| one.name).collect::<Vec<_>>().join(", "));
    }
    if arguments.list {
        for Campaign { name, question, unit, budget, large, .. } in &chosen {
            fusee_host::sayln!(
                "{name}: {question} ({} {unit} in the suite, {} here)",
                thousands(*budget),
                thousands(*large)
            );
        }
        return Ok(true);
    }
    let mut is_good = true;
    for one in &chosen {
        is_good &= run(&root, one, arguments)?;
    }
    fusee_host::sayln!(
        "{}",
        match is_good {
            true => report::green("No system is wrong."),
            false => report::red(
                "Something is wrong. The systems are in tests/campaigns/failed.toml, and run first from now on."
            ),
        }
    );
    Ok(is_good)
}

/// The state from which a run of `campaign` goes on.
fn begin(root: &Path, campaign: &Campaign, arguments: &CampaignArguments, commit: String) -> Result<State> {
    let size = if arguments.budget { campaign.budget } else { campaign.large * arguments.times };
    let seed = arguments.seed.map_or_else(seed, u64::from);
    let afresh = State { commit, seed, size, next: 0, systems: 0, jobs: 0, violations: 0 };
    let path = state_path(root, campaign.name);
    let Some(text) = std::fs::read_to_string(&path).ok().filter(|_| !arguments.afresh && !arguments.budget) else {
        return Ok(afresh);
    };
    let kept: State = toml::from_str(&text).with_context(|| path.display().to_string())?;
    if kept.commit != afresh.commit || arguments.seed.is_some_and(|seed| u64::from(seed) != kept.seed) {
        eprintln!("{}: an interrupted run was of another commit or seed; this one begins anew", campaign.name);
        return Ok(afresh);
    }
    eprintln!("{}: goes on at {} of {}", campaign.name, thousands(kept.next), thousands(size));
    Ok(State { size, ..kept })
}

/// Runs one campaign to its end.
fn run(root: &Path, campaign: &Campaign, arguments: &CampaignArguments) -> Result<bool> {
    let here = commit(root).unwrap_or_else(|| "unknown".to_owned());
    let here = if is_changed(root) { format!("{here}, changed") } else { here };
    let mut state = begin(root, campaign, arguments, here)?;
    let path = state_path(root, campaign.name);
    let (started, first) = (Instant::now(), state.next);
    if first == 0 {
        for draws in failed(root, campaign.name)? {
            take(root, campaign, &mut state, draws)?;
        }
    }
    while state.next < state.size {
        let count = campaign.block.min(state.size - state.next);
        let draws = Draws { first: state.next, ..Draws::new(state.seed, count) };
        take(root, campaign, &mut state, draws)?;
        state.next += count;
        if !arguments.budget {
            system::write(&path, toml::to_string(&state)?.as_bytes())?;
        }
        let rate = (state.next - first) as f64 / started.elapsed().as_secs_f64();
        eprintln!(
            "{}: {} of {} {}, {} violations, {rate:.0} a second",
            campaign.name,
            thousands(state.next),
            thousands(state.size),
            campaign.unit,
            state.violations
        );
    }
    if !arguments.budget {
        std::fs::remove_file(&path)?;
    }
    let State { commit, seed, systems, jobs, violations, .. } = state;
    let is_good = violations == 0;
    let ran = Ran { date: today(), commit, seed, systems, jobs, violations };
    fusee_host::sayln!("{}: {}", campaign.name, ran.words(campaign));
    if arguments.budget {
        return Ok(is_good);
    }
    if ran.commit.contains(',') {
        eprintln!("{}: not recorded, since files differ from the commit", campaign.name);
        return Ok(is_good);
    }
    let mut all = ran_before(root)?;
    all.insert(campaign.name.to_owned(), ran);
    let text = format!(
        "# Written by `cargo xtask campaign`: the last run of each campaign to its end.\n\n{}",
        toml::to_string(&all)?
    );
    system::write(&root.join(FOLDER).join(RAN), text.as_bytes())?;
    write_page(root)?;
    Ok(is_good)
}

/// Draws some systems, prints the results, and keeps those that are wrong.
fn take(root: &Path, campaign: &Campaign, state: &mut State, draws: Draws) -> Result<()> {
    let outcome = (campaign.draw)(draws)?;
    fusee_host::sayln!("{}", outcome.report.trim_end());
    for wrong in &outcome.wrong {
        keep_failed(root, campaign.name, wrong)?;
    }
    state.systems += outcome.systems;
    state.jobs += outcome.jobs;
    state.violations += outcome.wrong.len() as u64;
    Ok(())
}

fn ran_before(root: &Path) -> Result<BTreeMap<String, Ran>> {
    let path = root.join(FOLDER).join(RAN);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

impl Ran {
    fn words(&self, campaign: &Campaign) -> String {
        let Ran { date, commit, seed, systems, jobs, violations } = self;
        let commit = commit.get(..12).unwrap_or(commit);
        let [systems, jobs] = [systems, jobs].map(|number| thousands(*number));
        format!(
            "{date}, commit {commit}, seed {seed}: {systems} {}, {jobs} jobs, {violations} violations",
            campaign.unit
        )
    }
}

//--- The page

/// The page with the table of campaigns.
pub const PAGE: &str = "docs/campaigns.md";
/// The line before the table.
const MARK: &str = "<!-- table of: tests/campaigns/ran.toml -->\n";

/// The table of all campaigns.
fn table(root: &Path) -> Result<String> {
    let ran = ran_before(root)?;
    let mut text = String::from(
        "| Campaign | Question | In the suite | Large | The large one last ran to its end |\n|---|---|---:|---:|---|\n",
    );
    for campaign in all() {
        let Campaign { name, question, unit, budget, large, .. } = campaign;
        let last = ran.get(name).map_or_else(|| "not yet".to_owned(), |ran| ran.words(&campaign));
        let [budget, large] = [budget, large].map(thousands);
        let _ = writeln!(text, "| `{name}` | {question} | {budget} | {large} {unit} | {last} |");
    }
    Ok(text)
}

/// The false statements of the page and the files.
pub fn problems(root: &Path) -> Result<Vec<String>> {
    let table = table(root)?;
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut problems = Vec::new();
    if !page.split_once(MARK).is_some_and(|(_, rest)| rest.starts_with(&format!("{table}\n"))) {
        problems.push(format!("{PAGE}: its table is not that of {FOLDER}/{RAN} and the code:\n{table}"));
    }
    let named = ran_before(root)?.into_keys().map(|name| (RAN, name));
    let named = named.chain(all_failed(root)?.into_iter().map(|one| (FAILED, one.campaign)));
    let unknown = named.filter(|(_, name)| !all().iter().any(|one| one.name == *name));
    problems.extend(unknown.map(|(file, name)| format!("{FOLDER}/{file}: no campaign is called `{name}`")));
    Ok(problems)
}

/// Writes the table on the page anew.
fn write_page(root: &Path) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let (before, rest) = page.split_once(MARK).with_context(|| format!("{PAGE} has no line {MARK}"))?;
    let after: String = rest.lines().skip_while(|line| line.starts_with('|')).flat_map(|line| [line, "\n"]).collect();
    system::write(&root.join(PAGE), format!("{before}{MARK}{}{after}", table(root)?).as_bytes())
}

//--- Days

/// The day in UTC, as `2026-11-27`.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date of a day after 1970-01-01.
fn date(days: u64) -> String {
    // Years begin in March, so that the day of a leap year is the last one.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", 400 * era + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let days = [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_784, "2026-11-27"),
        ];
        for (days, expected) in days {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_seed_is_a_number_the_first_digits_of_a_commit_or_a_hash() {
        assert_eq!(seed_of("17"), 17);
        assert_eq!(seed_of("12e8d54fa1b2c3d4"), 0x12e8_d54f);
        assert_ne!(seed_of("winter"), seed_of("summer"));
    }

    #[test]
    fn a_run_is_words_and_numbers_have_commas() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_page_and_the_files_name_the_campaigns_there_are() {
        assert_eq!(problems(&system::root().unwrap()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_campaign_has_a_name_of_its_own_and_a_budget_that_is_a_part_of_it() {
        let all = all();
        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other.name != one.name), "{}", one.name);
            assert!(0 < one.budget && one.budget <= one.large && one.block > 0, "{}", one.name);
        }
    }

    #[test]
    fn an_interrupted_run_goes_on_unless_commit_or_seed_changed_or_it_is_to_begin_anew() {
        let root = std::env::temp_dir().join(format!("fusee-campaigns-{}", std::process::id()));
        let campaign = hostile::CAMPAIGN;
        let arguments = |seed, afresh| CampaignArguments {
            names: Vec::new(),
            list: false,
            times: 2,
            seed,
            afresh,
            budget: false,
            planted: false,
            seeds: 5,
        };
        let kept =
            State { commit: "a".into(), seed: 7, size: campaign.large, next: 50, systems: 50, jobs: 9, violations: 0 };
        system::write(&state_path(&root, campaign.name), toml::to_string(&kept).unwrap().as_bytes()).unwrap();
        let next = |commit: &str, seed, afresh| {
            let state = begin(&root, &campaign, &arguments(seed, afresh), commit.into()).unwrap();
            assert_eq!(state.size, 2 * campaign.large);
            state.next
        };
        assert_eq!((next("a", None, false), next("a", Some(7), false)), (50, 50));
        assert_eq!((next("b", None, false), next("a", Some(8), false), next("a", None, true)), (0, 0, 0));
        std::fs::remove_dir_all(root).unwrap();
    }
}
