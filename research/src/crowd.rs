//! The cost of scheduling among many tasks: systems of 10 to 400 tasks, measured like the other paths.
//!
//! Half of a crowd is ready and waits for a CPU all the time, the other half is released one after the other while
//! the measurement runs: both queues of the cluster are as long as the system is large.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, bail};
use fusee_kernel_core::limits::LONGEST_PATH;
use fusee_manifest::{Manifest, Profile};

use crate::bench::rows::crowd::{NAMES, role};
use fusee_host::system::{self, RunOptions, Workspace};
use fusee_host::table::Table;

/// Sizes of the systems.
pub const SIZES: [usize; 4] = [10, 40, 100, 400];
/// Between 10 and 100 tasks no row may grow by more, in percent.
const GROWTH_MAX: u64 = 50;
/// The systems that measure each row: those with so many CPUs.
const CPUS: [u32; NAMES.len()] = [1, 1, 1, 2, 2];

/// The measurements.
pub struct Costs {
    /// Medians of each row, by the index of the size.
    medians: [[Option<u64>; SIZES.len()]; NAMES.len()],
    /// The longest sample on one CPU.
    longest: Option<u64>,
}

impl Costs {
    /// Runs all systems.
    pub fn measure(workspace: &Workspace) -> Result<Costs> {
        let mut medians = [[None; SIZES.len()]; NAMES.len()];
        let mut longest = None;
        for (index, size) in SIZES.into_iter().enumerate() {
            for cpus in [1, 2] {
                let manifest = Manifest::parse(Path::new("the crowd"), &manifest(size, cpus))?;
                let programs = workspace.builder().programs(&[&manifest.system])?;
                let image = workspace.image_of(manifest, programs, Profile::Det, false)?;
                let options = RunOptions::quiet(120);
                let run = system::run(workspace, &image, &options)?;
                if run.outcome.code != Some(0) {
                    fusee_host::words::print(&run.outcome.console);
                    system::print_outcome(&image, &run, &|text| eprintln!("{text}"));
                    bail!("the system of {size} tasks on {cpus} CPUs did not end well");
                }
                let trace = run.trace?;
                for (row, medians) in medians.iter_mut().enumerate().filter(|(row, _)| CPUS[*row] == cpus) {
                    let mut values: Vec<u64> =
                        trace.logs().filter(|log| log.1 as usize == row).map(|log| log.2).collect();
                    values.sort_unstable();
                    // With two CPUs the emulator may give the other one its turn in the middle of a path.
                    if cpus == 1 {
                        longest = longest.max(values.last().copied());
                    }
                    medians[index] = values.get(values.len() / 2).copied();
                }
            }
        }
        Ok(Costs { medians, longest })
    }

    /// Name and median of everything measured.
    pub fn figures(&self) -> impl Iterator<Item = (String, u64)> {
        NAMES.into_iter().zip(&self.medians).flat_map(|(name, costs)| {
            let each = SIZES.into_iter().zip(costs);
            each.filter_map(move |(size, cost)| Some((format!("{name}, {size} tasks"), (*cost)?)))
        })
    }

    /// The costs of a system of 100 tasks as a file for `simulate` and `analyze`; `call` is that of a call that does
    /// nothing.
    pub fn overheads(&self, column: &str, call: u64) -> String {
        let [release, _, schedule, _, kick] = self.medians.map(|medians| medians[2].unwrap_or(0));
        let half = call.div_ceil(2);
        format!(
            "# What the kernel costs, at one instruction per nanosecond; written by `cargo xtask bench --bless`\n\
             # ({column}, 100 tasks). Caches are not modelled.\n\n\
             # The interrupt that releases a job.\nrelease = {release}\n\
             # From the end of a job to the next, the switch included.\nschedule = {schedule}\n\
             # From a kick to the other CPU's job.\ninterprocessor_interrupt = {kick}\n\
             # An interrupt waits for the longest path that is under way.\nevent_latency = {LONGEST_PATH}\n\
             call_in = {half}\ncall_out = {half}\n"
        )
    }

    /// Missing figures, and figures that grow faster than they may.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.longest.is_none_or(|longest| longest > LONGEST_PATH) {
            problems.push(format!("the longest path is {:?} instructions, not within {LONGEST_PATH}", self.longest));
        }
        for (name, costs) in NAMES.into_iter().zip(&self.medians) {
            match (costs[0], costs[2]) {
                (Some(few), Some(many)) if many * 100 <= few * (100 + GROWTH_MAX) => {}
                (Some(few), Some(many)) => problems.push(format!("{name}: {few} among 10 tasks, {many} among 100")),
                _ => problems.push(format!("{name}: not measured")),
            }
        }
        problems
    }

    /// The table.
    pub fn table(&self) -> String {
        let sizes: Vec<String> = SIZES.iter().map(ToString::to_string).collect();
        let mut header = vec!["scheduling, instructions, among so many tasks"];
        header.extend(sizes.iter().map(String::as_str));
        header.push("10 -> 100");
        let mut table = Table::new(header);
        for (name, costs) in NAMES.into_iter().zip(&self.medians) {
            let mut row = vec![name.to_owned()];
            row.extend(costs.iter().map(|cost| cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string())));
            row.push(match (costs[0], costs[2]) {
                (Some(few), Some(many)) => format!("x {:.2}", many as f64 / few as f64),
                _ => "-".to_owned(),
            });
            table.add_row(row);
        }
        let longest = self.longest.map_or_else(|| "-".to_owned(), |longest| longest.to_string());
        format!("{table}\nlongest of these: {longest} instructions (limit of one trap: {LONGEST_PATH})")
    }
}

/// A system of `size` tasks. On one CPU a job by the clock preempts the watcher; on two, `releaser` releases `remote`,
/// which preempts one of the crowd on the other CPU.
pub fn manifest(size: usize, cpus: u32) -> String {
    let mut text = format!(
        "[system]\nname = \"crowd-{size}-{cpus}\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"100ms\"\nadmission = \"warn\"\n\
         [regions.stamps]\nbytes = \"4KiB\"\n"
    );
    let mut task = |name: &str, role: u64, timing: &str, handles: &str| {
        let _ = write!(
            text,
            "[tasks.{name}]\nbinary = \"apps/bench-crowd\"\nstack = \"4KiB\"\nparameters = {{ role = {role} }}\n{timing}\n\
             [tasks.{name}.handles]\nstamps = \"region stamps: read write\"\n{handles}\n"
        );
    };
    let short = "period = \"1ms\"\ndeadline = \"500us\"\nbudget = \"400us\"";
    let system = "system = \"system: shutdown\"";
    if cpus == 1 {
        task("watcher", role::WATCHER, "period = \"10s\"\ndeadline = \"5s\"\nbudget = \"4s\"", "");
        task("job", role::JOB, &format!("{short}\nphase = \"3ms\""), system);
    } else {
        let remote = format!("remote = \"task remote: release_job\"\n{system}");
        task("releaser", role::RELEASER, &format!("{short}\nphase = \"3ms\""), &remote);
        let late = short.replace("500us", "700us").replace("1ms", "800us");
        task("remote", role::REMOTE, &format!("{late}\nrelease = \"sporadic\""), "");
    }
    let crowd = size - 2;
    for number in 0..crowd {
        // Half of them from the start; the others while jobs run, between two of these.
        let phase = match number {
            _ if number < crowd / 2 => 0,
            // The last two of a large crowd at once, a trap each.
            _ if crowd > 16 && number + 2 >= crowd => 60_550,
            _ => 3_550 + (number - crowd / 2) as u64 * 56_000 / crowd as u64,
        };
        let timing =
            format!("period = \"20s\"\ndeadline = \"{}ms\"\nbudget = \"9s\"\nphase = \"{phase}us\"", 10_000 + number);
        task(&format!("crowd{number}"), role::CROWD, &timing, "");
    }
    text
}
