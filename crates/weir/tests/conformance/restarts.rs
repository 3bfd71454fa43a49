//! One broker that is restarted once for the same case of all SDKs: starting one takes longer than
//! all else.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weir_lab::{Lab, LabOptions};

/// Longest wait for the slowest of the others.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Starts with the first case that comes, ends with this value.
#[derive(Debug)]
pub(crate) struct Restarts {
    state: Mutex<RestartState>,
    changed: Condvar,
}

#[derive(Debug)]
struct RestartState {
    /// Cases that are to meet.
    wanted: usize,
    waiting: usize,
    restarted: bool,
    lab: Option<Lab>,
}

impl Restarts {
    /// For this many cases at the same time.
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
        // Whatever happens from here on, the others need not wait for it.
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

/// The place of one case.
#[derive(Debug)]
pub(crate) struct CaseSlot<'a> {
    restarts: &'a Restarts,
    met: bool,
}

impl CaseSlot<'_> {
    /// Waits until all cases have come here and the broker was stopped and started again.
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
        // The last to come does it, while the lock keeps the others.
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
