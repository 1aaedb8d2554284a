//! The keys of manifests, as the types of `schema` have them: for checks that each is drawn, or written about.
//!
//! The types themselves are asked: [`Deserialize`] names its fields and variants to its deserializer, and the one here gives back nothing. So
//! there is no second list, and a new key is among these at once. The variants of an untagged enum are not named in this way; those are in
//! `alternatives`, and one that is not becomes a key that no manifest has: its path and `=?`.
//!
//! A key is written with `*` for each name that the manifest chooses: `tasks.*.period`. A value of an enum is a key of its own: `tasks.*.class=service`. So is a
//! right: `endpoint: call`, and the first word of a step: `step: burn`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error, UsizeDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

use fusee_manifest::Time;
use fusee_manifest::grammar::{Launched, RIGHTS, STEPS};
use fusee_manifest::schema::{EndTask, File, NamedLimit, RestartLimits, RestartName};

/// A key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    /// Its value,
    pub value: Kind,
    /// in so many lists, one in the other.
    pub lists: u32,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Truth,
    /// A number.
    Number,
    /// A name, or another text.
    Text,
    /// A time with its unit.
    Time,
    /// A length with its unit.
    Bytes,
    /// Nothing: the key is one of the words of another key.
    Word,
}

/// The form that a type reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    Fields(&'static [&'static str]),
    Named,
    Variants(&'static [&'static str]),
    Value(Key),
    Untagged,
}

/// All keys, in the order of their names.
#[must_use]
pub fn keys() -> BTreeMap<String, Key> {
    let word = Key { value: Kind::Word, lists: 0 };
    let mut all = BTreeMap::new();
    let mut open: Vec<Vec<&'static str>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        for shape in shapes(&path) {
            let name = path.join(".");
            match shape {
                Shape::Fields(fields) => {
                    open.extend(fields.iter().map(|field| path.iter().copied().chain([*field]).collect()));
                }
                Shape::Named => open.push(path.iter().copied().chain(["*"]).collect()),
                Shape::Variants(variants) => {
                    all.extend(variants.iter().map(|variant| (format!("{name}={variant}"), word)));
                }
                Shape::Untagged => _ = all.insert(format!("{name}=?"), word),
                Shape::Value(key) => _ = all.insert(name, key),
            }
        }
    }
    let rights = RIGHTS.iter().flat_map(|(kind, all)| all.iter().map(move |(right, _)| format!("{kind}: {right}")));
    let words = rights.chain(STEPS.iter().map(|step| format!("step: {step}")));
    all.extend(words.map(|name| (name, word)));
    all
}

/// Those of the keys `all` that `manifest` has.
#[must_use]
pub fn used(manifest: &Table, all: &BTreeMap<String, Key>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, value) in manifest {
        walk(value, name, &mut found);
    }
    found.retain(|key| all.contains_key(key));
    found
}

fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                walk(value, &format!("{path}.{name}"), found);
                walk(value, &format!("{path}.*"), found);
            }
        }
        Value::Array(all) => {
            if path.ends_with(".script") || path.ends_with(".model") {
                let words = all.iter().filter_map(|step| step.as_str()?.split_whitespace().next());
                found.extend(words.map(|word| format!("step: {word}")));
            }
            found.insert(path.to_owned());
            all.iter().for_each(|value| walk(value, path, found));
        }
        Value::String(text) => {
            if let Some((object, rights)) = text.split_once(':').filter(|_| path.contains(".handles.")) {
                let kind = object.split_whitespace().next().unwrap_or_default();
                found.extend(rights.split_whitespace().map(|right| format!("{kind}: {right}")));
            }
            found.extend([path.to_owned(), format!("{path}={text}")]);
        }
        _ => _ = found.insert(path.to_owned()),
    }
}

/// Forms that are read at `path`: several, if it is an untagged enum.
fn shapes(path: &[&'static str]) -> Vec<Shape> {
    let untagged = (1..=path.len()).find_map(|length| Some((alternatives(&path[..length])?, &path[length..])));
    match untagged {
        None => vec![shape::<File>(path)],
        Some((all, [])) => all.iter().map(|one| one(&[])).collect(),
        Some((all, rest)) => {
            let has_fields = |one: &&Read| matches!(one(&[]), Shape::Fields(_));
            all.iter().filter(has_fields).map(|one| one(rest)).collect()
        }
    }
}

/// The form that one type reads at a path.
type Read = fn(&[&'static str]) -> Shape;

/// Forms that may stand where an untagged enum is read, or a time or a launch.
fn alternatives(path: &[&str]) -> Option<Vec<Read>> {
    match path.join(".").as_str() {
        "system.end" => Some(vec![shape::<Time>, shape::<EndTask>]),
        "tasks.*.restart" => Some(vec![shape::<RestartName>, shape::<RestartLimits>]),
        "tasks.*.uses.*.operation" => Some(vec![shape::<Time>, shape::<Launched>]),
        "pools.*.limit" => Some(vec![shape::<u32>, shape::<NamedLimit>]),
        // A number or a name, which says nothing else.
        "interrupts.*.line" => Some(vec![shape::<u32>]),
        "regions.*.device" => Some(vec![shape::<bool>]),
        _ => None,
    }
}

fn shape<T: Deserialize<'static>>(path: &[&'static str]) -> Shape {
    let mut found = Shape::Untagged;
    // Each question ends in an error: there is nothing to read.
    _ = T::deserialize(Asked { path, lists: 0, found: &mut found });
    found
}

/// A deserializer that gives nothing, and keeps the names it is asked for at the end of `path`.
struct Asked<'a> {
    path: &'a [&'static str],
    lists: u32,
    found: &'a mut Shape,
}

impl Asked<'_> {
    fn value<T>(self, value: Kind) -> Result<T, Error> {
        let lists = self.lists;
        self.keep(Shape::Value(Key { value, lists }))
    }

    fn keep<T>(self, shape: Shape) -> Result<T, Error> {
        *self.found = shape;
        Err(Error::custom("nothing is read"))
    }
}

/// The words by which serde expects a value that it keeps until it knows the variant of an untagged enum.
const ANY: &str = "any value";

/// Expectations of a visitor, in words.
struct Words<'a, V>(&'a V);

impl<'de, V: Visitor<'de>> fmt::Display for Words<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Expected::fmt(self.0, f)
    }
}

impl Deserializer<'static> for Asked<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Error> {
        match Words(&visitor).to_string() {
            words if words == ANY => self.keep(Shape::Untagged),
            words if words.starts_with("a time") => self.value(Kind::Time),
            words if words.starts_with("a length") => self.value(Kind::Bytes),
            _ => self.value(Kind::Text),
        }
    }

    fn deserialize_bool<V: Visitor<'static>>(self, _: V) -> Result<V::Value, Error> {
        self.value(Kind::Truth)
    }

    fn deserialize_u32<V: Visitor<'static>>(self, _: V) -> Result<V::Value, Error> {
        self.value(Kind::Number)
    }

    fn deserialize_u64<V: Visitor<'static>>(self, _: V) -> Result<V::Value, Error> {
        self.value(Kind::Number)
    }

    fn deserialize_i64<V: Visitor<'static>>(self, _: V) -> Result<V::Value, Error> {
        self.value(Kind::Number)
    }

    fn deserialize_option<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'static>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self)
    }

    fn deserialize_map<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.path {
            [] => self.keep(Shape::Named),
            [_, rest @ ..] => visitor.visit_map(Entries { keys: vec!["x"], value: Asked { path: rest, ..self } }),
        }
    }

    fn deserialize_struct<V: Visitor<'static>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A value with its place in the file: two numbers come before it.
        if fields.iter().all(|field| field.starts_with('$')) {
            return visitor.visit_map(Entries { keys: fields.iter().rev().copied().collect(), value: self });
        }
        match self.path {
            [] => self.keep(Shape::Fields(fields)),
            [field, rest @ ..] => visitor.visit_map(Entries { keys: vec![field], value: Asked { path: rest, ..self } }),
        }
    }

    fn deserialize_enum<V: Visitor<'static>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.keep(Shape::Variants(variants))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'static>>
        i8 i16 i32 u8 u16 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

impl<'a> SeqAccess<'static> for Asked<'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'static>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        seed.deserialize(Asked { path: self.path, lists: self.lists + 1, found: self.found }).map(Some)
    }
}

/// A map with these keys, the last first. Questions to the last one's value are kept; those before it are numbers.
struct Entries<'a> {
    keys: Vec<&'static str>,
    value: Asked<'a>,
}

impl MapAccess<'static> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'static>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key = self.keys.pop().map(|key| seed.deserialize(Name(key)));
        key.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'static>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if self.keys.is_empty() {
            return seed.deserialize(Asked { path: self.value.path, lists: self.value.lists, found: self.value.found });
        }
        let number: UsizeDeserializer<Error> = 0_usize.into_deserializer();
        seed.deserialize(number)
    }
}

/// The name of a key, which may want to know its place in the file.
struct Name(&'static str);

impl Deserializer<'static> for Name {
    type Error = Error;

    fn deserialize_any<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Error> {
        BorrowedStrDeserializer::new(self.0).deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'static>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Placed { keys: fields.iter().rev().copied().collect(), text: self.0 })
    }

    forward_to_deserialize_any! {
        <W: Visitor<'static>>
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

/// A text with its place: two numbers, then the text.
struct Placed {
    keys: Vec<&'static str>,
    text: &'static str,
}

impl MapAccess<'static> for Placed {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'static>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.keys.pop().map(|key| seed.deserialize(Name(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'static>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if self.keys.is_empty() {
            return seed.deserialize(Name(self.text));
        }
        let number: UsizeDeserializer<Error> = 0_usize.into_deserializer();
        seed.deserialize(number)
    }
}
