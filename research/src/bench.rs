//! `cargo xtask bench`: the paths of the kernel, in instructions, beside those of other kernels.
//!
//! The bench task logs one sample at a time: `log(row, instructions)`. Rows are those of [`ROWS`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use fusee_abi::image::feature;
use fusee_abi::trace::Level;
use fusee_kernel_core::limits::LONGEST_PATH;
use fusee_manifest::{Manifest, Profile};

use crate::clients::{self, Client};
use crate::crowd::Costs;
use crate::sizes;
use fusee_host::answers::{self, BenchAnswer, PathAnswer};
use fusee_host::build::{self, Kernel};
use fusee_host::system::{self, Image, Workspace};
use fusee_host::table::Table;
use fusee_host::{report, toolchain};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub struct BenchArguments {
    /// The system that measures.
    #[arg(long, default_value = MANIFEST)]
    manifest: PathBuf,
    /// Host seconds after which the run is ended.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Record the figures, for this compiler and this QEMU, instead of comparing with the recorded ones.
    #[arg(long, conflicts_with = "json")]
    bless: bool,
    /// Print one JSON object (docs/schema/bench.json).
    #[arg(long)]
    json: bool,
}

/// The system that measures.
pub const MANIFEST: &str = "tests/bench/bench.toml";
/// Host seconds after which it is ended, unless told otherwise.
pub const SECONDS: u64 = 120;
/// The kernel's costs for a task set, for `simulate` and `analyze`.
const OVERHEADS: &str = "tests/bench/overheads.toml";
/// The recorded figures.
const FIGURES: &str = "tests/bench/figures.toml";
/// Percent by which a path may be longer than recorded.
const TOLERANCE: i64 = 2;

/// The rows as the bench task numbers and names them.
#[path = "../../userland/apps/src/rows.rs"]
#[allow(dead_code, reason = "the tasks use the rest")]
pub mod rows;

/// One path: seL4 default, seL4 MCS, NOVA; our limit, our aim, and our dream. 0: not measured.
struct Row([u32; 3], [u32; 3]);

/// In the order of the numbers the bench task logs. The figures are those of `docs/performance.md`.
const ROWS: [Row; rows::NAMES.len()] = [
    Row([406, 475, 359], [360, 340, 300]),
    Row([453, 522, 429], [360, 340, 300]),
    Row([336, 470, 0], [380, 336, 300]),
    Row([496, 648, 586], [440, 400, 360]),
    Row([0, 0, 707], [480, 420, 400]),
    Row([329, 502, 0], [360, 329, 300]),
    Row([91, 0, 113], [120, 91, 60]),
    Row([561, 637, 0], [637, 561, 400]),
    Row([0, 0, 0], [LONGEST_PATH as u32, 2_000, 1_000]),
    Row([0, 0, 0], [LONGEST_PATH as u32, 4_000, 2_000]),
    Row([0, 0, 0], [400, 300, 250]),
    Row([0, 0, 0], [400, 300, 250]),
    Row([0, 0, 0], [950, 812, 680]),
    // These concern three threads and two budgets.
    Row([0, 0, 0], [1_900, 1_400, 1_000]),
    Row([0, 0, 0], [1_200, 800, 600]),
    Row([0, 0, 0], [800, 650, 500]),
    Row([0, 0, 0], [500, 350, 200]),
    Row([0, 0, 0], [1_200, 648, 496]),
    Row([0, 0, 0], [648, 496, 400]),
    Row([0, 0, 0], [637, 561, 400]),
    Row([0, 0, 0], [1_400, 1_000, 800]),
    Row([0, 0, 0], [500, 350, 200]),
    Row([0, 0, 0], [500, 350, 200]),
    Row([0, 0, 0], [500, 350, 200]),
    // A mutex that is wanted by another.
    Row([0, 0, 0], [800, 600, 400]),
    Row([0, 0, 0], [800, 600, 400]),
    Row([0, 0, 0], [LONGEST_PATH as u32, 4_000, 2_000]),
    Row([0, 0, 0], [2_500, 1_500, 800]),
    // A token that is wanted by another.
    Row([0, 0, 0], [1_300, 900, 700]),
    Row([0, 0, 0], [1_000, 900, 700]),
    Row([0, 0, 0], [1_000, 700, 500]),
    // A signal after which the one that signals has nothing to run on.
    Row([0, 0, 0], [650, 500, 400]),
];

/// Levels of the trace with measured costs, beside that of all other figures, which keeps marks.
const LEVELS: [Level; 2] = [Level::Schedule, Level::Full];
/// The rows for which.
const TRACED: [u64; 5] = [rows::NULL, rows::CALL_0, rows::INTERRUPT, rows::SIGNAL, rows::YIELD];

/// Sorted samples of each row.
type Samples = BTreeMap<usize, Vec<u64>>;

/// The measurements of the bench systems.
struct Measured {
    samples: Samples,
    /// Samples with floating point on both sides of each path.
    floats: Samples,
    /// Samples of kernels that keep more in their traces: by [`LEVELS`].
    traced: [Samples; LEVELS.len()],
    /// Bytes of the kernel's code and constants, and of its data.
    size: sizes::Sizes,
    /// Sizes of a kernel without features.
    bare: sizes::Sizes,
    /// Sizes of one without `sharing`, and of one without `streams`.
    without_sharing: sizes::Sizes,
    without_streams: sizes::Sizes,
    /// Sizes of one with `spatial` besides, which all others do without.
    with_spatial: sizes::Sizes,
    /// The cost of scheduling among many tasks.
    crowd: Costs,
    /// The costs for clients of devices.
    clients: Vec<Client>,
    /// The dependencies of the figures: compiler and emulator.
    column: String,
    root: PathBuf,
}

/// Runs the bench system and prints the table; `false` if a path is longer than a goal that it had reached, or than it was.
pub fn bench(arguments: &BenchArguments, install: bool) -> Result<bool> {
    let measured = measure(arguments, install)?;
    if arguments.json {
        let problems = measured.problems()?;
        let is_good = problems.is_empty();
        let answer = BenchAnswer {
            paths: measured.figures().map(|(name, median)| PathAnswer { name, median }).collect(),
            text_bytes: measured.size.text,
            bare_text_bytes: measured.bare.text,
            column: measured.column,
            problems,
        };
        fusee_host::sayln!("{}", answers::line(&answer)?);
        return Ok(is_good);
    }
    let mut header = vec!["path, instructions", "median", "min", "max"];
    header.extend(["with FP", "must", "aim", "stretch", "reached", "seL4", "seL4 MCS", "NOVA"]);
    let mut table = Table::new(header).repeat(2).parts(&["must", "seL4"]);
    for (number, (name, Row(others, goals))) in rows::NAMES.iter().zip(&ROWS).enumerate() {
        let mut row = vec![(*name).to_owned()];
        let text = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let values = measured.samples.get(&number);
        let typical = median(&measured.samples, number);
        let ends = [values.and_then(|values| values.first()), values.and_then(|values| values.last())];
        row.extend([typical, ends[0].copied(), ends[1].copied(), median(&measured.floats, number)].map(text));
        let figure = |value: &u32| if *value == 0 { "-".to_owned() } else { value.to_string() };
        row.extend(goals.iter().map(figure));
        row.push(typical.map_or("not measured", |median| reached(median, goals)).to_owned());
        row.extend(others.iter().map(figure));
        table.add_row(row);
    }
    fusee_host::sayln!("{table}");
    fusee_host::sayln!("{}", measured.level_table());
    fusee_host::sayln!("{}", measured.crowd.table());
    fusee_host::sayln!("{}", clients::table(&measured.clients));
    let sizes::Sizes { text, data, frame, thread } = measured.size;
    fusee_host::sayln!(
        "kernel: {:.1} KiB of code and constants with all features but `spatial`, {:.1} without `streams` (must 124, aim 96), {:.1} without any (must 64, aim 48), \
         {} B for sharing (must 4096), {} for streams (must 3072), {} for spatial (must 2560); {data} B of data, largest stack frame {frame} B, a thread {thread} B",
        kibibytes(text),
        kibibytes(measured.without_streams.text),
        kibibytes(measured.bare.text),
        text.saturating_sub(measured.without_sharing.text),
        text.saturating_sub(measured.without_streams.text),
        measured.with_spatial.text.saturating_sub(text)
    );
    fusee_host::sayln!("{}, profile det, no trace", measured.column);
    if arguments.bless {
        bless(&measured)?;
        return Ok(sizes::too_large(measured.without_streams).is_empty());
    }
    let problems = measured.problems()?;
    for problem in &problems {
        eprintln!("{} {problem}", report::red("error:"));
    }
    Ok(problems.is_empty())
}

/// Measures, and names the paths that have become longer than the recorded figures of this compiler and emulator, or
/// that grow too fast with the number of tasks.
pub fn regressions(install: bool) -> Result<Vec<String>> {
    let arguments = BenchArguments { manifest: MANIFEST.into(), seconds: SECONDS, bless: false, json: false };
    measure(&arguments, install)?.problems()
}

fn measure(arguments: &BenchArguments, install: bool) -> Result<Measured> {
    let workspace = Workspace { kernel: Kernel::Traced(Level::Marks), ..Workspace::open(install)? };
    let image = workspace.image(&arguments.manifest, Profile::Det, false)?;
    let with_floats = workspace.image_of(
        with_floats(&workspace, &arguments.manifest)?,
        image.programs.clone(),
        Profile::Det,
        false,
    )?;
    let of = |image: &Image| samples(&workspace, image, arguments.seconds, Vec::new());
    let traced = |level: Level| {
        let workspace = Workspace { kernel: Kernel::Traced(level), ..Workspace::open(install)? };
        of(&workspace.image(&arguments.manifest, Profile::Det, false)?)
    };
    let [schedule, full] = LEVELS;
    let qemu = toolchain::qemu_version(&workspace.qemu).unwrap_or_default();
    let rustc = workspace.toolchain.version().unwrap_or_default();
    let column = format!("rustc {}.{}, QEMU {}.{}", rustc.0, rustc.1, qemu.0, qemu.1);
    let crowd = Costs::measure(&workspace)?;
    Ok(Measured {
        samples: of(&image)?,
        floats: of(&with_floats)?,
        traced: [traced(schedule)?, traced(full)?],
        crowd,
        clients: Client::measure(install)?,
        size: sizes::sizes(&image.programs.kernel)?,
        bare: sizes::sizes(&workspace.builder().kernel(0)?)?,
        without_sharing: sizes::sizes(&workspace.builder().kernel(build::USUAL & !feature::SHARING)?)?,
        without_streams: sizes::sizes(&workspace.builder().kernel(build::USUAL & !feature::STREAMS)?)?,
        with_spatial: sizes::sizes(&workspace.builder().kernel(build::USUAL | feature::SPATIAL)?)?,
        column,
        root: workspace.root,
    })
}

/// The system with its tasks told to use floating point.
fn with_floats(workspace: &Workspace, path: &Path) -> Result<Manifest> {
    let path = workspace.root.join(path);
    let mut file: toml::Table = toml::from_str(&std::fs::read_to_string(&path)?)?;
    for (_, task) in file["tasks"].as_table_mut().context("a manifest without tasks")? {
        let parameters = task.as_table_mut().context("a task that is none")?.entry("parameters");
        let parameters = parameters.or_insert_with(|| toml::Table::new().into());
        parameters.as_table_mut().context("parameters that are none")?.insert("floats".to_owned(), 1.into());
    }
    file["system"]["name"] = "bench-floats".into();
    Ok(Manifest::parse(&path, &file.to_string())?)
}

/// Runs the bench system with further arguments for QEMU: the samples of each row, as they were logged.
pub fn samples(workspace: &Workspace, image: &Image, seconds: u64, arguments: Vec<String>) -> Result<Samples> {
    let options = system::RunOptions { arguments, ..system::RunOptions::quiet(seconds) };
    let run = system::run(workspace, image, &options)?;
    if run.outcome.code != Some(0) {
        fusee_host::words::print(&run.outcome.console);
        system::print_outcome(image, &run, &|text| eprintln!("{text}"));
        bail!("the bench did not end well");
    }
    let mut samples = Samples::new();
    for (_, row, value) in run.trace?.logs() {
        samples.entry(row as usize).or_default().push(value);
    }
    samples.values_mut().for_each(|values| values.sort_unstable());
    Ok(samples)
}

impl Measured {
    /// Name and median of each row.
    fn figures(&self) -> impl Iterator<Item = (String, u64)> {
        let rows = rows::NAMES.iter().enumerate();
        let paths = rows.flat_map(|(number, name)| {
            let plain = median(&self.samples, number).map(|median| ((*name).to_owned(), median));
            let floats = median(&self.floats, number).map(|median| (format!("{name}, with FP"), median));
            plain.into_iter().chain(floats)
        });
        let traced = self.traced.iter().zip(LEVELS).flat_map(|(samples, level)| {
            TRACED.into_iter().filter_map(move |row| {
                let name = format!("{}, trace `{}`", rows::NAMES[row as usize], level.name());
                Some((name, median(samples, row as usize)?))
            })
        });
        let clients = self.clients.iter().flat_map(Client::figures);
        paths.chain(traced).chain(self.crowd.figures()).chain(clients)
    }

    /// The costs of levels of the trace.
    fn level_table(&self) -> String {
        let mut header = vec!["by level of the trace", Level::Marks.name()];
        header.extend(LEVELS.map(Level::name));
        let mut table = Table::new(header);
        for row in TRACED.map(|row| row as usize) {
            let figures = [&self.samples].into_iter().chain(&self.traced).map(|samples| median(samples, row));
            let cells = figures.map(|figure| figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string()));
            table.add_row([rows::NAMES[row].to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
        }
        table.to_string()
    }

    fn problems(&self) -> Result<Vec<String>> {
        let mut problems = compare(self)?;
        let figures = recorded(&self.root)?;
        for (number, (name, Row(_, [must, ..]))) in rows::NAMES.iter().zip(&ROWS).enumerate() {
            match median(&self.samples, number) {
                Some(median) if median <= u64::from(*must) => {}
                Some(_) if !was_reached(&figures, name, *must) => {}
                Some(median) => problems.push(format!("{name}: {median} instructions, which must be {must} at most")),
                None => problems.push(format!("{name}: not measured")),
            }
        }
        problems.extend(self.crowd.problems());
        problems.extend(self.clients.iter().flat_map(Client::problems));
        // Its frames are those of all these features; `streams` has a limit of its own.
        problems.extend(sizes::too_large(sizes::Sizes { text: self.without_streams.text, ..self.size }));
        let features = [
            (feature::SHARING, self.size, self.without_sharing),
            (feature::STREAMS, self.size, self.without_streams),
            (feature::SPATIAL, self.with_spatial, self.size),
        ];
        for (feature, with, without) in features {
            problems.extend(sizes::too_large_feature(feature, with.text, without.text));
        }
        Ok(problems)
    }
}

fn median(samples: &Samples, row: usize) -> Option<u64> {
    let values = samples.get(&row)?;
    values.get(values.len() / 2).copied()
}

fn kibibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

//--- Recorded figures

/// The recorded medians: a table for each compiler and emulator, a line for each row.
fn recorded(root: &Path) -> Result<toml::Table> {
    match std::fs::read_to_string(root.join(FIGURES)) {
        Ok(text) => toml::from_str(&text).context(FIGURES),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(toml::Table::new()),
        Err(error) => Err(error).context(FIGURES),
    }
}

/// Whether `row` was no longer than `must` with each compiler and emulator for which it is recorded. A row that has not reached its goal yet is held to
/// its recorded figure alone.
fn was_reached(figures: &toml::Table, row: &str, must: u32) -> bool {
    let mut columns = figures.values().filter_map(|column| column.as_table()?.get(row)?.as_integer());
    columns.all(|figure| figure <= i64::from(must))
}

/// The last recorded figure for `row`, by any compiler.
pub fn recorded_figure(root: &Path, row: &str) -> Result<u64> {
    let recorded = recorded(root)?;
    let mut columns = recorded.values().filter_map(|column| column.as_table()?.get(row)?.as_integer());
    columns
        .next_back()
        .and_then(|figure| u64::try_from(figure).ok())
        .with_context(|| format!("{FIGURES} has no `{row}`"))
}

/// The rows that are longer than recorded; none if nothing is recorded for this compiler and emulator.
fn compare(measured: &Measured) -> Result<Vec<String>> {
    let figures = recorded(&measured.root)?;
    let Some(column) = figures.get(&measured.column).and_then(toml::Value::as_table) else { return Ok(Vec::new()) };
    let mut longer = Vec::new();
    for (name, median) in measured.figures() {
        let Some(recorded) = column.get(&name).and_then(toml::Value::as_integer) else { continue };
        if i64::try_from(median)? * 100 > recorded * (100 + TOLERANCE) {
            longer.push(format!("{name}: {median} instructions, {recorded} recorded for {}", measured.column));
        }
    }
    Ok(longer)
}

fn bless(measured: &Measured) -> Result<()> {
    let mut figures = recorded(&measured.root)?;
    let medians =
        measured.figures().filter_map(|(name, median)| Some((name, toml::Value::Integer(i64::try_from(median).ok()?))));
    figures.insert(measured.column.clone(), toml::Value::Table(medians.collect()));
    let text = format!("# Medians in instructions; written by `cargo xtask bench --bless`.\n\n{figures}");
    std::fs::write(measured.root.join(FIGURES), text).context(FIGURES)?;
    let text = measured.crowd.overheads(&measured.column, median(&measured.samples, rows::NULL as usize).unwrap_or(0));
    std::fs::write(measured.root.join(OVERHEADS), text).context(OVERHEADS)
}

/// The furthest of the goals that is reached.
fn reached(median: u64, goals: &[u32; 3]) -> &'static str {
    let count = goals.iter().filter(|goal| median <= u64::from(**goal)).count();
    ["none", "must", "aim", "stretch"][count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_no_record_misses_was_reached() {
        let figures: toml::Table =
            toml::from_str("[a]\nshort = 90\nlong = 90\n[b]\nshort = 100\nlong = 101\n").unwrap();
        assert!(was_reached(&figures, "short", 100));
        assert!(!was_reached(&figures, "long", 100), "one column is beyond it");
        assert!(was_reached(&figures, "unknown", 100), "a row without a record has its goal as limit");
    }

    #[test]
    fn goals_become_harder_from_left_to_right() {
        for (name, Row(_, goals)) in rows::NAMES.iter().zip(&ROWS) {
            assert!(goals.is_sorted_by(|left, right| left > right), "{name}: {goals:?}");
        }
        assert_eq!(
            [1_001, 1_000, 700, 1].map(|median| reached(median, &[1_000, 700, 500])),
            ["none", "must", "aim", "stretch"]
        );
    }
}
