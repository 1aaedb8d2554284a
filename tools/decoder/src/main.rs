//! Decodes frames of the crate `defmt`, hexadecimal in lines, to JSON in lines: `fusee-decoder ROOT ELF`.
//!
//! A process of its own, with limits, because the crate that decodes frames trusts them. Its start, and its end in the
//! middle, are in `tools/host/src/defmt.rs`.
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use defmt_decoder::{DecodeError, Locations, Table};
use fusee_abi::trace::DEFMT_BYTES;
use fusee_host::defmt::{ANSWER, Answer};
use rustix::process::{Resource, Rlimit, setrlimit};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(root), Some(elf)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: fusee-decoder ROOT ELF");
        return ExitCode::FAILURE;
    };
    match decode(Path::new(&root), Path::new(&elf)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Bytes of memory that decoding may take.
const MEMORY: u64 = 1 << 30;
/// Seconds of CPU time that reading a table may take,
const TABLE_SECONDS: u64 = 60;
/// and a frame.
const FRAME_SECONDS: u64 = 1;
/// Letters of a message, at most.
const LETTERS: usize = 4096;
/// The text in place of the rest of a message that is cut.
const CUT: &str = " [cut]";

/// Decodes frames, hexadecimal in lines, to JSON in lines. It need not survive every input.
fn decode(root: &Path, elf: &Path) -> Result<bool> {
    limit(Resource::Core, 0);
    limit(Resource::As, MEMORY);
    limit_seconds(TABLE_SECONDS);
    let bytes = std::fs::read(elf)?;
    let table = match Table::parse(&bytes) {
        Ok(Some(table)) if table.encoding() == defmt_decoder::Encoding::Rzcobs => table,
        Ok(Some(_)) => {
            let why = "it was built with the feature `encoding-raw` of `defmt`, whose frames have no ends";
            return say(&Answer::Unreadable(why.to_owned()));
        }
        Ok(None) => return say(&Answer::NoTable),
        Err(error) => return say(&Answer::Unreadable(format!("{error:#}"))),
    };
    // Without debug information messages have no places, and are messages all the same.
    let places = table.get_locations(&bytes).unwrap_or_default();
    say(&Answer::Ready)?;
    let texts = Texts { table, places, root };
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let digits = line
            .as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two)?, 16).map_err(anyhow::Error::from));
        limit_seconds(FRAME_SECONDS);
        say(&texts.answer(&digits.collect::<Result<Vec<u8>>>()?))?;
    }
    Ok(true)
}

fn say(answer: &Answer) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ANSWER}{}", serde_json::to_string(answer)?)?;
    out.flush()?;
    Ok(true)
}

/// From here on so much of a resource may be used. A system without this limit goes without.
fn limit(resource: Resource, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: None };
    let maximum = rustix::process::getrlimit(resource).maximum;
    let _ = setrlimit(resource, Rlimit { maximum, ..limit });
}

/// So many seconds more of CPU time, one more at most.
fn limit_seconds(more: u64) {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_sec;
    limit(Resource::Cpu, used.unsigned_abs() + 1 + more);
}

/// The texts of a program.
struct Texts<'a> {
    table: Table,
    places: Locations,
    root: &'a Path,
}

impl Texts<'_> {
    fn answer(&self, encoded: &[u8]) -> Answer {
        let Some(mut bytes) = without_encoding(encoded) else { return Answer::NoMessage };
        bytes.truncate(DEFMT_BYTES);
        match self.decoded(&bytes) {
            // The encoding rounds up, by zeros.
            Ok((text, used)) if bytes.len() - used < 7 && bytes[used..].iter().all(|byte| *byte == 0) => {
                let mut short: String = text.chars().take(LETTERS).collect();
                if short.len() < text.len() {
                    short += CUT;
                }
                Answer::Said(short)
            }
            Err(DecodeError::UnexpectedEof) if bytes.len() == DEFMT_BYTES => Answer::Said(self.cut(&bytes)),
            _ => Answer::NoMessage,
        }
    }

    /// The part of a message without its end that is sure: it does not depend on the end.
    fn cut(&self, bytes: &[u8]) -> String {
        // A zero that is 0xff ends text that was formatted by `core`.
        let continued = [0x20, 0x7e].map(|filling| [bytes, &[filling; 1 << 16], &[0xff]].concat());
        let [Ok((one, _)), Ok((other, _))] = continued.map(|bytes| self.decoded(&bytes)) else {
            let index = bytes.iter().take(2).rev().fold(0, |index, byte| index << 8 | u64::from(*byte));
            return format!("{}:{CUT}", self.place(index));
        };
        let sure = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).map(|(letter, _)| letter);
        sure.take(LETTERS).collect::<String>() + CUT
    }

    /// A message, and how many bytes it takes.
    fn decoded(&self, bytes: &[u8]) -> Result<(String, usize), DecodeError> {
        let (frame, used) = self.table.decode(bytes)?;
        let level = frame.level().map_or(String::new(), |level| format!("{} ", level.as_str().to_uppercase()));
        Ok((format!("{level}{}: {}", self.place(frame.index()), frame.display_message()), used))
    }

    fn place(&self, index: u64) -> String {
        let Some(place) = self.places.get(&index) else { return "?".to_owned() };
        let file = place.file.strip_prefix(self.root).unwrap_or(&place.file);
        format!("{}:{}", file.display(), place.line)
    }
}

/// The bytes that rzCOBS has encoded as these: blocks, each with its kind in its last byte. None: it has not.
fn without_encoding(encoded: &[u8]) -> Option<Vec<u8>> {
    // Blocks can be told only from the end.
    let mut rest = encoded.iter().rev().copied();
    let mut bytes = Vec::new();
    while let Some(kind) = rest.next() {
        match kind {
            0 => return None,
            // Seven bytes; of a bit that is set there is a zero, and nothing in the block.
            1..0x80 => {
                for bit in (0..7).rev() {
                    bytes.push(if kind >> bit & 1 == 1 { 0 } else { rest.next()? });
                }
            }
            // Many bytes that are no zeros, and, unless there is no more room, a zero.
            _ => {
                let count = usize::from(kind - 0x80) + 7;
                if kind < 0xff {
                    bytes.push(0);
                }
                let before = bytes.len();
                bytes.extend(rest.by_ref().take(count));
                if bytes.len() < before + count {
                    return None;
                }
            }
        }
    }
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use defmt_encoder::Encoder;
    use fusee_host::defmt::{DEATHS, Decoder, SECTION};
    use object::write::{Object as Elf, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::path::PathBuf;
    use std::process::Command;

    /// Texts of a program, numbered from one, and their kinds.
    const TEXTS: [(&str, &str); 11] = [
        ("defmt_prim", "{=u8}"),
        ("defmt_prim", "{=isize}"),
        ("defmt_prim", "()"),
        ("defmt_prim", "{=__internal_FormatSequence}"),
        ("defmt_derived", "A|B({=?})"),
        ("defmt_info", "list {=[?]}"),
        ("defmt_info", "signed {=isize:x}"),
        ("defmt_info", "time {=u64:iso8601s}"),
        ("defmt_info", "text {=str}, {=u32}"),
        ("defmt_info", "any {=?}"),
        ("defmt_info", "bytes {=[u8]:a}, {=__internal_Display}"),
    ];
    /// The file that a process of the test below decodes for.
    const ELF: &str = "FUSEE_TEST_DEFMT";

    /// An ELF file with these texts.
    fn elf() -> Vec<u8> {
        let mut elf = Elf::new(BinaryFormat::Elf, Architecture::Aarch64, Endianness::Little);
        let section = elf.add_section(Vec::new(), SECTION.into(), SectionKind::ReadOnlyData);
        elf.set_section_data(section, vec![0; TEXTS.len() + 1], 1);
        let mut add = |name: String, value: u64| {
            let (kind, scope, section) = (SymbolKind::Data, SymbolScope::Linkage, SymbolSection::Section(section));
            let (weak, flags) = (false, SymbolFlags::None);
            elf.add_symbol(Symbol { name: name.into(), value, size: 1, kind, scope, weak, section, flags });
        };
        for (number, (tag, data)) in (1..).zip(TEXTS) {
            let name =
                serde_json::json!({ "package": "p", "tag": tag, "data": data, "disambiguator": number.to_string() });
            add(name.to_string(), number);
        }
        add("_defmt_version_ = 4".to_owned(), 0);
        add("_defmt_encoding_ = rzcobs".to_owned(), 0);
        elf.write().unwrap()
    }

    /// A file as long as its decoder.
    struct File(PathBuf);

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A decoder of that file, named `name`, in a process of this test program.
    fn decoder(name: &str) -> Decoder {
        let file = File(std::env::temp_dir().join(format!("fusee-defmt-{name}-{}", std::process::id())));
        std::fs::write(&file.0, elf()).unwrap();
        let decoder = Decoder::start(Box::new(move || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "tests::a_process_decodes", "--nocapture"]).env(ELF, &file.0);
            command
        }));
        decoder.unwrap()
    }

    #[test]
    fn a_process_decodes() {
        let Some(elf) = std::env::var_os(ELF) else { return };
        decode(Path::new(""), Path::new(&elf)).unwrap();
    }

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::new();
        let mut encoder = Encoder::new();
        encoder.start_frame(|_| {});
        encoder.write(bytes, |part| encoded.extend(part));
        encoder.end_frame(|part| encoded.extend(part));
        assert_eq!(encoded.pop(), Some(0));
        encoded
    }

    fn said(decoder: &mut Decoder, bytes: &[u8]) -> Option<String> {
        decoder.text(&encoded(bytes))
    }

    #[test]
    fn a_frame_that_the_decoder_does_not_survive_costs_itself() {
        let mut decoder = decoder("deaths");
        let good = [&[9, 0, 2, 0, 0, 0][..], b"ok", &[7, 0, 0, 0]].concat();
        let deadly: [&[u8]; 3] = [
            // A list of more elements than fit into memory, none of which takes a byte;
            &[6, 0, 0xff, 0xff, 0xff, 0xff, 3, 0],
            // a number that the decoder cannot print as it says that it can;
            &[7, 0, 0xff, 0xff, 0xff, 0xff],
            // a time that is none.
            &[8, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ];
        for (number, frame) in (1..).zip(deadly) {
            assert_eq!(said(&mut decoder, &good).as_deref(), Some("INFO ?: text ok, 7"));
            assert_eq!(said(&mut decoder, frame), None);
            assert_eq!(decoder.deaths, number);
        }
        assert_eq!(said(&mut decoder, &good), None, "enough is enough");
    }

    #[test]
    fn what_is_cut_is_shown_as_far_as_it_is_sure() {
        let mut decoder = decoder("cut");
        let cut = |start: &[u8]| [start, &[b'x'; DEFMT_BYTES]].concat()[..DEFMT_BYTES].to_vec();
        let text = said(&mut decoder, &cut(&[9, 0, 0xff, 2, 0, 0]));
        assert_eq!(text, Some(format!("INFO ?: text {}{CUT}", "x".repeat(DEFMT_BYTES - 6))));
        // The number behind it is not there.
        let text = said(&mut decoder, &cut(&[9, 0, (DEFMT_BYTES - 6) as u8, 1, 0, 0]));
        assert_eq!(text, Some(format!("INFO ?: text {}, {CUT}", "x".repeat(DEFMT_BYTES - 6))));
        // A message longer than the tried ones says which text it is.
        assert_eq!(said(&mut decoder, &cut(&[9, 0, 0, 0, 0, 1])), Some(format!("?:{CUT}")));
        // The same without its end, but not because it was cut.
        assert_eq!(said(&mut decoder, &[9, 0, 0xff, 2, 0, 0, b'x']), None);
    }

    proptest! {
        #[test]
        fn what_defmt_encodes_is_what_comes_back(bytes in vec(prop_oneof![2 => any::<u8>(), 1 => Just(0)], 0..DEFMT_BYTES)) {
            let mut decoded = without_encoding(&encoded(&bytes)).unwrap();
            prop_assert!(decoded.len() - bytes.len() < 7 && decoded[bytes.len()..].iter().all(|byte| *byte == 0));
            decoded.truncate(bytes.len());
            prop_assert_eq!(decoded, bytes);
        }

        #[test]
        fn bytes_that_nothing_has_encoded_decode_to_something_or_nothing(bytes in vec(any::<u8>(), 0..512)) {
            prop_assert!(without_encoding(&bytes).is_none_or(|decoded| decoded.len() <= bytes.len() * 7));
        }
    }

    proptest! {
        // Each case starts processes.
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn whatever_frames_a_task_logs_all_get_an_answer(
            raw in vec(vec(any::<u8>(), 0..40), 0..40),
            near in vec((1..=TEXTS.len() as u8, vec(prop_oneof![any::<u8>(), 0..12_u8], 0..40)), 0..40),
        ) {
            let mut decoder = decoder("random");
            let near = near.into_iter().map(|(text, rest)| encoded(&[&[text, 0], &rest[..]].concat()));
            for frame in raw.into_iter().chain(near) {
                if let Some(text) = decoder.text(&frame) {
                    prop_assert!(text.chars().count() <= LETTERS + CUT.len());
                }
            }
            prop_assert!(decoder.deaths <= DEATHS);
        }
    }
}
