//! Tests of the campaign itself.

use super::*;

const FORGETFUL: Which = Which { planted: Some(Planted::ExhaustionRefills), granted: None, costs: None };

fn some(systems: u64, kernel: Which) -> HostileReport {
    hostile(&HostileOptions { draws: Draws::new(7, systems), kernel, covers: false })
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let report = some(40, FORGETFUL);
    assert_eq!(report.to_string(), some(40, FORGETFUL).to_string());
    assert_eq!(report.failures.len(), 0);
    // No more is simulated of a manifest once it has shown the fault.
    assert!((10..40).contains(&report.systems) && report.proved_tasks() > 20, "{report}");
    let sound = some(40, Which::default());
    assert_eq!((sound.systems, sound.failures.len(), sound.violations.len()), (40, 0, 0));
    assert!(sound.proved_tasks() > 40, "{sound}");
}

#[test]
fn a_planted_fault_is_shrunk_to_a_small_system_that_shows_the_same_fault() {
    let report = some(30, FORGETFUL);
    assert!(report.violations.len() > 2, "{report}");
    let mut few = 0;
    for Violation { origin, fault, what, manifest } in &report.violations {
        let again = parse(manifest).expect("it was admitted before");
        let outcome = run(&again, *origin, FORGETFUL).expect("it was simulated before");
        assert_eq!(outcome.wrong, Some((fault.clone(), what.clone())));
        // Without the fault nothing is wrong with it.
        let sound = run(&again, *origin, Which::default()).expect("it was simulated before");
        assert_eq!(sound.wrong, None, "{manifest}");
        few += usize::from(again.system.tasks.len() <= 2);
    }
    // A victim and an attacker, mostly.
    assert!(2 * few >= report.violations.len(), "{report}");
}
