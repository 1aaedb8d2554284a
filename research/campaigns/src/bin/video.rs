//! Runs the graphs of [`fusee_campaigns::video`] in one arrangement, and prints each frame.
//!
//! A process of its own, because its kernel has other limits. `cargo xtask experiment graphs` starts it.

use std::process::ExitCode;

use fusee_campaigns::video::{Setup, run};

fn main() -> ExitCode {
    match lines(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(lines) => {
            print!("{lines}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The results for these words: those of a setup, a seed, and nanoseconds.
fn lines(arguments: &[String]) -> Result<String, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [scheduling, tokens, order, with_token, early, seed, length] = words[..] else {
        return Err(
            "needed: edf|fixed|slices TOKENS fifo|priority|polled THOUSANDTHS early|released SEED NANOSECONDS".into()
        );
    };
    let setup = Setup::of_words([scheduling, tokens, order, with_token, early]).ok_or("there is no such setup")?;
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
    Ok(run(setup, number(seed)?, number(length)?)?.lines())
}
