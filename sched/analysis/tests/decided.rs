//! Bounds of tasks that share a device which decides: against schedules in unit steps, and against the published test.

use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::decided::{System, Task, Work};

/// Random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn draw(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        from + (word ^ word >> 31) % (to - from + 1)
    }
}

const fn time(span: u64) -> Nanoseconds {
    Nanoseconds(span)
}

//--- Schedules

/// A job executes for the first, has the device for the second, and executes for the third of these spans.
struct Shape {
    before: u64,
    after: u64,
}

/// Tasks of two or three CPUs, with different priorities, and the shapes of their jobs.
fn drawn(random: &mut Random) -> (System, Vec<Shape>) {
    let (cpus, count) = (random.draw(2, 3) as usize, random.draw(3, 6));
    let (mut system, mut shapes) = (System::default(), Vec::new());
    for number in 0..count {
        let period = random.draw(8, 40);
        let has_work = random.draw(0, 3) > 0;
        let before = random.draw(0, 3);
        let after = if has_work { random.draw(1, 3) } else { 1 };
        let work = Work { operations: time(random.draw(1, 8)), commands: 1, rank: number, ..Work::default() };
        system.tasks.push(Task {
            cpu: random.draw(0, cpus as u64 - 1) as usize,
            execution: time(before + after),
            period: time(period),
            priority: number,
            keeps_word: true,
            work: has_work.then_some(work),
            ..Task::default()
        });
        shapes.push(Shape { before, after });
    }
    (system, shapes)
}

/// The longest response times in a schedule in unit steps, of jobs released by chance, a period apart at least, that may need less than
/// they declare.
fn longest(system: &System, shapes: &[Shape], random: &mut Random) -> Vec<u64> {
    #[derive(Clone, Copy, Default)]
    struct Job {
        release: u64,
        left: [u64; 3],
        is_active: bool,
    }
    let count = system.tasks.len();
    let mut jobs = vec![Job::default(); count];
    let mut next: Vec<u64> = (0..count).map(|_| random.draw(0, 12)).collect();
    let mut longest = vec![0; count];
    for now in 0..600 {
        for task in 0..count {
            if next[task] <= now && !jobs[task].is_active {
                let declared = &system.tasks[task];
                let less = random.draw(0, 2) == 0;
                let mut part = |span: u64| if less { random.draw(0, span) } else { span };
                let device = part(declared.work.map_or(0, |work| work.operations.0));
                let left = [part(shapes[task].before), device, part(shapes[task].after).max(1)];
                jobs[task] = Job { release: next[task], left, is_active: true };
                let late = if random.draw(0, 3) == 0 { random.draw(0, 9) } else { 0 };
                next[task] += declared.period.0 + late;
            }
        }
        let stage = |job: &Job| job.left.iter().position(|left| *left > 0);
        let waits = |task: &usize, wanted: bool| {
            jobs[*task].is_active && stage(&jobs[*task]).is_some_and(|stage| (stage == 1) == wanted)
        };
        let mut chosen = Vec::new();
        for cpu in 0..3 {
            let here = (0..count).filter(|task| system.tasks[*task].cpu == cpu && waits(task, false));
            chosen.extend(here.min_by_key(|task| system.tasks[*task].priority));
        }
        let device = (0..count).filter(|task| waits(task, true));
        chosen.extend(device.min_by_key(|task| system.tasks[*task].work.map_or(0, |work| work.rank)));
        for task in chosen {
            let job = &mut jobs[task];
            if let Some(stage) = stage(job) {
                job.left[stage] -= 1;
            }
            if job.left == [0; 3] {
                job.is_active = false;
                longest[task] = longest[task].max(now + 1 - job.release);
            }
        }
    }
    longest
}

/// A rule for the interference of others; all but the last are wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Suspension is ignored: no jitter.
    None,
    /// Jitter as long as the suspension.
    Suspension,
    /// The work of the device for tasks of other CPUs is ignored.
    OwnDevice,
    /// Jitter of the response time without the execution.
    Right,
}

/// The bounds by a rule, in plain sums: another transcription.
fn by_rule(system: &System, rule: Rule) -> Vec<Option<u64>> {
    let tasks = &system.tasks;
    let device = |task: &Task| task.work.map_or(0, |work| work.operations.0);
    let mut found: Vec<u64> = tasks.iter().map(|task| task.execution.0 + device(task)).collect();
    let mut fails = vec![false; tasks.len()];
    // Each takes one step towards its bound in turn.
    for _ in 0..4_000 {
        for task in 0..tasks.len() {
            let (own, window) = (&tasks[task], found[task]);
            let mut sum = own.execution.0 + device(own);
            for (other, one) in tasks.iter().enumerate().filter(|(other, _)| *other < task) {
                let jitter = |part: u64| match rule {
                    Rule::None => 0,
                    Rule::Suspension => device(one),
                    _ => found[other] - part,
                };
                if one.cpu == own.cpu {
                    let jitter = if one.work.is_some() { jitter(one.execution.0) } else { 0 };
                    sum += (window + jitter).div_ceil(one.period.0) * one.execution.0;
                }
                let competes = rule != Rule::OwnDevice || one.cpu == own.cpu;
                if own.work.is_some() && one.work.is_some() && competes {
                    let jitter = if rule == Rule::Suspension { 0 } else { jitter(device(one)) };
                    sum += (window + jitter).div_ceil(one.period.0) * device(one);
                }
            }
            fails[task] |= sum > own.period.0 || (0..task).any(|other| fails[other]);
            if !fails[task] {
                found[task] = sum;
            }
        }
    }
    found.into_iter().zip(fails).map(|(response, fails)| (!fails).then_some(response)).collect()
}

/// The number of jobs of random schedules that are later than their bounds by `rule`, over tasks with bounds by the module as well.
fn refuted(rule: Rule, sets: u64) -> u64 {
    let mut random = Random(11);
    let mut refuted = 0;
    for _ in 0..sets {
        let (system, shapes) = drawn(&mut random);
        let right = system.responses();
        let bounds = by_rule(&system, rule);
        for _ in 0..4 {
            let seen = longest(&system, &shapes, &mut random);
            // Where all are within their periods.
            let is_known = right.iter().all(Option::is_some);
            let is_late = |(seen, bound): (&u64, &Option<u64>)| bound.is_some_and(|bound| *seen > bound);
            refuted += seen.iter().zip(&bounds).filter(|pair| is_known && is_late(*pair)).count() as u64;
        }
    }
    refuted
}

#[test]
fn no_schedule_in_unit_steps_is_later_than_the_bounds() {
    let mut random = Random(7);
    let (mut bounds, mut reached) = (0, 0);
    for _ in 0..4_000 {
        let (system, shapes) = drawn(&mut random);
        let found = system.responses();
        if found.iter().any(Option::is_none) {
            continue;
        }
        let mut most = vec![0; found.len()];
        for _ in 0..6 {
            let seen = longest(&system, &shapes, &mut random);
            most.iter_mut().zip(seen).for_each(|(most, seen)| *most = (*most).max(seen));
        }
        for (seen, bound) in most.iter().zip(found.iter().flatten()) {
            assert!(*seen <= bound.longest.0, "{seen} {bound:?} {system:?}");
            bounds += 1;
            reached += u64::from(*seen == bound.longest.0);
        }
    }
    println!("{bounds} bounds, {reached} reached");
    assert!(bounds > 3_000 && reached * 2 > bounds, "{bounds} bounds, {reached} reached");
}

#[test]
fn the_bounds_are_those_of_another_transcription() {
    let mut random = Random(3);
    let mut bounds = 0;
    for _ in 0..1_000 {
        let (system, _) = drawn(&mut random);
        let found: Vec<Option<u64>> = system.responses().iter().map(|own| own.map(|own| own.longest.0)).collect();
        let others = by_rule(&system, Rule::Right);
        // There a task without a bound takes those of all after it.
        let known = others.iter().take_while(|bound| bound.is_some()).count();
        assert_eq!(found[..known], others[..known], "{system:?}");
        assert_eq!(found.iter().take_while(|bound| bound.is_some()).count(), known, "{system:?}");
        bounds += known;
    }
    assert!(bounds > 1_000, "{bounds}");
}

/// Suspension that is ignored, jitter of the suspension alone, and a device that others do not use.
#[test]
fn schedules_in_unit_steps_refute_wrong_bounds() {
    for rule in [Rule::None, Rule::Suspension, Rule::OwnDevice] {
        let found = refuted(rule, 20_000);
        println!("{rule:?}: {found} jobs too late");
        assert!(found > 0, "{rule:?}");
    }
    assert_eq!(refuted(Rule::Right, 2_000), 0);
}

//--- The published test

/// A task as GCAPS draws it, in microseconds: its part for its own use, and the parts of its segments on the device.
struct Published {
    cpu: usize,
    period: u64,
    execution: u64,
    /// CPU time within segments, the time of the device, and the number of segments.
    inside: u64,
    device: u64,
    segments: u64,
}

/// A set by the parameters of the published generator: CPUs, tasks a CPU 3 to 6, load of a CPU 0.4 to 0.6 or `load`, in thousandths, two in five to three
/// in five of them with 1 to 3 segments, device to CPU time 0.2 to 2, of that a tenth to three tenths on the CPU, periods of 30 to 500 ms.
fn published(random: &mut Random, load: Option<u64>) -> Vec<Published> {
    let mut tasks = Vec::new();
    for cpu in 0..random.draw(2, 6) as usize {
        let count = random.draw(3, 6);
        let mut left = load.unwrap_or_else(|| random.draw(400, 600)) as f64 / 1_000.0;
        let share = random.draw(400, 600);
        for number in 0..count {
            // UUniFast.
            let rest = count - number - 1;
            let kept = if rest == 0 {
                0.0
            } else {
                left * (random.draw(1, 1 << 30) as f64 / (1u64 << 30) as f64).powf(1.0 / rest as f64)
            };
            let load = (left - kept).max(0.01);
            left = kept;
            let period = random.draw(30_000, 500_000);
            let all = (load * period as f64) as u64;
            let has_device = random.draw(0, 999) < share;
            let ratio = random.draw(20, 200);
            let execution = if has_device { all * 100 / (100 + ratio) } else { all };
            let inside = (all - execution) * random.draw(10, 30) / 100;
            let segments = if has_device { random.draw(1, 3) } else { 0 };
            let device = all - execution - inside;
            tasks.push(Published { cpu, period, execution, inside, device, segments });
        }
    }
    tasks.sort_by_key(|task| task.period);
    tasks
}

/// The published test for tasks that suspend themselves, with deadlines of a period: response times in the order of the set; `None`: some task is
/// refused. One update of the list of contexts takes `update`.
fn accepted(tasks: &[Published], update: u64) -> Option<Vec<u64>> {
    let mut found: Vec<u64> = Vec::new();
    for own in tasks {
        let all = own.execution + own.inside + own.device + update + 3 * update * own.segments;
        let mut window = all;
        loop {
            let mut sum = all;
            for (one, response) in tasks.iter().zip(&found) {
                let arrivals = |jitter: u64| (window + jitter).div_ceil(one.period);
                let updates = 2 * update * one.segments;
                let work = arrivals(response - one.device);
                match (one.cpu == own.cpu, one.segments > 0, own.segments > 0) {
                    (true, false, _) => sum += arrivals(0) * one.execution,
                    (true, true, has_device) => {
                        let executed = one.execution + one.inside;
                        sum += arrivals(response - executed) * (executed + updates);
                        sum += if has_device { work * one.device } else { 0 };
                    }
                    (false, true, true) => sum += work * (one.device + updates),
                    _ => {}
                }
            }
            if sum > own.period {
                return None;
            }
            if sum == window {
                break;
            }
            window = sum;
        }
        found.push(window);
    }
    Some(found)
}

/// A published set in the form that is analysed here.
fn as_system(tasks: &[Published], update: u64) -> System {
    let one = |(number, task): (usize, &Published)| {
        let updates = 2 * update * task.segments;
        let work = Work {
            operations: time(task.device),
            updates: time(updates),
            waits: time(update * task.segments + update),
            commands: task.segments,
            rank: number as u64,
            ..Work::default()
        };
        // There a task without segments waits for an update, too; here it has nothing to do with the device.
        Task {
            cpu: task.cpu,
            execution: time(task.execution + task.inside + updates),
            suspends: Nanoseconds::ZERO,
            period: time(task.period),
            priority: number as u64,
            keeps_word: true,
            work: (task.segments > 0).then_some(work),
        }
    };
    System { tasks: tasks.iter().enumerate().map(one).collect(), completion: Nanoseconds::ZERO }
}

/// Each set that the published test accepts is accepted here, and no bound is longer.
#[test]
fn what_the_published_test_accepts_is_accepted() {
    for update in [39, 1_000] {
        let mut random = Random(2_024);
        let (mut theirs, mut ours, mut shorter, mut equal) = (0, 0, 0, 0);
        for set in 0..10_000 {
            let tasks = published(&mut random, [None, Some(300), Some(500), Some(700)][set % 4]);
            let found = as_system(&tasks, update).responses();
            ours += u64::from(found.iter().all(Option::is_some));
            let Some(printed) = accepted(&tasks, update) else { continue };
            theirs += 1;
            for (own, printed) in found.iter().zip(printed) {
                let own = own.unwrap_or_else(|| panic!("a set that is accepted there")).longest.0;
                assert!(own <= printed, "{own} {printed}");
                shorter += u64::from(own < printed);
                equal += u64::from(own == printed);
            }
        }
        println!(
            "update {update} us: {theirs} of 10000 sets accepted there, {ours} here; {shorter} bounds shorter, {equal} equal"
        );
        assert!(theirs > 500 && ours >= theirs, "{theirs} {ours}");
    }
}

//--- Priorities on the device

/// Priorities by Audsley's algorithm: each set that they prove is proved by them, and they prove sets that those of the CPUs do not.
#[test]
fn priorities_of_their_own_prove_more() {
    let mut random = Random(5);
    let (mut before, mut more, mut best) = (0, 0, 0);
    for _ in 0..3_000 {
        let (mut system, _) = drawn(&mut random);
        if system.tasks.iter().filter(|task| task.work.is_some()).count() > 4 {
            continue;
        }
        let due: Vec<Nanoseconds> =
            system.tasks.iter().map(|task| time(random.draw(task.period.0 / 2, task.period.0))).collect();
        let proves = |system: &System| {
            system.responses().iter().zip(&due).all(|(own, due)| own.is_some_and(|own| own.longest <= *due))
        };
        let is_before = proves(&system);
        let found = system.assign(&due);
        // All orders, one after the other.
        let users: Vec<usize> = (0..system.tasks.len()).filter(|task| system.tasks[*task].work.is_some()).collect();
        let is_any = orders(users.len()).into_iter().any(|order| {
            let mut tried = system.clone();
            for (user, rank) in users.iter().zip(order) {
                tried.tasks[*user].work.as_mut().unwrap().rank = rank;
            }
            proves(&tried)
        });
        before += u64::from(is_before);
        more += u64::from(found.is_some() && !is_before);
        best += u64::from(is_any);
        if let Some(ranks) = found {
            for (task, rank) in system.tasks.iter_mut().zip(ranks) {
                task.work.iter_mut().for_each(|work| work.rank = rank);
            }
            assert!(proves(&system) && is_any, "{system:?}");
        }
    }
    println!("{before} sets proved, {more} more by priorities of their own, {best} by any order");
    assert!(before > 100 && more > 10, "{before} {more} {best}");
}

/// All orders of so many.
fn orders(count: usize) -> Vec<Vec<u64>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let at = |place: usize| {
        shorter.iter().map(move |order| {
            let mut order = order.clone();
            order.insert(place, count as u64);
            order
        })
    };
    (0..count).flat_map(at).collect()
}
