//! The published crates: each can be packaged and compiled from its package, and depends on published crates only.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fusee_host::meter;
use fusee_host::project::{Project, cargo};
use serde_json::Value;

/// The name of the check.
pub const CHECK: &str = "published crates can be packaged";

/// Necessary files of the package of the crate of tasks: the linker script, and the programs on its front page.
const OF_TASKS: [&str; 5] =
    ["task.ld", "examples/pulse.rs", "examples/lamp.rs", "examples/filter.rs", "examples/sensor.rs"];
/// The crate of tasks.
const TASKS: &str = "fusee";

/// Packages all crates that are published, and compiles each from its package; compares the page of the crate of tasks with its features.
///
/// # Errors
/// Cargo does not start, or cannot read the workspace.
pub fn check(fusee: &Project) -> Result<Vec<String>> {
    let metadata = output(cargo().args(["metadata", "--no-deps", "--offline", "--format-version", "1"]), &fusee.root)?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata` is not JSON")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let public: BTreeSet<&str> =
        packages.iter().filter(|one| is_public(one)).filter_map(|one| one["name"].as_str()).collect();
    ensure!(public.contains(TASKS), "the crate `{TASKS}` is not published");
    let mut problems: Vec<String> =
        packages.iter().filter(|one| is_public(one)).flat_map(|one| lacks(one, &public)).collect();
    // The crates that the packages need, where no other check has fetched them yet.
    output(cargo().args(["fetch", "--locked", "--quiet"]), &fusee.root)?;
    let mut command = cargo();
    // Changes without a commit are packaged, too.
    command.args(["package", "--quiet", "--allow-dirty", "--offline"]);
    // The packages are compiled from each other, and the results are removed.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    for name in &public {
        command.args(["--package", name]);
    }
    let folder = fusee.target.join("packages");
    command.arg("--target-dir").arg(&folder);
    let packaged = meter::output(command.current_dir(&fusee.root)).context("cargo does not start")?;
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    if !packaged.status.success() {
        problems.push(format!("`cargo package` fails: {}", String::from_utf8_lossy(&packaged.stderr)));
    }
    let listed =
        output(cargo().args(["package", "--list", "--allow-dirty", "--offline", "--package", TASKS]), &fusee.root)?;
    let is_missing = |file: &&&str| !listed.lines().any(|line| line == **file);
    problems.extend(OF_TASKS.iter().filter(is_missing).map(|file| format!("the package of `{TASKS}` lacks {file}")));
    let page = std::fs::read_to_string(fusee.root.join("userland/fusee/src/lib.rs")).context("the front page")?;
    let of_tasks = packages.iter().find(|one| one["name"] == TASKS).context("no crate of tasks")?;
    problems.extend(undescribed(&page, &of_tasks["features"]));
    Ok(problems)
}

/// Whether a package may go to a registry.
fn is_public(package: &Value) -> bool {
    package["publish"].as_array().is_none_or(|registries| !registries.is_empty())
}

/// The missing parts of a package's description of itself, and its dependencies that are not published.
fn lacks(package: &Value, public: &BTreeSet<&str>) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let is_empty = |key: &&str| package[*key].as_str().is_none_or(str::is_empty);
    let keys = ["description", "license", "readme", "rust_version"];
    let mut problems: Vec<String> =
        keys.iter().filter(|key| is_empty(key)).map(|key| format!("`{name}` has no {key}")).collect();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let ours = dependencies.filter(|one| one["path"].is_string() && one["kind"] != "dev");
    for dependency in ours {
        let other = dependency["name"].as_str().unwrap_or_default();
        if !public.contains(other) {
            problems.push(format!("`{name}` is published and depends on `{other}`, which is not"));
        }
        if dependency["req"] == "*" {
            problems.push(format!("`{name}` depends on `{other}` without a version"));
        }
    }
    problems
}

/// Features without a row on the front page.
fn undescribed(page: &str, features: &Value) -> Vec<String> {
    let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("//! | ")).collect();
    let has_row = |feature: &str| {
        rows.iter().any(|row| row.split(" | ").next().is_some_and(|cell| cell.contains(&format!("`{feature}`"))))
    };
    let names = features.as_object().into_iter().flat_map(|all| all.keys());
    names
        .filter(|name| !has_row(name))
        .map(|name| format!("the front page of `{TASKS}` has no row for the feature `{name}`"))
        .collect()
}

/// The output of a command that must succeed.
fn output(command: &mut Command, folder: &Path) -> Result<String> {
    let output = meter::output(command.current_dir(folder)).context("cargo does not start")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_private_dependency_and_a_missing_row_are_named() {
        let dependency =
            |name: &str, kind: Value, req: &str| json!({ "name": name, "path": "/x", "kind": kind, "req": req });
        let dependencies = [
            dependency("hidden", Value::Null, "^0.1.0"),
            dependency("shown", Value::Null, "*"),
            dependency("hidden", json!("dev"), "*"),
        ];
        let package = json!({
            "name": "one", "description": "d", "license": "l", "rust_version": "1.95", "readme": Value::Null,
            "publish": Value::Null, "dependencies": dependencies
        });
        assert!(is_public(&package) && !is_public(&json!({ "publish": [] })));
        assert_eq!(
            lacks(&package, &BTreeSet::from(["one", "shown"])),
            [
                "`one` has no readme",
                "`one` is published and depends on `hidden`, which is not",
                "`one` depends on `shown` without a version"
            ]
        );
        let page = "//! | `alloc` | a heap |\n//! | `defmt`, `log` | `gpu` |\n";
        let missing = undescribed(page, &json!({ "alloc": [], "log": [], "gpu": [] }));
        assert_eq!(missing, ["the front page of `fusee` has no row for the feature `gpu`"]);
    }
}
