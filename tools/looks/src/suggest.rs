//! `cargo xtask analyze --suggest`: the lines that a manifest lacks, or has too small, by the amounts of the last run.
//!
//! An amount that was seen is no bound, so each has a margin. A budget has to pay for a job's own computing, for the services that it calls and for what it
//! computes in holds, so it follows from the other amounts.
//!
//! Not here: the amounts (`fusee_host::observed`).

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fusee_host::observed::{Observed, Seen, What};
use fusee_host::project::Project;
use fusee_host::system::Last;
use fusee_host::words;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Time};

/// Arguments of `cargo xtask analyze --suggest`.
#[derive(Args)]
pub struct SuggestArguments {
    /// How much more than was seen, in percent.
    #[arg(long)]
    margin: u64,
}

/// Prints the lines for the last run.
///
/// # Errors
/// There is none, or it keeps no schedule.
pub fn suggest(arguments: &SuggestArguments) -> Result<bool> {
    let (project, percent) = (Project::here()?, arguments.margin);
    const WHY: &str = "no run to learn from: `cargo xtask run` comes first, which with `admission = \"warn\"` under `[system]` runs what is not proved, too";
    let (trace, manifest) = Last::of(&project).and_then(|last| last.trace()).context(WHY)?;
    ensure!(trace.has_schedule(), "the last run kept no schedule: `run --trace schedule` does");
    let text = lines(&trace, &manifest, percent);
    let name = &manifest.system.name;
    if text.is_empty() {
        words::say(&format!(
            "# nothing that was seen in the last run of `{name}` is missing in its manifest, or exceeds it"
        ));
        return Ok(true);
    }
    words::say(&format!("# seen in the last run of `{name}`, and {percent} % more; a longer one may come"));
    words::print(&text);
    Ok(true)
}

/// A line of a table, and why.
type Line = (String, String);

/// The lines, as text that can be pasted. A table that the manifest has is named in a comment: TOML has each table once.
fn lines(trace: &Trace, manifest: &Manifest, percent: u64) -> String {
    let known: toml::Table = manifest.text.parse().unwrap_or_default();
    let mut text = String::new();
    for (table, lines) in Suggestions::of(trace, manifest, percent).tables {
        let (first, rest) = table.split_first().expect("a table has a name");
        let has = rest.iter().fold(known.get(first), |value, name| value.and_then(|value| value.get(name))).is_some();
        let name = table.join(".");
        let _ = if has { writeln!(text, "\n# in [{name}]:") } else { writeln!(text, "\n[{name}]") };
        for (line, why) in lines {
            let _ = writeln!(text, "{line}  # {why}");
        }
    }
    text
}

/// All lines, by table.
struct Suggestions {
    tables: BTreeMap<Vec<String>, Vec<Line>>,
}

impl Suggestions {
    fn of(trace: &Trace, manifest: &Manifest, percent: u64) -> Suggestions {
        let system = &manifest.system;
        let seen = Observed::of(trace, system).seen();
        let mut all = Suggestions { tables: BTreeMap::new() };
        let find = |task: usize, what: What, object: usize| {
            seen.iter().find(|one| (one.task, one.what, one.object) == (task, what, object))
        };
        let more = |amount: u64| rounded(amount + amount * percent / 100);
        // The declared or suggested longest service of each endpoint, for the budgets.
        let mut services: BTreeMap<usize, u64> = BTreeMap::new();
        for (index, (name, endpoint)) in system.endpoints.iter().enumerate() {
            services.insert(index, endpoint.service_max);
            let Some(one) = find(endpoint.server as usize, What::Service, index) else { continue };
            if one.longest > endpoint.service_max {
                services.insert(index, more(one.longest));
                all.time(&["endpoints", name], "service_max", more(one.longest), one, endpoint.service_max);
            }
        }
        for (index, task) in system.tasks.iter().enumerate().filter(|(_, task)| system.has_jobs(task)) {
            let Some(reservation) = task.reservation.map(|one| &system.reservations[one]) else { continue };
            let own = ["tasks", task.name.as_str()];
            let mut lent = 0;
            for (endpoint, (name, _)) in system.endpoints.iter().enumerate() {
                let declared = system.calls.iter().find(|(of, to, _)| (*of, *to) == (index, endpoint));
                let declared = declared.map_or(0, |(_, _, times)| u64::from(*times));
                let times = match find(index, What::Calls, endpoint).filter(|one| one.longest > declared) {
                    Some(one) => {
                        let why = because(&format!("{} of them", one.longest), one, declared, &declared.to_string());
                        all.add(&[own[0], own[1], "uses"], format!("{name} = {{ times = {} }}", one.longest), why);
                        one.longest
                    }
                    None => declared,
                };
                lent += times * services[&endpoint];
            }
            for (user, hold) in system.engine_users.iter().zip(&system.engine_holds) {
                let (of, engine) = (user.task as usize, user.engine as usize);
                let (Some(cpu), true) = (find(index, What::HoldCpu, engine), of == index) else { continue };
                let whole = find(index, What::Hold, engine).map_or(cpu.longest, |one| one.longest);
                let times = find(index, What::Holds, engine).map_or(1, |one| one.longest);
                let operation = whole.saturating_sub(cpu.longest);
                let declared = hold.as_ref().map(|one| [one.hold.cpu.0, one.hold.operation.0, u64::from(one.times)]);
                let is_enough = declared.is_some_and(|[most, operations, most_times]| {
                    cpu.longest <= most && operation <= operations && times <= most_times
                });
                let [most, operations, most_times] = declared.unwrap_or_default();
                let larger = |seen: u64, declared: u64| if seen > declared { more(seen) } else { declared };
                let amounts = (larger(cpu.longest, most), larger(operation, operations), times.max(most_times));
                lent += amounts.0 * amounts.2;
                if !is_enough {
                    let name = &system.engines[engine].0;
                    let operation = match amounts.1 {
                        0 => String::new(),
                        operation => format!(", operation = {}", quoted(operation)),
                    };
                    let line = format!("{name} = {{ times = {}, cpu = {}{operation} }}", amounts.2, quoted(amounts.0));
                    let took = format!("{} in all", words::span(whole.cast_signed()));
                    let said = declared.map_or(0, |_| 1);
                    all.add(&[own[0], own[1], "uses"], line, because(&took, cpu, said, "less"));
                }
            }
            let suspends = system.suspends[index].0;
            if let Some(one) = find(index, What::Suspension, 0).filter(|one| one.longest > suspends) {
                all.time(&own, "suspends", more(one.longest), one, suspends);
            }
            let wcet = find(index, What::Wcet, 0);
            // Without the key it is the budget.
            let is_declared = reservation.execution != reservation.budget;
            let execution = match wcet {
                Some(one) if is_declared && one.longest > reservation.execution => {
                    all.time(&own, "wcet", more(one.longest), one, reservation.execution);
                    more(one.longest)
                }
                Some(one) if !is_declared && lent > 0 => {
                    all.time(&own, "wcet", more(one.longest), one, 0);
                    more(one.longest)
                }
                Some(one) if !is_declared => more(one.longest),
                _ => reservation.execution,
            };
            let needed = rounded(execution + lent);
            if needed > reservation.budget && wcet.is_some() {
                let why = format!(
                    "{} is declared; wcet, services and holds together are {}",
                    Time(reservation.budget),
                    Time(needed)
                );
                all.add(&own, format!("budget = {}", quoted(needed)), why);
            }
        }
        all
    }

    fn add(&mut self, table: &[&str], line: String, why: String) {
        let table = table.iter().map(|name| (*name).to_owned()).collect();
        self.tables.entry(table).or_default().push((line, why));
    }

    /// A line with a time.
    fn time(&mut self, table: &[&str], key: &str, amount: u64, seen: &Seen, declared: u64) {
        let why = because(&words::span(seen.longest.cast_signed()), seen, declared, &Time(declared).to_string());
        self.add(table, format!("{key} = {}", quoted(amount)), why);
    }
}

/// The declared amount, the seen amount, and its job.
fn because(amount: &str, seen: &Seen, declared: u64, words: &str) -> String {
    let declared = if declared == 0 { "not declared".to_owned() } else { format!("{words} is declared") };
    format!("{declared}; {amount} in `{}`", seen.longest_in)
}

/// A time as manifests have it.
fn quoted(time: u64) -> String {
    format!("\"{}\"", Time(time).to_string().replace(' ', ""))
}

/// The next larger time of two digits.
fn rounded(time: u64) -> u64 {
    let mut unit = 1;
    while time / unit >= 100 {
        unit *= 10;
    }
    time.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fusee_simulator::simulate;

    use super::*;

    /// `sensor` computes 400 us, calls twice for 300 us each, holds a mutex for 100 us, and sleeps for 2 ms.
    const SYSTEM: &str = "
        [system]
        name = \"suggested\"
        board = \"virt\"
        cpus = 1
        admission = \"warn\"
        [tasks.sensor]
        script = [\"burn 400us\", \"call store 300us\", \"call store 300us\", \"acquire mutex\", \"burn 100us\", \"release mutex\", \"pause 2ms\"]
        period = \"10ms\"
        BUDGET
        handles = { store = \"endpoint store: call\", mutex = \"engine mutex: acquire\" }
        [tasks.store]
        script = [\"serve store\"]
        handles = { store = \"endpoint store: receive\" }
        [endpoints.store]
        server = \"store\"
        service_max = \"50us\"
        [engines.mutex]
        USES
    ";

    fn suggested(budget: &str, uses: &str) -> String {
        let text = SYSTEM.replace("BUDGET", budget).replace("USES", uses);
        let manifest = Manifest::parse(Path::new("m.toml"), &text).expect("a manifest");
        let records = simulate(&manifest, None, 50_000_000).expect("a simulation").records;
        lines(&Trace::from_records(records), &manifest, 20)
    }

    #[test]
    fn what_is_missing_or_too_small_is_a_line_in_its_table_and_with_it_nothing_is_missing() {
        let text = suggested("budget = \"1ms\"", "");
        for line in [
            "# in [endpoints.store]:\nservice_max = \"360us\"  # 50 us is declared; 300.000 us in `sensor#1`",
            "[tasks.sensor.uses]\nstore = { times = 2 }  # not declared; 2 of them in `sensor#1`\n\
             mutex = { times = 1, cpu = \"120us\" }  # not declared; 100.000 us in all in `sensor#1`",
            "suspends = \"2400us\"  # not declared; 2.000 ms in `sensor#1`",
            "wcet = \"480us\"  # not declared; 400.000 us in `sensor#1`",
            "budget = \"1400us\"  # 1 ms is declared;",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        // Pasted, the lines leave nothing to suggest.
        let pasted = "[tasks.sensor.uses]\nstore = { times = 2 }\nmutex = { times = 1, cpu = \"120us\" }\n";
        let whole = SYSTEM.replace("\"50us\"", "\"360us\"").replace("USES", pasted);
        let whole = whole
            .replace("BUDGET", "wcet = \"480us\"\nsuspends = \"2400us\"\nbudget = \"1400us\"")
            .replace("admission = \"warn\"\n", "");
        let manifest = Manifest::parse(Path::new("m.toml"), &whole).expect("a manifest");
        let records = simulate(&manifest, None, 50_000_000).expect("a simulation").records;
        assert_eq!(lines(&Trace::from_records(records), &manifest, 20), "");
    }

    #[test]
    fn times_have_two_digits_and_are_no_shorter() {
        assert_eq!([0, 7, 99, 100, 101, 964_491].map(rounded), [0, 7, 99, 100, 110, 970_000]);
    }
}
