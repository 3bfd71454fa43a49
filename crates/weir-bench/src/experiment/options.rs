//! Options of a run that do not depend on its plan.

use std::path::PathBuf;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Parent directory of the run directory.
    pub out: PathBuf,
    /// Bootstrap servers of a running cluster; `None`: start a broker for the run and stop it
    /// afterwards.
    pub bootstrap: Option<String>,
    /// Path of this program.
    pub exe: PathBuf,
    /// Command line as typed.
    pub command_line: Vec<String>,
}
