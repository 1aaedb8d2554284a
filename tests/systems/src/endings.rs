//! Runs of systems that do not end themselves: each ends when nothing can happen any more, and with its decisive tasks; and none ends while a device works.
//!
//! Each command that runs a system must end so, and say so. Systems whose devices are under way while the kernel has no timer are those of `tests/target`
//! with clocks, disks and accelerators: they would fail if their runs ended early.

use anyhow::{Context, Result};
use fusee_host::workspace::Workspace;
use serde_json::Value;

use crate::runs::Here;

/// Name of the check.
pub const CHECK: &str = "a run ends when nothing can happen any more, and with its decisive tasks";

/// Tasks that end, and a server that waits for requests.
const DONE: &str = r#"
[tasks.script]
script = ["burn 1ms", "call desk 1ms"]
handles = { desk = "endpoint desk: call" }
[tasks.desk]
script = ["serve desk"]
handles = { desk = "endpoint desk: receive" }
[endpoints.desk]
server = "desk"
"#;
/// Each waits for a signal that never comes.
const WAITING: &str = r#"
[tasks.one]
script = ["wait a"]
handles = { a = "notification a: wait" }
[tasks.other]
script = ["wait b"]
handles = { b = "notification b: wait" }
[notifications.a]
[notifications.b]
"#;
/// All tasks are dead.
const DEAD: &str = r#"
[tasks.killer]
script = ["stop victim"]
handles = { victim = "task victim: stop" }
[tasks.victim]
script = ["burn 100s"]
"#;
/// A task that is alive for ever beside a hard one that is stopped after 25 ms.
const HARD: &str = r#"
admission = "warn"
[tasks.brake]
script = ["burn 1ms"]
period = "10ms"
budget = "2ms"
hard = true
[tasks.killer]
script = ["sleep 25ms", "stop brake"]
handles = { brake = "task brake: stop" }
[tasks.fan]
script = ["burn 1ms"]
period = "10ms"
budget = "2ms"
"#;
/// The only task that may shut the system down ends, and another goes on.
const BOSS: &str = r#"
[tasks.boss]
script = ["burn 1ms"]
handles = { system = "system: shutdown" }
[tasks.fan]
script = ["burn 1ms"]
period = "10ms"
budget = "2ms"
"#;
/// The end of the hard task is expected, and the system ends itself.
const EXPECTED: &str = r#"
[tasks.boss]
script = ["sleep 95ms", "shutdown"]
handles = { system = "system: shutdown" }
[test]
faults = ["brake"]
"#;
/// One budget is longer than the run, and no record is written while it is used.
const LONG: &str = r#"
[tasks.hog]
script = ["burn 500ms"]
period = "100s"
budget = "90s"
"#;

/// Checks them all.
///
/// # Errors
/// A run that could not be tried.
pub fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let here = Here::of(workspace)?;
    let mut problems = Vec::new();
    let done = "(`script`: exited 0; `desk`: waits for requests at desk)";
    let waiting = "(`one`: waits for a; `other`: waits for b)";
    let dead = "(`killer`: exited 0; `victim`: stopped by killer)";
    let cut = "with the end of hard task `brake`; `--keep-going`";
    let boss = "with the end of `boss`, the only task that may shut the system down; `--keep-going`";
    let left = "nothing_left";
    for (name, text, words, code, by) in [
        ("done", DONE, done, 0, left),
        ("waiting", WAITING, waiting, 1, left),
        ("dead", DEAD, dead, 1, left),
        ("hard", HARD, cut, 0, "task_ended"),
        ("boss", BOSS, boss, 1, "task_ended"),
    ] {
        let path = here.manifest(name, text)?;
        // The host's limit is far away: the check would take that long, and the words would be others.
        let profiles: &[&str] = if name == "waiting" { &["det", "par"] } else { &["det"] };
        for profile in profiles {
            let run = ["run", "--manifest", &path, "--seconds", "600", "--profile", profile];
            here.expect(&mut problems, &run, code, words)?;
        }
        let json = here.json(&["run", "--manifest", &path, "--seconds", "600", "--json"])?;
        let good = Value::Bool(code == 0);
        if (&json["ended_by"], &json["verdict"]["good"], &json["exit"]) != (&Value::from(by), &good, &Value::Null) {
            problems.push(format!("{name}: {json}"));
        }
        here.expect(&mut problems, &["top", "--manifest", &path], code, words)?;
    }
    for (name, words) in [("done", done), ("waiting", waiting), ("dead", dead), ("hard", cut)] {
        let path = here.manifest_path(name)?;
        here.expect(&mut problems, &["simulate", "--manifest", &path], 0, words)?;
    }

    problems.extend(cut_short(&here)?);
    Ok(problems)
}

/// Runs that end with a decisive task, go on, or reach a limit.
fn cut_short(here: &Here) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    // The records are those up to the end of the decisive task, however soon the host has noticed.
    let path = here.manifest_path("hard")?;
    let killed = here.json(&["run", "--manifest", &path, "--json"])?;
    let simulated = here.json(&["simulate", "--manifest", &path, "--json"])?;
    let jobs = |run: &Value| {
        run["tasks"].as_array().map(|tasks| tasks.iter().map(|task| task["jobs"].clone()).collect::<Vec<_>>())
    };
    if jobs(&killed) != jobs(&simulated) || killed["ended_at"].as_u64().is_none_or(|at| at / 1_000_000 != 25) {
        problems.push(format!("the run goes on behind the end of its hard task: {killed}\n{simulated}"));
    }
    let goes_on = here.json(&["run", "--manifest", &path, "--json", "--keep-going", "--for", "95ms"])?;
    let fan = goes_on["tasks"].as_array().and_then(|tasks| tasks.iter().find(|task| task["name"] == "fan"));
    if goes_on["ended_by"] != "limit" || fan.context("no task `fan`")?["jobs"].as_u64().is_none_or(|jobs| jobs < 8) {
        problems.push(format!("`--keep-going` does not go on: {goes_on}"));
    }

    // With a limit of virtual time the system need not end itself; an expected end ends no run.
    let path = here.manifest_path("boss")?;
    here.expect(&mut problems, &["run", "--manifest", &path, "--for", "95ms"], 0, "the run ended here, as asked")?;
    let faults = HARD.replace("stop brake", "burn 1ms") + EXPECTED;
    let path = here.manifest("expected", &faults)?;
    let run = here.json(&["run", "--manifest", &path, "--json"])?;
    if run["ended_by"] != "itself" {
        problems.push(format!("the system does not end itself: {run}"));
    }

    // The limit counts virtual time at each level of the trace, without a record, and without a task that is alive.
    here.manifest("long", LONG)?;
    for (name, level) in [("long", "off"), ("long", "full"), ("dead", "off"), ("waiting", "marks"), ("hard", "off")] {
        let manifest = here.manifest_path(name)?;
        let run = ["run", "--manifest", &manifest, "--for", "100ms", "--seconds", "600", "--trace", level, "--json"];
        let run = here.json(&run)?;
        if run["verdict"]["good"] != true || ["itself", "host_limit"].iter().any(|by| run["ended_by"] == *by) {
            problems.push(format!("{name} at {level}: {run}"));
        }
    }
    Ok(problems)
}
