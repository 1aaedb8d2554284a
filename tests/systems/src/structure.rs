//! Conditions that must stay true of the tree and of the kernel's size, checked like a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fusee_host::meter;
use fusee_host::project::cargo;

/// Crates that must forbid `unsafe`: policy, the kernel's core, the device model, and programs that write to disks.
const SAFE: [&str; 24] = [
    "kernel/abi",
    "kernel/core",
    "sched",
    "sched/analysis",
    "sched/arrangements",
    "locking",
    "accel",
    "accel/compute",
    "accel/contract",
    "accel/library",
    "accel/sharing",
    "accel/spatial",
    "accel/vgpu",
    "docs/examples/picture-kernels",
    "qemu/device-model",
    "qemu/wrong-kernels",
    "drivers/r5f/commands",
    "drivers/stream/frames",
    "tools/card",
    "userland/car/kernels",
    "userland/car/model",
    "userland/graph",
    "userland/vision",
    "userland/vision/kernels",
];

/// Where `unsafe` may stand: hardware, boards, system-call stubs and shared memory, mappings and signals of programs on the host, the trait of the crate `defmt`, registers of
/// devices and memory that devices reach, the firmware that plays hardware and that of a processor beside the kernel's, and the functions of QEMU that the
/// profiler calls and is called by.
const UNSAFE: [&str; 13] = [
    "kernel/aarch64/",
    "bsp/",
    "qemu/engine-core/",
    "drivers/r5f/firmware/",
    "userland/fusee/src/defmt_logger.rs",
    "userland/fusee/src/door.rs",
    "userland/fusee/src/heap.rs",
    "userland/fusee/src/syscall.rs",
    "userland/fusee/src/memory.rs",
    "userland/fusee/src/misbehave.rs",
    "drivers/framework/src/registers.rs",
    "drivers/framework/src/virtio",
    "tools/profiler/src/interface.rs",
];

/// Checks the sources under `root`. Returns the broken conditions.
pub fn sources(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for folder in SAFE {
        let text = std::fs::read_to_string(root.join(folder).join("src/lib.rs")).context(folder)?;
        if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
            problems.push(format!("{folder}/src/lib.rs does not forbid unsafe code"));
        }
    }
    for folder in ["accel", "bsp", "drivers", "kernel", "locking", "qemu", "sched", "tools", "userland"] {
        for path in files(&root.join(folder), "rs")? {
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if UNSAFE.iter().any(|allowed| name.starts_with(allowed)) || name.ends_with("structure.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                // Text between quotes is no code.
                let mut words = code.split('"').step_by(2).flat_map(str::split_whitespace);
                let bare = words.any(|word| word == "unsafe" || word.starts_with("unsafe{"));
                // The entry macro expands in a task, and the task's own code forbids `unsafe` otherwise.
                if bare && name != "userland/fusee/src/lib.rs" {
                    problems.push(format!("{name}:{}: unsafe code where none may be", number + 1));
                }
            }
        }
    }
    let modules = kernel_modules(&root.join("kernel/core/src"))?;
    problems.extend(floors(&modules));
    Ok(problems)
}

/// A module of the kernel's core.
struct Module {
    name: String,
    /// Its folder below `src`; the module that declares the others of a folder belongs there. Empty: it belongs to none.
    folder: String,
    text: String,
}

/// The modules in this folder, without those that only declare others.
fn kernel_modules(source: &Path) -> Result<Vec<Module>> {
    let mut modules = Vec::new();
    for path in files(source, "rs")? {
        let name = path.file_stem().context("a name")?.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path)?;
        let declares_only =
            code(&text).all(|line| line.trim().is_empty() || line.contains("mod ") && line.ends_with(';'));
        if name.ends_with("_tests") || declares_only {
            continue;
        }
        let folder = if path.with_extension("").is_dir() { path.with_extension("") } else { path.with_file_name("") };
        let folder = folder.strip_prefix(source)?.to_string_lossy().trim_end_matches('/').to_owned();
        modules.push(Module { name, folder, text });
    }
    Ok(modules)
}

/// The kernel's modules stand one above the other: calls of methods, and names of other modules, go to the own one and downward
/// only. The order is that of the table in `lib.rs`, the lowest first; the table also has the folder of each.
fn floors(sources: &[Module]) -> Vec<String> {
    let map = sources.iter().find(|source| source.name == "lib").map_or("", |source| source.text.as_str());
    let rows = map.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let mut floor_of: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (floor, row) in rows.enumerate() {
        let mut cells = row.split(" | ").map(|cell| cell.trim_matches('`'));
        if let (Some(module), Some(folder)) = (cells.next(), cells.next()) {
            floor_of.insert(module, (floor, folder));
        }
    }
    let mut problems = Vec::new();
    // Which module each method of the kernel is in.
    let mut homes: BTreeMap<&str, &str> = BTreeMap::new();
    for Module { name, folder, text } in sources {
        match floor_of.get(name.as_str()) {
            None => problems.push(format!("kernel/core/src/{folder}: `{name}` has no floor in the table of lib.rs")),
            Some((_, said)) if said != folder => {
                problems.push(format!("kernel/core/src/{folder}: the table of lib.rs has `{name}` in `{said}`"));
            }
            Some(_) => {}
        }
        homes.extend(methods(text).map(|method| (method, name.as_str())));
    }
    for Module { name, text, .. } in sources {
        let Some((own, _)) = floor_of.get(name.as_str()) else { continue };
        for (number, line) in code(text).enumerate() {
            let calls = ["self.", "kernel.", "Self::", "Kernel::"].into_iter();
            let called = calls.flat_map(|before| named(line, before)).filter(|(_, rest)| rest.starts_with(['(', ':']));
            let called = called.filter_map(|(name, _)| homes.get(name).copied());
            // The last module of a path: `crate::ipc::replies::ReplySlot` is of `replies`.
            let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let paths = line.match_indices("crate::").map(|(at, found)| &line[at + found.len()..]);
            let paths = paths.map(|rest| &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())]);
            let modules = paths.filter_map(|path| path.split("::").filter(|name| floor_of.contains_key(name)).last());
            for other in called.chain(modules) {
                if floor_of.get(other).is_some_and(|(floor, _)| floor > own) {
                    problems.push(format!("{name}.rs:{}: `{other}` is above `{name}`", number + 1));
                }
            }
        }
    }
    problems
}

// --- The sources that a user's project compiles

/// The name of the check.
pub const LINES: &str = "a user's project compiles few lines of tools";
/// Lines that it may compile. What few users need is a program of its own, built when it is first asked for.
const MOST_LINES: usize = 30_000;

/// Counts the lines of `tools` that a project outside the repository compiles before it runs a system, without tests: the sum in words, and the
/// faults.
///
/// # Errors
/// Cargo cannot read the workspace, or a file cannot be read.
pub fn lines(root: &Path) -> Result<(String, Vec<String>)> {
    let mut command = cargo();
    command.args(["tree", "--offline", "--prefix", "none", "--format", "{p}", "--edges", "normal"]);
    let output = meter::output(command.args(["--package", "fusee-tool"]).current_dir(root))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tools = root.join("tools").canonicalize()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let folders = text.lines().filter_map(|line| line.split_once(" (")?.1.split_once(')').map(|(path, _)| path));
    let folders: BTreeSet<PathBuf> = folders.map(PathBuf::from).filter(|path| path.starts_with(&tools)).collect();
    ensure!(!folders.is_empty(), "the tool has no packages in {}", tools.display());
    let (mut all, mut parts) = (0, Vec::new());
    for folder in folders {
        let mut sum = 0;
        let files = files(&folder.join("src"), "rs")?;
        let texts = files.iter().map(std::fs::read_to_string).collect::<std::io::Result<Vec<_>>>()?;
        let tests: BTreeSet<&str> = texts.iter().flat_map(|text| test_modules(text)).collect();
        for (path, text) in files.iter().zip(&texts) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            sum += if tests.contains(&*name) { 0 } else { compiled(text) };
        }
        parts.push(format!("{sum} of {}", folder.file_name().unwrap_or_default().to_string_lossy()));
        all += sum;
    }
    let words = format!("{all} lines, {MOST_LINES} at most: {}", parts.join(", "));
    let problem = (all > MOST_LINES).then(|| format!("{words}; what few users need goes to a program of its own"));
    Ok((words, problem.into_iter().collect()))
}

/// The line before a module of tests.
const TEST: &str = "#[cfg(test)]";

/// The modules of a file that are compiled for tests only and are files of their own.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let pairs = text.lines().zip(text.lines().skip(1));
    pairs.filter_map(|(line, next)| {
        let name = next.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?;
        (line == TEST).then_some(name)
    })
}

/// The number of lines of a file without those compiled for tests only.
fn compiled(text: &str) -> usize {
    let mut lines = text.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        if line.trim() != TEST {
            count += 1;
            continue;
        }
        let Some(item) = lines.by_ref().find(|line| !line.trim_start().starts_with("#[")) else { break };
        if !item.ends_with(';') && !item.ends_with('}') {
            let end = format!("{}}}", &item[..item.len() - item.trim_start().len()]);
            lines.by_ref().find(|line| *line == end);
        }
    }
    count
}

//--- Text of sources

/// The lines of a file up to its tests, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]" || text.contains("extern crate std"));
    lines.map(|line| line.split("//").next().unwrap_or_default())
}

/// The methods in blocks of `impl Kernel`.
fn methods(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.lines().filter_map(move |line| {
        if !line.starts_with(' ') && !line.is_empty() {
            is_inside = line.starts_with("impl Kernel {");
        }
        let (before, rest) =
            line.split_once("fn ").filter(|_| is_inside && line.starts_with("    ") && !line.starts_with("     "))?;
        let is_method = before.split_whitespace().all(|word| word == "const" || word.starts_with("pub"));
        is_method.then(|| rest.split(['(', '<']).next()).flatten()
    })
}

/// The names that follow `before` in a line, and the rest of the line after each.
fn named<'a>(line: &'a str, before: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let places = line.match_indices(before).filter(move |(at, _)| !line[..*at].ends_with(is_word));
    places.map(move |(at, found)| {
        let rest = &line[at + found.len()..];
        rest.split_at(rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()))
    })
}

/// The files below `folder` with this ending, in order; folders of builds are left out.
pub(crate) fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        match path.is_dir() {
            // A build marks its folder as one that backups leave out.
            true if path.join("CACHEDIR.TAG").exists() => {}
            true => found.extend(files(&path, ending)?),
            false if path.extension().is_some_and(|own| own == ending) => found.push(path),
            false => {}
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, text: &str) -> Module {
        Module { name: name.to_owned(), folder: String::new(), text: text.to_owned() }
    }

    #[test]
    fn lines_that_are_compiled_are_those_without_tests() {
        let text = "mod a;\n#[cfg(test)]\nmod random;\nfn f() {\n    #[cfg(test)]\n    {\n        g();\n    }\n}\n#[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n}\n";
        assert_eq!(compiled(text), 3);
        assert_eq!(test_modules(text).collect::<Vec<_>>(), ["random"]);
        assert_eq!(test_modules("mod a;\n").count(), 0);
    }

    #[test]
    fn the_sources_are_as_they_must_be() {
        let problems = sources(&fusee_host::system::root().unwrap()).unwrap();
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn a_call_of_what_is_above_is_found() {
        let table = "//! | `low` |  | a |\n//! | `other` |  | b |\n//! | `high` | up | b |\n//! | `lib` |  | c |\n";
        let top = format!("{table}impl Kernel {{\n    pub fn top(&self) {{\n        self.step();\n    }}\n}}\n");
        let high = "impl Kernel {\n    pub(crate) fn step<M>(&self) {\n        self.below() // self.top()\n    }\n}\n";
        let low = "use crate::folder::other::Name;\nimpl Kernel {\n    fn below(&self) {\n        self.fields.step();\n        self.step();\n    }\n}\n";
        let files = [("lib", top.as_str()), ("high", high), ("low", low), ("new", "")];
        let found = floors(&files.map(|(name, text)| module(name, text)));
        assert_eq!(
            found,
            [
                "kernel/core/src/: the table of lib.rs has `high` in `up`",
                "kernel/core/src/: `new` has no floor in the table of lib.rs",
                "low.rs:1: `other` is above `low`",
                "low.rs:5: `high` is above `low`",
            ]
        );
    }
}
