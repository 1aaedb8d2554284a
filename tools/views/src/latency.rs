//! How late graphs are: from the release of a source until the last job ends that works on its tokens.
//!
//! Records are looked at one by one, as by `metrics`. A job says its number when it completes, so lost records make no other job wrong.

use std::collections::BTreeMap;

use fusee_abi::trace::{Event, Record};
use fusee_graph::source_job;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Graph, Resolved};

/// All graphs of a system.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    graphs: Vec<Watched>,
}

#[derive(Clone, Debug)]
struct Watched {
    graph: Graph,
    /// The first release of its source, and the time between two of them, nanoseconds.
    start: u64,
    period: u64,
    /// The latency of each job of a node without further ones, in the order in which they ended.
    latencies: Vec<u64>,
    /// The number of the last job of each such node.
    last: BTreeMap<usize, u64>,
}

impl Watched {
    /// The release of the source's job that brings the last tokens of a job.
    fn began(&self, node: usize, job: u64) -> u64 {
        let frame = source_job(&self.graph.edges, node, job);
        self.start + frame.saturating_sub(1) * self.period
    }
}

impl Latencies {
    /// The latencies of a system that has not run yet.
    #[must_use]
    pub fn new(system: &Resolved) -> Latencies {
        let watched = |graph: &Graph| {
            let source = system.source(graph)?;
            Some(Watched {
                graph: graph.clone(),
                start: system.start + source.phase,
                period: source.period,
                latencies: Vec::new(),
                last: (0..graph.nodes.len()).filter(|node| graph.ends_at(*node)).map(|node| (node, 0)).collect(),
            })
        };
        Latencies { graphs: system.graphs.iter().filter_map(watched).collect() }
    }

    /// The latencies in a whole trace.
    #[must_use]
    pub fn of(trace: &Trace, system: &Resolved) -> Latencies {
        let mut latencies = Latencies::new(system);
        trace.records.iter().for_each(|record| latencies.observe(record));
        latencies
    }

    /// Looks at one record.
    pub fn observe(&mut self, record: &Record) {
        if Event::from_number(record.event) != Some(Event::Complete) {
            return;
        }
        let Some(task) = usize::from(record.thread).checked_sub(1) else { return };
        for watched in &mut self.graphs {
            let Some(node) = watched.graph.nodes.iter().position(|(node, _)| *node == task) else { continue };
            let job = u64::from(record.job);
            let began = watched.began(node, job);
            if let Some(last) = watched.last.get_mut(&node) {
                *last = job;
                watched.latencies.push(record.time.saturating_sub(began));
            }
        }
    }

    /// Whether, at this instant, a job of each graph has not ended that should have.
    #[must_use]
    pub fn overdue(&self, now: u64) -> Vec<bool> {
        let is_overdue = |watched: &Watched| {
            let Some(latency) = watched.graph.latency else { return false };
            watched.last.iter().any(|(node, last)| watched.began(*node, last + 1).saturating_add(latency.0) < now)
        };
        self.graphs.iter().map(is_overdue).collect()
    }

    /// The latencies of each graph's jobs, graphs in their order, jobs in the order in which they ended; nanoseconds.
    pub fn of_graphs(&self) -> impl Iterator<Item = &[u64]> {
        self.graphs.iter().map(|watched| watched.latencies.as_slice())
    }
}
