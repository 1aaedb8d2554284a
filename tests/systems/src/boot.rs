//! Whether a board starts however it is entered, and whether a start that goes wrong says so: one line and an exit code, not silence.

use std::mem::offset_of;
use std::path::Path;

use anyhow::{Context, Result};
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::Reg;
use dtoolkit::{Node as _, Property as _};
use fusee_abi::image::{Header, seal};
use fusee_manifest::{Board, Conduit, DeviceKind, Manifest, Profile};

use fusee_host::system::{self, Image, Run, RunOptions, Workspace};

use crate::refusal;

/// The name of a check.
pub const ENTRIES: &str = "each board starts at each exception level";
/// The name of another.
pub const MISTAKES: &str = "a start that goes wrong says why";

/// The name of a third.
pub const PANICS: &str = "after a panic the board does what the manifest says";

/// The name of a fourth.
pub const TREES: &str = "the files of boards agree with the device trees that QEMU makes";

/// Host seconds for a run that should be over at once.
const SECONDS: u64 = 60;
/// The exit code of QEMU when the kernel does not start.
const REFUSED: i32 = 101;

/// A system for two CPUs that ends itself.
pub fn small_system(workspace: &Workspace, board: &str, name: &str) -> Result<Image> {
    system_with(workspace, board, name, "")
}

/// A system as above with more keys of `[system]`.
fn system_with(workspace: &Workspace, board: &str, name: &str, keys: &str) -> Result<Image> {
    let text = format!(
        "[system]\nname = \"{name}\"\nboard = \"{board}\"\ncpus = 2\n{keys}\n\
         [tasks.worker]\nscript = [\"burn 1ms\"]\nperiod = \"5ms\"\nbudget = \"2ms\"\n\
         [tasks.end]\nscript = [\"shutdown\"]\nperiod = \"1s\"\nphase = \"50ms\"\nbudget = \"2ms\"\n\
         handles = {{ system = \"system: shutdown\" }}\n"
    );
    let manifest = Manifest::parse(Path::new(name), &text)?;
    let programs = workspace.builder().programs(&[&manifest.system])?;
    workspace.image_of(manifest, programs, Profile::Par, false)
}

/// Boards with a machine that has all exception levels, if asked.
const BOARDS: [&str; 2] = ["virt", "zcu102"];
/// Additions to the machine: at EL2, at EL1, and both with a secure world above.
const WAYS: [&str; 4] = ["", ",virtualization=off", ",secure=on", ",virtualization=off,secure=on"];

/// Starts the same image in each way.
pub fn check_entries(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for board in BOARDS {
        let mut image = small_system(workspace, board, "starts_at_each_level")?;
        let machine = image.manifest.system.board.qemu.machine.clone();
        for way in WAYS {
            image.manifest.system.board.qemu.machine = machine.clone() + way;
            let run = system::run(workspace, &image, &RunOptions::quiet(SECONDS))?;
            if run.outcome.code != Some(0) {
                problems.push(format!(
                    "{board}{way}: ended with {:?}, console:\n{}",
                    run.outcome.code, run.outcome.console
                ));
            }
        }
    }
    Ok(problems)
}

/// Starts with these arguments, and nothing that QEMU would enter by itself.
fn entering(arguments: &[String]) -> RunOptions<'static> {
    RunOptions { enters: false, arguments: arguments.to_vec(), ..RunOptions::quiet(SECONDS) }
}

/// Makes each mistake.
pub fn check_mistakes(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let image = || small_system(workspace, "virt", "does_not_start");
    let at = image()?.manifest.system.board.memory.kernel;
    let mut look = |name: &str, words: &str, run: Run| {
        let told = run.outcome.console.lines().filter(|line| line.contains(words)).count();
        if run.outcome.code != Some(REFUSED) || told != 1 {
            let (code, console) = (run.outcome.code, run.outcome.console);
            problems.push(format!("{name}: ended with {code:?}; `{words}` was not said once:\n{console}"));
        }
    };

    let moved = image()?;
    let loader = format!("loader,file={},addr={:#x},cpu-num=0,force-raw=on", moved.path.display(), at + (32 << 20));
    let options = entering(&["-device".into(), loader]);
    let words = format!("it is loaded at {:#x} and linked for {at:#x}", at + (32 << 20));
    look("loaded where it is not linked", &words, system::run(workspace, &moved, &options)?);

    let mut above = image()?;
    above.manifest.system.board.qemu.machine += ",secure=on";
    // An ELF file is no Linux to QEMU: it is entered at the highest level.
    let kernel = above.programs.kernel.display().to_string();
    let run = system::run(workspace, &above, &entering(&["-kernel".into(), kernel]))?;
    look("entered by what should be its firmware", "it was entered at EL3", run);

    let mut small = image()?;
    let memory = &mut small.manifest.system.board.memory;
    let end = memory.base + memory.bytes.0;
    memory.bytes.0 /= 2;
    let words = format!("there is no memory at {:#x}", end - 8);
    // The header says how much memory there must be, and QEMU reads it.
    let mut bytes = std::fs::read(&small.path)?;
    let length = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    small.path.set_extension("small.img");
    std::fs::write(&small.path, bytes)?;
    look("half of its memory", &words, system::run(workspace, &small, &RunOptions::quiet(SECONDS))?);

    let mut other = image()?;
    let machine = &mut other.manifest.system.board.qemu.machine;
    *machine = machine.replace("gic-version=3", "gic-version=2");
    let words = "no interrupt controller where the board has one";
    look("another interrupt controller", words, system::run(workspace, &other, &RunOptions::quiet(SECONDS))?);

    let mut unset = image()?;
    for argument in &mut unset.manifest.system.board.qemu.arguments {
        *argument = argument.replace("cntfrq=1000000000", "cntfrq=1000");
    }
    let words = "CNTFRQ_EL0 says 1000 Hz: the firmware has not set it";
    look("a counter that is not set", words, system::run(workspace, &unset, &RunOptions::quiet(SECONDS))?);

    let alone = RunOptions { arguments: ["-smp", "1"].map(str::to_owned).to_vec(), ..RunOptions::quiet(SECONDS) };
    let words = "the firmware does not start CPU 1 of the board";
    look("a CPU that is not there", words, system::run(workspace, &image()?, &alone)?);

    let image = image()?;
    let tree = tree_of_another_board(workspace, &image)?;
    let options = RunOptions { arguments: vec!["-dtb".into(), tree], ..RunOptions::quiet(SECONDS) };
    let words = "the device tree is of another board";
    look("another board's tree", words, system::run(workspace, &image, &options)?);
    Ok(problems)
}

/// Spoils the packed system, so that the kernel panics, and looks at the consequences. Runs end when the board is reset.
pub fn check_panics(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let firmware_and_watchdog = ["virt", "raspi3b"];
    for board in firmware_and_watchdog {
        for (panic, code) in [("end", Some(REFUSED)), ("reset", Some(0)), ("halt", None)] {
            let mut image = system_with(workspace, board, "panics", &format!("panic = \"{panic}\""))?;
            let mut bytes = std::fs::read(&image.path)?;
            let header = refusal::packed(&bytes)?;
            let cpus = header + offset_of!(Header, cpus);
            bytes[cpus..cpus + 4].copy_from_slice(&99_u32.to_le_bytes());
            seal(&mut bytes[header..]).context("no packed system")?;
            image.path.set_extension("spoilt.img");
            std::fs::write(&image.path, bytes)?;
            // One that stays as it is has to be ended.
            let seconds = if code.is_none() { 5 } else { SECONDS };
            let run = system::run(workspace, &image, &RunOptions::quiet(seconds))?;
            if run.outcome.code != code || !run.outcome.console.contains("a system for 99 CPUs") {
                let (code, console) = (run.outcome.code, run.outcome.console);
                problems.push(format!("{board}, {panic}: ended with {code:?}, console:\n{console}"));
            }
        }
    }
    Ok(problems)
}

/// The device tree of QEMU's board, which says that it is another: the path of the file.
fn tree_of_another_board(workspace: &Workspace, image: &Image) -> Result<String> {
    let path = image.path.with_extension("dtb");
    let mut bytes = device_tree(workspace, &image.manifest.system.board, &path)?;
    let (ours, others) = (b"linux,dummy-virt\0", b"other,dummy-virt\0");
    for at in 0..bytes.len() - ours.len() {
        if bytes[at..].starts_with(ours) {
            bytes[at..at + others.len()].copy_from_slice(others);
        }
    }
    std::fs::write(&path, bytes)?;
    Ok(path.display().to_string())
}

/// The device tree that QEMU makes of a board; it is at `path`, too.
fn device_tree(workspace: &Workspace, board: &Board, path: &Path) -> Result<Vec<u8>> {
    let machine = format!("{},dumpdtb={}", board.qemu.machine, path.display()).replace(",memory-backend=ram", "");
    let output = std::process::Command::new(&workspace.qemu)
        .args(["-machine", &machine, "-m", &format!("{}M", board.ram() >> 20), "-display", "none"])
        .args(&board.qemu.arguments)
        .args(board.smmu.iter().flat_map(|smmu| &smmu.qemu.arguments))
        .output()
        .with_context(|| workspace.qemu.display().to_string())?;
    std::fs::read(path).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Boards of which QEMU makes a device tree.
const WITH_TREES: [&str; 3] = ["virt", "virt-gicv2", "versal"];

/// A node of a device tree that has addresses.
struct Node {
    name: String,
    ranges: Vec<(u64, u64)>,
    /// Numbers of the shared interrupts of a GIC.
    lines: Vec<u32>,
}

/// All nodes with addresses, from this one on.
fn nodes(node: FdtNode<'_>, found: &mut Vec<Node>) -> Result<()> {
    if let Some(ranges) = node.reg()? {
        let range = |one: Reg<'_>| anyhow::Ok((one.address::<u64>()?, one.size::<u64>()?));
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]])).collect()
        };
        let interrupts = node.property("interrupts").map(|property| words(property.value())).unwrap_or_default();
        // Three cells: 0 for a shared interrupt, its number from 32 on, how it tells.
        let lines = interrupts.chunks_exact(3).filter(|cells| cells[0] == 0).map(|cells| cells[1] + 32).collect();
        // A CPU has a number in place of an address.
        let ranges = ranges.map(range).collect::<Result<_>>().unwrap_or_default();
        found.push(Node { name: node.name().to_owned(), ranges, lines });
    }
    node.children().try_for_each(|child| nodes(child, found))
}

/// Compares the files of boards with QEMU's own device trees.
pub fn check_trees(workspace: &Workspace) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for name in WITH_TREES {
        let board = Board::named(name).context(name)?;
        let path = workspace.project.kept(&format!("{name}.dtb"))?;
        let bytes = device_tree(workspace, &board, &path)?;
        // Not verified first: QEMU's tree of versal has names of properties that the specification forbids.
        let tree = Fdt::new_unchecked(&bytes);
        let mut found = Vec::new();
        nodes(tree.root(), &mut found)?;
        let mut wrong = |what: &str| problems.push(format!("{name}: {what}"));
        let at = |address: u64| found.iter().filter(move |node| node.ranges.iter().any(|range| range.0 == address));
        let compatible =
            tree.root().compatible().is_some_and(|mut all| all.any(|one| Some(one) == board.tree.as_deref()));
        if !compatible {
            wrong("`tree` is not what the tree is compatible with");
        }
        let memory = found.iter().filter(|node| node.name.starts_with("memory"));
        let has_memory = |node: &Node| node.ranges.iter().any(|range| *range == (board.memory.base, board.ram()));
        if !memory.into_iter().any(has_memory) {
            wrong("the tree has other memory");
        }
        let controller = &board.controller;
        for address in [controller.distributor, controller.cpu, board.console.at].into_iter().chain(controller.its) {
            if at(address).next().is_none() {
                wrong(&format!("the tree has nothing at {address:#x}"));
            }
        }
        if let Some(smmu) = &board.smmu {
            let is_it = |node: &&Node| node.lines.contains(&smmu.line);
            if at(smmu.at).find(is_it).is_none() {
                wrong(&format!("the tree has no SMMU at {:#x} with line {}", smmu.at, smmu.line));
            }
        }
        for (device, place) in &board.devices {
            // Of these the tree has the parts, or nothing.
            if matches!(place.kind, DeviceKind::R5f) {
                continue;
            }
            // Of devices on PCI it has the bridge, by the start of its windows, and with the room of all configuration spaces.
            if matches!(place.kind, DeviceKind::Edu | DeviceKind::Pci) {
                let has = |node: &Node| {
                    let mut spaces = node.ranges.iter().map(|(from, bytes)| *from..from + bytes);
                    node.name == format!("pcie@{:x}", place.at) || spaces.any(|space| space.contains(&place.at))
                };
                if !found.iter().any(|node| node.name.starts_with("pcie") && has(node)) {
                    wrong(&format!("the tree has no bridge where `{device}` is, at {:#x}", place.at));
                }
                continue;
            }
            let Some(node) = at(place.at).next() else {
                wrong(&format!("the tree has nothing where `{device}` is, at {:#x}", place.at));
                continue;
            };
            if place.line.is_some_and(|line| !node.lines.contains(&line)) {
                wrong(&format!("`{device}` has lines {:?} in the tree ({})", node.lines, node.name));
            }
        }
        let psci =
            tree.find_node("/psci").and_then(|node| node.property("method").map(|method| method.value().to_vec()));
        let said = match board.cpus.conduit {
            Some(Conduit::Smc) => psci.as_deref() == Some(b"smc\0"),
            Some(Conduit::Hvc) => psci.as_deref() == Some(b"hvc\0"),
            Some(Conduit::Tree) => psci.is_some(),
            None => psci.is_none(),
        };
        // QEMU says nothing of it for a machine when it plays the firmware itself.
        if !said && psci.is_some() {
            wrong("PSCI is called otherwise");
        }
    }
    Ok(problems)
}
