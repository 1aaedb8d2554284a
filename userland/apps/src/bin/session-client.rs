//! Clients of a server of sessions, honest and not; and a sharer that has endless commands reset: the parameter `role` selects one.
//!
//! | role | does |
//! |---|---|
//! | 0, opener | `rounds` times opens its context, maps its buffer, has a product computed, and closes; each 64th time also one before the buffer is mapped, which must fail. At last opens all its contexts and closes them |
//! | 1, hoarder | opens its contexts until it is refused, keeps them until `until_ms`, and closes them |
//! | 2, trespasser | until `until_ms` maps memory that is not its own, unmaps, closes and resets while it works, and asks for contexts of others; hands over commands all the while |
//! | 3, sharer | opens all doorbells; looks every millisecond, and has a command reset that has run for 10 looks |
//! | 4, late | at `from_ms` opens its context, has a product computed, and closes; if it is refused, tries again until it is not |
//! | 5, endless | at `from_ms` opens its context, maps its buffer, and has `products` computed; with the parameter `endless`, at last an operation that never ends |
//! | 6, measurer | makes each request 256 times, and logs whether none took more than `most_ns` nanoseconds on average (1); without that parameter, the time of each, by the operation of its message |
//!
//! Handles: endpoint "sessions" (call); engine "ee" (share); region "buffer" (read, write), the driver's `buffer.<this task>`. A sharer has "requests"
//! (receive) instead of the last two. The logged marks are described at each function.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::environment::Entry;
use fusee::gpu::library::Product;
use fusee::gpu::{Buffer, Context, FenceError, Operation, RunError, Work};
use fusee::session::{PAGES, Pages, Refusal, Request, Session, SessionError, Window};
use fusee::{
    DoorbellPage, Doorbells, Endpoint, Engine, Environment, Instant, Nanoseconds, Object, Region, environment, log,
    now, sleep_until,
};
use fusee_accel_contract as contract;

fusee::entry!(main);

const ORDER: usize = 4;
const BYTES: u64 = 4 * (ORDER * ORDER) as u64;

fn main() {
    let environment = environment();
    let server = environment.expect::<Endpoint>("sessions");
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => churn(&environment, server),
        1 => hoard(&environment, server),
        2 => trespass(&environment, server),
        3 => share(&environment, server),
        4 => come_late(&environment, server),
        5 => hang(&environment, server),
        6 => measure(&environment, server),
        unknown => panic!("there is no role {unknown}"),
    }
}

/// A context, and the memory that it computes on.
struct Client {
    context: Context,
    engine: Engine,
    left: Buffer,
    right: Buffer,
    product: Buffer,
}

impl Client {
    fn of(environment: &Environment) -> Client {
        let mut left = Buffer::of(&environment.expect::<Region>("buffer"));
        let mut right = left.split_off(BYTES);
        let product = right.split_off(BYTES);
        let context = Context::of(environment).expect("this task is a client of the device");
        Client { context, engine: environment.expect("ee"), left, right, product }
    }

    /// Has the device compute a product, and says whether it is right.
    fn compute(&mut self, round: u32, time: u64) -> Result<bool, RunError> {
        for at in 0..(ORDER * ORDER) as u32 {
            self.left.write_u32(4 * at as usize, round + at * 3);
            self.right.write_u32(4 * at as usize, round ^ at);
        }
        self.product.fill(0);
        let work = Work::launch(Product { order: ORDER as u16, time }, (&self.left, &self.right, &mut self.product));
        self.context.run(&self.engine, work, Instant::NEVER)?;
        let is_right = |row: usize, column: usize| {
            let term = |k: usize| {
                let [left, right] = [row * ORDER + k, k * ORDER + column].map(|at| 4 * at);
                self.left.read_u32(left).wrapping_mul(self.right.read_u32(right))
            };
            let sum = (0..ORDER).map(term).fold(0, u32::wrapping_add);
            self.product.read_u32(4 * (row * ORDER + column)) == sum
        };
        Ok((0..ORDER).all(|row| (0..ORDER).all(|column| is_right(row, column))))
    }
}

fn number(environment: &Environment, name: &str) -> u64 {
    environment.parameter(name).unwrap_or_else(|| panic!("no parameter `{name}`"))
}

fn milliseconds(environment: &Environment, name: &str) -> Instant {
    Instant(number(environment, name) * 1_000_000)
}

/// The contexts that this task has: one for each of its handles to the engine.
fn contexts(environment: &Environment) -> u64 {
    environment.entries().iter().filter(|entry| entry.kind == Engine::KIND).count() as u64
}

/// Logs how many products were right (1), how many failed as nothing was mapped (2), and how many contexts it could open at last (3).
fn churn(environment: &Environment, server: Endpoint) {
    let mut client = Client::of(environment);
    let session = Session::new(server);
    let (mut right, mut failed) = (0, 0);
    for round in 0..number(environment, "rounds") as u32 {
        session.open(Instant::NEVER).expect("it was closed");
        if round.is_multiple_of(64) {
            let unmapped = client.compute(round, 0);
            failed += u64::from(unmapped == Err(RunError::Fence(FenceError::Failed)));
        }
        session.map(Window::Buffer, 0, 0, 1, true, Instant::NEVER).expect("this page is ours, and nothing is mapped");
        right += u64::from(client.compute(round, 0) == Ok(true));
        session.close(Instant::NEVER).expect("nothing is under way");
    }
    log(1, right);
    log(2, failed);
    let all = || (0..contexts(environment)).map(|ordinal| Session::nth(server, ordinal));
    let opened = all().filter(|session| session.open(Instant::NEVER).is_ok()).count();
    let closed = all().filter(|session| session.close(Instant::NEVER).is_ok()).count();
    let states = all().map(|session| session.state(Instant::NEVER));
    let clean =
        states.filter(|state| state.is_ok_and(|state| !state.is_open && !state.is_pending && state.mapped == 0));
    log(3, if opened == closed && clean.count() as u64 == contexts(environment) { opened as u64 } else { 0 });
}

/// Logs how many contexts it could open (1), the code of the refusal that came then (2), and how many it could close (3).
fn hoard(environment: &Environment, server: Endpoint) {
    let all = || (0..contexts(environment)).map(|ordinal| Session::nth(server, ordinal));
    let mut opened = 0;
    let mut refused = 0;
    for session in all() {
        match session.open(Instant::NEVER) {
            Ok(_) => opened += 1,
            Err(SessionError::Refused(refusal)) => refused = refusal as u64,
            Err(error) => panic!("{error:?}"),
        }
    }
    log(1, opened);
    log(2, refused);
    let _ = sleep_until(milliseconds(environment, "until_ms"));
    log(3, all().filter(|session| session.close(Instant::NEVER).is_ok()).count() as u64);
}

/// Logs how many requests were answered as they should not be (1), and whether at least a thousand were made (2).
fn trespass(environment: &Environment, server: Endpoint) {
    let until = milliseconds(environment, "until_ms");
    let engine = environment.expect::<Engine>("ee");
    let context = Context::of(environment).expect("this task is a client of the device");
    let own_pages = environment.expect::<Region>("buffer").bytes() / 4096;
    let session = Session::new(server);
    let ask = |request: Request| {
        let [code, ..] = server.call(request.words(), Instant::NEVER).expect("the server answers everybody");
        code
    };
    let code = |refusal: Refusal| refusal as u64;
    let row = |window, first, count| Pages { window, first, count };
    let (mut wrong, mut asked) = (0, 0);
    while now().now < until {
        let mut expect = |request: Request, codes: &[u64]| {
            wrong += u64::from(!codes.contains(&ask(request)));
            asked += 1;
        };
        let map = |window, first, from, count| Request::Map {
            ordinal: 0,
            pages: row(window, first, count),
            from,
            writable: true,
        };
        let busy = [code(Refusal::Pending), code(Refusal::Busy)];
        expect(Request::Open(0), &[0, code(Refusal::AlreadyOpen), busy[0]]);
        // Behind its own memory are those of others.
        expect(map(Window::Buffer, 0, own_pages, 1), &[code(Refusal::NotYourMemory), code(Refusal::NotOpen)]);
        expect(map(Window::Buffer, 0, own_pages - 1, 2), &[code(Refusal::NotYourMemory), code(Refusal::NotOpen)]);
        expect(map(Window::Buffer, 0, u64::MAX, 1), &[code(Refusal::NotYourMemory), code(Refusal::NotOpen)]);
        expect(map(Window::Local, 0, 0, 1), &[code(Refusal::NotYourMemory), code(Refusal::NotOpen)]);
        expect(map(Window::Buffer, u64::MAX - 3, 0, PAGES), &[code(Refusal::OutsideWindow), code(Refusal::NotOpen)]);
        // Its neighbours' contexts, by any number.
        expect(Request::Open(1), &[code(Refusal::NotYours)]);
        expect(Request::Close(7), &[code(Refusal::NotYours)]);
        expect(Request::Reset { ordinal: 2, engines: 7 }, &[code(Refusal::NotYours)]);
        for context in 0..8 {
            expect(Request::ResetRunning { engine: 0, context }, &[code(Refusal::NotYours)]);
        }
        // And its own, in the middle of its work.
        let not_open = code(Refusal::NotOpen);
        expect(map(Window::Buffer, 0, 0, 1), &[0, code(Refusal::AlreadyMapped), not_open]);
        if let Ok(guard) = engine.acquire(Instant::NEVER) {
            for _ in 0..4 {
                let _ = context.start(&guard, Operation::Burn { time: 200_000 });
            }
        }
        expect(
            Request::Unmap { ordinal: 0, pages: row(Window::Buffer, 0, 1) },
            &[0, code(Refusal::NotMapped), not_open],
        );
        expect(Request::Close(0), &[0, busy[0], busy[1], not_open]);
        expect(Request::Reset { ordinal: 0, engines: 7 }, &[0, not_open]);
        expect(Request::Close(0), &[0, busy[0], busy[1], not_open]);
        let words = [now().now.0 % 12, asked, u64::MAX, asked % 20, asked % 3, 0];
        let _ = server.call(words, Instant::NEVER);
        // Or the trace has room for nothing else.
        let _ = sleep_until(now().now + Nanoseconds(2_000_000));
    }
    let _ = session.reset(7, Instant::NEVER);
    let _ = session.close(Instant::NEVER);
    log(1, wrong);
    log(2, u64::from(asked >= 1000));
}

/// Logs how many commands it had reset (1) when `until_ms` have passed, and how many resets of commands that are not over-long it was refused (2).
fn share(environment: &Environment, server: Endpoint) {
    let is_it = |entry: &&Entry| entry.kind == Doorbells::KIND;
    let entry = environment.entries().iter().find(is_it).expect("this task is a sharer");
    let doorbells = Doorbells::from_entry(environment, entry);
    let status =
        environment.entries().iter().find(|entry| entry.name.starts_with(b"status.")).expect("its engine's device");
    let status = Region::from_entry(environment, status).shared();
    let members = doorbells.members();
    doorbells.share((1 << members) - 1, DoorbellPage::Open).expect("these are members");
    let engine = contract::EngineIndex::from_number(doorbells.engine() as usize).expect("an engine of a device");
    let word = |at: u64| status.observe_u32(at as usize) as usize;
    // Which command it is: of which context, and its place among those without a lock.
    let command = || [contract::status_running(engine), contract::status_begun(engine)].map(word);
    let until = milliseconds(environment, "until_ms");
    let (mut before, mut looks, mut reset, mut refused) = ([0; 2], 0, 0, 0);
    while now().now < until {
        let _ = sleep_until(now().now + Nanoseconds(1_000_000));
        let now_runs = command();
        looks = if now_runs == before { looks + 1 } else { 0 };
        before = now_runs;
        let [runs, _] = now_runs;
        // A context that does not run, or the one of a task with a lock, is not reset.
        let other = (0..8).find(|context| context + 1 != runs).unwrap_or(0);
        let not = Session::reset_running(&server, doorbells.engine(), other, Instant::NEVER);
        refused += u64::from(not == Err(SessionError::Refused(Refusal::NotRunning)));
        let is_member = (0..members).any(|member| doorbells.context(member) + 1 == runs);
        if looks >= 10 && is_member {
            looks = 0;
            reset += u64::from(Session::reset_running(&server, doorbells.engine(), runs - 1, Instant::NEVER).is_ok());
        }
    }
    log(1, reset);
    log(2, u64::from(refused > 0));
}

/// Logs whether its product was right (1), and the code of the first refusal, zero if there was none (2).
fn come_late(environment: &Environment, server: Endpoint) {
    let mut client = Client::of(environment);
    let session = Session::new(server);
    let _ = sleep_until(milliseconds(environment, "from_ms"));
    let mut refused = 0;
    loop {
        match session.open(Instant::NEVER) {
            Ok(_) => break,
            Err(SessionError::Refused(refusal)) if refused == 0 => refused = refusal as u64,
            Err(_) => {}
        }
        let _ = sleep_until(now().now + Nanoseconds(1_000_000));
    }
    session.map(Window::Buffer, 0, 0, 1, true, Instant::NEVER).expect("this page is ours");
    log(1, u64::from(client.compute(7, 0) == Ok(true)));
    log(2, refused);
    session.close(Instant::NEVER).expect("nothing is under way");
}

/// Logs how many products were right (1) and how many operations failed (2).
fn hang(environment: &Environment, server: Endpoint) {
    let mut client = Client::of(environment);
    let session = Session::new(server);
    // By then the sharer has opened all doorbells.
    let _ = sleep_until(milliseconds(environment, "from_ms"));
    session.open(Instant::NEVER).expect("there is room");
    session.map(Window::Buffer, 0, 0, 1, true, Instant::NEVER).expect("this page is ours");
    let count = number(environment, "products") as u32;
    let endless = environment.parameter("endless").is_some();
    let right = (0..count).filter(|round| client.compute(*round, 1_000_000) == Ok(true)).count();
    log(1, right as u64);
    let burn = Operation::Burn { time: u64::MAX };
    let failed = endless && client.context.run(&client.engine, burn, Instant::NEVER).is_err();
    log(2, u64::from(failed));
    session.close(Instant::NEVER).expect("nothing is under way");
}

/// Logs the marks of its role.
fn measure(environment: &Environment, server: Endpoint) {
    const TIMES: u64 = 256;
    let session = Session::new(server);
    let mut sums = [0; 8];
    let mut timed = |operation: usize, request: Request| {
        let words = request.words();
        let before = now().now;
        let [code, ..] = server.call(words, Instant::NEVER).expect("the server answers everybody");
        sums[operation] += now().now.since(before).0;
        code
    };
    let pages = Pages { window: Window::Buffer, first: 0, count: PAGES };
    for _ in 0..TIMES {
        let opened = timed(1, Request::Open(0));
        let mapped = timed(3, Request::Map { ordinal: 0, pages, from: 0, writable: true });
        assert_eq!([opened, mapped], [0, 0]);
        timed(6, Request::State(0));
        timed(4, Request::Unmap { ordinal: 0, pages });
        timed(5, Request::Reset { ordinal: 0, engines: 7 });
        timed(7, Request::ResetRunning { engine: 0, context: 1 });
        timed(2, Request::Close(0));
        session.close(Instant::NEVER).expect("nothing is under way");
    }
    let before = now().now;
    (0..TIMES).for_each(|_| {
        let _ = now();
    });
    let clock = now().now.since(before).0 / TIMES;
    let times = sums.map(|sum| (sum / TIMES).saturating_sub(clock));
    match environment.parameter("most_ns") {
        Some(most) => log(1, u64::from(times.iter().all(|time| *time <= most))),
        None => times.iter().enumerate().skip(1).for_each(|(operation, time)| log(operation as u64, *time)),
    }
}
