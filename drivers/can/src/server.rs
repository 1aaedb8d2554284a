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
mod tests {
    use super::*;
    use crate::controller::{MEMORY, Mode};
    use crate::model::{Chip, frame};
    use crate::timing::Timing;
    use core::cell::Cell;
    use fusee::can::FILTERS;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Short enough to pass in a test.
    const OFF_FOR: Nanoseconds = Nanoseconds(10_000);

    struct Hand {
        now: Cell<u64>,
        interrupted: Cell<u64>,
    }

    impl Clock for Hand {
        fn now(&self) -> Instant {
            Instant(self.now.get())
        }

        fn interrupted(&self) -> Instant {
            Instant(self.interrupted.get())
        }
    }

    struct Stand {
        bus: Bus<Chip>,
        clock: Hand,
    }

    impl Stand {
        fn new() -> Stand {
            let timing = Timing::new(24_000_000, 500_000).unwrap();
            let clock = Hand { now: Cell::new(1_000), interrupted: Cell::new(0) };
            let controller = Controller::new(Chip::new(), timing, Mode::Normal);
            Stand { bus: Bus::new(controller, OFF_FOR, &clock).unwrap(), clock }
        }

        /// With clients of these badges, each of which wants all frames.
        fn with(badges: impl IntoIterator<Item = u64>) -> Stand {
            let mut stand = Stand::new();
            for badge in badges {
                stand.ask(badge, Request::Open);
                stand.ask(badge, Request::Accept(Filter::ALL));
            }
            stand
        }

        fn ask(&mut self, badge: u64, request: Request) -> Message {
            self.bus.serve(badge, &request.message(), &self.clock)
        }

        fn send(&mut self, badge: u64, frame: Frame) -> u64 {
            self.ask(badge, Request::Send(frame))[0]
        }

        fn chip(&mut self) -> &mut Chip {
            self.bus.controller.chip()
        }

        /// What the bottom half does after an interrupt, some time later.
        fn interrupt(&mut self) {
            self.clock.now.set(self.clock.now.get() + 100);
            self.clock.interrupted.set(self.clock.now.get());
            self.clock.now.set(self.clock.now.get() + 10);
            while self.ask(99, Request::Interrupt)[1] != 0 {}
        }

        /// A bus that is free: frames go one after the other; they are what comes of it.
        fn drain(&mut self) -> Vec<Frame, 256> {
            let mut sent = Vec::new();
            while let Some(frame) = self.chip().transmit() {
                sent.push(frame).unwrap();
                self.interrupt();
            }
            sent
        }

        fn receive(&mut self, badge: u64) -> Message {
            self.ask(badge, Request::Receive)
        }
    }

    #[test]
    fn waiting_frames_go_by_identifier_and_equal_ones_by_arrival_whichever_client_they_are_of() {
        let mut stand = Stand::with([1, 2]);
        // The first one is in the controller before there are others, and stays there.
        for (badge, number, data) in [(1, 0x700, 0), (1, 0x300, 1), (2, 0x100, 2), (1, 0x200, 3), (2, 0x300, 4)] {
            assert_eq!(stand.send(badge, frame(number, data)), 0);
        }
        let sent: std::vec::Vec<_> = stand.drain().iter().map(Frame::words).collect();
        let expected = [(0x700, 0), (0x100, 2), (0x200, 3), (0x300, 1), (0x300, 4)];
        assert_eq!(sent, expected.map(|(number, data)| frame(number, data).words()));
    }

    #[test]
    fn a_client_that_floods_fills_its_own_queue_and_no_other() {
        let mut stand = Stand::with([1, 2]);
        let full = Refusal::QueueFull as u64;
        for number in 0..100 {
            let expected = if number < TO_SEND { 0 } else { full };
            assert_eq!(stand.send(1, frame(1, number as u64)), expected);
        }
        for number in 0..TO_SEND as u64 {
            assert_eq!(stand.send(2, frame(2, number)), 0);
        }
        assert_eq!(stand.drain().len(), 2 * TO_SEND);
        assert_eq!(stand.bus.take_signals()[..2], [SENT, SENT]);
    }

    #[test]
    fn a_client_that_never_receives_has_its_losses_counted_and_costs_others_no_frame() {
        let mut stand = Stand::with([1, 2]);
        for number in 0..100 {
            stand.chip().arrive(&frame(5, number));
            stand.interrupt();
            let reply = stand.receive(2);
            assert_eq!(Received { frame: frame(5, number), at: stand.clock.interrupted() }.reply(), reply);
        }
        for number in 0..TO_RECEIVE as u64 {
            assert_eq!(stand.receive(1)[2], number);
        }
        let gap = Gap { frames: 100 - TO_RECEIVE as u32, overruns: 0 };
        assert_eq!(stand.receive(1), lost(gap));
        assert_eq!(stand.receive(1), refusal(Refusal::Empty));
        // The count stands where frames are missing: behind those that were kept, and before the next.
        stand.chip().arrive(&frame(5, 7));
        stand.interrupt();
        assert_eq!(stand.receive(1)[0], 0);
    }

    #[test]
    fn an_overrun_of_the_controller_is_told_to_all_that_receive() {
        let mut stand = Stand::with([1, 2]);
        stand.ask(3, Request::Open);
        for number in 0..=MEMORY as u64 {
            stand.chip().arrive(&frame(5, number));
        }
        stand.interrupt();
        for badge in [1, 2] {
            assert_eq!(stand.receive(badge), lost(Gap { frames: 0, overruns: 1 }));
            for number in 0..MEMORY as u64 {
                assert_eq!(stand.receive(badge)[2], number);
            }
            assert_eq!(stand.receive(badge), refusal(Refusal::Empty));
        }
        assert_eq!(stand.receive(3), refusal(Refusal::Empty));
        assert_eq!(stand.bus.take_signals()[..3], [RECEIVED, RECEIVED, 0]);
    }

    #[test]
    fn a_controller_off_the_bus_comes_back_after_its_time_and_sends_what_waited() {
        let mut stand = Stand::with([1]);
        for number in [3, 1, 2] {
            assert_eq!(stand.send(1, frame(number, 0)), 0);
        }
        stand.chip().arrive(&frame(9, 9));
        stand.chip().fail(32);
        stand.interrupt();
        assert_eq!(stand.bus.take_signals()[0], RECEIVED | BUS_OFF);
        assert_eq!(stand.send(1, frame(4, 0)), Refusal::BusOff as u64);
        let off = stand.bus.state(0);
        assert_eq!((off.health, off.bus_offs, off.to_send), (Health::BusOff, 1, 3));
        assert_eq!(stand.receive(1)[2], 9, "a frame that came before is kept");
        // The bottom half is told when to ask; until then nothing changes.
        let until = stand.ask(99, Request::Interrupt)[2];
        assert_eq!(until, stand.clock.now.get() + OFF_FOR.0);
        stand.clock.now.set(until - 1);
        assert_eq!(stand.ask(99, Request::Interrupt)[2], until);
        assert!(!stand.chip().is_on());
        stand.clock.now.set(until);
        assert_eq!(stand.ask(99, Request::Interrupt)[2], Instant::NEVER.0);
        assert_eq!(stand.bus.state(0).health, Health::ErrorActive);
        let sent: std::vec::Vec<_> = stand.drain().iter().map(|frame| frame.words()[0]).collect();
        assert_eq!(sent, [1, 2, 3]);
    }

    #[test]
    fn a_client_in_its_next_life_begins_anew_and_others_go_on() {
        let mut stand = Stand::with([1, 2]);
        stand.send(1, frame(1, 1));
        stand.chip().arrive(&frame(5, 5));
        stand.interrupt();
        stand.ask(1, Request::Open);
        assert_eq!(stand.receive(1), refusal(Refusal::Empty));
        stand.chip().arrive(&frame(6, 6));
        stand.interrupt();
        assert_eq!(stand.receive(1), refusal(Refusal::Empty), "it has no filter");
        assert_eq!([stand.receive(2)[2], stand.receive(2)[2]], [5, 6]);
        assert_eq!(stand.drain().len(), 1, "what was queued is sent");
    }

    #[test]
    fn limits_and_strangers_are_typed_refusals() {
        let mut stand = Stand::with(1..=CLIENTS as u64);
        let refused = |reply: Message| reply[0];
        assert_eq!(refused(stand.ask(50, Request::Open)), Refusal::TooManyClients as u64);
        assert_eq!(refused(stand.ask(50, Request::Receive)), Refusal::NotOpen as u64);
        for _ in 1..FILTERS {
            assert_eq!(refused(stand.ask(1, Request::Accept(Filter::ALL))), 0);
        }
        assert_eq!(refused(stand.ask(1, Request::Accept(Filter::ALL))), Refusal::TooManyFilters as u64);
        let nonsense = stand.bus.serve(1, &[77, 1, 2, 3, 4, 5], &stand.clock);
        assert_eq!(refused(nonsense), Refusal::Malformed as u64);
    }

    #[test]
    fn a_made_up_instant_is_no_time_stamp() {
        let mut stand = Stand::with([1]);
        for (interrupted, is_kept) in [(2_500, true), (0, false), (u64::MAX, false)] {
            stand.chip().arrive(&frame(5, 5));
            stand.clock.now.set(stand.clock.now.get() + 2_000);
            stand.clock.interrupted.set(interrupted);
            assert_eq!(stand.ask(7, Request::Interrupt)[1], 0);
            let at = if is_kept { interrupted } else { stand.clock.now.get() };
            assert_eq!(stand.receive(1)[3], at);
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send(u64, Frame),
        Receive(u64),
        Open(u64),
        /// The bus is free for a frame of this node, if the controller has one.
        Transmit,
        /// So many equal frames of another node.
        Arrive(Frame, usize),
        Fail,
        Interrupt,
        Wait(u64),
        Nonsense(u64, Message),
    }

    fn steps() -> impl Strategy<Value = Step> {
        let frames = || {
            (any::<u32>(), any::<u64>(), 0..30u32, 0..64u32)
                .prop_map(|(number, data, cut, bits)| frame(number << cut, data >> bits))
        };
        // Few identifiers, so that equal ones meet.
        let near = || (0..4u32, any::<u64>()).prop_map(|(number, data)| frame(number, data));
        let badges = || 1..5u64;
        prop_oneof![
            6 => (badges(), prop_oneof![frames(), near()]).prop_map(|(badge, frame)| Step::Send(badge, frame)),
            // The last two clients never receive.
            6 => (1..3u64).prop_map(Step::Receive),
            1 => badges().prop_map(Step::Open),
            6 => Just(Step::Transmit),
            6 => (prop_oneof![frames(), near()], prop_oneof![4 => Just(1), 1 => 1..40usize])
                .prop_map(|(frame, times)| Step::Arrive(frame, times)),
            1 => Just(Step::Fail),
            4 => Just(Step::Interrupt),
            2 => (0..OFF_FOR.0).prop_map(Step::Wait),
            1 => (badges(), any::<Message>(), 0..5usize).prop_map(|(badge, mut words, operation)| {
                // The frame is one of more than eight bytes.
                (words[0], words[2]) = ([0, 3, 5, 7, u64::MAX][operation], words[2].max(9));
                Step::Nonsense(badge, words)
            }),
        ]
    }

    /// What a slow and obvious server would keep.
    #[derive(Default)]
    struct Expected {
        /// Client, frame, number; the first one that the controller has is taken out when it is on the bus.
        waiting: std::vec::Vec<(usize, Frame, u64)>,
        /// The frame that the controller has.
        loaded: Option<u64>,
        /// For each client that is open and wants all frames: frames and gaps.
        queues: [Option<VecDeque<Result<Frame, Gap>>>; 5],
        /// Frames in the controller, and whether one more was lost.
        memory: VecDeque<Frame>,
        overrun: bool,
        /// The client of a frame that is on the bus, while the interrupt was not served: its place in the queue is not free yet.
        sent: Option<usize>,
        is_failing: bool,
        off_until: Option<u64>,
        numbers: u64,
    }

    impl Expected {
        fn load(&mut self) {
            if self.loaded.is_none() && self.off_until.is_none() {
                let urgent = self.waiting.iter().min_by_key(|(_, frame, number)| (frame.order(), *number));
                self.loaded = urgent.map(|(_, _, number)| *number);
            }
        }

        fn add(queue: &mut VecDeque<Result<Frame, Gap>>, frame: Frame) {
            if queue.iter().filter(|entry| entry.is_ok()).count() < TO_RECEIVE {
                queue.push_back(Ok(frame));
            } else {
                Expected::gap(queue).frames += 1;
            }
        }

        fn gap(queue: &mut VecDeque<Result<Frame, Gap>>) -> &mut Gap {
            if !matches!(queue.back(), Some(Err(_))) {
                queue.push_back(Err(Gap::default()));
            }
            let Some(Err(gap)) = queue.back_mut() else { unreachable!() };
            gap
        }

        fn interrupt(&mut self, now: u64) {
            if self.off_until.is_some() {
                return;
            }
            if core::mem::take(&mut self.overrun) {
                self.queues.iter_mut().flatten().for_each(|queue| Expected::gap(queue).overruns += 1);
            }
            for frame in core::mem::take(&mut self.memory) {
                self.queues.iter_mut().flatten().for_each(|queue| Expected::add(queue, frame));
            }
            if self.sent.take().is_some() {
                self.loaded = None;
            }
            if core::mem::take(&mut self.is_failing) {
                (self.loaded, self.off_until) = (None, Some(now + OFF_FOR.0));
            }
            self.load();
        }

        fn end_absence(&mut self, now: u64) {
            if self.off_until.is_some_and(|until| until <= now) {
                self.off_until = None;
                self.load();
            }
        }
    }

    proptest! {
        /// Whatever clients, bus and interrupts do, each frame goes to the bus once and in its turn, each frame of the bus is received once by each
        /// client, and each one that is not is counted at its place.
        #[test]
        fn no_frame_is_lost_doubled_or_passed_without_a_count(steps in prop::collection::vec(steps(), 1..400)) {
            let mut stand = Stand::new();
            let mut expected = Expected::default();
            for step in steps {
                let now = stand.clock.now.get();
                if !matches!(step, Step::Transmit | Step::Arrive(..) | Step::Fail | Step::Interrupt | Step::Wait(_)) {
                    expected.end_absence(now);
                }
                match step {
                    Step::Send(badge, frame) => {
                        let index = badge as usize;
                        let waiting = expected.waiting.iter().filter(|(client, ..)| *client == index).count();
                        let own = waiting + usize::from(expected.sent == Some(index));
                        let code = stand.send(badge, frame);
                        let refused = match &expected.queues[index] {
                            None => Some(Refusal::NotOpen),
                            _ if expected.off_until.is_some() => Some(Refusal::BusOff),
                            _ if own == TO_SEND => Some(Refusal::QueueFull),
                            _ => None,
                        };
                        prop_assert_eq!(code, refused.map_or(0, |refusal| refusal as u64));
                        if refused.is_none() {
                            expected.waiting.push((index, frame, expected.numbers));
                            expected.numbers += 1;
                            expected.load();
                        }
                    }
                    Step::Receive(badge) => {
                        let reply = stand.receive(badge);
                        let Some(queue) = &mut expected.queues[badge as usize] else {
                            prop_assert_eq!(reply, refusal(Refusal::NotOpen));
                            continue;
                        };
                        match queue.pop_front() {
                            None => prop_assert_eq!(reply, refusal(Refusal::Empty)),
                            Some(Err(gap)) => prop_assert_eq!(reply, lost(gap)),
                            Some(Ok(frame)) => prop_assert_eq!(Received { frame, at: Instant(reply[3]) }.reply(), reply),
                        }
                    }
                    Step::Open(badge) => {
                        stand.ask(badge, Request::Open);
                        stand.ask(badge, Request::Accept(Filter::ALL));
                        expected.queues[badge as usize] = Some(VecDeque::new());
                    }
                    Step::Transmit => match stand.chip().transmit() {
                        Some(sent) => {
                            let place = expected.waiting.iter().position(|(.., number)| Some(*number) == expected.loaded);
                            let (client, frame, _) = expected.waiting.remove(place.expect("the controller has a frame"));
                            prop_assert_eq!(sent, frame);
                            expected.sent = Some(client);
                        }
                        None => {
                            let waits = expected.loaded.is_some() && expected.sent.is_none() && !expected.is_failing;
                            prop_assert!(!waits, "a frame does not go to a free bus");
                        }
                    },
                    Step::Arrive(frame, times) => {
                        if !stand.chip().is_on() || expected.is_failing {
                            continue;
                        }
                        for _ in 0..times {
                            stand.chip().arrive(&frame);
                            if expected.memory.len() < MEMORY {
                                expected.memory.push_back(frame);
                            } else {
                                expected.overrun = true;
                            }
                        }
                    }
                    Step::Fail => {
                        if stand.chip().to_send() > 0 && !expected.is_failing {
                            stand.chip().fail(64);
                            expected.is_failing = true;
                        }
                    }
                    Step::Interrupt => {
                        expected.end_absence(now + 110);
                        stand.interrupt();
                        expected.interrupt(stand.clock.now.get());
                    }
                    Step::Wait(time) => stand.clock.now.set(now + time),
                    Step::Nonsense(badge, words) => {
                        stand.bus.serve(badge, &words, &stand.clock);
                    }
                }
                prop_assert!(stand.chip().to_send() <= 1, "the controller has more than one frame");
                // A frame that was received, sent or lost, or a bus that was left, signals until it is served.
                let is_due = expected.sent.is_some() || expected.is_failing || expected.overrun || !expected.memory.is_empty();
                prop_assert!(!is_due || stand.chip().interrupts());
            }
        }
    }
}
