//! Each call of cargo resolves to the same features, for any package: otherwise crates are compiled anew for the tests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use fusee_host::meter;
use fusee_host::project::cargo;

use crate::context::Context;

/// The name of the check.
pub const CHECK: &str = "cargo resolves to the same features, whatever it is asked for";

/// Packages with programs that are built by themselves.
const ALONE: [&str; 3] = ["fusee-tool", "demo-judge", "fusee-research"];

/// The features of each crate in each of its builds.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Compares the features of programs that are built alone with those of all tests together: the crates that differ.
///
/// # Errors
/// Cargo cannot read the workspace.
pub fn check(context: &Context) -> Result<Vec<String>> {
    let defaults = context.fusee().defaults.iter().map(String::as_str);
    let together = features(context, defaults.chain(["systems"]), "normal,build,dev")?;
    let mut problems = Vec::new();
    for package in ALONE {
        let alone = features(context, std::iter::once(package), "normal,build")?;
        ensure!(alone.len() > 10, "`cargo tree` lists {} crates of {package}", alone.len());
        problems.extend(different(package, &alone, &together));
    }
    Ok(problems)
}

fn different(package: &str, alone: &Features, together: &Features) -> Vec<String> {
    let none = BTreeSet::new();
    let differs = alone.iter().filter(|(name, features)| !features.is_subset(together.get(*name).unwrap_or(&none)));
    let words = |(name, features): (&String, &BTreeSet<String>)| {
        let all = together.get(name).unwrap_or(&none);
        format!(
            "{name}: for {package} alone {features:?}, for all tests {all:?}; add what lacks to tools/host/Cargo.toml"
        )
    };
    differs.map(words).collect()
}

fn features<'a>(context: &Context, packages: impl Iterator<Item = &'a str>, edges: &str) -> Result<Features> {
    let mut command = cargo();
    command.args(["tree", "--offline", "--prefix", "none", "--format", "{p} [{f}]", "--edges", edges]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = meter::output(command.current_dir(context.root())).context("cargo does not start")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads lines such as `syn v2.0.1 (proc-macro) [full,parsing] (*)`.
fn parse(text: &str) -> Features {
    let mut all = Features::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let features = line.rsplit_once('[').and_then(|(_, rest)| rest.split_once(']'));
        if let (Some(name), Some(version), Some((features, _))) = (words.next(), words.next(), features) {
            all.entry(format!("{name} {version}")).or_default().insert(features.to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_with_other_features_is_named() {
        let alone = parse("syn v2.0.1 (proc-macro) [full] (*)\nobject v0.4.0 [read]\n");
        let together = parse("syn v2.0.1 (proc-macro) [full]\nsyn v2.0.1 [fold,full]\nobject v0.4.0 [read,write]\n");
        let found = different("tool", &alone, &together);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("object v0.4.0: for tool alone {\"read\"}, for all tests {\"read,write\"}"));
    }
}
