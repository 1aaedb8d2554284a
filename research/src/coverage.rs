//! `cargo xtask coverage`: which lines of the kernel's state machine its tests on the host run.
//!
//! The tests are built with the compiler's counters, in a folder of their own, and LLVM's tools say which lines were not run. Each of those is explained in
//! [`REASONS`], or is one too many. Not part of `cargo xtask test`: with counters, the tests take a quarter of an hour. The largest models (`hand_over`) take more, and are left
//! out.
//!
//! Not here: code that only runs on a board (`kernel/aarch64`), which systems in QEMU test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use fusee_host::system::Workspace;
use fusee_host::table::Table;
use fusee_host::{report, toolchain};

/// Arguments of `cargo xtask coverage`.
#[derive(Args)]
pub struct CoverageArguments {
    /// Run no tests: say what the last run has left.
    #[arg(long)]
    again: bool,
}

/// The code that is looked at.
const CODE: &str = "kernel/core/src";
/// Lines that are not run, and why.
const REASONS: &str = "tests/coverage.txt";
/// How many of a hundred lines are run at least.
const LEAST: usize = 95;
/// Debian's package of LLVM's tools, the oldest that reads the compiler's files.
const PACKAGE: &str = "llvm-19";
/// The folder of profiles and binaries, in the folder of builds.
const FOLDER: &str = "coverage";
/// The packages and tests that are run.
const TESTS: [&[&str]; 5] = [
    &["--package", "fusee-kernel-core"],
    &["--package", "fusee-simulator", "--lib", "--test", "all"],
    &["--package", "fusee-campaigns", "--lib", "--test", "all"],
    &["--package", "fusee-fuzz", "--test", "corpora"],
    &["--package", "fusee-kernel-core", "--features", "small", "--test", "gates", "--test", "grants"],
];

/// Runs the command; `false` if a line is not run that nothing explains, or too many are not.
pub fn coverage(arguments: &CoverageArguments, install: bool) -> Result<bool> {
    let workspace = Workspace::open(install)?;
    let tools = Tools::find(install)?;
    let folder = workspace.builder().target_dir().join(FOLDER);
    let binaries = folder.join("binaries.txt");
    if !arguments.again {
        let built = run(&workspace, &folder)?;
        std::fs::write(&binaries, built.join("\n"))?;
    }
    let text = std::fs::read_to_string(&binaries).context("no tests were run before: leave out `--again`")?;
    let built: Vec<&str> = text.lines().collect();
    let files = lines(&tools.export(&workspace.root, &folder, &built)?);
    let path = workspace.root.join(REASONS);
    let reasons = Reasons::parse(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)?;
    let source = |file: &str| Ok(std::fs::read_to_string(workspace.root.join(CODE).join(file))?);
    let Found { rows, unexplained, unused } = compare(&files, &reasons, source)?;
    fusee_host::sayln!("{rows}");
    let (ran, all) = files
        .values()
        .flat_map(BTreeMap::values)
        .fold((0, 0), |(ran, all), count| (ran + usize::from(*count > 0), all + 1));
    unexplained.iter().for_each(|line| fusee_host::sayln!("not run, and not in {REASONS}: {line}"));
    unused
        .iter()
        .for_each(|line| fusee_host::sayln!("in {REASONS}, and there is no such line that is not run: {line}"));
    let is_good = ran * 100 >= all * LEAST && unexplained.is_empty() && unused.is_empty();
    let words = format!(
        "{ran} of {all} lines are run, {:.1} %; at least {LEAST} % must be.",
        ran as f64 * 100.0 / all.max(1) as f64
    );
    fusee_host::sayln!("{}", if is_good { report::green(&words) } else { report::red(&words) });
    Ok(is_good)
}

/// Runs the tests; the binaries in which they are.
fn run(workspace: &Workspace, folder: &Path) -> Result<Vec<String>> {
    if folder.join("profiles").exists() {
        std::fs::remove_dir_all(folder.join("profiles"))?;
    }
    let mut built = Vec::new();
    for tests in TESTS {
        let mut command = workspace.toolchain.cargo("host", &[]);
        command
            .current_dir(&workspace.root)
            // The host has a name of its own as a target; flags for all targets are those of the host here.
            .env("RUSTFLAGS", "-Cinstrument-coverage")
            .env("LLVM_PROFILE_FILE", folder.join("profiles/%p-%m.profraw"))
            .args(["test", "--target-dir"])
            .arg(folder)
            .args(tests);
        fusee_host::sayln!("{}", tests.join(" "));
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
        // Cargo names the programs it runs: `Running tests/all/main.rs (target/coverage/debug/deps/all-0123)`.
        let names = said
            .lines()
            .filter(|line| line.trim_start().starts_with("Running "))
            .filter_map(|line| line.rsplit_once('('));
        built.extend(names.map(|(_, name)| name.trim_end_matches(')').to_owned()));
    }
    Ok(built)
}

/// LLVM's tools.
struct Tools {
    cov: String,
    profdata: String,
}

impl Tools {
    fn find(install: bool) -> Result<Tools> {
        let find = || {
            (19..40).rev().map(|version| format!("-{version}")).chain([String::new()]).find_map(|suffix| {
                let tools = Tools { cov: format!("llvm-cov{suffix}"), profdata: format!("llvm-profdata{suffix}") };
                let runs = |name: &str| {
                    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
                };
                (runs(&tools.cov) && runs(&tools.profdata)).then_some(tools)
            })
        };
        if let Some(tools) = find() {
            return Ok(tools);
        }
        if install {
            toolchain::try_install(&[PACKAGE]);
        }
        find().with_context(|| {
            format!("there is no `llvm-cov` of LLVM 19 or newer here: `apt-get install {PACKAGE}` as root")
        })
    }

    /// The lines that were run, as `lcov` has them.
    fn export(&self, root: &Path, folder: &Path, built: &[&str]) -> Result<String> {
        let merged = folder.join("merged.profdata");
        let profiles = folder.join("profiles").read_dir().context("the tests have left no profiles")?;
        let profiles: Vec<PathBuf> = profiles.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        let status =
            Command::new(&self.profdata).args(["merge", "--sparse", "-o"]).arg(&merged).args(&profiles).status()?;
        ensure!(status.success(), "`{}` cannot read the profiles", self.profdata);
        let [first, others @ ..] = built else { bail!("no tests were run") };
        let mut command = Command::new(&self.cov);
        command.current_dir(root).args(["export", "--format=lcov", "--instr-profile"]).arg(&merged).arg(first);
        others.iter().for_each(|other| _ = command.args(["--object", other]));
        let output = command.args(["--sources", CODE]).output()?;
        ensure!(output.status.success(), "`{}`: {}", self.cov, String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// How often each line that has code was run, by file and number.
type Files = BTreeMap<String, BTreeMap<usize, u64>>;

/// Reads `lcov`'s text.
fn lines(text: &str) -> Files {
    let mut files = Files::new();
    let mut file = String::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = path.rsplit_once(&format!("{CODE}/")).map_or(path, |(_, name)| name).to_owned();
        } else if let Some((number, count)) = line.strip_prefix("DA:").and_then(|line| line.split_once(',')) {
            let count = count.split(',').next().unwrap_or(count);
            if let (Ok(number), Ok(count)) = (number.parse(), count.parse::<u64>()) {
                *files.entry(file.clone()).or_default().entry(number).or_default() += count;
            }
        }
    }
    files
}

/// Lines that are not run, and why: paragraphs of `#` lines, which say it, and lines `FILE: TEXT`, each for all lines of that file that contain the text.
struct Reasons(Vec<(String, String)>);

impl Reasons {
    fn parse(text: &str) -> Result<Reasons> {
        let mut reasons = Vec::new();
        let mut is_explained = false;
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() {
                is_explained = false;
            } else if line.starts_with('#') {
                is_explained = true;
            } else {
                let (file, text) =
                    line.split_once(": ").with_context(|| format!("{REASONS}:{number}: not `FILE: TEXT`"))?;
                ensure!(is_explained, "{REASONS}:{number}: no line beginning with `#` says why");
                reasons.push((file.to_owned(), text.to_owned()));
            }
        }
        Ok(Reasons(reasons))
    }
}

/// The result of the comparison.
struct Found {
    rows: Table,
    unexplained: Vec<String>,
    unused: Vec<String>,
}

fn compare(files: &Files, reasons: &Reasons, source: impl Fn(&str) -> Result<String>) -> Result<Found> {
    let mut rows = Table::new(vec!["file", "lines", "not run", "run %"]);
    let mut unexplained = Vec::new();
    let mut used = BTreeSet::new();
    for (file, counts) in files {
        let text = source(file)?;
        let text: Vec<&str> = text.lines().collect();
        let missed: Vec<usize> = counts.iter().filter(|(_, count)| **count == 0).map(|(number, _)| *number).collect();
        let share = 100.0 - missed.len() as f64 * 100.0 / counts.len() as f64;
        rows.add_row(vec![file.clone(), counts.len().to_string(), missed.len().to_string(), format!("{share:.1}")]);
        for number in missed {
            let line = text.get(number - 1).map_or("", |line| line.trim());
            // The end of a block that was not run to its end.
            if line.chars().all(|c| "{}()[],;".contains(c)) {
                continue;
            }
            let fits = |(of, part): &(String, String)| of == file && line.contains(part.as_str());
            match reasons.0.iter().position(fits) {
                Some(place) => _ = used.insert(place),
                None => unexplained.push(format!("{file}:{number}: {line}")),
            }
        }
    }
    let unused = reasons.0.iter().enumerate().filter(|(place, _)| !used.contains(place));
    let unused = unused.map(|(_, (file, text))| format!("{file}: {text}")).collect();
    Ok(Found { rows, unexplained, unused })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LCOV: &str = "SF:/home/x/kernel/core/src/a.rs\nFN:1,f\nDA:1,3\nDA:2,0\nDA:3,0\nDA:4,0\nend_of_record\nSF:/home/x/kernel/core/src/b.rs\nDA:7,1\nend_of_record\n";
    const SOURCE: &str = "fn f() {\n    return Err(1);\n    give_up();\n}\n";

    fn found(reasons: &str) -> Found {
        compare(&lines(LCOV), &Reasons::parse(reasons).unwrap(), |_| Ok(SOURCE.to_owned())).unwrap()
    }

    #[test]
    fn a_line_that_is_not_run_has_a_reason_and_a_reason_has_a_line() {
        assert_eq!(lines(LCOV)["a.rs"], BTreeMap::from([(1, 3), (2, 0), (3, 0), (4, 0)]));
        let none = found("");
        assert_eq!(none.unexplained, ["a.rs:2: return Err(1);", "a.rs:3: give_up();"]);
        let all = found("# Never.\na.rs: return Err(\na.rs: give_up\n");
        assert!(all.unexplained.is_empty() && all.unused.is_empty());
        let other = found("# Never.\nb.rs: give_up\na.rs: return\n");
        assert_eq!(
            (other.unexplained, other.unused),
            (vec!["a.rs:3: give_up();".to_owned()], vec!["b.rs: give_up".to_owned()])
        );
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(Reasons::parse("a.rs: give_up\n").is_err());
        assert!(Reasons::parse("# Why.\na.rs: x\n\na.rs: y\n").is_err());
        assert!(Reasons::parse("# Why.\nnothing\n").is_err());
    }
}
