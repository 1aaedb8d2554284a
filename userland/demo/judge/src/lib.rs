//! Judges a run of the demo: compares the GPU's findings with the truth, and keeps the frames.
//!
//! The truth is computed here, from the same photograph and the same shaking, but not the same way: where the
//! GPU searches for the displacement, the host knows it.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use demo::{FRAME_BYTES, HEIGHT, WIDTH, record, render_row, shake};
use fusee_abi::trace::Ledger;
use fusee_accel_contract::status_sm_time;
use fusee_host::evidence::Evidence;
use fusee_host::report;
use fusee_manifest::Resolved;
use fusee_manifest::trace::Trace;
use fusee_sched_analysis::Overheads;
use fusee_simulator::lives::{bounds, ends};
use fusee_views::metrics::Metrics;

pub mod agreement;
pub mod vibration;

/// The demo, from the root of the repository.
pub const MANIFEST: &str = "userland/demo/demo.toml";
/// The demo with frames on a screen: its name, and its manifest.
const SHOWN: &str = "demo-shown";
/// The manifest of the demo with frames on a screen.
pub const SHOWN_MANIFEST: &str = "userland/demo/shown.toml";
/// The demo with hogs that have no lock and share the rest of the GPU.
const SHARED: &str = "demo-shared";
/// The manifest of the demo with hogs that have no lock.
pub const SHARED_MANIFEST: &str = "userland/demo/shared.toml";
/// The demo with hogs that have no lock, and make room on the SMs of the GPU.
const SPATIAL: &str = "demo-spatial";
/// The manifest of the demo with hogs that make room.
pub const SPATIAL_MANIFEST: &str = "userland/demo/spatial.toml";
/// The longest response of its stabiliser, nanoseconds, and the least part of its hogs in the time of all SMs.
const SPATIAL_RESPONSE: i64 = 13_500_000;
const SPATIAL_SHARE: f64 = 0.6;
/// The demo with drivers and servers that end, and begin again.
pub const FAULTS_MANIFEST: &str = "userland/demo/faults.toml";
const FAULTS: &str = "demo-faults";
/// The window of the frames: column and row.
const WINDOW: (u32, u32) = (256, 192);
/// Virtual nanoseconds after which a simulation that does not end is given up.
const SIMULATED: u64 = 10_000_000_000;
/// The folder of written frames, in the folder of builds.
const FRAMES: &str = "demo";

/// Looks at the regions that the demo left; `true` if they are as they should be. Other systems are left alone. `say` prints a line.
///
/// A managed run must be perfect: every displacement, every tone, every byte, every deadline of `control`, `stabiliser` and
/// `vibration`, and engines used in the order of the simulation. An unmanaged one must tell the truth about the frames it got done.
pub fn judge(run: &Evidence<'_>, say: &dyn Fn(&str)) -> Result<bool> {
    let system = &run.manifest.system;
    let (is_shown, is_shared, is_faulty) = (system.name == SHOWN, system.name == SHARED, system.name == FAULTS);
    let is_spatial = system.name == SPATIAL;
    let trace = run.trace;
    let frames = run.target.join(FRAMES);
    let folder = frames.join(match () {
        () if run.unmanaged => "unmanaged",
        () if is_shown => "shown",
        () if is_shared => "shared",
        () if is_spatial => "spatial",
        () if is_faulty => "faults",
        () => "frames",
    });
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;

    let seen = Seen::of(run, Some(&folder))?;
    let count = seen.count;
    let signals = vibration::look(run)?;
    let missed = ["control", "stabiliser", "vibration"].map(|task| missed(run, task));

    say(&format!("displacements recovered: {} of {count}", seen.recovered));
    let shown = run.target.parent().and_then(|root| frames.strip_prefix(root).ok()).unwrap_or(&frames);
    say(&format!("stabilised frames equal to the reference: {} of {count} ({})", seen.equal, shown.display()));
    say(&signals.words());
    say(&format!("deadlines missed: control {}, stabiliser {}, vibration {}", missed[0], missed[1], missed[2]));
    say(&format!("late completions of the device model: {}", run.late));

    let truthful = seen.is_true() && signals.is_true() && run.late == 0 && missed[0] == 0;
    let is_complete = seen.processed == count && signals.is_perfect();
    let is_right = truthful && is_complete && missed == [0; 3];
    if is_shown {
        let is_seen = is_on_screen(run, count as u32 - 1);
        say(&format!("the last frame on the screen equal to the reference: {}", if is_seen { "yes" } else { "no" }));
        let is_right = is_right && is_seen;
        if is_right {
            say(&report::green("The demo is right, and so is the screen."));
        }
        // Without management it is not known which frame is the last.
        return Ok(is_right || run.unmanaged && truthful);
    }

    if is_shared {
        if is_right {
            say(&report::green("The demo is right, and its hogs have no lock."));
        }
        return Ok(is_right || run.unmanaged && truthful);
    }

    if is_spatial {
        let share = share_of_hogs(system, run)?;
        let stabiliser = Metrics::of(trace, system).tasks.into_iter().find(|task| task.name == "stabiliser");
        let longest = stabiliser.and_then(|task| task.response()).map_or(i64::MAX, |response| response.greatest);
        let milliseconds = longest as f64 / 1e6;
        say(&format!(
            "hogs had {:.1} % of the time of all SMs; longest response of the stabiliser: {milliseconds:.3} ms",
            share * 100.0
        ));
        let is_right = is_right && share >= SPATIAL_SHARE && longest <= SPATIAL_RESPONSE;
        if is_right {
            say(&report::green("The demo is right, and its hogs make room."));
        }
        return Ok(is_right || run.unmanaged && truthful);
    }

    if is_faulty {
        let (words, is_in_time) = returns(run)?;
        words.iter().for_each(|line| say(line));
        if is_right && is_in_time {
            say(&report::green("The demo is right, whoever ended."));
        }
        return Ok(is_right && is_in_time || run.unmanaged && truthful);
    }

    // A screen of QEMU shows frames when the host has time, and hogs without a lock are left to their policy: so only the system without either is compared.
    let simulated = fusee_simulator::simulate(run.manifest, run.unmanaged.then_some(false), SIMULATED)?;
    let agreement =
        agreement::compare(system, trace, &Trace::from_records(simulated.records), run.turns.others() * 1_000);
    if !run.unmanaged {
        let agreement::Agreement { compared, equal } = agreement;
        say(&format!("engine grants and completions in the simulator's order: {equal} of {compared}"));
    }

    let perfect = is_right && agreement.equal == agreement.compared;
    if run.unmanaged {
        if truthful {
            say(&report::yellow("Without management the GPU is right, and late."));
        }
        return Ok(truthful);
    }
    if perfect {
        say(&report::green("The demo is right: every frame, every tone, every deadline."));
    }
    Ok(perfect)
}

/// The instant at which each task that had ended was up again, beside the bound of the analysis, in words; and whether all were in time.
fn returns(run: &Evidence<'_>) -> Result<(Vec<String>, bool)> {
    let system = &run.manifest.system;
    let bounds = bounds(system, &Overheads::default()).map_err(|why| anyhow!(why))?;
    let mut lines = Vec::new();
    let mut is_in_time = true;
    for ended in ends(&run.trace.records, system.tasks.len()) {
        let Some(bound) = bounds.get(&ended.victim).copied() else { continue };
        let name = &system.tasks[ended.victim].name;
        let time = |time: u64| time as f64 / 1e6;
        let took = ended.up.map(|up| up - ended.at);
        let after = took.map_or("not".to_owned(), |took| format!("after {:.3} ms", time(took)));
        lines.push(format!("`{name}` was up again {after} (bound {:.3} ms)", time(bound)));
        is_in_time &= took.is_some_and(|took| took <= bound);
    }
    Ok((lines, is_in_time))
}

/// The part of the time of all SMs that the clients without a lock had.
fn share_of_hogs(system: &Resolved, run: &Evidence<'_>) -> Result<f64> {
    let device = system.devices.iter().find(|device| device.sms > 0).context("no device has SMs")?;
    let is_hog = |task: usize| system.tasks[task].name.starts_with("hog");
    let mut had = 0;
    for (context, _) in device.contexts.iter().enumerate().filter(|(_, task)| is_hog(**task)) {
        let bytes = run.memory.read(device.status + status_sm_time(context), 8)?;
        had += bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    let span = run.trace.records.last().map_or(1, |last| last.time);
    Ok(had as f64 / (u64::from(device.sms) * span) as f64)
}

/// Whether the screen shows this frame, stabilised, in its window.
fn is_on_screen(run: &Evidence<'_>, frame: u32) -> bool {
    let Some(screen) = run.screen else { return false };
    let shown = screen.part(WINDOW, (WIDTH as u32, HEIGHT as u32));
    let wanted = stabilised(frame, shake(frame)).into_iter().map(|grey| [grey; 3]).collect::<Vec<_>>();
    shown.is_some_and(|shown| shown == wanted)
}

/// The findings in so many frames.
#[derive(Default)]
struct Seen {
    /// Frames that there were.
    count: usize,
    /// Frames that were seen to.
    processed: usize,
    /// The number of those with a displacement that was found.
    recovered: usize,
    /// The number of those that are right, byte by byte.
    equal: usize,
}

impl Seen {
    /// Judges the stabiliser's record. Its frames are written into `folder`, if there is one.
    fn of(run: &Evidence<'_>, folder: Option<&Path>) -> Result<Seen> {
        let mut regions = run.manifest.system.regions.iter();
        let (_, region) = regions.find(|(name, _)| name == "record").context("region `record` is gone")?;
        let bytes = run.memory.read(region.physical, record::BYTES)?;
        let mut seen = Seen { count: count(run, "camera", record::FRAMES)?, ..Seen::default() };
        for frame in 0..seen.count {
            let Some(entry) = Entry::read(&bytes, frame) else { continue };
            seen.processed += 1;
            seen.recovered += usize::from(entry.displacement == shake(frame as u32));
            let expected = stabilised(frame as u32, shake(frame as u32));
            seen.equal += usize::from(entry.pixels == expected);
            if let Some(folder) = folder {
                write_png(&folder.join(format!("{frame:03}.png")), entry.pixels)?;
            }
        }
        Ok(seen)
    }

    /// Whether all that was done was done right.
    fn is_true(&self) -> bool {
        self.recovered == self.processed && self.equal == self.processed
    }
}

/// Frames and blocks that a run has seen to, and their faults.
pub struct Work {
    /// Frames.
    pub frames: usize,
    /// Blocks of samples.
    pub blocks: usize,
    /// The faults.
    pub problems: Vec<String>,
}

/// The work of a run of the demo, that of an archive that has ended apart.
pub fn work(run: &Evidence<'_>, has_archive: bool) -> Result<Work> {
    let (seen, signals) = (Seen::of(run, None)?, vibration::look(run)?);
    let mut problems = Vec::new();
    if !seen.is_true() {
        problems.push(format!("of {} frames {} are right", seen.processed, seen.equal.min(seen.recovered)));
    }
    if signals.tones.min(signals.equal) != signals.processed {
        problems.push(format!("of {} blocks {} are right", signals.processed, signals.tones.min(signals.equal)));
    }
    if has_archive && !signals.is_archive_right {
        problems.push("the archive's filter is wrong".to_owned());
    }
    if run.late > 0 {
        problems.push(format!("{} completions of the device model were late", run.late));
    }
    Ok(Work { frames: seen.processed, blocks: signals.processed, problems })
}

/// The stabiliser's record of one frame.
struct Entry<'a> {
    displacement: (i32, i32),
    pixels: &'a [u8],
}

impl<'a> Entry<'a> {
    /// `None` if the frame was never processed.
    fn read(bytes: &'a [u8], frame: usize) -> Option<Entry<'a>> {
        let word = |offset: usize| {
            let start = record::entry(frame) + offset;
            Some(i32::from_le_bytes(bytes.get(start..start + 4)?.try_into().ok()?))
        };
        let pixels = bytes.get(record::frame(frame)..record::frame(frame) + FRAME_BYTES)?;
        (word(0)? == 1).then_some(Entry { displacement: (word(4)?, word(8)?), pixels })
    }
}

/// The frame as the camera delivered it, moved back by the true displacement; pixels beyond the border equal
/// the border.
fn stabilised(frame: u32, (dx, dy): (i32, i32)) -> Vec<u8> {
    let mut rows = vec![[0; WIDTH]; HEIGHT];
    for (y, row) in rows.iter_mut().enumerate() {
        render_row(frame, y, row);
    }
    let clamped = |at: usize, by: i32, size: usize| (at as i32 - by).clamp(0, size as i32 - 1) as usize;
    let mut moved = Vec::with_capacity(FRAME_BYTES);
    for y in 0..HEIGHT {
        moved.extend((0..WIDTH).map(|x| rows[clamped(y, dy, HEIGHT)][clamped(x, dx, WIDTH)]));
    }
    moved
}

/// How many frames or blocks the manifest asks a task for, of which there is room for so many.
fn count(run: &Evidence<'_>, task: &str, room: usize) -> Result<usize> {
    let mut tasks = run.manifest.system.tasks.iter();
    let task = tasks.find(|one| one.name == task).with_context(|| format!("task `{task}` is gone"))?;
    let count = task.environment.iter().find(|entry| entry.name == "count").context("parameter `count` is gone")?;
    let count = usize::try_from(count.address)?;
    if count > room {
        bail!("the record has room for {room}, not for {count}");
    }
    Ok(count)
}

/// Deadlines that `task` missed, late releases that were given up included.
fn missed(run: &Evidence<'_>, task: &str) -> u64 {
    let ledgers = run.trace.ledgers();
    let index = run.manifest.system.tasks.iter().position(|one| one.name == task).unwrap_or(usize::MAX);
    let of = |ledger: Ledger| ledgers.get(&(ledger as u16, index as u16)).copied().unwrap_or(0);
    of(Ledger::Misses) + of(Ledger::Skipped)
}

fn write_png(path: &Path, pixels: &[u8]) -> Result<()> {
    let file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    let mut encoder = png::Encoder::new(file, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_compute::run;
    use fusee_library::Shift;

    fn render(frame: u32) -> Vec<u8> {
        let mut pixels = Vec::new();
        for y in 0..HEIGHT {
            let mut row = [0; WIDTH];
            render_row(frame, y, &mut row);
            pixels.extend_from_slice(&row);
        }
        pixels
    }

    /// The properties of the demo that differ in the other.
    fn differs(other: &str) -> Vec<String> {
        let read = |path: &str| -> toml::Table {
            let path = fusee_host::system::root().unwrap().join(path);
            let text = std::fs::read_to_string(&path).unwrap();
            toml::from_str(&fusee_manifest::Manifest::expanded(&path, &text).unwrap()).unwrap()
        };
        let (demo, other) = (read(MANIFEST), read(other));
        let mut differs = Vec::new();
        for (kind, objects) in &demo {
            for (name, object) in objects.as_table().unwrap() {
                if other[kind].get(name) != Some(object) {
                    differs.push(format!("{kind}.{name}"));
                }
            }
        }
        differs.sort();
        differs
    }

    /// The console can be read in one of them.
    #[test]
    fn the_demo_with_a_screen_is_the_demo_and_a_screen() {
        assert_eq!(differs(SHOWN_MANIFEST), ["system.name", "tasks.console", "tasks.director"]);
    }

    #[test]
    fn the_demo_beside_faults_is_the_demo_and_further_lives_and_watchdogs() {
        let differs = differs(FAULTS_MANIFEST);
        let (engines, others): (Vec<_>, Vec<_>) = differs.iter().partition(|name| name.starts_with("engines."));
        assert_eq!(engines, ["engines.ce_in", "engines.ce_out", "engines.dsp", "engines.ee"]);
        assert_eq!(others, ["system.name", "tasks.console", "tasks.dsp", "tasks.gpu", "tasks.hog"]);
    }

    #[test]
    fn the_demo_without_locks_is_the_demo_with_other_hogs() {
        assert_eq!(differs(SHARED_MANIFEST), ["engines.ee", "system.name", "tasks.hog"]);
    }

    #[test]
    fn the_camera_shakes_in_all_directions_but_not_at_first() {
        assert_eq!(shake(0), (0, 0));
        let all: Vec<_> = (1..90).map(shake).collect();
        assert!(all.iter().any(|(dx, dy)| *dx < -3 && *dy > 0) && all.iter().any(|(dx, dy)| *dx > 3 && *dy < 0));
    }

    /// The reference moves frames without the device's kernels; both must agree on every byte.
    #[test]
    fn the_reference_agrees_with_the_kernel_of_the_device() {
        let shift = Shift { width: WIDTH as u16, height: HEIGHT as u16 };
        for frame in [0, 1, 17, 89] {
            let (dx, dy) = shake(frame);
            let mut moved = vec![0; FRAME_BYTES];
            let displacement = [-dx, -dy, 0, 0];
            run(&shift, (render(frame)[..].into(), displacement[..].into(), moved.as_mut_slice().into()));
            assert_eq!(moved, stabilised(frame, (dx, dy)), "frame {frame}");
        }
    }
}
