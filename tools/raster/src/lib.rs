//! A picture of a schedule in pixels.
//!
//! `resvg` draws it, and letters come from the font beside this crate (`font/README.md`), with any fonts of the machine. So the same
//! picture gives the same bytes.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

const FONT: &[u8] = include_bytes!("../font/DejaVuSans.ttf");
const FAMILY: &str = "DejaVu Sans";

/// Why a picture has no pixels.
#[derive(Debug)]
pub enum RasterError {
    /// The text is no SVG that can be drawn.
    Svg(resvg::usvg::Error),
    /// The picture has so many pixels that they do not fit into memory: width and height.
    TooLarge(u32, u32),
    /// The picture could not be written as PNG.
    Png(String),
}

impl fmt::Display for RasterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Svg(error) => write!(f, "the picture cannot be drawn: {error}"),
            Self::TooLarge(width, height) => write!(f, "a picture of {width} by {height} pixels is too large"),
            Self::Png(error) => write!(f, "the picture cannot be written as PNG: {error}"),
        }
    }
}

impl std::error::Error for RasterError {}

/// The fonts that pictures are drawn with: ours alone.
fn fonts() -> Database {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    fonts
}

/// Draws `svg`, a pixel for each of its pixels.
fn draw(svg: &str, fonts: Database) -> Result<Pixmap, RasterError> {
    let options = Options { font_family: FAMILY.to_owned(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(RasterError::Svg)?;
    let size = tree.size().to_int_size();
    let (width, height) = (size.width(), size.height());
    let mut pixels = Pixmap::new(width, height).ok_or(RasterError::TooLarge(width, height))?;
    resvg::render(&tree, Transform::default(), &mut pixels.as_mut());
    Ok(pixels)
}

/// `svg` as PNG.
///
/// # Errors
/// [`RasterError`]
pub fn png(svg: &str) -> Result<Vec<u8>, RasterError> {
    draw(svg, fonts())?.encode_png().map_err(|error| RasterError::Png(error.to_string()))
}

#[cfg(test)]
mod tests {
    use fusee_abi::trace::{Event, Record};
    use fusee_manifest::trace::Trace;

    use std::path::Path;

    use super::*;
    use fusee_manifest::Manifest;
    use fusee_pictures::picture::{Drawing, picture};
    use fusee_views::schedule::Schedule;

    const SYSTEM: &str = "[system]\nname = \"drawn\"\nboard = \"virt\"\ncpus = 1\n[tasks.first]\nscript = [\"burn 2ms\"]\nperiod = \"5ms\"\nbudget = \"3ms\"\n";

    fn svg(width: u64) -> String {
        let system = Manifest::parse(Path::new("drawn.toml"), SYSTEM).unwrap().system;
        let at = |time, event, thread| Record { time, event: event as u8, thread, job: 1, ..Record::default() };
        let records = vec![at(0, Event::Release, 1), at(10, Event::SwitchTo, 1), at(3_000_000, Event::SwitchAway, 1)];
        let schedule = Schedule::of(&Trace::from_records(records), &system);
        picture(&schedule, &system, &Drawing { title: "a title", window: 0..5_000_000, width })
    }

    #[test]
    fn letters_are_drawn_and_the_same_picture_is_the_same_bytes() {
        let svg = svg(600);
        let drawn = draw(&svg, fonts()).unwrap();
        let without = draw(&svg, Database::new()).unwrap();
        let differ = drawn.pixels().iter().zip(without.pixels()).filter(|(one, other)| one != other).count();
        assert!(differ > 500, "{differ} pixels are letters");
        assert_eq!(png(&svg).unwrap(), png(&svg).unwrap());
    }

    #[test]
    fn a_png_is_as_wide_as_the_picture() {
        let png = png(&svg(400)).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(png[16..20], 400u32.to_be_bytes());
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        assert!(matches!(png("<svg"), Err(RasterError::Svg(_))));
    }
}
