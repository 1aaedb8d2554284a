//! Scripted tasks that are nodes of a graph: what `fusee::graph` does, at no cost of time but that of its calls.

use std::collections::VecDeque;

use fusee_graph::{Edge, Words, begin, end_job};

use crate::board::Board;

/// A task in a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub number: usize,
    /// The region of the graph, which tells it from others.
    pub graph: usize,
    /// Edges that concern it.
    pub edges: Vec<Edge>,
    /// Its consumers: their numbers, and its handles to them.
    pub next: Vec<(usize, u64)>,
}

struct InBoard<'a>(&'a mut Board, usize);

impl Words for InBoard<'_> {
    fn ended(&mut self, node: usize) -> u64 {
        self.0.ended_jobs.get(&(self.1, node)).copied().unwrap_or(0)
    }

    fn end(&mut self, node: usize, job: u64) {
        self.0.ended_jobs.insert((self.1, node), job);
    }
}

impl Node {
    /// Who is to be told of tokens that are there before its first job, and up to which of their jobs.
    pub fn begin(&self, board: &mut Board) -> VecDeque<(u64, u64)> {
        self.credits(|credit| begin(&self.edges, &mut InBoard(board, self.graph), self.number, credit))
    }

    /// The same after its job of this number.
    pub fn end(&self, board: &mut Board, job: u64) -> VecDeque<(u64, u64)> {
        self.credits(|credit| end_job(&self.edges, &mut InBoard(board, self.graph), self.number, job, credit))
    }

    /// The consumers that `tell` tells, by the handles to them.
    fn credits(&self, tell: impl FnOnce(&mut dyn FnMut(usize, u64))) -> VecDeque<(u64, u64)> {
        let mut credits = VecDeque::new();
        tell(&mut |consumer, upto| credits.extend(self.handle(consumer).map(|handle| (handle, upto))));
        credits
    }

    fn handle(&self, consumer: usize) -> Option<u64> {
        self.next.iter().find(|(number, _)| *number == consumer).map(|(_, handle)| *handle)
    }
}
