//! The common means of all checks: compilers, emulators, boards, and programs that are built once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Result, anyhow};
use fusee_host::build::{Builder, Kernel, Programs};
use fusee_host::project::Project;
use fusee_host::system::Workspace;
use fusee_host::toolchain;
use fusee_manifest::{Board, Resolved};

/// The host's programs and this repository.
pub struct Context {
    /// Whether missing programs are installed.
    pub install: bool,
    /// Whether golden traces and other recorded results are written instead of compared.
    pub bless: bool,
    workspace: Workspace,
    boards: Mutex<BTreeMap<String, Workspace>>,
}

impl Context {
    /// Finds compiler and emulator.
    ///
    /// # Errors
    /// One is missing and cannot be installed.
    pub fn new(install: bool, bless: bool) -> Result<Context> {
        let workspace = Workspace::open(install)?;
        Ok(Context { install, bless, workspace, boards: Mutex::default() })
    }

    /// This repository.
    pub fn fusee(&self) -> &Project {
        &self.workspace.fusee
    }

    /// Its folder.
    pub fn root(&self) -> &PathBuf {
        &self.workspace.root
    }

    /// The workspace of a check with this name: its images are in a folder of their own, since other checks run systems of the same name.
    pub fn workspace(&self, name: &str) -> Workspace {
        self.workspace.clone().apart(name)
    }

    /// The workspace of a check on `board`, with an emulator that has the board if there is one.
    pub fn on(&self, board: &str, name: &str) -> Workspace {
        let mut boards = self.boards.lock().unwrap_or_else(PoisonError::into_inner);
        let found = boards.entry(board.to_owned());
        found.or_insert_with(|| self.workspace.clone().on(Some(board), self.install)).clone().apart(name)
    }

    /// Why the emulator cannot run systems on `board`, if it cannot.
    pub fn too_old(&self, board: &str) -> Option<String> {
        let workspace = self.on(board, board);
        toolchain::too_old(&workspace.qemu, &Board::named(board)?)
    }
}

/// Systems with programs that are built together, when the first of them is needed.
pub struct Group {
    workspace: Workspace,
    kernel: Kernel,
    systems: Vec<Resolved>,
    built: OnceLock<std::result::Result<Programs, String>>,
}

impl Group {
    /// A group for these systems, which are of one board.
    pub fn new(workspace: Workspace, kernel: Kernel, systems: Vec<Resolved>) -> Self {
        Group { workspace, kernel, systems, built: OnceLock::new() }
    }

    /// The programs of all systems of the group.
    ///
    /// # Errors
    /// A program cannot be built.
    pub fn programs(&self) -> Result<Programs> {
        let build = || {
            let systems: Vec<&Resolved> = self.systems.iter().collect();
            let builder = Builder { kernel: self.kernel, ..self.workspace.builder() };
            builder.programs(&systems).map_err(|error| format!("{error:#}"))
        };
        self.built.get_or_init(build).clone().map_err(|error| anyhow!(error))
    }

    /// The builder of the group.
    pub fn builder(&self) -> Builder<'_> {
        Builder { kernel: self.kernel, ..self.workspace.builder() }
    }
}
