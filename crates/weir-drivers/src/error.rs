//! What can be wrong with a driver: which one, at what, and why.

use std::time::Duration;

use weir_lab::error::LabError;

/// A driver that did not do what it should.
#[derive(Debug, thiserror::Error)]
#[error("driver {driver}, {during}: {reason}")]
pub struct DriverError {
    /// Its name.
    pub driver: String,
    /// At which command, or `start`.
    pub during: String,
    /// What happened.
    pub reason: DriverFailure,
}

/// What happened to a driver.
#[derive(Debug, thiserror::Error)]
pub enum DriverFailure {
    /// It is not there: a missing toolchain, no network, code that does not compile.
    #[error("not built: {0}")]
    NotBuilt(#[source] Box<LabError>),
    /// Its program cannot be run.
    #[error("not started: {0}")]
    NotStarted(String),
    /// It has ended, or closed its output.
    #[error("crashed ({status}); it said: {said}")]
    Crashed {
        /// How it ended.
        status: String,
        /// The end of its standard error.
        said: String,
    },
    /// It did not answer and was killed.
    #[error("hung: no answer within {within:?}, killed; it said: {said}")]
    Hung {
        /// The time it had.
        within: Duration,
        /// The end of its standard error.
        said: String,
    },
    /// It says what is no answer, and was killed.
    #[error("does not speak the protocol, killed: {detail}")]
    Garbled {
        /// What is wrong.
        detail: String,
    },
    /// Its answer cannot be true, and it was killed.
    #[error("lied, killed: {detail}")]
    Lied {
        /// What cannot be.
        detail: String,
    },
    /// It could not do what it was asked for; it goes on.
    #[error("refused: {0}")]
    Refused(String),
    /// The caller asked to stop; it was killed.
    #[error("interrupted, killed")]
    Interrupted,
}

impl DriverError {
    /// Whether the driver is gone; otherwise it takes further commands.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        !matches!(self.reason, DriverFailure::Refused(_))
    }

    /// One word for what happened.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.reason {
            DriverFailure::NotBuilt(_) => "not built",
            DriverFailure::NotStarted(_) => "not started",
            DriverFailure::Crashed { .. } => "crashed",
            DriverFailure::Hung { .. } => "hung",
            DriverFailure::Garbled { .. } => "garbled",
            DriverFailure::Lied { .. } => "lied",
            DriverFailure::Refused(_) => "refused",
            DriverFailure::Interrupted => "interrupted",
        }
    }

    pub(super) fn not_built(driver: &str, error: LabError) -> Self {
        let reason = match error {
            LabError::Interrupted { .. } => DriverFailure::Interrupted,
            error => DriverFailure::NotBuilt(Box::new(error)),
        };
        Self {
            driver: driver.to_owned(),
            during: "start".to_owned(),
            reason,
        }
    }
}
