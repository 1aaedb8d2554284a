//! The frames of CAN buses, as `analyze` prints them.

use fusee_host::answers::{BusAnalysis, FrameAnalysis};
use fusee_host::table::Table;
use fusee_manifest::admission::{BusReport, FrameReport};
use fusee_manifest::{Bus, BusFrame, Resolved};
use fusee_sched::time::Nanoseconds;
use fusee_sched_analysis::approximate;
use fusee_sched_analysis::can::Identifier;

use super::trimmed;

/// The findings on a bus; times in microseconds.
pub(super) fn of_bus(system: &Resolved, bus: &Bus, found: &BusReport) -> BusAnalysis {
    let frames = found.order.iter().map(|index| of_frame(system, &bus.frames[*index], &found.frames[*index]));
    BusAnalysis {
        name: bus.name.clone(),
        bit_rate: bus.rates.bit_rate(),
        utilisation: approximate(&found.utilisation),
        overloaded: found.is_overloaded(),
        frames: frames.collect(),
    }
}

fn of_frame(system: &Resolved, own: &BusFrame, found: &FrameReport) -> FrameAnalysis {
    let time = |span: Nanoseconds| span.0 as f64 / 1e3;
    let (identifier, extended) = match own.frame.identifier {
        Identifier::Standard(number) => (number, false),
        Identifier::Extended(number) => (number, true),
    };
    let task = |task: &usize| system.tasks[*task].name.clone();
    let late = found.response.as_ref().ok().filter(|response| !response.is_met);
    let is_late = late.map(|_| "its bound is later than its deadline".to_owned());
    FrameAnalysis {
        name: own.name.clone(),
        identifier,
        extended,
        c: time(found.transmission),
        p: time(own.frame.period),
        d: time(own.frame.deadline),
        jitter: found.jitter.map(time),
        response: found.response.as_ref().ok().map(|response| time(response.longest)),
        proved: found.is_proved(),
        why_not: found.response.as_ref().err().cloned().or(is_late),
        not_enforced: found.unenforced.clone(),
        sender: own.sender.as_ref().map(task),
        to: own.to.as_ref().map(task),
        latency: found.latency.as_ref().and_then(|latency| latency.as_ref().ok()).copied().map(time),
        why_no_latency: found.latency.as_ref().and_then(|latency| latency.as_ref().err()).cloned(),
    }
}

/// Whether all frames of a bus are in time.
pub(super) fn holds(bus: &BusAnalysis) -> bool {
    !bus.overloaded && bus.frames.iter().all(|frame| frame.proved)
}

/// A bus with its frames, the most urgent first.
pub(super) fn text(bus: &BusAnalysis) -> String {
    let header = ["frame", "identifier", "C", "jitter", "R", "d", "proved", "latency", "path"];
    let mut table = Table::new(header.to_vec()).left(&["proved", "path"]);
    let time = |time: Option<f64>| time.map_or_else(|| "-".into(), trimmed);
    let mut remarks = String::new();
    for frame in &bus.frames {
        let identifier = match frame.extended {
            true => Identifier::Extended(frame.identifier),
            false => Identifier::Standard(frame.identifier),
        };
        let path = frame.sender.iter().chain([&frame.name]).chain(&frame.to).cloned().collect::<Vec<_>>().join(" > ");
        table.add_row(vec![
            frame.name.clone(),
            identifier.to_string(),
            trimmed(frame.c),
            time(frame.jitter),
            time(frame.response),
            trimmed(frame.d),
            if frame.proved { "proved" } else { "NOT PROVED" }.to_owned(),
            if frame.to.is_some() { time(frame.latency) } else { String::new() },
            if frame.to.is_some() { path } else { String::new() },
        ]);
        let name = &frame.name;
        remarks.extend(frame.why_not.iter().map(|why| format!("  not proved, for {name}: {why}\n")));
        remarks.extend(frame.why_no_latency.iter().map(|why| format!("  no latency, for {name}: {why}\n")));
    }
    let mut unenforced: Vec<&String> = bus.frames.iter().filter_map(|frame| frame.not_enforced.as_ref()).collect();
    unenforced.dedup();
    remarks.extend(unenforced.iter().map(|why| format!("  not proved whatever others do: {why}\n")));
    let verdict = match () {
        () if bus.overloaded => "OVERLOAD: some frames wait without end",
        () if holds(bus) => "no frame is late",
        () => "frames may be late",
    };
    let (name, rate, load) = (&bus.name, bus.bit_rate, bus.utilisation);
    let table = if bus.frames.is_empty() { String::new() } else { format!("{table}\n") };
    format!("{table}{name}: {rate} bit/s, U = {load:.4}: {verdict}  (times in us)\n{remarks}")
}
