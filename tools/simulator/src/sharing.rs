//! The program of a sharer: the course of `drivers/sharer`, each step a trap or an access to the simulated device, at no cost of time.
//!
//! The page that shows usage is not written: a region is one word here. The server of sessions has the part that a sharer asks for.

use fusee::session::{self, Refusal};
use fusee::{DoorbellPage, Instant, Nanoseconds};
use fusee_abi::Error;
use fusee_abi::call::{Call, FIRST_WORD, MESSAGE_WORDS, NEVER, PAGE_SHIFT, STORED, TOKEN};
use fusee_accel_contract::EngineIndex;
use fusee_kernel_core::Machine;
use fusee_kernel_core::id::ThreadId;
use fusee_sharing::{Counters, GROUPS, MEMBERS};
use sharer::course::{self, Asked, Do, Means, PATIENCE, Shown, View};
use sharer::setup::{Rule, Setup};

use crate::actor::{Action, trap};
use crate::board::Board;

/// A sharer, and its handles in the manifest.
#[derive(Clone, Debug)]
pub struct Sharer {
    /// Handle of the endpoint at which stores are asked about.
    pub endpoint: u64,
    /// Handle of the doorbells of the engine's clients.
    pub doorbells: u64,
    /// The engine, as the system numbers it.
    pub engine: usize,
    /// The contexts of these clients on the device.
    pub contexts: Vec<usize>,
    /// Handle of the endpoint of the server of sessions.
    pub sessions: Option<u64>,
    /// Handles of the notifications by which groups are told of commands that take too long.
    pub groups: [Option<u64>; GROUPS],
    /// Handles of the tasks of clients, as far as it may stop them.
    pub tasks: [Option<u64>; MEMBERS],
    /// Its parameters, by name.
    pub parameters: Vec<(String, u64)>,
}

/// How far a sharer is.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Nothing: the parameters of the manifest make no sharer.
    course: Option<course::Sharer<u64, Rule>>,
    /// Whether the last call was one that brings a request.
    receives: bool,
}

/// The inputs of the sharer.
struct Device<'a> {
    board: &'a mut Board,
    device: usize,
    engine: EngineIndex,
    contexts: &'a [usize],
}

impl Device<'_> {
    fn context(&self, member: usize) -> usize {
        self.contexts.get(member).copied().unwrap_or(0)
    }
}

impl View for Device<'_> {
    fn now(&mut self) -> Instant {
        Instant(self.board.now)
    }

    fn running(&mut self) -> usize {
        self.board.running(self.device, self.engine)
    }

    fn submitted(&mut self, member: usize) -> u32 {
        self.board.submitted(self.device, self.engine, self.context(member))
    }

    fn seen(&mut self, member: usize) -> u32 {
        self.board.seen(self.device, self.engine, self.context(member))
    }

    fn retired(&mut self, member: usize) -> u32 {
        self.board.retired(self.device, self.engine, self.context(member))
    }

    fn counters(&mut self, member: usize) -> Option<Counters> {
        let counted = self.board.counted(self.device, self.engine, self.context(member));
        counted.map(|[busy, backlogged]| Counters { busy: Nanoseconds(busy), backlogged: Nanoseconds(backlogged) })
    }
}

impl Sharing {
    /// At the first instruction.
    #[must_use]
    pub fn new(sharer: &Sharer) -> Sharing {
        let parameters = sharer.parameters.iter().map(|(name, value)| (name.as_str(), *value));
        // No memory of the simulator's stands for the page that shows.
        let means = Means { resets: sharer.sessions.is_some(), ..Means::to_tell(&sharer.groups) };
        let setup = Setup::of(parameters).and_then(|setup| Ok((setup.rule()?, setup)));
        let course = |(rule, setup)| course::Sharer::new(setup, rule, means, sharer.contexts.iter().copied());
        Sharing { course: setup.ok().map(course), receives: false }
    }

    /// The usage of clients and groups that the policy has booked.
    pub fn booked(&mut self) -> Option<Shown> {
        self.course.as_mut().map(course::Sharer::usage)
    }

    /// The next action.
    pub fn act(&mut self, sharer: &Sharer, board: &mut Board, thread: ThreadId) -> Action {
        let Some(course) = &mut self.course else { return Action::Fault("what it is told makes no sharer") };
        let Some((device, engine)) = board.place_of(sharer.engine) else {
            return Action::Fault("the sharer of an engine that nobody uses");
        };
        if std::mem::take(&mut self.receives)
            && let Err(reason) = receive(course, &board.registers(thread).general)
        {
            return Action::Fault(reason);
        }
        loop {
            let mut view = Device { board: &mut *board, device, engine, contexts: &sharer.contexts };
            match course.next(&mut view) {
                Do::Share { members, page } => return share(board, thread, sharer.doorbells, members, page),
                Do::Submit(store) => {
                    let context = view.context(store.member);
                    board.submit_for(device, engine, context, store.submitted);
                }
                Do::Kick => board.kick(),
                Do::Reply { token, words } => {
                    self.receives = true;
                    return reply(board, thread, sharer.endpoint, token, &words, Instant::ZERO.0);
                }
                Do::Receive(until) => {
                    self.receives = true;
                    return trap(board, thread, Call::Receive, sharer.endpoint, 0, until.0);
                }
                Do::Stop(member) => {
                    if let Some(task) = sharer.tasks[member.index()] {
                        return trap(board, thread, Call::Stop, task, 0, NEVER);
                    }
                }
                Do::Tell(group, member) => {
                    if let Some(notification) = sharer.groups[group.index()] {
                        return trap(board, thread, Call::Signal, notification, 1 << member.index(), NEVER);
                    }
                }
                Do::Reset(member) => {
                    let Some(sessions) = sharer.sessions else { continue };
                    let context = view.context(member.index()) as u64;
                    let request = session::Request::ResetRunning { engine: engine.number() as u64, context };
                    let until = board.now.saturating_add(PATIENCE.0);
                    let action = trap(board, thread, Call::Call, sessions, 0, until);
                    write_words(board, thread, &request.words());
                    return action;
                }
                Do::Log(key, value) => return trap(board, thread, Call::Log, key, value, NEVER),
                Do::Show => {}
            }
        }
    }
}

/// Takes in the results of a call that receives.
fn receive(course: &mut course::Sharer<u64, Rule>, general: &[u64; 31]) -> Result<(), &'static str> {
    match general[0] {
        0 => {}
        // Its time to look has come, or the client that was answered is gone.
        code if [Error::TimedOut, Error::BadToken, Error::PeerDied].map(|error| error as u64).contains(&code) => {
            return Ok(());
        }
        _ => return Err("a sharer that cannot serve its endpoint"),
    }
    let words = read_words(general);
    let badge = general[1] & u64::from(u32::MAX);
    let store =
        (general[1] & STORED != 0).then_some(fusee::Store { member: badge as usize, submitted: words[0] as u32 });
    course.keep(Asked { badge, words, store, token: general[TOKEN] });
    Ok(())
}

fn share(board: &mut Board, thread: ThreadId, doorbells: u64, members: u16, page: DoorbellPage) -> Action {
    let which = u64::from(members) | (page as u64) << PAGE_SHIFT;
    trap(board, thread, Call::Share, doorbells, which, NEVER)
}

fn reply(
    board: &mut Board,
    thread: ThreadId,
    endpoint: u64,
    token: u64,
    words: &[u64; MESSAGE_WORDS],
    until: u64,
) -> Action {
    let action = trap(board, thread, Call::ReplyReceive, endpoint, 0, until);
    write_words(board, thread, words);
    board.registers(thread).general[TOKEN] = token;
    action
}

fn write_words(board: &mut Board, thread: ThreadId, words: &[u64; MESSAGE_WORDS]) {
    board.registers(thread).general[FIRST_WORD..FIRST_WORD + MESSAGE_WORDS].copy_from_slice(words);
}

fn read_words(general: &[u64; 31]) -> [u64; MESSAGE_WORDS] {
    let mut words = [0; MESSAGE_WORDS];
    words.copy_from_slice(&general[FIRST_WORD..FIRST_WORD + MESSAGE_WORDS]);
    words
}

/// The server of sessions, as far as a sharer needs it: it resets running commands.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// Handle of its endpoint.
    pub endpoint: u64,
    /// The sharers that may have commands reset: the badge of requests, and the engine that each shares, as the system numbers it.
    pub sharers: Vec<(u64, usize)>,
}

impl Sessions {
    /// The next action; `begins`: at its first instruction.
    pub fn act(&self, board: &mut Board, thread: ThreadId, begins: bool) -> Action {
        let general = board.registers(thread).general;
        // A reply to a client that is gone receives nothing.
        if begins || general[0] != 0 {
            return trap(board, thread, Call::Receive, self.endpoint, 0, NEVER);
        }
        let done = self.obey(board, general[1] & u64::from(u32::MAX), &read_words(&general));
        reply(board, thread, self.endpoint, general[TOKEN], &session::reply(done.map(|()| [0, 0])), NEVER)
    }

    fn obey(&self, board: &mut Board, badge: u64, words: &[u64; MESSAGE_WORDS]) -> Result<(), Refusal> {
        let session::Request::ResetRunning { engine, context } = session::Request::check(words)? else {
            return Err(Refusal::Malformed);
        };
        let own = self.sharers.iter().filter(|(sharer, _)| *sharer == badge);
        let mut places = own.filter_map(|(_, engine)| board.place_of(*engine));
        let is_it = |(_, number): &(usize, EngineIndex)| number.number() as u64 == engine;
        let (device, engine) = places.find(is_it).ok_or(Refusal::NotYours)?;
        let context = usize::try_from(context).map_err(|_| Refusal::NotRunning)?;
        if board.reset_running(device, engine, context) { Ok(()) } else { Err(Refusal::NotRunning) }
    }
}
