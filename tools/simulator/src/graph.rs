//! Scripted tasks that are nodes of a graph: the work of `fusee::graph`, at no cost of time but that of its calls.

use std::collections::VecDeque;

use fusee_graph::{Edge, Words, begin, begin_job, end_job, give_back};

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
    /// Edges from readers to writers, of which it is one.
    pub back: Vec<Edge>,
    /// The handle to the notification of a free frame.
    pub room: Option<u64>,
    /// Those to the notifications of writers: their numbers, and the handles.
    pub rooms: Vec<(usize, u64)>,
    /// Its thread if the kernel knows of no jobs of it.
    pub thread: Option<Thread>,
}

/// A message of a node to others.
#[derive(Clone, Copy, Debug)]
pub enum Tell {
    /// To the task with this handle: up to which job it may have jobs.
    Credit(u64, u64),
    /// By the notification with this handle: that a frame may be free.
    Room(u64),
}

/// A node without jobs: it looks for its tokens itself, and its handles to consumers are to their notifications.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// Its handle to the notification that says that there may be tokens.
    pub tokens: u64,
    /// When the source is due first, and how long after that again.
    pub first: u64,
    /// The period: see `first`.
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

    fn waits(&mut self, node: usize) -> bool {
        self.0.waiting_nodes.contains(&(self.1, node))
    }

    fn say_waits(&mut self, node: usize, waits: bool) {
        if waits {
            self.0.waiting_nodes.insert((self.1, node));
        } else {
            self.0.waiting_nodes.remove(&(self.1, node));
        }
    }
}

impl Node {
    /// The consumers to be told of tokens that are there before its first job, and up to which of their jobs.
    pub fn begin(&self, board: &mut Board) -> VecDeque<Tell> {
        let mut told = VecDeque::new();
        let tell = |consumer, upto| told.extend(self.credit(consumer, upto));
        begin(&self.edges, &mut InBoard(board, self.graph), self.number, tell);
        told
    }

    /// The handle by which it waits before its job of this number writes; `None`: all frames that it writes to are free.
    pub fn waits(&self, board: &mut Board, job: u64) -> Option<u64> {
        let mut words = InBoard(board, self.graph);
        if begin_job(&self.back, &mut words, self.number, job) {
            words.say_waits(self.number, false);
            return None;
        }
        self.room
    }

    /// The consumers to be told after its job of this number.
    pub fn end(&self, board: &mut Board, job: u64) -> VecDeque<Tell> {
        let mut words = InBoard(board, self.graph);
        let mut told = VecDeque::new();
        end_job(&self.edges, &mut words, self.number, job, |consumer, upto| told.extend(self.credit(consumer, upto)));
        give_back(&self.back, &mut words, self.number, |writer| {
            told.extend(handle(&self.rooms, writer).map(Tell::Room));
        });
        told
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

    fn credit(&self, consumer: usize, upto: u64) -> Option<Tell> {
        handle(&self.next, consumer).map(|handle| Tell::Credit(handle, upto))
    }
}

/// The handle to the node with this number.
fn handle(all: &[(usize, u64)], of: usize) -> Option<u64> {
    all.iter().find(|(number, _)| *number == of).map(|(_, handle)| *handle)
}
