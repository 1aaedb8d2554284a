//! Tasks of the study.

/// A sporadic task with a deadline of a period. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Task {
    /// The least time between releases.
    pub period: u64,
    /// Its CPU time.
    pub cpu: u64,
    /// Its use of a GPU.
    pub gpu: Option<Gpu>,
}

/// The GPU part of a job: a token, copies in, kernels, copies out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gpu {
    /// Number of kernels.
    pub kernels: u64,
    /// The time of each kernel.
    pub kernel: u64,
    /// The part of its CPU time in which it has the token.
    pub section: u64,
    /// Bytes copied in.
    pub input: u64,
    /// Bytes copied out.
    pub output: u64,
    /// Bytes of state, which follow the job to its GPU.
    pub state: u64,
}

impl Gpu {
    /// The time of all kernels.
    #[must_use]
    pub fn kernel_time(&self) -> u64 {
        self.kernels.saturating_mul(self.kernel)
    }
}
