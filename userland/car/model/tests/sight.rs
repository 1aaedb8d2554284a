//! Lanes and obstacles in pictures, compared with the truth.

use car::camera::View;
use car::course;
use car::see::Seen;
use car::vehicle::Car;
use car_kernels::calibration::{PIXELS, WIDTH};

/// A car at so many metres along the course, so far to the left of the lane's centre and turned to the left.
fn car_at(along: f64, left: f64, turn: f64) -> Car {
    let point = course::at(along);
    let (sine, cosine) = point.direction;
    let place = [point.place[0] - left * sine, point.place[1] + left * cosine];
    let mut car = Car { place, heading: point.heading + turn, along, ..Car::parked() };
    car.locate();
    car
}

fn lane_of(seen: &mut Seen, car: &Car, obstacle: f64, number: u32) -> [i32; car_kernels::LANE_WORDS] {
    let mut picture = [0; PIXELS];
    let view = View::of(car, obstacle, number);
    for (y, row) in picture.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        view.row(y, row);
    }
    seen.look(&picture)
}

#[test]
fn the_lane_is_found_all_around_the_course() {
    let mut seen = Box::new(Seen::default());
    for number in 0..360 {
        let along = f64::from(number) * 2.0;
        let (left, turn) = (f64::from(number % 3 - 1) * 0.3, f64::from(number % 5 - 2) * 0.01);
        let car = car_at(along, left, turn);
        let found = lane_of(&mut seen, &car, along - 1.0, number as u32);
        let here = course::at(along).curvature;
        let errors = [found[1], found[2]].map(|word| f64::from(word) / 1e6);
        let error = (errors[0] + left).abs();
        // A parabola is no transition: there it is off by up to 0.2 m.
        let is_plain = [0.0, 10.0, 20.0, 30.0].map(|ahead| course::at(along + ahead).curvature) == [here; 4];
        assert!(found[0] >= 40, "{number}: {} marks", found[0]);
        assert!(error < if is_plain { 0.16 } else { 0.25 }, "{number}: {error} m at {along} m");
        assert!((errors[1] + turn).abs() < 0.06, "{number}: slope {} and turn {turn}", errors[1]);
        assert_eq!(found[4], 0, "{number}: there is no obstacle");
    }
}

#[test]
fn an_obstacle_is_seen_from_34_metres_on_and_its_distance_is_right_to_six_percent() {
    let mut seen = Box::new(Seen::default());
    for number in 0..200_u32 {
        let ahead = 34.0 - f64::from(number) * 0.14;
        let found = lane_of(&mut seen, &car_at(40.0, 0.0, 0.0), 40.0 + ahead, number);
        let distance = f64::from(found[4]) / 1000.0;
        assert!((distance - ahead).abs() < 0.06 * ahead + 0.2, "{number}: {distance} m and not {ahead}");
    }
}
