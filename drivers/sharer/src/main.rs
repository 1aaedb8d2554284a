//! The sharer: shares one engine among its clients without the lock, by a policy of `fusee_sharing`.
//!
//! Handles: endpoint "requests" (receive), which the key `sharer` of the engine names; what that gives besides, "doorbells.ENGINE", "status.ENGINE" and
//! "kick". It needs a budget of its own to look at the engine while its clients do not wait, and a stack of 32 KiB.
//!
//! | Parameter | Unit | Without it |
//! |---|---|---|
//! | `policy` | 0 accounting; 1 timeslices, each store asked about; 2 timeslices; 3 fair queueing, requests sampled; 4 the same, aware of backlogs | 2 |
//! | `static_weights` | 1: groups have fixed parts, which what is silent in them keeps; 0: what wants the engine divides all ([`Shares`]) | 0 |
//! | `poll_us`, `slice_us`, `sample_us`, `sample_most_us`, `sample_poll_us`, `request_limit_us` | microseconds | [`Parameters::DEFAULT`] |
//!
//! Groups of clients and their weights are told by entries `group.NAME` and `member.CLIENT` ([`fusee_sharing::told`]); policies 3 and 4 go by them, and the others
//! are refused. A region "usage" (read, write), if there is one, shows what each has had ([`fusee::usage`]). Clients of groups and managers of groups may
//! call the endpoint ([`fusee::sharing`]).
//!
//! A command that takes longer than `request_limit_us` is accused. With a handle "sessions" (call) to the endpoint of the server of
//! [sessions](fusee::session), the sharer has it reset, with what else its client has queued, and the client goes on; the second time the client is shut out for good, and
//! its task is stopped if there is a handle `stop.CLIENT` (task, stop). Without "sessions" the client is shut out the first time, and the command runs on until a job asks
//! for the engine.
//!
//! In a loop it waits until a client stores while it may not, or until the policy wants to look; reads how far each client is; asks the policy; carries out
//! what that says. What is wrong with a parameter ends the task, and says so.
//!
//! # Time
//!
//! The policies count time during which the engine was this class's. The sharer is not told when jobs acquire the engine, it sees at each look whose
//! command runs. So the time since the look before does not count if that is a command of another class. One look is wrong by up to a poll; over many the errors
//! cancel out, because they have either sign.
//!
//! # Invariants
//!
//! 1. A client that keeps the rules of the contract is never shut out for good.
//! 2. A client that breaks them is, as is one with a command that is accused for good: nothing it stores later reaches the device. The others go on.
//! 3. A store is answered once, after it was made.
//! 4. No request of a client changes what clients of other groups get.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod client;
mod groups;

use client::{Client, Words};
use fusee::abi::environment::{Entry, kind};
use fusee::session::Session;
use fusee::usage::{Record, UsageWriter};
use fusee::{
    DoorbellPage, Doorbells, Endpoint, Environment, Instant, Kick, Nanoseconds, Object, Region, Request, ServeError,
    Server, SharedBytes, Task, environment, log, now,
};
use fusee_accel_contract as contract;
use fusee_driver::{name_of, of_client};
use fusee_sharing::{
    Accounting, Accusation, Doorbell, Estimator, FairQueueing, GROUPS, Interception, MEMBERS, Member, ParameterError,
    Parameters, Policy, Readings, Response, Running, Shares, Timeslice, Told, Usage, Verdict,
};
use groups::Groups;

fusee::entry!(main);

/// What is logged: a member was accused; a member that broke the rules, or was accused for good, has left.
const ACCUSED: u64 = 1;
const BROKE: u64 = 2;
/// How long the server of sessions may take to ask for a reset.
const PATIENCE: Nanoseconds = Nanoseconds(10_000_000);
/// Requests that the kernel lets this task answer later, at most.
const REPLIES: usize = 16;

struct Sharer {
    server: Server,
    doorbells: Doorbells,
    status: SharedBytes,
    engine: contract::EngineIndex,
    kick: Kick,
    clients: [Client; MEMBERS],
    /// The store that each client waits with.
    stores: [Option<Request>; MEMBERS],
    /// Requests that are no stores, until the next look.
    messages: [Option<Request>; REPLIES],
    groups: Groups,
    /// Where it shows what members have had, and what that was, those that have left included.
    usage: Option<UsageWriter>,
    had: [Usage; MEMBERS],
    /// Who has contexts reset.
    sessions: Option<Endpoint>,
    /// The tasks of members, as far as it may stop them.
    tasks: [Option<Task>; MEMBERS],
    clock: Clock,
}

/// The time during which the engine was this class's.
struct Clock {
    of_class: Instant,
    looked: Instant,
}

fn main() {
    let environment = environment();
    let parameters = parameters(&environment);
    let (mut accounting, mut slices, mut fair);
    let number = environment.parameter("policy").unwrap_or(2);
    let groups = groups(&environment);
    let tree = groups.tree();
    assert!(number >= 3 || !groups.has_weights(), "policy {number} knows no groups and no weights; 3 and 4 do");
    let interception = |number| if number == 1 { Interception::Engaged } else { Interception::Disengaged };
    let policy: &mut dyn Policy = match number {
        0 => {
            accounting = valid(Accounting::new(&parameters));
            &mut accounting
        }
        number @ (1 | 2) => {
            slices = valid(Timeslice::new(&parameters, interception(number)));
            &mut slices
        }
        3 => {
            fair = valid(FairQueueing::new(&parameters, Estimator::SampledSize, tree));
            &mut fair
        }
        4 => {
            fair = valid(FairQueueing::new(&parameters, Estimator::BacklogAware, tree));
            &mut fair
        }
        unknown => panic!("there is no policy {unknown}; there are 0 to 4"),
    };
    let mut sharer = Sharer::of(&environment, groups);
    let readings = sharer.look();
    for member in sharer.members() {
        policy.join(member, sharer.groups.place(member), readings.of(member), Instant::ZERO).expect("each joins once");
    }
    sharer.run(policy)
}

fn parameters(environment: &Environment) -> Parameters {
    let Parameters { poll, slice, sample, sample_most, sample_poll, request_limit, .. } = Parameters::DEFAULT;
    let time = |name: &str, default: Nanoseconds| {
        environment.parameter(name).map_or(default, |us| Nanoseconds(us.saturating_mul(1000)))
    };
    Parameters {
        poll: time("poll_us", poll),
        slice: time("slice_us", slice),
        sample: time("sample_us", sample),
        sample_most: time("sample_most_us", sample_most),
        sample_poll: time("sample_poll_us", sample_poll),
        request_limit: time("request_limit_us", request_limit),
        ..Parameters::DEFAULT
    }
}

fn groups(environment: &Environment) -> Groups {
    let told = |prefix| told(environment, prefix).map(|(_, told)| told);
    let shares = match environment.parameter("static_weights").unwrap_or(0) {
        0 => Shares::Hierarchical,
        1 => Shares::Static,
        unknown => panic!("`static_weights` is {unknown}; it may be 0 or 1"),
    };
    Groups::of(shares, told("group."), told("member."))
}

/// What the manifest says by parameters whose names begin with `prefix`, and how they go on.
fn told(environment: &Environment, prefix: &'static str) -> impl Iterator<Item = (&'static str, Told)> + Clone {
    let entries = environment.entries().iter().filter(|entry| entry.kind == kind::PARAMETER);
    entries.filter_map(move |entry| Some((name_of(entry)?.strip_prefix(prefix)?, Told::decode(entry.address))))
}

/// The tasks of members, as far as there is a handle `stop.CLIENT`.
fn tasks(environment: &Environment) -> [Option<Task>; MEMBERS] {
    let mut tasks = [const { None }; MEMBERS];
    for (client, its) in told(environment, "member.") {
        let Some(task) = of_client::<Task>(environment, "stop.", client) else { continue };
        // Its further handles to the engine have names of their own, and its badge.
        let members = told(environment, "member.").filter(|(_, told)| told.badge == its.badge);
        members.for_each(|(_, told)| tasks[usize::from(told.number)] = Some(task));
    }
    tasks
}

fn valid<T>(policy: Result<T, ParameterError>) -> T {
    policy.unwrap_or_else(|ParameterError { parameter, value, least, most }| {
        panic!("{parameter:?} is {value}; it may be {least} to {most}")
    })
}

/// The object of kind `T` whose name is `what` and the engine's.
fn of_engine<T: Object>(environment: &Environment, what: &str) -> T {
    let is_it = |entry: &&Entry| entry.kind == T::KIND && name_of(entry).is_some_and(|name| name.starts_with(what));
    let found = environment.entries().iter().find(is_it);
    let entry = found.unwrap_or_else(|| panic!("no {} `{what}ENGINE`: this task is the sharer of no engine", T::NAME));
    T::from_entry(environment, entry)
}

impl Sharer {
    fn of(environment: &Environment, groups: Groups) -> Sharer {
        let doorbells: Doorbells = of_engine(environment, "doorbells.");
        let number = doorbells.engine() as usize;
        let status = of_engine::<Region>(environment, "status.").shared();
        let engine = contract::EngineIndex::from_number(number).expect("the manifest knows the device's engines");
        let clients = core::array::from_fn(|member| {
            let context = if member < doorbells.members() { doorbells.context(member) } else { 0 };
            Client::new(status.observe_u32(contract::status_retired(engine, context) as usize))
        });
        let usage = environment.region("usage").ok();
        let usage = usage.map(|region| UsageWriter::new(&region, doorbells.members(), groups.count()));
        Sharer {
            server: Server::new(environment.expect::<Endpoint>("requests")),
            doorbells,
            status,
            engine,
            kick: Kick::of(environment).expect("the sharer of an engine may kick its device"),
            clients,
            stores: [const { None }; MEMBERS],
            messages: [const { None }; REPLIES],
            groups,
            usage,
            had: [Usage::default(); MEMBERS],
            sessions: environment.endpoint("sessions").ok(),
            tasks: tasks(environment),
            clock: Clock { of_class: Instant::ZERO, looked: now().now },
        }
    }

    fn members(&self) -> impl Iterator<Item = Member> + use<> {
        (0..self.doorbells.members()).filter_map(Member::new)
    }

    fn run(&mut self, policy: &mut dyn Policy) -> ! {
        loop {
            let mut has_asked = self.answer(policy);
            let suspended = self.groups.suspended();
            let readings = self.look().without(suspended);
            for member in self.members() {
                if self.clients[member.index()].just_left() {
                    log(BROKE, member.index() as u64);
                    policy.leave(member, self.clock.of_class);
                }
            }
            let verdict = policy.step(self.clock.of_class, &readings).without(suspended);
            self.show(policy);
            if let Some(accused) = verdict.accused {
                self.end(accused);
            }
            has_asked |= self.carry_out(&verdict, &readings);
            let delay = verdict.call_again.map(|again| again.since(self.clock.of_class));
            if has_asked || delay == Some(Nanoseconds::ZERO) {
                continue;
            }
            let deadline = delay.map_or(Instant::NEVER, |delay| self.clock.looked + delay);
            let next = self.server.receive(deadline);
            self.keep(next);
        }
    }

    /// Ends a command that takes too long, and the second time its client.
    fn end(&mut self, Accusation { member, response }: Accusation) {
        let index = member.index();
        log(ACCUSED, index as u64);
        if response == Response::Stop || self.sessions.is_none() {
            self.clients[index].shut_out();
        }
        if let (Response::Stop, Some(task)) = (response, &self.tasks[index]) {
            // It may have ended by itself.
            let _ = task.stop();
        }
        if let Some(server) = &self.sessions {
            // If another command runs by now, there is nothing to reset; if the server is late or dead, the same command is accused once more.
            let (engine, context) = (self.doorbells.engine(), self.doorbells.context(index));
            let _ = Session::reset_running(server, engine, context, now().now + PATIENCE);
        }
    }

    /// How far each client is, and the time.
    fn look(&mut self) -> Readings {
        let mut readings = Readings::default();
        let mut has_news = false;
        let running = self.status.observe_u32(contract::status_running(self.engine) as usize) as usize;
        for member in self.members() {
            let (index, context) = (member.index(), self.doorbells.context(member.index()));
            let status = |at: u64| self.status.observe_u32(at as usize);
            let words = Words {
                before: self.doorbells.submitted(index),
                retired: status(contract::status_retired(self.engine, context)),
                seen: status(contract::status_seen(self.engine, context)),
                submitted: self.doorbells.submitted(index),
                store: self.stores[index].as_ref().and_then(Request::store).map(|store| store.submitted),
            };
            has_news |= words.seen != words.submitted;
            readings.members[index] = self.clients[index].look(&words);
            if running == context + 1 {
                readings.running = Running::Member(member);
            }
        }
        // A client may have been interrupted between its store and its kick; or means never to kick.
        if has_news {
            self.kick.send();
        }
        let is_others = running != 0 && readings.running == Running::Unknown;
        if readings.running == Running::Unknown {
            readings.running = Running::Nobody;
        }
        self.clock.look(now().now, is_others);
        readings
    }

    /// Does what `verdict` says. Whether a client has stored meanwhile.
    fn carry_out(&mut self, verdict: &Verdict, readings: &Readings) -> bool {
        let (mut open, mut shut) = (0, 0);
        for member in self.members() {
            let client = &mut self.clients[member.index()];
            match client.turn(verdict.doorbell(member) == Doorbell::Open) {
                Some(true) => open |= 1 << member.index(),
                Some(false) => shut |= 1 << member.index(),
                None => {}
            }
        }
        for (members, page) in [(shut, DoorbellPage::ReadOnly), (open, DoorbellPage::Open)] {
            if members != 0 {
                self.doorbells.share(members, page).expect("these are members");
            }
        }
        let mut has_asked = false;
        for member in self.members() {
            let waits = readings.of(member).announced - readings.of(member).submitted;
            let passes = match verdict.doorbell(member) {
                Doorbell::Open => waits,
                Doorbell::Trapped { pass } => pass.min(waits),
            };
            has_asked |= self.pass(member.index(), passes, waits);
        }
        has_asked
    }

    /// Makes `passes` of the `waits` commands of a client's store known to the device, and answers if these are all. Whether a client has stored meanwhile.
    fn pass(&mut self, index: usize, passes: u64, waits: u64) -> bool {
        if !self.clients[index].is_good() {
            return false;
        }
        let Some(mut store) = self.stores[index].as_ref().and_then(Request::store) else { return false };
        let before = self.doorbells.submitted(index);
        // It may stand there already: the client's wait was ended, and it has stored again.
        let is_made = store.submitted == before;
        if passes == 0 && !is_made {
            return false;
        }
        if passes < waits {
            store.submitted = before.wrapping_add(passes as u32);
        }
        if !is_made {
            self.doorbells.submit(store);
        }
        if passes < waits {
            self.kick.send();
            return false;
        }
        let Some(request) = self.stores[index].take() else { return false };
        let next = self.server.reply_receive(request.token, fusee::Verdict::GoOn.words(), Instant::ZERO);
        self.keep(next)
    }

    /// Answers the requests that are no stores. Whether others have come meanwhile.
    fn answer(&mut self, policy: &mut dyn Policy) -> bool {
        let mut has_asked = false;
        for place in 0..REPLIES {
            let Some(request) = self.messages[place].take() else { continue };
            let (words, weighed) = self.groups.answer(request.badge, &request.words);
            if let Some((member, weight)) = weighed {
                policy.reweigh(member, weight);
            }
            let next = self.server.reply_receive(request.token, words, Instant::ZERO);
            has_asked |= self.keep(next);
        }
        has_asked
    }

    /// Shows what members and groups have had, if there is a page for that.
    fn show(&mut self, policy: &dyn Policy) {
        let Some(page) = &mut self.usage else { return };
        let (mut members, mut groups) = ([Record::default(); MEMBERS], [Record::default(); GROUPS]);
        for member in (0..self.doorbells.members()).filter_map(Member::new) {
            let (index, usage) = (member.index(), policy.usage(member));
            // A policy forgets members that leave.
            if !self.clients[index].has_left() {
                self.had[index] = usage;
            }
            let Usage { used, commands, .. } = self.had[index];
            members[index] =
                Record { used: used.0, commands, ahead: usage.ahead.0, is_denied: usage.denied, is_suspended: false };
            for (nearest, group) in self.groups.above(member).enumerate() {
                let group_record = &mut groups[group.index()];
                group_record.used += used.0;
                group_record.commands += commands;
                group_record.is_suspended = self.groups.is_suspended(group);
                members[index].is_suspended |= nearest == 0 && group_record.is_suspended;
            }
        }
        page.show(self.clock.of_class.0, &groups[..self.groups.count()], &members[..self.doorbells.members()]);
    }

    /// Keeps what was asked for until it is answered. Whether there is anything.
    fn keep(&mut self, next: Result<Request, ServeError>) -> bool {
        match next {
            Ok(request) => {
                let place = match request.store() {
                    // One that stores again has given up the wait before.
                    Some(store) => Some(&mut self.stores[store.member]),
                    // There are as many places as requests that may be without an answer.
                    None => self.messages.iter_mut().find(|place| place.is_none()),
                };
                place.map(|place| *place = Some(request)).is_some()
            }
            Err(ServeError::Handle(error)) => panic!("this task cannot serve its endpoint: {error:?}"),
            // Its time to look has come, or the client that was answered is gone.
            Err(_) => false,
        }
    }
}

impl Clock {
    fn look(&mut self, now: Instant, is_others: bool) {
        if !is_others {
            self.of_class += now.since(self.looked);
        }
        self.looked = now;
    }
}
