//! The systems that were run on each board, and those that were not and why: `tests/boards/NAME.toml`, and the table of them in `docs/boards.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fusee_manifest::Board;
use serde::{Deserialize, Serialize};

use fusee_host::system::{self, DEFAULT_BOARD};

/// Where the results are.
pub const FOLDER: &str = "tests/boards";
/// The page with their table.
pub const PAGE: &str = "docs/boards.md";
/// The line before it.
pub const MARK: &str = "<!-- table of: tests/boards -->";

/// The ways in which a system was run: with counted instructions, or compared with the simulator and a golden trace, too. A run on several host
/// threads depends on the host, and is not taken down.
const KINDS: [&str; 2] = ["det", "golden"];

/// Rows of the table that a single system stands for.
const FEATURES: [(&str, &str); 10] = [
    ("a console that several tasks print on", "several_clients_of_a_console_print_whole_lines"),
    ("a serial line that is read by interrupt", "what_is_typed_at_a_serial_line_wakes_its_reader_and_comes_back"),
    ("disks", "sixty_four_mebibytes_go_to_a_disk_and_come_back_beside_a_task_of_a_kilohertz"),
    ("a screen", "pictures_of_two_clients_stand_on_one_screen_as_a_crate_draws_them"),
    ("pins, and their edges", "a_button_wakes_the_task_that_waits_for_its_edge"),
    ("a real-time clock", "the_alarm_of_a_real_time_clock_rings_in_its_second"),
    ("CAN controllers", "twenty_thousand_frames_between_two_can_controllers_come_once_and_unchanged"),
    ("network devices", "ten_thousand_datagrams_between_two_network_devices_come_once_and_unchanged"),
    ("devices behind an SMMU", "a_device_reaches_its_drivers_memory_and_no_other_behind_an_smmu"),
    ("a signal processor, and a DMA controller", "the_demos_vibration_is_found_on_a_cortex_r5f_with_copies_by_dma"),
];

/// The results of runs on one board.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Systems that passed, and the ways.
    pub passed: BTreeMap<String, BTreeSet<String>>,
    /// Systems that were not run, and the missing part of the board.
    pub skipped: BTreeMap<String, String>,
}

impl Results {
    /// Takes down a system that runs, and the way.
    pub fn pass(&mut self, system: &str, kind: &str) {
        if KINDS.contains(&kind) {
            self.passed.entry(system.to_owned()).or_default().insert(kind.to_owned());
        }
    }

    /// Takes down a system that was not run.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.skipped.insert(name.to_owned(), why.to_owned());
    }

    /// How many systems passed in that way.
    fn count(&self, kind: &str) -> usize {
        self.passed.values().filter(|kinds| kinds.contains(kind)).count()
    }

    /// The differences to the results before: a system that is no longer run is as bad as one that fails.
    fn differences(&self, before: &Results) -> Vec<String> {
        let mut problems = Vec::new();
        for (what, from, to) in [("is no longer run", before, self), ("was not run before", self, before)] {
            for (system, ways) in &from.passed {
                // A system for which this host has no emulator says nothing.
                let is_here = |of: &Results| !of.skipped.get(system).is_some_and(|why| why.starts_with("QEMU "));
                for kind in ways.iter().filter(|_| is_here(to)) {
                    if !to.passed.get(system).is_some_and(|ways| ways.contains(kind)) {
                        problems.push(format!("{system} ({kind}) {what}"));
                    }
                }
            }
        }
        problems
    }
}

fn path(root: &Path, board: &str) -> PathBuf {
    root.join(FOLDER).join(format!("{board}.toml"))
}

fn read(root: &Path, board: &str) -> Result<Results> {
    let path = path(root, board);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// Compares with the accepted results, but for systems that were left to others, or takes their place.
pub fn settle(
    root: &Path,
    board: &str,
    seen: &Results,
    elsewhere: &BTreeSet<String>,
    bless: bool,
) -> Result<Vec<String>> {
    if !bless {
        let mut before = read(root, board)?;
        before.passed.retain(|system, _| !elsewhere.contains(system));
        return Ok(seen.differences(&before));
    }
    let text = format!("# Written by `cargo xtask test --board {board} --bless`.\n\n{}", toml::to_string(seen)?);
    system::write(&path(root, board), text.as_bytes())?;
    Ok(Vec::new())
}

/// Systems that a whole run leaves to boards other than this one. Each system that has run on several is run on one of these, which follows from its name:
/// a new system moves no other. Systems that have run on none yet are run by each board.
pub fn elsewhere(root: &Path, board: &str) -> Result<BTreeSet<String>> {
    let present = others().filter(|name| path(root, name).exists());
    let all = present.map(|name| Ok((name, read(root, name)?))).collect::<Result<Vec<_>>>()?;
    Ok(left_to_others(&all, board))
}

fn left_to_others(all: &[(&str, Results)], board: &str) -> BTreeSet<String> {
    let systems: BTreeSet<&String> = all.iter().flat_map(|(_, results)| results.passed.keys()).collect();
    let is_left = |system: &&String| {
        let able: Vec<&str> =
            all.iter().filter(|(_, results)| results.passed.contains_key(*system)).map(|(name, _)| *name).collect();
        able[crc32fast::hash(system.as_bytes()) as usize % able.len()] != board
    };
    systems.into_iter().filter(is_left).cloned().collect()
}

/// Boards that are run beside the usual one.
pub fn others() -> impl Iterator<Item = &'static str> {
    Board::NAMES.into_iter().filter(|name| *name != DEFAULT_BOARD)
}

/// The table of all results, and beneath it the missing parts of each board.
pub fn table(root: &Path) -> Result<String> {
    let boards = others().filter(|board| path(root, board).exists());
    let all = boards.map(|board| Ok((board, read(root, board)?))).collect::<Result<Vec<_>>>()?;
    let mut text = String::from("| In QEMU |");
    let line = |name: &str, of: &dyn Fn(&Results) -> String| {
        let cells: String = all.iter().map(|(_, results)| format!(" {} |", of(results))).collect();
        format!("| {name} |{cells}\n")
    };
    let counts = ["systems, exact and repeatable (`det`)", "golden traces, equal to those of `virt`"];
    let mut rows: String =
        counts.iter().zip(KINDS).map(|(name, kind)| line(name, &|results| results.count(kind).to_string())).collect();
    for (name, system) in FEATURES {
        rows += &line(name, &|results| if results.passed.contains_key(system) { "yes" } else { "—" }.to_owned());
    }
    rows += &line("systems that were not run", &|results| results.skipped.len().to_string());
    for (board, _) in &all {
        let _ = write!(text, " `{board}` |");
    }
    text += &format!("\n|---|{}\n{rows}", "---|".repeat(all.len()));
    let mut lacks: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (board, results) in &all {
        for why in results.skipped.values() {
            // The board stands before the list.
            let why = why.strip_prefix(&format!("board `{board}` has ")).unwrap_or(why);
            *lacks.entry(board).or_default().entry(why).or_default() += 1;
        }
    }
    text.push('\n');
    for (board, reasons) in lacks {
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(why, count)| (std::cmp::Reverse(*count), *why));
        let list: Vec<String> = reasons.iter().map(|(why, count)| format!("{why} ({count})")).collect();
        let _ = writeln!(text, "- `{board}` has {}", list.join("; "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_left_to_one_of_the_boards_that_can_run_it() {
        let root = system::root().unwrap();
        let all: Vec<(&str, Results)> = others().map(|name| (name, read(&root, name).unwrap())).collect();
        let left: Vec<BTreeSet<String>> = all.iter().map(|(name, _)| left_to_others(&all, name)).collect();
        let systems: BTreeSet<&String> = all.iter().flat_map(|(_, results)| results.passed.keys()).collect();
        for system in systems {
            let run = |((_, results), left): &(&(&str, Results), &BTreeSet<String>)| {
                results.passed.contains_key(system) && !left.contains(system)
            };
            assert_eq!(all.iter().zip(&left).filter(run).count(), 1, "{system}");
        }
        let shares = all
            .iter()
            .zip(&left)
            .map(|((_, results), left)| results.passed.keys().filter(|name| !left.contains(*name)).count());
        assert!(shares.take(4).all(|count| count > 20), "no board has nothing to do");
    }

    #[test]
    fn a_system_that_is_no_longer_run_is_seen() {
        let mut before = Results::default();
        for (name, kind) in [("one", "det"), ("one", "par"), ("two", "golden")] {
            before.pass(name, kind);
        }
        assert_eq!(KINDS.map(|kind| before.count(kind)), [1, 1]);
        let mut now = Results::default();
        now.pass("one", "det");
        assert_eq!(now.differences(&before), ["two (golden) is no longer run"]);
        now.pass("three", "det");
        now.pass("two", "golden");
        assert_eq!(now.differences(&before), ["three (det) was not run before"]);
    }
}
