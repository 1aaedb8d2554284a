//! Ends of a run whose system does not end itself, seen in its memory while it runs: nothing can happen any more, a decisive task has ended, or
//! virtual time is up.
//!
//! # When nothing can happen any more
//!
//! Each CPU of the kernel is idle with no timer set, each accelerator has done all that was submitted to it, and no other device of the board may raise its
//! line by itself for a task that is alive. A kernel that has panicked and stays does nothing, either. The memory is written while it is read, so all of
//! that must be seen again and again, and the emulator must have had a CPU in between.
//!
//! A device of the board that may raise its line keeps a run going: its registers are not read, because that may change them.
//!
//! Not here: which tasks are decisive (`decisive`), how an emulator is ended (`qemu`).

use std::cell::{Cell, OnceCell};

use fusee_abi::call::rights;
use fusee_abi::image::kind;
use fusee_accel_contract as contract;
use fusee_accel_contract::EngineIndex;
use fusee_manifest::{Device, Resolved};

use crate::decisive::Decisive;
use crate::look::Look;
use crate::pulse::Pulse;
use crate::qemu::{EndedBy, GuestMemory};

/// Looks in a row, some 20 ms of the host apart, that must see the same before a system counts as one that stands still.
const QUIET: u32 = 25;

/// Looks before a system is read by the names of its objects, which takes the host a while: many systems have ended by then.
const FIRST: u32 = 8;

/// The conditions that end a run before its system does.
pub struct Ends<'a> {
    system: &'a Resolved,
    look: &'a dyn Fn() -> Option<&'a Look<'a>>,
    pulse: OnceCell<Option<Pulse<'a>>>,
    decisive: &'a [Decisive],
    /// Virtual nanoseconds after which the run is ended.
    until: Option<u64>,
    /// Whether something may come from outside: then a system that stands still may go on.
    is_visited: bool,
    /// Tasks that a device of the board may wake, by its line.
    woken: Vec<usize>,
    looks: Cell<u32>,
    quiet: Cell<u32>,
    seen_at: Cell<u64>,
}

impl<'a> Ends<'a> {
    /// Those of one run. `look` is asked once the run has lasted for some looks, as it takes time to make.
    pub fn new(
        system: &'a Resolved,
        look: &'a dyn Fn() -> Option<&'a Look<'a>>,
        decisive: &'a [Decisive],
        until: Option<u64>,
        is_visited: bool,
    ) -> Self {
        let (looks, quiet, seen_at, pulse) = (Cell::new(0), Cell::new(0), Cell::new(0), OnceCell::new());
        Ends { system, look, pulse, decisive, until, is_visited, woken: woken(system), looks, quiet, seen_at }
    }

    /// Looks once: why the run ends here, if it does. `recorded` is the instant of the latest record; `had_turn` says whether the emulator has had a CPU since
    /// it was asked last.
    pub fn reached(&self, memory: &GuestMemory, recorded: Option<u64>, had_turn: &dyn Fn() -> bool) -> Option<EndedBy> {
        let until = self.until.unwrap_or(u64::MAX);
        if recorded.is_some_and(|latest| latest > until) {
            return Some(EndedBy::Enough);
        }
        self.looks.set(self.looks.get().saturating_add(1));
        if self.until.is_none() && self.looks.get() < FIRST {
            return None;
        }
        let pulse = self.pulse.get_or_init(|| (self.look)()?.pulse().ok()).as_ref()?;
        let ended =
            |decisive: &Decisive| decisive.tasks.iter().all(|task| pulse.has_ended(memory, *task) == Some(true));
        if let Some(decisive) = self.decisive.iter().position(ended) {
            return Some(EndedBy::Decisive(decisive));
        }
        // Records come when something happens, and not at each level: the kernel knows more of time.
        let (latest, next) = pulse.read(memory)?;
        if latest > until {
            return Some(EndedBy::Enough);
        }
        let has_panicked = pulse.has_panicked(memory)?;
        let is_quiet = !self.is_visited
            && latest > 0
            && (has_panicked
                || next.is_some_and(|next| next > until || next == u64::MAX) && self.accelerators_rest(memory));
        // A change between two looks is no rest. A host that is busy may give the emulator no CPU between them.
        let goes_on = self.seen_at.replace(latest) != latest;
        self.quiet.set(if is_quiet && !goes_on { self.quiet.get() + u32::from(had_turn()) } else { 0 });
        if self.quiet.get() <= QUIET {
            return None;
        }
        let may_be_woken = self.woken.iter().any(|task| pulse.has_ended(memory, *task) != Some(true));
        if has_panicked || next == Some(u64::MAX) && !may_be_woken {
            return Some(EndedBy::Still);
        }
        // Its next timer is behind the end of the run.
        self.until.map(|_| EndedBy::Enough)
    }

    /// Whether no accelerator has anything to do.
    fn accelerators_rest(&self, memory: &GuestMemory) -> bool {
        self.system.devices.iter().all(|device| device.processor.is_some() || rests(device, memory).unwrap_or(false))
    }
}

/// Whether an accelerator of the device model has done all that was submitted to it, resets included. `None`: its pages cannot be read.
fn rests(device: &Device, memory: &GuestMemory) -> Option<bool> {
    let word = |at: u64| Some(u32::from_le_bytes(memory.read(at, 4).ok()?.try_into().ok()?));
    for engine in EngineIndex::ALL.into_iter().filter(|engine| device.copy_engines.include(*engine)) {
        for context in 0..device.size.number() {
            let submitted = device.doorbells + contract::doorbell_page(engine, context) + contract::DOORBELL_SUBMITTED;
            let [seen, retired] = [contract::status_seen(engine, context), contract::status_retired(engine, context)]
                .map(|word| device.status + word);
            let [asked, reset] =
                [contract::control_reset_request(context, engine), contract::control_reset_done(context, engine)]
                    .map(|word| device.control + word);
            if !contract::is_idle(word(submitted)?, word(seen)?, word(retired)?) || word(asked)? != word(reset)? {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// Tasks that a device of the board may wake by itself: by a line that is unknown, or that of a device that acts alone.
fn woken(system: &Resolved) -> Vec<usize> {
    let of_model = |line: u32| system.devices.iter().any(|device| device.processor.is_none() && device.line == line);
    let acts = |line: u32| {
        let mut named = system.board.devices.values().filter(|device| device.line == Some(line)).peekable();
        !of_model(line) && (named.peek().is_none() || named.any(|device| device.kind.acts_alone()))
    };
    let mut tasks = Vec::new();
    for (index, (_, interrupt)) in system.interrupts.iter().enumerate().filter(|(_, (_, one))| acts(one.line)) {
        let waits = system.handles.iter().filter(|handle| {
            (handle.kind == kind::INTERRUPT && handle.object as usize == index)
                || (handle.kind == kind::NOTIFICATION
                    && handle.object == interrupt.notification
                    && handle.rights & rights::WAIT != 0)
        });
        for handle in waits {
            // A handle that may be passed on may be with any task.
            let is_passed_on = handle.rights & rights::GRANT != 0;
            tasks.extend(if is_passed_on {
                0..system.tasks.len()
            } else {
                handle.task as usize..handle.task as usize + 1
            });
        }
    }
    // A processor beside the kernel's has a program of its own.
    tasks.extend(system.devices.iter().filter(|device| device.processor.is_some()).map(|device| device.driver));
    tasks
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};

    use fusee_manifest::Manifest;

    use super::*;

    const SYSTEM: &str = "[system]\nname = \"ends\"\nboard = \"virt\"\ncpus = 1\nadmission = \"warn\"\n";

    fn system(more: &str) -> Resolved {
        Manifest::parse(Path::new("ends.toml"), &format!("{SYSTEM}{more}")).unwrap().system
    }

    /// A system with a device that may wake `driver`, by a line of the board or by its number.
    fn with_line(line: &str) -> Vec<usize> {
        woken(&system(&format!(
            "[tasks.other]\nscript = [\"burn 1ms\"]\n[tasks.driver]\nbinary = \"apps/hello\"\nhandles = {{ line = \"interrupt line: \
             acknowledge\", news = \"notification news: wait\" }}\n[notifications.news]\n[interrupts.line]\nline = {line}\nnotification = \
             \"news\"\n"
        )))
    }

    #[test]
    fn a_line_may_wake_a_task_unless_its_device_acts_for_somebody_outside_only() {
        for line in ["\"uart0\"", "\"gpio0\""] {
            assert_eq!(with_line(line), [0; 0], "{line}");
        }
        for line in ["\"rtc0\"", "\"block0\"", "\"edu0\"", "77"] {
            let mut woken = with_line(line);
            woken.dedup();
            assert_eq!(woken, [1], "{line}");
        }
    }

    /// Memory of the board without contents, but for these words.
    fn memory(path: &PathBuf, system: &Resolved, words: &[(u64, u32)]) -> GuestMemory {
        let file = std::fs::File::create(path).unwrap();
        file.set_len(system.board.ram()).unwrap();
        for (at, word) in words {
            file.write_all_at(&word.to_le_bytes(), at - system.board.memory.base).unwrap();
        }
        GuestMemory::kept(path, system.board.memory.base).unwrap()
    }

    #[test]
    fn an_accelerator_rests_once_all_that_was_submitted_is_retired_and_each_reset_is_done() {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../userland/demo/demo.toml"))
            .unwrap();
        let system = Manifest::parse(Path::new("demo.toml"), &text).unwrap().system;
        let path = std::env::temp_dir().join(format!("fusee-ends-{}", std::process::id()));
        let device = &system.devices[0];
        let engine = EngineIndex::ALL[0];
        let submitted = device.doorbells + contract::doorbell_page(engine, 1);
        let [seen, retired] =
            [contract::status_seen(engine, 1), contract::status_retired(engine, 1)].map(|word| device.status + word);
        let [asked, done] = [contract::control_reset_request(1, engine), contract::control_reset_done(1, engine)]
            .map(|word| device.control + word);
        let rests = |words: &[(u64, u32)]| rests(device, &memory(&path, &system, words));
        assert_eq!(rests(&[]), Some(true));
        assert_eq!(rests(&[(submitted, 1)]), Some(false), "rung, and not seen");
        assert_eq!(rests(&[(submitted, 1), (seen, 1)]), Some(false), "at work");
        assert_eq!(rests(&[(submitted, 1), (seen, 1), (retired, 1)]), Some(true));
        assert_eq!(rests(&[(asked, 1)]), Some(false), "being reset");
        assert_eq!(rests(&[(asked, 1), (done, 1)]), Some(true));
        std::fs::remove_file(path).unwrap();
    }
}
