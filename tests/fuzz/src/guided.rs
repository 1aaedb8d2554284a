//! The binary that libFuzzer guides. `FUSEE_FUZZ` names the target; with `FUSEE_FUZZ_PLANTED` the kernel forgets to compare generations. At its end it
//! says how many steps were taken.
#![no_main]
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;

use fusee_fuzz::{Target, calls};
use fusee_kernel_core::Planted;
use libfuzzer_sys::{Corpus, fuzz_target};

/// Steps taken so far; said when the thread ends, which libFuzzer's does with the process.
struct Steps(Cell<u64>);

impl Drop for Steps {
    fn drop(&mut self) {
        eprintln!("steps: {}", self.0.get());
    }
}

thread_local! {
    static STEPS: Steps = const { Steps(Cell::new(0)) };
}

fn target() -> (Target, Option<Planted>) {
    static TARGET: OnceLock<(Target, Option<Planted>)> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("FUSEE_FUZZ").unwrap_or_default();
        let planted = std::env::var_os("FUSEE_FUZZ_PLANTED").map(|_| Planted::GenerationIsNotCompared);
        (name.parse().unwrap_or_else(|error| panic!("FUSEE_FUZZ: {error}")), planted)
    })
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let steps = match target() {
        (Target::Calls, planted) => calls::run(data, planted),
        (target, _) => target.read(data),
    };
    STEPS.with(|all| all.0.set(all.0.get() + steps));
    Corpus::Keep
});
