//! Active traces of a shard. Without one, an update costs one branch, whatever its deliveries.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use weir_fanout::{ItemKey, SessionKey};
use weir_tlcp::request::{ControlOp, Request};

use super::clients::Clients;
use super::session::SessionEntry;
use super::visit::TraceTarget;
use crate::trace::TraceSink;

/// Traces of one shard.
const TRACES_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Tracer {
    sessions: Vec<SessionTrace>,
    items: Vec<ItemTrace>,
}

#[derive(Debug)]
struct SessionTrace {
    key: SessionKey,
    sink: TraceSink,
    /// Data notifications that lines have named.
    notifications: u64,
    state: Option<SessionState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SessionState {
    transport: &'static str,
    subscriptions: usize,
}

#[derive(Debug)]
struct ItemTrace {
    name: Arc<str>,
    sink: TraceSink,
    subscribers: Option<usize>,
}

impl Tracer {
    /// Adds a trace. Returns `false` if there are too many, or the session is not here.
    pub(super) fn add(
        &mut self,
        clients: &mut Clients,
        target: TraceTarget,
        sink: &TraceSink,
    ) -> bool {
        if self.sessions.len() + self.items.len() >= TRACES_MAX {
            return false;
        }
        match target {
            TraceTarget::Item(name) => self.items.push(ItemTrace {
                name,
                sink: sink.clone(),
                subscribers: None,
            }),
            TraceTarget::Session(handle) => {
                let Some(key) = clients.find_handle(&handle) else {
                    return false;
                };
                let entry = clients.sessions.get_mut(key);
                self.sessions.push(SessionTrace {
                    key,
                    sink: sink.clone(),
                    notifications: entry.map_or(0, |entry| entry.core.data_count()),
                    state: None,
                });
            }
        }
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.items.is_empty()
    }

    /// Notes an update after its fan-out.
    pub(super) fn note_update(
        &mut self,
        clients: &mut Clients,
        item: ItemKey,
        record_ms: i64,
        deliveries: u64,
    ) {
        let Some(name) = clients.items.name_of(item).cloned() else {
            return;
        };
        let connection = &clients.shared.connections[usize::from(name.0)];
        let connection = connection.config.name.as_str();
        let (name, class) = clients.shared.shown(&name);
        let age_ms = age_ms(record_ms);
        for trace in self.items.iter().filter(|trace| *trace.name == *name) {
            let members = [
                ("connection", connection.into()),
                ("item", (*name).into()),
                ("records", class.as_deref().into()),
                ("deliveries", deliveries.into()),
                ("age_ms", age_ms.clone()),
            ];
            trace.sink.send("update", members);
        }
        for trace in &mut self.sessions {
            let entry = clients.sessions.get_mut(trace.key);
            let count = entry.map_or(trace.notifications, |entry| entry.core.data_count());
            let new = count.saturating_sub(trace.notifications);
            if new > 0 {
                trace.notifications = count;
                let members = [
                    ("connection", connection.into()),
                    ("item", (*name).into()),
                    ("records", class.as_deref().into()),
                    ("notifications", new.into()),
                    ("age_ms", age_ms.clone()),
                ];
                trace.sink.send("update", members);
            }
        }
    }

    /// Notes a request to a session, without texts of its user such as messages.
    pub(super) fn note_request(&self, key: SessionKey, request: &Request<'_>) {
        for trace in self.sessions.iter().filter(|trace| trace.key == key) {
            let (name, sub_id) = describe(request);
            let members = [("request", name.into()), ("subscription", sub_id.into())];
            trace.sink.send("request", members);
        }
    }

    /// Reports what has changed in this iteration, and removes traces that have ended.
    pub(super) fn end_iteration(&mut self, clients: &mut Clients) {
        let sessions = &mut clients.sessions;
        self.sessions.retain_mut(|trace| {
            let open = sessions.get_mut(trace.key);
            match open {
                Some(entry) => trace.compare(entry),
                None => trace.sink.send("end", []),
            }
            sessions.get_mut(trace.key).is_some() && !trace.sink.is_closed()
        });
        let connections = 0..clients.shared.connections.len() as u16;
        self.items.retain_mut(|trace| {
            let keys = connections.clone();
            let count = keys
                .map(|one| clients.subscribers(&(one, Arc::clone(&trace.name))))
                .sum();
            if trace.subscribers.replace(count) != Some(count) {
                trace.sink.send("subscribers", [("count", count.into())]);
            }
            !trace.sink.is_closed()
        });
    }
}

impl SessionTrace {
    fn compare(&mut self, entry: &SessionEntry) {
        let count = entry.core.data_count();
        let new = count.saturating_sub(self.notifications);
        if new > 0 {
            self.notifications = count;
            self.sink.send("sent", [("notifications", new.into())]);
        }
        let state = SessionState {
            transport: entry.transport(),
            subscriptions: entry.core.subscriptions().len(),
        };
        if self.state.replace(state) != Some(state) {
            let members = [
                ("transport", state.transport.into()),
                ("subscriptions", state.subscriptions.into()),
            ];
            self.sink.send("state", members);
        }
    }
}

/// Returns the kind of a request and the subscription that it names.
fn describe(request: &Request<'_>) -> (&'static str, Option<u32>) {
    match request {
        Request::Control(control) => match &control.op {
            ControlOp::Add(add) => ("add", Some(add.sub_id)),
            ControlOp::Delete { sub_id } => ("delete", Some(*sub_id)),
            ControlOp::Reconf { sub_id, .. } => ("reconf", Some(*sub_id)),
            ControlOp::Constrain { .. } => ("constrain", None),
            ControlOp::ForceRebind { .. } => ("force_rebind", None),
            ControlOp::Destroy { .. } => ("destroy", None),
        },
        Request::Message(_) => ("msg", None),
        Request::Heartbeat(_) => ("heartbeat", None),
        Request::Wsok => ("wsok", None),
        Request::CreateSession(_) => ("create_session", None),
        Request::BindSession(_) => ("bind_session", None),
    }
}

/// Returns the age of a record in milliseconds; null if its time is unknown.
fn age_ms(record_ms: i64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    match (now, record_ms) {
        (Ok(now), 0..) => (now.as_millis() as i64).saturating_sub(record_ms).into(),
        _ => Value::Null,
    }
}
