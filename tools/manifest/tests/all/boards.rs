#![allow(missing_docs)]
//! The boards of this repository.

use fusee_manifest::{Board, Cpus, DeviceKind, Memory, Start};

fn boards() -> impl Iterator<Item = Board> {
    Board::NAMES.into_iter().map(|name| Board::named(name).unwrap())
}

#[test]
fn each_board_is_read_and_its_memory_does_not_overlap() {
    for board in boards() {
        let Memory { base, bytes, kernel, kernel_end, firmware, firmware_bytes, pool, pool_bytes, .. } = board.memory;
        let places = [base, kernel, kernel_end, firmware, firmware + firmware_bytes.0, pool, pool + pool_bytes.0];
        assert!(places.is_sorted() && pool + pool_bytes.0 <= base + bytes.0, "{}", board.name);
        assert!(board.ram() >= bytes.0, "{}", board.name);
    }
    assert!(Board::named("toaster").is_none());
}

#[test]
fn the_kernel_reaches_and_owns_its_devices_and_none_that_a_manifest_names() {
    for board in boards() {
        let Board { windows, controller, console, owned, devices, watchdog, smmu, .. } = &board;
        let inside = |at: u64| (windows.from..windows.to).contains(&at);
        let is_owned = |at: u64| owned.iter().any(|device| (device.from..device.to).contains(&at));
        let smmu = smmu.as_ref().map(|smmu| smmu.at);
        let own = [controller.distributor, controller.cpu].into_iter().chain(controller.its).chain(*watchdog);
        for at in own.chain(smmu) {
            assert!(inside(at) && is_owned(at), "{}: {at:#x}", board.name);
        }
        assert!(inside(console.at), "{}", board.name);
        for (name, device) in devices {
            assert!(!is_owned(device.at) && device.bytes.0.is_multiple_of(4096), "{}: {name}", board.name);
            let (from, bytes) = (device.memory, device.memory_bytes.map(|bytes| bytes.0));
            assert_eq!((from.is_some(), bytes.is_some()), [device.kind == DeviceKind::R5f; 2].into(), "{name}");
            // Before the kernel's image: there is nothing of it, and nothing is given out.
            assert!(from.zip(bytes).is_none_or(|(from, bytes)| from + bytes <= board.memory.kernel), "{name}");
        }
        assert!(board.kick.iter().all(|kick| !is_owned(kick.page)), "{}", board.name);
        // The kernel takes the one for a sign of the other.
        assert_eq!(board.kick.is_some(), controller.its.is_some(), "{}", board.name);
    }
}

#[test]
fn each_board_says_what_its_way_to_start_cpus_needs() {
    for board in boards() {
        let Cpus { start, conduit, release, count, per_cluster, .. } = board.cpus;
        assert_eq!((conduit.is_some(), release.is_some()), (start == Start::Psci, start == Start::SpinTable));
        assert!(per_cluster > 0 && count > 0, "{}", board.name);
        for profile in board.profiles.values() {
            assert!(profile.smp <= count.max(profile.smp) && profile.cpu_stride > 0, "{}", board.name);
        }
    }
}
