//! The keys of manifests, as the types of `schema` have them: for checks that each is drawn, or written about.
//!
//! The types themselves are asked: [`Deserialize`] names its fields and variants to whoever deserializes it, and what asks here gives back nothing. So
//! there is no second list, and a new key is among these at once. The variants of an untagged enum are not named in this way; those are in
//! [`alternatives`], and one that is not becomes a key that no manifest has: its path and `=?`.
//!
//! A key is written with `*` for each name that the manifest chooses: `tasks.*.period`. A value of an enum is a key of its own: `tasks.*.class=service`. So is a
//! right: `endpoint: call`, and the first word of a step: `step: burn`.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error, UsizeDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

use crate::quantity::Launched;
use crate::resolve::handles::RIGHTS;
use crate::schema::{File, NamedLimit, RestartLimits, RestartName};
use crate::script::STEPS;

/// What a type reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    Fields(&'static [&'static str]),
    Named,
    Variants(&'static [&'static str]),
    Value,
    Untagged,
}

/// All keys, in the order of their names.
#[must_use]
pub fn keys() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open: Vec<Vec<&'static str>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        for shape in shapes(&path) {
            let name = path.join(".");
            match shape {
                Shape::Fields(fields) => {
                    open.extend(fields.iter().map(|field| path.iter().copied().chain([*field]).collect()));
                }
                Shape::Named => open.push(path.iter().copied().chain(["*"]).collect()),
                Shape::Variants(variants) => all.extend(variants.iter().map(|variant| format!("{name}={variant}"))),
                Shape::Untagged => _ = all.insert(format!("{name}=?")),
                Shape::Value => _ = all.insert(name),
            }
        }
    }
    let rights =
        RIGHTS.iter().flat_map(|(kind, rights)| rights.iter().map(move |(right, _)| format!("{kind}: {right}")));
    all.extend(rights);
    all.extend(STEPS.iter().map(|step| format!("step: {step}")));
    all
}

/// The keys that `manifest` has. Of what no type reads there are none.
#[must_use]
pub fn used(manifest: &Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(&Value::Table(manifest.clone()), String::new(), &mut found);
    let all = keys();
    found.retain(|key| all.contains(key));
    found
}

fn walk(value: &Value, path: String, found: &mut BTreeSet<String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                walk(value, below(name), found);
                walk(value, below("*"), found);
            }
        }
        Value::Array(all) => {
            if path.ends_with(".script") || path.ends_with(".model") {
                let words = all.iter().filter_map(|step| step.as_str()?.split_whitespace().next());
                found.extend(words.map(|word| format!("step: {word}")));
            }
            all.iter().for_each(|value| walk(value, path.clone(), found));
            found.insert(path);
        }
        Value::String(text) => {
            if let Some((object, rights)) = text.split_once(':').filter(|_| path.contains(".handles.")) {
                let kind = object.split_whitespace().next().unwrap_or_default();
                found.extend(rights.split_whitespace().map(|right| format!("{kind}: {right}")));
            }
            found.insert(format!("{path}={text}"));
            found.insert(path);
        }
        _ => _ = found.insert(path),
    }
}

/// What is read at `path`; several things, if an untagged enum is.
fn shapes(path: &[&'static str]) -> Vec<Shape> {
    // A field of one of the alternatives.
    if (1..path.len()).any(|length| alternatives(&path[..length]).is_some()) {
        return vec![Shape::Value];
    }
    alternatives(path).unwrap_or_else(|| vec![shape::<File>(path)])
}

/// What may stand where an untagged enum is read, or a time or a launch.
fn alternatives(path: &[&str]) -> Option<Vec<Shape>> {
    match path.join(".").as_str() {
        "tasks.*.restart" => Some(vec![shape::<RestartName>(&[]), shape::<RestartLimits>(&[])]),
        "tasks.*.uses.*.operation" => Some(vec![Shape::Value, shape::<Launched>(&[])]),
        "pools.*.limit" => Some(vec![Shape::Value, shape::<NamedLimit>(&[])]),
        // A number or a name, which says nothing else.
        "interrupts.*.line" | "regions.*.device" => Some(vec![Shape::Value]),
        _ => None,
    }
}

fn shape<T: Deserialize<'static>>(path: &[&'static str]) -> Shape {
    let mut found = Shape::Value;
    // Whatever is asked ends in an error: there is nothing to read.
    _ = T::deserialize(Asked { path, found: &mut found });
    found
}

/// Gives nothing, and keeps what it is asked for at the end of `path`.
struct Asked<'a> {
    path: &'a [&'static str],
    found: &'a mut Shape,
}

impl Asked<'_> {
    fn keep<T>(self, shape: Shape) -> Result<T, Error> {
        *self.found = shape;
        Err(Error::custom("nothing is read"))
    }
}

/// The words by which serde expects what it keeps until it knows which variant of an untagged enum it is.
const ANY: &str = "any value";

/// What a visitor expects, in words.
struct Words<'a, V>(&'a V);

impl<'de, V: Visitor<'de>> fmt::Display for Words<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Expected::fmt(self.0, f)
    }
}

impl Deserializer<'static> for Asked<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'static>>(self, visitor: V) -> Result<V::Value, Error> {
        let is_untagged = Words(&visitor).to_string() == ANY;
        self.keep(if is_untagged { Shape::Untagged } else { Shape::Value })
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
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

impl<'a> SeqAccess<'static> for Asked<'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'static>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        seed.deserialize(Asked { path: self.path, found: self.found }).map(Some)
    }
}

/// A map with these keys, the last first. What is asked of the last one's value is kept; those before it are numbers.
struct Entries<'a> {
    keys: Vec<&'static str>,
    value: Asked<'a>,
}

impl MapAccess<'static> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'static>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key = self.keys.pop().map(|key| seed.deserialize(Key(key)));
        key.transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'static>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if self.keys.is_empty() {
            return seed.deserialize(Asked { path: self.value.path, found: self.value.found });
        }
        let number: UsizeDeserializer<Error> = 0_usize.into_deserializer();
        seed.deserialize(number)
    }
}

/// A key, which may want to know its place in the file.
struct Key(&'static str);

impl Deserializer<'static> for Key {
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
        self.keys.pop().map(|key| seed.deserialize(Key(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'static>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if self.keys.is_empty() {
            return seed.deserialize(Key(self.text));
        }
        let number: UsizeDeserializer<Error> = 0_usize.into_deserializer();
        seed.deserialize(number)
    }
}
