//! The program of a sharer, for any policy.
//!
//! `sharer/sharer` is this program with the policies of `fusee_sharing` ([`Rule`](crate::setup::Rule)); the head of `main.rs` has its handles and
//! parameters. A program with a policy of its own has the same ones, and can read further parameters from its environment:
//!
//! ```no_run
//! use sharer::program;
//! # use fusee::Instant;
//! # use fusee_sharing::{Doorbell, JoinError, Member, Members, Place, Policy, Reading, Readings, Usage, Verdict, Weight};
//!
//! /// Members pass one command at a time, in the order of their numbers.
//! #[derive(Default)]
//! struct ByNumber(Members);
//!
//! impl Policy for ByNumber {
//!     fn join(&mut self, member: Member, _: Place, _: &Reading, _: Instant) -> Result<(), JoinError> {
//!         self.0.insert(member);
//!         Ok(())
//!     }
//!
//!     fn leave(&mut self, member: Member, _: Instant) {
//!         self.0.remove(member);
//!     }
//!
//!     fn reweigh(&mut self, _: Member, _: Weight) {}
//!
//!     fn step(&mut self, now: Instant, readings: &Readings) -> Verdict {
//!         let (waiting, at_device) = (readings.waiting(self.0), readings.at_device(self.0));
//!         let mut verdict = Verdict::QUIET;
//!         if let Some(first) = waiting.iter().next().filter(|_| at_device.is_empty()) {
//!             verdict.doorbells[first.index()] = Doorbell::Trapped { pass: 1 };
//!         }
//!         // Members that want the engine are looked after.
//!         let is_idle = waiting.or(at_device).is_empty();
//!         verdict.call_again = (!is_idle).then(|| now + fusee::Nanoseconds(1_000_000));
//!         verdict
//!     }
//!
//!     fn usage(&self, _: Member) -> Usage {
//!         Usage::default()
//!     }
//! }
//!
//! # fn main() {
//! program::run(|_| Ok(ByNumber::default()));
//! # }
//! ```

use fusee::abi::environment::{Entry, kind};
use fusee::session::Session;
use fusee::usage::UsageWriter;
use fusee::{
    Doorbells, Endpoint, Environment, Instant, Kick, Nanoseconds, Notification, Object, Region, ReplyToken, Request,
    ServeError, Server, SharedBytes, Task, environment, log, now,
};
use fusee_accel_contract as contract;
use fusee_driver::{name_of, of_client};
use fusee_sharing::{Counters, GROUPS, MEMBERS, Policy};

use crate::course::{Asked, Do, Means, PATIENCE, Sharer, View};
use crate::setup::{Setup, SetupError, of_groups, of_members};

/// The inputs of the sharer.
struct Device {
    doorbells: Doorbells,
    status: SharedBytes,
    engine: contract::EngineIndex,
}

impl Device {
    fn status(&self, at: u64) -> u32 {
        self.status.observe_u32(at as usize)
    }
}

impl View for Device {
    fn now(&mut self) -> Instant {
        now().now
    }

    fn running(&mut self) -> usize {
        self.status(contract::status_running(self.engine)) as usize
    }

    fn submitted(&mut self, member: usize) -> u32 {
        self.doorbells.submitted(member)
    }

    fn seen(&mut self, member: usize) -> u32 {
        self.status(contract::status_seen(self.engine, self.doorbells.context(member)))
    }

    fn retired(&mut self, member: usize) -> u32 {
        self.status(contract::status_retired(self.engine, self.doorbells.context(member)))
    }

    fn counters(&mut self, member: usize) -> Option<Counters> {
        let read = |at: u64| Nanoseconds(self.status.read_u64(at as usize));
        let (engine, context) = (self.engine, self.doorbells.context(member));
        let counters = || Counters {
            busy: read(contract::status_counted(engine, context)),
            backlogged: read(contract::status_backlogged(engine, context)),
        };
        // It may have yet to come up.
        (self.status(contract::STATUS_COUNTS) != 0).then(counters)
    }
}

/// Shares the engine that the manifest gives this task, by the policy of `make`. Does not return.
pub fn run<P: Policy>(make: impl FnOnce(&Setup) -> Result<P, SetupError>) -> ! {
    let environment = environment();
    let doorbells: Doorbells = of_engine(&environment, "doorbells.");
    let status = of_engine::<Region>(&environment, "status.").shared();
    let number = doorbells.engine() as usize;
    let engine = contract::EngineIndex::from_number(number).expect("the manifest knows the device's engines");
    let mut device = Device { doorbells, status, engine };
    let mut server = Server::new(environment.expect::<Endpoint>("requests"));
    let kick = Kick::of(&environment).expect("the sharer of an engine may kick its device");
    // The server that has contexts reset, and the tasks of members, as far as the sharer may stop them.
    let sessions = environment.endpoint("sessions").ok();
    let tasks: [Option<Task>; MEMBERS] =
        of_members(parameters(&environment), |client| of_client(&environment, "stop.", client));
    let setup = Setup::of(parameters(&environment)).unwrap_or_else(|error| panic!("{error}"));
    let (groups, usage) = (setup.groups(), environment.region("usage").ok());
    let mut usage = usage.map(|region| UsageWriter::new(&region, doorbells.members(), groups));
    let groups_told: [Option<Notification>; GROUPS] =
        of_groups(parameters(&environment), |group| of_client(&environment, "over.", group));
    let means = Means { resets: sessions.is_some(), shows: usage.is_some(), ..Means::to_tell(&groups_told) };
    let contexts = (0..doorbells.members()).map(|member| doorbells.context(member));
    // A policy is several KiB: it is made once the rest is done, because the stack of a task is small.
    let policy = make(&setup).unwrap_or_else(|error| panic!("{error}"));
    let mut sharer = Sharer::new(setup, policy, means, contexts);
    loop {
        match sharer.next(&mut device) {
            Do::Share { members, page } => doorbells.share(members, page).expect("these are members"),
            Do::Submit(store) => doorbells.submit(store),
            Do::Kick => kick.send(),
            Do::Reply { token, words } => keep(&mut sharer, server.reply_receive(token, words, Instant::ZERO)),
            Do::Receive(until) => keep(&mut sharer, server.receive(until)),
            Do::Stop(member) => {
                // It may have ended by itself.
                let _ = tasks[member.index()].map(|task| task.stop());
            }
            Do::Tell(group, member) => {
                // Its manager may have ended; then it does nothing, and the group is shut out.
                let _ = groups_told[group.index()].map(|group| group.signal(1 << member.index()));
            }
            Do::Reset(member) => {
                // If another command runs by now, there is nothing to reset; if the server is late or dead, the same command is accused once more.
                let context = doorbells.context(member.index());
                let until = now().now + PATIENCE;
                let _ = sessions.map(|server| Session::reset_running(&server, doorbells.engine(), context, until));
            }
            Do::Log(key, value) => log(key, value),
            Do::Show => {
                let shown = sharer.usage();
                if let Some(page) = &mut usage {
                    page.show(shown.time, &shown.groups[..groups], &shown.members[..doorbells.members()]);
                }
            }
        }
    }
}

/// The numbers that the manifest gives this task, by name.
fn parameters(environment: &Environment) -> impl Iterator<Item = (&'static str, u64)> + Clone {
    let entries = environment.entries().iter().filter(|entry| entry.kind == kind::PARAMETER);
    entries.filter_map(|entry| Some((name_of(entry)?, entry.address)))
}

/// The object of kind `T` with a name made of `what` and the engine's name.
fn of_engine<T: Object>(environment: &Environment, what: &str) -> T {
    let is_it = |entry: &&Entry| entry.kind == T::KIND && name_of(entry).is_some_and(|name| name.starts_with(what));
    let found = environment.entries().iter().find(is_it);
    let entry = found.unwrap_or_else(|| panic!("no {} `{what}ENGINE`: this task is the sharer of no engine", T::NAME));
    T::from_entry(environment, entry)
}

/// Keeps the request that came, if one did.
fn keep<P: Policy>(sharer: &mut Sharer<ReplyToken, P>, next: Result<Request, ServeError>) {
    match next {
        Ok(request) => {
            let store = request.store();
            sharer.keep(Asked { badge: request.badge, words: request.words, store, token: request.token });
        }
        Err(ServeError::Handle(error)) => panic!("this task cannot serve its endpoint: {error:?}"),
        // Its time to look has come, or the client that was answered is gone.
        Err(_) => {}
    }
}
