//! Shows the stabiliser's frames on a screen, each as soon as it sees that it is there; then ends the demo.
//!
//! Handles: endpoints "screen", "console"; regions "record" (read), "picture" (read, write, lend); notification "received"; "system". Parameters: "count",
//! how many frames are to come; "end_us", when there is no more; "pause_us", how long it sleeps between looks.
//!
//! At the end it says that the picture stands, and waits until something is typed.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use demo::{HEIGHT, WIDTH, record};
use embedded_graphics_core::draw_target::DrawTarget;
use embedded_graphics_core::geometry::{Point, Size};
use embedded_graphics_core::pixelcolor::Gray8;
use embedded_graphics_core::primitives::Rectangle;
use embedded_io::Read;
use fusee::display::Canvas;
use fusee::serial::Serial;
use fusee::{Endpoint, Instant, Nanoseconds, Region, console, environment, now, println, shutdown, sleep_until};

fusee::entry!(main);

fn main() {
    let environment = environment();
    let frames = environment.parameter("count").unwrap_or(0) as usize;
    let end = Instant(environment.parameter("end_us").unwrap_or(1_000_000) * 1_000);
    let pause = Nanoseconds(environment.parameter("pause_us").unwrap_or(10_000) * 1_000);
    let record = environment.expect::<Region>("record").shared();
    let (server, picture) = (environment.expect::<Endpoint>("screen"), environment.expect::<Region>("picture"));
    let mut canvas = Canvas::<Gray8>::open(server, picture, Instant::NEVER).expect("there is a window for us");
    println!("demo: {frames} frames to come");
    let is_done = |frame: usize| record.observe_u32(record::entry(frame)) == 1;
    let frames = frames.min(record::FRAMES);
    let (mut last, mut shown) = (None, 0);
    loop {
        let is_over = now().now >= end;
        let newest = (0..frames).rev().find(|frame| is_done(*frame));
        if let Some(frame) = newest.filter(|_| newest != last) {
            let mut pixels = [0; WIDTH];
            for row in 0..HEIGHT {
                record.copy_to_slice(record::frame(frame) + row * WIDTH, &mut pixels);
                let area = Rectangle::new(Point::new(0, row as i32), Size::new(WIDTH as u32, 1));
                let Ok(()) = canvas.fill_contiguous(&area, pixels.map(Gray8::new));
            }
            canvas.show(Instant::NEVER).expect("the picture fits");
            last = newest;
            shown += 1;
        }
        if is_over {
            break;
        }
        sleep_until(now().now + pause).expect("this task may sleep");
    }
    let done = (0..frames).filter(|frame| is_done(*frame)).count();
    println!("demo: {done} of {frames} frames stabilised");
    match last {
        Some(frame) => println!("screen: frame {frame} is the last of {shown} shown: the picture stands"),
        None => println!("screen: no frame was shown: the picture stands"),
    }
    let mut port = Serial::new(environment.expect(console::NAME), environment.expect("received"));
    port.read(&mut [0]).expect("the port can be read");
    shutdown(environment.expect("system"), 0)
}
