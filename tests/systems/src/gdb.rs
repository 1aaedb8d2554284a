//! A session of gdb without a person who types.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fusee_host::project::KEPT_DIR;
use fusee_host::system::Workspace;
use fusee_looks::gdb::under;
use fusee_manifest::Profile;

use crate::command::as_tool;

/// The name of the check of gdb.
pub const CHECK: &str = "gdb stops at a line of one task and prints what is in its variable";
const MANIFEST: &str = "tests/target/a_task_that_never_yields_is_throttled.toml";
const SOURCE: &str = "userland/apps/src/bin/misbehave.rs";
/// In the line before that.
const MARK: &str = "// <- gdb";

/// The name of the check of programs for a debugger.
pub const DEBUG: &str = "gdb stops in `main` of a program for a debugger, and names the next line with code";

/// Stops in `main`, at a line with code, and at a comment, of a program that is hardly optimised. Returns the faults.
pub fn check_debug(workspace: &Workspace, program: &Path) -> Result<Vec<String>> {
    let workspace = Workspace { debug: true, ..workspace.clone() };
    let image = workspace.image(Path::new(MANIFEST), Profile::Det, false)?;
    let source = std::fs::read_to_string(workspace.root.join(SOURCE))?;
    let mark = source.lines().position(|line| line.contains(MARK)).context("no line is marked")? + 1;
    let mut gdb = Command::new(program);
    gdb.args(["-batch", "-nx"]);
    let output = under(&workspace, &image, false, gdb, |gdb| {
        gdb.args(["-ex", "task-break culprit main", "-ex", "continue", "-ex", "backtrace", "-ex", "delete"]);
        gdb.arg("-ex").arg(format!("task-break culprit misbehave.rs:{mark}"));
        gdb.args(["-ex", "continue", "-ex", "backtrace"]);
        gdb.stdin(Stdio::null()).output().context("gdb does not start")
    })?;
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    let wanted = [
        "misbehave::main () at ".to_owned(),
        format!("line {mark} has no code; the next that has some: "),
        "#0  misbehave::compute () at ".to_owned(),
        "#1  misbehave::main () at ".to_owned(),
    ];
    let is_there = wanted.iter().all(|words| text.contains(words));
    Ok(if is_there { Vec::new() } else { vec![text] })
}

/// Lets gdb stop three times at a line of one task, where a variable counts how often it was there. Returns the faults.
pub fn check(workspace: &Workspace, program: &Path) -> Result<Vec<String>> {
    let image = workspace.image(Path::new(MANIFEST), Profile::Det, false)?;
    let source = std::fs::read_to_string(workspace.root.join(SOURCE))?;
    let line = source.lines().position(|line| line.contains(MARK)).context("no line is marked")? + 2;
    let mut gdb = Command::new(program);
    gdb.args(["-batch", "-nx"]);
    let output = under(workspace, &image, false, gdb, |gdb| {
        // All tasks begin at this address, others before this one.
        gdb.args(["-ex", "task-break culprit _start", "-ex", "continue", "-ex", "python print('at', running())"]);
        gdb.arg("-ex").arg(format!("task-break culprit misbehave.rs:{line}"));
        for _ in 0..3 {
            gdb.args(["-ex", "continue", "-ex", "print count", "-ex", "backtrace"]);
        }
        gdb.args(["-ex", "delete", "-ex", "tbreak fusee_kernel::trap::slow_syscall", "-ex", "continue"]);
        gdb.args(["-ex", "backtrace"]).stdin(Stdio::null()).output().context("gdb does not start")
    })?;
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    let count = |number: u32| text.split_once(&format!("${number} = "))?.1.lines().next()?.parse::<u64>().ok();
    let counts: Vec<u64> = (1..=3).filter_map(count).collect();
    let is_counting = matches!(counts[..], [first, second, third] if second == first + 1 && third == second + 1);
    let called = format!("misbehave::compute () at {SOURCE}:{line}");
    let wanted = ["at ('culprit', True)", &called, "#0  fusee_kernel::trap::slow_syscall"];
    let is_there = wanted.iter().all(|words| text.contains(words));
    Ok(if is_counting && is_there { Vec::new() } else { vec![text] })
}

/// The name of the check of gdb without QEMU.
pub const HOSTED: &str = "gdb stops in a program in the simulator, and the run is the one without gdb";
const FIRST: &str = "docs/examples/first.toml";

/// Stops in `main` of a program on the host, goes on, and compares all that the simulator prints with that of a run without gdb. Returns the faults.
///
/// # Errors
/// A command does not start.
pub fn check_hosted(workspace: &Workspace, program: &Path) -> Result<Vec<String>> {
    let simulate = |more: &[&str]| -> Result<Command> {
        let mut command = as_tool()?;
        command.args(["simulate", FIRST]).args(more).current_dir(&workspace.root).env("FUSEE_GDB", program);
        command
            .env(KEPT_DIR, &workspace.project.kept_in)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    };
    let plain = simulate(&[])?.output()?;
    let mut session = simulate(&["--gdb", "hello"])?.spawn()?;
    let script = b"next\ninfo locals\ncontinue\nquit\n";
    session.stdin.take().context("no input")?.write_all(script)?;
    let output = session.wait_with_output()?;
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    let wanted = ["hello::main () at userland/apps/src/bin/hello.rs:", "jobs = 5", "exited normally", &plain];
    let is_there = plain.contains("hello from job 5 of 5") && wanted.iter().all(|words| text.contains(words));
    Ok(if is_there && output.status.success() { Vec::new() } else { vec![text] })
}
