//! Frames of tasks on a CAN bus: the kernel runs the tasks, a simulated bus sends a frame at the end of each of their jobs, and tasks read
//! it in their next jobs. No frame, and no way from a task to a task, takes longer than its bound.

use std::fmt::Write;

use fusee_abi::trace::{Event, Record};
use fusee_manifest::admission::{self, FrameReport};
use fusee_sched_analysis::Overheads;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::common::{MS, Run, parse, run_for};
use wires::{Instance, Wires, wire};

#[path = "../../../../sched/analysis/tests/wires/mod.rs"]
mod wires;

/// The number of systems.
const SYSTEMS: usize = 200;
/// The time of a run, with its start.
const SPAN: u64 = 400 * MS;

/// A task that sends a frame and reads another one: its CPU, period in milliseconds, part of that in thousandths, and bytes.
type Sender = (usize, u64, u64, u64);
/// A frame of another node: period in milliseconds, jitter in thousandths of that, bytes.
type Other = (u64, u64, u64);

#[derive(Clone, Debug)]
struct System {
    bit_rate: u64,
    senders: Vec<Sender>,
    others: Vec<Other>,
    /// Identifiers of all frames, those of senders first.
    identifiers: Vec<usize>,
    /// The number of tasks from a sender to its reader.
    distance: usize,
}

fn systems() -> impl Strategy<Value = System> {
    let sender = (0..2_usize, prop::sample::select(vec![4, 5, 8, 10, 20, 25]), 20..300_u64, 0..=8_u64);
    let other = (prop::sample::select(vec![2, 5, 10, 40]), 0..2_000_u64, 0..=8_u64);
    let frames = (prop::collection::vec(sender, 2..6), prop::collection::vec(other, 0..4));
    let identifiers = Just((0..9).collect::<Vec<usize>>()).prop_shuffle();
    let rates = prop::sample::select(vec![125_000, 250_000, 500_000]);
    (frames, identifiers, rates, 1..5_usize).prop_map(|((senders, others), identifiers, bit_rate, distance)| System {
        bit_rate,
        senders,
        others,
        identifiers,
        distance,
    })
}

impl System {
    fn reader(&self, sender: usize) -> usize {
        (sender + self.distance) % self.senders.len()
    }

    fn text(&self) -> String {
        let mut text = "[system]\nname = \"bus\"\nboard = \"virt\"\ncpus = 2\nstart = \"10ms\"\nadmission = \"warn\"\n\
                        [clusters.c0]\ncpus = [0]\n[clusters.c1]\ncpus = [1]\n"
            .to_owned();
        let mut frames = format!("[buses.can0]\nbit_rate = {}\n", self.bit_rate);
        for (number, (cpu, period, part, bytes)) in self.senders.iter().enumerate() {
            let burn = period * part;
            let budget = burn + 1;
            write!(text, "[tasks.t{number}]\nscript = [\"burn {burn}us\"]\ncluster = \"c{cpu}\"\nperiod = \"{period}ms\"\nbudget = \"{budget}us\"\ntrusted = true\nbacklog = 9\n").unwrap();
            let (identifier, reader) = (self.identifiers[number], self.reader(number));
            write!(frames, "[buses.can0.frames.f{number}]\nidentifier = {identifier}\nbytes = {bytes}\nsender = \"t{number}\"\nto = \"t{reader}\"\n").unwrap();
        }
        for (number, (period, jitter, bytes)) in self.others.iter().enumerate() {
            let identifier = self.identifiers[self.senders.len() + number];
            let jitter = period * jitter;
            write!(frames, "[buses.can0.frames.o{number}]\nidentifier = {identifier}\nbytes = {bytes}\nperiod = \"{period}ms\"\njitter = \"{jitter}us\"\n").unwrap();
        }
        text + &frames
    }

    /// The instances of the frames of another node, the first as late as may be and all others as early.
    fn of_other(&self, (period, jitter, _): Other) -> Vec<Instance> {
        let (period, jitter) = ((period * MS) as i64, (period * jitter * 1_000) as i64);
        let start = 10 * MS as i64;
        let events = (0..).map(|number| start + number * period - jitter);
        events.take_while(|event| *event < SPAN as i64).map(|event| (event, event.max(start))).collect()
    }
}

/// The jobs of a task: release and completion.
fn jobs(run: &Run, task: usize, period: u64) -> Vec<(i64, i64)> {
    let job = |record: &Record| {
        let end = record.time as i64;
        (end - record.lateness() - (period * MS) as i64, end)
    };
    run.events(Event::Complete, &format!("t{task}")).map(job).collect()
}

#[test]
fn no_way_from_a_task_over_a_frame_to_a_task_takes_longer_than_its_bound() {
    let mut runner = TestRunner::deterministic();
    let (mut bounds, mut ways, mut tightest, mut tightest_way) = (0, 0, 0.0_f64, 0.0_f64);
    for _ in 0..SYSTEMS {
        let system = systems().new_tree(&mut runner).unwrap().current();
        let text = system.text();
        let resolved = parse(&text).system;
        let found = admission::buses(&resolved, &Overheads::default()).remove(0);
        if found.is_overloaded() {
            continue;
        }
        let run = run_for(&text, fusee_simulator::Overheads::NONE, SPAN, &[]);
        let of_tasks: Vec<Vec<(i64, i64)>> =
            system.senders.iter().enumerate().map(|(task, one)| jobs(&run, task, one.1)).collect();
        let bit = 1_000_000_000 / system.bit_rate as i64;
        let of_frame = |one: &fusee_manifest::BusFrame| (wire(one.frame.identifier), one.frame.bits().0 as i64 * bit);
        let wires = Wires { frames: resolved.buses[0].frames.iter().map(of_frame).collect(), bit };
        let others = system.others.iter().map(|one| system.of_other(*one));
        let instances: Vec<Vec<Instance>> = of_tasks.iter().cloned().chain(others).collect();
        let mut problems = Vec::new();
        wires.play(
            &instances,
            |_, _| None,
            |frame, number, end| {
                let event = instances[frame][number].0;
                let FrameReport { response, latency, .. } = &found.frames[frame];
                let Ok(response) = response else { return };
                bounds += 1;
                let (took, bound) = (end - event, response.longest.0 as i64);
                tightest = tightest.max(took as f64 / bound as f64);
                if took > bound {
                    problems.push(format!("frame {frame} took {took} ns, and not {bound}"));
                }
                let Some(Ok(latency)) = latency else { return };
                let reads = of_tasks[system.reader(frame)].iter().find(|(release, _)| *release >= end);
                let Some((_, read)) = reads else { return };
                ways += 1;
                let (took, bound) = (read - event, latency.0 as i64);
                tightest_way = tightest_way.max(took as f64 / bound as f64);
                if took > bound {
                    problems.push(format!("the reader of frame {frame} ended after {took} ns, and not {bound}"));
                }
            },
        );
        assert!(problems.is_empty(), "{problems:#?} in {text}");
    }
    println!("{bounds} frames, tightest {tightest:.3}; {ways} ways, tightest {tightest_way:.3}");
    assert!(
        bounds > 10_000 && ways > 10_000 && tightest > 0.98 && tightest_way > 0.9,
        "{bounds} {ways} {tightest} {tightest_way}"
    );
}
