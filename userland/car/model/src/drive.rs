//! Estimator and controller: from lanes, speeds of wheels and the yaw rate to wishes for steering and brakes.
//!
//! The estimator keeps a belief about the lane at the car: its distance to the left, its slope and its curvature. From step to step the
//! belief follows from speed and yaw rate. A lane belongs to the instant of its picture, which is some time ago. So the estimator compares it with
//! the belief of that instant, and adds a part of the difference to the belief of now.
//!
//! The controller steers by the curvature of the lane, and by distance and slope, with gains that make the distance an oscillator of the second
//! order. It brakes for an obstacle with the constant deceleration that stops the car before it.
//!
//! Source of the equations: Rajamani, *Vehicle Dynamics and Control*, 2012, chapters 2 and 3.

use crate::vehicle::{BASE, CORNERING, Command, FRONT, MASS, NOSE, REAR};

/// Nanoseconds between two steps.
pub const PERIOD: u64 = 5_000_000;

/// A lane as the kernels found it in a picture: see [`car_kernels::LANE_WORDS`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sight {
    /// The instant of the picture, in ns.
    pub at: u64,
    /// Words of the lane.
    pub words: [i32; car_kernels::LANE_WORDS],
}

/// Results of the car's own sensors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Senses {
    /// Speeds of the rear wheels, left and right, in m/s: these are not steered.
    pub wheels: [f64; 2],
    /// The yaw rate in rad/s.
    pub yaw: f64,
}

/// A belief about the lane at the car.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Belief {
    /// The instant in ns.
    at: u64,
    /// Metres from the car to the left.
    left: f64,
    /// Radians from the car's direction to the left.
    slope: f64,
    /// In 1/m.
    curvature: f64,
    /// Metres that the car has driven.
    driven: f64,
}

/// Beliefs that are kept: of 0.64 s.
const KEPT: usize = 128;
/// Marks that make a lane.
const MARKS_MIN: i32 = 16;
/// Metres: a lane that is farther from its expected place is another thing.
const JUMP: f64 = 0.8;
/// Parts of the difference that distance, slope and curvature take from a lane.
const TRUST: [f64; 3] = [0.3, 0.3, 0.2];

/// Radians per metre by the slope, and radians per square metre by the distance: at 50 km/h an oscillator of 1.6 rad/s with a damping of 0.9.
const BY_SLOPE: f64 = 0.207;
const BY_DISTANCE: f64 = 0.0132;
/// Seconds from a step until the wheels have turned: the lag of the steering, and that of the bus.
const AHEAD: f64 = 0.1;
/// Radians.
const STEERING_MAX: f64 = 0.5;

/// Metres between the bumper and the obstacle at which the car shall stop.
const REST: f64 = 3.0;
/// m/s^2: the deceleration at which braking begins, and the most that is asked for.
const BRAKE_FROM: f64 = 2.5;
const BRAKE_MOST: f64 = 7.0;
/// m/s^2, to keep a car that stands.
const BRAKE_HOLD: f64 = 2.0;
/// Pictures with an obstacle before the car brakes for it, and the part of a difference that its distance takes from one.
const SIGHTINGS: u32 = 3;
const OBSTACLE_TRUST: f64 = 0.35;

/// Estimator and controller.
#[derive(Clone, Debug)]
pub struct Driver {
    kept: [Belief; KEPT],
    steps: usize,
    /// Metres driven at which the obstacle is reached by the centre of gravity, once it has been seen, and how often.
    obstacle: Option<(f64, u32)>,
    is_braking: bool,
}

impl Default for Driver {
    fn default() -> Self {
        Driver { kept: [Belief::default(); KEPT], steps: 0, obstacle: None, is_braking: false }
    }
}

/// The speed across the car in a steady turn, for each radian per second of yaw.
fn drift_by_yaw(speed: f64) -> f64 {
    REAR - MASS * FRONT * speed * speed / (BASE * CORNERING[1])
}

impl Driver {
    /// A step at the instant `at`, in ns. A `sight` comes once, and may be late.
    pub fn step(&mut self, at: u64, senses: &Senses, sight: Option<&Sight>) -> Command {
        let before = self.kept[self.steps % KEPT];
        let speed = f64::midpoint(senses.wheels[0], senses.wheels[1]);
        let mut now = before.moved(at, speed, senses.yaw);
        if let Some(sight) = sight.filter(|sight| sight.words[0] >= MARKS_MIN) {
            self.correct(&mut now, speed, sight);
        }
        self.steps += 1;
        self.kept[self.steps % KEPT] = now;
        Command { steering: steering(&now, speed, senses.yaw), brake: self.brake(&now, speed) }
    }

    /// Corrects the belief of now by a lane of an earlier instant.
    fn correct(&mut self, now: &mut Belief, speed: f64, sight: &Sight) {
        let kept = self.steps.min(KEPT - 1);
        let newest = |back: usize| &self.kept[(self.steps + KEPT - back) % KEPT];
        // The first belief from the instant of the picture on.
        let then = (0..=kept).map(newest).take_while(|belief| belief.at >= sight.at).last().unwrap_or(newest(0));
        let [left, slope, curvature] = [1, 2, 3].map(|word| f64::from(sight.words[word]) / 1e6);
        let difference = [left - then.left, slope - then.slope, curvature - then.curvature];
        if difference[0].abs() > JUMP {
            return;
        }
        let [left, slope, curvature] = core::array::from_fn(|term| TRUST[term] * difference[term]);
        let way = speed * (now.at.saturating_sub(then.at)) as f64 / 1e9;
        now.left += left + way * (slope + way / 2.0 * curvature);
        now.slope += slope + way * curvature;
        now.curvature += curvature;
        if sight.words[4] > 0 {
            let seen = then.driven + f64::from(sight.words[4]) / 1e3;
            let (place, times) = self.obstacle.unwrap_or((seen, 0));
            self.obstacle = Some((place + OBSTACLE_TRUST * (seen - place), times + 1));
        }
    }

    /// The deceleration that stops the car in time.
    fn brake(&mut self, now: &Belief, speed: f64) -> f64 {
        let Some((place, _)) = self.obstacle.filter(|(_, times)| *times >= SIGHTINGS) else { return 0.0 };
        let room = (place - now.driven - NOSE - REST - speed * 2.0 * AHEAD).max(0.2);
        let needed = speed * speed / (2.0 * room);
        self.is_braking |= needed > BRAKE_FROM;
        if self.is_braking { needed.clamp(BRAKE_HOLD, BRAKE_MOST) } else { 0.0 }
    }
}

impl Belief {
    /// The belief at a later instant, of a car that has moved so meanwhile.
    fn moved(&self, at: u64, speed: f64, yaw: f64) -> Belief {
        // The first step has no instant before.
        let time = if self.at == 0 { 0.0 } else { (at - self.at) as f64 / 1e9 };
        let way = speed * time;
        Belief {
            at,
            left: self.left + way * (self.slope + way / 2.0 * self.curvature) - drift_by_yaw(speed) * yaw * time,
            slope: self.slope + way * self.curvature - yaw * time,
            curvature: self.curvature,
            driven: self.driven + way,
        }
    }
}

/// The angle of the wheels that keeps the lane.
fn steering(now: &Belief, speed: f64, yaw: f64) -> f64 {
    let ahead = now.moved(now.at + (AHEAD * 1e9) as u64, speed, yaw);
    let aside = if speed > 1.0 { drift_by_yaw(speed) * yaw / speed } else { 0.0 };
    let curvature = ahead.curvature + BY_SLOPE * (ahead.slope - aside) + BY_DISTANCE * ahead.left;
    let gradient = MASS * (REAR / CORNERING[0] - FRONT / CORNERING[1]) / BASE;
    ((BASE + gradient * speed * speed) * curvature).clamp(-STEERING_MAX, STEERING_MAX)
}
