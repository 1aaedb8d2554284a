//! The display server: pictures that clients lend, on a screen of a virtio GPU device (`fusee::display`).
//!
//! Handles: region "display", the device's registers; region "memory" (read, write, physical), of which it has the only handle: 12 KiB for the queue, and four
//! bytes for each pixel of the screen; interrupt "line", notification "event" that the line signals; endpoint "screen" (to serve); places "loan.<client>", or
//! "loan" (read, lent), one for each window. Parameters: "column.<client>", "row.<client>", "width.<client>", "height.<client>", or without a
//! client's name for "loan": where the window is; without them it reaches from the upper left corner to the lower right one. "patience_ms", how long the device may take for
//! one request; without it, for ever. For tests "break" and "mute": with which picture, counted from one, the device shall have no room to answer, and
//! of which it shall hear nothing.
//!
//! # Visible pictures
//!
//! Pictures are copied from the loan to the server's own memory, because a client may go away in the middle, and the device would go on: so it never
//! reaches a client's memory. A copy is seen only when the device is told to take it over, which it does as a whole.
//!
//! The server waits for the interrupt, and serves one client after the other, on the budget of the one it serves. It asks the device nothing before its first
//! client comes, because no client lends it a budget before. A client that goes away meanwhile costs the next one the rest of one request.
//!
//! # Invariants
//!
//! 1. Each shown picture is lent by a client: the stamp is looked at after all was copied, and before the device is told.
//! 2. A client's picture changes its own window only: windows do not overlap, and a picture that is accepted fits into its own.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod device;

use core::sync::atomic::{Ordering, fence};
use device::{Area, Fault, Screen};
use fusee::display::{self, Format, Picture, Point, Refusal, Request, STAMP, Size};
use fusee::{
    Environment, Instant, Interrupt, Lent, Nanoseconds, Notification, Place, Region, Server, WaitError, environment,
};
use fusee_driver::{parameter_of_client, places};

fusee::entry!(main);

/// More windows than a task can have places.
const WINDOWS: usize = 32;
/// How many grey pixels are copied at a time.
const CHUNK: usize = 256;

fn main() {
    let environment = environment();
    let mut desk = Desk::open(&environment);
    let server = Server::new(environment.expect("screen"));
    server.serve(|request| display::reply(desk.serve(request)))
}

/// The screen with its areas, and the objects that report completions of the device.
struct Desk {
    screen: Screen,
    windows: [Option<Window>; WINDOWS],
    signals: Signals,
    /// The number of pictures so far, and the numbers of those with a fault.
    pictures: u64,
    faults: [(Option<u64>, Fault); 2],
}

/// A window as the parameters describe it.
#[derive(Clone, Copy)]
struct Window {
    /// Where its pictures are lent.
    place: Place,
    at: Point,
    /// Without these it reaches to the lower right corner.
    width: Option<u32>,
    height: Option<u32>,
}

impl Window {
    /// Where it is on a screen of this size.
    fn area(&self, screen: Size) -> Option<Area> {
        let width = self.width.or(screen.width.checked_sub(self.at.column))?;
        let height = self.height.or(screen.height.checked_sub(self.at.row))?;
        let area = Area { at: self.at, size: Size { width, height } };
        (width > 0 && height > 0 && area.is_on(screen)).then_some(area)
    }
}

/// How the server hears of the device.
struct Signals {
    line: Interrupt,
    event: Notification,
}

impl Signals {
    /// Waits for the device, which was silenced before. `false`: the deadline came first.
    fn wait(&self, deadline: Instant) -> bool {
        let _ = self.line.acknowledge();
        match self.event.wait(deadline) {
            Ok(_) => true,
            Err(WaitError::TimedOut) => false,
            Err(error) => panic!("the driver may wait for its device: {error:?}"),
        }
    }
}

impl Desk {
    fn open(environment: &Environment) -> Desk {
        let (registers, memory) = (environment.expect::<Region>("display"), environment.expect::<Region>("memory"));
        let patience = environment.parameter("patience_ms").map(|limit| Nanoseconds(limit.saturating_mul(1_000_000)));
        let screen = Screen::open(&registers, &memory, patience)
            .expect("the region `display` holds a virtio GPU device, and `memory` is for it alone");
        let mut windows = [None; WINDOWS];
        for (window, found) in windows.iter_mut().zip(windows_of(environment)) {
            *window = Some(found);
        }
        let wrong = |name, fault| (environment.parameter(name), fault);
        Desk {
            screen,
            windows,
            signals: Signals { line: environment.expect("line"), event: environment.expect("event") },
            pictures: 0,
            faults: [wrong("break", Fault::Broken), wrong("mute", Fault::Silent)],
        }
    }

    /// Serves one request. Returns the size of the client's window.
    fn serve(&mut self, request: &fusee::Request) -> Result<Size, Refusal> {
        let lent = |window: &Window| request.lent(&window.place);
        let found = self.windows.iter().position(|window| window.as_ref().and_then(lent).is_some());
        let number = found.ok_or(Refusal::NotLent)?;
        let lent = self.windows[number].as_ref().and_then(lent).ok_or(Refusal::NotLent)?;
        let signals = &self.signals;
        let screen = self.screen.ready(&mut |deadline| signals.wait(deadline))?;
        let window = self.area(number, screen).ok_or(Refusal::NoWindow)?;
        match Request::check(&request.words, lent.len() as u64, window.size)? {
            Request::Describe => {}
            Request::Show { picture, stamp } => self.show(&picture, stamp, window, &lent)?,
        }
        Ok(window.size)
    }

    /// Where a window is, if none before it is there.
    fn area(&self, number: usize, screen: Size) -> Option<Area> {
        let area = self.windows.get(number)?.as_ref()?.area(screen)?;
        let mut before = self.windows[..number].iter().flatten().filter_map(|window| window.area(screen));
        (!before.any(|other| other.overlaps(&area))).then_some(area)
    }

    /// Copies a picture, which was checked, and has it shown.
    fn show(&mut self, picture: &Picture, stamp: u64, window: Area, lent: &Lent<'_>) -> Result<(), Refusal> {
        // Inside of the window, and that is on the screen: no sum is too large.
        let at = Point { column: window.at.column + picture.at.column, row: window.at.row + picture.at.row };
        let area = Area { at, size: picture.size };
        let step = picture.stride as usize * picture.format.bytes() as usize;
        for (number, row) in self.screen.rows(area).enumerate() {
            copy_row(picture.format, lent, picture.offset as usize + number * step, row);
        }
        if !is_still_lent(lent, stamp) {
            return Err(Refusal::NotLent);
        }
        self.pictures += 1;
        let fault = self.faults.iter().find(|(picture, _)| *picture == Some(self.pictures)).map(|(_, fault)| *fault);
        let signals = &self.signals;
        self.screen.show(area, fault, &mut |deadline| signals.wait(deadline))
    }
}

/// Copies the row of a picture that begins at `offset` of the loan, as pixels of the screen.
fn copy_row(format: Format, lent: &Lent<'_>, offset: usize, row: &mut [u8]) {
    match format {
        Format::Xrgb8888 => lent.copy_to_slice(offset, row),
        Format::Grey8 => {
            let mut greys = [0; CHUNK];
            for (number, pixels) in row.chunks_mut(4 * CHUNK).enumerate() {
                let greys = &mut greys[..pixels.len() / 4];
                lent.copy_to_slice(offset + number * CHUNK, greys);
                for (pixel, grey) in pixels.as_chunks_mut::<4>().0.iter_mut().zip(greys) {
                    *pixel = [*grey, *grey, *grey, 0];
                }
            }
        }
    }
}

/// Whether all bytes read of `lent` so far are the client's, and not the memory that replaces a loan that has ended.
fn is_still_lent(lent: &Lent<'_>, stamp: u64) -> bool {
    // The stamp is read after the copied bytes. A loan that has ended does not come back.
    fence(Ordering::Acquire);
    lent.read_u64(lent.len() - STAMP as usize) == stamp
}

/// The windows of the manifest: each place is for one.
fn windows_of(environment: &Environment) -> impl Iterator<Item = Window> {
    places(environment, "loan").map(|(client, place)| {
        let number = |name| parameter_of_client(environment, name, client);
        // A number that is too large is beyond any screen.
        let [column, row, width, height] = ["column", "row", "width", "height"]
            .map(|name| number(name).map(|number| u32::try_from(number).unwrap_or(u32::MAX)));
        Window { place, at: Point { column: column.unwrap_or(0), row: row.unwrap_or(0) }, width, height }
    })
}
