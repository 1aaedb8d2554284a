//! Errors: each names its place and the choices.

use std::time::Duration;

use fusee_sim::System;

use crate::runs::FIRST;

/// The words of an error, after this change.
fn words(change: impl FnOnce(&mut System) -> Result<(), fusee_sim::Error>) -> String {
    let mut system = System::load(FIRST).unwrap();
    change(&mut system).and_then(|()| system.start().map(drop)).unwrap_err().to_string()
}

#[test]
fn a_wrong_change_of_a_manifest_names_the_tables_that_there_are() {
    let error = words(|system| system.set("tasks.helo.period", "1ms").map(drop));
    assert!(error.contains("first.toml: `tasks.helo.period` cannot be set: there is no table `helo`"), "{error}");
    assert!(error.ends_with("there are `hello`, `console`"), "{error}");
    let error = words(|system| system.set("tasks.hello.perod", "1ms").map(drop));
    assert!(error.contains("first.toml:") && error.contains("perod"), "{error}");
    let error = words(|system| system.set("tasks.hello.period", "soon").map(drop));
    assert!(error.contains("first.toml:") && error.contains("soon"), "{error}");
    // The hard proof is made of the changed manifest.
    let error = words(|system| system.set("tasks.hello.hard", true)?.set("tasks.hello.deadline", "1ms").map(drop));
    assert!(error.contains("hello"), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_named_with_those_that_are() {
    let error = words(|system| system.set("tasks.hello.binary", "apps/helo").map(drop));
    assert!(error.contains("the program `apps/helo` of `hello` is in no workspace"), "{error}");
    assert!(error.contains("`apps/hello`"), "{error}");
    // Registers of a device have no model here.
    let mut system = System::load(FIRST).unwrap();
    system.set("tasks.hello.handles.timer", "region timer: read").unwrap();
    let text = format!("{}\n[regions.timer]\ndevice = \"rtc0\"\n", system.text());
    let mut system = System::parse(FIRST, &text).unwrap();
    let error = system.start().unwrap_err().to_string();
    assert!(error.contains("the program of `hello` cannot run in the simulator: it drives a device"), "{error}");
    assert!(system.leave_out("hello").start().is_ok());
}

#[test]
fn names_of_runs_have_their_choices() {
    let mut run = System::load(FIRST).unwrap().start().unwrap();
    run.until(Duration::from_millis(15)).unwrap();
    let error = run.crash("helo").unwrap_err().to_string();
    assert_eq!(error, "there is no task `helo`; there are `hello`, `console`");
    let error = run.memory("uart").unwrap_err().to_string();
    assert_eq!(error, "the bytes of `uart` cannot be read: it is registers of a device; there is none");
    let error = run.lose_interrupts("hello").unwrap_err().to_string();
    assert_eq!(error, "`hello` uses no engine of a device; there is none");
    assert!(System::load("not-there.toml").unwrap_err().to_string().starts_with("not-there.toml: "));
    assert!(System::parse("wrong.toml", "[system").unwrap_err().to_string().contains("wrong.toml: "));
}
