//! Messages of tasks by the crate `defmt`: frames, which a program's ELF file turns into text.
//!
//! A frame may be anything, because any task may log any words, and the crate that decodes frames trusts them: of some it panics, and one
//! that announces a long list takes all the memory there is. So each program's frames are decoded by a process of their own, with limits:
//! the program of the package `fusee-decoder`, which is built when frames are first decoded. One that ends in the middle costs the frame that it was asked for; after
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
use fusee_manifest::Manifest;
use object::{Object, ObjectSection};
use serde::{Deserialize, Serialize};

use crate::build::{Builder, Features, Kernel, Programs};
use crate::project::{self, Project};
use crate::toolchain::Toolchain;

/// The section with the texts.
pub const SECTION: &str = ".defmt";

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
    let builder = Builder { fusee: &fusee, project, toolchain: &toolchain, kernel, features, debug: false };
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

//--- Messages

/// Turns frames into text.
pub struct Speakers {
    tables: Tables,
    /// Source files below are named from here on.
    root: PathBuf,
    /// Of each program that has said something its decoder, or why there is none.
    decoders: BTreeMap<String, Result<Decoder, String>>,
}

impl Speakers {
    /// Decoders of these programs, which begin when they are needed; sources below `root` are named from there.
    pub fn new(tables: Tables, root: &Path) -> Self {
        Self { tables, root: root.to_owned(), decoders: BTreeMap::new() }
    }

    /// The content of a frame of this program: level, file and line, text. Without a table it is the frame's length.
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
        let decoder = project::program(DECODER).map_err(|error| format!("{error:#}"))?;
        let (root, path) = (self.root.clone(), program.path.clone());
        Decoder::start(Box::new(move || {
            let mut command = Command::new(&decoder);
            command.arg(&root).arg(&path);
            command
        }))
    }
}

//--- The process that decodes

/// The package of the program that decodes.
const DECODER: &str = "fusee-decoder";
/// Processes of one program that may end in the middle.
pub const DEATHS: u32 = 3;
/// How a line of an answer begins.
pub const ANSWER: char = '=';

/// The words of the process: first about the table, then about each frame.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Answer {
    /// The table has been read.
    Ready,
    /// The program has no table.
    NoTable,
    /// The table cannot be read, and why.
    Unreadable(String),
    /// The text of a frame.
    Said(String),
    /// The frame is no message of the program.
    NoMessage,
}

/// A process that decodes the frames of one program.
pub struct Decoder {
    command: Box<dyn Fn() -> Command>,
    /// None after its death, until the next frame.
    process: Option<Process>,
    /// Processes that have ended in the middle.
    pub deaths: u32,
}

struct Process {
    child: Child,
    /// None when nothing more is to be asked.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Decoder {
    /// Starts a process.
    ///
    /// # Errors
    /// Why there is no table, in words.
    pub fn start(command: Box<dyn Fn() -> Command>) -> Result<Decoder, String> {
        match Process::start(&mut command()) {
            Some((process, Answer::Ready)) => Ok(Decoder { command, process: Some(process), deaths: 0 }),
            Some((_, Answer::NoTable)) => Err("it has no table of `defmt`".to_owned()),
            Some((_, Answer::Unreadable(why))) => Err(why),
            _ => Err("its table of `defmt` cannot be read within the limits".to_owned()),
        }
    }

    /// The text of a frame, if the frame can be decoded.
    pub fn text(&mut self, frame: &[u8]) -> Option<String> {
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
    /// A process, and its words about the table.
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
