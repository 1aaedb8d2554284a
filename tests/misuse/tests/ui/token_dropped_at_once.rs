//! A task that asks for a token and lets it go has not got it.
#![deny(unused_must_use)]

use fusee::{Instant, Pool, Token};

fn token_dropped_at_once(pool: &mut Pool) {
    if let Ok(token) = pool.acquire(Instant::NEVER) {
        hold(token);
    }
}

fn hold(token: Token<'_>) -> Token<'_> {
    token
}

fn main() {}
