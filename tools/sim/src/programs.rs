//! Programs of tasks, built for the host, where the simulator runs them.
//!
//! They are the programs that a board runs, from the same sources and with the same profile. Two things differ. Programs are not linked as one piece of
//! code, which halves the time of a build. And they are linked to fixed addresses, as on a board, so that a program which uses the address of one of its
//! statics does so in each run.
//!
//! # Invariants
//!
//! 1. A process builds each program once.
//! 2. Builds of several processes into one folder wait for each other: cargo locks the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::error::Error;

/// Flags of the compiler: fixed addresses.
const FLAGS: &str = "-Crelocation-model=static";
/// The differences from the profile of programs for a board.
const PROFILE: [&str; 3] =
    ["profile.release.lto=\"off\"", "profile.release.codegen-units=16", "profile.release.debug=\"line-tables-only\""];
/// The folder of these programs, in the folder of all that is built.
const FOLDER: &str = "fusee-hosted";
/// The variable by which users move that folder.
const TARGET_DIR: &str = "CARGO_TARGET_DIR";

/// Programs that this process has built, by the workspace for which it has, and by their names.
static BUILT: Mutex<BTreeMap<(PathBuf, String), PathBuf>> = Mutex::new(BTreeMap::new());
/// Workspaces that cargo has described to this process, by the folder inside.
static KNOWN: Mutex<BTreeMap<PathBuf, Workspace>> = Mutex::new(BTreeMap::new());

/// The folder of a workspace, and the package of programs that are built apart.
type Step<'a> = (&'a Path, Option<&'a str>);

/// A cargo workspace with programs of tasks.
#[derive(Clone, Debug)]
struct Workspace {
    root: PathBuf,
    target: PathBuf,
    /// The programs of each package.
    members: BTreeMap<String, BTreeSet<String>>,
}

/// The command that builds programs, written package and program, for the host.
///
/// The caller adds the folder of the workspace, and that of [`folder`] as `--target-dir`.
#[must_use]
pub fn command<'a>(host: &str, programs: impl Iterator<Item = (&'a str, &'a str)>) -> Command {
    let mut command = cargo();
    command.env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
    command.args(["build", "--release", "--target", host]);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    for (package, program) in programs {
        command.args(["--package", package, "--bin", program]);
    }
    command
}

/// The folder into which programs of the workspace in `root` are built for a project that builds into `target`.
///
/// `own` is the package of programs whose names other packages have, too. Programs of two workspaces never meet, even if `CARGO_TARGET_DIR` gives them one
/// place.
#[must_use]
pub fn folder(target: &Path, root: &Path, own: Option<&str>) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    let folder = target.join(FOLDER).join(format!("{:08x}", hasher.finish() as u32));
    own.map_or(folder.clone(), |package| folder.join("of").join(package))
}

/// The compiler's name of this host.
///
/// # Errors
/// The compiler does not start, or prints no host.
pub fn host() -> Result<String, Error> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let failed = |why: String| Error::Build { what: "`rustc -vV`".to_owned(), why };
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| failed("the compiler does not print its host".to_owned()))
}

/// Builds the programs of tasks for the project around `file`, a manifest, and returns the file of each. `wanted` has tasks and their programs.
///
/// # Errors
/// [`Error::NoProgram`] or [`Error::Build`].
pub fn build(file: &Path, wanted: &[(&str, &str)]) -> Result<BTreeMap<String, PathBuf>, Error> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let folder_of = |file: &Path| file.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
    let project = Workspace::around(&folder_of(file).unwrap_or_else(|| ".".into()))?;
    let fusee = Workspace::around(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))?;
    let is_own = project.root == fusee.root;
    let workspaces = if is_own { vec![&project] } else { vec![&project, &fusee] };
    // One thread builds, and others wait for it here.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut steps: BTreeMap<Step<'_>, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (task, binary) in wanted {
        if !built.contains_key(&(project.root.clone(), (*binary).to_owned())) {
            let (workspace, package, program) = find(file, task, binary, &workspaces)?;
            let namesakes = workspace.members.values().filter(|programs| programs.contains(program)).count();
            let own = (namesakes > 1).then_some(package);
            steps.entry((workspace.root.as_path(), own)).or_default().insert((package, program));
        }
    }
    let host = if steps.is_empty() { String::new() } else { host()? };
    for ((root, own), programs) in steps {
        let folder = folder(&project.target, root, own);
        let mut command = command(&host, programs.iter().copied());
        command.arg("--target-dir").arg(&folder).current_dir(root);
        printed(&mut command, || format!("could not build programs of {} for this host", root.display()))?;
        for (package, program) in programs {
            let place = folder.join(&host).join("release").join(program);
            built.insert((project.root.clone(), format!("{package}/{program}")), place);
        }
    }
    let place = |binary: &str| built.get(&(project.root.clone(), binary.to_owned())).cloned();
    Ok(wanted.iter().filter_map(|(_, binary)| Some(((*binary).to_owned(), place(binary)?))).collect())
}

/// The workspace that has the program `binary` of `task`, its package and its name.
fn find<'a, 'b>(
    file: &Path,
    task: &str,
    binary: &'b str,
    workspaces: &[&'a Workspace],
) -> Result<(&'a Workspace, &'b str, &'b str), Error> {
    let refused = |why| Error::NoProgram {
        file: file.to_owned(),
        task: task.to_owned(),
        binary: binary.to_owned(),
        why,
        choices: workspaces.iter().take(1).flat_map(|workspace| workspace.names()).collect(),
    };
    let (package, program) = binary.split_once('/').ok_or_else(|| refused("is not written package/program"))?;
    let has = |one: &&&Workspace| one.members.get(package).is_some_and(|programs| programs.contains(program));
    match workspaces.iter().filter(has).collect::<Vec<_>>()[..] {
        [workspace] => Ok((workspace, package, program)),
        [] => Err(refused("is in no workspace, neither in that of the manifest nor in Fusee's")),
        _ => Err(refused("is in two workspaces, in that of the manifest and in Fusee's")),
    }
}

impl Workspace {
    /// The workspace that `inside` is in.
    fn around(inside: &Path) -> Result<Workspace, Error> {
        let unreadable = |source| Error::Unreadable { file: inside.to_owned(), source };
        let inside = inside.canonicalize().map_err(unreadable)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workspace) = known.get(&inside) {
            return Ok(workspace.clone());
        }
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]).current_dir(&inside);
        // A relative path counts from where the user is.
        let target = std::env::var_os(TARGET_DIR).filter(|target| !target.is_empty());
        if let Some(target) = target.and_then(|target| std::path::absolute(target).ok()) {
            command.env(TARGET_DIR, target);
        }
        let what = || format!("cargo cannot read the workspace around {}", inside.display());
        let text = printed(&mut command, what)?;
        let read = || {
            let metadata: Value = serde_json::from_str(&text).ok()?;
            let path = |key: &str| metadata[key].as_str().map(PathBuf::from);
            Some(Workspace {
                root: path("workspace_root")?,
                target: path("target_directory")?,
                members: members(&metadata),
            })
        };
        let why = || "`cargo metadata` names neither a root nor a target folder".to_owned();
        let workspace = read().ok_or_else(|| Error::Build { what: what(), why: why() })?;
        known.insert(inside, workspace.clone());
        Ok(workspace)
    }

    /// All its programs, written package/program.
    fn names(&self) -> impl Iterator<Item = String> {
        let names = |(package, programs): (&String, &BTreeSet<String>)| {
            programs.iter().map(|program| format!("{package}/{program}")).collect::<Vec<_>>()
        };
        self.members.iter().flat_map(names)
    }
}

/// The programs of each package that cargo describes.
fn members(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let programs = |package: &Value| -> BTreeSet<String> {
        let targets = list(&package["targets"]);
        let is_program = |target: &&Value| list(&target["kind"]).iter().any(|kind| kind == "bin");
        targets.iter().filter(is_program).map(|target| word(&target["name"])).collect()
    };
    list(&metadata["packages"]).iter().map(|package| (word(&package["name"]), programs(package))).collect()
}

/// The cargo that runs this process, or the one in the path.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The output of a command that succeeds; `what` names its work if it fails.
fn printed(command: &mut Command, what: impl Fn() -> String) -> Result<String, Error> {
    let output = command.output().map_err(|error| Error::Build { what: what(), why: error.to_string() })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Error::Build { what: what(), why: text(&output.stderr) }),
    }
}
