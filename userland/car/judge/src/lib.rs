//! The check of the car after its run: drives the course again on the host, and compares.
//!
//! The record has the inputs of each task: the command of each step of the world, and speeds, yaw rate and lane of each step of the controller. The host
//! computes the outputs from these: places of the car, pictures, lanes, and commands. All have to be equal, bit by bit. So the controller had
//! nothing that did not come from the camera or over the bus. The instants in the record are those of the board.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use car::world::PERIOD;
use fusee_host::evidence::Evidence;
use fusee_host::judge::Watch;
use fusee_host::report;
use fusee_manifest::{Resolved, admission};
use fusee_sched_analysis::Overheads;

pub mod drawing;
pub mod replay;

use replay::{Record, Replay};

/// Metres: the largest lateral error of a car that keeps its lane.
const ERROR_MAX: f64 = 0.25;
/// The folder of pictures, in the folder of builds.
const FOLDER: &str = "car";

/// Looks at the record that the car has left; `true` if it is as it should be. `say` prints a line.
pub fn judge(run: &Evidence<'_>, say: &dyn Fn(&str)) -> Result<bool> {
    let system = &run.manifest.system;
    let record = Record::read(run)?;
    let replay = Replay::of(&record);
    let result = record.result;
    let rms = (result.squares / f64::from(result.steps.max(1))).sqrt();
    say(&format!(
        "lateral error: {rms:.3} m RMS, {:.3} m at most, {:.3} m along the course",
        result.worst, result.worst_at
    ));
    say(&match result.braked > 0.0 {
        true => format!(
            "stopping distance: {:.3} m from {:.3} m/s; {:.3} m are left",
            result.braked, result.fastest, record.room
        ),
        false => "the car has not braked".to_owned(),
    });
    let bound = bound(system)?;
    let ms = |time: u64| time as f64 / 1e6;
    say(&format!("pictures with a lane: {} of {}, {} of them used", replay.lanes, replay.pictures, replay.used));
    say(&format!(
        "from the camera to the lane: {:.1} ms at most; to the wheels: {:.1} ms at most, and {:.1} ms are proved",
        ms(replay.to_lane),
        ms(replay.to_wheels),
        ms(bound)
    ));
    let Replay { equal_lanes, lanes, equal_commands, commands, equal_senses, .. } = replay;
    say(&format!("lanes equal to the host's: {equal_lanes} of {lanes}"));
    say(&format!("commands equal to the host's: {equal_commands} of {commands}"));
    let is_true = replay.is_equal() && equal_senses == commands;
    say(&format!("places equal to the host's: {}", if replay.is_result_equal { "all" } else { "not all" }));
    let watch = Watch::of(run.trace, system);
    let missed = watch.verdict(run.manifest.expectations.as_ref()).misses.len();
    drawing::keep(&run.target.join(FOLDER), run.unmanaged, &replay.way)?;
    if run.unmanaged {
        if is_true {
            say(&report::yellow("Without management the car drives as it can."));
        }
        return Ok(is_true);
    }
    let is_kept = result.worst <= ERROR_MAX && record.room > 0.0 && result.braked > 0.0;
    let is_in_time = replay.to_wheels <= bound && replay.is_complete(bound) && missed == 0;
    if is_true && is_kept && is_in_time {
        say(&report::green("The car is right: every picture, every deadline, and the whole way."));
    }
    Ok(is_true && is_kept && is_in_time)
}

/// The longest time from the instant of a picture until the car has a command that knows it, as it is proved before the run: the picture is
/// read out before the source of the graph is released; the lane is there a latency of the graph later; the next job of the controller sees it;
/// and the next job of the world that finds its command ends a latency of the bus after the release of that one.
pub fn bound(system: &Resolved) -> Result<u64> {
    let overheads = Overheads::default();
    let reservation = |name: &str| {
        let task = system.tasks.iter().find(|task| task.name == name);
        let index = task.and_then(|task| task.reservation).with_context(|| format!("there is no task `{name}`"))?;
        anyhow::Ok(&system.reservations[index])
    };
    let (world, camera, control) = (reservation("world")?, reservation("camera")?, reservation("control")?);
    let graph = system.graphs.first().context("there is no graph")?;
    let source = system.source(graph).context("the graph has no source")?;
    let latency = admission::latencies(system, &overheads).into_iter().next().and_then(|graph| graph.longest);
    let latency = latency.context("the latency of the graph is not bounded")?.latency;
    let picture = world.phase + u64::from(car::world::PICTURE - 1) * PERIOD;
    let readout = (source.phase + source.period - picture % source.period) % source.period;
    ensure!(camera.phase + camera.deadline <= picture + readout, "a picture may be grabbed before it is read out");
    let bus = admission::buses(system, &overheads).into_iter().next().context("there is no bus")?;
    let frames = &system.buses[0].frames;
    let command = frames.iter().position(|frame| frame.name == "command").context("the bus has no frame `command`")?;
    let command = bus.frames[command].latency.as_ref().context("the frame `command` has no reader")?;
    let command = command.as_ref().map_err(|why| anyhow::anyhow!("no latency of the frame `command`: {why}"))?;
    Ok(readout + latency + control.period + command.0)
}
