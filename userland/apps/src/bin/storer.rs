//! A client that stores to its doorbell as fast as it can, and a sharer that looks whether each store is where it belongs.
//!
//! | role      | does                                                                  | handles                                                   |
//! |-----------|-----------------------------------------------------------------------|-----------------------------------------------------------|
//! | 0, storer | stores 1, 2, 3 and so on to its doorbell; submits nothing, never kicks  | engine "ee" (share)                                       |
//! | 1, sharer | opens and closes the doorbell `rounds` times, then ends the system     | endpoint "requests" (receive), "system"; sharer of engine `ee` |
//!
//! In each round the sharer opens the doorbell until `burst` stores have come through. Then it closes it in one of three ways by turns: to be read, absent,
//! or with the shadow in its place for another `burst` stores. It counts
//!
//! - rounds in which the doorbell changed between `share` and its undoing (2);
//! - rounds in which the store that is asked about is not the next one after those that are in the doorbell, shadowed ones having been forwarded: then a store
//!   was lost, or let through although it was forbidden (3).
//!
//! It logs whether there were `stores` stores or more (1). In every round there are stores that do reach the doorbell while it is open, or the round does
//! not end: so a `share` that forbids nothing is found out by (2).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::misbehave::count_as;
use fusee::{
    DoorbellPage, Doorbells, Endpoint, Engine, Environment, Instant, Request, ServeError, Server, System, Verdict,
    environment, log, shutdown,
};

fusee::entry!(main);

/// The one client.
const MEMBER: usize = 0;
const ALL: u16 = 1 << MEMBER;

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => store(&environment),
        1 => Sharer::of(&environment).run(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
}

fn store(environment: &Environment) {
    let engine = environment.expect::<Engine>("ee");
    let guard = engine.acquire(Instant::NEVER).expect("there is no lock to wait for");
    for count in 1.. {
        count_as(&guard, count);
    }
}

struct Sharer {
    doorbells: Doorbells,
    server: Server,
    /// Rounds in which the doorbell changed while it was closed.
    changed: u64,
    /// Rounds in which the stores did not follow each other.
    torn: u64,
}

impl Sharer {
    fn of(environment: &Environment) -> Sharer {
        Sharer {
            doorbells: environment.expect::<Doorbells>("doorbells.ee"),
            server: Server::new(environment.expect::<Endpoint>("requests")),
            changed: 0,
            torn: 0,
        }
    }

    fn share(&self, page: DoorbellPage) {
        self.doorbells.share(ALL, page).expect("it is the client");
    }

    fn stored(&self) -> u32 {
        self.doorbells.submitted(MEMBER)
    }

    /// The store that the client waits with, or will.
    fn next(&mut self) -> Request {
        self.server.receive(Instant::NEVER).expect("the client lives")
    }

    /// Answers it. If the client has asked about another one by then, that is made again.
    fn answer(&mut self, request: Request, verdict: Verdict) {
        let mut next = self.server.reply_receive(request.token, verdict.words(), Instant::ZERO);
        while let Ok(another) = next {
            next = self.server.reply_receive(another.token, Verdict::Again.words(), Instant::ZERO);
        }
        assert!(matches!(next, Err(ServeError::TimedOut)), "the client lives");
    }

    /// Closes the doorbell in one of three ways, and returns the store that the client waits with then.
    fn close(&mut self, way: u64, burst: u32) -> Request {
        let before;
        if way == 0 {
            self.doorbells.shadow(ALL).expect("it is the client");
            before = self.stored();
            // It may have asked before its shadow was there.
            let asked = self.server.receive(Instant::ZERO);
            if let Ok(request) = asked {
                self.answer(request, Verdict::Again);
            }
            while self.doorbells.buffered(MEMBER).wrapping_sub(before) < burst {}
            self.changed += u64::from(self.stored() != before);
            self.doorbells.unshadow(ALL, DoorbellPage::ReadOnly).expect("it is the client");
            let forwarded = self.stored();
            let request = self.next();
            self.changed += u64::from(self.stored() != forwarded);
            request
        } else {
            self.share(if way == 1 { DoorbellPage::ReadOnly } else { DoorbellPage::Absent });
            before = self.stored();
            let request = self.next();
            self.changed += u64::from(self.stored() != before);
            request
        }
    }

    fn run(&mut self, environment: &Environment) -> ! {
        let number = |name: &str| environment.parameter(name).unwrap_or_else(|| panic!("no parameter `{name}`"));
        let burst = number("burst") as u32;
        let mut request = self.next();
        for round in 0..number("rounds") {
            // Each second store is made for the client, all others it makes itself.
            self.share(DoorbellPage::Open);
            let (from, store) = (self.stored(), request.store().expect("all requests are stores"));
            self.torn += u64::from(store.submitted != from.wrapping_add(1));
            if round % 2 == 0 {
                self.doorbells.submit(store);
            }
            self.answer(request, if round % 2 == 0 { Verdict::GoOn } else { Verdict::Again });
            while self.stored().wrapping_sub(from) < burst {}
            request = self.close(round % 3, burst);
        }
        log(1, u64::from(u64::from(self.stored()) >= number("stores")));
        log(2, self.changed);
        log(3, self.torn);
        shutdown(environment.expect::<System>("system"), 0)
    }
}
