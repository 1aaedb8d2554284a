//! The network by the traits of the crate `embedded-nal`. They do not wait for any deadline.

use core::net::{SocketAddr, SocketAddrV4};

use embedded_nal::{TcpClientStack, TcpError, TcpErrorKind, TcpFullStack, UdpClientStack, UdpFullStack};
use nb::Error::{Other, WouldBlock};

use super::{Net, NetError, Phase, Refusal, TcpListener, TcpStream, UdpSocket};

impl TcpError for NetError {
    fn kind(&self) -> TcpErrorKind {
        match self {
            NetError::Closed | NetError::Restarted => TcpErrorKind::PipeClosed,
            _ => TcpErrorKind::Other,
        }
    }
}

/// A connection, or a port for connections, or neither yet.
#[derive(Debug, Default)]
pub enum TcpSocket {
    /// Neither.
    #[default]
    Unused,
    /// A port that is not listened at yet.
    Bound(u16),
    /// A port for connections.
    Listener(TcpListener),
    /// A connection that begins, or is open.
    Stream(TcpStream),
}

fn v4(address: SocketAddr) -> Result<SocketAddrV4, NetError> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => Err(Refusal::NoPeer.into()),
    }
}

fn or_block<T>(result: Result<Option<T>, NetError>) -> nb::Result<T, NetError> {
    result.map_err(Other)?.ok_or(WouldBlock)
}

impl TcpSocket {
    fn stream(&mut self) -> Result<&mut TcpStream, NetError> {
        match self {
            TcpSocket::Stream(stream) => Ok(stream),
            _ => Err(NetError::Closed),
        }
    }
}

impl UdpClientStack for Net {
    type UdpSocket = Option<UdpSocket>;
    type Error = NetError;

    fn socket(&mut self) -> Result<Option<UdpSocket>, NetError> {
        Ok(None)
    }

    fn connect(&mut self, socket: &mut Option<UdpSocket>, remote: SocketAddr) -> Result<(), NetError> {
        let peer = v4(remote)?;
        if socket.is_none() {
            *socket = Some(Net::bind(self, 0)?);
        }
        if let Some(socket) = socket {
            socket.peer = Some(peer);
        }
        Ok(())
    }

    fn send(&mut self, socket: &mut Option<UdpSocket>, buffer: &[u8]) -> nb::Result<(), NetError> {
        let peer = socket.as_ref().and_then(|socket| socket.peer).ok_or(Other(Refusal::NoPeer.into()))?;
        UdpFullStack::send_to(self, socket, SocketAddr::V4(peer), buffer)
    }

    fn receive(
        &mut self,
        socket: &mut Option<UdpSocket>,
        buffer: &mut [u8],
    ) -> nb::Result<(usize, SocketAddr), NetError> {
        let socket = socket.as_mut().ok_or(Other(Refusal::NoSocket.into()))?;
        let (length, peer) = or_block(self.try_receive_from(socket, buffer))?;
        Ok((length.min(buffer.len()), SocketAddr::V4(peer)))
    }

    fn close(&mut self, socket: Option<UdpSocket>) -> Result<(), NetError> {
        socket.map_or(Ok(()), |socket| Net::close(self, socket))
    }
}

impl UdpFullStack for Net {
    fn bind(&mut self, socket: &mut Option<UdpSocket>, local_port: u16) -> Result<(), NetError> {
        if let Some(bound) = socket.take() {
            Net::close(self, bound)?;
        }
        *socket = Some(Net::bind(self, local_port)?);
        Ok(())
    }

    fn send_to(
        &mut self,
        socket: &mut Option<UdpSocket>,
        remote: SocketAddr,
        buffer: &[u8],
    ) -> nb::Result<(), NetError> {
        let socket = socket.as_ref().ok_or(Other(Refusal::NoSocket.into()))?;
        match Net::send_to(self, socket, v4(remote).map_err(Other)?, buffer) {
            Ok(()) => Ok(()),
            Err(NetError::QueueFull) => Err(WouldBlock),
            Err(error) => Err(Other(error)),
        }
    }
}

impl TcpClientStack for Net {
    type TcpSocket = TcpSocket;
    type Error = NetError;

    fn socket(&mut self) -> Result<TcpSocket, NetError> {
        Ok(TcpSocket::Unused)
    }

    /// Begins the connection the first time, and looks whether it is open the next times.
    fn connect(&mut self, socket: &mut TcpSocket, remote: SocketAddr) -> nb::Result<(), NetError> {
        if matches!(socket, TcpSocket::Unused | TcpSocket::Bound(_)) {
            let peer = v4(remote).map_err(Other)?;
            *socket = TcpSocket::Stream(self.start_connect(peer).map_err(Other)?);
        }
        let stream = socket.stream().map_err(Other)?;
        match self.state(stream).map_err(Other)?.phase {
            Phase::Begins => Err(WouldBlock),
            Phase::Open => Ok(()),
            Phase::Ends | Phase::Closed => Err(Other(NetError::Closed)),
        }
    }

    fn send(&mut self, socket: &mut TcpSocket, buffer: &[u8]) -> nb::Result<usize, NetError> {
        or_block(self.try_send(socket.stream().map_err(Other)?, buffer))
    }

    fn receive(&mut self, socket: &mut TcpSocket, buffer: &mut [u8]) -> nb::Result<usize, NetError> {
        or_block(self.try_receive(socket.stream().map_err(Other)?, buffer))
    }

    fn close(&mut self, socket: TcpSocket) -> Result<(), NetError> {
        match socket {
            TcpSocket::Unused | TcpSocket::Bound(_) => Ok(()),
            TcpSocket::Listener(listener) => self.ignore(listener),
            TcpSocket::Stream(stream) => self.hang_up(stream),
        }
    }
}

impl TcpFullStack for Net {
    fn bind(&mut self, socket: &mut TcpSocket, local_port: u16) -> Result<(), NetError> {
        match socket {
            TcpSocket::Unused | TcpSocket::Bound(_) => *socket = TcpSocket::Bound(local_port),
            TcpSocket::Listener(_) | TcpSocket::Stream(_) => return Err(Refusal::TooManySockets.into()),
        }
        Ok(())
    }

    fn listen(&mut self, socket: &mut TcpSocket) -> Result<(), NetError> {
        let TcpSocket::Bound(port) = *socket else { return Err(Refusal::NoSocket.into()) };
        *socket = TcpSocket::Listener(Net::listen(self, port)?);
        Ok(())
    }

    fn accept(&mut self, socket: &mut TcpSocket) -> nb::Result<(TcpSocket, SocketAddr), NetError> {
        let TcpSocket::Listener(listener) = socket else { return Err(Other(Refusal::NoSocket.into())) };
        let (stream, peer) = or_block(self.try_accept(listener))?;
        Ok((TcpSocket::Stream(stream), SocketAddr::V4(peer)))
    }
}
