//! The skeletons of `cargo xtask new --with`: tasks that work, with a part of the manifest and a test, added to the template.
//!
//! Each is a folder of `tools/fusee/template/with`. Its part of the manifest goes before the table `[test]`, its programs into `src/bin`. A skeleton shares no
//! name with another, so any set of them makes one system.

use clap::ValueEnum;
use fusee_host::project::MANIFEST;

/// The ways to this repository from the template, and from a package in a folder of a skeleton; each with the way from that package to its project.
pub const TO_ROOT: [(&str, &str); 2] = [("../../../", ""), ("../../../../../../", "../")];
/// The crates of this repository on which packages of a project depend, by their folders.
pub const CRATES: &[&str] = &["userland/fusee", "drivers/framework", "accel/compute", "qemu/device-model", "tools/sim"];

/// The line of the template's manifest before which skeletons are added,
const BEFORE: &str = "# The expectations of `fusee test`";
/// and the last of its table `[test]`.
const EXPECTED: &str = "no_misses = [\"beat\"]\n";
/// The length of the template's run: fifty jobs of 10 ms.
const JOBS: &str = "jobs = 50";
/// The template's dependency on the crate of tasks.
const DEPENDENCY: &str = "fusee = { path = \"../../../userland/fusee\" }\n";
/// The template's row of its program, in its README.
const ROW: &str = "| `src/bin/beat.rs` |";

/// Something that a new project has beside its periodic task.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub enum Skeleton {
    /// A server, and a client with a deadline.
    Server,
    /// A driver for a device of the board, with registers and an interrupt, and a client.
    Driver,
    /// A GPU with a kernel of the project, and a client.
    Gpu,
    /// A graph of two tasks that pass pictures.
    Graph,
}

impl Skeleton {
    /// All of them.
    pub const ALL: [Skeleton; 4] = [Skeleton::Server, Skeleton::Driver, Skeleton::Gpu, Skeleton::Graph];

    /// Those in `wanted`, each once.
    pub fn each_once(wanted: &[Skeleton]) -> Vec<Skeleton> {
        Skeleton::ALL.into_iter().filter(|skeleton| wanted.contains(skeleton)).collect()
    }

    /// Its files.
    pub fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Skeleton::Server => &[
                ("src/bin/filter.rs", include_str!("../template/with/server/src/bin/filter.rs")),
                ("src/bin/sensor.rs", include_str!("../template/with/server/src/bin/sensor.rs")),
            ],
            Skeleton::Driver => &[
                ("src/bin/clock.rs", include_str!("../template/with/driver/src/bin/clock.rs")),
                ("src/bin/waker.rs", include_str!("../template/with/driver/src/bin/waker.rs")),
            ],
            Skeleton::Gpu => &[
                ("src/bin/scaler.rs", include_str!("../template/with/gpu/src/bin/scaler.rs")),
                ("kernels/Cargo.toml", include_str!("../template/with/gpu/kernels/Cargo.toml")),
                ("kernels/src/lib.rs", include_str!("../template/with/gpu/kernels/src/lib.rs")),
            ],
            Skeleton::Graph => &[
                ("src/bin/camera.rs", include_str!("../template/with/graph/src/bin/camera.rs")),
                ("src/bin/viewer.rs", include_str!("../template/with/graph/src/bin/viewer.rs")),
            ],
        }
    }

    /// Its part of the manifest.
    const fn manifest(self) -> &'static str {
        match self {
            Skeleton::Server => include_str!("../template/with/server/system.toml"),
            Skeleton::Driver => include_str!("../template/with/driver/system.toml"),
            Skeleton::Gpu => include_str!("../template/with/gpu/system.toml"),
            Skeleton::Graph => include_str!("../template/with/graph/system.toml"),
        }
    }

    /// The tasks that miss no deadline.
    const fn in_time(self) -> &'static [&'static str] {
        match self {
            Skeleton::Server => &["sensor"],
            Skeleton::Driver => &[],
            Skeleton::Gpu => &["scaler"],
            Skeleton::Graph => &["camera", "viewer"],
        }
    }

    /// The line that its client prints if all is right.
    const fn line(self) -> &'static str {
        match self {
            Skeleton::Server => "sensor: the mean is 108",
            Skeleton::Driver => "waker: the alarm rang 0 s after the second that it was set to",
            Skeleton::Gpu => "scaler: 512 of 512 numbers are right",
            Skeleton::Graph => "viewer: picture 5 is right",
        }
    }

    /// The dependencies of its programs, beside the crate of tasks.
    const fn dependencies(self) -> &'static str {
        match self {
            Skeleton::Driver => {
                "# Registers of devices.\nfusee-driver = { path = \"../../../drivers/framework\" }\n\
                 zerocopy = { version = \"0.8\", default-features = false, features = [\"derive\"] }\n"
            }
            Skeleton::Gpu => "kernels = { path = \"kernels\", package = \"my-system-kernels\" }\n",
            Skeleton::Server | Skeleton::Graph => "",
        }
    }

    /// The rows of its files in the README.
    const fn rows(self) -> &'static str {
        match self {
            Skeleton::Server => "| `src/bin/filter.rs`, `src/bin/sensor.rs` | a server, and a client that calls it |\n",
            Skeleton::Driver => {
                "| `src/bin/clock.rs`, `src/bin/waker.rs` | a driver of a real-time clock, and a client that waits for its alarm |\n"
            }
            Skeleton::Gpu => {
                "| `kernels`, `src/bin/scaler.rs` | a kernel of the GPU, and a client that launches it |\n"
            }
            Skeleton::Graph => {
                "| `src/bin/camera.rs`, `src/bin/viewer.rs` | a graph: a task that writes pictures, and one that reads them |\n"
            }
        }
    }
}

/// The file `path` of the template with the additions of skeletons.
pub fn extend(path: &str, text: &str, skeletons: &[Skeleton]) -> String {
    let joined = |of: fn(Skeleton) -> &'static str| skeletons.iter().map(|skeleton| of(*skeleton)).collect::<String>();
    match path {
        MANIFEST if !skeletons.is_empty() => {
            let in_time = skeletons.iter().flat_map(|skeleton| skeleton.in_time());
            let in_time: Vec<&str> = std::iter::once("beat").chain(in_time.copied()).collect();
            let lines: String = skeletons.iter().map(|skeleton| format!("    {:?},\n", skeleton.line())).collect();
            let expected =
                format!("no_misses = {in_time:?}\n# Each of these lines comes once.\nconsole = [\n{lines}]\n");
            let text = text.replace(BEFORE, &(joined(Skeleton::manifest) + BEFORE)).replace(EXPECTED, &expected);
            // A second begins.
            if skeletons.contains(&Skeleton::Driver) { text.replace(JOBS, "jobs = 120") } else { text }
        }
        "Cargo.toml" => {
            let has_gpu = skeletons.contains(&Skeleton::Gpu);
            let dependency = match has_gpu {
                true => DEPENDENCY.replace(" }", ", features = [\"gpu\"] }"),
                false => DEPENDENCY.to_owned(),
            };
            let text = text.replace(DEPENDENCY, &(dependency + &joined(Skeleton::dependencies)));
            if has_gpu { text.replace("[workspace]\n", "[workspace]\nmembers = [\"kernels\"]\n") } else { text }
        }
        "README.md" => text.replace(ROW, &(joined(Skeleton::rows) + ROW)),
        _ => text.to_owned(),
    }
}
