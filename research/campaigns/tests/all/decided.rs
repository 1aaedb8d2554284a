//! Clusters of one CPU each that share an engine whose device decides: their bounds against the kernel.

use fusee_campaigns::decided::{bounds, decided};
use fusee_campaigns::draws::Draws;

#[test]
fn bounds_of_clusters_that_share_a_device_hold() {
    let report = decided(Draws::new(1, 6_000), &bounds);
    println!("{report}");
    assert!(report.violations.is_empty() && report.failures.is_empty(), "{report}");
}
