//! Two servers on a wire, clients of them, and frames of strangers.

use super::*;
use crate::link::FRAME;
use crate::memory::{TO_RECEIVE, TO_SEND};
use fusee::net::Request as Ask;
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet, Ipv4Repr,
    TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, UdpPacket, UdpRepr,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The badge of each bottom half.
const BOTTOM_HALF: u64 = 99;
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const NEAR_HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Frames that a device has room for.
const ROOM: usize = 64;

type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of a wire, on which frames wait until they are received.
#[derive(Clone, Default)]
struct End {
    incoming: Queue,
    outgoing: Queue,
    is_dead: Rc<Cell<bool>>,
}

impl Frames for End {
    fn silence(&mut self) {}

    fn has_received(&self) -> bool {
        !self.incoming.borrow().is_empty()
    }

    fn receive(&mut self, frame: &mut [u8; FRAME]) -> Option<usize> {
        let received = self.incoming.borrow_mut().pop_front()?;
        let copied = received.len().min(FRAME);
        frame[..copied].copy_from_slice(&received[..copied]);
        Some(received.len())
    }

    fn room(&mut self) -> usize {
        ROOM - self.outgoing.borrow().len().min(ROOM)
    }

    fn send(&mut self, frame: &[u8]) {
        self.outgoing.borrow_mut().push_back(frame.to_vec());
    }

    fn tell(&mut self) {}

    fn is_dead(&self) -> bool {
        self.is_dead.get()
    }
}

/// A region of a client.
struct Lent {
    bytes: RefCell<Vec<u8>>,
    stamp: u64,
    is_writable: bool,
}

impl Lent {
    fn of(bytes: &[u8]) -> Lent {
        let mut all = vec![0; 2048];
        all[..bytes.len()].copy_from_slice(bytes);
        Lent { bytes: RefCell::new(all), stamp: 7, is_writable: true }
    }
}

impl Loan for Lent {
    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes.borrow()[offset..offset + bytes.len()]);
    }

    fn write(&self, bytes: &[u8]) -> bool {
        self.bytes.borrow_mut()[..bytes.len()].copy_from_slice(bytes);
        self.is_writable
    }

    fn stamp(&self) -> u64 {
        self.stamp
    }
}

struct Host {
    server: Server<'static, End>,
    end: End,
    now: Instant,
}

impl Host {
    fn new(address: Address, hardware: [u8; 6], end: End) -> Host {
        let memory = Box::leak(Box::new(Memory::EMPTY));
        let storage = Box::leak(Box::new([const { SocketStorage::EMPTY }; SOCKETS]));
        let now = Instant(1_000_000);
        let server = Server::new(end.clone(), hardware, address, 5, memory, storage, now);
        Host { server, end, now }
    }

    fn ask(&mut self, badge: u64, request: Ask) -> Message {
        self.server.serve(badge, &request.message(), None, self.now)
    }

    fn lend(&mut self, badge: u64, request: Ask, loan: &Lent) -> Message {
        self.server.serve(badge, &request.message(), Some(loan), self.now)
    }

    /// A socket that is opened.
    fn socket(&mut self, badge: u64, request: Ask) -> SocketNumber {
        let reply = self.ask(badge, request);
        assert_eq!(reply[0], 0, "{request:?} is refused");
        let number = reply[1] as usize;
        if number < UDP_SOCKETS { SocketNumber::udp(number) } else { SocketNumber::tcp(number - UDP_SOCKETS) }
    }

    fn send_to(&mut self, badge: u64, socket: SocketNumber, peer: SocketAddrV4, bytes: &[u8]) -> u64 {
        let payload = Payload { length: bytes.len(), stamp: 7 };
        self.lend(badge, Ask::SendTo(socket, peer, payload), &Lent::of(bytes))[0]
    }

    /// The reply to a client that has received so much, and the bytes that came with it.
    fn receive_from(&mut self, badge: u64, socket: SocketNumber, received: u64) -> (Message, Vec<u8>) {
        let lent = Lent::of(&[]);
        let reply = self.lend(badge, Ask::ReceiveFrom { socket, received, room: 2000 }, &lent);
        let length = if reply[0] == 0 { reply[1] as usize } else { 0 };
        (reply, lent.bytes.borrow()[..length].to_vec())
    }

    /// Bytes of a stream that the server takes: all that it has then.
    fn send(&mut self, badge: u64, socket: SocketNumber, place: u64, bytes: &[u8]) -> Message {
        let payload = Payload { length: bytes.len(), stamp: 7 };
        self.lend(badge, Ask::Send(socket, place, payload), &Lent::of(bytes))
    }

    fn receive(&mut self, badge: u64, socket: SocketNumber, received: u64) -> (Message, Vec<u8>) {
        let lent = Lent::of(&[]);
        let reply = self.lend(badge, Ask::Receive { socket, received, room: 2000 }, &lent);
        let length = if reply[0] == 0 { reply[1] as usize } else { 0 };
        (reply, lent.bytes.borrow()[..length].to_vec())
    }

    /// The work of the bottom half after an interrupt; the instant of the next one.
    fn interrupt(&mut self) -> Instant {
        loop {
            let [_, is_left, next, ..] = self.ask(BOTTOM_HALF, Ask::Interrupt);
            if is_left == 0 {
                return Instant(next);
            }
        }
    }
}

/// Two hosts on a wire, each with a client of badge 1.
struct Pair {
    near: Host,
    far: Host,
}

impl Pair {
    fn new() -> Pair {
        let end = End::default();
        let other = End { incoming: end.outgoing.clone(), outgoing: end.incoming.clone(), ..End::default() };
        let fixed = |address| Address::Fixed { address, prefix: 24, gateway: None };
        let mut pair =
            Pair { near: Host::new(fixed(NEAR), NEAR_HARDWARE, end), far: Host::new(fixed(FAR), FAR_HARDWARE, other) };
        pair.near.ask(1, Ask::Open);
        pair.far.ask(1, Ask::Open);
        pair
    }

    fn pass(&mut self, nanoseconds: u64) {
        for host in [&mut self.near, &mut self.far] {
            host.now = Instant(host.now.0 + nanoseconds);
        }
    }

    /// Both bottom halves work until no frame is on the wire.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.pass(1_000);
            self.near.interrupt();
            self.far.interrupt();
            if !self.near.end.has_received() && !self.far.end.has_received() {
                return;
            }
        }
        panic!("the wire is never quiet");
    }

    /// A connection from near to far, with the sockets of both ends.
    fn connected(&mut self) -> (SocketNumber, SocketNumber) {
        let listener = self.far.socket(1, Ask::Listen(7));
        assert_eq!(self.far.ask(1, Ask::Accept(listener))[0], Refusal::Empty as u64);
        let stream = self.near.socket(1, Ask::Connect(SocketAddrV4::new(FAR, 7)));
        self.settle();
        assert_eq!(self.far.ask(1, Ask::Accept(listener))[0], 0);
        (stream, listener)
    }
}

#[test]
fn datagrams_come_once_in_order_and_with_their_sender() {
    let mut pair = Pair::new();
    let (from, to) = (pair.near.socket(1, Ask::Bind(5)), pair.far.socket(1, Ask::Bind(6)));
    let mut received = 0;
    for length in [0, 1, 2, 100, DATAGRAM] {
        let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        assert_eq!(pair.near.send_to(1, from, SocketAddrV4::new(FAR, 6), &bytes), 0);
        pair.settle();
        assert_ne!(pair.far.server.take_signals()[0] & RECEIVED, 0);
        // Until the client says that it has the datagram, it comes again.
        for _ in 0..2 {
            assert_eq!(
                pair.far.receive_from(1, to, received),
                (datagram(length, SocketAddrV4::new(NEAR, 5)), bytes.clone())
            );
        }
        received += 1;
        assert_eq!(pair.far.receive_from(1, to, received).0, refusal(Refusal::Empty));
        assert_eq!(pair.far.receive_from(1, to, received + 1).0, refusal(Refusal::Malformed));
        assert_eq!(pair.far.receive_from(1, to, received - 1).0, refusal(Refusal::Malformed));
    }
}

#[test]
fn datagrams_that_find_the_queue_full_are_counted_at_their_place() {
    let mut pair = Pair::new();
    let (from, to) = (pair.near.socket(1, Ask::Bind(5)), pair.far.socket(1, Ask::Bind(6)));
    let mut received = 0;
    for burst in 0..3u8 {
        for number in 0..TO_RECEIVE as u8 + 5 {
            assert_eq!(pair.near.send_to(1, from, SocketAddrV4::new(FAR, 6), &[burst, number]), 0);
            pair.settle();
        }
        for number in 0..TO_RECEIVE as u8 {
            let (reply, bytes) = pair.far.receive_from(1, to, received);
            assert_eq!((reply[0], bytes), (0, vec![burst, number]));
            received += 1;
        }
        if burst == 1 {
            // The gap stands before a datagram that comes now.
            assert_eq!(pair.near.send_to(1, from, SocketAddrV4::new(FAR, 6), &[77]), 0);
            // The client has the last one before.
            assert_eq!(pair.far.receive_from(1, to, received).0, lost(5));
            pair.settle();
        }
        for _ in 0..2 {
            assert_eq!(pair.far.receive_from(1, to, received).0, lost(5));
        }
        received += 1;
        if burst == 1 {
            assert_eq!(pair.far.receive_from(1, to, received).1, [77]);
            received += 1;
        }
        assert_eq!(pair.far.receive_from(1, to, received).0, refusal(Refusal::Empty));
    }
    assert_eq!(pair.far.server.status().lost, 15);
}

#[test]
fn a_full_queue_to_send_is_refused_and_room_is_signalled() {
    let mut pair = Pair::new();
    let from = pair.near.socket(1, Ask::Bind(5));
    // No host has this address.
    let peer = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 6);
    for _ in 0..TO_SEND {
        assert_eq!(pair.near.send_to(1, from, peer, &[1]), 0);
    }
    assert_eq!(pair.near.send_to(1, from, peer, &[1]), Refusal::QueueFull as u64);
    pair.near.server.take_signals();
    // The protocol asks for the neighbour once a second, until the queue begins anew.
    for second in 0..5 {
        pair.near.interrupt();
        assert_eq!(pair.near.server.take_signals()[0] & SENT != 0, second == 3, "after {second} s");
        pair.pass(1_000_000_000);
    }
    assert_eq!(pair.near.send_to(1, from, peer, &[1]), 0);
}

#[test]
fn a_payload_without_its_stamp_is_not_sent() {
    let mut pair = Pair::new();
    let from = pair.near.socket(1, Ask::Bind(5));
    let payload = |length, stamp| Ask::SendTo(from, SocketAddrV4::new(FAR, 6), Payload { length, stamp });
    let lent = Lent::of(&[1, 2, 3]);
    assert_eq!(pair.near.lend(1, payload(3, 8), &lent), refusal(Refusal::NotLent));
    assert_eq!(pair.near.ask(1, payload(3, 7)), refusal(Refusal::NotLent));
    assert_eq!(pair.near.lend(1, payload(DATAGRAM + 1, 7), &lent), refusal(Refusal::TooLong));
    let short = Lent { bytes: RefCell::new(vec![0; 10]), ..Lent::of(&[]) };
    assert_eq!(pair.near.lend(1, payload(3, 7), &short), refusal(Refusal::NotLent));
    assert_eq!(pair.near.lend(1, payload(2, 7), &short), [0; 6]);
    let (stream, _) = pair.connected();
    let payload = Payload { length: 3, stamp: 8 };
    assert_eq!(pair.near.lend(1, Ask::Send(stream, 0, payload), &lent), refusal(Refusal::NotLent));
    assert_eq!(pair.near.send(1, stream, 0, &[1, 2, 3]), length(3));
}

#[test]
fn ports_and_sockets_are_refused_when_they_are_taken_and_a_socket_of_another_is_none() {
    let mut pair = Pair::new();
    let near = &mut pair.near;
    near.ask(2, Ask::Open);
    let socket = near.socket(1, Ask::Bind(5));
    assert_eq!(near.ask(2, Ask::Bind(5)), refusal(Refusal::PortTaken));
    assert_eq!(near.ask(2, Ask::Close(socket)), refusal(Refusal::NoSocket));
    assert_eq!(near.ask(3, Ask::Bind(0)), refusal(Refusal::NotOpen));
    for _ in 1..UDP_SOCKETS {
        near.socket(1, Ask::Bind(0));
    }
    assert_eq!(near.ask(1, Ask::Bind(0)), refusal(Refusal::TooManySockets));
    let listener = near.socket(1, Ask::Listen(5));
    assert_eq!(near.ask(2, Ask::Listen(5)), refusal(Refusal::PortTaken));
    for _ in 1..TCP_SOCKETS {
        near.socket(1, Ask::Connect(SocketAddrV4::new(FAR, 6)));
    }
    assert_eq!(near.ask(1, Ask::Listen(6)), refusal(Refusal::TooManySockets));
    assert_eq!(near.ask(1, Ask::Close(listener)), [0; 6]);
    assert_eq!(near.ask(1, Ask::Close(listener)), refusal(Refusal::NoSocket));
    near.socket(2, Ask::Listen(5));
    // A client that begins anew has none of its sockets, and others have theirs.
    near.ask(1, Ask::Open);
    assert_eq!(near.ask(1, Ask::Close(socket)), refusal(Refusal::NoSocket));
    near.socket(1, Ask::Bind(5));
    assert_eq!(near.ask(1, Ask::Listen(5)), refusal(Refusal::PortTaken));
    for badge in 4..4 + CLIENTS as u64 - 2 {
        assert_eq!(near.ask(badge, Ask::Open), [0; 6]);
    }
    assert_eq!(near.ask(77, Ask::Open), refusal(Refusal::TooManyClients));
    let nobody = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, NEAR, Ipv4Addr::new(192, 168, 1, 1)];
    for address in nobody {
        assert_eq!(near.ask(1, Ask::Connect(SocketAddrV4::new(address, 6))), refusal(Refusal::NoPeer), "{address}");
    }
    near.end.is_dead.set(true);
    assert_eq!(near.ask(1, Ask::Status), refusal(Refusal::Dead));
}

#[test]
fn a_refused_connection_is_closed() {
    let mut pair = Pair::new();
    let stream = pair.near.socket(1, Ask::Connect(SocketAddrV4::new(FAR, 7)));
    assert_eq!(pair.near.ask(1, Ask::State(stream))[1], Phase::Begins as u64);
    assert_eq!(pair.near.send(1, stream, 0, &[1]), refusal(Refusal::QueueFull));
    assert_eq!(pair.near.receive(1, stream, 0).0, refusal(Refusal::Empty));
    pair.settle();
    assert_ne!(pair.near.server.take_signals()[0] & CHANGED, 0);
    assert_eq!(pair.near.ask(1, Ask::State(stream))[1], Phase::Closed as u64);
    assert_eq!(pair.near.send(1, stream, 0, &[1]), refusal(Refusal::Closed));
    assert_eq!(pair.near.receive(1, stream, 0).0, refusal(Refusal::Closed));
}

#[test]
fn a_stream_ends_when_its_peer_has_finished_and_all_is_received() {
    let mut pair = Pair::new();
    let (near, far) = pair.connected();
    assert_eq!(pair.near.send(1, near, 0, b"steady"), length(6));
    assert_eq!(pair.near.ask(1, Ask::Finish(near)), [0; 6]);
    pair.settle();
    // An end acknowledges bytes within 10 ms.
    pair.pass(10_000_000);
    pair.settle();
    assert_eq!(pair.near.ask(1, Ask::State(near))[1..3], [Phase::Ends as u64, 0]);
    assert_eq!(pair.far.receive(1, far, 0).1, b"steady");
    assert_eq!(pair.far.receive(1, far, 6).0, refusal(Refusal::Finished));
    // The other direction is still open.
    assert_eq!(pair.far.send(1, far, 0, b"on"), length(2));
    pair.settle();
    assert_eq!(pair.near.receive(1, near, 0).1, b"on");
    assert_eq!(pair.near.send(1, near, 6, b"x"), refusal(Refusal::Closed));
    assert_eq!(pair.far.ask(1, Ask::Close(far)), [0; 6]);
    assert_eq!(pair.near.ask(1, Ask::Close(near)), [0; 6]);
    pair.settle();
    pair.pass(10_000_000);
    pair.settle();
    // Buffers of connections that are over are used again, and those of the listener are not.
    for _ in 1..TCP_SOCKETS {
        pair.far.socket(1, Ask::Connect(SocketAddrV4::new(NEAR, 7)));
    }
    assert_eq!(pair.far.ask(1, Ask::Connect(SocketAddrV4::new(NEAR, 7))), refusal(Refusal::TooManySockets));
}

#[test]
fn an_address_is_assigned_before_anything_is_sent() {
    let end = End::default();
    let mut host = Host::new(Address::Assigned, NEAR_HARDWARE, end.clone());
    host.ask(1, Ask::Open);
    assert_eq!(host.ask(1, Ask::Connect(SocketAddrV4::new(FAR, 7))), refusal(Refusal::NoAddress));
    assert_eq!(host.server.status().address, None);
    host.interrupt();
    let frame = end.outgoing.borrow_mut().pop_front().expect("the server asks for an address");
    let packet = EthernetFrame::new_checked(&frame[..]).unwrap().payload();
    let packet = Ipv4Packet::new_checked(packet).unwrap();
    assert_eq!(UdpPacket::new_checked(packet.payload()).unwrap().dst_port(), 67);
}

#[test]
fn the_bottom_half_is_told_of_work_that_a_client_has_begun() {
    let mut pair = Pair::new();
    pair.settle();
    pair.near.server.take_urgency();
    let from = pair.near.socket(1, Ask::Bind(5));
    assert!(!pair.near.server.take_urgency());
    // The neighbour is asked for its address; after a second without an answer, again.
    assert_eq!(pair.near.send_to(1, from, SocketAddrV4::new(FAR, 6), &[1]), 0);
    assert!(pair.near.server.take_urgency());
    let next = pair.near.interrupt();
    assert!(next > pair.near.now && next.0 <= pair.near.now.0 + 1_100_000_000, "{next:?}");
}

#[test]
fn the_bottom_half_hears_of_work_whose_end_another_task_was_told() {
    let mut pair = Pair::new();
    pair.settle();
    pair.near.server.take_urgency();
    for _ in 0..=BATCH {
        pair.near.end.incoming.borrow_mut().push_back(udp_frame(5, b"steady"));
    }
    assert_eq!(pair.near.ask(1, Ask::Interrupt)[1], 1);
    assert!(pair.near.server.take_urgency());
    pair.near.interrupt();
    pair.near.server.take_urgency();
    // A timer begins, of which the bottom half would know nothing.
    pair.near.socket(1, Ask::Listen(7));
    pair.near.end.incoming.borrow_mut().push_back(tcp_frame(7, TcpControl::Syn, (1, None), &[]));
    let [_, 0, next, ..] = pair.near.ask(1, Ask::Interrupt) else { panic!("one frame is served at once") };
    assert!(next < u64::MAX && pair.near.server.take_urgency());
    pair.near.interrupt();
    assert!(!pair.near.server.take_urgency());
}

//--- Frames of strangers

/// A frame to near, with this payload.
fn ethernet(ethertype: EthernetProtocol, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; EthernetFrame::<&[u8]>::buffer_len(payload.len())];
    let mut ethernet = EthernetFrame::new_unchecked(&mut frame[..]);
    EthernetRepr { src_addr: EthernetAddress(FAR_HARDWARE), dst_addr: EthernetAddress(NEAR_HARDWARE), ethertype }
        .emit(&mut ethernet);
    ethernet.payload_mut().copy_from_slice(payload);
    frame
}

fn ip(next_header: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let repr = Ipv4Repr { src_addr: FAR, dst_addr: NEAR, next_header, payload_len: payload.len(), hop_limit: 64 };
    let mut bytes = vec![0; repr.buffer_len() + payload.len()];
    repr.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &ChecksumCapabilities::default());
    bytes[repr.buffer_len()..].copy_from_slice(payload);
    ethernet(EthernetProtocol::Ipv4, &bytes)
}

fn udp_frame(dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let repr = UdpRepr { src_port: 9, dst_port };
    let mut bytes = vec![0; repr.header_len() + payload.len()];
    let (from, to) = (IpAddress::Ipv4(FAR), IpAddress::Ipv4(NEAR));
    let fill = |room: &mut [u8]| room.copy_from_slice(payload);
    let mut packet = UdpPacket::new_unchecked(&mut bytes[..]);
    repr.emit(&mut packet, &from, &to, payload.len(), fill, &ChecksumCapabilities::default());
    ip(IpProtocol::Udp, &bytes)
}

fn tcp_frame(dst_port: u16, control: TcpControl, numbers: (u32, Option<u32>), payload: &[u8]) -> Vec<u8> {
    let repr = TcpRepr {
        src_port: 9,
        dst_port,
        control,
        seq_number: TcpSeqNumber(numbers.0 as i32),
        ack_number: numbers.1.map(|number| TcpSeqNumber(number as i32)),
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    };
    let mut bytes = vec![0; repr.buffer_len()];
    let (from, to) = (IpAddress::Ipv4(FAR), IpAddress::Ipv4(NEAR));
    repr.emit(&mut TcpPacket::new_unchecked(&mut bytes[..]), &from, &to, &ChecksumCapabilities::default());
    ip(IpProtocol::Tcp, &bytes)
}

fn arp_frame(operation: ArpOperation, sender: u32) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress(FAR_HARDWARE),
        source_protocol_addr: Ipv4Addr::from_bits(sender),
        target_hardware_addr: EthernetAddress(NEAR_HARDWARE),
        target_protocol_addr: NEAR,
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut ArpPacket::new_unchecked(&mut bytes[..]));
    ethernet(EthernetProtocol::Arp, &bytes)
}

/// A frame that means something.
fn good_frame() -> impl Strategy<Value = Vec<u8>> {
    let port = prop_oneof![Just(5_u16), Just(7), Just(68), any::<u16>()];
    let payload = proptest::collection::vec(any::<u8>(), 0..200);
    let control = prop_oneof![
        Just(TcpControl::None),
        Just(TcpControl::Psh),
        Just(TcpControl::Syn),
        Just(TcpControl::Fin),
        Just(TcpControl::Rst)
    ];
    let number = prop_oneof![0..20_u32, any::<u32>()];
    prop_oneof![
        (port.clone(), payload.clone()).prop_map(|(port, payload)| udp_frame(port, &payload)),
        (port, control, number.clone(), proptest::option::of(number), payload.clone())
            .prop_map(|(port, control, seq, ack, payload)| tcp_frame(port, control, (seq, ack), &payload)),
        payload.clone().prop_map(|payload| ip(IpProtocol::Icmp, &payload)),
        (any::<u8>(), payload).prop_map(|(protocol, payload)| ip(protocol.into(), &payload)),
        (any::<bool>(), any::<u32>()).prop_map(|(asks, sender)| {
            arp_frame(if asks { ArpOperation::Request } else { ArpOperation::Reply }, sender)
        }),
    ]
}

/// A frame of a stranger: one that means something, one of which some bytes are others or missing, or any bytes.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4);
    prop_oneof![
        good_frame(),
        (good_frame(), changes).prop_map(|(mut frame, changes)| {
            changes.into_iter().for_each(|(place, byte)| *place.get_mut(&mut frame) = byte);
            frame
        }),
        (good_frame(), any::<proptest::sample::Index>()).prop_map(|(mut frame, end)| {
            frame.truncate(end.index(frame.len() + 1));
            frame
        }),
        proptest::collection::vec(any::<u8>(), 0..2048),
    ]
}

#[test]
fn a_frame_of_a_stranger_that_means_something_arrives() {
    let mut pair = Pair::new();
    let (socket, listener) = (pair.near.socket(1, Ask::Bind(5)), pair.near.socket(1, Ask::Listen(7)));
    let incoming = pair.near.end.incoming.clone();
    for frame in [
        arp_frame(ArpOperation::Request, FAR.to_bits()),
        udp_frame(5, b"steady"),
        tcp_frame(7, TcpControl::Syn, (1, None), &[]),
    ] {
        incoming.borrow_mut().push_back(frame);
    }
    pair.near.interrupt();
    assert_eq!(pair.near.receive_from(1, socket, 0).1, b"steady");
    let tcp = &pair.near.server.clients[0].tcp[listener.tcp_index().unwrap()];
    let stack = pair.near.server.sockets.get::<tcp::Socket<'_>>(tcp.handle);
    assert_eq!(stack.state(), tcp::State::SynReceived);
    // Answers to the question and to the connection.
    assert_eq!(pair.near.end.outgoing.borrow().len(), 2);
}

proptest! {
    /// Any frames cause no panic, and then the server still receives a datagram.
    #[test]
    fn frames_of_strangers_stop_nothing(
        frames in proptest::collection::vec(any_frame(), 1..60),
        steps in proptest::collection::vec(0..2_000_000_000_u64, 60),
    ) {
        let mut pair = Pair::new();
        let (socket, listener) = (pair.near.socket(1, Ask::Bind(5)), pair.near.socket(1, Ask::Listen(7)));
        let stream = pair.near.socket(1, Ask::Connect(SocketAddrV4::new(FAR, 9)));
        let mut received = 0;
        for (frame, step) in frames.into_iter().zip(steps) {
            pair.near.end.incoming.borrow_mut().push_back(frame);
            pair.near.interrupt();
            pair.near.end.outgoing.borrow_mut().clear();
            let (reply, _) = pair.near.receive_from(1, socket, received);
            received += u64::from(reply[0] == 0);
            let _ = (pair.near.ask(1, Ask::Accept(listener)), pair.near.receive(1, stream, 0));
            pair.near.now = Instant(pair.near.now.0 + step);
        }
        pair.near.end.incoming.borrow_mut().push_back(udp_frame(5, b"steady"));
        pair.near.interrupt();
        let (_, bytes) = pair.near.receive_from(1, socket, received);
        prop_assert_eq!(bytes, b"steady");
    }

    /// Any words of a client, in any order, with any region: nothing panics, and a neighbour has its datagram.
    #[test]
    fn words_of_a_client_stop_nothing(
        messages in proptest::collection::vec((
            prop_oneof![0..0x700_u64, any::<u64>()],
            prop_oneof![0..2000_u64, any::<u64>(), Just(u64::from(FAR.to_bits()) | 7 << 32)],
            prop_oneof![0..2000_u64, any::<u64>()],
            0..2048_usize,
            any::<bool>(),
        ), 1..100),
    ) {
        let mut pair = Pair::new();
        pair.near.ask(2, Ask::Open);
        let socket = pair.near.socket(2, Ask::Bind(6));
        for (first, second, third, bytes, is_writable) in messages {
            let lent = Lent { bytes: RefCell::new(vec![0; bytes]), stamp: 7, is_writable };
            let words = [first, second, third, 7, 0, 0];
            pair.near.server.serve(1, &words, Some(&lent), pair.near.now);
            pair.near.end.outgoing.borrow_mut().clear();
            pair.near.now = Instant(pair.near.now.0 + 10_000);
        }
        pair.near.end.incoming.borrow_mut().push_back(udp_frame(6, b"steady"));
        pair.near.interrupt();
        prop_assert_eq!(pair.near.receive_from(2, socket, 0).1, b"steady");
    }

    /// A stream on a wire that loses frames, with replies that get lost: all bytes come, once and in order. Of one end no two frames in a row are lost,
    /// since a stream ends when its peer is silent for long.
    #[test]
    fn bytes_of_a_stream_come_once_and_in_order_whatever_is_lost(
        bytes in proptest::collection::vec(any::<u8>(), 1..30_000),
        loses in proptest::collection::vec(0..8_u8, 50),
        forgets in proptest::collection::vec(any::<bool>(), 50),
    ) {
        let mut pair = Pair::new();
        let (near, far) = pair.connected();
        let (mut sent, mut arrived, mut turn) = (0, Vec::new(), 0);
        let mut has_lost = [false; 2];
        while arrived.len() < bytes.len() {
            prop_assert!(turn < 20_000, "{} of {} bytes have come", arrived.len(), bytes.len());
            let rest = &bytes[sent..bytes.len().min(sent + 1500)];
            let reply = pair.near.send(1, near, sent as u64, rest);
            if reply[0] == 0 && !forgets[turn % 50] {
                sent = reply[1] as usize;
            }
            for (end, has_lost) in [&pair.near.end, &pair.far.end].into_iter().zip(&mut has_lost) {
                let mut frames = end.outgoing.borrow_mut();
                if !frames.is_empty() {
                    *has_lost = loses[turn % 50] == 0 && !*has_lost;
                }
                if *has_lost {
                    frames.pop_front();
                }
            }
            pair.near.interrupt();
            pair.far.interrupt();
            let (reply, part) = pair.far.receive(1, far, arrived.len() as u64);
            if reply[0] == 0 && !forgets[(turn + 7) % 50] {
                arrived.extend(part);
            }
            // Sometimes as long as until a timer rings.
            pair.pass(if turn % 4 == 0 { 300_000_000 } else { 20_000 });
            turn += 1;
        }
        prop_assert_eq!(arrived, bytes);
    }
}
