//! Devices of which two tasks of one program are the driver: a server, and its bottom half, since a task waits either for clients or for an interrupt.

use fusee::{
    CallError, Endpoint, Instant, Interrupt, Message, Nanoseconds, Notification, Request, WaitError, exit, give_up,
    now, sleep_until,
};

/// The time between two questions whether the server is there.
const PAUSE: Nanoseconds = Nanoseconds(500_000);

/// The notifications that clients have given a server, by each client's index there.
#[derive(Debug)]
pub struct Wakes<const CLIENTS: usize>([Option<Notification>; CLIENTS]);

impl<const CLIENTS: usize> Default for Wakes<CLIENTS> {
    fn default() -> Self {
        Wakes([const { None }; CLIENTS])
    }
}

impl<const CLIENTS: usize> Wakes<CLIENTS> {
    /// Keeps the notification that came with the request of a client that begins anew as the one with this index. The handle of an earlier life of the
    /// client is given up, and so is a handle that came with any other request.
    pub fn keep(&mut self, request: &mut Request, index: Option<usize>) {
        let mut given = request.take::<Notification>();
        if let Some(wake) = index.and_then(|index| self.0.get_mut(index)) {
            core::mem::swap(wake, &mut given);
        }
        if let Some(handle) = given {
            let _ = give_up(handle);
        }
    }

    /// Signals these bits to each client, unless they are zero.
    pub fn signal(&self, bits: &[u64; CLIENTS]) {
        for (wake, bits) in self.0.iter().zip(bits) {
            if let (Some(wake), 1..) = (wake, *bits) {
                // A client that has died hears nothing.
                let _ = wake.signal(*bits);
            }
        }
    }
}

/// The second task of a driver, which has the server serve each interrupt. It runs at the key of the most urgent client that waits for a notification
/// bound to it, and lends that key on by its call.
#[derive(Debug)]
pub struct BottomHalf {
    /// The interrupt of the device.
    pub line: Interrupt,
    /// The notification that the interrupt signals, and a server that asks for an earlier request.
    pub event: Notification,
    /// The server, to call.
    pub server: Endpoint,
}

impl BottomHalf {
    /// Serves the device in rounds: one at the start, then one after each signal of the notification, or at the instant that the server asked for.
    /// A round runs `before`, then calls the server with `request` until it has no more to serve.
    ///
    /// Words of the server's reply: 0 is not zero if the device is dead; 1 is not zero if there is more to serve; 2 is the instant of the next round.
    ///
    /// The task ends when a server that it has called dies or begins another life. Clients that wait for this task then get an error, and begin
    /// anew. The task's own next life goes on with the present server.
    ///
    /// # Panics
    /// If this task may not call the server, or not wait for the notification.
    pub fn run(self, request: Message, mut before: impl FnMut()) -> ! {
        // Whether this life of the server is the one that was called before.
        let mut is_known = false;
        loop {
            before();
            let next = loop {
                match self.server.call(request, Instant::NEVER) {
                    Ok([0, 0, next, ..]) => break Instant(next),
                    Ok([0, ..]) => is_known = true,
                    // Nothing comes any more.
                    Ok(_) => break Instant::NEVER,
                    Err(_) if is_known => exit(0),
                    Err(CallError::PeerRestarted) => {}
                    Err(CallError::PeerDied) => {
                        sleep_until(now().now + PAUSE).expect("the bottom half may sleep until there is a server");
                    }
                    Err(error) => panic!("the server of this bottom half serves no interrupt: {error:?}"),
                }
            };
            is_known = true;
            let _ = self.line.acknowledge();
            match self.event.wait(next) {
                Ok(_) | Err(WaitError::TimedOut) => {}
                Err(error) => panic!("the bottom half cannot wait for its device: {error:?}"),
            }
        }
    }
}
