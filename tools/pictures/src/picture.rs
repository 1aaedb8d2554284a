//! A trace as a picture: the CPU and the time of each run, as SVG.
//!
//! First a row per CPU, where each bar is a piece of a job; then a row per engine and per token of a pool, where each bar is a grant;
//! then a row per task that has something to show: releases point up, deadlines down, completions are dots, late ones below the
//! line. A task has one colour everywhere. A task that runs at another's expense is underlined with the payer's colour, and one
//! that runs with a key that is not its own is shaded.
//!
//! [`Schedule`] is the trace in intervals; [`picture`] draws a part of it. The same trace gives
//! the same text: coordinates are tenths of a pixel, in integers.
//!
//! # Invariant
//!
//! Nothing is drawn outside the window but the arrows at its edges.

use std::fmt::Write;
use std::ops::Range;

use fusee_manifest::{PolicyName, Resolved};

use fusee_views::explain::{Step, Wait};
use fusee_views::schedule::{Job, Run, Schedule};
use fusee_views::thousandths;

//--- From intervals to shapes

/// Width of a picture, unless told otherwise.
pub const WIDTH: u64 = 1200;
/// The least: names and some time.
pub const LEAST_WIDTH: u64 = 300;
const LEFT: u64 = 130;
const RIGHT: u64 = 24;
/// Where the first line of small type stands; each further one is so much lower.
const LINES: u64 = 40;
const LINE: u64 = 14;
const LANE: u64 = 30;
const LANE_BAR: u64 = 22;
const TASK: u64 = 34;
const GAP: u64 = 14;
/// Height of a row of the legend.
const ITEM: u64 = 18;
/// Width of a letter of a label, in tenths of a pixel: more than most have.
const LETTER: u64 = 60;
/// Letters of a name that have room on the left.
const NAME: usize = 17;

const STYLE: &str = "text{font:11px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}\
.small{font-size:10px;fill:#666}.row{text-anchor:end}.tick{text-anchor:middle;fill:#444}.in{text-anchor:middle}\
.grid{stroke:#e3e3e3}.base{stroke:#999}.lane{fill:#f4f4f2}.run{stroke:#333;stroke-width:.6}\
.drain{opacity:.45}.up{stroke:#222;stroke-width:1.3;fill:none}.down{stroke:#c0271d;stroke-width:1.3;fill:none}\
.done{fill:#222}.late{fill:#c0271d}.skip{stroke:#c0271d;stroke-width:1.5}\
.lock{fill:#e2a72e}.wait{fill:#c9c6bd}";

const PATTERNS: &str = "<defs><pattern id=\"dry\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#fff\"/><rect width=\"1.6\" height=\"5\" fill=\"#c0271d\"/></pattern>\
<pattern id=\"key\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\"><rect width=\"1\" height=\"4\" fill=\"#222\" fill-opacity=\".45\"/></pattern></defs>";

/// Colours that can be told apart, and read through.
const COLOURS: [(u8, u8, u8); 12] = [
    (0x7f, 0xb3, 0xe6),
    (0xf4, 0xa6, 0x5e),
    (0x86, 0xc9, 0x7f),
    (0xe8, 0x8b, 0x8b),
    (0xb9, 0x9d, 0xdc),
    (0xe3, 0xcb, 0x5c),
    (0x6f, 0xcb, 0xc4),
    (0xee, 0x9f, 0xcb),
    (0xbd, 0xa0, 0x8a),
    (0xb5, 0xcc, 0x62),
    (0x9a, 0xa6, 0xd9),
    (0xb8, 0xb8, 0xb8),
];

/// The colour of task `index`; each further dozen is paler than the one before.
pub(crate) fn colour(index: usize) -> String {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    let pale = (index / COLOURS.len()).min(3) as u32 * 22;
    let mix = |part: u8| (u32::from(part) * (100 - pale) + 255 * pale) / 100;
    format!("#{:02x}{:02x}{:02x}", mix(red), mix(green), mix(blue))
}

/// `text` as it may stand in XML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to say these.
            _ if character.is_control() => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

/// The part of a schedule to be drawn, and its size.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Drawing<'a> {
    /// The title above it.
    pub title: &'a str,
    /// The part of time.
    pub window: Range<u64>,
    /// Width in pixels, at least [`LEAST_WIDTH`]. The size of type does not depend on it.
    pub width: u64,
}

struct Canvas<'a> {
    system: &'a Resolved,
    window: Range<u64>,
    width: u64,
    text: String,
}

/// Draws a window of time.
#[must_use]
pub fn picture(schedule: &Schedule, system: &Resolved, drawing: &Drawing<'_>) -> String {
    let window = drawing.window.start..drawing.window.end.max(drawing.window.start + 1);
    let width = drawing.width.max(LEAST_WIDTH);
    let shows = |from: u64, until: u64| from < window.end && until > window.start;
    let tasks: Vec<usize> = (0..system.tasks.len())
        .filter(|task| {
            let job = |job: &Job| job.task == *task && job.release <= window.end && shown(job) >= window.start;
            let run = |run: &Run| run.task == *task && shows(run.from, run.until);
            schedule.jobs.iter().any(job) || schedule.runs.iter().any(run)
        })
        .collect();
    let tokens: Vec<(usize, u32)> = (0..system.pools.len())
        .flat_map(|pool| (0..system.pools[pool].1.replicas).map(move |token| (pool, token)))
        .filter(|(pool, _)| schedule.tokens.iter().any(|one| one.pool == *pool && shows(one.from, one.until)))
        .collect();
    let mut canvas = Canvas { system, window, width, text: String::new() };
    let lines = canvas.small_print(schedule.end);
    let head = LINES + LINE * lines.len() as u64;
    let engines = system.engines.len() as u64;
    let engines_at = head + u64::from(system.cpus) * LANE + if engines > 0 { GAP } else { 0 };
    let tokens_at = engines_at + engines * LANE + if tokens.is_empty() { 0 } else { GAP };
    let tasks_at = tokens_at + tokens.len() as u64 * LANE + GAP;
    let bottom = tasks_at + tasks.len() as u64 * TASK;
    let (legend, rows) = canvas.legend(bottom + 40, schedule);
    let height = bottom + 40 + rows * ITEM;
    let _ = write!(
        canvas.text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n\
             {PATTERNS}\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    canvas.heading(drawing.title, &lines);
    canvas.axis(head, bottom);
    for cpu in 0..system.cpus {
        let top = head + u64::from(cpu) * LANE;
        canvas.lane(&format!("CPU {cpu}"), top);
        for run in schedule.runs.iter().filter(|run| u32::from(run.cpu) == cpu) {
            canvas.run(run, top);
        }
    }
    for (engine, (name, _)) in system.engines.iter().enumerate() {
        let top = engines_at + engine as u64 * LANE;
        canvas.lane(name, top);
        for (spans, class) in [(&schedule.holds, "run"), (&schedule.drains, "run drain")] {
            for span in spans.iter().filter(|span| span.of == engine) {
                let name = &system.tasks[span.task].name;
                canvas.bar(class, span.task, (top, LANE_BAR), span.from..span.until, name);
            }
        }
    }
    for (row, (pool, token)) in tokens.iter().enumerate() {
        let top = tokens_at + row as u64 * LANE;
        let (name, description) = &system.pools[*pool];
        let is_alone = description.replicas == 1;
        canvas.lane(&if is_alone { name.clone() } else { format!("{name} {token}") }, top);
        for held in schedule.tokens.iter().filter(|held| (held.pool, held.token) == (*pool, *token)) {
            let name = &system.tasks[held.task].name;
            canvas.bar("run", held.task, (top, LANE_BAR), held.from..held.until, name);
        }
    }
    for (row, task) in tasks.iter().enumerate() {
        task_row(schedule, &mut canvas, *task, tasks_at + row as u64 * TASK);
    }
    canvas.text + &legend + "</svg>\n"
}

fn task_row(schedule: &Schedule, canvas: &mut Canvas<'_>, task: usize, top: u64) {
    let base = top + TASK - 8;
    let name = escaped(&shortened(&canvas.system.tasks[task].name));
    let _ = writeln!(
        canvas.text,
        "<rect x=\"{}\" y=\"{}\" width=\"9\" height=\"9\" fill=\"{}\" class=\"run\"/><text class=\"row\" x=\"{}\" y=\"{}\">{name}</text>\n<line class=\"base\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>",
        LEFT - 19,
        base - 10,
        colour(task),
        LEFT - 24,
        base - 2,
        canvas.width - RIGHT
    );
    for wait in schedule.waits.iter().filter(|wait| wait.task == task) {
        let span = wait.from..wait.until;
        if let (Some(class), Some((left, width))) = (waiting(wait.wait), canvas.place(&span)) {
            let words = escaped(&Step::Waited(wait.wait).words(canvas.system));
            let _ = writeln!(
                canvas.text,
                "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"4\"><title>{name} {words} {}</title></rect>",
                tenths(left),
                base - 4,
                tenths(width),
                times(&span)
            );
        }
    }
    for run in schedule.runs.iter().filter(|run| run.task == task) {
        canvas.bar("run", task, (base - 12, 12), run.from..run.until, "");
        canvas.shade(run, (base - 12, 12));
    }
    for span in schedule.dry.iter().filter(|span| span.task == task) {
        if let Some((left, width)) = canvas.place(&(span.from..span.until)) {
            let _ = writeln!(
                canvas.text,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"8\" fill=\"url(#dry)\"/>",
                tenths(left),
                base - 8,
                tenths(width)
            );
        }
    }
    for job in schedule.jobs.iter().filter(|job| job.task == task) {
        canvas.arrow("up", job.release, (base, top + 3));
        canvas.arrow("down", job.deadline, (top + 3, base));
        if let Some(done) = job.completed.filter(|done| canvas.window.contains(done)) {
            let at = tenths(canvas.x(done));
            // A late one is not where the dot of the next job may be.
            let (class, y) = if done > job.deadline { ("late", base + 5) } else { ("done", base) };
            let _ = writeln!(canvas.text, "<circle class=\"{class}\" cx=\"{at}\" cy=\"{y}\" r=\"2.6\"/>");
        }
    }
    for (_, time) in schedule.skips.iter().filter(|(of, time)| *of == task && canvas.window.contains(time)) {
        let at = tenths(canvas.x(*time));
        let _ = writeln!(canvas.text, "<path class=\"skip\" d=\"M{at} {}m-3 -3l6 6m0 -6l-6 6\"/>", top + 8);
    }
}
/// The class of a wait in the drawing; `None` for waits without others, which are not drawn.
fn waiting(wait: Wait) -> Option<&'static str> {
    match wait {
        Wait::Engine(_) | Wait::Token(_) | Wait::Turn(_) => Some("lock"),
        Wait::Server(_) | Wait::Notification(_) => Some("wait"),
        Wait::Request | Wait::Sleep | Wait::Other => None,
    }
}

/// A name that fits on the left.
fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

/// Until when a job's row has something to show.
fn shown(job: &Job) -> u64 {
    job.completed.unwrap_or(u64::MAX).max(job.deadline)
}

impl Canvas<'_> {
    /// Where `time` is, in tenths of a pixel.
    fn x(&self, time: u64) -> u64 {
        let span = self.window.end - self.window.start;
        let into = time.clamp(self.window.start, self.window.end) - self.window.start;
        let plot = self.width - LEFT - RIGHT;
        LEFT * 10 + (u128::from(into) * u128::from(plot * 10) / u128::from(span)) as u64
    }

    /// Left edge and width of a span, in tenths of a pixel, if it is in the window.
    fn place(&self, span: &Range<u64>) -> Option<(u64, u64)> {
        if span.end <= self.window.start || span.start >= self.window.end {
            return None;
        }
        let (left, right) = (self.x(span.start), self.x(span.end));
        Some((left, (right - left).max(3)))
    }

    /// Where which CPUs are, and which part of the time is shown if it is not all, in lines that fit.
    fn small_print(&self, end: u64) -> Vec<String> {
        let mut parts: Vec<String> = self
            .system
            .clusters
            .iter()
            .map(|(name, cluster)| {
                let cpus: Vec<String> =
                    (0..32).filter(|cpu| cluster.cpus >> cpu & 1 != 0).map(|cpu| cpu.to_string()).collect();
                let policy = PolicyName::from_number(cluster.policy).unwrap_or_default().name();
                format!("{name}: CPU {}, {policy}", cpus.join(" "))
            })
            .collect();
        if self.window.start > 0 || self.window.end < end {
            let part = self.window.start..self.window.end.min(end);
            let millis = |time: u64| thousandths(time / 1_000);
            parts.push(format!("shown: {} to {} of {} ms", millis(part.start), millis(part.end), millis(end)));
        }
        let room = (self.width - 28) * 10 / (LETTER - 5);
        let mut lines: Vec<String> = Vec::new();
        for part in parts {
            match lines.last_mut().filter(|line| (line.chars().count() + part.chars().count() + 5) as u64 <= room) {
                Some(line) => *line += &format!("  ·  {part}"),
                None => lines.push(part),
            }
        }
        lines
    }

    fn heading(&mut self, title: &str, lines: &[String]) {
        let _ = writeln!(self.text, "<text class=\"title\" x=\"14\" y=\"24\">{}</text>", escaped(title));
        for (number, line) in lines.iter().enumerate() {
            let y = LINES + LINE * number as u64;
            let _ = writeln!(self.text, "<text class=\"small\" x=\"14\" y=\"{y}\">{}</text>", escaped(line));
        }
    }

    fn axis(&mut self, head: u64, bottom: u64) {
        let span = self.window.end - self.window.start;
        let marks = ((self.width - LEFT - RIGHT) / 85).max(2);
        let steps = (0..19).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)));
        let step = steps.into_iter().find(|step| span / step <= marks).unwrap_or(span);
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        let (unit, name) = units.into_iter().find(|(unit, _)| step.is_multiple_of(*unit)).unwrap_or((1, "ns"));
        let mut time = self.window.start.next_multiple_of(step);
        while time <= self.window.end {
            let at = tenths(self.x(time));
            let _ = writeln!(
                self.text,
                "<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"{}\" y2=\"{}\"/><text class=\"tick\" x=\"{at}\" y=\"{}\">{}</text>",
                head - 4,
                bottom + 4,
                bottom + 16,
                time / unit
            );
            time += step;
        }
        let _ =
            writeln!(self.text, "<text class=\"row\" x=\"{}\" y=\"{}\">time, {name}</text>", LEFT - 24, bottom + 16);
    }

    fn lane(&mut self, name: &str, top: u64) {
        let _ = writeln!(
            self.text,
            "<rect class=\"lane\" x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{LANE_BAR}\"/><text class=\"row\" x=\"{}\" y=\"{}\">{}</text>",
            self.width - LEFT - RIGHT,
            LEFT - 10,
            top + 15,
            escaped(&shortened(name))
        );
    }

    fn run(&mut self, run: &Run, top: u64) {
        let name = &self.system.tasks[run.task].name;
        let label = if run.job == 0 { name.clone() } else { format!("{name}#{}", run.job) };
        self.bar("run", run.task, (top, LANE_BAR), run.from..run.until, &label);
        self.shade(run, (top, LANE_BAR));
        if let Some((left, width)) = self.place(&(run.from..run.until)).filter(|_| run.payer != run.task) {
            let _ = writeln!(
                self.text,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"5\" fill=\"{}\" class=\"run\"><title>on the budget of {}</title></rect>",
                tenths(left),
                top + LANE_BAR - 5,
                tenths(width),
                colour(run.payer),
                escaped(&self.system.tasks[run.payer].name)
            );
        }
    }

    /// Marks a bar of a run whose key is not its own.
    fn shade(&mut self, run: &Run, (top, height): (u64, u64)) {
        if let Some((left, width)) = self.place(&(run.from..run.until)).filter(|_| run.inherits) {
            let _ = writeln!(
                self.text,
                "<rect x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{height}\" fill=\"url(#key)\" pointer-events=\"none\"/>",
                tenths(left),
                tenths(width)
            );
        }
    }

    /// A bar in the colour of `task`, with its label if that fits; always with one to point at.
    fn bar(&mut self, class: &str, task: usize, (top, height): (u64, u64), span: Range<u64>, label: &str) {
        let Some((left, width)) = self.place(&span) else { return };
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{height}\" fill=\"{}\">",
            tenths(left),
            tenths(width),
            colour(task)
        );
        let pointed = if label.is_empty() { &self.system.tasks[task].name } else { label };
        let _ = writeln!(self.text, "<title>{} {}</title></rect>", escaped(pointed), times(&span));
        // The number alone says more than nothing.
        let short = label.split_once('#').map_or("", |(_, number)| number);
        let fits = |text: &&str| !text.is_empty() && text.chars().count() as u64 * LETTER + 40 <= width;
        if let Some(text) = [label, short].into_iter().find(fits) {
            let middle = tenths(left + width / 2);
            let _ = writeln!(
                self.text,
                "<text class=\"in\" x=\"{middle}\" y=\"{}\">{}</text>",
                top + height / 2 + 4,
                escaped(text)
            );
        }
    }

    /// An arrow at `time` from one height to another, where its head is.
    fn arrow(&mut self, class: &str, time: u64, (from, to): (u64, u64)) {
        if time < self.window.start || time > self.window.end {
            return;
        }
        let at = tenths(self.x(time));
        let back = if to < from { "l-3 5m3 -5l3 5" } else { "l-3 -5m3 5l3 -5" };
        let _ = writeln!(self.text, "<path class=\"{class}\" d=\"M{at} {from}V{to}{back}\"/>");
    }

    /// The meaning of the marks of this picture, from `y` on, and the number of rows.
    fn legend(&self, y: u64, schedule: &Schedule) -> (String, u64) {
        let shows = |from: u64, until: u64| from < self.window.end && until > self.window.start;
        let runs = || schedule.runs.iter().filter(|run| shows(run.from, run.until));
        let waits =
            |class| schedule.waits.iter().any(|wait| waiting(wait.wait) == Some(class) && shows(wait.from, wait.until));
        let late = |job: &Job| job.completed.is_some_and(|done| done > job.deadline && self.window.contains(&done));
        let (first, second) = (colour(0), colour(1));
        let lent = format!(
            "<rect class=\"run\" x=\"-6\" y=\"-5\" width=\"12\" height=\"10\" fill=\"{first}\"/><rect class=\"run\" x=\"-6\" y=\"1\" width=\"12\" height=\"4\" fill=\"{second}\"/>"
        );
        let key = format!(
            "<rect class=\"run\" x=\"-6\" y=\"-5\" width=\"12\" height=\"10\" fill=\"{first}\"/><rect x=\"-6\" y=\"-5\" width=\"12\" height=\"10\" fill=\"url(#key)\"/>"
        );
        let drain =
            format!("<rect class=\"run drain\" x=\"-6\" y=\"-5\" width=\"12\" height=\"10\" fill=\"{first}\"/>");
        let items = [
            (!schedule.jobs.is_empty(), "<path class=\"up\" d=\"M0 6V-7l-3 5m3 -5l3 5\"/>", "release"),
            (!schedule.jobs.is_empty(), "<path class=\"down\" d=\"M0 -7V6l-3 -5m3 5l3 -5\"/>", "deadline"),
            (!schedule.jobs.is_empty(), "<circle class=\"done\" r=\"2.6\"/>", "completed"),
            (
                schedule.jobs.iter().any(late),
                "<path class=\"base\" d=\"M-6 -3H6\"/><circle class=\"late\" cy=\"2\" r=\"2.6\"/>",
                "completed late",
            ),
            (runs().any(|run| run.payer != run.task), &lent, "stripe: whose budget it runs on"),
            (runs().any(|run| run.inherits), &key, "runs with a key not its own"),
            (
                waits("lock"),
                "<rect class=\"lock\" x=\"-6\" y=\"-2\" width=\"12\" height=\"4\"/>",
                "waits for engine or token",
            ),
            (
                waits("wait"),
                "<rect class=\"wait\" x=\"-6\" y=\"-2\" width=\"12\" height=\"4\"/>",
                "waits for server or notification",
            ),
            (
                schedule.dry.iter().any(|span| shows(span.from, span.until)),
                "<rect x=\"-6\" y=\"-4\" width=\"12\" height=\"8\" fill=\"url(#dry)\"/>",
                "budget exhausted",
            ),
            (schedule.drains.iter().any(|span| shows(span.from, span.until)), &drain, "given back, still at work"),
            (
                schedule.skips.iter().any(|(_, time)| self.window.contains(time)),
                "<path class=\"skip\" d=\"M-3 -3l6 6m0 -6l-6 6\"/>",
                "release skipped",
            ),
        ];
        let (mut text, mut x, mut row) = (String::new(), 20, 0);
        for (_, shape, words) in items.into_iter().filter(|item| item.0) {
            let room = 40 + words.len() as u64 * 6;
            if x > 20 && x + room > self.width {
                (x, row) = (20, row + 1);
            }
            let at = y + row * ITEM;
            let _ = writeln!(
                text,
                "<g transform=\"translate({x} {at})\">{shape}<text class=\"small\" x=\"12\" y=\"4\">{words}</text></g>"
            );
            x += room;
        }
        (text, row + 1)
    }
}

fn tenths(value: u64) -> String {
    match value % 10 {
        0 => (value / 10).to_string(),
        tenth => format!("{}.{tenth}", value / 10),
    }
}

fn times(span: &Range<u64>) -> String {
    format!("{} .. {} us", thousandths(span.start), thousandths(span.end))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fusee_abi::Call;
    use fusee_abi::trace::{Event, Record};
    use fusee_manifest::trace::Trace;

    use super::*;
    use crate::random;

    #[test]
    fn no_name_ends_an_element() {
        assert_eq!(escaped("<a & \"b\">\n"), "&lt;a &amp; &quot;b&quot;&gt;\u{fffd}");
    }

    fn record(time: u64, cpu: u8, event: Event, thread: u16, object: u32, value: u32) -> Record {
        Record { time, cpu, event: event as u8, thread, job: 1, object, value, ..Record::default() }
    }

    /// `first` waits for the engine, has a token, and ends late; `third` runs on the budget of `second`.
    fn drawn(width: u64, window: Range<u64>) -> String {
        let late = 1_000_000u32;
        let (waits, by_acquire) = (Event::Block, Call::Acquire as u32);
        let records = vec![
            record(0, 0, Event::Release, 1, 0, 5_000),
            record(100_000, 0, Event::TokenGrant, 1, 1, 1),
            record(1_000_000, 0, waits, 1, 1, by_acquire),
            record(2_000_000, 0, Event::EngineGrant, 1, 1, 0),
            record(2_000_000, 0, Event::Resume, 1, 0, 0),
            record(2_000_000, 1, Event::SwitchTo, 3, 2, 7),
            record(4_000_000, 1, Event::SwitchAway, 3, 0, 0),
            record(6_000_000, 0, Event::Complete, 1, 0, late),
            Record { job: 2, ..record(6_000_000, 0, Event::Release, 1, 0, 5_000) },
            Record { job: 2, ..record(6_000_000, 0, Event::Complete, 1, 0, 0) },
            record(9_000_000, 0, Event::TokenRelease, 1, 1, 1),
        ];
        let system = random::system();
        let schedule = Schedule::of(&Trace::from_records(records), &system);
        picture(&schedule, &system, &Drawing { title: "a title", window, width })
    }

    #[test]
    fn a_late_completion_is_seen_beside_the_dot_of_the_next_job() {
        let picture = drawn(838, 0..9_000_000);
        let height = |class: &str| {
            let (_, rest) = picture.split_once(&format!("<circle class=\"{class}\" cx=")).expect("a dot");
            let mut words = rest.split('"').skip(1).step_by(2);
            (words.next().map(str::to_owned), words.next().map(str::to_owned))
        };
        let ((done_x, done_y), (late_x, late_y)) = (height("done"), height("late"));
        assert_eq!(done_x, late_x);
        assert_ne!(done_y, late_y);
    }

    #[test]
    fn waits_tokens_lent_budgets_and_other_keys_are_drawn_and_explained() {
        let picture = drawn(838, 0..9_000_000);
        for shown in [
            "waited for engine `e`",
            ">p 1<",
            "on the budget of second",
            "stripe: whose budget it runs on",
            "runs with a key not its own",
            "waits for engine or token",
            "completed late",
        ] {
            assert!(picture.contains(shown), "{shown}");
        }
        assert!(!picture.contains("budget exhausted"), "what is not there needs no legend");
    }

    #[test]
    fn a_picture_of_a_part_says_so_and_one_of_all_does_not() {
        assert!(drawn(838, 1_000_000..9_000_000).contains("shown: 1.000 to 9.000 of 9.000 ms"));
        assert!(!drawn(838, 0..9_000_000).contains("shown:"));
    }

    /// Legend, heading and rows stay within the width: nothing but time is lost in a narrow picture.
    #[test]
    fn a_narrow_picture_wraps_what_does_not_fit() {
        let (narrow, wide) = (drawn(LEAST_WIDTH, 0..9_000_000), drawn(WIDTH, 0..9_000_000));
        let items = |picture: &str| {
            let places = picture.split("translate(").skip(1).filter_map(|rest| rest.split(')').next());
            places.map(|place| place.split_once(' ').expect("two numbers").1.to_owned()).collect::<BTreeSet<String>>()
        };
        assert!(items(&narrow).len() > items(&wide).len());
        assert_eq!(narrow.matches("<g transform").count(), wide.matches("<g transform").count());
    }

    #[test]
    fn the_first_tasks_have_colours_of_their_own() {
        let colours: BTreeSet<String> = (0..36).map(colour).collect();
        assert_eq!(colours.len(), 36);
        assert_eq!(colour(100), colour(100));
    }
}
