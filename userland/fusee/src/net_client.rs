//! The client of a network: sockets, and the requests behind them.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};

use super::{Payload, Phase, Refusal, Request, SocketNumber, State, Status, peer_of};
use crate::{
    CallError, CallLendingError, CallWithError, Endpoint, Instant, Message, Notification, Region, Rights, WaitError,
    now,
};

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
    /// The server did not open the network: it did not answer, or was not given the notification.
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

impl From<CallWithError> for NetError {
    fn from(error: CallWithError) -> NetError {
        match error {
            CallWithError::PeerRestarted => NetError::Restarted,
            CallWithError::TimedOut => NetError::TimedOut,
            error => NetError::Open(error),
        }
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
            NetError::Open(error) => write!(f, "the server did not open the network: {error:?}"),
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
    #[cfg(feature = "embedded-nal")]
    pub(super) peer: Option<SocketAddrV4>,
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
    /// Opens the network of `server`, until `deadline`. Payloads go through `memory`, which this task may read, write and lend; its last [`STAMP`](super::STAMP) bytes
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
        checked(server.open(Request::Open.message(), changed.as_ref(), deadline)?)?;
        Ok(Net { server, memory, changed, opened: now().now, deadline: Instant::NEVER })
    }

    /// Reads the address of the server, and its counts.
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
    /// [`NetError::Refused`] if the port is another socket's, or the task has [`UDP_SOCKETS`](super::UDP_SOCKETS). Others are those of a call.
    pub fn bind(&self, port: u16) -> Result<UdpSocket, NetError> {
        let [_, number, port, ..] = self.ask(Request::Bind(port))?;
        let number = SocketNumber::of(number).ok_or(Refusal::Malformed)?;
        Ok(UdpSocket {
            number,
            port: port as u16,
            of: self.opened,
            received: 0,
            #[cfg(feature = "embedded-nal")]
            peer: None,
        })
    }

    /// Queues a datagram with these bytes, up to [`DATAGRAM`](super::DATAGRAM).
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

    /// Begins a connection to `peer`. It is not open yet when this returns: [`Net::state`] has its phase.
    ///
    /// # Errors
    /// [`NetError`] if the server did not answer until [`Net::deadline`], or refused the request.
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
    /// Those of [`Net::try_send`]; [`NetError::TimedOut`], [`NetError::WouldWait`] or [`NetError::Wait`] if room did not come. After an
    /// error some of the first bytes may be queued.
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
        Payload::room(&self.memory)
    }

    /// Puts a payload into the region.
    fn put(&self, bytes: &[u8]) -> Result<Payload, NetError> {
        if bytes.len() > self.room() {
            return Err(Refusal::NotLent.into());
        }
        Ok(Payload::put(&self.memory, bytes))
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
pub(super) fn checked(reply: Message) -> Result<Message, NetError> {
    match reply[0] {
        0 => Ok(reply),
        code => Err(match Refusal::of_code(code) {
            Refusal::Lost => NetError::Lost(reply[1]),
            refusal => refusal.into(),
        }),
    }
}
