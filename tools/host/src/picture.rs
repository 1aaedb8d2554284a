//! Pictures of a screen.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A picture, row by row: red, green, blue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Picture {
    /// Pixels of a row.
    pub width: u32,
    /// All pixels, from the first row on.
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Reads the format PPM, of type P6 and with eight bits a colour.
    pub fn read(bytes: &[u8]) -> Result<Picture> {
        // The type, width, height and largest value, each with one blank behind it.
        let mut at = 0;
        let mut word = || {
            let length = bytes[at..].iter().position(u8::is_ascii_whitespace).context("the picture's header is cut")?;
            let word = std::str::from_utf8(&bytes[at..at + length])?;
            at += length + 1;
            Ok::<_, anyhow::Error>(word)
        };
        ensure!(word()? == "P6", "the picture is not of type P6");
        let (width, height): (u32, u32) = (word()?.parse()?, word()?.parse()?);
        ensure!(word()? == "255", "the picture has other than eight bits a colour");
        let (pixels, rest) = bytes[at..].as_chunks::<3>();
        ensure!(rest.is_empty() && pixels.len() as u64 == u64::from(width) * u64::from(height), "the picture is cut");
        Ok(Picture { width, pixels: pixels.to_vec() })
    }

    /// The picture in the format PPM, which [`Picture::read`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("P6\n{} {}\n255\n", self.width, self.height()).into_bytes();
        bytes.extend_from_slice(self.pixels.as_flattened());
        bytes
    }

    /// Writes the picture as PNG.
    pub fn write(&self, path: &Path) -> Result<()> {
        let file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
        let mut encoder = png::Encoder::new(file, self.width, self.height());
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header()?.write_image_data(self.pixels.as_flattened())?;
        Ok(())
    }

    /// Its rows.
    pub fn height(&self) -> u32 {
        self.pixels.len() as u32 / self.width.max(1)
    }

    /// Its pixels from this column and row on, in an area of this width and height, if all of it is there.
    pub fn part(&self, (column, row): (u32, u32), (width, height): (u32, u32)) -> Option<Vec<[u8; 3]>> {
        let is_there = column + width <= self.width && row + height <= self.height();
        let of_row = |row: u32| {
            let start = (row * self.width + column) as usize;
            &self.pixels[start..start + width as usize]
        };
        is_there.then(|| (row..row + height).flat_map(of_row).copied().collect())
    }
}
