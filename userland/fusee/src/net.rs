//! Datagrams and connections over IPv4: the other side of `drivers/net`. With the feature `embedded-nal`, by the traits of that crate.
//!
//! A client opens the network with a region of its own, and gets sockets by number. Payloads go through the region, which each request lends to the server
//! ([`Endpoint::call_lending`](crate::Endpoint::call_lending)); all else is in the words of the message. A client that waits does so on a notification that it has given the server, and
//! that may be bound to the server's bottom half.
//!
//! A datagram that finds the queue of its socket full is lost and counted. The count is an error, [`NetError::Lost`], at the place of the lost datagrams.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | its operation: [`Request`]; from bit 8 on the socket | zero, or a code of [`Refusal`] |
//! | 1 | address of the peer, and from bit 32 on its port; a port; or how much of its stream the client has received or sent | the socket, or a length |
//! | 2 | bytes of the payload, or room for one | address of the peer, and from bit 32 on its port; or how much of the stream the server has |
//! | 3 | the stamp of the region | |
//!
//! # Requests that are made twice
//!
//! A deadline may pass in the middle of a request, and then the client does not know how far the server has come. So a client that receives says how much
//! it has received already, and the server keeps a datagram, and bytes of a stream, until the client says that it has them. A client that sends bytes of
//! a stream says where they begin, and the server takes none twice. Only a datagram may be sent twice.
//!
//! A loan ends when the client's deadline passes, or the client ends, and the server is not told: it finds other memory at the same place, and would send
//! that. So the client puts a **stamp**, a number that it has not used before, into the last eight bytes of its region, and says it in the request. A
//! server that has copied a payload, and then still finds the stamp, has copied the client's own bytes.
//!
//! A client may send anything: [`Request::of`] is all that a server needs to believe it.

use core::net::{Ipv4Addr, SocketAddrV4};

use crate::Message;

pub use crate::payload::{Payload, STAMP};
pub use client::{Net, NetError, TcpListener, TcpStream, UdpSocket};

#[path = "net_client.rs"]
mod client;

/// Bytes of a datagram, at most: those that fit into a frame behind the headers.
pub const DATAGRAM: usize = 1472;
/// Sockets of a client for datagrams, at most.
pub const UDP_SOCKETS: usize = 2;
/// Connections of a client, those that it waits for included, at most.
pub const TCP_SOCKETS: usize = 3;

/// The bit of the client's notification for received or lost datagrams, received bytes, and a peer that sends no more.
pub const RECEIVED: u64 = 1;
/// The bit for room to send, and for bytes that the peer has acknowledged.
pub const SENT: u64 = 1 << 1;
/// The bit for a connection that has begun or ended, and for an address that was assigned or lost.
pub const CHANGED: u64 = 1 << 2;

//--- Messages

/// The socket of a client, by its number: those for datagrams come first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketNumber(u8);

impl SocketNumber {
    /// The socket for datagrams with this index.
    #[must_use]
    pub fn udp(index: usize) -> SocketNumber {
        SocketNumber(index as u8)
    }

    /// The connection with this index.
    #[must_use]
    pub fn tcp(index: usize) -> SocketNumber {
        SocketNumber((UDP_SOCKETS + index) as u8)
    }

    /// Its index among the client's sockets for datagrams, if it is one.
    #[must_use]
    pub fn udp_index(self) -> Option<usize> {
        Some(usize::from(self.0)).filter(|index| *index < UDP_SOCKETS)
    }

    /// Its index among the client's connections, if it is one.
    #[must_use]
    pub fn tcp_index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(UDP_SOCKETS).filter(|index| *index < TCP_SOCKETS)
    }

    fn of(word: u64) -> Option<SocketNumber> {
        let number = u8::try_from(word).ok().map(SocketNumber)?;
        (number.udp_index().is_some() || number.tcp_index().is_some()).then_some(number)
    }
}

/// A request of a client, or of the server's bottom half.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Begin anew, without sockets. The notification to signal comes with it.
    Open,
    /// Say the address of the server, and its counts.
    Status,
    /// Open a socket for datagrams to this port, or to any port if it is zero.
    Bind(u16),
    /// Send the payload as a datagram.
    SendTo(SocketNumber, SocketAddrV4, Payload),
    /// Copy the next datagram to the region that is lent, or count those that are missing before it.
    ReceiveFrom {
        /// The socket.
        socket: SocketNumber,
        /// How many datagrams, and gaps between datagrams, the client has received by this socket.
        received: u64,
        /// Bytes of the region that may be written.
        room: usize,
    },
    /// Begin a connection.
    Connect(SocketAddrV4),
    /// Wait for a connection to this port.
    Listen(u16),
    /// Take the connection that has come, and wait for another.
    Accept(SocketNumber),
    /// Queue the payload, which begins at this place of the stream.
    Send(SocketNumber, u64, Payload),
    /// Copy the next bytes of the stream to the region that is lent.
    Receive {
        /// The socket.
        socket: SocketNumber,
        /// How many bytes the client has received of this stream.
        received: u64,
        /// Bytes of the region that may be written.
        room: usize,
    },
    /// Send no more.
    Finish(SocketNumber),
    /// Say the state of a connection.
    State(SocketNumber),
    /// Close a socket.
    Close(SocketNumber),
    /// Serve the device's interrupt.
    Interrupt,
}

impl Request {
    /// The request of `message`, of any origin.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] if it has no meaning.
    pub fn of(message: &Message) -> Result<Request, Refusal> {
        Request::parse(message).ok_or(Refusal::Malformed)
    }

    fn parse(message: &Message) -> Option<Request> {
        let [first, second, third, stamp, ..] = *message;
        let socket = || SocketNumber::of(first >> 8);
        let port = || u16::try_from(second).ok();
        let payload = || Some(Payload { length: usize::try_from(third).ok()?, stamp });
        let room = || usize::try_from(third).ok();
        Some(match first & 0xff {
            1 => Request::Open,
            2 => Request::Status,
            3 => Request::Bind(port()?),
            4 => Request::SendTo(socket()?, peer_of(second)?, payload()?),
            5 => Request::ReceiveFrom { socket: socket()?, received: second, room: room()? },
            6 => Request::Connect(peer_of(second)?),
            7 => Request::Listen(port()?),
            8 => Request::Accept(socket()?),
            9 => Request::Send(socket()?, second, payload()?),
            10 => Request::Receive { socket: socket()?, received: second, room: room()? },
            11 => Request::Finish(socket()?),
            12 => Request::State(socket()?),
            13 => Request::Close(socket()?),
            14 => Request::Interrupt,
            _ => return None,
        })
    }

    /// The message of the request.
    #[must_use]
    pub fn message(&self) -> Message {
        let with =
            |operation: u64, socket: SocketNumber, word: u64| [operation | u64::from(socket.0) << 8, word, 0, 0, 0, 0];
        let lending = |operation, socket, word, length: usize, stamp| {
            let [first, second, ..] = with(operation, socket, word);
            [first, second, length as u64, stamp, 0, 0]
        };
        match *self {
            Request::Open => [1, 0, 0, 0, 0, 0],
            Request::Status => [2, 0, 0, 0, 0, 0],
            Request::Bind(port) => [3, port.into(), 0, 0, 0, 0],
            Request::SendTo(socket, peer, Payload { length, stamp }) => {
                lending(4, socket, word_of_peer(peer), length, stamp)
            }
            Request::ReceiveFrom { socket, received, room } => lending(5, socket, received, room, 0),
            Request::Connect(peer) => [6, word_of_peer(peer), 0, 0, 0, 0],
            Request::Listen(port) => [7, port.into(), 0, 0, 0, 0],
            Request::Accept(socket) => with(8, socket, 0),
            Request::Send(socket, place, Payload { length, stamp }) => lending(9, socket, place, length, stamp),
            Request::Receive { socket, received, room } => lending(10, socket, received, room, 0),
            Request::Finish(socket) => with(11, socket, 0),
            Request::State(socket) => with(12, socket, 0),
            Request::Close(socket) => with(13, socket, 0),
            Request::Interrupt => [14, 0, 0, 0, 0, 0],
        }
    }
}

fn word_of_peer(peer: SocketAddrV4) -> u64 {
    u64::from(peer.ip().to_bits()) | u64::from(peer.port()) << 32
}

fn peer_of(word: u64) -> Option<SocketAddrV4> {
    let port = u16::try_from(word >> 32).ok()?;
    Some(SocketAddrV4::new(Ipv4Addr::from_bits(word as u32), port))
}

/// A reason of a server to refuse a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Refusal {
    /// The request has no meaning; or a reply has none.
    Malformed = 1,
    /// The client has not opened the network in this life of the server.
    NotOpen = 2,
    /// The server has no room for one more client.
    TooManyClients = 3,
    /// The client has [`UDP_SOCKETS`] sockets for datagrams, or [`TCP_SOCKETS`] connections.
    TooManySockets = 4,
    /// The client has no such socket.
    NoSocket = 5,
    /// Another socket has this port.
    PortTaken = 6,
    /// The server has no address yet.
    NoAddress = 7,
    /// Nothing can be sent to this address or port.
    NoPeer = 8,
    /// The datagram is longer than [`DATAGRAM`] bytes.
    TooLong = 9,
    /// No region is lent with the request, one that cannot be written, or one without the stamp; or the payload does not fit before its last [`STAMP`]
    /// bytes.
    NotLent = 10,
    /// The socket's queue of datagrams to send is full, or that of bytes.
    QueueFull = 11,
    /// Nothing was received, or no connection has come.
    Empty = 12,
    /// Datagrams are missing here, as many as the reply says.
    Lost = 13,
    /// The peer has sent all that it had.
    Finished = 14,
    /// There is no connection, or no more.
    Closed = 15,
    /// The device gave an answer that makes no sense, and is switched off.
    Dead = 16,
}

impl Refusal {
    const ALL: [Refusal; 16] = [
        Refusal::Malformed,
        Refusal::NotOpen,
        Refusal::TooManyClients,
        Refusal::TooManySockets,
        Refusal::NoSocket,
        Refusal::PortTaken,
        Refusal::NoAddress,
        Refusal::NoPeer,
        Refusal::TooLong,
        Refusal::NotLent,
        Refusal::QueueFull,
        Refusal::Empty,
        Refusal::Lost,
        Refusal::Finished,
        Refusal::Closed,
        Refusal::Dead,
    ];

    fn of_code(code: u64) -> Refusal {
        Refusal::ALL.into_iter().find(|refusal| *refusal as u64 == code).unwrap_or(Refusal::Malformed)
    }
}

/// The network, and counts of this life of the server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Status {
    /// The server's address, if it has one.
    pub address: Option<Ipv4Addr>,
    /// Frames that the server has taken from the device.
    pub received: u64,
    /// Frames that the server has given to the device.
    pub sent: u64,
    /// Answers to received frames that were not sent, because the device had no room for them.
    pub unanswered: u64,
    /// Datagrams that found the queues of their sockets full, of all clients.
    pub lost: u64,
}

impl Status {
    /// The reply with this status.
    #[must_use]
    pub fn reply(&self) -> Message {
        let address = self.address.map_or(0, |address| u64::from(address.to_bits()) | 1 << 32);
        [0, address, self.received, self.sent, self.unanswered, self.lost]
    }

    fn of(reply: &Message) -> Status {
        let [_, address, received, sent, unanswered, lost] = *reply;
        let address = (address >> 32 != 0).then(|| Ipv4Addr::from_bits(address as u32));
        Status { address, received, sent, unanswered, lost }
    }
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Phase {
    /// It waits for a peer, or for the peer's answer.
    Begins = 0,
    /// Both ends can send, or the peer has sent all and this end can still send.
    Open = 1,
    /// This end has finished. Bytes may be under way.
    Ends = 2,
    /// It is over.
    Closed = 3,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// Its phase.
    pub phase: Phase,
    /// Bytes that the peer has not acknowledged.
    pub to_send: u64,
    /// Received bytes that wait.
    pub received: u64,
}

impl State {
    /// The reply with this state.
    #[must_use]
    pub fn reply(&self) -> Message {
        [0, self.phase as u64, self.to_send, self.received, 0, 0]
    }

    fn of(reply: &Message) -> Option<State> {
        let [_, phase, to_send, received, ..] = *reply;
        let phase = match phase {
            0 => Phase::Begins,
            1 => Phase::Open,
            2 => Phase::Ends,
            3 => Phase::Closed,
            _ => return None,
        };
        Some(State { phase, to_send, received })
    }
}

/// The reply with a socket, and its port.
#[must_use]
pub fn opened(socket: SocketNumber, port: u16) -> Message {
    [0, socket.0.into(), port.into(), 0, 0, 0]
}

/// The reply to a client that takes a connection: the socket that waits for the next one, and the peer.
#[must_use]
pub fn accepted(next: SocketNumber, peer: SocketAddrV4) -> Message {
    [0, next.0.into(), word_of_peer(peer), 0, 0, 0]
}

/// The reply with a datagram: its bytes are in the region, as far as there was room.
#[must_use]
pub fn datagram(length: usize, peer: SocketAddrV4) -> Message {
    [0, length as u64, word_of_peer(peer), 0, 0, 0]
}

/// The reply with the length of received bytes, or with the place of the stream up to which the server has them.
#[must_use]
pub fn length(length: u64) -> Message {
    [0, length, 0, 0, 0, 0]
}

/// The reply to a client that has lost datagrams.
#[must_use]
pub fn lost(datagrams: u64) -> Message {
    [Refusal::Lost as u64, datagrams, 0, 0, 0, 0]
}

/// The reply to a refused request.
#[must_use]
pub fn refusal(refusal: Refusal) -> Message {
    [refusal as u64, 0, 0, 0, 0, 0]
}

#[cfg(feature = "embedded-nal")]
#[path = "net_stack.rs"]
mod stack;
#[cfg(feature = "embedded-nal")]
pub use stack::TcpSocket;

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
