//! What only the demo does after its run.

use anyhow::Result;

use crate::system::{Image, Run, Workspace};

/// The system that `cargo xtask run` runs.
pub const MANIFEST: &str = "userland/demo/demo.toml";
/// Its name in the manifest.
const NAME: &str = "demo";

/// Looks at what the demo left in its regions; `true` if it is as it should be. Other systems are left alone.
pub fn after_run(_workspace: &Workspace, image: &Image, _run: &Run) -> Result<bool> {
    if image.manifest.system.name != NAME {
        return Ok(true);
    }
    // Here: read regions with `run.outcome.memory.read(physical, bytes)`, write frames as PNG, check displacements.
    Ok(true)
}
