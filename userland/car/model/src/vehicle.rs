//! The car: a bicycle model with tyres that slip, and actuators that need time.
//!
//! # Sources
//! Mass, inertia, axles, tyres and the speed of the steering are those of vehicle 2, a BMW 320i, in Althoff, Koschi, Manzinger: *CommonRoad:
//! Composable Benchmarks for Motion Planning on Roads*, 2017, with its document on vehicle models; the equations are those of its single-track model
//! without a transfer of load. Lateral forces grow linearly with the slip angle up to the limit of friction. At walking pace the model would be
//! singular, so it is replaced there by the kinematic one, as the document does. Brakes follow UN Regulation 13-H, annex 3: the force is there after
//! 0.6 s at the latest; a lag of 0.2 s has 95 % of it by then. The lag of the steering, 0.1 s, is an assumption.

use crate::course;
use crate::numbers::sine_cosine;

/// Kilograms.
pub const MASS: f64 = 1093.3;
/// Kilograms by square metres, about the vertical axis.
pub const INERTIA: f64 = 1791.6;
/// Metres from the centre of gravity to the front axle.
pub const FRONT: f64 = 1.156;
/// Metres from the centre of gravity to the rear axle.
pub const REAR: f64 = 1.422;
/// Metres between the axles.
pub const BASE: f64 = FRONT + REAR;
/// Metres from the centre of gravity to the front of the bumper: half of the length, 4.508 m.
pub const NOSE: f64 = 2.254;
/// Metres between the wheels of an axle.
pub const TRACK: f64 = 1.39;
/// The coefficient of friction.
const FRICTION: f64 = 1.0489;
/// Cornering stiffness of a tyre by its load and friction, in 1/rad.
const STIFFNESS: f64 = 20.89;
/// m/s^2.
const GRAVITY: f64 = 9.81;
/// Loads of both axles, in newtons.
const LOADS: [f64; 2] = [MASS * GRAVITY * REAR / BASE, MASS * GRAVITY * FRONT / BASE];
/// Newtons per radian of slip, of both axles.
pub const CORNERING: [f64; 2] = [FRICTION * STIFFNESS * LOADS[0], FRICTION * STIFFNESS * LOADS[1]];

/// Seconds.
pub const STEERING_LAG: f64 = 0.1;
/// Radians per second, of the wheels.
const STEERING_SPEED: f64 = 0.4;
/// Radians.
const STEERING_MAX: f64 = 0.6;
/// Seconds.
pub const BRAKE_LAG: f64 = 0.2;
/// m/s^2: dry road.
pub const BRAKE_MAX: f64 = 8.0;
/// m/s^2: how the driver's cruise control gains speed.
const THRUST_MAX: f64 = 1.5;
/// Metres per second, below which the kinematic model holds.
const WALKING: f64 = 1.0;

/// Seconds of a step.
pub const STEP: f64 = 0.001;

/// Wishes of a controller to the actuators.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Command {
    /// The angle of the front wheels in radians, to the left.
    pub steering: f64,
    /// The deceleration, in m/s^2. Zero: the car keeps to the [`course::DESIGN_SPEED`].
    pub brake: f64,
}

/// The state of the car. Lengths are metres, times seconds, angles radians to the left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Car {
    /// The place of the centre of gravity.
    pub place: [f64; 2],
    /// The direction of the car.
    pub heading: f64,
    /// The speed along its axis.
    pub speed: f64,
    /// The speed across it, to the left.
    pub drift: f64,
    /// The yaw rate.
    pub yaw: f64,
    /// The angle of the front wheels.
    pub steering: f64,
    /// The acceleration along its axis.
    pub thrust: f64,
    /// Metres along the course of the nearest point of it.
    pub along: f64,
    /// Metres from there, to the left.
    pub offset: f64,
}

impl Car {
    /// A car that stands on the centre of its lane, at the start.
    #[must_use]
    pub fn parked() -> Car {
        let course::Point { place, heading, .. } = course::at(0.0);
        let (zero, along) = (0.0, 0.0);
        let [speed, drift, yaw, steering, thrust, offset] = [zero; 6];
        Car { place, heading, speed, drift, yaw, steering, thrust, along, offset }
    }

    /// A [`STEP`] of time.
    pub fn step(&mut self, command: Command) {
        let wish = (command.steering.clamp(-STEERING_MAX, STEERING_MAX) - self.steering) / STEERING_LAG;
        self.steering += STEP * wish.clamp(-STEERING_SPEED, STEERING_SPEED);
        let wish = if command.brake > 0.0 {
            -command.brake.min(BRAKE_MAX)
        } else {
            (course::DESIGN_SPEED - self.speed).clamp(-1.0, THRUST_MAX)
        };
        self.thrust += STEP / BRAKE_LAG * (wish - self.thrust);
        self.speed = (self.speed + STEP * self.thrust).max(0.0);
        self.turn();
        let (sine, cosine) = sine_cosine(self.heading);
        self.place[0] += STEP * (self.speed * cosine - self.drift * sine);
        self.place[1] += STEP * (self.speed * sine + self.drift * cosine);
        self.heading += STEP * self.yaw;
    }

    /// Yaw rate and drift after a step.
    fn turn(&mut self) {
        if self.speed < WALKING {
            self.yaw = self.speed * self.steering / BASE;
            self.drift = REAR * self.yaw;
            return;
        }
        let slips = [
            self.steering - (self.drift + FRONT * self.yaw) / self.speed,
            -(self.drift - REAR * self.yaw) / self.speed,
        ];
        let [front, rear] = core::array::from_fn(|axle| {
            let limit = FRICTION * LOADS[axle];
            (CORNERING[axle] * slips[axle]).clamp(-limit, limit)
        });
        self.drift += STEP * ((front + rear) / MASS - self.speed * self.yaw);
        self.yaw += STEP * (FRONT * front - REAR * rear) / INERTIA;
    }

    /// Finds the car's place on the course; it has moved by a few metres at most since the last time.
    pub fn locate(&mut self) {
        (self.along, self.offset) = course::nearest(self.place, self.along);
    }

    /// Speeds of the wheels in m/s: front left and right, rear left and right.
    #[must_use]
    pub fn wheels(&self) -> [f64; 4] {
        let half = self.yaw * TRACK / 2.0;
        let (sine, cosine) = sine_cosine(self.steering);
        let front = |side: f64| (self.speed + side) * cosine + (self.drift + FRONT * self.yaw) * sine;
        [front(-half), front(half), self.speed - half, self.speed + half].map(|speed| speed.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curvature by steering of a car in a steady turn: `1 / (l + K v^2)`, with the gradient of understeer K.
    #[test]
    fn a_steady_turn_has_the_radius_of_the_theory() {
        let mut car = Car { speed: course::DESIGN_SPEED, ..Car::parked() };
        (0..5000).for_each(|_| car.step(Command { steering: 0.03, brake: 0.0 }));
        let gradient = MASS * (REAR / CORNERING[0] - FRONT / CORNERING[1]) / BASE;
        let expected = car.speed * 0.03 / (BASE + gradient * car.speed * car.speed);
        assert!((car.yaw - expected).abs() < 1e-3 * expected, "{} and not {expected}", car.yaw);
    }

    #[test]
    fn a_car_stops_as_far_as_its_deceleration_says() {
        let mut car = Car { speed: 10.0, ..Car::parked() };
        (0..5000).for_each(|_| car.step(Command { steering: 0.0, brake: 5.0 }));
        // A lag of the first order costs its length in time.
        let expected = 10.0 * 10.0 / (2.0 * 5.0) + 10.0 * BRAKE_LAG;
        assert!(car.speed == 0.0 && (car.place[0] - expected).abs() < 0.15, "{:?}", car.place);
    }
}
