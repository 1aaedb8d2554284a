//! Random task sets.
//!
//! # Invariants
//!
//! 1. A set depends on its seed, setting, target and number only. The first tasks of sets with the same seed, setting and number are equal for
//!    all targets.
//! 2. The utilisation of a set counts CPU time, kernels and copies in and out. It is at most the target, and the next task would exceed it.
//!
//! # Choices where the text is silent
//!
//! - Copies count with the nominal times of the caller, so one set can be judged under all arrangements.
//! - State does not count: it depends on the arrangement whether it moves.
//! - A task is a GPU task with the probability that the setting has for its share of GPU tasks.
//! - The token section has 5 % of the CPU time.
//!
//! # Source
//! Elliott 2015, section 4.3.3.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::costs::Line;
use crate::place::{ONE, share};
use crate::task::{Gpu, Task};

const MILLISECOND: u64 = 1_000_000;
const KIBIBYTE: u64 = 1 << 10;
const MEBIBYTE: u64 = 1 << 20;

/// One setting. Ranges are inclusive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setting {
    /// Its number, from 0 to 485.
    pub number: usize,
    /// Utilisation of each task, in thousandths.
    pub utilisation: (u64, u64),
    /// Periods in milliseconds.
    pub period: (u64, u64),
    /// Tasks that use a GPU, in percent.
    pub gpu_tasks: u64,
    /// The kernel's part of the execution time, in percent.
    pub kernel: (u64, u64),
    /// Bytes copied, half in and half out.
    pub data: u64,
    /// Bytes of state, in percent of [`Setting::data`].
    pub state: u64,
}

/// Names and values of each parameter, in the order in which a number counts them.
const UTILISATIONS: [(u64, u64); 3] = [(10, 100), (100, 400), (500, 900)];
const PERIODS: [(u64, u64); 2] = [(33, 100), (200, 1_000)];
const GPU_TASKS: [u64; 3] = [33, 66, 100];
const KERNELS: [(u64, u64); 3] = [(10, 25), (25, 75), (75, 95)];
const DATA: [u64; 3] = [256 * KIBIBYTE, 2 * MEBIBYTE, 8 * MEBIBYTE];
const STATES: [u64; 3] = [0, 25, 100];

/// Number of settings.
pub const SETTINGS: usize = 486;

impl Setting {
    /// The setting with a number below [`SETTINGS`]; `None`: there is none.
    #[must_use]
    pub fn of(number: usize) -> Option<Setting> {
        let mut rest = number;
        let mut next = |count: usize| {
            let one = rest % count;
            rest /= count;
            one
        };
        let setting = Setting {
            number,
            state: STATES[next(3)],
            data: DATA[next(3)],
            kernel: KERNELS[next(3)],
            gpu_tasks: GPU_TASKS[next(3)],
            period: PERIODS[next(2)],
            utilisation: UTILISATIONS[next(3)],
        };
        (rest == 0).then_some(setting)
    }

    /// The setting in words.
    #[must_use]
    pub fn words(&self) -> String {
        let Setting { utilisation, period, gpu_tasks, kernel, data, state, .. } = self;
        let data = match data / MEBIBYTE {
            0 => format!("{} KiB", data / KIBIBYTE),
            whole => format!("{whole} MiB"),
        };
        format!(
            "u {}-{} %, periods {}-{} ms, {gpu_tasks} % GPU tasks, kernels {}-{} %, {data} of data, state {state} %",
            utilisation.0 / 10,
            utilisation.1 / 10,
            period.0,
            period.1,
            kernel.0,
            kernel.1
        )
    }
}

/// Nominal times of copies, for the utilisation of a set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Nominal {
    /// Copies to a GPU.
    pub inbound: Line,
    /// Copies from a GPU.
    pub outbound: Line,
}

/// A set of tasks with a utilisation of at most `target` thousandths of a CPU.
#[must_use]
pub fn draw(setting: &Setting, target: u64, nominal: &Nominal, seed: u64, number: u64) -> Vec<Task> {
    let mut source = Source::new([seed, setting.number as u64, number]);
    let most = target.saturating_mul(ONE) / 1_000;
    let (mut tasks, mut sum) = (Vec::new(), 0u64);
    loop {
        let (task, copies) = source.task(setting, nominal);
        let span = task.cpu + task.gpu.map_or(0, |gpu| gpu.kernel_time()) + copies;
        sum = sum.saturating_add(share(span, task.period));
        if sum > most {
            return tasks;
        }
        tasks.push(task);
    }
}

struct Source(ChaCha8Rng);

impl Source {
    fn new(words: [u64; 3]) -> Source {
        let mut seed = [0; 32];
        for (place, word) in seed.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Source(ChaCha8Rng::from_seed(seed))
    }

    /// A number from a range, both ends included. The range is short, so the bias is below 2^-20.
    fn uniform(&mut self, (least, most): (u64, u64)) -> u64 {
        let count = u128::from(most - least) + 1;
        least + ((u128::from(self.0.next_u64()) * count) >> 64) as u64
    }

    /// A task, and the time of its copies.
    fn task(&mut self, setting: &Setting, nominal: &Nominal) -> (Task, u64) {
        let period = self.uniform((setting.period.0 * MILLISECOND, setting.period.1 * MILLISECOND));
        let millionths = self.uniform((setting.utilisation.0 * 1_000, setting.utilisation.1 * 1_000));
        let execution = period * millionths / 1_000_000;
        // Each task draws as many numbers, so that sets of one number have like tasks in all settings.
        let uses_gpu = self.uniform((0, 99)) < setting.gpu_tasks;
        let kernel = self.uniform((setting.kernel.0 * 10, setting.kernel.1 * 10));
        if !uses_gpu {
            return (Task { period, cpu: execution, gpu: None }, 0);
        }
        let kernel = execution * kernel / 1_000;
        let cpu = execution - kernel;
        let (input, output) = (setting.data / 2, setting.data / 2);
        let gpu =
            Gpu { kernels: 1, kernel, section: cpu / 20, input, output, state: setting.data * setting.state / 100 };
        let copies = nominal.inbound.time(input) + nominal.outbound.time(output);
        (Task { period, cpu, gpu: Some(gpu) }, copies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_486_settings_and_all_differ() {
        let mut all: Vec<String> = (0..SETTINGS).map(|number| Setting::of(number).unwrap().words()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), SETTINGS);
        assert_eq!(Setting::of(SETTINGS), None);
    }

    #[test]
    fn a_larger_target_adds_tasks_and_changes_none() {
        let setting = Setting::of(40).unwrap();
        let nominal = Nominal::default();
        let large = draw(&setting, 6_000, &nominal, 1, 7);
        let small = draw(&setting, 3_000, &nominal, 1, 7);
        assert!(small.len() < large.len() && large.starts_with(&small));
        assert_ne!(large, draw(&setting, 6_000, &nominal, 1, 8));
        let sum: u64 =
            large.iter().map(|task| share(task.cpu + task.gpu.map_or(0, |gpu| gpu.kernel_time()), task.period)).sum();
        assert!(sum <= 6 * ONE && sum > 6 * ONE - ONE / 10, "{sum}");
    }

    #[test]
    fn parts_of_a_job_lie_in_the_ranges_of_its_setting() {
        for number in (0..SETTINGS).step_by(37) {
            let setting = Setting::of(number).unwrap();
            let tasks: Vec<Task> =
                (0..20).flat_map(|set| draw(&setting, 12_000, &Nominal::default(), 3, set)).collect();
            let users = tasks.iter().filter_map(|task| Some((task, task.gpu?))).collect::<Vec<_>>();
            let percent = users.len() * 100 / tasks.len();
            assert!(percent.abs_diff(setting.gpu_tasks as usize) < 12, "{percent} {}", setting.words());
            for (task, gpu) in users {
                let part = gpu.kernel * 1_000 / (gpu.kernel + task.cpu);
                assert!(part + 1 >= setting.kernel.0 * 10 && part <= setting.kernel.1 * 10);
                assert_eq!(gpu.section, task.cpu / 20);
            }
        }
    }
}
