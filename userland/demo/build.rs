//! Decodes the photograph once, and keeps the part of it that the shaking window can see.

use std::path::Path;
use std::{env, fs};

#[path = "src/window.rs"]
mod window;

fn main() {
    println!("cargo::rerun-if-changed=scene.png");
    println!("cargo::rerun-if-changed=src/window.rs");
    let file = fs::File::open("scene.png").expect("the photograph is beside this file");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("it is a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("it fits into memory")];
    let frame = reader.next_frame(&mut pixels).expect("it is whole");
    assert_eq!(
        (frame.color_type, frame.bit_depth),
        (png::ColorType::Grayscale, png::BitDepth::Eight),
        "the photograph is 8-bit grey"
    );
    let stride = frame.line_size;
    let mut scene = Vec::new();
    for y in 0..window::SCENE_HEIGHT {
        let start = (window::SCENE_TOP + y) * stride + window::SCENE_LEFT;
        scene.extend_from_slice(&pixels[start..start + window::SCENE_WIDTH]);
    }
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("scene.raw"), scene).expect("OUT_DIR can be written");
}
