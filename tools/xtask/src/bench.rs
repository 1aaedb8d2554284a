//! `cargo xtask bench`: the paths of the kernel, in instructions, beside those of other kernels.
//!
//! The bench task logs one sample at a time: `log(row, instructions)`. Rows are those of [`ROWS`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use fusee_manifest::Profile;

use crate::system::{self, Workspace};
use crate::{report, toolchain};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub struct BenchArguments {
    /// The system that measures.
    #[arg(long, default_value = "tests/bench/bench.toml")]
    manifest: PathBuf,
    /// Host seconds after which the run is ended.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
}

/// One path: name; seL4 default, seL4 MCS, NOVA; what we must reach, aim for, and dream of. 0: not measured.
struct Row(&'static str, [u32; 3], [u32; 3]);

/// In the order of the numbers the bench task logs. The figures are those of `docs/performance.md`.
const ROWS: [Row; 8] = [
    Row("call + reply round trip, 0 words", [406, 475, 359], [475, 406, 340]),
    Row("call + reply round trip, 4 words", [453, 522, 429], [522, 453, 360]),
    Row("interrupt -> user handler running", [336, 470, 0], [470, 336, 300]),
    Row("signal -> higher-priority thread runs", [496, 648, 586], [648, 496, 400]),
    Row("timer deadline -> waiting task running", [0, 0, 707], [707, 500, 400]),
    Row("yield to another process", [329, 502, 0], [502, 329, 300]),
    Row("null system call", [91, 0, 113], [120, 91, 60]),
    Row("page map", [561, 637, 0], [637, 561, 400]),
];

/// Runs the bench system and prints the table; `false` if a path is longer than it must be.
pub fn bench(arguments: &BenchArguments, install: bool) -> Result<bool> {
    let workspace = Workspace { traced: false, ..Workspace::open(install)? };
    let image = workspace.image(&arguments.manifest, Profile::Det, false)?;
    let options = system::RunOptions { echo: false, seconds: arguments.seconds, quantum: 10, arguments: Vec::new() };
    let run = system::run(&workspace, &image, &options)?;
    if let Ok(trace) = &run.trace {
        system::keep_trace(&workspace.root, &image.manifest, trace)?;
    }
    if run.outcome.code != Some(0) {
        print!("{}", run.outcome.console);
        system::print_outcome(&image, &run);
        bail!("the bench did not end well");
    }
    let trace = run.trace?;
    let mut samples: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (_, row, value) in trace.logs() {
        samples.entry(row as usize).or_default().push(value);
    }
    let mut header = vec!["path, instructions", "min", "median", "max"];
    header.extend(["seL4", "seL4 MCS", "NOVA", "must", "aim", "stretch", ""]);
    let mut table = report::table(&header);
    let mut good = true;
    for (number, Row(name, others, goals)) in ROWS.iter().enumerate() {
        let mut row = vec![(*name).to_owned()];
        let verdict = match samples.get_mut(&number) {
            Some(values) => {
                values.sort_unstable();
                let median = values[values.len() / 2];
                row.extend([values[0], median, values[values.len() - 1]].map(|value| value.to_string()));
                good &= median <= u64::from(goals[0]);
                verdict(median, goals)
            }
            None => {
                row.extend(["-", "-", "-"].map(String::from));
                "not measured".to_owned()
            }
        };
        let figure = |value: &u32| if *value == 0 { "-".to_owned() } else { value.to_string() };
        row.extend(others.iter().chain(goals).map(figure));
        row.push(verdict);
        table.add_row(row);
    }
    println!("{table}");
    if let Some((major, minor)) = toolchain::qemu_version(&workspace.qemu) {
        println!("QEMU {major}.{minor}, profile det, {} toolchain", workspace.toolchain.name);
    }
    Ok(good)
}

fn verdict(median: u64, goals: &[u32; 3]) -> String {
    let reached = ["longer than it must be", "good", "as aimed", "beyond the aim"];
    let count = goals.iter().filter(|goal| median <= u64::from(**goal)).count();
    reached[count].to_owned()
}
