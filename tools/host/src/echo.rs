//! Peers of a system in QEMU's network: by ports of the host, which QEMU forwards to the system. They are QEMU's choice, so runs beside each other have
//! others.

use anyhow::Result;

/// The line on the console by which a system says that it sends back the bytes that come.
pub const LISTENS: &str = "echo";

/// A peer that sends bytes and gets them back.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The number of bytes.
    pub bytes: usize,
    /// The function that exchanges as many by these ports.
    pub exchange: fn(Ports, usize) -> Result<()>,
}

/// The ports of the host that QEMU forwards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ports {
    /// The port for connections.
    pub tcp: u16,
    /// The port for datagrams.
    pub udp: u16,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_monitors_answer() {
        let answer = "Hub -1 (uplink0):\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\n  \
                      TCP[HOST_FORWARD]   8       127.0.0.1 34585       10.0.2.15     7     0     0\n  \
                      UDP[HOST_FORWARD]   3       127.0.0.1 51217       10.0.2.15     7     0     0\n";
        assert_eq!(Ports::of(answer), Some(Ports { tcp: 34585, udp: 51217 }));
        assert_eq!(Ports::of("Hub -1 (uplink0):\n"), None);
    }
}
