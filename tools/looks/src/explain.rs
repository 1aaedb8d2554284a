//! `cargo xtask trace explain`: where the time of a job of the last run went.

use anyhow::{Result, bail};
use clap::Args;
use fusee_host::answers;
use fusee_host::observed::broken;
use fusee_host::report;
use fusee_host::words;
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;
use fusee_views::explain::{self, Explanation, Turn};

/// Arguments of `cargo xtask trace explain`.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct ExplainArguments {
    /// One job, such as `camera#7`.
    job: Option<String>,
    /// All jobs that missed their deadlines.
    #[arg(long)]
    missed: bool,
    /// The job of this task that took longest.
    #[arg(long, value_name = "TASK")]
    worst: Option<String>,
}

/// Prints what is asked for; `false`: there is no such job.
pub fn explain(arguments: &ExplainArguments, trace: &Trace, manifest: &Manifest, turns: &[Turn]) -> Result<bool> {
    let system = &manifest.system;
    let all = explain::explain(trace, system, turns);
    let name = |one: &Explanation| system.tasks[one.task].name.as_str();
    let missing = |one: &Explanation| report::missing(trace, one);
    let shown: Vec<&Explanation> = match (&arguments.job, &arguments.worst) {
        (Some(job), _) => {
            let Some((task, number)) = job.split_once('#') else {
                bail!("`{job}` is not written task#job, as `camera#7` is")
            };
            all.iter().filter(|one| name(one) == task && one.job.to_string() == number).collect()
        }
        (None, Some(task)) => all
            .iter()
            .filter(|one| name(one) == task && one.completed.is_some() && missing(one) == 0)
            .max_by_key(|one| one.response())
            .into_iter()
            .collect(),
        (None, None) => all.iter().filter(|one| one.is_late()).collect(),
    };
    if !trace.has_schedule() {
        bail!(
            "the trace has no schedule: set `trace = \"schedule\"` under `[system]`, or give `--trace schedule` to `run`"
        );
    }
    if shown.is_empty() {
        if arguments.missed {
            words::say("no job missed its deadline");
            return Ok(true);
        }
        let mut tasks: Vec<String> = system
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(index, task)| {
                let jobs = all.iter().filter(|one| one.task == index).map(|one| one.job);
                let (first, last) = (jobs.clone().min()?, jobs.max()?);
                Some(format!("{}#{first} to {last}", task.name))
            })
            .collect();
        if tasks.is_empty() {
            tasks.push("none".to_owned());
        }
        bail!("the trace has no such job; it has {}", tasks.join(", "));
    }
    // A declaration that did not hold delays more than one job.
    if shown.iter().any(|one| one.is_late()) {
        broken(&answers::observed(trace, system)).iter().for_each(|text| words::say(text));
    }
    for one in shown {
        match missing(one) {
            0 => words::say(one.text(system).trim_end()),
            count => words::say(&format!(
                "{}#{}: where its time went is not known: {count} records of it are missing",
                name(one),
                one.job
            )),
        }
    }
    Ok(true)
}
