//! A system before it starts: its manifest, with changes in code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fusee_manifest::Manifest;
use fusee_simulator::{Hosted, Options, Overheads, PATIENCE, Pace, has_substitute, unmodelled, unsuited};
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::error::Error;
use crate::programs;
use crate::run::Run;
use crate::seeds::{Draws, Varied};

/// A system of a manifest, and the way in which it is simulated.
///
/// Each [`start`](System::start) begins a run of its own, with processes of its own.
#[derive(Clone, Debug)]
pub struct System {
    file: PathBuf,
    document: DocumentMut,
    left_out: BTreeSet<String>,
    overheads: Overheads,
    pace: Pace,
    patience: Duration,
    draws: Option<Draws>,
}

impl System {
    /// Reads the manifest `file`, relative to the current folder: under `cargo test` that of the package.
    ///
    /// # Errors
    /// [`Error::Unreadable`] or [`Error::Syntax`].
    pub fn load(file: impl AsRef<Path>) -> Result<System, Error> {
        let file = file.as_ref();
        let text =
            std::fs::read_to_string(file).map_err(|source| Error::Unreadable { file: file.to_owned(), source })?;
        System::parse(file, &text)
    }

    /// Takes `text` for the manifest `file`, which need not exist. Its folder decides in which workspaces programs are looked up.
    ///
    /// # Errors
    /// [`Error::Syntax`].
    pub fn parse(file: impl AsRef<Path>, text: &str) -> Result<System, Error> {
        let file = file.as_ref().to_owned();
        let parsed = text.parse::<DocumentMut>();
        let document = parsed.map_err(|error| Error::Syntax { file: file.clone(), why: error.to_string() })?;
        let (overheads, pace, left_out) = (Overheads::NONE, Pace::default(), BTreeSet::new());
        Ok(System { file, document, left_out, overheads, pace, patience: PATIENCE, draws: None })
    }

    /// Sets a key of the manifest, such as `tasks.control.period`, to a text, a number, a truth value or an array. A key that the manifest's schema does not
    /// have is an error of [`System::start`], with the line of the changed manifest.
    ///
    /// # Errors
    /// [`Error::NoTable`]: a table on the way to the key is not there.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<&mut System, Error> {
        let (tables, last) = key.rsplit_once('.').unwrap_or(("", key));
        let mut table: &mut dyn TableLike = self.document.as_table_mut();
        for part in tables.split('.').filter(|part| !part.is_empty()) {
            let is_table = |item: &Item| item.is_table_like();
            let choices = table.iter().filter(|(_, item)| is_table(item)).map(|(name, _)| name.to_owned()).collect();
            let found = table.get_mut(part).and_then(Item::as_table_like_mut);
            table = found.ok_or_else(|| Error::NoTable {
                file: self.file.clone(),
                key: key.to_owned(),
                part: part.to_owned(),
                choices,
            })?;
        }
        table.insert(last, Item::Value(value.into()));
        Ok(self)
    }

    /// The manifest's text, with all changes.
    #[must_use]
    pub fn text(&self) -> String {
        self.document.to_string()
    }

    /// Lets paths of the kernel take time: those of a file such as `tests/bench/overheads.toml` of Fusee's repository, or [`Overheads::ROUND`]. Without this
    /// they take none.
    pub fn overheads(&mut self, overheads: Overheads) -> &mut System {
        self.overheads = overheads;
        self
    }

    /// Lets code of programs take the time of `pace`. Without this it takes what programs burn.
    pub fn pace(&mut self, pace: Pace) -> &mut System {
        self.pace = pace;
        self
    }

    /// Lets each program make its next call within this time of the host; otherwise the run ends with an error. Without this it is ten seconds.
    pub fn patience(&mut self, patience: Duration) -> &mut System {
        self.patience = patience;
        self
    }

    /// Lets a task whose program cannot run on the host end at once. Without this such a program is an error of [`System::start`].
    pub fn leave_out(&mut self, task: &str) -> &mut System {
        self.left_out.insert(task.to_owned());
        self
    }

    /// Lets all tasks whose programs cannot run on the host end at once, as [`System::leave_out`] does for one.
    ///
    /// # Errors
    /// [`Error::Manifest`].
    pub fn leave_out_unsuited(&mut self) -> Result<&mut System, Error> {
        let manifest = self.manifest()?;
        let tasks = manifest.system.tasks.iter().enumerate();
        let names = tasks.filter(|(index, _)| unsuited(&manifest, *index).is_some()).map(|(_, task)| task.name.clone());
        self.left_out.extend(names);
        Ok(self)
    }

    /// Varies the next runs as `draws` says: a failure of [`System::seeds`] has the draws that repeat it.
    pub fn vary(&mut self, draws: Option<Draws>) -> &mut System {
        self.draws = draws;
        self
    }

    /// All things of this system that a seed can vary.
    ///
    /// # Errors
    /// [`Error::Manifest`].
    pub fn varied(&self, crashes: bool) -> Result<BTreeSet<Varied>, Error> {
        Ok(Varied::all(&self.manifest()?, crashes))
    }

    /// The manifest, read and checked.
    ///
    /// # Errors
    /// [`Error::Manifest`]: all mistakes of the first stage that has some, each with its line.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        Ok(Manifest::parse(&self.file, &self.text())?)
    }

    /// Builds the programs of tasks for the host, once in each process, and begins a run at the instant zero.
    ///
    /// # Errors
    /// A mistake of the manifest, a program that cannot be built or cannot run, or a system that the kernel refuses.
    pub fn start(&self) -> Result<Run, Error> {
        let mut manifest = self.manifest()?;
        let mut options = Options { overheads: self.overheads, hosted: self.hosted(&manifest)?, ..Options::default() };
        if let Some(draws) = &self.draws {
            (manifest, options) = draws.draw(&manifest).apply(options);
        }
        Run::new(manifest, &options)
    }

    /// The programs that run as processes, built: those of tasks without script and model for which the simulator has no substitute.
    fn hosted(&self, manifest: &Manifest) -> Result<Hosted, Error> {
        let tasks = &manifest.system.tasks;
        let idle = unmodelled(manifest);
        let mut chosen = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            let has_other = !task.script.is_empty() || !task.model.is_empty() || has_substitute(manifest, index);
            if has_other || self.left_out.contains(&task.name) {
                continue;
            }
            match unsuited(manifest, index) {
                None => chosen.push(index),
                Some(why) if idle.contains(&index) => {
                    return Err(Error::Unsuited { file: self.file.clone(), task: task.name.clone(), why });
                }
                // A server, which the simulator lets answer at once.
                Some(_) => {}
            }
        }
        let wanted: Vec<(&str, &str)> =
            chosen.iter().map(|index| (tasks[*index].name.as_str(), tasks[*index].binary.as_str())).collect();
        let built = programs::build(&self.file, &wanted)?;
        let place = |index: &usize| Some((*index, built.get(&tasks[*index].binary)?.clone()));
        let programs = chosen.iter().filter_map(place).collect();
        Ok(Hosted { programs, pace: self.pace, patience: self.patience, ..Hosted::default() })
    }
}
