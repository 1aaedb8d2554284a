//! Steps of scripted tasks: from words to records.
//!
//! ```text
//! burn 2ms               compute until charged 2 ms more
//! sleep 5ms              suspend until 5 ms after this job's release
//! pause 1ms              suspend for 1 ms from now on
//! call server 1ms        call an endpoint; the server burns 1 ms for us
//! send server 1ms        send to an endpoint; no task waits, and none donates
//! serve server           serve an endpoint for ever: burn the time of each request
//! receive server         wait for a request: the next steps are its service, for any time asked for
//! reply server           answer it, wait for the next one, and go on after that `receive`
//! signal done 1          signal bits of a notification
//! wait done              wait for a notification
//! acquire ee             take an engine, or a token of a pool
//! acquire in out         take two engines of one group at once
//! submit ee 3ms done     run 3 ms on an engine, wait on a notification for the end
//! start ee 3ms           run 3 ms on an engine, do not wait for the end
//! release ee             give it back
//! release_job camera     release a job of a sporadic task
//! credit stabiliser 2    let a sporadic task have its jobs up to twice the number of this job; without a number as many
//! stop camera            end another task
//! yield                  yield: a checkpoint
//! yield ee               give the engine to an earlier key, if one waits, and take it again
//! start camera           have a dormant task begin
//! early_release          take the budget and the deadline of the next job
//! repeat                 start over, without completing a job
//! shutdown               end the system
//! ```
//!
//! A step that is answered with `Overrun` ends the job: the steps after it are left out.
//!
//! In the simulator the steps from the `acquire` of an engine to its `release` are left out, too, if the task's token is for
//! another device.
//!
//! Objects go by the names of the task's handles; `shutdown` needs the one called `system`.

use fusee_abi::call::rights;
use fusee_abi::image::kind;
use fusee_abi::script::{Step, operation};

use fusee_sched::key::FAIR_LATENESS_OFFSET;

use crate::quantity::Time;

/// A handle of the task that a script may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// One of `image::kind`.
    pub kind: u32,
    /// Value of the handle.
    pub handle: u64,
    /// The rights of the step: bits of `call::rights`.
    pub rights: u32,
    /// For engines: index of the engine in its device.
    pub selector: u32,
}

/// The first words of steps. No other step is read.
pub const STEPS: [&str; 21] = [
    "acquire",
    "burn",
    "call",
    "credit",
    "early_release",
    "pause",
    "receive",
    "release",
    "release_job",
    "repeat",
    "reply",
    "send",
    "serve",
    "shutdown",
    "signal",
    "sleep",
    "start",
    "stop",
    "submit",
    "wait",
    "yield",
];

/// Reads one step; `find` looks a handle up by name.
pub(crate) fn parse_step(text: &str, find: impl Fn(&str) -> Option<Target>) -> Result<Step, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let of_kind = |name: &str, wanted: u32| match find(name) {
        Some(target) if target.kind == wanted => Ok(target),
        Some(_) => Err(format!("handle `{name}` is of another kind")),
        None => Err(format!("the task has no handle `{name}`")),
    };
    let target = |name: &str, wanted: u32, (right, bit): (&str, u32)| {
        let target = of_kind(name, wanted)?;
        match target.rights & bit {
            0 => Err(format!("handle `{name}` lacks the right `{right}`")),
            _ => Ok(target),
        }
    };
    let lock = |name: &str| {
        let wanted =
            find(name).map_or(kind::ENGINE, |one| if one.kind == kind::POOL { kind::POOL } else { kind::ENGINE });
        target(name, wanted, ("acquire", rights::ACQUIRE))
    };
    let time = |text: &str| match Time::parse(text) {
        Some(time) if time.0 > FAIR_LATENESS_OFFSET.0 => {
            Err(format!("{time} is longer than any time may be, 2^56 ns (834 days)"))
        }
        Some(time) => Ok(time.0),
        None => Err(format!("`{text}` is not a time")),
    };
    let step =
        |operation, target: Target, value| Step { operation, selector: target.selector, handle: target.handle, value };
    let nothing = Target { kind: kind::EMPTY, handle: 0, rights: 0, selector: 0 };
    if !words.first().is_some_and(|word| STEPS.contains(word)) {
        return Err("no such step".into());
    }
    Ok(match words[..] {
        ["burn", span] => step(operation::BURN, nothing, time(span)?),
        ["sleep", span] => step(operation::SLEEP, nothing, time(span)?),
        ["pause", span] => step(operation::PAUSE, nothing, time(span)?),
        ["call", name, span] => {
            step(operation::CALL, target(name, kind::ENDPOINT, ("call", rights::CALL))?, time(span)?)
        }
        ["send", name, span] => {
            step(operation::SEND, target(name, kind::ENDPOINT, ("send", rights::SEND))?, time(span)?)
        }
        ["serve", name] => step(operation::SERVE, target(name, kind::ENDPOINT, ("receive", rights::RECEIVE))?, 0),
        ["receive", name] => step(operation::RECEIVE, target(name, kind::ENDPOINT, ("receive", rights::RECEIVE))?, 0),
        ["reply", name] => step(operation::REPLY, target(name, kind::ENDPOINT, ("receive", rights::RECEIVE))?, 0),
        ["signal", name, bits] => {
            let bits = bits.parse().map_err(|_| format!("`{bits}` is not a number"))?;
            step(operation::SIGNAL, target(name, kind::NOTIFICATION, ("signal", rights::SIGNAL))?, bits)
        }
        ["wait", name] => step(operation::WAIT, target(name, kind::NOTIFICATION, ("wait", rights::WAIT))?, 0),
        ["acquire", name] => step(operation::ACQUIRE, lock(name)?, 0),
        ["acquire", first, second] => {
            let second = target(second, kind::ENGINE, ("acquire", rights::ACQUIRE))?;
            step(operation::ACQUIRE_BOTH, target(first, kind::ENGINE, ("acquire", rights::ACQUIRE))?, second.handle)
        }
        ["submit", engine, span, name] => {
            let engine = of_kind(engine, kind::ENGINE)?;
            let done = target(name, kind::NOTIFICATION, ("wait", rights::WAIT))?;
            step(operation::SUBMIT, Target { selector: engine.selector, ..done }, time(span)?)
        }
        ["start", name] => step(operation::BEGIN, target(name, kind::TASK, ("start", rights::RESTART))?, 0),
        ["start", engine, span] => step(operation::START, of_kind(engine, kind::ENGINE)?, time(span)?),
        ["release", name] => step(operation::RELEASE, lock(name)?, 0),
        ["credit", name] => step(operation::CREDIT, target(name, kind::TASK, ("credit", rights::CREDIT))?, 1),
        ["credit", name, times] => {
            let times = times.parse().map_err(|_| format!("`{times}` is not a number"))?;
            step(operation::CREDIT, target(name, kind::TASK, ("credit", rights::CREDIT))?, times)
        }
        ["release_job", name] => {
            step(operation::RELEASE_JOB, target(name, kind::TASK, ("release_job", rights::RELEASE_JOB))?, 0)
        }
        ["stop", name] => step(operation::STOP, target(name, kind::TASK, ("stop", rights::STOP))?, 0),
        ["yield"] => step(operation::YIELD, nothing, 0),
        ["yield", engine] => {
            step(operation::YIELD_ENGINE, target(engine, kind::ENGINE, ("acquire", rights::ACQUIRE))?, 0)
        }
        ["early_release"] => step(operation::EARLY_RELEASE, nothing, 0),
        ["repeat"] => step(operation::REPEAT, nothing, 0),
        ["shutdown"] => step(operation::SHUTDOWN, target("system", kind::SYSTEM, ("shutdown", rights::SHUTDOWN))?, 0),
        _ => return Err("no such step".into()),
    })
}
