//! A trace as a picture: who ran where and when, as SVG.
//!
//! First a row per CPU, where each bar is a piece of a job; then a row per engine, where each bar is a grant;
//! then a row per task that has something to show: releases point up, deadlines down, completions are dots. A task has one colour
//! everywhere. A task that runs at another's expense is underlined with the payer's colour.
//!
//! [`Schedule`] is what happened, in intervals; [`Schedule::picture`] draws a part of it. The same trace gives
//! the same text: coordinates are tenths of a pixel, in integers.
//!
//! # Invariant
//!
//! Nothing is drawn outside the window but the arrows at its edges.

use std::fmt::Write;
use std::ops::Range;

use fusee_manifest::{PolicyName, Resolved};

use crate::schedule::{Job, Run, Schedule};

//--- From intervals to shapes

const WIDTH: u64 = 1200;
const LEFT: u64 = 130;
const RIGHT: u64 = 24;
/// Width of the part where time runs.
const PLOT: u64 = WIDTH - LEFT - RIGHT;
const HEAD: u64 = 54;
const LANE: u64 = 30;
const LANE_BAR: u64 = 22;
const TASK: u64 = 34;
const GAP: u64 = 14;
const FOOT: u64 = 62;
/// Width of a letter of a label, in tenths of a pixel: more than most have.
const LETTER: u64 = 60;

const STYLE: &str = "text{font:11px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}\
.small{font-size:10px;fill:#666}.row{text-anchor:end}.tick{text-anchor:middle;fill:#444}.in{text-anchor:middle}\
.grid{stroke:#e3e3e3}.base{stroke:#999}.lane{fill:#f4f4f2}.run{stroke:#333;stroke-width:.6}\
.drain{opacity:.45}.up{stroke:#222;stroke-width:1.3;fill:none}.down{stroke:#c0271d;stroke-width:1.3;fill:none}\
.done{fill:#222}.late{fill:#c0271d}.skip{stroke:#c0271d;stroke-width:1.5}";

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
fn colour(index: usize) -> String {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    let pale = (index / COLOURS.len()).min(3) as u32 * 22;
    let mix = |part: u8| (u32::from(part) * (100 - pale) + 255 * pale) / 100;
    format!("#{:02x}{:02x}{:02x}", mix(red), mix(green), mix(blue))
}

/// `text` as it may stand in XML.
fn escaped(text: &str) -> String {
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

struct Canvas<'a> {
    system: &'a Resolved,
    window: Range<u64>,
    text: String,
}

impl Schedule {
    /// Draws what happened in `window`.
    #[must_use]
    pub fn picture(&self, system: &Resolved, window: Range<u64>) -> String {
        let window = window.start..window.end.max(window.start + 1);
        let tasks: Vec<usize> = (0..system.tasks.len())
            .filter(|task| {
                let job = |job: &Job| job.task == *task && job.release <= window.end && shown(job) >= window.start;
                let run = |run: &Run| run.task == *task && run.from < window.end && run.until > window.start;
                self.jobs.iter().any(job) || self.runs.iter().any(run)
            })
            .collect();
        let cpus = u64::from(system.cpus);
        let engines = system.engines.len() as u64;
        let engines_at = HEAD + cpus * LANE + if engines > 0 { GAP } else { 0 };
        let tasks_at = engines_at + engines * LANE + GAP;
        let bottom = tasks_at + tasks.len() as u64 * TASK;
        let height = bottom + FOOT;
        let mut canvas = Canvas { system, window, text: String::new() };
        let _ = write!(
            canvas.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
             <defs><pattern id=\"dry\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#fff\"/><rect width=\"1.6\" height=\"5\" fill=\"#c0271d\"/></pattern></defs>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        canvas.heading();
        canvas.axis(bottom);
        for cpu in 0..system.cpus {
            let top = HEAD + u64::from(cpu) * LANE;
            canvas.lane(&format!("CPU {cpu}"), top);
            for run in self.runs.iter().filter(|run| u32::from(run.cpu) == cpu) {
                canvas.run(run, top);
            }
        }
        for (engine, (name, _)) in system.engines.iter().enumerate() {
            let top = engines_at + engine as u64 * LANE;
            canvas.lane(name, top);
            for (spans, class) in [(&self.holds, "run"), (&self.drains, "run drain")] {
                for span in spans.iter().filter(|span| span.of == engine) {
                    let name = &system.tasks[span.task].name;
                    canvas.bar(class, span.task, (top, LANE_BAR), span.from..span.until, name);
                }
            }
        }
        for (row, task) in tasks.iter().enumerate() {
            self.task(&mut canvas, *task, tasks_at + row as u64 * TASK);
        }
        canvas.legend(bottom + 40, !self.dry.is_empty(), !self.drains.is_empty(), !self.skips.is_empty());
        canvas.text + "</svg>\n"
    }

    fn task(&self, canvas: &mut Canvas<'_>, task: usize, top: u64) {
        let base = top + TASK - 6;
        let name = escaped(&canvas.system.tasks[task].name);
        let _ = writeln!(
            canvas.text,
            "<rect x=\"{}\" y=\"{}\" width=\"9\" height=\"9\" fill=\"{}\" class=\"run\"/><text class=\"row\" x=\"{}\" y=\"{}\">{name}</text>\n<line class=\"base\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>",
            LEFT - 19,
            base - 10,
            colour(task),
            LEFT - 24,
            base - 2,
            LEFT + PLOT
        );
        for run in self.runs.iter().filter(|run| run.task == task) {
            canvas.bar("run", task, (base - 12, 12), run.from..run.until, "");
        }
        for span in self.dry.iter().filter(|span| span.task == task) {
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
        for job in self.jobs.iter().filter(|job| job.task == task) {
            canvas.arrow("up", job.release, (base, top + 3));
            canvas.arrow("down", job.deadline, (top + 3, base));
            if let Some(done) = job.completed.filter(|done| canvas.window.contains(done)) {
                let class = if done > job.deadline { "late" } else { "done" };
                let at = tenths(canvas.x(done));
                let _ = writeln!(canvas.text, "<circle class=\"{class}\" cx=\"{at}\" cy=\"{base}\" r=\"2.6\"/>");
            }
        }
        for (_, time) in self.skips.iter().filter(|(of, time)| *of == task && canvas.window.contains(time)) {
            let at = tenths(canvas.x(*time));
            let _ = writeln!(canvas.text, "<path class=\"skip\" d=\"M{at} {}m-3 -3l6 6m0 -6l-6 6\"/>", top + 8);
        }
    }
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
        LEFT * 10 + (u128::from(into) * u128::from(PLOT * 10) / u128::from(span)) as u64
    }

    /// Left edge and width of a span, in tenths of a pixel, if it is in the window.
    fn place(&self, span: &Range<u64>) -> Option<(u64, u64)> {
        if span.end <= self.window.start || span.start >= self.window.end {
            return None;
        }
        let (left, right) = (self.x(span.start), self.x(span.end));
        Some((left, (right - left).max(3)))
    }

    fn heading(&mut self) {
        let clusters: Vec<String> = self
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
        let _ = writeln!(
            self.text,
            "<text class=\"title\" x=\"14\" y=\"24\">{}</text><text class=\"small\" x=\"14\" y=\"40\">{}</text>",
            escaped(&self.system.name),
            escaped(&clusters.join("  ·  "))
        );
    }

    fn axis(&mut self, bottom: u64) {
        let span = self.window.end - self.window.start;
        let steps = (0..19).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u64.pow(power)));
        let step = steps.into_iter().find(|step| span / step <= 12).unwrap_or(span);
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
        let (unit, name) = units.into_iter().find(|(unit, _)| step.is_multiple_of(*unit)).unwrap_or((1, "ns"));
        let mut time = self.window.start.next_multiple_of(step);
        while time <= self.window.end {
            let at = tenths(self.x(time));
            let _ = writeln!(
                self.text,
                "<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"{}\" y2=\"{}\"/><text class=\"tick\" x=\"{at}\" y=\"{}\">{}</text>",
                HEAD - 4,
                bottom + 4,
                bottom + 16,
                time / unit
            );
            time += step;
        }
        let _ = writeln!(self.text, "<text class=\"row\" x=\"{}\" y=\"{}\">{name}</text>", LEFT - 24, bottom + 16);
    }

    fn lane(&mut self, name: &str, top: u64) {
        let _ = writeln!(
            self.text,
            "<rect class=\"lane\" x=\"{LEFT}\" y=\"{top}\" width=\"{PLOT}\" height=\"{LANE_BAR}\"/><text class=\"row\" x=\"{}\" y=\"{}\">{}</text>",
            LEFT - 10,
            top + 15,
            escaped(name)
        );
    }

    fn run(&mut self, run: &Run, top: u64) {
        let name = &self.system.tasks[run.task].name;
        let label = if run.job == 0 { name.clone() } else { format!("{name}#{}", run.job) };
        self.bar("run", run.task, (top, LANE_BAR), run.from..run.until, &label);
        if let Some((left, width)) = self.place(&(run.from..run.until)).filter(|_| run.payer != run.task) {
            let _ = writeln!(
                self.text,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"4\" fill=\"{}\" class=\"run\"/>",
                tenths(left),
                top + LANE_BAR - 4,
                tenths(width),
                colour(run.payer)
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
        let _ = writeln!(
            self.text,
            "<title>{} {} .. {} us</title></rect>",
            escaped(pointed),
            thousandths(span.start),
            thousandths(span.end)
        );
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

    fn legend(&mut self, y: u64, dry: bool, drains: bool, skips: bool) {
        let mut x = LEFT;
        let mut item = |shape: String, words: &str| {
            let _ = writeln!(self.text, "{shape}<text class=\"small\" x=\"{}\" y=\"{}\">{words}</text>", x + 12, y + 4);
            x += 40 + words.len() as u64 * 6;
            x
        };
        let top = y - 7;
        let mut at = item(format!("<path class=\"up\" d=\"M{LEFT} {}V{top}l-3 5m3 -5l3 5\"/>", y + 6), "release");
        at = item(format!("<path class=\"down\" d=\"M{at} {top}V{}l-3 -5m3 5l3 -5\"/>", y + 6), "deadline");
        at = item(format!("<circle class=\"done\" cx=\"{at}\" cy=\"{y}\" r=\"2.6\"/>"), "completed");
        at = item(format!("<circle class=\"late\" cx=\"{at}\" cy=\"{y}\" r=\"2.6\"/>"), "completed late");
        if dry {
            let shape =
                format!("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"8\" fill=\"url(#dry)\"/>", at - 6, y - 4);
            at = item(shape, "budget dry");
        }
        if drains {
            let shape = format!(
                "<rect class=\"run drain\" x=\"{}\" y=\"{}\" width=\"12\" height=\"10\" fill=\"#7fb3e6\"/>",
                at - 6,
                y - 5
            );
            at = item(shape, "given back, still at work");
        }
        if skips {
            item(format!("<path class=\"skip\" d=\"M{at} {y}m-3 -3l6 6m0 -6l-6 6\"/>"), "release skipped");
        }
    }
}

fn tenths(value: u64) -> String {
    match value % 10 {
        0 => (value / 10).to_string(),
        tenth => format!("{}.{tenth}", value / 10),
    }
}

fn thousandths(time: u64) -> String {
    format!("{}.{:03}", time / 1_000, time % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_an_element() {
        assert_eq!(escaped("<a & \"b\">\n"), "&lt;a &amp; &quot;b&quot;&gt;\u{fffd}");
    }

    #[test]
    fn the_first_tasks_have_colours_of_their_own() {
        let colours: std::collections::BTreeSet<String> = (0..36).map(colour).collect();
        assert_eq!(colours.len(), 36);
        assert_eq!(colour(100), colour(100));
    }
}
