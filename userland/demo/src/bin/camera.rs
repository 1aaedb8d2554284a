//! The camera: a frame each period, then a job of the stabiliser.
//!
//! Handles: region "frames" (the stabiliser's buffer), task "stabiliser". Parameter: "count", how many.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::{HEIGHT, WIDTH, buffer, render_row};
use fusee::{Region, ReleaseJobError, Task, environment, next_job};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let frames = environment.expect::<Region>("frames").shared();
    let stabiliser = environment.expect::<Task>("stabiliser");
    let count = environment.parameter("count").unwrap_or(u64::MAX);
    let mut frame: u32 = 0;
    loop {
        let job = next_job().expect("the camera is periodic");
        // A frame that was missed is gone: the next one shows the world as it is now.
        frame = frame.wrapping_add(job.skipped as u32);
        if u64::from(frame) >= count {
            continue;
        }
        let mut row = [0; WIDTH];
        for y in 0..HEIGHT {
            render_row(frame, y, &mut row);
            frames.copy_from_slice(buffer::slot(frame) + y * WIDTH, &row);
        }
        frame += 1;
        frames.publish_u32(buffer::DELIVERED, frame);
        match stabiliser.release_job() {
            // The frame is lost, and the kernel counts it: a camera does not wait. Nor does it end with the task that looks at its frames.
            Ok(()) | Err(ReleaseJobError::BacklogFull | ReleaseJobError::PeerDied) => {}
            Err(error) => panic!("the stabiliser takes releases: {error:?}"),
        }
    }
}
