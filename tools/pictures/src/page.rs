//! A schedule as a page to look around in: one file of HTML, which needs nothing else.
//!
//! | Part | Where |
//! |---|---|
//! | its elements | `page.html` |
//! | its program | `page.js` |
//! | its data | JSON within it: names, and for each list of the [`Schedule`] its numbers, one after the other |
//!
//! The page says in its element `status` how many slices it has read. `schedule.html#camera#7` begins with that job.
//!
//! # Invariants
//!
//! 1. The same schedule gives the same bytes.
//! 2. No name ends an element: in the JSON `<` is written `\u003c`.

use std::collections::BTreeMap;
use std::fmt::Write;

use fusee_manifest::Resolved;

use fusee_views::explain::{Step, Wait};
use fusee_views::schedule::{Schedule, Span};

use crate::picture::{colour, escaped};

/// The page, called `title`.
#[must_use]
pub fn page(schedule: &Schedule, system: &Resolved, title: &str) -> String {
    let parts =
        [("title", escaped(title)), ("data", data(schedule, system)), ("script", include_str!("page.js").to_owned())];
    let mut page = String::new();
    let mut rest = include_str!("page.html");
    // A part that is put in is not looked through again.
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        page += before;
        page += parts.iter().find(|(part, _)| *part == name).map_or("", |(_, text)| text);
        rest = after;
    }
    page + rest
}

/// How many slices the page reads.
#[must_use]
pub fn slices(schedule: &Schedule) -> usize {
    let spans = [&schedule.holds, &schedule.drains, &schedule.dry].map(Vec::len).iter().sum::<usize>();
    schedule.runs.len() + schedule.jobs.len() + schedule.waits.len() + schedule.tokens.len() + spans
}

/// The data of the page, as `page.js` reads them.
fn data(schedule: &Schedule, system: &Resolved) -> String {
    let mut tokens: Vec<(usize, u32)> = Vec::new();
    let mut token_names = Vec::new();
    for (pool, (name, description)) in system.pools.iter().enumerate() {
        for token in 0..description.replicas {
            tokens.push((pool, token));
            token_names.push(format!("{name} {token}"));
        }
    }
    // A token that no pool has is in no row.
    let held = schedule.tokens.iter().filter_map(|one| {
        let row = tokens.iter().position(|token| *token == (one.pool, one.token))?;
        Some([row as u64, one.task as u64, one.from, one.until])
    });
    let mut words: Vec<String> = Vec::new();
    let mut known: BTreeMap<Wait, u64> = BTreeMap::new();
    let waits: Vec<[u64; 6]> = schedule
        .waits
        .iter()
        .map(|one| {
            let said = *known.entry(one.wait).or_insert_with(|| {
                words.push(Step::Waited(one.wait).words(system));
                words.len() as u64 - 1
            });
            let lock = u64::from(matches!(one.wait, Wait::Engine(_) | Wait::Token(_)));
            [one.task as u64, one.job.into(), lock, said, one.from, one.until]
        })
        .collect();
    let runs = schedule.runs.iter().filter(|run| u32::from(run.cpu) < system.cpus).map(|run| {
        let (task, payer) = (run.task as u64, run.payer as u64);
        let (key, inherits) = (run.key.into(), run.inherits.into());
        [run.cpu.into(), task, run.job.into(), payer, key, inherits, run.from, run.until]
    });
    // A job that has no end has -1.
    let jobs = schedule.jobs.iter().map(|job| {
        let end = job.completed.map_or(-1, u64::cast_signed);
        let number = [job.task as u64, job.number.into(), job.release, job.deadline].map(u64::cast_signed);
        [number[0], number[1], number[2], number[3], end]
    });
    let spans = |spans: &[Span]| -> Vec<u64> {
        spans.iter().flat_map(|span| [span.of as u64, span.task as u64, span.from, span.until]).collect()
    };
    let window = schedule.window(system.start);
    let task_names: Vec<&str> = system.tasks.iter().map(|task| task.name.as_str()).collect();
    let engine_names: Vec<&str> = system.engines.iter().map(|(name, _)| name.as_str()).collect();
    let colours: Vec<String> = (0..system.tasks.len()).map(colour).collect();
    let members = [
        ("cpus", system.cpus.to_string()),
        ("end", schedule.end.to_string()),
        ("from", window.start.to_string()),
        ("until", window.end.to_string()),
        ("tasks", list(task_names.into_iter().map(quoted))),
        ("colours", list(colours.iter().map(|one| quoted(one)))),
        ("engines", list(engine_names.into_iter().map(quoted))),
        ("tokens", list(token_names.iter().map(|one| quoted(one)))),
        ("words", list(words.iter().map(|one| quoted(one)))),
        ("runs", list(runs.flatten())),
        ("jobs", list(jobs.flatten())),
        ("holds", list(spans(&schedule.holds).into_iter())),
        ("drains", list(spans(&schedule.drains).into_iter())),
        ("held_tokens", list(held.flatten())),
        ("waits", list(waits.into_iter().flatten())),
        ("dry", list(schedule.dry.iter().flat_map(|one| [one.task as u64, one.from, one.until]))),
        ("skips", list(schedule.skips.iter().flat_map(|(task, time)| [*task as u64, *time]))),
    ];
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(",\n"))
}
fn list(all: impl Iterator<Item = impl ToString>) -> String {
    format!("[{}]", all.map(|one| one.to_string()).collect::<Vec<_>>().join(","))
}

/// `text` in JSON that may stand in HTML.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '<' | '\0'..'\u{20}' => _ = write!(out, "\\u{:04x}", u32::from(character)),
            _ => out.push(character),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::random;

    /// The data of a page, as a browser finds it: up to the first thing that ends an element.
    fn data_of(page: &str) -> Value {
        let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("a page has data");
        let (text, _) = rest.split_once("</script>").expect("data ends");
        serde_json::from_str(text).expect("data are JSON")
    }

    /// Entries of `width` numbers.
    fn entries(data: &Value, list: &str, width: usize) -> Vec<Vec<i64>> {
        let numbers: Vec<i64> =
            data[list].as_array().expect(list).iter().map(|one| one.as_i64().expect(list)).collect();
        assert!(numbers.len().is_multiple_of(width), "{list}");
        numbers.chunks(width).map(<[i64]>::to_vec).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_page_has_what_the_schedule_has_and_the_same_again(trace in random::traces()) {
            let system = random::system();
            let mut schedule = Schedule::of(&trace, &system);
            schedule.runs.retain(|run| u32::from(run.cpu) < system.cpus);
            schedule.tokens.retain(|token| token.token < 2);
            let text = page(&schedule, &system, &system.name);
            prop_assert_eq!(&text, &page(&schedule, &system, &system.name));
            let data = data_of(&text);
            let lists = [("runs", 8), ("jobs", 5), ("holds", 4), ("drains", 4), ("held_tokens", 4), ("waits", 6), ("dry", 3)];
            let read: usize = lists.iter().map(|(list, width)| entries(&data, list, *width).len()).sum();
            prop_assert_eq!(read, slices(&schedule));
            for (run, entry) in schedule.runs.iter().zip(entries(&data, "runs", 8)) {
                let numbers = [run.cpu.into(), run.task as u64, run.job.into(), run.payer as u64, run.key.into()];
                prop_assert_eq!(&entry[..5], &numbers.map(u64::cast_signed));
                prop_assert_eq!(&entry[5..], &[run.inherits.into(), run.from.cast_signed(), run.until.cast_signed()]);
            }
            for (job, entry) in schedule.jobs.iter().zip(entries(&data, "jobs", 5)) {
                let times = [job.release, job.deadline].map(u64::cast_signed);
                prop_assert_eq!(&entry[..2], &[job.task as i64, i64::from(job.number)]);
                prop_assert_eq!(&entry[2..4], &times);
                prop_assert_eq!(entry[4], job.completed.map_or(-1, u64::cast_signed));
            }
            for (wait, entry) in schedule.waits.iter().zip(entries(&data, "waits", 6)) {
                let words = data["words"][entry[3] as usize].as_str().expect("words");
                prop_assert_eq!(words, Step::Waited(wait.wait).words(&system));
                prop_assert_eq!(&entry[4..], &[wait.from, wait.until].map(u64::cast_signed));
            }
        }
    }

    #[test]
    fn names_end_neither_scripts_nor_elements() {
        let mut system = random::system();
        system.tasks[0].name = "</script><script>\\alert(\"1\")\n//<!--".into();
        let page = super::page(&Schedule::default(), &system, "<b>&{{data}}");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<b>&") && page.contains("<title>&lt;b&gt;&amp;{{data}}</title>"));
        assert_eq!(data_of(&page)["tasks"][0], system.tasks[0].name.as_str());
    }

    #[test]
    fn a_page_asks_for_nothing_from_elsewhere() {
        let page = super::page(&Schedule::default(), &random::system(), "alone");
        for word in ["http:", "https:", "src=", "<link", "@import", "import(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
