//! The installed command in projects that depend on small stand-ins of the repository: crates by path, by git, and of two places.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of temporary files, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("fusee-launcher-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path.canonicalize().unwrap())
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A repository with a crate of tasks, one of drivers, and a tool that prints its own place, its folder and its arguments.
    fn repository(&self, name: &str) -> PathBuf {
        let package = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        let file = |file: &str, text: &str| self.write(&format!("{name}/{file}"), text);
        file(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"userland/fusee\", \"drivers/framework\", \"tools/fusee\"]\n",
        );
        for (folder, name) in [("userland/fusee", "fusee"), ("drivers/framework", "fusee-driver")] {
            file(&format!("{folder}/Cargo.toml"), &package(name));
            file(&format!("{folder}/src/lib.rs"), "");
        }
        file("tools/fusee/Cargo.toml", &package("fusee-tool"));
        let main = "fn main() {\n    let here = std::env::current_dir().unwrap();\n    let words: Vec<String> = std::env::args().skip(1).collect();\n    \
                    println!(\"{}|{}|{}\", env!(\"CARGO_MANIFEST_DIR\"), here.display(), words.join(\" \"));\n    std::process::exit(7);\n}\n";
        file("tools/fusee/src/main.rs", main);
        self.0.join(name)
    }

    /// A project with these dependencies.
    fn project(&self, name: &str, dependencies: &str) -> PathBuf {
        let text = format!(
            "[workspace]\n[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}"
        );
        self.write(&format!("{name}/Cargo.toml"), &text);
        self.write(&format!("{name}/src/lib.rs"), "");
        self.0.join(name)
    }

    fn run(&self, program: &str, folder: &Path, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        // Packages that cargo fetches stay here, and no setting of the calling cargo comes in.
        command.env("CARGO_HOME", self.0.join("home")).env_remove("CARGO_TARGET_DIR").args(words).current_dir(folder);
        command.output().unwrap()
    }

    fn fusee(&self, folder: &Path, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(env!("CARGO_BIN_EXE_fusee"), folder, words);
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), text.concat())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn git(folder: &Path, words: &[&str]) -> String {
    let identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").args(identity).args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_project_by_path_runs_the_tool_of_that_path_in_the_callers_folder() {
    let place = Place::new("path");
    let root = place.repository("clone one");
    let project = place.project("own", "fusee = { path = \"../clone one/userland/fusee\" }\n");
    let inside = project.join("src");
    // Help comes at once, and builds nothing.
    let (code, text) = place.fusee(&inside, &["--help"]);
    assert!(code == Some(0) && text.contains("The tool is not built yet") && !root.join("target").exists(), "{text}");
    let expected = format!("{}|{}|run --for 1s", root.join("tools/fusee").display(), inside.display());
    let (code, text) = place.fusee(&inside, &["run", "--for", "1s"]);
    assert!(code == Some(7) && text.contains(&expected) && text.contains("for its first use"), "{code:?}: {text}");
    // As a command of cargo, whose first argument is its name. The second use builds nothing, and prints nothing of it.
    let output = place.run(env!("CARGO_BIN_EXE_cargo-fusee"), &inside, &["fusee", "run", "--for", "1s"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(place.fusee(&inside, &["--help"]).1.ends_with("|--help\n"));
    // In the repository itself, and for a project that is not there yet.
    assert!(place.fusee(&root.join("drivers"), &["x"]).1.contains("clone one/drivers|x"));
    assert!(place.fusee(&place.0, &["new", "y", "--path", "clone one"]).1.contains("|new y --path clone one"));
    let (code, text) = place.fusee(&place.0, &["new", "y", "--path", "own"]);
    assert!(code == Some(1) && text.contains("own is no repository of Fusee"), "{text}");
}

#[test]
fn a_project_by_git_runs_the_tool_of_its_commit() {
    let place = Place::new("git");
    let root = place.repository("origin");
    git(&root, &["init", "--quiet"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "--quiet", "--message", "first"]);
    let first = git(&root, &["rev-parse", "HEAD"]);
    git(&root, &["commit", "--quiet", "--allow-empty", "--message", "second"]);
    let url = format!("file://{}", root.display());
    let project = place.project("own", &format!("fusee = {{ git = \"{url}\", rev = \"{first}\" }}\n"));
    let (code, text) = place.fusee(&project, &["analyze"]);
    let checkout = format!("{}/tools/fusee|{}|analyze", &first[..7], project.display());
    assert!(code == Some(7) && text.contains(&checkout), "{code:?}: {text}");
    let (code, text) = place.fusee(&place.0, &["new", "x", "--git", &url, "--rev", &first]);
    assert!(code == Some(7) && text.contains(&format!("{}/tools/fusee|", &first[..7])), "{code:?}: {text}");
    let (code, text) = place.fusee(&place.0, &["new", "x", "--git", "file:///nowhere"]);
    assert!(code == Some(1) && text.contains("file:///nowhere"), "{code:?}: {text}");
    // A crate of that commit, and one of a folder.
    let dependencies = format!(
        "fusee = {{ git = \"{url}\", rev = \"{first}\" }}\nfusee-driver = {{ path = \"../origin/drivers/framework\" }}\n"
    );
    let mixed = place.project("mixed", &dependencies);
    let (code, text) = place.fusee(&mixed, &["run"]);
    let second = git(&root, &["rev-parse", "--short", "HEAD"]);
    let words =
        ["error: crates of one system come from several places: ", "`fusee` from ", &format!("commit {}", &first[..7])];
    let driver = format!("`fusee-driver` from {} (commit {second})", root.display());
    assert!(code == Some(1) && words.iter().all(|words| text.contains(words)) && text.contains(&driver), "{text}");
}

#[test]
fn a_folder_without_a_project_gets_the_next_step() {
    let place = Place::new("outside");
    for (words, code, said) in [
        (
            &["run"][..],
            1,
            "error: `fusee` runs the tool of the project around it, and this folder is in no project: `fusee new FOLDER --git URL`",
        ),
        (&["new", "x"], 1, "error: a new project needs the place of Fusee: `fusee new FOLDER --git URL`"),
        (&[], 0, "`fusee new FOLDER --path CLONE`"),
        (&["--version"], 0, concat!("fusee ", env!("CARGO_PKG_VERSION"), " (no repository here)")),
    ] {
        let ran = place.fusee(&place.0, words);
        assert!(ran.0 == Some(code) && ran.1.contains(said), "{words:?}: {ran:?}");
    }
    let independent = place.project("own", "");
    let (code, text) = place.fusee(&independent, &["run"]);
    assert!(code == Some(1) && text.contains("own/Cargo.toml depends on the crate `fusee`"), "{text}");
    place.write("broken/Cargo.toml", "[package\n");
    let (code, text) = place.fusee(&place.0.join("broken"), &["run"]);
    assert!(code == Some(1) && text.contains("error: cargo cannot read the project around "), "{text}");
}
