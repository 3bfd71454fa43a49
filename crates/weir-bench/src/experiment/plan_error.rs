//! Errors in plan files.

use thiserror::Error;

/// Error in a plan. Every message names the file and the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Not TOML, an unknown key, a missing key or a value of the wrong type.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Description of the error.
        message: String,
    },
    /// Invalid value.
    #[error("{file}: {key} = {value}: {remedy}")]
    Value {
        /// Name of the file, or `command line`.
        file: String,
        /// Key.
        key: &'static str,
        /// Value of the key.
        value: String,
        /// Instruction to fix the value.
        remedy: &'static str,
    },
}
