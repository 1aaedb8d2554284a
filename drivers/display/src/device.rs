//! A virtio GPU device, of which its first screen is used, in two dimensions (OASIS, Virtual I/O Device, version 1.2, section 5.7).
//!
//! The device has a picture of its own, its *resource*, as large as the screen, which it shows. Behind that is our memory, the *backing*: a transfer copies a
//! rectangle from there, and a flush has it shown. So a part of the backing is not seen before it is transferred. One request is under way at a time.

use fusee::display::{DeviceError, Point, Refusal, Size};
use fusee::{Instant, Nanoseconds, Region, now};
use fusee_driver::virtio::{ANSWER, Completion, Data, Device, HEADER, OpenError};
use virtio_drivers::transport::DeviceType;

/// Requests (5.7.6.7).
const GET_DISPLAY_INFO: u32 = 0x0100;
const RESOURCE_CREATE_2D: u32 = 0x0101;
const SET_SCANOUT: u32 = 0x0103;
const RESOURCE_FLUSH: u32 = 0x0104;
const TRANSFER_TO_HOST_2D: u32 = 0x0105;
const RESOURCE_ATTACH_BACKING: u32 = 0x0106;
/// Answers that are no failures.
const NO_DATA: u32 = 0x1100;
const DISPLAY_INFO: u32 = 0x1101;

/// Bytes at the beginning of each request and each answer: kind, flags, a fence, a context, a ring.
const CONTROL: usize = 24;
/// The flag that the answer comes when the device has done everything.
const FENCE: u32 = 1;
/// Bytes of the answer to the question which screens there are: a rectangle for each of sixteen, and whether it is there.
const SCREENS: usize = CONTROL + 16 * 24;
/// Four bytes a pixel: blue, green, red, nothing.
const B8G8R8X8: u32 = 2;
const PIXEL: usize = 4;

/// The number that we give our only resource, and that of the screen.
const RESOURCE: u32 = 1;
const SCREEN: u32 = 0;

/// A fault to be injected, for tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The device has no room to answer.
    Broken,
    /// The device hears nothing, and says nothing.
    Silent,
}

/// A rectangle of the screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Area {
    /// The upper left corner of the area.
    pub at: Point,
    /// How large it is.
    pub size: Size,
}

impl Area {
    /// Whether all of it is on a screen of this size.
    pub fn is_on(&self, screen: Size) -> bool {
        let fits = |at: u32, length: u32, room: u32| at.checked_add(length).is_some_and(|end| end <= room);
        fits(self.at.column, self.size.width, screen.width) && fits(self.at.row, self.size.height, screen.height)
    }

    /// Whether both have a pixel. Both are on a screen.
    pub fn overlaps(&self, other: &Area) -> bool {
        let meet = |a: u32, a_length: u32, b: u32, b_length: u32| a < b + b_length && b < a + a_length;
        meet(self.at.column, self.size.width, other.at.column, other.size.width)
            && meet(self.at.row, self.size.height, other.at.row, other.size.height)
    }
}

/// A function that waits for the device until a deadline, and returns whether the device signalled later. The device was silenced before.
pub type Wait<'a> = dyn FnMut(Instant) -> bool + 'a;

/// The device, and the screen that it has, once it was asked.
pub struct Screen {
    device: Device,
    /// How long the device may take for a request.
    patience: Option<Nanoseconds>,
    size: Option<Size>,
}

impl Screen {
    /// Opens the device with these registers, with queue and backing in `memory`. A request may take as long as `patience`, or for ever.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used.
    pub fn open(registers: &Region, memory: &Region, patience: Option<Nanoseconds>) -> Result<Screen, OpenError> {
        Ok(Screen { device: Device::open(registers, memory, DeviceType::GPU, 0)?, patience, size: None })
    }

    /// How large the screen is. If it shows nothing of ours yet, or no more, it is made to show black.
    ///
    /// # Errors
    /// [`Refusal`]: there is no screen that we can use.
    pub fn ready(&mut self, wait: &mut Wait<'_>) -> Result<Size, Refusal> {
        if let Some(size) = self.size {
            return Ok(size);
        }
        // A restarted device has forgotten all requests.
        self.device.restart().map_err(|_| Refusal::Lost)?;
        let size = self.begin(wait)?;
        self.size = Some(size);
        Ok(size)
    }

    fn begin(&mut self, wait: &mut Wait<'_>) -> Result<Size, Refusal> {
        let size = self.screen_size(wait)?;
        let bytes = u64::from(size.width) * u64::from(size.height) * PIXEL as u64;
        if bytes > self.device.capacity() as u64 {
            return Err(Refusal::NoMemory);
        }
        self.device.data().fill(0);
        let Size { width, height } = size;
        self.tell(&[RESOURCE_CREATE_2D], &[RESOURCE, B8G8R8X8, width, height], None, wait)?;
        let address = self.device.data_address();
        let backing = [RESOURCE, 1, address as u32, (address >> 32) as u32, bytes as u32, 0];
        self.tell(&[RESOURCE_ATTACH_BACKING], &backing, None, wait)?;
        self.tell(&[SET_SCANOUT], &[0, 0, width, height, SCREEN, RESOURCE], None, wait)?;
        self.show(Area { at: Point { column: 0, row: 0 }, size }, None, wait)?;
        Ok(size)
    }

    /// Asks for the size of the first screen.
    fn screen_size(&mut self, wait: &mut Wait<'_>) -> Result<Size, Refusal> {
        let request = header(&[GET_DISPLAY_INFO], &[]);
        let completion = self.ask(&request[..CONTROL], Data::FromDevice(SCREENS), 0, None, wait)?;
        let answer = &self.device.data()[..SCREENS];
        if word(answer, 0) != DISPLAY_INFO {
            return Err(failure(word(answer, 0)));
        }
        if completion.written as usize != SCREENS {
            return Err(Refusal::Lost);
        }
        // Column, row, width, height, whether it is there.
        let [width, height, is_there] = [8, 12, 16].map(|offset| word(answer, CONTROL + offset));
        if is_there == 0 || width == 0 || height == 0 { Err(Refusal::NoScreen) } else { Ok(Size { width, height }) }
    }

    /// The rows of the backing that are behind an area of the screen, from above; nothing if there is no screen.
    pub fn rows(&mut self, area: Area) -> impl Iterator<Item = &mut [u8]> {
        let width = self.size.map_or(0, |size| size.width as usize);
        let (first, last) = (area.at.column as usize * PIXEL, (area.at.column + area.size.width) as usize * PIXEL);
        let rows = self.device.data().chunks_exact_mut((width * PIXEL).max(1));
        let rows = rows.skip(area.at.row as usize).take(area.size.height as usize);
        rows.filter_map(move |row| row.get_mut(first..last))
    }

    /// Has the device show the backing behind an area of the screen: all of it at once.
    ///
    /// # Errors
    /// [`Refusal`]: the area shows its picture of before, or all of this one.
    pub fn show(&mut self, area: Area, fault: Option<Fault>, wait: &mut Wait<'_>) -> Result<(), Refusal> {
        let Area { at: Point { column, row }, size: Size { width, height } } = area;
        let row_pixels = self.size.map_or(width, |size| size.width);
        let offset = (u64::from(row) * u64::from(row_pixels) + u64::from(column)) * PIXEL as u64;
        let transfer = [column, row, width, height, offset as u32, (offset >> 32) as u32, RESOURCE, 0];
        self.tell(&[TRANSFER_TO_HOST_2D, FENCE], &transfer, fault, wait)?;
        self.tell(&[RESOURCE_FLUSH, FENCE], &[column, row, width, height, RESOURCE, 0], None, wait)
    }

    /// One request that is answered without data.
    fn tell(
        &mut self,
        control: &[u32],
        words: &[u32],
        fault: Option<Fault>,
        wait: &mut Wait<'_>,
    ) -> Result<(), Refusal> {
        let request = header(control, words);
        let completion = self.ask(&request[..CONTROL + 4 * words.len()], Data::None, CONTROL, fault, wait)?;
        let result = judge(&completion);
        if result == Err(Refusal::Lost) {
            self.give_up();
        }
        result
    }

    /// One request, and its end.
    fn ask(
        &mut self,
        request: &[u8],
        data: Data,
        answer: usize,
        fault: Option<Fault>,
        wait: &mut Wait<'_>,
    ) -> Result<Completion, Refusal> {
        let begun = match fault {
            None => self.device.start(0, request, data, answer),
            // It reads the request a second time, and writes its answer nowhere.
            Some(Fault::Broken) => self.device.start(0, request, Data::None, 0),
            Some(Fault::Silent) => self.device.prepare(0, request, data, answer),
        };
        let deadline = self.patience.map_or(Instant::NEVER, |patience| now().now + patience);
        let mut ended = begun.map(|()| None);
        while ended == Ok(None) {
            if !wait(deadline) {
                break;
            }
            // Before the line is acknowledged, which the next wait does: a completion after that signals again.
            self.device.silence();
            ended = self.device.finish();
            if ended == Ok(None) && self.device.needs_reset() {
                break;
            }
        }
        match ended {
            Ok(Some(completion)) => Ok(completion),
            Ok(None) | Err(_) => {
                self.give_up();
                Err(Refusal::Lost)
            }
        }
    }

    /// Resets the device, which reaches our memory no more: the next picture begins anew.
    fn give_up(&mut self) {
        self.device.switch_off();
        self.size = None;
    }
}

/// A request: its kind and flags, and the words behind this common beginning.
fn header(control: &[u32], words: &[u32]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    put(&mut header, 0, control);
    put(&mut header, CONTROL, words);
    header
}

/// Writes these words from `at` on, little endian.
fn put(header: &mut [u8], at: usize, words: &[u32]) {
    for (bytes, word) in header[at..].chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The word at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].iter().take(4).rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Judges an answer without data: an incomplete answer counts as none.
fn judge(completion: &Completion) -> Result<(), Refusal> {
    match (completion.written as usize, word(&completion.answer, 0)) {
        (CONTROL, NO_DATA) => Ok(()),
        (CONTROL, code) => Err(failure(code)),
        _ => Err(Refusal::Lost),
    }
}

/// The refusal for an answer with another code than the wanted one.
fn failure(code: u32) -> Refusal {
    DeviceError::from_code(code.into()).map_or(Refusal::Lost, Refusal::Device)
}

const _: () = assert!(CONTROL <= ANSWER && CONTROL + 4 * 8 <= HEADER);

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(written: u32, code: u32) -> Completion {
        let mut answer = [u8::MAX; ANSWER];
        put(&mut answer, 0, &[code]);
        Completion { written, answer }
    }

    #[test]
    fn each_answer_has_a_meaning_and_others_have_none() {
        assert_eq!(judge(&answer(24, NO_DATA)), Ok(()));
        for (code, error) in [
            (0x1200, DeviceError::Unspecified),
            (0x1201, DeviceError::OutOfMemory),
            (0x1202, DeviceError::NoScanout),
            (0x1203, DeviceError::NoResource),
            (0x1204, DeviceError::NoContext),
            (0x1205, DeviceError::BadParameter),
        ] {
            assert_eq!(judge(&answer(24, code)), Err(Refusal::Device(error)));
        }
        for code in [0, 1, DISPLAY_INFO, 0x1206, u32::MAX] {
            assert_eq!(judge(&answer(24, code)), Err(Refusal::Lost));
        }
    }

    #[test]
    fn an_answer_that_is_not_whole_is_not_believed() {
        for written in [0, 16, 23, 25, u32::MAX] {
            assert_eq!(judge(&answer(written, NO_DATA)), Err(Refusal::Lost));
            assert_eq!(judge(&answer(written, 0x1201)), Err(Refusal::Lost));
        }
    }

    #[test]
    fn areas_that_touch_do_not_overlap() {
        let area = |column, row, width, height| Area { at: Point { column, row }, size: Size { width, height } };
        let one = area(10, 10, 10, 10);
        for beside in [area(0, 0, 10, 30), area(20, 0, 9, 30), area(0, 20, 30, 1), area(0, 0, 30, 10)] {
            assert!(!one.overlaps(&beside) && !beside.overlaps(&one), "{beside:?}");
        }
        for over in [area(0, 0, 11, 11), area(19, 19, 1, 1), area(12, 0, 1, 100), area(0, 0, 100, 100), one] {
            assert!(one.overlaps(&over) && over.overlaps(&one), "{over:?}");
        }
    }

    #[test]
    fn an_area_beyond_any_number_is_on_no_screen() {
        let screen = Size { width: 640, height: 480 };
        let area = |column, width| Area { at: Point { column, row: 0 }, size: Size { width, height: 480 } };
        assert!(area(0, 640).is_on(screen) && area(639, 1).is_on(screen));
        assert!(!area(1, 640).is_on(screen) && !area(u32::MAX, 2).is_on(screen));
    }
}
