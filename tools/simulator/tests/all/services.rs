//! Services that are watched.

use std::path::Path;

use fusee_abi::trace::{Event, Record};
use fusee_manifest::Manifest;
use fusee_simulator::{Options, simulate_observed};
use fusee_views::services::Services;

/// `near` is served for 100 us, and `far` for 250 us, once by a server that was busy.
const SYSTEM: &str = "
    [system]
    name = \"services\"
    board = \"virt\"
    cpus = 1
    [tasks.near]
    script = [\"call desk 100us\"]
    period = \"10ms\"
    budget = \"1ms\"
    handles = { desk = \"endpoint desk: call\" }
    [tasks.far]
    script = [\"call desk 250us\"]
    period = \"20ms\"
    budget = \"1ms\"
    handles = { desk = \"endpoint desk: call\" }
    [tasks.desk]
    script = [\"serve desk\"]
    handles = { desk = \"endpoint desk: receive\" }
    [endpoints.desk]
    server = \"desk\"
    service_max = \"MAX\"
";

#[test]
fn a_service_that_is_longer_than_declared_is_found() {
    let longest = |service_max: &str| {
        let text = SYSTEM.replace("MAX", service_max);
        let manifest = Manifest::parse(Path::new("m.toml"), &text).expect("a manifest");
        let mut services = Services::new(&manifest.system);
        let mut observe = |record: &Record| services.observe(record);
        simulate_observed(&manifest, &Options::default(), 100_000_000, &mut observe).expect("a simulation");
        services.too_long().map(|one| one.longest).collect::<Vec<_>>()
    };
    assert_eq!(longest("249us"), [250_000]);
    assert_eq!(longest("250us"), [0; 0]);
}

/// The work of a server before it was ended belongs to no service of its next life.
#[test]
fn a_service_that_an_end_cuts_short_is_forgotten() {
    let manifest = Manifest::parse(Path::new("m.toml"), &SYSTEM.replace("MAX", "250us")).expect("a manifest");
    let mut services = Services::new(&manifest.system);
    let [client, server]: [u16; 2] = [1, 3];
    let endpoint = 1;
    for (time, event, thread, object) in [
        (0, Event::Call, client, endpoint),
        (0, Event::SwitchTo, server, 1),
        (500_000, Event::Stop, server, client.into()),
        (900_000, Event::Call, client, endpoint),
        (1_000_000, Event::SwitchTo, server, 1),
        (1_100_000, Event::Reply, client, server.into()),
    ] {
        services.observe(&Record { time, event: event as u8, thread, object, ..Record::default() });
    }
    let all: Vec<u64> = services.all().map(|one| one.longest).collect();
    assert_eq!((all, services.too_long().count()), (vec![100_000], 0));
}
