//! A virtio device that receives and sends packets: a queue of buffers that it fills, and a queue of those that it empties.
//!
//! A packet is copied between a buffer and memory of the driver: a device that is wrong could change its buffers while they are looked at.
//!
//! # Invariants
//!
//! 1. A buffer is either the device's, and then its number stands in `of_token`, or ours, and then its bit is set in `free`.
//! 2. A reference to a buffer exists only while it is ours, except within a call of the queue, which keeps addresses only.

use core::ptr::NonNull;

use fusee::Region;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::{Memory, OpenError, QueueError, VERSION_1, attach, configuration, go, negotiate, reset};
use crate::ClaimError;

/// Bytes of a buffer: header and packet.
const BUFFER: usize = 2048;
/// Bytes before each packet, of zeros in those that are sent.
const HEADER: usize = 12;

/// A device that receives packets by its first queue and sends them by its second one. Each queue has `BUFFERS` buffers, a power of two up to 64.
pub struct Packets<const BUFFERS: usize> {
    transport: MmioTransport<'static>,
    features: u64,
    received: Buffers<BUFFERS>,
    to_send: Buffers<BUFFERS>,
    is_lost: bool,
}

/// One queue, and its buffers.
struct Buffers<const COUNT: usize> {
    queue: VirtQueue<Memory, COUNT>,
    number: u16,
    first: NonNull<u8>,
    /// The buffer that the device has by this token.
    of_token: [Option<u8>; COUNT],
    /// Bit `i`: buffer `i` is ours.
    free: u64,
    /// The device was not told of the latest buffers.
    is_untold: bool,
}

impl<const BUFFERS: usize> Packets<BUFFERS> {
    /// Starts the device with registers at the beginning of `registers`, if it is one of this type, with as many of the `wanted` features as it has.
    /// Queues and buffers are in `memory`: five pages, and one for each buffer.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used.
    pub fn open(
        registers: &Region,
        memory: &Region,
        device_type: DeviceType,
        wanted: u64,
    ) -> Result<Packets<BUFFERS>, OpenError> {
        const { assert!(BUFFERS.is_power_of_two() && BUFFERS <= u64::BITS as usize) };
        let mut transport = attach(registers, memory, device_type)?;
        reset(&mut transport)?;
        let features = negotiate(&mut transport, wanted)?;
        // An older device has another header.
        if features & VERSION_1 == 0 {
            return Err(OpenError::Refused);
        }
        let mut queue = |number| VirtQueue::new(&mut transport, number, false, false).map_err(|_| OpenError::Refused);
        let (receive, send) = (queue(0)?, queue(1)?);
        let (_, first, capacity) = Memory::rest().ok_or(OpenError::Memory(ClaimError::TooSmall))?;
        let bytes = BUFFERS * BUFFER;
        if capacity < 2 * bytes {
            return Err(OpenError::Memory(ClaimError::TooSmall));
        }
        let second = NonNull::new(first.as_ptr().wrapping_add(bytes)).ok_or(OpenError::NoAddress)?;
        let mut packets = Packets {
            features,
            received: Buffers::new(receive, 0, first),
            to_send: Buffers::new(send, 1, second),
            transport,
            is_lost: false,
        };
        while let Some(buffer) = packets.received.take_free() {
            packets.received.add(buffer, BUFFER, Direction::Fill).map_err(|_| OpenError::Refused)?;
        }
        go(&mut packets.transport);
        packets.tell();
        Ok(packets)
    }

    /// The features that device and driver agree on.
    #[must_use]
    pub fn features(&self) -> u64 {
        self.features
    }

    /// The number of 64 bits at `offset` of the device's own registers, as it is at one instant.
    ///
    /// # Errors
    /// [`QueueError::Length`] if it is not there.
    pub fn configuration(&self, offset: usize) -> Result<u64, QueueError> {
        configuration(&self.transport, offset)
    }

    /// Silences the device's interrupt: to be done before its line is acknowledged, and before packets are looked for.
    pub fn silence(&mut self) {
        let _ = self.transport.ack_interrupt();
    }

    /// Whether a received packet waits.
    #[must_use]
    pub fn has_received(&self) -> bool {
        !self.is_lost && self.received.queue.can_pop()
    }

    /// Copies the earliest received packet to `packet`, as much of it as there is room for; its whole length. The device has the buffer again then.
    ///
    /// # Errors
    /// [`QueueError::Lost`]: the device was or is switched off, because it gave an answer that makes no sense.
    pub fn receive(&mut self, packet: &mut [u8]) -> Result<Option<usize>, QueueError> {
        if self.is_lost {
            return Err(QueueError::Lost);
        }
        let result = self.received.copy_next(packet);
        if result.is_err() {
            self.switch_off();
        }
        result
    }

    /// How many packets can be queued to send. Takes the buffers of sent packets back.
    ///
    /// # Errors
    /// As [`Packets::receive`].
    pub fn room(&mut self) -> Result<usize, QueueError> {
        if self.is_lost {
            return Err(QueueError::Lost);
        }
        loop {
            match self.to_send.pop(Direction::Empty) {
                Ok(Some((buffer, _))) => self.to_send.free |= 1 << buffer,
                Ok(None) => return Ok(self.to_send.free.count_ones() as usize),
                Err(error) => {
                    self.switch_off();
                    return Err(error);
                }
            }
        }
    }

    /// Queues a packet to send, at the next [`Packets::tell`] at the latest.
    ///
    /// # Errors
    /// [`QueueError::Busy`] if there is no room for one more, [`QueueError::Length`] for a packet that fits into no buffer, and as
    /// [`Packets::receive`].
    pub fn send(&mut self, packet: &[u8]) -> Result<(), QueueError> {
        if packet.is_empty() || packet.len() > BUFFER - HEADER {
            return Err(QueueError::Length);
        }
        self.room()?;
        let buffer = self.to_send.take_free().ok_or(QueueError::Busy)?;
        let bytes = self.to_send.bytes(buffer);
        bytes[..HEADER].fill(0);
        bytes[HEADER..HEADER + packet.len()].copy_from_slice(packet);
        self.to_send.add(buffer, HEADER + packet.len(), Direction::Empty)
    }

    /// Tells the device of all buffers that it was given since it was told last.
    pub fn tell(&mut self) {
        if self.is_lost {
            return;
        }
        for (is_untold, number, wants) in [
            (&mut self.received.is_untold, self.received.number, self.received.queue.should_notify()),
            (&mut self.to_send.is_untold, self.to_send.number, self.to_send.queue.should_notify()),
        ] {
            if core::mem::take(is_untold) && wants {
                self.transport.notify(number);
            }
        }
    }

    /// Resets the device, after which it reaches no memory, and sends and receives nothing.
    pub fn switch_off(&mut self) {
        self.transport.set_status(DeviceStatus::empty());
        self.is_lost = true;
    }
}

/// The use that the device makes of a buffer.
#[derive(Clone, Copy)]
enum Direction {
    Fill,
    Empty,
}

impl<const COUNT: usize> Buffers<COUNT> {
    fn new(queue: VirtQueue<Memory, COUNT>, number: u16, first: NonNull<u8>) -> Buffers<COUNT> {
        let free = u64::MAX >> (u64::BITS as usize - COUNT);
        Buffers { queue, number, first, of_token: [None; COUNT], free, is_untold: false }
    }

    /// Takes a buffer of ours, to give it to the device.
    fn take_free(&mut self) -> Option<u8> {
        let buffer = self.free.trailing_zeros();
        if buffer == u64::BITS {
            return None;
        }
        self.free &= !(1 << buffer);
        Some(buffer as u8)
    }

    /// The bytes of a buffer.
    fn bytes(&mut self, buffer: u8) -> &mut [u8] {
        let start = usize::from(buffer) % COUNT * BUFFER;
        // SAFETY: an exclusive slice demands memory that is there, has values, and that nothing else reaches while it lives.
        // - There: `Packets::open` has looked that there are `COUNT` buffers. Values: regions are zeroed at boot.
        // - Nothing else: the task has the region alone, and the slice borrows all buffers. The device does not have this one, or the slice lives only
        //   within a call of the queue, which keeps its address.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr().wrapping_add(start), BUFFER) }
    }

    /// Gives the device the first `length` bytes of a buffer of ours.
    fn add(&mut self, buffer: u8, length: usize, direction: Direction) -> Result<(), QueueError> {
        let start = self.bytes(buffer).as_mut_ptr();
        // SAFETY: as of `bytes`; the queue is another field than the buffers are reached by.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start, length.min(BUFFER)) };
        let token = match direction {
            // SAFETY: the buffer must stay, and not be touched, until `pop_used` gives it back: its number stands in `of_token` until then.
            Direction::Fill => unsafe { self.queue.add(&[], &mut [bytes]) },
            // SAFETY: the same.
            Direction::Empty => unsafe { self.queue.add(&[bytes], &mut []) },
        };
        let token = token.map_err(|_| QueueError::Lost)?;
        *self.of_token.get_mut(usize::from(token)).ok_or(QueueError::Lost)? = Some(buffer);
        self.is_untold = true;
        Ok(())
    }

    /// Takes the buffer back that the device was done with first, and the number of bytes that it says to have written.
    fn pop(&mut self, direction: Direction) -> Result<Option<(u8, usize)>, QueueError> {
        let Some(token) = self.queue.peek_used() else { return Ok(None) };
        let buffer = self.of_token.get_mut(usize::from(token)).and_then(Option::take).ok_or(QueueError::Lost)?;
        let start = self.bytes(buffer).as_mut_ptr();
        // SAFETY: as of `bytes`; the queue is another field than the buffers are reached by.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start, BUFFER) };
        let popped = match direction {
            // SAFETY: the buffer must be that of `add` with this token: `of_token` says so. The queue looks at its address only.
            Direction::Fill => unsafe { self.queue.pop_used(token, &[], &mut [bytes]) },
            // SAFETY: the same.
            Direction::Empty => unsafe { self.queue.pop_used(token, &[bytes], &mut []) },
        };
        let written = popped.map_err(|_| QueueError::Lost)?;
        Ok(Some((buffer, written as usize)))
    }

    /// Copies the packet of the next filled buffer, and gives the buffer to the device again.
    fn copy_next(&mut self, packet: &mut [u8]) -> Result<Option<usize>, QueueError> {
        let Some((buffer, written)) = self.pop(Direction::Fill)? else { return Ok(None) };
        if !(HEADER..=BUFFER).contains(&written) {
            return Err(QueueError::Lost);
        }
        let length = written - HEADER;
        let copied = length.min(packet.len());
        packet[..copied].copy_from_slice(&self.bytes(buffer)[HEADER..HEADER + copied]);
        self.add(buffer, BUFFER, Direction::Fill)?;
        Ok(Some(length))
    }
}
