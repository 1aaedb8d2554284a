//! `cargo xtask new`: makes a project outside this repository.
//!
//! What it makes is a copy of `tools/fusee/template`, which is such a project itself: it can be read, built and run where it
//! is. Only its name, and the places of what it uses of this repository, are replaced. Skeletons (`skeleton`) are added to the copy.
//!
//! Not here: how a project's programs are found and built (`project`, `build`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use fusee_host::project::{MANIFEST, Project};
use fusee_host::words;

use crate::skeleton::{self, Skeleton};

/// The files of a project, as they are in the template's folder.
const TEMPLATE: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml")),
    (".cargo/config.toml", include_str!("../template/.cargo/config.toml")),
    (".gitignore", include_str!("../template/.gitignore")),
    ("README.md", include_str!("../template/README.md")),
    (MANIFEST, include_str!("../template/system.toml")),
    (".github/workflows/test.yml", include_str!("../template/.github/workflows/test.yml")),
    (".gitlab-ci.yml", include_str!("../template/.gitlab-ci.yml")),
    ("src/bin/beat.rs", include_str!("../template/src/bin/beat.rs")),
];
/// The template's own name.
pub const NAME: &str = "my-system";
/// Where the template finds the tool, and the repository.
const ALIAS: &str = "\"run --manifest-path ../../../Cargo.toml --package fusee-tool --\"";
const REPOSITORY: &str = "(../../..)";
const PLACE: &str = "'../../..'";
/// Where a server finds the repository, and which commit of it.
const URL: &str = "FUSEE_URL: \"\"";
const REV: &str = "FUSEE_REV: \"\"";
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
    /// Take the crate `fusee` from this git repository, not by its path in this one.
    #[arg(long, value_name = "URL")]
    git: Option<String>,
    /// Which commit, tag or branch of that.
    #[arg(long, requires = "git")]
    rev: Option<String>,
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
    /// This repository is in a folder that cannot be written into files of cargo.
    Repository(PathBuf),
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
            Self::Repository(path) => write!(
                f,
                "Fusee is in {}: an alias of cargo can hold no path with a blank, nor one that is not UTF-8",
                path.display()
            ),
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
    let source = Source { git: arguments.git.as_deref(), rev: arguments.rev.as_deref(), root: &fusee.root };
    let files = files(&name, source, Origin::of(&fusee.root), &Skeleton::each_once(&arguments.with))?;
    for (file, text) in &files {
        let path = folder.join(file);
        let parent = path.parent().context("a file in a folder")?;
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    words::say(&format!("made project `{name}` in {}:", folder.canonicalize()?.display()));
    files.iter().for_each(|(file, _)| words::say(&format!("  {file}")));
    words::say(&format!("run it: cd {} && cargo xtask run", arguments.folder.display()));
    Ok(true)
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
    /// The git repository to take them from, in the place of the folder `root`,
    git: Option<&'a str>,
    /// and which commit of it.
    rev: Option<&'a str>,
    /// The folder of this repository.
    root: &'a Path,
}

impl Source<'_> {
    /// The folder of the repository, if files of cargo can name it.
    fn place(&self) -> Result<&str> {
        let place = self.root.to_str().filter(|place| !place.contains(char::is_whitespace));
        Ok(place.ok_or_else(|| Refused::Repository(self.root.to_owned()))?)
    }

    /// The beginning of a dependency on the crate in the folder `part` of the repository.
    fn dependency(&self, part: &str) -> Result<String> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        Ok(match (self.git, self.rev) {
            (Some(url), Some(rev)) => format!("{{ git = {}, rev = {}", quoted(url), quoted(rev)),
            (Some(url), None) => format!("{{ git = {}", quoted(url)),
            (None, _) => format!("{{ path = {}", quoted(&format!("{}/{part}", self.place()?))),
        })
    }
}

/// The files of a project of this name, with these skeletons.
fn files(
    name: &str,
    source: Source<'_>,
    origin: Origin,
    skeletons: &[Skeleton],
) -> Result<Vec<(&'static str, String)>> {
    let place = source.place()?;
    let alias = toml::Value::from(format!("run --manifest-path {place}/Cargo.toml --package fusee-tool --"));
    let url = source.git.map_or(origin.url, str::to_owned);
    let rev = source.rev.map_or(if source.git.is_some() { "HEAD".to_owned() } else { origin.rev }, str::to_owned);
    let mut replaced = vec![
        (ALIAS.to_owned(), alias.to_string()),
        (REPOSITORY.to_owned(), format!("({place})")),
        (PLACE.to_owned(), format!("'{place}'")),
        (URL.to_owned(), format!("FUSEE_URL: {}", serde_json::Value::from(url))),
        (REV.to_owned(), format!("FUSEE_REV: {}", serde_json::Value::from(rev))),
        (NAME.to_owned(), name.to_owned()),
    ];
    for part in skeleton::CRATES {
        let dependency = source.dependency(part)?;
        replaced.extend(skeleton::TO_ROOT.map(|way| (format!("{{ path = \"{way}{part}\""), dependency.clone())));
    }
    let file = |text: &str| replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let template = TEMPLATE.into_iter().map(|(path, text)| (path, skeleton::extend(path, text, skeletons)));
    let added = skeletons.iter().flat_map(|skeleton| skeleton.files()).map(|(path, text)| (*path, (*text).to_owned()));
    Ok(template.chain(added).map(|(path, text)| (path, file(&text))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_host::system;
    use fusee_manifest::Manifest;

    /// A repository in a folder.
    const LOCAL: &str = "/a/fusee";

    fn made(root: &str, origin: Origin, skeletons: &[Skeleton]) -> Result<Vec<(&'static str, String)>> {
        files("flight", Source { root: Path::new(root), git: None, rev: None }, origin, skeletons)
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
        assert_eq!(cargo["dependencies"]["fusee"]["path"].as_str(), Some("/a/fusee/userland/fusee"));
        let config: toml::Table = text(".cargo/config.toml").parse().unwrap();
        let alias = "run --manifest-path /a/fusee/Cargo.toml --package fusee-tool --";
        assert_eq!(config["alias"]["xtask"].as_str(), Some(alias));
        assert!(text("README.md").contains("[Fusee](/a/fusee)"));
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
                text.contains(
                    "git clone \"${FUSEE_URL:?is the URL of Fusee}\" '/a/fusee' && git -C '/a/fusee' checkout"
                )
            );
            assert!(text.contains("cargo xtask test --junit junit.xml"));
        }
    }

    #[test]
    fn a_repository_that_no_alias_can_name_is_refused() {
        let source = || Source { root: Path::new("/a b/fusee"), git: None, rev: None };
        let error = files("flight", source(), Origin::default(), &[]).unwrap_err();
        assert_eq!(error.downcast::<Refused>().unwrap(), Refused::Repository("/a b/fusee".into()));
    }

    #[test]
    fn a_project_may_take_the_crate_from_git() {
        let dependency = |rev| {
            let source = || Source { root: Path::new("/fusee"), git: Some("https://example.org/\"f\""), rev };
            let files = files("flight", source(), Origin::default(), &[Skeleton::Gpu]).unwrap();
            let cargo: toml::Table = files[0].1.parse().unwrap();
            assert_eq!(cargo["dependencies"]["fusee"]["features"][0].as_str(), Some("gpu"));
            cargo["dependencies"]["fusee"].clone()
        };
        assert_eq!(dependency(None)["git"].as_str(), Some("https://example.org/\"f\""));
        assert_eq!(dependency(Some("v1"))["rev"].as_str(), Some("v1"));
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
