//! A virtio crypto device, of which AES-CBC is used (OASIS, Virtual I/O Device, version 1.2, section 5.9).
//!
//! The device has sessions, each with a key and a direction, which are made and ended by requests in its control queue; texts go through its first
//! data queue. One request is under way at a time.

use fusee::Region;
use fusee::crypto::{Direction, Iv};
use fusee_driver::virtio::{ANSWER, Completion, Data, Device, HEADER, OpenError, QueueError};
use virtio_drivers::transport::DeviceType;

/// Offsets of the device's own registers: whether it is ready, and how many data queues it has, behind which the control queue comes.
const STATUS: usize = 0;
const READY: u32 = 1;
const DATA_QUEUES: usize = 4;
/// Offsets in the configuration: the services of the device, and its ciphers.
const SERVICES: usize = 8;
const CIPHER_SERVICE: u32 = 1;
const CIPHERS: usize = 12;
/// The number of AES-CBC; of ciphers, a bit.
const AES_CBC: u32 = 3;

/// Our queues.
const TEXTS: usize = 0;
const CONTROL: usize = 1;

/// Requests: of the cipher service.
const ENCRYPT: u32 = 0x0000;
const DECRYPT: u32 = 0x0001;
const CREATE_SESSION: u32 = 0x0002;
const DESTROY_SESSION: u32 = 0x0003;
/// Directions of a session, and that it is of a cipher alone.
const TO_ENCRYPT: u32 = 1;
const TO_DECRYPT: u32 = 2;
const PLAIN_CIPHER: u32 = 1;
/// Offsets in a request: of its kind of operation, and of the part behind it, a key or the input that the first block is chained to.
const CONTROL_KIND: usize = 64;
const TEXT_KIND: usize = 64;
const BEHIND: usize = 72;

/// Answers of the device.
const GOOD: u32 = 0;
const NOT_SUPPORTED: u32 = 3;
/// The last that says why something failed; others mean nothing.
const LAST_ERROR: u32 = 6;
const INVALID_SESSION: u32 = 4;

/// Bytes of an answer: number of the session and status; status of an end; status of a text.
const SESSION_ANSWER: usize = 16;
const SHORT_ANSWER: usize = 1;

/// A session of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Session(u64);

/// Reasons for which the device did not carry out a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeviceError {
    /// The device reports a failure.
    Failed,
    /// The device reports that it has no such operation.
    Unsupported,
    /// The device answers without sense, or not at all until it is reset.
    Lost,
}

/// A fault to be injected into a text, for tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The device has no room to answer, and says that it does nothing more until it is reset.
    Broken,
    /// The device hears nothing, and says nothing.
    Silent,
}

/// The device.
pub struct Cipher {
    device: Device<2>,
}

impl Cipher {
    /// Opens the device with these registers, with queues and texts in `memory`.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used.
    pub fn open(registers: &Region, memory: &Region) -> Result<Cipher, OpenError> {
        let mut has_aes = false;
        let device = Device::with_queues(registers, memory, DeviceType::Crypto, 0, |registers| {
            let word = |offset| registers.word(offset).unwrap_or(0);
            has_aes =
                word(STATUS) & READY != 0 && word(SERVICES) & CIPHER_SERVICE != 0 && word(CIPHERS) & 1 << AES_CBC != 0;
            [0, word(DATA_QUEUES) as u16]
        })?;
        if has_aes { Ok(Cipher { device }) } else { Err(OpenError::Refused) }
    }

    /// Lets it begin anew: it has no sessions then.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used any more.
    pub fn restart(&mut self) -> Result<(), OpenError> {
        self.device.restart()
    }

    /// How many bytes a text may have.
    pub fn room(&self) -> usize {
        self.device.capacity() / 2
    }

    /// Where a text is, and where its result.
    pub fn halves(&mut self) -> (&mut [u8], &mut [u8]) {
        self.device.halves()
    }

    /// Makes a session with `key`, of 16 or 32 bytes. `wait` waits for the device, here and below, and says whether to go on.
    ///
    /// # Errors
    /// [`DeviceError`]: there is none.
    pub fn begin(
        &mut self,
        key: &[u8],
        direction: Direction,
        wait: impl FnMut() -> bool,
    ) -> Result<Session, DeviceError> {
        let operation = if direction == Direction::Encipher { TO_ENCRYPT } else { TO_DECRYPT };
        let mut header = [0; HEADER];
        put(&mut header, 0, &[CREATE_SESSION, AES_CBC, 0, 0, AES_CBC, key.len() as u32, operation]);
        put(&mut header, CONTROL_KIND, &[PLAIN_CIPHER]);
        header[BEHIND..BEHIND + key.len()].copy_from_slice(key);
        let completion = self.ask(CONTROL, &header[..BEHIND + key.len()], Data::None, SESSION_ANSWER, wait)?;
        let (number, status) = completion.answer.split_at(8);
        judge(completion.written, SESSION_ANSWER, word(status))?;
        Ok(Session(u64::from(word(number)) | u64::from(word(&number[4..])) << 32))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// [`DeviceError`]: it may still be there.
    pub fn end(&mut self, session: Session, wait: impl FnMut() -> bool) -> Result<(), DeviceError> {
        let mut header = [0; HEADER];
        put(&mut header, 0, &[DESTROY_SESSION, AES_CBC, 0, 0, session.0 as u32, (session.0 >> 32) as u32]);
        let completion = self.ask(CONTROL, &header[..BEHIND], Data::None, SHORT_ANSWER, wait)?;
        judge(completion.written, SHORT_ANSWER, completion.answer[0].into())
    }

    /// Enciphers or deciphers the first `bytes` bytes of the first half to the second one.
    ///
    /// # Errors
    /// [`DeviceError`]: the second half is undefined.
    pub fn work(
        &mut self,
        Session(session): Session,
        direction: Direction,
        iv: Iv,
        bytes: usize,
        fault: Option<Fault>,
        wait: impl FnMut() -> bool,
    ) -> Result<(), DeviceError> {
        let operation = if direction == Direction::Encipher { ENCRYPT } else { DECRYPT };
        let (text, iv) = (bytes as u32, iv.0);
        let mut header = [0; HEADER];
        put(&mut header, 0, &[operation, AES_CBC, session as u32, (session >> 32) as u32, 0, 0]);
        put(&mut header, 24, &[iv.len() as u32, text, text]);
        put(&mut header, TEXT_KIND, &[PLAIN_CIPHER]);
        header[BEHIND..BEHIND + iv.len()].copy_from_slice(&iv);
        let (header, good) = (&header[..BEHIND + iv.len()], Data::Through(bytes));
        let begun = match fault {
            None => self.device.start(TEXTS, header, good, SHORT_ANSWER),
            Some(Fault::Broken) => self.device.start(TEXTS, header, Data::ToDevice(bytes), 0),
            Some(Fault::Silent) => self.device.prepare(TEXTS, header, good, SHORT_ANSWER),
        };
        begun.map_err(lost)?;
        let completion = self.end_of_request(wait)?;
        judge(completion.written, bytes + SHORT_ANSWER, completion.answer[0].into())
    }

    /// One request, and its end.
    fn ask(
        &mut self,
        queue: usize,
        header: &[u8],
        data: Data,
        answer: usize,
        wait: impl FnMut() -> bool,
    ) -> Result<Completion, DeviceError> {
        self.device.start(queue, header, data, answer).map_err(lost)?;
        self.end_of_request(wait)
    }

    fn end_of_request(&mut self, mut wait: impl FnMut() -> bool) -> Result<Completion, DeviceError> {
        while wait() {
            // Before the line is acknowledged, which the next wait does: a completion after that signals again.
            self.device.silence();
            if let Some(completion) = self.device.finish().map_err(lost)? {
                return Ok(completion);
            }
            if self.device.needs_reset() {
                break;
            }
        }
        Err(DeviceError::Lost)
    }
}

/// Writes these words from `at` on.
fn put(header: &mut [u8], at: usize, words: &[u32]) {
    for (bytes, word) in header[at..].chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The first word of `bytes`.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn lost(_: QueueError) -> DeviceError {
    DeviceError::Lost
}

/// Judges an answer: an answer that reports success without having written all bytes counts as no answer.
fn judge(written: u32, wanted: usize, status: u32) -> Result<(), DeviceError> {
    match status {
        GOOD if written as usize == wanted => Ok(()),
        NOT_SUPPORTED => Err(DeviceError::Unsupported),
        // The device has forgotten its session.
        GOOD | INVALID_SESSION => Err(DeviceError::Lost),
        1..=LAST_ERROR => Err(DeviceError::Failed),
        _ => Err(DeviceError::Lost),
    }
}

const _: () = assert!(SESSION_ANSWER <= ANSWER && BEHIND + 32 <= HEADER);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_says_it_is_good_and_has_not_written_all_is_not_believed() {
        assert_eq!(judge(33, 33, GOOD), Ok(()));
        assert_eq!(judge(32, 33, GOOD), Err(DeviceError::Lost));
        assert_eq!(judge(u32::MAX, 33, GOOD), Err(DeviceError::Lost));
    }

    #[test]
    fn each_answer_has_a_meaning_and_others_have_none() {
        let meanings = [1, 2, 3, 4, 5, 6, 7, 0xff, u32::MAX].map(|status| judge(1, 1, status).unwrap_err());
        use DeviceError::{Failed, Lost, Unsupported};
        assert_eq!(meanings, [Failed, Failed, Unsupported, Lost, Failed, Failed, Lost, Lost, Lost]);
    }

    #[test]
    fn words_are_little_endian() {
        let mut header = [0; 12];
        put(&mut header, 4, &[0x0403_0201, 5]);
        assert_eq!(header, [0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
        assert_eq!([word(&header[4..]), word(&header[8..])], [0x0403_0201, 5]);
    }
}
