//! The results of each GPU task, by the trace.

use anyhow::{Result, ensure};
use fusee_abi::trace::{ENGINE_TIME_SHIFT, Event, Ledger, Record};

use super::{Scale, distance};

/// The results of one task.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Jobs that completed; of these, that were told to end; and that gave their budgets to those before.
    pub jobs: u64,
    pub aborted: u64,
    pub dropped: u64,
    /// Whether jobs take budgets of later ones. If so, those that debts took while their job waited for them, so that no later job
    /// was dropped for it.
    pub releases_early: bool,
    pub awaited: u64,
    /// Jobs that ran ten times their time; the time of each other job, if it is alone; and the budget, in nanoseconds.
    pub overruns: u64,
    pub work: u64,
    pub budget: u64,
    /// Jobs that completed after their deadlines; a job that takes the budgets of others has the deadline of the last of them.
    pub late: u64,
    /// Tokens by how far the task moved for them: not at all, near, far.
    pub moves: [u64; 3],
    /// The number of those that moved while all tokens of the task's own GPU were held when it asked, and those of all GPUs.
    pub own_full: u64,
    pub all_full: u64,
    /// Tokens of its own GPU that were held when it asked, over all requests; and how many tokens these were.
    pub found_held: u64,
    pub found: u64,
    /// Time with a token, of the GPUs of each pair.
    pub holding: [u64; 2],
    /// Time on execution engines; and the declared time of each job, in each period.
    pub execution: u64,
    pub declared: u64,
    pub period: u64,
    /// Whether it is one of those that run longer than declared now and then.
    pub may_overrun: bool,
}

impl Outcome {
    /// Its share of execution engines in `length`, divided by its share if each job takes its declared time.
    pub fn share(&self, length: u64) -> f64 {
        (self.execution as f64 / self.declared as f64) / (length as f64 / self.period as f64)
    }

    /// How many budgets of later jobs were taken: of those dropped, and of those that debts waited for. Not a number where none are.
    pub fn taken(&self) -> f64 {
        if self.releases_early { (self.dropped + self.awaited) as f64 } else { f64::NAN }
    }

    /// Into how many budgets nine times the work of a job goes. Not a number where none are taken.
    pub fn expected(&self) -> f64 {
        if self.releases_early { (9 * self.work) as f64 / self.budget as f64 } else { f64::NAN }
    }
}

/// Sees each record.
pub struct Observer {
    outcomes: Vec<Outcome>,
    /// Where the state of each task is, and whether it found tokens when it last asked: of its own GPU, and any.
    tasks: Vec<(Option<usize>, bool, bool)>,
    /// Since when each token is held.
    held: Vec<Option<u64>>,
    /// Tokens of each GPU.
    tokens: usize,
    /// The numbers of the execution engines.
    engines: Vec<usize>,
    /// Events that should not happen.
    faults: u64,
}

impl Observer {
    /// The observer of a system with these first tasks, to which nothing has happened yet.
    pub fn new(scale: &Scale, outcomes: Vec<Outcome>, engines: Vec<usize>) -> Observer {
        Observer {
            outcomes,
            tasks: vec![(None, true, true); scale.users],
            held: vec![None; scale.replicas()],
            tokens: scale.tokens,
            engines,
            faults: 0,
        }
    }

    /// The results of the tasks.
    pub fn end(self) -> Result<Vec<Outcome>> {
        ensure!(self.faults == 0, "{} faults", self.faults);
        Ok(self.outcomes)
    }

    /// Looks at one record.
    pub fn see(&mut self, record: &Record) {
        let event = Event::from_number(record.event);
        if event == Some(Event::Ledger) {
            return self.read(record);
        }
        self.faults += u64::from(event == Some(Event::Fault));
        let task = usize::from(record.thread).wrapping_sub(1);
        let (Some(outcome), Some(event)) = (self.outcomes.get_mut(task), event) else { return };
        let (home, had_own, had_any) = &mut self.tasks[task];
        let (replica, tokens) = (record.value as usize, self.tokens);
        match event {
            Event::Overrun => outcome.aborted += 1,
            // The debt of which an early release has paid one budget, if there was one.
            Event::Throttle => outcome.awaited += u64::from(record.value) / outcome.budget,
            Event::TokenRequest => {
                let mut free = self.held.iter().enumerate().filter(|(_, since)| since.is_none());
                *had_own = free.any(|(one, _)| Some(one / tokens) == *home);
                *had_any = self.held.contains(&None);
                if let Some(home) = *home {
                    let own = self.held[home * tokens..][..tokens].iter().filter(|since| since.is_some());
                    outcome.found_held += own.count() as u64;
                    outcome.found += tokens as u64;
                }
            }
            Event::TokenGrant => {
                self.held[replica] = Some(record.time);
                let gpu = replica / tokens;
                let distance = distance(gpu, home.replace(gpu).unwrap_or(gpu));
                outcome.moves[distance] += 1;
                if distance > 0 {
                    outcome.own_full += u64::from(!*had_own);
                    outcome.all_full += u64::from(!*had_any);
                }
            }
            Event::TokenRelease => {
                let pair = &mut outcome.holding[replica / tokens / 2];
                *pair += self.held[replica].take().map_or(0, |since| record.time - since);
            }
            _ => {}
        }
    }

    /// One line of a ledger.
    fn read(&mut self, record: &Record) {
        let (ledger, index) = (record.object >> 16, record.object as usize & 0xFFFF);
        let amount = u64::from(record.job) << 32 | u64::from(record.value);
        let is = |one: Ledger| ledger == one as u32;
        let is_engine = is(Ledger::EngineTime);
        let task = if is_engine { index % (1 << ENGINE_TIME_SHIFT) } else { index };
        let Some(outcome) = self.outcomes.get_mut(task) else { return };
        if is_engine && self.engines.contains(&(index >> ENGINE_TIME_SHIFT)) {
            outcome.execution += amount;
        } else if is(Ledger::Jobs) {
            outcome.jobs = amount;
        } else if is(Ledger::Misses) {
            outcome.late = amount;
        } else if is(Ledger::Skipped) {
            outcome.dropped = amount;
        }
    }
}
