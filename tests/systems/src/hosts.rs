//! Checks without an emulator: format, lints, documentation, tests on the host, models.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, bail};
use fusee_campaigns::draws::Draws;
use fusee_host::build::KERNEL_PACKAGE;
use fusee_host::meter;
use fusee_host::toolchain::{KERNEL_TARGET, R5F_TARGET, TASK_TARGET};
use fusee_research::campaign::{self, Left};
use fusee_research::launches;
use fusee_tool::doc;
use fusee_tool::passed::TESTS;
use serde_json::Value;

use crate::case::{Case, Found, Kind};
use crate::context::Context;
use crate::known::{self, Inputs};

/// Lints of the Cortex-R5F's firmware, which need a target that not every toolchain has.
const R5F_LINTS: &str = "lint::firmware of a Cortex-R5F";

/// Format, lints and documentation.
pub fn lints(context: &Arc<Context>) -> Result<Vec<Case>> {
    let members = Members::read(context.root())?;
    let workspace = context.workspace("lints");
    let toolchain = workspace.toolchain.clone();
    let mut cases = Vec::new();
    let mut check = |name: &str, command: Option<Command>, arguments: &[&str]| {
        let name = format!("lint::{name}");
        let Some(mut command) = command else {
            let why = format!("the {} toolchain lacks the tool", toolchain.name);
            cases.push(Case::skipped(name, Kind::Lint, why));
            return;
        };
        command.current_dir(context.root()).args(arguments);
        cases.push(Case::of(name, Kind::Lint, move || said(&mut command)).stage(0));
    };
    check("format", toolchain.plugin("fmt", "host", &[]), &["--all", "--check"]);
    let strict = ["--", "-D", "warnings"];
    let packages = packages(context);
    let clippy = |target, flags: &[String]| toolchain.plugin("clippy", target, flags);
    check("host", clippy("host", &[]), &[&["--quiet", "--all-targets"], &packages[..], &strict[..]].concat());
    let target_dir = workspace.builder().target_dir().display().to_string();
    let bare_kernel = vec![KERNEL_PACKAGE.to_owned()];
    let no_r5f = toolchain.add_target(R5F_TARGET).err();
    for (name, target, packages, features) in [
        ("kernel and firmware", KERNEL_TARGET, &members.kernel, &[][..]),
        ("kernel without features", KERNEL_TARGET, &bare_kernel, &["--no-default-features"][..]),
        ("drivers and tasks", TASK_TARGET, &members.tasks, &[][..]),
        ("firmware of a Cortex-R5F", R5F_TARGET, &members.r5f, &[][..]),
    ] {
        if target == R5F_TARGET && no_r5f.is_some() {
            continue;
        }
        let mut arguments = vec!["--quiet", "--target", target, "--target-dir", &target_dir];
        arguments.extend(features);
        for package in packages {
            arguments.extend(["--package", package]);
        }
        arguments.extend(strict);
        check(name, clippy(target, &[]), &arguments);
    }
    let rustdoc = |target| {
        let mut command = toolchain.cargo(target, &[]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        Some(command)
    };
    check("documentation, host", rustdoc("host"), &[&["doc", "--quiet", "--no-deps"], &packages[..]].concat());
    let mut arguments = vec!["doc", "--quiet", "--no-deps", "--target", KERNEL_TARGET, "--target-dir", &target_dir];
    for package in &members.kernel {
        arguments.extend(["--package", package]);
    }
    check("documentation, kernel and firmware", rustdoc(KERNEL_TARGET), &arguments);
    let arguments = [&["doc", "--quiet", "--target-dir", &target_dir][..], &doc::ARGUMENTS].concat();
    check("documentation, crates of tasks", rustdoc(TASK_TARGET), &arguments);
    if let Some(error) = no_r5f {
        cases.push(Case::skipped(R5F_LINTS, Kind::Lint, error.to_string()));
    }
    Ok(cases)
}

/// Packages that are built and tested on the host: those that cargo takes unless told otherwise, and these checks.
fn packages(context: &Context) -> Vec<&str> {
    let names = context.fusee().defaults.iter().map(String::as_str).chain(["systems"]);
    names.flat_map(|name| ["--package", name]).collect()
}

/// Runs a command. Returns its output, if it fails.
fn said(command: &mut Command) -> Result<Vec<String>> {
    let output = meter::output(command).context("it does not start")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let mut problems: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
    problems.push(format!("{}", output.status));
    Ok(problems)
}

//--- Tests that cargo has built

/// One program of tests.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Tests {
    /// Its package.
    package: String,
    /// Its target: `lib`, or the name of an integration test.
    target: String,
    /// The program.
    program: PathBuf,
    /// The folder of the package.
    folder: PathBuf,
    /// The digest of all files that it reads, once that is needed.
    files: Arc<OnceLock<[u64; 2]>>,
}

/// Programs of tests with functions that are checks of their own, because together they take long.
const SPLIT: [(&str, &str); 5] = [
    ("fusee-kernel-core-small", "hand_over"),
    ("fusee-kernel-core-small", "gates"),
    ("fusee-simulator", "all"),
    ("fusee-campaigns", "all"),
    ("fusee-locking", "lib"),
];

/// Packages with tests that read sources and pages of the whole repository, or have some compiled.
const READ_ALL: [&str; 7] =
    ["fusee-fuzz", "fusee-host", "fusee-misuse", "fusee-orders", "fusee-research", "fusee-tool", "systems"];
/// Packages with tests that read manifests and other data of the whole repository, and no sources. All others read files of their own folder at most.
const READ_DATA: [&str; 6] =
    ["demo-judge", "fusee-campaigns", "fusee-card", "fusee-manifest", "fusee-simulator", "video-judge"];

impl Tests {
    /// Reads the output of `cargo test --no-run --message-format=json`.
    fn read(text: &str) -> Vec<Tests> {
        let of = |line: &str| {
            let message: Value = serde_json::from_str(line).ok()?;
            let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
            let program = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
            let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
            let is_lib = message["target"]["kind"].as_array()?.iter().any(|kind| kind != "test" && kind != "bin");
            let target = if is_lib { "lib" } else { message["target"]["name"].as_str()? };
            let id = message["package_id"].as_str()?;
            let (place, name) = id.rsplit_once('#')?;
            let name = name.split('@').next().filter(|name| name.starts_with(char::is_alphabetic));
            let package = name.or_else(|| place.rsplit('/').next())?;
            let (package, target) = (package.to_owned(), target.to_owned());
            Some(Tests { package, target, program, folder, files: Arc::default() })
        };
        text.lines().filter_map(of).collect()
    }

    fn name(&self) -> String {
        format!("host::{}::{}", self.package, self.target)
    }

    /// Whether random launches of GPU kernels, a campaign, are among these.
    fn is_launches(&self) -> bool {
        self.package == "fusee-device-model" && self.target == "all"
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // As cargo would call it.
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        seeded(&mut command);
        if self.is_launches() {
            launches::set(&mut command, Draws::new(campaign::seed(), launches::CAMPAIGN.budget));
        }
        command
    }

    /// The digest of all files that it reads while it runs. All its checks share it.
    fn files(&self, root: &Path) -> Result<[u64; 2]> {
        if let Some(known) = self.files.get() {
            return Ok(*known);
        }
        let name = self.package.as_str();
        let is_data = |name: &str| !name.ends_with(".rs") && !name.ends_with(".md");
        let digest = match name {
            _ if READ_ALL.contains(&name) => known::tree(root, root, |_| true),
            _ if READ_DATA.contains(&name) => known::tree(root, root, is_data),
            // Its tests are in the folder above.
            _ if name.ends_with("-small") => known::tree(root, self.folder.parent().unwrap_or(root), |_| true),
            _ => known::tree(root, &self.folder, |_| true),
        }?;
        Ok(*self.files.get_or_init(|| digest))
    }

    /// The names of its tests.
    fn list(&self) -> Result<Vec<String>> {
        let output = self.command().args(["--list", "--format", "terse"]).output().context(self.name())?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// All checks of this program.
    fn cases(self, root: &Path) -> Result<Vec<Case>> {
        let is_split = SPLIT.contains(&(self.package.as_str(), self.target.as_str()));
        let tests = if is_split { self.list()? } else { Vec::new() };
        if tests.is_empty() {
            let name = self.name();
            let root = root.to_owned();
            return Ok(vec![Case::new(name, Kind::Host, move || self.run(&root, None))]);
        }
        let all = tests.into_iter().map(|test| {
            let (this, root) = (self.clone(), root.to_owned());
            let kind = if self.package.ends_with("-small") { Kind::Model } else { Kind::Host };
            Case::new(format!("{}::{test}", self.name()), kind, move || this.run(&root, Some(&test)))
        });
        Ok(all.collect())
    }

    fn run(&self, root: &Path, test: Option<&str>) -> Result<Found> {
        let mut inputs = Inputs::of(&self.name());
        inputs.add(&test);
        inputs.file(&self.program)?;
        inputs.add(&self.files(root)?);
        if self.is_launches() {
            inputs.add(&campaign::seed());
        }
        known::unless(&inputs, || {
            let mut command = self.command();
            command.args(["--test-threads", "1", "--nocapture"]);
            if let Some(test) = test {
                command.args(["--exact", test]);
            }
            let output = meter::output(&mut command).context("it does not start")?;
            let text = String::from_utf8_lossy(&output.stdout);
            let ran = text.lines().filter_map(ran).sum::<u64>();
            let explored: Vec<(u64, u64)> = text.lines().filter_map(explored).collect();
            let mut words = format!("{ran} tests");
            if !explored.is_empty() {
                let sum = |of: fn(&(u64, u64)) -> u64| explored.iter().map(of).sum::<u64>();
                let (states, transitions) = (sum(|model| model.0), sum(|model| model.1));
                words = format!("{} models, {states} states, {transitions} transitions", explored.len());
            }
            if self.is_launches() {
                words += &format!("; of launches {}", Left(&[launches::CAMPAIGN]));
            }
            let mut problems = Vec::new();
            if !output.status.success() {
                problems.extend([text.into_owned(), String::from_utf8_lossy(&output.stderr).into_owned()]);
                problems.push(output.status.to_string());
            }
            if test.is_some() && ran == 0 {
                problems.push("no test ran".to_owned());
            }
            Ok(Found::with_words(words, problems))
        })
    }
}

/// The number of tests that a closing line counts: `test result: ok. 12 passed; ...`.
fn ran(line: &str) -> Option<u64> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    counts.split(' ').next()?.parse().ok()
}

/// States and transitions, from `name: 12 states, 34 transitions`.
fn explored(line: &str) -> Option<(u64, u64)> {
    let (before, after) = line.split_once(" states, ")?;
    let states = before.rsplit(' ').next()?.parse().ok()?;
    Some((states, after.split(' ').next()?.parse().ok()?))
}

/// Lets random tests draw the same cases in each run, unless a seed is given: whether a change is let in does not depend on luck. A plain `cargo test` draws
/// others each time, and finds cases that no run has met.
fn seeded(command: &mut Command) -> &mut Command {
    const SEED: &str = "PROPTEST_RNG_SEED";
    match std::env::var_os(SEED) {
        Some(_) => command,
        None => command.env(SEED, "1"),
    }
}

/// Whether cargo has built tests on the host for this run.
pub fn are_built() -> bool {
    std::env::var_os(TESTS).is_some()
}

/// Tests on the host, if cargo has built them for this run.
pub fn tests(context: &Arc<Context>) -> Result<Vec<Case>> {
    let Some(path) = std::env::var_os(TESTS) else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(&path).with_context(|| PathBuf::from(&path).display().to_string())?;
    let mut cases = Vec::new();
    for tests in Tests::read(&text) {
        // This very program.
        if tests.package == "systems" && tests.target == "all" {
            continue;
        }
        cases.extend(tests.cases(context.root())?);
    }
    let toolchain = context.workspace("tests").toolchain;
    let mut examples = toolchain.cargo("host", &[]);
    examples.current_dir(context.root()).args(["test", "--quiet", "--doc"]).args(packages(context));
    cases.push(Case::of("host::examples in documentation", Kind::Host, move || said(&mut examples)).stage(0));
    // The only unsafe code that runs on a host. Loom switches stacks, which Miri cannot.
    let name = "host::memory that tasks share, under Miri";
    match toolchain.plugin("miri", "host", &[]) {
        Some(mut miri) => {
            let without_loom = ["--skip", "in_every_order", "--skip", "without_fences"];
            let channels = ["test", "--quiet", "--package", "fusee", "--lib", "channel::tests::", "--"];
            miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").current_dir(context.root());
            miri.args(channels).args(without_loom);
            cases.push(Case::of(name, Kind::Host, move || said(&mut miri)));
        }
        None => {
            let why = format!("the {} toolchain lacks the tool", toolchain.name);
            cases.push(Case::skipped(name, Kind::Host, why));
        }
    }
    Ok(cases)
}

//--- Packages that are not built for the host

/// The crate that is built for a Cortex-R5F.
const R5F_FIRMWARE: &str = "drivers/r5f/firmware";

/// Packages that are not built for the host, by their target.
struct Members {
    kernel: Vec<String>,
    tasks: Vec<String>,
    r5f: Vec<String>,
}

/// Packages that are built for the host, but not by a plain `cargo test`.
const ON_HOST: [&str; 1] = ["tests/systems"];

impl Members {
    fn read(root: &Path) -> Result<Self> {
        let parse = |path: PathBuf| -> Result<toml::Table> {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            toml::from_str(&text).with_context(|| path.display().to_string())
        };
        let workspace = parse(root.join("Cargo.toml"))?;
        let list = |key: &str| -> Vec<String> {
            let names = workspace.get("workspace").and_then(|table| table.get(key)).and_then(|list| list.as_array());
            names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let on_host = list("default-members");
        let mut members = Self { kernel: Vec::new(), tasks: Vec::new(), r5f: Vec::new() };
        let is_on_host = |folder: &String| on_host.contains(folder) || ON_HOST.contains(&folder.as_str());
        for folder in list("members").into_iter().filter(|folder| !is_on_host(folder)) {
            let package = parse(root.join(&folder).join("Cargo.toml"))?;
            let name = package.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
            let Some(name) = name else { bail!("{folder}/Cargo.toml names no package") };
            let list = match folder.as_str() {
                R5F_FIRMWARE => &mut members.r5f,
                folder if folder.starts_with("userland/") || folder.starts_with("drivers/") => &mut members.tasks,
                _ => &mut members.kernel,
            };
            list.push(name.to_owned());
        }
        Ok(members)
    }
}
