//! A project outside the repository, made, built and run as its owner would.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fusee_abi::program;
use fusee_host::project::{MANIFEST, Project, cargo};
use fusee_host::system::{self};
use fusee_views::metrics::Metrics;

use crate::command::as_tool;

/// Name of the check, as `cargo xtask test` has it.
pub const CHECK: &str = "a project outside the repository";

/// Two packages of the project have a program that is called as one of ours.
const NAMESAKES: [&str; 2] = ["one", "two"];

/// Makes a project, adds programs with names that are taken, builds and runs it as its owner would, and checks the results.
///
/// # Errors
/// A step that could not be tried.
pub fn check(fusee: &Project) -> Result<Vec<String>> {
    let place = fusee.target.join("outside");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    let folder = place.join("flight");
    let made = own(&fusee.root, &["new", &folder.display().to_string()])?;
    ensure!(made.status == 0, "`cargo xtask new` failed: {}", made.all());
    extend(&folder, &fusee.root)?;
    let mut problems = Vec::new();

    // By the installed command, and from a folder inside.
    let programs = install(fusee, &place)?;
    let run =
        Ran::of(Command::new(programs.join("fusee")).args(["--no-install", "run"]).current_dir(folder.join("src")))?;
    let expect = |problems: &mut Vec<String>, ran: &Ran, wanted_status: i32, words: &[&str]| {
        let missing: Vec<_> = words.iter().filter(|words| !ran.all().contains(**words)).collect();
        if ran.status != wanted_status || !missing.is_empty() {
            problems.push(format!("ended with {}, and does not say {missing:?}:\n{}", ran.status, ran.all()));
        }
    };
    expect(
        &mut problems,
        &run,
        0,
        &["beat: job 20;", "this is hello of one", "this is hello of two", "hello from job 1 of 1000", "building "],
    );
    // As a command of cargo.
    let paths = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let paths = std::env::join_paths(std::iter::once(programs).chain(paths))?;
    let aliased = Ran::of(cargo().args(["xtask", "analyze"]).current_dir(&folder).env("PATH", paths))?;
    expect(&mut problems, &aliased, 0, &["no deadline is missed"]);
    problems.extend(nameless(&folder, &fusee.root)?);
    // The second run builds nothing, and prints nothing of builds.
    let again = own(&folder, &["--no-install", "run"])?;
    expect(&mut problems, &again, 0, &["beat: job 20;"]);
    if again.all().contains("building") {
        problems.push(format!("nothing is to be built:\n{}", again.all()));
    }
    if !problems.is_empty() {
        return Ok(problems);
    }
    let project = Project::around(&folder)?;
    ensure!(project.root == folder.canonicalize()?, "{} is no project of its own", folder.display());
    let (trace, manifest) = system::Last::of(&project)?.trace()?;
    ensure!(manifest.system.name == "flight", "the trace kept is one of `{}`", manifest.system.name);
    let metrics = Metrics::of(&trace, &manifest.system);
    let beat = metrics.tasks.iter().find(|task| task.name == "beat").context("no task `beat`")?;
    ensure!((beat.jobs(), beat.misses()) == (19, 0), "`beat` has {} jobs, {} late", beat.jobs(), beat.misses());
    for (command, words) in [("analyze", "no deadline is missed"), ("trace", "beat")] {
        expect(&mut problems, &own(&folder, &[command])?, 0, &[words]);
    }

    problems.extend(tested(&folder)?);

    // A program that is there already, and the same for a kernel of another version.
    let path = find(&project.target, "one/aarch64-unknown-none/release/hello")?.context("where is the program?")?;
    let text = std::fs::read_to_string(folder.join(MANIFEST))?;
    std::fs::write(folder.join("elf.toml"), text.replace("binary = \"one/hello\"", "elf = \"hello.elf\""))?;
    let mut bytes = std::fs::read(path)?;
    std::fs::write(folder.join("hello.elf"), &bytes)?;
    let manifest = ["--no-install", "run", "--manifest", "elf.toml"];
    expect(&mut problems, &own(&folder, &manifest)?, 0, &["this is hello of one", "this is hello of two"]);
    let name = bytes.windows(8).position(|bytes| bytes == b"Fusee\0\0\0").context("the program has no note")?;
    bytes[name + 8..name + 12].copy_from_slice(&(program::VERSION + 1).to_le_bytes());
    std::fs::write(folder.join("hello.elf"), &bytes)?;
    let [other, kernel] = [program::VERSION + 1, program::VERSION];
    let words =
        [format!("built for version {other} "), format!("kernel has version {kernel},"), "elf.toml:".to_owned()];
    expect(&mut problems, &own(&folder, &manifest)?, 1, &words.each_ref().map(String::as_str));
    if problems.is_empty() {
        std::fs::remove_dir_all(place)?;
    }
    Ok(problems)
}

/// Installs the command `fusee` as its users do: the folder of its programs.
fn install(fusee: &Project, place: &Path) -> Result<PathBuf> {
    let root = place.join("installed");
    let mut command = cargo();
    command.args(["install", "--locked", "--offline", "--debug", "--path"]).arg(fusee.root.join("tools/launcher"));
    command.arg("--root").arg(&root).arg("--target-dir").arg(fusee.target.join("installed"));
    let ran = Ran::of(command.current_dir(place))?;
    ensure!(ran.status == 0, "`cargo install` failed: {}", ran.all());
    Ok(root.join("bin"))
}

/// The files of a new project that name a place of this machine.
fn nameless(folder: &Path, root: &Path) -> Result<Vec<String>> {
    let made = folder.with_file_name("pure");
    let new = own(root, &["new", &made.display().to_string(), "--with", "server,driver,gpu,graph"])?;
    ensure!(new.status == 0, "`cargo xtask new` failed: {}", new.all());
    let mut problems = Vec::new();
    let mut open = vec![made];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                std::fs::read_dir(&path)?
                    .map(|entry| entry.map(|entry| entry.path()))
                    .collect::<Result<Vec<_>, _>>()?,
            );
        } else if std::fs::read_to_string(&path)?.contains(&*root.to_string_lossy()) {
            problems.push(format!("{} has the path {}", path.display(), root.display()));
        }
    }
    Ok(problems)
}

/// A system of scripts for which nothing is expected but a golden trace.
const SCRIPTED: &str = "[system]\nname = \"scripted\"\nboard = \"virt\"\ncpus = 1\nstart = \"10ms\"\n[tasks.one]\nscript = [\"burn 1ms\"]\n\
                        period = \"10ms\"\nbudget = \"5ms\"\n[tasks.end]\nscript = [\"sleep 35ms\", \"shutdown\"]\nhandles = { system = \"system: \
                        shutdown\" }\n[test]\nprofiles = [\"det\", \"par\"]\n";

/// Tests the project as its owner would: all, one that fails, and a golden trace.
fn tested(folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let junit = folder.join("junit.xml");
    let test =
        |arguments: &[&str]| own(folder, &[&["test", "--no-install", "--junit", "junit.xml"], arguments].concat());
    // Each with how many tests there are and fail, by a parser that is not ours; then a part of the words.
    let mut expect = |arguments: &[&str], counts: (u64, u64), words: &[&str]| {
        let ran = test(arguments)?;
        let text = std::fs::read(&junit).with_context(|| format!("no JUnit:\n{}", ran.all()))?;
        let read = junit_parser::from_reader(std::io::Cursor::new(text))?;
        let missing: Vec<&&str> = words.iter().filter(|words| !ran.all().contains(**words)).collect();
        if (read.tests, read.failures) != counts || (ran.status == 0) != (counts.1 == 0) || !missing.is_empty() {
            let counted = (read.tests, read.failures);
            problems.push(format!("{arguments:?}: {counted:?}, {}, without {missing:?}:\n{}", ran.status, ran.all()));
        }
        std::fs::remove_file(&junit)?;
        anyhow::Ok(())
    };
    expect(&[], (2, 0), &["host::cargo test: 2 passed", "test det::system"])?;
    // The project's test of its system finds jobs that are too long.
    let program = folder.join("src/bin/beat.rs");
    let text = std::fs::read_to_string(&program)?;
    ensure!(text.contains("burn(work);"), "the template computes otherwise");
    std::fs::write(&program, text.replace("burn(work);", "burn(Nanoseconds(work.0 * 20));"))?;
    expect(&["host"], (1, 1), &["no_job_of_beat_is_late_and_each_tenth_prints_a_line"])?;
    std::fs::write(&program, text)?;
    let system = std::fs::read_to_string(folder.join(MANIFEST))?;
    let tests = folder.join("tests");
    std::fs::create_dir_all(&tests)?;
    std::fs::write(
        tests.join("silent.toml"),
        system.replace("[test]\n", "[test]\nconsole = [\"a line that never comes\"]\n"),
    )?;
    std::fs::write(tests.join("panics.toml"), system.replace("work_us = 500", "work_us = 5000"))?;
    std::fs::write(tests.join("scripted.toml"), SCRIPTED)?;
    std::fs::write(tests.join("empty.toml"), SCRIPTED.split("[test]").next().unwrap_or_default())?;
    expect(&["silent"], (1, 1), &["the console shows the line `a line that never comes` 0 times, not 1"])?;
    expect(&["panics"], (1, 1), &["hard task `beat` missed"])?;
    expect(&["empty"], (1, 1), &["tests/empty.toml has no table `[test]`"])?;
    expect(&["det::tests/scripted", "--bless"], (1, 0), &[])?;
    ensure!(tests.join("scripted.trace").exists(), "`--bless` writes no golden trace");
    expect(&["scripted", "--board", "virt-gicv2", "--board", "virt"], (4, 0), &["det::virt-gicv2::tests/scripted"])?;
    std::fs::write(tests.join("scripted.toml"), SCRIPTED.replace("burn 1ms", "burn 2ms"))?;
    expect(&["scripted"], (2, 1), &["scripted.trace (-) differ; `--bless` writes it anew"])?;
    let listed = own(folder, &["test", "--no-install", "--list", "--profile", "par"])?;
    if !listed.all().contains("par::tests/scripted: test") || listed.all().contains("det::tests/scripted") {
        problems.push(format!("`--list` names other tests:\n{}", listed.all()));
    }
    std::fs::remove_dir_all(tests)?;
    Ok(problems)
}

/// What a command did.
pub struct Ran {
    /// Its exit code.
    pub status: i32,
    printed: String,
    said: String,
}

impl Ran {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// It does not start.
    pub fn of(command: &mut Command) -> Result<Ran> {
        let output = command.env("NO_COLOR", "1").output().context("it does not start")?;
        let [printed, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        Ok(Ran { status: output.status.code().unwrap_or(-1), printed, said })
    }

    /// Its output and its messages.
    pub fn all(&self) -> String {
        format!("{}{}", self.printed, self.said)
    }
}

/// Runs this program.
pub fn own(folder: &Path, arguments: &[&str]) -> Result<Ran> {
    Ran::of(as_tool()?.args(arguments).current_dir(folder))
}

/// Adds packages with a program `hello` each, and tasks for these and for ours of that name.
fn extend(folder: &Path, root: &Path) -> Result<()> {
    let workspace = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&workspace)?;
    std::fs::write(&workspace, text.replace("[workspace]\n", &format!("[workspace]\nmembers = {NAMESAKES:?}\n")))?;
    let dependency = toml::Value::from(root.join("userland/fusee").to_str().context("not UTF-8")?);
    let mut manifest = std::fs::read_to_string(folder.join(MANIFEST))?.replace("jobs = 50", "jobs = 20");
    for name in NAMESAKES {
        let package = folder.join(name);
        std::fs::create_dir_all(package.join("src/bin"))?;
        let text = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nfusee.path = {dependency}\n"
        );
        std::fs::write(package.join("Cargo.toml"), text)?;
        let text = format!(
            "#![cfg_attr(target_os = \"none\", no_std, no_main)]\nfusee::entry!(main);\nfn main() {{\n    let _ = fusee::next_job();\n    \
             fusee::println!(\"this is hello of {name}\");\n    let _ = fusee::next_job();\n}}\n"
        );
        std::fs::write(package.join("src/bin/hello.rs"), text)?;
        manifest += &task(name, &format!("{name}/hello"));
    }
    manifest += &task("ours", "apps/hello");
    std::fs::write(folder.join(MANIFEST), manifest)?;
    Ok(())
}

fn task(name: &str, binary: &str) -> String {
    format!(
        "\n[tasks.{name}]\nbinary = \"{binary}\"\nperiod = \"100ms\"\nbudget = \"2ms\"\ntrusted = true\nwcet = \"600us\"\nparameters = {{ jobs = 1000 }}\n\
         [tasks.{name}.handles]\nconsole = \"endpoint console: call\"\nsystem = \"system: shutdown\"\n[tasks.{name}.uses]\n\
         console = {{ times = 2 }}\n"
    )
}

/// The first file in `folder` with a path that ends so.
fn find(folder: &Path, end: &str) -> Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find(&path, end)? {
                return Ok(Some(found));
            }
        } else if path.ends_with(end) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
