//! The installed command `fusee`: finds the repository of Fusee that a project depends on, and runs the tool of that repository.
//!
//! Tool, kernel, drivers and the crate `fusee` are thus always of one commit. The tool is built at its first use, in the repository's own folder
//! of built files, and a project at another commit has another tool.
//!
//! ```text
//! place      the repository that a project depends on
//! ```
//!
//! Not here: any command. They are in `tools/fusee`, and `cargo xtask` runs them in the repository without this program.
#![forbid(unsafe_code)]

pub mod place;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use place::{Asked, Lost};

/// The package of the tool, and its program.
const TOOL: &str = "fusee-tool";
/// The variable by which the tool prints the name of this command in its help.
const CALLED: &str = "FUSEE_CALLED";

/// Runs the tool with these arguments, in the place of this process. Returns only if that cannot be done.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let found = std::env::current_dir().map_err(Lost::Folder).and_then(|here| place::find(&here, &Asked::of(&words)));
    match (found, &words[..]) {
        (found, ["--version" | "-V"]) => {
            let root = found.map_or_else(|_| "no repository here".to_owned(), |root| root.display().to_string());
            print(&format!("fusee {} ({root})\n", env!("CARGO_PKG_VERSION")))
        }
        (Ok(root), [] | ["--help" | "-h" | "help"]) if !is_built(&root) => print(&format!(
            "`fusee` runs the tool of the project's own Fusee, here that in {0}. The tool is not built yet; its first command takes some minutes for \
             that.\n\n  fusee run      runs the project's system in QEMU\n  fusee test     runs its tests\n  fusee --help   lists all commands, once \
             the tool is built\n\nThe book: {0}/docs/README.md\n",
            root.display()
        )),
        (Ok(root), _) => run(&root, &arguments),
        (Err(lost @ Lost::Outside { .. }), [] | ["--help" | "-h" | "help"]) => print(&format!("{lost}\n")),
        (Err(lost), _) => fail(&lost.to_string()),
    }
}

/// Whether the tool of the repository in `root` was built before, perhaps of an earlier state.
fn is_built(root: &Path) -> bool {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    target.join("debug").join(TOOL).exists()
}

/// Runs the tool of the repository in `root`.
fn run(root: &Path, arguments: &[OsString]) -> ExitCode {
    let mut command = place::cargo();
    command.arg("run");
    if is_built(root) {
        command.arg("--quiet");
    } else {
        eprintln!("building Fusee's tool in {}, for its first use", root.display());
    }
    command.arg("--manifest-path").arg(root.join("Cargo.toml")).args(["--package", TOOL, "--"]).args(arguments);
    // Returns only with an error.
    fail(&format!("cargo does not start: {}", start(command.env(CALLED, "fusee"))))
}

/// Puts a command in the place of this process: signals, terminal and exit code are its own.
fn start(command: &mut Command) -> std::io::Error {
    command.exec()
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => fail(&format!("the standard output: {error}")),
        _ => ExitCode::SUCCESS,
    }
}

fn fail(words: &str) -> ExitCode {
    eprintln!("error: {words}");
    ExitCode::FAILURE
}
