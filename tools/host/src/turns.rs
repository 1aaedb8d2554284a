//! Emulated CPUs take turns, and how long these may be.
//!
//! With `det`, QEMU emulates all CPUs on one thread of the host, one after the other, and the virtual clock goes on during each turn. A
//! job on one CPU is charged the turns of all others that are busy: that is emulation, and no system has asked for it. So turns are chosen
//! from what the system can spare: those of all other CPUs together take at most a quarter of any budget, and half of what a budget
//! exceeds its `wcet` by. Shorter turns cost the host time.

use fusee_abi::image::class;
use fusee_manifest::{BoardDevice, DeviceKind, Profile, Resolved, UNLIMITED};

/// Turns to choose from, microseconds. Longer ones hardly save time; with shorter ones QEMU does little else than to change from
/// one CPU to the next.
const CHOICE: [u32; 5] = [50, 25, 12, 6, 3];
/// The longest turn that can be asked for.
pub const LONGEST: u32 = fusee_manifest::LONGEST_TURN;
/// Turns of a test with a device that is played by a thread of the host, microseconds.
const BESIDE_A_HOST: u32 = 10;
/// Turns of all others take this part of a budget, at most: one in so many.
const PART_OF_BUDGET: u64 = 4;
/// And this part of what it exceeds the `wcet` by.
const PART_OF_SLACK: u64 = 2;

/// The turns of one run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Turns {
    /// Longest turn, virtual microseconds.
    pub quantum: u32,
    /// CPUs that take turns, the one that emulates engines included.
    cpus: u32,
    /// The task that can spare least, and how much, microseconds.
    tightest: Option<(String, u64)>,
}

/// CPUs of a run of `system`: the kernel's, and one that plays all devices which are no processors of the board.
pub fn cpus(system: &Resolved) -> u32 {
    system.cpus + u32::from(system.has_engine_cpu())
}

/// Turns of a test, microseconds: those that the test asks for, or else those that `run` would choose. They are short where a thread of the host plays a
/// device, which answers in the host's time, whatever virtual time has gone by. A system of one CPU has no turns otherwise, and none to wait for.
pub fn of_tests(system: &Resolved, asked: Option<u32>) -> u32 {
    let is_of_host = |device: &BoardDevice| device.kind == DeviceKind::VirtioMmio;
    let usual = || match cpus(system) {
        _ if system.board_devices().any(|(_, device)| is_of_host(device)) => BESIDE_A_HOST,
        1 => LONGEST,
        _ => Turns::of(system, None).quantum,
    };
    asked.unwrap_or_else(usual)
}

impl Turns {
    /// As long as `asked`, or else as long as `system` can spare.
    pub fn of(system: &Resolved, asked: Option<u32>) -> Turns {
        let spared = system.reservations.iter().filter(|one| one.class != class::BACKGROUND && one.budget != UNLIMITED);
        let spared = spared.filter_map(|one| {
            let slack = one.budget - one.execution.min(one.budget);
            let of_slack = if slack > 0 { slack / PART_OF_SLACK } else { u64::MAX };
            let task = system.tasks.get(one.task as usize)?;
            Some((task.name.clone(), (one.budget / PART_OF_BUDGET).min(of_slack) / 1_000))
        });
        let tightest = spared.min_by_key(|(_, spared)| *spared);
        let cpus = cpus(system);
        let others = u64::from(cpus - 1);
        let longest = tightest.as_ref().and_then(|(_, spared)| spared.checked_div(others)).unwrap_or(u64::MAX);
        let [.., shortest] = CHOICE;
        let chosen = CHOICE.into_iter().find(|turn| u64::from(*turn) <= longest).unwrap_or(shortest);
        Turns { quantum: asked.unwrap_or(chosen), cpus, tightest }
    }

    /// The time of the turns of all others, microseconds.
    pub fn others(&self) -> u64 {
        u64::from(self.cpus - 1) * u64::from(self.quantum)
    }

    /// The line that each report has.
    pub fn words(&self, profile: Profile) -> String {
        match (profile, self.cpus) {
            (Profile::Par, _) => "time in QEMU: the host's (`par`), so latencies and deadlines say nothing".to_owned(),
            (Profile::Det, 1) => "time in QEMU: one CPU, an instruction a nanosecond".to_owned(),
            (Profile::Det, cpus) => format!(
                "time in QEMU: {cpus} CPUs take turns of {} us, so a job is charged up to {} us of the others' turns",
                self.quantum,
                self.others()
            ),
        }
    }

    /// Which task cannot spare that, if one cannot.
    pub fn warning(&self, profile: Profile) -> Option<String> {
        let (task, spared) = self.tightest.as_ref().filter(|(_, spared)| *spared < self.others())?;
        (profile == Profile::Det).then(|| {
            format!(
                "task `{task}` can spare {spared} us of its budget for that: what it misses here may be QEMU's doing; \
                 `simulate` has no turns"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusee_manifest::Manifest;
    use std::path::Path;

    fn turns(cpus: u32, task: &str, asked: Option<u32>) -> Turns {
        let text = format!(
            "[system]\nname = \"turns\"\nboard = \"virt\"\ncpus = {cpus}\n[tasks.tight]\nscript = [\"burn 1us\"]\n{task}\n\
             [tasks.roomy]\nscript = [\"burn 1us\"]\nperiod = \"100ms\"\nbudget = \"10ms\"\n"
        );
        Turns::of(&Manifest::parse(Path::new("turns.toml"), &text).unwrap().system, asked)
    }

    #[test]
    fn the_turns_of_all_others_take_a_quarter_of_the_least_budget_and_half_of_the_least_slack() {
        assert_eq!(turns(4, "period = \"1ms\"\nbudget = \"300us\"", None).quantum, 25);
        assert_eq!(turns(2, "period = \"1ms\"\nbudget = \"199us\"", None).quantum, 25);
        assert_eq!(turns(4, "period = \"1ms\"\nbudget = \"300us\"\nwcet = \"228us\"", None).quantum, 12);
    }

    #[test]
    fn no_turn_is_chosen_beyond_what_pays() {
        assert_eq!(turns(1, "period = \"1ms\"\nbudget = \"40us\"", None).quantum, 50);
        assert_eq!(turns(2, "period = \"10ms\"\nbudget = \"9ms\"", None).quantum, 50);
        let crowded = turns(8, "period = \"1ms\"\nbudget = \"40us\"", None);
        assert_eq!(crowded.quantum, 3);
        let words = crowded.warning(Profile::Det).unwrap();
        assert!(words.starts_with("task `tight` can spare 10 us of its budget"), "{words}");
    }

    #[test]
    fn turns_that_are_asked_for_are_kept_and_warned_of() {
        let task = "period = \"1ms\"\nbudget = \"200us\"";
        assert_eq!(turns(4, task, None).warning(Profile::Det), None);
        let asked = turns(4, task, Some(50));
        assert_eq!(asked.quantum, 50);
        assert!(asked.warning(Profile::Det).is_some());
        assert!(asked.words(Profile::Det).ends_with("up to 150 us of the others' turns"));
        assert_eq!(asked.warning(Profile::Par), None);
    }
}
