//! A stranger in a network, for tests: it sends frames of 60 bytes, the shortest ones, as fast as its device takes them, and receives none.
//!
//! Handles: region "net" (registers), region "memory" (read, write, physical), of which it has the only handle, with 276 KiB. Parameters: "hardware" and "peer",
//! the hardware address and the address of the server that is flooded, as numbers; "from", its own address; "port", which its datagrams go to.
//!
//! With a region "page" (read, write) it sends a datagram to the port each time that another task has counted one more there (at offset 8), and until then
//! writes the board's counter (at offset 0), over and over.
//!
//! Half of the frames of a flood are datagrams to that port, and the others datagrams to ports of no socket, questions for the server's hardware address, and
//! bytes that mean nothing, in turn.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use core::net::Ipv4Addr;

use fusee::{Environment, SharedBytes, counter, environment};
use fusee_driver::virtio::{Packets, QueueError};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};
use virtio_drivers::transport::DeviceType;

fusee::entry!(main);

const FRAME: usize = 60;
const PAYLOAD: usize = FRAME - ETHERNET - IP - UDP;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;

fn parameter(environment: &Environment, name: &str) -> u64 {
    environment.parameter(name).unwrap_or_else(|| panic!("the manifest gives no parameter `{name}`"))
}

struct Stranger {
    hardware: EthernetAddress,
    peer: Ipv4Addr,
    from: Ipv4Addr,
}

impl Stranger {
    fn frame(&self, ethertype: EthernetProtocol) -> [u8; FRAME] {
        let mut frame = [0; FRAME];
        // An address of no device.
        let src_addr = EthernetAddress([2, 0, 0, 0, 0, 0x66]);
        EthernetRepr { src_addr, dst_addr: self.hardware, ethertype }
            .emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        frame
    }

    fn datagram(&self, dst_port: u16) -> [u8; FRAME] {
        let mut frame = self.frame(EthernetProtocol::Ipv4);
        let checksums = ChecksumCapabilities::default();
        let (src_addr, dst_addr) = (self.from, self.peer);
        let ip =
            Ipv4Repr { src_addr, dst_addr, next_header: IpProtocol::Udp, payload_len: UDP + PAYLOAD, hop_limit: 64 };
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut frame[ETHERNET..]), &checksums);
        let udp = UdpRepr { src_port: 4001, dst_port };
        let mut packet = UdpPacket::new_unchecked(&mut frame[ETHERNET + IP..]);
        let (from, to) = (IpAddress::Ipv4(src_addr), IpAddress::Ipv4(dst_addr));
        udp.emit(&mut packet, &from, &to, PAYLOAD, |payload| payload.fill(0xff), &checksums);
        frame
    }

    fn question(&self) -> [u8; FRAME] {
        let mut frame = self.frame(EthernetProtocol::Arp);
        ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: EthernetAddress([2, 0, 0, 0, 0, 0x66]),
            source_protocol_addr: self.from,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: self.peer,
        }
        .emit(&mut ArpPacket::new_unchecked(&mut frame[ETHERNET..]));
        frame
    }
}

fn main() {
    let environment = environment();
    let address = |name| Ipv4Addr::from_bits(parameter(&environment, name) as u32);
    let hardware = parameter(&environment, "hardware").to_be_bytes();
    let hardware = EthernetAddress(core::array::from_fn(|byte| hardware[byte + 2]));
    let stranger = Stranger { hardware, peer: address("peer"), from: address("from") };
    let port = parameter(&environment, "port") as u16;
    let (to_somebody, to_nobody) = (stranger.datagram(port), stranger.datagram(9));
    let nonsense = stranger.frame(EthernetProtocol::Unknown(0x0101));
    let frames = [to_somebody, to_nobody, to_somebody, stranger.question(), to_somebody, nonsense];
    let (registers, memory) = (environment.expect("net"), environment.expect("memory"));
    let packets = Packets::<64>::open(&registers, &memory, DeviceType::Network, 0);
    let mut packets =
        packets.expect("the region `net` holds a virtio network device, and `memory` is for this task alone");
    if let Ok(page) = environment.region("page") {
        tick(&mut packets, &to_somebody, page.shared());
    }
    for frame in frames.iter().cycle() {
        match packets.send(frame) {
            Ok(()) => {}
            // The device has not taken the earlier ones yet.
            Err(QueueError::Busy) => packets.tell(),
            Err(error) => panic!("the device does not send: {error:?}"),
        }
    }
}

fn tick(packets: &mut Packets<64>, frame: &[u8], page: SharedBytes) -> ! {
    let mut sent = 0;
    loop {
        if page.read_u64(8) != sent {
            sent = page.read_u64(8);
            packets.send(frame).expect("the device has room for one frame");
            packets.tell();
        }
        page.write_u64(0, counter());
    }
}
