//! Fine bounds of the study against simulations.

use fusee_arrangements::judge::Bounds;
use fusee_campaigns::arranged::{Claims, Drawn, arranged, judged};
use fusee_campaigns::draws::Draws;

/// As if no other job used an engine; as if there was a token for each job; as if no job donated; as if drivers took no time; as if no state
/// migrated; as if each job was done in half of its bound.
#[test]
fn fine_bounds_hold_and_those_that_are_too_good_are_found_out() {
    let report = arranged(Draws::new(7, 600), &judged);
    println!("{report}");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
    assert!(report.policies.iter().all(|sets| *sets > 20), "{report}");
    assert!(report.kinds.iter().all(|kind| *kind > 5) && report.blocked.iter().all(|tasks| *tasks > 0), "{report}");
    fn changed(drawn: &Drawn, change: fn(&mut Bounds)) -> Option<Vec<Bounds>> {
        let mut bounds = judged(drawn)?;
        bounds.iter_mut().for_each(change);
        Some(bounds)
    }
    let no_engines = |drawn: &Drawn| changed(drawn, |one| one.engines = 0);
    let no_tokens = |drawn: &Drawn| changed(drawn, |one| one.tokens = 0);
    let no_donors = |drawn: &Drawn| changed(drawn, |one| one.donor = 0);
    let half = |drawn: &Drawn| changed(drawn, |one| one.response /= 2);
    let with_places = |drawn: &Drawn, found: Option<Vec<Bounds>>| {
        let right = judged(drawn)?;
        let one =
            |(found, right): (Bounds, &Bounds)| Bounds { place: right.place, execution: right.execution, ..found };
        Some(found?.into_iter().zip(&right).map(one).collect::<Vec<_>>())
    };
    let no_driver = |drawn: &Drawn| {
        let mut other = drawn.clone();
        other.costs.bottom_half = 0;
        with_places(drawn, judged(&other))
    };
    let no_state = |drawn: &Drawn| {
        let mut other = drawn.clone();
        other.tasks.iter_mut().filter_map(|task| task.gpu.as_mut()).for_each(|gpu| gpu.state = 0);
        with_places(drawn, judged(&other))
    };
    let all: [Claims<'_>; 6] = [&no_engines, &no_tokens, &no_donors, &half, &no_driver, &no_state];
    let found = all.map(|claims| arranged(Draws::new(7, 6_000).until_wrong(), claims).violations.len());
    println!("{found:?}");
    assert!(found.iter().all(|found| *found > 0), "{found:?}");
}
