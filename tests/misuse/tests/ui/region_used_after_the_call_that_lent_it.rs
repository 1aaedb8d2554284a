//! A region that was lent with a call is gone with the reply.

use fusee::{Instant, Place, Server};

fn region_used_after_the_call_that_lent_it(server: &mut Server, place: &Place) -> Option<()> {
    let request = server.receive(Instant::NEVER).ok()?;
    let lent = request.lent(place)?;
    let _ = server.reply_receive(request.token, [0; 6], Instant::NEVER);
    let _ = lent.read_u64(0);
    None
}

fn main() {}
