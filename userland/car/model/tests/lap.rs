//! The loop closes on the host: pictures, lanes, controller and car, with the times that tasks on a board need.

use std::collections::VecDeque;

use car::camera::View;
use car::drive::{Driver, Senses, Sight};
use car::messages;
use car::see::Seen;
use car::vehicle::Command;
use car::world::{OBSTACLE, PERIOD, Result, World};
use car_kernels::calibration::{PIXELS, WIDTH};

/// The times of a loop, in steps of the world.
#[derive(Clone, Copy)]
struct Times {
    /// From a picture until the controller has its lane.
    lane: u32,
    /// From a step of the controller until the world has its command.
    command: usize,
    /// Of so many pictures one is seen.
    every: u32,
}

/// Drives the course, and returns the result and the room before the obstacle.
fn drive(times: Times) -> (Result, f64) {
    let (mut world, mut driver, mut seen) = (World::default(), Driver::default(), Box::new(Seen::default()));
    let (mut senses, mut sights, mut commands) = (Senses::default(), VecDeque::new(), VecDeque::new());
    let mut command = Command::default();
    let mut picture = vec![0; PIXELS];
    while !world.is_over() {
        world.step(command);
        let number = world.result.steps;
        let [wheels, yaw] = world.senses();
        senses.take_wheels(wheels);
        senses.take_yaw(yaw);
        if world.is_picture() && (number / car::world::PICTURE).is_multiple_of(times.every) {
            let view = View::of(&world.car, OBSTACLE, number);
            for (y, row) in picture.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                view.row(y, row);
            }
            let words = seen.look(picture.first_chunk().unwrap());
            sights.push_back((number + times.lane, Sight { at: u64::from(number) * PERIOD, words }));
        }
        let is_there = |(at, _): &(u32, Sight)| *at <= number;
        let sight = sights.pop_front_if(|sight| is_there(sight)).map(|(_, sight)| sight);
        commands.push_back(driver.step(u64::from(number) * PERIOD, &senses, sight.as_ref()));
        if commands.len() > times.command {
            command = messages::command_of(messages::command(commands.pop_front().unwrap(), number)).0;
        }
    }
    (world.result, world.room())
}

#[test]
fn the_car_keeps_its_lane_and_stops_before_the_obstacle() {
    for lane in [4, 12] {
        let (result, room) = drive(Times { lane, command: 1, every: 1 });
        assert!(result.worst <= 0.25, "{} m at {} m", result.worst, result.worst_at);
        assert!((0.5..6.0).contains(&room), "{room} m are left");
        assert!((55.0..65.0).contains(&(f64::from(result.steps) * PERIOD as f64 / 1e9)));
    }
}

/// The loop is a loop: a controller that sees too late leaves the lane.
#[test]
fn a_car_that_sees_one_picture_of_three_half_a_second_late_leaves_its_lane() {
    let (result, _) = drive(Times { lane: 100, command: 1, every: 3 });
    assert!(result.worst > 1.0, "{} m", result.worst);
}
