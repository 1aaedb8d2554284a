//! `cargo xtask profile`: where the instructions of the paths that `bench` measures go.
//!
//! The bench system runs twice, alone and watched by the plugin `tools/profiler`, and must log the same samples. The
//! plugin's windows lie between two readings of the counter, and those of a row end before the client says the row's
//! number. A sample takes two readings, so every second window is one. A row's samples are the last such windows that
//! are as long as the logged ones, one after the other, plus the cost of measuring; that is the least length of windows
//! that are as many. Exactly one choice does that, or the row is not explained.
//!
//! Not here: the purpose of an address (`purposes`).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fusee_abi::trace::Level;
use fusee_manifest::Profile;

use crate::bench::{self, rows};
use crate::purposes::{self, Function, Purpose};
use fusee_host::build::Kernel;
use fusee_host::decode::Symbols;
use fusee_host::kept::{PROFILER, PROFILER_LIBRARY};
use fusee_host::system::Workspace;
use fusee_host::table::Table;

/// Arguments of `cargo xtask profile`.
#[derive(Args)]
pub struct ProfileArguments {
    /// Only rows whose name contains this.
    row: Vec<String>,
    /// Count by source lines, too, and show all of them.
    #[arg(long)]
    lines: bool,
    /// Only the table of all rows.
    #[arg(long, conflicts_with = "lines")]
    summary: bool,
}

const FILE: &str = "last.profile";
/// Functions with less than this share of a row, one in so many, are summed up.
const SHARE: i64 = 100;

/// Runs the bench system with the profiler, and prints a table for each row and one of all.
pub fn profile(arguments: &ProfileArguments, install: bool) -> Result<bool> {
    let filter = arguments.row.join(" ");
    let chosen: Vec<usize> = (0..rows::NAMES.len()).filter(|row| rows::NAMES[*row].contains(&filter)).collect();
    ensure!(!chosen.is_empty(), "no row's name contains `{filter}`");

    let workspace = Workspace { kernel: Kernel::Traced(Level::Marks), ..Workspace::open(install)? };
    let plugin = workspace.builder().plugin(PROFILER, PROFILER_LIBRARY)?;
    let image = workspace.image(Path::new(bench::MANIFEST), Profile::Det, false)?;
    let file = workspace.project.kept(FILE)?;
    let watched = vec!["-plugin".to_owned(), format!("{},out={}", plugin.display(), file.display())];
    let samples = bench::samples(&workspace, &image, bench::SECONDS, watched)?;
    let alone = bench::samples(&workspace, &image, bench::SECONDS, Vec::new())?;
    ensure!(samples == alone, "the paths have other lengths while they are watched");

    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let windows = Windows::parse(&text)?;
    let symbols = Symbols::read(&image.programs.kernel)?;
    let (mut profiles, mut unexplained) = (Vec::new(), Vec::new());
    for row in chosen {
        let name = rows::NAMES[row];
        let samples = samples.get(&row).with_context(|| format!("{name}: not measured"))?;
        let explained = windows.explain(row, samples).and_then(|path| path.by_function(&symbols, arguments.lines));
        match explained {
            Ok(functions) => profiles.push((name, functions)),
            Err(why) => unexplained.push(format!("{name}: {why}")),
        }
    }
    if let (true, [first, ..]) = (profiles.is_empty(), &unexplained[..]) {
        bail!("{first}");
    }
    for (name, functions) in profiles.iter().filter(|_| !arguments.summary) {
        fusee_host::sayln!("{name}\n{}", function_table(functions, if arguments.lines { i64::MAX } else { SHARE }));
    }
    fusee_host::sayln!("{}", purpose_table(&profiles));
    unexplained.iter().for_each(|row| fusee_host::sayln!("not explained: {row}"));
    Ok(true)
}

//--- Windows

/// The plugin's observations on the first CPU.
#[derive(Debug, Default)]
struct Windows {
    /// Windows in order; by the row with the number that was said next.
    rows: BTreeMap<usize, Vec<Window>>,
    /// Addresses in the order in which they are executed.
    shapes: BTreeMap<usize, Vec<u64>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Window {
    /// The two readings of the counter.
    ends: (u64, u64),
    length: u64,
    shape: usize,
}

/// The executed instructions of one sample.
#[derive(Debug)]
struct Executed {
    /// Their addresses, in order.
    addresses: Vec<u64>,
    /// How many of these, all in user mode, measuring costs.
    overhead: u64,
    /// The row's figure.
    figure: u64,
}

impl Windows {
    fn parse(text: &str) -> Result<Windows> {
        let mut windows = Windows::default();
        let mut group = Vec::new();
        let mut shape = None;
        for line in text.lines() {
            let hexadecimal = |word: &str| u64::from_str_radix(word, 16);
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["core", "0"] => {}
                // The bench has one CPU.
                ["core", _] => break,
                ["window", start, end, length, shape] => {
                    let ends = (hexadecimal(start)?, hexadecimal(end)?);
                    group.push(Window { ends, length: length.parse()?, shape: shape.parse()? });
                }
                ["mark", row] => _ = windows.rows.insert(row.parse()?, std::mem::take(&mut group)),
                ["shape", number] => shape = Some(number.parse()?),
                [address, count] => {
                    let shape = shape.context("an address of no shape")?;
                    let (address, count) = (hexadecimal(address)?, count.parse()?);
                    let run = std::iter::successors(Some(address), |address| Some(address + 4)).take(count);
                    windows.shapes.entry(shape).or_default().extend(run);
                }
                _ => bail!("what the profiler wrote: {line}"),
            }
        }
        Ok(windows)
    }

    /// The instructions executed in a sample of median length.
    fn explain(&self, row: usize, samples: &[u64]) -> Result<Executed> {
        let windows = self.rows.get(&row).context("the client did not say its number")?;
        let found: Vec<(Vec<Window>, u64)> = overheads(windows)
            .into_iter()
            .flat_map(|overhead| (0..2).filter_map(move |side| last_run(windows, side, samples, overhead)))
            .collect();
        let (windows, overhead) = match &found[..] {
            [] => bail!("no windows are as long as its samples"),
            [found] => found,
            _ => bail!("several kinds of windows are as long as its samples"),
        };
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let figure = sorted[sorted.len() / 2];
        let window = windows.iter().find(|window| window.length == figure + overhead).context("no median")?;
        let addresses = self.shapes.get(&window.shape).context("a window of no shape")?.clone();
        Ok(Executed { addresses, overhead: *overhead, figure })
    }
}

/// The possible costs of measuring: the least length of any window that was taken as often as samples are. Rows from which
/// nothing is subtracted have none.
fn overheads(windows: &[Window]) -> Vec<u64> {
    let mut kinds: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for window in windows {
        kinds.entry(window.ends).or_default().push(window.length);
    }
    let often = kinds.into_values().filter(|lengths| lengths.len() >= rows::SAMPLES - 1);
    let mut all: Vec<u64> = often.filter_map(|lengths| lengths.into_iter().min()).chain([0]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The last windows that are `samples` and `overhead` long: every second one, of the even (0) or the odd (1) ones.
fn last_run(windows: &[Window], side: usize, samples: &[u64], overhead: u64) -> Option<(Vec<Window>, u64)> {
    let side: Vec<Window> = windows.iter().copied().skip(side).step_by(2).collect();
    let fits = |run: &&[Window]| run.iter().zip(samples).all(|(window, sample)| window.length == sample + overhead);
    side.windows(samples.len()).rev().find(fits).map(|run| (run.to_vec(), overhead))
}

//--- Functions

/// Instructions by function, file and purpose.
type Functions = BTreeMap<(Function, Purpose), i64>;

impl Executed {
    /// # Errors
    /// If the parts are not the whole.
    fn by_function(&self, symbols: &Symbols, lines: bool) -> Result<Functions> {
        let in_user_mode = |name: &str| Function { name: name.to_owned(), file: "(user mode)".to_owned(), line: None };
        let mut functions = Functions::new();
        let mut before = Purpose::Rest;
        for &address in &self.addresses {
            let (mut function, purpose) = match address >> 63 {
                0 => (in_user_mode("the tasks"), Some(Purpose::User)),
                _ => purposes::of(symbols, address),
            };
            before = purpose.unwrap_or(before);
            function.line = function.line.filter(|_| lines);
            *functions.entry((function, before)).or_default() += 1;
        }
        functions.insert((in_user_mode("what measuring costs"), Purpose::Measuring), -self.overhead.cast_signed());
        let sum: i64 = functions.values().sum();
        ensure!(sum == self.figure.cast_signed(), "its parts are {sum} instructions, not {}", self.figure);
        Ok(functions)
    }
}

/// Functions with less than one part of `share` are summed up.
fn function_table(functions: &Functions, share: i64) -> String {
    let total: i64 = functions.values().sum();
    let mut table = Table::new(["function", "instructions", "for", "file"]).left(&["for", "file"]);
    let (mut shown, few): (Vec<_>, Vec<_>) =
        functions.iter().partition(|(_, count)| count.abs().saturating_mul(share) >= total);
    shown.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for ((function, purpose), count) in shown {
        let line = function.line.map(|line| format!(":{line}")).unwrap_or_default();
        let file = format!("{}{line}", function.file);
        table.add_row([function.name.clone(), count.to_string(), purpose.name().to_owned(), file]);
    }
    if !few.is_empty() {
        let sum: i64 = few.iter().map(|(_, count)| **count).sum();
        table.add_row([format!("{} more", few.len()), sum.to_string(), String::new(), String::new()]);
    }
    table.add_row(["sum", &total.to_string(), "", ""]);
    table.to_string()
}

/// A line for each row, a column for each purpose that any of them has.
fn purpose_table(profiles: &[(&str, Functions)]) -> String {
    let sum = |functions: &Functions, wanted: &dyn Fn(Purpose) -> bool| {
        let counts = functions.iter().filter(|((_, purpose), _)| wanted(*purpose)).map(|(_, count)| count);
        counts.sum::<i64>()
    };
    let is_any =
        |purpose: &Purpose| profiles.iter().any(|(_, functions)| sum(functions, &|other| other == *purpose) != 0);
    let columns: Vec<Purpose> = Purpose::ALL.into_iter().filter(is_any).collect();
    let mut header = vec!["instructions", "sum"];
    header.extend(columns.iter().map(|purpose| purpose.name()));
    let mut table = Table::new(header).repeat(2);
    for (name, functions) in profiles {
        let mut row = vec![(*name).to_owned(), sum(functions, &|_| true).to_string()];
        row.extend(columns.iter().map(|column| sum(functions, &|purpose| purpose == *column).to_string()));
        table.add_row(row);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rounds of a path of 5 and 6, with 9 between them; then many of one that costs 2, and 4 between them.
    fn seen() -> Windows {
        let measuring = "window 10 14 2 3\nwindow 14 10 4 4\n".repeat(rows::SAMPLES);
        let path = "window 4 8 7 0\nwindow 8 4 9 1\nwindow 4 8 8 2\nwindow 8 10 9 1\n";
        let shapes = "shape 0\n4 7\nshape 2\n4 2\n4 1\nffffff8000000000 5\n";
        Windows::parse(&format!("core 0\n{path}{measuring}mark 3\n{shapes}core 1\n")).unwrap()
    }

    #[test]
    fn a_row_is_the_windows_that_are_as_long_as_its_samples() {
        let executed = seen().explain(3, &[5, 6]).unwrap();
        assert_eq!((executed.overhead, executed.figure), (2, 6));
        let kernel = [0, 4, 8, 12, 16].map(|offset| 0xffff_ff80_0000_0000 + offset);
        assert_eq!(executed.addresses, [&[4, 8, 4], &kernel[..]].concat());
    }

    #[test]
    fn a_row_whose_samples_no_windows_have_is_refused() {
        assert!(seen().explain(3, &[6, 5]).is_err());
        assert!(seen().explain(3, &[5, 6, 6]).is_err());
        assert!(seen().explain(2, &[5, 6]).is_err());
    }

    #[test]
    fn what_the_profiler_does_not_write_is_refused() {
        assert!(Windows::parse("core 0\nwindow 4\n").is_err());
        assert!(Windows::parse("4 1\n").is_err());
    }
}
