//! Boards that start from cards.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot::small_system;
use anyhow::{Context, Result, bail, ensure};
use fusee_card::board::Board;
use fusee_card::image::Image as CardImage;
use fusee_flash::lay_out;
use fusee_host::system::{self, Image, RunOptions, Workspace};

/// The name of a check.
pub const BY_U_BOOT: &str = "a card of the zcu102's files starts on virt, by U-Boot";
/// The name of another.
pub const READ_BACK: &str = "the image read back out of a Raspberry Pi's card starts";

/// The system that starts from cards.
const SYSTEM: &str = "starts_from_a_card";
/// Debian's U-Boot for `virt`.
const U_BOOT: &str = "/usr/lib/u-boot/qemu_arm64/u-boot.bin";
/// The package it is in, and those of the programs that look at a card.
const PACKAGES: [&str; 3] = ["u-boot-qemu", "dosfstools", "mtools"];

/// Whether there is a U-Boot, and a program that reads cards; it is installed if we may.
pub fn tools(install: bool) -> Result<()> {
    let is_there = || {
        let runs = |program: &str| Command::new(program).arg("--help").output().is_ok();
        Path::new(U_BOOT).exists() && runs("fsck.vfat") && runs("mdir")
    };
    if !is_there() && install {
        fusee_host::toolchain::try_install(&PACKAGES);
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

/// QEMU enters the image that was read out of the card, not the one that was built.
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
