//! Where the time of a run of all checks goes: by check and by sort, and how busy the cores were.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fusee_host::report;

use crate::case::Kind;
use crate::queue::Done;

/// Seconds of CPU that checks took when they were last recorded: the order of the queue, and the base for growth.
pub const FILE: &str = "tests/systems/times.toml";
/// Checks in the table.
const LONGEST: usize = 20;
/// A check is named that takes this many times its recorded time,
const GROWTH: f64 = 1.5;
/// and at least so many seconds more: a host is not that exact.
const NOTABLE: f64 = 2.0;
/// How often the load of the cores is read.
const STEP: Duration = Duration::from_millis(500);

/// The recorded seconds of each check.
///
/// # Errors
/// The file is not TOML of numbers.
pub fn recorded(root: &Path) -> Result<BTreeMap<String, f64>> {
    match std::fs::read_to_string(root.join(FILE)) {
        Ok(text) => toml::from_str(&text).context(FILE),
        Err(_) => Ok(BTreeMap::new()),
    }
}

/// Records the seconds of all checks that ran; the others keep theirs.
///
/// # Errors
/// The file cannot be written.
pub fn record(root: &Path, all: &[Done]) -> Result<()> {
    let mut seconds = recorded(root)?;
    for done in all.iter().filter(|done| !done.found.is_known && done.found.skipped.is_none()) {
        seconds.insert(done.name.clone(), (done.used.as_secs_f64() * 100.0).round() / 100.0);
    }
    let text = toml::to_string(&seconds).context(FILE)?;
    let head = "# Seconds of CPU of each check, on the host that recorded them; written by `cargo xtask test --record-times`.\n\n";
    fusee_host::system::write(&root.join(FILE), (head.to_owned() + &text).as_bytes())
}

/// Checks that have grown by half since their times were recorded.
fn grown(all: &[Done], before: &BTreeMap<String, f64>) -> Vec<String> {
    let of = |done: &Done| {
        let (now, before) = (done.used.as_secs_f64(), *before.get(&done.name)?);
        let is_grown = now >= GROWTH * before && now >= before + NOTABLE;
        is_grown.then(|| format!("{}: {now:.1} s of CPU; recorded were {before:.1} s", done.name))
    };
    all.iter().filter(|done| !done.found.is_known).filter_map(of).collect()
}

/// The sums of all sorts, the longest checks, and those that have grown.
pub fn table(all: &[Done], before: &BTreeMap<String, f64>, cores: &Cores) -> String {
    let mut text = String::new();
    let seconds = |time: Duration| time.as_secs_f64();
    let _ = writeln!(text, "  checks   known   CPU s  wall s  waited s");
    for kind in Kind::ALL {
        let of: Vec<&Done> = all.iter().filter(|done| done.kind == kind).collect();
        let known = of.iter().filter(|done| done.found.is_known).count();
        let sum = |what: fn(&Done) -> Duration| of.iter().map(|done| seconds(what(done))).sum::<f64>();
        let (used, took, waited) = (sum(|done| done.used), sum(|done| done.took), sum(|done| done.waited));
        let _ = writeln!(text, "{:8}{known:8}{used:8.1}{took:8.1}{waited:10.1}  {}", of.len(), kind.name());
    }
    let used: f64 = all.iter().map(|done| seconds(done.used)).sum();
    let _ = writeln!(text, "{:8}{:8}{used:8.1}  all; {}", all.len(), "", cores.words());
    let mut longest: Vec<&Done> = all.iter().collect();
    longest.sort_by_key(|done| std::cmp::Reverse(done.used));
    let _ = writeln!(text, "\n   CPU s  wall s   began  the longest checks");
    for done in longest.iter().take(LONGEST) {
        let (used, took, began) = (seconds(done.used), seconds(done.took), seconds(done.began));
        let name: String = done.name.chars().take(100).collect();
        let _ = writeln!(text, "{used:8.1}{took:8.1}{began:8.1}  {name}");
    }
    for words in grown(all, before) {
        let _ = writeln!(text, "{} {words}", report::yellow("grown:"));
    }
    text
}

//--- Cores

/// How busy the host's cores were, by its own counters: work of other users counts, too.
pub struct Cores {
    /// Part of all cores that was busy, step by step, and when each step ended.
    steps: Vec<(Duration, f64)>,
}

/// A watch on the cores, which ends with [`Watch::end`].
pub struct Watch {
    is_over: Arc<AtomicBool>,
    watcher: std::thread::JoinHandle<Vec<(Duration, f64)>>,
}

impl Watch {
    /// Begins to watch.
    pub fn begin() -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let watcher = std::thread::spawn(move || {
            let started = Instant::now();
            let mut steps = Vec::new();
            let mut last = load();
            // Relaxed: nothing else is told by it.
            while !flag.load(Ordering::Relaxed) {
                std::thread::park_timeout(STEP);
                let now = load();
                if let (Some((busy, all)), Some((busy_before, all_before))) = (now, last)
                    && all > all_before
                {
                    steps.push((started.elapsed(), (busy - busy_before) as f64 / (all - all_before) as f64));
                }
                last = now;
            }
            steps
        });
        Watch { is_over, watcher }
    }

    /// Ends the watch.
    pub fn end(self) -> Cores {
        self.is_over.store(true, Ordering::Relaxed);
        self.watcher.thread().unpark();
        Cores { steps: self.watcher.join().unwrap_or_default() }
    }
}

/// Ticks that all cores together were busy, and all ticks, from the first line of `/proc/stat`.
fn load() -> Option<(u64, u64)> {
    busy(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn busy(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    // Idle, and waiting for a disk.
    Some((all - ticks.get(3)? - ticks.get(4)?, all))
}

impl Cores {
    /// The mean part of the cores that was busy.
    pub fn mean(&self) -> f64 {
        let mut before = Duration::ZERO;
        let mut busy = 0.0;
        for (until, part) in &self.steps {
            busy += part * (*until - before).as_secs_f64();
            before = *until;
        }
        busy / before.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn words(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        format!("{:.1} % of {cores} cores of the host busy", 100.0 * self.mean())
    }

    /// Draws it, as SVG.
    pub fn picture(&self) -> String {
        const WIDTH: f64 = 838.0;
        const HEIGHT: f64 = 120.0;
        let length = self.steps.last().map_or(1.0, |(until, _)| until.as_secs_f64());
        let mut path = format!("M0,{HEIGHT}");
        let mut before = 0.0;
        for (until, part) in &self.steps {
            let (from, to, y) = (before / length * WIDTH, until.as_secs_f64() / length * WIDTH, HEIGHT * (1.0 - part));
            let _ = write!(path, " L{from:.1},{y:.1} L{to:.1},{y:.1}");
            before = until.as_secs_f64();
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#eee\"/>\n\
             <path d=\"{path} L{WIDTH},{HEIGHT} Z\" fill=\"#478\"/>\n\
             <text x=\"4\" y=\"{}\">cores of the host in use over {length:.0} s of checks; mean {:.1} %</text>\n</svg>\n",
            HEIGHT + 20.0,
            HEIGHT + 15.0,
            100.0 * self.mean()
        )
    }
}

/// Where the picture goes.
pub fn picture_path(target: &Path) -> PathBuf {
    target.join("systems/cores.svg")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Found;

    #[test]
    fn the_load_is_all_but_idle_and_waiting_ticks() {
        assert_eq!(busy("cpu  100 1 50 700 20 2 3 4 9 9\ncpu0 1 2"), Some((160, 880)));
        assert_eq!(busy("nothing"), None);
    }

    #[test]
    fn the_mean_weighs_steps_by_their_length() {
        let at = Duration::from_secs;
        let cores = Cores { steps: vec![(at(1), 1.0), (at(4), 0.5)] };
        assert!((cores.mean() - 0.625).abs() < 1e-9);
        assert!(cores.picture().contains("mean 62.5 %"));
    }

    #[test]
    fn a_check_that_grows_by_half_is_named() {
        let done = |name: &str, used: u64| Done {
            name: name.to_owned(),
            kind: Kind::Det,
            found: Found::default(),
            began: Duration::ZERO,
            waited: Duration::ZERO,
            took: Duration::ZERO,
            used: Duration::from_secs(used),
        };
        let before = BTreeMap::from([("long".to_owned(), 10.0), ("short".to_owned(), 1.0), ("same".to_owned(), 5.0)]);
        let grown = grown(&[done("long", 16), done("short", 2), done("same", 6), done("new", 9)], &before);
        assert_eq!(grown, ["long: 16.0 s of CPU; recorded were 10.0 s"]);
    }
}
