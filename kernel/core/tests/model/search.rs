//! Breadth first through all states of a model, tick by tick.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::state::{Action, Marks, Progress, State};
use super::{Model, System};
use crate::table::device::Tape;

/// More states than a model of ours should have. Some 4 KiB each, while they wait to be explored.
const STATES_MAX: usize = 2_000_000;

/// The result of an exploration without a violation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Transitions between them.
    pub transitions: usize,
    /// Ticks that pass at most.
    pub ticks: u64,
    /// The longest row of kicks, each of them caused by those before, until none is on its way.
    pub kicks_in_a_row: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} transitions", self.states, self.transitions)?;
        if self.ticks > 0 {
            write!(f, " in {} ticks", self.ticks)?;
        }
        write!(f, ", at most {} kicks in a row", self.kicks_in_a_row)
    }
}

/// A violation, and the shortest way there, in words.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The violated condition.
    pub what: String,
    /// One line an action.
    pub path: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after", self.what)?;
        self.path.iter().enumerate().try_for_each(|(index, line)| writeln!(f, "{:>4}. {line}", index + 1))
    }
}

/// The lower half of a fingerprint, which is a hash itself.
#[derive(Default)]
struct Low(u64);

impl Hasher for Low {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// How a state was reached first.
struct Node {
    from: usize,
    by: Option<(Action, Tape)>,
}

/// Where an action leads, and in which ways on it may be taken.
struct Edge {
    from: u32,
    to: u32,
    helps: u8,
}

impl Model {
    /// Visits every state.
    ///
    /// # Errors
    /// The first violation, with the shortest path to it: by ticks, then by actions.
    pub fn explore(&self) -> Result<Report, Violation> {
        let system = System::new(self);
        let start = State::boot(&system);
        let mut visited: HashMap<u128, usize, BuildHasherDefault<Low>> = HashMap::default();
        visited.insert(start.fingerprint(&system), 0);
        let mut nodes = vec![Node { from: 0, by: None }];
        let mut kicks: Vec<(usize, usize)> = Vec::new();
        let mut marks = vec![start.marks(&system)];
        let mut edges = Vec::new();
        let mut now = VecDeque::from([(0, Box::new(start))]);
        let mut later = VecDeque::new();
        let mut report = Report { ticks: self.ticks, ..Report::default() };
        loop {
            let Some((node, state)) = now.pop_front() else {
                if later.is_empty() {
                    break;
                }
                std::mem::swap(&mut now, &mut later);
                continue;
            };
            for action in state.actions(&system) {
                let mut tape = Tape::default();
                loop {
                    let mut next = state.clone();
                    next.put(tape);
                    let held = next.act(&system, action);
                    report.transitions += 1;
                    tape = next.tape().clone();
                    let violation = |what| violation(&system, what, &nodes, node, Some((action, tape.clone())));
                    held.map_err(violation)?;
                    let reached = *visited.entry(next.fingerprint(&system)).or_insert(nodes.len());
                    if matches!(action, Action::Kick(_)) {
                        kicks.push((node, reached));
                    }
                    let helps = if tape.is_blank() { state.helps(&system, action) } else { 0 };
                    if self.gates.is_some() && helps != 0 && reached != node {
                        edges.push(Edge { from: node as u32, to: reached as u32, helps });
                    }
                    assert!(nodes.len() < STATES_MAX, "{}: too many states", self.name);
                    if reached == nodes.len() {
                        next.check_settled(&system).map_err(violation)?;
                        nodes.push(Node { from: node, by: Some((action, tape.clone())) });
                        marks.push(next.marks(&system));
                        if action == Action::Tick {
                            later.push_back((reached, next));
                        } else {
                            now.push_back((reached, next));
                        }
                    }
                    if !tape.advance() {
                        break;
                    }
                }
            }
        }
        report.states = nodes.len();
        report.kicks_in_a_row = longest(nodes.len(), &kicks)
            .map_err(|node| violation(&system, "kicks that never come to an end".into(), &nodes, node, None))?;
        for progress in Progress::ALL {
            let stuck = stuck(&marks, &edges, progress);
            stuck.map_or(Ok(()), |node| Err(violation(&system, progress.words().into(), &nodes, node, None)))?;
        }
        Ok(report)
    }
}

/// The first node from which a way on is missing.
fn stuck(marks: &[Marks], edges: &[Edge], progress: Progress) -> Option<usize> {
    let mut edges: Vec<(u32, u32)> =
        edges.iter().filter(|edge| progress.takes(edge.helps)).map(|edge| (edge.to, edge.from)).collect();
    edges.sort_unstable();
    let stuck_unit = |unit: usize| {
        let mut reaches: Vec<bool> = marks.iter().map(|marks| marks.has_ended(unit, progress)).collect();
        let mut open: Vec<usize> = (0..marks.len()).filter(|node| reaches[*node]).collect();
        while let Some(node) = open.pop() {
            let first = edges.partition_point(|(to, _)| (*to as usize) < node);
            for (_, from) in edges[first..].iter().take_while(|(to, _)| *to as usize == node) {
                if !std::mem::replace(&mut reaches[*from as usize], true) {
                    open.push(*from as usize);
                }
            }
        }
        (0..marks.len()).find(|node| marks[*node].begins(unit, progress) && !reaches[*node])
    };
    (0..2).filter_map(stuck_unit).min()
}

/// The path to `node`, and the step `last` from there.
fn violation(system: &System, what: String, nodes: &[Node], node: usize, last: Option<(Action, Tape)>) -> Violation {
    let mut actions: Vec<(Action, Tape)> = last.into_iter().collect();
    let mut at = node;
    while let Some(by) = &nodes[at].by {
        actions.push(by.clone());
        at = nodes[at].from;
    }
    let mut state = State::boot(system);
    let mut path = Vec::new();
    for (action, tape) in actions.into_iter().rev() {
        let meanwhile = if tape.is_blank() { "" } else { ", and the device meanwhile" };
        let words = state.words(system, action) + meanwhile;
        state.put(tape);
        // The last one fails, as it did before.
        let _ = state.act(system, action);
        path.push(format!("{words:<40} -> {}", state.situation(system)));
    }
    Violation { what, path }
}

/// The length of the longest path along `edges`; or a node on or before a circle of them.
fn longest(nodes: usize, edges: &[(usize, usize)]) -> Result<usize, usize> {
    let mut incoming = vec![0u32; nodes];
    let mut first = vec![0usize; nodes + 1];
    for (from, to) in edges {
        incoming[*to] += 1;
        first[*from + 1] += 1;
    }
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    let mut sorted = edges.to_vec();
    sorted.sort_unstable();
    let mut length = vec![0usize; nodes];
    let mut free: Vec<usize> = (0..nodes).filter(|node| incoming[*node] == 0).collect();
    let mut done = 0;
    while let Some(node) = free.pop() {
        done += 1;
        for (_, to) in &sorted[first[node]..first[node + 1]] {
            length[*to] = length[*to].max(length[node] + 1);
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                free.push(*to);
            }
        }
    }
    if done == nodes {
        Ok(length.into_iter().max().unwrap_or(0))
    } else {
        Err(incoming.iter().position(|count| *count > 0).unwrap_or(0))
    }
}
