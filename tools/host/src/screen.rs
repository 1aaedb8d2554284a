//! Systems with a screen: when a picture is made of it, and where the picture goes.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use fusee_manifest::{Board, Resolved};

use crate::picture::Picture;
use crate::qemu::Stimuli;

/// The console's line by which a system says that its screen shows the expected picture.
pub const STANDS: &str = "the picture stands";

/// The input of a system that has a screen, or none: a picture is wanted of it when the console shows `when`, and then Enter is typed.
///
/// # Errors
/// A picture is to be kept of a system without a screen.
pub fn stimuli(system: &Resolved, keep: Option<&Path>, when: &str) -> Result<Stimuli> {
    if system.has_screen() {
        return Ok(Stimuli { screen: Some(when.to_owned()), input: Some("\n".to_owned()), ..Stimuli::default() });
    }
    let Some(path) = keep else { return Ok(Stimuli::default()) };
    let screens = |board: &Board| {
        let screens = board.devices.iter().filter(|(_, device)| device.screen).map(|(name, _)| format!("`{name}`"));
        screens.collect::<Vec<_>>().join(", ")
    };
    let board = &system.board;
    let there_are = match screens(board) {
        none if none.is_empty() => "the board has none".to_owned(),
        some => format!("the board has {some}"),
    };
    bail!("no picture for `{}`: no region of `{}` is a device with a screen; {there_are}", path.display(), system.name)
}

/// Keeps the picture that was made of a run.
///
/// # Errors
/// There is none.
pub fn keep(path: &Path, screen: Option<&Result<Picture>>, when: &str) -> Result<()> {
    match screen {
        Some(Ok(picture)) => picture.write(path),
        Some(Err(error)) => Err(anyhow!("{error:#}")),
        None => Err(anyhow!("no picture of the screen: the console showed no line with `{when}` before the end")),
    }
}
