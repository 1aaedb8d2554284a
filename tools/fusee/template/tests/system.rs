//! The whole system in virtual time, on this host: `cargo test` runs it in milliseconds.

use std::time::Duration;

use fusee_sim::System;

#[test]
fn no_job_of_beat_is_late_and_each_tenth_prints_a_line() -> Result<(), fusee_sim::Error> {
    let mut system = System::load("system.toml")?;
    // Numbers of the manifest may be others in a test.
    system.set("tasks.beat.parameters.jobs", 20)?;
    // Programs that use a device of the board are not in this test: the simulator has no model of most devices.
    let mut run = system.leave_out_unsuited()?.start()?;
    assert_eq!(run.until_end(Duration::from_secs(1))?, 0);
    assert_eq!(run.misses(), []);
    assert_eq!(run.console().matches("beat: job").count(), 2);
    assert!(run.latest_completion("beat")? <= Some(Duration::from_millis(5)));
    Ok(())
}
