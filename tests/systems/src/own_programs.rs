//! Programs of a project in the simulator, as their owner runs them: their output, their independence of the host, and the ends of wrong ones.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fusee_host::project::{self, Project};

use crate::command::as_tool;
use crate::own_project::{Ran, own};

/// Name of the check, as `cargo xtask test` has it.
pub const CHECK: &str = "programs of a project in the simulator";

/// A program that logs addresses of its own, the time, and the bits that a script has signalled.
const PLACES: &str = r#"#![cfg_attr(target_os = "none", no_std, no_main)]
fusee::entry!(main);
static PLACE: u8 = 0;
fn main() {
    let local = 0_u8;
    let from_script = fusee::environment().expect::<fusee::Notification>("go").wait(fusee::Instant::NEVER);
    fusee::log(1, from_script.unwrap_or(0));
    fusee::log(2, &raw const PLACE as u64);
    fusee::log(3, &raw const local as u64);
    fusee::log(4, main as *const () as u64);
    fusee::log(5, fusee::now().now.0);
    panic!("places are told");
}
"#;

/// A program that makes no call, for at least as long as a check waits. On the host it says that it has begun, and that it has come to its end.
const ENDLESS: &str = r#"#![cfg_attr(target_os = "none", no_std, no_main)]
fusee::entry!(main);
fn main() {
    #[cfg(not(target_os = "none"))]
    eprintln!("has begun");
    for turn in 0..1_u64 << 36 {
        core::hint::black_box(turn);
    }
    #[cfg(not(target_os = "none"))]
    eprintln!("has come to its end");
}
"#;

/// A program that stores to a region which it may only read.
const WRONG: &str = r#"#![cfg_attr(target_os = "none", no_std, no_main)]
fusee::entry!(main);
fn main() {
    let sky = fusee::environment().expect::<fusee::Region>("sky").shared();
    assert_eq!(sky.read_u32(8), 0);
    sky.write_u32(8, 1);
}
"#;

/// A program without its first function.
const NO_ENTRY: &str = "fn main() {}\n";

/// The systems of these programs, and of one that drives a device.
const SYSTEMS: [(&str, &str); 5] = [
    (
        "places.toml",
        "[tasks.places]\nbinary = \"programs/places\"\nhandles = { go = \"notification go: wait\" }\n[tasks.script]\nscript = [\"sleep 3ms\", \"signal go \
         5\"]\nhandles = { go = \"notification go: signal\" }\n[notifications.go]\n[test]\nexits = [\"places: 101\"]\n",
    ),
    ("endless.toml", "[tasks.endless]\nbinary = \"programs/endless\"\n"),
    (
        "wrong.toml",
        "[tasks.wrong]\nbinary = \"programs/wrong\"\nhandles = { sky = \"region sky: read\" }\n[regions.sky]\nbytes = \"8KiB\"\n[test]\nfaults = \
         [\"wrong\"]\n",
    ),
    ("no-entry.toml", "[tasks.empty]\nbinary = \"programs/no-entry\"\n"),
    (
        "device.toml",
        "[tasks.driver]\nbinary = \"programs/places\"\nhandles = { line = \"region line: read write\" }\n[regions.line]\ndevice = \"uart0\"\n",
    ),
];

/// Makes a project with these programs, and simulates its systems.
///
/// # Errors
/// A step that could not be tried.
pub fn check(fusee: &Project) -> Result<Vec<String>> {
    let folder = fusee.target.join("outside-programs/programs");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let made = own(&fusee.root, &["new", &folder.display().to_string()])?;
    ensure!(made.status == 0, "`cargo xtask new` failed: {}", made.all());
    for (program, text) in [("places", PLACES), ("endless", ENDLESS), ("wrong", WRONG), ("no-entry", NO_ENTRY)] {
        std::fs::write(folder.join("src/bin").join(program).with_extension("rs"), text)?;
    }
    for (name, text) in SYSTEMS {
        let stem = name.trim_end_matches(".toml");
        let head = format!("[system]\nname = \"{stem}\"\nboard = \"virt\"\ncpus = 1\n");
        std::fs::write(folder.join(name), head + text)?;
    }
    let mut problems = Vec::new();
    let mut expect = |arguments: &[&str], status: i32, words: &[&str]| {
        let ran = own(&folder, &[&["simulate"], arguments].concat())?;
        let missing: Vec<_> = words.iter().filter(|words| !ran.all().contains(**words)).collect();
        if ran.status != status || !missing.is_empty() {
            problems.push(format!("{arguments:?}: {}, and does not say {missing:?}:\n{}", ran.status, ran.all()));
        }
        anyhow::Ok(())
    };
    expect(&[], 0, &["beat: job 50;", "beat       49       0"])?;
    // The jobs that have ended take 600 us.
    expect(&["--pace", "wcet"], 0, &["beat: job 50; lateness of the one before: -4400 us"])?;
    expect(&["--no-programs"], 0, &["have a program but no `model`, so here they do nothing: beat"])?;
    expect(
        &["endless.toml", "--patience", "200ms"],
        1,
        &["the program of `endless`, at 0 us, made no call for 200 ms"],
    )?;
    expect(
        &["wrong.toml"],
        0,
        &["fault: task `wrong`, job 0, wrote to 0x80000008, which it may not", "src/bin/wrong.rs:6)"],
    )?;
    expect(&["no-entry.toml"], 1, &["the program of `empty`, at 0 us, ended without a call", "`fusee::entry!`"])?;
    expect(
        &["device.toml", "--programs"],
        1,
        &[
            "the program of `driver` cannot run in the simulator: it drives a device",
            "(`line`)",
            "a server with a script",
        ],
    )?;
    problems.extend(repeats(&folder)?);
    problems.extend(dies_with_the_simulator(&folder)?);
    if problems.is_empty() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(problems)
}

/// Runs one system again and again with other variables in the environment, and each time at other addresses of the host: all records are alike.
fn repeats(folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut first: Option<String> = None;
    let variables: [&[(&str, &str)]; 3] =
        [&[], &[("LC_ALL", "tr_TR.UTF-8"), ("TZ", "Asia/Kathmandu")], &[("RUST_BACKTRACE", "full"), ("LONG", PLACES)]];
    for variables in variables {
        let run = |arguments: &[&str]| {
            Ran::of(as_tool()?.args(arguments).envs(variables.iter().copied()).current_dir(folder))
        };
        let ran = run(&["simulate", "places.toml"])?;
        let trace = run(&["trace"])?.all();
        let words = ["places               1 5", "text \"panicked\"", "code 101"];
        if ran.status != 0 || words.iter().any(|words| !trace.contains(words)) {
            problems.push(format!("the program does not end as it should: {}\n{trace}", ran.all()));
        }
        match &first {
            None => first = Some(trace),
            Some(first) if *first != trace => {
                problems.push(format!("with {variables:?} the trace is another:\n{first}\n{trace}"))
            }
            Some(_) => {}
        }
    }
    Ok(problems)
}

/// Kills a simulator with a program that loops: the program ends at once. It holds the pipe of its messages open as long as it lives.
fn dies_with_the_simulator(folder: &Path) -> Result<Vec<String>> {
    let simulator = project::program("fusee-simulate")?;
    let mut command = Command::new(simulator);
    command.args(["simulate", "endless.toml", "--patience", "1000s"]).current_dir(folder);
    let mut simulator = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(simulator.stderr.take().context("a pipe")?);
    let mut line = String::new();
    while !line.contains("has begun") {
        line.clear();
        ensure!(said.read_line(&mut line)? > 0, "the simulator ended before its program began");
    }
    simulator.kill()?;
    simulator.wait()?;
    let mut rest = String::new();
    said.read_to_string(&mut rest)?;
    Ok(rest.contains("end").then(|| format!("the program outlived the simulator: {rest}")).into_iter().collect())
}
