//! The parameters of a sharer in its environment: a policy, the parameters of the policy, and groups of clients.

use core::fmt;

use fusee::{Instant, Nanoseconds};
use fusee_sharing::{
    Accounting, Estimator, FairQueueing, GROUPS, Interception, JoinError, MEMBERS, Member, ParameterError, Parameters,
    Place, Policy, Reading, Readings, Shares, Succession, Timeslice, Told, Tree, Usage, Verdict, VirtualGpus, Weight,
};

use crate::groups::{Groups, NoTree};

/// The parameters of a sharer.
#[derive(Clone, Debug)]
pub struct Setup {
    number: u64,
    /// Whether time beyond a slice is charged.
    overuse_control: bool,
    /// The lengths of slices, samples and polls.
    pub parameters: Parameters,
    pub(crate) groups: Groups,
    pub(crate) logs_verdicts: bool,
}

/// Why a sharer cannot begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SetupError {
    /// There is no policy of this number.
    NoPolicy(u64),
    /// The policy of this number knows no groups and no weights, and the manifest has some.
    NoWeights(u64),
    /// The parameter of this name is neither 0 nor 1.
    NoSwitch(&'static str, u64),
    /// A parameter is out of its range.
    OutOfRange(ParameterError),
    /// The groups are no tree.
    NoTree,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::NoPolicy(number) => write!(f, "there is no policy {number}; there are 0 to 8"),
            SetupError::NoWeights(number) => write!(f, "policy {number} knows no groups and no weights; 3 to 8 do"),
            SetupError::NoSwitch(name, value) => write!(f, "`{name}` is {value}; it may be 0 or 1"),
            SetupError::OutOfRange(ParameterError { parameter, value, least, most }) => {
                write!(f, "{parameter:?} is {value}; it may be {least} to {most}")
            }
            SetupError::NoTree => f.write_str("what is told of groups is no tree"),
        }
    }
}

impl From<ParameterError> for SetupError {
    fn from(error: ParameterError) -> SetupError {
        SetupError::OutOfRange(error)
    }
}

impl From<NoTree> for SetupError {
    fn from(_: NoTree) -> SetupError {
        SetupError::NoTree
    }
}

/// A policy. It is several KiB: it is made once the rest is done, because the stack of a task is small.
#[derive(Clone, Debug)]
pub enum Rule {
    /// All are let in.
    Accounting(Accounting),
    /// One after the other is.
    Timeslice(Timeslice),
    /// All are but those that are too far ahead.
    FairQueueing(FairQueueing),
    /// One virtual GPU is, request by request.
    VirtualGpus(VirtualGpus),
}

impl Rule {
    #[inline(never)]
    fn of(number: u64, overuse_control: bool, parameters: &Parameters, tree: Tree) -> Result<Rule, SetupError> {
        // Each is made in one place, for the same reason.
        let slices = |interception| {
            let policy = Timeslice::new(parameters, interception)?;
            Ok(Rule::Timeslice(if overuse_control { policy } else { policy.without_overuse_control() }))
        };
        let fair = |estimator| Ok(Rule::FairQueueing(FairQueueing::new(parameters, estimator, tree)?));
        let gpus = |succession| Ok(Rule::VirtualGpus(VirtualGpus::new(parameters, succession, tree)?));
        match number {
            0 => Ok(Rule::Accounting(Accounting::new(parameters)?)),
            1 | 2 => slices(if number == 1 { Interception::Engaged } else { Interception::Disengaged }),
            3 => fair(Estimator::SampledSize),
            4 => fair(Estimator::BacklogAware),
            5 => fair(Estimator::Counted),
            6 => gpus(Succession::Fifo),
            7 => gpus(Succession::Credit),
            8 => gpus(Succession::Band),
            unknown => Err(SetupError::NoPolicy(unknown)),
        }
    }

    fn policy(&self) -> &dyn Policy {
        match self {
            Rule::Accounting(policy) => policy,
            Rule::Timeslice(policy) => policy,
            Rule::FairQueueing(policy) => policy,
            Rule::VirtualGpus(policy) => policy,
        }
    }

    fn policy_mut(&mut self) -> &mut dyn Policy {
        match self {
            Rule::Accounting(policy) => policy,
            Rule::Timeslice(policy) => policy,
            Rule::FairQueueing(policy) => policy,
            Rule::VirtualGpus(policy) => policy,
        }
    }
}

impl Policy for Rule {
    fn join(&mut self, member: Member, place: Place, reading: &Reading, now: Instant) -> Result<(), JoinError> {
        self.policy_mut().join(member, place, reading, now)
    }

    fn leave(&mut self, member: Member, now: Instant) {
        self.policy_mut().leave(member, now);
    }

    fn reweigh(&mut self, member: Member, weight: Weight) {
        self.policy_mut().reweigh(member, weight);
    }

    fn step(&mut self, now: Instant, readings: &Readings) -> Verdict {
        self.policy_mut().step(now, readings)
    }

    fn usage(&self, member: Member) -> Usage {
        self.policy().usage(member)
    }

    fn counts(&self) -> bool {
        self.policy().counts()
    }

    fn season(&self) -> u64 {
        self.policy().season()
    }
}

impl Setup {
    /// Reads the parameters of the environment, each a name and a value.
    ///
    /// # Errors
    /// [`SetupError`].
    #[inline(never)]
    pub fn of<'a>(environment: impl Iterator<Item = (&'a str, u64)> + Clone) -> Result<Setup, SetupError> {
        let parameter = |wanted: &str| environment.clone().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let is_on = |name| match parameter(name).unwrap_or(0) {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(SetupError::NoSwitch(name, value)),
        };
        let told = |prefix| told(environment.clone(), prefix).map(|(_, told)| told);
        let number = parameter("policy").unwrap_or(2);
        let shares = if is_on("static_weights")? { Shares::Static } else { Shares::Hierarchical };
        let groups = Groups::of(shares, told("group."), told("member."))?;
        if number < 3 && groups.has_weights() {
            return Err(SetupError::NoWeights(number));
        }
        let overuse_control = !is_on("without_overuse_control")?;
        let logs_verdicts = is_on("log_verdicts")?;
        Ok(Setup { number, overuse_control, parameters: parameters(parameter), groups, logs_verdicts })
    }

    /// The policy.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn rule(&self) -> Result<Rule, SetupError> {
        Rule::of(self.number, self.overuse_control, &self.parameters, self.groups.tree())
    }

    /// The groups, for a policy of one's own.
    #[must_use]
    pub const fn tree(&self) -> Tree {
        self.groups.tree()
    }

    /// Whether the policy has to see each request, which managers of groups do not.
    #[must_use]
    pub const fn is_by_request(&self) -> bool {
        self.number >= 6
    }

    /// How many groups there are, the root included.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups.count()
    }
}

fn parameters(given: impl Fn(&str) -> Option<u64>) -> Parameters {
    let Parameters {
        poll,
        slice,
        sample,
        sample_most,
        sample_poll,
        sample_requests,
        free_run,
        backlogged,
        request_limit,
        period,
        wait,
    } = Parameters::DEFAULT;
    let time = |name: &str, default| given(name).map_or(default, |us| Nanoseconds(us.saturating_mul(1000)));
    // A number that its type cannot hold is out of the range of the parameter, too.
    Parameters {
        poll: time("poll_us", poll),
        slice: time("slice_us", slice),
        sample: time("sample_us", sample),
        sample_most: time("sample_most_us", sample_most),
        sample_poll: time("sample_poll_us", sample_poll),
        sample_requests: given("sample_requests").map_or(sample_requests, |value| value.try_into().unwrap_or(u32::MAX)),
        free_run: given("free_run").map_or(free_run, |value| value.try_into().unwrap_or(u32::MAX)),
        backlogged: given("backlogged").map_or(backlogged, |value| value.try_into().unwrap_or(u8::MAX)),
        request_limit: time("request_limit_us", request_limit),
        period: time("period_us", period),
        wait: time("wait_us", wait),
    }
}

/// The parameters with names that begin with `prefix`, and the rest of these names.
fn told<'a>(
    environment: impl Iterator<Item = (&'a str, u64)> + Clone,
    prefix: &'static str,
) -> impl Iterator<Item = (&'a str, Told)> + Clone {
    environment.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, Told::decode(value))))
}

/// The result of `find` for the task of each member, by the name of the client: its further handles to the engine have names of their own, and its
/// badge.
pub fn of_members<'a, T: Copy>(
    environment: impl Iterator<Item = (&'a str, u64)> + Clone,
    find: impl Fn(&str) -> Option<T>,
) -> [Option<T>; MEMBERS] {
    let mut found = [None; MEMBERS];
    for (client, its) in told(environment.clone(), "member.") {
        let Some(one) = find(client) else { continue };
        let members = told(environment.clone(), "member.").filter(|(_, told)| told.badge == its.badge);
        for place in members.filter_map(|(_, told)| Member::new(told.number.into())) {
            found[place.index()] = Some(one);
        }
    }
    found
}

/// The result of `find` for each group, by its name.
pub fn of_groups<'a, T: Copy>(
    environment: impl Iterator<Item = (&'a str, u64)> + Clone,
    find: impl Fn(&str) -> Option<T>,
) -> [Option<T>; GROUPS] {
    let mut found = [None; GROUPS];
    for (name, its) in told(environment, "group.") {
        if let Some(place) = found.get_mut(usize::from(its.number)) {
            *place = find(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(parameters: &[(&'static str, u64)]) -> Result<Setup, SetupError> {
        Setup::of(parameters.iter().copied())
    }

    #[test]
    fn each_parameter_is_told_by_its_name_and_what_is_not_told_stays() {
        let told = [("sample_requests", 7), ("free_run", 2), ("backlogged", 50), ("slice_us", 9_000), ("wait_us", 20)];
        let parameters = Parameters {
            sample_requests: 7,
            free_run: 2,
            backlogged: 50,
            slice: Nanoseconds(9_000_000),
            wait: Nanoseconds(20_000),
            ..Parameters::DEFAULT
        };
        assert_eq!(setup(&told).unwrap().parameters, parameters);
        assert_eq!(setup(&[]).unwrap().parameters, Parameters::DEFAULT);
    }

    #[test]
    fn a_number_that_its_parameter_cannot_hold_is_out_of_its_range() {
        for name in ["sample_requests", "free_run", "backlogged"] {
            for value in [0, 1 << 40, u64::MAX] {
                let rule = setup(&[("policy", 3), (name, value)]).unwrap().rule();
                assert!(matches!(rule, Err(SetupError::OutOfRange(_))), "{name} = {value}: {rule:?}");
            }
        }
    }

    #[test]
    fn overuse_control_is_a_switch() {
        let is_charged = |parameters: &[(&'static str, u64)]| setup(parameters).unwrap().overuse_control;
        assert!(is_charged(&[]) && is_charged(&[("without_overuse_control", 0)]));
        assert!(!is_charged(&[("without_overuse_control", 1)]));
        assert_eq!(
            setup(&[("without_overuse_control", 2)]).unwrap_err(),
            SetupError::NoSwitch("without_overuse_control", 2)
        );
    }
}
