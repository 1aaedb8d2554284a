//! The published schema of manifests, for editors: made from the types into which the reader reads them.
//!
//! The sources of these types are parsed, not the types derived from: the tools of users would compile a derivation without a use. Each struct
//! and each enum of names becomes a definition. A key has the description of its row on the page of manifests, or else its doc comment.
//!
//! Not here: checks beyond types and names, such as references between tables (`tools/manifest/src/resolve.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use fusee_manifest::{Board, PolicyName};
use serde_json::{Map, Value, json};
use syn::{Attribute, Expr, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit, PathArguments, Type};

/// The sources of the types.
const SOURCES: [&str; 8] = [
    "tools/manifest/src/board.rs",
    "tools/manifest/src/quantity.rs",
    "tools/manifest/src/schema.rs",
    "tools/manifest/src/schema/tasks.rs",
    "tools/manifest/src/schema/objects.rs",
    "tools/manifest/src/schema/devices.rs",
    "tools/manifest/src/schema/graphs.rs",
    "tools/manifest/src/schema/locks.rs",
];
/// The page with a row for each key.
const PAGE: &str = "docs/manifest.md";
/// The type of a whole manifest.
const ROOT: &str = "File";

/// The place of the rows of a struct on the page: a part of the heading, and the word before the key.
const ROWS: [(&str, &str, &str); 21] = [
    ("System", "[system]", ""),
    ("Cluster", "[clusters.NAME]", ""),
    ("Task", "[tasks.NAME]", ""),
    ("Supervisor", "[supervisor]", "supervisor"),
    ("RestartLimits", "[supervisor]", "restart"),
    ("Endpoint", "[endpoints.NAME]", "endpoint"),
    ("Notification", "[endpoints.NAME]", "notification"),
    ("Interrupt", "[endpoints.NAME]", "interrupt"),
    ("Region", "[regions.NAME]", ""),
    ("Device", "[devices.NAME]", "device"),
    ("Engine", "[devices.NAME]", "engine"),
    ("Group", "[groups.NAME]", ""),
    ("Graph", "[graphs.NAME]", ""),
    ("GraphEdge", "[graphs.NAME]", "edge"),
    ("GraphObject", "[graphs.NAME]", "object"),
    ("GraphReader", "[graphs.NAME]", "reader"),
    ("Pool", "[pools.NAME]", ""),
    ("Bus", "[buses.NAME]", ""),
    ("BusFrame", "[buses.NAME]", "frame"),
    ("Use", "Uses", ""),
    ("Test", "[test]", ""),
];

/// The schema of manifests, from the sources and the page below `root`.
///
/// # Errors
/// A file cannot be read, a type is of a kind for which there is no rule, or a key has no description.
pub fn schema(root: &Path) -> Result<Value> {
    let mut types = BTreeMap::new();
    for source in SOURCES {
        let text = std::fs::read_to_string(root.join(source)).context(source)?;
        let file = syn::parse_file(&text).with_context(|| source.to_owned())?;
        types.extend(file.items.into_iter().filter_map(|item| Some((name_of(&item)?, item))));
    }
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let maker = Maker { types, rows: rows(&page), open: BTreeSet::new(), nameless: Vec::new() };
    maker.whole()
}

fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Struct(one) => Some(one.ident.to_string()),
        Item::Enum(one) => Some(one.ident.to_string()),
        _ => None,
    }
}

/// A row of the page: the default value, and the meaning.
struct Row {
    default: Option<Value>,
    means: String,
}

/// Rows by heading, word before the key, and key.
type Rows = BTreeMap<(String, String, String), Row>;

/// The rows of all tables of keys of the page.
fn rows(page: &str) -> Rows {
    let mut rows = Rows::new();
    let mut heading = "";
    for line in page.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [keys, _, default, means, ..] = cells[..] else { continue };
        let word = keys.split('`').next().unwrap_or_default().trim();
        for key in keys.split('`').skip(1).step_by(2) {
            let row = Row { default: default_in(default), means: plain(means) };
            rows.insert((heading.to_owned(), word.to_owned(), key.to_owned()), row);
        }
    }
    rows
}

/// The value in a cell with nothing but a value.
fn default_in(cell: &str) -> Option<Value> {
    let text = cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(cell);
    let table: toml::Table = format!("value = {text}").parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// Text without links and with an upper-case letter at its beginning.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        match link.split_once("](").and_then(|(words, target)| Some((words, target.split_once(')')?.1))) {
            Some((words, after)) if !words.contains('[') => {
                plain.push_str(words);
                rest = after;
            }
            _ => {
                plain.push('[');
                rest = link;
            }
        }
    }
    plain.push_str(rest);
    let mut letters = plain.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The work on one schema.
struct Maker {
    types: BTreeMap<String, Item>,
    rows: Rows,
    /// Definitions to be made.
    open: BTreeSet<String>,
    /// Keys without a description.
    nameless: Vec<String>,
}

impl Maker {
    fn whole(mut self) -> Result<Value> {
        let mut root = self.definition(ROOT)?;
        let mut made = Map::new();
        while let Some(name) = self.open.pop_first() {
            if !made.contains_key(&name) {
                made.insert(name.clone(), self.definition(&name)?);
            }
        }
        ensure!(
            self.nameless.is_empty(),
            "keys with neither a row in {PAGE} nor a doc comment: {}",
            self.nameless.join(", ")
        );
        let all = root.as_object_mut().context("a manifest is a table")?;
        all.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        all.insert("title".into(), json!("A system of Fusee"));
        all.insert("$defs".into(), Value::Object(made));
        Ok(root)
    }

    /// The definition of a type.
    fn definition(&mut self, name: &str) -> Result<Value> {
        if let Some(written) = self.written(name) {
            return Ok(written);
        }
        let item =
            self.types.get(name).with_context(|| format!("no type is called `{name}` in {}", SOURCES.join(", ")))?;
        match item.clone() {
            Item::Struct(one) => self.table(&one),
            Item::Enum(one) => self.choice(&one),
            _ => bail!("`{name}` is neither a struct nor an enum"),
        }
    }

    /// The definitions of types with a reader written by hand.
    fn written(&mut self, name: &str) -> Option<Value> {
        match name {
            "Time" => Some(json!({ "type": "string", "pattern": "^[0-9_]*[0-9][0-9_]*\\s*(ns|us|ms|s)$" })),
            "Bytes" => Some(json!({ "anyOf": [
                { "type": "string", "pattern": "^[0-9_]*[0-9][0-9_]*\\s*(B|KiB|MiB|GiB)$" },
                { "type": "integer", "minimum": 0 },
            ] })),
            "End" => Some(json!({ "anyOf": [self.refer("Time"), self.refer("EndTask")] })),
            _ => None,
        }
    }

    fn refer(&mut self, name: &str) -> Value {
        self.open.insert(name.to_owned());
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// A struct: a table with these keys and no others.
    fn table(&mut self, one: &ItemStruct) -> Result<Value> {
        let name = one.ident.to_string();
        ensure!(words(&one.attrs)?.contains_key("deny_unknown_fields"), "`{name}` takes any key");
        let Fields::Named(fields) = &one.fields else { bail!("`{name}` has fields without names") };
        let (mut keys, mut required) = (Map::new(), Vec::new());
        for field in &fields.named {
            let key = field.ident.as_ref().context("a field without a name")?.to_string();
            let serde = words(&field.attrs)?;
            if serde.contains_key("skip") {
                continue;
            }
            let mut value = self.value(&field.ty)?;
            self.restrict(&name, &key, &mut value);
            let row = ROWS.iter().find(|(row, ..)| *row == name).and_then(|(_, heading, word)| {
                let is_here = |(place, _): &(&(String, String, String), &Row)| {
                    place.0.contains(heading) && place.1 == *word && place.2 == key
                };
                self.rows.iter().find(is_here).map(|(_, row)| (row.means.clone(), row.default.clone()))
            });
            let (means, default) = row.unwrap_or_else(|| (doc(&field.attrs), None));
            let means = if means.is_empty() { self.doc_inside(&field.ty) } else { means };
            if means.is_empty() {
                self.nameless.push(format!("`{key}` of `{name}`"));
            }
            let entry = value.as_object_mut().context("a schema")?;
            entry.insert("description".into(), json!(means));
            if let Some(default) = default {
                entry.insert("default".into(), default);
            }
            if !serde.contains_key("default") && !is(&field.ty, "Option") {
                required.push(key.clone());
            }
            keys.insert(key, value);
        }
        let mut table = json!({ "type": "object", "properties": keys, "additionalProperties": false });
        let all = table.as_object_mut().context("a schema")?;
        if !required.is_empty() {
            all.insert("required".into(), json!(required));
        }
        let doc = doc(&one.attrs);
        if !doc.is_empty() {
            all.insert("description".into(), json!(doc));
        }
        Ok(table)
    }

    /// Names of few choices that are text in the types.
    fn restrict(&self, table: &str, key: &str, value: &mut Value) {
        let choices = match (table, key) {
            ("System", "board") => json!(Board::NAMES),
            ("System" | "Cluster", "policy") => json!(PolicyName::ALL.map(PolicyName::name)),
            _ => return,
        };
        *value = json!({ "enum": choices });
    }

    /// An enum: one of its names, or a value of one of its types.
    fn choice(&mut self, one: &ItemEnum) -> Result<Value> {
        let serde = words(&one.attrs)?;
        let mut choices = Vec::new();
        for variant in &one.variants {
            let own = words(&variant.attrs)?;
            choices.push(match &variant.fields {
                Fields::Unit => {
                    let written = variant.ident.to_string();
                    let name = match (own.get("rename"), serde.get("rename_all").map(String::as_str)) {
                        (Some(name), _) => name.clone(),
                        (None, Some("kebab-case")) => kebab(&written),
                        (None, Some("lowercase")) => written.to_lowercase(),
                        (None, Some(other)) => bail!("no rule for names in {other} of `{}`", one.ident),
                        (None, None) => written,
                    };
                    let doc = doc(&variant.attrs);
                    if doc.is_empty() { json!({ "const": name }) } else { json!({ "const": name, "description": doc }) }
                }
                Fields::Unnamed(fields) if serde.contains_key("untagged") && fields.unnamed.len() == 1 => {
                    self.value(&fields.unnamed[0].ty)?
                }
                _ => bail!("no rule for `{}` of `{}`", variant.ident, one.ident),
            });
        }
        let doc = doc(&one.attrs);
        Ok(if doc.is_empty() { json!({ "anyOf": choices }) } else { json!({ "anyOf": choices, "description": doc }) })
    }

    /// The schema of a value of this type.
    fn value(&mut self, ty: &Type) -> Result<Value> {
        let (name, inner) = parts(ty)?;
        let inside = |maker: &mut Self| maker.value(inner.context("a type without its part")?);
        Ok(match name.as_str() {
            "Option" | "Spanned" => inside(self)?,
            "Vec" => json!({ "type": "array", "items": inside(self)? }),
            "Named" => json!({ "type": "object", "additionalProperties": inside(self)? }),
            "String" => json!({ "type": "string" }),
            "bool" => json!({ "type": "boolean" }),
            "u32" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            "u64" | "usize" => json!({ "type": "integer", "minimum": 0 }),
            "i64" => json!({ "type": "integer" }),
            _ => self.refer(&name),
        })
    }

    /// The doc comment of the type in a field.
    fn doc_inside(&self, ty: &Type) -> String {
        match parts(ty) {
            Ok((_, Some(inner))) => self.doc_inside(inner),
            Ok((name, None)) => match self.types.get(&name) {
                Some(Item::Struct(one)) => doc(&one.attrs),
                Some(Item::Enum(one)) => doc(&one.attrs),
                _ => String::new(),
            },
            Err(_) => String::new(),
        }
    }
}

/// The name of a type, and the type in it.
fn parts(ty: &Type) -> Result<(String, Option<&Type>)> {
    let Type::Path(path) = ty else { bail!("a type that is no path") };
    let last = path.path.segments.last().context("a type without a name")?;
    let inner = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        }),
        _ => None,
    };
    Ok((last.ident.to_string(), inner))
}

fn is(ty: &Type, name: &str) -> bool {
    parts(ty).is_ok_and(|(own, _)| own == name)
}

/// The doc comment as one paragraph.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|one| one.path().is_ident("doc")).filter_map(|one| match &one.meta {
        syn::Meta::NameValue(pair) => text(&pair.value),
        _ => None,
    });
    plain(lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ").trim())
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The words of the attribute `serde`, with their values.
fn words(attributes: &[Attribute]) -> Result<BTreeMap<String, String>> {
    let mut words = BTreeMap::new();
    for attribute in attributes.iter().filter(|one| one.path().is_ident("serde")) {
        attribute
            .parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let value = if meta.input.peek(syn::Token![=]) {
                    text(&meta.value()?.parse()?).unwrap_or_default()
                } else {
                    String::new()
                };
                words.insert(name, value);
                Ok(())
            })
            .map_err(|error| anyhow!("an attribute `serde`: {error}"))?;
    }
    Ok(words)
}

/// The name as `serde` writes it in kebab case.
fn kebab(name: &str) -> String {
    let mut written = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            written.push('-');
        }
        written.extend(letter.to_lowercase());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_host::system;
    use fusee_manifest::schema::File;

    use crate::structure::files;

    /// The address of the schema for its reader.
    const PLACE: &str = "http://fusee/manifest.json";

    /// The schema, compiled by a foreign validator.
    struct Validator {
        schemas: boon::Schemas,
        index: boon::SchemaIndex,
    }

    impl Validator {
        fn of(schema: Value) -> Validator {
            let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
            compiler.add_resource(PLACE, schema).unwrap();
            let index = compiler.compile(PLACE, &mut schemas).unwrap();
            Validator { schemas, index }
        }

        fn why(&self, document: &toml::Table) -> Option<String> {
            let document = serde_json::to_value(document).unwrap();
            self.schemas.validate(&document, self.index).err().map(|error| error.to_string())
        }
    }

    /// All manifests of the repository.
    fn manifests(root: &Path) -> Vec<(String, toml::Table)> {
        let read = |path: std::path::PathBuf| {
            let table: toml::Table = std::fs::read_to_string(&path).unwrap().parse().ok()?;
            table.contains_key("system").then(|| (path.display().to_string(), table))
        };
        files(root, "toml").unwrap().into_iter().filter_map(read).collect()
    }

    #[test]
    fn each_manifest_of_the_tree_is_one_by_the_schema() {
        let root = system::root().unwrap();
        let validator = Validator::of(schema(&root).unwrap());
        let all = manifests(&root);
        assert!(all.len() > 200, "{} manifests", all.len());
        let wrong: Vec<String> =
            all.iter().filter_map(|(file, table)| Some(format!("{file}: {}", validator.why(table)?))).collect();
        assert_eq!(wrong, [""; 0]);
    }

    /// The literals of the rows of a list of mistakes.
    fn mistakes(root: &Path, list: &str) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(root.join("tools/manifest/tests/all/mistakes.rs")).unwrap();
        let is_list = |item: Item| match item {
            Item::Const(one) if one.ident == list => Some(*one.expr),
            _ => None,
        };
        let Some(Expr::Reference(list)) = syn::parse_file(&text).unwrap().items.into_iter().find_map(is_list) else {
            panic!("no list is called {list}")
        };
        let Expr::Array(rows) = *list.expr else { panic!("no list") };
        let row = |row: Expr| match row {
            Expr::Tuple(row) => row.elems.iter().filter_map(super::text).collect(),
            _ => panic!("no row"),
        };
        rows.elems.into_iter().map(row).collect()
    }

    /// The rows with a key, a type or a name unknown to the reader.
    #[test]
    fn the_mistakes_of_the_readers_own_tests_are_found() {
        let root = system::root().unwrap();
        let validator = Validator::of(schema(&root).unwrap());
        let good = std::fs::read_to_string(root.join("tools/manifest/tests/all/good.toml")).unwrap();
        assert_eq!(validator.why(&good.parse().unwrap()), None);
        let rows = mistakes(&root, "WRITTEN");
        assert!(rows.len() >= 15, "{} rows", rows.len());
        for row in rows {
            let text = good.replacen(&row[0], &row[1], 1);
            assert!(validator.why(&text.parse().unwrap()).is_some(), "not found: {row:?}");
        }
    }

    /// The tables and lists below a value, each by the way to it; ways through names are alike in the second form.
    fn ways(value: &toml::Value, way: &[String], names: usize, found: &mut Vec<(Vec<String>, String)>) {
        let toml::Value::Table(table) = value else { return };
        for (key, inner) in table {
            let own = [way, std::slice::from_ref(key)].concat();
            let sections = ["system", "supervisor", "test"];
            let is_name = names > 0 || way.len() == 1 && !sections.contains(&way[0].as_str());
            let alike: Vec<&str> =
                own.iter().enumerate().map(|(at, key)| if at == 1 && is_name { "*" } else { key }).collect();
            found.push((own.clone(), alike.join(".")));
            ways(inner, &own, usize::from(is_name), found);
        }
    }

    fn at<'a>(table: &'a mut toml::Table, way: &[String]) -> &'a mut toml::Table {
        way.iter().fold(table, |table, key| match table.get_mut(key) {
            Some(toml::Value::Table(inner)) => inner,
            _ => panic!("no table {key} of {way:?}"),
        })
    }

    /// Manifests with one mistake each: a key that is missing, another key, a value of another type.
    fn changed(table: &toml::Table, way: &[String]) -> Vec<(String, toml::Table)> {
        let (last, before) = way.split_last().unwrap();
        let mut found = Vec::new();
        let mut add = |what: String, change: &dyn Fn(&mut toml::Table)| {
            let mut table = table.clone();
            change(at(&mut table, before));
            found.push((what, table));
        };
        add("missing".into(), &|table| drop(table.remove(last)));
        add("renamed".into(), &|table| {
            let value = table.remove(last).unwrap();
            table.insert(format!("{last}-x"), value);
        });
        add("beside".into(), &|table| drop(table.insert("zzz".into(), true.into())));
        let values = [
            toml::Value::from(true),
            7.into(),
            (-1).into(),
            (1_i64 << 40).into(),
            1.5.into(),
            "zzz".into(),
            "10ms".into(),
            "1.5ms".into(),
            "4KiB".into(),
            toml::Value::Array(Vec::new()),
            toml::Value::Array(vec!["zzz".into()]),
            toml::Table::new().into(),
            toml::Table::from_iter([("zzz".to_owned(), 1.into())]).into(),
        ];
        for value in values {
            add(format!("= {value}"), &|table| drop(table.insert(last.clone(), value.clone())));
        }
        found
    }

    /// Names of few choices: text for the reader, and refused by the next stage.
    const NARROWER: [&str; 3] = ["system.board", "system.policy", "clusters.*.policy"];

    #[test]
    fn the_schema_refuses_what_the_reader_refuses_and_nothing_else() {
        let root = system::root().unwrap();
        let validator = Validator::of(schema(&root).unwrap());
        let (mut seen, mut refused, mut taken) = (BTreeSet::new(), 0, 0);
        for (file, table) in manifests(&root) {
            let mut found = Vec::new();
            ways(&table.clone().into(), &[], 0, &mut found);
            for (way, alike) in found {
                if !seen.insert(alike.clone()) {
                    continue;
                }
                for (what, document) in changed(&table, &way) {
                    let text = toml::to_string(&document).unwrap();
                    let reader = toml::from_str::<File>(&text).err().map(|error| error.message().to_owned());
                    let schema = validator.why(&document);
                    // The derived reader takes a list for the values of a table's keys in their order: no page says so, and the schema refuses it.
                    let is_list = what.starts_with("= [")
                        && at(&mut table.clone(), &way[..way.len() - 1])[&way[way.len() - 1]].is_table();
                    let is_narrower = (NARROWER.contains(&alike.as_str()) || is_list) && reader.is_none();
                    let agree = reader.is_some() == schema.is_some();
                    assert!(agree || is_narrower, "{file}, {way:?} {what}: reader {reader:?}, schema {schema:?}");
                    if schema.is_some() { refused += 1 } else { taken += 1 }
                }
            }
        }
        assert!(
            seen.len() > 200 && refused > 2_000 && taken > 500,
            "{} ways, {refused} refused, {taken} taken",
            seen.len()
        );
    }

    #[test]
    fn a_description_has_no_links() {
        assert_eq!(plain("how [devices](a.md#b) are [x] `[test]`"), "How devices are [x] `[test]`");
        assert_eq!(["RealTime", "R2dglp", "CkOmlp"].map(kebab), ["real-time", "r2dglp", "ck-omlp"]);
    }
}
