//! The command line, and which module carries out a command.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use fusee_host::build::Kernel;
use fusee_host::system::{Workspace, board};
use fusee_host::words;
use fusee_host::{report, table};
use fusee_manifest::Profile;

use crate::{analyze, completions, doc, new, passed, run, suggest};

/// The variable by which the installed command `fusee` (`tools/launcher`) gives its name.
const CALLED: &str = "FUSEE_CALLED";

/// Build, run, test and measure Fusee.
///
/// The first use looks for a compiler that can build for AArch64, and for QEMU: first the active toolchain,
/// then `rustup target add`, then Debian's packages. Whatever is missing is named, and installed if we are root.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub everywhere: Everywhere,
}

/// Options of every command, in each of the programs that carry commands out.
#[derive(Args, Clone, Copy, Debug)]
pub struct Everywhere {
    /// Install nothing; say what is missing instead.
    #[arg(long, global = true)]
    no_install: bool,
    /// Print each table as one, with all its columns, however wide.
    #[arg(long, global = true)]
    wide: bool,
}

impl Everywhere {
    /// Makes tables wide, if they are to be.
    pub fn apply(self) {
        if self.wide {
            table::print_wide();
        }
    }

    /// Whether missing programs are installed.
    #[must_use]
    pub const fn installs(self) -> bool {
        !self.no_install
    }

    /// The options that were given, for another program.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        [(self.no_install, "--no-install"), (self.wide, "--wide")]
            .into_iter()
            .filter_map(|(is_given, word)| is_given.then_some(word))
    }
}

#[derive(Subcommand)]
enum Command {
    /// Makes a project of one's own: a task, its manifest, and all that `cargo xtask` needs to build and run them.
    New(new::NewArguments),
    /// Runs a system in QEMU (the demo, unless told otherwise), then prints what each task got.
    Run(run::RunArguments),
    /// Builds the image of a system (the demo, unless told otherwise) and says where it is.
    Build(SystemArguments),
    /// Makes the image of a card that a board starts from, or writes such a card.
    Flash(passed::Passed),
    /// Runs all tests of a project: `cargo test`, and each manifest with a table `[test]`. In Fusee's repository, all its checks.
    Test(passed::Passed),
    /// Simulates a system or task sets on the host: the same kernel, programs or scripts, virtual time.
    Simulate(passed::Passed),
    /// Says what can be proved of a system, or of task sets, before they run.
    Analyze(analyze::AnalyzeArguments),
    /// Tries arrangements of a system's tasks on its CPUs, and prints those in which most is proved, with the lines to change.
    Advise(passed::Passed),
    /// Measures the paths of the kernel, in instructions, beside those of other kernels.
    Bench(passed::Passed),
    /// Says where the instructions of the paths that `bench` measures go, by function and by what they are for.
    Profile(passed::Passed),
    /// Searches for the longest path of each kind of trap, in systems that are made to find it.
    Worst(passed::Passed),
    /// Runs one workload in several arrangements, and says whether what comes out has the shape it should.
    Experiment(passed::Passed),
    /// Judges random task sets under 57 arrangements of CPUs and GPUs, and says which arrangement accepts most.
    Study(passed::Passed),
    /// Simulates random systems in which all tasks that are not proved do anything, and counts deadlines of proved ones that are missed.
    Hostile(passed::Passed),
    /// Draws random systems in large numbers: `cargo xtask test` draws a part of them. An interrupted run goes on where it was.
    Campaign(passed::Passed),
    /// Looks for bytes that break what reads bytes of others: calls, manifests, images, rings, traces.
    Fuzz(passed::Passed),
    /// Says which lines of the kernel's state machine its tests on the host do not run.
    Coverage(passed::Passed),
    /// Simulates CPUs that all call at once: how much they do, and how long they wait for the kernel's lock
    Contention(passed::Passed),
    /// Prints the records of the last run as text, or writes other views of it.
    Trace(passed::Passed),
    /// Runs a system in QEMU, or listens to one, and shows what each task does at the moment: who waits for whom, how late jobs are.
    Top(passed::Passed),
    /// Says what each task was doing when the last run ended, where it was in its source, what it held and who waited for it.
    Dump(passed::Passed),
    /// Writes the longest path of the kernel that the last run's trace has to the file of its board.
    LongestPath(passed::Passed),
    /// Prints the script by which a shell completes the commands of `fusee` and their options.
    Completions(completions::CompletionsArguments),
    /// Builds the documentation of the crates for tasks, drivers and GPU kernels, and prints where it is.
    Doc(doc::DocArguments),
    /// Runs a system under gdb, paused at first, with the symbols of the kernel and of each task.
    Gdb(passed::Passed),
}

/// The system that a command is about, and how it runs.
#[derive(Args, Clone)]
pub struct SystemArguments {
    /// The system's manifest. [default: the demo; in a project of one's own its system.toml]
    #[arg(conflicts_with = "manifest")]
    pub system: Option<PathBuf>,
    /// The system's manifest, named by an option.
    #[arg(long)]
    pub manifest: Option<PathBuf>,
    /// How QEMU keeps time: `det` counts instructions and repeats exactly, `par` runs on host threads.
    #[arg(long, default_value = "det")]
    pub profile: ProfileArgument,
    /// Leave all doorbells mapped: engine locks become advice.
    #[arg(long)]
    pub unmanaged: bool,
    /// The board, in place of the one that the manifest names: virt, virt-gicv2, zcu102, raspi3b, raspi4b or versal.
    #[arg(long, value_parser = board)]
    pub board: Option<String>,
}

/// How QEMU keeps time.
#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
pub enum ProfileArgument {
    /// By counting instructions.
    Det,
    /// By the host's clock.
    Par,
}

impl SystemArguments {
    /// The manifest that is named, if one is.
    pub fn path(&self) -> Option<&Path> {
        self.manifest.as_deref().or(self.system.as_deref())
    }
}

impl From<ProfileArgument> for Profile {
    fn from(argument: ProfileArgument) -> Self {
        match argument {
            ProfileArgument::Det => Profile::Det,
            ProfileArgument::Par => Profile::Par,
        }
    }
}

/// Reads the command line and carries out its command.
pub fn main() -> ExitCode {
    let matches = called(Arguments::command()).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    arguments.everywhere.apply();
    report::exit_code(dispatch(&arguments))
}

/// The command with the name by which it was called.
fn called(command: clap::Command) -> clap::Command {
    match std::env::var(CALLED).as_deref() {
        Ok("fusee") => command.name("fusee").bin_name("fusee"),
        _ => command,
    }
}

/// Carries out the command; `false`: it ran, and its result is not good.
fn dispatch(arguments: &Arguments) -> Result<bool> {
    let install = arguments.everywhere.installs();
    let research = |name: &str, passed: &passed::Passed| passed::research(name, passed, arguments);
    match &arguments.command {
        Command::New(arguments) => new::new(arguments),
        Command::Run(run) => run::run(run, install),
        Command::Build(build) => {
            let workspace =
                Workspace { kernel: Kernel::Asked, board: build.board.clone(), ..Workspace::here(install)? };
            let manifest = workspace.project.manifest(build.path())?;
            let image = workspace.image(&manifest, build.profile.into(), build.unmanaged)?;
            words::say(&image.path.display().to_string());
            Ok(true)
        }
        Command::Flash(passed) => passed::flash(passed, arguments),
        Command::Simulate(passed) => passed::simulate(passed, arguments),
        Command::Test(passed) => passed::test(passed, arguments),
        Command::Analyze(analyze) if analyze.suggest.suggest => suggest::suggest(&analyze.suggest, arguments),
        Command::Analyze(arguments) => analyze::analyze(arguments),
        Command::Advise(passed) => passed::advise(passed, arguments),
        Command::Bench(passed) => research("bench", passed),
        Command::Profile(passed) => research("profile", passed),
        Command::Worst(passed) => research("worst", passed),
        Command::Experiment(passed) => research("experiment", passed),
        Command::Study(passed) => research("study", passed),
        Command::Hostile(passed) => research("hostile", passed),
        Command::Campaign(passed) => research("campaign", passed),
        Command::Fuzz(passed) => research("fuzz", passed),
        Command::Coverage(passed) => research("coverage", passed),
        Command::Contention(passed) => research("contention", passed),
        Command::Trace(passed) => passed::looks("trace", passed, arguments),
        Command::Top(passed) => passed::looks("top", passed, arguments),
        Command::Dump(passed) => passed::looks("dump", passed, arguments),
        Command::LongestPath(passed) => passed::looks("longest-path", passed, arguments),
        Command::Completions(arguments) => completions::completions(arguments, Arguments::command()),
        Command::Doc(arguments) => doc::doc(arguments, install),
        Command::Gdb(passed) => passed::looks("gdb", passed, arguments),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn two_dashes_before_arguments_of_gdb_are_handed_on_wherever_they_stand() {
        for (line, handed_on) in [
            ("gdb -- -batch -ex continue", "-- -batch -ex continue"),
            ("gdb --no-install -- -batch", "-- -batch"),
            ("--wide gdb --", "--"),
            ("gdb --debug -- -batch", "--debug -- -batch"),
            ("gdb --debug", "--debug"),
            ("gdb", ""),
        ] {
            let line: Vec<OsString> = ["cargo xtask"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let arguments = Arguments::try_parse_from(&line).map_err(|error| error.to_string()).expect("it parses");
            let Command::Gdb(passed) = arguments.command else { panic!("{line:?} is `gdb`") };
            let words = passed::with_dashes(&passed.arguments, &line);
            let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(words.join(" "), handed_on, "{line:?}");
        }
    }

    #[test]
    fn a_wrong_option_is_blamed_and_not_the_manifest() {
        for (line, option, words) in [
            ("run --board rpi5", "--board", "no board is called so; there are virt, "),
            ("build --board rpi5", "--board", "no board is called so; there are virt, "),
            ("run --quantum 0", "--quantum", "0 is not in 1..="),
            ("run --for 5", "--for", "a time with its unit"),
            ("run --trace all", "--trace", "the levels are off, marks, schedule, full"),
            ("analyze --cpus 0", "--cpus", "0 is not in 1..="),
            ("analyze --policy EEE", "--policy", "known are EDF"),
            ("analyze --suggest --margin 1001", "--margin", "1001 is not in 0..=1000"),
        ] {
            let words_of = ["cargo xtask"].into_iter().chain(line.split(' '));
            let error = Arguments::try_parse_from(words_of).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(&format!("for '{option}")) && error.contains(words), "{line}: {error}");
        }
    }
}
