//! The expectations on a test system: the `[test]` table, by index.

use fusee_sched::key::PolicyName;

use crate::quantity::Time;
use crate::resolve::Variant;
use crate::schema::{self, Profile};
use crate::trace::Places;

/// Expectations of `cargo xtask test`.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// Profiles the system is run in.
    pub profiles: Vec<Profile>,
    /// Exit code of the system.
    pub exit: u32,
    /// The marks of each task, in order; tasks that are not named may log any marks.
    pub marks: Vec<Mark>,
    /// Tasks that fault, in order.
    pub faults: Vec<usize>,
    /// Whether the order of the faults depends on the board.
    pub faults_in_any_order: bool,
    /// Tasks that end themselves, and with which code.
    pub exits: Vec<(usize, u32)>,
    /// Lines that the console shows, whole, each as often as it is listed here; there may be others.
    pub console: Vec<String>,
    /// Tasks that complete at least one job and miss no deadline; checked in det only.
    pub no_misses: Vec<usize>,
    /// The complaints of `cargo xtask run`, in order: parts of its words, `...` between them. `None`: anything.
    pub verdict: Option<Vec<String>>,
    /// The tasks from which watchdogs take engines, and no others; checked in det only, and only if there is a list.
    pub taken: Option<Vec<usize>>,
    /// Host seconds after which the run is ended.
    pub seconds: Option<u64>,
    /// The text typed at the board's serial line.
    pub input: Option<String>,
    /// The name of the expected picture on the screen when the console reports that the picture stands; the input is typed after
    /// that.
    pub screenshot: Option<String>,
    /// Whether the button for power is pressed, again and again.
    pub power_button: bool,
    /// The number of bytes that the host sends to port 7 by datagrams, and then by a connection, and expects back.
    pub echo: Option<usize>,
    /// The name of the expected files on the volume of the disk, after the run.
    pub files: Option<String>,
    /// The package of the program that judges the results of a run.
    pub judge: Option<String>,
    /// Whether the kernel checks all its invariants after every trap.
    pub self_check: bool,
    /// Whether a second run has the same trace, to the record; checked in det only.
    pub repeatable: bool,
    /// Whether it runs only if its whole name is asked for, because it takes long and a shorter system shows the same.
    pub campaign: bool,
    /// The longest turn of an emulated CPU, microseconds; det only. `None`: as long as the system can spare.
    pub turns: Option<u32>,
    /// Whether kernels of accelerators run for an eighth of their declared time, at most; checked in det only.
    pub eighth: bool,
    /// Conformance systems: how to vary them; each variant is run. One plain run without any.
    pub variants: Vec<Variant>,
    /// Whether golden traces have the CPUs on which tasks run.
    pub places: Places,
    /// Tasks whose longest response times are shown; in `tests/target` they are compared with their bounds, in det only.
    pub responses: Vec<usize>,
}

/// One expected `log(first, second)`; `None` matches any number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark {
    /// The task that logs.
    pub task: usize,
    /// Low half of the first argument.
    pub first: Option<u32>,
    /// The second argument.
    pub second: Option<u64>,
}

impl Mark {
    /// Reads `task: number number`, where `_` stands for any number.
    pub(crate) fn parse(text: &str, task: impl Fn(&str) -> Option<usize>) -> Option<Mark> {
        let (name, numbers) = text.split_once(':')?;
        let [first, second] = numbers.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let first = number(first)?.map(u32::try_from).transpose().ok()?;
        Some(Mark { task: task(name.trim())?, first, second: number(second)? })
    }
}

/// Every policy with every list of clusters.
fn variants(test: &schema::Test) -> Vec<Variant> {
    // Without a list, the value of the manifest.
    fn or_plain<T>(list: Vec<Option<T>>) -> Vec<Option<T>> {
        if list.is_empty() { vec![None] } else { list }
    }
    let policies = or_plain(test.policies.iter().map(|name| PolicyName::from_name(name.get_ref())).collect());
    let clusters = or_plain(test.clusters.iter().map(|list| Variant::parse_clusters(list.get_ref())).collect());
    policies
        .iter()
        .flat_map(|policy| {
            clusters.iter().map(|clusters| Variant {
                policy: *policy,
                clusters: clusters.clone(),
                ..Variant::default()
            })
        })
        .collect()
}

fn number(text: &str) -> Option<Option<u64>> {
    if text == "_" {
        return Some(None);
    }
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(Some),
        None => text.parse().ok().map(Some),
    }
}

/// The longest turn that can be asked for, microseconds.
pub const LONGEST_TURN: u32 = 1_000;

/// Whole microseconds of a turn, if it is from one to [`LONGEST_TURN`].
pub(crate) fn turns_of(time: Time) -> Option<u32> {
    let turns = u32::try_from(time.0 / 1_000).ok().filter(|_| time.0.is_multiple_of(1_000))?;
    (1..=LONGEST_TURN).contains(&turns).then_some(turns)
}

/// Reads `task: code`.
pub(crate) fn parse_exit(text: &str, task: impl Fn(&str) -> Option<usize>) -> Option<(usize, u32)> {
    let (name, code) = text.split_once(':')?;
    Some((task(name.trim())?, code.trim().parse().ok()?))
}

impl Expectations {
    pub(crate) fn new(test: &schema::Test, task: impl Fn(&str) -> Option<usize>) -> Self {
        Self {
            profiles: test.profiles.clone(),
            exit: test.exit,
            marks: test.marks.iter().filter_map(|mark| Mark::parse(mark.get_ref(), &task)).collect(),
            faults_in_any_order: test.faults_in_any_order,
            faults: test.faults.iter().filter_map(|name| task(name.get_ref())).collect(),
            exits: test.exits.iter().filter_map(|exit| parse_exit(exit.get_ref(), &task)).collect(),
            console: test.console.clone(),
            no_misses: test.no_misses.iter().filter_map(|name| task(name.get_ref())).collect(),
            verdict: test.verdict.clone(),
            taken: test.taken.as_ref().map(|names| names.iter().filter_map(|name| task(name.get_ref())).collect()),
            seconds: test.seconds,
            input: test.input.clone(),
            screenshot: test.screenshot.clone(),
            power_button: test.power_button,
            echo: test.echo,
            files: test.files.clone(),
            judge: test.judge.clone(),
            self_check: test.self_check,
            repeatable: test.repeatable,
            campaign: test.campaign,
            turns: test.turns.as_ref().and_then(|turns| turns_of(*turns.get_ref())),
            eighth: test.eighth,
            variants: variants(test),
            responses: test.responses.iter().filter_map(|name| task(name.get_ref())).collect(),
            places: if test.places { Places::Shown } else { Places::Left },
        }
    }
}
