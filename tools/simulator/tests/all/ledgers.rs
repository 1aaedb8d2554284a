//! The counts of a system that left no ledgers, because it did not end itself.

use fusee_abi::trace::{Event, Ledger};
use fusee_manifest::trace::Trace;
use fusee_simulator::simulate;

use super::common::{LIMIT, end, parse};

/// Given a system of which the kernel has left ledgers, with late and skipped jobs and a server that runs for others,
/// when the same is counted from its other records,
/// then jobs, lateness, times and throttles are equal, so that the table of an interrupted run means the same as that of a whole run.
#[test]
fn what_is_counted_from_records_is_what_the_kernel_counts() {
    let text = r#"
        [system]
        name = "counted"
        board = "virt"
        cpus = 2
        start = "10ms"
        admission = "warn"
        [tasks.late]
        script = ["burn 9ms", "call service 1ms"]
        period = "10ms"
        budget = "8ms"
        handles = { service = "endpoint service: call" }
        [tasks.punctual]
        script = ["burn 1ms", "call service 1ms"]
        period = "10ms"
        budget = "4ms"
        handles = { service = "endpoint service: call" }
        [tasks.server]
        script = ["serve service"]
        handles = { service = "endpoint service: receive" }
        [endpoints.service]
        server = "server"
    "#;
    let end = end("200ms", "class = \"service\"\nperiod = \"10ms\"\nbudget = \"1ms\"");
    let manifest = parse(&format!("{text}{end}"));
    let report = simulate(&manifest, None, LIMIT).unwrap();
    let kept = Trace::from_records(report.records.clone());
    let rest = report.records.into_iter().filter(|record| record.event != Event::Ledger as u8);
    let counted = Trace::from_records(rest.collect());
    let counted = counted.with_ledgers(&counted.counted_ledgers(&manifest.system));
    let (kept, counted) = (kept.ledgers(), counted.ledgers());
    let same = |kind: Ledger, count: usize| {
        let of = |ledgers: &std::collections::BTreeMap<(u16, u16), u64>| -> Vec<Option<u64>> {
            (0..count).map(|index| ledgers.get(&(kind as u16, index as u16)).copied()).collect()
        };
        let (kept, counted) = (of(&kept), of(&counted));
        assert_eq!(counted, kept, "{kind:?}");
        kept.into_iter().flatten().any(|amount| amount > 0)
    };
    for kind in [Ledger::Jobs, Ledger::Misses, Ledger::Skipped] {
        assert!(same(kind, 4), "nothing of {kind:?} was seen");
    }
    // A fast call books nothing, so the kernel may count a client's time before it as the server's: the sum stays.
    let sum = |ledgers: &std::collections::BTreeMap<(u16, u16), u64>| -> u64 {
        ledgers.iter().filter(|((kind, _), _)| *kind == Ledger::ThreadTime as u16).map(|(_, time)| time).sum()
    };
    assert_eq!(sum(&counted), sum(&kept));
    let own = |task: u16| counted.get(&(Ledger::ThreadTime as u16, task)).copied();
    assert_eq!([0, 1, 2, 3].map(own), [139_000_000, 20_000_000, 35_000_000, 0].map(Some));
    assert!(same(Ledger::MaxLateness, 2));
    for kind in [Ledger::Charged, Ledger::Throttles] {
        assert!(same(kind, manifest.system.reservations.len()), "nothing of {kind:?} was seen");
    }
}
