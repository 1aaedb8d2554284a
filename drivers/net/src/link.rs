//! Frames between a device and the crate `smoltcp`.
//!
//! A frame is in memory of the server while it is looked at or made: a device that is wrong could change its own memory meanwhile.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Bytes of a frame, at most: 1500 behind addresses and kind (IEEE 802.3), without the checksum at its end.
pub const FRAME: usize = 1514;

/// A device that sends and receives frames.
pub trait Frames {
    /// Silences the interrupt: one that comes from now on signals again.
    fn silence(&mut self);
    /// Whether a received frame waits.
    fn has_received(&self) -> bool;
    /// Copies the earliest received frame, as much of it as there is room for: its whole length.
    fn receive(&mut self, frame: &mut [u8; FRAME]) -> Option<usize>;
    /// How many frames can be queued now.
    fn room(&mut self) -> usize;
    /// Queues a frame. Without room it is lost.
    fn send(&mut self, frame: &[u8]);
    /// Has the device look at all that was queued.
    fn tell(&mut self);
    /// Whether the device neither sends nor receives any more.
    fn is_dead(&self) -> bool;
}

/// The device, the frame that is looked at, the one that is made, and counts.
pub struct Link<'a, F> {
    /// The device.
    pub frames: F,
    looked_at: &'a mut [u8; FRAME],
    made: &'a mut [u8; FRAME],
    /// Frames that were received.
    pub received: u64,
    /// Frames that were queued.
    pub sent: u64,
    /// Frames that were made, and for which there was no room.
    pub unanswered: u64,
}

impl<'a, F: Frames> Link<'a, F> {
    /// The link of a device, with memory for two frames.
    pub fn new(frames: F, looked_at: &'a mut [u8; FRAME], made: &'a mut [u8; FRAME]) -> Link<'a, F> {
        Link { frames, looked_at, made, received: 0, sent: 0, unanswered: 0 }
    }
}

/// A frame that was received.
pub struct Received<'t>(&'t [u8]);

/// A frame to be made.
pub struct ToSend<'t, F> {
    frames: &'t mut F,
    made: &'t mut [u8; FRAME],
    sent: &'t mut u64,
    unanswered: &'t mut u64,
}

impl RxToken for Received<'_> {
    fn consume<R, U: FnOnce(&[u8]) -> R>(self, look: U) -> R {
        look(self.0)
    }
}

impl<F: Frames> TxToken for ToSend<'_, F> {
    fn consume<R, U: FnOnce(&mut [u8]) -> R>(self, length: usize, make: U) -> R {
        // The capabilities say how long a frame may be.
        let frame = &mut self.made[..length];
        let result = make(frame);
        if self.frames.room() == 0 {
            *self.unanswered += 1;
        } else {
            self.frames.send(frame);
            *self.sent += 1;
        }
        result
    }
}

impl<'a, F: Frames> Device for Link<'a, F> {
    type RxToken<'t>
        = Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = ToSend<'t, F>
    where
        Self: 't;

    /// The next frame. One that is too long is received as none: it is counted, and has no byte.
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, ToSend<'_, F>)> {
        let length = self.frames.receive(self.looked_at)?;
        self.received += 1;
        let Link { frames, looked_at, made, sent, unanswered, .. } = self;
        let frame = looked_at.get(..length).unwrap_or(&[]);
        Some((Received(frame), ToSend { frames, made, sent, unanswered }))
    }

    fn transmit(&mut self, _: Instant) -> Option<ToSend<'_, F>> {
        if self.frames.room() == 0 {
            return None;
        }
        let Link { frames, made, sent, unanswered, .. } = self;
        Some(ToSend { frames, made, sent, unanswered })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities
    }
}
