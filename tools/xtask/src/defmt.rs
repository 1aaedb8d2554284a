//! What tasks say by the crate `defmt`: frames, which a program's ELF file turns into text.
//!
//! A frame may be anything, because any task may log any words, and the crate that decodes frames trusts them: of some it panics, and one
//! that announces a long list takes all the memory there is. So each program's frames are decoded by a process of their own, with limits:
//! this program again, with the hidden command [`decode`]. One that ends in the middle costs the frame that it was asked for; after
//! [`DEATHS`] the program's frames are shown as lengths.
//!
//! A table belongs to one build. So a run keeps which programs it had, each with a hash, and another build's table is not used.
//!
//! Not here: how words become frames (`fusee_manifest::trace`), and how they are written (`userland/fusee/src/defmt_logger.rs`).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::Args;
use defmt_decoder::{DecodeError, Locations, Table};
use fusee_abi::trace::DEFMT_BYTES;
use fusee_manifest::Manifest;
use object::{Object, ObjectSection};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::build::{Builder, Features, Kernel, Programs};
use crate::project::Project;
use crate::toolchain::Toolchain;

/// The section with the texts.
const SECTION: &str = ".defmt";

//--- Programs

/// Programs that may have tables, by the names that manifests use.
pub type Tables = BTreeMap<String, Program>;

/// Where a program's table is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Program {
    /// The ELF file.
    path: PathBuf,
    /// The hash of the file that ran, if that is known.
    hash: Option<u64>,
    /// Otherwise the file must not be newer than this, if that is known.
    #[serde(skip)]
    newest: Option<SystemTime>,
}

impl Program {
    /// The same, as if another build of it had run.
    pub fn of_another_build(&self) -> Self {
        Self { hash: self.hash.map(|hash| !hash), ..self.clone() }
    }
}

/// Those of the programs that have a table.
pub fn tables(programs: &Programs) -> Result<Tables> {
    let mut tables = Tables::new();
    for (name, path) in &programs.binaries {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*bytes).with_context(|| path.display().to_string())?;
        if file.section_by_name(SECTION).is_some_and(|section| section.size() > 0) {
            let program = Program { path: path.clone(), hash: Some(hash(&bytes)), newest: None };
            tables.insert(name.clone(), program);
        }
    }
    Ok(tables)
}

/// The programs of a system as they have been built, for a trace that was sent from elsewhere until `newest`.
pub fn built(project: &Project, manifest: &Manifest, newest: Option<SystemTime>) -> Result<Tables> {
    let fusee = Project::fusee()?;
    let toolchain = Toolchain::find(&fusee.root, false)?;
    let (kernel, features) = (Kernel::Asked, Features::Asked);
    let builder = Builder { fusee: &fusee, project, toolchain: &toolchain, kernel, features };
    let plan = builder.plan(&[&manifest.system]).map_err(|reason| manifest.at_binary(reason))?;
    let places = builder.places(&plan).into_iter().chain(project.by_path(manifest));
    Ok(places.map(|(name, path)| (name, Program { path, hash: None, newest })).collect())
}

/// Equal for equal files.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

//--- What was said

/// Turns frames into text.
pub struct Speakers {
    tables: Tables,
    /// Source files below are named from here on.
    root: PathBuf,
    /// Of each program that has said something its decoder, or why there is none.
    decoders: BTreeMap<String, Result<Decoder, String>>,
}

impl Speakers {
    pub fn new(tables: Tables, root: &Path) -> Self {
        Self { tables, root: root.to_owned(), decoders: BTreeMap::new() }
    }

    /// What a frame of this program says: level, file and line, text. Without a table it is the frame's length.
    pub fn text(&mut self, binary: &str, frame: &[u8]) -> String {
        if !self.decoders.contains_key(binary) {
            self.decoders.insert(binary.to_owned(), self.decoder(binary));
        }
        let bytes = format!("{} byte{} of `defmt`", frame.len(), if frame.len() == 1 { "" } else { "s" });
        match self.decoders.get_mut(binary) {
            Some(Ok(decoder)) => decoder.text(frame).unwrap_or_else(|| format!("{bytes}, no message of its program")),
            _ => bytes,
        }
    }

    /// Why frames of programs are shown as lengths, a line for each program.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let why = |decoder: &Result<Decoder, String>| match decoder {
            Ok(decoder) if decoder.deaths < DEATHS => None,
            Ok(_) => Some(format!("of its frames {DEATHS} could not be decoded within the limits")),
            Err(why) => Some(why.clone()),
        };
        self.decoders.iter().filter_map(move |(binary, decoder)| {
            Some(format!("what `{binary}` says by `defmt` is shown as lengths: {}", why(decoder)?))
        })
    }

    fn decoder(&self, binary: &str) -> Result<Decoder, String> {
        let program = self.tables.get(binary).ok_or("it has no table of `defmt`")?;
        let shown = program.path.display();
        let bytes = std::fs::read(&program.path).map_err(|error| format!("{shown}: {error}"))?;
        if program.hash.is_some_and(|known| known != hash(&bytes)) {
            return Err("it was built anew since that run; run it again".to_owned());
        }
        let modified = std::fs::metadata(&program.path).and_then(|metadata| metadata.modified()).ok();
        if program.newest.zip(modified).is_some_and(|(newest, modified)| modified > newest) {
            return Err(format!("{shown} is newer than what was sent"));
        }
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let (root, path) = (self.root.clone(), program.path.clone());
        Decoder::start(Box::new(move || {
            let mut command = Command::new(&own);
            command.arg(DECODE).arg(&root).arg(&path);
            command
        }))
    }
}

//--- The process that decodes

/// The hidden command.
pub const DECODE: &str = "decode-defmt";
/// Processes of one program that may end in the middle.
const DEATHS: u32 = 3;
/// How a line of an answer begins.
const ANSWER: char = '=';

/// What the process says: first of the table, then of each frame.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Answer {
    Ready,
    NoTable,
    Unreadable(String),
    Said(String),
    NoMessage,
}

/// A process that decodes the frames of one program.
struct Decoder {
    command: Box<dyn Fn() -> Command>,
    /// None after its death, until the next frame.
    process: Option<Process>,
    deaths: u32,
}

struct Process {
    child: Child,
    /// None when nothing more is to be asked.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Decoder {
    /// Starts a process; why there is no table.
    fn start(command: Box<dyn Fn() -> Command>) -> Result<Decoder, String> {
        match Process::start(&mut command()) {
            Some((process, Answer::Ready)) => Ok(Decoder { command, process: Some(process), deaths: 0 }),
            Some((_, Answer::NoTable)) => Err("it has no table of `defmt`".to_owned()),
            Some((_, Answer::Unreadable(why))) => Err(why),
            _ => Err("its table of `defmt` cannot be read within the limits".to_owned()),
        }
    }

    fn text(&mut self, frame: &[u8]) -> Option<String> {
        if self.deaths >= DEATHS {
            return None;
        }
        if self.process.is_none() {
            self.process = Process::start(&mut (self.command)()).map(|(process, _)| process);
        }
        match self.process.as_mut().and_then(|process| process.ask(frame)) {
            Some(Answer::Said(text)) => Some(text),
            Some(_) => None,
            None => {
                self.process = None;
                self.deaths += 1;
                None
            }
        }
    }
}

impl Process {
    /// A process, and what it says of the table.
    fn start(command: &mut Command) -> Option<(Process, Answer)> {
        // It says why it ends, if it does; there is nothing in that for the user.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let (questions, answers) = (child.stdin.take(), BufReader::new(child.stdout.take()?));
        let mut process = Process { child, questions, answers };
        let answer = process.answer()?;
        Some((process, answer))
    }

    fn ask(&mut self, frame: &[u8]) -> Option<Answer> {
        let line: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.questions.as_mut()?, "{line}").ok()?;
        self.answer()
    }

    fn answer(&mut self) -> Option<Answer> {
        loop {
            let mut line = String::new();
            let count = self.answers.read_line(&mut line).ok()?;
            if let Some(answer) = line.strip_prefix(ANSWER) {
                return serde_json::from_str(answer).ok();
            }
            if count == 0 {
                return None;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Without questions it ends; one that hangs is ended.
        self.questions = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//--- Inside that process

/// Bytes of memory that decoding may take.
const MEMORY: u64 = 1 << 30;
/// Seconds of CPU time that reading a table may take,
const TABLE_SECONDS: u64 = 60;
/// and a frame.
const FRAME_SECONDS: u64 = 1;
/// Letters of a message, at most.
const LETTERS: usize = 4096;
/// What stands in place of the rest of a message that is cut.
const CUT: &str = " [cut]";

/// Arguments of the hidden command.
#[derive(Args)]
pub struct DecodeArguments {
    /// Source files below this folder are named from there.
    root: PathBuf,
    /// The program.
    elf: PathBuf,
}

/// Decodes frames, hexadecimal in lines, to JSON in lines. Nothing here need survive what it reads.
pub fn decode(arguments: &DecodeArguments) -> Result<bool> {
    limit(Resource::Core, 0);
    limit(Resource::As, MEMORY);
    limit_seconds(TABLE_SECONDS);
    let bytes = std::fs::read(&arguments.elf)?;
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
    let texts = Texts { table, places, root: &arguments.root };
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

    /// What is sure of a message without its end: it says the same whatever follows.
    fn cut(&self, bytes: &[u8]) -> String {
        // A zero that is 0xff ends what was formatted by `core`.
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

/// The bytes that rzCOBS has encoded as these: blocks, each with what it is in its last byte. None: it has not.
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
    use object::write::{Object as Elf, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Texts of a program, numbered from one, and what they are.
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
            command.args(["--exact", "defmt::tests::a_process_decodes", "--nocapture"]).env(ELF, &file.0);
            command
        }));
        decoder.unwrap()
    }

    #[test]
    fn a_process_decodes() {
        let Some(elf) = std::env::var_os(ELF) else { return };
        decode(&DecodeArguments { root: PathBuf::new(), elf: elf.into() }).unwrap();
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
        // What is longer than what is tried says which text it is.
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
