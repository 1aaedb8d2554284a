//! Draws an SVG picture in pixels: `fusee-raster PICTURE.svg PICTURE.png`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [from, to] = &arguments[..] else {
        eprintln!("usage: fusee-raster PICTURE.svg PICTURE.png");
        return ExitCode::FAILURE;
    };
    let drawn = std::fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()));
    let drawn = drawn.and_then(|svg| fusee_raster::png(&svg).map_err(|error| error.to_string()));
    match drawn.and_then(|png| std::fs::write(to, png).map_err(|error| format!("{}: {error}", to.display()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
