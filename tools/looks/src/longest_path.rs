//! The longest path of the kernel on a board: from the records of its traps to the file of the board.
//!
//! A longer path than the longest that was seen may come. So the number is as good as the system that was run: one in which many tasks call, wait and end
//! at once.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fusee_abi::trace::{Event, Level, Record};
use fusee_host::project::Project;
use fusee_host::{system, words};
use fusee_manifest::trace::{Trace, trap_name};
use fusee_manifest::{Board, Manifest, Resolved};

/// The key in the file.
const KEY: &str = "longest_path";

/// Arguments of `cargo xtask longest-path`.
#[derive(Args)]
pub struct LongestPathArguments {
    /// The file of the board that the last run was on. A longer path that stands there stays.
    file: PathBuf,
}

/// Writes the longest path that the trace of the last run has to the file of its board.
pub fn longest_path(arguments: &LongestPathArguments) -> Result<bool> {
    let (trace, manifest) = system::Last::of(&Project::here()?)?.trace()?;
    ensure_recorded(&manifest)?;
    let (file, board) = (&arguments.file, &manifest.system.board.name);
    let is_its = file.file_stem().is_some_and(|stem| stem == board.as_str());
    ensure!(is_its, "the last run was on the board `{board}`, and {} is the file of another", file.display());
    let (longest, trap) = of(&trace, &manifest.system).context("the trace has no trap")?;
    words::say(&keep(file, longest, &trap)?);
    Ok(true)
}

/// Whether the kernel of this system records its traps.
fn ensure_recorded(manifest: &Manifest) -> Result<()> {
    let file = manifest.file.display();
    ensure!(
        manifest.system.trace == Level::Full,
        "{file}: the longest path needs the records of traps: `trace = \"full\"` under `[system]`"
    );
    Ok(())
}

/// Nanoseconds of the longest trap, without its wait for the kernel's lock, and the name of the trap. `None` without a trap.
fn of(trace: &Trace, system: &Resolved) -> Option<(u64, String)> {
    let own = |record: &Record| u64::from(record.value.saturating_sub(record.object));
    let traps = trace.records.iter().filter(|record| record.event == Event::Trap as u8);
    let longest = traps.max_by_key(|record| own(record))?;
    Some((own(longest), trap_name(longest.job, system)))
}

/// Writes the number into the file of a board, unless a longer path stands there. Returns what was done, in words.
fn keep(file: &Path, nanoseconds: u64, trap: &str) -> Result<String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| name.to_string())?;
    let board: Board = toml::from_str(&text).with_context(|| format!("{name} is no file of a board"))?;
    if let Some(known) = board.longest_path.filter(|known| *known >= nanoseconds) {
        return Ok(format!("{name}: the longest path stays {known} ns; here it was {nanoseconds} ns, of {trap}"));
    }
    let changed = with_key(&text, nanoseconds);
    let board: Board = toml::from_str(&changed).with_context(|| format!("{name}, changed"))?;
    ensure!(board.longest_path == Some(nanoseconds), "`{KEY}` cannot be written to {name}");
    system::write(file, changed.as_bytes())?;
    Ok(format!("{name}: the longest path is {nanoseconds} ns, of {trap}"))
}

/// The text with the key: in the place of the old one, or before the first table.
fn with_key(text: &str, nanoseconds: u64) -> String {
    let is_key = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == KEY);
    let tables = text.find("\n[").map_or(text.len(), |at| at + 1);
    let (mut head, rest) = (String::new(), &text[tables..]);
    head.extend(text[..tables].lines().filter(|line| !is_key(line)).map(|line| format!("{line}\n")));
    let head = head.trim_end_matches('\n');
    format!("{head}\n{KEY} = {nanoseconds} # measured on the board, in nanoseconds\n\n{rest}")
}

#[cfg(test)]
mod tests {
    use fusee_abi::call::Call;
    use fusee_abi::trace::TRAP_TIMER;

    use super::*;

    const FILE: &str = include_str!("../../../bsp/boards/raspi4b.toml");

    #[test]
    fn the_number_is_in_the_file_once_and_grows() {
        let folder = std::env::temp_dir().join(format!("fusee-longest-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("board.toml");
        std::fs::write(&file, FILE).unwrap();
        assert!(keep(&file, 12_345, "a call").unwrap().ends_with("the longest path is 12345 ns, of a call"));
        assert!(keep(&file, 12_000, "a call").unwrap().contains("stays 12345 ns; here it was 12000 ns"));
        keep(&file, 13_000, "the timer").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches(KEY).count(), 1);
        let without: Vec<&str> = text.lines().filter(|line| !line.starts_with(KEY) && !line.is_empty()).collect();
        assert_eq!(without, FILE.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), "all else is as before");
        std::fs::write(&file, "[system]\n").unwrap();
        assert!(keep(&file, 1, "a call").unwrap_err().to_string().contains("is no file of a board"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_wait_for_the_lock_is_no_part_of_the_path() {
        let trap = |job, value, object| Record { event: Event::Trap as u8, job, value, object, ..Record::default() };
        let records =
            vec![trap(Call::Yield as u32, 900, 500), trap(TRAP_TIMER, 600, 0), trap(Call::Yield as u32, 500, 0)];
        let trace = Trace { records, ..Trace::default() };
        let text = "[system]\nname = \"longest\"\nboard = \"virt\"\ncpus = 1\n[tasks.one]\nscript = [\"burn 1ms\"]\n";
        let manifest = Manifest::parse(Path::new("longest.toml"), text).unwrap();
        assert_eq!(of(&trace, &manifest.system), Some((600, "timer".to_owned())));
        assert_eq!(of(&Trace::default(), &manifest.system), None);
        assert!(ensure_recorded(&manifest).unwrap_err().to_string().contains("`trace = \"full\"`"));
    }
}
