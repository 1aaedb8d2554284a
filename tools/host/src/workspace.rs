//! The workspace of a command, and the bootable image of a system.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fusee_abi::trace::Level;
use fusee_manifest::{Board, Manifest, PackOptions, Profile, Resolved, Variant};

pub use crate::build::DEFAULT_BOARD;
use crate::build::{self, Builder, Features, Programs};
use crate::folders::Folder;
use crate::project::Project;
pub use crate::project::root;
use crate::toolchain::{self, Toolchain};
use crate::{turns, words};

/// This repository, the project that a command is about, and the programs we call.
#[derive(Clone)]
pub struct Workspace {
    /// Which kernel is built.
    pub kernel: build::Kernel,
    /// With which features.
    pub features: Features,
    /// Whether programs of tasks are for a debugger.
    pub debug: bool,
    /// This repository.
    pub fusee: Project,
    /// Its folder.
    pub root: PathBuf,
    /// The project whose systems are built and run; this repository for its own checks.
    pub project: Project,
    /// The compiler.
    pub toolchain: Toolchain,
    /// The emulator.
    pub qemu: PathBuf,
    /// The board, in place of those that manifests name.
    pub board: Option<String>,
}

/// A bootable image, and its parts.
pub struct Image {
    /// Whether engine locks are off.
    pub unmanaged: bool,
    /// The image.
    pub path: PathBuf,
    /// The system in it.
    pub manifest: Manifest,
    /// How it is to be run.
    pub profile: Profile,
    /// The programs in it, with their symbols.
    pub programs: Programs,
}

impl Image {
    /// The file for the trace that its task sends, if it has such a task.
    pub fn stream(&self) -> Option<PathBuf> {
        self.manifest.system.shows_trace().then(|| self.path.with_extension("stream"))
    }
}

/// Reads a manifest; relative paths count from here or from `root`. Warnings are printed.
pub fn read_manifest(root: &Path, path: &Path) -> Result<Manifest> {
    read_manifest_for(root, path, None)
}

/// The same, for another board than the manifest names.
pub fn read_manifest_for(root: &Path, path: &Path, board: Option<&str>) -> Result<Manifest> {
    read_said(root, path, &Variant { board: board.map(str::to_owned), ..Variant::default() })
}

fn read_said(root: &Path, path: &Path, variant: &Variant) -> Result<Manifest> {
    let manifest = read_variant(root, path, variant)?;
    for warning in &manifest.system.warnings {
        eprintln!("{} {}: {warning}", words::yellow("warning:"), manifest.file.display());
    }
    Ok(manifest)
}

/// Reads the manifest at `path`, changed by `variant`. A relative `path` is looked up in the working directory, then in `root`.
/// Errors name the path relative to `root`, if it is below `root`.
pub fn read_variant(root: &Path, path: &Path, variant: &Variant) -> Result<Manifest> {
    let path = if path.exists() { std::path::absolute(path)? } else { root.join(path) };
    let shown = path.strip_prefix(root).unwrap_or(&path);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let variant = Variant { folder: path.parent().map(Path::to_owned), ..variant.clone() };
    Ok(Manifest::parse_variant(shown, &text, &variant)?)
}

/// A board on the command line.
///
/// # Errors
/// No board has this name; those that there are.
pub fn board(name: &str) -> Result<String, String> {
    let names = || Board::NAMES.join(", ");
    Board::named(name).map(|board| board.name).ok_or_else(|| format!("no board is called so; there are {}", names()))
}

impl Workspace {
    /// Finds compiler and emulator, for this repository's own systems.
    pub fn open(install: bool) -> Result<Workspace> {
        let fusee = Project::fusee()?;
        let root = fusee.root.clone();
        let toolchain = Toolchain::find(&root, install)?;
        let qemu = toolchain::find_qemu(install)?;
        let (kernel, features) = (build::Kernel::Traced(Level::Schedule), Features::All);
        Ok(Workspace {
            project: fusee.clone(),
            fusee,
            root,
            toolchain,
            qemu,
            kernel,
            features,
            debug: false,
            board: None,
        })
    }

    /// Finds compiler and emulator, for systems of the project around the current folder.
    pub fn here(install: bool) -> Result<Workspace> {
        Ok(Workspace { project: Project::here()?, features: Features::Asked, ..Workspace::open(install)? })
    }

    /// The same for `board`, or that of each manifest, with a QEMU that has it, if one can be had.
    pub fn on(mut self, board: Option<&str>, install: bool) -> Workspace {
        if let Some(board) = board.and_then(fusee_manifest::Board::named) {
            toolchain::prepare_turning(&board, &self.qemu, install);
            self.qemu = toolchain::qemu_for(&board, self.qemu, install);
        }
        self.board = board.map(str::to_owned);
        self
    }

    /// The workspace with a folder of its own for images and all else that is kept: systems of one name may then run side by side.
    pub fn apart(mut self, name: &str) -> Workspace {
        let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
        self.project.kept_in = self.project.target.join("fusee/apart").join(letters.take(120).collect::<String>());
        self
    }

    /// The workspace with the folder of a run, in which all is kept that is of it.
    pub fn in_folder(self) -> Result<(Workspace, Folder)> {
        let (project, folder) = Folder::begin(&self.project)?;
        Ok((Workspace { project, ..self }, folder))
    }

    /// The board of the workspace: the usual one, unless another is named.
    ///
    /// # Errors
    /// No board has this name.
    pub fn the_board(&self) -> Result<Board> {
        let name = self.board.as_deref().unwrap_or(DEFAULT_BOARD);
        Board::named(name)
            .with_context(|| format!("no board is called `{name}`; there are {}", Board::NAMES.join(", ")))
    }

    /// The inputs of a build.
    pub fn builder(&self) -> Builder<'_> {
        Builder {
            fusee: &self.fusee,
            project: &self.project,
            toolchain: &self.toolchain,
            kernel: self.kernel,
            features: self.features,
            debug: self.debug,
        }
    }

    /// Reads a manifest; relative paths count from here or from the project.
    pub fn manifest(&self, path: &Path) -> Result<Manifest> {
        read_manifest_for(&self.project.root, path, self.board.as_deref())
    }

    /// The same of a system whose kernels are measured.
    pub fn manifest_that_measures(&self, path: &Path) -> Result<Manifest> {
        read_said(
            &self.project.root,
            path,
            &Variant { board: self.board.clone(), measures: true, ..Variant::default() },
        )
    }

    /// Builds the image of one manifest.
    pub fn image(&self, path: &Path, profile: Profile, unmanaged: bool) -> Result<Image> {
        self.image_of_manifest(self.manifest(path)?, profile, unmanaged)
    }

    /// The image of a system of our own checks, with the trace that its manifest asks for; `name` is that of its file, in words of errors.
    pub fn image_as_asked(&self, name: &str, text: &str, profile: Profile) -> Result<Image> {
        let manifest = Manifest::parse(Path::new(name), text)?;
        let builder = Builder { kernel: build::Kernel::Asked, ..self.builder() };
        let programs = builder.programs(&[&manifest.system])?;
        self.image_of(manifest, programs, profile, false)
    }

    /// The same of a manifest that has been read.
    pub fn image_of_manifest(&self, manifest: Manifest, profile: Profile, unmanaged: bool) -> Result<Image> {
        let programs = {
            let builder = self.builder();
            let plan = builder.plan(&[&manifest.system]).map_err(|reason| manifest.at_binary(reason))?;
            builder.build(&plan)?
        };
        self.image_of(manifest, programs, profile, unmanaged)
    }

    /// Joins programs that are already built, and those that the manifest names by their paths.
    pub fn image_of(
        &self,
        manifest: Manifest,
        mut programs: Programs,
        profile: Profile,
        unmanaged: bool,
    ) -> Result<Image> {
        let board = &manifest.system.board;
        board.profiles.get(&profile).context("the board does not have this profile")?;
        let stride = board.stride(profile, turns::cpus(&manifest.system));
        if let Some(lack) = too_many(&manifest.system, profile) {
            bail!("{lack}");
        }
        let options = PackOptions { cpu_stride: stride, managed: unmanaged.then_some(false) };
        programs.binaries.extend(self.project.by_path(&manifest));
        let packed = build::pack(&manifest, &programs, options)?;
        let bytes = build::image(&programs.kernel, &packed, &board.memory)?;
        let kind = if unmanaged { "-unmanaged" } else { "" };
        let on = if board.name == DEFAULT_BOARD { String::new() } else { format!("-{}", board.name) };
        let path = self.project.kept(&format!("{}{on}-{}{kind}.img", manifest.system.name, profile_name(profile)))?;
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        std::fs::write(&draft, bytes).with_context(|| draft.display().to_string())?;
        std::fs::rename(&draft, &path)?;
        Ok(Image { path, manifest, profile, programs, unmanaged })
    }
}

/// That a system has more CPUs than its board can be run with in this profile, if it has.
pub fn too_many(system: &Resolved, profile: Profile) -> Option<String> {
    let (wanted, usable) = (turns::cpus(system), system.board.usable(profile));
    // Turns are as long as they were asked for while one CPU waits now and then, as that of engines does. If the kernel computes on all of them, they are
    // not: jobs end some 0.5 ms late.
    let kernels = system.board.cpus.count - 1;
    let is_full = system.board.fair(profile, wanted).is_some() && system.cpus > kernels;
    let (board, profile) = (&system.board.name, profile_name(profile));
    if is_full {
        return Some(format!(
            "board `{board}` has {kernels} CPUs for a kernel with `{profile}`; the system's has {}",
            system.cpus
        ));
    }
    (wanted > usable).then(|| format!("board `{board}` has {usable} CPUs with `{profile}`; the system has {wanted}"))
}

/// Why a system cannot be run here: its board has too few CPUs in this profile, or with this QEMU.
pub fn lacks(workspace: &Workspace, system: &Resolved, profile: Profile) -> Option<String> {
    let old = || toolchain::turning(&workspace.qemu, &system.board, profile, turns::cpus(system)).err();
    too_many(system, profile).or_else(|| old().map(|error| error.to_string()))
}

/// The profile's name, as in file names and on the command line.
pub fn profile_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Det => "det",
        Profile::Par => "par",
    }
}
