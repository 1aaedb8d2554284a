//! `cargo xtask flash`: the card that a board starts from, as a file or written to a disk; and whether boards start from it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fusee_card::board::{Board, Kernel as CardKernel, LaidOut};
use fusee_card::host::Host;
use fusee_card::image::Image as CardImage;
use fusee_manifest::{Profile, Resolved};

use crate::boot::small_system;
use crate::build::Kernel;
use crate::report;
use crate::system::{self, DEFAULT_BOARD, Image, RunOptions, Workspace};

/// Arguments of `cargo xtask flash`.
#[derive(Args)]
pub struct FlashArguments {
    /// The system's manifest. [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    system: Option<PathBuf>,
    /// The same.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// The board, in place of the one that the manifest names: raspi3b, raspi4b, zcu102, versal, or virt with a U-Boot.
    #[arg(long)]
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
    if let Some(task) = unproved(&manifest.system) {
        bail!(
            "task `{task}` is `hard`, and on `{name}` nothing proves that: how long a path of the kernel takes there was never measured, and an \
             instruction is a nanosecond in QEMU's `det` alone. With `admission = \"warn\"` under `[system]` the card is made all the same"
        );
    }
    let image = workspace.image_of_manifest(manifest, Profile::Par, false)?;
    let LaidOut { card, missing } = lay_out(board, &image, arguments.firmware.as_deref())?;
    for (name, bytes) in card.files() {
        println!("{name}: {} bytes", bytes.len());
    }
    if let Some(missing) = missing {
        eprintln!("{} {missing}", report::yellow("warning:"));
    }
    let card = card.image()?;
    let out = match (&arguments.out, &arguments.device) {
        (None, None) => Some(image.path.with_file_name(format!("{}-{name}.card.img", image.manifest.system.name))),
        (out, _) => out.clone(),
    };
    if let Some(out) = out {
        card.save(&out)?;
        println!("{}", out.display());
    }
    if let Some(device) = &arguments.device {
        let target = Host::here().target(device, card.bytes().len() as u64, arguments.disk.as_deref())?;
        let confirmed = target.ask(&mut std::io::stdin().lock(), &mut std::io::stderr())?;
        confirmed.write(&card, &mut |step, done, of| {
            eprint!("\r{step} {} %", done * 100 / of.max(1));
            // What is shown of the progress is no reason to stop.
            let _ = std::io::stderr().flush();
        })?;
        eprintln!();
    }
    Ok(true)
}

/// A hard task, if the proof that it is never late says nothing about the board itself, and nobody has agreed to that.
fn unproved(system: &Resolved) -> Option<&str> {
    // What is QEMU's alone runs there only.
    let is_measured = system.board.longest_path.is_some() || system.board.name.starts_with(DEFAULT_BOARD);
    let hard = system.tasks.iter().find(|task| task.hard)?;
    (system.is_strict && !is_measured).then_some(hard.name.as_str())
}

/// The files of a card with this system.
fn lay_out(board: &Board, image: &Image, firmware: Option<&Path>) -> Result<LaidOut> {
    let bytes = std::fs::read(&image.path).with_context(|| image.path.display().to_string())?;
    let kernel = CardKernel::new(bytes, image.manifest.system.board.memory.kernel)?;
    Ok(board.card(&kernel, firmware)?)
}

//--- Whether boards start from cards

/// The name of a check.
pub const BY_U_BOOT: &str = "a card of the zcu102's files starts on virt, by U-Boot";
/// The name of another.
pub const READ_BACK: &str = "the image read back out of a Raspberry Pi's card starts";

/// What starts from cards.
const SYSTEM: &str = "starts_from_a_card";
/// Debian's U-Boot for `virt`.
const U_BOOT: &str = "/usr/lib/u-boot/qemu_arm64/u-boot.bin";
/// The package it is in, and those of the programs that look at a card.
const PACKAGES: [&str; 3] = ["u-boot-qemu", "dosfstools", "mtools"];

/// Whether there is a U-Boot, and what looks at a card; it is installed if we may.
pub fn tools(install: bool) -> Result<()> {
    let is_there = || {
        let runs = |program: &str| Command::new(program).arg("--help").output().is_ok();
        Path::new(U_BOOT).exists() && runs("fsck.vfat") && runs("mdir")
    };
    if !is_there() && install {
        crate::toolchain::try_install(&PACKAGES);
    }
    ensure!(is_there(), "there is no U-Boot, `fsck.vfat` or `mdir` here: `apt-get install {}`", PACKAGES.join(" "));
    Ok(())
}

/// Makes the card twice, and looks at it by programs of others.
fn card(board: &str, image: &Image) -> Result<(CardImage, PathBuf, Vec<String>)> {
    let board = Board::named(board)?;
    let make = || anyhow::Ok(lay_out(board, image, None)?.card.image()?);
    let (card, again) = (make()?, make()?);
    let mut problems = Vec::new();
    if card.bytes() != again.bytes() {
        problems.push("two cards of one image are not equal".to_owned());
    }
    let path = image.path.with_extension("card.img");
    card.save(&path)?;
    let volume = format!("{}@@1M", path.display());
    // The volume alone: `fsck.vfat` knows no partitions.
    let alone = path.with_extension("volume");
    std::fs::write(&alone, &card.bytes()[1 << 20..])?;
    for (program, arguments) in
        [("fsck.vfat", vec!["-n".into(), alone.display().to_string()]), ("mdir", vec!["-i".into(), volume])]
    {
        let output = Command::new(program).args(&arguments).output().with_context(|| program.to_owned())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            problems.push(format!("{program}: {said}{}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    std::fs::remove_file(&alone)?;
    Ok((card, path, problems))
}

/// U-Boot finds the card's script, and that starts the system, which ends itself with code 0.
pub fn check_by_u_boot(workspace: &Workspace) -> Result<Vec<String>> {
    let image = small_system(workspace, "virt", SYSTEM)?;
    let (_, path, mut problems) = card("zcu102", &image)?;
    let drive = format!("if=none,id=card,format=raw,file={}", path.display());
    let arguments = ["-bios", U_BOOT, "-drive", &drive, "-device", "virtio-blk-device,drive=card"];
    let options =
        RunOptions { enters: false, arguments: arguments.map(str::to_owned).to_vec(), ..RunOptions::quiet(60) };
    let run = system::run(workspace, &image, &options)?;
    if run.outcome.code != Some(0) {
        problems.push(format!("ended with {:?}, console:\n{}", run.outcome.code, run.outcome.console));
    }
    Ok(problems)
}

/// What QEMU enters is not what was built, but what was read out of the card.
pub fn check_read_back(workspace: &Workspace, board: &str) -> Result<Vec<String>> {
    let mut image = small_system(workspace, board, SYSTEM)?;
    let (card, _, mut problems) = card(board, &image)?;
    let built = std::fs::read(&image.path)?;
    let read = CardImage::read(&mut std::io::Cursor::new(card.bytes().to_vec()))?.extract("kernel8.img")?;
    if read != built {
        bail!("the image on the card is not the one that was built");
    }
    image.path.set_extension("kernel8.img");
    std::fs::write(&image.path, read)?;
    let run = system::run(workspace, &image, &RunOptions::quiet(60))?;
    if run.outcome.code != Some(0) {
        problems.push(format!("{board}: ended with {:?}, console:\n{}", run.outcome.code, run.outcome.console));
    }
    Ok(problems)
}
