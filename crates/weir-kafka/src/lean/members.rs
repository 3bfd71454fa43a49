//! Group members of a run that have not left yet.

use std::cell::Cell;

use tokio::sync::watch;

/// Number of members that have not left, and the signal to leave.
#[derive(Debug)]
pub(super) struct GroupMembers {
    pub(super) leaving: watch::Sender<bool>,
    pub(super) present: Cell<usize>,
    pub(super) changed: watch::Sender<()>,
}

impl Default for GroupMembers {
    fn default() -> Self {
        Self {
            leaving: watch::Sender::new(false),
            present: Cell::new(0),
            changed: watch::Sender::new(()),
        }
    }
}
