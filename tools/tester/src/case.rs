//! One check: its name, its needs of the host, and how it runs.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The findings of a check.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// The facts that a reader may want to know of a check that passed: counts, bounds, cases that a budget left out.
    pub words: Option<String>,
    /// Problems; none if the check passed.
    pub problems: Vec<String>,
    /// Why the check did not run, if it could not.
    pub skipped: Option<String>,
    /// Whether an earlier run with the same inputs found this.
    pub is_known: bool,
}

impl Found {
    /// A check that could not run, and why.
    pub fn skipped(why: impl Into<String>) -> Self {
        Found { skipped: Some(why.into()), ..Found::default() }
    }

    /// A check with words for its reader.
    pub fn with_words(words: String, problems: Vec<String>) -> Self {
        Found { words: Some(words).filter(|words| !words.is_empty()), problems, ..Found::default() }
    }
}

impl From<Vec<String>> for Found {
    fn from(problems: Vec<String>) -> Self {
        Found { problems, ..Found::default() }
    }
}

/// The sort of the check; times are summed by sort.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Programs for the target are built.
    Build,
    /// Format, lints, documentation.
    Lint,
    /// Tests on the host.
    Host,
    /// Models with all their interleavings explored.
    Model,
    /// Random systems, and experiments.
    Campaign,
    /// Systems in QEMU with counted instructions.
    Det,
    /// Systems in QEMU on several threads of the host.
    Par,
    /// Pages and pictures.
    Page,
}

impl Kind {
    /// All sorts.
    pub const ALL: [Kind; 8] =
        [Kind::Build, Kind::Lint, Kind::Host, Kind::Model, Kind::Campaign, Kind::Det, Kind::Par, Kind::Page];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Build => "builds for the target",
            Kind::Lint => "lints, documentation",
            Kind::Host => "tests on the host",
            Kind::Model => "models",
            Kind::Campaign => "campaigns, experiments",
            Kind::Det => "QEMU, counted instructions",
            Kind::Par => "QEMU, threads of the host",
            Kind::Page => "pages, tools",
        }
    }
}

/// Cores of the host that a check keeps busy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Needs {
    /// One core.
    Core,
    /// Two cores: a system that QEMU runs on several threads.
    Cores,
    /// The whole host: a check that changes files which others read.
    Alone,
}

/// The function of a check.
pub type Body = Box<dyn FnOnce() -> Result<Found> + Send>;

/// One check.
pub struct Case {
    /// Its name, which no other check has.
    pub name: String,
    /// Its sort.
    pub kind: Kind,
    /// Its needs of the host.
    pub needs: Needs,
    /// When it is begun: checks of a lower stage come first, and within a stage those that take longest.
    pub stage: u8,
    /// Why it cannot run here, if that is known before.
    pub why: Option<String>,
    /// Runs it.
    pub body: Body,
}

impl Case {
    /// A check on one core.
    pub fn new(name: impl Into<String>, kind: Kind, body: impl FnOnce() -> Result<Found> + Send + 'static) -> Self {
        let stage = match kind {
            Kind::Build => 0,
            Kind::Lint | Kind::Host | Kind::Model | Kind::Campaign => 1,
            Kind::Par => 2,
            Kind::Det | Kind::Page => 3,
        };
        Case { name: name.into(), kind, needs: Needs::Core, stage, why: None, body: Box::new(body) }
    }

    /// A check that returns faults.
    pub fn of(
        name: impl Into<String>,
        kind: Kind,
        body: impl FnOnce() -> Result<Vec<String>> + Send + 'static,
    ) -> Self {
        Case::new(name, kind, move || body().map(Found::from))
    }

    /// The check, after which nothing is left in `folder` if all was well: the files of all checks together are most of a gigabyte.
    #[must_use]
    pub fn tidied(self, folder: PathBuf) -> Self {
        let Case { body, .. } = self;
        let body = move || {
            let found = body()?;
            if found.problems.is_empty() && folder.exists() {
                std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
            }
            Ok(found)
        };
        Case { body: Box::new(body), ..self }
    }

    /// A check that cannot run here, and why.
    pub fn skipped(name: impl Into<String>, kind: Kind, why: impl Into<String>) -> Self {
        let why = why.into();
        let words = why.clone();
        let case = Case::new(name, kind, move || Ok(Found::skipped(words)));
        Case { why: Some(why), ..case }
    }

    /// The check, with other needs.
    pub fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// The check, in another stage.
    pub fn stage(mut self, stage: u8) -> Self {
        self.stage = stage;
        self
    }
}
