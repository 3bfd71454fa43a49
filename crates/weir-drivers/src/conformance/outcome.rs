//! Results of checks, and errors that end the session.

use std::time::Duration;

use weir_kafka::{AdminError, ProducerError, SendError, SourceError};

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverCheck {
    /// Name, for example `produce.cold`.
    pub name: &'static str,
    /// Outcome.
    pub outcome: CheckOutcome,
    /// Duration of the check.
    pub took: Duration,
}

impl DriverCheck {
    /// Returns `true` if the driver deviates.
    pub fn is_failed(&self) -> bool {
        matches!(self.outcome, CheckOutcome::Failed(_))
    }
}

/// Outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The driver follows the protocol.
    Passed,
    /// The driver deviates from the protocol.
    Failed(Deviation),
    /// The check does not apply, for the given reason.
    Skipped(String),
}

/// Deviation of a driver from the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// Behaviour that the protocol requires.
    pub expected: String,
    /// Observed behaviour.
    pub got: String,
}

/// Error of the cluster or of the call, which is not the driver's fault.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// A topic could not be created or examined.
    #[error("topics for the checks: {0}")]
    Admin(#[from] AdminError),
    /// The producer of test records could not be started.
    #[error("test records: {0}")]
    Producer(#[from] ProducerError),
    /// A test record was not accepted.
    #[error("test records: {0}")]
    Send(#[from] SendError),
    /// Test records were not stored.
    #[error("test records for topic \"{0}\" were not stored: {1}")]
    NotStored(String, String),
    /// The records of a topic could not be read.
    #[error("reading back a topic: {0}")]
    Read(#[from] SourceError),
    /// The end of a topic was not reached in time.
    #[error("topic \"{0}\": only {1} records could be read back in {2:?}")]
    Incomplete(String, usize, Duration),
    /// The directory for the driver's log is not writable, or its process cannot be examined.
    #[error("{0}: {1}")]
    File(String, #[source] std::io::Error),
    /// No check has that name.
    #[error("no check matches \"{0}\"; checks are {1}")]
    NoCheck(String, String),
    /// The stop flag was set.
    #[error("interrupted")]
    Interrupted,
}

/// Reason why a check ends without success.
#[derive(Debug)]
pub(super) enum CheckFailure {
    Deviation(Deviation),
    Skipped(String),
    Aborted(ConformanceError),
}

pub(super) type CheckResult<T = ()> = Result<T, CheckFailure>;

impl CheckFailure {
    pub(super) fn deviation(expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Deviation(Deviation {
            expected: expected.into(),
            got: got.into(),
        })
    }
}

impl<E: Into<ConformanceError>> From<E> for CheckFailure {
    fn from(error: E) -> Self {
        Self::Aborted(error.into())
    }
}

/// Ends the check with a deviation unless the condition holds: the expectation, then a format of
/// the observation.
macro_rules! require {
    ($condition:expr, $expected:expr, $($got:tt)+) => {
        match $condition {
            true => {}
            false => {
                let got = format!($($got)+);
                return Err($crate::conformance::outcome::CheckFailure::deviation($expected, got));
            }
        }
    };
}
pub(super) use require;
