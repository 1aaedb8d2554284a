//! Tests of the steps of a build.

use super::*;
use crate::project::tests::project;

fn fusee() -> Project {
    project("/fusee", &[("demo", &["camera", "hog"]), ("pilot", &["hog", "wing"]), ("abi", &[])])
}

/// Where each program comes from, and which folder it goes to.
fn steps_of(wanted: &[&'static str], projects: &[&Project]) -> Vec<String> {
    let steps = steps(DEFAULT_BOARD, &wanted.iter().copied().collect(), projects).unwrap();
    let words = |step: &Step<'_>| {
        let programs: Vec<String> = step.programs.iter().map(|(package, name)| format!("{package}/{name}")).collect();
        format!("{}: {} -> {}", step.project.root.display(), programs.join(" "), step.own.unwrap_or("all"))
    };
    steps.iter().map(words).collect()
}

#[test]
fn programs_of_the_same_name_are_built_apart_even_if_only_one_is_wanted() {
    assert_eq!(
        steps_of(&["demo/camera", "demo/hog", "pilot/hog", "pilot/wing"], &[&fusee()]),
        ["/fusee: demo/camera pilot/wing -> all", "/fusee: demo/hog -> demo", "/fusee: pilot/hog -> pilot"]
    );
    assert_eq!(steps_of(&["demo/hog"], &[&fusee()]), ["/fusee: demo/hog -> demo"]);
}

#[test]
fn programs_come_from_the_workspace_that_has_them() {
    let own = project("/own", &[("mine", &["camera"]), ("demo", &["other"])]);
    assert_eq!(
        steps_of(&["demo/camera", "demo/other", "mine/camera"], &[&own, &fusee()]),
        ["/fusee: demo/camera -> all", "/own: demo/other mine/camera -> all"]
    );
}

fn refused(binary: &str, projects: &[&Project]) -> String {
    steps(DEFAULT_BOARD, &BTreeSet::from([binary]), projects).unwrap_err().to_string()
}

#[test]
fn a_program_that_is_not_there_is_refused_with_those_that_are() {
    let fusee = fusee();
    assert_eq!(
        refused("demo/hogg", &[&fusee]),
        "binary `demo/hogg`: package `demo` has no program `hogg`; did you mean `hog`? (it has: `camera`, `hog`)"
    );
    assert_eq!(
        refused("dem/hog", &[&project("/own", &[("mine", &["camera"])]), &fusee]),
        "binary `dem/hog`: no package `dem` in /own or /fusee; did you mean `demo`? (with programs: `demo`, `mine`, `pilot`)"
    );
    assert_eq!(refused("hog", &[&fusee]), "binary `hog`: it is not written package/program");
}

#[test]
fn a_program_that_two_workspaces_have_is_refused_with_both_places() {
    let own = project("/own", &[("demo", &["hog"])]);
    assert_eq!(
        refused("demo/hog", &[&own, &fusee()]),
        "binary `demo/hog` is both in /own and in /fusee: give one package another name"
    );
}
