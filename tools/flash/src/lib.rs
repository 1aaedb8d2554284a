//! `cargo xtask flash`: the card that a board starts from, as a file or written to a disk; and whether boards start from it.
#![forbid(unsafe_code)]
// `words::print` handles a closed pipe and a full disk.
#![cfg_attr(not(test), deny(clippy::print_stdout))]

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fusee_card::board::{Board, Kernel as CardKernel, LaidOut};
use fusee_card::host::Host;
use fusee_manifest::{Profile, Resolved};

use fusee_host::build::Kernel;
use fusee_host::report;
use fusee_host::system::{DEFAULT_BOARD, Image, Workspace, board};

/// Arguments of `cargo xtask flash`.
#[derive(Args)]
pub struct FlashArguments {
    /// The system's manifest. [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    system: Option<PathBuf>,
    /// The system's manifest, named by an option.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// The board, in place of the one that the manifest names: raspi3b, raspi4b, zcu102, versal, or virt with a U-Boot.
    #[arg(long, value_parser = board)]
    board: Option<String>,
    /// Where the card's image is written. [default, without --device: target/SYSTEM-BOARD.card.img]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The disk that is written, all of it: it is shown, and its name asked for, before a byte goes there. It is read back after.
    #[arg(long, value_name = "DISK")]
    device: Option<PathBuf>,
    /// Model or serial number of the disk, which a disk that is not removable has to be named by.
    #[arg(long, value_name = "NAME", requires = "device")]
    disk: Option<String>,
    /// Make the card of a system with `hard` tasks, although nothing proves on this board that they are in time.
    #[arg(long)]
    unproved: bool,
    /// A folder with the board's closed firmware, which is copied to the card: it is no part of Fusee.
    #[arg(long, value_name = "FOLDER")]
    firmware: Option<PathBuf>,
}

/// Makes a card, and writes it.
pub fn flash(arguments: &FlashArguments, install: bool) -> Result<bool> {
    let workspace = Workspace { kernel: Kernel::Asked, board: arguments.board.clone(), ..Workspace::here(install)? };
    let named = arguments.manifest.as_deref().or(arguments.system.as_deref());
    let manifest = workspace.manifest(&workspace.project.manifest(named)?)?;
    let name = manifest.system.board.name.clone();
    // Before anything is built.
    let board = Board::named(&name)?;
    if let Some(task) = unproved(&manifest.system).filter(|_| !arguments.unproved) {
        bail!(
            "task `{task}` is `hard`, and on `{name}` nothing proves that: how long a path of the kernel takes there was never measured, and an \
             instruction is a nanosecond in QEMU's `det` alone. With `--unproved` the card is made all the same"
        );
    }
    let image = workspace.image_of_manifest(manifest, Profile::Par, false)?;
    let LaidOut { card, missing } = lay_out(board, &image, arguments.firmware.as_deref())?;
    for (name, bytes) in card.files() {
        fusee_host::sayln!("{name}: {} bytes", bytes.len());
    }
    if let Some(missing) = missing {
        eprintln!("{} {missing}", report::yellow("warning:"));
    }
    if !image.manifest.system.speaks {
        let note = report::yellow("note:");
        eprintln!(
            "{note} the board will not say how far its start comes; with `speaks = true` under `[system]` it does"
        );
    }
    let card = card.image()?;
    let out = match (&arguments.out, &arguments.device) {
        (None, None) => Some(image.path.with_file_name(format!("{}-{name}.card.img", image.manifest.system.name))),
        (out, _) => out.clone(),
    };
    if let Some(out) = out {
        card.save(&out)?;
        fusee_host::sayln!("{}", out.display());
    }
    if let Some(device) = &arguments.device {
        let target = Host::here().target(device, card.bytes().len() as u64, arguments.disk.as_deref())?;
        let confirmed = target.ask(&mut std::io::stdin().lock(), &mut std::io::stderr())?;
        confirmed.write(&card, &mut |step, done, of| {
            eprint!("\r{step} {} %", done * 100 / of.max(1));
            // A failure to show progress is no reason to stop.
            let _ = std::io::stderr().flush();
        })?;
        eprintln!();
    }
    Ok(true)
}

/// A hard task, if the proof that it is never late says nothing about the board itself, and the user has not agreed to that.
fn unproved(system: &Resolved) -> Option<&str> {
    // A system of QEMU's own boards runs there only.
    let is_measured = system.board.longest_path.is_some() || system.board.name.starts_with(DEFAULT_BOARD);
    let hard = system.tasks.iter().find(|task| task.hard)?;
    (system.is_strict && !is_measured).then_some(hard.name.as_str())
}

/// The files of a card with this system.
///
/// # Errors
/// The image cannot be read, or does not fit the board.
pub fn lay_out(board: &Board, image: &Image, firmware: Option<&Path>) -> Result<LaidOut> {
    let bytes = std::fs::read(&image.path).with_context(|| image.path.display().to_string())?;
    let kernel = CardKernel::new(bytes, image.manifest.system.board.memory.kernel)?;
    Ok(board.card(&kernel, firmware)?)
}
