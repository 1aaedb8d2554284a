//! The costs of kernel paths: time that traps take in a simulation.
//!
//! ```toml
//! release = "300ns"                    # each job that begins
//! schedule = "500ns"                   # each look at the plan: all traps but the fast calls
//! context_switch = "400ns"             # each thread that is put on a CPU
//! call_in = "100ns"                    # into the kernel by a call or a fault,
//! call_out = "100ns"                   # and out again
//! interrupt = "350ns"                  # in and out by a timer, a kick or a device
//! interprocessor_interrupt = "600ns"   # a kick is on its way
//! ```
//!
//! A path that is not given costs nothing; bare numbers are nanoseconds. The analysis reads the same file, and has costs
//! that are not simulated: they may be given, and change nothing here. The kernel chooses the payer, as on a
//! board: interrupts and waiting for the lock are its own, calls are the caller's, and a switch, which comes after
//! the last reading of the clock, is the next thread's.
//!
//! Not here: when a CPU is in the kernel and which events wait meanwhile (`run.rs`).

use fusee_manifest::Time;

/// Costs that only the analysis knows; their names are those of its fields.
const ANALYSED: [&str; 7] =
    ["cache_delay", "cache_interrupt", "event_latency", "lock", "unlock", "tick", "tick_period"];

/// The costs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Overheads {
    /// Each job that begins.
    pub release: u64,
    /// Each look at the plan: all traps but the fast calls.
    pub schedule: u64,
    /// Each thread that is put on a CPU.
    pub context_switch: u64,
    /// Into the kernel, by a call or a fault.
    pub call_in: u64,
    /// And out again.
    pub call_out: u64,
    /// In and out by a timer, a kick or a device.
    pub interrupt: u64,
    /// A kick is on its way.
    pub interprocessor_interrupt: u64,
}

impl Overheads {
    /// The kernel takes no time.
    pub const NONE: Overheads = Overheads {
        release: 0,
        schedule: 0,
        context_switch: 0,
        call_in: 0,
        call_out: 0,
        interrupt: 0,
        interprocessor_interrupt: 0,
    };

    /// The measurements of `cargo xtask bench`, in round figures, so that results do not change with each compiler.
    pub const ROUND: Overheads = Overheads {
        release: 1_000,
        schedule: 1_000,
        context_switch: 500,
        call_in: 50,
        call_out: 50,
        interrupt: 500,
        interprocessor_interrupt: 500,
    };

    /// Reads `text`, a TOML file.
    ///
    /// # Errors
    /// The fault: a key by its name, anything else by its line.
    pub fn parse(text: &str) -> Result<Overheads, String> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
        let mut overheads = Overheads::NONE;
        for (key, value) in &table {
            let place = match key.as_str() {
                "release" => &mut overheads.release,
                "schedule" => &mut overheads.schedule,
                "context_switch" => &mut overheads.context_switch,
                "call_in" => &mut overheads.call_in,
                "call_out" => &mut overheads.call_out,
                "interrupt" => &mut overheads.interrupt,
                "interprocessor_interrupt" => &mut overheads.interprocessor_interrupt,
                other if ANALYSED.contains(&other) => &mut 0,
                other => return Err(format!("no cost is called `{other}`")),
            };
            let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
            let time = value.as_str().and_then(Time::parse).map(|time| time.0);
            *place = number
                .or(time)
                .ok_or_else(|| format!("`{key}` should be nanoseconds, or a time with its unit, such as \"2us\""))?;
        }
        Ok(overheads)
    }

    /// Kicks take so long; all else costs nothing.
    #[must_use]
    pub const fn kicks(delay: u64) -> Overheads {
        Overheads { interprocessor_interrupt: delay, ..Overheads::NONE }
    }

    /// A call: in and out.
    #[must_use]
    pub const fn call(&self) -> u64 {
        self.call_in + self.call_out
    }

    /// All together: more than one trap costs, unless it starts several jobs.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.release
            + self.schedule
            + self.context_switch
            + self.call()
            + self.interrupt
            + self.interprocessor_interrupt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_nanoseconds_or_times_and_what_is_not_said_costs_nothing() {
        let overheads = Overheads::parse("release = 300\ncontext_switch = \"2us\"").unwrap();
        assert_eq!(overheads, Overheads { release: 300, context_switch: 2_000, ..Overheads::NONE });
        assert_eq!(Overheads::parse("lock = 7"), Ok(Overheads::NONE));
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        assert!(Overheads::parse("relase = 300").unwrap_err().contains("relase"));
        assert!(Overheads::parse("release = \"soon\"").is_err());
    }
}
