//! Each kind of wrong kernel, and times that are not known.

use super::*;

#[test]
fn a_kernel_that_panics_costs_its_own_command_and_says_where() {
    let mut world = World::new();
    let (from, to) = (LOCAL as u32, LOCAL as u32 + 64);
    for how in [PLANS, READS, WRITES, LOADS, DIVIDES, OVERFLOWS] {
        let wrong = Wrong { how };
        let mut launch = Launch { kernel: identity::<Wrong>(), first: 0, blocks: 2, words: words(&wrong, &[from, to]) };
        let (fault, line, _) = world.launch(launch);
        assert_eq!(fault.map(|fault| fault.kind), Some(FaultKind::Panicked), "{how}");
        let source = include_str!("../launches.rs").lines().nth(line as usize - 1).unwrap();
        let expected = ["forgot a case", "READS =>", "WRITES =>", "LOADS =>", "DIVIDES =>", "OVERFLOWS =>"];
        assert!(source.contains(expected[how as usize - 1]), "{how}: {source}");
        launch.words = words(&Wrong { how: 0 }, &[from, to]);
        assert_eq!(world.launch(launch).0, None, "the next is none the worse");
    }
    assert_eq!(world.device.late_completions(), 0);
}

#[test]
fn views_that_no_memory_holds_and_times_that_no_clock_reaches_are_refused_or_endless() {
    let mut world = World::new();
    let addresses = [LOCAL as u32, LOCAL as u32 + 64];
    let huge =
        Launch { kernel: identity::<Wrong>(), first: 0, blocks: 1, words: words(&Wrong { how: HUGE }, &addresses) };
    assert_eq!(world.launch(huge).0.map(|fault| fault.kind), Some(FaultKind::NotMapped));
    let endless = Launch { words: words(&Wrong { how: ENDLESS }, &addresses), ..huge };
    let (fault, _, took) = world.launch(endless);
    assert_eq!((fault, took > u64::MAX / 2), (None, true));
}

/// A kernel that computes the needs of its launch is interrupted: by its own length where time consists of executed instructions, by the host
/// elsewhere.
#[test]
fn a_kernel_that_does_not_say_what_it_needs_is_given_up_after_a_time_of_its_own_and_not_of_the_hosts() {
    let many = launch(&Many { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10, k: 11 }, &[LOCAL as u32]);
    for (is_exact, interruptions, expected) in
        [(true, 1, None), (true, 2, Some(FaultKind::TooLong)), (false, 20, None), (false, 40, Some(FaultKind::TooLong))]
    {
        let mut world = World::with(TIMES, is_exact);
        world.ram.interrupted = interruptions;
        assert_eq!(world.launch(many).0.map(|fault| fault.kind), expected, "{is_exact} {interruptions}");
    }
}

//--- Times that are not known

#[test]
fn a_launch_takes_what_was_measured_of_its_class_and_one_of_which_nothing_was_is_refused() {
    let mut world = World::new();
    let search = |length| launch(&Search { length, seed: 5 }, &[LOCAL as u32]);
    let part = Launch { blocks: 2, first: 1, ..search(64) };
    assert_eq!(world.launch(search(64)), (None, 0, timing::EXECUTION_SETUP + 3 * 70_000));
    assert_eq!(world.launch(part), (None, 0, timing::EXECUTION_SETUP + 2 * 70_000));
    let (fault, address, _) = world.launch(search(65));
    assert_eq!((fault.map(|fault| fault.kind), address), (Some(FaultKind::NotMeasured), 65));
}

/// Launches, class, longest block and name, as the control page says them.
fn row(world: &mut World, place: u64) -> (u32, u32, u64, String) {
    let at = DESCRIPTION.control + CONTROL_KERNELS + KERNEL_BYTES * place;
    let mut name = [0; KERNEL_NAME_BYTES];
    world.ram.read(at + KERNEL_NAME, &mut name).unwrap();
    let name = String::from_utf8(name.to_vec()).unwrap().trim_end_matches('\0').to_owned();
    let (launches, class) = (world.ram.read_u32(at + KERNEL_LAUNCHES), world.ram.read_u32(at + KERNEL_CLASS));
    (launches.unwrap(), class.unwrap(), world.ram.read_u64(at + KERNEL_BLOCK).unwrap(), name)
}

#[test]
fn while_times_are_measured_a_launch_ends_with_its_blocks_and_the_longest_of_each_class_is_kept() {
    let mut world = World::with(Times::Measuring, true);
    let search = |length| launch(&Search { length, seed: 5 }, &[LOCAL as u32]);
    // The kernel computes its needs first, 100 ns; then its blocks take 200, 300 and 400.
    assert_eq!(world.launch(search(64)), (None, 0, timing::EXECUTION_SETUP));
    assert_eq!(row(&mut world, 0), (1, 64, 400, "search".into()));
    // A kernel that says its time has it, and no class.
    let known = launch(&Many { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10, k: 11 }, &[LOCAL as u32]);
    assert_eq!(world.launch(known), (None, 0, timing::EXECUTION_SETUP + 100_000));
    world.launch(search(65));
    world.launch(search(64));
    let rows = [0, 1, 2, 3].map(|place| row(&mut world, place));
    assert_eq!(rows[0], (2, 64, 1_400, "search".into()));
    assert_eq!(rows[1], (1, 0, 600, "many".into()));
    assert_eq!(rows[2], (1, 65, 1_000, "search".into()));
    assert_eq!(rows[3].0, 0);
    // More classes than the page has room for are not taken down, and nothing else is lost.
    (100..100 + 2 * fusee_accel_contract::KERNELS as u32)
        .for_each(|length| assert_eq!(world.launch(search(length)).0, None));
    assert_eq!(row(&mut world, 0), rows[0]);
    assert_eq!(
        row(&mut world, fusee_accel_contract::KERNELS as u64 - 1).1,
        100 + fusee_accel_contract::KERNELS as u32 - 4
    );
}

/// Missing words beside a command are words of zero: no arguments of this kernel, but of others.
#[test]
fn words_beside_a_command_are_those_of_its_slot() {
    let mut world = World::new();
    let many = Many { a: 1, b: 2 << 40, c: 3, d: 4, e: 5, f: 6 << 40, g: 7, h: 8 << 40, i: 9, j: 10, k: 11 };
    for _ in 0..40 {
        assert_eq!(world.launch(launch(&many, &[LOCAL as u32])).0, None);
        let at = (local(CONTEXT, LOCAL) - BASE) as usize;
        let written: Vec<u64> = numbers(&world.ram.bytes[at..at + 88]);
        assert_eq!(written, [1, 2 << 40, 3, 4, 5, 6 << 40, 7, 8 << 40, 9, 10, 11]);
    }
}

#[test]
fn a_launch_takes_the_time_of_its_blocks_and_the_setup() {
    let mut world = World::new();
    let kernel = Histogram { pixels: 10_000 };
    let whole = launch(&kernel, &[LOCAL as u32, LOCAL as u32 + 0x8000]);
    assert_eq!(world.launch(whole).2, timing::EXECUTION_SETUP + kernel.time(0..10));
    let cut = Launch { first: 3, blocks: 2, ..whole };
    assert_eq!(world.launch(cut).2, timing::EXECUTION_SETUP + kernel.time(3..5));
    assert_eq!(world.launch(Launch { kernel: 9, ..whole }).2, timing::SETUP);
    assert_eq!(u64::from(Blend { length: 1, stride: 0 }.blocks()), 1);
}
