//! Measures the kernel's paths from user mode: `log(row, instructions)` for each sample, then the end of the system.
//!
//! Made for the profile that counts instructions, where the counter ticks once for each; elsewhere the samples are
//! ticks. Rows are those of `apps::rows`. What measuring itself costs, the same code with a `nop` in place of the
//! trap, is subtracted. All samples are logged at the end, so that logging disturbs none.
//!
//! Handles: endpoints "server", "keeper", "front", "busy", "later" and "floating" (call) and "inbox" (send); notifications
//! "event", "again" and "go" (signal) and "lent" (signal, grant); regions "samples" (shared with the peers), "clock" (a PL031),
//! "page" (one page, with the right to map) and "loan" (read, write, lend); tasks "victim1" ... (release_job, stop) and
//! "doomed1" ... (stop); "system" (shutdown).
//!
//! # Caveats
//!
//! The timer row is too high by the way into the kernel up to its reading of the clock, at most: the counter at the
//! kernel's time zero is known no better from here.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::rows::{self, NAMES, SAMPLES, SINCE, STAMP, WARM_UP, clock};
use core::hint::black_box;
use core::ops::{Index, IndexMut};
use fusee::abi::call::{Call, NEVER};
use fusee::{
    Endpoint, Environment, Instant, Message, Nanoseconds, Notification, Region, Rights, SharedBytes, System, Task,
    counter, environment, log, mark, now, null, raw, revoke, shutdown, sleep_until, yield_now,
};

fusee::entry!(main);

/// Looks at the counter until a peer must have run, were it ever to run.
const PATIENCE: u64 = 1_000_000;
/// How far ahead the timer row sleeps.
const SLEEP: Nanoseconds = Nanoseconds(100_000);

/// A deadline that does not come.
const FAR: Nanoseconds = Nanoseconds(1_000_000_000_000);

/// How long the others take to begin, at most.
const BEGINNING: Nanoseconds = Nanoseconds(2_000_000);

type Samples = [u64; SAMPLES];

fn main() {
    let environment = environment();
    let server = environment.expect::<Endpoint>("server");
    let mut rows = Rows([[0; SAMPLES]; NAMES.len()]);
    // All others begin: servers wait for calls, callers for replies.
    sleep_until(now().now + BEGINNING).expect("sleeping is allowed");
    rows[rows::NULL as usize] = nothing();
    rows[rows::CALL_0 as usize] = call_without_words(server);
    rows[rows::CALL_4 as usize] = call_with_words(server);
    rows[rows::LEND as usize] = call_lending(server, environment.expect("loan"));
    rows[rows::MAP as usize] = map(environment.expect("page"));
    rows[rows::NESTED as usize] = call_without_words(environment.expect("front"));
    rows[rows::TIMED as usize] = call_with_a_deadline(server);
    rows[rows::BUSY as usize] = left_by_a_peer(&environment, "busy");
    rows[rows::DEFERRED as usize] = left_by_a_peer(&environment, "later");
    rows[rows::CALL_FLOAT as usize] = call_with_floats(environment.expect("floating"));
    rows[rows::SEND as usize] = send(&environment);
    rows[rows::UNMAP as usize] = unmap(environment.expect("page"));
    rows[rows::REVOKE_1 as usize] = revoked(&environment, 1);
    rows[rows::REVOKE_8 as usize] = revoked(&environment, rows::COPIES);
    rows[rows::TIMER as usize] = timer();
    rows[rows::SIGNAL as usize] = signal(&environment);
    rows[rows::WAIT as usize] = wait(&environment);
    rows[rows::INTERRUPT as usize] = interrupt(&environment);
    rows[rows::KILL as usize] = kill(&environment, &rows::CLIENTS, |victim| {
        // It calls before the next instruction: it is of a higher class.
        victim.release_job().expect("the victim takes a release");
    });
    rows[rows::KILL_SERVER as usize] = kill(&environment, &rows::SERVERS, |_| {});
    // Last: the yielder never sleeps again.
    rows[rows::YIELD as usize] = yield_to_another(&environment);
    for (row, samples) in rows.0.iter().enumerate() {
        let count = match row as u64 {
            rows::KILL => rows::CLIENTS.len(),
            rows::KILL_SERVER => rows::SERVERS.len(),
            _ => SAMPLES,
        };
        samples.iter().take(count).for_each(|sample| log(row as u64, *sample));
    }
    shutdown(environment.expect::<System>("system"), 0)
}

//--- Rows

/// The samples of all rows. Whoever stores those of a row says so to a profiler: they are the last that were taken.
struct Rows([Samples; NAMES.len()]);

impl Index<usize> for Rows {
    type Output = Samples;

    fn index(&self, row: usize) -> &Samples {
        &self.0[row]
    }
}

impl IndexMut<usize> for Rows {
    /// In an assignment this comes after what is assigned has been computed.
    fn index_mut(&mut self, row: usize) -> &mut Samples {
        mark(row as u8);
        &mut self.0[row]
    }
}

#[inline(never)]
fn nothing() -> Samples {
    let untrapped = || {
        raw::untrapped::plain(Call::Null as u64, 0, 0);
    };
    less(around(null, || {}), around(untrapped, || {}))
}

#[inline(never)]
fn call_without_words(server: Endpoint) -> Samples {
    less(calls(|| server.call([0; 6], Instant::NEVER).is_ok()), calls(|| untrapped_call([0; 6]).0))
}

#[inline(never)]
fn call_with_words(server: Endpoint) -> Samples {
    let trapped = |words| match server.call(words, Instant::NEVER) {
        Ok(reply) => (true, reply),
        Err(_) => (false, words),
    };
    less(calls_with_words(trapped), calls_with_words(untrapped_call))
}

#[inline(never)]
fn call_with_a_deadline(server: Endpoint) -> Samples {
    let deadline = now().now + FAR;
    less(calls(|| server.call([0; 6], deadline).is_ok()), calls(|| untrapped_call([0; 6]).0))
}

/// Each side has its floating-point registers given back at their first use, and put away when the other runs.
#[inline(never)]
fn call_with_floats(server: Endpoint) -> Samples {
    let mut number = black_box(1.5_f64);
    let mut failed = 0;
    let samples = around(
        || {
            number *= black_box(1.5);
            failed += u64::from(server.call([0; 6], Instant::NEVER).is_err());
            number *= black_box(0.5);
        },
        || {},
    );
    assert_eq!(failed, 0, "calls failed");
    assert!(number >= 0.0, "a register was lost");
    less(samples, calls(|| untrapped_call([0; 6]).0))
}

#[inline(never)]
fn send(environment: &Environment) -> Samples {
    let inbox = environment.expect::<Endpoint>("inbox");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = until_stamped(samples, || {
        // Words that were refused leave no stamp.
        let _ = inbox.send([0; 6], Instant::NEVER);
    });
    less(raw, calls(|| untrapped_call([0; 6]).0))
}

/// The patient one, woken by a signal, waits again at once.
#[inline(never)]
fn wait(environment: &Environment) -> Samples {
    let event = environment.expect::<Notification>("again");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = samples_of(|| {
        let result = event.signal(rows::SIGNALLED);
        let back = counter();
        result.expect("the client may signal");
        back - samples.read_u64(SINCE)
    });
    less(raw, untrapped_signal())
}

/// What happens among peers while the client calls one of them.
#[inline(never)]
fn left_by_a_peer(environment: &Environment, name: &str) -> Samples {
    let server = environment.expect::<Endpoint>(name);
    let samples = environment.expect::<Region>("samples").shared();
    let took = samples_of(|| {
        server.call([0; 6], Instant::NEVER).expect("the peer answers");
        samples.read_u64(STAMP) - samples.read_u64(SINCE)
    });
    less(took, calls(|| untrapped_call([0; 6]).0))
}

/// The server does not look at what it is lent, which is two pages.
#[inline(never)]
fn call_lending(server: Endpoint, region: Region) -> Samples {
    let rights = Rights::READ | Rights::WRITE;
    let untrapped = || {
        let _ = black_box(raw::untrapped::carrying(Call::CallWith as u64, 0, [0; 6], NEVER, 0, 0, 0).code == 0);
        true
    };
    less(calls(|| server.call_lending([0; 6], &region, rights, Instant::NEVER).is_ok()), calls(untrapped))
}

#[inline(always)]
fn calls(call: impl Fn() -> bool) -> Samples {
    let mut failed = 0;
    let samples = around(|| failed += u64::from(!call()), || {});
    assert_eq!(failed, 0, "calls failed");
    samples
}

/// Four words that change with each call are sent, and what comes back is looked at.
#[inline(always)]
fn calls_with_words(call: impl Fn(Message) -> (bool, Message)) -> Samples {
    let mut number = black_box(1u64);
    let mut wrong = 0;
    let samples = around(
        || {
            let (good, [a, b, c, d, ..]) = call([number, number, number, number, 0, 0]);
            wrong |= u64::from(!good) | (a ^ number) | (b ^ number) | (c ^ number) | (d ^ number);
            number += 1;
        },
        || {},
    );
    assert_eq!(wrong, 0, "calls failed, or the server changed words");
    samples
}

#[inline(never)]
fn map(page: Region) -> Samples {
    let mut failed = 0;
    let samples = around(
        || failed += u64::from(page.map().is_err()),
        || {
            // A page that is not there ends the task.
            page.shared().write_u64(0, 1);
            page.unmap().expect("the page may be unmapped");
        },
    );
    assert_eq!(failed, 0, "mapping failed");
    let untrapped = || {
        black_box(raw::untrapped::plain(Call::Map as u64, 0, 0).code);
    };
    less(samples, around(untrapped, || {}))
}

#[inline(never)]
fn unmap(page: Region) -> Samples {
    let samples = samples_of(|| {
        page.map().expect("the page may be mapped");
        let before = counter();
        let result = page.unmap();
        let after = counter();
        result.expect("the page may be unmapped");
        after - before
    });
    let untrapped = || {
        black_box(raw::untrapped::plain(Call::Unmap as u64, 0, 0).code);
    };
    less(samples, around(untrapped, || {}))
}

/// The copies lie in the table of the keeper, which gives them up after each round.
#[inline(never)]
fn revoked(environment: &Environment, copies: usize) -> Samples {
    let keeper = environment.expect::<Endpoint>("keeper");
    let lent = environment.expect::<Notification>("lent");
    let samples = samples_of(|| {
        for _ in 0..copies {
            keeper.call_with([0; 6], &lent, Rights::SIGNAL, Instant::NEVER).expect("the handle may be given");
        }
        let before = counter();
        let result = revoke(&lent);
        let after = counter();
        result.expect("the handle may be revoked");
        keeper.call([0; 6], Instant::NEVER).expect("the keeper answers");
        after - before
    });
    let untrapped = || {
        let _ = black_box(raw::untrapped::plain(Call::Revoke as u64, 0, 0).code == 0);
    };
    less(samples, around(untrapped, || {}))
}

#[inline(never)]
fn timer() -> Samples {
    samples_of(|| {
        // The kernel reads its clock after `before` and before the next line.
        let before = counter();
        let wake = now().now + SLEEP;
        sleep_until(wake).expect("sleeping is allowed");
        counter() - (before + SLEEP.0)
    })
}

#[inline(never)]
fn signal(environment: &Environment) -> Samples {
    let event = environment.expect::<Notification>("event");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = until_stamped(samples, || {
        // A refused signal leaves no stamp.
        let _ = event.signal(rows::SIGNALLED);
    });
    less(raw, untrapped_signal())
}

#[inline(never)]
fn interrupt(environment: &Environment) -> Samples {
    let samples = environment.expect::<Region>("samples").shared();
    let device = environment.expect::<Region>("clock").shared();
    device.write_u32(clock::MASK, 0);
    // The second may change between reading and writing, so that it takes another turn.
    let armed = (0..1_000).any(|_| {
        device.write_u32(clock::MATCH, device.read_u32(clock::DATA));
        device.read_u32(clock::RAW) & 1 == 1
    });
    assert!(armed, "the clock does not reach its alarm");
    // Raising the line is the work here; only reading the counter is overhead.
    less(until_stamped(samples, || device.write_u32(clock::MASK, 1)), around(|| {}, || {}))
}

#[inline(never)]
fn yield_to_another(environment: &Environment) -> Samples {
    let samples = environment.expect::<Region>("samples").shared();
    environment.expect::<Notification>("go").signal(1).expect("the yielder may be started");
    let yields = || yield_now().expect("no job can overrun here");
    yields();
    let raw = until_stamped(samples, yields);
    let untrapped = || {
        raw::untrapped::plain(Call::Yield as u64, 0, 0);
    };
    less(raw, around(untrapped, || {}))
}

/// Stops each of `victims` once, after `prepare`.
#[inline(never)]
fn kill(environment: &Environment, victims: &[&str], prepare: impl Fn(Task)) -> Samples {
    let mut samples = [0; SAMPLES];
    for (name, place) in victims.iter().zip(&mut samples) {
        let victim = environment.expect::<Task>(name);
        prepare(victim);
        let before = counter();
        let stopped = victim.stop();
        *place = counter() - before;
        stopped.expect("the client may stop its victims");
    }
    let untrapped = || {
        let _ = black_box(raw::untrapped::plain(Call::Stop as u64, 0, 0).code == 0);
    };
    less(samples, around(untrapped, || {}))
}

//--- Measuring

/// Times `work`, with `undo` after each round outside the measure.
#[inline(always)]
fn around(mut work: impl FnMut(), mut undo: impl FnMut()) -> Samples {
    samples_of(|| {
        let before = counter();
        work();
        let after = counter();
        undo();
        after - before
    })
}

/// Times from before `work` to what a peer stamps.
#[inline(always)]
fn until_stamped(samples: SharedBytes, work: impl Fn()) -> Samples {
    samples_of(|| {
        samples.write_u64(STAMP, 0);
        let before = counter();
        work();
        let stamp = stamp(samples, before);
        stamp - before
    })
}

/// The peer's stamp; on one CPU it is there already.
fn stamp(samples: SharedBytes, since: u64) -> u64 {
    loop {
        let stamp = samples.read_u64(STAMP);
        if stamp != 0 {
            return stamp;
        }
        assert!(counter() - since < PATIENCE, "the peer did not run");
    }
}

#[inline(always)]
fn samples_of(mut sample: impl FnMut() -> u64) -> Samples {
    let mut samples = [0; SAMPLES];
    for _ in 0..black_box(WARM_UP) {
        black_box(sample());
    }
    // The optimiser must not know how many there are: unrolled, each round would be other code.
    for place in &mut samples[..black_box(SAMPLES)] {
        *place = sample();
    }
    samples
}

/// A call's stub with everything but the trap: it finds the words as they were.
#[inline(always)]
fn untrapped_call(words: Message) -> (bool, Message) {
    let answer = raw::untrapped::message(Call::Call as u64, 0, words, NEVER, 0);
    if answer.code == 0 { (true, answer.words) } else { (false, words) }
}

/// A signal's stub with everything but the trap.
#[inline(never)]
fn untrapped_signal() -> Samples {
    let untrapped = || {
        let _ = black_box(raw::untrapped::plain(Call::Signal as u64, 0, rows::SIGNALLED).code == 0);
    };
    around(untrapped, || {})
}

/// Each sample without what measuring costs: the least of `overhead`.
fn less(mut samples: Samples, overhead: Samples) -> Samples {
    let least = overhead.iter().copied().min().unwrap_or(0);
    samples.iter_mut().for_each(|sample| *sample = sample.saturating_sub(least));
    samples
}
