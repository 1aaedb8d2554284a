//! As for engines.

use fusee::Token;

fn token_released_twice(token: Token<'_>) {
    let _ = token.release();
    let _ = token.release();
}

fn main() {}
