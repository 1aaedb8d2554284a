//! The published schemas: of the output with `--json`, and of manifests.

use std::path::Path;

use anyhow::{Context, Result};
use fusee_advise::command::Advice;
use fusee_host::answers::{Analysis, BenchAnswer, RunAnswer};
use schemars::{Schema, schema_for};

use crate::manifest_schema;

/// Where they are published.
const FOLDER: &str = "docs/schema";
/// The schema of manifests.
const MANIFEST: &str = "manifest.json";

/// All schemas of output, by their file names.
fn schemas() -> [(&'static str, Schema); 4] {
    [
        ("run.json", schema_for!(RunAnswer)),
        ("analyze.json", schema_for!(Vec<Analysis>)),
        ("advise.json", schema_for!(Advice)),
        ("bench.json", schema_for!(BenchAnswer)),
    ]
}

/// The published schemas that are not those of the types; written anew if `bless`.
pub fn check_schemas(root: &Path, bless: bool) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let manifest = Schema::try_from(manifest_schema::schema(root)?).context("a schema is an object")?;
    for (name, schema) in schemas().into_iter().chain([(MANIFEST, manifest)]) {
        let path = root.join(FOLDER).join(name);
        let text = serde_json::to_string_pretty(&schema).context("JSON")? + "\n";
        if bless {
            fusee_host::system::write(&path, text.as_bytes())?;
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            problems.push(format!("{FOLDER}/{name} is not the schema of the types; --bless writes it"));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        let root = fusee_host::system::root().unwrap();
        assert_eq!(check_schemas(&root, false).unwrap(), Vec::<String>::new());
    }
}
