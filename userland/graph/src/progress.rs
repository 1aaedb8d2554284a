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

/// `node` has ended its job number `job`, from 1: stores that, and says to `credit`, for each consumer that may go on because of it, once: its number, and up to which job.
///
/// `edges` are all edges of the graph. Consumers are told in the order in which edges of `node` to them come first.
pub fn end_job(edges: &[Edge], words: &mut impl Words, node: usize, job: u64, mut credit: impl FnMut(usize, u64)) {
    words.end(node, job);
    for (place, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.from == node) {
        // Of several edges to one consumer the first stands for all.
        if edges[..place].iter().any(|earlier| (earlier.from, earlier.to) == (node, edge.to)) {
            continue;
        }
        // What its edges from others have tokens for, and those from here, with this job and without it.
        let (mut others, mut with, mut without) = (u64::MAX, u64::MAX, u64::MAX);
        for edge in edges.iter().filter(|one| one.to == edge.to) {
            if edge.from == node {
                with = with.min(edge.tokens.enough_for(job));
                without = without.min(edge.tokens.enough_for(job.saturating_sub(1)));
            } else {
                others = others.min(edge.tokens.enough_for(words.ended(edge.from)));
            }
        }
        let upto = with.min(others);
        if upto > without {
            credit(edge.to, upto);
        }
    }
}
