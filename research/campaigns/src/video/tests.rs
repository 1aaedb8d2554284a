//! Tests of the arrangements of a pipeline of video.

use super::*;

const LENGTH: u64 = 2_000 * MILLISECOND;

fn setups() -> Vec<Setup> {
    let managed = |tokens, by_priority| (Scheduling::Edf, Sharing::Managed { tokens, by_priority });
    let polled = [Scheduling::Edf, Scheduling::Fixed, Scheduling::Slices].map(|one| (one, Sharing::Polled));
    let all = [managed(1, false), managed(3, true)].into_iter().chain(polled);
    all.map(|(scheduling, sharing)| Setup { scheduling, sharing, with_token: WITH_TOKEN, early: false }).collect()
}

/// The first and the last graph, which a kernel for a board has room for.
fn two(setup: Setup, seed: u64) -> Outcome {
    let all: Vec<Graph> = graphs().collect();
    Workload::new(setup, vec![all[0], all[16]], seed, LENGTH).run().expect("it runs")
}

#[test]
fn node_times_are_those_that_the_text_measured_in_sum() {
    let frames: f64 = periods().map(|period| 1.0 / period as f64).sum();
    assert!((frames * 1.2e9 - FRAMES as f64).abs() < 1e-6, "{frames}");
    let kernels = NODES.iter().filter(|(_, engine, _)| *engine == EE).count() as u64;
    let operations = NODES.iter().filter(|(_, engine, _)| engine.is_some()).count() as u64;
    assert_eq!((kernels, operations), (KERNELS, OPERATIONS));
    assert!((frames * (KERNELS * OPERATION) as f64 - 0.66).abs() < 1e-4);
    let of_frame = NODES.len() as u64 * COMPUTE + OPERATIONS * BOTTOM_HALF + KERNEL_PATHS;
    assert!((frames * of_frame as f64 - 5.76).abs() < 1e-4);
    assert_eq!((periods().count(), NODES.len() * periods().count(), depths()[10]), (17, 187, 8));
}

#[test]
fn queues_of_tokens_are_as_long_as_in_the_text() {
    let limit = |tokens| {
        let sharing = Sharing::Managed { tokens, by_priority: false };
        let setup = Setup { scheduling: Scheduling::Edf, sharing, with_token: WITH_TOKEN, early: false };
        let text = Workload::new(setup, graphs().take(1).collect(), 1, LENGTH).text();
        Manifest::parse(Path::new("video"), &text).unwrap().system.pools[0].1.limit
    };
    assert_eq!([1, 2, 3, 6].map(limit), [6, 3, 2, 1]);
}

#[test]
fn each_frame_of_two_graphs_is_done_once_and_in_time_whoever_decides() {
    for setup in setups() {
        let outcome = two(setup, 3);
        for Frames { period, done } in &outcome.graphs {
            let due = LENGTH / period;
            assert!((due - 2..=due).contains(&(done.len() as u64)), "{setup:?}: {} of {due}", done.len());
            for pair in done.windows(2) {
                assert_eq!(pair[1][0] - pair[0][0], *period, "{setup:?}");
                assert!(pair[1][1] > pair[0][1]);
            }
            // Nine nodes one after the other, of which seven have an operation.
            let least = 9 * COMPUTE + 7 * OPERATION;
            let most = least + period;
            assert!(done.iter().all(|[release, done]| (least..most).contains(&(done - release))), "{setup:?}");
        }
        // A fraction of six CPUs, and clients that look until they are done need more.
        let per_second = outcome.busy / 2;
        assert!((800..1_300).contains(&(per_second / MILLISECOND)), "{setup:?}: {per_second}");
        assert_eq!((outcome.held > 0, outcome.throttles), (setup.sharing != Sharing::Polled, 0));
    }
}

#[test]
fn the_same_seed_gives_the_same_and_another_one_another() {
    let setup = setups()[1];
    assert!(two(setup, 4) == two(setup, 4) && two(setup, 4) != two(setup, 5));
}

#[test]
fn a_kernel_for_a_board_has_no_room_for_all() {
    if USERS_PER_POOL < 136 {
        let refused = run(setups()[0], 1, LENGTH).unwrap_err();
        assert!(refused.starts_with("136 tasks share a pool"), "{refused}");
    }
}

#[test]
fn setups_and_outcomes_are_what_their_words_and_lines_say() {
    for setup in setups().into_iter().flat_map(|setup| [setup, Setup { early: true, ..setup }]) {
        let words = setup.words();
        assert_eq!(Setup::of_words([0, 1, 2, 3, 4].map(|one| words[one].as_str())), Some(setup));
    }
    assert_eq!(Setup::of_words(["edf", "three", "fifo", "50", "early"]), None);
    let mut graphs: Vec<Frames> = periods().map(|period| Frames { period, done: Vec::new() }).collect();
    graphs[16].done = vec![[5, 7], [8, 9]];
    let outcome = Outcome { graphs, busy: 1, held: 2, waited: [3, 4], throttles: 5 };
    let lines = outcome.lines();
    assert_eq!(Outcome::of_lines(&lines), Some(outcome));
    assert_eq!(Outcome::of_lines("16 5 7\n"), None, "it broke off");
}
