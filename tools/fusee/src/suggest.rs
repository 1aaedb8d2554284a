//! `analyze --suggest`: lines for the manifest of the last run. `tools/looks` makes them, since few need them.

use anyhow::Result;
use clap::Args;

use crate::command::Arguments;
use crate::passed::{self, Passed};

/// Whether lines are suggested, and how.
#[derive(Args)]
pub struct SuggestArguments {
    /// Print the lines that the manifest of the last run lacks or has too small, by the amounts of that run.
    #[arg(long, conflicts_with_all = ["source", "manifest", "cpus", "policy", "clusters", "overheads", "json"])]
    pub suggest: bool,
    /// With --suggest: how much more than was seen, in percent.
    #[arg(long, default_value_t = 20, requires = "suggest", value_parser = clap::value_parser!(u64).range(0..=1000))]
    margin: u64,
}

/// Prints the lines for the last run.
///
/// # Errors
/// Cargo does not start.
pub fn suggest(arguments: &SuggestArguments, all: &Arguments) -> Result<bool> {
    let margin = vec!["--margin".into(), arguments.margin.to_string().into()];
    passed::looks("suggest", &Passed { arguments: margin }, all)
}
