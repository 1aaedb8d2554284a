//! The latencies of graphs, as `analyze` prints them.

use fusee_host::answers::{GraphAnalysis, PathAnalysis};
use fusee_host::table::Table;
use fusee_manifest::admission::{self, Latencies};
use fusee_manifest::{Graph, Resolved};

use super::trimmed;

/// Times in microseconds, as all that is printed.
pub(super) fn of_graph(system: &Resolved, graph: &Graph, found: Latencies) -> GraphAnalysis {
    let time = |span: u64| span as f64 / 1e3;
    let name = |node: &usize| system.tasks[graph.nodes[*node].0].name.clone();
    let path = |path: &admission::Path| PathAnalysis {
        tasks: path.nodes.iter().map(name).collect(),
        latency: time(path.latency),
    };
    let mut paths: Vec<PathAnalysis> = found.paths.iter().map(path).collect();
    // One that comes back over an edge with initial tokens is not among those that lead on.
    if let Some(longest) = found.longest.as_ref().filter(|longest| !found.paths.contains(longest)) {
        paths.insert(0, path(longest));
    }
    GraphAnalysis {
        name: graph.name.clone(),
        latency: graph.latency.map(|latency| time(latency.0)),
        bound: found.longest.map(|longest| time(longest.latency)),
        paths,
        why_not: found.why_not,
        not_enforced: found.unenforced,
    }
}

/// Whether a graph is no later than it may be, if the manifest says so.
pub(super) fn keeps_latency(graph: &GraphAnalysis) -> bool {
    graph
        .latency
        .is_none_or(|latency| graph.not_enforced.is_none() && graph.bound.is_some_and(|bound| bound <= latency))
}

/// How late graphs are, path by path.
pub(super) fn text(graphs: &[GraphAnalysis]) -> String {
    let mut table = Table::new(vec!["graph", "latency", "limit", "proved", "path"]).left(&["proved", "path"]);
    let mut remarks = String::new();
    for graph in graphs {
        let limit = graph.latency.map_or_else(|| "-".into(), trimmed);
        let proved = match (keeps_latency(graph), graph.latency) {
            _ if graph.bound.is_none() => "no",
            (true, Some(_)) => "proved",
            (false, Some(_)) => "NOT PROVED",
            (_, None) => "-",
        };
        let mut rows = graph.paths.iter();
        let first = rows.next().map_or_else(|| ["-".to_owned(), "-".into()], row);
        let [latency, path] = first;
        table.add_row(vec![graph.name.clone(), latency, limit, proved.to_owned(), path]);
        for [latency, path] in rows.map(row) {
            table.add_row(vec![String::new(), latency, String::new(), String::new(), path]);
        }
        let why = graph.why_not.iter().map(|why| format!("  not bounded, for {}: {why}\n", graph.name));
        remarks.extend(why);
        let unenforced = graph.not_enforced.iter().filter(|_| graph.bound.is_some());
        remarks.extend(unenforced.map(|why| format!("  not proved whatever others do, for {}: {why}\n", graph.name)));
    }
    return format!("{table}\n{remarks}");

    fn row(path: &PathAnalysis) -> [String; 2] {
        [trimmed(path.latency), path.tasks.join(" > ")]
    }
}
