//! The server's state: its clients with their filters and queues, and the frame that the controller has to send.
//!
//! # Invariants
//!
//! 1. A client's queues are its own: a request of another client changes neither their room nor their frames.
//! 2. The controller has at most one frame to send, a copy of the one that `loaded` names. That frame stays in its queue until it is on the bus, so
//!    one that the controller loses by going off the bus is sent again.
//! 3. The frame that the controller is given next is the one with the smallest [`Frame::order`] of all queues, and the earliest among equals.
//! 4. Each frame that the controller receives is either in the queue of each client that wants it, or in that client's count, at its place.
//! 5. The work of a request is bounded: by [`BATCH`] frames, all clients and all filters.

use fusee::can::{
    BUS_OFF, FILTERS, Filter, Frame, Gap, Health, RECEIVED, Received, Refusal, Request, SENT, State, lost, refusal,
};
use fusee::{Instant, Message, Nanoseconds};
use heapless::{Deque, Vec};

use crate::controller::{Controller, Dead, Registers};

/// Clients of a server, at most.
pub const CLIENTS: usize = 8;
/// Received frames that are kept for a client.
pub const TO_RECEIVE: usize = 64;
/// Frames of a client that wait to be sent, the one that the controller has included.
pub const TO_SEND: usize = 16;
/// Received frames that one request of the bottom half serves.
pub const BATCH: usize = 8;
/// Bits for which a controller that went off the bus has to stay away: 128 times 11 (ISO 11898-1:2015, 12.1.4.4).
pub const BITS_OFF: u64 = 128 * 11;

/// The time, as the server needs it.
pub trait Clock {
    /// The present instant.
    fn now(&self) -> Instant;
    /// The instant at which the bottom half has begun to serve the latest interrupt.
    fn interrupted(&self) -> Instant;
}

/// A frame that waits to be sent.
#[derive(Clone, Copy)]
struct Waiting {
    frame: Frame,
    /// The number of the frame among all that were queued.
    number: u64,
}

impl Waiting {
    fn key(&self) -> (u32, u64) {
        (self.frame.order(), self.number)
    }
}

/// A received frame, and the frames that are missing before it.
#[derive(Clone, Copy)]
struct Arrived {
    received: Received,
    before: Gap,
}

/// One client.
struct Client {
    badge: u64,
    filters: Vec<Filter, FILTERS>,
    arrived: Deque<Arrived, TO_RECEIVE>,
    /// Frames that are missing behind the last of `arrived`.
    behind: Gap,
    /// The first one is sent first.
    to_send: Vec<Waiting, TO_SEND>,
}

/// The clients of a controller, and the controller.
pub struct Bus<R> {
    controller: Controller<R>,
    clients: Vec<Client, CLIENTS>,
    /// The client, and the number, of the frame that the controller has to send.
    loaded: Option<(usize, u64)>,
    /// Frames that were queued so far.
    queued: u64,
    /// The instant at which the controller may go on the bus again, while it is off.
    off_until: Option<Instant>,
    /// An absence has begun, of which the bottom half may know nothing: another task may have been told.
    is_urgent: bool,
    off_for: Nanoseconds,
    bus_offs: u32,
    /// No received frame in the controller is earlier.
    empty_since: Instant,
    /// Bits to signal to each client.
    signals: [u64; CLIENTS],
}

impl<R: Registers> Bus<R> {
    /// Starts `controller`, which stays away for `off_for` whenever it went off the bus.
    ///
    /// # Errors
    /// [`Dead`] if there is none.
    pub fn new(mut controller: Controller<R>, off_for: Nanoseconds, clock: &impl Clock) -> Result<Bus<R>, Dead> {
        controller.start([].iter())?;
        Ok(Bus {
            controller,
            clients: Vec::new(),
            loaded: None,
            queued: 0,
            off_until: None,
            is_urgent: false,
            off_for,
            bus_offs: 0,
            empty_since: clock.now(),
            signals: [0; CLIENTS],
        })
    }

    /// The index of a client that has opened the bus.
    #[must_use]
    pub fn index(&self, badge: u64) -> Option<usize> {
        self.clients.iter().position(|client| client.badge == badge)
    }

    /// The bits to signal to each client, by its index. They are none from here on.
    pub fn take_signals(&mut self) -> [u64; CLIENTS] {
        core::mem::take(&mut self.signals)
    }

    /// Whether the bottom half is to ask for the time of the next request. It is not from here on.
    pub fn take_urgency(&mut self) -> bool {
        core::mem::take(&mut self.is_urgent)
    }

    /// Serves a request, of any origin; the reply.
    pub fn serve(&mut self, badge: u64, message: &Message, clock: &impl Clock) -> Message {
        self.end_absence(clock);
        self.answer(badge, message, clock).unwrap_or_else(refusal)
    }

    fn answer(&mut self, badge: u64, message: &Message, clock: &impl Clock) -> Result<Message, Refusal> {
        let request = Request::of(message)?;
        match request {
            Request::Open => return self.open(badge),
            Request::Interrupt => return Ok(self.interrupt(clock)),
            _ => {}
        }
        let index = self.index(badge).ok_or(Refusal::NotOpen)?;
        let client = &mut self.clients[index];
        match request {
            Request::Accept(filter) => {
                client.filters.push(filter).map_err(|_| Refusal::TooManyFilters)?;
                self.filter();
            }
            Request::Send(frame) => {
                if self.off_until.is_some() {
                    return Err(Refusal::BusOff);
                }
                let waiting = Waiting { frame, number: self.queued };
                let place = client.to_send.partition_point(|other| other.key() < waiting.key());
                client.to_send.insert(place, waiting).map_err(|_| Refusal::QueueFull)?;
                self.queued += 1;
                self.load();
            }
            Request::Receive => return client.take(),
            Request::State => return Ok(self.state(index).reply()),
            Request::Open | Request::Interrupt => {}
        }
        Ok([0; 6])
    }

    /// Has the client begin anew. Its frames to send stay: it may have been told that they are queued.
    fn open(&mut self, badge: u64) -> Result<Message, Refusal> {
        match self.index(badge) {
            Some(index) => {
                let client = &mut self.clients[index];
                client.filters.clear();
                client.arrived.clear();
                client.behind = Gap::default();
                self.filter();
            }
            None => {
                let client = Client {
                    badge,
                    filters: Vec::new(),
                    arrived: Deque::new(),
                    behind: Gap::default(),
                    to_send: Vec::new(),
                };
                self.clients.push(client).map_err(|_| Refusal::TooManyClients)?;
            }
        }
        Ok([0; 6])
    }

    /// Sets the controller's filters by those of all clients. A controller off the bus gets them when it is started.
    fn filter(&mut self) {
        if self.off_until.is_none() {
            let filters = self.clients.iter().flat_map(|client| &client.filters);
            // A controller that lets no filter be changed has none in use, and receives all frames.
            let _ = self.controller.accept(filters);
        }
    }

    fn state(&mut self, index: usize) -> State {
        let is_off = self.off_until.is_some();
        let health = if is_off { Health::BusOff } else { self.controller.health() };
        let [transmit_errors, receive_errors] = self.controller.errors();
        let client = &self.clients[index];
        State {
            health,
            transmit_errors,
            receive_errors,
            to_send: client.to_send.len() as u32,
            received: client.arrived.len() as u32,
            bus_offs: self.bus_offs,
        }
    }

    //--- The controller

    /// Gives the controller the most urgent frame, if it has none.
    fn load(&mut self) {
        if self.loaded.is_some() || self.off_until.is_some() {
            return;
        }
        let firsts = self.clients.iter().enumerate();
        let firsts = firsts.filter_map(|(index, client)| Some((index, *client.to_send.first()?)));
        if let Some((index, waiting)) = firsts.min_by_key(|(_, waiting)| waiting.key()) {
            self.controller.send(&waiting.frame);
            self.loaded = Some((index, waiting.number));
        }
    }

    /// Serves the controller's interrupt. The reply has a one if the bottom half has to ask again at once, and the instant at which it has to without an
    /// interrupt.
    fn interrupt(&mut self, clock: &impl Clock) -> Message {
        let now = clock.now();
        let is_left = self.off_until.is_none() && self.look(now, clock.interrupted());
        let next = self.off_until.unwrap_or(Instant::NEVER);
        [0, is_left.into(), next.0, 0, 0, 0]
    }

    /// Looks at the controller; whether received frames are left.
    fn look(&mut self, now: Instant, interrupted: Instant) -> bool {
        let events = self.controller.events();
        if events.overrun {
            for (client, signals) in self.clients.iter_mut().zip(&mut self.signals) {
                if !client.filters.is_empty() {
                    client.behind.overruns = client.behind.overruns.saturating_add(1);
                    *signals |= RECEIVED;
                }
            }
        }
        if events.sent {
            self.end_sending();
        }
        // An instant of an earlier interrupt, or one that a bottom half has made up, is not that of these frames.
        let at = if (self.empty_since..=now).contains(&interrupted) { interrupted } else { now };
        for _ in 0..BATCH {
            let Some(frame) = self.controller.receive() else {
                self.empty_since = now;
                if events.bus_off {
                    self.leave(now);
                } else {
                    self.load();
                }
                return false;
            };
            self.deliver(Received { frame, at });
        }
        // Frames are taken first, because the reset of a controller that is off the bus would lose them.
        if !events.bus_off {
            self.load();
        }
        true
    }

    /// The frame that the controller had is on the bus.
    fn end_sending(&mut self) {
        let Some((index, number)) = self.loaded.take() else { return };
        let to_send = &mut self.clients[index].to_send;
        let was_full = to_send.is_full();
        if let Some(place) = to_send.iter().position(|waiting| waiting.number == number) {
            to_send.remove(place);
        }
        if was_full || to_send.is_empty() {
            self.signals[index] |= SENT;
        }
    }

    fn deliver(&mut self, received: Received) {
        for (client, signals) in self.clients.iter_mut().zip(&mut self.signals) {
            if client.filters.iter().any(|filter| filter.accepts(&received.frame)) {
                client.add(received);
                *signals |= RECEIVED;
            }
        }
    }

    /// The controller is off the bus, and stays so for a while. The frame that it had waits in its queue.
    fn leave(&mut self, now: Instant) {
        self.controller.stop();
        self.loaded = None;
        self.off_until = Some(now + self.off_for);
        self.is_urgent = true;
        self.bus_offs = self.bus_offs.saturating_add(1);
        for signals in &mut self.signals[..self.clients.len()] {
            *signals |= BUS_OFF;
        }
    }

    /// Starts the controller again, if it has been off the bus for long enough.
    fn end_absence(&mut self, clock: &impl Clock) {
        let Some(until) = self.off_until else { return };
        let now = clock.now();
        if now < until {
            return;
        }
        let filters = self.clients.iter().flat_map(|client| &client.filters);
        if self.controller.start(filters) == Err(Dead) {
            // Another try, after another while.
            self.off_until = Some(now + self.off_for);
            return;
        }
        self.off_until = None;
        self.empty_since = now;
        self.load();
    }
}

impl Client {
    fn add(&mut self, received: Received) {
        let before = core::mem::take(&mut self.behind);
        if self.arrived.push_back(Arrived { received, before }).is_err() {
            self.behind = Gap { frames: before.frames.saturating_add(1), ..before };
        }
    }

    /// The reply with the earliest frame, or with the frames that are missing before it.
    fn take(&mut self) -> Result<Message, Refusal> {
        let gap = self.arrived.front_mut().map_or(&mut self.behind, |first| &mut first.before);
        if *gap != Gap::default() {
            return Ok(lost(core::mem::take(gap)));
        }
        self.arrived.pop_front().map(|arrived| arrived.received.reply()).ok_or(Refusal::Empty)
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
