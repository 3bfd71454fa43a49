//! Updates queued for one item of one subscription while its client lags or a limit delays them.
//! They are shared values, never bytes, and are merged or dropped as the mode allows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use foldhash::HashMap;
use weir_mapping::{FrozenValues, RowCommand};

use super::delivery_mode::{DeliveryMode, PayloadSource};
use super::row_table::RowChange;
use super::work::visit;

/// Bytes counted for an update in addition to its field values.
const ENTRY_BYTES: usize = 64;

#[derive(Debug)]
pub(crate) enum QueuedUpdate {
    /// Update of the snapshot; exempt from the frequency limit and never dropped.
    Snapshot(Arc<FrozenValues>),
    /// Update that the client has missed; exempt from the frequency limit and never dropped.
    Missed(Arc<FrozenValues>),
    Update(Arc<FrozenValues>),
    Row {
        key: Arc<str>,
        command: RowCommand,
        values: Arc<FrozenValues>,
        /// Bytes counted for the change; 0 if the row table stores the values anyway.
        bytes: usize,
    },
    /// Number of updates that were lost at this position.
    Lost(u64),
    /// All rows were removed.
    Clear,
    EndOfSnapshot,
    /// Sent, or obsolete.
    Removed,
}

#[derive(Debug, Default)]
pub(crate) struct UpdateQueue {
    delivery: DeliveryMode,
    updates_max: usize,
    entries: VecDeque<QueuedUpdate>,
    removed: usize,
    /// Index before which there is no [`QueuedUpdate::Update`].
    oldest: usize,
    updates: usize,
    /// Number of snapshot updates that may still be added at the front.
    backfill_max: usize,
    bytes: usize,
    /// Number of the first entry, counted since the queue was created.
    first: u64,
    /// Number of the last entry of each row, by row key.
    latest: HashMap<Arc<str>, u64>,
    /// Number of the first entry that was never delayed.
    undelayed_from: u64,
    /// Delayed entries: the time from which each may be sent, and its number.
    delayed: BinaryHeap<Reverse<(u64, u64)>>,
    /// Rows were lost: the whole table must be sent again.
    resync_pending: bool,
    /// The end of the snapshot was lost with the rows.
    end_pending: bool,
}

/// Updates that were not queued unchanged.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverflowCounts {
    /// Merged into a newer or older one.
    pub(crate) conflated: u64,
    pub(crate) dropped: u64,
    /// Lost; reported to the client.
    pub(crate) lost: u64,
}

impl OverflowCounts {
    fn conflated(conflated: u64) -> Self {
        Self {
            conflated,
            ..Self::default()
        }
    }

    fn lost(lost: u64) -> Self {
        Self {
            lost,
            ..Self::default()
        }
    }
}

/// Returns the bytes counted for an update.
fn cost(values: &FrozenValues) -> usize {
    values.text_bytes() + ENTRY_BYTES
}

impl UpdateQueue {
    /// Creates a queue for at most `updates_max` updates, if the delivery mode has such a limit.
    pub(crate) fn new(delivery: DeliveryMode, updates_max: usize) -> Self {
        Self {
            delivery,
            updates_max: updates_max.max(1),
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, index: usize) -> Option<&QueuedUpdate> {
        self.entries.get(index)
    }

    pub(crate) fn push_snapshot(&mut self, values: Arc<FrozenValues>) {
        self.entries.push_back(QueuedUpdate::Snapshot(values));
    }

    /// Appends an update that the client has missed.
    pub(crate) fn push_missed(&mut self, values: Arc<FrozenValues>) {
        self.entries.push_back(QueuedUpdate::Missed(values));
    }

    /// Returns `true` if the last entry is a missed update with these values.
    pub(crate) fn ends_with(&self, newest: &Arc<FrozenValues>) -> bool {
        let last = self.entries.back();
        matches!(last, Some(QueuedUpdate::Missed(values)) if Arc::ptr_eq(values, newest))
    }

    /// Returns `true` if at most one entry is queued.
    pub(crate) fn has_one_at_most(&self) -> bool {
        self.entries.len() - self.removed <= 1
    }

    /// Sets the maximum number of snapshot updates that [`Self::push_backfill`] may insert.
    pub(crate) fn reserve_backfill(&mut self, updates_max: usize) {
        self.backfill_max = updates_max;
    }

    /// Inserts a snapshot update before the others, up to the number of [`Self::reserve_backfill`].
    pub(crate) fn push_backfill(&mut self, values: &Arc<FrozenValues>) {
        if self.backfill_max > 0 {
            self.backfill_max -= 1;
            self.entries
                .push_front(QueuedUpdate::Snapshot(Arc::clone(values)));
            self.oldest += 1;
            self.retry_delayed();
        }
    }

    pub(crate) fn push_snapshot_row(&mut self, key: Arc<str>, values: Arc<FrozenValues>) {
        self.append_row(key, RowCommand::Add, values, 0);
    }

    pub(crate) fn push_end(&mut self) {
        match self.resync_pending {
            true => self.end_pending = true,
            false => self.entries.push_back(QueuedUpdate::EndOfSnapshot),
        }
    }

    /// Appends the removal of all rows and drops the queued row changes. In modes other than
    /// COMMAND, the queued updates remain.
    pub(crate) fn push_clear(&mut self) {
        if self.delivery.payload_source() != PayloadSource::Row {
            return self.entries.push_back(QueuedUpdate::Clear);
        }
        let lost = match self.entries.front() {
            Some(QueuedUpdate::Lost(lost)) => Some(*lost),
            _ => None,
        };
        let end_pending = self.take_end();
        self.drop_all();
        self.entries.extend(lost.map(QueuedUpdate::Lost));
        self.entries.push_back(QueuedUpdate::Clear);
        self.resync_pending = false;
        if end_pending {
            self.entries.push_back(QueuedUpdate::EndOfSnapshot);
        }
    }

    /// Appends an update, in modes other than COMMAND. `bytes_max` limits the bytes of this queue.
    pub(crate) fn push(&mut self, values: &Arc<FrozenValues>, bytes_max: usize) -> OverflowCounts {
        let is_full = self.updates > 0 && self.bytes + cost(values) > bytes_max;
        match self.delivery {
            DeliveryMode::List => {
                let mut dropped = 0;
                while self.updates >= self.updates_max
                    || (self.updates > 0 && self.bytes + cost(values) > bytes_max)
                {
                    self.drop_oldest();
                    dropped += 1;
                }
                self.append(values);
                OverflowCounts {
                    dropped,
                    ..OverflowCounts::default()
                }
            }
            DeliveryMode::Newest | DeliveryMode::Buffered
                if is_full || self.updates >= self.updates_max =>
            {
                self.pop_update();
                self.append(values);
                OverflowCounts::conflated(1)
            }
            DeliveryMode::States if is_full => {
                // The newest state must be sent; the state that it replaces is lost.
                self.pop_update();
                self.add_loss(1);
                self.append(values);
                OverflowCounts::lost(1)
            }
            _ if is_full => {
                self.add_loss(1);
                OverflowCounts::lost(1)
            }
            _ => {
                self.append(values);
                OverflowCounts::default()
            }
        }
    }

    /// Appends a row change. `bytes_max` limits the bytes of this queue.
    pub(crate) fn push_row(&mut self, change: &RowChange, bytes_max: usize) -> OverflowCounts {
        if self.resync_pending {
            self.add_loss(1);
            return OverflowCounts::lost(1);
        }
        let values = match change.command {
            RowCommand::Delete => &change.whole,
            _ => &change.values,
        };
        if self.delivery == DeliveryMode::Rows && !change.is_unstored {
            if let Some(overflow) = self.merge(change, values) {
                return overflow;
            }
        }
        if self.updates > 0 && self.bytes + cost(values) > bytes_max {
            return self.drop_rows();
        }
        let (key, bytes) = (Arc::clone(&change.key), cost(values));
        self.append_row(key, change.command, Arc::clone(values), bytes);
        OverflowCounts::default()
    }

    /// Merges a change into the queued change of its row, if that is allowed.
    fn merge(&mut self, change: &RowChange, newer: &Arc<FrozenValues>) -> Option<OverflowCounts> {
        let number = *self.latest.get(&change.key)?;
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let Some(QueuedUpdate::Row {
            command,
            values,
            bytes,
            ..
        }) = self.entries.get_mut(index)
        else {
            return None;
        };
        match (*command, change.command) {
            (RowCommand::Add, RowCommand::Delete) => {
                self.mark_removed(index);
                // Without this, removed entries would accumulate while nothing is sent.
                self.trim();
                Some(OverflowCounts::conflated(2))
            }
            (RowCommand::Add | RowCommand::Update, RowCommand::Update)
            | (RowCommand::Update, RowCommand::Delete) => {
                self.bytes = self.bytes - *bytes + cost(newer);
                (*values, *bytes) = (Arc::clone(newer), cost(newer));
                if change.command == RowCommand::Delete {
                    *command = RowCommand::Delete;
                    if number < self.undelayed_from {
                        // Deletions are exempt from the frequency limit.
                        self.delayed.push(Reverse((0, number)));
                    }
                }
                Some(OverflowCounts::conflated(1))
            }
            _ => None,
        }
    }

    /// Drops all row changes because the queue is full. The whole table will be sent again.
    fn drop_rows(&mut self) -> OverflowCounts {
        let lost = self.updates as u64 + 1;
        self.end_pending = self.take_end();
        self.drop_all();
        self.add_loss(lost);
        self.resync_pending = true;
        OverflowCounts::lost(lost)
    }

    /// Returns `true` if the whole table must be sent again, by [`Self::resync`].
    pub(crate) fn needs_resync(&self) -> bool {
        self.resync_pending
    }

    /// Queues the whole table in place of the lost changes.
    pub(crate) fn resync(&mut self, rows: impl Iterator<Item = (Arc<str>, Arc<FrozenValues>)>) {
        self.resync_pending = false;
        self.entries.push_back(QueuedUpdate::Clear);
        for (key, values) in rows {
            self.append_row(key, RowCommand::Add, values, 0);
        }
        if std::mem::take(&mut self.end_pending) {
            self.entries.push_back(QueuedUpdate::EndOfSnapshot);
        }
    }

    /// Marks an entry as removed.
    pub(crate) fn mark_removed(&mut self, index: usize) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let entry = std::mem::replace(entry, QueuedUpdate::Removed);
        self.removed += usize::from(!matches!(entry, QueuedUpdate::Removed));
        match entry {
            QueuedUpdate::Update(values) => {
                self.updates -= 1;
                self.bytes -= cost(&values);
            }
            QueuedUpdate::Row { key, bytes, .. } => {
                self.updates -= 1;
                self.bytes -= bytes;
                if self.latest.get(&key) == Some(&(self.first + index as u64)) {
                    self.latest.remove(&key);
                }
            }
            _ => {}
        }
    }

    /// Returns the index of the next entry to send: a delayed entry that is due, otherwise the
    /// first one that was never delayed.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<usize> {
        self.skip_removed();
        if let Some(Reverse((at_ms, number))) = self.delayed.peek() {
            if *at_ms <= now_ms {
                return Some((number - self.first) as usize);
            }
        }
        self.undelayed_from = self.undelayed_from.max(self.first);
        loop {
            visit();
            let index = (self.undelayed_from - self.first) as usize;
            match self.entries.get(index)? {
                QueuedUpdate::Removed => self.undelayed_from += 1,
                _ => return Some(index),
            }
        }
    }

    /// Delays the entry that [`Self::next`] has returned until `at_ms`.
    pub(crate) fn delay(&mut self, index: usize, at_ms: u64) {
        let number = self.first + index as u64;
        match number < self.undelayed_from {
            true => drop(self.delayed.pop()),
            false => self.undelayed_from = number + 1,
        }
        self.delayed.push(Reverse((at_ms, number)));
    }

    /// Returns the time from which the first delayed entry may be sent.
    pub(crate) fn next_delayed_ms(&mut self) -> u64 {
        self.skip_removed();
        let next = self.delayed.peek();
        next.map_or(u64::MAX, |Reverse((at_ms, _))| *at_ms)
    }

    /// Makes all delayed entries due, after a change of the frequency limit.
    pub(crate) fn retry_delayed(&mut self) {
        self.undelayed_from = self.first;
        self.delayed.clear();
    }

    fn skip_removed(&mut self) {
        while let Some(Reverse((_, number))) = self.delayed.peek() {
            visit();
            let index = number.checked_sub(self.first);
            match index.and_then(|index| self.entries.get(index as usize)) {
                None | Some(QueuedUpdate::Removed) => drop(self.delayed.pop()),
                Some(_) => return,
            }
        }
    }

    /// Drops removed entries at the front. Returns `true` if the queue is empty.
    pub(crate) fn trim(&mut self) -> bool {
        while let Some(QueuedUpdate::Removed) = self.entries.front() {
            visit();
            self.entries.pop_front();
            self.first += 1;
            self.removed -= 1;
            self.oldest = self.oldest.saturating_sub(1);
        }
        if self.entries.len() > 32 && self.removed * 2 > self.entries.len() {
            self.compact();
        }
        self.entries.is_empty()
    }

    /// Drops all removed entries and renumbers the others.
    fn compact(&mut self) {
        self.entries.retain(|entry| {
            visit();
            !matches!(entry, QueuedUpdate::Removed)
        });
        (self.removed, self.oldest) = (0, 0);
        self.retry_delayed();
        self.latest.clear();
        for (index, entry) in self.entries.iter().enumerate() {
            if let QueuedUpdate::Row { key, .. } = entry {
                self.latest
                    .insert(Arc::clone(key), self.first + index as u64);
            }
        }
    }

    fn append(&mut self, values: &Arc<FrozenValues>) {
        self.updates += 1;
        self.bytes += cost(values);
        self.entries
            .push_back(QueuedUpdate::Update(Arc::clone(values)));
    }

    fn append_row(
        &mut self,
        key: Arc<str>,
        command: RowCommand,
        values: Arc<FrozenValues>,
        bytes: usize,
    ) {
        self.updates += 1;
        self.bytes += bytes;
        let number = self.first + self.entries.len() as u64;
        self.latest.insert(Arc::clone(&key), number);
        self.entries.push_back(QueuedUpdate::Row {
            key,
            command,
            values,
            bytes,
        });
    }

    fn add_loss(&mut self, count: u64) {
        match self.entries.back_mut() {
            Some(QueuedUpdate::Lost(lost)) => *lost += count,
            _ => self.entries.push_back(QueuedUpdate::Lost(count)),
        }
    }

    fn pop_update(&mut self) {
        if let Some(QueuedUpdate::Update(_)) = self.entries.back() {
            self.mark_removed(self.entries.len() - 1);
            self.entries.pop_back();
            self.removed -= 1;
        }
    }

    fn drop_oldest(&mut self) {
        loop {
            visit();
            match self.entries.get(self.oldest) {
                Some(QueuedUpdate::Update(_)) => break self.mark_removed(self.oldest),
                Some(_) => self.oldest += 1,
                // Unreachable: the number of updates is counted.
                None => break self.updates = 0,
            }
        }
        self.trim();
    }

    fn drop_all(&mut self) {
        self.first += self.entries.len() as u64;
        self.entries.clear();
        (self.removed, self.oldest) = (0, 0);
        self.retry_delayed();
        self.latest.clear();
        (self.updates, self.bytes) = (0, 0);
    }

    /// Returns `true` if an end of the snapshot is queued or pending, and resets the pending one.
    fn take_end(&mut self) -> bool {
        let is_end = |entry: &QueuedUpdate| matches!(entry, QueuedUpdate::EndOfSnapshot);
        std::mem::take(&mut self.end_pending) || self.entries.iter().any(is_end)
    }
}

#[cfg(test)]
mod tests;
