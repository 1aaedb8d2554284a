//! A request has one reply.

use fusee::{Instant, Server};

fn request_answered_twice(server: &mut Server) -> Option<()> {
    let request = server.receive(Instant::NEVER).ok()?;
    let _ = server.reply_receive(request.token, [0; 6], Instant::NEVER);
    let _ = server.reply_receive(request.token, [0; 6], Instant::NEVER);
    Some(())
}

fn main() {}
