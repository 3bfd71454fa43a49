//! Transactions of a producer: begun by a record, committed after a time.

use std::time::{Duration, Instant};

use weir_kafka::{Producer, TransactionError};
use weir_stats::Histogram;

use crate::clock::nanos;
use crate::worker::protocol::{Quantiles, TransactionSummary};

pub(super) struct Transactions<'a> {
    producer: &'a Producer,
    duration: Duration,
    /// End of the open transaction.
    until: Option<Instant>,
    commits: Histogram,
    failed: u64,
}

impl<'a> Transactions<'a> {
    /// Returns the transactions of a producer that is initialized for them.
    pub(super) fn new(producer: &'a Producer, duration: Duration) -> Self {
        Self {
            producer,
            duration,
            until: None,
            commits: Histogram::new(),
            failed: 0,
        }
    }

    /// Begins a transaction if none is open.
    pub(super) fn begin(&mut self) -> Result<(), TransactionError> {
        if self.until.is_none() {
            let begun = self.producer.begin_transaction();
            self.failed += u64::from(begun.is_err());
            begun?;
            self.until = Some(Instant::now() + self.duration);
        }
        Ok(())
    }

    /// Returns the end of the open transaction.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Commits the open transaction if its time is over, or in any case if `at_end`.
    pub(super) fn commit(&mut self, at_end: bool) -> Result<(), TransactionError> {
        let begun = Instant::now();
        if !self.until.is_some_and(|until| at_end || begun >= until) {
            return Ok(());
        }
        self.until = None;
        let committed = self.producer.commit_transaction(COMMIT_TIMEOUT);
        match &committed {
            Ok(()) => self.commits.record_ns(nanos(begun.elapsed())),
            Err(_) => self.failed += 1,
        }
        committed
    }

    pub(super) fn summary(&self) -> TransactionSummary {
        TransactionSummary {
            committed: self.commits.count(),
            failed: self.failed,
            commit: Quantiles::of(&self.commits),
        }
    }
}

const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);
