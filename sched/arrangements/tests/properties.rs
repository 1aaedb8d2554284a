//! Properties of the bounds of random task sets.

use fusee_arrangements::arrangement::{Arrangement, Speeds};
use fusee_arrangements::costs::{Costs, Line};
use fusee_arrangements::draw::{Nominal, SETTINGS, Setting, draw};
use fusee_arrangements::engines::{Copies, Engines, GpuCluster, Migration, Use};
use fusee_arrangements::judge::{Bounds, Method, Rules, judge};
use fusee_arrangements::task::{Gpu, Task};
use proptest::prelude::*;

/// Costs of the text's order of magnitude.
fn costs() -> Costs {
    let line = |least, mebibyte| Line { least, mebibyte };
    Costs {
        schedule: 4_000,
        context_switch: 2_000,
        release: 5_000,
        cache_delay: 3_000,
        interprocessor_interrupt: 2_000,
        call_in: 300,
        call_out: 300,
        lock: 1_000,
        unlock: 1_000,
        top_half: 8_000,
        bottom_half: 60_000,
        has_callback: true,
        inbound: line(60_000, 1_181_000),
        outbound: line(60_000, 1_214_000),
        near: line(30_000, 175_600),
        far: line(60_000, 400_000),
        ..Costs::default()
    }
}

fn drawn(number: u64, target: u64) -> Vec<Task> {
    let setting = Setting::of((number as usize * 101) % SETTINGS).unwrap();
    let nominal = Nominal { inbound: costs().inbound, outbound: costs().outbound };
    draw(&setting, target, &nominal, 11, number)
}

#[test]
fn no_fine_bound_of_ten_thousand_sets_is_above_the_coarse_one() {
    let all = Arrangement::all();
    let (mut both, mut fine_only, mut coarse_only, mut smaller) = (0, 0, 0, 0);
    for number in 0..10_000 {
        let arrangement = &all[number as usize % all.len()];
        let tasks = drawn(number, 1_000 + number % 5 * 1_000);
        let [coarse, fine] = [Method::Coarse, Method::Fine]
            .map(|method| judge(&tasks, arrangement, &costs(), Rules { method, ..Rules::TEXT }));
        match (coarse, fine) {
            (Ok(coarse), Ok(fine)) => {
                both += 1;
                for (coarse, fine) in coarse.iter().zip(&fine).filter(|(one, _)| one.place.gpus.is_some()) {
                    let parts = |one: &Bounds| [one.engines, one.section, one.tokens];
                    let pairs = parts(coarse).into_iter().zip(parts(fine));
                    assert!(pairs.clone().all(|(coarse, fine)| fine <= coarse), "{number} {arrangement}");
                    smaller += pairs.filter(|(coarse, fine)| fine < coarse).count();
                }
            }
            (Err(_), Ok(_)) => fine_only += 1,
            // Tasks without GPUs are placed beside other loads.
            (Ok(_), Err(_)) => coarse_only += 1,
            (Err(_), Err(_)) => {}
        }
    }
    println!("{both} by both, {fine_only} by fine bounds only, {coarse_only} by coarse ones only; {smaller} smaller");
    assert!(both > 2_000 && fine_only > 100 && coarse_only * 20 < fine_only && smaller > 5_000);
}

/// A set with kernels of other lengths: those of each task as on a GPU of so many percent.
fn at_speeds(tasks: &[Task], speed: impl Fn(usize) -> u64) -> Vec<Task> {
    let one = |(index, task): (usize, &Task)| {
        let slower = |gpu: Gpu| Gpu { kernel: (gpu.kernel * 100).div_ceil(speed(index)), ..gpu };
        Task { gpu: task.gpu.map(slower), ..*task }
    };
    tasks.iter().enumerate().map(one).collect()
}

#[test]
fn gpus_of_twice_the_speed_are_gpus_with_kernels_of_half_the_length() {
    let all = Arrangement::all();
    let mut accepted = 0;
    for number in 0..600 {
        let arrangement = all[number as usize % all.len()];
        let tasks = drawn(number, 1_000 + number % 5 * 1_000);
        let fast = judge(&tasks, &Arrangement { speeds: Speeds([200; 8]), ..arrangement }, &costs(), Rules::TEXT);
        let short = judge(&at_speeds(&tasks, |_| 200), &arrangement, &costs(), Rules::TEXT);
        assert_eq!(fast, short, "{number} {arrangement}");
        accepted += u32::from(fast.is_ok());
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn the_kernels_of_a_task_are_as_long_as_on_the_slowest_gpu_of_its_cluster() {
    let all = Arrangement::all();
    let speeds = Speeds([200, 100, 50, 150, 300, 300, 100, 200]);
    let (mut alike, mut other) = (0, 0);
    for number in 0..1_200 {
        let arrangement = Arrangement { speeds, ..all[number as usize % all.len()] };
        let tasks = drawn(number, 1_000 + number % 4 * 1_000);
        let Ok(found) = judge(&tasks, &arrangement, &costs(), Rules::TEXT) else { continue };
        // The oracle: equal GPUs, and the lengths that kernels have where they were placed.
        let slowest = |task: usize| {
            let size = arrangement.gpu_cluster as usize;
            let gpus = found[task].place.gpus.map_or(0..1, |cluster| cluster * size..(cluster + 1) * size);
            speeds.0[gpus].iter().copied().min().unwrap()
        };
        let equal = Arrangement { speeds: Speeds::EQUAL, ..arrangement };
        let placed = judge(&at_speeds(&tasks, slowest), &equal, &costs(), Rules::TEXT);
        let is_alike = |placed: &Vec<Bounds>| placed.iter().zip(&found).all(|(one, other)| one.place == other.place);
        match placed.ok().filter(is_alike) {
            Some(placed) => {
                assert_eq!(placed, found, "{number} {arrangement}");
                alike += 1;
            }
            None => other += 1,
        }
    }
    println!("{alike} sets with equal places, {other} with others");
    assert!(alike > 100, "{alike} {other}");
}

#[test]
fn a_set_with_a_task_less_is_not_blocked_for_longer_by_engines() {
    let arrangement = Arrangement::all().into_iter().find(|one| one.to_string() == "(G,C4p2p,2)").unwrap();
    let cluster = GpuCluster { gpus: 4, tokens: 2, holders: 8, migration: arrangement.migration };
    let copies = |whole| Copies { whole, length: 1_181_000, rest: 0 };
    let one =
        Use { kernels: 1, kernel: 2_000_000, input: copies(2), output: copies(1), state: copies(1), ..Use::default() };
    let mut before = u64::MAX;
    for count in (1..12).rev() {
        let uses = vec![one; count];
        let blocked = Engines::new(cluster, &uses).fine(0, |_| 1).sum();
        assert!(blocked <= before, "{count}");
        before = blocked;
    }
    assert_eq!(before, 0);
}

fn copies() -> impl Strategy<Value = Copies> {
    (0u64..4, 1u64..2_000, 0u64..1_000).prop_map(|(whole, length, rest)| Copies { whole, length, rest })
}

fn uses() -> impl Strategy<Value = Use> {
    (1u64..3, 1u64..5_000, copies(), copies(), copies(), copies()).prop_map(
        |(kernels, kernel, input, output, state, state_out)| Use { kernels, kernel, input, output, state, state_out },
    )
}

proptest! {
    #[test]
    fn fine_bounds_are_at_most_coarse_ones_and_grow_with_jobs(
        mut uses in prop::collection::vec(uses(), 1..8),
        gpus in prop::sample::select(vec![1u64, 2, 4]),
        tokens in 1u64..4,
        peer in any::<bool>(),
        few in 1u64..3,
    ) {
        let migration = match (gpus, peer) {
            (1, _) => Migration::Never,
            (_, true) => Migration::Peer,
            (_, false) => Migration::System,
        };
        for one in &mut uses {
            match migration {
                Migration::Never => (one.state, one.state_out) = (Copies::default(), Copies::default()),
                Migration::Peer => one.state_out = Copies::default(),
                Migration::System => {}
            }
        }
        let holders = (tokens * gpus).min(uses.len() as u64);
        let engines = Engines::new(GpuCluster { gpus, tokens, holders, migration }, &uses);
        for task in 0..uses.len() {
            let (coarse, fine) = (engines.coarse(task), engines.fine(task, |_| few));
            prop_assert!(fine.kernels <= coarse.kernels && fine.copies <= coarse.copies, "{:?} {:?}", fine, coarse);
            prop_assert!(fine.sum() <= engines.fine(task, |_| few + 1).sum());
        }
    }
}
