//! The camera: takes a picture of the road from the place of the car, whether or not anybody looks at it.
//!
//! Handles: regions "place" and "pictures".
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use car::camera::View;
use car::world::OBSTACLE;
use car_kernels::calibration::{HEIGHT, WIDTH};
use car_tasks::{Newest, PICTURE_BYTES, PLACE_BYTES, STAMP_BYTES, read_place};
use fusee::{Region, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let place = Newest::new(&environment.expect::<Region>("place"), PLACE_BYTES);
    let pictures = Newest::new(&environment.expect::<Region>("pictures"), PICTURE_BYTES);
    loop {
        next_job().expect("the camera has jobs");
        let Some((stamp, car)) = place.read(|_, memory| read_place(memory)) else { continue };
        let view = View::of(&car, OBSTACLE, stamp.number);
        pictures.write(|memory| {
            stamp.write(memory);
            let mut row = [0; WIDTH];
            for y in 0..HEIGHT {
                view.row(y, &mut row);
                memory.copy_from_slice(STAMP_BYTES + y * WIDTH, &row);
            }
        });
    }
}
