//! Sessions that an adapter has accepted, and the close notifications that their ends cause.
//!
//! A table is the subscription of the adapter protocol: a group of items with a schema.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;
use weir_identity::UserIdentity;
use weir_identity::ari::{AdapterRequest, TableInfo};

/// A session that an adapter has accepted.
#[derive(Debug)]
pub struct OpenSession {
    /// Session ID.
    pub id: String,
    /// `LS_user`.
    pub user: Option<String>,
    /// `true` if the adapter requests notifications about subscriptions.
    pub wants_tables: bool,
    /// Maximum bandwidth in kbit/s.
    pub bandwidth_max_kbps: Option<f64>,
    /// Identity, if only the adapter has identified the client.
    pub identity: Option<Arc<UserIdentity>>,
    /// Time in milliseconds at which the session ends.
    pub end_ms: Option<u64>,
}

/// A session with its subscriptions.
#[derive(Debug)]
struct SessionEntry {
    session: OpenSession,
    /// Subscriptions that have a frequency limit or a table, by number.
    subscriptions: BTreeMap<u32, OpenSubscription>,
    /// Number of requests about new tables without an outcome.
    open_tables: usize,
}

#[derive(Debug)]
struct OpenSubscription {
    frequency_max: Option<f64>,
    table: Option<Box<TableInfo>>,
}

/// Sessions by the caller's key.
#[derive(Debug, Default)]
pub struct SessionTable {
    entries: HashMap<u64, SessionEntry>,
    /// Ended sessions with a request about a table that has no outcome yet. `NSC` is sent after it.
    closing: HashMap<u64, SessionEntry>,
    /// Times at which sessions end, in milliseconds, with their keys.
    ends: BTreeSet<(u64, u64)>,
}

impl SessionTable {
    /// Adds a session.
    pub fn open(&mut self, key: u64, session: OpenSession) {
        self.ends.extend(session.end_ms.map(|end_ms| (end_ms, key)));
        let entry = SessionEntry {
            session,
            subscriptions: BTreeMap::new(),
            open_tables: 0,
        };
        self.entries.insert(key, entry);
    }

    /// Returns a session.
    pub fn get(&self, key: u64) -> Option<&OpenSession> {
        self.entries.get(&key).map(|entry| &entry.session)
    }

    /// Adds a subscription. If it has a table, the adapter is notified of its end.
    pub fn subscribed(
        &mut self,
        key: u64,
        sub_id: u32,
        frequency_max: Option<f64>,
        table: Option<Box<TableInfo>>,
    ) {
        if frequency_max.is_none() && table.is_none() {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            let subscription = OpenSubscription {
                frequency_max,
                table,
            };
            entry.subscriptions.insert(sub_id, subscription);
        }
    }

    /// Removes a subscription. Returns the request to send.
    pub fn unsubscribed(&mut self, key: u64, sub_id: u32) -> Option<AdapterRequest> {
        let entry = self.entries.get_mut(&key)?;
        let table = entry.subscriptions.remove(&sub_id)?.table?;
        Some(close_table(&entry.session.id, *table))
    }

    /// Returns the number of the subscription whose table has the number `window`.
    pub fn sub_id_of(&self, key: u64, window: i32) -> Option<u32> {
        let mut all = self.entries.get(&key)?.subscriptions.iter();
        let is_named = |one: &OpenSubscription| {
            let table = one.table.as_ref();
            table.is_some_and(|table| table.window == window)
        };
        let (sub_id, _) = all.find(|(_, one)| is_named(one))?;
        Some(*sub_id)
    }

    /// Returns the frequency limit of a subscription.
    pub fn frequency_max(&self, key: u64, sub_id: u32) -> Option<f64> {
        let entry = self.entries.get(&key)?;
        entry.subscriptions.get(&sub_id)?.frequency_max
    }

    /// Counts a sent request about a new table.
    pub fn begin_table(&mut self, key: u64) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.open_tables += 1;
        }
    }

    /// Handles the outcome of a request about a new table. `unused` is the table if the adapter has
    /// accepted it but its subscription no longer exists. Returns the requests to send: the close
    /// of `unused`, and the close of an ended session that waited for this outcome.
    pub fn end_table(&mut self, key: u64, unused: Option<Box<TableInfo>>) -> Vec<AdapterRequest> {
        let found = self.entries.get_mut(&key);
        let is_closing = found.is_none();
        let Some(entry) = found.or_else(|| self.closing.get_mut(&key)) else {
            return Vec::new();
        };
        entry.open_tables = entry.open_tables.saturating_sub(1);
        let id = &entry.session.id;
        let mut requests: Vec<_> = unused
            .map(|table| close_table(id, *table))
            .into_iter()
            .collect();
        if is_closing && entry.open_tables == 0 {
            requests.extend(
                self.closing
                    .remove(&key)
                    .map(|entry| close_session(entry.session)),
            );
        }
        requests
    }

    /// Removes a session that has ended. Returns the requests to send, in order.
    pub fn close(&mut self, key: u64) -> Vec<AdapterRequest> {
        let Some(mut entry) = self.entries.remove(&key) else {
            return Vec::new();
        };
        if let Some(end_ms) = entry.session.end_ms {
            self.ends.remove(&(end_ms, key));
        }
        let tables = std::mem::take(&mut entry.subscriptions).into_values();
        let tables = tables.filter_map(|one| one.table);
        let id = &entry.session.id;
        let mut requests: Vec<_> = tables.map(|table| close_table(id, *table)).collect();
        match entry.open_tables {
            0 => requests.push(close_session(entry.session)),
            _ => {
                self.closing.insert(key, entry);
            }
        }
        requests
    }

    /// Returns the key of a session that has reached its end. Returns each session once.
    pub fn pop_ended(&mut self, now_ms: u64) -> Option<u64> {
        let (end_ms, key) = *self.ends.first()?;
        if end_ms > now_ms {
            return None;
        }
        self.ends.pop_first();
        Some(key)
    }

    /// Returns the time at which the next session ends.
    pub fn next_end_ms(&self) -> Option<u64> {
        self.ends.first().map(|(end_ms, _)| *end_ms)
    }
}

fn close_table(session: &str, table: TableInfo) -> AdapterRequest {
    AdapterRequest::NotifyTablesClose {
        session: session.to_owned(),
        table,
        // The gateway does not count updates by item.
        statistics: Vec::new(),
    }
}

fn close_session(session: OpenSession) -> AdapterRequest {
    let session = session.id;
    AdapterRequest::NotifySessionClose { session }
}

#[cfg(test)]
mod tests {
    use weir_identity::ItemMode;

    use super::*;

    fn session(end_ms: Option<u64>) -> OpenSession {
        OpenSession {
            id: "S1".to_owned(),
            user: None,
            wants_tables: true,
            bandwidth_max_kbps: None,
            identity: None,
            end_ms,
        }
    }

    fn table(window: i32) -> Box<TableInfo> {
        Box::new(TableInfo {
            window,
            mode: ItemMode::Merge,
            group: "g".to_owned(),
            data_adapter: None,
            schema: "s".to_owned(),
            first: 1,
            last: 1,
            selector: None,
            items: vec!["i".to_owned()],
        })
    }

    fn names(requests: Vec<AdapterRequest>) -> Vec<String> {
        let name = |request| match request {
            AdapterRequest::NotifyTablesClose { table, .. } => format!("NTC {}", table.window),
            AdapterRequest::NotifySessionClose { session } => format!("NSC {session}"),
            other => format!("{other:?}"),
        };
        requests.into_iter().map(name).collect()
    }

    #[test]
    fn tables_end_before_their_session() {
        let mut sessions = SessionTable::default();
        sessions.open(7, session(None));
        for window in 1..=3 {
            sessions.begin_table(7);
            assert!(sessions.end_table(7, None).is_empty());
            sessions.subscribed(7, window as u32, Some(1.0), Some(table(window)));
        }
        sessions.subscribed(7, 4, Some(2.0), None);
        assert_eq!(sessions.frequency_max(7, 4), Some(2.0));
        let one = sessions.unsubscribed(7, 2).into_iter().collect();
        assert_eq!(names(one), ["NTC 2"]);
        assert!(sessions.unsubscribed(7, 2).is_none() && sessions.unsubscribed(7, 4).is_none());
        assert_eq!(names(sessions.close(7)), ["NTC 1", "NTC 3", "NSC S1"]);
        assert!(sessions.close(7).is_empty() && sessions.get(7).is_none());
    }

    #[test]
    fn session_end_follows_outcome_of_last_table() {
        let mut sessions = SessionTable::default();
        sessions.open(7, session(None));
        sessions.begin_table(7);
        sessions.begin_table(7);
        assert!(sessions.close(7).is_empty());
        assert_eq!(names(sessions.end_table(7, Some(table(1)))), ["NTC 1"]);
        assert_eq!(names(sessions.end_table(7, None)), ["NSC S1"]);
        assert!(sessions.end_table(7, None).is_empty());
    }

    #[test]
    fn sessions_end_once_in_order() {
        let mut sessions = SessionTable::default();
        sessions.open(1, session(Some(50)));
        sessions.open(2, session(Some(30)));
        sessions.open(3, session(Some(40)));
        assert_eq!(
            (sessions.next_end_ms(), sessions.pop_ended(29)),
            (Some(30), None)
        );
        sessions.close(3);
        let ended: Vec<_> = std::iter::from_fn(|| sessions.pop_ended(50)).collect();
        assert_eq!(ended, [2, 1]);
    }
}
