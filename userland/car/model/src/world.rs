//! The world: the car on its course, step by step, and the record of how it went.
//!
//! The world steps by the clock, with the command that it has received last, and waits for no task.

use crate::course;
use crate::messages;
use crate::numbers::random;
use crate::vehicle::{Car, Command, NOSE, STEP};

/// Nanoseconds between two steps of the world, and steps of the [car](Car::step) in one of these.
pub const PERIOD: u64 = 5_000_000;
const STEPS: u32 = (PERIOD as f64 / 1e9 / STEP + 0.5) as u32;
/// Steps of the world from a picture to the next: 33 pictures a second.
pub const PICTURE: u32 = 6;
/// Metres along the course at which the car starts: a straight is left for it to gain speed.
pub const START: f64 = 70.0;
/// Metres along the course of the obstacle, a lap later.
pub const OBSTACLE: f64 = 60.0;
/// Steps for which the car stands before the course ends, and the most that it takes.
const REST: u32 = 200;
const STEPS_MAX: u32 = 18_000;
/// rad/s: the standard deviation of the yaw rate's noise, of a sensor with 0.005 degrees per second and root hertz in a band of 100 Hz.
const YAW_NOISE: f64 = 0.0009;

/// The course as it was driven.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Result {
    /// Steps of the world.
    pub steps: u32,
    /// Metres of lateral error: the largest one, and where along the course.
    pub worst: f64,
    /// See [`Result::worst`].
    pub worst_at: f64,
    /// The sum of the squares of all lateral errors.
    pub squares: f64,
    /// Metres driven, and the highest speed in m/s.
    pub driven: f64,
    /// See [`Result::driven`].
    pub fastest: f64,
    /// Metres driven from the first command to brake on.
    pub braked: f64,
}

/// The car in its world.
#[derive(Clone, Debug)]
pub struct World {
    /// The car.
    pub car: Car,
    /// How it has gone.
    pub result: Result,
    noise: u64,
    rest: u32,
}

impl Default for World {
    fn default() -> Self {
        let course::Point { place, heading, .. } = course::at(START);
        let car = Car { place, heading, along: START, ..Car::parked() };
        World { car, result: Result::default(), noise: 1, rest: 0 }
    }
}

impl World {
    /// A step of [`PERIOD`].
    pub fn step(&mut self, command: Command) {
        let car = &mut self.car;
        for _ in 0..STEPS {
            car.step(command);
            let way = STEP * car.speed;
            self.result.driven += way;
            self.result.braked += if command.brake > 0.0 || self.result.braked > 0.0 { way } else { 0.0 };
        }
        car.locate();
        let (result, error) = (&mut self.result, car.offset.abs());
        if error > result.worst {
            (result.worst, result.worst_at) = (error, car.along);
        }
        result.squares += error * error;
        result.steps += 1;
        result.fastest = if car.speed > result.fastest { car.speed } else { result.fastest };
        self.rest = if car.speed == 0.0 && result.driven > 1.0 { self.rest + 1 } else { 0 };
    }

    /// Whether a picture is taken after this step.
    #[must_use]
    pub fn is_picture(&self) -> bool {
        self.result.steps.is_multiple_of(PICTURE)
    }

    /// Data of the frames that the car sends after a step: wheels and yaw rate.
    pub fn senses(&mut self) -> [[u8; 8]; 2] {
        // Nearly normal: the sum of four numbers.
        let parts = random(&mut self.noise);
        let sum: u64 = [0, 16, 32, 48].map(|bits| parts >> bits & 0xFFFF).iter().sum();
        let deviates = (sum as f64 / 65_535.0 - 2.0) / 0.577_35;
        [messages::wheels(&self.car), messages::yaw(&self.car, deviates * YAW_NOISE, self.result.steps)]
    }

    /// Metres from the bumper to the obstacle: negative, if the car has run into it.
    #[must_use]
    pub fn room(&self) -> f64 {
        OBSTACLE + course::LENGTH - START - self.along() - NOSE
    }

    /// Metres along the course since the start.
    fn along(&self) -> f64 {
        self.car.along - START
    }

    /// Whether the course has ended: the car stands, or has driven into the obstacle, or off the road, or for too long.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_off = self.car.offset.abs() > 20.0;
        self.rest >= REST || self.room() < -5.0 || is_off || self.result.steps >= STEPS_MAX
    }
}
