//! The server on a model of its controller, and against a slow and obvious one.

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

    /// The work of the bottom half after an interrupt, some time later.
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
    // Any client may have asked in place of the bottom half.
    assert!(stand.bus.take_urgency() && !stand.bus.take_urgency());
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

/// The queues of a slow and obvious server.
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
