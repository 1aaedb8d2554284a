//! A process that replays its trace.

use fusee_spatial::{Grid, Key};

use super::workload::Trace;

/// The next need of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need<'a> {
    /// The process's CPU for so long.
    Compute(u64),
    /// The copy engine for so long.
    Copy(u64),
    /// The execution engine.
    Launch(&'a Grid),
}

/// A process, and its steps so far.
#[derive(Clone, Debug)]
pub struct Process<'a> {
    trace: &'a Trace,
    /// Its priority: a smaller key goes first.
    pub key: Key,
    /// When the present run began.
    began: u64,
    /// The number of the present step: computing, copying in, the launches, copying out.
    step: usize,
    /// How long each complete run took, in nanoseconds.
    pub runs: Vec<u64>,
}

impl<'a> Process<'a> {
    /// A process that begins at instant zero.
    #[must_use]
    pub const fn new(trace: &'a Trace, key: Key) -> Self {
        Self { trace, key, began: 0, step: 0, runs: Vec::new() }
    }

    /// The resource for its present step.
    #[must_use]
    pub fn need(&self) -> Need<'a> {
        match self.step {
            0 => Need::Compute(self.trace.computes),
            1 => Need::Copy(self.trace.copies_in),
            step => self.trace.launches.get(step - 2).map_or(Need::Copy(self.trace.copies_out), Need::Launch),
        }
    }

    /// Ends the present step. Behind the last one a run is complete, and the next one begins at once.
    pub fn step_ended(&mut self, now: u64) {
        self.step += 1;
        if self.step == self.trace.launches.len() + 3 {
            self.runs.push(now - self.began);
            (self.began, self.step) = (now, 0);
        }
    }
}
