//! The text of a manifest: it is refused, or can be packed, and the packed system is read again and boots.

use std::path::Path;

use fusee_kernel_core::Kernel;
use fusee_manifest::{Manifest, PackOptions};

/// Reads `data` as a manifest.
///
/// # Panics
/// Something does not hold.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let manifest = match Manifest::parse(Path::new("any.toml"), text) {
        Ok(manifest) => manifest,
        Err(mistakes) => {
            assert!(!mistakes.to_string().is_empty(), "a manifest is refused without a reason");
            return;
        }
    };
    let Ok(packed) = manifest.pack_tables(PackOptions { cpu_stride: 1, managed: None }) else { return };
    let mut kernel = Box::new(Kernel::EMPTY);
    if kernel.boot(&packed.system()).is_ok() {
        kernel.check().unwrap_or_else(|broken| panic!("{broken}"));
    }
}
