//! A trace for other tools: the files that `cargo xtask trace` is asked for.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fusee_exports::overheads::Overheads;
use fusee_exports::{litmus, perfetto};
use fusee_host::{system, words};
use fusee_manifest::Manifest;
use fusee_manifest::trace::Trace;

/// Files for other tools.
#[derive(Args)]
pub struct Exports {
    /// Write the trace for Perfetto.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write what LITMUS^RT has records for in the format of its `sched_trace`.
    #[arg(long, value_name = "FILE")]
    litmus: Option<PathBuf>,
    /// Write what paths of the kernel took at most, in microseconds, as SchedCAT reads it.
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
}

/// Writes the files that are asked for, and returns their paths.
///
/// # Errors
/// A file cannot be written.
pub fn export(exports: &Exports, trace: &Trace, manifest: &Manifest) -> Result<Vec<PathBuf>> {
    let resolved = &manifest.system;
    if let Some(path) = &exports.perfetto {
        system::write(path, &perfetto::perfetto(trace, resolved))?;
    }
    if let Some(path) = &exports.litmus {
        system::write(path, &litmus::write(&litmus::records(trace, resolved)))?;
    }
    if let Some(path) = &exports.overheads {
        let overheads = Overheads::of(trace, resolved);
        words::print(&overheads.summary());
        system::write(path, overheads.csv().as_bytes())?;
    }
    let paths = [&exports.perfetto, &exports.litmus, &exports.overheads];
    Ok(paths.into_iter().flatten().cloned().collect())
}
