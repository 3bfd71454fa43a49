//! Clients of events that continue after a lost connection, and wait for the updates that they have
//! missed.
//!
//! Such a member of an item is held. The shard requests the positions of the reading thread, from
//! which on it receives all updates of the item, and stores these in a log. The records between the
//! client's position and those positions are read again. Then the member gets these, those of the
//! log, and live updates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use weir_fanout::events::Position;
use weir_fanout::{ItemAt, ItemKey, MissedUpdate, RecordPosition, SessionKey};
use weir_ingest::{MissedRecord, ResetReason};
use weir_mapping::FieldSet;
use weir_tlcp::request::Snapshot;

/// Time after which a recovery is given up.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum bytes of the values of all logs of a shard.
const LOG_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes counted for a logged update in addition to its values.
const UPDATE_BYTES: usize = 128;

/// Position of a client, as far as the text that it has sent is one.
#[derive(Debug)]
pub(super) struct ResumePoint(pub(super) Option<Position>);

/// A held member of an item.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) session: SessionKey,
    pub(super) at: ItemAt,
    pub(super) item: ItemKey,
    /// Canonical name of the item, with its class of records.
    pub(super) name: Arc<str>,
    pub(super) connection: u16,
    pub(super) fields: FieldSet,
    pub(super) snapshot: Snapshot,
    pub(super) point: Arc<ResumePoint>,
    pub(super) began: Instant,
    pub(super) stage: RecoveryStage,
}

#[derive(Debug)]
pub(super) enum RecoveryStage {
    /// Waits for the report with this number, or a later one.
    Requested(u64),
    /// Waits for the records before these offsets.
    Reading {
        to: Arc<[i64]>,
        is_cancelled: Arc<AtomicBool>,
    },
    /// Has these records, and waits until live updates reach the client's position.
    Behind {
        to: Arc<[i64]>,
        records: Arc<[MissedRecord]>,
    },
}

/// Live updates of an item while members of it are held.
#[derive(Debug, Default)]
struct ItemLog {
    members: usize,
    updates: Vec<MissedRecord>,
    bytes: usize,
    /// `true` if updates were not stored, so that its members get snapshots.
    is_full: bool,
}

/// All recoveries of a shard.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    by_token: HashMap<u64, Recovery>,
    tokens: HashMap<(SessionKey, ItemAt), u64>,
    next_token: u64,
    logs: HashMap<u32, ItemLog>,
    log_bytes: usize,
    /// Recoveries that cannot succeed.
    failed: Vec<(u64, ResetReason)>,
    /// Positions of sessions whose items are subscribed now.
    points: HashMap<SessionKey, Arc<ResumePoint>>,
    /// Sessions that get their first id with the report of this number of a Kafka connection.
    pub(super) without_id: Vec<(SessionKey, u16, u64)>,
}

impl Recoveries {
    /// Sets the position after which the next subscriptions of a session continue.
    pub(super) fn set_point(&mut self, session: SessionKey, after: Option<&str>) {
        match after {
            Some(id) => {
                let point = ResumePoint(Position::parse(id));
                self.points.insert(session, Arc::new(point));
            }
            None => drop(self.points.remove(&session)),
        }
    }

    pub(super) fn point(&self, session: SessionKey) -> Option<Arc<ResumePoint>> {
        self.points.get(&session).cloned()
    }

    /// Adds a held member.
    pub(super) fn add(&mut self, recovery: Recovery) {
        let token = self.next_token;
        self.next_token += 1;
        if recovery.point.0.is_none() {
            self.failed.push((token, ResetReason::InvalidId));
        }
        let log = self.logs.entry(recovery.item.slot).or_default();
        log.members += 1;
        if log.is_full {
            self.failed.push((token, ResetReason::Busy));
        }
        self.tokens.insert((recovery.session, recovery.at), token);
        self.by_token.insert(token, recovery);
    }

    /// Removes a recovery, because its member is held no longer or has left.
    pub(super) fn remove(&mut self, token: u64) -> Option<Recovery> {
        let recovery = self.by_token.remove(&token)?;
        self.tokens.remove(&(recovery.session, recovery.at));
        if let RecoveryStage::Reading { is_cancelled, .. } = &recovery.stage {
            is_cancelled.store(true, Ordering::Relaxed);
        }
        let slot = recovery.item.slot;
        if let Some(log) = self.logs.get_mut(&slot) {
            log.members -= 1;
            if log.members == 0 {
                self.log_bytes -= log.bytes;
                self.logs.remove(&slot);
            }
        }
        Some(recovery)
    }

    /// Removes the recovery of a subscription that ends.
    pub(super) fn forget(&mut self, session: SessionKey, at: ItemAt) {
        if let Some(token) = self.tokens.get(&(session, at)).copied() {
            self.remove(token);
        }
    }

    /// Removes the position of a session that ends. Its subscriptions are forgotten one by one.
    pub(super) fn forget_session(&mut self, session: SessionKey) {
        self.points.remove(&session);
    }

    pub(super) fn get_mut(&mut self, token: u64) -> Option<&mut Recovery> {
        self.by_token.get_mut(&token)
    }

    /// Returns the recoveries of a Kafka connection.
    pub(super) fn of_connection(&self, connection: u16) -> Vec<u64> {
        let all = self.by_token.iter();
        let of = all.filter(|(_, recovery)| recovery.connection == connection);
        let mut tokens: Vec<_> = of.map(|(token, _)| *token).collect();
        // In the order of their subscriptions.
        tokens.sort_unstable();
        tokens
    }

    /// Stores a live update for the held members of its item.
    #[inline]
    pub(super) fn log(&mut self, item: ItemKey, position: RecordPosition, update: &MissedUpdate) {
        if let Some(log) = self.logs.get_mut(&item.slot).filter(|log| !log.is_full) {
            let bytes = update.values.text_bytes() + UPDATE_BYTES;
            if self.log_bytes + bytes > LOG_BYTES_MAX {
                log.is_full = true;
                let of_item = self.by_token.iter();
                let of_item = of_item.filter(|(_, one)| one.item == item);
                let busy = of_item.map(|(token, _)| (*token, ResetReason::Busy));
                self.failed.extend(busy);
                return;
            }
            log.bytes += bytes;
            self.log_bytes += bytes;
            let update = update.clone();
            log.updates.push(MissedRecord { position, update });
        }
    }

    /// Returns `true` if a live update of an item must be stored.
    #[inline]
    pub(super) fn has_log(&self, item: ItemKey) -> bool {
        !self.logs.is_empty() && self.logs.contains_key(&item.slot)
    }

    /// Returns the updates that a member has missed, in the order of each partition: of the records
    /// that were read again, up to the offsets `to`, and of the log.
    pub(super) fn missed(
        &self,
        token: u64,
        to: &[i64],
        records: &[MissedRecord],
    ) -> Vec<MissedUpdate> {
        let recovery = self.by_token.get(&token);
        let position = recovery.and_then(|one| Some((one, one.point.0.as_ref()?)));
        let Some((recovery, position)) = position else {
            return Vec::new();
        };
        let from = &position.next;
        let at = |offsets: &[i64], position: RecordPosition| {
            offsets.get(position.partition as usize).copied()
        };
        let is_read = |one: &&MissedRecord| {
            let (first, end) = (at(from, one.position), at(to, one.position));
            first.is_some_and(|first| first <= one.position.offset)
                && end.is_some_and(|end| one.position.offset < end)
        };
        let is_live = |one: &&MissedRecord| {
            let (first, end) = (at(from, one.position), at(to, one.position));
            first
                .max(end)
                .is_some_and(|first| first <= one.position.offset)
        };
        let log = self.logs.get(&recovery.item.slot);
        let live = log.map_or(&[][..], |log| &log.updates);
        let read = records.iter().filter(is_read);
        let all = read.chain(live.iter().filter(is_live));
        all.map(|one| one.update.clone()).collect()
    }

    /// Gives up the recoveries that have waited for too long.
    pub(super) fn expire(&mut self) {
        for (token, recovery) in &self.by_token {
            if recovery.began.elapsed() >= TIMEOUT {
                let reason = match recovery.stage {
                    RecoveryStage::Behind { .. } => ResetReason::UnknownRecords,
                    _ => ResetReason::Unavailable,
                };
                self.failed.push((*token, reason));
            }
        }
    }

    /// Gives up a recovery.
    pub(super) fn fail(&mut self, token: u64, reason: ResetReason) {
        self.failed.push((token, reason));
    }

    pub(super) fn take_failed(&mut self) -> Vec<(u64, ResetReason)> {
        std::mem::take(&mut self.failed)
    }
}
