//! A trace for other tools: the part of `cargo xtask trace` that is compiled when it is first asked for.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fusee_exports::overheads::Overheads;
use fusee_exports::{litmus, perfetto};
use fusee_host::{system, words};

/// Arguments, made by `cargo xtask trace`.
#[derive(Args)]
pub struct ExportArguments {
    /// The folder in which the trace and its manifest are kept.
    folder: PathBuf,
    #[arg(long)]
    perfetto: Option<PathBuf>,
    #[arg(long)]
    litmus: Option<PathBuf>,
    #[arg(long)]
    overheads: Option<PathBuf>,
}

/// Writes the files that are asked for.
///
/// # Errors
/// The trace cannot be read, or a file cannot be written.
pub fn export(arguments: &ExportArguments) -> Result<bool> {
    let (trace, manifest) = system::kept_trace(&arguments.folder)?;
    let system = &manifest.system;
    if let Some(path) = &arguments.perfetto {
        system::write(path, &perfetto::perfetto(&trace, system))?;
    }
    if let Some(path) = &arguments.litmus {
        system::write(path, &litmus::write(&litmus::records(&trace, system)))?;
    }
    if let Some(path) = &arguments.overheads {
        let overheads = Overheads::of(&trace, system);
        words::print(&overheads.summary());
        system::write(path, overheads.csv().as_bytes())?;
    }
    Ok(true)
}
