//! Pictures of a screen that tests expect.
//!
//! The expected pictures are computed here, on the host: the scenes that its tasks draw are drawn by the crate `embedded-graphics` into memory of its
//! own, and put where the windows are. Nothing of the tasks' canvas, the server or the emulator is used for that.

use anyhow::{Context, Result, anyhow, ensure};
use embedded_graphics::framebuffer::{Framebuffer, buffer_size};
use embedded_graphics::image::GetPixel;
use embedded_graphics::pixelcolor::raw::{BigEndian, LittleEndian, RawU8, RawU24};
use embedded_graphics::pixelcolor::{Gray8, Rgb888};
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::Rectangle;

use fusee_host::picture::Picture;
use fusee_host::screen::STANDS;

#[path = "../../../userland/apps/src/scenes.rs"]
mod scenes;

/// A check of a screen, by the name that `screenshot` of a `[test]` has.
type Check = fn(&Picture) -> Result<()>;

const CHECKS: [(&str, Check); 4] = [
    ("grey scene", |seen| is_equal(seen, &[grey()])),
    ("scenes", |seen| is_equal(seen, &[grey(), colours()])),
    ("scenes, a part anew", |seen| is_equal(seen, &[grey(), colours_with_part()])),
    ("grey scene, a plain window", plain_beside_grey),
];

/// The faults of a picture of a screen.
pub fn problems(name: &str, seen: Option<&Result<Picture>>) -> Vec<String> {
    let Some((_, check)) = CHECKS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        return vec![format!("no screen is known as `{name}`; there are `{}`", names.join("`, `"))];
    };
    let result = match seen {
        None => Err(anyhow!("the console did not show `{STANDS}`")),
        Some(Err(error)) => Err(anyhow!("{error:#}")),
        Some(Ok(seen)) => check(seen),
    };
    result.err().into_iter().map(|error| format!("the screen: {error:#}")).collect()
}

/// A window, and its pixels.
struct Window {
    area: Rectangle,
    pixels: Vec<[u8; 3]>,
}

/// Pixels of a picture that the crate has drawn.
fn drawn<C: PixelColor>(area: Rectangle, picture: &impl GetPixel<Color = C>, rgb: fn(C) -> [u8; 3]) -> Window {
    let inside = Rectangle::new(Point::zero(), area.size);
    let pixels = inside.points().map(|at| picture.pixel(at).map_or([0; 3], rgb)).collect();
    Window { area, pixels }
}

fn grey() -> Window {
    const WIDTH: usize = scenes::GREY.size.width as usize;
    const HEIGHT: usize = scenes::GREY.size.height as usize;
    const BYTES: usize = buffer_size::<Gray8>(WIDTH, HEIGHT);
    let mut picture = Framebuffer::<Gray8, RawU8, LittleEndian, WIDTH, HEIGHT, BYTES>::new();
    let Ok(()) = scenes::grey(&mut picture);
    drawn(scenes::GREY, &picture, |grey| [grey.luma(); 3])
}

const COLOURS_WIDTH: usize = scenes::COLOURS.size.width as usize;
const COLOURS_HEIGHT: usize = scenes::COLOURS.size.height as usize;
const COLOURS_BYTES: usize = buffer_size::<Rgb888>(COLOURS_WIDTH, COLOURS_HEIGHT);
type Colours = Framebuffer<Rgb888, RawU24, BigEndian, COLOURS_WIDTH, COLOURS_HEIGHT, COLOURS_BYTES>;

fn rgb(colour: Rgb888) -> [u8; 3] {
    [colour.r(), colour.g(), colour.b()]
}

fn colours() -> Window {
    let mut picture = Colours::new();
    let Ok(()) = scenes::colours(&mut picture);
    drawn(scenes::COLOURS, &picture, rgb)
}

fn colours_with_part() -> Window {
    let mut picture = Colours::new();
    let Ok(()) = scenes::colours(&mut picture);
    let Ok(()) = scenes::part(&mut picture.clipped(&scenes::PART));
    drawn(scenes::COLOURS, &picture, rgb)
}

/// The whole screen with these windows, and black around them.
fn screen(windows: &[Window]) -> Picture {
    let Size { width, height } = scenes::SCREEN;
    let mut pixels = vec![[0; 3]; (width * height) as usize];
    for window in windows {
        for (at, pixel) in window.area.points().zip(&window.pixels) {
            pixels[at.y as usize * width as usize + at.x as usize] = *pixel;
        }
    }
    Picture { width, pixels }
}

fn is_equal(seen: &Picture, windows: &[Window]) -> Result<()> {
    let wanted = screen(windows);
    ensure!(seen.width == wanted.width && seen.pixels.len() == wanted.pixels.len(), "another size");
    let differs = seen.pixels.iter().zip(&wanted.pixels).enumerate().filter(|(_, (seen, wanted))| seen != wanted);
    let mut count = 0;
    let mut first = None;
    for (at, (seen, wanted)) in differs {
        count += 1;
        let at = at as u32;
        first.get_or_insert_with(|| {
            format!(
                "the first in column {}, row {}: {seen:?}, not {wanted:?}",
                at % wanted_width(),
                at / wanted_width()
            )
        });
    }
    first.map_or(Ok(()), |first| Err(anyhow!("{count} pixels differ, {first}")))
}

fn wanted_width() -> u32 {
    scenes::SCREEN.width
}

/// The grey scene in its window, and in that of the colours one colour of a picture that was finished: no part of another, and nothing else.
fn plain_beside_grey(seen: &Picture) -> Result<()> {
    let area = scenes::COLOURS;
    let corner = (area.top_left.x as u32, area.top_left.y as u32);
    let window = seen.part(corner, (area.size.width, area.size.height)).context("another size")?;
    let colour = window[0];
    ensure!(
        (0..200).any(|round| rgb(scenes::plain(round)) == colour),
        "the plain window shows {colour:?}, which nobody has shown"
    );
    is_equal(seen, &[grey(), Window { area, pixels: vec![colour; window.len()] }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_read_and_its_parts_are_where_they_are() {
        let mut bytes = b"P6\n3 2\n255\n".to_vec();
        bytes.extend(0..18);
        let picture = Picture::read(&bytes).unwrap();
        assert_eq!((picture.width, picture.height()), (3, 2));
        assert_eq!(picture.part((1, 1), (2, 1)), Some(vec![[12, 13, 14], [15, 16, 17]]));
        assert_eq!(picture.part((2, 0), (2, 1)), None);
        bytes.pop();
        assert!(Picture::read(&bytes).is_err());
        assert!(Picture::read(b"P5\n3 2\n255\n").is_err() && Picture::read(b"P6\n3").is_err());
    }

    #[test]
    fn one_pixel_that_differs_is_found_and_windows_do_not_meet() {
        let mut seen = screen(&[grey(), colours()]);
        assert!(problems("scenes", Some(&Ok(seen.clone()))).is_empty());
        assert!(!problems("scenes, a part anew", Some(&Ok(seen.clone()))).is_empty());
        seen.pixels[640 * 30 + 20][1] ^= 1;
        let found = problems("scenes", Some(&Ok(seen)));
        assert!(found[0].contains("1 pixels differ, the first in column 20, row 30"), "{found:?}");
        assert!(scenes::GREY.intersection(&scenes::COLOURS).is_zero_sized());
    }

    #[test]
    fn a_window_of_two_colours_is_not_plain() {
        let area = scenes::COLOURS;
        let pixels = |round| vec![rgb(scenes::plain(round)); (area.size.width * area.size.height) as usize];
        let plain = Window { area, pixels: pixels(7) };
        assert!(plain_beside_grey(&screen(&[grey(), plain])).is_ok());
        let mut mixed = pixels(7);
        *mixed.last_mut().unwrap() = rgb(scenes::plain(8));
        assert!(plain_beside_grey(&screen(&[grey(), Window { area, pixels: mixed }])).is_err());
        assert!(plain_beside_grey(&screen(&[grey()])).is_err());
    }
}
