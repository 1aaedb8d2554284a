//! Uses a device again and again and logs the cost, in instructions, less the code around it: null system calls (0), kicks by a call where there are
//! some (1), and submitting launches of kernels with no, four and sixteen words of arguments, from the typed call until the device is to be kicked (2 to
//! 4). With the kick the client gives the emulator's turn to the device, and the device's instructions would count, too.
//!
//! Handles: engine "ee"; the notification "kick" where a device is kicked by a call; system "system", which it ends; the region "buffer", which is
//! `buffer.<this task>` of the driver.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::hint::black_box;

use apps::least;
use fusee::abi::call::Call;
use fusee::gpu::compute::{Kernel, Output, arguments};
use fusee::gpu::{Buffer, Context, Work};
use fusee::{
    Engine, Instant, Kick, Nanoseconds, Notification, Region, System, counter, environment, log, now, null, raw,
    shutdown, sleep_until,
};

fusee::entry!(main);

const SAMPLES: usize = 64;
/// How long the driver takes to begin, at most.
const BEGINNING: Nanoseconds = Nanoseconds(2_000_000);

macro_rules! kernels {
    ($($name:ident $label:literal { $($field:ident)* })*) => {$(
        arguments! {
            /// A kernel that the device does not have, so that it refuses it at once.
            struct $name { $($field: u32),* }
        }

        impl Kernel for $name {
            const NAME: &'static str = $label;
            type Views<'m> = (Output<'m, u8>,);

            fn elements(&self) -> [usize; 1] {
                [8]
            }

            fn blocks(&self) -> u32 {
                1
            }

            fn block(&self, _: u32, _: Self::Views<'_>) {}
        }
    )*};
}

kernels! {
    None "none" {}
    Four "four" { a b c d }
    Sixteen "sixteen" { a b c d e f g h i j k l m n o p }
}

fn main() {
    let environment = environment();
    sleep_until(now().now + BEGINNING).expect("sleeping is allowed");
    let around = least(SAMPLES, || {
        raw::untrapped::plain(Call::Null as u64, 0, 0);
    });
    log(0, least(SAMPLES, null) - around);
    if let Ok(kick) = environment.get::<Notification>("kick") {
        log(1, least(SAMPLES, || kick.signal(1).expect("a client may kick")) - around);
    }
    let engine: Engine = environment.expect("ee");
    let context = Context::of(&environment).expect("this task is a client of the device").unheard();
    let kick = Kick::of(&environment).expect("a client may kick");
    let mut buffer = Buffer::of(&environment.expect::<Region>("buffer"));
    let four = Four { a: 1, b: 2, c: 3, d: 4 };
    let (a, b, c, d) = (1, 2, 3, 4);
    let sixteen = Sixteen { a, b, c, d, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10, k: 11, l: 12, m: 13, n: 14, o: 15, p: 16 };
    log(2, submitting((&context, &kick), &engine, &mut buffer, None {}));
    log(3, submitting((&context, &kick), &engine, &mut buffer, four));
    log(4, submitting((&context, &kick), &engine, &mut buffer, sixteen));
    shutdown(environment.expect::<System>("system"), 0)
}

/// The shortest of several times that it takes to submit a launch.
fn submitting<K>((context, kick): (&Context, &Kick), engine: &Engine, buffer: &mut Buffer, kernel: K) -> u64
where
    K: for<'m> Kernel<Views<'m> = (Output<'m, u8>,)>,
{
    let mut shortest = u64::MAX;
    for _ in 0..SAMPLES {
        let guard = engine.acquire(Instant::NEVER).expect("nobody else uses it");
        let before = counter();
        let pending =
            context.submit(&guard, Work::launch(black_box(kernel), (&mut *buffer,))).expect("the ring is empty");
        shortest = shortest.min(counter() - before);
        kick.send();
        assert!(pending.wait().is_err(), "the device has no such kernel");
        guard.release().expect("we hold it");
    }
    shortest - least(SAMPLES, || ())
}
