//! The course driven again on the host, from the record of its inputs.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use car::camera::View;
use car::drive::{Driver, Senses, Sight};
use car::messages::{command, command_of};
use car::see::Seen;
use car::world::{OBSTACLE, PERIOD, World};
use car_kernels::LANE_WORDS;
use car_kernels::calibration::{PIXELS, WIDTH};
use car_tasks::record::{BEGIN, COMMAND, HEAD_WORDS, LANE, STEP};
use fusee_host::evidence::Evidence;

/// The lane of a picture, as it was on the board.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Its instant on the board, in ns.
    at: u64,
    words: [i32; LANE_WORDS],
}

/// A step of the controller.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its instant, in ns.
    at: u64,
    /// The picture of its lane, or 0 if it had none.
    picture: u32,
    wheels: [u8; 8],
    yaw: [u8; 8],
    command: [u8; 8],
}

/// The record of a run: see `car_tasks::record`.
#[derive(Clone, Debug)]
pub struct Record {
    /// The world's own account of the course.
    pub result: car::world::Result,
    /// Metres before the obstacle.
    pub room: f64,
    /// The instant of the world's first step, in ns.
    begin: u64,
    commands: Vec<[u8; 8]>,
    lanes: BTreeMap<u32, Lane>,
    steps: Vec<Step>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn eight(bytes: &[u8], at: usize) -> [u8; 8] {
    bytes[at..].first_chunk().copied().unwrap_or_default()
}

impl Record {
    /// The record in the memory of a run.
    ///
    /// # Errors
    /// A region is gone.
    pub fn read(run: &Evidence<'_>) -> Result<Record> {
        let memory = |name: &str| {
            let mut regions = run.manifest.system.regions.iter();
            let (_, region) =
                regions.find(|(one, _)| one == name).with_context(|| format!("region `{name}` is gone"))?;
            run.memory.read(region.physical, region.bytes as usize)
        };
        let (course, lanes, steps) = (memory("course")?, memory("lanes")?, memory("steps")?);
        let head: [u64; HEAD_WORDS] = core::array::from_fn(|at| u64::from_le_bytes(eight(&course, 8 * at)));
        let [room, worst, worst_at, squares, driven, fastest, braked] =
            core::array::from_fn(|at| f64::from_bits(head[at + 1]));
        let count = head[0] as usize;
        let result = car::world::Result { steps: head[0] as u32, worst, worst_at, squares, driven, fastest, braked };
        let entries = |bytes: &[u8], each: usize| -> Vec<Vec<u8>> {
            let count = word(bytes, 0) as usize;
            bytes[BEGIN..].chunks_exact(each).take(count).map(<[u8]>::to_vec).collect()
        };
        let lane = |entry: &Vec<u8>| {
            let words = core::array::from_fn(|at| word(entry, 8 + 4 * at).cast_signed());
            (word(entry, 0), Lane { at: u64::from(word(entry, 4)) * 1000, words })
        };
        let step = |entry: &Vec<u8>| Step {
            at: u64::from(word(entry, 0)) * 1000,
            picture: word(entry, 4),
            wheels: eight(entry, 8),
            yaw: eight(entry, 16),
            command: eight(entry, 24),
        };
        Ok(Record {
            result,
            room,
            begin: head[HEAD_WORDS - 1],
            commands: course[BEGIN..].chunks_exact(COMMAND).take(count).map(|data| eight(data, 0)).collect(),
            lanes: entries(&lanes, LANE).iter().map(lane).collect(),
            steps: entries(&steps, STEP).iter().map(step).collect(),
        })
    }

    /// The instant of a step of the world, counted from 1, and so that of a picture.
    fn instant(&self, step: u32) -> u64 {
        self.begin + u64::from(step.saturating_sub(1)) * PERIOD
    }
}

/// A place on the way: metres along the course and to the left of the lane's centre, to the east and to the north.
pub type Place = [f64; 4];

/// The results of the host, compared with those of the board.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Pictures, those of them with a lane on the board, and those with a lane that the controller has used.
    pub pictures: usize,
    /// See [`Replay::pictures`].
    pub lanes: usize,
    /// See [`Replay::pictures`].
    pub used: usize,
    /// Lanes that are equal.
    pub equal_lanes: usize,
    /// Steps of the controller.
    pub commands: usize,
    /// Those with an equal command, and with equal data of a step of the world.
    pub equal_commands: usize,
    /// See [`Replay::equal_commands`].
    pub equal_senses: usize,
    /// Whether the account of the whole course is equal.
    pub is_result_equal: bool,
    /// The longest times from a picture to its lane, and to the job of the world from which on a command holds that knows it, in ns.
    pub to_lane: u64,
    /// See [`Replay::to_lane`].
    pub to_wheels: u64,
    /// Nanoseconds from the last picture that has a lane to the end of the course.
    after: u64,
    /// The way of the car, a place each 100 ms.
    pub way: Vec<Place>,
}

impl Replay {
    /// Drives the course again.
    #[must_use]
    pub fn of(record: &Record) -> Replay {
        let mut replay = Replay { lanes: record.lanes.len(), commands: record.steps.len(), ..Replay::default() };
        let senses = replay.world(record);
        replay.controller(record, &senses);
        replay.latencies(record);
        replay
    }

    /// The world's part; returns data of wheels and yaw rate of each step.
    fn world(&mut self, record: &Record) -> Vec<[[u8; 8]; 2]> {
        let (mut world, mut seen, mut senses) = (World::default(), Box::new(Seen::default()), vec![world_at_rest()]);
        let mut picture = vec![0; PIXELS];
        for data in &record.commands {
            world.step(command_of(*data).0);
            senses.push(world.senses());
            let number = world.result.steps;
            if number.is_multiple_of(20) {
                self.way.push([world.car.along, world.car.offset, world.car.place[0], world.car.place[1]]);
            }
            if !world.is_picture() {
                continue;
            }
            self.pictures += 1;
            let Some(lane) = record.lanes.get(&number) else { continue };
            let view = View::of(&world.car, OBSTACLE, number);
            for (y, row) in picture.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                view.row(y, row);
            }
            let words = picture.first_chunk().map(|picture| seen.look(picture));
            self.equal_lanes += usize::from(words == Some(lane.words));
        }
        self.is_result_equal = world.result == record.result && world.room() == record.room;
        senses
    }

    fn controller(&mut self, record: &Record, sent: &[[[u8; 8]; 2]]) {
        let (mut driver, mut senses) = (Driver::default(), Senses::default());
        for step in &record.steps {
            senses.take_wheels(step.wheels);
            senses.take_yaw(step.yaw);
            let lane = record.lanes.get(&step.picture);
            let sight = lane.map(|lane| Sight { at: record.instant(step.picture), words: lane.words });
            let wish = driver.step(step.at, &senses, sight.as_ref());
            self.equal_commands += usize::from(command(wish, word(&step.command, 4)) == step.command);
            self.used += usize::from(lane.is_some());
            // The wheels may be those of the step after, if the yaw rate was still on its way.
            let number = word(&step.yaw, 4) as usize;
            let is_sent = |step_of: usize| sent.get(step_of).is_some_and(|[wheels, _]| *wheels == step.wheels);
            let is_yaw = sent.get(number).is_some_and(|[_, yaw]| *yaw == step.yaw);
            self.equal_senses += usize::from(is_yaw && (is_sent(number) || is_sent(number + 1)));
        }
    }

    fn latencies(&mut self, record: &Record) {
        for (number, lane) in &record.lanes {
            self.to_lane = self.to_lane.max(lane.at.saturating_sub(record.instant(*number)));
        }
        // Numbers of commands grow.
        let heard: Vec<u32> = record.commands.iter().map(|data| word(data, 4)).collect();
        for step in record.steps.iter().filter(|step| step.picture > 0) {
            let first = heard.partition_point(|number| *number < word(&step.command, 4));
            if first < heard.len() {
                // A command holds from the job on that received it, up to the next one, which moves the car by it.
                let there = record.instant(first as u32);
                self.to_wheels = self.to_wheels.max(there.saturating_sub(record.instant(step.picture)));
            }
        }
        let last = record.lanes.keys().next_back().copied().unwrap_or(0);
        self.after = record.instant(record.result.steps).saturating_sub(record.instant(last));
    }

    /// Whether all results are equal.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.is_result_equal && self.equal_lanes == self.lanes && self.equal_commands == self.commands
    }

    /// Whether each picture has a lane but those that may still have been on their way at the end, and the controller has used each but those.
    #[must_use]
    pub fn is_complete(&self, bound: u64) -> bool {
        let period = u64::from(car::world::PICTURE) * PERIOD;
        let late = bound.div_ceil(period) as usize + 1;
        self.after <= bound + period && self.lanes + late >= self.pictures && self.used + late >= self.pictures
    }
}

/// Data that the controller has before the first frames.
fn world_at_rest() -> [[u8; 8]; 2] {
    [[0; 8]; 2]
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
