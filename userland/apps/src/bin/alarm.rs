//! Waits for the alarm of a real-time clock, and looks how long that took by the kernel's.
//!
//! Handles: endpoint "clock" (call), notification "rung" (wait), the system as "system". Parameter: "seconds", three if absent.
//!
//! Logs `log(1, seconds from the first look to the alarm)` by the real-time clock, `log(2, 1)` if the kernel's clock says the same but for less than
//! 10 ms, `log(3, code)` for an alarm in the past, and `log(4, 1)` if a deadline before the alarm ends the wait.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::rtc::{ClockError, RealTimeClock};
use fusee::{Instant, Nanoseconds, Notification, WaitError, environment, log, now, shutdown};

fusee::entry!(main);

const SECOND: u64 = 1_000_000_000;
/// 2025-01-01: an earlier date is none of a host that runs this.
const PAST: u32 = 1_735_689_600;

fn main() {
    let environment = environment();
    let clock = RealTimeClock::new(environment.expect("clock"));
    let rung = environment.expect::<Notification>("rung");
    let seconds = environment.parameter("seconds").unwrap_or(3) as u32;

    // From the beginning of one second to that of another.
    let first = clock.seconds().expect("the clock can be read") + 1;
    assert!(first > PAST, "the clock shows {first}");
    clock.wait_until(first, &rung, Instant::NEVER).expect("the alarm rings");
    let (start, started) = (clock.seconds().expect("the clock can be read"), now().now);
    clock.wait_until(start + seconds, &rung, Instant::NEVER).expect("the alarm rings again");
    let took = now().now.0 - started.0;
    log(1, (clock.seconds().expect("the clock can be read") - start).into());
    log(2, (took.abs_diff(u64::from(seconds) * SECOND) < SECOND / 100).into());

    let refused = clock.wait_until(start, &rung, Instant::NEVER);
    log(3, if let Err(ClockError::Refused(refusal)) = refused { refusal as u64 } else { 0 });
    let late = start + 2 * seconds + 60;
    let missed = clock.wait_until(late, &rung, now().now + Nanoseconds(SECOND / 10));
    log(4, (missed == Err(ClockError::Wait(WaitError::TimedOut))).into());
    shutdown(environment.expect("system"), 0)
}
