//! `cargo xtask advise`: its arguments and its output.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory, Parser, Subcommand};
use fusee_host::project::Project;
use fusee_host::table::Table;
use fusee_host::{answers, report, system, words};
use fusee_manifest::Variant;
use fusee_sched_analysis::approximate;
use fusee_tool::command::Everywhere;
use schemars::JsonSchema;
use serde::Serialize;

use crate::search::{Search, Tried, search};
use crate::text;

/// Advise on the arrangement of tasks on CPUs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(Subcommand)]
enum Command {
    /// Tries arrangements of a system's tasks on its CPUs, and prints those in which most is proved, with the lines to change.
    Advise(AdviseArguments),
}

/// The system, and the length of the search.
#[derive(clap::Args)]
pub struct AdviseArguments {
    /// The system's manifest. [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    source: Option<PathBuf>,
    /// The system's manifest, named by an option.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// The board, in place of the one that the manifest names.
    #[arg(long)]
    board: Option<String>,
    /// The largest number of arrangements to try.
    #[arg(long, default_value_t = 300)]
    tries: usize,
    /// Write the whole manifest of the best arrangement to this file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Let `--write` replace a file.
    #[arg(long, requires = "write")]
    force: bool,
    /// Print one JSON object (docs/schema/advise.json).
    #[arg(long)]
    json: bool,
}

/// Rows of the table, at most.
const ROWS: usize = 10;

/// Reads the command line and carries out its command.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.everywhere.apply();
    let Command::Advise(advise) = &arguments.command;
    report::exit_code(self::advise(advise))
}

/// Whether a command is one of these.
#[must_use]
pub fn has(name: &str) -> bool {
    Arguments::command().get_subcommands().any(|command| command.get_name() == name)
}

/// Tries arrangements and prints the best ones; `false`: admission lets none of them in.
fn advise(arguments: &AdviseArguments) -> Result<bool> {
    let project = Project::here()?;
    let source = project.manifest(arguments.manifest.as_deref().or(arguments.source.as_deref()))?;
    let path = if source.exists() { std::path::absolute(&source)? } else { project.root.join(&source) };
    let shown = path.strip_prefix(&project.root).unwrap_or(&path).to_owned();
    let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let folder = path.parent().map(Path::to_owned);
    let variant = Variant { board: arguments.board.clone(), folder, ..Variant::default() };
    let search = search(&shown, &old, &variant, arguments.tries)?;
    let advice = Advice::of(&search, &shown, &old, arguments.tries);
    match arguments.json {
        true => words::say(&answers::line(&advice)?),
        false => words::print(&advice.text()),
    }
    if let Some(file) = &arguments.write {
        write(&search, file, arguments.force)?;
    }
    if !advice.admitted {
        eprintln!("{} admission refuses each arrangement that was tried", words::red("error:"));
    }
    Ok(advice.admitted)
}

/// Writes the manifest of the best arrangement, if it is better than the present one.
fn write(search: &Search<'_>, file: &Path, force: bool) -> Result<()> {
    let best = search.better().filter(|best| best.verdict.is_admitted);
    let best = best.with_context(|| format!("{} is not written: there is no better arrangement", file.display()))?;
    ensure!(force || !file.exists(), "{} is there already; `--force` replaces it", file.display());
    system::write(file, best.text.as_bytes())?;
    eprintln!("{} has the best arrangement", file.display());
    Ok(())
}

//--- What people and scripts read

/// The arrangements of one system: `advise --json`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Advice {
    /// CPUs.
    pub cpus: u32,
    /// Hard tasks, and graphs with a latency.
    pub promises: usize,
    /// Arrangements that were tried.
    pub tried: usize,
    /// The largest number that would have been tried.
    pub limit: usize,
    /// Those among them that break another rule than those of admission, so that no system can have them.
    pub impossible: usize,
    /// Whether admission lets one of them in: the command's exit code is zero then.
    pub admitted: bool,
    /// The best arrangements of different clusters or policies, the best first, and the present one among them.
    pub arrangements: Vec<ArrangementAnswer>,
    /// The lines of the manifest to change for the first of them, as `diff -u` prints them; `null`: none is better than the present one.
    pub difference: Option<String>,
    /// The words in which admission refuses the first one; empty if it does not.
    pub in_the_way: Vec<String>,
}

/// One arrangement.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ArrangementAnswer {
    /// The CPUs of each cluster.
    pub clusters: String,
    /// The policy of all clusters, or that of each.
    pub policy: String,
    /// Whether it is the present one.
    pub present: bool,
    /// Whether admission lets it in.
    pub admitted: bool,
    /// Promises that are proved.
    pub proved: usize,
    /// The least of (deadline - bound) / deadline of all promises, or, without any, of all real-time tasks; `null`: one of them has no bound.
    pub margin: Option<f64>,
    /// The task or the graph with this margin; `null`: there is none.
    pub least: Option<String>,
    /// CPUs less the utilisation of all clusters, blocking included; `null`: some cluster has no bounds.
    pub left: Option<f64>,
    /// Lines of the manifest that change.
    pub lines: usize,
    /// The changes, one in each line.
    pub changes: Vec<String>,
}

impl Advice {
    fn of(search: &Search<'_>, file: &Path, old: &str, limit: usize) -> Advice {
        let best = search.best(ROWS);
        let first = search.tried.first();
        let better = search.better().map(|best| text::difference(&file.display().to_string(), old, &best.text));
        let refused = first.filter(|first| !first.verdict.is_admitted);
        Advice {
            cpus: search.parts.cpus,
            promises: first.map_or(0, |first| first.verdict.promises),
            tried: search.count,
            limit,
            impossible: search.impossible,
            admitted: first.is_some_and(|first| first.verdict.is_admitted),
            arrangements: best.into_iter().map(|tried| answer(search, tried)).collect(),
            difference: better,
            in_the_way: refused.map(|refused| search.in_the_way(refused)).unwrap_or_default(),
        }
    }

    /// The table, and the lines to change.
    fn text(&self) -> String {
        let mut table = Table::new(["clusters", "policy", "proved", "margin", "of", "left", "lines", ""])
            .left(&["policy", "of", ""])
            .parts(&["margin"]);
        for one in &self.arrangements {
            let margin = one.margin.map_or_else(|| "-".to_owned(), |margin| format!("{:.1} %", margin * 100.0));
            let left = one.left.map_or_else(|| "-".to_owned(), |left| format!("{left:.3}"));
            let proved = match self.promises {
                0 => "-".to_owned(),
                promises => format!("{} of {promises}", one.proved),
            };
            let lines = if one.present { "-".to_owned() } else { one.lines.to_string() };
            let remark = match (one.present, one.admitted) {
                (true, true) => "present",
                (true, false) => "present, refused",
                (false, true) => "",
                (false, false) => "refused",
            };
            let least = one.least.clone().unwrap_or_else(|| "-".to_owned());
            table.add_row([
                one.clusters.clone(),
                one.policy.clone(),
                proved,
                margin,
                least,
                left,
                lines,
                remark.to_owned(),
            ]);
        }
        let mut out = format!("{table}\n");
        if self.promises == 0 {
            out.push_str(
                "No task is hard, and no graph has a latency: the margins are those of all real-time tasks.\n",
            );
        }
        let impossible = match self.impossible {
            0 => String::new(),
            count => format!(", {count} of them against other rules than those of admission"),
        };
        let (tried, limit) = (self.tried, self.limit);
        let _ = writeln!(out, "{tried} arrangements were tried, {limit} at most{impossible}.");
        match (&self.difference, self.admitted) {
            (None, true) => out.push_str("The present arrangement is the best of these.\n"),
            (Some(difference), true) => {
                let _ = write!(
                    out,
                    "The first one needs these changes; `--write FILE` writes the whole manifest.\n\n{difference}"
                );
            }
            (_, false) => {
                let nearest = self.arrangements.first();
                let [clusters, policy] = nearest.map_or(["-", "-"], |one| [&one.clusters, &one.policy]);
                let _ = writeln!(
                    out,
                    "No arrangement is admitted. The nearest one has clusters {clusters} under {policy}:"
                );
                out.extend(self.in_the_way.iter().map(|why| format!("  {why}\n")));
            }
        }
        out
    }
}

fn answer(search: &Search<'_>, tried: &Tried) -> ArrangementAnswer {
    let verdict = &tried.verdict;
    ArrangementAnswer {
        clusters: tried.arrangement.words(),
        policy: tried.arrangement.policies(),
        present: tried.is_present(),
        admitted: verdict.is_admitted,
        proved: verdict.proved,
        margin: verdict.least.as_ref().and_then(|least| least.margin.as_ref()).map(approximate),
        least: verdict.least.as_ref().map(|least| least.name.clone()),
        left: verdict.left.as_ref().map(approximate),
        lines: tried.lines,
        changes: text::changes(&search.parts, &tried.arrangement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks on one of two CPUs.
    const CROWDED: &str = "[system]\nname = \"crowded\"\nboard = \"virt\"\ncpus = 2\n[clusters.a]\ncpus = [0]\n[clusters.b]\ncpus = [1]\n\
                           [tasks.one]\nscript = [\"burn 5ms\"]\nperiod = \"10ms\"\nbudget = \"6ms\"\nhard = true\ncluster = \"a\"\n\
                           [tasks.other]\nscript = [\"burn 5ms\"]\nperiod = \"10ms\"\nbudget = \"6ms\"\nhard = true\ncluster = \"a\"\n";

    fn look<R>(text: &str, look: impl FnOnce(&Search<'_>) -> R) -> R {
        look(&search(Path::new("system.toml"), text, &Variant::default(), 50).unwrap())
    }

    #[test]
    fn a_file_that_is_there_is_replaced_by_force_only() {
        let folder = std::env::temp_dir().join(format!("fusee-advise-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("better.toml");
        std::fs::write(&file, "mine").unwrap();
        look(CROWDED, |search| {
            let refused = write(search, &file, false).unwrap_err().to_string();
            assert!(refused.contains("better.toml is there already; `--force` replaces it"), "{refused}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
            write(search, &file, true).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), search.better().unwrap().text);
            let other = folder.join("other.toml");
            write(search, &other, false).unwrap();
            fusee_manifest::Manifest::read(&other).unwrap();
        });
        // The manifest that was written is the best already.
        let better = std::fs::read_to_string(&file).unwrap();
        look(&better, |search| {
            let refused = write(search, &folder.join("none.toml"), false).unwrap_err().to_string();
            assert!(refused.ends_with("none.toml is not written: there is no better arrangement"), "{refused}");
            let advice = Advice::of(search, Path::new("system.toml"), &better, 50);
            assert!(advice.text().contains("The present arrangement is the best of these."), "{}", advice.text());
            assert_eq!(advice.difference, None);
        });
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_system_that_no_arrangement_proves_has_reasons_and_no_more_rows_than_fit() {
        let text = CROWDED.replace("6ms", "9ms") + "[tasks.third]\nlike = \"one\"\n";
        look(&text, |search| {
            let advice = Advice::of(search, Path::new("system.toml"), &text, 50);
            assert!(!advice.admitted && !advice.in_the_way.is_empty());
            assert!(advice.arrangements.len() <= ROWS && advice.arrangements.iter().any(|one| one.present));
            let shown = advice.text();
            assert!(shown.contains("No arrangement is admitted") && shown.contains(&advice.in_the_way[0]), "{shown}");
        });
    }
}
