//! Progress and interruption of a long operation.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{LabError, Result};

/// Progress output and stop flag of a long operation.
pub struct Operation<'a> {
    /// Receives a line before each step that takes time.
    pub progress: &'a mut dyn FnMut(&str),
    /// Stops the operation when it becomes `true`.
    pub stop: &'a AtomicBool,
}

impl Operation<'_> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Fails if the operation is to stop; `doing` names the activity.
    pub(crate) fn proceed(&self, doing: &'static str) -> Result<()> {
        match self.is_stopped() {
            true => Err(LabError::Interrupted(doing)),
            false => Ok(()),
        }
    }
}
