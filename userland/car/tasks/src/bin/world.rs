//! The world: a car on its course, which moves on whether or not anybody steers it.
//!
//! A job moves the car by the time since the job before, with the command that this one had, takes the commands that have come over the bus since, and
//! sends speeds of wheels and yaw rate. The place of the car is for the camera alone. When the course is over, the world signals that.
//!
//! Handles: endpoint "bus" (call), regions "place" and "course", notification "over" (signal).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use car::messages::{COMMAND, WHEELS, YAW, command_of};
use car::world::{PERIOD, World};
use car_tasks::{Newest, PLACE_BYTES, Stamp, identifier, receive, record, send, write_place};
use fusee::can::{Can, Filter};
use fusee::{Instant, Notification, Region, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let filters = [Filter::exactly(identifier(COMMAND))];
    let can = Can::open(environment.expect("bus"), None, &filters, Instant::NEVER).expect("the car has a bus");
    let place = Newest::new(&environment.expect::<Region>("place"), PLACE_BYTES);
    let course = environment.expect::<Region>("course").shared();
    let over = environment.expect::<Notification>("over");
    let (mut world, mut held) = (World::default(), [0; 8]);
    let mut first = None;
    loop {
        let job = next_job().expect("the world has jobs");
        // A release that was dropped is no time that has not passed.
        let begin = *first.get_or_insert(job.release.0);
        let steps = ((job.release.0 - begin) / PERIOD) as u32 + 1;
        while world.result.steps < steps && !world.is_over() {
            world.step(command_of(held).0);
            record::command(&course, world.result.steps, held);
        }
        receive(&can, |_, data| held = data);
        let [wheels, yaw] = world.senses();
        send(&can, WHEELS, wheels);
        send(&can, YAW, yaw);
        if world.is_picture() {
            let stamp = Stamp { at: job.release.0, number: world.result.steps };
            place.write(|memory| write_place(memory, stamp, &world.car));
        }
        record::head(&course, &world.result, world.room(), begin);
        if world.is_over() {
            over.signal(1).expect("the manifest gives this right");
        }
    }
}
