//! Handles visits of session administration, within a fixed amount of work per iteration.

use std::net::IpAddr;
use std::sync::Arc;

use weir_fanout::SessionKey;
use weir_identity::UserIdentity;
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_net::server::ServerIo;
use weir_tlcp::codes::SessionCode;

use super::clients::Clients;
use super::session::SessionEntry;
use super::state::Shard;
use super::tracer::Tracer;
use super::visit::{
    SessionAction, SessionDetails, SessionFilter, SessionRow, SessionVisit, SubscriptionRow,
    TraceTarget, Visit, VisitedSessions,
};
use super::wire::Wire;
use crate::session_handles::SessionHandles;
use crate::trace::{TraceSink, time_text};

/// Work of one slice, below 0.3 ms: the units are slots of the session table.
const WORK_MAX: usize = 4_096;
const SESSION_WORK: usize = 16;
const ROW_WORK: usize = 64;
/// Sessions that one slice ends.
const ENDS_MAX: usize = 16;
/// Item names of one session that are listed.
const ITEMS_MAX: usize = 200;

impl Shard {
    pub(super) fn visit(&mut self, io: &mut ServerIo, visit: Visit) {
        match visit {
            Visit::Sessions(visit) => self.clients.visit_sessions(io, &visit),
            Visit::Trace(target, sink) => self.begin_trace(target, sink),
        }
    }

    fn begin_trace(&mut self, target: TraceTarget, sink: TraceSink) {
        let tracer = self.tracer.get_or_insert_with(Box::<Tracer>::default);
        if !tracer.add(&mut self.clients, target, &sink) {
            let reason = "no such session here, or too many traces";
            sink.send("end", [("reason", reason.into())]);
        }
    }

    /// Reports what an iteration has changed, while there are traces.
    pub(super) fn end_traced_iteration(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.end_iteration(&mut self.clients);
            if tracer.is_empty() {
                self.tracer = None;
            }
        }
    }
}

impl Clients {
    /// Returns the session with a handle, if it is in this shard.
    pub(super) fn find_handle(&mut self, handle: &str) -> Option<SessionKey> {
        let location = SessionHandles::location_of(handle)?;
        let shard = self.sessions.shard;
        let slot = Some(location.slot).filter(|_| location.shard == shard)?;
        let entry = self.sessions.at(slot)?;
        (self.shared.handles.of(entry.core.id()) == handle).then(|| entry.key())
    }

    /// Handles one slice and sends its result. The operator may have left.
    pub(super) fn visit_sessions(&mut self, io: &mut impl Wire, visit: &SessionVisit) {
        let (found, next) = self.find_sessions(io, visit);
        let mut rows = Vec::with_capacity(found.len());
        for key in found {
            rows.extend(self.session_row(io, key, matches!(visit.action, SessionAction::Show)));
            if let SessionAction::End {
                code,
                message,
                address,
            } = &visit.action
            {
                let event = (AuditEvent::Disconnect, AuditOutcome::Allow);
                self.audit(io, key, event, |record| {
                    record.code(*code).actor(&format!("operator {address}"))
                });
                let code = SessionCode::from_code(*code);
                self.end_session(io, key, code, message, false);
            }
        }
        let _ = visit.reply.try_send(VisitedSessions { rows, next });
    }

    /// Returns the sessions of a slice, and the slot of the next one.
    fn find_sessions(
        &mut self,
        io: &mut impl Wire,
        visit: &SessionVisit,
    ) -> (Vec<SessionKey>, Option<u32>) {
        let filter = &visit.filter;
        if let Some(handle) = &filter.handle {
            return (self.find_handle(handle).into_iter().collect(), None);
        }
        let item_slots = filter.item.as_ref().map(|name| self.item_slots(name));
        let most = match visit.action {
            SessionAction::End { .. } => visit.most.min(ENDS_MAX),
            SessionAction::List | SessionAction::Show => visit.most,
        };
        let (mut found, mut work, mut slot) = (Vec::new(), 0, visit.from);
        while slot < self.sessions.slots() {
            if work >= WORK_MAX || found.len() >= most {
                return (found, Some(slot));
            }
            if let Some(entry) = self.sessions.at(slot) {
                work += SESSION_WORK;
                let has_item = item_slots.as_ref().is_none_or(|slots| {
                    let subscriptions = entry.core.subscriptions().iter();
                    let mut held = subscriptions.flat_map(|one| &one.handle.slots).flatten();
                    held.any(|held| {
                        work += 1;
                        slots.contains(&held.slot)
                    })
                });
                if has_item && filter.admits(entry, io) {
                    work += ROW_WORK;
                    found.push(entry.key());
                }
            }
            work += 1;
            slot += 1;
        }
        (found, None)
    }

    /// Returns the slots of the items with this name: one per Kafka connection and class.
    fn item_slots(&self, name: &Arc<str>) -> Vec<u32> {
        let connections = 0..self.shared.connections.len() as u16;
        let names = connections.map(|one| (one, Arc::clone(name)));
        let keys = names.flat_map(|name| {
            let names: Vec<_> = self.names_of(&name).collect();
            names.into_iter().filter_map(|name| self.items.find(&name))
        });
        keys.map(|key| key.slot).collect()
    }

    fn session_row(
        &mut self,
        io: &mut impl Wire,
        key: SessionKey,
        with_details: bool,
    ) -> Option<SessionRow> {
        let details = with_details.then(|| self.details(key)).flatten();
        let lagging = self.delivery.is_lagging(key);
        let event_loop = self.sessions.shard;
        let entry = self.sessions.get_mut(key)?;
        let identity = entry.identity();
        let text = |text: fn(&UserIdentity) -> &str| {
            let text = identity.map(|identity| text(identity));
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let expires_ms = identity.map_or(u64::MAX, |identity| identity.expires_ms());
        let subscriptions = entry.core.subscriptions();
        let unsent = entry.journal.as_ref().map_or(0, |one| one.unsent_bytes());
        Some(SessionRow {
            session: self.shared.handles.of(entry.core.id()),
            auth: identity.map_or("anonymous", |identity| identity.method().as_str()),
            user: text(UserIdentity::user),
            issuer: text(UserIdentity::issuer),
            jti: identity.and_then(|identity| identity.token_id().map(str::to_owned)),
            expires: (expires_ms != u64::MAX).then(|| time_text(expires_ms)),
            address: address(entry, io).map(|ip| ip.to_string()),
            transport: entry.transport(),
            event_loop,
            age_s: (io.now_ms() / 1_000).saturating_sub(entry.created_s.into()),
            subscriptions: subscriptions.len(),
            items: subscriptions.iter().map(|one| one.handle.slots.len()).sum(),
            notifications: entry.core.data_count(),
            queued_bytes: io.queued_bytes(entry.conn) + unsent,
            lagging,
            details,
        })
    }

    fn details(&mut self, key: SessionKey) -> Option<SessionDetails> {
        let entry = self.sessions.get_mut(key)?;
        let auth = self.shared.auth.as_ref();
        let access = auth.zip(entry.access.as_ref());
        let access = access.map(|(auth, access)| auth.details(access));
        let (mut left, mut truncated) = (ITEMS_MAX, false);
        let mut rows = Vec::new();
        for one in entry.core.subscriptions() {
            if left == 0 {
                truncated = true;
                break;
            }
            let slots = one.handle.slots.iter().flatten();
            let names = slots.filter_map(|slot| self.items.name_at(slot.slot));
            let shown = names.take(left).map(|name| self.shared.shown(name));
            let (items, records): (Vec<_>, Vec<_>) = shown.unzip();
            let has_classes = records.iter().any(Option::is_some);
            truncated |= items.len() == left && one.handle.slots.len() > left;
            // A subscription without items counts as well.
            left -= items.len().max(1);
            let connection = &self.shared.connections[usize::from(one.handle.connection)];
            let limit = one.handle.frequency_limit.as_ref();
            rows.push(SubscriptionRow {
                id: one.sub_id,
                connection: connection.config.name.clone(),
                mode: one.mode.as_str(),
                unfiltered: one.unfiltered,
                max_frequency: limit.and_then(|limit| limit.frequency),
                items,
                records: has_classes.then_some(records),
            });
        }
        Some(SessionDetails {
            subscription_list: rows,
            truncated,
            access,
        })
    }
}

impl SessionFilter {
    /// Returns `true` if a session has the user, issuer and address.
    fn admits(&self, entry: &SessionEntry, io: &mut impl Wire) -> bool {
        let identity = entry.identity();
        let is = |wanted: &Option<String>, text: fn(&UserIdentity) -> &str| {
            let text = identity.map_or("", |identity| text(identity));
            wanted.as_ref().is_none_or(|wanted| wanted == text)
        };
        is(&self.user, UserIdentity::user)
            && is(&self.issuer, UserIdentity::issuer)
            && (self.address).is_none_or(|wanted| address(entry, io) == Some(wanted))
    }
}

/// Returns the address of a session's connection, `None` without one.
fn address(entry: &SessionEntry, io: &mut impl Wire) -> Option<IpAddr> {
    let bound = entry.is_bound().then_some(entry.conn)?;
    io.peer_ip(bound).map(|ip| ip.to_canonical())
}
