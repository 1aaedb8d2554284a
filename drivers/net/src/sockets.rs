//! Sockets of clients: those for datagrams, with queues of received ones that count losses, and connections.

use core::net::SocketAddrV4;

use fusee::Instant;
use fusee::net::Phase;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::storage::PacketBuffer;
use smoltcp::time;

use crate::memory::{Arrived, ForDatagrams, ForStream};

/// The time for which a peer may acknowledge nothing before its connection ends.
const SILENCE: time::Duration = time::Duration::from_secs(30);

/// A socket for datagrams.
pub struct Udp<'a> {
    pub handle: SocketHandle,
    pub arrived: PacketBuffer<'a, Arrived>,
    /// Datagrams that are missing behind the last of `arrived`.
    pub behind: u64,
    /// Datagrams and gaps that the client has.
    pub received: u64,
    pub port: Option<u16>,
    /// The client was refused because the queue was full.
    pub waits_for_room: bool,
    /// The instant since which the first datagram to send has been the first one, and the bytes of the queue then.
    pub unheard: Option<(Instant, usize)>,
}

/// The use of a connection's buffers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    None,
    Listener(u16),
    Stream,
    /// The client has given it up, and the protocol goes on.
    Left,
}

/// A connection, or a port for connections.
pub struct Tcp {
    pub handle: SocketHandle,
    pub used: Use,
    /// Bytes that the client has.
    pub received: u64,
    /// Bytes that were taken from the client.
    pub sent: u64,
    /// The state at the end of the last request: of the protocol, bytes to send, bytes received.
    pub seen: (tcp::State, usize, usize),
}

/// The phase of a connection in this state of the protocol.
pub fn phase(state: tcp::State) -> Phase {
    match state {
        tcp::State::Listen | tcp::State::SynSent | tcp::State::SynReceived => Phase::Begins,
        tcp::State::Established | tcp::State::CloseWait => Phase::Open,
        tcp::State::FinWait1
        | tcp::State::FinWait2
        | tcp::State::Closing
        | tcp::State::LastAck
        | tcp::State::TimeWait => Phase::Ends,
        tcp::State::Closed => Phase::Closed,
    }
}

/// The parts of a connection's state that its client is told of.
pub fn seen(stack: &tcp::Socket<'_>) -> (tcp::State, usize, usize) {
    (stack.state(), stack.send_queue(), stack.recv_queue())
}

impl<'a> Udp<'a> {
    pub fn new(buffers: &'a mut ForDatagrams, sockets: &mut SocketSet<'a>) -> Udp<'a> {
        let latest = udp::PacketBuffer::new(&mut buffers.latest_mark[..], &mut buffers.latest[..]);
        let to_send = udp::PacketBuffer::new(&mut buffers.to_send_marks[..], &mut buffers.to_send[..]);
        Udp {
            handle: sockets.add(udp::Socket::new(latest, to_send)),
            arrived: PacketBuffer::new(&mut buffers.arrived_marks[..], &mut buffers.arrived[..]),
            behind: 0,
            received: 0,
            port: None,
            waits_for_room: false,
            unheard: None,
        }
    }

    /// Queues a datagram. False if the queue is full, and it is counted instead.
    pub fn add(&mut self, bytes: &[u8], from: SocketAddrV4) -> bool {
        match self.arrived.enqueue(bytes.len(), Arrived { from, missing: self.behind }) {
            Ok(room) => {
                room.copy_from_slice(bytes);
                self.behind = 0;
                true
            }
            Err(_) => {
                self.behind += 1;
                false
            }
        }
    }

    /// Forgets the gap or the datagram that the client was given last. False if there was none.
    pub fn advance(&mut self) -> bool {
        let is_gap = match self.arrived.peek() {
            Ok((Arrived { missing, .. }, _)) => *missing != 0,
            Err(_) => return core::mem::take(&mut self.behind) != 0,
        };
        if !is_gap {
            return self.arrived.dequeue().is_ok();
        }
        // The header is changed, and the datagram stays.
        let stays = self.arrived.dequeue_with(|arrived, _| -> Result<(), ()> {
            arrived.missing = 0;
            Err(())
        });
        matches!(stays, Ok(Err(())))
    }

    pub fn close(&mut self, sockets: &mut SocketSet<'a>) {
        sockets.get_mut::<udp::Socket<'_>>(self.handle).close();
        while self.arrived.dequeue().is_ok() {}
        (self.behind, self.received, self.port) = (0, 0, None);
        (self.waits_for_room, self.unheard) = (false, None);
    }
}

impl Tcp {
    pub fn new<'a>(buffers: &'a mut ForStream, sockets: &mut SocketSet<'a>) -> Tcp {
        let received = tcp::SocketBuffer::new(&mut buffers.received[..]);
        let mut stack = tcp::Socket::new(received, tcp::SocketBuffer::new(&mut buffers.to_send[..]));
        stack.set_timeout(Some(SILENCE));
        let seen = seen(&stack);
        Tcp { handle: sockets.add(stack), used: Use::None, received: 0, sent: 0, seen }
    }

    pub fn begin(&mut self, used: Use, stack: &tcp::Socket<'_>) {
        *self = Tcp { handle: self.handle, used, received: 0, sent: 0, seen: seen(stack) };
    }
}
