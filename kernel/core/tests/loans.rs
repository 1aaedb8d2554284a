//! Regions lent with calls, against an oracle: random histories of lending, answering, waiting too long, stopping and
//! dying.
//!
//! The oracle knows which calls are under way and which regions each has lent, and nothing of reply slots. After each step it is
//! compared with the orders to the machine for every place, and with the answers of the kernel. From the kernel it takes
//! the present waits for replies, which are not tested here.
#![allow(missing_docs)]

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread as host;

use fusee_abi::Error;
use fusee_abi::call::{
    CARRIES, Call, DEADLINE, FIRST_WORD, GIVEN, HandleValue, KEPT, LENT, NEVER, NUMBER, TOKEN, WRITABLE, rights,
};
use fusee_kernel_core::id::{RegionId, ThreadId};
use fusee_kernel_core::limits;
use fusee_kernel_core::object::State;
use fusee_kernel_core::{Place, Trap};
use fusee_manifest::Manifest;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use table::{Draw, Table, thread};

const TASKS: usize = 4;
const SERVERS: usize = 2;
/// Steps of one history.
const STEPS: usize = 300;
const US: u64 = 1_000;
/// The smallest kernel there is has one.
const REGIONS: usize = if limits::REGIONS < 2 { limits::REGIONS } else { 2 };

/// The first two serve, and `t1` is a client of `t0` as well. Slots: endpoints, then regions, then a victim.
const HANDLES: [[&str; 5]; TASKS] = [
    [
        "endpoint s0: receive",
        "endpoint s1: call",
        "region r0: read write lent",
        "region r1: read lent",
        "task t3: stop",
    ],
    ["endpoint s0: call", "endpoint s1: receive", "region r0: read write lent", "region r1: read write lend", ""],
    ["endpoint s0: call", "endpoint s1: call", "region r0: read write lend", "region r1: read lend", "task t0: stop"],
    ["endpoint s0: call", "endpoint s1: call", "region r0: read lend", "region r1: read write", "task t2: stop"],
];

fn manifest(cpus: usize) -> Manifest {
    let mut text = format!("[system]\nname = \"loans\"\nboard = \"virt\"\ncpus = {cpus}\nadmission = \"warn\"\n");
    text += &format!("[clusters.all]\ncpus = {:?}\n", (0..cpus).collect::<Vec<_>>());
    for (task, handles) in HANDLES.iter().enumerate() {
        text += &format!("[tasks.t{task}]\nbinary = \"model/model\"\ncluster = \"all\"\nclass = \"background\"\n");
        text += &format!("[tasks.t{task}.handles]\n");
        for (slot, handle) in handles.iter().enumerate() {
            // Where there is no such region, the slot holds something else.
            let handle =
                if handle.is_empty() || (2 + REGIONS..4).contains(&slot) { "notification none: wait" } else { handle };
            text += &format!("h{slot} = \"{handle}\"\n");
        }
    }
    text += "[endpoints.s0]\nserver = \"t0\"\n[endpoints.s1]\nserver = \"t1\"\n[notifications.none]\n";
    (0..REGIONS).for_each(|region| text += &format!("[regions.r{region}]\nbytes = \"8KiB\"\n"));
    Manifest::parse(Path::new("loans.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn may(task: usize, region: usize, right: &str) -> bool {
    let (_, words) = HANDLES[task][2 + region].split_once(": ").expect("there is a handle in that slot");
    words.split(' ').any(|word| word == right)
}

fn slot(slot: usize) -> u64 {
    HandleValue::new(slot as u16, 1).0
}

//--- The oracle --------------------------------------------------------------------------------------------

/// The regions that a task wants to lend with its call.
#[derive(Clone, Copy, Debug)]
struct Offer {
    region: usize,
    mask: u32,
}

/// A call under way that has lent something.
#[derive(Clone, Copy, Debug)]
struct Loan {
    client: usize,
    server: usize,
    region: usize,
    writable: bool,
}

/// The events of some histories.
type Seen = BTreeSet<String>;

struct World {
    table: Table,
    /// Requests that were made and not received yet.
    offers: [Option<Offer>; TASKS],
    loans: Vec<Loan>,
    /// The rest at each place of the last loan there.
    left: BTreeMap<(usize, usize), Place>,
    /// Tokens of requests that each server has received.
    tokens: [Vec<u64>; TASKS],
    seen: Seen,
    /// Whether fast paths are compared with the slow one.
    compares: bool,
}

impl World {
    fn new(cpus: usize, compares: bool) -> World {
        World {
            table: Table::new(&manifest(cpus)),
            offers: [None; TASKS],
            loans: Vec::new(),
            left: BTreeMap::new(),
            tokens: Default::default(),
            seen: Seen::new(),
            compares,
        }
    }

    fn see(&mut self, what: &str) {
        self.seen.insert(what.to_owned());
    }

    /// One step, with the comparison after each of its traps.
    fn step(&mut self, number: u64) -> Result<(), String> {
        let mut draw = Draw(number);
        self.table.pass(draw.below(20) as u64 * US);
        while self.table.fire() {
            self.follow()?;
        }
        let Some((cpu, task)) = self.table.running(&mut draw) else { return Ok(()) };
        let call = self.prepare(task, &mut draw);
        self.table.general(task)[NUMBER] = call as u64;
        let lent = self.loans.iter().filter(|loan| loan.server == task).count();
        let is_fast = if self.compares && call == Call::ReplyReceive && lent != 0 {
            self.table.exact_call(cpu)?
        } else {
            self.table.trap(cpu, Trap::Syscall);
            false
        };
        self.follow()?;
        if is_fast && self.loans.iter().filter(|loan| loan.server == task).count() < lent {
            self.see("ended by a fast path");
        }
        // The server looks for another request where it could not take one.
        while self.table.starts_again(task) {
            if self.table.executes(cpu) != Some(task) {
                break;
            }
            self.table.trap(cpu, Trap::Syscall);
            self.follow()?;
        }
        Ok(())
    }

    /// Fills the registers of `task` for a call.
    fn prepare(&mut self, task: usize, draw: &mut Draw) -> Call {
        let region = draw.below(REGIONS);
        let mask = [rights::READ | rights::WRITE, rights::READ, u32::MAX, rights::WRITE][draw.below(8) % 4];
        let deadline = if draw.one_in(3) { NEVER } else { self.table.board.now.0 + draw.below(200) as u64 * US };
        let token = match self.tokens[task].len() {
            0 => 0,
            tokens => self.tokens[task].swap_remove(draw.below(tokens)),
        };
        // Servers call each other.
        let endpoint = if task < SERVERS { 1 - task } else { draw.below(SERVERS) };
        let keeps = draw.one_in(4);
        let general = self.table.general(task);
        general[FIRST_WORD] = task as u64;
        general[DEADLINE] = deadline;
        general[TOKEN] = 0;
        match draw.below(16) {
            0..=6 if task < SERVERS => {
                general[0] = slot(task);
                if keeps {
                    self.tokens[task].push(token);
                } else {
                    general[TOKEN] = token;
                }
                Call::ReplyReceive
            }
            0..=9 => {
                general[0] = slot(endpoint);
                general[GIVEN] = slot(2 + region);
                general[KEPT] = u64::from(mask);
                self.offers[task] = Some(Offer { region, mask });
                Call::CallWith
            }
            10 => {
                general[0] = slot(endpoint);
                self.offers[task] = None;
                Call::Call
            }
            11 if draw.one_in(40) => {
                self.table.general(task)[0] = 0;
                Call::Exit
            }
            12 if draw.one_in(8) => {
                self.table.general(task)[0] = slot(4);
                Call::Stop
            }
            _ => Call::Yield,
        }
    }

    /// The state of the calls under way, and whether kernel and machine agree.
    fn follow(&mut self) -> Result<(), String> {
        self.end_loans();
        for client in 0..TASKS {
            self.follow_offer(client)?;
        }
        self.table.kernel.check()?;
        self.table.kernel.check_reach(&*self.table.board)?;
        for region in 0..REGIONS {
            let loan = self.loans.iter().find(|loan| loan.region == region);
            let lent_to = self.table.kernel.lent_to(RegionId::new(region).expect("there are few regions"));
            if lent_to.map(ThreadId::index) != loan.map(|loan| loan.server) {
                return Err(format!("region {region} is lent to {lent_to:?}, not by {loan:?}"));
            }
            for server in 0..TASKS {
                let expected = match loan.filter(|loan| loan.server == server) {
                    _ if self.table.state(server) == State::Stopped => Place::Empty,
                    Some(loan) => Place::Lent { writable: loan.writable },
                    None => self.left.get(&(server, region)).copied().unwrap_or(Place::Empty),
                };
                let found = self.table.board.place(server, region);
                if found != expected {
                    return Err(format!("task {server} finds {found:?} in place of {expected:?} of region {region}"));
                }
            }
        }
        Ok(())
    }

    /// A loan lives as long as its client waits for the reply.
    fn end_loans(&mut self) {
        for loan in std::mem::take(&mut self.loans) {
            let Loan { client, server, region, .. } = loan;
            if matches!(self.table.state(client), State::AwaitingReply { server: other, .. } if other == thread(server))
            {
                self.loans.push(loan);
                continue;
            }
            let is_answered = self.table.state(client) != State::Stopped && self.table.general(client)[0] == 0;
            let left = if is_answered { Place::Empty } else { Place::Scratch };
            self.left.insert((server, region), left);
            self.see(match (self.table.state(client), self.table.state(server)) {
                (State::Stopped, _) => "ended: the client is dead",
                (_, State::Stopped) => "ended: the server is dead",
                _ if is_answered => "ended: answered",
                _ => "ended: too late",
            });
        }
    }

    /// The fate of the request of `client`.
    fn follow_offer(&mut self, client: usize) -> Result<(), String> {
        let Some(Offer { region, mask }) = self.offers[client] else { return Ok(()) };
        let lends = may(client, region, "lend") && may(client, region, "read") && mask & rights::READ != 0;
        match self.table.state(client) {
            State::Calling(_) if !lends => return Err(format!("task {client} may not lend region {region}")),
            State::Calling(_) => {
                self.see("queued");
                return Ok(());
            }
            State::Ready => {
                let error = Error::from_code(self.table.general(client)[0]);
                let is_lent = self.loans.iter().any(|loan| loan.region == region);
                let is_right = match error {
                    Some(Error::MissingRight) => !lends,
                    Some(Error::NoHandleSlot) => !(0..SERVERS).all(|server| may(server, region, "lent")),
                    Some(Error::AlreadyLent) => is_lent,
                    Some(Error::TimedOut | Error::WouldDeadlock | Error::PeerDied | Error::BadArgument) => true,
                    _ => false,
                };
                self.see(&format!("refused: {error:?}"));
                if !is_right {
                    return Err(format!("task {client} was refused with {error:?}, region {region}, mask {mask:#x}"));
                }
            }
            State::AwaitingReply { server, .. } => self.receive(client, server.index(), Offer { region, mask })?,
            _ => {}
        }
        self.offers[client] = None;
        Ok(())
    }

    /// `server` has received the request.
    fn receive(&mut self, client: usize, server: usize, Offer { region, mask }: Offer) -> Result<(), String> {
        let is_lent = self.loans.iter().any(|loan| loan.region == region);
        if is_lent || !may(client, region, "lend") || !may(server, region, "lent") || mask & rights::READ == 0 {
            return Err(format!("task {client} lent region {region} to task {server}"));
        }
        let writable = may(client, region, "write") && may(server, region, "write") && mask & rights::WRITE != 0;
        self.loans.push(Loan { client, server, region, writable });
        self.see(if writable { "lent to write" } else { "lent to read" });
        let general = *self.table.general(server);
        let bits = general[1] & (CARRIES | LENT | WRITABLE);
        let expected = LENT | if writable { WRITABLE } else { 0 };
        if bits != expected || general[GIVEN] != slot(2 + region) || general[FIRST_WORD] != client as u64 {
            return Err(format!("task {server} was not told of region {region}: {bits:#x}, {:#x}", general[GIVEN]));
        }
        self.tokens[server].push(general[TOKEN]);
        Ok(())
    }
}

fn run(cpus: usize, compares: bool, steps: &[u64]) -> Result<Seen, String> {
    let mut world = World::new(cpus, compares);
    for (number, step) in steps.iter().enumerate() {
        world.step(*step).map_err(|error| format!("step {number}: {error}"))?;
    }
    Ok(world.seen)
}

fn history() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), STEPS)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_every_trap_a_region_is_where_a_call_under_way_has_lent_it(steps in history()) {
        run(3, false, &steps).map_err(TestCaseError::fail)?;
    }
}

/// Among a hundred histories everything happens: else the property would say little.
#[test]
fn random_histories_lend_refuse_answer_and_die_in_every_way() {
    let histories = host::Builder::new().stack_size(64 << 20).spawn(all_happens).expect("a thread");
    histories.join().expect("everything happens");
}

fn all_happens() {
    let mut runner = TestRunner::deterministic();
    let mut seen = Seen::new();
    for _ in 0..100 {
        let steps = history().new_tree(&mut runner).expect("a history").current();
        // On one CPU a server with a budget of its own answers by a fast path.
        for cpus in [1, 3] {
            seen.extend(run(cpus, true, &steps).unwrap_or_else(|error| panic!("{cpus} CPUs: {error}")));
        }
    }
    let mut wanted = vec![
        "ended by a fast path",
        "ended: answered",
        "ended: the client is dead",
        "ended: the server is dead",
        "ended: too late",
        "lent to read",
        "lent to write",
        "queued",
        "refused: Some(AlreadyLent)",
        "refused: Some(MissingRight)",
        "refused: Some(TimedOut)",
    ];
    if REGIONS > 1 {
        wanted.push("refused: Some(NoHandleSlot)");
    }
    wanted.retain(|what| !seen.contains(*what));
    assert_eq!(wanted, Vec::<&str>::new(), "{seen:#?}");
}
