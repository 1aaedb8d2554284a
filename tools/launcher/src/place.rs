//! The repository that a project depends on, by the words of `cargo metadata`.
//!
//! Every crate of Fusee in a project's dependencies comes from a folder, or from a commit that cargo has fetched. That folder has kernel, drivers
//! and tool, too. A project that takes crates from two repositories is refused: a task would be built for one kernel and run on the other.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The file by which a folder is known as a repository of Fusee.
const MARK: &str = "tools/fusee/Cargo.toml";
/// The crate of tasks.
const CRATE: &str = "fusee";

/// The reason why no repository is found.
#[derive(Debug)]
pub enum Lost {
    /// The current folder cannot be read.
    Folder(std::io::Error),
    /// The current folder is in no project.
    Outside {
        /// Whether the command is `new`, which needs no project.
        is_new: bool,
    },
    /// The folder after `--path` is no repository.
    NoRepository(PathBuf),
    /// Cargo cannot read the project.
    Cargo {
        /// The folder of the command.
        folder: PathBuf,
        /// Its words.
        why: String,
    },
    /// No package of the project depends on the crate.
    Independent(PathBuf),
    /// The crate comes from a registry, which has neither kernel nor tool.
    Registry {
        /// The version of the crate.
        version: String,
    },
    /// Crates come from several repositories: the crates of each.
    Several(BTreeMap<PathBuf, Vec<String>>),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NEW: &str = "`fusee new FOLDER --git URL` makes a project with Fusee from a git repository, and `fusee new FOLDER --path CLONE` with \
                           Fusee from a folder of this machine";
        match self {
            Self::Folder(error) => write!(f, "the current folder: {error}"),
            Self::Outside { is_new: true } => write!(f, "a new project needs the place of Fusee: {NEW}"),
            Self::Outside { is_new: false } => {
                write!(f, "`fusee` runs the tool of the project around it, and this folder is in no project: {NEW}")
            }
            Self::NoRepository(path) => write!(f, "{} is no repository of Fusee: it has no {MARK}", path.display()),
            Self::Cargo { folder, why } => {
                write!(f, "cargo cannot read the project around {}: {}", folder.display(), why.trim_end())
            }
            Self::Independent(root) => write!(
                f,
                "no package of {} depends on the crate `{CRATE}`, so the place of Fusee is unknown: add `{CRATE} = {{ git = \"URL\" }}` or \
                 `{CRATE} = {{ path = \"CLONE/userland/fusee\" }}` to its dependencies",
                root.join("Cargo.toml").display()
            ),
            Self::Registry { version } => write!(
                f,
                "`{CRATE}` {version} comes from a registry, which has no kernel and no tool: depend on it with `git` or `path`"
            ),
            Self::Several(roots) => {
                let one = |(root, crates): (&PathBuf, &Vec<String>)| {
                    format!("`{}` from {} ({})", crates.join("`, `"), root.display(), version(root))
                };
                let all: Vec<String> = roots.iter().map(one).collect();
                write!(
                    f,
                    "crates of one system come from several places: {}; name one place for all",
                    all.join(", and ")
                )
            }
        }
    }
}

/// The place that a command line asks for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Asked<'a> {
    /// Whether the command makes a project.
    is_new: bool,
    path: Option<&'a str>,
    git: Option<&'a str>,
    rev: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// Reads the options of `new`, which other commands do not have.
    pub fn of(words: &[&'a str]) -> Asked<'a> {
        if words.iter().find(|word| !word.starts_with('-')) != Some(&"new") {
            return Asked::default();
        }
        let value = |name: &str| {
            words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(name)? {
                "" => words.get(at + 1).copied(),
                rest => rest.strip_prefix('='),
            })
        };
        Asked { is_new: true, path: value("--path"), git: value("--git"), rev: value("--rev") }
    }
}

/// A call of the cargo that runs this program, or of the one in the path.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The repository for a command in the folder `here`.
///
/// # Errors
/// There is none, or more than one, or cargo cannot read the project.
pub fn find(here: &Path, asked: &Asked<'_>) -> Result<PathBuf, Lost> {
    if let Some(path) = asked.path {
        let path = here.join(path);
        return match path.canonicalize() {
            Ok(root) if root.join(MARK).exists() => Ok(root),
            _ => Err(Lost::NoRepository(path)),
        };
    }
    if let Some(url) = asked.git {
        return fetched(url, asked.rev);
    }
    if !here.ancestors().any(|folder| folder.join("Cargo.toml").exists()) {
        return Err(Lost::Outside { is_new: asked.is_new });
    }
    root_in(&metadata(here)?)
}

/// The folder in which cargo keeps a commit of the repository at `url`; it is fetched if it is not there.
fn fetched(url: &str, rev: Option<&str>) -> Result<PathBuf, Lost> {
    let folder = std::env::temp_dir().join(format!("fusee-new-{}", std::process::id()));
    let quoted = |text: &str| Value::from(text).to_string();
    let rev = rev.map_or_else(String::new, |rev| format!(", rev = {}", quoted(rev)));
    let text = format!(
        "[workspace]\n[package]\nname = \"place\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\n\
         {CRATE} = {{ git = {}{rev} }}\n",
        quoted(url)
    );
    let write = || {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("lib.rs"), "")?;
        std::fs::write(folder.join("Cargo.toml"), text)
    };
    let found = write().map_err(Lost::Folder).and_then(|()| root_in(&metadata(&folder)?));
    // A few files in the folder of temporary files.
    let _ = std::fs::remove_dir_all(folder);
    found
}

/// The workspace around `folder`, with its dependencies; cargo reaches for the network only if it has to.
fn metadata(folder: &Path) -> Result<Value, Lost> {
    let ask = |options: &[&str]| {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1"]).args(options).current_dir(folder);
        command.stderr(Stdio::piped()).output()
    };
    let lost = |why: String| Lost::Cargo { folder: folder.to_owned(), why };
    let offline = ask(&["--offline"]).map_err(|error| lost(error.to_string()))?;
    let output = match offline.status.success() {
        true => offline,
        false => ask(&[]).map_err(|error| lost(error.to_string()))?,
    };
    if !output.status.success() {
        return Err(lost(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| lost(error.to_string()))
}

/// The one repository from which the packages of a workspace take crates of Fusee.
///
/// # Errors
/// There is none, or more than one.
fn root_in(metadata: &Value) -> Result<PathBuf, Lost> {
    let around = PathBuf::from(metadata["workspace_root"].as_str().unwrap_or_default());
    let members = metadata["workspace_members"].as_array().map_or(&[][..], Vec::as_slice);
    let is_fusee = around.join(MARK).exists();
    let mut roots: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let mut registry = None;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        // A project's own package may be called so, and may stand anywhere.
        let is_own = !is_fusee && members.contains(&package["id"]);
        if is_own || !name.strip_prefix(CRATE).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            continue;
        }
        let file = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        match file.ancestors().find(|folder| folder.join(MARK).exists()) {
            Some(root) => roots.entry(root.to_owned()).or_default().push(name.to_owned()),
            None if name == CRATE => registry = Some(package["version"].as_str().unwrap_or_default().to_owned()),
            None => {}
        }
    }
    match (roots.len(), registry) {
        (_, Some(version)) => Err(Lost::Registry { version }),
        (0, None) => Err(Lost::Independent(around)),
        (1, None) => Ok(roots.into_keys().next().unwrap_or(around)),
        (_, None) => Err(Lost::Several(roots)),
    }
}

/// The commit of a repository, or the words that there is none.
fn version(root: &Path) -> String {
    let output = Command::new("git").arg("-C").arg(root).args(["rev-parse", "--short", "HEAD"]).output();
    match output.ok().filter(|output| output.status.success()) {
        Some(output) => format!("commit {}", String::from_utf8_lossy(&output.stdout).trim()),
        None => "no commit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_an_option_of_new_alone() {
        let git = Asked { is_new: true, git: Some("u"), rev: Some("r"), path: None };
        assert_eq!(Asked::of(&["new", "x", "--git", "u", "--rev=r"]), git);
        assert_eq!(Asked::of(&["--no-install", "new", "--path=p", "x"]).path, Some("p"));
        assert_eq!(Asked::of(&["run", "--path", "p"]), Asked::default());
        assert_eq!(Asked::of(&["new", "--path"]).path, None);
    }

    #[test]
    fn a_crate_of_a_registry_has_no_tool() {
        let package = serde_json::json!({ "id": "f", "name": "fusee", "version": "0.1.0", "manifest_path": "/registry/fusee-0.1.0/Cargo.toml" });
        let other =
            serde_json::json!({ "id": "g", "name": "fuseelage", "manifest_path": "/registry/fuseelage/Cargo.toml" });
        let metadata = |packages: &[&Value]| serde_json::json!({ "workspace_root": "/own", "workspace_members": [], "packages": packages });
        let lost = root_in(&metadata(&[&package, &other])).unwrap_err().to_string();
        assert!(lost.starts_with("`fusee` 0.1.0 comes from a registry"), "{lost}");
        let lost = root_in(&metadata(&[&other])).unwrap_err().to_string();
        assert!(lost.starts_with("no package of /own/Cargo.toml depends on the crate `fusee`"), "{lost}");
    }
}
