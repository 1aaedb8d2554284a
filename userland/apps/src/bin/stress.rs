//! Random calls, deferred and nested, timeouts, signals and waits: a stress test for races, one role a task.
//!
//! | role        | handles                                                                                        |
//! |-------------|------------------------------------------------------------------------------------------------|
//! | 0, director | region "counts", "system" (shutdown)                                                           |
//! | 1, client   | region "counts"; endpoints "first", "second" (call); notifications "mine" (wait), "other" (signal) |
//! | 2, server   | endpoint "serves" (receive); for nested calls endpoint "next" (call)                           |
//!
//! Parameters: "role"; "number" of a client, "clients" and "goal" (operations of all clients together) of the director.
//! A client checks each reply; the system ends with 0 once all operations are done.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{
    CallError, Endpoint, Environment, Instant, Message, Nanoseconds, Notification, Object, Region, ReplyToken, Request,
    ServeError, Server, SharedBytes, System, WaitError, environment, next_job, now, shutdown, sleep_until, yield_now,
};

fusee::entry!(main);

/// The number that a server adds to each word.
const SECRET: u64 = 0x5eed;
/// How often the director looks.
const LOOK: Nanoseconds = Nanoseconds(10_000_000);
/// The time that a server keeps a client waiting at most.
const PATIENCE: u64 = 50_000;

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => direct(&environment),
        1 => call_for_ever(&environment),
        2 => serve(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn direct(environment: &Environment) {
    let counts = environment.expect::<Region>("counts").shared();
    let clients = environment.parameter("clients").expect("so many clients");
    let goal = environment.parameter("goal").expect("so many operations");
    let done = |counts: &SharedBytes| (0..clients).map(|client| counts.read_u64(client as usize * 8)).sum::<u64>();
    while done(&counts) < goal {
        sleep_until(now().now + LOOK).expect("the director may sleep");
    }
    shutdown(environment.expect::<System>("system"), 0);
}

/// A xorshift generator.
struct Dice(u64);

impl Dice {
    fn of(environment: &Environment) -> Dice {
        let number = environment.parameter("number").unwrap_or(99);
        Dice((number + 1) * 0x9e37_79b9_7f4a_7c15)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// Never, or soon.
    fn deadline(&mut self) -> Instant {
        if self.roll(4) == 0 { now().now + Nanoseconds(self.roll(200_000)) } else { Instant::NEVER }
    }
}

fn optional<T: Object>(environment: &Environment, name: &str) -> Option<T> {
    environment.get(name).ok()
}

//--- Clients

fn call_for_ever(environment: &Environment) -> ! {
    let counts = environment.expect::<Region>("counts").shared();
    let place = environment.parameter("number").expect("a client has a number") as usize * 8;
    let servers = [environment.expect::<Endpoint>("first"), environment.expect::<Endpoint>("second")];
    let (mine, other): (Notification, Notification) = (environment.expect("mine"), environment.expect("other"));
    let mut dice = Dice::of(environment);
    // Those with jobs never end their first.
    let _ = next_job();
    loop {
        match dice.roll(8) {
            0 => other.signal(1 << dice.roll(64)).expect("the other may be signalled"),
            1 => match mine.wait(now().now + Nanoseconds(dice.roll(50_000))) {
                Ok(bits) => assert_ne!(bits, 0, "woken for nothing"),
                Err(error) => assert_eq!(error, WaitError::TimedOut),
            },
            2 => yield_now().expect("no overrun is signalled here"),
            _ => {
                let sent = dice.roll(1 << 40);
                let server = servers[dice.roll(2) as usize];
                match server.call([sent, sent + 1, sent + 2, sent + 3, sent + 4, sent + 5], dice.deadline()) {
                    Ok(reply) => assert_eq!(reply, answer_to([sent, sent + 1, sent + 2, sent + 3, sent + 4, sent + 5])),
                    Err(error) => assert_eq!(error, CallError::TimedOut),
                }
            }
        }
        counts.write_u64(place, counts.read_u64(place) + 1);
    }
}

fn answer_to(words: Message) -> Message {
    words.map(|word| word + SECRET)
}

//--- Servers

fn serve(environment: &Environment) -> ! {
    let mut server = Server::new(environment.expect("serves"));
    let next: Option<Endpoint> = optional(environment, "next");
    let mut dice = Dice::of(environment);
    let mut kept: Option<(ReplyToken, Message)> = None;
    let mut request = None;
    loop {
        // 1. A client to serve; while another waits for a deferred reply, not for long.
        let deadline = if kept.is_some() { now().now + Nanoseconds(PATIENCE) } else { Instant::NEVER };
        let Request { words, token, .. } = match request.take().map_or_else(|| server.receive(deadline), Ok) {
            Ok(request) => request,
            Err(ServeError::TimedOut) => {
                request = answered(&mut server, &mut kept);
                continue;
            }
            Err(error) => panic!("the server gets no requests: {error:?}"),
        };
        // 2. Work, sometimes with the help of another.
        if let Some(next) = next.filter(|_| dice.roll(3) == 0) {
            match next.call(words, dice.deadline()) {
                Ok(reply) => assert_eq!(reply, answer_to(words)),
                Err(error) => assert_eq!(error, CallError::TimedOut),
            }
        }
        // 3. An answer now, or after the next one's.
        request = if kept.is_none() && dice.roll(4) == 0 {
            kept = Some((token, answer_to(words)));
            None
        } else {
            let mut now = Some((token, answer_to(words)));
            let next = answered(&mut server, &mut now);
            if next.is_none() && dice.roll(2) == 0 { answered(&mut server, &mut kept) } else { next }
        };
    }
}

/// Answers the client that is kept, and takes the next request if it is there already. A client may have given up.
fn answered(server: &mut Server, kept: &mut Option<(ReplyToken, Message)>) -> Option<Request> {
    let (token, words) = kept.take()?;
    match server.reply(token, words) {
        Ok(request) => request,
        Err(ServeError::BadToken) => None,
        Err(error) => panic!("the server cannot answer: {error:?}"),
    }
}
