//! The controller: steers and brakes, by lanes, speeds of wheels and the yaw rate.
//!
//! A job takes the frames that have come over the bus and the newest lane, and sends a command.
//!
//! Handles: endpoint "bus" (call), regions "sights" and "steps".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use car::drive::{Driver, Senses};
use car::messages::{COMMAND, WHEELS, YAW, command};
use car_tasks::{Newest, SIGHT_BYTES, identifier, read_sight, receive, record, send};
use fusee::can::{Can, Filter};
use fusee::{Instant, Region, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let filters = [WHEELS, YAW].map(|number| Filter::exactly(identifier(number)));
    let can = Can::open(environment.expect("bus"), None, &filters, Instant::NEVER).expect("the controller has a bus");
    let sights = Newest::new(&environment.expect::<Region>("sights"), SIGHT_BYTES);
    let steps = environment.expect::<Region>("steps").shared();
    let (mut driver, mut senses) = (Driver::default(), Senses::default());
    let (mut wheels, mut yaw, mut before) = ([0; 8], [0; 8], 0);
    loop {
        let job = next_job().expect("the controller has jobs");
        receive(&can, |number, data| match number {
            WHEELS => wheels = data,
            _ => yaw = data,
        });
        senses.take_wheels(wheels);
        senses.take_yaw(yaw);
        let sight = sights.read(|_, memory| read_sight(memory)).filter(|(number, _)| *number != before);
        let number = sight.map_or(0, |(number, _)| number);
        before = if number == 0 { before } else { number };
        let wish = driver.step(job.release.0, &senses, sight.as_ref().map(|(_, sight)| sight));
        let data = command(wish, job.number as u32);
        send(&can, COMMAND, data);
        let mut entry = [0; record::STEP];
        let words = [((job.release.0 / 1000) as u32).to_le_bytes(), number.to_le_bytes()];
        entry[..8].copy_from_slice(words.as_flattened());
        entry[8..].copy_from_slice([wheels, yaw, data].as_flattened());
        record::append(&steps, &entry);
    }
}
