//! Handles in messages, against an oracle: random histories of giving, revoking, giving up, using and dying.
//!
//! The oracle is a tree of grants that is walked in full. It foretells every value a handle gets, every error of a
//! gift, and after each step the object of every value that ever was a handle, with its rights.
//! From the kernel it takes the servers of the present calls, which are not tested here.
#![allow(missing_docs)]

mod table;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use fusee_abi::Error;
use fusee_abi::call::{CARRIES, Call, DEADLINE, FIRST_WORD, GIVEN, HandleValue, KEPT, NUMBER, TOKEN, rights};
use fusee_abi::image::kind;
use fusee_kernel_core::id::ThreadId;
use fusee_kernel_core::limits::{COPY_DEPTH_MAX, DERIVATIONS, HANDLES};
use fusee_kernel_core::object::{Object, State};
use fusee_kernel_core::{CpuId, Trap};
use fusee_manifest::Manifest;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use table::{Draw, Table, thread};

const TASKS: usize = 4;
/// Steps of one history.
const STEPS: usize = 300;
/// Slots of the smallest table there is.
const SMALL: usize = 6;
const US: u64 = 1_000;

/// Two servers and two clients; the first two serve. `FILL` is where handles come that only fill the table.
const MANIFEST: &str = r#"
[system]
name = "grants"
board = "virt"
cpus = 3
start = "1s"
admission = "warn"

[clusters.all]
cpus = [0, 1, 2]

[tasks.t0]
binary = "model/model"
cluster = "all"
class = "background"
[tasks.t0.handles]
s0 = "endpoint s0: call receive grant"
s1 = "endpoint s1: call send grant"
n0 = "notification n0: signal wait grant"
FILL
[tasks.t1]
binary = "model/model"
cluster = "all"
class = "background"
[tasks.t1.handles]
s0 = "endpoint s0: call send"
s1 = "endpoint s1: call send receive grant"
n1 = "notification n1: signal wait grant"
FILL
[tasks.t2]
binary = "model/model"
cluster = "all"
class = "background"
[tasks.t2.handles]
s0 = "endpoint s0: call grant"
s1 = "endpoint s1: call send"
n0 = "notification n0: signal"
page = "region page: read map"
FILL
[tasks.t3]
binary = "model/model"
cluster = "all"
class = "background"
[tasks.t3.handles]
s0 = "endpoint s0: call send"
s1 = "endpoint s1: call grant"
n1 = "notification n1: signal wait grant"
other = "task t2: release_job credit stop grant"
FILL
[endpoints.s0]
server = "t0"
[endpoints.s1]
server = "t1"
[notifications.n0]
[notifications.n1]
[regions.page]
bytes = "4KiB"
"#;

//--- The oracle --------------------------------------------------------------------------------------------

/// One handle, from when it was made; also when it is gone.
#[derive(Clone, Debug)]
struct Grant {
    /// The handle that it was copied from.
    parent: Option<usize>,
    task: usize,
    slot: usize,
    value: u64,
    kind: u32,
    object: u32,
    rights: u32,
    /// In its holder's table.
    present: bool,
    /// Something between it and the manifest was revoked.
    void: bool,
    /// Copied from since it was last revoked.
    copied: bool,
}

#[derive(Debug)]
struct Oracle {
    grants: Vec<Grant>,
    /// How often each slot was filled.
    fills: [[u64; HANDLES]; TASKS],
}

impl Oracle {
    fn new(manifest: &Manifest) -> Oracle {
        let mut oracle = Oracle { grants: Vec::new(), fills: [[0; HANDLES]; TASKS] };
        for record in &manifest.system.handles {
            let (task, slot) = (record.task as usize, record.slot as usize);
            oracle.fill(None, task, slot, record.kind, record.object, record.rights);
        }
        oracle
    }

    fn fill(&mut self, parent: Option<usize>, task: usize, slot: usize, kind: u32, object: u32, rights: u32) -> u64 {
        self.fills[task][slot] += 1;
        let value = HandleValue::new(slot as u16, self.fills[task][slot]).0;
        let (present, void, copied) = (true, false, false);
        self.grants.push(Grant { parent, task, slot, value, kind, object, rights, present, void, copied });
        value
    }

    fn find(&self, task: usize, value: u64) -> Option<usize> {
        self.grants.iter().position(|grant| grant.present && grant.task == task && grant.value == value)
    }

    /// The object that a call through `value` finds.
    fn resolve(&self, task: usize, value: u64, right: u32) -> Result<&Grant, Error> {
        let grant = &self.grants[self.find(task, value).ok_or(Error::BadHandle)?];
        match () {
            () if grant.void => Err(Error::BadHandle),
            () if grant.rights & right == 0 => Err(Error::MissingRight),
            () => Ok(grant),
        }
    }

    fn depth(&self, grant: usize) -> usize {
        self.grants[grant].parent.map_or(0, |parent| self.depth(parent) + 1)
    }

    fn empty_slot(&self, task: usize) -> Option<usize> {
        let is_taken = |slot: usize| self.grants.iter().any(|one| one.present && one.task == task && one.slot == slot);
        (0..HANDLES).find(|slot| !is_taken(*slot))
    }

    fn copied(&self) -> usize {
        self.grants.iter().filter(|grant| grant.copied).count()
    }

    fn copies_copied(&self) -> usize {
        self.grants.iter().filter(|grant| grant.copied && grant.parent.is_some()).count()
    }

    /// Places for copies.
    fn left(&self) -> usize {
        let of_manifest = self.grants.iter().filter(|grant| grant.parent.is_none());
        DERIVATIONS - of_manifest.filter(|grant| grant.rights & rights::GRANT != 0).count()
    }

    fn kept(grant: &Grant, mask: u32) -> u32 {
        let givable = match grant.kind {
            kind::ENDPOINT => rights::CALL | rights::SEND,
            kind::NOTIFICATION => rights::SIGNAL | rights::WAIT,
            _ => rights::RELEASE_JOB | rights::CREDIT | rights::STOP,
        };
        grant.rights & mask & (givable | rights::GRANT)
    }

    /// Why `giver` cannot give `value` to `receiver`, or to anybody.
    fn refusal(&self, giver: usize, value: u64, mask: u32, receiver: Option<usize>) -> Option<Error> {
        if value == 0 {
            return None;
        }
        let Some(index) = self.find(giver, value) else { return Some(Error::BadHandle) };
        let grant = &self.grants[index];
        match () {
            () if grant.void => Some(Error::BadHandle),
            () if !is_givable(grant.kind) => Some(Error::WrongKind),
            () if grant.rights & rights::GRANT == 0 => Some(Error::MissingRight),
            () if Self::kept(grant, mask) & !rights::GRANT == 0 => Some(Error::MissingRight),
            () if self.depth(index) == COPY_DEPTH_MAX => Some(Error::ChainTooLong),
            () => match receiver {
                Some(receiver) if self.empty_slot(receiver).is_none() => Some(Error::NoHandleSlot),
                // Copies leave a place for each handle of the manifest.
                Some(_) if !grant.copied && grant.parent.is_some() && self.copies_copied() == self.left() => {
                    Some(Error::NoDerivation)
                }
                _ => None,
            },
        }
    }

    /// The copy is made; returns its value.
    fn give(&mut self, giver: usize, value: u64, mask: u32, receiver: usize) -> u64 {
        let source = self.find(giver, value).expect("what is given is there");
        let slot = self.empty_slot(receiver).expect("the receiver has room");
        self.grants[source].copied = true;
        let grant = self.grants[source].clone();
        self.fill(Some(source), receiver, slot, grant.kind, grant.object, Self::kept(&grant, mask))
    }

    fn revoke(&mut self, grant: usize) {
        self.grants[grant].copied = false;
        for copy in 0..self.grants.len() {
            if self.grants[copy].parent == Some(grant) && !self.grants[copy].void {
                self.void(copy);
            }
        }
    }

    /// Its own copies stay in the tree, and are void as well.
    fn void(&mut self, grant: usize) {
        self.grants[grant].void = true;
        for copy in 0..self.grants.len() {
            if self.grants[copy].parent == Some(grant) && !self.grants[copy].void {
                self.void(copy);
            }
        }
    }

    fn give_up(&mut self, grant: usize) {
        self.revoke(grant);
        self.grants[grant].present = false;
    }

    fn die(&mut self, task: usize) {
        for grant in 0..self.grants.len() {
            if self.grants[grant].task == task && self.grants[grant].present {
                self.give_up(grant);
            }
        }
    }
}

fn is_givable(kind: u32) -> bool {
    matches!(kind, kind::ENDPOINT | kind::NOTIFICATION | kind::TASK)
}

//--- Histories ---------------------------------------------------------------------------------------------

fn mask(draw: &mut Draw) -> u32 {
    // Mostly with the right to grant, so that chains get long.
    let grant = if draw.one_in(4) { 0 } else { rights::GRANT };
    match draw.below(3) {
        0 => u32::MAX,
        _ => draw.below(1 << 11) as u32 | grant,
    }
}

/// The events of some histories.
type Seen = BTreeSet<String>;

struct World {
    table: Table,
    oracle: Oracle,
    /// Tokens of requests that each task has received.
    tokens: [Vec<u64>; TASKS],
    /// The handle that the request of each task carries, and the mask.
    gifts: [(u64, u32); TASKS],
    seen: Seen,
}

impl World {
    /// `room`: empty slots of the fullest table.
    fn new(room: usize) -> World {
        let mut fill = String::new();
        for number in 0..(HANDLES - SMALL).saturating_sub(room) {
            writeln!(fill, "d{number} = \"notification n0: signal\"").expect("a string takes everything");
        }
        let manifest = Manifest::parse(Path::new("grants.toml"), &MANIFEST.replace("FILL", &fill));
        let manifest = manifest.unwrap_or_else(|error| panic!("{error}"));
        World {
            table: Table::new(&manifest),
            oracle: Oracle::new(&manifest),
            tokens: Default::default(),
            gifts: [(0, 0); TASKS],
            seen: Seen::new(),
        }
    }

    fn see(&mut self, what: &str, result: Option<Error>) {
        self.seen.insert(result.map_or_else(|| what.to_owned(), |error| format!("{what}: {error:?}")));
    }

    /// One step, and the comparison after it.
    fn step(&mut self, number: u64) -> Result<(), String> {
        let mut draw = Draw(number);
        self.table.pass(draw.below(20) as u64 * US);
        while self.table.fire() {}
        if let Some((cpu, task)) = self.table.running(&mut draw) {
            self.act(cpu, task, &mut draw)?;
        }
        self.compare()
    }

    /// The object of every value that ever was a handle.
    fn compare(&self) -> Result<(), String> {
        self.table.kernel.check()?;
        self.table.kernel.check_reach(&*self.table.board)?;
        for (index, grant) in self.oracle.grants.iter().enumerate() {
            let expected = if grant.present && !grant.void { Ok(grant.rights) } else { Err(Error::BadHandle) };
            let names = self.table.kernel.handle(thread(grant.task), grant.value);
            if names.map(|(_, rights)| rights) != expected {
                return Err(format!("grant {index} is {grant:?}, for the kernel {names:?}"));
            }
            let object = match names {
                Ok((Object::Endpoint(id), _)) => id.index(),
                Ok((Object::Notification(id), _)) => id.index(),
                Ok((Object::Task(id), _)) => id.index(),
                _ => continue,
            };
            if object != grant.object as usize {
                return Err(format!("grant {index} is {grant:?}, and names {names:?}"));
            }
        }
        if self.table.kernel.handles_copied_from() != self.oracle.copied() {
            return Err(format!("{} handles are copied from", self.oracle.copied()));
        }
        Ok(())
    }

    /// A value that was, is or may become a handle.
    fn value(&self, task: usize, draw: &mut Draw) -> u64 {
        let wanted = draw.below(8);
        let grants = &self.oracle.grants;
        let own: Vec<&Grant> = grants.iter().filter(|one| one.task == task && (one.present || wanted == 1)).collect();
        // Those that fill the table are of little interest.
        let copies: Vec<u64> = own.iter().filter(|one| one.parent.is_some()).map(|one| one.value).collect();
        match wanted {
            0 => HandleValue::new(draw.below(HANDLES + 2) as u16, draw.below(4) as u64).0,
            1..=4 if !copies.is_empty() => copies[draw.below(copies.len())],
            _ => own.get(draw.below(own.len().clamp(1, SMALL))).map_or(1, |one| one.value),
        }
    }

    /// Mostly the handle that was copied most often, and has the right to grant.
    fn gift(&self, task: usize, draw: &mut Draw) -> (u64, u32) {
        let is_deep = |one: &Grant| one.task == task && one.present && one.rights & rights::GRANT != 0;
        let grants = self.oracle.grants.iter().enumerate();
        let deepest = grants.filter(|(_, one)| is_deep(one)).max_by_key(|(index, _)| self.oracle.depth(*index));
        match (draw.below(4), deepest) {
            (0, _) => (0, 0),
            (1 | 2, Some((_, grant))) => (grant.value, mask(draw)),
            _ => (self.value(task, draw), mask(draw)),
        }
    }

    /// Mostly a handle to call through.
    fn callee(&self, task: usize, draw: &mut Draw) -> u64 {
        let is_endpoint = |one: &&Grant| one.task == task && one.present && one.kind == kind::ENDPOINT;
        let endpoints: Vec<u64> = self.oracle.grants.iter().filter(is_endpoint).map(|one| one.value).collect();
        match draw.below(4) {
            1.. if !endpoints.is_empty() => endpoints[draw.below(endpoints.len())],
            _ => self.value(task, draw),
        }
    }

    /// Lets the task on `cpu` make a call.
    fn act(&mut self, cpu: CpuId, task: usize, draw: &mut Draw) -> Result<(), String> {
        let deadline = self.table.board.now.0 + draw.below(200) as u64 * US;
        let value = self.value(task, draw);
        let (given, mask) = self.gift(task, draw);
        let general = self.table.general(task);
        general[0] = value;
        general[1] = 1;
        general[FIRST_WORD] = task as u64;
        general[DEADLINE] = deadline;
        general[GIVEN] = given;
        general[KEPT] = u64::from(mask);
        general[TOKEN] = 0;
        match draw.below(20) {
            0..=5 => {
                let call = [Call::CallWith, Call::CallWith, Call::CallWith, Call::Send, Call::Call][draw.below(5)];
                self.table.general(task)[0] = self.callee(task, draw);
                self.request(cpu, task, call)
            }
            6..=11 if task < 2 => self.serve(cpu, task, draw),
            6..=8 => self.use_handle(cpu, task, Call::Signal),
            9 | 12 => {
                self.table.general(task)[1] = draw.below(3) as u64;
                self.use_handle(cpu, task, Call::ReleaseJob)
            }
            13 => self.use_handle(cpu, task, Call::Wait),
            14 => self.revoke(cpu, task, u64::from(draw.one_in(2))),
            15 if draw.one_in(30) => {
                self.table.general(task)[0] = 0;
                self.call(cpu, task, Call::Exit);
                self.oracle.die(task);
                self.see("death", None);
                Ok(())
            }
            16 if draw.one_in(20) => self.use_handle(cpu, task, Call::Stop),
            _ => {
                self.call(cpu, task, Call::Yield);
                Ok(())
            }
        }
    }

    /// Makes a call, and its result if there is one already.
    fn call(&mut self, cpu: CpuId, task: usize, call: Call) -> Option<u64> {
        self.table.general(task)[NUMBER] = call as u64;
        self.table.trap(cpu, Trap::Syscall);
        (self.table.state(task) == State::Ready).then(|| self.table.general(task)[0])
    }

    fn use_handle(&mut self, cpu: CpuId, task: usize, call: Call) -> Result<(), String> {
        let value = self.table.general(task)[0];
        let (right, wanted) = match call {
            Call::Signal => (rights::SIGNAL, kind::NOTIFICATION),
            Call::Wait => (rights::WAIT, kind::NOTIFICATION),
            Call::Stop => (rights::STOP, kind::TASK),
            _ if self.table.general(task)[1] == 0 => (rights::RELEASE_JOB, kind::TASK),
            _ => (rights::CREDIT, kind::TASK),
        };
        let victim =
            self.oracle.resolve(task, value, right).ok().filter(|grant| call == Call::Stop && grant.kind == wanted);
        let victim = victim.map(|grant| grant.object as usize);
        let expected = match self.oracle.resolve(task, value, right) {
            Ok(grant) if grant.kind != wanted => Some(Error::WrongKind),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        let result = self.call(cpu, task, call).and_then(Error::from_code);
        let refused = result.filter(|error| is_of_handles(*error));
        self.see(if victim.is_some() { "stop" } else { "use" }, refused);
        if let Some(victim) = victim {
            self.oracle.die(victim);
        }
        if refused == expected { Ok(()) } else { Err(format!("{call:?} ended with {result:?}, not {expected:?}")) }
    }

    fn revoke(&mut self, cpu: CpuId, task: usize, gives_up: u64) -> Result<(), String> {
        self.table.general(task)[1] = gives_up;
        let value = self.table.general(task)[0];
        let found = self.oracle.find(task, value);
        let grant = found.map(|index| self.oracle.grants[index].clone());
        let expected = match grant {
            None => Some(Error::BadHandle),
            Some(grant) if !is_givable(grant.kind) => Some(Error::WrongKind),
            Some(grant) if gives_up == 0 && grant.void => Some(Error::BadHandle),
            Some(_) => None,
        };
        let result = self.call(cpu, task, Call::Revoke).and_then(Error::from_code);
        self.see("revoke", result);
        if result != expected {
            return Err(format!("revoke ended with {result:?}, not {expected:?}"));
        }
        match found.filter(|_| result.is_none()) {
            Some(grant) if gives_up == 1 => self.oracle.give_up(grant),
            Some(grant) => self.oracle.revoke(grant),
            None => {}
        }
        Ok(())
    }

    /// `call`, `call_with` or `send`.
    fn request(&mut self, cpu: CpuId, task: usize, call: Call) -> Result<(), String> {
        let general = self.table.general(task);
        let (value, gift) = (general[0], (general[GIVEN], general[KEPT] as u32));
        let gift = if call == Call::Call { (0, 0) } else { gift };
        let right = if call == Call::Send { rights::SEND } else { rights::CALL };
        let endpoint = self.oracle.resolve(task, value, right).map(|grant| grant.object as usize);
        let server = endpoint.unwrap_or(0);
        let is_taken = matches!(self.table.state(server), State::Receiving(open) if Ok(open.index()) == endpoint);
        let refusal = match endpoint {
            Ok(_) => self.oracle.refusal(task, gift.0, gift.1, is_taken.then_some(server)),
            Err(error) => Some(error),
        };
        // `call_with` lends regions to threads that may lend them, and there is none here.
        let lends = call == Call::CallWith && endpoint.is_ok() && refusal == Some(Error::WrongKind);
        let refusal = if lends { Some(Error::MissingRight) } else { refusal };
        let result = self.call(cpu, task, call).and_then(Error::from_code);
        match result {
            // Found before the handle is looked at.
            Some(Error::PeerDied | Error::WouldDeadlock) if endpoint.is_ok() => return Ok(()),
            _ if result.filter(|error| is_of_handles(*error)) != refusal => {
                return Err(format!("{call:?} ended with {result:?}, not {refusal:?}"));
            }
            Some(error) => self.see("request", Some(error)),
            None if is_taken => {
                self.gifts[task] = gift;
                self.arrives(server)?;
            }
            None => self.gifts[task] = gift,
        }
        Ok(())
    }

    /// A request was received by `server`, from the task that it names.
    fn arrives(&mut self, server: usize) -> Result<(), String> {
        let general = *self.table.general(server);
        let client = general[FIRST_WORD] as usize;
        let (given, mask) = self.gifts[client];
        if general[TOKEN] != 0 {
            self.tokens[server].push(general[TOKEN]);
        }
        if given == 0 {
            return if general[1] & CARRIES == 0 { Ok(()) } else { Err("a handle that nobody gave".into()) };
        }
        if let Some(error) = self.oracle.refusal(client, given, mask, Some(server)) {
            return Err(format!("a request was received in place of {error:?}"));
        }
        let value = self.oracle.give(client, given, mask, server);
        self.see("given with a request", None);
        match general[1] & CARRIES != 0 && general[GIVEN] == value {
            true => Ok(()),
            false => Err(format!("{server} was not given {value:#x}")),
        }
    }

    /// `reply_receive`, with or without a reply and a handle.
    fn serve(&mut self, cpu: CpuId, task: usize, draw: &mut Draw) -> Result<(), String> {
        let own = self.oracle.grants.iter().find(|grant| grant.task == task && grant.rights & rights::RECEIVE != 0);
        let own = own.expect("a server has its endpoint").value;
        let token = if draw.one_in(4) { None } else { self.tokens[task].pop() };
        let carries = if draw.one_in(3) { 0 } else { CARRIES };
        let general = self.table.general(task);
        general[0] = own;
        general[TOKEN] = token.map_or(0, |token| token | carries);
        let gift = (general[GIVEN], general[KEPT] as u32);
        let client = token.and_then(|token| self.table.kernel.client_of(thread(task), token)).map(ThreadId::index);
        let takes = client.is_some_and(|client| self.table.general(client)[NUMBER] == Call::CallWith as u64);
        let refusal = match client {
            _ if self.oracle.find(task, own).is_none() => Some(Error::BadHandle),
            Some(client) if carries != 0 && gift.0 != 0 => {
                let refusal = self.oracle.refusal(task, gift.0, gift.1, Some(client));
                refusal.or_else(|| (!takes).then_some(Error::NoHandleSlot))
            }
            _ => None,
        };
        let before = self.queued();
        let code = self.call(cpu, task, Call::ReplyReceive);
        if refusal.is_some() {
            let result = code.and_then(Error::from_code);
            self.see("reply", result);
            self.tokens[task].extend(token);
            let still_waits = client.is_none_or(|client| self.table.state(client) != State::Ready);
            return match result == refusal && still_waits {
                true => Ok(()),
                false => Err(format!("the reply ended with {result:?}, not {refusal:?}")),
            };
        }
        if let Some(client) = client.filter(|_| takes) {
            let value = match carries != 0 && gift.0 != 0 {
                true => self.oracle.give(task, gift.0, gift.1, client),
                false => 0,
            };
            self.see(if value == 0 { "given nothing with a reply" } else { "given with a reply" }, None);
            if self.table.general(client)[GIVEN] != value {
                return Err(format!("{client} was not given {value:#x}"));
            }
        }
        self.received(cpu, task, code, before)
    }

    /// The result of looking for a request: one, none yet, or one whose handle cannot be given. Then it looks again.
    fn received(&mut self, cpu: CpuId, task: usize, code: Option<u64>, before: Vec<usize>) -> Result<(), String> {
        if !self.table.starts_again(task) {
            return if code == Some(0) { self.arrives(task) } else { Ok(()) };
        }
        let is_refused = |client: &&usize| self.table.state(**client) == State::Ready;
        let client = *before.iter().find(is_refused).ok_or("nobody was refused, and yet the call starts again")?;
        let error = Error::from_code(self.table.general(client)[0]);
        self.see("queued request", error);
        let (given, mask) = self.gifts[client];
        let expected = self.oracle.refusal(client, given, mask, Some(task));
        if error.is_none() || error != expected {
            return Err(format!("a queued request ended with {error:?}, not {expected:?}"));
        }
        if self.table.executes(cpu) != Some(task) {
            return Ok(());
        }
        let before = self.queued();
        let code = self.call(cpu, task, Call::ReplyReceive);
        self.received(cpu, task, code, before)
    }

    fn queued(&self) -> Vec<usize> {
        (0..TASKS).filter(|task| matches!(self.table.state(*task), State::Calling(_))).collect()
    }
}

/// Errors that say something about handles.
fn is_of_handles(error: Error) -> bool {
    let others = [Error::TimedOut, Error::WouldDeadlock, Error::PeerDied, Error::NoJobs, Error::BadArgument];
    !others.contains(&error)
}

fn run(room: usize, steps: &[u64]) -> Result<Seen, String> {
    let mut world = World::new(room);
    for (number, step) in steps.iter().enumerate() {
        world.step(*step).map_err(|error| format!("step {number}: {error}"))?;
    }
    Ok(world.seen)
}

fn history() -> impl Strategy<Value = (usize, Vec<u64>)> {
    (prop_oneof![Just(0), Just(HANDLES)], prop::collection::vec(any::<u64>(), STEPS))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_every_step_every_handle_is_what_a_tree_of_grants_says((room, steps) in history()) {
        run(room, &steps).map_err(TestCaseError::fail)?;
    }
}

/// Among two hundred histories everything happens: else the property would say little.
#[test]
fn random_histories_give_refuse_revoke_and_die_in_every_way() {
    let mut runner = TestRunner::deterministic();
    let mut seen = Seen::new();
    for _ in 0..200 {
        let (room, steps) = history().new_tree(&mut runner).expect("a history").current();
        seen.extend(run(room, &steps).unwrap_or_else(|error| panic!("{error}")));
    }
    let mut wanted = vec![
        "death",
        "stop",
        "given nothing with a reply",
        "given with a reply",
        "given with a request",
        "queued request: BadHandle",
        "queued request: NoHandleSlot",
        "reply: BadHandle",
        "reply: MissingRight",
        "reply: NoHandleSlot",
        "request: BadHandle",
        "request: MissingRight",
        "request: NoHandleSlot",
        "request: WrongKind",
        "revoke",
        "revoke: BadHandle",
        "revoke: WrongKind",
        "use",
        "use: BadHandle",
        "use: MissingRight",
    ];
    // Where there are few nodes, none is left before a chain becomes too long.
    wanted.extend(match DERIVATIONS < TASKS * SMALL {
        true => ["reply: NoDerivation", "request: NoDerivation"],
        false => ["reply: ChainTooLong", "request: ChainTooLong"],
    });
    wanted.retain(|what| !seen.contains(*what));
    assert_eq!(wanted, Vec::<&str>::new(), "{seen:#?}");
}
