//! The manifest of an arrangement: the user's text, with as few lines changed as possible.
//!
//! # Invariants
//!
//! 1. The present arrangement has the text of the user, to the byte.
//! 2. No comment is lost: those of a cluster that goes stand before one that stays.

use std::collections::BTreeSet;

use fusee_manifest::PolicyName;
use similar::{ChangeTag, TextDiff};
use toml_edit::{Array, Decor, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::arrangement::{Arrangement, Cluster, Grants, Parts, words_of};

/// The manifest `document`, whose parts are `parts`, with this arrangement. `named` has tables of tasks whose key `cluster` is
/// written in any case, as the task that they are `like` has another one.
#[must_use]
pub fn write(document: &DocumentMut, parts: &Parts, wanted: &Arrangement, named: &BTreeSet<usize>) -> DocumentMut {
    let mut out = document.clone();
    clusters(&mut out, parts, &wanted.clusters);
    let old = &parts.present.clusters;
    let several = wanted.clusters.len() > 1;
    // A cluster is written where the key is there already, or where nothing else gives the right one.
    let needs = |from: usize, to: usize| several && (old.len() == 1 || old[from].name != wanted.clusters[to].name);
    for (at, table) in parts.tables.iter().enumerate() {
        let (from, to) = (parts.present.homes[table.unit], wanted.homes[table.unit]);
        let has_from_other = entry(&mut out, "tasks", &table.name).is_some_and(|task| task.get("like").is_some());
        let is_new = (needs(from, to) && !has_from_other) || named.contains(&at);
        set_cluster(&mut out, "tasks", &table.name, &wanted.clusters[to].name, is_new);
    }
    // Without a task to follow an object stays with its CPUs.
    let nearest = |from: usize| {
        let shared = |to: &usize| (wanted.clusters[*to].cpus & old[from].cpus).count_ones();
        (0..wanted.clusters.len()).rev().max_by_key(shared).unwrap_or(0)
    };
    let followers = parts.interrupts.iter().map(|one| ("interrupts", one));
    for (section, one) in followers.chain(parts.pools.iter().map(|one| ("pools", one))) {
        let to = one.unit.map_or_else(|| nearest(one.cluster), |unit| wanted.homes[unit]);
        set_cluster(&mut out, section, &one.name, &wanted.clusters[to].name, needs(one.cluster, to));
    }
    if let Some(from) = parts.end {
        let to = nearest(from);
        set_end(&mut out, &wanted.clusters[to].name, needs(from, to));
    }
    let grants = parts.locks.iter().zip(&wanted.grants).zip(&parts.present.grants);
    for ((lock, grant), _) in grants.filter(|((_, grant), present)| grant != present) {
        lock.engines.iter().for_each(|engine| set_grants(&mut out, engine, *grant));
    }
    let limits = parts.pools.iter().zip(&wanted.limits).zip(&parts.present.limits);
    for ((pool, limit), _) in limits.filter(|((_, limit), present)| limit != present) {
        if let Some(value) = limit.as_ref().and_then(|limit| limit.parse::<Value>().ok()) {
            entry(&mut out, "pools", &pool.name).into_iter().for_each(|item| set(item, "limit", value.clone()));
        }
    }
    out
}

/// The entry called `name` of a section.
fn entry<'a>(document: &'a mut DocumentMut, section: &str, name: &str) -> Option<&'a mut Item> {
    document.get_mut(section)?.as_table_like_mut()?.get_mut(name)
}

/// Sets a key of a table. Spaces and comments around an old value stay.
fn set(table: &mut Item, key: &str, value: Value) {
    let plain = |value: &Value| value.clone().decorated("", "").to_string();
    if let Some(inline) = table.as_inline_table_mut() {
        // The space before the bracket belongs to the last value.
        let last = inline.iter().last().map(|(key, _)| key.to_owned()).filter(|_| !inline.contains_key(key));
        let last = last.and_then(|last| inline.get_mut(&last));
        let suffix = last.map(|last| {
            let suffix = last.decor().suffix().cloned().unwrap_or_default();
            last.decor_mut().set_suffix("");
            suffix
        });
        if let Some(suffix) = suffix {
            let mut value = value;
            value.decor_mut().set_prefix(" ");
            value.decor_mut().set_suffix(suffix);
            inline.insert(key, value);
            return;
        }
    }
    let Some(table) = table.as_table_like_mut() else { return };
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if plain(old) == plain(&value) => {}
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// Sets the cluster of an entry, if the key is there or `is_new`.
fn set_cluster(document: &mut DocumentMut, section: &str, name: &str, cluster: &str, is_new: bool) {
    let Some(item) = entry(document, section, name) else { return };
    let old = item.get("cluster").and_then(Item::as_str);
    if old.map_or(is_new, |old| old != cluster) {
        set(item, "cluster", cluster.into());
    }
}

/// Sets the cluster of the task that ends the system, if the key is there or `is_new`.
fn set_end(document: &mut DocumentMut, cluster: &str, is_new: bool) {
    let Some(end) = entry(document, "system", "end") else { return };
    if end.is_table_like() {
        let old = end.get("cluster").and_then(Item::as_str);
        if old.map_or(is_new, |old| old != cluster) {
            set(end, "cluster", cluster.into());
        }
    } else if let Some(after) = end.as_value_mut().filter(|_| is_new) {
        // A time alone has no place for a cluster.
        let decor = after.decor().clone();
        let mut table = InlineTable::new();
        table.insert("after", after.clone().decorated(" ", ""));
        table.insert("cluster", cluster.into());
        *after = Value::InlineTable(table);
        *after.decor_mut() = decor;
    }
}

/// Sets the rule by which an engine is granted.
fn set_grants(document: &mut DocumentMut, engine: &str, grants: Grants) {
    let Some(item) = entry(document, "engines", engine) else { return };
    let has = |key: &str| item.get(key).is_some();
    let (decides, has_order) = (has("arbiter"), has("order"));
    if grants == Grants::Device {
        return set(item, "arbiter", "device".into());
    }
    if decides {
        set(item, "arbiter", "lock".into());
    }
    if has_order || grants != Grants::Priority {
        set(item, "order", grants.words().into());
    }
}

//--- Clusters

/// Writes the clusters and their policies.
fn clusters(document: &mut DocumentMut, parts: &Parts, wanted: &[Cluster]) {
    if wanted == parts.present.clusters {
        return;
    }
    if parts.is_divided || wanted.len() > 1 {
        set_clusters(document, parts, wanted);
    }
    let named = |document: &DocumentMut, name: &str| {
        let policy = document.get("clusters").and_then(|clusters| clusters.get(name)?.get("policy")?.as_str());
        policy.and_then(PolicyName::from_name)
    };
    let policy = document.get("system").and_then(|system| system.get("policy")?.as_str());
    let default = policy.and_then(PolicyName::from_name).unwrap_or_default();
    let is_one = wanted.iter().all(|cluster| cluster.policy == wanted[0].policy);
    let is_named = wanted.iter().any(|cluster| named(document, &cluster.name).is_some());
    if is_one && !is_named {
        if wanted[0].policy != default
            && let Some(system) = document.get_mut("system")
        {
            set(system, "policy", wanted[0].policy.name().into());
        }
        return;
    }
    for cluster in wanted {
        if named(document, &cluster.name).unwrap_or(default) != cluster.policy {
            let table = entry(document, "clusters", &cluster.name);
            table.into_iter().for_each(|table| set(table, "policy", cluster.policy.name().into()));
        }
    }
}

/// Writes the clusters without their policies.
fn set_clusters(document: &mut DocumentMut, parts: &Parts, wanted: &[Cluster]) {
    if !document.contains_key("clusters") {
        let place = document.get("system").and_then(Item::as_table).and_then(Table::position);
        let mut clusters = Table::new();
        clusters.set_implicit(true);
        clusters.set_position(place);
        document.insert("clusters", Item::Table(clusters));
    }
    let place = document.get("system").and_then(Item::as_table).and_then(Table::position);
    let Some(clusters) = document.get_mut("clusters") else { return };
    let is_inline = clusters.is_inline_table()
        || clusters.as_table_like().is_some_and(|all| all.iter().any(|(_, one)| one.is_inline_table()));
    let Some(clusters) = clusters.as_table_like_mut() else { return };
    let mut comments = String::new();
    for gone in parts.present.clusters.iter().filter(|old| wanted.iter().all(|new| new.name != old.name)) {
        comments.push_str(&comments_of(clusters, &gone.name));
        clusters.remove(&gone.name);
    }
    for (at, cluster) in wanted.iter().enumerate() {
        let numbers = (0..u32::BITS).filter(|cpu| cluster.cpus >> cpu & 1 != 0).map(i64::from);
        let cpus = Value::Array(numbers.collect::<Array>());
        let old = parts.present.clusters.iter().find(|old| old.name == cluster.name);
        match (clusters.get_mut(&cluster.name), old) {
            (Some(item), Some(old)) if old.cpus != cluster.cpus => set(item, "cpus", cpus),
            (Some(_), _) => {}
            (None, _) if is_inline => {
                let mut table = InlineTable::new();
                table.insert("cpus", cpus);
                clusters.insert(&cluster.name, Item::Value(Value::InlineTable(table)));
            }
            (None, _) => {
                let mut table = Table::new();
                table.insert("cpus", Item::Value(cpus));
                // The first one of a manifest without clusters comes behind `[system]`, the others behind their neighbours.
                if at == 0 {
                    table.set_position(place);
                }
                clusters.insert(&cluster.name, Item::Table(table));
            }
        }
    }
    let first = wanted.iter().find(|cluster| parts.present.clusters.iter().any(|old| old.name == cluster.name));
    if let Some(first) = first.filter(|_| !comments.is_empty()) {
        put_before(clusters, &first.name, &comments);
    }
}

/// The lines of comments before an entry, and in it.
fn comments_of(tables: &dyn TableLike, name: &str) -> String {
    let mut texts = Vec::new();
    let mut add = |decor: Option<&Decor>| {
        let parts = decor.into_iter().flat_map(|decor| [decor.prefix(), decor.suffix()]).flatten();
        texts.extend(parts.filter_map(|text| text.as_str().map(str::to_owned)));
    };
    add(tables.key(name).map(toml_edit::Key::leaf_decor));
    let item = tables.get(name);
    match item {
        Some(Item::Table(table)) => add(Some(table.decor())),
        Some(Item::Value(value)) => add(Some(value.decor())),
        _ => {}
    }
    if let Some(table) = item.and_then(Item::as_table_like) {
        for (key, value) in table.iter() {
            add(table.key(key).map(toml_edit::Key::leaf_decor));
            add(value.as_value().map(Value::decor));
        }
    }
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Puts lines of comments before an entry.
fn put_before(tables: &mut dyn TableLike, name: &str, comments: &str) {
    let with = |decor: &Decor| {
        let old = decor.prefix().and_then(|prefix| prefix.as_str()).unwrap_or("\n");
        let (blank, rest) = if let Some(rest) = old.strip_prefix('\n') { ("\n", rest) } else { ("", old) };
        format!("{blank}{comments}{rest}")
    };
    if let Some(Item::Table(table)) = tables.get_mut(name) {
        let prefix = with(table.decor());
        table.decor_mut().set_prefix(prefix);
    } else if let Some(mut key) = tables.key_mut(name) {
        let prefix = with(key.leaf_decor());
        key.leaf_decor_mut().set_prefix(prefix);
    }
}

//--- Differences

/// The lines to change, as `diff -u` prints them.
#[must_use]
pub fn difference(file: &str, old: &str, new: &str) -> String {
    TextDiff::from_lines(old, new).unified_diff().context_radius(1).header(file, file).to_string()
}

/// The number of lines to change: those of the new text that are not in the old one, or those that go, where these are more.
#[must_use]
pub fn changed_lines(old: &str, new: &str) -> usize {
    let diff = TextDiff::from_lines(old, new);
    let count = |tag: ChangeTag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    count(ChangeTag::Delete).max(count(ChangeTag::Insert))
}

/// The changes in words, beside those of tasks.
#[must_use]
pub fn changes(parts: &Parts, wanted: &Arrangement) -> Vec<String> {
    let mut all = Vec::new();
    let present = &parts.present;
    for cluster in wanted.clusters.iter().filter(|cluster| !present.clusters.contains(cluster)) {
        all.push(format!("cluster {}: CPUs {}, {}", cluster.name, words_of(cluster.cpus), cluster.policy.name()));
    }
    for table in &parts.tables {
        let [old, new] = [present, wanted].map(|one| &one.clusters[one.homes[table.unit]].name);
        if old != new {
            all.push(format!("task {}: cluster {new}", table.name));
        }
    }
    let grants = parts.locks.iter().zip(present.grants.iter().zip(&wanted.grants));
    all.extend(
        grants
            .filter(|(_, (old, new))| old != new)
            .map(|(lock, (_, new))| format!("engine {}: {}", lock.engines.join("+"), new.words())),
    );
    let limits = parts.pools.iter().zip(present.limits.iter().zip(&wanted.limits));
    all.extend(
        limits
            .filter(|(_, (old, new))| old != new)
            .map(|(pool, (_, new))| format!("pool {}: limit {}", pool.name, new.as_deref().unwrap_or_default())),
    );
    all
}
