//! Exit codes of all commands; scripts may rely on them.

use std::fmt;
use std::process::ExitCode;

use weir_bench::plan::PlanError;
use weir_engine::agents::MachineAgentError;
use weir_engine::client_agents::AgentError;
use weir_gateway::GatewayError;
use weir_lab::LabError;
use weir_load::error::{ErrorClass, LoadError};
use weir_proxy::ProxyError;
use weir_report::ReportError;

/// Outcome of a command, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Threshold,
    /// Invalid usage or configuration.
    Usage,
    /// Unreachable target, or a protocol violation by the target.
    Unreachable,
    /// Failure of the benchmarking tool; the measurement is not valid.
    Tool,
    /// Ended by Ctrl-C or SIGTERM before the work was done.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Threshold => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
            Exit::Tool => 4,
            Exit::Interrupted => 130,
        })
    }
}

impl From<ErrorClass> for Exit {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Usage => Self::Usage,
            ErrorClass::Target => Self::Unreachable,
            ErrorClass::Tool => Self::Tool,
        }
    }
}

impl Exit {
    /// Returns the exit code for an error of a server, which is one of its configuration or not.
    pub(crate) fn of_server(is_config_error: bool) -> Self {
        match is_config_error {
            true => Self::Usage,
            false => Self::Tool,
        }
    }
}

/// Returns the outcome of a server command.
///
/// `stuck` names the threads that did not end in time. They end with the process.
pub(crate) fn after_shutdown(stuck: &[String]) -> Exit {
    if stuck.is_empty() {
        return Exit::Success;
    }
    tracing::error!(threads = stuck.join(", "), "threads did not stop in time");
    Exit::Tool
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, anyhow::Error::msg(text.into()))
    }

    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { exit, error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

pub(crate) trait OrExit<T> {
    /// Returns the error as a failure that ends the process with `exit`.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, error))
    }
}

/// Defines the exit codes of errors.
macro_rules! failures {
    ($($error:ty: $exit:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let exit: fn(&$error) -> Exit = $exit;
                Self::new(exit(&error), error)
            }
        }
    )*};
}

failures! {
    LoadError: |error| error.class().into();
    AgentError: |error| error.class().into();
    MachineAgentError: |error| match error {
        MachineAgentError::Unreachable(..) => Exit::Unreachable,
        MachineAgentError::Program(_) | MachineAgentError::Lost(..) => Exit::Tool,
        MachineAgentError::Token
        | MachineAgentError::OtherToken(_)
        | MachineAgentError::Rejected(_) => Exit::Usage,
    };
    GatewayError: |error| Exit::of_server(error.is_config_error());
    ProxyError: |error| Exit::of_server(error.is_config_error());
    PlanError: |_| Exit::Usage;
    ReportError: |_| Exit::Usage;
    LabError: |error| match error.fault() {
        weir_lab::ErrorClass::Usage => Exit::Usage,
        weir_lab::ErrorClass::Unreachable => Exit::Unreachable,
        weir_lab::ErrorClass::Interrupted => Exit::Interrupted,
    };
}
