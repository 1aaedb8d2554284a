//! The host as a peer of a system: bytes that the host's own sockets send, and get back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fusee_host::echo::{Peer, Ports};

/// The longest pause between two bytes: for a system that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a datagram, at most.
const DATAGRAM: usize = 1472;

/// The host's own sockets as a peer that sends so many bytes by datagrams, one after the other, and then as many by a connection.
#[must_use]
pub fn host(bytes: usize) -> Peer {
    Peer { bytes, exchange }
}

/// Sends the bytes, and compares those that come back.
fn exchange(ports: Ports, bytes: usize) -> Result<()> {
    datagrams(ports.udp, bytes).context("datagrams")?;
    connection(ports.tcp, bytes).context("a connection")
}

/// Random bytes (Marsaglia 2003, xorshift), with a last part of any length.
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}

fn datagrams(port: u16, bytes: usize) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (all, mut buffer) = (random(bytes), [0; DATAGRAM + 1]);
    let (mut rest, mut number) = (&all[..], 0);
    while !rest.is_empty() {
        // Lengths up to the longest one, in no order.
        let (sent, others) = rest.split_at(rest.len().min(1 + number * 397 % DATAGRAM));
        socket.send(sent)?;
        let received = socket.recv(&mut buffer).with_context(|| format!("datagram {number} does not come back"))?;
        ensure!(buffer[..received] == *sent, "datagram {number} of {} bytes comes back as others", sent.len());
        (rest, number) = (others, number + 1);
    }
    Ok(())
}

fn connection(port: u16, bytes: usize) -> Result<()> {
    let mut to = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.set_write_timeout(Some(PATIENCE))?;
    let mut from = to.try_clone()?;
    let all = random(bytes);
    let received = std::thread::scope(|scope| -> Result<Vec<u8>> {
        let sends = scope.spawn(|| to.write_all(&all));
        let mut received = vec![0; bytes];
        from.read_exact(&mut received).context("not all bytes come back")?;
        sends.join().ok().context("the sender panicked")??;
        Ok(received)
    })?;
    let differs = received.iter().zip(&all).position(|(received, sent)| received != sent);
    ensure!(differs.is_none(), "byte {differs:?} comes back as another");
    // By this end the system knows that nothing more comes.
    from.shutdown(Shutdown::Write)?;
    ensure!(from.read(&mut [0])? == 0, "more bytes come back than were sent");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A peer that sends all back, and changes the byte at `wrong`, if it is not too far.
    fn exchanged(wrong: usize) -> Result<()> {
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let ports = Ports { tcp: tcp.local_addr()?.port(), udp: udp.local_addr()?.port() };
        udp.set_read_timeout(Some(PATIENCE))?;
        std::thread::scope(|scope| {
            scope.spawn(move || -> Result<()> {
                let (mut buffer, mut bytes) = ([0; 2048], 0);
                while bytes < 5000 {
                    let (length, from) = udp.recv_from(&mut buffer)?;
                    udp.send_to(&buffer[..length], from)?;
                    bytes += length;
                }
                let (mut stream, _) = tcp.accept()?;
                let mut place = 0;
                while let length @ 1.. = stream.read(&mut buffer)? {
                    if let Some(byte) = wrong.checked_sub(place).and_then(|at| buffer[..length].get_mut(at)) {
                        *byte ^= 1;
                    }
                    stream.write_all(&buffer[..length])?;
                    place += length;
                }
                Ok(())
            });
            exchange(ports, 5000)
        })
    }

    #[test]
    fn bytes_that_come_back_as_others_are_found() {
        exchanged(usize::MAX).unwrap();
        assert!(format!("{:#}", exchanged(4999).unwrap_err()).contains("4999"));
    }
}
