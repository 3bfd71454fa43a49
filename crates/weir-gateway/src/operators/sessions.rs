//! Visits all event loops, one slice of their sessions after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use weir_tlcp::server::SessionLocation;

use super::api_error::ApiError;
use crate::shard::{
    SLICE_DETAILS, SLICE_SESSIONS, SessionAction, SessionFilter, SessionRow, SessionVisit,
    ShardContext, ShardEvent, Visit, VisitedSessions,
};

/// Time for the event loops to answer one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Place in the sessions of all shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    shard: usize,
    slot: u32,
}

impl Cursor {
    pub(super) fn at(location: SessionLocation) -> Self {
        Self {
            shard: location.shard.into(),
            slot: location.slot,
        }
    }

    /// Returns the place after a session, which may have ended.
    pub(super) fn after(location: SessionLocation) -> Self {
        let slot = location.slot.saturating_add(1);
        Self {
            slot,
            ..Self::at(location)
        }
    }
}

/// A call on its way through the event loops.
pub(super) struct Visitor<'a> {
    shared: &'a ShardContext,
    filter: Arc<SessionFilter>,
    deadline: Instant,
}

impl<'a> Visitor<'a> {
    pub(super) fn new(shared: &'a ShardContext, filter: SessionFilter) -> Self {
        Self {
            shared,
            filter: Arc::new(filter),
            deadline: Instant::now() + CALL_TIMEOUT,
        }
    }

    /// Returns up to `most` sessions from `cursor` on, and the place of the rest.
    pub(super) fn visit(
        &self,
        action: &SessionAction,
        mut cursor: Cursor,
        most: usize,
    ) -> Result<(Vec<SessionRow>, Option<Cursor>), ApiError> {
        let slice_max = match action {
            SessionAction::Show => SLICE_DETAILS,
            SessionAction::List | SessionAction::End { .. } => SLICE_SESSIONS,
        };
        let mut rows = Vec::new();
        let shards = self.shared.inboxes.get().map_or(0, Vec::len);
        while cursor.shard < shards {
            if rows.len() >= most {
                return Ok((rows, Some(cursor)));
            }
            let slice = self.slice(action, cursor, slice_max.min(most - rows.len()))?;
            rows.extend(slice.rows);
            cursor = match slice.next {
                Some(slot) => Cursor { slot, ..cursor },
                // A session is only in the shard that its handle names.
                None if self.filter.handle.is_some() => break,
                None => Cursor {
                    shard: cursor.shard + 1,
                    slot: 0,
                },
            };
        }
        Ok((rows, None))
    }

    fn slice(
        &self,
        action: &SessionAction,
        cursor: Cursor,
        most: usize,
    ) -> Result<VisitedSessions, ApiError> {
        let (reply, replies) = bounded(1);
        let visit = Visit::Sessions(SessionVisit {
            filter: Arc::clone(&self.filter),
            action: action.clone(),
            from: cursor.slot,
            most,
            reply,
        });
        let inbox = self
            .shared
            .inboxes
            .get()
            .and_then(|all| all.get(cursor.shard));
        let inbox = inbox.ok_or(ApiError::Busy)?;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let posted = inbox.post(ShardEvent::Visit(Box::new(visit)), left);
        posted.map_err(|_| ApiError::Busy)?;
        replies
            .recv_deadline(self.deadline)
            .map_err(|_| ApiError::Busy)
    }
}
