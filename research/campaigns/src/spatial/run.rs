//! The loop over events: as many CPUs as processes, one copy engine, one execution engine.
//!
//! At each instant, in this order: ends on the execution engine, which also decide what runs there next; ends on the copy
//! engine; ends on CPUs; the next needs of the processes that these ends concern, by their number; the copy that begins.

use fusee_spatial::{Bad, Context, Counters, Description, Engine, Host, Key, Mechanism, Outcome as End, Record, Rule};

use super::SMS;
use super::process::{Need, Process};
use super::workload::Trace;

/// The order of copies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Copies {
    /// In the order of arrival.
    ByArrival,
    /// By priority; those of one priority in the order of arrival.
    ByKey,
}

/// How the two engines decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setup {
    /// The rule that gives SMs to processes.
    pub rule: Rule,
    /// How SMs are taken away.
    pub mechanism: Mechanism,
    /// The order of copies.
    pub copies: Copies,
}

/// A process of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its trace.
    pub trace: &'a Trace,
    /// Its priority.
    pub key: Key,
}

/// The results of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The time of each complete run of each process, in nanoseconds.
    pub runs: Vec<Vec<u64>>,
    /// Virtual time of all, in nanoseconds.
    pub length: u64,
    /// The counters of the execution engine.
    pub counters: Counters,
}

impl Outcome {
    /// The mean of the complete runs of each process, in nanoseconds.
    #[must_use]
    pub fn means(&self) -> Vec<f64> {
        self.runs.iter().map(|runs| runs.iter().sum::<u64>() as f64 / runs.len() as f64).collect()
    }

    /// SMs that were taken away.
    #[must_use]
    pub fn preemptions(&self) -> u64 {
        Context::all().map(|context| self.counters.of(context).preemptions).sum()
    }

    /// The share of all time of SMs in which blocks were saved or restored.
    #[must_use]
    pub fn moving(&self) -> f64 {
        let moved = Context::all().map(|context| {
            let usage = self.counters.of(context);
            usage.saving + usage.restoring
        });
        moved.sum::<u64>() as f64 / self.counters.sm_time() as f64
    }

    /// The share of all time of SMs in which they were drained.
    #[must_use]
    pub fn draining(&self) -> f64 {
        self.counters.draining() as f64 / self.counters.sm_time() as f64
    }
}

const NEVER: u64 = u64::MAX;

/// Replays `members` until each has `least` complete runs.
///
/// # Panics
/// If there are more members than contexts of the engine, or one launches kernels that no SM can run: neither is in a table of ours.
#[must_use]
pub fn run(members: &[Member<'_>], setup: &Setup, least: usize) -> Outcome {
    let engine = Engine::new(setup.rule, Description::of(SMS, setup.mechanism)).expect("13 SMs are a sound engine");
    let mut machine = Machine {
        engine: Box::new(engine),
        ended: Ended::default(),
        wakes: vec![NEVER; members.len()],
        copies: setup.copies,
        copying: None,
        waiting: Vec::new(),
        processes: members.iter().map(|member| Process::new(member.trace, member.key)).collect(),
    };
    for (number, member) in members.iter().enumerate() {
        machine.engine.set_key(context(number), member.key);
        machine.ask(number, 0);
    }
    while machine.processes.iter().any(|process| process.runs.len() < least) {
        machine.step();
    }
    Outcome {
        runs: machine.processes.into_iter().map(|process| process.runs).collect(),
        length: machine.engine.now(),
        counters: *machine.engine.counters(),
    }
}

struct Machine<'a> {
    engine: Box<Engine<Rule>>,
    ended: Ended,
    /// When each process is done with computing.
    wakes: Vec<u64>,
    copies: Copies,
    /// The process with the copy under way, and the instant of its end.
    copying: Option<(usize, u64)>,
    /// Copies that wait, in the order of arrival: the process, and the length.
    waiting: Vec<(usize, u64)>,
    processes: Vec<Process<'a>>,
}

impl Machine<'_> {
    /// Goes on to the next instant at which something ends.
    fn step(&mut self) {
        let copied = self.copying.map_or(NEVER, |(_, end)| end);
        // If neither a CPU nor the copy engine works, the execution engine does, and comes to an end of its own.
        let next = self.wakes.iter().copied().fold(copied, u64::min);
        self.engine.advance_to_an_end(next, &mut self.ended);
        let now = self.engine.now();
        let mut concerned = std::mem::take(&mut self.ended.processes);
        if let Some((process, _)) = self.copying.take_if(|(_, end)| *end == now) {
            concerned |= 1 << process;
        }
        for (process, wakes) in self.wakes.iter_mut().enumerate().filter(|(_, wakes)| **wakes == now) {
            *wakes = NEVER;
            concerned |= 1 << process;
        }
        for process in 0..self.processes.len() {
            if concerned & 1 << process != 0 {
                self.processes[process].step_ended(now);
                self.ask(process, now);
            }
        }
        self.copy(now);
    }

    /// Asks for the resource that a process needs.
    fn ask(&mut self, process: usize, now: u64) {
        match self.processes[process].need() {
            Need::Compute(time) => self.wakes[process] = now + time,
            Need::Copy(time) => self.waiting.push((process, time)),
            Need::Launch(grid) => {
                let submitted = self.engine.submit(context(process), grid, process as u64);
                submitted.expect("the launch before it has ended, and an SM can run it");
            }
        }
    }

    /// Begins a copy, if none is under way.
    fn copy(&mut self, now: u64) {
        if self.copying.is_some() {
            return;
        }
        let waiting = self.waiting.iter().enumerate();
        let first = match self.copies {
            Copies::ByArrival => waiting.map(|(place, _)| place).next(),
            Copies::ByKey => {
                waiting.min_by_key(|(_, (process, _))| self.processes[*process].key).map(|(place, _)| place)
            }
        };
        self.copying = first.map(|place| {
            let (process, time) = self.waiting.remove(place);
            (process, now + time)
        });
    }
}

fn context(number: usize) -> Context {
    Context::new(number).expect("there are at most as many processes as contexts")
}

/// The processes with kernels that have ended, one bit for each. Blocks have no work to do here.
#[derive(Default)]
struct Ended {
    processes: u16,
}

impl Host for Ended {
    fn block(&mut self, _: u64, _: Context, _: u64, _: u32) -> Result<(), Bad> {
        Ok(())
    }

    fn saved(&mut self, _: u64, _: &Record) -> Result<(), Bad> {
        Ok(())
    }

    fn restored(&mut self, _: u64, _: &Record) -> Result<(), Bad> {
        Ok(())
    }

    fn ended(&mut self, _: u64, context: Context, _: u64, _: End) {
        self.processes |= 1 << context.index();
    }
}

#[cfg(test)]
mod tests {
    use fusee_spatial::parboil::{PROGRAMS, ROWS, Reading};
    use fusee_spatial::{Fcfs, Grid, Npq, Ppq};

    use super::*;
    use crate::spatial::{Inputs, SPREAD, VARIANTS, trace};

    const US: u64 = 1_000;
    const HIGH: Key = Key(1);
    const LOW: Key = Key(2);

    /// A kernel that fills all SMs `waves` times. An SM with its blocks is saved in 4 us.
    fn kernel(waves: u32, time: u64) -> Grid {
        Grid {
            blocks: 13 * 4 * waves,
            time,
            spread: 0,
            seed: 0,
            registers: 4_000,
            shared: 0,
            threads: 0,
            blocks_per_sm: Some(4),
        }
    }

    fn process(computes: u64, copies_in: u64, launches: Vec<Grid>, copies_out: u64) -> Trace {
        Trace { computes, copies_in, launches, copies_out }
    }

    fn by(rule: Rule, mechanism: Mechanism) -> Setup {
        Setup { rule, mechanism, copies: Copies::ByKey }
    }

    const FCFS: Rule = Rule::Fcfs(Fcfs);
    const NPQ: Rule = Rule::Npq(Npq);
    const PPQ: Rule = Rule::Ppq(Ppq { shared: false });

    fn together(traces: &[Trace], setup: &Setup, least: usize) -> Outcome {
        let key = |number| if number == 0 { HIGH } else { LOW };
        let members = traces.iter().enumerate().map(|(number, trace)| Member { trace, key: key(number) });
        run(&members.collect::<Vec<_>>(), setup, least)
    }

    #[test]
    fn a_process_alone_takes_what_its_trace_adds_up_to_in_each_run() {
        let own = process(100 * US, 7 * US, vec![kernel(2, 5 * US), kernel(1, 3 * US)], 2 * US);
        for setup in [by(FCFS, Mechanism::Switch), by(PPQ, Mechanism::Drain)] {
            assert_eq!(together(std::slice::from_ref(&own), &setup, 3).runs, [[122 * US; 3]]);
        }
        // So do the paper's programs: here a launch takes so many waves of blocks.
        let inputs = Inputs { reading: Reading::Waves { sms: SMS }, spread: 0, variant: VARIANTS[0], seed: 1 };
        for (number, program) in PROGRAMS.iter().enumerate() {
            let own = trace(number, &inputs);
            let kernels = ROWS.iter().filter(|row| row.program == *program).map(|row| {
                let waves = row.blocks.div_ceil(u32::from(SMS) * u32::from(row.blocks_per_sm));
                u64::from(row.launches) * u64::from(waves) * row.mean(inputs.reading)
            });
            let whole = own.computes + own.copies_in + kernels.sum::<u64>() + own.copies_out;
            assert_eq!(together(&[own], &by(FCFS, Mechanism::Switch), 1).runs, [[whole]], "{}", program.name);
        }
    }

    #[test]
    fn a_copy_of_high_priority_goes_before_older_ones_but_not_before_the_one_under_way() {
        let copies = |computes| process(computes, 100 * US, Vec::new(), 0);
        let traces = [copies(20 * US), copies(0), copies(10 * US)];
        let first = |copies| together(&traces, &Setup { copies, ..by(NPQ, Mechanism::Switch) }, 1).runs[0][0];
        assert_eq!(first(Copies::ByKey), 200 * US);
        assert_eq!(first(Copies::ByArrival), 300 * US);
    }

    #[test]
    fn of_two_processes_launches_take_turns_whatever_the_priority_since_the_next_one_is_issued_too_late() {
        let many = |count, time| process(US, US, vec![kernel(1, time); count], US);
        let two = [many(20, 5 * US), many(3, 100 * US)];
        let [fcfs, npq] = [FCFS, NPQ].map(|rule| together(&two, &by(rule, Mechanism::Switch), 3));
        assert_eq!(fcfs.runs, npq.runs);
        // Of three, the first waits for one of the others before each launch, not for both.
        let three = [many(20, 5 * US), many(3, 100 * US), many(3, 100 * US)];
        let [fcfs, npq] = [FCFS, NPQ].map(|rule| together(&three, &by(rule, Mechanism::Switch), 3).means()[0]);
        assert!(npq < fcfs * 0.6, "{npq} {fcfs}");
    }

    #[test]
    fn a_kernel_of_high_priority_waits_for_one_save_or_for_the_blocks_that_run() {
        let traces = [process(100 * US, 0, vec![kernel(1, 5 * US)], 0), process(0, 0, vec![kernel(1, 1_000 * US)], 0)];
        let first = |rule, mechanism| together(&traces, &by(rule, mechanism), 1).runs[0][0];
        assert_eq!(first(PPQ, Mechanism::Switch), 109 * US);
        assert_eq!(first(PPQ, Mechanism::Drain), 1_005 * US);
        assert_eq!(first(NPQ, Mechanism::Switch), 1_005 * US);
    }

    #[test]
    fn all_are_replayed_until_the_slowest_has_three_runs_and_what_is_not_complete_does_not_count() {
        let traces = [process(7 * US, 0, Vec::new(), 0), process(100 * US, 0, Vec::new(), 0)];
        let outcome = together(&traces, &by(FCFS, Mechanism::Switch), 3);
        assert_eq!(outcome.length, 300 * US);
        assert_eq!(outcome.runs, [vec![7 * US; 42], vec![100 * US; 3]]);
        assert_eq!(outcome.means(), [7_000.0, 100_000.0]);
    }

    #[test]
    fn two_runs_are_alike_and_all_time_of_sms_is_accounted_for() {
        let inputs = Inputs { reading: Inputs::KERNEL, spread: SPREAD, variant: VARIANTS[0], seed: 1 };
        let traces = [3, 6, 4].map(|program| trace(program, &inputs));
        for mechanism in [Mechanism::Switch, Mechanism::Drain] {
            let [one, other] = [0; 2].map(|_| together(&traces, &by(PPQ, mechanism), 3));
            assert_eq!(one, other);
            assert_eq!(one.counters.sm_time(), u64::from(SMS) * one.length);
            assert!(one.preemptions() > 0 && (one.moving() > 0.0) == (mechanism == Mechanism::Switch));
            assert_eq!(one.draining() > 0.0, mechanism == Mechanism::Drain);
        }
    }
}
