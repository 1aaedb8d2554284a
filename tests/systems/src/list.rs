//! The list of all checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use fusee_abi::image::feature;
use fusee_abi::trace::Level;
use fusee_host::build::{Builder, Kernel};
use fusee_host::system::{self, DEFAULT_BOARD, Workspace, profile_name};
use fusee_host::toolchain::{self, R5F_TARGET};
use fusee_manifest::{Board, Manifest, ManifestError, ManifestErrors, Profile, Reason, Resolved, Variant};
use fusee_research::{bench, by_clock, decided, experiment, faults, fuzz, hostile, soundness, study, worst};

use crate::case::{Case, Found, Kind, Needs};
use crate::context::{Context, Group};
use crate::target::run_case;
use crate::{
    advised, arrows, boards, boot, browser, car, cards, combinations, configurations, conformance, demo, docs, dump,
    endings, errata, gdb, hosted, hosts, house, isolation, kernels, messages, outputs, own_kernels, own_programs,
    own_project, own_skeletons, packages, places, proofs, readme, refusal, resolution, runs, schemas, spoken, stream,
    structure, target, times, turns, vision,
};

/// The choice of the checks that are listed.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Checks on this board in place of all others.
    pub board: Option<String>,
    /// With a board: only runs of this profile.
    pub profile: Option<Profile>,
    /// With a board: only the share of the board in a whole run.
    pub share: bool,
    /// Text that names have to contain. Checks of other boards are listed only if it asks for them.
    pub filter: Option<String>,
}

/// The check of the list itself.
const NONE_LOST: &str = "repo::no recorded check is lost";

/// All checks.
///
/// # Errors
/// A manifest or a page cannot be read.
pub fn all(context: &Arc<Context>, choice: &Choice) -> Result<Vec<Case>> {
    let (mut cases, mut builds) = (Vec::new(), Builds::default());
    let tidied = |cases: Vec<Case>| {
        let tidied = |case: Case| {
            let folder = context.workspace(&case.name).project.kept_in;
            case.tidied(folder)
        };
        cases.into_iter().map(tidied).collect()
    };
    if let Some(board) = choice.board.as_deref().filter(|board| *board != DEFAULT_BOARD) {
        on_board(context, board, choice, &mut builds, &mut cases)?;
        cases.extend(builds.case());
        return Ok(tidied(cases));
    }
    cases.extend(hosts::lints(context)?);
    cases.extend(hosts::tests(context)?);
    sources(context, &mut cases);
    campaigns(context, &mut cases);
    on_target(context, DEFAULT_BOARD, choice, &mut builds, &mut cases)?;
    golden(context, DEFAULT_BOARD, choice, &mut builds, &mut cases)?;
    hosted::cases(context, &mut builds, &mut cases)?;
    own(context, &mut cases)?;
    pages(context, choice, &mut cases)?;
    let is_asked = |name: &str| choice.filter.as_ref().is_none_or(|filter| filter.contains(name));
    let all_are_listed = is_asked(NONE_LOST);
    for board in boards::others() {
        if all_are_listed || is_asked(board) {
            let share = Choice { profile: Some(Profile::Det), share: true, ..choice.clone() };
            on_board(context, board, &share, &mut builds, &mut cases)?;
        }
    }
    cases.extend(builds.case());
    let listed: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    let lost = lost(&listed, times::recorded(context.root())?.into_keys(), hosts::are_built());
    if all_are_listed {
        cases.push(Case::of(NONE_LOST, Kind::Page, move || Ok(lost)));
        let root = context.root().clone();
        cases.push(Case::of(proofs::LISTED, Kind::Page, move || proofs::unlisted(&root, &listed)));
    }
    Ok(tidied(cases))
}

/// Recorded checks that are not listed any more: a check that does not run cannot fail.
fn lost(listed: &BTreeSet<String>, recorded: impl Iterator<Item = String>, with_host: bool) -> Vec<String> {
    let is_lost = |name: &String| !listed.contains(name) && (with_host || !name.starts_with("host::"));
    let words =
        |name| format!("`{name}` is in {} and is not listed any more; if that is right, remove it there", times::FILE);
    recorded.filter(is_lost).map(words).collect()
}

/// Sources, pages and schemas.
fn sources(context: &Arc<Context>, cases: &mut Vec<Case>) {
    let root = context.root().clone();
    cases.push(Case::new(format!("repo::{}", structure::LINES), Kind::Page, move || {
        structure::lines(&root).map(|(words, problems)| Found::with_words(words, problems))
    }));
    let (root, bless) = (context.root().clone(), context.bless);
    cases.push(Case::new(format!("repo::{}", house::NAME), Kind::Page, move || {
        house::check(&root, bless).map(|(words, problems)| Found::with_words(words, problems))
    }));
    let root = context.root().clone();
    cases.push(Case::new(format!("repo::{}", arrows::NAME), Kind::Page, move || {
        arrows::check(&root).map(|(words, problems)| Found::with_words(words, problems))
    }));
    let mut add = |name: &str, body: fn(&Context) -> Result<Vec<String>>| {
        let context = Arc::clone(context);
        cases.push(Case::of(name, Kind::Page, move || body(&context)).stage(0));
    };
    add("repo::where unsafe code may be", |context| structure::sources(context.root()));
    add("repo::pages, manifests and commands agree", |context| docs::check(context.root()).map(|()| Vec::new()));
    add("repo::schemas of what `--json` prints", |context| schemas::check_schemas(context.root(), context.bless));
    add(&format!("repo::{}", resolution::CHECK), resolution::check);
    add(&format!("repo::{}", packages::CHECK), |context| packages::check(context.fusee()));
    add("page::the README's pictures are what its commands draw", |context| messages::check_pictures(context.root()));
    let pages: [(&str, browser::Check); 2] = [
        ("page::the page of a trace, in a browser", messages::check_page),
        ("page::all pages, wide and narrow, in a browser", browser::check_pages),
    ];
    for (name, check) in pages {
        let context = Arc::clone(context);
        cases.push(Case::new(name, Kind::Page, move || match browser::browser() {
            Some(browser) => check(context.root(), browser).map(Found::from),
            None => Ok(Found::skipped("there is no Chromium here")),
        }));
    }
}

/// Random systems, experiments and bytes.
fn campaigns(context: &Arc<Context>, cases: &mut Vec<Case>) {
    type Campaign = fn() -> (String, Vec<String>);
    let checks: [(&str, Campaign); 11] = [
        ("bounds on lateness hold", soundness::check),
        ("bounds on blocking hold", soundness::check_blocking),
        ("bounds on calls hold", soundness::check_calls),
        ("bounds on latencies hold", soundness::check_graphs),
        ("fine bounds hold", soundness::check_arranged),
        ("bounds by the clock hold", by_clock::check),
        ("bounds of clusters that share a device hold", decided::check),
        ("study", study::check),
        ("what is proved holds among tasks that do anything", hostile::check),
        ("planted faults are found", hostile::check_planted),
        ("experiment faults", faults::check),
    ];
    for (name, check) in checks {
        cases.push(Case::new(format!("campaign::{name}"), Kind::Campaign, move || {
            let (words, problems) = check();
            let words = words.strip_prefix(&format!("{name}: ")).map_or(words.clone(), str::to_owned);
            Ok(Found::with_words(words, problems))
        }));
    }
    cases.push(Case::new("campaign::experiments, short", Kind::Campaign, || {
        let (names, problems): (Vec<String>, Vec<Vec<String>>) = experiment::check().unzip();
        Ok(Found::with_words(names.join("; "), problems.concat()))
    }));
    let context = Arc::clone(context);
    cases.push(Case::new("campaign::any bytes, guided by coverage", Kind::Campaign, move || match fuzz::lack() {
        Some(why) => Ok(Found::skipped(why)),
        None => {
            let (words, problems) = fuzz::check(&context.workspace("fuzz"))?;
            Ok(Found::with_words(format!("steps: {words}"), problems))
        }
    }));
}

//--- Systems

/// The reason why a board cannot run a system, if a manifest was refused for nothing else.
fn lacks(error: &anyhow::Error) -> Option<String> {
    let errors = error.downcast_ref::<ManifestErrors>()?;
    let is_lack = |error: &ManifestError| matches!(error.reason, Reason::BoardLacks { .. });
    errors.0.iter().all(is_lack).then(|| errors.0[0].reason.to_string())
}

/// Why the firmware of a processor of the board cannot be built here, if the system has one.
fn no_compiler(workspace: &Workspace, manifest: &Manifest) -> Option<String> {
    let programs = manifest.system.devices.iter().filter_map(|device| device.processor.as_ref()?.program);
    (programs.count() > 0)
        .then(|| workspace.toolchain.add_target(R5F_TARGET).err())
        .flatten()
        .map(|error| error.to_string())
}

/// The beginning of the name of a check on a board.
fn prefix(kind: &str, board: &str) -> String {
    if board == DEFAULT_BOARD { format!("{kind}::") } else { format!("{kind}::{board}::") }
}

/// Systems of `tests/target`.
fn on_target(
    context: &Arc<Context>,
    board: &str,
    choice: &Choice,
    builds: &mut Builds,
    cases: &mut Vec<Case>,
) -> Result<()> {
    let workspace = context.on(board, board);
    let elsewhere = elsewhere(&workspace, choice)?;
    // Those with the usual kernel, and those with a kernel that checks its invariants.
    let mut found: [Vec<target::Case>; 2] = [Vec::new(), Vec::new()];
    for path in manifests(&workspace.root.join("tests/target"))? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if elsewhere.contains(&stem) {
            continue;
        }
        let manifest = match system::read_variant(&workspace.root, &path, &of_board(board)) {
            Ok(manifest) => manifest,
            Err(error) => {
                cases.push(unreadable(prefix("det", board) + &stem, &error));
                continue;
            }
        };
        let Some(expectations) = &manifest.expectations else { continue };
        let wanted = |profile: &Profile| choice.profile.is_none_or(|wanted| wanted == *profile);
        for profile in expectations.profiles.iter().copied().filter(wanted) {
            let name = prefix(profile_name(profile), board) + &stem;
            if expectations.campaign && choice.filter.as_ref() != Some(&name) {
                let why = format!("large, and run by its name alone: `cargo xtask test {name}`");
                cases.push(Case::skipped(name, Kind::Det, why));
                continue;
            }
            let lack =
                system::lacks(&workspace, &manifest.system, profile).or_else(|| no_compiler(&workspace, &manifest));
            match lack {
                Some(why) => cases.push(Case::skipped(name, Kind::Det, why)),
                None => found[usize::from(expectations.self_check)]
                    .push(target::Case { manifest: manifest.clone(), profile }),
            }
        }
    }
    for (kernel, found) in [workspace.kernel, Kernel::Checked].into_iter().zip(found) {
        let group = group(&workspace, kernel, found.iter().map(|case| &case.manifest), choice);
        build(builds, &group, found.len());
        for case in found {
            let name = prefix(profile_name(case.profile), board) + &case.manifest.system.name;
            let (group, share) = (Arc::clone(&group), choice.share);
            let workspace = context.on(board, &name);
            let kind = if case.profile == Profile::Par { Kind::Par } else { Kind::Det };
            let needs = if case.profile == Profile::Par { Needs::Cores } else { Needs::Core };
            let body = {
                let name = name.clone();
                move || run_case(&workspace, &name, &case, &group.programs()?, !share)
            };
            cases.push(Case::new(name, kind, body).needs(needs));
        }
    }
    Ok(())
}

/// A manifest for another board than the one it names. Its warnings are not printed: checks are about the run.
fn of_board(board: &str) -> Variant {
    Variant { board: Some(board.to_owned()), ..Variant::default() }
}

/// A manifest that its board refuses because of a missing part, or that cannot be read.
fn unreadable(name: String, error: &anyhow::Error) -> Case {
    match lacks(error) {
        Some(why) => Case::skipped(name, Kind::Det, why),
        None => {
            let words = format!("{error:#}");
            Case::of(name, Kind::Det, move || Ok(vec![words]))
        }
    }
}

/// The programs of these systems; all kernels of a board are the same, with any features.
fn group<'a>(
    workspace: &Workspace,
    kernel: Kernel,
    manifests: impl Iterator<Item = &'a Manifest>,
    choice: &Choice,
) -> Arc<Group> {
    let wanted = |manifest: &&Manifest| {
        choice.filter.as_ref().is_none_or(|filter| {
            let name = &manifest.system.name;
            filter.contains(name.as_str()) || name.contains(filter.rsplit("::").next().unwrap_or(filter))
        })
    };
    // A filter that names a sort of checks wants all of the sort.
    let all: Vec<&Manifest> = manifests.collect();
    let chosen: Vec<Resolved> = all.iter().copied().filter(|one| wanted(one)).map(|one| one.system.clone()).collect();
    let systems = if chosen.is_empty() { all.iter().map(|one| one.system.clone()).collect() } else { chosen };
    Arc::new(Group::new(workspace.clone(), kernel, systems))
}

/// Programs that are built before the systems that need them, one after the other: calls of cargo would wait for each other.
#[derive(Default)]
pub struct Builds(Vec<Box<dyn FnOnce() -> Result<()> + Send>>);

impl Builds {
    /// Has something built before it is needed.
    pub fn add(&mut self, build: impl FnOnce() -> Result<()> + Send + 'static) {
        self.0.push(Box::new(build));
    }

    /// One check that builds all of them, if there are any.
    fn case(self) -> Option<Case> {
        let count = self.0.len();
        let body = move || {
            let problems = self.0.into_iter().filter_map(|build| build().err().map(|error| format!("{error:#}")));
            Ok(Found::with_words(format!("{count} groups"), problems.collect()))
        };
        (count > 0).then(|| Case::new("build::all programs of systems", Kind::Build, body))
    }
}

/// Has a group of programs built before they are needed.
fn build(builds: &mut Builds, group: &Arc<Group>, systems: usize) {
    let group = Arc::clone(group);
    if systems > 0 {
        builds.0.push(Box::new(move || group.programs().map(drop)));
    }
}

/// Systems with golden traces that are compared.
fn golden(
    context: &Arc<Context>,
    board: &str,
    choice: &Choice,
    builds: &mut Builds,
    cases: &mut Vec<Case>,
) -> Result<()> {
    if choice.profile == Some(Profile::Par) {
        return Ok(());
    }
    let workspace = context.on(board, board);
    let elsewhere = elsewhere(&workspace, choice)?;
    let mut found = Vec::new();
    for path in manifests(&workspace.root.join(conformance::FOLDER))? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match conformance::Case::all(&workspace, &path) {
            Ok(all) => {
                for case in all.into_iter().filter(|case| !elsewhere.contains(&case.manifest.system.name)) {
                    match system::lacks(&workspace, &case.manifest.system, Profile::Det) {
                        Some(lack) => {
                            let name = prefix("golden", board) + &case.manifest.system.name;
                            cases.push(Case::skipped(name, Kind::Det, lack));
                        }
                        None => found.push(case),
                    }
                }
            }
            Err(error) => cases.push(unreadable(prefix("golden", board) + &stem, &error)),
        }
    }
    let group = group(&workspace, workspace.kernel, found.iter().map(|case| &case.manifest), choice);
    build(builds, &group, found.len());
    // Levels are no matter of boards.
    let is_usual = board == DEFAULT_BOARD;
    let levels = [Level::Off, Level::Marks, Level::Full];
    if is_usual {
        let group = Arc::clone(&group);
        builds.0.push(Box::new(move || {
            for level in levels {
                Builder { kernel: Kernel::Traced(level), ..group.builder() }.kernel(feature::ALL)?;
            }
            Ok(())
        }));
    }
    for case in found {
        let name = prefix("golden", board) + &case.manifest.system.name;
        let (group, workspace, bless) = (Arc::clone(&group), context.on(board, &name), context.bless && is_usual);
        let body = {
            let name = name.clone();
            move || {
                let programs = group.programs()?;
                let kernel = |level| Builder { kernel: Kernel::Traced(level), ..group.builder() }.kernel(feature::ALL);
                let levels = levels.into_iter().filter(|_| is_usual).map(|level| anyhow::Ok((level, kernel(level)?)));
                case.check(&workspace, &name, &programs, &levels.collect::<Result<Vec<_>>>()?, bless)
            }
        };
        cases.push(Case::new(name, Kind::Det, body));
    }
    Ok(())
}

/// The systems that a board can run, and whether they are those that it could before.
fn on_board(
    context: &Arc<Context>,
    board: &str,
    choice: &Choice,
    builds: &mut Builds,
    cases: &mut Vec<Case>,
) -> Result<()> {
    if let Some(why) = context.too_old(board) {
        cases.push(Case::skipped(format!("board::{board}: its share of all systems"), Kind::Det, why));
        return Ok(());
    }
    let first = cases.len();
    on_target(context, board, choice, builds, cases)?;
    golden(context, board, choice, builds, cases)?;
    if choice.profile != Some(Profile::Par) {
        let workspace = context.on(board, board);
        let elsewhere = elsewhere(&workspace, choice)?;
        let mut listed = boards::Results::default();
        for case in &cases[first..] {
            let Some((kind, name)) = case.name.split_once(&format!("::{board}::")) else { continue };
            match &case.why {
                Some(why) => listed.skip(name, why),
                None => listed.pass(name, kind),
            }
        }
        let (context, board) = (Arc::clone(context), board.to_owned());
        let name = format!("board::{board}: its systems are those that could be run before");
        cases.push(Case::of(name, Kind::Page, move || {
            boards::settle(context.root(), &board, &listed, &elsewhere, context.bless)
        }));
    }
    Ok(())
}

/// Systems that are left to other boards.
fn elsewhere(workspace: &Workspace, choice: &Choice) -> Result<BTreeSet<String>> {
    match &workspace.board {
        Some(board) if choice.share && board != DEFAULT_BOARD => boards::elsewhere(&workspace.root, board),
        _ => Ok(BTreeSet::new()),
    }
}

/// The manifests in a folder.
///
/// # Errors
/// The folder cannot be read.
pub fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    Ok(paths)
}

//--- Checks that run systems of their own

/// A check that returns faults.
type OwnCheck = fn(&Workspace) -> Result<Vec<String>>;

/// Checks on the usual board.
const OWN: [(&str, OwnCheck); 21] = [
    ("the demo's frames on a screen", demo::check_screen),
    ("the demo with hogs that share what is left of the GPU", demo::check_without_locks),
    ("the demo with hogs that make room on SMs", demo::check_on_sms),
    (vision::CHECK, vision::check),
    (advised::CHECK, advised::check),
    (faults::EMULATED_CHECK, faults::check_emulated),
    (experiment::EMULATED_CHECK, experiment::check_emulated),
    (experiment::SHARED_CHECK, experiment::check_shared),
    (messages::MESSAGES, messages::check_messages),
    (messages::DEFMT, messages::check_defmt),
    (errata::CHECK, errata::check),
    (boot::TREES, boot::check_trees),
    (boot::ENTRIES, boot::check_entries),
    (boot::MISTAKES, boot::check_mistakes),
    (boot::PANICS, boot::check_panics),
    (kernels::CHECK, kernels::check),
    (turns::CHECK, turns::check),
    (isolation::CHECK, isolation::check_planted),
    (refusal::CHECK, refusal::check),
    (refusal::DAMAGED, refusal::check_damaged),
    (combinations::REFUSAL, combinations::check_refusal),
];

/// Boards that the demo is run on, with all their CPUs.
const DEMO: [&str; 2] = ["raspi3b", "zcu102"];

/// Boards that start from the image on a card; all others are started by U-Boot.
const RASPBERRIES: [&str; 2] = ["raspi3b", "raspi4b"];

fn own(context: &Arc<Context>, cases: &mut Vec<Case>) -> Result<()> {
    for (name, check) in OWN {
        let name = format!("own::{name}");
        let workspace = context.workspace(&name);
        cases.push(Case::of(name, Kind::Det, move || check(&workspace)));
    }
    let name = format!("own::{}", runs::CHECK);
    let workspace = context.workspace(&name);
    cases.push(Case::new(name, Kind::Det, move || runs::check(&workspace)));
    let name = format!("own::{}", endings::CHECK);
    let workspace = context.workspace(&name);
    cases.push(Case::of(name, Kind::Det, move || endings::check(&workspace)).needs(Needs::Cores));
    let name = format!("own::{}", outputs::CHECK);
    let workspace = context.workspace(&name);
    cases.push(Case::of(name, Kind::Page, move || outputs::check(&workspace)));
    let name = format!("own::{}", stream::CHECK);
    let workspace = context.workspace(&name);
    cases.push(Case::of(name, Kind::Par, move || stream::check(&workspace)).needs(Needs::Cores));
    for (name, check) in [
        (own_project::CHECK, own_project::check as fn(&fusee_host::project::Project) -> Result<Vec<String>>),
        (own_kernels::CHECK, own_kernels::check),
        (own_programs::CHECK, own_programs::check),
        (own_skeletons::CHECK, own_skeletons::check),
        (places::CHECK, places::check),
    ] {
        let context = Arc::clone(context);
        cases.push(Case::of(format!("own::{name}"), Kind::Page, move || check(context.fusee())));
    }
    for board in Board::NAMES {
        let name = match board {
            DEFAULT_BOARD => format!("own::{}", isolation::PROBES),
            _ => format!("own::{board}: {}", isolation::PROBES),
        };
        emulated(context, board, &name, cases, isolation::check_probes);
    }
    for board in Board::NAMES {
        let name = match board {
            DEFAULT_BOARD => format!("own::{}", spoken::CHECK),
            _ => format!("own::{board}: {}", spoken::CHECK),
        };
        emulated(context, board, &name, cases, spoken::check);
    }
    emulated(context, DEFAULT_BOARD, &format!("own::{}", spoken::MISTAKES), cases, spoken::check_mistakes);
    for (features, system) in combinations::ALL {
        let name = format!("own::{}", combinations::name(features));
        let workspace = context.workspace(&name);
        cases.push(Case::of(name, Kind::Det, move || combinations::check(&workspace, features, system)));
    }
    for one in configurations::all() {
        let name = format!("own::{}", one.name());
        let workspace = context.workspace(&name);
        let body = {
            let name = name.clone();
            move || configurations::check(&workspace, &name, &one)
        };
        cases.push(Case::new(name, Kind::Det, body));
    }
    for board in DEMO {
        let name = format!("own::{board}: the demo, every frame, every tone, every deadline");
        emulated(context, board, &name, cases, |workspace| {
            demo::check(workspace, workspace.manifest(Path::new(demo_judge::MANIFEST))?)
        });
    }
    emulated(context, "zcu102", &format!("own::{}", car::CHECK), cases, car::check);
    emulated(context, "zcu102", &format!("own::{}", advised::CAR), cases, advised::check_car);
    from_cards(context, cases);
    for check in dump::checks(context.root())? {
        let name = format!("own::{}", check.name);
        let workspace = context.workspace(&name);
        cases.push(Case::of(name, Kind::Det, move || {
            let programs = workspace.builder().programs(&[&check.manifest.system])?;
            dump::run(&workspace, &check, &programs)
        }));
    }
    let sessions = [
        (gdb::CHECK, gdb::check as fn(&Workspace, &Path) -> Result<Vec<String>>),
        (gdb::DEBUG, gdb::check_debug),
        (gdb::HOSTED, gdb::check_hosted),
    ];
    for (name, check) in sessions {
        let name = format!("own::{name}");
        let workspace = context.workspace(&name);
        cases.push(Case::new(name, Kind::Det, move || match toolchain::find_gdb(false) {
            Ok(program) => check(&workspace, &program).map(Found::from),
            Err(error) => Ok(Found::skipped(error.to_string())),
        }));
    }
    let install = context.install;
    cases.push(Case::of("bench::kernel paths", Kind::Det, move || bench::regressions(install)));
    cases.push(Case::of("bench::the longest kernel paths, where they were found", Kind::Det, move || {
        worst::check(install)
    }));
    Ok(())
}

/// A check of the board, unless the emulator or the board cannot run it.
fn emulated(
    context: &Arc<Context>,
    board: &str,
    name: &str,
    cases: &mut Vec<Case>,
    check: impl Fn(&Workspace) -> Result<Vec<String>> + Send + 'static,
) {
    let workspace = context.on(board, name);
    let body = move || match toolchain::too_old(&workspace.qemu, &workspace.the_board()?) {
        Some(why) => Ok(Found::skipped(why)),
        None => check(&workspace).map(Found::from),
    };
    cases.push(Case::new(name, Kind::Det, body));
}

fn from_cards(context: &Arc<Context>, cases: &mut Vec<Case>) {
    let mut add = |name: String, board: &str, check: fn(&Workspace) -> Result<Vec<String>>| {
        let install = context.install;
        let workspace = context.on(board, &name);
        let body = move || {
            if let Err(error) = cards::tools(install) {
                return Ok(Found::skipped(error.to_string()));
            }
            match toolchain::too_old(&workspace.qemu, &workspace.the_board()?) {
                Some(why) => Ok(Found::skipped(why)),
                None => check(&workspace).map(Found::from),
            }
        };
        cases.push(Case::new(name, Kind::Det, body));
    };
    add(format!("own::{}", cards::BY_U_BOOT), DEFAULT_BOARD, cards::check_by_u_boot);
    for board in RASPBERRIES {
        add(format!("own::{}: {board}", cards::READ_BACK), board, |workspace| {
            let board = workspace.board.clone().context("no board")?;
            cards::check_read_back(workspace, &board)
        });
    }
}

//--- Pages

/// The commands that pages show: those of a page one after the other, since a command may be about the run of the one before it. Those that take minutes are a
/// case of their own, which is run if it is asked for.
fn pages(context: &Arc<Context>, choice: &Choice, cases: &mut Vec<Case>) -> Result<()> {
    let mut pages: BTreeMap<String, Vec<readme::Example>> = BTreeMap::new();
    for example in readme::examples(context.root())? {
        let name = format!("page::{}{}", example.page, if example.is_long() { readme::LONG } else { "" });
        pages.entry(name).or_default().push(example);
    }
    for (name, examples) in pages {
        let is_asked =
            |filter: &String| name.contains(&**filter) && (filter.contains(".md") || readme::LONG.ends_with(&**filter));
        if name.ends_with(readme::LONG) && !choice.filter.as_ref().is_some_and(is_asked) {
            let why = format!("it takes minutes; `cargo xtask test \"{name}\"` runs it");
            cases.push(Case::skipped(name, Kind::Page, why));
            continue;
        }
        let workspace = context.workspace(&name);
        cases.push(Case::new(name, Kind::Page, move || {
            let count = examples.len();
            let mut problems = Vec::new();
            for example in examples {
                let found = readme::check(&workspace.fusee, &workspace.project.kept_in, &example)?;
                problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", example.command)));
            }
            Ok(Found::with_words(format!("{count} commands"), problems))
        }));
    }
    let name = format!("page::{}", proofs::CHECK);
    let workspace = context.workspace(&name);
    cases.push(Case::new(name, Kind::Page, move || {
        let (count, problems) = proofs::check(&workspace)?;
        Ok(Found::with_words(format!("{count} commands"), problems))
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_is_not_listed_any_more_is_named() {
        let listed = BTreeSet::from(["det::one".to_owned()]);
        let recorded = || ["det::one", "det::two", "host::three"].map(str::to_owned).into_iter();
        assert_eq!(lost(&listed, recorded(), true).len(), 2);
        let without_host = lost(&listed, recorded(), false);
        assert!(without_host.len() == 1 && without_host[0].starts_with("`det::two`"), "{without_host:?}");
    }
}
