//! Proposals for random systems: each is admitted by the reader of manifests, and no arrangement is ranked above a better one.

use std::path::Path;

use fusee_advise::search::{Search, search};
use fusee_campaigns::hostile::{self, Which};
use fusee_manifest::{Manifest, Variant};
use fusee_simulator::workload::Source;
use fusee_simulator::{Options, simulate_observed};
use fusee_views::metrics::Metrics;

/// The name of all manifests here; no file is called so.
const FILE: &str = "drawn.toml";

fn tried(text: &str, tries: usize, look: impl FnOnce(&Search<'_>)) {
    let variant = Variant::default();
    look(&search(Path::new(FILE), text, &variant, tries).unwrap_or_else(|errors| panic!("{errors}\n{text}")));
}

/// Whether a text is admitted if it is refused for all that is not proved.
fn is_admitted(text: &str) -> bool {
    Manifest::parse(Path::new(FILE), &text.replace("admission = \"warn\"", "admission = \"refuse\"")).is_ok()
}

/// Checks the order of all arrangements, and the verdict on each.
fn check(search: &Search<'_>, text: &str) {
    let present = search.tried.iter().position(|tried| tried.text == text).expect("the present arrangement is tried");
    for (at, tried) in search.tried.iter().enumerate() {
        assert_eq!(tried.verdict.is_admitted, is_admitted(&tried.text), "{text}\nbecame\n{}", tried.text);
        let compared = tried.verdict.compare(&search.tried[present].verdict);
        assert!(if at < present { compared.is_gt() } else { compared.is_le() }, "{at} of {text}");
    }
    assert!(search.tried.is_sorted_by(|one, next| one.verdict.compare(&next.verdict).is_ge()), "{text}");
    assert!(search.better().is_none_or(|best| best.lines > 0));
}

#[test]
fn proposals_for_random_systems_are_admitted_and_miss_nothing_among_attackers() {
    const SYSTEMS: u64 = 320;
    const SEED: u64 = 31;
    let (mut better, mut kept, mut jobs) = (0, 0, 0);
    for number in (0..SYSTEMS).map(|system| system * 4) {
        let Ok(text) = hostile::manifest(SEED, number) else { continue };
        tried(&text, 24, |search| {
            check(search, &text);
            let Some(best) = search.better().filter(|best| best.verdict.is_admitted) else { return kept += 1 };
            better += 1;
            let manifest = Manifest::parse(Path::new(FILE), &best.text).unwrap();
            let report = hostile::replay(&manifest, (SEED, number), Which::default());
            let report = report.unwrap_or_else(|why| panic!("{why}\n{}", best.text));
            assert_eq!(report.violations, [], "{}", best.text);
            jobs += report.jobs;
        });
    }
    println!("{better} proposals, {jobs} jobs of proved tasks; {kept} systems kept as they are");
    assert!(better + kept >= 300 && better >= 40 && jobs > 1_000, "{better} {kept} {jobs}");
}

/// A system of hard tasks on CPUs at random, each CPU a cluster, or all of them one.
fn draw(source: &mut Source) -> String {
    let cpus = source.draw(2, 4);
    let is_global = source.draw(1, 4) == 1;
    let mut text = format!("[system]\nname = \"drawn\"\nboard = \"virt\"\ncpus = {cpus}\nstart = \"1ms\"\n");
    if !is_global {
        (0..cpus).for_each(|cpu| text += &format!("\n[clusters.c{cpu}]\ncpus = [{cpu}]\n"));
    }
    for task in 0..source.draw(2, 3 * cpus) {
        let period = source.pick(&[4_u64, 5, 8, 10, 20]) * 1_000;
        let budget = period * source.draw(5, 70) / 100;
        let deadline = source.draw(budget.max(period * 6 / 10), period);
        let burn = budget - 20;
        text += &format!(
            "\n[tasks.t{task}]\nscript = [\"burn {burn}us\"]\nperiod = \"{period}us\"\nbudget = \"{budget}us\"\ndeadline = \"{deadline}us\"\nhard = true\n"
        );
        if !is_global {
            text += &format!("cluster = \"c{}\"\n", source.draw(0, cpus - 1));
        }
    }
    text
}

#[test]
fn refused_partitions_of_random_tasks_get_proved_ones() {
    let (mut refused, mut proved) = (0, 0);
    for number in 0..200 {
        let text = draw(&mut Source::new(7, number));
        tried(&text, 60, |search| {
            check(search, &text);
            let is_refused = Manifest::parse(Path::new(FILE), &text).is_err();
            refused += u32::from(is_refused);
            let Some(best) = search.better().filter(|best| best.verdict.is_admitted) else {
                // A refused system without a proposal has a reason.
                return assert!(!is_refused || !search.in_the_way(&search.tried[0]).is_empty());
            };
            proved += u32::from(is_refused);
            let manifest = Manifest::parse(Path::new(FILE), &best.text).unwrap();
            let mut metrics = Metrics::new(&manifest.system);
            simulate_observed(&manifest, &Options::default(), 100_000_000, &mut |record| metrics.observe(record))
                .unwrap();
            assert!(metrics.tasks.iter().all(|task| task.jobs() > 3 && task.misses() == 0), "{}", best.text);
        });
    }
    println!("{proved} of {refused} refused systems have a proved arrangement");
    assert!(refused > 100 && proved > 30, "{proved} of {refused}");
}
