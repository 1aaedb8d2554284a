//! Frames of CAN buses: the longest time from the event of each until it has been sent, and until the task that reads it has ended.
//!
//! The event of a frame with a sender is the release of the sender's job. The job queues the frame by its end, so the jitter of the frame
//! is the bound on the sender's response time, and the key `jitter` adds the time from then on. The reader of a frame polls: the frame may
//! come when a job has just read, so the next job reads it, which is released within a period and ends within its response time.
//!
//! Jobs that begin before their releases, or take the budget of the next one, are not counted by their periods: their frames have no
//! bound. Not here: the response times on a bus (`fusee_sched_analysis::can`).

use fusee_abi::image::overrun;
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::Overheads;
use fusee_sched_analysis::can::{self, Response};
use fusee_sched_analysis::task::LONGEST;
use fusee_sched_analysis::uniprocessor::Unanswered;
use num_bigint::BigInt;
use num_rational::BigRational;

use super::latency::{Answer, Answers};
use crate::resolve::{Bus, BusFrame, Resolved};

/// The findings on one bus.
#[derive(Clone, Debug)]
pub struct BusReport {
    /// The part of the bus's time that its frames take, faults apart.
    pub utilisation: BigRational,
    /// The frames, in the order of the manifest.
    pub frames: Vec<FrameReport>,
    /// The frames in the order of arbitration, the most urgent first.
    pub order: Vec<usize>,
}

/// The findings on one frame.
#[derive(Clone, Debug)]
pub struct FrameReport {
    /// The longest transmission, the space before the next frame included.
    pub transmission: Nanoseconds,
    /// The longest time from the event until the frame is in a transmit buffer; `None`: that is not bounded.
    pub jitter: Option<Nanoseconds>,
    /// The longest time from the event until the frame has been sent; or the reason why there is no bound.
    pub response: Result<Response, String>,
    /// The reason why that rests on the behaviour of tasks, and nothing enforces it, if it does.
    pub unenforced: Option<String>,
    /// The longest time from the event until the end of the reader's job, if the frame has a reader; or the reason why there is no bound.
    pub latency: Option<Result<Nanoseconds, String>>,
}

impl BusReport {
    fn without_bounds(bus: &Bus, why: &str) -> BusReport {
        let frame = |_: &BusFrame| FrameReport {
            transmission: Nanoseconds::ZERO,
            jitter: None,
            response: Err(why.to_owned()),
            unenforced: None,
            latency: None,
        };
        let frames: Vec<FrameReport> = bus.frames.iter().map(frame).collect();
        BusReport { utilisation: BigRational::default(), order: (0..frames.len()).collect(), frames }
    }

    /// Whether the frames need more than the whole bus.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.utilisation > BigRational::from_integer(BigInt::from(1))
    }
}

impl FrameReport {
    /// Whether the frame is never late, for any behaviour of tasks that are neither `hard` nor `trusted`.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        self.unenforced.is_none() && self.response.as_ref().is_ok_and(|response| response.is_met)
    }
}

/// The findings on each bus of the system, in their order, if paths of the kernel have these costs.
#[must_use]
pub fn buses(system: &Resolved, overheads: &Overheads) -> Vec<BusReport> {
    if system.buses.is_empty() {
        return Vec::new();
    }
    let answers = Answers::new(system, overheads);
    system.buses.iter().map(|bus| of_bus(system, bus, &answers)).collect()
}

fn of_bus(system: &Resolved, bus: &Bus, answers: &Answers) -> BusReport {
    // For each frame the longest time until it is ready.
    let jitter = |one: &BusFrame| -> Result<Nanoseconds, String> {
        let own = one.frame.jitter.unwrap_or_default();
        let Some(sender) = one.sender else { return Ok(own) };
        let (_, response) = by_period(system, answers, sender)?;
        let sum = Nanoseconds(response.0.saturating_add(own.0));
        if sum > LONGEST { Err(format!("`{}` takes too long", system.tasks[sender].name)) } else { Ok(sum) }
    };
    let jitters: Vec<Result<Nanoseconds, String>> = bus.frames.iter().map(jitter).collect();
    let timed = bus.frames.iter().zip(&jitters);
    let timed = timed.map(|(one, jitter)| can::Frame { jitter: jitter.as_ref().ok().copied(), ..one.frame });
    let studied = match can::Bus::new(bus.rates, bus.fault_interval, timed.collect()) {
        Ok(studied) => studied,
        // The checks of the manifest have excluded all that is no bus.
        Err((_, why)) => return BusReport::without_bounds(bus, &why.to_string()),
    };
    let babbler = babbler(system, bus);
    let (utilisation, order) = (studied.utilisation(), studied.order().to_vec());
    let mut report = BusReport { utilisation, frames: Vec::new(), order };
    for (index, response) in studied.responses().into_iter().enumerate() {
        let own = &bus.frames[index];
        // The frame itself and those before it.
        let place = report.order.iter().position(|one| *one == index).unwrap_or(0);
        let mut level = report.order[..=place].iter().rev();
        let unknown = level.clone().find_map(|one| jitters[*one].as_ref().err().map(|why| (*one, why)));
        let response = response.map_err(|why| match (why, unknown) {
            (Unanswered::Unbounded, Some((one, why))) if one == index => format!("its jitter is not bounded: {why}"),
            (Unanswered::Unbounded, Some((one, why))) => {
                format!("the jitter of `{}`, which comes before it, is not bounded: {why}", bus.frames[one].name)
            }
            (Unanswered::Unbounded, None) if report.is_overloaded() => "the bus is overloaded".to_owned(),
            (Unanswered::Unbounded, None) => {
                "with the faults it and the frames before it need the whole bus".to_owned()
            }
            (Unanswered::GaveUp, _) => "the search grew too long".to_owned(),
        });
        let unenforced = babbler
            .clone()
            .or_else(|| level.find_map(|one| answers.of(system, bus.frames[*one].sender?).ok()?.unenforced.clone()));
        let read = |reader: usize| {
            let response = response.as_ref().map_err(Clone::clone)?;
            let (period, reads) = by_period(system, answers, reader)?;
            let answer = answers.of(system, reader)?;
            if let Some((queued, backlog)) = answer.dropped {
                let name = &system.tasks[reader].name;
                return Err(format!(
                    "up to {queued} releases of `{name}` may queue, and with `backlog` = {backlog} the others are dropped"
                ));
            }
            let sum = response.longest.0.saturating_add(period.0).saturating_add(reads.0);
            answer.unenforced.clone().map_or(Ok(Nanoseconds(sum)), Err)
        };
        report.frames.push(FrameReport {
            transmission: studied.transmission(index),
            jitter: jitters[index].as_ref().ok().copied(),
            latency: own.to.map(read),
            response,
            unenforced,
        });
    }
    report
}

/// The period of a task, and the bound on its response time, if it has one job in each period; or the reason why not.
fn by_period(system: &Resolved, answers: &Answers, task: usize) -> Result<(Nanoseconds, Nanoseconds), String> {
    let name = &system.tasks[task].name;
    let no_jobs = || format!("`{name}` is not a real-time task");
    let own = system.tasks[task].reservation.map(|own| &system.reservations[own]).ok_or_else(no_jobs)?;
    if own.begins_early != 0 {
        return Err(format!("jobs of `{name}` may begin before their releases; `early = false` keeps it from that"));
    }
    if own.early_release != 0 || own.overrun == overrun::EARLY_RELEASE {
        return Err(format!("`{name}` may take the budget of its next job"));
    }
    let Answer { response, .. } = answers.of(system, task)?;
    Ok((Nanoseconds(own.period), Nanoseconds(response.clone()?)))
}

/// A sender that may send more than its frame says, as nothing enforces that.
fn babbler(system: &Resolved, bus: &Bus) -> Option<String> {
    let sends = |one: &BusFrame| Some((one.sender?, one.name.clone()));
    let (task, frame) = bus.frames.iter().filter_map(sends).find(|(task, _)| !system.keeps_word[*task])?;
    let name = &system.tasks[task].name;
    Some(format!("`{name}`, which sends `{frame}`, may send more often: it is neither hard nor trusted"))
}
