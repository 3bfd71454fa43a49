//! What waits for one item of one subscription while its client may not or can not be sent to: updates
//! as shared values, never as bytes, merged or dropped as the mode allows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use weir_mapping::{FrozenValues, RowCommand};

use super::delivery::DeliveryMode;
use super::row_table::RowChange;
use super::work::visit;

/// What an update costs besides its texts.
const SLOT_BYTES: usize = 64;

/// One thing to be told.
#[derive(Debug)]
pub(super) enum QueuedUpdate {
    /// An update of the snapshot; neither paced nor dropped.
    Past(Arc<FrozenValues>),
    Update(Arc<FrozenValues>),
    Row {
        key: Arc<str>,
        command: RowCommand,
        values: Arc<FrozenValues>,
        /// What it counts for; 0 if the table has the values anyway.
        bytes: usize,
    },
    /// So many updates were dropped here.
    Lost(u64),
    /// All rows are gone.
    Clear,
    EndOfSnapshot,
    /// Told, or not worth telling any more.
    Gone,
}

/// Things to be told, in order.
#[derive(Debug)]
pub(super) struct Queue {
    delivery: DeliveryMode,
    /// Updates that may wait.
    most: usize,
    slots: VecDeque<QueuedUpdate>,
    /// Slots that are [`QueuedUpdate::Gone`].
    gone: usize,
    /// Index before which there is no [`QueuedUpdate::Update`].
    oldest: usize,
    updates: usize,
    /// Updates of the snapshot that may still come.
    past_max: usize,
    bytes: usize,
    /// Number of the first slot since the beginning.
    first: u64,
    /// Of each key, the slot that is about it last.
    latest: HashMap<Arc<str>, u64>,
    /// Number of the first slot that was never put off.
    fresh: u64,
    /// Slots that were put off: the instants from which they may be sent, and their numbers.
    later: BinaryHeap<Reverse<(u64, u64)>>,
    /// Rows were lost: the table must be told anew.
    renews: bool,
    /// The end of the snapshot was lost with them.
    ends: bool,
}

/// What became of updates that were not queued as they came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct OverflowCounts {
    /// Merged into a newer or older one.
    pub(super) conflated: u64,
    /// Dropped as the oldest.
    pub(super) dropped: u64,
    /// Lost; the client will be told.
    pub(super) lost: u64,
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

fn cost(values: &FrozenValues) -> usize {
    values.text_bytes() + SLOT_BYTES
}

impl Queue {
    /// A queue in which at most `most` updates wait, where the delivery has such a limit.
    pub(super) fn new(delivery: DeliveryMode, most: usize) -> Self {
        Self {
            delivery,
            most: most.max(1),
            slots: VecDeque::new(),
            gone: 0,
            oldest: 0,
            updates: 0,
            past_max: 0,
            bytes: 0,
            first: 0,
            latest: HashMap::new(),
            fresh: 0,
            later: BinaryHeap::new(),
            renews: false,
            ends: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What the updates in it count for.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, index: usize) -> Option<&QueuedUpdate> {
        self.slots.get(index)
    }

    /// An update of the snapshot.
    pub(super) fn push_snapshot(&mut self, values: Arc<FrozenValues>) {
        self.slots.push_back(QueuedUpdate::Past(values));
    }

    /// Leaves room for `most` further updates of the snapshot at the front.
    pub(super) fn await_past(&mut self, most: usize) {
        self.past_max = most;
    }

    /// An update from before those of the snapshot; left out if there is no room for it.
    pub(super) fn push_front(&mut self, values: &Arc<FrozenValues>) {
        if self.past_max > 0 {
            self.past_max -= 1;
            self.slots
                .push_front(QueuedUpdate::Past(Arc::clone(values)));
            self.oldest += 1;
            self.look_again();
        }
    }

    /// A row of the snapshot.
    pub(super) fn push_past_row(&mut self, key: Arc<str>, values: Arc<FrozenValues>) {
        self.append_row(key, RowCommand::Add, values, 0);
    }

    pub(super) fn push_end(&mut self) {
        match self.renews {
            true => self.ends = true,
            false => self.slots.push_back(QueuedUpdate::EndOfSnapshot),
        }
    }

    /// All rows are gone, and with them what would have been told about them.
    pub(super) fn push_clear(&mut self) {
        let lost = match self.slots.front() {
            Some(QueuedUpdate::Lost(lost)) => Some(*lost),
            _ => None,
        };
        let ends = self.take_end();
        self.drop_all();
        self.slots.extend(lost.map(QueuedUpdate::Lost));
        self.slots.push_back(QueuedUpdate::Clear);
        self.renews = false;
        if ends {
            self.slots.push_back(QueuedUpdate::EndOfSnapshot);
        }
    }

    /// An update, where updates and not rows are told; `room` is how many bytes may wait.
    pub(super) fn push(&mut self, values: &Arc<FrozenValues>, room: usize) -> OverflowCounts {
        let is_full = self.updates > 0 && self.bytes + cost(values) > room;
        match self.delivery {
            DeliveryMode::List => {
                let mut dropped = 0;
                while self.updates >= self.most
                    || (self.updates > 0 && self.bytes + cost(values) > room)
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
                if is_full || self.updates >= self.most =>
            {
                self.pop_update();
                self.append(values);
                OverflowCounts::conflated(1)
            }
            DeliveryMode::States if is_full => {
                // The newest state is owed in any case; what it replaces is lost.
                self.pop_update();
                self.lose(1);
                self.append(values);
                OverflowCounts::lost(1)
            }
            _ if is_full => {
                self.lose(1);
                OverflowCounts::lost(1)
            }
            _ => {
                self.append(values);
                OverflowCounts::default()
            }
        }
    }

    /// A change of a row.
    pub(super) fn push_row(&mut self, change: &RowChange, room: usize) -> OverflowCounts {
        if self.renews {
            self.lose(1);
            return OverflowCounts::lost(1);
        }
        let values = match change.command {
            RowCommand::Delete => &change.whole,
            _ => &change.values,
        };
        if self.delivery == DeliveryMode::Rows && !change.is_stranger {
            if let Some(shed) = self.merge(change, values) {
                return shed;
            }
        }
        if self.updates > 0 && self.bytes + cost(values) > room {
            return self.drop_rows();
        }
        let (key, bytes) = (Arc::clone(&change.key), cost(values));
        self.append_row(key, change.command, Arc::clone(values), bytes);
        OverflowCounts::default()
    }

    /// Merges a change into what waits about its row, if that is allowed.
    fn merge(&mut self, change: &RowChange, newer: &Arc<FrozenValues>) -> Option<OverflowCounts> {
        let number = *self.latest.get(&change.key)?;
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let Some(QueuedUpdate::Row {
            command,
            values,
            bytes,
            ..
        }) = self.slots.get_mut(index)
        else {
            return None;
        };
        match (*command, change.command) {
            (RowCommand::Add, RowCommand::Delete) => {
                self.take(index);
                // Else gaps would pile up while nothing is told.
                self.trim();
                Some(OverflowCounts::conflated(2))
            }
            (RowCommand::Add | RowCommand::Update, RowCommand::Update)
            | (RowCommand::Update, RowCommand::Delete) => {
                self.bytes = self.bytes - *bytes + cost(newer);
                (*values, *bytes) = (Arc::clone(newer), cost(newer));
                if change.command == RowCommand::Delete {
                    *command = RowCommand::Delete;
                    if number < self.fresh {
                        // No limit of frequency holds for it.
                        self.later.push(Reverse((0, number)));
                    }
                }
                Some(OverflowCounts::conflated(1))
            }
            _ => None,
        }
    }

    /// Too many rows wait: all are lost, and the table will be told anew.
    fn drop_rows(&mut self) -> OverflowCounts {
        let lost = self.updates as u64 + 1;
        self.ends = self.take_end();
        self.drop_all();
        self.lose(lost);
        self.renews = true;
        OverflowCounts::lost(lost)
    }

    /// Whether the table must be told anew, by [`Self::resync`].
    pub(super) fn needs_resync(&self) -> bool {
        self.renews
    }

    /// Has the whole table told, in place of the changes that were lost.
    pub(super) fn resync(&mut self, rows: impl Iterator<Item = (Arc<str>, Arc<FrozenValues>)>) {
        self.renews = false;
        self.slots.push_back(QueuedUpdate::Clear);
        for (key, values) in rows {
            self.append_row(key, RowCommand::Add, values, 0);
        }
        if std::mem::take(&mut self.ends) {
            self.slots.push_back(QueuedUpdate::EndOfSnapshot);
        }
    }

    /// Takes out what has been told.
    pub(super) fn take(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let slot = std::mem::replace(slot, QueuedUpdate::Gone);
        self.gone += usize::from(!matches!(slot, QueuedUpdate::Gone));
        match slot {
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

    /// Returns the index of the slot that is to be sent next: one that was put off and is due,
    /// else the first that was not put off.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<usize> {
        self.skip_gone();
        if let Some(Reverse((at_ms, number))) = self.later.peek() {
            if *at_ms <= now_ms {
                return Some((number - self.first) as usize);
            }
        }
        self.fresh = self.fresh.max(self.first);
        loop {
            visit();
            let index = (self.fresh - self.first) as usize;
            match self.slots.get(index)? {
                QueuedUpdate::Gone => self.fresh += 1,
                _ => return Some(index),
            }
        }
    }

    /// Puts off the slot that [`Self::next`] has returned.
    pub(super) fn put_off(&mut self, index: usize, at_ms: u64) {
        let number = self.first + index as u64;
        match number < self.fresh {
            true => drop(self.later.pop()),
            false => self.fresh = number + 1,
        }
        self.later.push(Reverse((at_ms, number)));
    }

    /// Returns the instant from which the first slot that was put off may be sent.
    pub(super) fn later_ms(&mut self) -> u64 {
        self.skip_gone();
        let next = self.later.peek();
        next.map_or(u64::MAX, |Reverse((at_ms, _))| *at_ms)
    }

    /// Has all slots looked at again, after the limit of frequency has changed.
    pub(super) fn look_again(&mut self) {
        self.fresh = self.first;
        self.later.clear();
    }

    fn skip_gone(&mut self) {
        while let Some(Reverse((_, number))) = self.later.peek() {
            visit();
            let index = number.checked_sub(self.first);
            match index.and_then(|index| self.slots.get(index as usize)) {
                None | Some(QueuedUpdate::Gone) => drop(self.later.pop()),
                Some(_) => return,
            }
        }
    }

    /// Forgets what has been told; true if nothing is left.
    pub(super) fn trim(&mut self) -> bool {
        while let Some(QueuedUpdate::Gone) = self.slots.front() {
            visit();
            self.slots.pop_front();
            self.first += 1;
            self.gone -= 1;
            self.oldest = self.oldest.saturating_sub(1);
        }
        if self.slots.len() > 32 && self.gone * 2 > self.slots.len() {
            self.close_up();
        }
        self.slots.is_empty()
    }

    fn close_up(&mut self) {
        self.slots.retain(|slot| {
            visit();
            !matches!(slot, QueuedUpdate::Gone)
        });
        (self.gone, self.oldest) = (0, 0);
        self.look_again();
        self.latest.clear();
        for (index, slot) in self.slots.iter().enumerate() {
            if let QueuedUpdate::Row { key, .. } = slot {
                self.latest
                    .insert(Arc::clone(key), self.first + index as u64);
            }
        }
    }

    fn append(&mut self, values: &Arc<FrozenValues>) {
        self.updates += 1;
        self.bytes += cost(values);
        self.slots
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
        let number = self.first + self.slots.len() as u64;
        self.latest.insert(Arc::clone(&key), number);
        self.slots.push_back(QueuedUpdate::Row {
            key,
            command,
            values,
            bytes,
        });
    }

    fn lose(&mut self, count: u64) {
        match self.slots.back_mut() {
            Some(QueuedUpdate::Lost(lost)) => *lost += count,
            _ => self.slots.push_back(QueuedUpdate::Lost(count)),
        }
    }

    fn pop_update(&mut self) {
        if let Some(QueuedUpdate::Update(_)) = self.slots.back() {
            self.take(self.slots.len() - 1);
            self.slots.pop_back();
            self.gone -= 1;
        }
    }

    fn drop_oldest(&mut self) {
        loop {
            visit();
            match self.slots.get(self.oldest) {
                Some(QueuedUpdate::Update(_)) => break self.take(self.oldest),
                Some(_) => self.oldest += 1,
                // It cannot be: there are as many as were counted.
                None => break self.updates = 0,
            }
        }
        self.trim();
    }

    fn drop_all(&mut self) {
        self.first += self.slots.len() as u64;
        self.slots.clear();
        (self.gone, self.oldest) = (0, 0);
        self.look_again();
        self.latest.clear();
        (self.updates, self.bytes) = (0, 0);
    }

    fn take_end(&mut self) -> bool {
        let is_end = |slot: &QueuedUpdate| matches!(slot, QueuedUpdate::EndOfSnapshot);
        std::mem::take(&mut self.ends) || self.slots.iter().any(is_end)
    }
}

#[cfg(test)]
mod tests;
