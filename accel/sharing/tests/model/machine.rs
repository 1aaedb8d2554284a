//! A device, its clients and a server, in virtual time: the machine that policies are measured on.
//!
//! The device serves its queues in turn, one command at a time, and cannot be interrupted. A client keeps a number of
//! commands under way and may pause between them. A trapped store reaches the server after [`TRAP`]; the server steps then,
//! and when the last verdict asks for it. Everything else costs nothing.

use std::collections::VecDeque;

use fusee_sched::time::{Instant, Nanoseconds};
use fusee_sharing::{
    Counters, Doorbell, MEMBERS, Member, Members, Place, Policy, Reading, Readings, Response, Running, Seen,
};

/// Time from a trapped store to the server's step.
pub const TRAP: u64 = 4_000;
pub const MICROSECOND: u64 = 1_000;
pub const SECOND: u64 = 1_000_000_000;

/// The commands of a client.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Device time of one command.
    pub size: u64,
    /// The length of commands while each of the client's stores is trapped and lets it know that it is sampled.
    pub size_if_trapped: u64,
    /// Commands under way at most.
    pub depth: usize,
    /// Pause between a completion and the next command.
    pub pause: u64,
    /// The instant when it begins.
    pub begins: u64,
    /// The client has a context, and never sends anything.
    pub silent: bool,
}

impl Load {
    pub fn of(size: u64) -> Load {
        Load { size, size_if_trapped: size, depth: 1, pause: 0, begins: 0, silent: false }
    }

    pub fn depth(self, depth: usize) -> Load {
        Load { depth, ..self }
    }

    /// Idle for such a part of the time, in percent, when alone.
    pub fn off(self, percent: u64) -> Load {
        Load { pause: self.size * percent / (100 - percent), ..self }
    }

    pub fn pretends(self, size_if_trapped: u64) -> Load {
        Load { size_if_trapped, ..self }
    }

    pub fn silent(self) -> Load {
        Load { silent: true, ..self }
    }

    pub fn begins(self, begins: u64) -> Load {
        Load { begins, ..self }
    }
}

#[derive(Default)]
struct Client {
    load: Option<Load>,
    /// Times at which it sends its next commands.
    ready: VecDeque<u64>,
    /// Commands whose store waits.
    held: VecDeque<u64>,
    queue: VecDeque<u64>,
    announced: u64,
    submitted: u64,
    completed: u64,
    busy: u64,
    backlogged: u64,
}

/// The results of one client.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub commands: u64,
    pub busy: u64,
    /// The slowdown against a device alone without a server, as a factor.
    pub slowdown: f64,
}

pub struct Machine<'a> {
    pub now: u64,
    policy: Option<&'a mut dyn Policy>,
    clients: Vec<Client>,
    open: [bool; MEMBERS],
    traps: VecDeque<u64>,
    call_again: Option<u64>,
    suspended: Members,
    running: Option<(usize, u64)>,
    last_served: usize,
    pub counters: bool,
    pub tells_running: bool,
    pub steps: u64,
    pub accusations: Vec<(u64, usize, Response)>,
    pub stores_trapped: u64,
}

impl<'a> Machine<'a> {
    /// Members in their places. Without a policy all doorbells are open.
    pub fn new(policy: Option<&'a mut dyn Policy>, loads: &[(Load, Place)]) -> Machine<'a> {
        let mut machine = Machine {
            now: 0,
            open: [policy.is_none(); MEMBERS],
            policy,
            clients: Vec::new(),
            traps: VecDeque::new(),
            call_again: None,
            suspended: Members::EMPTY,
            running: None,
            last_served: 0,
            counters: true,
            tells_running: true,
            steps: 0,
            accusations: Vec::new(),
            stores_trapped: 0,
        };
        for (index, &(load, place)) in loads.iter().enumerate() {
            let mut client = Client { load: Some(load), ..Client::default() };
            if !load.silent {
                // Clients begin at slightly different times.
                client.ready = (0..load.depth as u64).map(|n| load.begins + n + 17 * index as u64).collect();
            }
            machine.clients.push(client);
            if let Some(policy) = &mut machine.policy {
                policy.join(member(index), place, &Reading::default(), Instant(0)).unwrap();
            }
        }
        machine
    }

    /// From now on these members are suspended, and no others. The server gets a message about it.
    pub fn suspend(&mut self, members: Members) {
        if self.suspended != members {
            self.suspended = members;
            self.traps.push_front(self.now);
        }
    }

    /// The values that the server shows of each member.
    pub fn seen(&self) -> [Seen; MEMBERS] {
        let policy = self.policy.as_ref();
        std::array::from_fn(|index| {
            let Some(client) = self.clients.get(index) else { return Seen::default() };
            Seen {
                used: policy.map_or(Nanoseconds(client.busy), |policy| policy.usage(member(index)).used),
                completed: client.completed,
                at_device: (client.submitted - client.completed) as u32,
                waits: !client.held.is_empty(),
            }
        })
    }

    /// Lets virtual time pass until `end`; `each` sees the policy after each step.
    pub fn run(&mut self, end: u64) {
        self.run_with(end, |_, _| {});
    }

    pub fn run_with(&mut self, end: u64, mut each: impl FnMut(&mut dyn Policy, u64)) {
        loop {
            let ready = self.clients.iter().filter_map(|client| client.ready.front().copied()).min();
            let ends = self.running.map(|(_, end)| end);
            let trap = self.traps.front().copied();
            let Some(next) = [ready, ends, trap, self.call_again].into_iter().flatten().min() else { break };
            if next > end {
                break;
            }
            self.pass_time(next.max(self.now));
            if ends == Some(next) {
                self.complete();
            } else if ready == Some(next) {
                self.store();
            } else {
                if trap == Some(next) {
                    self.traps.pop_front();
                }
                self.step();
                each(*self.policy.as_mut().unwrap(), self.now);
            }
            self.serve();
        }
        self.pass_time(end);
    }

    pub fn outcomes(&self) -> Vec<Outcome> {
        let outcome = |client: &Client| {
            let load = client.load.unwrap();
            let each = load.size.max((load.size + load.pause) / load.depth as u64);
            let alone = (self.now - load.begins) as f64 / each as f64;
            Outcome { commands: client.completed, busy: client.busy, slowdown: alone / client.completed as f64 }
        };
        self.clients.iter().map(outcome).collect()
    }

    /// Each client's part of the used engine time.
    pub fn shares(&self) -> Vec<f64> {
        let all: u64 = self.clients.iter().map(|client| client.busy).sum();
        self.clients.iter().map(|client| client.busy as f64 / all as f64).collect()
    }

    /// Sum over all clients of the time alone for their commands, over time passed.
    pub fn efficiency(&self) -> f64 {
        self.outcomes().iter().map(|outcome| 1.0 / outcome.slowdown).sum()
    }

    fn pass_time(&mut self, to: u64) {
        let passed = to - self.now;
        for client in &mut self.clients {
            if client.submitted > client.completed {
                client.backlogged += passed;
            }
        }
        if let Some((index, _)) = self.running {
            self.clients[index].busy += passed;
        }
        self.now = to;
    }

    fn complete(&mut self) {
        let (index, _) = self.running.take().unwrap();
        let client = &mut self.clients[index];
        client.completed += 1;
        client.ready.push_back(self.now + client.load.unwrap().pause);
    }

    fn store(&mut self) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            // A client is one thread: it sends nothing while a store of its waits.
            while client.ready.front().is_some_and(|&at| at <= self.now) {
                client.ready.pop_front();
                client.announced += 1;
                let load = client.load.unwrap();
                if self.open[index] {
                    client.submitted += 1;
                    client.queue.push_back(load.size);
                } else {
                    client.held.push_back(load.size_if_trapped);
                    self.stores_trapped += 1;
                    self.traps.push_back(self.now + TRAP);
                }
            }
        }
    }

    fn step(&mut self) {
        let mut readings = Readings::default();
        for (index, client) in self.clients.iter().enumerate() {
            let counters = Counters { busy: Nanoseconds(client.busy), backlogged: Nanoseconds(client.backlogged) };
            readings.members[index] = Reading {
                announced: client.announced,
                submitted: client.submitted,
                completed: client.completed,
                counters: self.counters.then_some(counters),
            };
        }
        if self.tells_running {
            readings.running = self.running.map_or(Running::Nobody, |(index, _)| Running::Member(member(index)));
        }
        let readings = readings.without(self.suspended);
        let verdict = self.policy.as_mut().unwrap().step(Instant(self.now), &readings).without(self.suspended);
        self.steps += 1;
        assert!(self.steps < 100_000_000, "the policy lets time stand still");
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            let pass = match verdict.doorbells[index] {
                Doorbell::Open => client.held.len(),
                Doorbell::Trapped { pass } => pass as usize,
            };
            self.open[index] = verdict.doorbells[index] == Doorbell::Open;
            for command in client.held.drain(..pass) {
                client.submitted += 1;
                // Once its doorbell is open, a client knows that it is not sampled.
                client.queue.push_back(if self.open[index] { client.load.unwrap().size } else { command });
            }
        }
        self.call_again = verdict.call_again.map(|at| at.0);
        if let Some(accusation) = verdict.accused {
            let index = accusation.member.index();
            self.accusations.push((self.now, index, accusation.response));
            let client = &mut self.clients[index];
            let lost = client.submitted - client.completed;
            client.completed = client.submitted;
            client.queue.clear();
            if self.running.is_some_and(|(running, _)| running == index) {
                self.running = None;
            }
            match accusation.response {
                Response::Reset => client.ready.extend((0..lost).map(|_| self.now)),
                Response::Stop => {
                    client.ready.clear();
                    client.held.clear();
                    self.policy.as_mut().unwrap().leave(accusation.member, Instant(self.now));
                    self.call_again = Some(self.now);
                }
            }
        }
    }

    fn serve(&mut self) {
        let count = self.clients.len();
        if self.running.is_some() || count == 0 {
            return;
        }
        let next = (1..=count)
            .map(|step| (self.last_served + step) % count)
            .find(|&index| !self.clients[index].queue.is_empty());
        if let Some(index) = next {
            let size = self.clients[index].queue.pop_front().unwrap();
            self.running = Some((index, self.now + size));
            self.last_served = index;
        }
    }
}

pub fn member(index: usize) -> Member {
    Member::new(index).unwrap()
}
