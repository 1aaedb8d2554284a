//! This task as a node of a graph: `[graphs.NAME]` of the manifest makes tasks nodes, and tells each of its edges.
//!
//! A node's job begins when its tokens are there: [`next_job`](crate::next_job) waits for that. It puts others when it ends. What it hands on by memory has to be written before [`Node::end`]: whoever is released by
//! that sees it.
//!
//! | Entry of a node's environment | Is |
//! |---|---|
//! | parameter `node` | its number |
//! | parameter `edge.K` | an edge from it, or to it or one of its consumers ([`fusee_graph::Edge::encode`]) |
//! | region `graph` (read, write) | a word of 64 bits for each node: how many jobs it has ended |
//! | `next.N` (task, credit) | the consumer number *N* |

use core::sync::atomic::{Ordering, fence};

use fusee_abi::environment::kind;
use fusee_graph::{Edge, NODES, Tokens, Words, begin, end_job};

use crate::environment::unpadded;
use crate::{Environment, JobInfo, Region, SharedBytes, Task};

/// Edges that a node is told of.
const EDGES: usize = 40;
/// What the names of edges and consumers begin with.
const EDGE: &str = "edge.";
const NEXT: &str = "next.";

/// This task, which is a node.
#[derive(Debug)]
pub struct Node {
    number: usize,
    edges: [Edge; EDGES],
    count: usize,
    words: SharedBytes,
    next: [Option<Task>; NODES],
}

/// Why this task is no node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeError {
    /// Its environment does not say which.
    NoNode,
    /// It has more edges than there is room for, or a parameter is none.
    BadEdges,
}

/// The words of a graph's nodes, in their region.
struct InRegion(SharedBytes);

impl Words for InRegion {
    fn ended(&mut self, node: usize) -> u64 {
        let ended = self.0.read_u64(8 * node);
        fence(Ordering::Acquire);
        ended
    }

    fn end(&mut self, node: usize, job: u64) {
        fence(Ordering::Release);
        self.0.write_u64(8 * node, job);
        fence(Ordering::SeqCst);
    }
}

impl Node {
    /// The node that the manifest makes of this task. Consumers that have their tokens at the start are released.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn of(environment: &Environment) -> Result<Node, NodeError> {
        let number = environment.parameter("node").ok_or(NodeError::NoNode)? as usize;
        let region = environment.region("graph").map_err(|_| NodeError::NoNode)?;
        Node::made(number, &region, entries(environment))
    }

    fn made(number: usize, region: &Region, entries: impl Iterator<Item = Said>) -> Result<Node, NodeError> {
        let nothing = Edge { from: 0, to: 0, tokens: Tokens::ONE };
        let words = region.shared();
        let mut node = Node { number, edges: [nothing; EDGES], count: 0, words, next: [const { None }; NODES] };
        for entry in entries {
            match entry {
                Said::Edge(word) => {
                    let place = node.edges.get_mut(node.count).ok_or(NodeError::BadEdges)?;
                    *place = Edge::decode(word).ok_or(NodeError::BadEdges)?;
                    node.count += 1;
                }
                Said::Next(number, task) => *node.next.get_mut(number).ok_or(NodeError::BadEdges)? = Some(task),
            }
        }
        if number >= NODES || words.len() < 8 * NODES {
            return Err(NodeError::NoNode);
        }
        let next = &node.next;
        begin(&node.edges[..node.count], &mut InRegion(words), number, |consumer, upto| credit(next, consumer, upto));
        Ok(node)
    }

    /// Puts the tokens of `job`: whatever it has written is seen by those whom that releases.
    pub fn end(&mut self, job: &JobInfo) {
        let mut words = InRegion(self.words);
        // The kernel counts jobs modulo 2^32.
        let before = words.ended(self.number);
        let ended = before + u64::from((job.number as u32).wrapping_sub(before as u32));
        let next = &self.next;
        end_job(&self.edges[..self.count], &mut words, self.number, ended, |consumer, upto| {
            credit(next, consumer, upto)
        });
    }
}

/// What the environment says to a node.
enum Said {
    Edge(u64),
    Next(usize, Task),
}

fn entries(environment: &Environment) -> impl Iterator<Item = Said> + '_ {
    environment.entries().iter().filter_map(|entry| {
        let name = core::str::from_utf8(unpadded(&entry.name)).ok()?;
        if name.starts_with(EDGE) && entry.kind == kind::PARAMETER {
            return Some(Said::Edge(entry.address));
        }
        let number = name.strip_prefix(NEXT)?.parse().ok()?;
        environment.task(name).ok().map(|task| Said::Next(number, task))
    })
}

/// A consumer that has ended, or whose queue is full, is told again with the next job.
fn credit(next: &[Option<Task>; NODES], consumer: usize, upto: u64) {
    if let Some(task) = next.get(consumer).and_then(Option::as_ref) {
        let _ = task.credit(upto as u32);
    }
}
