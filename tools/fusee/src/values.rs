//! Values of options, as several commands read them.

use fusee_manifest::{PolicyName, Time, Variant};

/// CPUs of each cluster.
#[derive(Clone)]
pub struct Sizes(pub Vec<u32>);

/// A policy on the command line.
pub fn policy(text: &str) -> Result<PolicyName, String> {
    let named = PolicyName::from_name(&text.to_ascii_uppercase());
    named.ok_or_else(|| "known are EDF, FL, RM, DM and FP".to_owned())
}

/// Sizes of clusters on the command line.
pub fn clusters(text: &str) -> Result<Sizes, String> {
    Variant::parse_clusters(text).map(Sizes).ok_or_else(|| "a list of sizes, such as `2,1`".to_owned())
}

/// A time on the command line.
pub fn time(text: &str) -> Result<Time, String> {
    Time::parse(text).ok_or_else(|| "a time with its unit, such as `10ms` (ns, us, ms, s)".to_owned())
}
