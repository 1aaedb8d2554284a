//! Ends of commands that take time of drivers.

use fusee_simulator::workload::Source;
use toml::{Table, Value};

use super::{device_of, insert, section};
use crate::hostile::tree::{names, nanoseconds, task};

/// The driver: a parameter says the length of its work.
const DRIVER: &str = "gpu-driver/gpu-driver";

/// Lets the drivers of devices work for each command that ends. `spare`: time of the kernel's paths for it, nanoseconds.
pub(super) fn add(tree: &mut Table, source: &mut Source, spare: u64) {
    for device in names(tree, "devices") {
        let named = section(section(tree, "devices"), &device).get("driver").and_then(Value::as_str).map(str::to_owned);
        let driver = named.unwrap_or_else(|| device.clone());
        let is_it = |one: &&mut Table| one.get("binary").and_then(Value::as_str) == Some(DRIVER);
        let Some(one) = task(tree, &driver).filter(is_it) else { continue };
        let parameters = section(one, "parameters");
        let drawn = source.pick(&[1, 10, 50, 200]);
        let half = parameters.get("bottom_half_us").and_then(Value::as_integer).unwrap_or(drawn);
        insert(parameters, "bottom_half_us", half);
        for engine in names(tree, "engines") {
            if device_of(tree, &engine).as_ref() == Some(&device) {
                let longest = half.unsigned_abs() * super::MICROSECOND + spare;
                insert(section(section(tree, "engines"), &engine), "completion", nanoseconds(longest));
            }
        }
    }
}
