//! The end of a job: the consumers that may have further jobs.
//!
//! Each node has a word with the number of the last job that it ended. It stores its own, and then reads those of the other producers of its consumers. Between store and reads
//! stands a fence: two producers that end at once may both see that a consumer has all its tokens, and then both say so, which is once too often and does no harm; without the
//! fence neither may see the other's store, and the consumer would wait for ever.
//!
//! A job of a node writes to a *frame* of an object, of which there are a few. Before it writes to one again, all its readers must have ended the
//! jobs that read it: an edge that leads back says so, from a reader to the writer, with as many tokens at the start as there are frames less those
//! that the reader looks back. It never releases a job: a writer that finds no frame free says that it waits, looks again, and waits for a
//! notification inside its job. A reader that has ended a job looks for waiting writers. Again each stores before it reads.
//!
//! A writer may also go on beside its readers: then no edge leads back. It says which job it begins before it writes, and a reader looks at that
//! after it has read: so it knows whether the frame was written over meanwhile ([`is_lost`]).
//!
//! # Invariants
//!
//! 1. When all have ended their steps here, each consumer has been told the last job for which all its edges have tokens.
//! 2. No consumer is told more than that at any instant.
//! 3. A producer tells a consumer nothing that its own job has not changed.
//! 4. A writer that waits and has a free frame is told, or looks again.
//! 5. A reader that has read something of a later job than it meant finds its frame lost.

use crate::edge::Edge;

/// The words of a graph's nodes. Each node writes its own, and reads all.
pub trait Words {
    /// The number of the last job that `node` ended, as far as is seen. Of a node that there is not: 0.
    fn ended(&mut self, node: usize) -> u64;

    /// Says that this node, `node`, has ended job `job`: each reader of that sees the job's writes. All further reads of this node see stores of
    /// others before this store was seen.
    fn end(&mut self, node: usize, job: u64);

    /// Whether `node` says that it waits for a free frame, as far as is seen.
    fn waits(&mut self, node: usize) -> bool;

    /// Says whether this node, `node`, waits for one. All further reads of this node see stores of others before this store was seen.
    fn say_waits(&mut self, node: usize, waits: bool);
}

/// The words by which writers say in which job they are that do not wait for readers. Each node writes its own, and reads all.
pub trait Begun {
    /// The number of the job in which `node` writes, or did last, as far as is seen when all that was to be read before has been read.
    fn began(&mut self, node: usize) -> u64;

    /// Says that this node, `node`, writes in its job `job` from here on: each reader that sees any of its writes then sees that, too.
    fn say_began(&mut self, node: usize, job: u64);
}

/// Up to which job each consumer of `node` may have jobs by the words seen now, told to `credit` once each, but for those that may have none: to be
/// said when `node` begins, of tokens that are there at the start or from before.
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
        // The jobs for which its edges from others have tokens, and those from here, with this job and without it.
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

/// Whether `node` may write in its job number `job`, from 1: all frames that it writes to are free. If not, it has said that it waits: it is told once that may have changed, and asks again.
///
/// `back` are the edges from readers to writers.
pub fn begin_job(back: &[Edge], words: &mut impl Words, node: usize, job: u64) -> bool {
    if has_free(back, words, node, job) {
        return true;
    }
    words.say_waits(node, true);
    // A node that ended a job before that was seen told no other.
    has_free(back, words, node, job)
}

fn has_free(back: &[Edge], words: &mut impl Words, node: usize, job: u64) -> bool {
    let mut readers = back.iter().filter(|edge| edge.to == node);
    readers.all(|edge| edge.tokens.enough_for(words.ended(edge.from)) >= job)
}

/// After [`end_job`]: says to `tell` which writers wait for a frame that `node` has read, each once.
pub fn give_back(back: &[Edge], words: &mut impl Words, node: usize, mut tell: impl FnMut(usize)) {
    for writer in consumers(back, node) {
        if words.waits(writer) {
            tell(writer);
        }
    }
}

/// Whether `writer`, with `frames` of memory, may have written over the frame of its job `read` while a reader read that, which has just ended.
#[must_use]
pub fn is_lost(words: &mut impl Begun, writer: usize, read: u64, frames: u32) -> bool {
    words.began(writer) >= read.saturating_add(frames.into())
}
