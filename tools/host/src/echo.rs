//! The host as a peer of a system: bytes that the host's own sockets send, and get back.
//!
//! A system with QEMU's network is reached by ports of the host, which QEMU forwards. They are QEMU's choice, so runs beside each other have others.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The line on the console by which a system says that it sends back what comes.
pub const LISTENS: &str = "echo";

/// The longest pause between two bytes: for a system that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a datagram, at most.
const DATAGRAM: usize = 1472;

/// The ports of the host that QEMU forwards: of connections and of datagrams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ports {
    tcp: u16,
    udp: u16,
}

impl Ports {
    /// The ports in the answer of QEMU's monitor to `info usernet`.
    #[must_use]
    pub fn of(answer: &str) -> Option<Ports> {
        let port = |kind: &str| {
            let line = answer.lines().find(|line| line.trim_start().starts_with(kind))?;
            line.split_whitespace().nth(3)?.parse().ok()
        };
        Some(Ports { tcp: port("TCP[HOST_FORWARD]")?, udp: port("UDP[HOST_FORWARD]")? })
    }

    /// Sends so many bytes by datagrams, one after the other, and then as many by a connection, and compares what comes back.
    ///
    /// # Errors
    /// Something else comes back, or nothing.
    pub fn exchange(self, bytes: usize) -> Result<()> {
        datagrams(self.udp, bytes).context("datagrams")?;
        connection(self.tcp, bytes).context("a connection")
    }
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

    #[test]
    fn ports_are_those_of_the_monitors_answer() {
        let answer = "Hub -1 (uplink0):\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\n  \
                      TCP[HOST_FORWARD]   8       127.0.0.1 34585       10.0.2.15     7     0     0\n  \
                      UDP[HOST_FORWARD]   3       127.0.0.1 51217       10.0.2.15     7     0     0\n";
        assert_eq!(Ports::of(answer), Some(Ports { tcp: 34585, udp: 51217 }));
        assert_eq!(Ports::of("Hub -1 (uplink0):\n"), None);
    }

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
            ports.exchange(5000)
        })
    }

    #[test]
    fn bytes_that_come_back_as_others_are_found() {
        exchanged(usize::MAX).unwrap();
        assert!(format!("{:#}", exchanged(4999).unwrap_err()).contains("4999"));
    }
}
