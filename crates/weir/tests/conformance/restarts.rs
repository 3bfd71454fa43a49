//! One broker that is restarted once for the same case of all SDKs, because its start is slow.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weir_lab::{Lab, LabOptions};

/// Longest wait for the slowest of the other cases.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);

/// The broker, started by the first case and stopped with this value.
#[derive(Debug)]
pub(crate) struct Restarts {
    state: Mutex<RestartState>,
    changed: Condvar,
}

#[derive(Debug)]
struct RestartState {
    /// Number of cases that take part.
    wanted: usize,
    waiting: usize,
    restarted: bool,
    lab: Option<Lab>,
}

impl Restarts {
    /// Creates a broker for `count` cases.
    pub(crate) fn new(wanted: usize) -> Self {
        Self {
            state: Mutex::new(RestartState {
                wanted,
                waiting: 0,
                restarted: false,
                lab: None,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RestartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a case and returns the address of the broker.
    pub(crate) fn join(&self) -> Result<(CaseSlot<'_>, String)> {
        // From here on, the other cases do not wait for this one if it fails.
        let seat = CaseSlot {
            restarts: self,
            met: false,
        };
        let mut state = self.lock();
        if state.lab.is_none() {
            let stop = AtomicBool::new(false);
            state.lab = Some(Lab::up(&LabOptions::default(), &mut |_| {}, &stop)?);
        }
        let bootstrap = state.lab.as_ref().map(Lab::bootstrap);
        drop(state);
        Ok((seat, bootstrap.context("no broker")?))
    }
}

/// Registration of one case.
#[derive(Debug)]
pub(crate) struct CaseSlot<'a> {
    restarts: &'a Restarts,
    met: bool,
}

impl CaseSlot<'_> {
    /// Waits until all cases are here and the broker was restarted.
    pub(crate) fn restart(mut self) -> Result<()> {
        self.met = true;
        let mut state = self.restarts.lock();
        state.waiting += 1;
        let (mut state, waited) = self
            .restarts
            .changed
            .wait_timeout_while(state, TEST_TIMEOUT, |state| {
                !state.restarted && state.waiting < state.wanted
            })
            .unwrap_or_else(PoisonError::into_inner);
        ensure!(!waited.timed_out(), "the other SDKs did not come");
        // The last case restarts the broker while the others wait for the lock.
        if !state.restarted {
            let lab = state.lab.as_mut().context("no broker")?;
            let node = lab.brokers()[0].node_id;
            lab.stop_broker(node)?;
            lab.start_broker(node, &AtomicBool::new(false))?;
            state.restarted = true;
            self.restarts.changed.notify_all();
        }
        Ok(())
    }
}

impl Drop for CaseSlot<'_> {
    fn drop(&mut self) {
        if !self.met {
            self.restarts.lock().wanted -= 1;
            self.restarts.changed.notify_all();
        }
    }
}
