//! The lateness of a graph: the time from a release of its source until the end of the last job that works on the tokens of that
//! release.
//!
//! Each node answers within the bound on its response time, as any sporadic task does; [`fusee_graph::lateness`] adds these up. No
//! job's budget may run dry, so the time that a node computes, lends and pays for must fit into it; and no release may be dropped.

use std::iter;

use fusee_abi::image::Reservation;
use fusee_graph::{Lateness, NODES, Rate, Timing, Unbounded, lateness};
use fusee_sched_analysis::Overheads;

use super::Study;
use crate::resolve::graphs::Replicas;
use crate::resolve::{Graph, Resolved};

/// The largest number of paths in the result for a graph.
const PATHS: usize = 16;
/// Paths that are looked at.
const LOOKED_AT: usize = 1 << 12;

/// The known latencies of one graph.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// The lateness of each node, by its place; empty where it is not bounded.
    pub nodes: Vec<Lateness>,
    /// The path and the time after its source's release at which the last job ends that works on the tokens of that release;
    /// `None`: that is not bounded.
    pub longest: Option<Path>,
    /// Paths along edges without initial tokens, from the source to nodes where they end: the longest 16, the longest first.
    pub paths: Vec<Path>,
    /// The reason why there are no bounds.
    pub why_not: Option<String>,
    /// The reason why the bounds rest on tasks that are no nodes, and that nothing enforces, if they do.
    pub unenforced: Option<String>,
}

/// A path through a graph.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Path {
    /// The nodes of the path, by their places, from the source on.
    pub nodes: Vec<usize>,
    /// The time from the source's release until the job of the last node ends that works on its tokens, as far as this path delays
    /// it; nanoseconds.
    pub latency: u64,
}

/// The latencies of each graph of the system, in their order, if paths of the kernel have these costs.
#[must_use]
pub fn latencies(system: &Resolved, overheads: &Overheads) -> Vec<Latencies> {
    if system.graphs.is_empty() {
        return Vec::new();
    }
    let answers = Answers::new(system, overheads);
    system.graphs.iter().map(|graph| of_graph(system, graph, &|task| answers.of(system, task))).collect()
}

/// The answer of a task: how soon it comes.
pub(super) struct Answer {
    task: usize,
    /// The time from release to completion, nanoseconds; or the reason why that is not bounded.
    pub(super) response: Result<u64, String>,
    /// The reason why that rests on others, and nothing enforces it, if it does.
    pub(super) unenforced: Option<String>,
    /// The number of releases that may queue, and of places, if these are fewer.
    pub(super) dropped: Option<(u64, u64)>,
}

/// The answers of all tasks of a system.
pub(super) struct Answers {
    clusters: Vec<Result<Vec<Answer>, String>>,
    /// The reason why nothing is known of any task, if that is so.
    why_none: Option<String>,
}

impl Answers {
    pub(super) fn new(system: &Resolved, overheads: &Overheads) -> Answers {
        let clusters: Vec<Result<Vec<Answer>, String>> =
            (0..system.clusters.len()).map(|index| answers(system, index, overheads)).collect();
        // An object shared with a cluster of which nothing is known may be away for any time.
        let shares = system.pools.iter().any(|(_, pool)| pool.crosses != 0) || !system.endpoints.is_empty();
        let why_none = clusters.iter().find_map(|cluster| cluster.as_ref().err()).filter(|_| shares).cloned();
        Answers { clusters, why_none }
    }

    /// The answer of a task; or the reason why nothing is known of it.
    pub(super) fn of(&self, system: &Resolved, task: usize) -> Result<&Answer, String> {
        if let Some(why) = &self.why_none {
            return Err(why.clone());
        }
        let here = self.clusters[system.tasks[task].cluster as usize].as_ref().map_err(Clone::clone)?;
        let no_jobs = || format!("`{}` is not a real-time task", system.tasks[task].name);
        here.iter().find(|answer| answer.task == task).ok_or_else(no_jobs)
    }
}

/// The answers of each task of a cluster; or the reason why nothing is known of any: one task that runs out of budget keeps an
/// object that others wait for.
fn answers(system: &Resolved, index: usize, overheads: &Overheads) -> Result<Vec<Answer>, String> {
    let name = &system.clusters[index].0;
    let mut study = Study::new(system, index).map_err(|why| why.to_string())?;
    if *overheads != Overheads::default() {
        study.count_interrupts(system, index);
    }
    let (report, blocked) = study.analyse(overheads).map_err(|why| study.unbounded(name, &why).to_string())?;
    if report.bounded == Some(false) {
        return Err(format!("cluster `{name}` is overloaded"));
    }
    if let Some(at) = (0..blocked.len()).find(|at| !study.is_covered(*at, &blocked[*at])) {
        let called = &system.tasks[study.members[at]].name;
        return Err(format!("the budget of `{called}` may run dry while others wait for what it holds"));
    }
    let answer = |(at, task): (usize, &usize)| {
        let called = &system.tasks[*task].name;
        let response = match (study.uncounted[at].first(), &report.tasks[at].bound) {
            (Some(why), _) => Err(format!("not all that `{called}` waits for is counted: {why}")),
            (None, None) => Err(format!("`{called}` has no bound on its response time")),
            (None, Some(bound)) => {
                let response = bound.response.ceil().to_integer();
                u64::try_from(response)
                    .map_err(|_| format!("the response time of `{called}` does not fit into 64 bits"))
            }
        };
        let dropped = study.dropped(at, &report);
        let unenforced = study.unenforced[at].clone().or_else(|| study.outslept(at, &report));
        Answer { task: *task, response, unenforced, dropped }
    };
    Ok(study.members.iter().enumerate().map(answer).collect())
}

fn of_graph<'a>(system: &Resolved, graph: &Graph, answer: &dyn Fn(usize) -> Result<&'a Answer, String>) -> Latencies {
    let unenforced = graph.nodes.iter().find_map(|(task, _)| answer(*task).ok()?.unenforced.clone());
    let mut found = Latencies { nodes: Vec::new(), longest: None, paths: Vec::new(), why_not: None, unenforced };
    match bounds(system, graph, answer) {
        Ok((timings, all)) => {
            found.nodes = all[..timings.len()].to_vec();
            found.longest = longest(graph, &found.nodes);
            found.paths = paths(graph, &timings, &found.nodes, period(system, graph));
        }
        Err(why) => found.why_not = Some(why),
    }
    found
}

/// The lateness of each node, and the bounds of the graph that follow from it.
fn bounds<'a>(
    system: &Resolved,
    graph: &Graph,
    answer: &dyn Fn(usize) -> Result<&'a Answer, String>,
) -> Result<(Vec<Timing>, [Lateness; NODES]), String> {
    let name = |place: usize| &system.tasks[graph.nodes[place].0].name;
    let timing = |(task, rate): &(usize, Rate)| Ok(Timing { rate: *rate, response: answer(*task)?.response.clone()? });
    let timings: Vec<Timing> = graph.nodes.iter().map(timing).collect::<Result<_, String>>()?;
    let all = lateness(&graph.edges, &timings, period(system, graph)).map_err(|why| match why {
        Unbounded::Cycle(place) => {
            format!("tokens that `{}` waits for come back to it later with each round", name(place))
        }
        Unbounded::TooLarge => "its times do not fit into 64 bits".to_owned(),
    })?;
    for (place, (task, _)) in graph.nodes.iter().enumerate() {
        let reservation = system.tasks[*task].reservation.map(|own| system.reservations[own]);
        let places = reservation.map_or(0, |one| u64::from(one.backlog));
        let needed = all[place].backlog;
        if needed > places {
            return Err(format!(
                "`{}` has `backlog` = {places}, and up to {needed} of its releases may queue",
                name(place)
            ));
        }
    }
    Ok((timings, all))
}

/// The period of the source.
fn period(system: &Resolved, graph: &Graph) -> u64 {
    system.source(graph).map_or(0, |source| source.period)
}

/// The path by which that of the nodes without further ones ends latest that has the longest latency.
fn longest(graph: &Graph, nodes: &[Lateness]) -> Option<Path> {
    let ends = (0..nodes.len()).filter(|node| graph.ends_at(*node));
    let last = ends.max_by_key(|node| nodes[*node].latency)?;
    let before = |node: &usize| nodes[*node].by.map(|edge| graph.edges[edge].from);
    // Such a path comes through no node twice.
    let mut path: Vec<usize> = iter::successors(Some(last), before).take(nodes.len()).collect();
    path.reverse();
    Some(Path { nodes: path, latency: nodes[last].latency })
}

/// Paths from the source to where they end, the longest first.
fn paths(graph: &Graph, timings: &[Timing], nodes: &[Lateness], source: u64) -> Vec<Path> {
    let mut found: Vec<Path> = Vec::new();
    // The paths not yet followed to their ends: their nodes, and when the last of them ends.
    let mut open = vec![(vec![0], i128::from(timings[0].response))];
    while let Some((path, ends)) = open.pop() {
        let last = path[path.len() - 1];
        let mut is_end = true;
        for edge in graph.forward(last) {
            is_end = false;
            let Some(later) = edge.later(timings[last].rate, source).filter(|_| found.len() < LOOKED_AT) else {
                continue;
            };
            let further = path.iter().copied().chain([edge.to]).collect();
            open.push((further, ends + i128::from(later) + i128::from(timings[edge.to].response)));
        }
        if is_end {
            let latency = ends - i128::from(nodes[last].ahead);
            found.push(Path { nodes: path, latency: u64::try_from(latency).unwrap_or(0) });
        }
    }
    found.sort_by(|one, other| other.latency.cmp(&one.latency).then_with(|| one.nodes.cmp(&other.nodes)));
    found.truncate(PATHS);
    found
}

/// The number of replicas of each object with which its writer never waits for a reader.
pub(crate) fn replicas(system: &Resolved) -> Replicas {
    let mut all = Replicas::new();
    for (graph, found) in system.graphs.iter().zip(latencies(system, &Overheads::default())) {
        for object in &graph.objects {
            let rate = graph.nodes[object.writer].1;
            let frames =
                |reader: usize| found.nodes[object.writer].frames(&found.nodes[reader], rate, period(system, graph));
            let needed = match &found.why_not {
                Some(why) => Err(why.clone()),
                None => Ok(object.readers.iter().map(|(reader, _)| frames(*reader)).max().unwrap_or(1)),
            };
            let needed = needed.map(|frames| u32::try_from(frames).unwrap_or(u32::MAX));
            all.insert((graph.name.clone(), object.name.clone()), needed);
        }
    }
    all
}

impl Resolved {
    /// The reservation of a graph's source.
    #[must_use]
    pub fn source(&self, graph: &Graph) -> Option<&Reservation> {
        Some(&self.reservations[self.tasks[graph.nodes.first()?.0].reservation?])
    }

    /// A path of a graph in words: `camera > grey > warp`.
    #[must_use]
    pub fn path(&self, graph: &Graph, path: &Path) -> String {
        let name = |node: &usize| self.tasks[graph.nodes[*node].0].name.as_str();
        path.nodes.iter().map(name).collect::<Vec<_>>().join(" > ")
    }
}
