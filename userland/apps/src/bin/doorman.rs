//! A sharer that lets its engine's clients in and out, and looks whether any of them submits while it may not.
//!
//! In each of `rounds` rounds:
//! 1. it makes the first `engaged` stores in the clients' stead, at once;
//! 2. it opens all doorbells for `open_us`;
//! 3. it forbids stores again, and keeps all clients that store waiting for `shut_us`: no count of commands may change meanwhile. Then each second client
//!    stores once more itself, and is asked about again, and the others' stores are made.
//!
//! Then, unless the parameter `dies` is there, it opens all doorbells for good. Handles: endpoint "requests" (receive); it is the sharer of engine `ee`.
//! It logs whether it made a store a round (1), whether one a round was asked
//! about again (2), and how many counts have changed that should not (3).
//!
//! With the parameter `nonsense` it does none of this: for ever it answers a store with words that mean nothing, the next with *go on* although it has not made it,
//! and the one after that with *go on* when it has stored something else.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::{
    DoorbellPage, Doorbells, Endpoint, Instant, Nanoseconds, Request, ServeError, Server, Store, Verdict, environment,
    log, now,
};

fusee::entry!(main);

/// As many clients as an engine has at most.
const CLIENTS: usize = 15;

struct Doorman {
    doorbells: Doorbells,
    server: Server,
    /// Requests that wait for an answer, by client.
    waiting: [Option<Request>; CLIENTS],
    made: u64,
    again: u64,
    changed: u64,
}

impl Doorman {
    fn all(&self) -> u16 {
        (1 << self.doorbells.members()) - 1
    }

    fn share(&self, page: DoorbellPage) {
        self.doorbells.share(self.all(), page).expect("these are all clients");
    }

    fn counts(&self) -> [u32; CLIENTS] {
        core::array::from_fn(|member| match member < self.doorbells.members() {
            true => self.doorbells.submitted(member),
            false => 0,
        })
    }

    /// Keeps the client that asks next waiting, if one does until `deadline`.
    fn take(&mut self, deadline: Instant) -> Option<usize> {
        let next = self.server.receive(deadline);
        self.keep(next)
    }

    fn keep(&mut self, next: Result<Request, ServeError>) -> Option<usize> {
        match next {
            Ok(request) => {
                let member = request.store().expect("nobody calls, all store").member;
                assert!(self.waiting[member].is_none(), "a client stores twice at a time");
                self.waiting[member] = Some(request);
                Some(member)
            }
            Err(ServeError::TimedOut) => None,
            Err(error) => panic!("no request: {error:?}"),
        }
    }

    /// Answers a client that waits, and keeps the next one waiting that has asked by then.
    fn answer(&mut self, member: usize, verdict: Verdict) {
        let Some(request) = self.waiting[member].take() else { return };
        let store = request.store().expect("it was one");
        if verdict == Verdict::GoOn {
            self.doorbells.submit(store);
            self.made += 1;
        } else {
            self.again += 1;
        }
        let next = self.server.reply_receive(request.token, verdict.words(), Instant::ZERO);
        self.keep(next);
    }

    fn answer_all(&mut self, verdict: impl Fn(usize) -> Verdict) {
        for member in 0..self.doorbells.members() {
            self.answer(member, verdict(member));
        }
    }

    fn talk_nonsense(&mut self) -> ! {
        for number in 0_u64.. {
            let waiting = (0..CLIENTS).find(|member| self.waiting[*member].is_some());
            let Some(member) = waiting.or_else(|| self.take(Instant::NEVER)) else { continue };
            let Some(request) = self.waiting[member].take() else { continue };
            let store = request.store().expect("it was one");
            assert!(self.doorbells.share(1 << CLIENTS, DoorbellPage::Open).is_err(), "there is no such client");
            if number % 3 == 2 {
                let submitted = store.submitted.wrapping_add(1000 + number as u32);
                self.doorbells.submit(Store { submitted, ..store });
            }
            let words = if number % 3 == 0 { [number + 7; 6] } else { Verdict::GoOn.words() };
            let next = self.server.reply_receive(request.token, words, Instant::ZERO);
            self.keep(next);
        }
        unreachable!("numbers do not end")
    }

    fn round(&mut self, [engaged, open, shut]: [u64; 3]) {
        for _ in 0..engaged {
            // Clients may be done for good.
            let patience = now().now + Nanoseconds(20_000_000);
            let Some(member) =
                (0..CLIENTS).find(|member| self.waiting[*member].is_some()).or_else(|| self.take(patience))
            else {
                break;
            };
            self.answer(member, Verdict::GoOn);
        }
        self.share(DoorbellPage::Open);
        // Requests from before: the doorbell is open by now.
        self.answer_all(|_| Verdict::Again);
        let until = now().now + Nanoseconds(open * 1000);
        while let Some(member) = self.take(until) {
            self.answer(member, Verdict::Again);
        }

        self.share(DoorbellPage::ReadOnly);
        let before = self.counts();
        let until = now().now + Nanoseconds(shut * 1000);
        while self.take(until).is_some() {}
        let after = self.counts();
        self.changed += before.iter().zip(&after).filter(|(before, after)| before != after).count() as u64;
        self.answer_all(|member| if member % 2 == 0 { Verdict::GoOn } else { Verdict::Again });
    }
}

fn main() {
    let environment = environment();
    let number = |name| environment.parameter(name).unwrap_or(0);
    let server = Server::new(environment.expect::<Endpoint>("requests"));
    let doorbells = environment.expect::<Doorbells>("doorbells.ee");
    let waiting = [const { None }; CLIENTS];
    let mut doorman = Doorman { doorbells, server, waiting, made: 0, again: 0, changed: 0 };
    if number("nonsense") != 0 {
        doorman.talk_nonsense();
    }
    for _ in 0..number("rounds") {
        doorman.round(["engaged", "open_us", "shut_us"].map(number));
    }
    log(1, u64::from(doorman.made >= number("rounds")));
    log(2, u64::from(doorman.again >= number("rounds")));
    log(3, doorman.changed);
    if number("dies") == 0 {
        doorman.share(DoorbellPage::Open);
        loop {
            // With an answer a request may come of a client that this round of answers has passed.
            while doorman.waiting.iter().any(Option::is_some) {
                doorman.answer_all(|_| Verdict::Again);
            }
            doorman.take(Instant::NEVER);
        }
    }
}
