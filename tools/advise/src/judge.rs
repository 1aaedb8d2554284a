//! The verdict of admission on one manifest.
//!
//! Two readings of one text make a verdict. The first reading has `admission = "warn"` and gives the bounds of tasks that are not
//! proved, too. The second one has `admission = "refuse"` and decides whether the system is admitted.

use std::cmp::Ordering;
use std::path::Path;

use fusee_manifest::admission::{self, Study};
use fusee_manifest::{Manifest, ManifestErrors, Resolved, Variant};
use fusee_sched_analysis::Overheads;
use num_rational::BigRational;
use num_traits::Zero;
use toml_edit::{DocumentMut, value};

/// A promise of the manifest, and its state.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The hard task, or the graph with a latency, in words.
    pub name: String,
    /// Whether it is proved.
    pub is_proved: bool,
    /// (deadline - bound) / deadline; `None`: there is no bound.
    pub margin: Option<BigRational>,
}

/// The verdict on one manifest.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether admission lets the system in.
    pub is_admitted: bool,
    /// Proved promises.
    pub proved: usize,
    /// All promises.
    pub promises: usize,
    /// The least margin, and the promise that has it; without promises, among all real-time tasks. A promise without a bound has less
    /// than all others.
    pub least: Option<Promise>,
    /// CPUs less the utilisation of all clusters, blocking included; `None`: a cluster has no bounds.
    pub left: Option<BigRational>,
}

impl Verdict {
    /// The order of arrangements: admitted ones are the greatest, then those with more proved promises, then those with a greater
    /// margin.
    #[must_use]
    pub fn compare(&self, other: &Verdict) -> Ordering {
        let margin = |verdict: &Verdict| verdict.least.as_ref().and_then(|least| least.margin.clone());
        let first = (self.is_admitted, self.proved).cmp(&(other.is_admitted, other.proved));
        first.then_with(|| margin(self).cmp(&margin(other)))
    }
}

/// The folder of a manifest, and its difference from the text.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The file that errors name.
    pub file: &'a Path,
    /// The board, and the folder of other files.
    pub variant: &'a Variant,
}

impl Reading<'_> {
    /// Reads a manifest that is refused if something is not proved.
    ///
    /// # Errors
    /// All mistakes.
    pub fn strict(&self, document: &DocumentMut) -> Result<Manifest, ManifestErrors> {
        self.read(document, "refuse")
    }

    /// Reads a manifest of which nothing needs to be proved.
    ///
    /// # Errors
    /// All mistakes but those of admission.
    pub fn lenient(&self, document: &DocumentMut) -> Result<Manifest, ManifestErrors> {
        self.read(document, "warn")
    }

    fn read(&self, document: &DocumentMut, admission: &str) -> Result<Manifest, ManifestErrors> {
        let mut document = document.clone();
        let system = document.get_mut("system").and_then(|system| system.as_table_like_mut());
        system.into_iter().for_each(|system| drop(system.insert("admission", value(admission))));
        Manifest::parse_variant(self.file, &document.to_string(), self.variant)
    }

    /// Judges the system that was read leniently from `document`.
    #[must_use]
    pub fn judge(&self, document: &DocumentMut, system: &Resolved) -> Verdict {
        let (tasks, left) = tasks(system);
        let (hard, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(is_hard, _)| *is_hard);
        let promises: Vec<Promise> = hard.into_iter().map(|(_, promise)| promise).chain(graphs(system)).collect();
        let proved = promises.iter().filter(|promise| promise.is_proved).count();
        let others: Vec<Promise> = others.into_iter().map(|(_, other)| other).collect();
        let looked_at = if promises.is_empty() { &others } else { &promises };
        let least = looked_at.iter().min_by(|one, other| one.margin.cmp(&other.margin)).cloned();
        // Admission has all of them proved, and more than that.
        let is_admitted = proved == promises.len() && self.strict(document).is_ok();
        Verdict { is_admitted, proved, promises: promises.len(), least, left }
    }
}

/// All real-time tasks, with whether each is hard; and the part of the CPUs that is left.
fn tasks(system: &Resolved) -> (Vec<(bool, Promise)>, Option<BigRational>) {
    let mut all = Vec::new();
    let mut left = Some(BigRational::zero());
    for (index, (_, cluster)) in system.clusters.iter().enumerate() {
        let study = Study::new(system, index).ok();
        let found = study.and_then(|study| Some((study.analyse(&Overheads::default()).ok()?, study)));
        let Some(((report, blocked), study)) = found else {
            left = None;
            let own = system.tasks.iter().filter(|task| task.hard && task.cluster as usize == index);
            all.extend(own.map(|task| (true, Promise { name: task.name.clone(), is_proved: false, margin: None })));
            continue;
        };
        let cpus = BigRational::from_integer(cluster.cpus.count_ones().into());
        left = left.map(|left| left + cpus - &report.utilisation);
        for (at, member) in study.members.iter().enumerate() {
            let task = &system.tasks[*member];
            let is_proved = study.is_proved(at, &report, &blocked);
            let deadline = BigRational::from_integer(study.reservations[at].deadline.into());
            let margin = study.bound(at, &report, &blocked).map(|bound| bound.slack() / deadline);
            // A test can prove a task and give no bound: its margin is not known, and not below zero.
            let margin = margin.or(is_proved.then(BigRational::zero));
            all.push((task.hard, Promise { name: task.name.clone(), is_proved, margin }));
        }
    }
    (all, left)
}

/// Graphs with a latency.
fn graphs(system: &Resolved) -> Vec<Promise> {
    if system.graphs.iter().all(|graph| graph.latency.is_none()) {
        return Vec::new();
    }
    let all = system.graphs.iter().zip(admission::latencies(system, &Overheads::default()));
    let promise = |(graph, found): (&fusee_manifest::Graph, admission::Latencies)| {
        let limit = i128::from(graph.latency?.0);
        let bound = found.longest.as_ref().map(|longest| i128::from(longest.latency));
        let margin = bound.map(|bound| BigRational::new((limit - bound).into(), limit.max(1).into()));
        let is_whole = found.why_not.is_none() && found.unenforced.is_none();
        let is_proved = is_whole && bound.is_some_and(|bound| bound <= limit);
        Some(Promise { name: format!("graph {}", graph.name), is_proved, margin })
    };
    all.filter_map(promise).collect()
}
