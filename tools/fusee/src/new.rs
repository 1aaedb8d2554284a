//! `cargo xtask new`: makes a project outside this repository.
//!
//! What it makes is a copy of `tools/fusee/template`, which is such a project itself: it can be read, built and run where it
//! is. Only its name, and the places of what it uses of this repository, are replaced. Skeletons (`skeleton`) are added to the copy.
//!
//! Not here: how a project's programs are found and built (`project`, `build`).

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use fusee_host::project::{MANIFEST, Project};
use fusee_host::words;

use crate::skeleton::{self, Skeleton};

/// The files of a project, as they are in the template's folder.
const TEMPLATE: [(&str, &str); 9] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml")),
    (".cargo/config.toml", include_str!("../template/.cargo/config.toml")),
    (".gitignore", include_str!("../template/.gitignore")),
    ("README.md", include_str!("../template/README.md")),
    (MANIFEST, include_str!("../template/system.toml")),
    (".github/workflows/test.yml", include_str!("../template/.github/workflows/test.yml")),
    (".gitlab-ci.yml", include_str!("../template/.gitlab-ci.yml")),
    ("src/bin/beat.rs", include_str!("../template/src/bin/beat.rs")),
    ("tests/system.rs", include_str!("../template/tests/system.rs")),
];
/// The template's own name.
pub const NAME: &str = "my-system";
/// The repository, as the template's pages and its scripts for servers name it,
const REPOSITORY: &str = "(../../..)";
const PLACE: &str = "'../../..'";
/// the line by which editors find the schema of manifests,
const SCHEMA: &str = "#:schema ../../../docs/schema/manifest.json\n";
/// and the source of the command `fusee`.
const LAUNCHER: &str = "--path '../../../tools/launcher'";
/// The address from which a server fetches the repository, and the commit.
const URL: &str = "FUSEE_URL: \"\"";
const REV: &str = "FUSEE_REV: \"\"";
/// Parts of the lines by which a server fetches the repository. Cargo does it for a project that depends on a commit.
const FETCHED: [&str; 4] = ["# Cargo.toml names this place", "git clone", "# and its commit", "FUSEE_REV"];
/// The files with these lines.
const SERVERS: [&str; 2] = [".github/workflows/test.yml", ".gitlab-ci.yml"];
/// The folder of the crate of tasks in the repository.
const CRATE: &str = "userland/fusee";
/// Bytes of a name, at most.
const NAME_BYTES: usize = 64;

/// Where the new project goes, and what it depends on.
#[derive(Args)]
pub struct NewArguments {
    /// The project's folder, which must be empty or not be there yet.
    folder: PathBuf,
    /// The project's name; unless told otherwise that of its folder.
    #[arg(long)]
    name: Option<String>,
    /// Take Fusee from this git repository, in place of the folder that this command is of.
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    git: Option<String>,
    /// Which commit, tag or branch of that.
    #[arg(long, requires = "git")]
    rev: Option<String>,
    /// Take Fusee from this folder, in place of the one that this command is of. The project has the way to it from its own folder.
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
    /// Add tasks that work, with a test: a server and its client, a driver, a GPU kernel and its client, or a graph. May be given several times.
    #[arg(long, value_name = "SKELETON", value_delimiter = ',')]
    with: Vec<Skeleton>,
}

/// Where others find the repository.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Origin {
    /// Its address; empty if it has none that others reach.
    url: String,
    /// The commit.
    rev: String,
}

impl Origin {
    /// That of the repository at `root`, as far as git knows it.
    fn of(root: &Path) -> Origin {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").arg("-C").arg(root).args(arguments).stderr(Stdio::null()).output();
            let output = output.ok().filter(|output| output.status.success())?;
            Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
        };
        // A path of this machine is nothing to a server.
        let url = git(&["remote", "get-url", "origin"]).filter(|url| url.contains("://") || url.contains('@'));
        Origin { url: url.unwrap_or_default(), rev: git(&["rev-parse", "HEAD"]).unwrap_or_default() }
    }
}

/// Why no project is made.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Refused {
    /// The name cannot be that of a package.
    Name { name: String, why: BadName },
    /// Something is in the folder.
    NotEmpty(PathBuf),
    /// There is a file in the folder's place.
    NotAFolder(PathBuf),
    /// The way to the repository is not UTF-8.
    Repository(PathBuf),
    /// The folder of `--path` is no repository of Fusee.
    NoRepository(PathBuf),
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BadName {
    Empty,
    Long,
    First(char),
    Character(char),
    Taken,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, why } => {
                write!(f, "`{name}` cannot be a project's name: {why}; name another with --name")
            }
            Self::NotEmpty(path) => write!(f, "{} is not empty, and nothing is replaced", path.display()),
            Self::Repository(path) => {
                write!(f, "Fusee is in {}: a file of cargo has paths in UTF-8 only", path.display())
            }
            Self::NoRepository(path) => {
                write!(f, "{} is no repository of Fusee: it has no {CRATE}/Cargo.toml", path.display())
            }
            Self::NotAFolder(path) => write!(f, "{} is a file; a project is a folder", path.display()),
        }
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it is empty"),
            Self::Long => write!(f, "it is longer than {NAME_BYTES} bytes"),
            Self::First(first) => write!(f, "it begins with `{first}`, and names begin with a letter"),
            Self::Character(other) => {
                write!(f, "it has a `{other}`, and names have letters, digits, `-` and `_` of ASCII")
            }
            Self::Taken => write!(f, "Fusee has a package of that name, and manifests could not tell the two apart"),
        }
    }
}

impl std::error::Error for Refused {}

/// Makes a project; says what it made.
pub fn new(arguments: &NewArguments) -> Result<bool> {
    let fusee = Project::fusee()?;
    let folder = std::path::absolute(&arguments.folder)?;
    let of_folder = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = arguments.name.clone().unwrap_or_else(of_folder);
    if let Some(why) = bad_name(&name, &fusee) {
        bail!(Refused::Name { name, why });
    }
    ensure_empty(&folder)?;
    let root = match &arguments.path {
        Some(path) if !path.join(CRATE).join("Cargo.toml").exists() => bail!(Refused::NoRepository(path.clone())),
        Some(path) => path.canonicalize()?,
        None => fusee.root.canonicalize()?,
    };
    // Without links in it, as `..` is read.
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let way = way(&folder.canonicalize()?, &root);
    let source = Source { git: arguments.git.as_deref(), rev: arguments.rev.as_deref(), way: &way };
    let files = files(&name, source, Origin::of(&root), &Skeleton::each_once(&arguments.with))?;
    for (file, text) in &files {
        let path = folder.join(file);
        let parent = path.parent().context("a file in a folder")?;
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    words::say(&format!("made project `{name}` in {}:", folder.canonicalize()?.display()));
    files.iter().for_each(|(file, _)| words::say(&format!("  {file}")));
    if !is_installed() {
        let launcher = root.join("tools/launcher");
        let launcher = shell(&launcher.display().to_string());
        words::say(&format!(
            "install the command `fusee`, once on a machine: cargo install --locked --path {launcher}"
        ));
    }
    words::say(&format!("run it: cd {} && fusee run", shell(&arguments.folder.display().to_string())));
    Ok(true)
}

/// Whether a shell finds the command `fusee`.
fn is_installed() -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join("fusee").is_file())
}

/// Returns the text as one word of a shell.
pub fn shell(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:@~".contains(letter);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The way from one folder to another; both are absolute and have no links in them.
fn way(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(common)).collect();
    if way.as_os_str().is_empty() { ".".into() } else { way }
}

fn bad_name(name: &str, fusee: &Project) -> Option<BadName> {
    let first = name.chars().next();
    let other = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"-_".contains(*c));
    match (first, other) {
        (None, _) => Some(BadName::Empty),
        (Some(first), _) if !first.is_ascii_alphabetic() => Some(BadName::First(first)),
        (_, Some(other)) => Some(BadName::Character(other)),
        _ if name.len() > NAME_BYTES => Some(BadName::Long),
        _ => fusee.members.contains_key(name).then_some(BadName::Taken),
    }
}

fn ensure_empty(folder: &Path) -> Result<()> {
    if folder.exists() && !folder.is_dir() {
        bail!(Refused::NotAFolder(folder.to_owned()));
    }
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            Some(_) => bail!(Refused::NotEmpty(folder.to_owned())),
            None => Ok(()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).context(folder.display().to_string()),
    }
}

/// The origin of the crates that a project depends on.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The git repository to take them from, in the place of the folder,
    git: Option<&'a str>,
    /// and which commit of it.
    rev: Option<&'a str>,
    /// The way from the project to the folder of this repository.
    way: &'a Path,
}

impl Source<'_> {
    /// The way to the repository, as files of cargo name it.
    fn place(&self) -> Result<&str> {
        Ok(self.way.to_str().ok_or_else(|| Refused::Repository(self.way.to_owned()))?)
    }

    /// The beginning of a dependency of a package in the folder `up` below the project on the crate in the folder `part` of the repository.
    fn dependency(&self, up: &str, part: &str) -> Result<String> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let place = self.place()?;
        // Only the way through the root of the file system is absolute.
        let up = if self.way.is_absolute() { "" } else { up };
        Ok(match (self.git, self.rev) {
            (Some(url), Some(rev)) => format!("{{ git = {}, rev = {}", quoted(url), quoted(rev)),
            (Some(url), None) => format!("{{ git = {}", quoted(url)),
            (None, _) => format!("{{ path = {}", quoted(&format!("{up}{place}/{part}"))),
        })
    }
}

/// The address of the schema of manifests in the repository at `url`, if its server is one that has an address for each file.
fn published(url: &str, rev: Option<&str>) -> Option<String> {
    let name = url.strip_prefix("https://github.com/")?.trim_end_matches('/').trim_end_matches(".git");
    let rev = rev.unwrap_or("HEAD");
    Some(format!("https://raw.githubusercontent.com/{name}/{rev}/docs/schema/manifest.json"))
}

/// The files of a project of this name, with these skeletons.
fn files(
    name: &str,
    source: Source<'_>,
    origin: Origin,
    skeletons: &[Skeleton],
) -> Result<Vec<(&'static str, String)>> {
    let place = source.place()?;
    let quoted = |text: String| serde_json::Value::from(text).to_string();
    let mut replaced = match source.git {
        Some(url) => vec![
            (REPOSITORY.to_owned(), format!("({url})")),
            (SCHEMA.to_owned(), published(url, source.rev).map_or_else(String::new, |url| format!("#:schema {url}\n"))),
            (URL.to_owned(), format!("FUSEE_URL: {}", quoted(url.to_owned()))),
        ],
        None => vec![
            (REPOSITORY.to_owned(), format!("(<{place}>)")),
            (SCHEMA.to_owned(), format!("#:schema {place}/docs/schema/manifest.json\n")),
            (PLACE.to_owned(), shell(place)),
            (URL.to_owned(), format!("FUSEE_URL: {}", quoted(origin.url))),
            (REV.to_owned(), format!("FUSEE_REV: {}", quoted(origin.rev))),
        ],
    };
    replaced.push((NAME.to_owned(), name.to_owned()));
    for part in skeleton::CRATES {
        for (way, up) in skeleton::TO_ROOT {
            replaced.push((format!("{{ path = \"{way}{part}\""), source.dependency(up, part)?));
        }
    }
    let file = |path: &str, text: &str| {
        let is_server = SERVERS.contains(&path);
        let launcher = match source.git {
            Some(_) if is_server => "--git \"$FUSEE_URL\" fusee-launcher".to_owned(),
            Some(url) => format!("--git {} fusee-launcher", shell(url)),
            None => format!("--path {}", shell(&format!("{place}/tools/launcher"))),
        };
        let is_kept =
            |line: &&str| source.git.is_none() || !is_server || !FETCHED.iter().any(|part| line.contains(part));
        let text: String = text.split_inclusive('\n').filter(is_kept).collect();
        let text = text.replace(LAUNCHER, &launcher);
        replaced.iter().fold(text, |text, (from, to)| text.replace(from, to))
    };
    let template = TEMPLATE.into_iter().map(|(path, text)| (path, skeleton::extend(path, text, skeletons)));
    let added = skeletons.iter().flat_map(|skeleton| skeleton.files()).map(|(path, text)| (*path, (*text).to_owned()));
    Ok(template.chain(added).map(|(path, text)| (path, file(path, &text))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_host::system;
    use fusee_manifest::Manifest;

    /// The way to a repository beside the project.
    const LOCAL: &str = "../fusee";

    fn made(way: &str, origin: Origin, skeletons: &[Skeleton]) -> Result<Vec<(&'static str, String)>> {
        files("flight", Source { way: Path::new(way), git: None, rev: None }, origin, skeletons)
    }

    /// The system of each set of skeletons is admitted, and its test expects something of each of them.
    #[test]
    fn skeletons_can_be_combined_and_each_brings_its_test() {
        for set in 0..1 << Skeleton::ALL.len() {
            let skeletons: Vec<Skeleton> = Skeleton::ALL
                .into_iter()
                .enumerate()
                .filter(|(at, _)| set >> at & 1 != 0)
                .map(|(_, one)| one)
                .collect();
            let files = made(LOCAL, Origin::default(), &skeletons).unwrap();
            let text = |name: &str| &files.iter().find(|(file, _)| *file == name).unwrap().1;
            for (file, text) in &files {
                let text = text.replace("../../fusee/", "");
                assert!(!text.contains("../..") && !text.contains(NAME), "{file}: {text}");
            }
            let manifest = Manifest::parse(Path::new(MANIFEST), text(MANIFEST));
            let manifest = manifest.unwrap_or_else(|error| panic!("{skeletons:?}: {error}"));
            let expected = manifest.expectations.unwrap();
            assert_eq!(expected.console.len(), skeletons.len(), "{skeletons:?}");
            let cargo: toml::Table = text("Cargo.toml").parse().unwrap();
            assert_eq!(cargo["workspace"].get("members").is_some(), skeletons.contains(&Skeleton::Gpu));
            // Each program that the manifest names is there.
            for task in &manifest.system.tasks {
                let Some(program) = task.binary.strip_prefix("flight/") else { continue };
                let path = format!("src/bin/{program}.rs");
                assert!(files.iter().any(|(file, _)| *file == path), "{skeletons:?}: {path}");
                assert!(text("README.md").contains(&path), "{skeletons:?}: {path} is not in README.md");
            }
        }
        assert_eq!(
            Skeleton::each_once(&[Skeleton::Graph, Skeleton::Gpu, Skeleton::Graph]),
            [Skeleton::Gpu, Skeleton::Graph]
        );
    }

    #[test]
    fn a_project_has_its_name_and_finds_the_repository() {
        let files = made(LOCAL, Origin::default(), &[]).unwrap();
        let text = |name: &str| files.iter().find(|(file, _)| *file == name).unwrap().1.clone();
        let cargo: toml::Table = text("Cargo.toml").parse().unwrap();
        assert_eq!(cargo["package"]["name"].as_str(), Some("flight"));
        assert_eq!(cargo["dependencies"]["fusee"]["path"].as_str(), Some("../fusee/userland/fusee"));
        assert_eq!(cargo["dev-dependencies"]["fusee-sim"]["path"].as_str(), Some("../fusee/tools/sim"));
        let config: toml::Table = text(".cargo/config.toml").parse().unwrap();
        assert_eq!(config["alias"]["xtask"].as_str(), Some("fusee"));
        assert!(text(MANIFEST).starts_with("#:schema ../fusee/docs/schema/manifest.json\n"));
        assert!(text("README.md").contains("[Fusee](<../fusee>)"));
        assert!(text("README.md").contains("cargo install --locked --path ../fusee/tools/launcher "));
        for (file, text) in &files {
            assert!(!text.contains("../..") && !text.contains(NAME), "{file}: {text}");
        }
        let manifest = Manifest::parse(Path::new(MANIFEST), &text(MANIFEST)).unwrap();
        assert_eq!(
            (manifest.system.name.as_str(), manifest.system.tasks[0].binary.as_str()),
            ("flight", "flight/beat")
        );
    }

    #[test]
    fn a_server_takes_fusee_from_its_origin_to_the_place_that_the_project_names() {
        let origin = Origin { url: "https://example.org/fusee".into(), rev: "12e8d54".into() };
        let files = made(LOCAL, origin, &[]).unwrap();
        for (file, variables) in [(".github/workflows/test.yml", "env"), (".gitlab-ci.yml", "variables")] {
            let text = &files.iter().find(|(name, _)| *name == file).unwrap().1;
            let read = yaml_rust2::YamlLoader::load_from_str(text).unwrap();
            assert_eq!(read[0][variables]["FUSEE_URL"].as_str(), Some("https://example.org/fusee"), "{text}");
            assert_eq!(read[0][variables]["FUSEE_REV"].as_str(), Some("12e8d54"));
            assert!(
                text.contains("git clone \"${FUSEE_URL:?is the URL of Fusee}\" ../fusee && git -C ../fusee checkout")
            );
            assert!(text.contains("cargo install --locked --path ../fusee/tools/launcher\n"));
            assert!(text.contains("fusee test --junit junit.xml"));
        }
    }

    #[test]
    fn a_way_goes_up_to_the_common_folder() {
        for (from, to, expected) in [
            ("/a/own", "/a/fusee", "../fusee"),
            ("/a/b/own", "/a/fusee", "../../fusee"),
            ("/a/fusee/x", "/a/fusee", ".."),
            ("/own", "/a b/fusee", "../a b/fusee"),
        ] {
            assert_eq!(way(Path::new(from), Path::new(to)), Path::new(expected), "{from} to {to}");
        }
        let files = made("../a b/fusee", Origin::default(), &[Skeleton::Gpu]).unwrap();
        let text = |name: &str| files.iter().find(|(file, _)| *file == name).unwrap().1.clone();
        assert!(text("README.md").contains("--path '../a b/fusee/tools/launcher'"));
        let kernels: toml::Table = text("kernels/Cargo.toml").parse().unwrap();
        assert_eq!(kernels["dependencies"]["fusee-compute"]["path"].as_str(), Some("../../a b/fusee/accel/compute"));
        assert_eq!([shell("a'b"), shell("")], ["'a'\\''b'", "''"]);
    }

    #[test]
    fn a_project_may_take_fusee_from_git_and_has_no_path_of_a_machine_then() {
        for rev in [None, Some("v1")] {
            let url = "https://example.org/\"f\"";
            let source = Source { way: Path::new("../a/fusee"), git: Some(url), rev };
            let files = files("flight", source, Origin::default(), &Skeleton::ALL).unwrap();
            let text = |name: &str| &files.iter().find(|(file, _)| *file == name).unwrap().1;
            for (file, text) in &files {
                assert!(!text.contains("../") && !text.contains("/a/"), "{file}: {text}");
            }
            let read = |file: &str| text(file).parse::<toml::Table>().unwrap();
            let fusee = &read("Cargo.toml")["dependencies"]["fusee"];
            assert_eq!(fusee["features"][0].as_str(), Some("gpu"));
            let compute = &read("kernels/Cargo.toml")["dependencies"]["fusee-compute"];
            let sim = &read("Cargo.toml")["dev-dependencies"]["fusee-sim"];
            for dependency in [fusee, compute, sim] {
                assert_eq!(dependency["git"].as_str(), Some(url));
                assert_eq!(dependency.get("rev").and_then(|rev| rev.as_str()), rev);
            }
            assert!(text(MANIFEST).starts_with("# All that runs"));
            assert!(
                text("README.md").contains("cargo install --locked --git 'https://example.org/\"f\"' fusee-launcher")
            );
            for (file, variables) in [(".github/workflows/test.yml", "env"), (".gitlab-ci.yml", "variables")] {
                let read = yaml_rust2::YamlLoader::load_from_str(text(file)).unwrap();
                assert_eq!(read[0][variables]["FUSEE_URL"].as_str(), Some(url));
                assert!(!text(file).contains("clone") && text(file).contains("--git \"$FUSEE_URL\" fusee-launcher\n"));
            }
        }
    }

    #[test]
    fn the_schema_of_manifests_has_an_address_on_a_server_of_single_files() {
        let address =
            |part: &str| Some(format!("https://raw.githubusercontent.com/o/r/{part}/docs/schema/manifest.json"));
        assert_eq!(published("https://github.com/o/r.git", None), address("HEAD"));
        assert_eq!(published("https://github.com/o/r/", Some("v1")), address("v1"));
        assert_eq!(published("ssh://git@github.com/o/r", None), None);
    }

    #[test]
    fn a_name_that_no_package_can_have_is_refused_with_the_reason() {
        let packages = serde_json::json!([{ "name": "demo", "targets": [{ "name": "hog", "kind": ["bin"] }] }]);
        let metadata = serde_json::json!({ "packages": packages, "workspace_root": "/fusee", "target_directory": "/fusee/target" });
        let fusee = Project::of(&metadata).unwrap();
        let why = |name: &str| bad_name(name, &fusee);
        assert_eq!(why("my-system_2"), None);
        assert_eq!(why(""), Some(BadName::Empty));
        assert_eq!(why("9lives"), Some(BadName::First('9')));
        assert_eq!(why("-x"), Some(BadName::First('-')));
        assert_eq!(why("my system"), Some(BadName::Character(' ')));
        assert_eq!(why("träge"), Some(BadName::Character('ä')));
        assert_eq!(why(&"x".repeat(65)), Some(BadName::Long));
        assert_eq!(why("demo"), Some(BadName::Taken));
        let refused = Refused::Name { name: "demo".into(), why: BadName::Taken };
        assert_eq!(
            refused.to_string(),
            "`demo` cannot be a project's name: Fusee has a package of that name, and manifests could not tell the two apart; \
             name another with --name"
        );
    }

    #[test]
    fn nothing_is_replaced() {
        let root = system::root().unwrap();
        let refused = |path: &str| ensure_empty(&root.join(path)).unwrap_err().downcast::<Refused>().unwrap();
        assert_eq!(refused("docs"), Refused::NotEmpty(root.join("docs")));
        assert_eq!(refused("Cargo.toml"), Refused::NotAFolder(root.join("Cargo.toml")));
        assert!(ensure_empty(&root.join("not/there")).is_ok());
    }
}
