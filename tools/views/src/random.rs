//! Traces that no kernel would write: views must stand them.

use std::path::Path;

use fusee_abi::trace::Record;
use fusee_manifest::trace::Trace;
use fusee_manifest::{Manifest, Resolved};
use proptest::prelude::*;

const SYSTEM: &str = r#"
[system]
name = "random"
board = "virt"
cpus = 2
start = "10ms"

[tasks.first]
script = ["burn 2ms"]
period = "5ms"
budget = "3ms"

[tasks.second]
script = ["burn 6ms"]
period = "10ms"
budget = "4ms"

[tasks.third]
script = ["burn 1ms"]
class = "background"

[engines.e]
order = "priority"

[pools.p]
replicas = 2
limit = "unlimited"
"#;

/// A system with two CPUs, an engine, a pool of two tokens and three tasks.
pub fn system() -> Resolved {
    let manifest = Manifest::parse(Path::new("random.toml"), SYSTEM).unwrap_or_else(|error| panic!("{error}"));
    Resolved { name: "a </script> & a \"system\"".to_owned(), ..manifest.system }
}

/// Records of any event, about things that are there or not, often at the same instant, in an order of their own.
pub fn traces() -> impl Strategy<Value = Trace> {
    let record = (1u8..38, 0u8..3, 0u16..6, 0u32..4, 0u32..5, prop_oneof![0u32..4, any::<u32>()], 0u64..3, 0u64..40);
    proptest::collection::vec(record, 0..200).prop_map(|all| {
        let mut now = 1_000;
        let records =
            all.into_iter().enumerate().map(|(number, (event, cpu, thread, job, object, value, step, back))| {
                now += step * 500;
                // Clocks of two CPUs may disagree.
                let time = now - back;
                Record { time, number: number as u64 + 1, event, cpu, thread, job, object, value }
            });
        Trace::from_records(records.collect())
    })
}
