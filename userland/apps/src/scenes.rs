//! The scenes that tasks draw on a screen, and the host too, to compare: with the shapes and fonts of the crate `embedded-graphics`.

use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::ascii::{FONT_6X10, FONT_10X20};
use embedded_graphics::pixelcolor::{Gray8, Rgb888};
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{Circle, Line, PrimitiveStyle, Rectangle, RoundedRectangle, Triangle};
use embedded_graphics::text::Text;

/// The screen.
pub const SCREEN: Size = Size::new(640, 480);
/// The window of the grey scene, of odd width and at an odd place.
pub const GREY: Rectangle = Rectangle::new(Point::new(17, 23), Size::new(203, 121));
/// The window of the scene in colours: it reaches to the lower right corner.
pub const COLOURS: Rectangle = Rectangle::new(Point::new(320, 240), Size::new(320, 240));
/// The part of the scene in colours that is drawn anew, in its window.
pub const PART: Rectangle = Rectangle::new(Point::new(201, 33), Size::new(77, 51));

/// Draws the grey scene: shades, shapes and text. Some of them reach beyond the window [`GREY`].
///
/// # Errors
/// Those of `target`.
pub fn grey<E>(target: &mut impl DrawTarget<Color = Gray8, Error = E>) -> Result<(), E> {
    let area = target.bounding_box();
    target.fill_contiguous(&area, area.points().map(|at| Gray8::new((at.x + 2 * at.y) as u8)))?;
    let white = PrimitiveStyle::with_stroke(Gray8::WHITE, 3);
    Circle::new(Point::new(-20, 60), 90).into_styled(white).draw(target)?;
    Triangle::new(Point::new(150, 10), Point::new(230, 60), Point::new(140, 90))
        .into_styled(PrimitiveStyle::with_fill(Gray8::new(90)))
        .draw(target)?;
    Line::new(Point::new(0, 120), Point::new(202, 0)).into_styled(white).draw(target)?;
    let style = MonoTextStyle::new(&FONT_10X20, Gray8::BLACK);
    Text::new("a cone that turns\nuneven pull into\nconstant torque", Point::new(12, 30), style).draw(target)?;
    Ok(())
}

/// Shapes and text in colours.
pub fn colours<E>(target: &mut impl DrawTarget<Color = Rgb888, Error = E>) -> Result<(), E> {
    target.clear(Rgb888::new(0x10, 0x20, 0x30))?;
    let area = Rectangle::new(Point::new(20, 20), Size::new(256, 64));
    let shades = area.points().map(|at| Rgb888::new((at.x - 20) as u8, 4 * (at.y - 20) as u8, 255 - (at.x - 20) as u8));
    target.fill_contiguous(&area, shades)?;
    RoundedRectangle::with_equal_corners(Rectangle::new(Point::new(40, 110), Size::new(150, 90)), Size::new(20, 20))
        .into_styled(PrimitiveStyle::with_fill(Rgb888::CSS_ORANGE))
        .draw(target)?;
    Circle::new(Point::new(230, 150), 140).into_styled(PrimitiveStyle::with_stroke(Rgb888::GREEN, 7)).draw(target)?;
    let style = MonoTextStyle::new(&FONT_6X10, Rgb888::YELLOW);
    Text::new("red, green, blue", Point::new(50, 140), style).draw(target)?;
    Ok(())
}

/// The part of the scene in colours that is drawn anew, and more: pixels outside of [`PART`] are drawn, too, but not shown.
pub fn part<E>(target: &mut impl DrawTarget<Color = Rgb888, Error = E>) -> Result<(), E> {
    target.fill_solid(&target.bounding_box(), Rgb888::CSS_DARK_RED)?;
    let style = MonoTextStyle::new(&FONT_10X20, Rgb888::WHITE);
    Text::new("part", PART.top_left + Point::new(10, 30), style).draw(target)?;
    Ok(())
}

/// The one colour of a picture, another for each of 200 rounds.
pub fn plain(round: u64) -> Rgb888 {
    let round = round as u8;
    Rgb888::new(round + 1, 255 - round, round.wrapping_mul(37))
}
