//! Datagrams and connections over IPv4: the other side of `drivers/net`. With the feature `embedded-nal`, by the traits of that crate.
//!
//! A client opens the network with a region of its own, and gets sockets by number. Payloads go through the region, which each request lends to the server
//! ([`Endpoint::call_lending`]); all else is in the words of the message. A client that waits does so on a notification that it has given the server, and
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
//! A deadline may pass in the middle of a request, and then the client does not know what the server has done. So a client that receives says how much
//! it has received already, and the server keeps a datagram, and bytes of a stream, until the client says that it has them. A client that sends bytes of
//! a stream says where they begin, and the server takes none twice. Only a datagram may be sent twice.
//!
//! A loan ends when the client's deadline passes, or the client ends, and the server is not told: it finds other memory at the same place, and would send
//! that. So the client puts a **stamp**, a number that it has not used before, into the last eight bytes of its region, and says it in the request. A
//! server that has copied a payload, and then still finds the stamp, has copied the client's own bytes.
//!
//! A client may send anything: [`Request::of`] is all that a server needs to believe it.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};

use crate::{
    CallError, CallLendingError, CallWithError, Endpoint, Instant, Message, Notification, Region, Rights, WaitError,
    now,
};

/// Bytes of a datagram, at most: those that fit into a frame behind the headers.
pub const DATAGRAM: usize = 1472;
/// Sockets of a client for datagrams, at most.
pub const UDP_SOCKETS: usize = 2;
/// Connections of a client, those that it waits for included, at most.
pub const TCP_SOCKETS: usize = 3;
/// Bytes at the end of a region that are for the stamp, and not for payloads.
pub const STAMP: usize = 8;

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

/// A payload at the beginning of the region that is lent with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Payload {
    /// Its bytes.
    pub length: usize,
    /// The number in the last bytes of the region as long as it is lent.
    pub stamp: u64,
}

/// A request of a client, or of the server's bottom half.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Begin anew, without sockets. The notification to signal comes with it.
    Open,
    /// Say what the network is, and what was counted.
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
    /// Say what a connection does.
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

//--- The client

/// A reason for which nothing was sent or received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetError {
    /// The socket's queue of datagrams to send is full.
    QueueFull,
    /// So many datagrams are missing at this place. The next call goes on behind them.
    Lost(u64),
    /// There is no connection, or no more.
    Closed,
    /// The server has begun another life: it has no memory of this client, and its sockets are gone. The client has to open the network again.
    Restarted,
    /// The deadline passed first.
    TimedOut,
    /// The server refused the request for another reason.
    Refused(Refusal),
    /// The server did not answer.
    Call(CallLendingError),
    /// The server was not given the notification.
    Open(CallWithError),
    /// The client would have to wait, and has opened the network without a notification.
    WouldWait,
    /// The client may not wait, or the server's bottom half has ended.
    Wait(WaitError),
}

impl From<Refusal> for NetError {
    fn from(refusal: Refusal) -> NetError {
        match refusal {
            Refusal::QueueFull => NetError::QueueFull,
            Refusal::Closed => NetError::Closed,
            other => NetError::Refused(other),
        }
    }
}

impl From<CallLendingError> for NetError {
    fn from(error: CallLendingError) -> NetError {
        match error {
            CallLendingError::PeerRestarted => NetError::Restarted,
            CallLendingError::TimedOut => NetError::TimedOut,
            error => NetError::Call(error),
        }
    }
}

impl From<CallError> for NetError {
    fn from(error: CallError) -> NetError {
        CallLendingError::from(error).into()
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::QueueFull => f.write_str("the socket's queue of datagrams to send is full"),
            NetError::Lost(datagrams) => write!(f, "{datagrams} datagrams are lost here"),
            NetError::Closed => f.write_str("there is no connection, or no more"),
            NetError::Restarted => f.write_str("the server has begun another life"),
            NetError::TimedOut => f.write_str("the deadline passed first"),
            NetError::Refused(refusal) => write!(f, "the server refused: {refusal:?}"),
            NetError::Call(error) => write!(f, "the server did not answer: {error:?}"),
            NetError::Open(error) => write!(f, "the server was not given the notification: {error:?}"),
            NetError::WouldWait => f.write_str("this task has opened the network without a notification to wait for"),
            NetError::Wait(error) => write!(f, "this task cannot wait for the network: {error:?}"),
        }
    }
}

impl core::error::Error for NetError {}

/// A socket for datagrams.
#[derive(Debug)]
pub struct UdpSocket {
    number: SocketNumber,
    port: u16,
    /// The instant at which its client has opened the network.
    of: Instant,
    /// Datagrams, and gaps between datagrams, that were received.
    received: u64,
    /// The peer of datagrams to which no other is given.
    #[cfg_attr(not(feature = "embedded-nal"), allow(dead_code))]
    peer: Option<SocketAddrV4>,
}

impl UdpSocket {
    /// The port of the socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A connection.
#[derive(Debug)]
pub struct TcpStream {
    number: SocketNumber,
    of: Instant,
    /// Bytes that were received.
    received: u64,
    /// Bytes that the server has taken to send.
    sent: u64,
}

/// A port at which connections come.
#[derive(Debug)]
pub struct TcpListener {
    number: SocketNumber,
    of: Instant,
}

/// A network that this task has opened.
#[derive(Clone, Copy, Debug)]
pub struct Net {
    server: Endpoint,
    memory: Region,
    changed: Option<Notification>,
    /// The instant at which it was opened: sockets of before are gone.
    opened: Instant,
    /// The instant at which calls end that have not come to their ends.
    pub deadline: Instant,
}

impl Net {
    /// Opens the network of `server`, until `deadline`. Payloads go through `memory`, which this task may read, write and lend; its last [`STAMP`] bytes
    /// are for no payload. The server is given a copy of `changed` to signal; without one the client never waits. A task that has opened the network
    /// before begins anew, without sockets. Later calls have no deadline until [`Net::deadline`] is set.
    ///
    /// # Errors
    /// [`NetError`] has the reason.
    pub fn open(
        server: Endpoint,
        memory: Region,
        changed: Option<Notification>,
        deadline: Instant,
    ) -> Result<Net, NetError> {
        let open = Request::Open.message();
        let reply = match &changed {
            None => server.call(open, deadline)?,
            Some(changed) => {
                let answer = server.call_with(open, changed, Rights::SIGNAL, deadline);
                let words = answer.map(|answer| answer.words);
                words.map_err(|error| match error {
                    CallWithError::PeerRestarted => NetError::Restarted,
                    CallWithError::TimedOut => NetError::TimedOut,
                    error => NetError::Open(error),
                })?
            }
        };
        checked(reply)?;
        Ok(Net { server, memory, changed, opened: now().now, deadline: Instant::NEVER })
    }

    /// Reads what the network is, and what was counted.
    ///
    /// # Errors
    /// Those of a call.
    pub fn status(&self) -> Result<Status, NetError> {
        self.ask(Request::Status).map(|reply| Status::of(&reply))
    }

    /// Waits until the server has an address, or until [`Net::deadline`].
    ///
    /// # Errors
    /// Those of a call, and of waiting.
    pub fn address(&self) -> Result<Ipv4Addr, NetError> {
        self.until(|net| net.status().map(|status| status.address))
    }

    //--- Datagrams

    /// Opens a socket for datagrams to `port`, or to any free port if it is zero.
    ///
    /// # Errors
    /// [`NetError::Refused`] if the port is another socket's, or the task has [`UDP_SOCKETS`]. Others are those of a call.
    pub fn bind(&self, port: u16) -> Result<UdpSocket, NetError> {
        let [_, number, port, ..] = self.ask(Request::Bind(port))?;
        let number = SocketNumber::of(number).ok_or(Refusal::Malformed)?;
        Ok(UdpSocket { number, port: port as u16, of: self.opened, received: 0, peer: None })
    }

    /// Queues a datagram with these bytes, up to [`DATAGRAM`].
    ///
    /// # Errors
    /// [`NetError::QueueFull`]: it was not queued. Others are those of a call. After [`NetError::TimedOut`] it may be sent.
    pub fn send_to(&self, socket: &UdpSocket, peer: SocketAddrV4, bytes: &[u8]) -> Result<(), NetError> {
        let number = self.own(socket.number, socket.of)?;
        let payload = self.put(bytes)?;
        self.lend(Request::SendTo(number, peer, payload), Rights::READ).map(drop)
    }

    /// Copies the earliest received datagram to `bytes`, as much of it as there is room for: its length, and its sender. None if there is none.
    ///
    /// # Errors
    /// [`NetError::Lost`] if datagrams are missing before it. Others are those of a call: a datagram is not lost by them.
    pub fn try_receive_from(
        &self,
        socket: &mut UdpSocket,
        bytes: &mut [u8],
    ) -> Result<Option<(usize, SocketAddrV4)>, NetError> {
        let number = self.own(socket.number, socket.of)?;
        let room = bytes.len().min(self.room());
        let request = Request::ReceiveFrom { socket: number, received: socket.received, room };
        match self.lend(request, Rights::READ | Rights::WRITE) {
            Ok([_, length, peer, ..]) => {
                let peer = peer_of(peer).ok_or(Refusal::Malformed)?;
                let length = usize::try_from(length).map_err(|_| Refusal::Malformed)?;
                self.memory.shared().copy_to_slice(0, &mut bytes[..length.min(room)]);
                socket.received += 1;
                Ok(Some((length, peer)))
            }
            Err(NetError::Refused(Refusal::Empty)) => Ok(None),
            Err(error) => {
                socket.received += u64::from(matches!(error, NetError::Lost(_)));
                Err(error)
            }
        }
    }

    /// Copies the earliest received datagram to `bytes`, and waits for one until [`Net::deadline`].
    ///
    /// # Errors
    /// Those of [`Net::try_receive_from`], and of waiting.
    pub fn receive_from(&self, socket: &mut UdpSocket, bytes: &mut [u8]) -> Result<(usize, SocketAddrV4), NetError> {
        self.until(|net| net.try_receive_from(socket, bytes))
    }

    /// Closes the socket. Datagrams that it has queued are not sent any more.
    ///
    /// # Errors
    /// Those of a call.
    pub fn close(&self, socket: UdpSocket) -> Result<(), NetError> {
        self.own(socket.number, socket.of).and_then(|number| self.ask(Request::Close(number))).map(drop)
    }

    //--- Connections

    /// Begins a connection, which is not open yet.
    ///
    /// # Errors
    /// Those of a call.
    pub fn start_connect(&self, peer: SocketAddrV4) -> Result<TcpStream, NetError> {
        let [_, number, ..] = self.ask(Request::Connect(peer))?;
        self.stream(number)
    }

    /// Begins a connection, and waits until it is open, or until [`Net::deadline`].
    ///
    /// # Errors
    /// [`NetError::Closed`] if the peer refuses it. Others are those of a call, and of waiting.
    pub fn connect(&self, peer: SocketAddrV4) -> Result<TcpStream, NetError> {
        let stream = self.start_connect(peer)?;
        let opened = self.until(|net| match net.state(&stream)?.phase {
            Phase::Begins => Ok(None),
            Phase::Open => Ok(Some(())),
            Phase::Ends | Phase::Closed => Err(NetError::Closed),
        });
        match opened {
            Ok(()) => Ok(stream),
            Err(error) => {
                // It may be gone already.
                let _ = self.hang_up(stream);
                Err(error)
            }
        }
    }

    /// Waits for connections to `port`: each takes a socket of this task, and the port one more.
    ///
    /// # Errors
    /// Those of a call.
    pub fn listen(&self, port: u16) -> Result<TcpListener, NetError> {
        let [_, number, ..] = self.ask(Request::Listen(port))?;
        Ok(TcpListener { number: SocketNumber::of(number).ok_or(Refusal::Malformed)?, of: self.opened })
    }

    /// Takes a connection that has come, if one has.
    ///
    /// # Errors
    /// [`NetError::Refused`] with `TooManySockets` if there is no other socket to wait on for the next one. The connection waits then.
    pub fn try_accept(&self, listener: &mut TcpListener) -> Result<Option<(TcpStream, SocketAddrV4)>, NetError> {
        let number = self.own(listener.number, listener.of)?;
        match self.ask(Request::Accept(number)) {
            Ok([_, next, peer, ..]) => {
                let peer = peer_of(peer).ok_or(Refusal::Malformed)?;
                let stream = self.stream(number.0.into())?;
                listener.number = SocketNumber::of(next).ok_or(Refusal::Malformed)?;
                Ok(Some((stream, peer)))
            }
            Err(NetError::Refused(Refusal::Empty)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes a connection, and waits for one until [`Net::deadline`].
    ///
    /// # Errors
    /// Those of [`Net::try_accept`], and of waiting.
    pub fn accept(&self, listener: &mut TcpListener) -> Result<(TcpStream, SocketAddrV4), NetError> {
        self.until(|net| net.try_accept(listener))
    }

    /// Queues as many of `bytes` as there is room for: how many. None if there is no room.
    ///
    /// # Errors
    /// [`NetError::Closed`] if the connection is not open. Others are those of a call: after them, the same bytes may be given again.
    pub fn try_send(&self, stream: &mut TcpStream, bytes: &[u8]) -> Result<Option<usize>, NetError> {
        let number = self.own(stream.number, stream.of)?;
        if bytes.is_empty() {
            return Ok(Some(0));
        }
        let payload = self.put(&bytes[..bytes.len().min(self.room())])?;
        match self.lend(Request::Send(number, stream.sent, payload), Rights::READ) {
            Ok([_, place, ..]) => {
                let taken = place.checked_sub(stream.sent).ok_or(Refusal::Malformed)?;
                stream.sent = place;
                Ok(Some(taken as usize))
            }
            Err(NetError::QueueFull) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Queues all of `bytes`, and waits for room until [`Net::deadline`].
    ///
    /// # Errors
    /// Those of [`Net::try_send`], and of waiting.
    pub fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> Result<(), NetError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.until(|net| net.try_send(stream, rest))?;
            rest = rest.get(taken..).ok_or(Refusal::Malformed)?;
        }
        Ok(())
    }

    /// Waits until the peer has acknowledged all bytes that were sent, or until [`Net::deadline`].
    ///
    /// # Errors
    /// [`NetError::Closed`] if the connection has ended before. Others are those of a call, and of waiting.
    pub fn flush(&self, stream: &TcpStream) -> Result<(), NetError> {
        self.until(|net| match net.state(stream)? {
            State { phase: Phase::Closed, .. } => Err(NetError::Closed),
            State { to_send: 0, .. } => Ok(Some(())),
            _ => Ok(None),
        })
    }

    /// Copies the next received bytes to `bytes`: how many, which is zero at the end of what the peer sends. None if there are none yet.
    ///
    /// # Errors
    /// [`NetError::Closed`] if the connection has ended otherwise. Others are those of a call: no byte is lost by them.
    pub fn try_receive(&self, stream: &mut TcpStream, bytes: &mut [u8]) -> Result<Option<usize>, NetError> {
        let number = self.own(stream.number, stream.of)?;
        let room = bytes.len().min(self.room());
        let request = Request::Receive { socket: number, received: stream.received, room };
        match self.lend(request, Rights::READ | Rights::WRITE) {
            Ok([_, length, ..]) => {
                let length = usize::try_from(length).ok().filter(|length| *length <= room);
                let length = length.ok_or(Refusal::Malformed)?;
                self.memory.shared().copy_to_slice(0, &mut bytes[..length]);
                stream.received += length as u64;
                Ok(Some(length))
            }
            Err(NetError::Refused(Refusal::Empty)) => Ok(None),
            Err(NetError::Refused(Refusal::Finished)) => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Copies the next received bytes to `bytes`, and waits for some until [`Net::deadline`].
    ///
    /// # Errors
    /// Those of [`Net::try_receive`], and of waiting.
    pub fn receive(&self, stream: &mut TcpStream, bytes: &mut [u8]) -> Result<usize, NetError> {
        self.until(|net| net.try_receive(stream, bytes))
    }

    /// Tells the peer that no more is sent. Bytes that are queued go before that.
    ///
    /// # Errors
    /// Those of a call.
    pub fn finish(&self, stream: &TcpStream) -> Result<(), NetError> {
        self.own(stream.number, stream.of).and_then(|number| self.ask(Request::Finish(number))).map(drop)
    }

    /// Reads the state of a connection.
    ///
    /// # Errors
    /// Those of a call.
    pub fn state(&self, stream: &TcpStream) -> Result<State, NetError> {
        let number = self.own(stream.number, stream.of)?;
        State::of(&self.ask(Request::State(number))?).ok_or(Refusal::Malformed.into())
    }

    /// Gives the connection up. Bytes that are queued are still sent; received ones are gone.
    ///
    /// # Errors
    /// Those of a call.
    pub fn hang_up(&self, stream: TcpStream) -> Result<(), NetError> {
        self.own(stream.number, stream.of).and_then(|number| self.ask(Request::Close(number))).map(drop)
    }

    /// Waits for connections no more. One that has come and was not taken ends.
    ///
    /// # Errors
    /// Those of a call.
    pub fn ignore(&self, listener: TcpListener) -> Result<(), NetError> {
        self.own(listener.number, listener.of).and_then(|number| self.ask(Request::Close(number))).map(drop)
    }

    fn stream(&self, number: u64) -> Result<TcpStream, NetError> {
        let number = SocketNumber::of(number).ok_or(Refusal::Malformed)?;
        Ok(TcpStream { number, of: self.opened, received: 0, sent: 0 })
    }

    //--- Requests

    /// The number of a socket, unless it is one of before the network was opened anew.
    fn own(&self, number: SocketNumber, of: Instant) -> Result<SocketNumber, NetError> {
        if of == self.opened { Ok(number) } else { Err(Refusal::NoSocket.into()) }
    }

    /// Bytes of a payload that the region has room for.
    fn room(&self) -> usize {
        self.memory.shared().len().saturating_sub(STAMP)
    }

    /// Puts a payload into the region, and a stamp behind it: the present time, which it never was before.
    fn put(&self, bytes: &[u8]) -> Result<Payload, NetError> {
        let shared = self.memory.shared();
        if bytes.len() > self.room() {
            return Err(Refusal::NotLent.into());
        }
        let stamp = now().now.0;
        shared.copy_from_slice(0, bytes);
        if let Some(last) = shared.len().checked_sub(STAMP) {
            shared.write_u64(last, stamp);
        }
        Ok(Payload { length: bytes.len(), stamp })
    }

    fn ask(&self, request: Request) -> Result<Message, NetError> {
        checked(self.server.call(request.message(), self.deadline)?)
    }

    fn lend(&self, request: Request, rights: Rights) -> Result<Message, NetError> {
        let answer = self.server.call_lending(request.message(), &self.memory, rights, self.deadline)?;
        checked(answer.words)
    }

    /// Asks again after each signal of the server, until there is a result. The first question comes before the first wait, so no signal that another
    /// call has taken is missed.
    fn until<T>(&self, mut ask: impl FnMut(&Net) -> Result<Option<T>, NetError>) -> Result<T, NetError> {
        loop {
            if let Some(result) = ask(self)? {
                return Ok(result);
            }
            let changed = self.changed.ok_or(NetError::WouldWait)?;
            match changed.wait(self.deadline) {
                Ok(_) => {}
                Err(WaitError::TimedOut) => return Err(NetError::TimedOut),
                // The bottom half ends when the server has. A call has the reason, if the server is the reason.
                Err(error) => return ask(self)?.ok_or(NetError::Wait(error)),
            }
        }
    }
}

/// The reply, unless it is a refusal.
fn checked(reply: Message) -> Result<Message, NetError> {
    match reply[0] {
        0 => Ok(reply),
        code => Err(match Refusal::of_code(code) {
            Refusal::Lost => NetError::Lost(reply[1]),
            refusal => refusal.into(),
        }),
    }
}

#[cfg(feature = "embedded-nal")]
#[path = "net_stack.rs"]
mod stack;
#[cfg(feature = "embedded-nal")]
pub use stack::TcpSocket;

#[cfg(test)]
#[path = "net_tests.rs"]
mod tests;
