//! The course: a closed road with two bends, as a curve in the plane.
//!
//! Two straights and two half turns. A half turn is an arc with a transition before and after it, along which the curvature grows by a
//! constant rate. The second half of the course is the first one, turned by half a turn.
//!
//! # Source
//! AASHTO, *A Policy on Geometric Design of Highways and Streets*, 2011, section 3.3, for a design speed of 50 km/h: side friction 0.19 and
//! superelevation 0.06 give a radius of `V^2 / (127 (e + f))`, which is 79 m; the desirable length of a transition is that of two seconds, 28 m.
//! The road of this model is level: so the car needs all of the lateral acceleration, 2.44 m/s^2, from its tyres.

use crate::numbers::sine_cosine;

/// Metres per second: 50 km/h.
pub const DESIGN_SPEED: f64 = 50.0 / 3.6;
/// Radius of the arcs, in metres.
pub const RADIUS: f64 = 79.0;
/// Length of a transition, in metres.
pub const TRANSITION: f64 = 28.0;
/// Length of a straight, in metres.
pub const STRAIGHT: f64 = 100.0;
/// Length of an arc, in metres: with both transitions it turns by half a turn.
pub const ARC: f64 = core::f64::consts::PI * RADIUS - TRANSITION;
/// Length of half of the course, in metres.
pub const HALF: f64 = STRAIGHT + TRANSITION + ARC + TRANSITION;
/// Length of the course, in metres.
pub const LENGTH: f64 = 2.0 * HALF;

/// Where each part of a half begins, its curvature there in 1/m, and how that changes, in 1/m^2.
const PARTS: [(f64, f64, f64); 4] = [
    (0.0, 0.0, 0.0),
    (STRAIGHT, 0.0, 1.0 / RADIUS / TRANSITION),
    (STRAIGHT + TRANSITION, 1.0 / RADIUS, 0.0),
    (STRAIGHT + TRANSITION + ARC, 1.0 / RADIUS, -1.0 / RADIUS / TRANSITION),
];

/// Metres between two entries of [`PLACES`].
const STEP: f64 = 0.5;
const STEPS: usize = (HALF / STEP) as usize + 2;
/// Places of the centre of the lane along the first half.
static PLACES: [[f64; 2]; STEPS] = places();

/// A point of the centre of the lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// To the east and to the north, in metres.
    pub place: [f64; 2],
    /// The direction of the lane, from east to north, in radians, within a half of the course.
    pub heading: f64,
    /// Its sine and cosine.
    pub direction: (f64, f64),
    /// In 1/m; positive in a bend to the left.
    pub curvature: f64,
}

/// Heading and curvature at so many metres of the first half.
const fn bend(along: f64) -> (f64, f64) {
    let (mut heading, mut at) = (0.0, 0);
    while at + 1 < PARTS.len() && along >= PARTS[at + 1].0 {
        let length = PARTS[at + 1].0 - PARTS[at].0;
        heading += length * (PARTS[at].1 + PARTS[at].2 * length / 2.0);
        at += 1;
    }
    let (begin, curvature, change) = PARTS[at];
    let length = along - begin;
    (heading + length * (curvature + change * length / 2.0), curvature + change * length)
}

/// Integrates the direction by Simpson's rule.
const fn places() -> [[f64; 2]; STEPS] {
    let mut places = [[0.0; 2]; STEPS];
    let mut at = 1;
    while at < STEPS {
        let begin = (at - 1) as f64 * STEP;
        let [first, middle, last] =
            [sine_cosine(bend(begin).0), sine_cosine(bend(begin + STEP / 2.0).0), sine_cosine(bend(begin + STEP).0)];
        let [x, y] = places[at - 1];
        places[at] = [
            x + STEP / 6.0 * (first.1 + 4.0 * middle.1 + last.1),
            y + STEP / 6.0 * (first.0 + 4.0 * middle.0 + last.0),
        ];
        at += 1;
    }
    places
}

/// The point at so many metres along the course, which are less than some laps in both directions.
#[must_use]
pub fn at(along: f64) -> Point {
    let laps = along / LENGTH;
    let lap = laps as i64 - i64::from(laps < 0.0);
    let along = (along - lap as f64 * LENGTH).clamp(0.0, LENGTH);
    let is_second = along >= HALF;
    let along = if is_second { along - HALF } else { along };
    let (heading, curvature) = bend(along);
    let index = ((along / STEP) as usize).min(STEPS - 2);
    // From the entry before, on a circle.
    let begin = index as f64 * STEP;
    let [x, y] = PLACES[index];
    let (rest, (sine, cosine)) = (along - begin, sine_cosine(bend(begin + (along - begin) / 2.0).0));
    let place = [x + rest * cosine, y + rest * sine];
    let direction = sine_cosine(heading);
    match is_second {
        false => Point { place, heading, direction, curvature },
        true => {
            let end = half_way();
            let place = [end[0] - place[0], end[1] - place[1]];
            let heading = heading + core::f64::consts::PI;
            Point { place, heading, direction: (-direction.0, -direction.1), curvature }
        }
    }
}

/// The place at the end of the first half.
fn half_way() -> [f64; 2] {
    let index = STEPS - 2;
    let begin = index as f64 * STEP;
    let rest = HALF - begin;
    let (sine, cosine) = sine_cosine(bend(begin + rest / 2.0).0);
    [PLACES[index][0] + rest * cosine, PLACES[index][1] + rest * sine]
}

/// The point of the course that is nearest to `place`, as metres along it, and the distance to the left of it; `near` is a few metres from it.
#[must_use]
pub fn nearest(place: [f64; 2], near: f64) -> (f64, f64) {
    let mut along = near;
    for _ in 0..3 {
        let point = at(along);
        let (forward, left) = point.seen_from(place);
        along += forward / (1.0 - point.curvature * left);
    }
    (along, at(along).seen_from(place).1)
}

impl Point {
    /// The place, from this point: along the lane and to the left of it.
    #[must_use]
    pub fn seen_from(&self, place: [f64; 2]) -> (f64, f64) {
        let (east, north) = (place[0] - self.place[0], place[1] - self.place[1]);
        let (sine, cosine) = self.direction;
        (east * cosine + north * sine, north * cosine - east * sine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_is_closed_and_has_no_corner() {
        let (begin, end) = (at(0.0), at(LENGTH - 1e-9));
        assert!(begin.seen_from(end.place).0.abs() < 1e-6 && begin.seen_from(end.place).1.abs() < 1e-6);
        let mut before = begin;
        for step in 1..(LENGTH * 10.0) as u32 {
            let point = at(f64::from(step) * 0.1);
            let (forward, left) = before.seen_from(point.place);
            assert!((forward - 0.1).abs() < 1e-5 && left.abs() < 1e-4, "{step}: {forward} {left}");
            assert!((point.curvature - before.curvature).abs() <= 0.1 / RADIUS / TRANSITION + 1e-12);
            before = point;
        }
    }

    #[test]
    fn the_nearest_point_is_found_beside_each_part() {
        for step in 0..700 {
            let (along, left) = (f64::from(step) + 0.3, f64::from(step % 7) * 0.4 - 1.2);
            let Point { place: [x, y], direction: (sine, cosine), .. } = at(along);
            let (found, distance) = nearest([x - left * sine, y + left * cosine], along + 1.0);
            assert!((found - along).abs() < 1e-4 && (distance - left).abs() < 1e-4, "{step}: {found} {distance}");
        }
    }
}
