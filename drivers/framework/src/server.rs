//! The life of a driver with an interrupt: wait for events, run the bottom half, serve who asked.

use fusee::{Instant, Interrupt, Message, Nanoseconds, Notification, Server, now};

/// The event bit by which a client announces a request: it signals the driver's notification, then calls.
///
/// A task waits for one thing at a time. The notification is that thing for a driver, because interrupts arrive
/// nowhere else; so requests are announced there, too.
pub const REQUEST: u64 = 1 << 63;

/// How long a driver waits for a call that was announced. A client that was preempted between the two is heard
/// with the next event.
const PATIENCE: Nanoseconds = Nanoseconds(50_000);

/// A driver's ends of its device and its clients.
#[derive(Debug)]
pub struct Driver {
    /// What interrupts and announcements signal.
    pub events: Notification,
    /// The device's line; its bits are all but [`REQUEST`].
    pub interrupt: Interrupt,
    /// Where clients call, if the driver has an endpoint.
    pub server: Option<Server>,
}

impl Driver {
    /// Drives the device for ever.
    ///
    /// `bottom_half` gets the event bits and must silence the device; then its line is enabled again. `answer` gets
    /// badge and words of each announced request and returns the reply.
    ///
    /// # Panics
    /// If the notification or the interrupt is not this task's to use.
    pub fn run(mut self, mut bottom_half: impl FnMut(u64), mut answer: impl FnMut(u64, Message) -> Message) -> ! {
        loop {
            let bits = self.events.wait(Instant::NEVER).expect("the driver may wait for its own events");
            if bits & !REQUEST != 0 {
                bottom_half(bits & !REQUEST);
                self.interrupt.acknowledge().expect("the driver may acknowledge its own interrupt");
            }
            if bits & REQUEST != 0 {
                self.serve(&mut answer);
            }
        }
    }

    /// Answers one announced request, and all that are there by then.
    fn serve(&mut self, answer: &mut impl FnMut(u64, Message) -> Message) {
        let Some(server) = &mut self.server else { return };
        let mut next = server.receive(now().now + PATIENCE).ok();
        while let Some(request) = next {
            let words = answer(request.badge, request.words);
            // A client that gave up is nobody to answer; later requests are announced again.
            next = server.reply(request.token, words).unwrap_or(None);
        }
    }
}
