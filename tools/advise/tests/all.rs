//! Advice on systems of this repository, and on small ones.

use std::path::{Path, PathBuf};

use fusee_advise::search::{Search, Tried, search};
use fusee_manifest::{Manifest, PolicyName, Variant};
use fusee_simulator::{Options, simulate_observed, unmodelled};
use fusee_views::metrics::Metrics;

/// Arrangements to try.
const TRIES: usize = 300;

/// The text of a manifest of this repository, and its path.
fn own(path: &str) -> (PathBuf, String) {
    let path = fusee_host::system::root().unwrap().join(path);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

fn with<R>(path: &Path, text: &str, tries: usize, look: impl FnOnce(&Search<'_>) -> R) -> R {
    let variant = Variant { folder: path.parent().map(Path::to_owned), ..Variant::default() };
    look(&search(path, text, &variant, tries).unwrap_or_else(|errors| panic!("{errors}\n{text}")))
}

/// Jobs that missed their deadlines in a simulation, by task.
fn misses(manifest: &Manifest, limit: u64) -> Vec<(String, u64)> {
    let mut metrics = Metrics::new(&manifest.system);
    let report = simulate_observed(manifest, &Options::default(), limit, &mut |record| metrics.observe(record));
    report.unwrap_or_else(|error| panic!("{error}\n{}", manifest.text));
    assert!(metrics.tasks.iter().map(|task| task.jobs()).sum::<u64>() > 0);
    let late = manifest.system.tasks.iter().zip(&metrics.tasks).map(|(task, seen)| (task.name.clone(), seen.misses()));
    late.filter(|(_, misses)| *misses > 0).collect()
}

/// A system of one cluster for each of four CPUs, with these tasks: name, budget in microseconds, cluster. Periods are 10 ms.
fn four(tasks: &[(&str, u64, &str)]) -> String {
    let mut text = "[system]\nname = \"four\"\nboard = \"virt\"\ncpus = 4\n".to_owned();
    for (cpu, name) in ["left", "right", "front", "back"].into_iter().enumerate() {
        text += &format!("\n# {name} of all\n[clusters.{name}]\ncpus = [{cpu}] # CPU {cpu}\n");
    }
    for (name, budget, cluster) in tasks {
        text += &format!(
            "\n[tasks.{name}]\nscript = [\"burn {}us\"]\ncluster = \"{cluster}\" # for now\nperiod = \"10ms\"\nbudget = \"{budget}us\"\nhard = true\n",
            budget - 100
        );
    }
    text
}

/// Lines that a difference removes and adds.
fn changes(old: &str, tried: &Tried) -> Vec<String> {
    let difference = fusee_advise::text::difference("system.toml", old, &tried.text);
    difference.lines().skip(2).filter(|line| line.starts_with(['-', '+'])).map(str::to_owned).collect()
}

#[test]
fn proposals_for_the_demo_are_admitted_and_miss_nothing_in_the_simulator() {
    let (path, text) = own("userland/demo/demo.toml");
    with(&path, &text, TRIES, |search| {
        let present = search.present().unwrap();
        assert!(present.verdict.is_admitted);
        assert!(search.better().is_some(), "priorities by periods leave more");
        let shown = search.best(10);
        assert!(shown.len() > 4);
        for tried in shown.into_iter().filter(|tried| tried.verdict.is_admitted) {
            let manifest = Manifest::parse(&path, &tried.text).unwrap();
            assert_eq!(unmodelled(&manifest), [0_usize; 0]);
            let words = (tried.arrangement.words(), tried.arrangement.policies());
            assert_eq!(misses(&manifest, 1_000_000_000), [], "{words:?}");
        }
    });
}

#[test]
fn proposals_for_the_car_are_admitted_and_prove_all_that_it_promises() {
    let (path, text) = own("userland/car/car.toml");
    with(&path, &text, TRIES, |search| {
        let present = search.present().unwrap();
        assert!(present.verdict.is_admitted);
        let shown: Vec<&Tried> = search.best(5).into_iter().filter(|tried| tried.verdict.is_admitted).collect();
        assert!(shown.len() > 1);
        for tried in shown {
            assert_eq!(tried.verdict.proved, tried.verdict.promises, "{:?}", tried.arrangement.words());
            Manifest::parse(&path, &tried.text).unwrap();
        }
    });
}

#[test]
fn the_proposal_for_stabilised_video_is_admitted_and_keeps_its_comments() {
    let (path, text) = own("userland/vision/stabilise.toml");
    with(&path, &text, TRIES, |search| {
        let best = search.better().expect("its graph can have more room");
        assert!(best.verdict.is_admitted && search.present().unwrap().verdict.is_admitted);
        assert_eq!((best.verdict.proved, best.verdict.promises), (2, 2), "the control loop and the graph");
        Manifest::parse(&path, &best.text).unwrap();
        let comments = |text: &str| text.lines().filter(|line| line.trim().starts_with('#')).count();
        assert_eq!(comments(&best.text), comments(&text));
        // Clients of the GPU stay together, with its driver.
        let manifest = Manifest::parse(&path, &best.text).unwrap();
        let system = &manifest.system;
        let clusters = |engine: &str| {
            let engine = system.engines.iter().position(|(name, _)| name == engine).unwrap();
            let users = system.engine_users.iter().filter(move |user| user.engine as usize == engine);
            let driver = system.devices[system.engine_places[engine].unwrap().0].driver;
            users
                .map(|user| user.task as usize)
                .chain([driver])
                .map(|task| system.tasks[task].cluster)
                .collect::<Vec<_>>()
        };
        for engine in ["ee", "dsp"] {
            assert!(clusters(engine).iter().all(|cluster| *cluster == clusters(engine)[0]), "{engine}");
        }
    });
}

#[test]
fn a_refused_partition_gets_a_proved_one_by_one_line() {
    let text = four(&[("a", 6_000, "left"), ("b", 6_000, "left"), ("c", 6_000, "right"), ("d", 6_000, "front")]);
    let path = Path::new("system.toml");
    assert!(Manifest::parse(path, &text).unwrap_err().to_string().contains("left"));
    with(path, &text, TRIES, |search| {
        assert!(!search.present().unwrap().verdict.is_admitted);
        let best = search.better().unwrap();
        assert_eq!(changes(&text, best), ["-cluster = \"left\" # for now", "+cluster = \"back\" # for now"]);
        assert_eq!(best.lines, 1);
        assert_eq!(misses(&Manifest::parse(path, &best.text).unwrap(), 200_000_000), []);
    });
}

#[test]
fn a_task_too_large_for_what_any_cpu_has_left_leads_to_a_cluster_of_several() {
    // Two of these fit on no CPU, and three of them do on two.
    let tasks = ["a", "b", "c", "d", "e", "f"].map(|name| (name, 6_000, "left"));
    let text = four(&tasks).replace("period = \"10ms\"", "period = \"10ms\"\ndeadline = \"40ms\"\nbacklog = 4");
    let path = Path::new("system.toml");
    with(path, &text, TRIES, |search| {
        let best = search.better().unwrap();
        assert!(best.verdict.is_admitted, "{}: {:?}", best.arrangement.words(), search.in_the_way(best));
        assert!(best.arrangement.clusters.iter().any(|cluster| cluster.cpus.count_ones() > 1));
        assert_eq!(misses(&Manifest::parse(path, &best.text).unwrap(), 400_000_000), []);
        // Each comment on a cluster that goes is still there.
        assert!(best.text.contains("# left of all") && best.text.contains("# back of all"), "{}", best.text);
        assert!(
            ["# CPU 0", "# CPU 1", "# CPU 2", "# CPU 3"].iter().all(|one| best.text.contains(one)),
            "{}",
            best.text
        );
    });
}

#[test]
fn an_infeasible_system_names_the_term_in_the_way() {
    let (path, text) = own("userland/demo/demo.toml");
    let text = text.replace("deadline = \"30ms\"", "deadline = \"20ms\"");
    with(&path, &text, TRIES, |search| {
        assert!(search.tried.iter().all(|tried| !tried.verdict.is_admitted));
        let nearest = &search.tried[0];
        assert_eq!((nearest.verdict.proved, nearest.verdict.promises), (3, 4));
        assert_eq!(nearest.verdict.least.as_ref().unwrap().name, "stabiliser");
        let why = search.in_the_way(nearest).join("\n");
        assert!(why.contains("stabiliser") && why.contains(" ms late, mostly "), "{why}");
    });
}

#[test]
fn the_present_arrangement_is_best_where_nothing_leaves_more() {
    let text = four(&[("a", 6_000, "left"), ("b", 6_000, "right"), ("c", 6_000, "back"), ("d", 6_000, "front")]);
    with(Path::new("system.toml"), &text, TRIES, |search| {
        assert!(search.better().is_none());
        assert!(search.tried[0].is_present());
        assert_eq!(search.tried[0].text, text);
    });
}

#[test]
fn a_limit_is_kept_and_two_searches_give_one_answer() {
    let (path, text) = own("userland/demo/demo.toml");
    let answer = |tries: usize| {
        with(&path, &text, tries, |search| {
            assert!(search.count <= tries.max(1) && search.tried.len() + search.impossible == search.count);
            assert!(search.present().is_some());
            search.tried.iter().map(|tried| tried.text.clone()).collect::<Vec<_>>()
        })
    };
    for tries in [0, 1, 7, 30, TRIES] {
        assert_eq!(answer(tries), answer(tries));
    }
}

#[test]
fn a_manifest_without_clusters_gets_them_behind_its_system_in_each_way_to_write_tables() {
    let text = "[system]\nname = \"two\" # both\nboard = \"virt\"\ncpus = 2\n\n# Tasks\n\n[tasks]\n\
                a = { script = [\"burn 5ms\"], period = \"10ms\", budget = \"5500us\", hard = true }\n\
                b = { script = [\"burn 5ms\"], period = \"10ms\", budget = \"5500us\", hard = true} # close\n\
                c.script = [\"burn 1ms\"]\nc.period = \"20ms\"\nc.budget = \"1500us\"\nc.deadline = \"3ms\"\nc.hard = true\n";
    let path = Path::new("system.toml");
    with(path, text, TRIES, |search| {
        let apart = search.tried.iter().find(|tried| tried.arrangement.clusters.len() == 2).unwrap();
        let manifest = Manifest::parse(path, &apart.text).unwrap_or_else(|errors| panic!("{errors}\n{}", apart.text));
        let clusters: Vec<u32> = manifest.system.tasks.iter().map(|task| task.cluster).collect();
        assert_ne!(clusters[0], clusters[1]);
        let place = |part: &str| apart.text.find(part).unwrap_or_else(|| panic!("{part}\n{}", apart.text));
        assert!(
            place("[system]") < place("[clusters.cpu0]") && place("[clusters.cpu1]") < place("# Tasks"),
            "{}",
            apart.text
        );
        assert!(apart.text.contains("hard = true, cluster = \"cpu0\" }"), "{}", apart.text);
        assert!(apart.text.contains("hard = true, cluster = \"cpu1\"} # close"), "{}", apart.text);
        assert!(apart.text.contains("c.cluster = "), "{}", apart.text);
        // Under another policy only `[system]` changes.
        let is_rate = |tried: &&Tried| tried.arrangement.clusters.len() == 1 && tried.arrangement.policies() == "RM";
        let rate = search.tried.iter().find(is_rate).unwrap();
        assert_eq!(changes(text, rate), ["+policy = \"RM\""]);
    });
}

#[test]
fn tasks_like_others_and_the_end_are_in_the_right_clusters_with_few_lines() {
    let mut text = "[system]\nname = \"short\"\nboard = \"virt\"\ncpus = 2\nend = \"500ms\" # soon\n\n\
                    [tasks.a]\nscript = [\"burn 3ms\"]\nperiod = \"10ms\"\nbudget = \"3500us\"\nhard = true\n"
        .to_owned();
    for name in ["b", "c", "d"] {
        text += &format!("\n[tasks.{name}]\nlike = \"a\"\n");
    }
    let path = Path::new("system.toml");
    with(path, &text, TRIES, |search| {
        let apart = search.tried.iter().find(|tried| tried.arrangement.clusters.len() == 2).expect("two clusters");
        let manifest = Manifest::parse(path, &apart.text).unwrap_or_else(|errors| panic!("{errors}\n{}", apart.text));
        let on = |cluster: u32| {
            manifest.system.tasks.iter().filter(|task| task.name.len() == 1 && task.cluster == cluster).count()
        };
        assert_eq!([on(0), on(1)], [2, 2]);
        assert!(apart.text.contains("end = { after = \"500ms\", cluster = \"cpu0\" } # soon"), "{}", apart.text);
        // One line for `a`, and one for each of the two tasks that are elsewhere.
        assert_eq!(apart.text.lines().filter(|line| line.starts_with("cluster = ")).count(), 3, "{}", apart.text);
        assert_eq!(misses(&manifest, 400_000_000), []);
    });
}

#[test]
fn inline_clusters_stay_inline_and_interrupts_follow_the_tasks_that_wait_for_them() {
    let (path, text) = own("userland/demo/demo.toml");
    let (first, rest) = text.split_once("[clusters.control]").unwrap();
    let (_, rest) = rest.split_once("# -- Tasks with deadlines").unwrap();
    let inline =
        "[clusters]\n# the loop\ncontrol = { cpus = [0] } # alone\nvision = { cpus = [1, 2], policy = \"EDF\" }\n\n";
    let text = format!("{first}{inline}# -- Tasks with deadlines{rest}");
    with(&path, &text, TRIES, |search| {
        assert_eq!(search.present().unwrap().text, text);
        let one = search.tried.iter().find(|tried| tried.arrangement.clusters.len() == 1).unwrap();
        assert!(one.text.contains("vision = { cpus = [0, 1, 2], policy = "), "{}", one.text);
        assert!(one.text.contains("# the loop") && one.text.contains("# alone"), "{}", one.text);
        let three = search.tried.iter().find(|tried| tried.arrangement.clusters.len() == 3).unwrap();
        let system = Manifest::parse(&path, &three.text).unwrap().system;
        let (_, interrupt) = system.interrupts.iter().find(|(name, _)| name == "gpu").unwrap();
        let driver = system.tasks.iter().find(|task| task.name == "gpu").unwrap();
        assert_ne!(system.clusters[driver.cluster as usize].1.cpus >> interrupt.cpu & 1, 0);
    });
}

#[test]
fn rules_of_locks_are_tried_and_written_where_they_help() {
    // By priority the low task waits for each hold of the high one that comes before it.
    let tasks = [("high", "4ms", 1), ("middle", "8ms", 2), ("low", "40ms", 3)];
    let mut text =
        "[system]\nname = \"locks\"\nboard = \"virt\"\ncpus = 2\n\n[engines.lock]\norder = \"priority\" # for now\n"
            .to_owned();
    for (name, period, priority) in tasks {
        text += &format!(
            "\n[tasks.{name}]\nscript = [\"acquire lock\", \"burn 400us\", \"release lock\"]\nperiod = \"{period}\"\nbudget = \"1ms\"\nwcet = \"500us\"\n\
             priority = {priority}\nhard = true\nhandles = {{ lock = \"engine lock: acquire\" }}\nuses = {{ lock = {{ cpu = \"400us\" }} }}\n"
        );
    }
    let path = Path::new("system.toml");
    with(path, &text, TRIES, |search| {
        let other = search.tried.iter().find(|tried| tried.text.contains("order = \"fifo\" # for now"));
        let other = other.expect("the order by arrival was tried");
        assert_eq!(other.verdict.is_admitted, Manifest::parse(path, &other.text).is_ok());
        assert!(search.parts.policies.contains(&PolicyName::Fp), "all tasks have priorities");
    });
}

#[test]
fn mistakes_of_a_manifest_are_those_of_its_reader() {
    let path = Path::new("system.toml");
    for text in
        ["[system\n", "[system]\nname = \"x\"\nboard = \"virt\"\ncpus = 9\n", "[system]\nname = \"x\"\nname = \"y\"\n"]
    {
        let expected = Manifest::parse(path, text).unwrap_err().to_string();
        let found = search(path, text, &Variant::default(), TRIES).unwrap_err().to_string();
        assert_eq!(found, expected);
    }
}
