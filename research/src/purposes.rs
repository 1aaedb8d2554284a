//! The purposes of the kernel's functions: the one place that assigns instructions to purposes.
//!
//! An instruction belongs to the innermost function at its address that has a purpose. Functions of [`HELPERS`], and those
//! of libraries, have none of their own: they have their caller's.

use fusee_host::decode::{Frame, Symbols};

/// The purpose of instructions.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Purpose {
    /// The tasks, in user mode.
    User,
    /// The cost of measuring, which is subtracted: less than nothing.
    Measuring,
    /// Any trap: vector, registers saved and restored, which thread, which call.
    Trap,
    /// Several CPUs.
    Lock,
    /// Capabilities: the object of a handle, and its rights.
    Handles,
    /// The path itself: states, queues, reply slots.
    Service,
    /// The reservation on which each thread runs.
    Donation,
    /// The assignment of reservations to CPUs: clusters, keys, links.
    Plan,
    /// Time is charged, budgets are enforced and refilled.
    Budget,
    /// The counter, the timer, and turns.
    Timer,
    /// The interrupt controller, and kicks.
    Interrupts,
    /// Isolation: the address space, and floating point.
    Space,
    /// The words of a message, and of an answer.
    Message,
    /// None of these.
    Rest,
}

impl Purpose {
    /// All, as columns are ordered.
    pub const ALL: [Purpose; 14] = [
        Purpose::User,
        Purpose::Measuring,
        Purpose::Trap,
        Purpose::Lock,
        Purpose::Handles,
        Purpose::Service,
        Purpose::Donation,
        Purpose::Plan,
        Purpose::Budget,
        Purpose::Timer,
        Purpose::Interrupts,
        Purpose::Space,
        Purpose::Message,
        Purpose::Rest,
    ];

    /// The name of a column.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::User => "user",
            Purpose::Measuring => "measuring",
            Purpose::Trap => "trap",
            Purpose::Lock => "lock",
            Purpose::Handles => "handles",
            Purpose::Service => "service",
            Purpose::Donation => "donation",
            Purpose::Plan => "plan",
            Purpose::Budget => "budget",
            Purpose::Timer => "timer",
            Purpose::Interrupts => "interrupts",
            Purpose::Space => "space",
            Purpose::Message => "message",
            Purpose::Rest => "rest",
        }
    }
}

/// Any function of the file.
const ANY: &str = "";

/// File, functions, and their purpose; the first line that fits counts.
#[rustfmt::skip]
const PURPOSES: &[(&str, &str, Purpose)] = &[
    // Assembly: its parts are known by their labels.
    (NO_LINES, "copy_message", Purpose::Message),
    (NO_LINES, "restore_float save_float", Purpose::Space),
    (NO_LINES, "fusee_vectors fusee_fault_entry fusee_return fusee_same fusee_resume", Purpose::Trap),

    ("kernel/aarch64/src/lock.rs", ANY, Purpose::Lock),

    ("kernel/aarch64/src/frame.rs", "copy_message", Purpose::Message),
    ("kernel/aarch64/src/machine.rs", "copy_message registers", Purpose::Message),
    ("kernel/core/src/machine.rs", ANY, Purpose::Message),

    ("kernel/aarch64/src/machine.rs", "now", Purpose::Timer),
    ("kernel/aarch64/src/machine.rs", "set_interrupt_enabled", Purpose::Interrupts),
    ("kernel/aarch64/src/machine.rs", "set_region_pages set_place map_doorbell unmap_doorbell close_space space_of", Purpose::Space),
    ("kernel/aarch64/src/cpu.rs", "switch switch_without_float has_float put_float_away take_float", Purpose::Space),
    ("kernel/aarch64/src/spaces.rs", ANY, Purpose::Space),
    ("kernel/aarch64/src/translation.rs", ANY, Purpose::Space),
    ("kernel/aarch64/src/clock.rs", ANY, Purpose::Timer),
    ("kernel/aarch64/src/interrupts.rs", ANY, Purpose::Interrupts),
    ("bsp/src/", ANY, Purpose::Interrupts),
    ("kernel/aarch64/src/trap.rs", ANY, Purpose::Trap),
    ("kernel/aarch64/src/cpu.rs", ANY, Purpose::Trap),
    ("kernel/aarch64/src/frame.rs", ANY, Purpose::Trap),

    ("kernel/core/src/handles/lookup.rs", ANY, Purpose::Handles),
    ("kernel/core/src/ipc.rs", "endpoint_of", Purpose::Handles),
    ("kernel/core/src/handles/grants.rs", ANY, Purpose::Handles),
    ("kernel/core/src/handles/derivation.rs", ANY, Purpose::Handles),

    ("kernel/core/src/lib.rs", "trap enter living", Purpose::Trap),
    ("kernel/core/src/calls.rs", "call_trap dispatch_call done", Purpose::Trap),
    ("kernel/core/src/ipc/fast_calls.rs", "fast_call", Purpose::Trap),

    ("locking/src/propagation.rs", ANY, Purpose::Donation),
    ("kernel/core/src/donation.rs", ANY, Purpose::Donation),
    ("kernel/core/src/scheduling/settling.rs", ANY, Purpose::Donation),
    ("kernel/core/src/scheduling/only_donor.rs", ANY, Purpose::Donation),

    ("sched/src/account.rs", ANY, Purpose::Budget),
    ("kernel/core/src/time/budgets.rs", ANY, Purpose::Budget),
    ("kernel/core/src/scheduling/resting.rs", ANY, Purpose::Budget),
    ("kernel/core/src/time/timekeeper.rs", ANY, Purpose::Timer),
    ("kernel/core/src/scheduling/schedule.rs", "plan_event plan_timeout cancel_timeout queue_timeout", Purpose::Timer),
    ("kernel/core/src/trace.rs", ANY, Purpose::Rest),
    ("kernel/core/src/scheduling/schedule.rs", ANY, Purpose::Plan),
    ("kernel/core/src/scheduling/reschedule.rs", ANY, Purpose::Plan),
    ("kernel/core/src/donation/keys.rs", "set_key", Purpose::Plan),
    ("sched/src/cluster.rs", ANY, Purpose::Plan),

    ("kernel/core/src/", ANY, Purpose::Service),
    // Engines, pools, groups.
    ("locking/src/", ANY, Purpose::Service),
];

/// Files with functions that serve any caller.
const HELPERS: &[&str] = &[
    "kernel/core/src/arena.rs",
    "kernel/core/src/id.rs",
    "kernel/core/src/limits.rs",
    "kernel/core/src/marks.rs",
    "kernel/core/src/accelerators/engine.rs",
    "kernel/core/src/handles/handle.rs",
    "kernel/core/src/ipc/endpoint.rs",
    "kernel/core/src/ipc/interrupt.rs",
    "kernel/core/src/scheduling/thread/replies.rs",
    "kernel/core/src/locks/pool.rs",
    "kernel/core/src/scheduling/cluster.rs",
    "kernel/core/src/scheduling/cpu.rs",
    "kernel/core/src/scheduling/reservation.rs",
    "kernel/core/src/scheduling/thread.rs",
    "kernel/core/src/time/job.rs",
    "kernel/aarch64/src/cell.rs",
    "kernel/abi/src/",
    "sched/src/cpu.rs",
    "sched/src/key.rs",
    "sched/src/queue.rs",
    "sched/src/time.rs",
];

/// In place of a file, of assembly and of libraries.
const NO_LINES: &str = "(no lines)";

/// A function as tables show it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its file, from the repository.
    pub file: String,
    /// The line in it, if functions are told apart by lines.
    pub line: Option<u32>,
}

/// Function, with its line, and purpose of an instruction of the kernel; no purpose: that of the instructions before.
pub fn of(symbols: &Symbols, address: u64) -> (Function, Option<Purpose>) {
    payer(functions(symbols, address)).unwrap_or_else(|| {
        let label = symbols.label(address).unwrap_or("?");
        let name = short(&format!("{:#}", rustc_demangle::demangle(label)));
        let purpose = listed(NO_LINES, &name);
        (Function { name, file: NO_LINES.to_owned(), line: None }, purpose)
    })
}

/// The functions at an address of the kernel, innermost first.
pub fn functions(symbols: &Symbols, address: u64) -> Vec<Function> {
    symbols.frames(address).into_iter().filter_map(named).collect()
}

fn named(frame: Frame) -> Option<Function> {
    let (file, line) = frame.place?;
    Some(Function { name: short(&frame.function), file, line: Some(line) })
}

/// The innermost function that has a purpose; else the outermost helper.
fn payer(frames: Vec<Function>) -> Option<(Function, Option<Purpose>)> {
    let mut outermost = None;
    for function in frames {
        if HELPERS.iter().any(|helper| function.file.starts_with(helper)) {
            outermost = Some(function);
        } else if let Some(purpose) = listed(&function.file, &function.name) {
            return Some((function, Some(purpose)));
        }
    }
    outermost.map(|helper| (helper, None))
}

fn listed(file: &str, function: &str) -> Option<Purpose> {
    let fits = |names: &str| names == ANY || names.split(' ').any(|name| name == function);
    let line = PURPOSES.iter().find(|(path, names, _)| file.starts_with(path) && fits(names));
    line.map(|(.., purpose)| *purpose)
}

/// The last part of a function's path, without generic arguments: a closure is its function's.
fn short(function: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for letter in function.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let is_hash =
        |part: &str| part.len() == 17 && part.starts_with('h') && part[1..].chars().all(|c| c.is_ascii_hexdigit());
    let mut parts = plain.rsplit("::").filter(|part| !part.is_empty() && !part.starts_with('{') && !is_hash(part));
    parts.next().unwrap_or(function).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, file: &str) -> Function {
        Function { name: name.to_owned(), file: file.to_owned(), line: Some(1) }
    }

    #[test]
    fn a_function_is_known_by_the_last_part_of_its_path() {
        assert_eq!(short("<fusee_kernel_core::Kernel>::leave::<fusee_kernel::machine::Board>"), "leave");
        assert_eq!(
            short("fusee_kernel_core::calls::<impl fusee_kernel_core::Kernel>::resolve::h0123456789abcdef"),
            "resolve"
        );
        assert_eq!(short("<a::Kernel>::timer::{closure#0}"), "timer");
        assert_eq!(short("fusee_same"), "fusee_same");
    }

    #[test]
    fn a_helper_is_for_what_its_caller_is_for() {
        let library = function("wrapping_add", "/library/core/src/num.rs");
        let helper = function("insert", "sched/src/queue.rs");
        let caller = function("plan_timeout", "kernel/core/src/scheduling/schedule.rs");
        let its_caller = function("call", "kernel/core/src/ipc.rs");
        let inlined = vec![library.clone(), helper.clone(), caller.clone(), its_caller];
        assert_eq!(payer(inlined), Some((caller, Some(Purpose::Timer))));
        assert_eq!(payer(vec![library.clone(), helper.clone()]), Some((helper, None)));
        assert_eq!(payer(vec![library]), None);
    }

    #[test]
    fn every_file_and_function_that_is_listed_exists() {
        let root = fusee_host::system::root().unwrap();
        let files = PURPOSES.iter().map(|(file, ..)| *file).chain(HELPERS.iter().copied());
        for file in files.filter(|file| *file != NO_LINES) {
            assert!(root.join(file).exists(), "{file}");
        }
        for (file, names, _) in PURPOSES.iter().filter(|(file, names, _)| file.ends_with(".rs") && *names != ANY) {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            for name in names.split(' ') {
                assert!(text.contains(&format!("fn {name}")), "{file}: {name}");
            }
        }
    }
}
