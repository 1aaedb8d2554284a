//! Pictures on a screen: the requests of a client to a display server, and their checks in the server.
//!
//! A screen is divided into windows that do not overlap, one for each region that clients may lend to the server. A request lends such a region
//! ([`Endpoint::call_lending`]), says where in it a picture is, and where in the window of that region it goes. The server copies the picture, and then has the
//! device show all of it at once. Until the server answers, the client waits, so it cannot draw; afterwards it may draw the next picture, and the screen
//! keeps the old one. So the screen always shows a picture that was finished.
//!
//! | Word | Request | Reply |
//! |---|---|---|
//! | 0 | the request: 0 [`Request::Describe`], 1 [`Request::Show`]; from bit 8 on the [`Format`] | zero, or a code of [`Refusal`] |
//! | 1 | width of the picture; from bit 32 on its height | of `Describe`: width of the window; from bit 32 on its height |
//! | 2 | column of the window where it begins; from bit 32 on the row | |
//! | 3 | where it is in the region that is lent: bytes from its start | |
//! | 4 | the stamp | |
//! | 5 | pixels from the start of one row to the start of the next | |
//!
//! A loan ends when the client's deadline passes, or the client ends, and the server is not told: it finds other memory at the same place, which
//! holds no picture. So the client puts a **stamp**, a number that it has not used before, into the last eight bytes of its region, and says it in
//! the request. A server that has copied a picture, and then still finds the stamp, has copied the client's own bytes.
//!
//! A client may send anything: [`Request::check`] is all that a server needs to believe it.
//!
//! `Canvas`, with the feature `embedded-graphics`, is a picture to draw on.

use crate::again::{After, Again};
use crate::{CallLendingError, Endpoint, Instant, Message, Nanoseconds, Region, Rights, now};

#[cfg(feature = "embedded-graphics")]
pub use crate::canvas::{Canvas, Colour};

/// Bytes at the end of a region that are for the stamp, and not for pictures.
pub const STAMP: u64 = 8;

/// A width and a height, in pixels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A place in a window: its upper left corner has column and row zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// Pixels to the right.
    pub column: u32,
    /// Pixels down.
    pub row: u32,
}

/// The meaning of a picture's bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum Format {
    /// A byte for each pixel, from black, which is zero, to white.
    Grey8 = 0,
    /// A word of 32 bits for each pixel, little endian: from bit 0 on blue, from bit 8 on green, from bit 16 on red. The rest means nothing.
    Xrgb8888 = 1,
}

impl Format {
    /// Bytes of a pixel.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Format::Grey8 => 1,
            Format::Xrgb8888 => 4,
        }
    }
}

/// A picture in a region, or a part of one, and where in the region's window it goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Picture {
    /// The meaning of its bytes.
    pub format: Format,
    /// How large it is.
    pub size: Size,
    /// Where its upper left corner goes.
    pub at: Point,
    /// Where it begins in the region: bytes from its start.
    pub offset: u64,
    /// Pixels from the start of one row to the start of the next; at least its width.
    pub stride: u32,
}

impl Picture {
    /// A picture of which the region has nothing but its rows, one after the other, from its start on, for the upper left corner of the window.
    #[must_use]
    pub fn whole(format: Format, size: Size) -> Picture {
        Picture { format, size, at: Point { column: 0, row: 0 }, offset: 0, stride: size.width }
    }

    /// The offset behind its last byte; `None`: no memory is so long.
    pub(crate) fn end(&self) -> Option<u64> {
        let rows = u64::from(self.size.height).checked_sub(1)?;
        let pixels = rows.checked_mul(self.stride.into())?.checked_add(self.size.width.into())?;
        pixels.checked_mul(self.format.bytes())?.checked_add(self.offset)
    }
}

//--- Requests

/// Why a server did not show a picture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The request has no meaning: no such operation or format, or a reply that no server of this crate would give.
    Malformed,
    /// The picture has no pixel.
    Empty,
    /// The picture does not fit into the window, at this place.
    OutsideWindow,
    /// The picture does not lie in the region that is lent, before its last [`STAMP`] bytes; or its rows overlap.
    OutsideRegion,
    /// No region is lent with the request, or one without the stamp.
    NotLent,
    /// The region's window does not lie on the screen, or overlaps one before it: the server's parameters are wrong.
    NoWindow,
    /// The device has no screen.
    NoScreen,
    /// The server's memory is too small for the screen.
    NoMemory,
    /// The device gave an answer that makes no sense, or none in time. It was reset: the screen is black, and the next picture begins anew.
    Lost,
    /// The device tried, and failed. The window may show the picture or its contents of before.
    Device(DeviceError),
}

/// The failures that a device reports (OASIS, Virtual I/O Device, version 1.2, section 5.7.6.7).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u64)]
pub enum DeviceError {
    /// The device gives no reason.
    Unspecified = 0x1200,
    /// The device has no memory for a picture of that size.
    OutOfMemory = 0x1201,
    /// The device has no such screen.
    NoScanout = 0x1202,
    /// The device has no such picture.
    NoResource = 0x1203,
    /// The device has no such context.
    NoContext = 0x1204,
    /// The device refuses these numbers.
    BadParameter = 0x1205,
}

impl DeviceError {
    const ALL: [DeviceError; 6] = [
        DeviceError::Unspecified,
        DeviceError::OutOfMemory,
        DeviceError::NoScanout,
        DeviceError::NoResource,
        DeviceError::NoContext,
        DeviceError::BadParameter,
    ];

    /// The failure of this number, if there is one.
    #[must_use]
    pub fn from_code(code: u64) -> Option<DeviceError> {
        DeviceError::ALL.into_iter().find(|error| *error as u64 == code)
    }
}

impl Refusal {
    /// The first is that of code 1; the device's own numbers are larger.
    const OWN: [Refusal; 9] = [
        Refusal::Malformed,
        Refusal::Empty,
        Refusal::OutsideWindow,
        Refusal::OutsideRegion,
        Refusal::NotLent,
        Refusal::NoWindow,
        Refusal::NoScreen,
        Refusal::NoMemory,
        Refusal::Lost,
    ];

    /// The number that stands for it in a reply.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Refusal::Device(error) => error as u64,
            own => Refusal::OWN.iter().position(|refusal| *refusal == own).map_or(1, |at| at as u64 + 1),
        }
    }

    fn from_code(code: u64) -> Refusal {
        let own = code.checked_sub(1).and_then(|at| Refusal::OWN.get(usize::try_from(at).ok()?).copied());
        own.or(DeviceError::from_code(code).map(Refusal::Device)).unwrap_or(Refusal::Malformed)
    }
}

/// A request that was checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// Say how large the window is.
    Describe,
    /// Show a picture, which lies in the region that is lent, and fits into the window.
    Show {
        /// The picture.
        picture: Picture,
        /// The number in the last bytes of the region as long as it is lent.
        stamp: u64,
    },
}

const DESCRIBE: u64 = 0;
const SHOW: u64 = 1;

/// Bits of word 0 with the request; the format stands above them.
const FORMAT_SHIFT: u32 = 8;

impl Request {
    /// The request in `words` of any origin, if it can be served with a region of so many bytes and a window of this size.
    ///
    /// # Errors
    /// [`Refusal`] is the answer for the client.
    pub fn check(words: &Message, region: u64, window: Size) -> Result<Request, Refusal> {
        let [first, size, at, offset, stamp, stride] = *words;
        if first == DESCRIBE {
            return Ok(Request::Describe);
        }
        let format = match (first & ((1 << FORMAT_SHIFT) - 1), first >> FORMAT_SHIFT) {
            (SHOW, format) if format == Format::Grey8 as u64 => Format::Grey8,
            (SHOW, format) if format == Format::Xrgb8888 as u64 => Format::Xrgb8888,
            _ => return Err(Refusal::Malformed),
        };
        let (size, at) = (size_of_word(size), Point { column: at as u32, row: (at >> 32) as u32 });
        if size.width == 0 || size.height == 0 {
            return Err(Refusal::Empty);
        }
        let fits = |at: u32, length: u32, room: u32| at.checked_add(length).is_some_and(|end| end <= room);
        if !fits(at.column, size.width, window.width) || !fits(at.row, size.height, window.height) {
            return Err(Refusal::OutsideWindow);
        }
        let stride = u32::try_from(stride).ok().filter(|stride| *stride >= size.width).ok_or(Refusal::OutsideRegion)?;
        let picture = Picture { format, size, at, offset, stride };
        if picture.end().is_none_or(|end| end > region.saturating_sub(STAMP)) {
            return Err(Refusal::OutsideRegion);
        }
        Ok(Request::Show { picture, stamp })
    }
}

fn size_of_word(word: u64) -> Size {
    Size { width: word as u32, height: (word >> 32) as u32 }
}

fn word_of_size(Size { width, height }: Size) -> u64 {
    u64::from(width) | u64::from(height) << 32
}

/// The reply to a request: to [`Request::Describe`], the window's size.
#[must_use]
pub fn reply(result: Result<Size, Refusal>) -> Message {
    match result {
        Ok(window) => [0, word_of_size(window), 0, 0, 0, 0],
        Err(refusal) => [refusal.code(), 0, 0, 0, 0, 0],
    }
}

//--- Clients

/// The reason for which a client was not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DisplayError {
    /// The server answered that it did not.
    Refused(Refusal),
    /// The server did not answer. If the deadline passed first, the picture may be shown yet, as a whole.
    Call(CallLendingError),
}

/// A window of a screen, and the region in which its pictures are drawn.
#[derive(Debug)]
pub struct Display {
    server: Endpoint,
    memory: Region,
    window: Size,
    again: Again,
}

impl Display {
    /// Asks `server` for the window of `memory`, which this task may read, write and lend.
    ///
    /// # Errors
    /// [`DisplayError`] says why there is none.
    pub fn open(server: Endpoint, memory: Region, deadline: Instant) -> Result<Display, DisplayError> {
        let words = ask(&server, &memory, [DESCRIBE, 0, 0, 0, 0, 0], deadline)?;
        Ok(Display { server, memory, window: size_of_word(words[1]), again: Again::NOT })
    }

    /// The window, beside a server that has [further lives](crate::life): a picture that it does not show because it has died, or has begun another
    /// life, is shown again, `times` times at most, until the deadline in all. Between two tries lies `pause`, of the sort that a supervisor's delay
    /// is.
    ///
    /// A new life knows of no picture: the screen is black until clients show theirs.
    #[must_use]
    pub fn again(self, times: u32, pause: Nanoseconds) -> Display {
        Display { again: Again { times, pause }, ..self }
    }

    /// How large the window is.
    #[must_use]
    pub fn window(&self) -> Size {
        self.window
    }

    /// The region.
    #[must_use]
    pub fn memory(&self) -> &Region {
        &self.memory
    }

    /// Shows a picture that is in the region; when this returns, it is on the screen. The last [`STAMP`] bytes of the region are overwritten.
    ///
    /// # Errors
    /// [`DisplayError`] says why not. The window keeps its contents, unless the error says otherwise.
    pub fn show(&mut self, picture: &Picture, deadline: Instant) -> Result<(), DisplayError> {
        let Picture { format, size, at, offset, stride } = *picture;
        let at = word_of_size(Size { width: at.column, height: at.row });
        let stamp = stamp(&self.memory)?;
        let words = [SHOW | (format as u64) << FORMAT_SHIFT, word_of_size(size), at, offset, stamp, u64::from(stride)];
        let show = || ask(&self.server, &self.memory, words, deadline).map(drop);
        self.again.make(deadline, show, |error| match error {
            DisplayError::Call(error) => After::from(error),
            DisplayError::Refused(_) => After::Nothing,
        })
    }
}

/// Puts a stamp into a region: the present time, which it never was before.
fn stamp(memory: &Region) -> Result<u64, DisplayError> {
    let shared = memory.shared();
    let last = shared.len().checked_sub(STAMP as usize).ok_or(DisplayError::Refused(Refusal::NotLent))?;
    let stamp = now().now.0;
    shared.write_u64(last, stamp);
    Ok(stamp)
}

fn ask(server: &Endpoint, memory: &Region, words: Message, deadline: Instant) -> Result<Message, DisplayError> {
    let answer = server.call_lending(words, memory, Rights::READ, deadline).map_err(DisplayError::Call)?;
    accepted(&answer.words)?;
    Ok(answer.words)
}

fn accepted(words: &Message) -> Result<(), DisplayError> {
    match words[0] {
        0 => Ok(()),
        code => Err(DisplayError::Refused(Refusal::from_code(code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Size = Size { width: 100, height: 50 };
    const REGION: u64 = 20_000 + STAMP;

    fn size(width: u64, height: u64) -> u64 {
        width | height << 32
    }

    fn shown(words: [u64; 6]) -> Result<Picture, Refusal> {
        match Request::check(&words, REGION, WINDOW)? {
            Request::Show { picture, stamp: 7 } => Ok(picture),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_fits_exactly_is_accepted_and_one_more_is_not() {
        let whole = Picture::whole(Format::Xrgb8888, WINDOW);
        assert_eq!(shown([SHOW | 1 << 8, size(100, 50), 0, 0, 7, 100]), Ok(whole));
        assert_eq!(shown([SHOW | 1 << 8, size(100, 50), 0, 1, 7, 100]), Err(Refusal::OutsideRegion));
        assert_eq!(shown([SHOW | 1 << 8, size(100, 50), 0, 0, 7, 101]), Err(Refusal::OutsideRegion));
        assert_eq!(shown([SHOW | 1 << 8, size(100, 50), 0, 0, 7, 99]), Err(Refusal::OutsideRegion));
        assert_eq!(shown([SHOW, size(101, 50), 0, 0, 7, 101]), Err(Refusal::OutsideWindow));
        assert_eq!(shown([SHOW, size(100, 50), 1, 0, 7, 100]), Err(Refusal::OutsideWindow));
        assert_eq!(shown([SHOW, size(100, 50), 1 << 32, 0, 7, 100]), Err(Refusal::OutsideWindow));
        assert_eq!(shown([SHOW, size(0, 50), 0, 0, 7, 100]), Err(Refusal::Empty));
        assert_eq!(shown([SHOW, size(1, 0), 0, 0, 7, 100]), Err(Refusal::Empty));
        assert_eq!(shown([SHOW | 2 << 8, size(1, 1), 0, 0, 7, 1]), Err(Refusal::Malformed));
        assert_eq!(shown([2, size(1, 1), 0, 0, 7, 1]), Err(Refusal::Malformed));
    }

    #[test]
    fn sums_that_overflow_are_no_small_numbers() {
        let far = u64::from(u32::MAX);
        assert_eq!(shown([SHOW, size(2, 2), far, 0, 7, 2]), Err(Refusal::OutsideWindow));
        assert_eq!(shown([SHOW, size(far, far), 1, 0, 7, far]), Err(Refusal::OutsideWindow));
        assert_eq!(shown([SHOW, size(1, 2), 0, u64::MAX, 7, far]), Err(Refusal::OutsideRegion));
        assert_eq!(shown([SHOW, size(1, 1), 0, 0, 7, u64::MAX]), Err(Refusal::OutsideRegion));
        let check = Request::check(&[SHOW, size(1, 1), 0, 0, 7, 1], STAMP - 1, WINDOW);
        assert_eq!(check, Err(Refusal::OutsideRegion));
    }

    #[test]
    fn a_refusal_survives_its_reply_and_an_unknown_code_is_malformed() {
        let device = DeviceError::ALL.map(Refusal::Device);
        for refusal in Refusal::OWN.into_iter().chain(device) {
            assert_eq!(accepted(&reply(Err(refusal))), Err(DisplayError::Refused(refusal)));
        }
        assert_eq!(accepted(&reply(Ok(WINDOW))), Ok(()));
        for code in [10, 0x11ff, 0x1206, u64::MAX] {
            assert_eq!(accepted(&[code; 6]), Err(DisplayError::Refused(Refusal::Malformed)));
        }
    }

    proptest! {
        /// For any request: each pixel of an accepted picture lies in the loan, before the stamp, and in the window.
        #[test]
        fn what_is_accepted_lies_in_the_loan_and_in_the_window(
            first in prop_oneof![Just(SHOW), Just(SHOW | 1 << 8), any::<u64>()],
            width in prop_oneof![0..200u64, any::<u32>().prop_map(u64::from)],
            height in prop_oneof![0..200u64, any::<u32>().prop_map(u64::from)],
            at in prop_oneof![0..200u64, any::<u64>(), (0..60u64, 0..60u64).prop_map(|(x, y)| size(x, y))],
            offset in prop_oneof![0..30_000u64, any::<u64>()],
            stride in prop_oneof![0..300u64, any::<u64>()],
            region in prop_oneof![0..30_000u64, any::<u64>()],
        ) {
            let words = [first, size(width, height), at, offset, 7, stride];
            if let Ok(Request::Show { picture, .. }) = Request::check(&words, region, WINDOW) {
                let [width, height, column, row] =
                    [picture.size.width, picture.size.height, picture.at.column, picture.at.row].map(u128::from);
                prop_assert!(width > 0 && height > 0 && width <= picture.stride.into());
                prop_assert!(column + width <= WINDOW.width.into() && row + height <= WINDOW.height.into());
                let last = u128::from(picture.stride) * (height - 1) + width - 1;
                let end = u128::from(picture.offset) + (last + 1) * u128::from(picture.format.bytes());
                prop_assert!(end + u128::from(STAMP) <= region.into());
            }
        }
    }
}
