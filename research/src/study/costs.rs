//! The costs of the study: four platforms of the text, from `costs.toml`, and Fusee.
//!
//! Fusee's kernel paths are those that `cargo xtask bench` recorded, at one instruction per nanosecond. Its copies are those of the text's platform at
//! worst, so a comparison with that one shows the kernel alone.
//!
//! Each of these is judged by the rules of the text. For a comparison of policies Fusee's costs are judged by five rules.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fusee_arrangements::arrangement::Speeds;
use fusee_arrangements::costs::{Costs, Line};
use fusee_arrangements::draw::Nominal;
use fusee_arrangements::judge::{Goal, Rules};
use fusee_sched::key::PolicyName;
use serde::Deserialize;

/// The name of the set of Fusee's own costs.
pub const FUSEE: &str = "Fusee";

/// A named set of a platform's overhead costs, with the rules by which task sets are judged under these costs.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name in tables.
    pub name: String,
    /// The costs.
    pub costs: Costs,
    /// The rules by which sets are judged.
    pub rules: Rules,
    /// The speeds of the GPUs.
    pub speeds: Speeds,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A number of the text.
    Printed,
    /// Read from a sentence or a range of the text.
    Prose,
    /// Chosen here.
    Ours,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    sets: Vec<String>,
    us: BTreeMap<String, Vec<f64>>,
    from: BTreeMap<String, Vec<Origin>>,
}

const INPUTS: &str = include_str!("costs.toml");

fn inputs() -> Result<Inputs> {
    let inputs: Inputs = toml::from_str(INPUTS).context("costs.toml")?;
    for (name, values) in &inputs.us {
        let from = inputs.from.get(name).with_context(|| format!("costs.toml: `{name}` has no origin"))?;
        ensure!(
            values.len() == inputs.sets.len() && from.len() == inputs.sets.len(),
            "costs.toml: `{name}` has not {} values and origins",
            inputs.sets.len()
        );
    }
    ensure!(inputs.us.len() == inputs.from.len(), "costs.toml: an origin without a value");
    Ok(inputs)
}

/// The number of values of each origin, for a set of the text.
pub fn origins(set: &str) -> Result<[usize; 3]> {
    let inputs = inputs()?;
    let number = inputs.sets.iter().position(|one| one == set).context("no such set")?;
    let count = |origin| inputs.from.values().filter(|values| values[number] == origin).count();
    Ok([count(Origin::Printed), count(Origin::Prose), count(Origin::Ours)])
}

impl Inputs {
    /// The costs of the set with this number.
    fn costs(&self, number: usize) -> Result<Costs> {
        let value = |name: &str| -> Result<u64> {
            let values = self.us.get(name).with_context(|| format!("costs.toml: no `{name}`"))?;
            Ok((values[number] * 1e3).round() as u64)
        };
        let line = |name: &str| -> Result<Line> {
            Ok(Line { least: value(&format!("{name}_least"))?, mebibyte: value(&format!("{name}_mebibyte"))? })
        };
        Ok(Costs {
            schedule: value("schedule")?,
            context_switch: value("context_switch")?,
            release: value("release")?,
            tick: value("tick")?,
            tick_period: value("tick_period")?,
            cache_delay: value("cache_delay")?,
            cache_interrupt: value("cache_interrupt")?,
            event_latency: value("event_latency")?,
            interprocessor_interrupt: value("interprocessor_interrupt")?,
            call_in: value("call_in")?,
            call_out: value("call_out")?,
            lock: value("lock")?,
            unlock: value("unlock")?,
            top_half: value("top_half")?,
            bottom_half: value("bottom_half")?,
            has_callback: true,
            inbound: line("inbound")?,
            outbound: line("outbound")?,
            near: line("near")?,
            far: line("far")?,
        })
    }
}

/// All sets: those of the text in its order, then Fusee's. `root`: the folder of this repository.
pub fn all(root: &Path) -> Result<Vec<Named>> {
    let inputs = inputs()?;
    let mut all = Vec::new();
    for (number, name) in inputs.sets.iter().enumerate() {
        all.push(Named { name: name.clone(), costs: inputs.costs(number)?, rules: Rules::TEXT, speeds: Speeds::EQUAL });
    }
    let worst = all.last().context("costs.toml: no sets")?.costs;
    all.push(Named { name: FUSEE.to_owned(), costs: fusee(root, &worst)?, rules: Rules::TEXT, speeds: Speeds::EQUAL });
    Ok(all)
}

/// Fusee's costs under each policy, by bounded lateness and by jobs that end within their periods.
pub fn policies(root: &Path) -> Result<Vec<Named>> {
    let costs = all(root)?.pop().context("costs.toml: no sets")?.costs;
    let (late, in_time) = (Goal::Bounded, Goal::InTime);
    let each = [
        (PolicyName::Fl, late),
        (PolicyName::Edf, late),
        (PolicyName::Fl, in_time),
        (PolicyName::Edf, in_time),
        (PolicyName::Rm, in_time),
    ];
    let named = |(policy, goal): (PolicyName, Goal)| {
        let words = if goal == Goal::Bounded { "bounded" } else { "in time" };
        let rules = Rules { policy, goal, ..Rules::TEXT };
        Named { name: format!("{}, {words}", policy.name()), costs, rules, speeds: Speeds::EQUAL }
    };
    Ok(each.map(named).into())
}

/// Fusee's costs with eight GPUs of equal speed, and with four of twice the speed of the others at three kinds of places. The sum of all speeds is 1,200 % in
/// each. Clusters have consecutive GPUs, and a node four of them.
pub fn unequal(root: &Path) -> Result<Vec<Named>> {
    let costs = all(root)?.pop().context("costs.toml: no sets")?.costs;
    let each = [
        ("equal", [150; 8]),
        ("nodes of a kind", [200, 200, 200, 200, 100, 100, 100, 100]),
        ("pairs of a kind", [200, 200, 100, 100, 200, 200, 100, 100]),
        ("mixed pairs", [200, 100, 200, 100, 200, 100, 200, 100]),
    ];
    let named = |(name, speeds): (&str, _)| {
        let (name, speeds) = (name.to_owned(), Speeds(speeds));
        Named { name, costs, rules: Rules::TEXT, speeds }
    };
    Ok(each.map(named).into())
}

impl Named {
    /// The copy times that count for the utilisation of a set.
    pub fn nominal(&self) -> Nominal {
        Nominal { inbound: self.costs.inbound, outbound: self.costs.outbound }
    }
}

/// Fusee's kernel, with the copies of `bus`.
fn fusee(root: &Path, bus: &Costs) -> Result<Costs> {
    let read = |name: &str| -> Result<toml::Table> {
        let path = root.join("tests/bench").join(name);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        text.parse().with_context(|| path.display().to_string())
    };
    let (paths, figures) = (read("overheads.toml")?, read("figures.toml")?);
    let path = |name: &str| -> Result<u64> {
        let value = paths.get(name).and_then(toml::Value::as_integer);
        u64::try_from(value.with_context(|| format!("overheads.toml: no `{name}`"))?).context("below zero")
    };
    let figure = |name: &str| -> Result<u64> {
        let found = figures.values().filter_map(toml::Value::as_table).find_map(|table| table.get(name));
        let value = found.or_else(|| figures.get(name)).and_then(toml::Value::as_integer);
        u64::try_from(value.with_context(|| format!("figures.toml: no `{name}`"))?).context("below zero")
    };
    let (schedule, release) = (path("schedule")?, path("release")?);
    Ok(Costs {
        schedule,
        release,
        event_latency: path("event_latency")?,
        interprocessor_interrupt: path("interprocessor_interrupt")?,
        call_in: path("call_in")?,
        call_out: path("call_out")?,
        lock: figure("acquire a free engine, map its doorbell")?,
        unlock: figure("release an engine, unmap its doorbell")?,
        // An interrupt that wakes the driver is as long as one that releases a job.
        top_half: release,
        // The driver wakes, signals its client, and waits again.
        bottom_half: schedule + figure("bottom half signals -> its client runs")?,
        inbound: bus.inbound,
        outbound: bus.outbound,
        near: bus.near,
        far: bus.far,
        ..Costs::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_an_origin_and_worse_platforms_cost_more() {
        let all = all(&fusee_host::system::root().unwrap()).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["AC/I", "AC/L", "WC/I", "WC/L", FUSEE]);
        let [idle, .., worst, fusee] = &all[..] else { panic!("{names:?}") };
        assert!(idle.costs.bottom_half < worst.costs.bottom_half && fusee.costs.bottom_half < idle.costs.bottom_half);
        assert_eq!(worst.costs.near.mebibyte, 175_600);
        assert_eq!(fusee.costs.inbound, worst.costs.inbound);
        assert_eq!(origins("WC/L").unwrap(), [3, 4, 16]);
    }
}
