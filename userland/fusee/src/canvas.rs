//! A picture to draw on, by the traits of the crate `embedded-graphics-core`.
//!
//! Pixels are stored into the region that the window's pictures are in, one by one; what is drawn outside of the window is left out.

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::display::{Display, DisplayError, Format, Picture, Point, Refusal};
use crate::{Endpoint, Instant, Nanoseconds, Region, SharedBytes};
use embedded_graphics_core::Pixel;
use embedded_graphics_core::draw_target::DrawTarget;
use embedded_graphics_core::geometry::{OriginDimensions, Size};
use embedded_graphics_core::pixelcolor::{Gray8, GrayColor, PixelColor, Rgb888, RgbColor};
use embedded_graphics_core::primitives::Rectangle;

/// Colours of which a canvas can be.
pub trait Colour: PixelColor + sealed::Colour {}

impl Colour for Gray8 {}
impl Colour for Rgb888 {}

mod sealed {
    use super::{Format, SharedBytes};

    pub trait Colour {
        /// What pixels of this colour are in memory.
        const FORMAT: Format;
        /// Stores so many pixels, from this one on.
        fn store(self, memory: SharedBytes, first: usize, pixels: usize);
    }
}

impl sealed::Colour for Gray8 {
    const FORMAT: Format = Format::Grey8;

    fn store(self, memory: SharedBytes, first: usize, pixels: usize) {
        memory.fill(first, pixels, self.luma());
    }
}

impl sealed::Colour for Rgb888 {
    const FORMAT: Format = Format::Xrgb8888;

    fn store(self, memory: SharedBytes, first: usize, pixels: usize) {
        let word = u32::from_be_bytes([0, self.r(), self.g(), self.b()]);
        (first..first + pixels).for_each(|pixel| memory.write_u32(4 * pixel, word));
    }
}

/// A picture of the size of its window. What it shows at first is undefined.
///
/// ```
/// # use embedded_graphics_core::{draw_target::DrawTarget, pixelcolor::Gray8};
/// # use fusee::{Endpoint, Instant, Region, display::{Canvas, DisplayError}};
/// # fn show(screen: Endpoint, picture: Region) -> Result<(), DisplayError> {
/// let mut canvas = Canvas::<Gray8>::open(screen, picture, Instant::NEVER)?;
/// let Ok(()) = canvas.clear(Gray8::new(128));
/// canvas.show(Instant::NEVER)
/// # }
/// ```
#[derive(Debug)]
pub struct Canvas<C> {
    display: Display,
    colour: PhantomData<C>,
}

impl<C: Colour> Canvas<C> {
    /// A canvas for the window of `memory`, which this task may read, write and lend to `server`.
    ///
    /// # Errors
    /// [`DisplayError`] says why there is none: [`Refusal::OutsideRegion`], if the region is too small for a picture of this colour.
    pub fn open(server: Endpoint, memory: Region, deadline: Instant) -> Result<Canvas<C>, DisplayError> {
        let canvas = Canvas { display: Display::open(server, memory, deadline)?, colour: PhantomData };
        let end = canvas.whole().end();
        let fits = end.is_some_and(|end| end <= (memory.shared().len() as u64).saturating_sub(crate::display::STAMP));
        if fits { Ok(canvas) } else { Err(DisplayError::Refused(Refusal::OutsideRegion)) }
    }

    /// As [`Display::again`].
    #[must_use]
    pub fn again(self, times: u32, pause: Nanoseconds) -> Canvas<C> {
        Canvas { display: self.display.again(times, pause), ..self }
    }

    /// Shows it, and returns when it is on the screen.
    ///
    /// # Errors
    /// [`DisplayError`], as of [`Display::show`].
    pub fn show(&mut self, deadline: Instant) -> Result<(), DisplayError> {
        let whole = self.whole();
        self.display.show(&whole, deadline)
    }

    /// Shows what of it is in `area`, if anything is; around that the window stays as it was.
    ///
    /// # Errors
    /// [`DisplayError`], as of [`Display::show`].
    pub fn show_part(&mut self, area: &Rectangle, deadline: Instant) -> Result<(), DisplayError> {
        let Some((at, width, height)) = self.visible(area) else { return Ok(()) };
        let whole = self.whole();
        let part = Picture {
            size: crate::display::Size { width, height },
            at,
            offset: self.index(at) as u64 * C::FORMAT.bytes(),
            ..whole
        };
        self.display.show(&part, deadline)
    }

    fn whole(&self) -> Picture {
        Picture::whole(C::FORMAT, self.display.window())
    }

    /// Where a pixel is, in pixels.
    fn index(&self, at: Point) -> usize {
        at.row as usize * self.display.window().width as usize + at.column as usize
    }

    /// What of an area is in the window: its upper left corner, width and height; nothing, if it has no pixel.
    fn visible(&self, area: &Rectangle) -> Option<(Point, u32, u32)> {
        let Rectangle { top_left, size: Size { width, height } } =
            area.intersection(&Rectangle::new(embedded_graphics_core::geometry::Point::zero(), self.size()));
        let at = Point { column: u32::try_from(top_left.x).ok()?, row: u32::try_from(top_left.y).ok()? };
        (width > 0 && height > 0).then_some((at, width, height))
    }
}

impl<C: Colour> OriginDimensions for Canvas<C> {
    fn size(&self) -> Size {
        let crate::display::Size { width, height } = self.display.window();
        Size { width, height }
    }
}

impl<C: Colour> DrawTarget for Canvas<C> {
    type Color = C;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<C>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let memory = self.display.memory().shared();
        let window = self.display.window();
        for Pixel(point, colour) in pixels {
            let (Ok(column), Ok(row)) = (u32::try_from(point.x), u32::try_from(point.y)) else { continue };
            if column < window.width && row < window.height {
                colour.store(memory, self.index(Point { column, row }), 1);
            }
        }
        Ok(())
    }

    fn fill_solid(&mut self, area: &Rectangle, colour: C) -> Result<(), Infallible> {
        let memory = self.display.memory().shared();
        if let Some((Point { column, row }, width, height)) = self.visible(area) {
            for row in row..row + height {
                colour.store(memory, self.index(Point { column, row }), width as usize);
            }
        }
        Ok(())
    }
}
