//! The end of a job: who of the consumers may have further jobs.
//!
//! Each node has a word with the number of the last job that it ended. It stores its own, and then reads those of the other producers of its consumers. Between store and reads
//! stands a fence: two producers that end at once may both see that a consumer has all its tokens, and then both say so, which is once too often and does no harm; without the
//! fence neither may see the other's store, and the consumer would wait for ever.
//!
//! # Invariants
//!
//! 1. When all have ended what they do here, each consumer has been told the last job for which all its edges have tokens.
//! 2. No consumer is told more than that at any instant.
//! 3. A producer tells a consumer nothing that its own job has not changed.

use crate::edge::Edge;

/// The words of a graph's nodes. Each node writes its own, and reads all.
pub trait Words {
    /// The number of the last job that `node` ended, as far as is seen. Of a node that there is not: 0.
    fn ended(&mut self, node: usize) -> u64;

    /// Says that this node, `node`, has ended job `job`: whoever sees that sees what the job has written. All further reads of this node see what others stored before this store was seen.
    fn end(&mut self, node: usize, job: u64);
}

/// Up to which job each consumer of `node` may have jobs by what is seen now, told to `credit` once each, but for those that may have none: what is to be said when `node`
/// begins, of tokens that are there at the start or from before.
pub fn begin(edges: &[Edge], words: &mut impl Words, node: usize, mut credit: impl FnMut(usize, u64)) {
    for consumer in consumers(edges, node) {
        let of_edge = |edge: &Edge| edge.tokens.enough_for(words.ended(edge.from));
        let upto = edges.iter().filter(|edge| edge.to == consumer).map(of_edge).min().unwrap_or(0);
        if upto > 0 {
            credit(consumer, upto);
        }
    }
}

/// The consumers of `node`, each once, in the order in which edges to them come first.
fn consumers(edges: &[Edge], node: usize) -> impl Iterator<Item = usize> {
    let is_first = move |place: usize, edge: &Edge| {
        !edges[..place].iter().any(|earlier| (earlier.from, earlier.to) == (node, edge.to))
    };
    let of_node = edges.iter().enumerate().filter(move |(_, edge)| edge.from == node);
    of_node.filter(move |(place, edge)| is_first(*place, edge)).map(|(_, edge)| edge.to)
}

/// `node` has ended its job number `job`, from 1: stores that, and says to `credit`, for each consumer that may go on because of it, once: its number, and up to which job.
///
/// `edges` are all edges of the graph. Consumers are told in the order in which edges of `node` to them come first.
pub fn end_job(edges: &[Edge], words: &mut impl Words, node: usize, job: u64, mut credit: impl FnMut(usize, u64)) {
    words.end(node, job);
    for consumer in consumers(edges, node) {
        // What its edges from others have tokens for, and those from here, with this job and without it.
        let (mut others, mut with, mut without) = (u64::MAX, u64::MAX, u64::MAX);
        for edge in edges.iter().filter(|edge| edge.to == consumer) {
            if edge.from == node {
                with = with.min(edge.tokens.enough_for(job));
                without = without.min(edge.tokens.enough_for(job.saturating_sub(1)));
            } else {
                others = others.min(edge.tokens.enough_for(words.ended(edge.from)));
            }
        }
        let upto = with.min(others);
        if upto > without {
            credit(consumer, upto);
        }
    }
}
