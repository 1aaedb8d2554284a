//! Finds a compiler that has the targets, QEMU, and gdb.
//!
//! Tried in this order; `FUSEE_TOOLCHAIN=active|rustup|debian` leaves one choice only, and installs nothing:
//!
//! 1. `active`: the toolchain that runs us already has `libcore` for both targets.
//! 2. `rustup`: `rustup target add` gives it to us.
//! 3. `debian`: Debian's compiler, its library source, and a sysroot of our own that is built once.
//!
//! Trials by hand are in `docs/toolchain.md`.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use fusee_manifest::{Board, Profile};

/// The kernel and the engine firmware: no floating point.
pub const KERNEL_TARGET: &str = "aarch64-unknown-none-softfloat";
/// Tasks.
pub const TASK_TARGET: &str = "aarch64-unknown-none";
const TARGETS: [&str; 2] = [KERNEL_TARGET, TASK_TARGET];
/// Firmware of a Cortex-R5F, which only systems with one need. Made for another profile of the architecture, but all that the compiler uses of it is the
/// same, and the library for `armv7r-none-eabi` is not to be had everywhere.
pub const R5F_TARGET: &str = "armv7a-none-eabi";

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_PACKAGES: [&str; 5] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "lld-22"];
/// Our release profile optimises across crates, which needs the library's bitcode.
const SYSROOT_FLAGS: &str = "-Cembed-bitcode=yes";
const QEMU: &str = "qemu-system-aarch64";
const QEMU_PACKAGE: &str = "qemu-system-arm";
/// Debian 12's.
const QEMU_AT_LEAST: (u32, u32) = (7, 2);

/// A way to call cargo that can build for both targets.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// `active`, `rustup` or `debian`.
    pub name: &'static str,
    cargo: PathBuf,
    environment: Vec<(String, OsString)>,
    /// Where the libraries of the targets are, if not in the compiler's own place.
    sysroot: Option<PathBuf>,
    /// Where that is built.
    root: PathBuf,
    /// Whether a target may be installed that is missing.
    install: bool,
}

impl Toolchain {
    /// Finds one, and installs missing parts if that is wanted and possible.
    pub fn find(root: &Path, install: bool) -> Result<Toolchain> {
        let forced = std::env::var("FUSEE_TOOLCHAIN").ok();
        let install = install && forced.is_none();
        let found = Self::find_with(root, forced, install)?;
        Ok(Toolchain { root: root.to_owned(), install, ..found })
    }

    fn find_with(root: &Path, forced: Option<String>, install: bool) -> Result<Toolchain> {
        match forced.as_deref() {
            None => {}
            Some("active") => {
                return active().context("the active toolchain lacks the targets; try `rustup target add`");
            }
            // A program that is named is used as it is.
            Some("rustup") => {
                let add = format!("the toolchain lacks the targets; run `rustup target add {}`", TARGETS.join(" "));
                return rustup(false).context(add);
            }
            Some("debian") => return debian(root, false),
            Some(other) => bail!("FUSEE_TOOLCHAIN={other}: there are active, rustup and debian"),
        }
        if let Some(found) = active() {
            return Ok(found);
        }
        if let Some(found) = rustup(install) {
            return Ok(found);
        }
        debian(root, install)
    }

    /// Sees to it that there is a library for one more target, installing it if that is wanted and possible.
    ///
    /// # Errors
    /// Why there is none.
    pub fn add_target(&self, target: &str) -> Result<()> {
        if self.sysroot.is_some() {
            return debian_sysroot(&self.root, &[target]).map(drop);
        }
        let add = format!("rustup target add {target}");
        if !has_target(target) && self.install && output(Command::new("rustup").arg("--version")).is_some() {
            eprintln!("{add}");
            Command::new("rustup").args(["target", "add", target]).status().context("rustup does not start")?;
        }
        ensure!(has_target(target), "the compiler has no library for {target}: `{add}`");
        Ok(())
    }

    /// A cargo command. `flags` are the compiler's for `target`.
    pub fn cargo(&self, target: &str, flags: &[String]) -> Command {
        self.prepare(&self.cargo, target, flags)
    }

    /// The command of a cargo plug-in, `fmt` or `clippy`, if this toolchain has it.
    pub fn plugin(&self, name: &str, target: &str, flags: &[String]) -> Option<Command> {
        let command = || match self.sysroot {
            // Called through cargo, a plug-in of another toolchain in the home folder would come first.
            Some(_) => {
                let program = Path::new(DEBIAN_CARGO).with_file_name(format!("cargo-{name}"));
                let mut command = self.prepare(&program, target, flags);
                command.arg(name);
                command
            }
            None => {
                let mut command = self.prepare(&self.cargo, target, flags);
                command.arg(name);
                command
            }
        };
        output(command().arg("--version")).map(|_| command())
    }

    /// Version of the compiler, major and minor.
    pub fn version(&self) -> Option<(u32, u32)> {
        let own = self.environment.iter().find(|(name, _)| name == "RUSTC").map(|(_, path)| path.clone());
        let rustc = own.or_else(|| std::env::var_os("RUSTC")).unwrap_or_else(|| "rustc".into());
        numbers(&output(Command::new(rustc).arg("--version"))?)
    }

    fn prepare(&self, program: &Path, target: &str, flags: &[String]) -> Command {
        let mut command = Command::new(program);
        // These would replace the flags of the target.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut flags = flags.to_vec();
        if let Some(sysroot) = &self.sysroot {
            flags.extend(["--sysroot".to_owned(), sysroot.display().to_string()]);
        }
        let variable = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
        if flags.is_empty() {
            command.env_remove(variable)
        } else {
            command.env(variable, flags.join(" "))
        };
        command
    }
}

/// Whether the toolchain that runs us has a library for `target`.
fn has_target(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = output(Command::new(&rustc).args(["--print", "target-libdir", "--target", target]));
    printed.is_some_and(|folder| has_core(Path::new(folder.trim())))
}

fn active() -> Option<Toolchain> {
    TARGETS.iter().all(|target| has_target(target)).then(|| Toolchain {
        name: "active",
        cargo: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into(),
        environment: Vec::new(),
        sysroot: None,
        root: PathBuf::new(),
        install: false,
    })
}

fn rustup(install: bool) -> Option<Toolchain> {
    if install && output(Command::new("rustup").arg("--version")).is_some() {
        eprintln!("rustup target add {}", TARGETS.join(" "));
        Command::new("rustup").args(["target", "add"]).args(TARGETS).status().ok().filter(|status| status.success())?;
    }
    active().map(|found| Toolchain { name: "rustup", ..found })
}

fn debian(root: &Path, install: bool) -> Result<Toolchain> {
    if missing_of_debian().is_some() && install && is_root() {
        install_packages(&DEBIAN_PACKAGES)?;
    }
    if let Some(missing) = missing_of_debian() {
        bail!(
            "no compiler for AArch64: {missing}; run `rustup target add {}`, or as root `apt-get install {}`",
            TARGETS.join(" "),
            DEBIAN_PACKAGES.join(" ")
        );
    }
    let sysroot = debian_sysroot(root, &TARGETS)?;
    Ok(Toolchain {
        name: "debian",
        cargo: DEBIAN_CARGO.into(),
        // Not the folder of another compiler, which runs us.
        environment: [debian_environment(), vec![("CARGO_TARGET_DIR".into(), root.join("target/debian").into())]]
            .concat(),
        sysroot: Some(sysroot),
        root: root.to_owned(),
        install: false,
    })
}

/// The reason why Debian's toolchain cannot be used.
fn missing_of_debian() -> Option<String> {
    let Some(version) = output(Command::new(DEBIAN_RUSTC).arg("--version").env_remove("RUSTUP_TOOLCHAIN")) else {
        return Some("Debian's rustc-web is not installed".into());
    };
    if numbers(&version).is_none_or(|version| version < (1, 95)) {
        return Some(format!("{} is too old", version.trim()));
    }
    let Some(source) = debian_source() else {
        return Some("Debian's rust-web-src is not installed".into());
    };
    for (path, package) in [
        (source.join("core"), "rust-web-src"),
        (DEBIAN_CARGO.into(), "cargo-web"),
        ("/usr/bin/rust-lld".into(), "rust-web-llvm (or the lld-22 it points to)"),
    ] {
        if !path.exists() {
            return Some(format!("Debian's {package} is not installed"));
        }
    }
    None
}

/// The library's source, as Debian installs it.
fn debian_source() -> Option<PathBuf> {
    let sysroot = output(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]).env_remove("RUSTUP_TOOLCHAIN"))?;
    let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    source.exists().then_some(source)
}

fn debian_environment() -> Vec<(String, OsString)> {
    // Debian's folder first: cargo and the linker must be of the same version as the compiler.
    let mut path = OsString::from("/usr/bin:");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    vec![("RUSTC".into(), DEBIAN_RUSTC.into()), ("CARGO".into(), DEBIAN_CARGO.into()), ("PATH".into(), path)]
}

/// Builds `core`, `alloc` and their like for these targets, once for each version of the compiler.
fn debian_sysroot(root: &Path, targets: &[&str]) -> Result<PathBuf> {
    let version = output(Command::new(DEBIAN_RUSTC).arg("-vV").env_remove("RUSTUP_TOOLCHAIN")).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (version, SYSROOT_FLAGS).hash(&mut hasher);
    let sysroot = root.join(format!("target/sysroot-{:016x}", hasher.finish()));
    let library = |target: &str| sysroot.join("lib/rustlib").join(target).join("lib");
    if targets.iter().all(|target| has_core(&library(target))) {
        return Ok(sysroot);
    }
    eprintln!("building core and alloc for {}, once (about a minute)", targets.join(" and "));
    let work = root.join("target/sysroot-build");
    std::fs::create_dir_all(work.join(".cargo"))?;
    let manifest = "[package]\nname = \"sysroot\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n";
    std::fs::write(work.join("Cargo.toml"), manifest)?;
    std::fs::write(work.join("lib.rs"), "#![no_std]\n")?;
    // The library's own dependencies come with its source: no network.
    let vendor = debian_source().map(|source| source.join("vendor")).filter(|vendor| vendor.exists());
    let config = vendor.map_or_else(String::new, |vendor| {
        format!("[source.crates-io]\nreplace-with = \"debian\"\n[source.debian]\ndirectory = {vendor:?}\n")
    });
    std::fs::write(work.join(".cargo/config.toml"), config)?;
    for &target in targets {
        let status = Command::new(DEBIAN_CARGO)
            .current_dir(&work)
            .envs(debian_environment())
            .env("RUSTC_BOOTSTRAP", "1")
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env("RUSTFLAGS", SYSROOT_FLAGS)
            .args(["build", "--quiet", "--release", "--target", target, "--target-dir", "target"])
            .args(["-Z", "build-std=core,alloc,panic_abort", "-Z", "build-std-features=compiler-builtins-mem"])
            .status()
            .context("Debian's cargo does not start")?;
        if !status.success() {
            bail!("Debian's compiler could not build its own library for {target}");
        }
        let to = library(target);
        std::fs::create_dir_all(&to)?;
        let from = work.join("target").join(target).join("release/deps");
        for entry in std::fs::read_dir(&from)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rlib")
                && let Some(name) = path.file_name()
                && !name.to_string_lossy().starts_with("libsysroot")
            {
                std::fs::copy(&path, to.join(name))?;
            }
        }
    }
    Ok(sysroot)
}

//--- QEMU

/// The QEMU to use.
pub fn find_qemu(install: bool) -> Result<PathBuf> {
    qemu_at(std::env::var_os("FUSEE_QEMU").map(PathBuf::from), install)
}

/// The QEMU that is `named`, or else the one there is. If one is named nothing is installed: that would be another.
fn qemu_at(named: Option<PathBuf>, install: bool) -> Result<PathBuf> {
    let (major, minor) = QEMU_AT_LEAST;
    let is_named = named.is_some();
    let mut path = named.unwrap_or_else(|| QEMU.into());
    if qemu_version(&path).is_none() && !is_named {
        let beside = beside();
        let unpacked = beside.as_deref().map(|folder| folder.join(QEMU)).filter(|path| qemu_version(path).is_some());
        match (unpacked, beside) {
            (Some(unpacked), _) => path = unpacked,
            (None, beside) if install && is_root() => {
                if let Err(error) = install_packages(&[QEMU_PACKAGE]) {
                    let why = "to install it, others would have to go";
                    path = unpack(&beside.ok_or(error)?, QEMU_PACKAGE, QEMU, &[], why)?;
                }
            }
            (None, _) => {}
        }
    }
    match qemu_version(&path) {
        Some(version) if version >= QEMU_AT_LEAST => Ok(path),
        Some((old, older)) => bail!("{} is version {old}.{older}; {major}.{minor} or newer is needed", path.display()),
        None if is_named => bail!(
            "FUSEE_QEMU={}: this is no QEMU that runs; name a `{QEMU}` {major}.{minor} or newer, or none at all",
            path.display()
        ),
        None => bail!(
            "{} is not installed; QEMU {major}.{minor} or newer is needed: `apt-get install {QEMU_PACKAGE}` as root",
            path.display()
        ),
    }
}

/// Where packages are unpacked that the system's others do not let in.
fn beside() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("fusee"))
}

/// Unpacks `package`, and what it needs and the system lacks, into `folder` without installing anything, and makes a `program` there that runs the
/// package's own, because `why`. For systems on which the package would push out another: nothing that somebody installed is removed.
fn unpack(folder: &Path, package: &str, program: &str, options: &[String], why: &str) -> Result<PathBuf> {
    let (archives, root) = (folder.join("archives"), folder.join("root"));
    eprintln!("unpacking {package} into {}: {why}", folder.display());
    std::fs::create_dir_all(archives.join("partial")).with_context(|| format!("cannot make {}", archives.display()))?;
    let fetched = Command::new("apt-get")
        // The folder is this user's alone.
        .args(["-o", "APT::Sandbox::User=root"])
        .args(["install", "--yes", "--no-install-recommends", "--download-only", "-o"])
        .arg(format!("Dir::Cache::archives={}", archives.display()))
        .args(options)
        .arg(package)
        .stdout(std::process::Stdio::null())
        .status();
    ensure!(fetched.is_ok_and(|status| status.success()), "apt-get could not fetch {package}");
    for entry in std::fs::read_dir(&archives)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            let unpacked = Command::new("dpkg").arg("-x").args([&archive, &root]).status();
            ensure!(unpacked.is_ok_and(|status| status.success()), "dpkg could not unpack {}", archive.display());
        }
    }
    std::fs::remove_dir_all(&archives)?;
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let libraries = ["usr/lib", "lib"].map(|part| root.join(part).join(&triple).display().to_string()).join(":");
    let path = folder.join(program);
    let run = root.join("usr/bin").join(program);
    let text = format!("#!/bin/sh\nLD_LIBRARY_PATH='{libraries}' exec '{}' \"$@\"\n", run.display());
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(path)
}

/// Version of a QEMU, major and minor.
pub fn qemu_version(path: &Path) -> Option<(u32, u32)> {
    let text = output(Command::new(path).arg("--version"))?;
    text.contains("QEMU").then(|| numbers(&text))?
}

/// How a newer QEMU is had.
const NEWER: &str = "`apt-get install -t CODENAME-backports qemu-system-arm` as root, or name one by FUSEE_QEMU";

/// Why this QEMU cannot run a board that newer ones can.
pub fn too_old(qemu: &Path, board: &Board) -> Option<String> {
    let since = board.qemu.since?;
    let (major, minor) = qemu_version(qemu)?;
    (major < since).then(|| format!("QEMU {major}.{minor} has no {}; {since}.0 or newer has: {NEWER}", board.name))
}

/// The QEMU for `board`: `qemu`, or if that is too old and was not named, a newer one that is unpacked beside it, from the backports of the system's
/// own sources of packages. `qemu` if there is none.
pub fn qemu_for(board: &Board, qemu: PathBuf, install: bool) -> PathBuf {
    if too_old(&qemu, board).is_none() || std::env::var_os("FUSEE_QEMU").is_some() {
        return qemu;
    }
    newer(install).filter(|newer| too_old(newer, board).is_none()).unwrap_or(qemu)
}

/// Unpacks the packages that [`turning`] may look for, if installing is allowed.
pub fn prepare_turning(board: &Board, qemu: &Path, install: bool) {
    let mut since = board.profiles.values().filter_map(|profile| Some(profile.fair.as_ref()?.since));
    if std::env::var_os("FUSEE_QEMU").is_none() && since.any(|since| !is_since(qemu, since)) {
        newer(install);
    }
}

/// The QEMU that lets so many CPUs of `board` take turns: `qemu`, or if that is too old and was not named, the newer one beside it.
///
/// # Errors
/// Neither does.
pub fn turning(qemu: &Path, board: &Board, profile: Profile, cpus: u32) -> Result<PathBuf> {
    let Some(fair) = board.fair(profile, cpus).filter(|fair| !is_since(qemu, fair.since)) else {
        return Ok(qemu.to_owned());
    };
    let named = std::env::var_os("FUSEE_QEMU").is_some();
    newer(false).filter(|newer| !named && is_since(newer, fair.since)).with_context(|| {
        let (major, minor) = qemu_version(qemu).unwrap_or_default();
        let since = fair.since;
        format!(
            "QEMU {major}.{minor} lets {cpus} CPUs of a {} not take turns; {since}.0 or newer does: {}",
            board.name, NEWER
        )
    })
}

/// Whether this QEMU is of version `since` or newer.
fn is_since(qemu: &Path, since: u32) -> bool {
    qemu_version(qemu).is_some_and(|(major, _)| major >= since)
}

/// The newer QEMU that is unpacked beside ours, if there is one or it can be had.
fn newer(install: bool) -> Option<PathBuf> {
    let folder = beside()?.join("backports");
    let newer = folder.join(QEMU);
    if qemu_version(&newer).is_none() && install && is_root() {
        let unpacked = backports(&folder)
            .and_then(|options| unpack(&folder, QEMU_PACKAGE, QEMU, &options, "no other QEMU is touched"));
        // The lists are large, and old by the next time.
        let _ = std::fs::remove_dir_all(folder.join("lists"));
        if let Err(error) = unpacked {
            eprintln!("no newer QEMU: {error:#}");
        }
    }
    qemu_version(&newer).map(|_| newer)
}

/// Options by which `apt-get` knows the backports of the system's sources, and nothing of it changes: their lists are in `folder`.
fn backports(folder: &Path) -> Result<Vec<String>> {
    let format = "$(CREATED_BY) $(COMPONENT) $(CODENAME) $(RELEASE) $(REPO_URI)";
    let targets = output(Command::new("apt-get").args(["indextargets", "--format", format])).unwrap_or_default();
    let main = targets.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["Packages", "main", codename, release, uri] if codename == release => {
            Some((codename.to_owned(), uri.to_owned()))
        }
        _ => None,
    });
    let (codename, uri) = main.context("apt-get knows no source of packages with a component `main`")?;
    let (sources, lists) = (folder.join("sources.list"), folder.join("lists"));
    std::fs::create_dir_all(lists.join("partial")).with_context(|| format!("cannot make {}", lists.display()))?;
    let key = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
    let key = if key.exists() { format!(" [signed-by={}]", key.display()) } else { String::new() };
    let line = |release: &str| format!("deb{key} {uri} {release} main\n");
    std::fs::write(&sources, line(&codename) + &line(&format!("{codename}-backports")))?;
    let mut options: Vec<String> = Vec::new();
    for (option, value) in [
        ("Dir::Etc::sourcelist", sources.display().to_string()),
        ("Dir::Etc::sourceparts", "-".into()),
        ("Dir::State::lists", lists.display().to_string()),
        ("Dir::Cache::pkgcache", String::new()),
        ("Dir::Cache::srcpkgcache", String::new()),
        // No other process uses the folder.
        ("APT::Sandbox::User", "root".into()),
        ("APT::Default-Release", format!("{codename}-backports")),
    ] {
        options.extend(["-o".to_owned(), format!("{option}={value}")]);
    }
    // Before there are lists, no release is known that could be the default.
    let known = options.len() - 2;
    let updated =
        Command::new("apt-get").arg("update").args(&options[..known]).stdout(std::process::Stdio::null()).status();
    ensure!(updated.is_ok_and(|status| status.success()), "apt-get could not read {codename}-backports");
    Ok(options)
}

//--- gdb

const GDB: &str = "gdb-multiarch";

/// The gdb to use: one that knows AArch64.
pub fn find_gdb(install: bool) -> Result<PathBuf> {
    let named = std::env::var_os("FUSEE_GDB").map(PathBuf::from);
    let is_named = named.is_some();
    let path = named.unwrap_or_else(|| GDB.into());
    let runs = || output(Command::new(&path).args(["-nx", "-batch", "-ex", "set architecture aarch64"])).is_some();
    if !runs() && install && !is_named && is_root() {
        install_packages(&[GDB])?;
    }
    match runs() {
        true => Ok(path),
        false if is_named => bail!("FUSEE_GDB={}: this is no gdb that knows AArch64", path.display()),
        false => bail!("{GDB} is not installed: `apt-get install {GDB}` as root, or name another by FUSEE_GDB"),
    }
}

//--- Small things

/// The first two numbers of the first word that looks like a version.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = word.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn has_core(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libcore-") && name.ends_with(".rlib")
    })
}

/// The output of a command that succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

/// Installs packages that a check can do without, if we are root.
pub fn try_install(packages: &[&str]) {
    if is_root()
        && let Err(error) = install_packages(packages)
    {
        eprintln!("{error}");
    }
}

fn install_packages(packages: &[&str]) -> Result<()> {
    eprintln!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        let output = command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C").output();
        match output {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(error.to_string()),
        }
    };
    let install = [&["install", "--yes", "--no-install-recommends", "--no-remove"], packages].concat();
    let Some(mut why) = apt(&install) else { return Ok(()) };
    // The lists of packages may be old; but newer ones change nothing if another package is in the way.
    if !why.contains(IN_THE_WAY) && apt(&["update"]).is_none() {
        let Some(again) = apt(&install) else { return Ok(()) };
        why = again;
    }
    bail!(
        "apt-get could not install {}: {}",
        packages.join(" "),
        why.trim().lines().next().unwrap_or("it does not say why")
    )
}

/// The words of `apt-get` if a package is in the way of another.
const IN_THE_WAY: &str = "remove is disabled";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_qemu_is_used_or_refused_and_nothing_is_installed_in_its_place() {
        for path in ["/nope/qemu", "/bin/true", "/bin/ls"] {
            let error = qemu_at(Some(path.into()), true).unwrap_err().to_string();
            assert!(error.starts_with(&format!("FUSEE_QEMU={path}: this is no QEMU that runs")), "{error}");
        }
    }

    #[test]
    fn versions_are_read_from_what_programs_print() {
        assert_eq!(numbers("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), Some((7, 2)));
        assert_eq!(numbers("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
        assert_eq!(numbers("no version"), None);
    }
}
