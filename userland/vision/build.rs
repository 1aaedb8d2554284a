//! Decodes the photograph of the demo once, and keeps the part of it that the camera can see.

use std::path::Path;
use std::{env, fs};

#[path = "src/window.rs"]
mod window;

/// Where that part begins in the photograph.
const LEFT: usize = 160;
/// The first row of the window.
const TOP: usize = 190;
const PHOTOGRAPH: &str = "../demo/scene.png";

fn main() {
    println!("cargo::rerun-if-changed={PHOTOGRAPH}");
    println!("cargo::rerun-if-changed=src/window.rs");
    let file = fs::File::open(PHOTOGRAPH).expect("the photograph is the demo's");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("it is a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("it fits into memory")];
    let frame = reader.next_frame(&mut pixels).expect("it is whole");
    assert_eq!(
        (frame.color_type, frame.bit_depth),
        (png::ColorType::Grayscale, png::BitDepth::Eight),
        "the photograph is 8-bit grey"
    );
    let rows = pixels.chunks_exact(frame.line_size).skip(TOP).take(window::SCENE_HEIGHT);
    let scene: Vec<u8> = rows.flat_map(|row| &row[LEFT..][..window::SCENE_WIDTH]).copied().collect();
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("scene.raw"), scene).expect("OUT_DIR can be written");
}
