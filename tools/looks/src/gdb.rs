//! `cargo xtask gdb`: a system under gdb, with the symbols of the kernel and of the task that runs.
//!
//! QEMU starts paused, with gdb's stub at a socket. All tasks are linked at the same addresses, so their symbols are chosen by the
//! address space, which `gdb.py` does: at each stop, and as a condition of breakpoints.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fusee_manifest::Profile;

use fusee_host::qemu::{self, EndedBy, GuestMemory, Setup, Stimuli};
use fusee_host::system::{Image, Workspace, device_arguments};
use fusee_host::toolchain;
use fusee_host::turns::{self, Turns};

/// The script for gdb.
const SCRIPT: &str = include_str!("gdb.py");
/// How long QEMU may take to make its socket. It does so at once if the host lets it: this is for one that hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a person may look.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Arguments of `cargo xtask gdb`.
#[derive(Args)]
pub struct GdbArguments {
    /// The system's manifest. [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    system: Option<PathBuf>,
    /// The system's manifest, named by an option.
    #[arg(long)]
    manifest: Option<PathBuf>,
    /// Build programs of tasks for a debugger, beside the others: hardly optimised, with functions and most variables at hand, and slower.
    #[arg(long)]
    debug: bool,
    /// Arguments for gdb, such as `-- -ex 'task-break camera main'`.
    #[arg(last = true)]
    gdb: Vec<String>,
}

impl GdbArguments {
    /// The manifest that is named, if one is.
    fn path(&self) -> Option<&Path> {
        self.manifest.as_deref().or(self.system.as_deref())
    }
}

/// Runs a system under gdb.
pub fn gdb(arguments: &GdbArguments, install: bool) -> Result<bool> {
    let program = toolchain::find_gdb(install)?;
    let workspace = Workspace { debug: arguments.debug, ..Workspace::here(install)? };
    let manifest = workspace.project.manifest(arguments.path())?;
    let (workspace, _folder) = workspace.in_folder()?;
    let image = workspace.image(&manifest, Profile::Det, false)?;
    let mut gdb = Command::new(program);
    gdb.args(["-quiet"]);
    let finish = |gdb: &mut Command| {
        let status = gdb.args(&arguments.gdb).status().context("gdb does not start")?;
        Ok(status.success())
    };
    under(&workspace, &image, true, gdb, finish)
}

/// Runs an image in QEMU as long as gdb does, which `finish` is to start.
///
/// # Errors
/// QEMU or gdb does not start.
pub fn under<T>(
    workspace: &Workspace,
    image: &Image,
    echo: bool,
    mut gdb: Command,
    finish: impl FnOnce(&mut Command) -> Result<T>,
) -> Result<T> {
    let system = &image.manifest.system;
    // The path of a socket may have a hundred characters only.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: a number that no other session of this program has.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = |kind: &str| std::env::temp_dir().join(format!("fusee-{}-{number}.{kind}", std::process::id()));
    let (socket, script) = (temporary("gdb"), temporary("py"));
    std::fs::write(&script, prelude(image)? + SCRIPT)?;
    let chardev = format!("socket,id=gdb,path={},server=on,wait=off", socket.display());
    let mut arguments = ["-S", "-chardev", &chardev, "-gdb", "chardev:gdb"].map(str::to_owned).to_vec();
    arguments.extend(device_arguments(image)?);
    let done = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let outcome = qemu::run(&Setup {
                qemu: &workspace.qemu,
                image: &image.path,
                enters: true,
                board: &system.board,
                profile: image.profile,
                cpus: turns::cpus(system),
                quantum: Turns::of(system, None).quantum,
                limit: LIMIT,
                is_patient: false,
                speaks: system.speaks,
                echo,
                apart: true,
                ends: &|_: &GuestMemory, _: &dyn Fn() -> bool| done.load(Ordering::Relaxed).then_some(EndedBy::Enough),
                arguments: &arguments,
                stimuli: Stimuli::default(),
                line: None,
            });
            over.store(true, Ordering::Relaxed);
            outcome.map(|_| ())
        });
        let started = Instant::now();
        while !socket.exists() && started.elapsed() < PATIENCE && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        gdb.arg("-x").arg(&script).arg("-ex").arg(format!("target remote {}", socket.display()));
        let result = finish(&mut gdb);
        // Relaxed: nothing else is told by it.
        done.store(true, Ordering::Relaxed);
        match run.join() {
            Ok(ended) => ended.and(result),
            Err(_) => bail!("QEMU could not be waited for"),
        }
    });
    for path in [&socket, &script] {
        // QEMU removes its socket if it ends by itself.
        let _ = std::fs::remove_file(path);
    }
    result
}

/// The list of programs, for the script.
fn prelude(image: &Image) -> Result<String> {
    let mut text = format!("FUSEE_KERNEL = {}\nFUSEE_TASKS = {{\n", quoted(&image.programs.kernel)?);
    for task in &image.manifest.system.tasks {
        let path =
            image.programs.binaries.get(&task.binary).with_context(|| format!("no program `{}`", task.binary))?;
        text += &format!("    \"{}\": {},\n", task.name, quoted(path)?);
    }
    Ok(text + "}\n")
}

/// A path as Python writes it; gdb takes it as one word.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    ensure!(!text.contains(['"', '\\', ' ', '\'']), "gdb does not take the path `{text}`");
    Ok(format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        gdb: GdbArguments,
    }

    #[test]
    fn a_manifest_is_named_with_or_without_an_option_before_the_arguments_for_gdb() {
        for line in ["gdb --debug m.toml -- -batch", "gdb --manifest m.toml --debug -- -batch"] {
            let Line { gdb } =
                Line::try_parse_from(line.split(' ')).map_err(|error| error.to_string()).expect("it parses");
            assert_eq!((gdb.path(), &gdb.gdb[..]), (Some(Path::new("m.toml")), &["-batch".to_owned()][..]), "{line}");
        }
        assert!(Line::try_parse_from(["gdb", "m.toml", "--manifest", "n.toml"]).is_err());
    }
}
