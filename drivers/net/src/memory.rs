//! Buffers of all sockets. Each client has its own, from the beginning: no client can take the memory of another.

use core::net::SocketAddrV4;

use fusee::net::{DATAGRAM, TCP_SOCKETS, UDP_SOCKETS};
use smoltcp::socket::udp;
use smoltcp::storage::PacketMetadata;

use crate::link::FRAME;

/// Clients of a server, at most.
pub const CLIENTS: usize = 8;
/// Sockets of all clients, and the one by which the server gets its address.
pub const SOCKETS: usize = CLIENTS * (UDP_SOCKETS + TCP_SOCKETS) + 1;
/// Received datagrams that are kept for a socket, if they are short.
pub const TO_RECEIVE: usize = 16;
/// Datagrams of a socket that wait to be sent, if they are short.
pub const TO_SEND: usize = 8;
/// Bytes of datagrams that a socket's queues have room for, each.
pub const QUEUE: usize = 6 * DATAGRAM;
/// Bytes of a stream that a connection has room for, in each direction.
pub const STREAM: usize = 8192;

/// A received datagram: its sender, and how many are missing before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrived {
    /// The sender.
    pub from: SocketAddrV4,
    /// Datagrams that are missing before this one.
    pub missing: u64,
}

/// Buffers of a socket for datagrams.
pub struct ForDatagrams {
    /// The datagram that has just come.
    pub(crate) latest: [u8; DATAGRAM],
    pub(crate) latest_mark: [udp::PacketMetadata; 1],
    pub(crate) to_send: [u8; QUEUE],
    pub(crate) to_send_marks: [udp::PacketMetadata; TO_SEND],
    pub(crate) arrived: [u8; QUEUE],
    pub(crate) arrived_marks: [PacketMetadata<Arrived>; TO_RECEIVE],
}

/// Buffers of a connection.
pub struct ForStream {
    pub(crate) received: [u8; STREAM],
    pub(crate) to_send: [u8; STREAM],
}

/// Buffers of a server.
pub struct Memory {
    pub(crate) datagrams: [[ForDatagrams; UDP_SOCKETS]; CLIENTS],
    pub(crate) streams: [[ForStream; TCP_SOCKETS]; CLIENTS],
    pub(crate) looked_at: [u8; FRAME],
    pub(crate) made: [u8; FRAME],
    pub(crate) copied: [u8; STREAM],
}

impl Memory {
    /// Empty buffers.
    pub const EMPTY: Memory = Memory {
        datagrams: [const {
            [const {
                ForDatagrams {
                    latest: [0; DATAGRAM],
                    latest_mark: [udp::PacketMetadata::EMPTY],
                    to_send: [0; QUEUE],
                    to_send_marks: [udp::PacketMetadata::EMPTY; TO_SEND],
                    arrived: [0; QUEUE],
                    arrived_marks: [PacketMetadata::EMPTY; TO_RECEIVE],
                }
            }; UDP_SOCKETS]
        }; CLIENTS],
        streams: [const { [const { ForStream { received: [0; STREAM], to_send: [0; STREAM] } }; TCP_SOCKETS] };
            CLIENTS],
        looked_at: [0; FRAME],
        made: [0; FRAME],
        copied: [0; STREAM],
    };
}
