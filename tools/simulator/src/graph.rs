//! Scripted tasks that are nodes of a graph: what `fusee::graph` does, at no cost of time but that of its calls.

use std::collections::VecDeque;

use fusee_graph::{Edge, Words, begin, end_job};

use crate::board::{Board, GraphEnd};

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
    /// What it is if the kernel knows of no jobs of it.
    pub thread: Option<Thread>,
}

/// A node without jobs: it looks for its tokens itself, and its handles to consumers are to their notifications.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// Its handle to the notification that says that there may be tokens.
    pub tokens: u64,
    /// When the source is due first, and how long after that again.
    pub first: u64,
    /// See `first`.
    pub period: u64,
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

    /// Whether nothing leads to it.
    #[must_use]
    pub fn is_source(&self) -> bool {
        !self.edges.iter().any(|edge| edge.to == self.number)
    }

    /// Whether the tokens are there that its job of this number takes.
    pub fn has_tokens(&self, board: &mut Board, job: u64) -> bool {
        let mut words = InBoard(board, self.graph);
        let mut here = self.edges.iter().filter(|edge| edge.to == self.number);
        here.all(|edge| words.ended(edge.from) >= edge.tokens.jobs_before(job))
    }

    /// Keeps the end of a job, if the node is where its graph begins or ends.
    pub fn keep(&self, board: &mut Board, release: u64) {
        if self.next.is_empty() || self.is_source() {
            let end = GraphEnd { graph: self.graph, node: self.number, release, at: board.now };
            board.graph_ends.push(end);
        }
    }

    fn handle(&self, consumer: usize) -> Option<u64> {
        self.next.iter().find(|(number, _)| *number == consumer).map(|(_, handle)| *handle)
    }
}
