//! Files of an analysis: certificates for a checker that does not trust it, and task sets for other tools.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use fusee_abi::image::release;
use fusee_certificate::format::{self, Certificate};
use fusee_certificate::{Accepted, check};
use fusee_exchange::{Cluster, Export, Format, Policy, Release, System, Task, Use, export};
use fusee_host::{report, words};
use fusee_manifest::admission::Origin;
use fusee_sched::key::PolicyName;
use fusee_sched_analysis::Overheads;
use fusee_sched_analysis::blocking::Part;
use fusee_sched_analysis::certify::{Subject as Writer, certify};

use super::{NamedCluster, Subject, Verdict};

/// The files to write, or to check.
#[derive(Args)]
pub struct FileArguments {
    /// Write all bounds with their witnesses, which `--check` verifies without the analysis.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["expanded", "suggest"])]
    certificate: Option<PathBuf>,
    /// Verify a certificate, and analyse nothing.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["source", "manifest", "cpus", "policy", "clusters", "overheads", "json", "expanded", "suggest", "certificate", "export"])]
    pub(super) check: Option<PathBuf>,
    /// Write the tasks for another tool, all times in nanoseconds.
    #[arg(long, value_name = "FORMAT", requires = "out", conflicts_with_all = ["expanded", "suggest"])]
    export: Option<Kind>,
    /// With --export: the file. A format with a file for each cluster puts the name of the cluster before its extension, if there are several.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "export")]
    out: Option<PathBuf>,
}

/// A format of another tool.
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The XML of SchedCAT
    Schedcat,
    /// The text model of MAST
    Mast,
    /// The job sets of the schedule-abstraction graph
    Sag,
}

/// Checks the certificate at `path`, and prints its contents; `false`: it is refused.
pub fn verify(path: &Path) -> Result<bool> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
    let certificate: Certificate = serde_json::from_str(&text).with_context(|| shown.to_string())?;
    match check(&certificate) {
        Ok(accepted) => {
            words::say(&format!("{shown}: accepted: {}", contents(&accepted)));
            Ok(true)
        }
        Err(why) => {
            eprintln!("{} {shown}: refused: {why}", report::red("error:"));
            Ok(false)
        }
    }
}

/// The contents of a certificate in words, each bound without a witness on a line of its own.
fn contents(accepted: &Accepted) -> String {
    let Accepted { certified, meeting, uncertified, unbounded } = accepted;
    let mut text = format!(
        "{certified} tasks with certified bounds, {meeting} of them before their deadlines; {} uncertified; {unbounded} without a bound",
        uncertified.len()
    );
    for (cluster, task, test) in uncertified {
        text += &format!("\n  uncertified: cluster `{cluster}`, task `{task}`, by the test {test}");
    }
    text
}

/// The files of an analysis, while systems are analysed.
pub(super) struct Files<'a> {
    arguments: &'a FileArguments,
    certificate: Certificate,
    system: System,
}

impl Files<'_> {
    pub(super) fn new(arguments: &FileArguments) -> Files<'_> {
        let certificate = Certificate { format: format::FORMAT, system: String::new(), clusters: Vec::new() };
        Files { arguments, certificate, system: System::default() }
    }

    /// Adds a system, or one of several task sets, with the results of its analysis.
    pub(super) fn add(&mut self, subject: &Subject, overheads: &Overheads, verdicts: &[Verdict]) {
        if self.arguments.certificate.is_none() && self.arguments.export.is_none() {
            return;
        }
        let name = |cluster: &NamedCluster| match (&subject.system, subject.name.as_str()) {
            (None, set) if !set.is_empty() => format!("{set}, {}", cluster.name),
            _ => cluster.name.clone(),
        };
        if self.certificate.system.is_empty() {
            let system = if subject.name.is_empty() { "task set" } else { &subject.name };
            (self.certificate.system, self.system.name) = (system.to_owned(), system.to_owned());
        }
        for (cluster, verdict) in subject.clusters.iter().zip(verdicts) {
            self.certificate.clusters.push(certified(cluster, &name(cluster), verdict, overheads));
            self.system.clusters.push(exchanged(cluster, name(cluster)));
        }
    }

    /// Writes the files; the lines to print about them.
    pub(super) fn write(self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        if let Some(path) = &self.arguments.certificate {
            let accepted =
                check(&self.certificate).context("a certificate that the checker refuses: a mistake of Fusee's")?;
            let text = serde_json::to_string_pretty(&self.certificate)? + "\n";
            std::fs::write(path, text).with_context(|| path.display().to_string())?;
            lines.push(format!("{}: {}", path.display(), contents(&accepted)));
        }
        let (Some(kind), Some(out)) = (self.arguments.export, &self.arguments.out) else { return Ok(lines) };
        let format = match kind {
            Kind::Schedcat => Format::SchedCat,
            Kind::Mast => Format::Mast,
            Kind::Sag => Format::Sag,
        };
        let Export { files, notes } = export(&self.system, format)?;
        let is_one = files.len() == 1;
        for (cluster, text) in files {
            let path = match cluster.filter(|_| !is_one) {
                None => out.clone(),
                Some(cluster) => beside(out, &cluster),
            };
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
            lines.push(format!("{}: written, times in nanoseconds", path.display()));
        }
        lines.extend(notes.iter().map(|note| format!("  {note}")));
        Ok(lines)
    }
}

/// The path with the name of a cluster before its extension.
fn beside(path: &Path, cluster: &str) -> PathBuf {
    let plain: String = cluster.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|one| format!(".{}", one.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{plain}{extension}"))
}

/// A cluster with its bounds. A cluster without an analysis has its tasks, with the reason.
fn certified(cluster: &NamedCluster, name: &str, verdict: &Verdict, overheads: &Overheads) -> format::Cluster {
    let reason = match verdict {
        Err(why) => why.clone(),
        Ok((report, blocked)) => {
            // A bound that does not count all that its task waits for is none.
            let is_bound = |index| cluster.bound(index, report, blocked).is_some();
            let bounds: Vec<bool> = (0..cluster.tasks.len()).map(is_bound).collect();
            let mut report = report.clone();
            for (task, _) in report.tasks.iter_mut().zip(bounds).filter(|(_, is_bound)| !is_bound) {
                task.bound = None;
            }
            let words = |part: &Part| cluster.study.as_ref().map_or_else(String::new, |study| study.part(part));
            let writer = Writer {
                name,
                names: cluster.tasks.iter().map(|task| task.name.as_str()).collect(),
                cluster: &cluster.cluster,
                overheads,
                locks: cluster.study.as_ref().map(|study| &study.locks),
                report: &report,
                blocked,
                words: &words,
            };
            match certify(&writer) {
                Ok(mut found) => {
                    for (index, task) in found.tasks.iter_mut().enumerate() {
                        let missing = cluster.missing(index, &report, blocked).into_iter();
                        let outside = missing.filter(|one| one.origin != Origin::Response);
                        task.assumes.extend(outside.map(|one| format!("not so: {}", one.why)));
                    }
                    return found;
                }
                Err(why) => why.to_string(),
            }
        }
    };
    let task = |(index, named): (usize, &crate::task_set::NamedTask)| format::Task {
        name: named.name.clone(),
        period: named.task.period.0,
        deadline: named.task.deadline.0,
        priority: named.task.priority,
        expected: cluster.cluster.tasks()[index].execution.0,
        cost: None,
        parts: vec![format::Part { name: "execution".into(), span: named.task.execution.0, waits: false }],
        claims: Vec::new(),
        uncertified: Vec::new(),
        assumes: vec![format!("no bound: {reason}")],
    };
    format::Cluster {
        name: name.to_owned(),
        cpus: cluster.cluster.cpus(),
        policy: match cluster.cluster.policy() {
            PolicyName::Edf => format::Policy::Edf,
            PolicyName::Fl => format::Policy::Fl,
            PolicyName::Rm => format::Policy::Rm,
            PolicyName::Dm => format::Policy::Dm,
            PolicyName::Fp => format::Policy::Fp,
        },
        latency: 0,
        tasks: cluster.tasks.iter().enumerate().map(task).collect(),
        witness: format::Witness::default(),
    }
}

/// A cluster for other tools: budgets as executions, declared holds and suspensions.
fn exchanged(cluster: &NamedCluster, name: String) -> Cluster {
    let task = |(index, named): (usize, &crate::task_set::NamedTask)| {
        let reservation = cluster.study.as_ref().map(|study| study.reservations[index]);
        let phase = reservation.filter(|one| one.release == release::PERIODIC).map(|one| one.phase);
        let mut uses = Vec::new();
        if let Some(study) = &cluster.study {
            for (number, engine) in study.locks.engines.iter().enumerate() {
                uses.extend(engine.users.iter().filter(|user| user.task == index).map(|user| Use {
                    resource: study.engine(number).to_owned(),
                    times: user.times,
                    length: (user.hold.cpu + user.hold.operation).0,
                }));
            }
        }
        Task {
            name: named.name.clone(),
            execution: named.task.execution.0,
            expected: reservation.map_or(named.task.execution.0, |one| one.execution),
            period: named.task.period.0,
            deadline: named.task.deadline.0,
            priority: named.task.priority,
            release: phase.map_or(Release::Sporadic, |phase| Release::Periodic { phase }),
            suspends: cluster.study.as_ref().and_then(|study| study.locks.suspends.get(index)).map_or(0, |span| span.0),
            uses,
        }
    };
    Cluster {
        name,
        cpus: cluster.cluster.cpus(),
        policy: match cluster.cluster.policy() {
            PolicyName::Edf => Policy::Edf,
            PolicyName::Fl => Policy::Fl,
            PolicyName::Rm => Policy::Rm,
            PolicyName::Dm => Policy::Dm,
            PolicyName::Fp => Policy::Fp,
        },
        tasks: cluster.tasks.iter().enumerate().map(task).collect(),
    }
}

#[cfg(test)]
mod tests {
    use fusee_host::system;
    use fusee_kernel_core::limits::LONGEST_PATH;
    use fusee_manifest::Variant;
    use fusee_sched_analysis::report::Test;

    use super::*;

    /// The subject of an example, on a kernel with these costs.
    fn subject(example: &str, overheads: &Overheads) -> Subject {
        let root = system::root().unwrap();
        let manifest = system::read_variant(&root, Path::new(example), &Variant::default()).unwrap();
        let clusters = super::super::clusters_of(&manifest.system, *overheads != Overheads::default()).unwrap();
        let name = manifest.system.name.clone();
        Subject { name, clusters, longest_path: LONGEST_PATH, system: Some(manifest.system) }
    }

    #[test]
    fn each_bound_of_the_examples_is_certified() {
        let root = system::root().unwrap();
        let costs = super::super::read_overheads(&root.join("tests/bench/overheads.toml")).unwrap();
        let examples = ["engines", "tokens", "sleeps", "global", "graph", "served", "sections", "keys", "bus"];
        let examples = examples.map(|name| format!("docs/examples/{name}.toml"));
        let systems = ["userland/demo/demo.toml", "userland/vision/stabilise.toml", "userland/car/car.toml"];
        let mut certified = 0;
        for example in examples.iter().map(String::as_str).chain(systems) {
            for overheads in [Overheads::default(), costs] {
                let subject = subject(example, &overheads);
                let verdicts: Vec<Verdict> = subject.clusters.iter().map(|one| one.analyse(&overheads)).collect();
                let arguments =
                    FileArguments { certificate: Some("c.json".into()), check: None, export: None, out: None };
                let mut files = Files::new(&arguments);
                files.add(&subject, &overheads, &verdicts);
                let accepted = check(&files.certificate).unwrap_or_else(|why| panic!("{example}: {why}"));
                // Reachable states have no witness. Their tasks have bounds by other tests, too.
                let by_states = |(_, _, test): &(String, String, String)| test == Test::Reachability.name();
                assert!(accepted.uncertified.iter().all(by_states), "{example}");
                assert!(accepted.uncertified.is_empty() || example.ends_with("global.toml"), "{example}");
                let bounds = subject.clusters.iter().zip(&verdicts).flat_map(|(cluster, verdict)| {
                    let (report, blocked) = verdict.as_ref().ok()?;
                    Some(
                        (0..cluster.tasks.len())
                            .filter(|index| cluster.bound(*index, report, blocked).is_some())
                            .count(),
                    )
                });
                assert_eq!(accepted.certified, bounds.sum::<usize>(), "{example}");
                certified += accepted.certified;
            }
        }
        println!("{certified} bounds of {} systems certified", examples.len() + systems.len());
        assert!(certified > 60);
    }

    #[test]
    fn a_system_of_engines_is_written_for_each_tool() {
        let overheads = Overheads::default();
        let subject = subject("docs/examples/engines.toml", &overheads);
        let system = System {
            name: subject.name.clone(),
            clusters: subject.clusters.iter().map(|one| exchanged(one, one.name.clone())).collect(),
        };
        let cat = export(&system, Format::SchedCat).unwrap();
        assert!(cat.files[0].1.contains("period=\"20000000\" wcet=\"7000000\" partition=\"0\">"), "{}", cat.files[0].1);
        assert!(cat.files[0].1.contains("<requirement "));
        let sag = export(&system, Format::Sag).unwrap();
        // 100 ms: 5 jobs of `track` and of `plan`, 2 of `detect`.
        assert_eq!(sag.files[0].1.lines().count(), 1 + 5 + 5 + 2);
        assert!(export(&system, Format::Mast).is_err(), "two CPUs");
        assert_eq!(beside(Path::new("a/b.csv"), "c 1"), Path::new("a/b-c-1.csv"));
    }
}
