//! The server's state: its clients with their sockets, and the protocols between these and the device.
//!
//! # Invariants
//!
//! 1. A client's sockets, queues and buffers are its own: a request of another client changes none of them.
//! 2. A request of a client takes no frame from the device. So the work for frames that come, however many, is done for the bottom half alone.
//! 3. The work of a request is bounded: by [`BATCH`] received frames, and one frame to send for each socket.
//! 4. Frames are sent in rounds, in which each socket has its turn: a round begins only if the device has room for all of it.
//! 5. Each datagram that comes for a socket is in the socket's queue, or in its count, at its place. It leaves the queue when the client says that it has it.
//! 6. A byte of a stream is sent only if it is the client's: the stamp is looked at behind the copy.

use core::net::{Ipv4Addr, SocketAddrV4};

use fusee::net::{
    CHANGED, DATAGRAM, Payload, Phase, RECEIVED, Refusal, Request, SENT, STAMP, SocketNumber, State, Status,
    TCP_SOCKETS, UDP_SOCKETS, accepted, datagram, length, lost, opened, refusal,
};
use fusee::{Instant, Message, Nanoseconds};
use fusee_driver::Loan;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::RecvError;
use smoltcp::socket::{dhcpv4, tcp, udp};
use smoltcp::time;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Cidr};

use crate::link::{Frames, Link};
use crate::memory::{Arrived, CLIENTS, Memory, SOCKETS, STREAM};
use crate::sockets::{Tcp, Udp, Use, phase, seen};

/// Received frames that one request of the bottom half serves.
pub const BATCH: usize = 8;
/// The first port of those that are given to sockets without one (RFC 6335, 6).
const FIRST_FREE_PORT: u16 = 49_152;
/// The time for which the first datagram of a queue may wait for its neighbour's address. Then the queue begins anew.
const UNHEARD: Nanoseconds = Nanoseconds(3_000_000_000);
/// The time after which the bottom half asks again if frames wait and none can be sent.
const PAUSE: Nanoseconds = Nanoseconds(10_000_000);

/// The origin of the server's address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Address {
    /// A server in the network assigns it (RFC 2131).
    Assigned,
    /// It stands in the manifest.
    Fixed {
        /// The address.
        address: Ipv4Addr,
        /// Bits of the address that are those of the network.
        prefix: u8,
        /// The neighbour that forwards to other networks.
        gateway: Option<Ipv4Addr>,
    },
}

struct Client<'a> {
    badge: Option<u64>,
    udp: [Udp<'a>; UDP_SOCKETS],
    tcp: [Tcp; TCP_SOCKETS],
    /// Bits to signal.
    signals: u64,
}

/// The clients of a device, and the device.
pub struct Server<'a, F> {
    link: Link<'a, F>,
    interface: Interface,
    sockets: SocketSet<'a>,
    dhcp: Option<SocketHandle>,
    clients: [Client<'a>; CLIENTS],
    /// A part of a stream, until its stamp was looked at.
    copied: &'a mut [u8; STREAM],
    next_port: u16,
    /// Datagrams that found their queues full.
    lost: u64,
    /// The instant at which the bottom half will ask at the latest.
    told: Instant,
    is_urgent: bool,
}

fn stack_time(now: Instant) -> time::Instant {
    time::Instant::from_micros((now.0 / 1_000) as i64)
}

impl<'a, F: Frames> Server<'a, F> {
    /// A server of the device `frames`, with this hardware address. By `seed` it chooses numbers that a stranger should not guess.
    pub fn new(
        frames: F,
        hardware: [u8; 6],
        address: Address,
        seed: u64,
        memory: &'a mut Memory,
        storage: &'a mut [SocketStorage<'a>; SOCKETS],
        now: Instant,
    ) -> Server<'a, F> {
        let mut link = Link::new(frames, &mut memory.looked_at, &mut memory.made);
        let mut config = Config::new(EthernetAddress(hardware).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut link, stack_time(now));
        let mut sockets = SocketSet::new(&mut storage[..]);
        let dhcp = match address {
            Address::Assigned => Some(sockets.add(dhcpv4::Socket::new())),
            Address::Fixed { address, prefix, gateway } => {
                set_address(&mut interface, Some((Ipv4Cidr::new(address, prefix), gateway)));
                None
            }
        };
        let mut buffers = memory.datagrams.iter_mut().zip(&mut memory.streams);
        let clients = [(); CLIENTS].map(|()| {
            let (datagrams, streams) = buffers.next().expect("there are buffers for each client");
            let (mut datagrams, mut streams) = (datagrams.iter_mut(), streams.iter_mut());
            Client {
                badge: None,
                udp: [(); UDP_SOCKETS]
                    .map(|()| Udp::new(datagrams.next().expect("there are buffers for each socket"), &mut sockets)),
                tcp: [(); TCP_SOCKETS]
                    .map(|()| Tcp::new(streams.next().expect("there are buffers for each connection"), &mut sockets)),
                signals: 0,
            }
        });
        Server {
            link,
            interface,
            sockets,
            dhcp,
            clients,
            copied: &mut memory.copied,
            next_port: FIRST_FREE_PORT + (seed % u64::from(u16::MAX - FIRST_FREE_PORT)) as u16,
            lost: 0,
            told: Instant::ZERO,
            is_urgent: false,
        }
    }

    /// The index of a client that has opened the network.
    #[must_use]
    pub fn index(&self, badge: u64) -> Option<usize> {
        self.clients.iter().position(|client| client.badge == Some(badge))
    }

    /// The bits to signal to each client, by its index. They are none from here on.
    pub fn take_signals(&mut self) -> [u64; CLIENTS] {
        core::array::from_fn(|index| core::mem::take(&mut self.clients[index].signals))
    }

    /// Whether the bottom half has to ask earlier than it was told. It is asked to only once.
    pub fn take_urgency(&mut self) -> bool {
        core::mem::take(&mut self.is_urgent)
    }

    /// Serves a request, of any origin; the reply.
    pub fn serve(&mut self, badge: u64, message: &Message, loan: Option<&dyn Loan>, now: Instant) -> Message {
        let reply = self.answer(badge, message, loan, now).unwrap_or_else(refusal);
        self.notice();
        if Request::of(message) != Ok(Request::Interrupt) {
            self.hurry(now);
        }
        self.link.frames.tell();
        reply
    }

    fn answer(
        &mut self,
        badge: u64,
        message: &Message,
        loan: Option<&dyn Loan>,
        now: Instant,
    ) -> Result<Message, Refusal> {
        let request = Request::of(message)?;
        if self.link.frames.is_dead() {
            return Err(Refusal::Dead);
        }
        match request {
            Request::Open => return self.open(badge),
            Request::Interrupt => return Ok(self.interrupt(now)),
            Request::Status => return Ok(self.status().reply()),
            _ => {}
        }
        let client = self.index(badge).ok_or(Refusal::NotOpen)?;
        let reply = match request {
            Request::Bind(port) => self.bind(client, port)?,
            Request::SendTo(socket, peer, payload) => self.send_to(client, socket, peer, payload, loan)?,
            Request::ReceiveFrom { socket, received, room } => {
                return self.receive_from(client, socket, received, room, loan);
            }
            Request::Connect(peer) => self.connect(client, peer)?,
            Request::Listen(port) => self.listen(client, port)?,
            Request::Accept(socket) => return self.accept(client, socket),
            Request::Send(socket, place, payload) => self.send(client, socket, place, payload, loan)?,
            Request::Receive { socket, received, room } => {
                let reply = self.receive(client, socket, received, room, loan);
                // The peer may learn that there is room again.
                self.round(now);
                return reply;
            }
            Request::Finish(socket) => {
                let (tcp, sockets) = self.stream(client, socket)?;
                sockets.get_mut::<tcp::Socket<'_>>(tcp.handle).close();
                [0; 6]
            }
            Request::State(socket) => return self.state(client, socket),
            Request::Close(socket) => self.close(client, socket)?,
            Request::Open | Request::Interrupt | Request::Status => [0; 6],
        };
        self.round(now);
        Ok(reply)
    }

    /// Has the client begin anew.
    fn open(&mut self, badge: u64) -> Result<Message, Refusal> {
        let free = || self.clients.iter().position(|client| client.badge.is_none());
        let index = self.index(badge).or_else(free).ok_or(Refusal::TooManyClients)?;
        let client = &mut self.clients[index];
        client.badge = Some(badge);
        client.signals = 0;
        for udp in &mut client.udp {
            udp.close(&mut self.sockets);
        }
        for tcp in &mut client.tcp {
            self.sockets.get_mut::<tcp::Socket<'_>>(tcp.handle).abort();
            tcp.used = Use::None;
        }
        Ok([0; 6])
    }

    fn status(&self) -> Status {
        Status {
            address: self.interface.ipv4_addr(),
            received: self.link.received,
            sent: self.link.sent,
            unanswered: self.link.unanswered,
            lost: self.lost,
        }
    }

    //--- Datagrams

    fn bind(&mut self, client: usize, port: u16) -> Result<Message, Refusal> {
        let index = self.clients[client].udp.iter().position(|udp| udp.port.is_none());
        let index = index.ok_or(Refusal::TooManySockets)?;
        let taken = |clients: &[Client<'_>], port| {
            clients.iter().flat_map(|client| &client.udp).any(|udp| udp.port == Some(port))
        };
        let port = match port {
            0 => self.free_port(|server, port| taken(&server.clients, port)),
            port if taken(&self.clients, port) => return Err(Refusal::PortTaken),
            port => port,
        };
        let udp = &mut self.clients[client].udp[index];
        self.sockets.get_mut::<udp::Socket<'_>>(udp.handle).bind(port).map_err(|_| Refusal::PortTaken)?;
        udp.port = Some(port);
        Ok(opened(SocketNumber::udp(index), port))
    }

    fn udp(&mut self, client: usize, socket: SocketNumber) -> Result<(&mut Udp<'a>, &mut SocketSet<'a>), Refusal> {
        let udp = socket.udp_index().map(|index| &mut self.clients[client].udp[index]);
        let udp = udp.filter(|udp| udp.port.is_some()).ok_or(Refusal::NoSocket)?;
        Ok((udp, &mut self.sockets))
    }

    fn send_to(
        &mut self,
        client: usize,
        socket: SocketNumber,
        peer: SocketAddrV4,
        Payload { length, stamp }: Payload,
        loan: Option<&dyn Loan>,
    ) -> Result<Message, Refusal> {
        if length > DATAGRAM {
            return Err(Refusal::TooLong);
        }
        self.reaches(peer)?;
        let bytes = &mut self.copied[..length];
        copy(loan, 0, bytes, length, stamp)?;
        let udp = socket.udp_index().map(|index| &mut self.clients[client].udp[index]);
        let udp = udp.filter(|udp| udp.port.is_some()).ok_or(Refusal::NoSocket)?;
        let stack = self.sockets.get_mut::<udp::Socket<'_>>(udp.handle);
        match stack.send_slice(bytes, IpEndpoint::new(IpAddress::Ipv4(*peer.ip()), peer.port())) {
            Ok(()) => Ok([0; 6]),
            Err(udp::SendError::BufferFull) => {
                udp.waits_for_room = true;
                Err(Refusal::QueueFull)
            }
            Err(udp::SendError::Unaddressable) => Err(Refusal::NoPeer),
        }
    }

    fn receive_from(
        &mut self,
        client: usize,
        socket: SocketNumber,
        received: u64,
        room: usize,
        loan: Option<&dyn Loan>,
    ) -> Result<Message, Refusal> {
        let (udp, _) = self.udp(client, socket)?;
        match received.checked_sub(udp.received) {
            Some(0) => {}
            // The client has the one that it was given before.
            Some(1) if udp.advance() => udp.received = received,
            _ => return Err(Refusal::Malformed),
        }
        let (from, bytes) = match udp.arrived.peek() {
            Err(_) if udp.behind != 0 => return Ok(lost(udp.behind)),
            Err(_) => return Err(Refusal::Empty),
            Ok((Arrived { missing: 0, from }, bytes)) => (*from, bytes),
            Ok((Arrived { missing, .. }, _)) => return Ok(lost(*missing)),
        };
        let loan = loan.ok_or(Refusal::NotLent)?;
        let copied = bytes.len().min(room);
        if copied + STAMP > loan.bytes() || !loan.write(&bytes[..copied]) {
            return Err(Refusal::NotLent);
        }
        Ok(datagram(bytes.len(), from))
    }

    //--- Connections

    /// The index of buffers that the client can use for another connection.
    fn unused(&mut self, client: usize) -> Result<usize, Refusal> {
        let (tcps, sockets) = (&mut self.clients[client].tcp, &mut self.sockets);
        let is_over = |tcp: &&mut Tcp| match tcp.used {
            Use::None => true,
            Use::Left => !sockets.get::<tcp::Socket<'_>>(tcp.handle).is_open(),
            Use::Listener(_) | Use::Stream => false,
        };
        let (index, _) = tcps.iter_mut().enumerate().find(|(_, tcp)| is_over(tcp)).ok_or(Refusal::TooManySockets)?;
        let stack = self.sockets.get_mut::<tcp::Socket<'_>>(self.clients[client].tcp[index].handle);
        stack.abort();
        Ok(index)
    }

    fn connect(&mut self, client: usize, peer: SocketAddrV4) -> Result<Message, Refusal> {
        self.reaches(peer)?;
        let index = self.unused(client)?;
        let port = self.free_port(Server::has_stream);
        let tcp = &mut self.clients[client].tcp[index];
        let stack = self.sockets.get_mut::<tcp::Socket<'_>>(tcp.handle);
        stack
            .connect(self.interface.context(), IpEndpoint::new(IpAddress::Ipv4(*peer.ip()), peer.port()), port)
            .map_err(|_| Refusal::NoPeer)?;
        tcp.begin(Use::Stream, stack);
        Ok(opened(SocketNumber::tcp(index), port))
    }

    /// Whether a connection has this port, or waits for others there.
    fn has_stream(&self, port: u16) -> bool {
        let mut tcps = self.clients.iter().flat_map(|client| &client.tcp);
        tcps.any(|tcp| {
            let stack = self.sockets.get::<tcp::Socket<'_>>(tcp.handle);
            tcp.used == Use::Listener(port) || stack.local_endpoint().is_some_and(|local| local.port == port)
        })
    }

    fn listen(&mut self, client: usize, port: u16) -> Result<Message, Refusal> {
        let is_listened_at = |tcp: &Tcp| tcp.used == Use::Listener(port);
        if self.clients.iter().flat_map(|client| &client.tcp).any(is_listened_at) {
            return Err(Refusal::PortTaken);
        }
        let index = self.listen_again(client, port)?;
        Ok(opened(SocketNumber::tcp(index), port))
    }

    fn listen_again(&mut self, client: usize, port: u16) -> Result<usize, Refusal> {
        let index = self.unused(client)?;
        let tcp = &mut self.clients[client].tcp[index];
        let stack = self.sockets.get_mut::<tcp::Socket<'_>>(tcp.handle);
        stack.listen(port).map_err(|_| Refusal::NoPeer)?;
        tcp.begin(Use::Listener(port), stack);
        Ok(index)
    }

    fn accept(&mut self, client: usize, socket: SocketNumber) -> Result<Message, Refusal> {
        let index = socket.tcp_index().ok_or(Refusal::NoSocket)?;
        let Tcp { used: Use::Listener(port), handle, .. } = self.clients[client].tcp[index] else {
            return Err(Refusal::NoSocket);
        };
        let stack = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        match (stack.state(), stack.remote_endpoint()) {
            (tcp::State::Listen | tcp::State::SynReceived, _) => Err(Refusal::Empty),
            (_, Some(IpEndpoint { addr: IpAddress::Ipv4(address), port: peer_port })) => {
                let next = self.listen_again(client, port)?;
                self.clients[client].tcp[index].used = Use::Stream;
                Ok(accepted(SocketNumber::tcp(next), SocketAddrV4::new(address, peer_port)))
            }
            // It has come, and is gone already.
            (_, None) => {
                stack.abort();
                stack.listen(port).map_err(|_| Refusal::NoPeer)?;
                Err(Refusal::Empty)
            }
        }
    }

    fn stream(&mut self, client: usize, socket: SocketNumber) -> Result<(&mut Tcp, &mut SocketSet<'a>), Refusal> {
        let tcp = socket.tcp_index().map(|index| &mut self.clients[client].tcp[index]);
        let tcp = tcp.filter(|tcp| tcp.used == Use::Stream).ok_or(Refusal::NoSocket)?;
        Ok((tcp, &mut self.sockets))
    }

    fn send(
        &mut self,
        client: usize,
        socket: SocketNumber,
        place: u64,
        Payload { length: bytes, stamp }: Payload,
        loan: Option<&dyn Loan>,
    ) -> Result<Message, Refusal> {
        let tcp = socket.tcp_index().map(|index| &mut self.clients[client].tcp[index]);
        let tcp = tcp.filter(|tcp| tcp.used == Use::Stream).ok_or(Refusal::NoSocket)?;
        let stack = self.sockets.get_mut::<tcp::Socket<'_>>(tcp.handle);
        // Those that an earlier request has brought.
        let known = tcp.sent.checked_sub(place).and_then(|known| usize::try_from(known).ok());
        let known = known.filter(|known| *known <= bytes).ok_or(Refusal::Malformed)?;
        if known == bytes {
            return Ok(length(tcp.sent));
        }
        if phase(stack.state()) == Phase::Begins {
            return Err(Refusal::QueueFull);
        }
        if !stack.may_send() {
            return Err(Refusal::Closed);
        }
        let room = stack.send_capacity() - stack.send_queue();
        if room == 0 {
            return Err(Refusal::QueueFull);
        }
        let part = &mut self.copied[..(bytes - known).min(room)];
        copy(loan, known, part, bytes, stamp)?;
        tcp.sent += stack.send_slice(part).map_err(|_| Refusal::Closed)? as u64;
        Ok(length(tcp.sent))
    }

    fn receive(
        &mut self,
        client: usize,
        socket: SocketNumber,
        received: u64,
        room: usize,
        loan: Option<&dyn Loan>,
    ) -> Result<Message, Refusal> {
        let (tcp, sockets) = self.stream(client, socket)?;
        let stack = sockets.get_mut::<tcp::Socket<'_>>(tcp.handle);
        let had = received.checked_sub(tcp.received).and_then(|had| usize::try_from(had).ok());
        let mut had = had.filter(|had| *had <= stack.recv_queue()).ok_or(Refusal::Malformed)?;
        // The ring may have them in two pieces.
        while had > 0 {
            let dropped = stack.recv(|bytes| {
                let dropped = bytes.len().min(had);
                (dropped, dropped)
            });
            had -= dropped.ok().filter(|dropped| *dropped > 0).ok_or(Refusal::Malformed)?;
        }
        tcp.received = received;
        let state = stack.state();
        let bytes = match stack.peek(room) {
            Ok([]) if room > 0 => return Err(Refusal::Empty),
            Ok(bytes) => bytes,
            Err(RecvError::Finished) => return Err(Refusal::Finished),
            Err(RecvError::InvalidState) if phase(state) == Phase::Begins => return Err(Refusal::Empty),
            Err(RecvError::InvalidState) => return Err(Refusal::Closed),
        };
        let loan = loan.ok_or(Refusal::NotLent)?;
        if bytes.len() + STAMP > loan.bytes() || !loan.write(bytes) {
            return Err(Refusal::NotLent);
        }
        Ok(length(bytes.len() as u64))
    }

    fn state(&mut self, client: usize, socket: SocketNumber) -> Result<Message, Refusal> {
        let (tcp, sockets) = self.stream(client, socket)?;
        let stack = sockets.get::<tcp::Socket<'_>>(tcp.handle);
        let (to_send, received) = (stack.send_queue() as u64, stack.recv_queue() as u64);
        Ok(State { phase: phase(stack.state()), to_send, received }.reply())
    }

    /// Closes a socket. A connection may still have bytes to send.
    fn close(&mut self, client: usize, socket: SocketNumber) -> Result<Message, Refusal> {
        let client = &mut self.clients[client];
        if let Some(udp) = socket.udp_index().map(|index| &mut client.udp[index]) {
            udp.port.ok_or(Refusal::NoSocket)?;
            udp.close(&mut self.sockets);
            return Ok([0; 6]);
        }
        let tcp = socket.tcp_index().map(|index| &mut client.tcp[index]).ok_or(Refusal::NoSocket)?;
        let stack = self.sockets.get_mut::<tcp::Socket<'_>>(tcp.handle);
        match tcp.used {
            Use::None | Use::Left => return Err(Refusal::NoSocket),
            Use::Listener(_) => {
                stack.abort();
                tcp.used = Use::None;
            }
            Use::Stream => {
                stack.close();
                tcp.used = Use::Left;
            }
        }
        Ok([0; 6])
    }

    //--- The network

    /// Whether something can be sent to `peer`.
    fn reaches(&self, peer: SocketAddrV4) -> Result<(), Refusal> {
        let own = self.interface.ipv4_addr().ok_or(Refusal::NoAddress)?;
        let is_near = |cidr: &IpCidr| cidr.contains_addr(&IpAddress::Ipv4(*peer.ip()));
        let is_routed =
            self.interface.ip_addrs().iter().any(is_near) || self.interface.routes().get_default_ipv4_route().is_some();
        let is_peer = peer.port() != 0 && !peer.ip().is_unspecified() && !peer.ip().is_loopback() && *peer.ip() != own;
        if is_peer && (is_routed || peer.ip().is_broadcast()) { Ok(()) } else { Err(Refusal::NoPeer) }
    }

    /// A port that is not taken.
    fn free_port(&mut self, is_taken: impl Fn(&Server<'a, F>, u16) -> bool) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = if port == u16::MAX { FIRST_FREE_PORT } else { port + 1 };
            // There are many more ports than sockets.
            if !is_taken(self, port) {
                return port;
            }
        }
    }

    /// Sends one frame for each socket that has one, if the device has room for all of them. Whether one was sent.
    fn round(&mut self, now: Instant) -> bool {
        self.link.frames.room() >= SOCKETS
            && self.interface.poll_egress(stack_time(now), &mut self.link, &mut self.sockets) != PollResult::None
    }

    /// Serves the device's interrupt. The reply has a one if the bottom half has to ask again at once, and the instant at which it has to without an
    /// interrupt.
    fn interrupt(&mut self, now: Instant) -> Message {
        self.link.frames.silence();
        for _ in 0..BATCH {
            let ingress = self.interface.poll_ingress_single(stack_time(now), &mut self.link, &mut self.sockets);
            if ingress == PollIngressSingleResult::None {
                break;
            }
            self.collect();
        }
        self.configure();
        let has_sent = self.round(now);
        self.give_up(now);
        let wanted = self.wanted(now);
        let is_left = self.link.frames.has_received() || has_sent && wanted <= now;
        // Without room the device signals when there is some.
        let next = match wanted {
            _ if self.link.frames.room() < SOCKETS => Instant::NEVER,
            wanted if wanted <= now => now + PAUSE,
            wanted => wanted,
        };
        // The answer may go to another task than the bottom half.
        self.is_urgent |= is_left || next < self.told;
        self.told = if is_left { Instant::ZERO } else { next };
        [0, is_left.into(), next.0, 0, 0, 0]
    }

    /// The instant at which the protocols want to go on.
    fn wanted(&mut self, now: Instant) -> Instant {
        let at = self.interface.poll_at(stack_time(now), &self.sockets);
        at.map_or(Instant::NEVER, |at| Instant((at.total_micros().max(0) as u64).saturating_mul(1_000)))
    }

    /// Moves the datagrams that have come to their queues.
    fn collect(&mut self) {
        for client in &mut self.clients {
            for udp in &mut client.udp {
                let stack = self.sockets.get_mut::<udp::Socket<'_>>(udp.handle);
                let Ok((bytes, about)) = stack.recv() else { continue };
                let IpAddress::Ipv4(address) = about.endpoint.addr;
                let from = SocketAddrV4::new(address, about.endpoint.port);
                self.lost += u64::from(!udp.add(bytes, from));
                client.signals |= RECEIVED;
            }
        }
    }

    /// Takes the address over that was assigned.
    fn configure(&mut self) {
        let Some(dhcp) = self.dhcp else { return };
        let assigned = match self.sockets.get_mut::<dhcpv4::Socket<'_>>(dhcp).poll() {
            None => return,
            Some(dhcpv4::Event::Configured(config)) => Some((config.address, config.router)),
            Some(dhcpv4::Event::Deconfigured) => None,
        };
        set_address(&mut self.interface, assigned);
        for client in &mut self.clients {
            client.signals |= CHANGED;
        }
    }

    /// Empties queues of datagrams, if the first one waits for a neighbour that does not answer.
    fn give_up(&mut self, now: Instant) {
        for udp in self.clients.iter_mut().flat_map(|client| &mut client.udp) {
            let stack = self.sockets.get_mut::<udp::Socket<'_>>(udp.handle);
            let (waiting, Some(port)) = (stack.send_queue(), udp.port) else { continue };
            match udp.unheard {
                _ if waiting == 0 => udp.unheard = None,
                Some((since, bytes)) if bytes <= waiting => {
                    if now >= since + UNHEARD {
                        stack.close();
                        // It was bound to this port before.
                        let _ = stack.bind(port);
                        udp.unheard = None;
                    }
                }
                _ => udp.unheard = Some((now, waiting)),
            }
        }
    }

    /// Notes for each client the signals for all that has changed.
    fn notice(&mut self) {
        for client in &mut self.clients {
            for udp in &mut client.udp {
                if udp.waits_for_room && self.sockets.get::<udp::Socket<'_>>(udp.handle).can_send() {
                    udp.waits_for_room = false;
                    client.signals |= SENT;
                }
            }
            for tcp in client.tcp.iter_mut().filter(|tcp| matches!(tcp.used, Use::Stream | Use::Listener(_))) {
                let seen = seen(self.sockets.get::<tcp::Socket<'_>>(tcp.handle));
                let (state, to_send, received) = core::mem::replace(&mut tcp.seen, seen);
                for (has_changed, bit) in
                    [(state != seen.0, CHANGED), (to_send > seen.1, SENT), (received < seen.2, RECEIVED)]
                {
                    client.signals |= if has_changed { bit } else { 0 };
                }
            }
        }
    }

    /// Notes whether the protocols want to go on earlier than the bottom half was told. Without room in the device that signals when there is some.
    fn hurry(&mut self, now: Instant) {
        if self.link.frames.room() >= SOCKETS {
            let wanted = self.wanted(now);
            if wanted < self.told {
                self.told = wanted;
                self.is_urgent = true;
            }
        }
    }
}

/// Copies a part of a payload of `bytes` bytes, if these are the client's.
fn copy(loan: Option<&dyn Loan>, offset: usize, part: &mut [u8], bytes: usize, stamp: u64) -> Result<(), Refusal> {
    let loan = loan.ok_or(Refusal::NotLent)?;
    if bytes.checked_add(STAMP).is_none_or(|bytes| bytes > loan.bytes()) {
        return Err(Refusal::NotLent);
    }
    loan.read(offset, part);
    // A loan that has ended does not come back, and the memory in its place never has the stamp of a request that was made later.
    if loan.stamp() == stamp { Ok(()) } else { Err(Refusal::NotLent) }
}

fn set_address(interface: &mut Interface, assigned: Option<(Ipv4Cidr, Option<Ipv4Addr>)>) {
    interface.update_ip_addrs(|addresses| {
        addresses.clear();
        if let Some((address, _)) = assigned.filter(|(address, _)| is_host(address.address())) {
            // The list is empty, and has room.
            let _ = addresses.push(IpCidr::Ipv4(address));
        }
    });
    interface.routes_mut().remove_default_ipv4_route();
    if let Some(gateway) = assigned.and_then(|(_, gateway)| gateway) {
        // The table is empty, and has room.
        let _ = interface.routes_mut().add_default_ipv4_route(gateway);
    }
}

/// Whether a host can have this address.
#[must_use]
pub fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_multicast() || address.is_broadcast() || address.is_unspecified())
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
