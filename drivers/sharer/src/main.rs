//! The sharer: shares one engine among its clients without the lock, by a policy of `fusee_sharing`.
//!
//! Handles: endpoint "requests" (receive), which the key `sharer` of the engine names; that key gives, besides, "doorbells.ENGINE", "status.ENGINE"
//! and "kick". It needs a budget of its own to look at the engine while its clients do not wait, and a stack of 32 KiB.
//!
//! | Parameter | Unit | Without it |
//! |---|---|---|
//! | `policy` | 0 accounting; 1 timeslices, each store asked about; 2 timeslices; 3 fair queueing, requests sampled; 4 the same, aware of backlogs; 5 fair queueing by the device's counters, or as 4 if it has none | 2 |
//! | `static_weights` | 1: groups have fixed parts, which silent members keep; 0: the members that want the engine divide all ([`Shares`](fusee_sharing::Shares)) | 0 |
//! | `log_verdicts` | 1: each change of season and verdict is logged | 0 |
//! | `poll_us`, `slice_us`, `sample_us`, `sample_most_us`, `sample_poll_us`, `request_limit_us` | microseconds | [`Parameters::DEFAULT`](fusee_sharing::Parameters::DEFAULT) |
//! | `sample_requests`, `free_run`, `backlogged` | requests; a multiple; percent | the same |
//! | `without_overuse_control` | 1: a timeslice costs no more than its length, however long the holder's last command runs on; for comparison | 0 |
//!
//! Groups of clients and their weights are told by entries `group.NAME` and `member.CLIENT` ([`fusee_sharing::told`]); policies 3 to 5 go by them, and the others
//! are refused. A region "usage" (read, write), if there is one, shows the usage of each ([`fusee::usage`]). Clients of groups and managers of groups
//! may call the endpoint ([`fusee::sharing`]).
//!
//! A command that takes longer than `request_limit_us` is accused. With a handle "sessions" (call) to the endpoint of the server of
//! [sessions](fusee::session), the sharer has it reset, with all other queued commands of its client, and the client goes on; the second time the
//! client is shut out for good, and its task is stopped if there is a handle `stop.CLIENT` (task, stop). Without "sessions" the client is shut out
//! the first time, and the command runs on until a job asks for the engine.
//!
//! A group with a handle `over.GROUP` (notification, signal) is told first, by a bit for the member, and nothing else happens. Its manager may have the command ended
//! ([`fusee::sharing::Sharer::end`]), or wait for its end. If it runs on for as long again, all clients of the group, and of those below it, are shut out for good, their
//! tasks are stopped as far as there are handles, and the command is reset.
//!
//! A client with commands that the device does not see for `request_limit_us` has stopped its own ring, and is shut out for good, as is one that is
//! seen to break the rules.
//!
//! In a loop it waits until a client stores while it may not, or until the policy wants to look; reads how far each client is; asks the policy; carries out
//! its verdicts. A wrong parameter ends the task with a message.
//!
//! # Time
//!
//! The policies count time during which the engine was this class's. The sharer is not told when jobs acquire the engine, it sees at each look the
//! context with the running command. So the time since the look before does not count if that is a command of another class. One look is wrong by up
//! to a poll; over many the errors cancel out, because they have either sign.
//!
//! # Logged marks
//!
//! | Key | Value |
//! |---|---|
//! | 1 | a member was accused: its number |
//! | 2 | a member that broke the rules, or was accused for good, has no command at the device any more: its number |
//! | 3 | with `log_verdicts`: the season. Of timeslices 1 and, from bit 8 on, the member with the slice, or 0 for none. Of fair queueing 0 barrier, 1 draining, 2 sampling and, from bit 8 on, the member, 3 free run |
//! | 4 | with `log_verdicts`: a member's number in 8 bits, and from bit 8 on its permission: 0 nothing; 1 submit so many commands, in bits 16 and up; 2 store to its doorbell |
//!
//! Its decisions, and their order, are in the library beside this file, which the simulator runs, too ([`sharer::course`]).
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use fusee::abi::environment::{Entry, kind};
use fusee::session::Session;
use fusee::usage::UsageWriter;
use fusee::{
    Doorbells, Endpoint, Environment, Instant, Kick, Nanoseconds, Notification, Object, Region, ReplyToken, Request,
    ServeError, Server, SharedBytes, Task, environment, log, now,
};
use fusee_accel_contract as contract;
use fusee_driver::{name_of, of_client};
use fusee_sharing::{Counters, GROUPS, MEMBERS};
use sharer::course::{Asked, Do, Means, PATIENCE, Sharer, View};
use sharer::setup::{Setup, of_groups, of_members};

fusee::entry!(main);

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

fn main() {
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
    let rule = setup.rule().unwrap_or_else(|error| panic!("{error}"));
    let mut sharer = Sharer::new(setup, rule, means, contexts);
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
fn keep(sharer: &mut Sharer<ReplyToken>, next: Result<Request, ServeError>) {
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
