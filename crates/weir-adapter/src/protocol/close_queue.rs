//! Close notifications that are not sent yet.

use std::collections::VecDeque;

use weir_identity::ari::AdapterRequest;

use crate::config::CloseRecovery;

/// Most notifications that wait.
pub(super) const CLOSES_MAX: usize = 100_000;

/// Close notifications in order.
#[derive(Debug)]
pub(super) struct CloseQueue {
    recovery: CloseRecovery,
    waiting: VecDeque<AdapterRequest>,
}

impl CloseQueue {
    pub(super) fn new(recovery: CloseRecovery) -> Self {
        Self {
            recovery,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a notification, unless the next connection does not need it. Returns `false` if the
    /// queue is full.
    pub(super) fn push(&mut self, request: AdapterRequest, is_ready: bool) -> bool {
        if !is_ready && self.recovery == CloseRecovery::Unneeded {
            return true;
        }
        let fits = self.waiting.len() < CLOSES_MAX;
        if fits {
            self.waiting.push_back(request);
        }
        fits
    }

    /// Adds the notifications that the lost connection has not completed, with whether they were
    /// sent, before those that wait.
    pub(super) fn interrupt(&mut self, open: Vec<(AdapterRequest, bool)>) {
        if self.recovery == CloseRecovery::Unneeded {
            return self.waiting.clear();
        }
        let repeats = self.recovery == CloseRecovery::Pessimistic;
        let open = open.into_iter().rev();
        for (request, _) in open.filter(|(_, sent)| !sent || repeats) {
            self.waiting.push_front(request);
        }
    }

    pub(super) fn pop(&mut self) -> Option<AdapterRequest> {
        self.waiting.pop_front()
    }
}
