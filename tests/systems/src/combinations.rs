//! Kernels with some of the features that systems may do without, and with none: each must boot a system that asks for exactly these, and
//! do the same as the kernel with all of them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_abi::image::feature;
use fusee_manifest::Profile;

use crate::conformance::{Case, FOLDER};
use fusee_host::build::{Builder, Features};
use fusee_host::system::{self, RunOptions, Workspace};

/// The features of each kernel that is built and run, in the order of [`feature::NAMES`], and the conformance system that asks for them.
pub const ALL: [(&[&str], &str); 7] = [
    (&[], "a_call_to_a_server_of_higher_priority_adds_nothing_to_the_callers_budget"),
    (&["clusters"], "a_server_is_boosted_for_another_cluster_but_not_beyond_its_service_max"),
    (&["engines", "groups"], "a_group_by_arrival_keeps_its_place_in_the_queues_of_free_engines"),
    (&["engines", "watchdogs"], "a_fixed_priority_interrupt_thread_preempts_a_high_job"),
    (&["pools"], "under_a_pure_priority_lock_the_highest_request_is_granted_next"),
    (&["pools", "advice"], "a_pool_advised_at_random_serves_everybody"),
    (&["pools", "clusters"], "a_job_that_is_released_donates_to_the_holder_it_would_preempt"),
];

/// The name of the check of the kernel with these features.
pub fn name(features: &[&str]) -> String {
    match features {
        [] => "a kernel without features".to_owned(),
        _ => format!("a kernel with {} alone", features.join(", ")),
    }
}

/// Builds the kernel with `features`, and runs `system` on it. Returns the faults.
pub fn check(workspace: &Workspace, features: &[&str], system: &str) -> Result<Vec<String>> {
    let path = Path::new(FOLDER).join(system).with_extension("toml");
    let cases = Case::all(workspace, &path)?;
    let case = cases.first().context("a system without variants")?;
    let asked: Vec<&str> = feature::names(case.manifest.system.features()).collect();
    ensure!(asked == features, "{} asks for {asked:?}", path.display());
    let builder = Builder { features: Features::Asked, ..workspace.builder() };
    let programs = builder.programs(&[&case.manifest.system])?;
    Ok(case.check(workspace, &format!("own::{}", name(features)), &programs, &[], false)?.problems)
}

/// The name of the check of a kernel without the features that its system asks for.
pub const REFUSAL: &str = "a kernel refuses a system that needs a feature it does not have";

/// A kernel without features says which one it lacks. Returns the faults.
pub fn check_refusal(workspace: &Workspace) -> Result<Vec<String>> {
    let with_features = ALL.into_iter().filter_map(|(features, system)| Some((*features.first()?, system)));
    let manifest = |system: &str| workspace.manifest(&Path::new(FOLDER).join(system).with_extension("toml"));
    let systems = with_features.map(|(first, system)| Ok((first, manifest(system)?))).collect::<Result<Vec<_>>>()?;
    let mut programs = workspace.builder().programs(&systems.iter().map(|(_, one)| &one.system).collect::<Vec<_>>())?;
    programs.kernel = workspace.builder().kernel(0)?;
    let mut problems = Vec::new();
    for (first, manifest) in systems {
        let image = workspace.image_of(manifest, programs.clone(), Profile::Det, false)?;
        let options = RunOptions::quiet(60);
        let run = system::run(workspace, &image, &options)?;
        if !run.outcome.console.contains(&format!("the system needs `{first}`, which this kernel lacks")) {
            problems.push(format!("{first}: code {:?}, console:\n{}", run.outcome.code, run.outcome.console));
        }
    }
    Ok(problems)
}
