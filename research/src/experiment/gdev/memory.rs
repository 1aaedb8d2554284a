//! More data than a device has memory for: E9, with one large task and several small ones, and E10, with the memory divided among virtual GPUs.
//!
//! The pool of [`fusee_vgpu`] decides, on a model that carries its steps out on real data: each page is a number, and every kernel checks the numbers of its
//! task and changes some. Kernels and copies come one after the other, but for the temporal space, which is emptied while kernels run. Sizes are those of the
//! paper, in pages of 4 MB; a kernel takes 40 ms, a page 0.8 ms to or from the host (5 GB/s) and 0.05 ms inside of the device (80 GB/s). Each task copies its
//! data in, launches eight times in turn with the others, and copies its data out.

use anyhow::{Result, ensure};
use fusee_simulator::workload::Source as Numbers;
use fusee_vgpu::{Error, ObjectId, Place, Pool, Quota, SESSIONS, Session, Source, Step};

use super::super::sharing::{Runs, findings, row};
use super::super::{Condition, Experiment, Findings, Kind, Paper, Unit};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gdev-memory",
    question: "do all tasks end that have more data than the device has memory, and how long does it take?",
    length: 1_000_000_000,
    short: 1_000_000_000,
    kind: Kind::Gdev(find),
    conditions,
};

/// Pages of the device's memory, of the large task and of a small one: 1.6 GB, 1 GB and 128 MB.
const FRAMES: usize = 400;
const LARGE: usize = 256;
const SMALL: usize = 32;
const PAGES: usize = LARGE + MOST * SMALL;
/// The most small tasks.
const MOST: usize = 10;
const LAUNCHES: usize = 8;

/// Nanoseconds of a kernel, of a page to or from the host, and of one inside of the device.
const KERNEL: u64 = 40_000_000;
const TO_HOST: u64 = 800_000;
const INSIDE: u64 = 50_000;

const REFUSED: &str = "private";
const SWAP: &str = "swap";
const TEMPORAL: &str = "temporal";
const WAYS: [(&str, &str); 3] = [
    (REFUSED, "no task has host buffers: an allocation without free frames is refused"),
    (SWAP, "tasks share frames, and swap to the host"),
    (TEMPORAL, "the same, with a tenth of the memory as temporal space"),
];
const NINE: [&str; MOST] =
    ["1 small", "2 small", "3 small", "4 small", "5 small", "6 small", "7 small", "8 small", "9 small", "10 small"];
const MOVED: &str = "moved, 10 small";
const KNEE: &str = "small, none moved";
const WRONG: &str = "wrong pages";
/// Numbers of virtual GPUs, with the rows of ten small tasks on one of them, and of the most without a move.
const TEN: [(usize, [&str; 2]); 3] = [
    (1, ["10 of 1 GPU", "none moved, 1 GPU"]),
    (2, ["10 of 2 GPUs", "none moved, 2"]),
    (4, ["10 of 4 GPUs", "none moved, 4"]),
];

/// The outcome of one run.
struct Outcome {
    /// Nanoseconds.
    makespan: u64,
    /// Pages that were moved to make room, or back.
    moved: usize,
    wrong: usize,
}

/// The model of a device with so many frames.
struct Device<const F: usize> {
    pool: Pool<F, PAGES, SESSIONS>,
    frames: Vec<u64>,
    host: Vec<u64>,
    now: u64,
    moved: usize,
    numbers: Numbers,
}

/// A task, with its data as it should be.
struct Task {
    session: Session,
    object: ObjectId,
    data: Vec<u64>,
}

impl<const F: usize> Device<F> {
    fn new(temporal: usize, seed: u64) -> Self {
        let numbers = Numbers::new(seed, F as u64);
        let pool = Pool::new(temporal);
        Self { pool, frames: vec![u64::MAX; F], host: vec![u64::MAX; PAGES], now: 0, moved: 0, numbers }
    }

    /// Runs `call` of the pool, and carries its steps out. `costs`: whether they take time, or lie beside a kernel.
    fn carry_out<T>(
        &mut self,
        costs: bool,
        call: impl FnOnce(&mut Pool<F, PAGES, SESSIONS>, &mut Vec<Step>) -> T,
    ) -> T {
        let mut steps = Vec::new();
        let result = call(&mut self.pool, &mut steps);
        for step in steps {
            let time = match step {
                Step::Clear(frame) => {
                    self.frames[frame] = 0;
                    INSIDE
                }
                Step::Copy { from, to } => {
                    let data = self.read(from);
                    self.moved += 1;
                    match to {
                        Place::Frame(frame) => self.frames[frame] = data,
                        Place::Host(page) => self.host[page] = data,
                    }
                    let is_inside = matches!((from, to), (Place::Frame(_), Place::Frame(_)));
                    if is_inside { INSIDE } else { TO_HOST }
                }
            };
            self.now += if costs { time } else { 0 };
        }
        result
    }

    fn read(&self, place: Place) -> u64 {
        match place {
            Place::Frame(frame) => self.frames[frame],
            Place::Host(page) => self.host[page],
        }
    }

    /// A task that has allocated its memory and copied its data there.
    fn begin(&mut self, number: usize, pages: usize, priority: u8, host: usize) -> Result<Task, Error> {
        let session = Session::new(number).ok_or(Error::Full)?;
        self.pool.open(session, priority, Quota { device: pages, host })?;
        let object = self.pool.allocate(session, pages)?;
        self.carry_out(true, |pool, steps| pool.copy_in(session, object, 0, pages, &mut |step| steps.push(step)))?;
        let data: Vec<u64> = (0..pages).map(|_| self.numbers.draw(1, u64::MAX / 2)).collect();
        let (first, _) = self.pool.frames(session, object)?;
        self.frames[first..first + pages].copy_from_slice(&data);
        self.now += pages as u64 * TO_HOST;
        Ok(Task { session, object, data })
    }

    /// A kernel of a task: returns how many pages it finds that are not as they should be.
    fn launch(&mut self, task: &mut Task) -> Result<usize, Error> {
        self.carry_out(true, |pool, steps| pool.launch(task.session, &mut |step| steps.push(step)))?;
        let (first, pages) = self.pool.frames(task.session, task.object)?;
        let wrong = (0..pages).filter(|page| self.frames[first + page] != task.data[*page]).count();
        let changed = self.numbers.draw(0, pages as u64 - 1) as usize;
        task.data[changed] = self.numbers.draw(1, u64::MAX / 2);
        self.frames[first + changed] = task.data[changed];
        self.now += KERNEL;
        // Meanwhile a context that only copies empties the temporal space.
        for _ in 0..KERNEL / TO_HOST {
            if !self.carry_out(false, |pool, steps| pool.drain(&mut |step| steps.push(step))) {
                break;
            }
        }
        self.pool.retire(task.session)?;
        Ok(wrong)
    }

    /// Copies the data of a task out, and ends it: returns the number of wrong pages.
    fn end(&mut self, task: &Task) -> Result<usize, Error> {
        let mut wrong = 0;
        for (page, data) in task.data.iter().enumerate() {
            let read = match self.pool.copy_out(task.session, task.object, page)? {
                Source::Zero => 0,
                Source::At(place) => {
                    self.now += if matches!(place, Place::Frame(_)) { TO_HOST } else { 0 };
                    self.read(place)
                }
            };
            wrong += usize::from(read != *data);
        }
        self.pool.close(task.session)?;
        Ok(wrong)
    }
}

/// Runs the large task, if there is one, and `small` ones on a device with `F` frames.
fn run<const F: usize>(way: &str, large: bool, small: usize, seed: u64) -> Result<Outcome, Error> {
    let mut device = Device::<F>::new(if way == TEMPORAL { F / 10 } else { 0 }, seed);
    let host = |pages| if way == REFUSED { 0 } else { pages };
    let mut tasks = Vec::new();
    if large {
        tasks.push(device.begin(0, LARGE, 9, host(LARGE))?);
    }
    for number in 0..small {
        tasks.push(device.begin(number + 1, SMALL, 1, host(SMALL))?);
    }
    let mut wrong = 0;
    for _ in 0..LAUNCHES {
        for task in &mut tasks {
            wrong += device.launch(task)?;
        }
    }
    for task in &tasks {
        wrong += device.end(task)?;
    }
    Ok(Outcome { makespan: device.now, moved: device.moved, wrong })
}

fn find(runs: &Runs) -> Result<Findings> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for (way, _) in WAYS {
        let mut column = Vec::new();
        let nine: Vec<Result<Outcome, Error>> =
            (1..=MOST).map(|small| run::<FRAMES>(way, true, small, runs.seed)).collect();
        let mut wrong = 0;
        for outcome in &nine {
            column.push(match outcome {
                Ok(outcome) => outcome.makespan as f64,
                Err(Error::NoVictim { .. }) => f64::NAN,
                Err(error) => anyhow::bail!("{way}: {error:?}"),
            });
            wrong += outcome.as_ref().map_or(0, |outcome| outcome.wrong);
        }
        let unmoved = |runs: &[Result<Outcome, Error>]| {
            runs.iter().take_while(|one| one.as_ref().is_ok_and(|one| one.moved == 0)).count() as f64
        };
        column.push(nine[MOST - 1].as_ref().map_or(f64::NAN, |outcome| outcome.moved as f64));
        column.push(unmoved(&nine));
        for (gpus, _) in TEN {
            let one = |small| match gpus {
                1 => run::<FRAMES>(way, false, small, runs.seed),
                2 => run::<{ FRAMES / 2 }>(way, false, small, runs.seed),
                _ => run::<{ FRAMES / 4 }>(way, false, small, runs.seed),
            };
            let ten: Vec<Result<Outcome, Error>> = (1..=MOST).map(one).collect();
            wrong += ten.iter().flatten().map(|outcome| outcome.wrong).sum::<usize>();
            column.push(ten[MOST - 1].as_ref().map_or(f64::NAN, |outcome| outcome.makespan as f64));
            column.push(unmoved(&ten));
        }
        column.push(wrong as f64);
        ensure!(values.first().is_none_or(|first| first.len() == column.len()), "columns of one length");
        values.push(column);
    }
    let mut names: Vec<(&str, Unit)> = NINE.iter().map(|name| (*name, Unit::Time)).collect();
    names.extend([(MOVED, Unit::Count), (KNEE, Unit::Count)]);
    TEN.iter().for_each(|(_, [time, knee])| names.extend([(*time, Unit::Time), (*knee, Unit::Count)]));
    names.push((WRONG, Unit::Count));
    let rows =
        names.into_iter().enumerate().map(|(at, (name, unit))| row(name, unit, values.iter().map(|one| one[at])));
    Ok(findings(WAYS.to_vec(), rows.collect()))
}

fn conditions(found: &Findings) -> Vec<Condition> {
    let value = |way, row| found.value(way, row);
    let ended = |way| NINE.iter().take_while(|row| !value(way, row).is_nan()).count();
    let ms = |value: f64| Unit::Time.show(value);
    let knee = |way| value(way, KNEE);
    // The time that a further small task takes, beyond the knees.
    let slope = |way| (value(way, NINE[9]) - value(way, NINE[5])) / 4.0;
    let ten = |way| TEN.map(|(_, [time, _])| value(way, time));
    let knees = |way| TEN.map(|(_, [_, knee])| value(way, knee));
    let list = |values: [f64; 3]| values.map(|one| format!("{one}")).join(", ");
    let wrong: f64 = WAYS.iter().map(|(way, _)| value(way, WRONG)).sum();
    vec![
        Condition {
            why_not: Some(
                "0.6 GB beside the large task have room for 4.7 of 128 MB; the paper's driver keeps some memory for itself, so three fit there; ours has all of it",
            ),
            ..Condition::new(
                "without swapping a fourth small task is refused",
                ended(REFUSED) == 3,
                format!("{} end", ended(REFUSED)),
            )
            .of(Paper { experiment: "E9", value: "N > 3 fails" })
        },
        Condition::new(
            "without swapping four small tasks end, and five and more are refused",
            ended(REFUSED) == 4,
            format!("{} end", ended(REFUSED)),
        ),
        Condition::new(
            "with swapping all end, with the right data",
            ended(SWAP) == MOST && ended(TEMPORAL) == MOST && wrong == 0.0,
            format!("{} and {} end; {wrong} wrong pages", ended(SWAP), ended(TEMPORAL)),
        )
        .of(Paper { experiment: "E9", value: "all finish" }),
        Condition::new(
            "with temporal space a further task takes less time",
            slope(TEMPORAL) < slope(SWAP),
            format!("{} in place of {}", ms(slope(TEMPORAL)), ms(slope(SWAP))),
        )
        .of(Paper { experiment: "E9", value: "a softer knee" }),
        Condition::new(
            "the knee comes one task earlier with it",
            knee(TEMPORAL) + 1.0 == knee(SWAP),
            format!("after {} in place of {}", knee(TEMPORAL), knee(SWAP)),
        )
        .of(Paper { experiment: "E9", value: "slightly earlier" }),
        Condition::new(
            "more virtual GPUs make ten tasks on one of them take longer, and all end",
            ten(TEMPORAL).is_sorted_by(|fewer, more| fewer < more),
            ten(TEMPORAL).map(ms).join(", "),
        )
        .of(Paper { experiment: "E10", value: "longer, all finish" }),
        Condition::new(
            "and the knee comes earlier",
            knees(TEMPORAL).is_sorted_by(|fewer, more| fewer > more),
            format!("after {}; without temporal space {}", list(knees(TEMPORAL)), list(knees(SWAP))),
        )
        .of(Paper { experiment: "E10", value: "an earlier knee" }),
    ]
}
