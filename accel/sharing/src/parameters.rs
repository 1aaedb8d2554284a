//! Lengths of slices, samples and polls.
//!
//! The papers' values are multiplied by 4 in time. A command of our device takes at least 25 us, theirs took 12 to 19 us, and a
//! trap costs more here. All values that shape a result have to scale together.

use fusee_sched::time::Nanoseconds;

const MILLISECOND: u64 = 1_000_000;

/// The name of a parameter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parameter {
    /// [`Parameters::poll`], in nanoseconds.
    Poll,
    /// [`Parameters::slice`], in nanoseconds.
    Slice,
    /// [`Parameters::sample`], in nanoseconds.
    Sample,
    /// [`Parameters::sample_most`], in nanoseconds.
    SampleMost,
    /// [`Parameters::sample_poll`], in nanoseconds.
    SamplePoll,
    /// [`Parameters::sample_requests`].
    SampleRequests,
    /// [`Parameters::free_run`], as a multiple.
    FreeRun,
    /// [`Parameters::backlogged`], in percent.
    Backlogged,
    /// [`Parameters::request_limit`], in nanoseconds.
    RequestLimit,
    /// [`Parameters::period`], in nanoseconds.
    Period,
    /// [`Parameters::wait`], in nanoseconds.
    Wait,
    /// A [`Weight`](crate::tree::Weight).
    Weight,
}

/// A parameter is out of its range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParameterError {
    /// The parameter.
    pub parameter: Parameter,
    /// The value of the parameter.
    pub value: u64,
    /// The smallest value it may have.
    pub least: u64,
    /// The largest value it may have.
    pub most: u64,
}

/// The values that policies are made with. The sources are the papers named at the policies, unless a comment names another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// The longest time between two steps while a member is backlogged. 4 x 1 ms; 10 us to 1 s.
    pub poll: Nanoseconds,
    /// The time for which the holder of a timeslice is alone. 4 x 30 ms; 1 ms to 4 s, and at least `poll`.
    pub slice: Nanoseconds,
    /// The time for which each member is sampled, unless its requests are long. 4 x 5 ms; 1 ms to 1 s.
    pub sample: Nanoseconds,
    /// The longest time for which each member is sampled, for requests of any length. Ours: 4 x 100 ms; `sample` to 4 s.
    pub sample_most: Nanoseconds,
    /// The longest time between two steps while a member is sampled, or while a virtual GPU has its turn. A request's end is known
    /// that exactly. Ours: 4 x 250 us; 10 us to `poll`.
    pub sample_poll: Nanoseconds,
    /// The number of requests that are enough of a sample. 32; 1 to 4096.
    pub sample_requests: u32,
    /// The length of a free run, as a multiple of all samples together. 5; 1 to 100.
    pub free_run: u32,
    /// The part of an interval that a member must be backlogged to set the system time. 90 percent; 1 to 100.
    pub backlogged: u8,
    /// The longest time that one request may run. Ours: 4 x 1 s; `poll` to 240 s.
    pub request_limit: Nanoseconds,
    /// The time between two grants of credit to a virtual GPU. 30 ms, as in Xen; 1 ms to 1 s.
    pub period: Nanoseconds,
    /// The time for which a virtual GPU that has used more than its part waits for the request of another one. 500 us; 0 to
    /// `period`. It has to be longer than the time between a completion and the client's next store.
    pub wait: Nanoseconds,
}

impl Parameters {
    /// The papers' values, with times multiplied by 4. Those of virtual GPUs are as they are: their paper's requests take
    /// milliseconds.
    pub const DEFAULT: Parameters = Parameters {
        poll: Nanoseconds(4 * MILLISECOND),
        slice: Nanoseconds(120 * MILLISECOND),
        sample: Nanoseconds(20 * MILLISECOND),
        sample_most: Nanoseconds(400 * MILLISECOND),
        sample_poll: Nanoseconds(MILLISECOND),
        sample_requests: 32,
        free_run: 5,
        backlogged: 90,
        request_limit: Nanoseconds(4_000 * MILLISECOND),
        period: Nanoseconds(30 * MILLISECOND),
        wait: Nanoseconds(MILLISECOND / 2),
    };

    /// Whether each parameter is in its range.
    ///
    /// # Errors
    /// The first parameter that is not, with its range.
    pub fn check(&self) -> Result<(), ParameterError> {
        let second = 1_000 * MILLISECOND;
        let ranges = [
            (Parameter::Poll, self.poll.0, 10_000, second),
            (Parameter::Slice, self.slice.0, self.poll.0.max(MILLISECOND), 4 * second),
            (Parameter::Sample, self.sample.0, MILLISECOND, second),
            (Parameter::SampleMost, self.sample_most.0, self.sample.0, 4 * second),
            (Parameter::SamplePoll, self.sample_poll.0, 10_000, self.poll.0),
            (Parameter::SampleRequests, u64::from(self.sample_requests), 1, 4096),
            (Parameter::FreeRun, u64::from(self.free_run), 1, 100),
            (Parameter::Backlogged, u64::from(self.backlogged), 1, 100),
            (Parameter::RequestLimit, self.request_limit.0, self.poll.0, 240 * second),
            (Parameter::Period, self.period.0, MILLISECOND, second),
            (Parameter::Wait, self.wait.0, 0, self.period.0),
        ];
        ranges.into_iter().try_for_each(|(parameter, value, least, most)| in_range(parameter, value, least, most))
    }
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters::DEFAULT
    }
}

pub(crate) fn in_range(parameter: Parameter, value: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(ParameterError { parameter, value, least, most }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_out_of_range_is_named_with_its_range() {
        assert_eq!(Parameters::DEFAULT.check(), Ok(()));
        let error = ParameterError { parameter: Parameter::SampleRequests, value: 0, least: 1, most: 4096 };
        assert_eq!(Parameters { sample_requests: 0, ..Parameters::DEFAULT }.check(), Err(error));
        let slow = Parameters { sample_poll: Nanoseconds(5 * MILLISECOND), ..Parameters::DEFAULT };
        assert_eq!(slow.check().unwrap_err().most, slow.poll.0);
    }
}
