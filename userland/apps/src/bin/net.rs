//! Clients of networks.
//!
//! | `role` | Does | Logs |
//! |---|---|---|
//! | 0, sender | sends `rounds` windows of `window` random datagrams, and waits after each for the judge's | 1 datagrams sent |
//! | 1, judge | receives them, compares each with the one that was sent, and answers each window | 1 datagrams in place, 2 others, 3 lost ones |
//! | 2, burst | sends `rounds` times `window` datagrams, of which none is taken meanwhile | - |
//! | 3, late reader | reads after each burst, of which `surplus` datagrams find no room | 1 datagrams in place, 2 others, 3 lost ones, 4 gaps that stand behind a full queue |
//! | 4, stream | sends `kibibytes` KiB of random bytes by a connection, and receives as many others by it | 1 bytes in place, 2 others, 3 one if the peer's end came in its place |
//! | 5, peer of the stream | the same, by a connection that comes | the same |
//! | 6, records | sends `rounds` numbered records or more, until 40 errors have told of another life, each by [`Net::send`] and [`Net::flush`], by connections that begin anew after each error | 1 one if some were acknowledged, 2 errors that tell of another life, up to 40, 3 errors of no such kind |
//! | 7, reader of records | takes them from connections that come, until their sender has "sent" (wait) the last one | 1 one if none that was acknowledged is missing, 2 one for each that is in no order, 3 errors |
//! | 8, echo | sends back all that comes to port 7, by datagrams, and then by a connection until that ends | 1 bytes of datagrams, 2 bytes of the connection |
//! | 9, controller | `jobs` times, sends a datagram in a job and takes those that have come, without waiting | 1 datagrams received, 2 those in no order, 3 errors |
//! | 11, flooded controller | the same, where a stranger floods the port | 1 one if some came, 2 one if the flood was more than the queue has room for, 3 errors |
//! | 10, careless client | asks for more than there is | 1 codes of refusals, 2 typed errors |
//!
//! Handles: endpoint "net" (call), region "memory" (read, write, lend), notification "changed" (wait, signal, grant) of those that wait. Notifications
//! "ready" (signal) and "go" (wait) let tasks begin together; "next" (signal) and "again" (wait) let two take turns; "done" (wait) and the system as
//! "system" are those of the task that ends the run. The sender of records signals "progress" and "progress_too" after each that was acknowledged, and
//! "sent" after the last.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, SocketAddrV4};

use apps::meeting::{end, parameter, signal, start, wait};
use fusee::net::{DATAGRAM, Net, NetError, Phase, Refusal, TCP_SOCKETS, TcpSocket, TcpStream, UdpSocket};
use fusee::{
    CallLendingError, CallWithError, Environment, Instant, Nanoseconds, Notification, WaitError, environment, log,
    next_job, now, println, sleep_until,
};

fusee::entry!(main);

/// Ports of datagrams, of connections, and of the echo (RFC 862).
const DATAGRAMS: u16 = 4000;
const STREAMS: u16 = 4001;
const ECHO: u16 = 7;
/// The time after which nothing more will come.
const PATIENCE: Nanoseconds = Nanoseconds(10_000_000_000);
/// The time in which a record is acknowledged on a host that is not busy, or a connection made.
const PATIENCE_OF_A_RECORD: Nanoseconds = Nanoseconds(200_000_000);
/// Further lives that are counted.
const LIVES: u64 = 40;

fn main() {
    let environment = environment();
    match parameter(&environment, "role") {
        0 => send(&environment),
        1 => judge(&environment),
        2 => burst(&environment),
        3 => read_late(&environment),
        4 => stream(&environment, false),
        5 => stream(&environment, true),
        6 => write_records(&environment),
        7 => read_records(&environment),
        8 => echo(&environment),
        9 => control(&environment),
        11 => control_flooded(&environment),
        10 => ask_for_too_much(&environment),
        unknown => panic!("there is no role {unknown}"),
    }
    end(&environment);
}

fn try_open(environment: &Environment) -> Result<Net, NetError> {
    let (server, memory) = (environment.expect("net"), environment.expect("memory"));
    Net::open(server, memory, environment.get("changed").ok(), Instant::NEVER)
}

fn open(environment: &Environment) -> Net {
    let mut net = try_open(environment).expect("the network is there");
    net.deadline = now().now + PATIENCE;
    net.address().expect("the server has an address");
    net.deadline = Instant::NEVER;
    net
}

fn peer(environment: &Environment, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(parameter(environment, "peer") as u32), port)
}

/// Random bytes.
struct Random(u64);

impl Random {
    /// Steele, Lea, Flood 2014, SplitMix.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }

    /// A datagram of a random length in a buffer: its bytes.
    fn datagram<'a>(&mut self, buffer: &'a mut [u8; DATAGRAM]) -> &'a [u8] {
        // Short ones are as many as others.
        let longest = if self.next() & 1 == 0 { 64 } else { DATAGRAM as u64 };
        let length = (self.next() % (longest + 1)) as usize;
        self.fill(&mut buffer[..length]);
        &buffer[..length]
    }
}

//--- Datagrams

/// Sends a datagram, and waits for room.
fn send_one(net: &mut Net, socket: &UdpSocket, peer: SocketAddrV4, bytes: &[u8]) {
    loop {
        match net.send_to(socket, peer, bytes) {
            Ok(()) => return,
            Err(NetError::QueueFull) => {
                sleep_until(now().now + Nanoseconds(10_000)).expect("it may sleep");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The next datagram; those that are lost before it are counted. None if none comes.
fn receive(net: &mut Net, socket: &mut UdpSocket, bytes: &mut [u8], lost: &mut u64) -> Option<(usize, SocketAddrV4)> {
    net.deadline = now().now + PATIENCE;
    loop {
        match net.receive_from(socket, bytes) {
            Ok(received) => return Some(received),
            Err(NetError::Lost(datagrams)) => *lost += datagrams,
            Err(NetError::TimedOut) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn send(environment: &Environment) {
    let mut net = open(environment);
    let mut socket = net.bind(0).expect("a port is free");
    let (peer, mut random) = (peer(environment, DATAGRAMS), Random(parameter(environment, "seed")));
    let (mut buffer, mut answer, mut sent, mut lost) = ([0; DATAGRAM], [0; 8], 0, 0);
    start(environment);
    for round in 0..parameter(environment, "rounds") {
        for _ in 0..parameter(environment, "window") {
            let bytes = random.datagram(&mut buffer);
            send_one(&mut net, &socket, peer, bytes);
            sent += 1;
        }
        match receive(&mut net, &mut socket, &mut answer, &mut lost) {
            Some((8, _)) if answer == round.to_le_bytes() => {}
            other => panic!("the judge answers {other:?}"),
        }
    }
    log(1, sent);
}

fn judge(environment: &Environment) {
    let mut net = open(environment);
    let mut socket = net.bind(DATAGRAMS).expect("the port is free");
    let mut random = Random(parameter(environment, "seed"));
    let (mut expected, mut buffer) = ([0; DATAGRAM], [0; DATAGRAM]);
    let (mut in_place, mut wrong, mut lost) = (0, 0, 0);
    start(environment);
    'rounds: for round in 0..parameter(environment, "rounds") {
        let mut sender = None;
        for _ in 0..parameter(environment, "window") {
            let Some((length, from)) = receive(&mut net, &mut socket, &mut buffer, &mut lost) else { break 'rounds };
            let is_it = *random.datagram(&mut expected) == buffer[..length];
            *(if is_it { &mut in_place } else { &mut wrong }) += 1;
            sender = Some(from);
        }
        if let Some(sender) = sender {
            send_one(&mut net, &socket, sender, &round.to_le_bytes());
        }
    }
    log(1, in_place);
    log(2, wrong);
    log(3, lost);
}

fn burst(environment: &Environment) {
    let mut net = open(environment);
    let socket = net.bind(0).expect("a port is free");
    let peer = peer(environment, DATAGRAMS);
    start(environment);
    let mut number = 0_u64;
    for _ in 0..parameter(environment, "rounds") {
        for _ in 0..parameter(environment, "window") {
            send_one(&mut net, &socket, peer, &number.to_le_bytes());
            number += 1;
        }
        signal(environment, "next");
        wait(environment, "again");
    }
}

fn read_late(environment: &Environment) {
    let net = open(environment);
    let mut socket = net.bind(DATAGRAMS).expect("the port is free");
    let (mut bytes, mut expected, window) = ([0; 8], 0_u64, parameter(environment, "window"));
    let surplus = parameter(environment, "surplus");
    let (mut in_place, mut wrong, mut lost, mut gaps) = (0, 0, 0, 0);
    start(environment);
    for round in 1..=parameter(environment, "rounds") {
        wait(environment, "again");
        // The last one has come when all that find no room are counted.
        while net.status().expect("the server answers").lost < round * surplus {
            sleep_until(now().now + Nanoseconds(100_000)).expect("it may sleep");
        }
        let mut taken = 0_u64;
        loop {
            match net.try_receive_from(&mut socket, &mut bytes) {
                Ok(Some((8, _))) if bytes == expected.to_le_bytes() => {
                    (in_place, taken, expected) = (in_place + 1, taken + 1, expected + 1);
                }
                Ok(Some(_)) => wrong += 1,
                Ok(None) => break,
                Err(NetError::Lost(datagrams)) => {
                    gaps += u64::from(taken + datagrams == window);
                    (lost, expected) = (lost + datagrams, expected + datagrams);
                }
                Err(error) => panic!("{error}"),
            }
        }
        wrong += u64::from(expected != round * window);
        signal(environment, "next");
    }
    log(1, in_place);
    log(2, wrong);
    log(3, lost);
    log(4, gaps);
}

fn control(environment: &Environment) {
    let net = try_open(environment).expect("the network is there");
    let mut socket = net.bind(DATAGRAMS).expect("the port is free");
    let peer = peer(environment, DATAGRAMS);
    let (mut received, mut wrong, mut errors, mut latest, mut bytes) = (0, 0, 0, 0, [0; 8]);
    for job in 1..=parameter(environment, "jobs") {
        next_job().expect("this task has jobs");
        errors += u64::from(net.send_to(&socket, peer, &job.to_le_bytes()).is_err());
        // As many as a job of the peer may be early or late.
        for _ in 0..3 {
            match net.try_receive_from(&mut socket, &mut bytes) {
                Ok(Some(_)) => {
                    let number = u64::from_le_bytes(bytes);
                    wrong += u64::from(number <= latest);
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

fn control_flooded(environment: &Environment) {
    let net = try_open(environment).expect("the network is there");
    let mut socket = net.bind(DATAGRAMS).expect("the port is free");
    let peer = peer(environment, DATAGRAMS);
    let (mut received, mut lost, mut errors, mut bytes) = (0, 0, 0, [0; 64]);
    for job in 1..=parameter(environment, "jobs") {
        next_job().expect("this task has jobs");
        // The stranger's queue may be full: it answers no question.
        let sent = net.send_to(&socket, peer, &job.to_le_bytes());
        errors += u64::from(!matches!(sent, Ok(()) | Err(NetError::QueueFull)));
        for _ in 0..3 {
            match net.try_receive_from(&mut socket, &mut bytes) {
                Ok(Some(_)) => received += 1,
                Ok(None) => break,
                Err(NetError::Lost(datagrams)) => lost += datagrams,
                Err(_) => errors += 1,
            }
        }
    }
    log(1, u64::from(received > 0));
    log(2, u64::from(lost > 0));
    log(3, errors);
    log(4, lost);
}

//--- Streams

fn connection(environment: &Environment, net: &Net, is_server: bool) -> TcpStream {
    if is_server {
        let mut listener = net.listen(STREAMS).expect("the port is free");
        start(environment);
        net.accept(&mut listener).expect("a connection comes").0
    } else {
        start(environment);
        net.connect(peer(environment, STREAMS)).expect("the peer listens")
    }
}

fn stream(environment: &Environment, is_server: bool) {
    let mut net = open(environment);
    let mut stream = connection(environment, &net, is_server);
    net.deadline = now().now + PATIENCE;
    let (mut own, mut peers) = (Random(parameter(environment, "seed")), Random(parameter(environment, "peer_seed")));
    let (mut bytes, mut expected, mut received) = ([0; 1024], [0; 1024], [0; 1024]);
    let (mut in_place, mut wrong, mut has_ended) = (0_u64, 0_u64, 0);
    for _ in 0..parameter(environment, "kibibytes") {
        own.fill(&mut bytes);
        net.send(&mut stream, &bytes).expect("the peer takes all");
        peers.fill(&mut expected);
        let mut length = 0;
        while length < received.len() {
            match net.receive(&mut stream, &mut received[length..]).expect("the peer sends as much") {
                0 => break,
                more => length += more,
            }
        }
        for (received, expected) in received[..length].iter().zip(&expected) {
            *(if received == expected { &mut in_place } else { &mut wrong }) += 1;
        }
        net.deadline = now().now + PATIENCE;
    }
    net.finish(&stream).expect("the connection is open");
    if net.receive(&mut stream, &mut received) == Ok(0) {
        has_ended = 1;
    }
    net.flush(&stream)
        .or_else(|error| if error == NetError::Closed { Ok(()) } else { Err(error) })
        .expect("all is acknowledged");
    log(1, in_place);
    log(2, wrong);
    log(3, has_ended);
}

//--- Further lives of a server

/// The number of a record, and how many are sure to have come.
const RECORD: usize = 16;

/// Whether an error is one of a server, or of a bottom half, that has ended, or of a connection that has ended with it.
fn is_of_an_end(error: NetError) -> bool {
    let died = [
        NetError::Call(CallLendingError::PeerDied),
        NetError::Open(CallWithError::PeerDied),
        NetError::Wait(WaitError::PeerDied),
    ];
    died.contains(&error) || [NetError::Restarted, NetError::Closed, NetError::TimedOut].contains(&error)
}

/// Sends records for as long as others end the servers, and tells those of each record that was acknowledged. There is no limit but that of the run:
/// the emulator of a busy host may take long for a connection, so each that times out is followed by a more patient one.
fn write_records(environment: &Environment) {
    let peer = peer(environment, STREAMS);
    let (mut sure, mut told, mut errors, mut number) = (0_u64, 0_u64, 0, 1_u64);
    let mut connection: Option<(Net, TcpStream)> = None;
    let mut patience = PATIENCE_OF_A_RECORD;
    start(environment);
    while number <= parameter(environment, "rounds") || told < LIVES {
        let deadline = now().now + patience;
        let result = match &mut connection {
            None => try_open(environment).and_then(|mut net| {
                net.deadline = deadline;
                let stream = net.connect(peer)?;
                connection = Some((net, stream));
                Ok(false)
            }),
            Some((net, stream)) => {
                let mut record = [0; RECORD];
                record[..8].copy_from_slice(&number.to_le_bytes());
                record[8..].copy_from_slice(&sure.to_le_bytes());
                net.deadline = deadline;
                net.send(stream, &record).and_then(|()| net.flush(stream)).map(|()| true)
            }
        };
        match result {
            Ok(false) => {}
            Ok(true) => {
                (sure, number, patience) = (sure + 1, number + 1, PATIENCE_OF_A_RECORD);
                signal(environment, "progress");
                signal(environment, "progress_too");
            }
            Err(error) => {
                told += u64::from(error == NetError::Restarted);
                errors += u64::from(!is_of_an_end(error));
                if error == NetError::TimedOut {
                    patience = Nanoseconds(patience.0 * 2);
                }
                // A record that was not acknowledged goes with the next number: it may have come.
                number += u64::from(connection.is_some());
                connection = None;
                sleep_until(now().now + Nanoseconds(50_000)).expect("it may sleep");
            }
        }
    }
    signal(environment, "sent");
    log(1, u64::from(sure > 0));
    log(2, told.min(LIVES));
    log(3, errors);
}

/// Takes records from connections until the last one was sent and no more comes. A connection that was lost does not end: it is left when the
/// next one comes.
fn read_records(environment: &Environment) {
    let net = open(environment);
    let mut listener = net.listen(STREAMS).expect("the port is free");
    let mut streams: [Option<Records>; TCP_SOCKETS] = [const { None }; TCP_SOCKETS];
    let (mut received, mut latest, mut wrong, mut is_short, mut errors) = (0_u64, 0, 0, false, 0);
    start(environment);
    let sent = environment.expect::<Notification>("sent");
    let mut is_sent = false;
    loop {
        let mut has_come = false;
        for place in &mut streams {
            let Some(records) = place else { continue };
            match records.take(&net) {
                Ok(Some((number, sure))) => {
                    has_come = true;
                    wrong += u64::from(number <= latest);
                    is_short |= received < sure;
                    (received, latest) = (received + 1, number);
                }
                Ok(None) => {}
                Err(error) => {
                    errors += u64::from(error != NetError::Closed && error != NetError::Refused(Refusal::Finished));
                    if let Some(Records { stream, .. }) = place.take() {
                        net.hang_up(stream).expect("it is a connection of this task");
                    }
                }
            }
        }
        match net.try_accept(&mut listener) {
            Ok(Some((stream, _))) => {
                has_come = true;
                let place = streams.iter_mut().find(|place| place.is_none());
                *place.expect("a listener has a place less") = Some(Records { stream, part: [0; RECORD], length: 0 });
            }
            Ok(None) => {}
            // All that the lost connections had has been taken.
            Err(NetError::Refused(Refusal::TooManySockets)) if !has_come => {
                has_come = true;
                for records in streams.iter_mut().filter_map(Option::take) {
                    net.hang_up(records.stream).expect("it is a connection of this task");
                }
            }
            Err(NetError::Refused(Refusal::TooManySockets)) => {}
            Err(error) => panic!("{error}"),
        }
        if has_come {
            continue;
        }
        // All that was acknowledged before has come by now, and another look finds it.
        if is_sent {
            break;
        }
        is_sent = sent.wait(now().now).is_ok();
        // Nothing is waited for but a signal, whichever it is.
        let _ = environment.expect::<Notification>("changed").wait(now().now + Nanoseconds(20_000_000));
    }
    log(1, u64::from(received > 0 && !is_short));
    log(2, wrong);
    log(3, errors);
}

struct Records {
    stream: TcpStream,
    part: [u8; RECORD],
    length: usize,
}

impl Records {
    /// The next whole record: its number, and how many are sure to have come.
    fn take(&mut self, net: &Net) -> Result<Option<(u64, u64)>, NetError> {
        match net.try_receive(&mut self.stream, &mut self.part[self.length..])? {
            None => return Ok(None),
            Some(0) => return Err(NetError::Refused(Refusal::Finished)),
            Some(more) => self.length += more,
        }
        if self.length < RECORD {
            return Ok(None);
        }
        self.length = 0;
        let word = |at: usize| self.part[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Ok(Some((word(0), word(8))))
    }
}

//--- A peer that is no task

/// By the traits of `embedded-nal`.
fn echo(environment: &Environment) {
    use embedded_nal::{TcpClientStack, TcpFullStack, UdpClientStack, UdpFullStack, nb};

    let mut net = open(environment);
    let changed = environment.expect::<Notification>("changed");
    // A signal comes earlier, unless it is lost.
    let pause = || {
        let _ = changed.wait(now().now + Nanoseconds(10_000_000));
    };
    let (mut udp, mut tcp) = (None, TcpSocket::default());
    UdpFullStack::bind(&mut net, &mut udp, ECHO).expect("the port is free");
    TcpFullStack::bind(&mut net, &mut tcp, ECHO).expect("the socket is new");
    TcpFullStack::listen(&mut net, &mut tcp).expect("the port is free");
    let (mut buffer, mut datagrams, mut bytes) = ([0; DATAGRAM], 0, 0);
    println!("echo");
    let mut stream = loop {
        if let Ok((length, from)) = UdpClientStack::receive(&mut net, &mut udp, &mut buffer) {
            while UdpFullStack::send_to(&mut net, &mut udp, from, &buffer[..length]) == Err(nb::Error::WouldBlock) {
                pause();
            }
            datagrams += length as u64;
        } else if let Ok((stream, _)) = TcpFullStack::accept(&mut net, &mut tcp) {
            break stream;
        } else {
            pause();
        }
    };
    loop {
        let length = match TcpClientStack::receive(&mut net, &mut stream, &mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(nb::Error::WouldBlock) => {
                pause();
                continue;
            }
            Err(nb::Error::Other(error)) => panic!("{error}"),
        };
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            match TcpClientStack::send(&mut net, &mut stream, rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(nb::Error::WouldBlock) => pause(),
                Err(nb::Error::Other(error)) => panic!("{error}"),
            }
        }
        bytes += length as u64;
    }
    if let TcpSocket::Stream(stream) = stream {
        net.finish(&stream).expect("it is a connection of this task");
        while net.state(&stream).expect("it is a connection of this task").phase != Phase::Closed {
            pause();
        }
    }
    log(1, datagrams);
    log(2, bytes);
}

//--- Refusals of a server

fn ask_for_too_much(environment: &Environment) {
    let net = open(environment);
    let refused = |result: Result<(), NetError>| match result {
        Err(NetError::Refused(refusal)) => log(1, refusal as u64),
        other => panic!("it was not refused: {other:?}"),
    };
    let peer = peer(environment, DATAGRAMS);
    let one = net.bind(DATAGRAMS).expect("the port is free");
    refused(net.bind(DATAGRAMS).map(drop));
    let mut two = net.bind(0).expect("a port is free");
    refused(net.bind(0).map(drop));
    refused(net.send_to(&one, peer, &[0; DATAGRAM + 1]));
    refused(net.send_to(&one, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 1), b"nobody"));
    refused(net.send_to(&one, SocketAddrV4::new(Ipv4Addr::new(192, 168, 7, 7), 1), b"elsewhere"));
    let mut listener = net.listen(STREAMS).expect("the port is free");
    refused(net.listen(STREAMS).map(drop));
    assert_eq!(net.try_accept(&mut listener).map(drop), Ok(()), "no connection has come");

    // No task listens there.
    let mut short = net;
    short.deadline = now().now + PATIENCE;
    log(2, u64::from(short.connect(peer).map(drop) == Err(NetError::Closed)));
    short.deadline = now().now + Nanoseconds(1_000_000);
    log(2, 2 * u64::from(short.receive_from(&mut two, &mut [0; 8]).map(drop) == Err(NetError::TimedOut)));
    // No host has this address.
    let stream = net.start_connect(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 77), 1)).expect("there is a socket");
    log(2, 3 * u64::from(net.state(&stream).map(|state| state.phase) == Ok(Phase::Begins)));

    // Sockets of before are gone.
    let again = open(environment);
    refused(again.close(one));
    refused(again.state(&stream).map(drop));
    again.bind(DATAGRAMS).expect("the port is free again");
    again.listen(STREAMS).expect("the port is free again");
}
