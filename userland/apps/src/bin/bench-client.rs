//! Measures the kernel's paths from user mode: `log(row, instructions)` for each sample, then the end of the system.
//!
//! Made for the profile that counts instructions, where the counter ticks once for each; elsewhere the samples are
//! ticks. Rows are those of `apps::rows`. The cost of the measurement itself, of the same code with a `nop` in place of the
//! trap, is subtracted. All samples are logged at the end, so that logging disturbs none.
//!
//! If the parameter `floats` is one, floating point is used on both sides of each path.
//!
//! Handles: endpoints "server", "keeper", "front", "busy", "later" and "faulty1" ... (call) and "inbox" (send);
//! notifications "event", "again", "go", "work" and "compete" (signal) and "lent" (signal, grant); engines "engine" and "mutex" (acquire),
//! "one" and "other" of one group (acquire); pool "token" (acquire); regions "samples" (shared with the peers), "clock" (a PL031),
//! "page" (one page, with the right to map) and "loan" (read, write, lend); tasks "victim1" ... (release_job, stop) and "doomed1" ... (stop); "system" (shutdown).
//!
//! # Caveats
//!
//! The timer row is too high by the way into the kernel up to its reading of the clock, at most: the counter at the
//! kernel's time zero is known no better from here.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::counter;
use apps::rows::{self, NAMES, SAMPLES, SINCE, STAMP, WARM_UP, clock};
use core::hint::black_box;
use core::ops::{Index, IndexMut};
use fusee::abi::call::{Call, NEVER};
use fusee::{
    AcquireError, Endpoint, Engine, EngineGuard, Environment, Instant, Message, Nanoseconds, Notification, Pool,
    Region, Rights, SharedBytes, System, Task, environment, log, mark, now, null, raw, revoke, shutdown, sleep_until,
    yield_now,
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
    if environment.parameter("floats") == Some(1) {
        measure::<true>(&environment)
    } else {
        measure::<false>(&environment)
    }
}

fn measure<const FLOATS: bool>(environment: &Environment) {
    let server = environment.expect::<Endpoint>("server");
    let mut rows = Rows([[0; SAMPLES]; NAMES.len()]);
    // All others begin: servers wait for calls, callers for replies.
    sleep_until(now().now + BEGINNING).expect("sleeping is allowed");
    rows[rows::NULL as usize] = nothing::<FLOATS>();
    rows[rows::CALL_0 as usize] = call_without_words::<FLOATS>(server);
    rows[rows::CALL_4 as usize] = call_with_words::<FLOATS>(server);
    rows[rows::LEND as usize] = call_lending::<FLOATS>(server, environment.expect("loan"));
    rows[rows::MAP as usize] = map::<FLOATS>(environment.expect("page"));
    rows[rows::NESTED as usize] = call_without_words::<FLOATS>(environment.expect("front"));
    rows[rows::TIMED as usize] = call_with_a_deadline::<FLOATS>(server);
    rows[rows::BUSY as usize] = left_by_a_peer::<FLOATS>(environment, "busy");
    rows[rows::DEFERRED as usize] = left_by_a_peer::<FLOATS>(environment, "later");
    rows[rows::SEND as usize] = send::<FLOATS>(environment);
    rows[rows::UNMAP as usize] = unmap::<FLOATS>(environment.expect("page"));
    rows[rows::REVOKE_1 as usize] = revoked::<FLOATS>(environment, 1);
    rows[rows::REVOKE_8 as usize] = revoked::<FLOATS>(environment, rows::COPIES);
    rows[rows::TIMER as usize] = timer::<FLOATS>();
    rows[rows::SIGNAL as usize] = signal::<FLOATS>(environment);
    rows[rows::WAIT as usize] = wait::<FLOATS>(environment);
    rows[rows::INTERRUPT as usize] = interrupt::<FLOATS>(environment);
    rows[rows::BOTTOM as usize] = bottom_half::<FLOATS>(environment);
    let (engine, mutex) = (environment.expect("engine"), environment.expect("mutex"));
    rows[rows::ACQUIRE as usize] = acquire::<FLOATS>(engine);
    rows[rows::RELEASE as usize] = release::<FLOATS>(engine);
    rows[rows::LOCK as usize] = acquire::<FLOATS>(mutex);
    rows[rows::UNLOCK as usize] = release::<FLOATS>(mutex);
    rows[rows::BLOCK as usize] = block_a_rival::<FLOATS, _>(environment, Mutex(mutex, None));
    rows[rows::PASS_ON as usize] = pass_on::<FLOATS, _>(environment, Mutex(mutex, None));
    rows[rows::TOKEN as usize] = token::<FLOATS>(environment.expect("token"));
    rows[rows::BLOCK_TOKEN as usize] = block_a_rival::<FLOATS, Pool>(environment, environment.expect("token"));
    rows[rows::PASS_ON_TOKEN as usize] = pass_on::<FLOATS, Pool>(environment, environment.expect("token"));
    rows[rows::PAIR as usize] = pair::<FLOATS>([environment.expect("one"), environment.expect("other")]);
    rows[rows::FAULT as usize] = faults::<FLOATS>(environment);
    rows[rows::KILL as usize] = kill::<FLOATS>(environment, &rows::CLIENTS, |victim| {
        // It calls before the next instruction: it is of a higher class.
        victim.release_job().expect("the victim takes a release");
    });
    rows[rows::KILL_SERVER as usize] = kill::<FLOATS>(environment, &rows::SERVERS, |_| {});
    // Last: the yielder never sleeps again.
    rows[rows::YIELD as usize] = yield_to_another::<FLOATS>(environment);
    for (row, samples) in rows.0.iter().enumerate() {
        let count = match row as u64 {
            rows::KILL => rows::CLIENTS.len(),
            rows::KILL_SERVER => rows::SERVERS.len(),
            rows::FAULT => rows::FAULTY.len(),
            _ => SAMPLES,
        };
        samples.iter().take(count).for_each(|sample| log(row as u64, *sample));
    }
    shutdown(environment.expect::<System>("system"), 0)
}

//--- Rows

/// The samples of all rows. A store of those of a row tells a profiler that they are the last ones of the row.
struct Rows([Samples; NAMES.len()]);

impl Index<usize> for Rows {
    type Output = Samples;

    fn index(&self, row: usize) -> &Samples {
        &self.0[row]
    }
}

impl IndexMut<usize> for Rows {
    /// In an assignment this comes after the value has been computed.
    fn index_mut(&mut self, row: usize) -> &mut Samples {
        mark(row as u8);
        &mut self.0[row]
    }
}

#[inline(never)]
fn nothing<const FLOATS: bool>() -> Samples {
    let untrapped = || {
        raw::untrapped::plain(Call::Null as u64, 0, 0);
    };
    less(around::<FLOATS>(null, || {}), around::<FLOATS>(untrapped, || {}))
}

#[inline(never)]
fn call_without_words<const FLOATS: bool>(server: Endpoint) -> Samples {
    less(calls::<FLOATS>(|| server.call([0; 6], Instant::NEVER).is_ok()), calls::<FLOATS>(|| untrapped_call([0; 6]).0))
}

#[inline(never)]
fn call_with_words<const FLOATS: bool>(server: Endpoint) -> Samples {
    let trapped = |words| match server.call(words, Instant::NEVER) {
        Ok(reply) => (true, reply),
        Err(_) => (false, words),
    };
    less(calls_with_words::<FLOATS>(trapped), calls_with_words::<FLOATS>(untrapped_call))
}

#[inline(never)]
fn call_with_a_deadline<const FLOATS: bool>(server: Endpoint) -> Samples {
    let deadline = now().now + FAR;
    less(calls::<FLOATS>(|| server.call([0; 6], deadline).is_ok()), calls::<FLOATS>(|| untrapped_call([0; 6]).0))
}

#[inline(never)]
fn send<const FLOATS: bool>(environment: &Environment) -> Samples {
    let inbox = environment.expect::<Endpoint>("inbox");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = until_stamped::<FLOATS>(samples, || {
        // Words that were refused leave no stamp.
        let _ = inbox.send([0; 6], Instant::NEVER);
    });
    less(raw, calls::<FLOATS>(|| untrapped_call([0; 6]).0))
}

/// The patient one, woken by a signal, waits again at once.
#[inline(never)]
fn wait<const FLOATS: bool>(environment: &Environment) -> Samples {
    let event = environment.expect::<Notification>("again");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = samples_of::<FLOATS>(|| {
        let result = event.signal(rows::SIGNALLED);
        let back = counter::<FLOATS>();
        result.expect("the client may signal");
        back - samples.read_u64(SINCE)
    });
    less(raw, untrapped_plain::<FLOATS>(Call::Signal))
}

/// The events among peers while the client calls one of them.
#[inline(never)]
fn left_by_a_peer<const FLOATS: bool>(environment: &Environment, name: &str) -> Samples {
    let server = environment.expect::<Endpoint>(name);
    let samples = environment.expect::<Region>("samples").shared();
    let took = samples_of::<FLOATS>(|| {
        server.call([0; 6], Instant::NEVER).expect("the peer answers");
        samples.read_u64(STAMP) - samples.read_u64(SINCE)
    });
    less(took, calls::<FLOATS>(|| untrapped_call([0; 6]).0))
}

/// The events between a driver and its client, once the driver is told to work.
#[inline(never)]
fn bottom_half<const FLOATS: bool>(environment: &Environment) -> Samples {
    let work = environment.expect::<Notification>("work");
    let samples = environment.expect::<Region>("samples").shared();
    let took = samples_of::<FLOATS>(|| {
        work.signal(rows::SIGNALLED).expect("the client may signal");
        samples.read_u64(STAMP) - samples.read_u64(SINCE)
    });
    less(took, untrapped_plain::<FLOATS>(Call::Signal))
}

/// The server does not look at the lent region, which is of two pages.
#[inline(never)]
fn call_lending<const FLOATS: bool>(server: Endpoint, region: Region) -> Samples {
    let rights = Rights::READ | Rights::WRITE;
    let untrapped = || {
        let _ = black_box(raw::untrapped::carrying(Call::CallWith as u64, 0, [0; 6], NEVER, 0, 0, 0).code == 0);
        true
    };
    less(
        calls::<FLOATS>(|| server.call_lending([0; 6], &region, rights, Instant::NEVER).is_ok()),
        calls::<FLOATS>(untrapped),
    )
}

#[inline(always)]
fn calls<const FLOATS: bool>(call: impl Fn() -> bool) -> Samples {
    let mut failed = 0;
    let samples = around::<FLOATS>(|| failed += u64::from(!call()), || {});
    assert_eq!(failed, 0, "calls failed");
    samples
}

/// Four words that change with each call are sent, and the reply is looked at.
#[inline(always)]
fn calls_with_words<const FLOATS: bool>(call: impl Fn(Message) -> (bool, Message)) -> Samples {
    let mut number = black_box(1u64);
    let mut wrong = 0;
    let samples = around::<FLOATS>(
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
fn map<const FLOATS: bool>(page: Region) -> Samples {
    let mut failed = 0;
    let samples = around::<FLOATS>(
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
    less(samples, around::<FLOATS>(untrapped, || {}))
}

#[inline(never)]
fn token<const FLOATS: bool>(mut pool: Pool) -> Samples {
    let mut failed = 0;
    let samples = around::<FLOATS>(
        || match pool.acquire(Instant::NEVER) {
            Ok(token) => failed += u64::from(token.release().is_err()),
            Err(_) => failed += 1,
        },
        || {},
    );
    assert_eq!(failed, 0, "nobody else takes tokens");
    let untrapped = || {
        black_box(raw::untrapped::timed(Call::Acquire as u64, 0, NEVER).code);
        black_box(raw::untrapped::plain(Call::Release as u64, 0, 0).code);
    };
    less(samples, around::<FLOATS>(untrapped, || {}))
}

#[inline(never)]
fn pair<const FLOATS: bool>(engines: [Engine; 2]) -> Samples {
    let mut failed = 0;
    let samples = around::<FLOATS>(
        || match Engine::acquire_together(engines, Instant::NEVER) {
            Ok(group) => failed += u64::from(group.release().is_err()),
            Err(_) => failed += 1,
        },
        || {},
    );
    assert_eq!(failed, 0, "nobody else takes the two");
    let untrapped = || {
        black_box(raw::untrapped::timed(Call::AcquireGroup as u64, 0, NEVER).code);
        black_box(raw::untrapped::plain(Call::Release as u64, 0, 0).code);
    };
    less(samples, around::<FLOATS>(untrapped, || {}))
}

#[inline(never)]
fn unmap<const FLOATS: bool>(page: Region) -> Samples {
    let samples = samples_of::<FLOATS>(|| {
        page.map().expect("the page may be mapped");
        let before = counter::<FLOATS>();
        let result = page.unmap();
        let after = counter::<FLOATS>();
        result.expect("the page may be unmapped");
        after - before
    });
    let untrapped = || {
        black_box(raw::untrapped::plain(Call::Unmap as u64, 0, 0).code);
    };
    less(samples, around::<FLOATS>(untrapped, || {}))
}

/// The copies lie in the table of the keeper, which gives them up after each round.
#[inline(never)]
fn revoked<const FLOATS: bool>(environment: &Environment, copies: usize) -> Samples {
    let keeper = environment.expect::<Endpoint>("keeper");
    let lent = environment.expect::<Notification>("lent");
    let samples = samples_of::<FLOATS>(|| {
        for _ in 0..copies {
            keeper.call_with([0; 6], &lent, Rights::SIGNAL, Instant::NEVER).expect("the handle may be given");
        }
        let before = counter::<FLOATS>();
        let result = revoke(&lent);
        let after = counter::<FLOATS>();
        result.expect("the handle may be revoked");
        keeper.call([0; 6], Instant::NEVER).expect("the keeper answers");
        after - before
    });
    let untrapped = || {
        let _ = black_box(raw::untrapped::plain(Call::Revoke as u64, 0, 0).code == 0);
    };
    less(samples, around::<FLOATS>(untrapped, || {}))
}

#[inline(never)]
fn timer<const FLOATS: bool>() -> Samples {
    samples_of::<FLOATS>(|| {
        // The kernel reads its clock after `before` and before the next line.
        let before = counter::<FLOATS>();
        let wake = now().now + SLEEP;
        sleep_until(wake).expect("sleeping is allowed");
        counter::<FLOATS>() - (before + SLEEP.0)
    })
}

#[inline(never)]
fn signal<const FLOATS: bool>(environment: &Environment) -> Samples {
    let event = environment.expect::<Notification>("event");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = until_stamped::<FLOATS>(samples, || {
        // A refused signal leaves no stamp.
        let _ = event.signal(rows::SIGNALLED);
    });
    less(raw, untrapped_plain::<FLOATS>(Call::Signal))
}

#[inline(never)]
fn interrupt<const FLOATS: bool>(environment: &Environment) -> Samples {
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
    less(until_stamped::<FLOATS>(samples, || device.write_u32(clock::MASK, 1)), around::<FLOATS>(|| {}, || {}))
}

#[inline(never)]
fn yield_to_another<const FLOATS: bool>(environment: &Environment) -> Samples {
    let samples = environment.expect::<Region>("samples").shared();
    environment.expect::<Notification>("go").signal(1).expect("the yielder may be started");
    let yields = || yield_now().expect("no job can overrun here");
    yields();
    let raw = until_stamped::<FLOATS>(samples, yields);
    let untrapped = || {
        raw::untrapped::plain(Call::Yield as u64, 0, 0);
    };
    less(raw, around::<FLOATS>(untrapped, || {}))
}

#[inline(never)]
fn acquire<const FLOATS: bool>(engine: Engine) -> Samples {
    let samples = samples_of::<FLOATS>(|| {
        let before = counter::<FLOATS>();
        let result = engine.acquire(Instant::NEVER);
        let after = counter::<FLOATS>();
        give_back(result);
        after - before
    });
    less(samples, untrapped_timed::<FLOATS>(Call::Acquire))
}

#[inline(never)]
fn release<const FLOATS: bool>(engine: Engine) -> Samples {
    let samples = samples_of::<FLOATS>(|| {
        let held = engine.acquire(Instant::NEVER).expect("the engine is free");
        let before = counter::<FLOATS>();
        let result = held.release();
        let after = counter::<FLOATS>();
        result.expect("the client holds it");
        after - before
    });
    less(samples, untrapped_plain::<FLOATS>(Call::Release))
}

/// The engines that the rival wants, too.
trait Wanted {
    /// The further word in the rival's request.
    const WHICH: u64;

    fn take(&mut self);
    /// Whether it was held.
    fn give(&mut self) -> bool;
}

struct Mutex(Engine, Option<EngineGuard<'static>>);

impl Wanted for Mutex {
    const WHICH: u64 = 0;

    fn take(&mut self) {
        self.1 = self.0.acquire(Instant::NEVER).ok();
    }

    #[inline(always)]
    fn give(&mut self) -> bool {
        self.1.take().is_some_and(|held| held.release().is_ok())
    }
}

impl Wanted for Pool {
    const WHICH: u64 = rows::FOR_A_TOKEN;

    fn take(&mut self) {
        self.acquire(Instant::NEVER).expect("there is a token").keep();
    }

    #[inline(always)]
    fn give(&mut self) -> bool {
        self.give_back().is_ok()
    }
}

/// The rival, told to acquire the engine that the client holds, finds it held, and the client goes on in its place.
#[inline(never)]
fn block_a_rival<const FLOATS: bool, W: Wanted>(environment: &Environment, mut wanted: W) -> Samples {
    let compete = environment.expect::<Notification>("compete");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = samples_of::<FLOATS>(|| {
        wanted.take();
        let told = compete.signal(rows::BEFORE | W::WHICH);
        let back = counter::<FLOATS>();
        told.expect("the client may signal");
        assert!(wanted.give(), "the client held it");
        back - samples.read_u64(SINCE)
    });
    less(raw, untrapped_timed::<FLOATS>(Call::Acquire))
}

#[inline(never)]
fn pass_on<const FLOATS: bool, W: Wanted>(environment: &Environment, mut wanted: W) -> Samples {
    let compete = environment.expect::<Notification>("compete");
    let samples = environment.expect::<Region>("samples").shared();
    let raw = samples_of::<FLOATS>(|| {
        wanted.take();
        compete.signal(rows::AFTER | W::WHICH).expect("the client may signal");
        samples.write_u64(STAMP, 0);
        let before = counter::<FLOATS>();
        let held = wanted.give();
        let stamp = stamp::<FLOATS>(samples, before);
        assert!(held, "the client held it");
        stamp - before
    });
    less(raw, untrapped_plain::<FLOATS>(Call::Release))
}

fn give_back(held: Result<EngineGuard<'_>, AcquireError>) {
    let held = held.expect("the engine is free");
    held.release().expect("the client holds it");
}

#[inline(never)]
fn faults<const FLOATS: bool>(environment: &Environment) -> Samples {
    let shared = environment.expect::<Region>("samples").shared();
    let mut samples = [0; SAMPLES];
    for (name, place) in rows::FAULTY.iter().zip(&mut samples) {
        let server = environment.expect::<Endpoint>(name);
        let answer = server.call([0; 6], Instant::NEVER);
        let told = counter::<FLOATS>();
        assert!(answer.is_err(), "a server answers that is dead");
        *place = told - shared.read_u64(SINCE);
    }
    less(samples, calls::<FLOATS>(|| untrapped_call([0; 6]).0))
}

/// Stops each of `victims` once, after `prepare`.
#[inline(never)]
fn kill<const FLOATS: bool>(environment: &Environment, victims: &[&str], prepare: impl Fn(Task)) -> Samples {
    let mut samples = [0; SAMPLES];
    for (name, place) in victims.iter().zip(&mut samples) {
        let victim = environment.expect::<Task>(name);
        prepare(victim);
        let before = counter::<FLOATS>();
        let stopped = victim.stop();
        *place = counter::<FLOATS>() - before;
        stopped.expect("the client may stop its victims");
    }
    let untrapped = || {
        let _ = black_box(raw::untrapped::plain(Call::Stop as u64, 0, 0).code == 0);
    };
    less(samples, around::<FLOATS>(untrapped, || {}))
}

//--- Measuring

/// Times `work`, with `undo` after each round outside the measure.
#[inline(always)]
fn around<const FLOATS: bool>(mut work: impl FnMut(), mut undo: impl FnMut()) -> Samples {
    samples_of::<FLOATS>(|| {
        let before = counter::<FLOATS>();
        work();
        let after = counter::<FLOATS>();
        undo();
        after - before
    })
}

/// Times from before `work` to the stamp of a peer.
#[inline(always)]
fn until_stamped<const FLOATS: bool>(samples: SharedBytes, work: impl Fn()) -> Samples {
    samples_of::<FLOATS>(|| {
        samples.write_u64(STAMP, 0);
        let before = counter::<FLOATS>();
        work();
        let stamp = stamp::<FLOATS>(samples, before);
        stamp - before
    })
}

/// The peer's stamp; on one CPU it is there already.
fn stamp<const FLOATS: bool>(samples: SharedBytes, since: u64) -> u64 {
    loop {
        let stamp = samples.read_u64(STAMP);
        if stamp != 0 {
            return stamp;
        }
        assert!(counter::<FLOATS>() - since < PATIENCE, "the peer did not run");
    }
}

#[inline(always)]
fn samples_of<const FLOATS: bool>(mut sample: impl FnMut() -> u64) -> Samples {
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

/// The stub of `call` with everything but the trap, which has a deadline.
#[inline(never)]
fn untrapped_timed<const FLOATS: bool>(call: Call) -> Samples {
    let untrapped = || {
        let _ = black_box(raw::untrapped::timed(call as u64, 0, NEVER).code == 0);
    };
    around::<FLOATS>(untrapped, || {})
}

/// Samples as above of an object without a waiter.
#[inline(never)]
fn untrapped_plain<const FLOATS: bool>(call: Call) -> Samples {
    let untrapped = || {
        let _ = black_box(raw::untrapped::plain(call as u64, 0, 0).code == 0);
    };
    around::<FLOATS>(untrapped, || {})
}

/// Each sample without the cost of the measurement: the least of `overhead`.
fn less(mut samples: Samples, overhead: Samples) -> Samples {
    let least = overhead.iter().copied().min().unwrap_or(0);
    samples.iter_mut().for_each(|sample| *sample = sample.saturating_sub(least));
    samples
}
