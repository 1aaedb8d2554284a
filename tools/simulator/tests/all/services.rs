//! Services that are watched in a simulation.

use std::path::Path;

use fusee_abi::trace::Record;
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
