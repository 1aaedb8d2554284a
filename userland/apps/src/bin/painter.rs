//! Draws on a screen, or makes requests that cannot be drawn.
//!
//! Handles: endpoint "screen" (call), region "picture" (read, write, lend). Parameter "role":
//!
//! - 0 draws in grey, 1 in colours and then a part anew; then signals "shown". Log: `log(1, code)` for each picture, zero or the code of a refusal.
//! - 2 waits for "shown" until `clients` have signalled it, a bit each; says that the picture stands, waits for a line that is typed, and ends the system.
//!   Handles: endpoint "console", notifications "shown", "received"; "system".
//! - 3 shows its colours, and then makes impossible requests: `log(2, code)` for each. Its region "other" is one that the server has no place for; then signals.
//! - 4 shows pictures of one colour, with deadlines of which most pass in the middle, and overwrites each at once: logs `log(3, 1)` if some passed, and
//!   `log(4, 1)` if some did not. The last ones pass. "rounds", at most 200; "step_us". Then signals.
//! - 5 shows pictures of one colour for ever, and signals "begun" right before the second.
//! - 6 waits for "begun", stops "victim" "delay_us" later, and shows the grey scene: `log(5, code)`. Then signals.
//! - 7 shows the grey scene "times" times, `log(6, code)` for each, then signals.
//! - 8 shows the grey scene "times" times, and again each one that its server's death has cut short; logs `log(7, times that it was shown)`, then signals.
//!
//! Parameter "bit": which bit of "shown" is signalled.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::scenes;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::pixelcolor::{Gray8, Rgb888};
use embedded_graphics::prelude::*;
use embedded_io::Read;
use fusee::display::{self, Canvas, Display, DisplayError, Format, Picture, Refusal};
use fusee::serial::Serial;
use fusee::{
    CallLendingError, Endpoint, Environment, Instant, Nanoseconds, Notification, Region, Rights, Task, console,
    environment, log, now, println, shutdown, sleep_until,
};

fusee::entry!(main);

const NEVER: Instant = Instant::NEVER;

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to do") {
        0 => tell(1, draw_grey(&environment)),
        1 => draw_colours(&environment),
        2 => wait_and_end(&environment),
        3 => be_mistaken(&environment),
        4 => be_late(&environment),
        5 => go_on_for_ever(&environment),
        6 => stop_another(&environment),
        7 => (0..environment.parameter("times").unwrap_or(1)).for_each(|_| tell(6, draw_grey(&environment))),
        8 => show_again(&environment),
        unknown => panic!("no role has the number {unknown}"),
    }
    let shown = environment.expect::<Notification>("shown");
    shown.signal(1 << environment.parameter("bit").unwrap_or(0)).expect("this task may say that it is done");
}

/// The canvas that the task draws on.
fn canvas<C: display::Colour>(environment: &Environment) -> Result<Canvas<C>, DisplayError> {
    let server = environment.expect::<Endpoint>("screen");
    Canvas::open(server, environment.expect::<Region>("picture"), NEVER)
}

fn draw_grey(environment: &Environment) -> Result<(), DisplayError> {
    let mut canvas = canvas::<Gray8>(environment)?;
    let Ok(()) = scenes::grey(&mut canvas);
    canvas.show(NEVER)
}

fn draw_colours(environment: &Environment) {
    let mut canvas = canvas::<Rgb888>(environment).expect("the window is on the screen");
    let Ok(()) = scenes::colours(&mut canvas);
    tell(1, canvas.show(NEVER));
    let Ok(()) = scenes::part(&mut canvas);
    tell(1, canvas.show_part(&scenes::PART, NEVER));
}

fn wait_and_end(environment: &Environment) {
    let shown = environment.expect::<Notification>("shown");
    let mut missing = (1 << environment.parameter("clients").unwrap_or(1)) - 1;
    while missing != 0 {
        missing &= !shown.wait(NEVER).expect("this task may wait");
    }
    let mut port = Serial::new(environment.expect(console::NAME), environment.expect("received"));
    println!("the picture stands");
    port.read(&mut [0]).expect("the port can be read");
    shutdown(environment.expect("system"), 0)
}

fn be_mistaken(environment: &Environment) {
    let mut own = canvas::<Rgb888>(environment).expect("the window is on the screen");
    let Ok(()) = scenes::colours(&mut own);
    own.show(NEVER).expect("this can be shown");

    let server = environment.expect::<Endpoint>("screen");
    let memory = environment.expect::<Region>("picture");
    memory.shared().fill(0, memory.shared().len(), 0xee);
    let mut display = Display::open(server, memory, NEVER).expect("the window is on the screen");
    let window = display.window();
    let whole = Picture::whole(Format::Xrgb8888, window);
    let far = u32::MAX;
    let point = |column, row| display::Point { column, row };
    let size = |width, height| display::Size { width, height };
    let wrong = [
        Picture { size: size(0, 1), ..whole },
        // Too large for the window, and at places where it does not fit.
        Picture { size: size(window.width + 1, 1), stride: window.width + 1, ..whole },
        Picture { size: size(far, far), stride: far, ..whole },
        Picture { at: point(1, 0), ..whole },
        Picture { at: point(0, far), ..whole },
        Picture { at: point(far, far), size: size(1, 1), ..whole },
        // Not in the region.
        Picture { offset: memory.bytes(), size: size(1, 1), ..whole },
        Picture { offset: u64::MAX, ..whole },
        Picture { stride: far, ..whole },
        Picture { stride: window.width - 1, ..whole },
        // Where the stamp is.
        Picture { offset: memory.bytes() - 8, size: size(1, 1), ..whole },
    ];
    for picture in wrong {
        tell(2, display.show(&picture, NEVER));
    }
    // The server has no place for it, so the kernel refuses; one that is too small for its window; one with a window outside the screen; one with the
    // window of another.
    tell(2, Display::open(server, environment.expect::<Region>("other"), NEVER).map(drop));
    for name in ["small", "beyond", "over"] {
        tell(2, Canvas::<Rgb888>::open(server, environment.expect::<Region>(name), NEVER).map(drop));
    }
    // Words of its own: without a region, with a wrong stamp, of no meaning.
    let raw = |words| {
        let answer = server.call_lending(words, &memory, Rights::READ, NEVER).expect("the server answers");
        log(2, answer.words[0]);
    };
    let pixel = 1 | 1 << 32;
    raw([1 | 1 << 8, pixel, 0, 0, 1234, 1]);
    raw([1 | 2 << 8, pixel, 0, 0, 1234, 1]);
    raw([u64::MAX; 6]);
    let words = server.call([1 | 1 << 8, pixel, 0, 0, 0, 1], NEVER).expect("the server answers");
    log(2, words[0]);
}

fn be_late(environment: &Environment) {
    let mut canvas = canvas::<Rgb888>(environment).expect("the window is on the screen");
    let [rounds, step] = ["rounds", "step_us"].map(|name| environment.parameter(name).unwrap_or(10));
    let (mut late, mut in_time) = (0, 0);
    for round in 0..rounds {
        let Ok(()) = canvas.clear(scenes::plain(round));
        // The first has time enough; then they have less and less.
        let deadline = if round == 0 { NEVER } else { now().now + Nanoseconds((rounds - round) * step * 1_000) };
        match canvas.show(deadline) {
            Ok(()) => in_time += 1,
            Err(DisplayError::Call(CallLendingError::TimedOut)) => late += 1,
            Err(error) => panic!("the screen shows what fits: {error:?}"),
        }
        // The memory that the server reads now is of no picture.
        let Ok(()) = canvas.clear(Rgb888::WHITE);
    }
    log(3, u64::from(late > 0));
    log(4, u64::from(in_time > 0));
}

fn go_on_for_ever(environment: &Environment) {
    let mut canvas = canvas::<Rgb888>(environment).expect("the window is on the screen");
    for round in 0.. {
        let Ok(()) = canvas.clear(scenes::plain(round % 200));
        // The next it asks for is that the second picture be shown.
        if round == 1 {
            environment.expect::<Notification>("begun").signal(1).expect("this task may say that it has begun");
        }
        canvas.show(NEVER).expect("this can be shown");
    }
}

fn show_again(environment: &Environment) {
    let (pause, times) = (Nanoseconds(200_000), environment.parameter("times").unwrap_or(1));
    let mut canvas = loop {
        match canvas::<Gray8>(environment) {
            Ok(canvas) => break canvas.again(1_000, pause),
            Err(DisplayError::Call(CallLendingError::PeerDied)) => {
                sleep_until(now().now + pause).expect("this task may sleep");
            }
            Err(DisplayError::Call(CallLendingError::PeerRestarted)) => {}
            Err(error) => panic!("there is a window: {error:?}"),
        }
    };
    let Ok(()) = scenes::grey(&mut canvas);
    let shown = (0..times).filter(|_| canvas.show(NEVER).is_ok()).count();
    log(7, shown as u64);
}

fn stop_another(environment: &Environment) {
    environment.expect::<Notification>("begun").wait(NEVER).expect("the victim begins");
    let delay = Nanoseconds(environment.parameter("delay_us").unwrap_or(0) * 1_000);
    sleep_until(now().now + delay).expect("this task may sleep");
    environment.expect::<Task>("victim").stop().expect("the victim may be stopped");
    tell(5, draw_grey(environment));
}

fn tell(number: u64, result: Result<(), DisplayError>) {
    let code = match result {
        Ok(()) => 0,
        Err(DisplayError::Refused(refusal)) => Refusal::code(refusal),
        Err(DisplayError::Call(_)) => 100,
    };
    log(number, code);
}
