//! The course of a sharer: a request comes in or time passes, and one thing after the other is to be done.
//!
//! The caller asks for the next step ([`Sharer::next`]), carries it out, and hands over the request that came of it, if one did ([`Sharer::keep`]).
//! All data that a sharer reads comes through a [`View`]; it knows no call and no clock.
//!
//! A round answers requests that are no stores; reads the progress of each client; asks the policy; carries out its verdicts; and waits for the next
//! request or until the policy wants to look.
//!
//! # Invariants
//!
//! 1. A client that keeps the rules of the contract is never shut out for good.
//! 2. A client that breaks them is, as is one with a command that is accused for good: nothing it stores later reaches the device. The others go on.
//! 3. A store is answered once, after it was made.
//! 4. No request of a client changes the part of clients of other groups.

use fusee::usage::Record;
use fusee::{DoorbellPage, Instant, Message, Nanoseconds, Store};
use fusee_sharing::{
    Accusation, Counters, Doorbell, GROUPS, Group, MEMBERS, Member, Members, Policy, Reading, Readings, Response,
    Running, Usage, Verdict,
};

use crate::client::{Client, Words};
use crate::groups::{Follows, Groups};
use crate::setup::Setup;

/// Keys of the log: a member was accused; a member that broke the rules, or was accused for good, has left.
const ACCUSED: u64 = 1;
const BROKE: u64 = 2;
/// With `log_verdicts`: another season; another verdict on a member.
const SEASON: u64 = 3;
const VERDICT: u64 = 4;
/// How long the server of sessions may take to ask for a reset.
pub const PATIENCE: Nanoseconds = Nanoseconds(10_000_000);
/// Requests that the kernel lets a task answer later, at most.
const REPLIES: usize = 16;

/// The inputs of a sharer: the time, the words of the status page, and the doorbells of its engine's clients. `member` is below the number of these.
pub trait View {
    /// The time now.
    fn now(&mut self) -> Instant;

    /// The number of the context with the running command, plus one; 0: no command runs.
    fn running(&mut self) -> usize;

    /// How many commands stand in the doorbell of `member`, modulo 2^32.
    fn submitted(&mut self, member: usize) -> u32;

    /// How many of them the device has seen.
    fn seen(&mut self, member: usize) -> u32;

    /// How many it has retired.
    fn retired(&mut self, member: usize) -> u32;

    /// The device's counters for `member`, if it counts.
    fn counters(&mut self, member: usize) -> Option<Counters>;
}

/// A request until it is answered, which a `T` does.
#[derive(Clone, Debug)]
pub struct Asked<T> {
    /// The badge of the sender.
    pub badge: u64,
    /// The words of the message.
    pub words: Message,
    /// The store that it is, if it is one.
    pub store: Option<Store>,
    /// The token for the reply.
    pub token: T,
}

/// One thing to do.
#[derive(Debug)]
pub enum Do<T> {
    /// Put `page` in the place of the doorbells of `members`, a bit each.
    Share {
        /// The members, a bit each.
        members: u16,
        /// The page at the members' address.
        page: DoorbellPage,
    },
    /// Make this store in the client's stead.
    Submit(Store),
    /// Let the device look.
    Kick,
    /// Answer the request that `token` stands for, and take the next one if it is there already.
    Reply {
        /// The token for the reply.
        token: T,
        /// The words of the reply.
        words: Message,
    },
    /// Wait for a request until then.
    Receive(Instant),
    /// Stop the task of a member, if that is allowed.
    Stop(Member),
    /// Tell the group that a command of this member takes too long.
    Tell(Group, Member),
    /// Have the running command of this member reset by the server of sessions, which may take [`PATIENCE`] for it.
    Reset(Member),
    /// Write a record to the trace.
    Log(u64, u64),
    /// Show the usage of members and groups ([`Sharer::usage`]).
    Show,
}

/// The means of a sharer beside its doorbells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Means {
    /// The sharer may have commands reset.
    pub resets: bool,
    /// The sharer has a page to show the usage of members.
    pub shows: bool,
    /// The groups that it can tell something, a bit each.
    pub tells: u16,
}

impl Means {
    /// The means of a sharer that can notify those groups which have a notification, and has nothing else.
    #[must_use]
    pub fn to_tell<N>(groups: &[Option<N>; GROUPS]) -> Means {
        let tells = groups.iter().enumerate().filter(|(_, group)| group.is_some()).map(|(index, _)| 1 << index).sum();
        Means { tells, ..Means::default() }
    }
}

/// The usage of members and groups.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Nanoseconds during which the engine was the clients'.
    pub time: u64,
    /// By the number of the group.
    pub groups: [Record; GROUPS],
    /// By the number of the member.
    pub members: [Record; MEMBERS],
}

/// Where a round is. A number is that of the place or member that is next.
#[derive(Clone, Copy, Debug)]
enum At {
    Begin,
    Answer(usize),
    Look,
    Leave(usize),
    Decide,
    Accuse,
    Stop,
    Reset,
    SaySeason,
    SayVerdict(usize),
    Turn,
    Open(u16),
    Pass(usize),
    /// The member's store was made; whether that is all of it.
    Made(usize, bool),
    Wait,
}

/// The consequence for a member that is accused.
#[derive(Clone, Copy, Debug)]
struct Sentence {
    /// The group that is told, and nothing more yet.
    tells: Option<Group>,
    shuts_out: Members,
    stops: Members,
    resets: bool,
}

impl Sentence {
    const NONE: Sentence = Sentence { tells: None, shuts_out: Members::EMPTY, stops: Members::EMPTY, resets: false };

    /// All of these are shut out for good.
    fn of(members: Members, means: Means) -> Sentence {
        Sentence { tells: None, shuts_out: members, stops: members, resets: means.resets }
    }
}

/// A sharer of one engine by the policy `P`. A request is answered by a `T`.
#[derive(Clone, Debug)]
pub struct Sharer<T, P> {
    at: At,
    means: Means,
    policy: P,
    groups: Groups,
    /// How long a request may take.
    limit: Nanoseconds,
    /// Whether the policy goes by the device's counters.
    counts: bool,
    /// The contexts of the members on the device.
    contexts: [usize; MEMBERS],
    members: usize,
    clients: [Client; MEMBERS],
    /// The store that each client waits with.
    stores: [Option<Asked<T>>; MEMBERS],
    /// Requests that are no stores, until the next round.
    messages: [Option<Asked<T>>; REPLIES],
    /// Whether a request came in this round.
    has_asked: bool,
    readings: Readings,
    suspended: Members,
    verdict: Verdict,
    /// The consequence for the member that is accused.
    sentence: Sentence,
    /// For members of groups that were notified of a command: the count of ended commands at that instant.
    told: [Option<u64>; MEMBERS],
    /// The member with a command that a manager has asked to end.
    ends: Option<Member>,
    /// The season and the verdict that were logged last, if they are.
    said: Option<(u64, [Doorbell; MEMBERS])>,
    /// The usage of members, those that have left included.
    had: [Usage; MEMBERS],
    clock: Clock,
}

/// The time during which the engine was this class's.
#[derive(Clone, Copy, Debug)]
struct Clock {
    of_class: Instant,
    looked: Instant,
}

impl<T, P: Policy> Sharer<T, P> {
    /// A sharer of the engine with these clients, by their contexts on the device, in the order of the manifest.
    #[must_use]
    pub fn new(setup: Setup, policy: P, means: Means, contexts: impl Iterator<Item = usize>) -> Sharer<T, P> {
        let mut of_members = [0; MEMBERS];
        let members = of_members.iter_mut().zip(contexts).map(|(place, context)| *place = context).count();
        let counts = policy.counts();
        let Setup { parameters, groups, logs_verdicts, .. } = setup;
        Sharer {
            at: At::Begin,
            means,
            policy,
            groups,
            limit: parameters.request_limit,
            counts,
            contexts: of_members,
            members,
            clients: [const { Client::new(0) }; MEMBERS],
            stores: [const { None }; MEMBERS],
            messages: [const { None }; REPLIES],
            has_asked: false,
            readings: Readings::default(),
            suspended: Members::EMPTY,
            verdict: Verdict::QUIET,
            sentence: Sentence::NONE,
            told: [None; MEMBERS],
            ends: None,
            said: logs_verdicts.then_some((0, [Doorbell::SHUT; MEMBERS])),
            had: [Usage::default(); MEMBERS],
            clock: Clock { of_class: Instant::ZERO, looked: Instant::ZERO },
        }
    }

    /// Keeps a request that came, until it is answered.
    pub fn keep(&mut self, asked: Asked<T>) {
        let place = match asked.store {
            // One that stores again has given up the wait before.
            Some(store) => self.stores.get_mut(store.member),
            // There are as many places as requests that may be without an answer.
            None => self.messages.iter_mut().find(|place| place.is_none()),
        };
        if let Some(place) = place {
            *place = Some(asked);
            self.has_asked = true;
        }
    }

    /// Returns the next step.
    pub fn next(&mut self, view: &mut impl View) -> Do<T> {
        loop {
            match self.at {
                At::Begin => {
                    self.begin(view);
                    self.at = At::Answer(0);
                }
                At::Answer(0) if self.messages.iter().all(Option::is_none) => {
                    self.has_asked = false;
                    self.at = At::Look;
                }
                At::Answer(_) if self.ends.is_some() => {
                    if let Some(member) = self.ends.take() {
                        return Do::Reset(member);
                    }
                }
                At::Answer(place) => {
                    self.has_asked &= place > 0;
                    self.at = if place + 1 < REPLIES { At::Answer(place + 1) } else { At::Look };
                    if let Some(asked) = self.messages[place].take() {
                        return self.answer(asked, view);
                    }
                }
                At::Look => {
                    self.at = At::Leave(0);
                    self.suspended = self.groups.held_back();
                    if self.look(view) {
                        return Do::Kick;
                    }
                }
                At::Leave(from) => {
                    let leaves = |member: &usize| self.clients[*member].just_left();
                    let Some(index) = (from..self.members).find(leaves) else {
                        self.at = At::Decide;
                        continue;
                    };
                    self.at = At::Leave(index + 1);
                    if let Some(member) = Member::new(index) {
                        self.policy.leave(member, self.clock.of_class);
                    }
                    return Do::Log(BROKE, index as u64);
                }
                At::Decide => {
                    let verdict = self.policy.step(self.clock.of_class, &self.readings);
                    self.verdict = verdict.without(self.suspended);
                    self.at = At::Accuse;
                    if self.means.shows {
                        return Do::Show;
                    }
                }
                At::Accuse => {
                    self.at = At::SaySeason;
                    if let Some(accusation) = self.verdict.accused {
                        self.at = At::Stop;
                        self.sentence = self.judge(accusation);
                        for member in self.sentence.shuts_out.iter() {
                            self.clients[member.index()].shut_out();
                        }
                        return Do::Log(ACCUSED, accusation.member.index() as u64);
                    }
                }
                At::Stop => {
                    if let Some(member) = self.sentence.stops.iter().next() {
                        self.sentence.stops.remove(member);
                        return Do::Stop(member);
                    }
                    self.at = At::Reset;
                }
                At::Reset => {
                    self.at = At::SaySeason;
                    let Sentence { tells, resets, .. } = core::mem::replace(&mut self.sentence, Sentence::NONE);
                    if let Some(Accusation { member, .. }) = self.verdict.accused {
                        if let Some(group) = tells {
                            return Do::Tell(group, member);
                        }
                        if resets {
                            return Do::Reset(member);
                        }
                    }
                }
                At::SaySeason => {
                    let Some((said, _)) = &mut self.said else {
                        self.at = At::Turn;
                        continue;
                    };
                    self.at = At::SayVerdict(0);
                    let season = self.policy.season();
                    if core::mem::replace(said, season) != season {
                        return Do::Log(SEASON, season);
                    }
                }
                At::SayVerdict(index) => {
                    let (Some((_, said)), true) = (&mut self.said, index < self.members) else {
                        self.at = At::Turn;
                        continue;
                    };
                    self.at = At::SayVerdict(index + 1);
                    let doorbell = self.verdict.doorbells[index];
                    if core::mem::replace(&mut said[index], doorbell) != doorbell {
                        return Do::Log(VERDICT, index as u64 | in_words(doorbell) << 8);
                    }
                }
                At::Turn => {
                    let [open, shut] = self.turn();
                    self.at = At::Open(open);
                    if shut != 0 {
                        return Do::Share { members: shut, page: DoorbellPage::ReadOnly };
                    }
                }
                At::Open(members) => {
                    self.at = At::Pass(0);
                    if members != 0 {
                        return Do::Share { members, page: DoorbellPage::Open };
                    }
                }
                At::Pass(from) => {
                    let waits = |member: &usize| self.stores[*member].is_some();
                    let Some(index) = (from..self.members).find(waits) else {
                        self.at = At::Wait;
                        continue;
                    };
                    self.at = At::Pass(index + 1);
                    if let Some(store) = self.pass(index, view) {
                        return Do::Submit(store);
                    }
                }
                At::Made(index, is_all) => {
                    self.at = At::Pass(index + 1);
                    if !is_all {
                        return Do::Kick;
                    }
                    if let Some(asked) = self.stores[index].take() {
                        return Do::Reply { token: asked.token, words: fusee::Verdict::GoOn.words() };
                    }
                }
                At::Wait => {
                    self.at = At::Answer(0);
                    let delay = self.verdict.call_again.map(|again| again.since(self.clock.of_class));
                    if !self.has_asked && delay != Some(Nanoseconds::ZERO) {
                        return Do::Receive(delay.map_or(Instant::NEVER, |delay| self.clock.looked + delay));
                    }
                }
            }
        }
    }

    /// Returns the usage of members and groups.
    pub fn usage(&mut self) -> Shown {
        let (mut members, mut groups) = ([Record::default(); MEMBERS], [Record::default(); GROUPS]);
        // A bit for each group that has a member of the kind.
        let (mut held_back, mut let_in) = (0, 0);
        for member in self.each() {
            let (index, usage) = (member.index(), self.policy.usage(member));
            // A policy forgets members that leave.
            if !self.clients[index].has_left() {
                self.had[index] = usage;
            }
            let Usage { used, commands, .. } = self.had[index];
            let reading = self.readings.of(member);
            let record = Record {
                used: used.0,
                commands,
                ahead: usage.ahead.0,
                is_denied: usage.denied,
                is_suspended: self.suspended.contains(member),
                waits: self.stores[index].is_some(),
                at_device: reading.submitted.saturating_sub(reading.completed) as u32,
            };
            members[index] = record;
            for group in self.groups.above(member) {
                let group_record = &mut groups[group.index()];
                group_record.used += used.0;
                group_record.commands += commands;
                group_record.at_device += record.at_device;
                *(if record.is_suspended { &mut held_back } else { &mut let_in }) |= 1_u16 << group.index();
            }
        }
        for (index, group_record) in groups.iter_mut().enumerate() {
            group_record.is_suspended = held_back & !let_in & 1 << index != 0;
        }
        Shown { time: self.clock.of_class.0, groups, members }
    }

    fn each(&self) -> impl Iterator<Item = Member> + use<T, P> {
        (0..self.members).filter_map(Member::new)
    }

    /// Lets all clients join, as they are now.
    fn begin(&mut self, view: &mut impl View) {
        self.clock.looked = view.now();
        for member in self.each() {
            self.clients[member.index()] = Client::new(view.retired(member.index()));
        }
        self.look(view);
        for member in self.each() {
            let (place, reading) = (self.groups.place(member), self.readings.of(member));
            // It has not joined yet, and its group is one of the tree's.
            let _ = self.policy.join(member, place, reading, Instant::ZERO);
        }
    }

    /// The answer to a request that is no store.
    fn answer(&mut self, asked: Asked<T>, view: &mut impl View) -> Do<T> {
        let running = view.running();
        let runs = |member: &Member| self.contexts[member.index()] + 1 == running;
        let running = self.each().find(runs).filter(|_| self.means.resets);
        let (words, follows) = self.groups.answer(asked.badge, &asked.words, running);
        match follows {
            Follows::Nothing => {}
            Follows::Weighs(member, weight) => self.policy.reweigh(member, weight),
            Follows::Ends(member) => self.ends = Some(member),
        }
        Do::Reply { token: asked.token, words }
    }

    /// Judges a member that is accused. A group that can be notified is, and has as long again to end the command; if it does not, all of it is shut
    /// out.
    fn judge(&mut self, Accusation { member, response }: Accusation) -> Sentence {
        let completed = self.readings.of(member).completed;
        let told = &mut self.told[member.index()];
        let group = self.groups.above(member).find(|group| self.means.tells & 1 << group.index() != 0);
        let is_told = *told == Some(completed);
        *told = Some(completed);
        match group {
            Some(group) if !is_told => Sentence { tells: Some(group), ..Sentence::NONE },
            Some(group) => Sentence::of(self.groups.below(group), self.means),
            None if response == Response::Stop => Sentence::of(Members::only(member), self.means),
            None => {
                let shuts_out = if self.means.resets { Members::EMPTY } else { Members::only(member) };
                Sentence { shuts_out, resets: self.means.resets, ..Sentence::NONE }
            }
        }
    }

    /// Reads how far each client is, and the time. Whether the device has yet to see something.
    fn look(&mut self, view: &mut impl View) -> bool {
        let mut readings = Readings::default();
        let mut has_news = false;
        let running = view.running();
        for member in self.each() {
            let index = member.index();
            let words = Words {
                before: view.submitted(index),
                retired: view.retired(index),
                seen: view.seen(index),
                submitted: view.submitted(index),
                store: self.stores[index].as_ref().and_then(|asked| asked.store).map(|store| store.submitted),
            };
            // A client may have been interrupted between its store and its kick; or means never to kick.
            has_news |= words.seen != words.submitted;
            let counters = if self.counts { view.counters(index) } else { None };
            let reading = self.clients[index].look(&words, self.clock.of_class, self.limit);
            readings.members[index] = Reading { counters, ..reading };
            if running == self.contexts[index] + 1 {
                readings.running = Running::Member(member);
            }
        }
        let is_others = running != 0 && readings.running == Running::Unknown;
        if readings.running == Running::Unknown {
            readings.running = Running::Nobody;
        }
        self.clock.look(view.now(), is_others);
        self.readings = readings.without(self.suspended);
        has_news
    }

    /// Returns the members with doorbells that open now, and those with doorbells that are shut, a bit each.
    fn turn(&mut self) -> [u16; 2] {
        let (mut open, mut shut) = (0, 0);
        for (index, client) in self.clients[..self.members].iter_mut().enumerate() {
            match client.turn(self.verdict.doorbells[index] == Doorbell::Open) {
                Some(true) => open |= 1 << index,
                Some(false) => shut |= 1 << index,
                None => {}
            }
        }
        [open, shut]
    }

    /// Lets as many commands of a client's waiting store go on as the verdict says. Returns the store to be made, if the doorbell differs.
    fn pass(&mut self, index: usize, view: &mut impl View) -> Option<Store> {
        let mut store = self.stores[index].as_ref()?.store.filter(|_| self.clients[index].is_good())?;
        let reading = &self.readings.members[index];
        let waits = reading.announced - reading.submitted;
        let passes = match self.verdict.doorbells[index] {
            Doorbell::Open => waits,
            Doorbell::Trapped { pass } => pass.min(waits),
        };
        let before = view.submitted(index);
        // The client's wait was ended, and it has stored again.
        let is_made = store.submitted == before;
        if passes == 0 && !is_made {
            return None;
        }
        let is_all = passes >= waits;
        if !is_all {
            store.submitted = before.wrapping_add(passes as u32);
        }
        self.at = At::Made(index, is_all);
        (!is_made).then_some(store)
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

/// A verdict on one member as it is logged.
const fn in_words(doorbell: Doorbell) -> u64 {
    match doorbell {
        Doorbell::SHUT => 0,
        Doorbell::Trapped { pass } => 1 | pass << 8,
        Doorbell::Open => 2,
    }
}

#[cfg(test)]
mod tests;
