//! A serial line on which a kernel speaks (`fusee_abi::speech`): the text on it, the steps of the start, and the trace after the end.
//!
//! Bytes may be lost, spoilt or added anywhere. A zero byte begins and ends what is no text; a frame has a checksum, so no byte of it is taken for text, and no
//! text for a frame. Text after a stray zero byte is known as such at the end of its line.
//!
//! Not here: the port (`port`), and the verdict on a run (`on`).

use fusee_abi::speech::{CHECKSUM, END, SENT, START, Step};
use fusee_views::stream::Stream;

/// The parts of the input of a line.
#[derive(Debug, Default)]
pub struct Line {
    /// The bytes since the last zero byte, as far as they are not known to be text; after the first zero byte.
    open: Vec<u8>,
    /// Whether `open` is in use: a zero byte has come, and no text since.
    is_closed: bool,
    /// The text of the line that has not ended.
    last: Vec<u8>,
    /// The steps of the start that are done, in the order in which they came, with the words of each.
    pub steps: Vec<(Step, String)>,
    /// Whether the kernel has said that it panics, or cannot start.
    pub has_panicked: bool,
    /// The exit code and the number of records that follow, once the system has ended.
    pub end: Option<(u32, u64)>,
    /// Records that were sent, once all were.
    pub sent: Option<u64>,
    /// The trace.
    pub stream: Stream,
    /// Parts between zero bytes that were neither text nor frames.
    pub spoilt: usize,
    /// The bytes of these.
    pub spoilt_bytes: usize,
}

impl Line {
    /// Takes the next bytes; returns the text in them.
    pub fn add(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        for byte in bytes {
            match *byte {
                0 => self.close(&mut text),
                byte if self.is_closed => {
                    self.open.push(byte);
                    if byte == b'\n' && ends_in_text(&self.open) && !is_said(&self.open) {
                        self.release(&mut text);
                    }
                }
                byte => self.text(byte, &mut text),
            }
        }
        text
    }

    /// The rest of a line that has ended.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.close(&mut text);
        text
    }

    /// The checksum of the packed system that runs, if the kernel has said it.
    #[must_use]
    pub fn checksum(&self) -> Option<u64> {
        let (_, words) = self.steps.iter().find(|(step, _)| *step == Step::Tasks)?;
        let (_, number) = words.split_once(CHECKSUM)?;
        u64::from_str_radix(number.trim().strip_prefix("0x")?, 16).ok()
    }

    /// The board that the kernel was built for, if it has said that.
    #[must_use]
    pub fn board(&self) -> Option<&str> {
        let (_, words) = self.steps.iter().find(|(step, _)| *step == Step::Board)?;
        words.split(',').next()
    }

    /// The last step that is done.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        self.steps.iter().map(|(step, _)| *step).max()
    }

    /// The bytes since the last zero byte are text.
    fn release(&mut self, text: &mut Vec<u8>) {
        self.is_closed = false;
        for byte in std::mem::take(&mut self.open) {
            self.text(byte, text);
        }
    }

    fn text(&mut self, byte: u8, text: &mut Vec<u8>) {
        // A serial line ends lines with two characters, files and pipes with one.
        if byte == b'\r' {
            return;
        }
        text.push(byte);
        if byte != b'\n' {
            self.last.push(byte);
            return;
        }
        let line = String::from_utf8_lossy(&self.last).into_owned();
        self.last.clear();
        self.has_panicked |= line.contains("kernel panic on CPU") || line.contains("the kernel cannot start: ");
        if let Some(step) = step(&line) {
            // A board that starts anew: all that came before is of an earlier run.
            if step.0 == Step::Kernel {
                self.steps.clear();
                (self.end, self.sent, self.stream) = (None, None, Stream::default());
            }
            self.steps.push(step);
        }
    }

    /// A zero byte has come.
    fn close(&mut self, text: &mut Vec<u8>) {
        let part = std::mem::take(&mut self.open);
        self.is_closed = true;
        if part.is_empty() {
            return;
        }
        if let Some(line) = std::str::from_utf8(&part).ok().filter(|_| is_said(&part)) {
            self.said(line);
        } else if is_text(&part) {
            part.into_iter().for_each(|byte| self.text(byte, text));
        } else {
            let before = self.stream.frames;
            self.stream.add(&[&part[..], &[0]].concat());
            if self.stream.frames == before {
                self.spoilt += 1;
                self.spoilt_bytes += part.len();
            }
        }
    }

    fn said(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix(END) {
            let mut numbers = rest.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            let code = numbers.next().and_then(|code| u32::try_from(code).ok());
            self.end = code.zip(numbers.next()).or(self.end);
        } else if let Some(rest) = line.strip_prefix(SENT) {
            self.sent = rest.split_whitespace().next().and_then(|count| count.parse().ok()).or(self.sent);
        }
    }
}

/// The text of a console on which a kernel speaks.
#[must_use]
pub fn text_of(bytes: &[u8]) -> Vec<u8> {
    let mut line = Line::default();
    let mut text = line.add(bytes);
    text.extend(line.finish());
    text
}

/// Bytes that are no text: no UTF-8, or characters that no text has.
#[must_use]
pub fn noise(bytes: &[u8]) -> usize {
    let is_odd = |c: &char| c.is_control() && !"\n\r\t\u{7}\u{8}\u{1b}".contains(*c);
    bytes.utf8_chunks().map(|chunk| chunk.invalid().len() + chunk.valid().chars().filter(is_odd).count()).sum()
}

fn is_text(bytes: &[u8]) -> bool {
    noise(bytes) == 0
}

/// So many bytes of text on end are in no frame.
const LONG: usize = 24;

/// Whether these bytes, up to the end of a line, are text, whatever noise comes before: all of them, or many at their end.
fn ends_in_text(bytes: &[u8]) -> bool {
    let tail = &bytes[bytes.len().saturating_sub(LONG)..];
    is_text(bytes) || tail.len() == LONG && is_text(tail)
}

/// Whether these bytes are a line that the kernel says between zero bytes, or the beginning of one.
fn is_said(bytes: &[u8]) -> bool {
    [END, SENT].iter().any(|words| bytes.starts_with(words.as_bytes()))
}

/// The step that this line reports, with its words.
fn step(line: &str) -> Option<(Step, String)> {
    let (_, rest) = line.split_once(START)?;
    let (number, rest) = rest.split_once(" of ")?;
    let number: u64 = number.parse().ok()?;
    let step = Step::ALL.into_iter().find(|step| step.number() == number)?;
    let (_, words) = rest.split_once(": ")?;
    let words = words.strip_prefix(step.name())?.strip_prefix(": ")?;
    Some((step, words.to_owned()))
}

#[cfg(test)]
mod tests {
    use fusee_abi::trace::Record;
    use fusee_frames::{CPUS, FRAME_BYTES, Header, encode};
    use proptest::prelude::*;

    use super::*;

    fn frame(first: u64, all: u64) -> Vec<u8> {
        let record = Record { number: first + 1, time: 10 * first, ..Record::default() };
        let mut written = [0; CPUS];
        written[0] = all;
        let mut out = [0; FRAME_BYTES];
        let length = encode(&Header { cpu: 0, first, cpus: 1, written }, &[record], &mut out).unwrap();
        [&[0], &out[..length]].concat()
    }

    /// The bytes of a board whose system ends with `code`.
    fn sent(code: u32, records: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for step in Step::ALL {
            let words = match step {
                Step::Board => "virt, as its device tree says",
                Step::Tasks => "2, checksum 0xfeed",
                _ => "words",
            };
            let (number, of) = (step.number(), Step::ALL.len());
            bytes.extend(format!("{START}{number} of {of}: {}: {words}\n", step.name()).into_bytes());
        }
        bytes.extend(b"hello\r\n");
        bytes.extend(format!("\0{END}{code} with {records} records\n\0").into_bytes());
        (0..records).for_each(|number| bytes.extend(frame(number, records)));
        bytes.extend(format!("\0{SENT}{records} records\n\0").into_bytes());
        bytes
    }

    fn heard(bytes: &[u8], piece: usize) -> (Line, Vec<u8>) {
        let mut line = Line::default();
        let mut text: Vec<u8> = bytes.chunks(piece).flat_map(|piece| line.add(piece)).collect();
        text.extend(line.finish());
        (line, text)
    }

    #[test]
    fn text_steps_and_trace_come_apart_whatever_the_pieces() {
        for piece in [1, 2, 7, 10_000] {
            let (line, text) = heard(&sent(3, 5), piece);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.lines().count(), Step::ALL.len() + 1);
            assert!(text.ends_with("hello\n") && !text.contains('\0') && !text.contains(END), "{text}");
            assert_eq!(line.step(), Some(Step::Tasks));
            assert_eq!((line.board(), line.checksum()), (Some("virt"), Some(0xfeed)));
            assert_eq!((line.end, line.sent, line.spoilt), (Some((3, 5)), Some(5), 0));
            assert_eq!((line.stream.trace().records.len(), line.stream.missing()), (5, 0));
        }
        assert_eq!(text_of(b"ab\0\0"), b"ab");
    }

    #[test]
    fn what_came_before_a_start_is_forgotten() {
        let (line, _) = heard(&[sent(1, 3), sent(0, 5)[..200].to_vec()].concat(), 9);
        assert_eq!((line.end, line.sent, line.stream.frames), (None, None, 0));
        let (line, _) = heard(&[sent(1, 3), sent(0, 5)].concat(), 9);
        assert_eq!((line.end, line.sent, line.stream.trace().records.len()), (Some((0, 5)), Some(5), 5));
        assert_eq!(line.steps.len(), Step::ALL.len());
    }

    #[test]
    fn text_after_a_stray_zero_byte_is_text_and_a_panic_is_seen() {
        let (line, text) =
            heard(b"\0\xff\0fusee: start 1 of 8: kernel: Fusee\n\0\nkernel panic on CPU 0: why\nrest", 3);
        assert_eq!(text, b"fusee: start 1 of 8: kernel: Fusee\n\nkernel panic on CPU 0: why\nrest");
        assert_eq!((line.step(), line.has_panicked, line.spoilt), (Some(Step::Kernel), true, 1));
        assert_eq!(noise("Grüße\r\n\u{1b}[1m".as_bytes()) + 3, noise(b"\xff\xfe\x01"));
    }

    proptest! {
        #[test]
        fn noise_costs_no_more_than_it_hits(
            at in any::<prop::sample::Index>(),
            noise in prop::collection::vec(any::<u8>(), 1..20),
            replaces in any::<bool>(),
        ) {
            let mut bytes = sent(0, 9);
            let at = at.index(bytes.len());
            let end = if replaces { bytes.len().min(at + noise.len()) } else { at };
            bytes.splice(at..end, noise);
            let (line, _) = heard(&bytes, 11);
            // Frames are as small here as they are: twenty bytes hit two of them, or the bytes between. A record is right or missing.
            let trace = line.stream.trace();
            prop_assert!(trace.records.iter().all(|record| record.time == 10 * (record.number - 1)));
            prop_assert!(trace.records.len() >= 6, "{} records", trace.records.len());
            prop_assert!(line.steps.len() >= Step::ALL.len() - 2);
        }
    }
}
