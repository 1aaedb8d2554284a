//! Which project a command is about: this repository, or one outside that uses it.
//!
//! It is the workspace around the current folder, as cargo finds it; without one it is this repository. A project has a default
//! manifest, programs that manifests may name, and a folder for all that is built, which `CARGO_TARGET_DIR` may move.
//!
//! Not here: how a new project comes about (`new`), how programs are built (`build`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use fusee_manifest::Manifest;
use serde_json::Value;

/// The manifest of a project outside this repository, unless another is named.
pub const MANIFEST: &str = "system.toml";
/// Where cargo is told to build, by its users.
const TARGET_DIR: &str = "CARGO_TARGET_DIR";

/// Names the folder of kept files, in place of that in the target folder: so that commands run side by side.
pub const KEPT_DIR: &str = "FUSEE_KEPT";

/// The repository's folder.
///
/// # Errors
/// This program was not built in the repository, or that has moved since.
pub fn root() -> Result<PathBuf> {
    // Cargo says where the package is that it runs: somewhere below.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let places = [own, env!("CARGO_MANIFEST_DIR").into()];
    let is_root = |folder: &&Path| folder.join("tools/host/src/project.rs").exists();
    let root = places.iter().find_map(|place| place.ancestors().find(is_root));
    Ok(root.context("this program is not of a repository of Fusee")?.to_owned())
}

/// A call of the cargo that runs this program, or of the one in the path.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds the program of a package of this repository for the host, if it is not built; where the program is.
///
/// # Errors
/// Cargo does not start or cannot build the program.
pub fn program(package: &str) -> Result<PathBuf> {
    program_in(&root()?, package)
}

/// As [`program`], of the workspace in `folder`.
///
/// # Errors
/// Cargo does not start or cannot build the program.
pub fn program_in(folder: &Path, package: &str) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--message-format", "json-render-diagnostics", "--package", package]);
    let output = command.current_dir(folder).stderr(Stdio::inherit()).output().context("cargo does not start")?;
    ensure!(output.status.success(), "could not build `{package}`");
    let found = built(&String::from_utf8_lossy(&output.stdout), |message| message["target"]["name"] == package);
    found.with_context(|| format!("`{package}` has no program of that name"))
}

/// The first program that cargo has built, by its messages in JSON, and that is wanted.
pub fn built(messages: &str, is_wanted: impl Fn(&Value) -> bool) -> Option<PathBuf> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find_map(|message| message["executable"].as_str().filter(|_| is_wanted(&message)).map(PathBuf::from))
}

/// The programs of each package of a workspace.
pub type Members = BTreeMap<String, BTreeSet<String>>;

/// One cargo workspace.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its folder.
    pub root: PathBuf,
    /// Where all goes that is built or kept: `target`, if nothing else is asked for.
    pub target: PathBuf,
    /// Its packages and their programs.
    pub members: Members,
    /// The folder of each package.
    pub folders: BTreeMap<String, PathBuf>,
    /// The manifest that a command is about if it names none, from the folder of the project: `system` in the table
    /// `[workspace.metadata.fusee]` of its `Cargo.toml`, or else `system.toml`.
    pub system: PathBuf,
    /// Packages that cargo builds and tests unless told otherwise.
    pub defaults: Vec<String>,
    /// Where files are kept for later commands.
    pub kept_in: PathBuf,
}

impl Project {
    /// The project around the current folder.
    ///
    /// # Errors
    /// Cargo cannot read its manifests, and has said why.
    pub fn here() -> Result<Project> {
        let folder = std::env::current_dir().context("the current folder")?;
        match folder.ancestors().any(|folder| folder.join("Cargo.toml").exists()) {
            true => Project::around(&folder),
            false => Project::fusee(),
        }
    }

    /// This repository.
    ///
    /// # Errors
    /// Cargo cannot read its manifests, and has said why.
    pub fn fusee() -> Result<Project> {
        Project::around(&root()?)
    }

    /// The workspace that `folder` is in.
    pub fn around(folder: &Path) -> Result<Project> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]).current_dir(folder);
        // A relative path counts from where the user is.
        if let Some(target) = std::env::var_os(TARGET_DIR).filter(|target| !target.is_empty()) {
            command.env(TARGET_DIR, std::path::absolute(target)?);
        }
        let output = command.stderr(Stdio::inherit()).output().context("cargo does not start")?;
        ensure!(output.status.success(), "cargo cannot read the workspace around {}", folder.display());
        let metadata: Value = serde_json::from_slice(&output.stdout).context("`cargo metadata` is not JSON")?;
        Project::of(&metadata)
    }

    /// The workspace of which cargo prints this metadata.
    ///
    /// # Errors
    /// The metadata have no root or no target folder.
    pub fn of(metadata: &Value) -> Result<Project> {
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from).with_context(|| format!("no `{key}`"));
        let (root, target) = (path("workspace_root")?, path("target_directory")?);
        let system = metadata["metadata"]["fusee"]["system"].as_str().unwrap_or(MANIFEST).into();
        let (members, folders, defaults) = (members_in(metadata), folders_in(metadata), defaults_in(metadata));
        let kept_in = std::env::var_os(KEPT_DIR).map_or_else(|| target.join("fusee"), PathBuf::from);
        Ok(Project { root, target, members, folders, system, defaults, kept_in })
    }

    /// Whether this is the same workspace.
    pub fn is(&self, other: &Project) -> bool {
        self.root == other.root
    }

    /// The manifest that a command is about: the `named` one, or that of the project.
    ///
    /// # Errors
    /// None is named, and the project has none.
    pub fn manifest(&self, named: Option<&Path>) -> Result<PathBuf> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        let own = self.root.join(&self.system);
        ensure!(own.exists(), "{} has no {}: name a manifest", self.root.display(), self.system.display());
        Ok(own)
    }

    /// The programs that a manifest names by their paths, which count from its folder.
    pub fn by_path(&self, manifest: &Manifest) -> Vec<(String, PathBuf)> {
        let file = self.root.join(&manifest.file);
        let folder = file.parent().unwrap_or(&self.root);
        // Without the `.` that the path may begin with.
        let place = |path: &Path| folder.join(path).components().collect();
        let tasks = manifest.system.tasks.iter();
        tasks.filter_map(|task| Some((task.binary.clone(), place(task.elf()?)))).collect()
    }

    /// A file that is kept for later commands, in a folder that exists.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn kept(&self, name: &str) -> Result<PathBuf> {
        let folder = &self.kept_in;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(folder.join(name))
    }
}

fn folders_in(metadata: &Value) -> BTreeMap<String, PathBuf> {
    let of = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some((package["name"].as_str()?.to_owned(), manifest.parent()?.to_owned()))
    };
    metadata["packages"].as_array().into_iter().flatten().filter_map(of).collect()
}

fn defaults_in(metadata: &Value) -> Vec<String> {
    let ids: Vec<&str> =
        metadata["workspace_default_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_default = |package: &&Value| package["id"].as_str().is_some_and(|id| ids.contains(&id));
    let packages = metadata["packages"].as_array().into_iter().flatten().filter(is_default);
    packages.filter_map(|package| package["name"].as_str().map(str::to_owned)).collect()
}

fn members_in(metadata: &Value) -> Members {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let programs = |package: &Value| -> BTreeSet<String> {
        let targets = list(&package["targets"]);
        let is_program = |target: &&Value| list(&target["kind"]).iter().any(|kind| kind == "bin");
        targets.iter().filter(is_program).map(|target| word(&target["name"])).collect()
    };
    list(&metadata["packages"]).iter().map(|package| (word(&package["name"]), programs(package))).collect()
}

#[cfg(test)]
#[allow(missing_docs)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A project of these packages with these programs.
    pub fn project(root: &str, packages: &[(&str, &[&str])]) -> Project {
        let package = |(name, programs): &(&str, &[&str])| {
            let target = |program: &&str| json!({ "name": program, "kind": ["bin"] });
            let mut targets: Vec<Value> = programs.iter().map(target).collect();
            targets.push(json!({ "name": name, "kind": ["lib"] }));
            json!({ "name": name, "targets": targets })
        };
        let packages: Vec<Value> = packages.iter().map(package).collect();
        let target = format!("{root}/target");
        let metadata = json!({ "packages": packages, "workspace_root": root, "target_directory": target });
        Project::of(&metadata).unwrap()
    }

    #[test]
    fn programs_are_binary_targets() {
        let found = project("/p", &[("demo", &["camera", "hog"]), ("abi", &[])]);
        assert_eq!(found.members["demo"], BTreeSet::from(["camera".to_owned(), "hog".to_owned()]));
        assert!(found.members["abi"].is_empty());
        assert_eq!(found.target, Path::new("/p/target"));
    }

    #[test]
    fn a_project_without_a_manifest_asks_for_one() {
        let error = project("/nowhere", &[]).manifest(None).unwrap_err().to_string();
        assert_eq!(error, "/nowhere has no system.toml: name a manifest");
        assert_eq!(project("/nowhere", &[]).manifest(Some(Path::new("a.toml"))).unwrap(), Path::new("a.toml"));
    }
}
