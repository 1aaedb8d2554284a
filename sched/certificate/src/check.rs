//! The checker: each claim of a certificate, by the inequalities of its test.
//!
//! Claims may rest on claims of the same cluster by other tests. These stand in three layers, and a claim rests on lower layers only:
//! tests without such claims, then interference, then suspension as jitter.

use crate::format::{By, Certificate, Claim, Cluster, FORMAT};
use crate::model::{Effort, Model};
use crate::refusal::{Condition, Failed, Refusal, at_most, unlike};
use crate::{one_cpu, several_cpus, waiting};

/// The contents of a certificate that was accepted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Accepted {
    /// The tasks with a bound that was checked.
    pub certified: usize,
    /// Those of them that meet their deadlines.
    pub meeting: usize,
    /// The tasks with a bound that cannot be checked, and the test of each: cluster, task, test.
    pub uncertified: Vec<(String, String, String)>,
    /// The tasks without any bound.
    pub unbounded: usize,
}

/// Checks all claims of `certificate`.
///
/// # Errors
/// The first claim that does not follow.
pub fn check(certificate: &Certificate) -> Result<Accepted, Refusal> {
    if certificate.format != FORMAT {
        return Err(unlike(Condition::Format, certificate.format.into(), FORMAT.into()).of("", None));
    }
    let mut accepted = Accepted::default();
    for cluster in &certificate.clusters {
        claims(cluster)?;
        for task in &cluster.tasks {
            accepted.certified += usize::from(!task.claims.is_empty());
            accepted.meeting += usize::from(task.claims.iter().any(|claim| claim.meets));
            accepted.unbounded += usize::from(task.claims.is_empty() && task.uncertified.is_empty());
            let place = |test: &String| (cluster.name.clone(), task.name.clone(), test.clone());
            accepted.uncertified.extend(task.uncertified.iter().map(|one| place(&one.test)));
        }
    }
    Ok(accepted)
}

/// Checks all claims of a cluster.
fn claims(cluster: &Cluster) -> Result<(), Refusal> {
    let model = Model::new(cluster)?;
    let mut effort = Effort::new();
    for shared in [By::Demand, By::Density, By::Compliant, By::Tardiness, By::Interference, By::Windows, By::Suspension]
    {
        let mut claims = cluster.tasks.iter().flat_map(|task| &task.claims);
        if claims.any(|claim| claim.by == shared) {
            together(&model, &shared, &mut effort)?;
        }
    }
    let is_by_deadlines = |claim: &Claim| matches!(claim.by, By::Deadlines { .. });
    if cluster.tasks.iter().any(|task| task.claims.iter().any(is_by_deadlines)) {
        one_cpu::busy(&model).map_err(|failed| failed.of(&cluster.name, None))?;
    }
    for (index, task) in cluster.tasks.iter().enumerate() {
        for claim in &task.claims {
            own(&model, index, claim, &mut effort).map_err(|failed| failed.of(&cluster.name, Some(&task.name)))?;
        }
    }
    Ok(())
}

/// Checks the part of a test that does not depend on a task's claim.
fn together(model: &Model<'_>, by: &By, effort: &mut Effort) -> Result<(), Refusal> {
    let whole = |failed: Failed| failed.of(&model.cluster.name, None);
    let of_task = |(task, failed): (usize, Failed)| {
        let name = model.cluster.tasks.get(task).map(|task| task.name.as_str());
        failed.of(&model.cluster.name, name)
    };
    match by {
        By::Demand => one_cpu::demand(model, effort).map_err(whole),
        By::Density => several_cpus::density(model).map_err(whole),
        By::Compliant => several_cpus::compliant(model).map_err(whole),
        By::Tardiness => several_cpus::tardiness(model).map_err(whole),
        By::Interference => several_cpus::interference(model, effort).map_err(of_task),
        By::Windows => waiting::windows(model, effort).map_err(of_task),
        By::Suspension => waiting::suspension(model, effort).map_err(of_task),
        By::OwnCpu | By::FixedPriorities { .. } | By::Deadlines { .. } => Ok(()),
    }
}

/// Checks the claim of the task at `index`.
fn own(model: &Model<'_>, index: usize, claim: &Claim, effort: &mut Effort) -> Result<(), Failed> {
    let task = &model.cluster.tasks[index];
    if claim.meets {
        at_most(Condition::Deadline, claim.response.into(), task.deadline.into())?;
    }
    let cost = model.cost(index)?;
    at_most(Condition::Cost, cost + u128::from(model.cluster.latency), claim.response.into())?;
    let response = u128::from(claim.response - model.cluster.latency);
    let deadline = model.loads[index].deadline;
    let bound = match &claim.by {
        By::OwnCpu => {
            at_most(Condition::Cpus, model.loads.len() as u128, model.cpus)?;
            cost
        }
        By::FixedPriorities { busy, instants } => {
            return one_cpu::fixed_priorities(model, index, response, *busy, instants, effort);
        }
        By::Deadlines { instants } => return one_cpu::deadlines(model, index, response, instants, effort),
        By::Demand | By::Density => deadline,
        By::Compliant => several_cpus::compliant_bound(model, index)?,
        By::Tardiness => several_cpus::tardiness_bound(model, index)?,
        By::Interference => several_cpus::interference_bound(model, index)?,
        By::Windows => waiting::windows_bound(model, index)?,
        By::Suspension => waiting::suspension_bound(model, index)?,
    };
    at_most(Condition::Bound, bound, response)
}
