//! Reading of text into tables: everything that is no TOML or does not fit the schema is reported, with its place.
//!
//! The parser and the derived code stop at their first mistake each. So a value with a mistake is taken out of the tables, and the
//! remaining tables are tried again, until no mistake is left.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};

use crate::error::{Reason, nearest};
use crate::schema::File;

/// A mistake and its place in the text.
pub(crate) type Mistake = (Range<usize>, Reason);

/// Reads `text`; or returns all mistakes of the first stage that has some: text that is no TOML, or entries that are not in the
/// schema.
pub(crate) fn read(text: &str, line_of: impl Fn(usize) -> usize) -> Result<File, Vec<Mistake>> {
    let (mut root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(syntax(text, errors, line_of));
    }
    if let Ok(file) = File::deserialize(Deserializer::from(root.clone())) {
        return Ok(file);
    }
    let mut found = Found::default();
    found.look_at_each(root.get_mut());
    match found.look(&mut root) {
        Some(file) if found.mistakes.is_empty() => Ok(file),
        _ => Err(found.mistakes),
    }
}

/// The mistakes in tables.
#[derive(Default)]
struct Found {
    mistakes: Vec<Mistake>,
    /// Keys that were taken out, or meant by those, with the places of their tables: that they are missing follows.
    removed: BTreeSet<(usize, String)>,
}

impl Found {
    /// Takes entries with mistakes out of `root`, until the rest can be read.
    fn look(&mut self, root: &mut Spanned<DeTable<'_>>) -> Option<File> {
        loop {
            let error = match File::deserialize(Deserializer::from(root.clone())) {
                Ok(file) => return Some(file),
                Err(error) => error,
            };
            let place = error.span().unwrap_or(0..0);
            let reason = in_words(error.message());
            let nearest = match &reason {
                Reason::UnknownKey { key, choices } => {
                    nearest(key, choices.iter().map(String::as_str)).map(str::to_owned)
                }
                _ => None,
            };
            let follows =
                matches!(&reason, Reason::MissingKey(key) if self.removed.contains(&(place.start, key.clone())));
            if !follows {
                self.mistakes.push((place.clone(), reason));
            }
            let table = root.span();
            let (table, key) = remove(root.get_mut(), table, &place)?;
            self.removed.extend(nearest.map(|meant| (table.start, meant)));
            self.removed.insert((table.start, key));
        }
    }

    /// Does so with one named table after the other, each in a manifest of its own: a mistake in one costs no look at the others.
    fn look_at_each(&mut self, root: &mut DeTable<'_>) {
        const NAMED: [&str; 11] = [
            "clusters",
            "devices",
            "endpoints",
            "engines",
            "graphs",
            "groups",
            "interrupts",
            "notifications",
            "pools",
            "regions",
            "tasks",
        ];
        let (alone, _) = DeTable::parse_recoverable("[system]\nname = \"alone\"\nboard = \"virt\"\ncpus = 1");
        for (section, tables) in root.iter_mut().filter(|(section, _)| NAMED.contains(&section.get_ref().as_ref())) {
            let at = tables.span();
            let DeValue::Table(tables) = tables.get_mut() else { continue };
            for (name, value) in std::mem::take(tables) {
                let mut one = DeTable::new();
                one.insert(name, value);
                let mut manifest = alone.get_ref().clone();
                manifest.insert(section.clone(), Spanned::new(at.clone(), DeValue::Table(one)));
                let mut manifest = Spanned::new(0..0, manifest);
                if self.look(&mut manifest).is_none() {
                    continue;
                }
                if let Some(DeValue::Table(one)) =
                    manifest.get_mut().get_mut(&**section.get_ref()).map(Spanned::get_mut)
                {
                    tables.extend(std::mem::take(one));
                }
            }
        }
    }
}

/// The mistakes of the parser: from each section the first key that is there twice, as a second section of a name has many; and the
/// first other mistake, as later ones may follow from it.
fn syntax(text: &str, mut errors: Vec<Error>, line_of: impl Fn(usize) -> usize) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut sections = BTreeSet::new();
    errors.sort_by_key(|error| error.span().map(|place| place.start));
    for error in &errors {
        let place = error.span().unwrap_or(0..0);
        if error.message() != "duplicate key" {
            mistakes.push((place, Reason::Syntax(error.message().to_owned())));
            break;
        }
        if sections.insert(text[..place.start].rfind("\n[")) {
            let reason = match first_of(text, &place) {
                Some((key, first)) => Reason::DuplicateKey { key, first: line_of(first) },
                None => Reason::Syntax("this table is there already".to_owned()),
            };
            mistakes.push((place, reason));
        }
    }
    mistakes
}

/// The key at `second`, and the first place of it in its table. The table is read once more with the second key renamed.
fn first_of(text: &str, second: &Range<usize>) -> Option<(String, usize)> {
    const OTHERWISE: &str = "_the_second_one_";
    fn beside(table: &DeTable<'_>, key: &str) -> Option<usize> {
        if table.contains_key(OTHERWISE) {
            return table.get_key_value(key).map(|(key, _)| key.span().start);
        }
        table.values().filter_map(|value| value.get_ref().as_table()).find_map(|table| beside(table, key))
    }
    let key = text.get(second.clone())?.trim_matches(['"', '\'']);
    let renamed = format!("{}{OTHERWISE}{}", &text[..second.start], &text[second.end..]);
    let (root, _) = DeTable::parse_recoverable(&renamed);
    Some((key.to_owned(), beside(root.get_ref(), key)?))
}

/// Takes the entry at `place` out of `table`, which is at `at`: an entry with this key or value, or a list with such an item.
/// Returns the range of its table, and its key.
fn remove(table: &mut DeTable<'_>, at: Range<usize>, place: &Range<usize>) -> Option<(Range<usize>, String)> {
    let is_in = |value: &Spanned<DeValue<'_>>| {
        let span = value.span();
        value.get_ref().is_array() && span.start <= place.start && place.end <= span.end
    };
    let found = table.iter().find(|(key, value)| key.span() == *place || value.span() == *place || is_in(value));
    if let Some(key) = found.map(|(key, _)| key.get_ref().to_string()) {
        table.remove(&*key);
        return Some((at, key));
    }
    table.iter_mut().find_map(|(_, value)| match (value.span(), value.get_mut()) {
        (at, DeValue::Table(inner)) => remove(inner, at, place),
        _ => None,
    })
}

/// The words of the derived code on keys and values, as reasons.
fn in_words(message: &str) -> Reason {
    let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
    let plain = || {
        let (what, wanted) = message.split_once(", expected ").unwrap_or((message, ""));
        let is_number = matches!(wanted, "u32" | "u64" | "usize" | "i64");
        Reason::Syntax(if is_number { format!("{what}, expected a whole number") } else { message.to_owned() })
    };
    let Some(first) = quoted.next() else { return plain() };
    match message {
        _ if message.starts_with("unknown field") => Reason::UnknownKey { key: first, choices: quoted.collect() },
        _ if message.starts_with("unknown variant") => Reason::UnknownValue { value: first, choices: quoted.collect() },
        _ if message.starts_with("missing field") => Reason::MissingKey(first),
        _ => plain(),
    }
}
