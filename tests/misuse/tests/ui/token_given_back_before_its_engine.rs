//! An engine acquired with a token is given back before it.

use fusee::{Engine, Instant, Token};

fn token_given_back_before_its_engine(token: Token<'_>, engine: &Engine) {
    let guard = token.acquire(engine, Instant::NEVER);
    drop(token);
    drop(guard);
}

fn main() {}
