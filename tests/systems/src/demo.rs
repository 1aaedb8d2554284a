//! The demo, on boards, with a screen, without locks and on SMs.

use std::cell::RefCell;
use std::path::Path;

use anyhow::Result;
use fusee_host::evidence::Evidence;
use fusee_host::screen::{self};
use fusee_host::system::{self, Image, Run, RunOptions, Workspace};
use fusee_host::turns::Turns;
use fusee_manifest::{Manifest, Profile};

use demo_judge::{SHARED_MANIFEST, SHOWN_MANIFEST, SPATIAL_MANIFEST, judge};

/// Runs the demo, managed and exact. Returns the faults.
pub fn check(workspace: &Workspace, manifest: Manifest) -> Result<Vec<String>> {
    let image = workspace.image_of_manifest(manifest, Profile::Det, false)?;
    let options = RunOptions { quantum: Turns::of(&image.manifest.system, None).quantum, ..RunOptions::quiet(600) };
    judged(workspace, &image, &system::run(workspace, &image, &options)?, judge)
}

/// The name of the check of the demo's frames on a screen.
pub const SCREEN: &str = "the demo's frames on a screen";

/// Runs the demo with a screen.
pub fn check_screen(workspace: &Workspace) -> Result<Vec<String>> {
    let image = workspace.image(Path::new(SHOWN_MANIFEST), Profile::Det, false)?;
    let system = &image.manifest.system;
    let options = RunOptions {
        quantum: Turns::of(system, None).quantum,
        stimuli: screen::stimuli(system, None, screen::STANDS)?,
        ..RunOptions::quiet(120)
    };
    judged(workspace, &image, &system::run(workspace, &image, &options)?, judge)
}

/// The name of the check of the demo with hogs without locks.
pub const WITHOUT_LOCKS: &str = "the demo with hogs that share what is left of the GPU";

/// Runs the demo with hogs without locks, and a sharer.
pub fn check_without_locks(workspace: &Workspace) -> Result<Vec<String>> {
    check(workspace, workspace.manifest(Path::new(SHARED_MANIFEST))?)
}

/// The name of the check of the demo with hogs on SMs.
pub const ON_SMS: &str = "the demo with hogs that make room on SMs";

/// Runs the demo with hogs without locks, on a GPU with SMs.
pub fn check_on_sms(workspace: &Workspace) -> Result<Vec<String>> {
    check(workspace, workspace.manifest(Path::new(SPATIAL_MANIFEST))?)
}

/// The judge of a system's results, which prints lines by its second argument.
pub type Judge = fn(&Evidence<'_>, &dyn Fn(&str)) -> Result<bool>;

/// The faults of a run that ends itself, by its judge.
pub fn judged(workspace: &Workspace, image: &Image, run: &Run, judge: Judge) -> Result<Vec<String>> {
    let said = RefCell::new(Vec::new());
    let is_right =
        judge(&Evidence::of(&workspace.project, image, run)?, &|line| said.borrow_mut().push(line.to_owned()))?;
    if is_right && run.outcome.code == Some(0) {
        return Ok(Vec::new());
    }
    let mut problems = vec![format!("ended with {:?}, console:\n{}", run.outcome.code, run.outcome.console)];
    problems.append(&mut said.borrow_mut());
    Ok(problems)
}
