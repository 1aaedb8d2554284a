//! Clients of CAN buses, by the traits of the crate `embedded-can`.
//!
//! | `role` | Does | Logs |
//! |---|---|---|
//! | 0, peer | sends and receives `rounds` windows of `window` random frames, and looks for each received one among those that its peer sends | 1 frames found, 2 others and time stamps out of order, 3 lost frames |
//! | 1, first sender | queues `window` random frames, has the second one queue its own, and goes on when they are received | - |
//! | 2, second sender | queues `window` frames when the first one has, and waits until they are on the bus | - |
//! | 3, judge of the order | receives the frames of both senders, and compares them with those sorted by identifier | 1 frames in place, 2 others |
//! | 4, flood | queues frames for ever, and never receives one | - |
//! | 5, control | in each of `jobs` jobs sends the number of the job, and receives the numbers of its peer | 1 numbers received, 2 those out of order, 3 other errors |
//! | 6, numberer | sends `rounds` numbers, one after the other, and how many are sure to be on the bus; opens the bus again when its server has begun another life | 1 one if there are any, 2 further lives that it was told of, up to 40, 3 other errors |
//! | 7, reader of numbers | receives them for as long as they come | 1 one if all that were sure were received, 2 wrong or repeated ones |
//! | 8, careless | asks for what a server cannot do, beside a controller that receives what it sends | 1 codes of refusals, 2 frames queued until the queue was full, 3 those that came back, 4 frames kept of 80 that it does not receive, 5 those counted as lost, 6 one for a deadline that passed, two for a call that would wait, 7 handles given with requests, 8 frames received after all that |
//! | 9, pacer | sends the present instant in each of `jobs` jobs | - |
//! | 10, urgent | waits for it in each of `jobs` jobs | 1 frames that were there within 100 us, 2 others |
//!
//! Frames have identifiers of both lengths, and any number of bytes. The two highest bits of an identifier are the `class` of its sender; a client
//! receives frames of the class `from`. Generators of random numbers begin with `seed` of their sender, and `peer_seed` of others.
//!
//! Handles: endpoint "bus" (call), notification "changed" (wait, signal, grant), of clients that wait. A client that has opened the bus signals "ready", and waits for "go"; one
//! that is at its end signals "done"; both senders and the judge have "next", "again" and "more". A flood in its 40th further life, or a later one, signals "lived", for which a peer waits in its middle. A client with the system as "system" waits for "done" instead, and
//! ends the system. A handle that the manifest does not give is left out.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use apps::meeting::{end, parameter, signal, start, wait};
use embedded_can::blocking::Can as _;
use embedded_can::nb;
use embedded_can::{ExtendedId, Frame as _, Id, StandardId};
use fusee::can::{Can, CanError, Filter, Frame, Gap, Received, Request};
use fusee::{
    CallError, Endpoint, Environment, Instant, Message, Nanoseconds, Notification, Rights, WaitError, environment,
    life, log, next_job, now, sleep_until,
};

fusee::entry!(main);

const WINDOW: usize = 16;
/// Further lives that are enough for a test.
const LIVES: u32 = 40;
/// The time after which a frame that has not come will not come.
const PATIENCE: Nanoseconds = Nanoseconds(10_000_000_000);
/// The time after which a sender of numbers has sent its last one: it is never away for as long.
const QUIET: Nanoseconds = Nanoseconds(1_000_000_000);

fn main() {
    let environment = environment();
    match environment.parameter("role").expect("the parameter `role` says what to be") {
        0 => exchange(&environment),
        1 => send_first(&environment),
        2 => send_second(&environment),
        3 => judge(&environment),
        4 => flood(&environment),
        5 => control(&environment),
        6 => number(&environment),
        7 => read_numbers(&environment),
        8 => ask_for_too_much(&environment),
        9 => pace(&environment),
        10 => hurry(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
    end(&environment);
}

/// The class of an identifier: its two highest bits.
const SHORT_CLASS: u32 = 9;
const LONG_CLASS: u32 = 27;

/// Opens the bus for frames of the class `from`, and for none if the client has none.
fn open(environment: &Environment) -> Result<Can, CanError> {
    let from = environment.parameter("from").map(|class| class as u32);
    let filters = from.map(|class| {
        let short = StandardId::new((class << SHORT_CLASS) as u16).expect("a class has two bits");
        let long = ExtendedId::new(class << LONG_CLASS).expect("a class has two bits");
        [Filter::new(short, 0b11 << SHORT_CLASS), Filter::new(long, 0b11 << LONG_CLASS)]
    });
    let filters = filters.as_ref().map_or(&[][..], |filters| filters);
    Can::open(environment.expect("bus"), environment.get("changed").ok(), filters, Instant::NEVER)
}

/// The first identifier of the client's class.
fn own_id(environment: &Environment) -> StandardId {
    StandardId::new((parameter(environment, "class") << SHORT_CLASS) as u16).expect("a class has two bits")
}

/// Random frames of one class.
struct Frames {
    state: u64,
    class: u32,
}

impl Frames {
    fn own(environment: &Environment) -> Frames {
        Frames { state: parameter(environment, "seed"), class: parameter(environment, "class") as u32 }
    }

    /// Those that the client is sent.
    fn of_peer(environment: &Environment) -> Frames {
        Frames { state: parameter(environment, "peer_seed"), class: parameter(environment, "from") as u32 }
    }

    /// Steele, Lea, Flood 2014, SplitMix.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn next(&mut self) -> Frame {
        let (drawn, data) = (self.random(), self.random().to_le_bytes());
        let bits = drawn as u32;
        let id: Id = if drawn >> 32 & 1 == 0 {
            StandardId::new((bits & 0x1ff | self.class << SHORT_CLASS) as u16).expect("a class has two bits").into()
        } else {
            ExtendedId::new(bits & 0x7ff_ffff | self.class << LONG_CLASS).expect("a class has two bits").into()
        };
        let length = (drawn >> 40) as usize % 9;
        let is_remote = drawn >> 33 & 7 == 0;
        let frame = if is_remote { Frame::new_remote(id, length) } else { Frame::new(id, &data[..length]) };
        frame.expect("a frame has eight bytes at most")
    }
}

/// The next frame; those that are lost before it are counted. None if no frame comes.
fn receive(can: &mut Can, lost: &mut u64) -> Option<Received> {
    receive_within(PATIENCE, can, lost)
}

fn receive_within(patience: Nanoseconds, can: &mut Can, lost: &mut u64) -> Option<Received> {
    can.deadline = now().now + patience;
    loop {
        match can.receive_stamped() {
            Ok(received) => return Some(received),
            Err(CanError::Lost(gap)) => *lost += u64::from(gap.frames) + u64::from(gap.overruns),
            Err(CanError::TimedOut) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn exchange(environment: &Environment) {
    let mut can = open(environment).expect("the bus is there");
    let window = parameter(environment, "window") as usize;
    let (mut own, mut peers) = (Frames::own(environment), Frames::of_peer(environment));
    let (mut found, mut wrong, mut lost, mut latest) = (0, 0, 0, Instant::ZERO);
    // The peer may be a window ahead, and its urgent frames pass those that still wait.
    let mut expected = [None; 4 * WINDOW];
    let mut draw = |expected: &mut [Option<Frame>]| {
        expected.iter_mut().filter(|frame| frame.is_none()).take(window).for_each(|frame| *frame = Some(peers.next()));
    };
    draw(&mut expected);
    start(environment);
    let rounds = parameter(environment, "rounds");
    for round in 0..rounds {
        if round == rounds / 2 {
            wait(environment, "lived");
        }
        draw(&mut expected);
        can.deadline = now().now + PATIENCE;
        for _ in 0..window {
            can.transmit(&own.next()).expect("the bus takes frames");
        }
        for _ in 0..window {
            let Some(received) = receive(&mut can, &mut lost) else { break };
            let place = expected.iter_mut().find(|frame| **frame == Some(received.frame));
            let is_in_time = (latest..=now().now).contains(&received.at);
            latest = received.at;
            match place.filter(|_| is_in_time) {
                Some(place) => (*place, found) = (None, found + 1),
                None => wrong += 1,
            }
        }
    }
    log(1, found);
    log(2, wrong);
    log(3, lost);
}

//--- The order of frames that wait

/// Queues a window. Nobody lends to the bottom half meanwhile, so the frames wait.
fn queue(environment: &Environment, can: &Can, own: &mut Frames) {
    for _ in 0..parameter(environment, "window") {
        can.send(&own.next()).expect("the client's queue has room for a window");
    }
}

fn send_first(environment: &Environment) {
    let can = open(environment).expect("the bus is there");
    let mut own = Frames::own(environment);
    start(environment);
    for _ in 0..parameter(environment, "rounds") {
        queue(environment, &can, &mut own);
        signal(environment, "next");
        wait(environment, "again");
        can.flush().expect("the bus takes frames");
        wait(environment, "more");
    }
}

fn send_second(environment: &Environment) {
    let can = open(environment).expect("the bus is there");
    let mut own = Frames::own(environment);
    start(environment);
    for _ in 0..parameter(environment, "rounds") {
        wait(environment, "next");
        queue(environment, &can, &mut own);
        can.flush().expect("the bus takes frames");
        signal(environment, "again");
    }
}

fn judge(environment: &Environment) {
    let mut can = open(environment).expect("the bus is there");
    let window = parameter(environment, "window") as usize;
    let mut first = Frames::of_peer(environment);
    let mut second = Frames { state: parameter(environment, "second_seed"), class: first.class };
    let (mut in_place, mut wrong, mut lost) = (0, 0, 0);
    start(environment);
    for _ in 0..parameter(environment, "rounds") {
        let mut sent = [None; 2 * WINDOW];
        let sent = &mut sent[..2 * window];
        sent[..window].fill_with(|| Some(first.next()));
        sent[window..].fill_with(|| Some(second.next()));
        // The first one finds the controller free. All others wait for their turn; equal identifiers go by arrival.
        for from in 2..sent.len() {
            let order = |frame: &Option<Frame>| frame.as_ref().map(Frame::order);
            let place = (1..from).find(|&place| order(&sent[place]) > order(&sent[from])).unwrap_or(from);
            sent[place..=from].rotate_right(1);
        }
        for expected in sent {
            match receive(&mut can, &mut lost) {
                Some(received) if Some(received.frame) == *expected => in_place += 1,
                _ => wrong += 1,
            }
        }
        signal(environment, "more");
    }
    log(1, in_place);
    log(2, wrong + lost);
}

//--- The key of a job that waits

fn pace(environment: &Environment) {
    let can = open(environment).expect("the bus is there");
    let id = own_id(environment);
    for _ in 0..parameter(environment, "jobs") {
        next_job().expect("this task has jobs");
        let frame = Frame::new(id, &now().now.0.to_le_bytes()).expect("it has eight bytes");
        can.send(&frame).expect("the queue is empty");
    }
}

fn hurry(environment: &Environment) {
    let mut can = open(environment).expect("the bus is there");
    let (mut early, mut late, mut lost) = (0, 0, 0);
    for _ in 0..parameter(environment, "jobs") {
        next_job().expect("this task has jobs");
        let received = receive(&mut can, &mut lost);
        let is_early = received.is_some_and(|received| now().now.0 < number_of(&received.frame) + 100_000);
        *(if is_early { &mut early } else { &mut late }) += 1;
    }
    log(1, early);
    log(2, late + lost);
}

//--- Clients that harm, and others beside them

fn flood(environment: &Environment) -> ! {
    let can = open(environment).expect("the bus is there");
    let mut own = Frames::own(environment);
    if life() >= LIVES {
        signal(environment, "lived");
    }
    loop {
        match can.send(&own.next()) {
            Ok(()) | Err(CanError::QueueFull) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn control(environment: &Environment) {
    let can = open(environment).expect("the bus is there");
    let id = own_id(environment);
    let (mut received, mut wrong, mut errors, mut latest) = (0, 0, 0, 0);
    for job in 1..=parameter(environment, "jobs") {
        next_job().expect("this task has jobs");
        let frame = Frame::new(id, &job.to_le_bytes()).expect("it has eight bytes");
        errors += u64::from(can.send(&frame).is_err());
        // As many as a job of the peer may be early or late.
        for _ in 0..3 {
            match can.try_receive() {
                Ok(Some(Received { frame, .. })) => {
                    let number = number_of(&frame);
                    wrong += u64::from(received > 0 && number != latest + 1);
                    (received, latest) = (received + 1, number);
                }
                Ok(None) => break,
                Err(_) => errors += 1,
            }
        }
    }
    log(1, received);
    log(2, wrong);
    log(3, errors);
}

fn number_of(frame: &Frame) -> u64 {
    frame.data().try_into().map_or(u64::MAX, u64::from_le_bytes)
}

//--- Further lives

/// The number of a frame in the low half, and in the high half how many are sure to be on the bus.
fn number(environment: &Environment) {
    let id = own_id(environment);
    let mut can = open(environment).expect("the bus is there");
    start(environment);
    let (mut sure, mut errors, mut told) = (0u64, 0, 0u64);
    for number in 1..=parameter(environment, "rounds") {
        let frame = Frame::new(id, &(number | sure << 32).to_le_bytes()).expect("it has eight bytes");
        match can.send(&frame).and_then(|()| can.flush()) {
            Ok(()) => sure += 1,
            Err(error) => {
                told += u64::from(error == CanError::Restarted);
                errors += u64::from(!is_of_an_end(error));
                can = loop {
                    match open(environment) {
                        Ok(can) => break can,
                        Err(error) => told += u64::from(error == CanError::Restarted),
                    }
                    sleep_until(now().now + Nanoseconds(50_000)).expect("it may sleep");
                };
            }
        }
    }
    log(1, u64::from(sure > 0));
    log(2, told.min(LIVES.into()));
    log(3, errors);
}

/// Whether the error is one of a server, or of a bottom half, that has ended. While there is no bottom half, the queue fills.
fn is_of_an_end(error: CanError) -> bool {
    let died = [CanError::Call(CallError::PeerDied), CanError::Wait(WaitError::PeerDied)];
    died.contains(&error) || [CanError::Restarted, CanError::QueueFull].contains(&error)
}

fn read_numbers(environment: &Environment) {
    let mut can = open(environment).expect("the bus is there");
    let (mut received, mut wrong, mut lost, mut latest, mut is_short) = (0, 0, 0, 0, false);
    start(environment);
    while let Some(Received { frame, .. }) = receive_within(QUIET, &mut can, &mut lost) {
        let (number, sure) = (number_of(&frame) & u64::from(u32::MAX), number_of(&frame) >> 32);
        wrong += u64::from(number <= latest);
        is_short |= received < sure;
        (received, latest) = (received + 1, number);
    }
    log(1, u64::from(received > 0 && !is_short));
    log(2, wrong + lost);
}

//--- What a server refuses

fn ask_for_too_much(environment: &Environment) {
    let server = environment.expect::<Endpoint>("bus");
    let refused = |words: Message| log(1, server.call(words, Instant::NEVER).expect("the server answers")[0]);
    refused(Request::Receive.message());
    let mut can = open(environment).expect("the controller is there");
    // Two filters are there already, and there is room for two.
    for _ in 0..3 {
        refused(Request::Accept(Filter::ALL).message());
    }
    refused([u64::MAX; 6]);
    // Nine bytes.
    refused([3, 5, 9, 0, 0, 0]);

    // Nobody lends to the bottom half meanwhile.
    let mut own = Frames::own(environment);
    let mut sent = [None; WINDOW];
    let (mut queued, mut back, mut lost) = (0, 0, 0);
    for frame in &mut sent {
        *frame = Some(own.next());
        queued += u64::from(frame.is_some_and(|frame| can.send(&frame).is_ok()));
    }
    log(2, queued);
    refused(Request::Send(own.next()).message());
    can.flush().expect("the controller sends");
    while let Ok(Some(received)) = can.try_receive() {
        back += u64::from(sent.contains(&Some(received.frame)));
    }
    log(3, back);

    for _ in 0..80 {
        can.transmit(&own.next()).and_then(|()| can.flush()).expect("the controller sends");
    }
    let kept = can.state().expect("the server answers").received;
    log(4, kept.into());
    for _ in 0..kept {
        can.receive().expect("it was kept");
    }
    if let Err(CanError::Lost(Gap { frames, overruns: 0 })) = can.receive() {
        log(5, frames.into());
    }
    can.deadline = now().now + Nanoseconds(1_000_000);
    log(6, u64::from(can.receive() == Err(CanError::TimedOut)));
    can.deadline = Instant::NEVER;
    log(6, 2 * u64::from(nb::Can::receive(&mut can) == Err(::nb::Error::WouldBlock)));

    // A server that keeps what it was given, and has no use for, has its 32 handles soon.
    let changed = environment.expect::<Notification>("changed");
    let (state, mut given) = (Request::State.message(), 0);
    for _ in 0..64 {
        given += u64::from(server.call_with(state, &changed, Rights::SIGNAL, Instant::NEVER).is_ok());
        given += u64::from(open(environment).is_ok());
    }
    log(7, given);
    can.send(&own.next()).expect("the queue is empty");
    log(8, u64::from(receive(&mut can, &mut lost).is_some()));
}
