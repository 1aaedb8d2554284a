//! CPU time of the host that a thread has used, programs that it ran included.
//!
//! A thread reads its own clock; a program's time is read once the program has ended and before its entry is gone, from `/proc`. Where there is
//! no `/proc`, programs count for nothing.

use std::cell::Cell;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::time::{ClockId, clock_gettime};

thread_local! {
    /// Time of programs that this thread has waited for.
    static PROGRAMS: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time of this thread so far, and of the programs that it has waited for.
pub fn used() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let own = Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0));
    own + PROGRAMS.get()
}

/// Adds time that another thread has used for this one.
pub fn add(time: Duration) {
    PROGRAMS.set(PROGRAMS.get() + time);
}

/// Adds the time of a program that has ended and has not been waited for.
pub fn count(child: &Child) {
    add(time_of(child.id()).unwrap_or_default());
}

/// Waits for a program to end, and counts its time.
///
/// # Errors
/// The program cannot be waited for.
pub fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // An error shows in the wait that follows.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        count(child);
    }
    child.wait()
}

/// Runs a program, and counts its time.
///
/// # Errors
/// The program does not start.
pub fn status(command: &mut Command) -> std::io::Result<ExitStatus> {
    wait(&mut command.spawn()?)
}

/// Runs a program and reads its output; its time is counted.
///
/// # Errors
/// The program does not start, or its output cannot be read.
pub fn output(command: &mut Command) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut out, mut errors) = (child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| errors.as_mut().map_or(Ok(0), |pipe| pipe.read_to_end(&mut stderr)));
        let first = out.as_mut().map_or(Ok(0), |pipe| pipe.read_to_end(&mut stdout));
        first.and(reader.join().unwrap_or(Ok(0)))
    })?;
    Ok(Output { status: wait(&mut child)?, stdout, stderr })
}

/// Whether no thread of a process wants a CPU: each waits for something. One that is starved of CPUs does not rest, however little it does.
#[must_use]
pub fn rests(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut lines = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    !lines.any(|line| wants_cpu(&line))
}

/// Whether the thread of a line of `/proc/PID/task/TID/stat` runs, is ready to, or waits for a disk.
fn wants_cpu(line: &str) -> bool {
    line.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with(['R', 'D']))
}

/// The limit of a run that shares its host with others: a host that is busy gives a program less of its CPUs in a second.
///
/// So the CPU time of the program counts. One that hangs without using any is ended after as much time of the host, and one that uses
/// little after [`Patience::MOST`] times as much.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    /// CPU time at the last sign of life, and when that was.
    seen: (Duration, Duration),
}

impl Patience {
    /// Limits of host time, at most, for one of CPU time.
    pub const MOST: u32 = 10;
    /// The part of the limit that is a sign of life, if a program uses it.
    const SIGN: u32 = 100;

    /// A limit for one CPU.
    #[must_use]
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, seen: (Duration::ZERO, Duration::ZERO) }
    }

    /// Whether it is used up, for a program that began `elapsed` ago and has used so much CPU time; asked again and again.
    pub fn is_over(&mut self, elapsed: Duration, used: Duration) -> bool {
        if used >= self.seen.0 + self.limit / Patience::SIGN {
            self.seen = (used, elapsed);
        }
        used >= self.limit || elapsed >= self.seen.1 + self.limit || elapsed >= self.limit * Patience::MOST
    }
}

/// User and system time of a process and of the processes that it has waited for.
pub fn time_of(process: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&text).map(|ticks| Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// The sum of the four times in a line of `/proc/PID/stat`. The name before them may have blanks, in parentheses.
fn ticks(line: &str) -> Option<u64> {
    let (_, fields) = line.rsplit_once(')')?;
    let times: Vec<u64> = fields.split_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_with_blanks_and_parentheses() {
        let line = "12 (a b) c) S 1 12 12 0 -1 4194304 100 0 0 0 7 3 20 1 20 0 1 0 100 1000 1";
        assert_eq!(ticks(line), Some(31));
        assert_eq!(ticks("12 (short) S 1 2"), None);
    }

    #[test]
    fn a_thread_that_is_ready_wants_a_cpu() {
        let line = |state: char| format!("12 (a b) c) {state} 1 12 12 0 -1");
        assert_eq!(['R', 'D', 'S', 'I'].map(|state| wants_cpu(&line(state))), [true, true, false, false]);
    }

    #[test]
    fn patience_is_for_what_computes_however_slowly_and_ends_for_what_hangs() {
        let at = Duration::from_secs;
        let ends = |share: &dyn Fn(u64) -> u64| {
            let mut patience = Patience::new(at(60));
            (0..10_000).find(|second| patience.is_over(at(*second), at(share(*second))))
        };
        assert_eq!(ends(&|second| second), Some(60), "alone on the host");
        assert_eq!(ends(&|second| second / 4), Some(240), "a quarter of a CPU");
        assert_eq!(ends(&|_| 0), Some(60), "hangs");
        assert_eq!(ends(&|second| second.min(20)), Some(80), "hangs after a while");
        assert_eq!(ends(&|second| second / 30), Some(600), "does little for ever");
    }

    #[test]
    fn a_program_that_computes_is_counted() {
        let before = used();
        let mut command = Command::new("sh");
        let output = output(command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"]));
        assert_eq!(output.unwrap().stdout, b"done\n");
        assert!(used() - before >= Duration::from_millis(20), "{:?}", used() - before);
    }
}
