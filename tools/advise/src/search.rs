//! The arrangements that are tried, and their order.
//!
//! A search has two parts. The first one goes through all divisions of the CPUs into clusters, some ways to place the tasks, and all
//! policies. The second one begins at the best arrangements of the first one. Of all arrangements that differ in one choice it takes
//! the best one, until none is better. Both parts end when as many manifests have been read as the limit says.
//!
//! A limit makes a search incomplete: a better arrangement may exist that needs two changes at once, each of which is for the worse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fusee_manifest::{ManifestErrors, PolicyName, Resolved, Variant};
use toml_edit::DocumentMut;

use crate::arrangement::{Arrangement, Parts, Placing};
use crate::judge::{Reading, Verdict};
use crate::text;

/// Arrangements from which the second part of a search begins.
const STARTS: usize = 3;

/// A system, and the arrangements of it that were tried.
#[derive(Debug)]
pub struct Search<'a> {
    /// The parts of the system.
    pub parts: Parts,
    /// Possible arrangements, the best first.
    pub tried: Vec<Tried>,
    /// Manifests that were read.
    pub count: usize,
    /// Those among them that no system can have: another rule than admission refuses them.
    pub impossible: usize,
    reading: Reading<'a>,
    document: DocumentMut,
    limit: usize,
    /// The place in `tried` of each text, if it is possible.
    seen: BTreeMap<String, Option<usize>>,
}

/// An arrangement that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The arrangement.
    pub arrangement: Arrangement,
    /// The whole manifest.
    pub text: String,
    /// The verdict of admission.
    pub verdict: Verdict,
    /// Lines of the manifest that change.
    pub lines: usize,
}

impl Tried {
    /// Whether it is the arrangement of the manifest itself.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.lines == 0
    }
}

/// Tries at most `limit` arrangements of the system in `text`, and the present one in any case.
///
/// # Errors
/// The mistakes of the manifest, but those of admission.
pub fn search<'a>(
    file: &'a Path,
    text: &str,
    variant: &'a Variant,
    limit: usize,
) -> Result<Search<'a>, ManifestErrors> {
    let reading = Reading { file, variant };
    // Mistakes of syntax come from the reader of manifests, which has better words for them.
    let document = text.parse::<DocumentMut>().ok();
    let Some(document) = document else {
        return Err(fusee_manifest::Manifest::parse_variant(file, text, variant).err().unwrap_or_else(|| {
            let reason = fusee_manifest::Reason::Syntax("this text cannot be edited".to_owned());
            fusee_manifest::ManifestError { file: file.to_owned(), line: 0, reason }.into()
        }));
    };
    let system = reading.lenient(&document)?.system;
    let parts = Parts::of(&system, &document);
    let (tried, seen) = (Vec::new(), BTreeMap::new());
    let mut search = Search { parts, tried, count: 0, impossible: 0, reading, document, limit, seen };
    search.look(search.parts.present.clone());
    search.go_through();
    search.climb();
    search.tried.sort_by(|one, other| {
        let better = other.verdict.compare(&one.verdict);
        let left = |one: &Tried| (one.is_present(), one.verdict.left.clone(), std::cmp::Reverse(one.lines));
        better.then_with(|| left(other).cmp(&left(one)))
    });
    Ok(search)
}

impl Search<'_> {
    /// The present arrangement.
    #[must_use]
    pub fn present(&self) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.is_present())
    }

    /// The best arrangement, if it is better than the present one.
    #[must_use]
    pub fn better(&self) -> Option<&Tried> {
        let best = self.tried.first()?;
        let is_better = |present: &Tried| best.verdict.compare(&present.verdict).is_gt();
        self.present().is_none_or(is_better).then_some(best)
    }

    /// The words in which admission refuses an arrangement.
    #[must_use]
    pub fn in_the_way(&self, tried: &Tried) -> Vec<String> {
        let Ok(document) = tried.text.parse::<DocumentMut>() else { return Vec::new() };
        let errors = self.reading.strict(&document).err();
        errors.into_iter().flat_map(|errors| errors.0).map(|error| error.reason.to_string()).collect()
    }

    /// The best arrangements, the best first: for each division of the CPUs one for each policy of all clusters, and those with
    /// several policies whose verdict no other one has. The present arrangement is among them; there are `most` at most.
    #[must_use]
    pub fn best(&self, most: usize) -> Vec<&Tried> {
        let (mut uniform, mut verdicts) = (BTreeSet::new(), BTreeSet::new());
        let is_new = |tried: &&Tried| {
            let words = tried.arrangement.words();
            let margin = tried.verdict.least.as_ref().and_then(|least| least.margin.clone());
            let has_new = verdicts.insert((words.clone(), tried.verdict.is_admitted, tried.verdict.proved, margin));
            let policies = tried.arrangement.policies();
            let is_uniform = tried.arrangement.is_uniform();
            let is_new = if is_uniform { uniform.insert((words, policies)) } else { has_new };
            is_new || tried.is_present()
        };
        let all: Vec<&Tried> = self.tried.iter().filter(is_new).collect();
        let mut best: Vec<&Tried> = all.iter().copied().take(most).collect();
        if let Some(present) = all.iter().skip(most).find(|tried| tried.is_present()) {
            best.pop();
            best.push(present);
        }
        best
    }

    fn is_over(&self) -> bool {
        self.count >= self.limit.max(1)
    }

    /// Tries one arrangement; its place among those that are possible.
    fn look(&mut self, arrangement: Arrangement) -> Option<usize> {
        let mut named = BTreeSet::new();
        let mut document = text::write(&self.document, &self.parts, &arrangement, &named);
        let mut text = document.to_string();
        if let Some(place) = self.seen.get(&text) {
            return *place;
        }
        if self.is_over() {
            return None;
        }
        self.count += 1;
        let first = text.clone();
        let mut read = self.reading.lenient(&document);
        // Where a task has its cluster from the task that it is like, a cluster of its own is written if that is another one. Others
        // may be like this task, so the text is looked at again.
        while let Ok(manifest) = &read {
            let before = named.len();
            named.extend(self.elsewhere(&manifest.system, &arrangement));
            if named.len() == before {
                break;
            }
            document = text::write(&self.document, &self.parts, &arrangement, &named);
            text = document.to_string();
            read = self.reading.lenient(&document);
        }
        let place = match read {
            Ok(manifest) => {
                let verdict = self.reading.judge(&document, &manifest.system);
                let lines = text::changed_lines(&self.document.to_string(), &text);
                self.tried.push(Tried { arrangement, text, verdict, lines });
                Some(self.tried.len() - 1)
            }
            Err(_) => {
                self.impossible += 1;
                None
            }
        };
        self.seen.insert(first, place);
        place
    }

    /// Tables of tasks that are not where the arrangement has them.
    fn elsewhere(&self, system: &Resolved, wanted: &Arrangement) -> Vec<usize> {
        let is_other = |at: &usize| {
            let table = &self.parts.tables[*at];
            let own = &system.clusters[system.tasks[table.task].cluster as usize].0;
            *own != wanted.clusters[wanted.homes[table.unit]].name
        };
        (0..self.parts.tables.len()).filter(is_other).collect()
    }

    /// Tries all divisions, placings and policies.
    fn go_through(&mut self) {
        for (number, division) in self.parts.divisions().into_iter().enumerate() {
            let is_present = number == 0;
            let placings: &[Placing] =
                if is_present { &[Placing::Present, Placing::Near, Placing::WorstFit] } else { &[Placing::WorstFit] };
            for placing in placings {
                let homes = self.parts.place(&division, *placing);
                let mut found = Vec::new();
                if is_present {
                    let own: Vec<PolicyName> = self.parts.present.clusters.iter().map(|one| one.policy).collect();
                    found.extend(self.look(self.parts.arrange(&division, &homes, |cluster| own[cluster])));
                }
                for policy in self.parts.policies.clone() {
                    found.extend(self.look(self.parts.arrange(&division, &homes, |_| policy)));
                }
            }
        }
    }

    /// Changes the best arrangements, one choice at a time.
    fn climb(&mut self) {
        let mut order: Vec<usize> = (0..self.tried.len()).collect();
        order.sort_by(|one, other| self.tried[*other].verdict.compare(&self.tried[*one].verdict));
        let mut seen = BTreeSet::new();
        order.retain(|at| seen.insert(self.tried[*at].arrangement.words()));
        for mut at in order.into_iter().take(STARTS) {
            while !self.is_over() {
                let neighbours = self.parts.neighbours(&self.tried[at].arrangement);
                let mut best = at;
                for next in neighbours.into_iter().filter_map(|next| self.look(next)).collect::<Vec<_>>() {
                    if self.tried[next].verdict.compare(&self.tried[best].verdict).is_gt() {
                        best = next;
                    }
                }
                if best == at {
                    break;
                }
                at = best;
            }
        }
    }
}
