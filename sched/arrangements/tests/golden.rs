//! Chains and bounds with known values.

use fusee_arrangements::chains::{Chain, Chains};
use fusee_arrangements::program::{Demand, Prices, Rays};
use microlp::{ComparisonOp, OptimizationDirection, Problem};

/// Inbound copies, outbound copies and migrations of one mebibyte under load, nanoseconds: table 4.2.
const LENGTH: [u64; 3] = [1_181_000, 1_214_000, 175_600];

#[test]
fn the_search_finds_as_many_chains_as_the_text_and_a_search_without_memory() {
    let expected = [
        ((2, 1), [1, 0, 1]),
        ((2, 2), [7, 4, 8]),
        ((2, 3), [20, 14, 23]),
        ((3, 2), [22, 17, 33]),
        ((3, 3), [85, 79, 115]),
        ((4, 1), [3, 0, 5]),
        ((4, 2), [44, 38, 64]),
    ];
    for ((gpus, tokens), counts) in expected {
        let found = Chains::search(gpus, tokens);
        let sizes = [&found.outbound, &found.inbound, &found.migration].map(Vec::len);
        assert_eq!(sizes, counts, "{gpus} GPUs, {tokens} tokens");
    }
}

#[test]
fn kept_chains_are_those_of_the_search() {
    for (gpus, tokens) in [(2, 1), (2, 2), (2, 3), (4, 1), (4, 2)] {
        assert_eq!(Chains::kept(gpus, tokens), Some(Chains::search(gpus, tokens)));
    }
    assert_eq!(Chains::kept(3, 1), None);
    // The search of these takes half a minute; their numbers are those that it found.
    let largest = Chains::kept(4, 3).unwrap();
    assert_eq!([&largest.outbound, &largest.inbound, &largest.migration].map(Vec::len), [185, 176, 239]);
    for smaller in [Chains::search(4, 2), Chains::search(2, 3)] {
        assert!(smaller.outbound.iter().all(|chain| largest.outbound.contains(chain)));
        assert!(smaller.inbound.iter().all(|chain| largest.inbound.contains(chain)));
        assert!(smaller.migration.iter().all(|chain| largest.migration.contains(chain)));
    }
}

/// Table 4.2: the longest chains of two GPUs with three tokens, within 2 us.
#[test]
fn the_longest_chains_are_those_of_the_text() {
    let chains = Chains::kept(2, 3).unwrap();
    let longest = |chains: &[Chain]| chains.iter().map(|chain| (chain.span(&LENGTH), *chain)).max().unwrap();
    let chain = |inbound, outbound, migrations| Chain { inbound, outbound, migrations };
    let expected = [
        (&chains.outbound, 4_967, chain(2, 2, 1)),
        (&chains.inbound, 5_000, chain(1, 3, 1)),
        (&chains.migration, 6_006, chain(2, 3, 0)),
    ];
    for (chains, microseconds, of) in expected {
        let (span, found) = longest(chains);
        assert_eq!(found, of);
        assert!(span.abs_diff(microseconds * 1_000) <= 2_000, "{span}");
    }
}

/// A greedy choice takes the longest chain of the first copy, and has no operations left that the second one's chains need.
fn greedy(chains: &[Chain], mut times: u64, mut left: [u64; 3]) -> u64 {
    let mut sum = 0;
    let counts = |chain: &Chain| [chain.inbound, chain.outbound, chain.migrations].map(u64::from);
    while times > 0 {
        let fits = |chain: &&Chain| counts(chain).iter().zip(&left).all(|(count, left)| count <= left);
        let Some(best) = chains.iter().filter(fits).max_by_key(|chain| chain.span(&LENGTH)) else { break };
        let chosen = counts(best);
        left.iter_mut().zip(chosen).for_each(|(left, count)| *left -= count);
        sum += best.span(&LENGTH);
        times -= 1;
    }
    sum
}

/// Six outbound copies and two migrations of others, two inbound copies of the job: the text has 3,994 us by a greedy choice, and 7,636 us.
#[test]
fn a_greedy_choice_is_no_bound() {
    let chains = Chains::kept(2, 3).unwrap();
    let others = [0, 6, 2];
    let bound = Prices::of(&Rays::of(&chains), LENGTH).longest(&Demand { inbound: 2, ..Demand::default() }, others);
    assert!(bound.abs_diff(7_636_000) <= 2_000, "{bound}");
    let greedy = greedy(&chains.inbound, 2, others);
    assert!(greedy.abs_diff(3_994_000) <= 2_000, "{greedy}");
}

/// The exact maximum in whole numbers, by trying everything.
fn exact(chains: &[(u64, &[Chain])], left: [u64; 3]) -> u64 {
    let Some(((times, choices), rest)) = chains.split_first() else { return 0 };
    if *times == 0 {
        return exact(rest, left);
    }
    let mut best = exact(rest, left);
    for chain in *choices {
        let used = [chain.inbound, chain.outbound, chain.migrations].map(u64::from);
        if used.iter().zip(&left).all(|(used, left)| used <= left) {
            let after = [0, 1, 2].map(|kind| left[kind] - used[kind]);
            let further = [&[(times - 1, *choices)], rest].concat();
            best = best.max(chain.span(&LENGTH) + exact(&further, after));
        }
    }
    best
}

#[test]
fn the_program_is_never_below_the_maximum_in_whole_numbers() {
    let chains = Chains::kept(2, 2).unwrap();
    let prices = Prices::of(&Rays::of(&chains), LENGTH);
    let (mut equal, mut all) = (0, 0);
    for number in 0..3u64.pow(6) {
        let digit = |place: u32| number / 3u64.pow(place) % 3;
        let count = [digit(0), digit(1) * 2, digit(2)];
        let own = Demand { outbound: digit(3), inbound: digit(4), migrations: digit(5) };
        let kinds = [
            (own.outbound, &chains.outbound[..]),
            (own.inbound, &chains.inbound[..]),
            (own.migrations, &chains.migration[..]),
        ];
        let (bound, exact) = (prices.longest(&own, count), exact(&kinds, count));
        assert!(bound >= exact, "{own:?} {count:?}: {bound} {exact}");
        all += 1;
        equal += u32::from(bound <= exact + 100);
    }
    // Counts that are not whole make few of them longer.
    assert!(equal * 10 > all * 7, "{equal} of {all}");
}

/// The maximum by a solver of linear programs, with all chains: microseconds.
fn solved(chains: &Chains, own: &Demand, length: [u64; 3], count: [u64; 3]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let kinds = [(own.outbound, &chains.outbound), (own.inbound, &chains.inbound), (own.migrations, &chains.migration)];
    let mut used: [Vec<_>; 3] = Default::default();
    for (times, chains) in kinds {
        let mut of_kind = Vec::new();
        for chain in chains {
            let variable = problem.add_var(chain.span(&length) as f64 / 1e3, (0.0, f64::INFINITY));
            of_kind.push((variable, 1.0));
            for (used, each) in used.iter_mut().zip([chain.inbound, chain.outbound, chain.migrations]) {
                used.push((variable, f64::from(each)));
            }
        }
        problem.add_constraint(of_kind, ComparisonOp::Le, times as f64);
    }
    for (used, count) in used.into_iter().zip(count) {
        problem.add_constraint(used, ComparisonOp::Le, count as f64);
    }
    problem.solve().unwrap().into_solution().unwrap().objective()
}

#[test]
fn the_corners_have_the_maximum_that_a_solver_finds() {
    for (gpus, tokens) in [(2, 1), (2, 2), (2, 3), (4, 1), (4, 2), (4, 3)] {
        let chains = Chains::kept(gpus, tokens).unwrap();
        let rays = Rays::of(&chains);
        for length in [LENGTH, [181_000, 184_000, 400_000], [60_000, 60_000, 30_000]] {
            let prices = Prices::of(&rays, length);
            for number in 0..40u64 {
                let draw = |factor: u64, modulus: u64| (number * factor + 3) % modulus;
                let own = Demand { outbound: draw(5, 4), inbound: draw(7, 5), migrations: draw(3, 3) };
                let count = [draw(11, 13), draw(17, 29), draw(5, 7)];
                let (bound, solved) = (prices.longest(&own, count), solved(&chains, &own, length, count) * 1e3);
                let difference = bound as f64 - solved;
                assert!((-1.0..100.0).contains(&difference), "{gpus} {tokens} {own:?} {count:?}: {bound} {solved}");
            }
        }
    }
}
