//! From the file of a board to constants, for the kernel and for the linker scripts of all dependents of this crate.
//!
//! `FUSEE_BOARD` is the path of the file; without it the board is `boards/virt.toml`.

use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The memory that the kernel maps for itself ends at a multiple of so many bytes.
const MAPPED: u64 = 256 << 20;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FUSEE_BOARD");
    println!("cargo::rustc-check-cfg=cfg(controller, values(\"gicv3\", \"gicv2\", \"bcm2836\"))");
    println!("cargo::rustc-check-cfg=cfg(console, values(\"pl011\", \"cadence\"))");
    let own = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("boards/virt.toml");
    let path = env::var_os("FUSEE_BOARD").map_or(own, PathBuf::from);
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let board: Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let board = Board { path: &path, board: &board };

    println!("cargo::rustc-cfg=controller=\"{}\"", board.choice("controller.kind", &["gicv3", "gicv2", "bcm2836"]));
    println!("cargo::rustc-cfg=console=\"{}\"", board.choice("console.kind", &["pl011", "cadence"]));
    let errata = board.get("cpus.errata").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    println!("cargo::metadata=errata={}", errata.iter().map(Value::to_string).collect::<Vec<_>>().join(" "));
    println!("cargo::metadata=start={}", board.choice("cpus.start", &["psci", "spin-table"]));

    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let write = |name: &str, text: String| {
        let path = out.join(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    write("board.rs", board.constants());
    // For linker scripts, which are read after it.
    let symbols = [("IMAGE", "memory.kernel"), ("KERNEL_MEMORY", "memory.kernel_end"), ("FIRMWARE", "memory.firmware")];
    let places = symbols.map(|(symbol, key)| format!("{symbol} = {:#x};\n", board.number(key))).concat();
    println!("cargo::metadata=places={}", write("places.ld", places).display());
}

struct Board<'a> {
    path: &'a Path,
    board: &'a Table,
}

impl Board<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        let (first, rest) = key.split_once('.').unwrap_or((key, ""));
        let value = self.board.get(first)?;
        if rest.is_empty() { Some(value) } else { value.get(rest) }
    }

    fn missing(&self, key: &str, what: &str) -> ! {
        panic!("{}: `{key}` is {what}", self.path.display())
    }

    fn number(&self, key: &str) -> u64 {
        let number = self.get(key).and_then(Value::as_integer).and_then(|number| u64::try_from(number).ok());
        number.unwrap_or_else(|| self.missing(key, "not a number"))
    }

    /// A length, such as `64MiB`.
    fn length(&self, key: &str) -> u64 {
        let text = self.get(key).and_then(Value::as_str).and_then(|text| text.strip_suffix("MiB"));
        let number: Option<u64> = text.and_then(|number| number.trim().parse().ok());
        number.map_or_else(|| self.missing(key, "not a number of MiB"), |number| number << 20)
    }

    fn choice(&self, key: &str, choices: &[&str]) -> &str {
        let word = self.get(key).and_then(Value::as_str).filter(|word| choices.contains(word));
        word.unwrap_or_else(|| self.missing(key, &format!("none of {}", choices.join(", "))))
    }

    fn constants(&self) -> String {
        let mut out = String::new();
        let mut constant = |comment: &str, name: &str, kind: &str, value: String| {
            let _ = writeln!(out, "/// {comment}\npub const {name}: {kind} = {value};");
        };
        let name = self.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        constant("The board's name.", "NAME", "&str", format!("{name:?}"));
        let controller = self.choice("controller.kind", &["gicv3", "gicv2", "bcm2836"]);
        constant("The kind of the interrupt controller.", "CONTROLLER", "&str", format!("{controller:?}"));
        let range = |from: u64, to: u64| format!("{from:#x}..{to:#x}");
        let (from, to) = (self.number("windows.from"), self.number("windows.to"));
        constant("Windows that hold devices.", "DEVICES", "Range<u64>", range(from, to));
        let base = self.number("memory.base");
        let end = (self.number("memory.pool") + self.length("memory.pool_bytes")).next_multiple_of(MAPPED);
        constant("Memory the kernel maps for itself.", "MEMORY", "Range<u64>", range(base, end));
        let addresses = [
            ("The interrupt controller's distributor.", "DISTRIBUTOR", "controller.distributor"),
            ("The part of the interrupt controller that each CPU has for itself.", "CPU_INTERFACE", "controller.cpu"),
            ("The serial line that panics are printed on.", "CONSOLE", "console.at"),
        ];
        for (comment, name, key) in addresses {
            constant(comment, name, "u64", format!("{:#x}", self.number(key)));
        }
        let its = self.get("controller.its").map(|_| self.number("controller.its"));
        constant("The interrupt translation service, if there is one.", "ITS", "Option<u64>", format!("{its:?}"));
        let smmu = self.get("smmu.at").map(|_| self.number("smmu.at"));
        constant("The SMMU, if there is one.", "SMMU", "Option<u64>", format!("{smmu:?}"));
        let watchdog = self.get("watchdog").map(|_| self.number("watchdog"));
        constant(
            "The power management that resets the board, if its firmware does not.",
            "WATCHDOG",
            "Option<u64>",
            format!("{watchdog:?}"),
        );
        let numbers = [
            ("The interrupt number of each CPU's virtual timer.", "TIMER_INTERRUPT", "u32", "timer.virtual"),
            (
                "The interrupt number of each CPU's physical timer, which the kernel uses to nap.",
                "NAP_INTERRUPT",
                "u32",
                "timer.physical",
            ),
            ("CPUs of the board.", "CPUS", "usize", "cpus.count"),
            ("CPUs that share an affinity 1.", "CLUSTER", "usize", "cpus.per_cluster"),
        ];
        for (comment, name, kind, key) in numbers {
            constant(comment, name, kind, self.number(key).to_string());
        }
        let start = match self.choice("cpus.start", &["psci", "spin-table"]) {
            "psci" => match self.choice("cpus.conduit", &["tree", "smc", "hvc"]) {
                "tree" => "Start::AsTheTreeSays".to_owned(),
                "smc" => "Start::Firmware(crate::start::Conduit::Smc)".to_owned(),
                _ => "Start::Firmware(crate::start::Conduit::Hvc)".to_owned(),
            },
            _ => format!("Start::SpinTable({:#x})", self.number("cpus.release")),
        };
        constant("How other CPUs are started.", "START", "Start", start);
        let tree = self.get("tree").map(|tree| tree.as_str().unwrap_or_else(|| self.missing("tree", "not a text")));
        constant(
            "What a device tree of this board says it is compatible with.",
            "TREE",
            "Option<&str>",
            format!("{tree:?}"),
        );
        let owned = self.board.get("owned").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let owned: Vec<String> = owned
            .iter()
            .map(|one| {
                let number = |key: &str| {
                    one.get(key).and_then(Value::as_integer).unwrap_or_else(|| self.missing("owned", "incomplete"))
                };
                let name =
                    one.get("name").and_then(Value::as_str).unwrap_or_else(|| self.missing("owned", "incomplete"));
                format!("({name:?}, {:#x}..{:#x})", number("from"), number("to"))
            })
            .collect();
        constant(
            "Devices that are the kernel's alone, by name: a task that could write there would be the kernel.",
            "OWNED",
            &format!("[(&str, Range<u64>); {}]", owned.len()),
            format!("[{}]", owned.join(", ")),
        );
        out
    }
}
