//! `cargo xtask fuzz`: libFuzzer looks for bytes that break functions that read bytes of others.
//!
//! The functions are in `tests/fuzz`. Code of this repository is compiled with counters of reached code; its dependencies are not, and are not built
//! again. That needs neither another compiler nor a sanitizer, but a C++ compiler for libFuzzer itself.
//!
//! Not here: reading again the strings found before, which each `cargo test` does (`tests/fuzz/tests`).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use fusee_manifest::Time;

use fusee_host::report;
use fusee_host::system::Workspace;
use fusee_tool::values;

/// Arguments of `cargo xtask fuzz`.
#[derive(Args)]
pub struct FuzzArguments {
    /// What is given any bytes: calls, manifest, image, device or trace; unless told otherwise each of them.
    target: Option<String>,
    /// How long each of them is, in host time.
    #[arg(long = "for", value_parser = values::time, default_value = "60s")]
    time: Time,
    /// Go on until so many steps were taken: calls, or strings read.
    #[arg(long)]
    steps: Option<u64>,
    /// Begin without what was found before, with a kernel that does not compare generations of handles, and say how soon that is found.
    #[arg(long)]
    planted: bool,
    /// Afterwards replace what is kept in tests/fuzz/corpus by the fewest strings that reach as much, at most 600 of them.
    #[arg(long, conflicts_with = "planted")]
    keep: bool,
    /// Read this one string, a file, and nothing else.
    #[arg(long, value_name = "FILE", requires = "target")]
    string: Option<PathBuf>,
}

/// Set while this program stands between cargo and the compiler.
pub const COMPILES: &str = "FUSEE_FUZZ_COMPILES";
/// Read by the guided binary.
const TARGET: &str = "FUSEE_FUZZ";
const PLANTED: &str = "FUSEE_FUZZ_PLANTED";
/// The target with a kernel that can be told to forget a rule.
const CALLS: &str = "calls";
/// The last words of the guided binary.
const STEPS: &str = "steps: ";
/// Counters of edges, where they are in the code, and operands of comparisons.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];
/// Bytes of a string, at most, of most targets; a manifest is longer.
const LENGTH: u32 = 2048;
const MANIFEST_LENGTH: u32 = 8192;
/// Strings of a corpus, at most.
const KEPT: usize = 600;
/// Strings that a check gives each target: some ten seconds.
const CHECKED: [(&str, u64); 5] =
    [("calls", 100_000), ("device", 40_000), ("image", 40_000), ("manifest", 60_000), ("trace", 60_000)];
/// Strings among which a check finds the planted fault.
const STRINGS: u64 = 400_000;

/// The strings that a run begins with.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Begin {
    /// Strings that were found before, here and by others.
    Found,
    /// Strings that are kept in the repository.
    Kept,
    /// Nothing; and a fault is planted.
    Nothing,
}

/// The results of one target.
struct Fuzzed {
    steps: u64,
    strings: u64,
    edges: u64,
    took: Duration,
    /// The place of the string that broke something, and the message.
    broken: Option<(PathBuf, String)>,
}

/// Runs the command; `false` if something broke, or a planted fault was not found.
pub fn fuzz(arguments: &FuzzArguments, install: bool) -> Result<bool> {
    let workspace = Workspace::open(install)?;
    let all = targets(&workspace.root)?;
    let chosen: Vec<String> = match &arguments.target {
        Some(name) => {
            ensure!(all.contains(name), "there is no target `{name}`; there are {}", all.join(", "));
            vec![name.clone()]
        }
        None if arguments.planted => vec![CALLS.into()],
        None => all,
    };
    ensure!(
        !arguments.planted || chosen == [CALLS],
        "faults are planted in the kernel: `cargo xtask fuzz {CALLS} --planted`"
    );
    if let Some(why) = lack() {
        bail!("{why}");
    }
    let fuzzer = Fuzzer::build(&workspace)?;
    let begin = if arguments.planted { Begin::Nothing } else { Begin::Found };
    let mut good = true;
    for target in &chosen {
        if let Some(path) = &arguments.string {
            let status = fuzzer.command(target, begin).arg(path).status()?;
            return Ok(status.success());
        }
        let limit = [format!("-max_total_time={}", arguments.time.0.div_ceil(1_000_000_000))];
        let mut fuzzed = fuzzer.run(target, begin, &limit)?;
        while fuzzed.broken.is_none() && arguments.steps.is_some_and(|steps| fuzzed.steps < steps) {
            let more = fuzzer.run(target, begin, &limit)?;
            fuzzed = Fuzzed {
                steps: fuzzed.steps + more.steps,
                strings: fuzzed.strings + more.strings,
                took: fuzzed.took + more.took,
                ..more
            };
        }
        fusee_host::sayln!("{}", fuzzed.line(target));
        match &fuzzed.broken {
            Some((path, what)) if arguments.planted => {
                fusee_host::sayln!("found after {:.1} s: {what} ({})", fuzzed.took.as_secs_f64(), path.display())
            }
            Some((path, what)) => {
                fusee_host::sayln!("{what}\ncargo xtask fuzz {target} --string {}", path.display());
                good = false;
            }
            None => good &= !arguments.planted,
        }
        if arguments.keep && fuzzed.broken.is_none() {
            fuzzer.keep(target)?;
        }
    }
    fusee_host::sayln!("{}", if good { report::green("Nothing unexpected.") } else { report::red("See above.") });
    Ok(good)
}

/// Why nothing can be fuzzed here.
pub fn lack() -> Option<String> {
    let found = Command::new("c++").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    (!is_there).then(|| "libFuzzer needs a C++ compiler, `c++`; Debian's package is g++".into())
}

/// Gives each target some time, from the strings found before; then plants a fault, and finds it from nothing.
pub fn check(workspace: &Workspace) -> Result<(String, Vec<String>)> {
    let fuzzer = Fuzzer::build(workspace)?;
    // Equal strings each time, as far as the fuzzed function repeats itself: whether a change is let in does not depend on luck.
    let run = |target: &str, begin: Begin, strings: u64| {
        fuzzer.run(target, begin, &["-seed=1".into(), format!("-runs={strings}")])
    };
    // The first takes as long as all others together.
    let [(first, strings), others @ ..] = CHECKED;
    let (first_fuzzed, rest) = std::thread::scope(|scope| {
        let rest = scope.spawn(|| {
            let fuzzed = others.map(|(target, strings)| run(target, Begin::Kept, strings));
            (fuzzed, run(CALLS, Begin::Nothing, STRINGS))
        });
        (run(first, Begin::Kept, strings), rest.join())
    });
    let (fuzzed, planted) = rest.map_err(|_| anyhow!("what runs the fuzzer panicked"))?;
    let mut problems = Vec::new();
    let mut words = Vec::new();
    for ((target, _), fuzzed) in CHECKED.into_iter().zip([first_fuzzed].into_iter().chain(fuzzed)) {
        let fuzzed = fuzzed?;
        words.push(format!("{target} {}", fuzzed.steps));
        problems.extend(fuzzed.broken.map(|(path, what)| format!("{target}: {what} ({})", path.display())));
    }
    let planted = planted?;
    match planted.broken {
        Some(_) => words.push(format!("a planted fault after {} strings", planted.strings)),
        None => problems.push(format!("a kernel that does not compare generations passes {STRINGS} strings")),
    }
    Ok((words.join(", "), problems))
}

/// The targets: each has a folder.
fn targets(root: &Path) -> Result<Vec<String>> {
    let corpora = root.join("tests/fuzz/corpus");
    let mut names: Vec<String> = corpora
        .read_dir()
        .with_context(|| corpora.display().to_string())?
        .map(|folder| Ok(folder?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

/// The guided binary.
struct Fuzzer {
    root: PathBuf,
    binary: PathBuf,
    /// Where strings are kept between runs, and where those go that break something.
    scratch: PathBuf,
}

impl Fuzzer {
    fn build(workspace: &Workspace) -> Result<Fuzzer> {
        let target = workspace.root.join("target");
        let mut command = workspace.toolchain.cargo("host", &[]);
        command
            .current_dir(&workspace.root)
            .env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe()?)
            .env(COMPILES, "1")
            .args(["build", "--quiet", "--package", "fusee-fuzz", "--bin", "guided", "--features", "guided,small"])
            .arg("--target-dir")
            .arg(&target);
        ensure!(command.status()?.success(), "what is to be fuzzed does not build");
        let scratch = target.join("fuzz");
        Ok(Fuzzer { root: workspace.root.clone(), binary: target.join("debug/guided"), scratch })
    }

    fn command(&self, target: &str, begin: Begin) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(&self.root).env(TARGET, target);
        if begin == Begin::Nothing {
            command.env(PLANTED, "1");
        }
        command
    }

    /// Runs one target.
    fn run(&self, target: &str, begin: Begin, limit: &[String]) -> Result<Fuzzed> {
        let own = match begin {
            Begin::Found => self.scratch.join(target),
            Begin::Kept => self.scratch.join("fresh").join(target),
            Begin::Nothing => self.scratch.join("fresh-planted"),
        };
        if begin != Begin::Found && own.exists() {
            std::fs::remove_dir_all(&own)?;
        }
        let found = self.scratch.join("found");
        std::fs::create_dir_all(&own)?;
        std::fs::create_dir_all(&found)?;
        let started = Instant::now();
        let mut command = self.command(target, begin);
        command.arg(&own);
        if begin != Begin::Nothing {
            command.args(self.corpora(target));
        }
        let length = if target == "manifest" { MANIFEST_LENGTH } else { LENGTH };
        command
            .args(limit)
            .args(["-timeout=20", "-print_final_stats=1", "-reload=0"])
            .arg(format!("-max_len={length}"))
            .arg(format!("-artifact_prefix={}/{target}-", found.display()));
        let output = command.output().with_context(|| self.binary.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let after = |mark: &str| {
            let line = said.lines().rev().find_map(|line| line.split_once(mark));
            line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let broken = (!output.status.success()).then(|| {
            let path =
                said.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim());
            let what =
                said.lines().skip_while(|line| !line.contains("panicked at")).take(3).collect::<Vec<_>>().join(" ");
            let what = if what.is_empty() { said.lines().rev().take(8).collect::<Vec<_>>().join("\n") } else { what };
            (path.map(PathBuf::from).unwrap_or_default(), what)
        });
        Ok(Fuzzed {
            steps: after(STEPS),
            strings: after("stat::number_of_executed_units:").max(after("#")),
            edges: after("cov: "),
            took: started.elapsed(),
            broken,
        })
    }

    /// Where strings of `target` are to begin with.
    fn corpora(&self, target: &str) -> Vec<PathBuf> {
        let mut folders = vec![self.corpus(target)];
        if target == "manifest" {
            let manifests =
                ["tests/target", "tests/conformance", "tests/fuzz/systems", "docs/examples", "userland/demo"];
            folders.extend(manifests.map(|folder| self.root.join(folder)));
        }
        folders
    }

    fn corpus(&self, target: &str) -> PathBuf {
        self.root.join("tests/fuzz/corpus").join(target)
    }

    /// Replaces the corpus by the fewest strings of it, and of those found since, that reach as much; by a sample of these if they are many.
    fn keep(&self, target: &str) -> Result<()> {
        let (kept, corpus) = (self.scratch.join("kept"), self.corpus(target));
        if kept.exists() {
            std::fs::remove_dir_all(&kept)?;
        }
        std::fs::create_dir_all(&kept)?;
        let mut command = self.command(target, Begin::Found);
        command.args(["-merge=1", "-max_len=1024"]).arg(&kept).arg(&corpus).arg(self.scratch.join(target));
        ensure!(command.output()?.status.success(), "{target}: strings cannot be merged");
        // Names are hashes, so every n-th is a sample.
        let mut strings: Vec<PathBuf> = kept.read_dir()?.map(|string| Ok(string?.path())).collect::<Result<_>>()?;
        strings.sort();
        let step = strings.len().div_ceil(KEPT).max(1);
        std::fs::remove_dir_all(&corpus)?;
        std::fs::create_dir_all(&corpus)?;
        for string in strings.iter().step_by(step) {
            std::fs::rename(string, corpus.join(string.file_name().context("a name")?))?;
        }
        Ok(())
    }
}

impl Fuzzed {
    fn line(&self, target: &str) -> String {
        format!(
            "{target}: {} steps in {} strings, {} edges reached, {:.0} s",
            self.steps,
            self.strings,
            self.edges,
            self.took.as_secs_f64()
        )
    }
}

/// Compiles as cargo asks, with counters in the crates of this repository that the fuzzers run: no build script, and nothing that runs in the
/// compiler.
pub fn compile() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(compiler) = arguments.next() else { return ExitCode::FAILURE };
    let arguments: Vec<_> = arguments.collect();
    let after = |option: &str| {
        let at = arguments.iter().position(|argument| argument == option)?;
        arguments.get(at + 1)?.to_str()
    };
    let is_ours = after("--crate-name").is_some_and(|name| name.starts_with("fusee") || name == "guided");
    let is_counted = is_ours && after("--crate-type") != Some("proc-macro");
    let mut command = Command::new(compiler);
    command.args(&arguments);
    if is_counted {
        command.args(FLAGS);
    }
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
