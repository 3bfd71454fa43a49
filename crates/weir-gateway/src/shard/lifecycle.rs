//! Life cycle of sessions: output on their streams, lost streams, timeouts, and ends.

use weir_fanout::events::{EventForm, EventNotice};
use weir_fanout::{QueuePolicy, SessionKey};
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_identity::token::IdentifiedClient;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::server::{ConnId, TrySend};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::server::{WakeOutcome, write_end};

use super::clients::Clients;
use super::drain::DrainSchedule;
use super::event_clients;
use super::frame::{Frame, Framing};
use super::session::{SessionPoll, StreamBinding};
use super::session_writer::ClientOutput;
use super::socket_end;
use super::timers::DRAIN_STEP;
use super::wire::{NO_CONNECTION, Wire};
use weir_access::AccessEnd;

/// Text of `END` for a session whose token has expired or which has reached its maximum age. SDKs
/// create a new session at once.
const TOO_OLD: &str = "the session is too old";
/// Time between two steps of the drain, in milliseconds.
const DRAIN_STEP_MS: u64 = 20;
/// Time until a poll that could not end is checked again, in milliseconds.
const POLL_RECHECK_MS: u64 = 1_000;

fn end_line(code: SessionCode, text: &str) -> Vec<u8> {
    let mut line = Vec::new();
    write_end(&mut line, code, text);
    line
}

impl Clients {
    /// Sends data notifications, one per line, to one session. Sessions of event clients have none.
    pub(super) fn notify(&mut self, wire: &mut impl Wire, key: SessionKey, lines: &[u8]) {
        let Some(entry) = self
            .sessions
            .get_mut(key)
            .filter(|one| one.event_form.is_none())
        else {
            return;
        };
        let count = lines.iter().filter(|byte| **byte == b'\n').count() as u32;
        let (writer, frame) = (&mut self.writer, Frame::of(lines));
        if writer.write_data(wire, entry, &frame, count, QueuePolicy::Always) != TrySend::Queued {
            self.end_slow(wire, key);
        }
    }

    /// Sends control lines to a session; ends it if its queue is full.
    pub(super) fn write_control_lines(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        lines: &[u8],
    ) {
        let entry = self.sessions.get_mut(key);
        if entry.is_some_and(|entry| !self.writer.write_control_lines(wire, entry, lines)) {
            self.end_slow(wire, key);
        }
    }

    /// Sends unsent frames and lagging items after the connection has become writable. Ends a poll
    /// that has received all its data.
    pub(super) fn resume(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let entry = self.sessions.get_mut(key);
        if entry.is_some_and(|entry| self.writer.drain_pending(wire, entry)) {
            self.catch_up(wire, key);
            self.end_poll_if_due(wire, key);
        }
    }

    /// Sends the queued updates of a session.
    pub(super) fn catch_up(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let output = &mut ClientOutput {
            wire,
            writer: &mut self.writer,
        };
        (self.delivery).catch_up(output, &mut self.sessions, &mut self.items, key);
    }

    /// Ends a poll that has received data or has timed out.
    pub(super) fn end_poll_if_due(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let now_ms = wire.now_ms();
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let is_over = |poll: &SessionPoll| poll.has_data || poll.until_ms <= now_ms;
        let done = entry.poll().is_some_and(is_over);
        let has_unsent = entry.journal.as_ref().is_some_and(|one| one.has_unsent());
        if done && !has_unsent {
            self.send_loop(wire, key, false);
        }
    }

    /// Ends the session of a client that does not read: its queue is full, and mode RAW may not
    /// drop updates without notice. An SDK creates a new session at once.
    pub(super) fn end_slow(&mut self, wire: &mut impl Wire, key: SessionKey) {
        self.counters.slow_ended += 1;
        let text = "too slow: the update queue is full";
        self.end_session(wire, key, SessionCode::EXPIRED, text, true);
    }

    /// Ends a session with `END` and closes its connection. `now` discards unsent output.
    pub(super) fn end_session(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        code: SessionCode,
        text: &str,
        now: bool,
    ) {
        self.audit_end(wire, key, "gateway", Some(code.code()));
        let entry = self.sessions.get_mut(key);
        let form = entry.as_ref().and_then(|one| one.event_form);
        let framing = entry.and_then(|one| one.framing());
        let Some(conn) = self.remove_session(key) else {
            return;
        };
        let line = match form {
            Some(form) => event_clients::notice(form, EventNotice::End(code.code(), text)),
            None => end_line(code, text),
        };
        let last = framing.map(|framing| framing.frame(&line));
        match form {
            Some(EventForm::Json) => {
                wire.close_with(conn, socket_end::close_code(code.code()), last, now);
            }
            _ => wire.close(conn, last, now),
        }
    }

    /// Ends a session at the request of its client. `close_socket` also closes its WebSocket.
    pub(super) fn destroy(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        code: SessionCode,
        text: &str,
        close_socket: bool,
    ) {
        let framing = self.sessions.get_mut(key).and_then(|one| one.framing());
        if close_socket || framing != Some(Framing::WebSocket) {
            return self.end_session(wire, key, code, text, false);
        }
        self.audit_end(wire, key, "client", Some(code.code()));
        if let Some(conn) = self.remove_session(key) {
            wire.send_text(conn, &end_line(code, text));
            wire.set_tag(conn, 0);
        }
    }

    /// Sends `LOOP`, after which the client binds the session again.
    pub(super) fn send_loop(&mut self, wire: &mut impl Wire, key: SessionKey, close_socket: bool) {
        let entry = self.sessions.get_mut(key);
        if entry.is_some_and(|entry| !self.writer.send_loop(wire, entry, close_socket)) {
            self.end_slow(wire, key);
        }
    }

    /// Unbinds a session whose connection was lost. The client may recover it.
    pub(super) fn lost(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let wait_ms = self.shared.limits.recovery_ms;
        if wait_ms == 0 || self.is_draining() || self.has_events(key) {
            self.audit_end(wire, key, "connection_lost", None);
            self.remove_session(key);
        } else if let Some(entry) = self.sessions.get_mut(key) {
            self.counters.streams_lost += 1;
            entry.conn = NO_CONNECTION;
            self.writer.unbind(wire, entry, wait_ms, true);
        }
    }

    /// Ends a session that its client has replaced by a new one, without waiting for its timeout.
    /// `by` is the client of the new session; another client's session is not ended.
    pub(super) fn discard_replaced(
        &mut self,
        wire: &mut impl Wire,
        old: &str,
        by: Option<&IdentifiedClient>,
    ) {
        if let Some(key) = self.sessions.find(old) {
            if self.is_foreign(key, by.map(|client| &*client.identity)) {
                let denied = (AuditEvent::End, AuditOutcome::Deny);
                return self.audit_reason(wire, key, denied, Some("foreign_session"));
            }
            let session = Truncated(old);
            limited!(debug, "session replaced", %session, "client replaced its session");
            self.audit_end(wire, key, "replaced", None);
            self.drop_session(wire, key);
        }
    }

    /// Ends a session and closes its connection without notice.
    fn drop_session(&mut self, wire: &mut impl Wire, key: SessionKey) {
        if let Some(conn) = self.remove_session(key) {
            wire.close(conn, None, true);
        }
    }

    /// Handles an expired timer of a session.
    pub(super) fn wake(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let now_ms = wire.now_ms();
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if !entry.is_due(now_ms) {
            return;
        }
        if entry.messages.is_some() {
            self.skip_missing(wire, key);
        }
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if let Some(auth) = &self.shared.auth {
            entry.lower_bandwidth(auth, now_ms);
        }
        self.writer.trim_journal(entry, now_ms);
        if now_ms >= entry.access_end_ms() {
            let code = SessionCode::EXPIRED;
            return self.end_access(wire, key, AccessEnd::Expired, code, TOO_OLD);
        }
        if now_ms < entry.next_wake_ms() {
            return entry.arm(wire);
        }
        match entry.binding.as_deref() {
            Some(StreamBinding::Unbound { .. }) => return self.expire(wire, key),
            Some(StreamBinding::Poll(_)) => {
                self.end_poll_if_due(wire, key);
                if let Some(entry) = self.sessions.get_mut(key) {
                    // It could not end because the send queue is full.
                    entry.delay_poll(now_ms + POLL_RECHECK_MS);
                    entry.arm(wire);
                }
                return;
            }
            None | Some(StreamBinding::Http { .. }) => {}
        }
        let mut lines = Vec::new();
        let conn = entry.conn;
        let outcome = entry.core.on_wake(now_ms, &mut lines);
        if outcome == WakeOutcome::Inactive {
            limited!(
                debug, "inactive client", session = %entry.core.id(),
                "client inactivity timeout expired"
            );
            wire.close(conn, None, true);
            return self.lost(wire, key);
        }
        if let Some(form) = entry.event_form.filter(|_| outcome == WakeOutcome::Written) {
            lines = self.heartbeat(key, form);
        }
        self.write_control_lines(wire, key, &lines);
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.arm(wire);
        }
    }

    /// Ends a session that was unbound for too long.
    fn expire(&mut self, wire: &mut impl Wire, key: SessionKey) {
        if let Some(entry) = self.sessions.get_mut(key) {
            limited!(
                debug, "session expired", session = %entry.core.id(), "unbound session timed out"
            );
        }
        self.audit_end(wire, key, "unbound_timeout", None);
        self.counters.sessions_expired += 1;
        self.drop_session(wire, key);
    }

    /// Ends the polls that have received data in this iteration.
    pub(super) fn end_polls_with_data(&mut self, wire: &mut impl Wire) {
        for key in std::mem::take(&mut self.writer.polls_with_data) {
            self.end_poll_if_due(wire, key);
        }
    }

    /// Ends a session and releases its items, in several iterations if there are many. The
    /// connection stays open.
    pub(super) fn remove_session(&mut self, key: SessionKey) -> Option<ConnId> {
        let entry = self.sessions.end(key)?;
        // Lets the user open another session.
        entry.access = None;
        self.writer.forget(entry);
        self.delivery.forget_session(key);
        self.recoveries.forget_session(key);
        entry.bandwidth = None;
        entry.messages = None;
        let conn = entry.conn;
        let charged = entry.core.subscriptions().iter();
        let bytes = charged.map(|one| one.handle.charged as usize).sum();
        self.shared.admission.refund(entry.admission_id, bytes);
        self.shared.admission.end_session(entry.admission_id);
        self.work.ended_sessions.push_back(key);
        self.close_adapter_session(key);
        self.tear_down();
        Some(conn)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Starts ending all sessions, spread over `spread_ms`.
    pub(super) fn begin_drain(&mut self, wire: &mut impl Wire, spread_ms: u64) {
        let keys = self.sessions.keys();
        self.drain = Some(DrainSchedule {
            total: keys.len(),
            keys,
            began_ms: wire.now_ms(),
            spread_ms,
        });
        self.drain_step(wire);
    }

    /// Ends the sessions that are due, and schedules the next step.
    pub(super) fn drain_step(&mut self, wire: &mut impl Wire) {
        let now_ms = wire.now_ms();
        let Some(drain) = &mut self.drain else { return };
        let left = drain.total - drain.due_count(now_ms);
        let due = drain.keys.split_off(left.min(drain.keys.len()));
        if !drain.keys.is_empty() {
            wire.set_timer(now_ms + DRAIN_STEP_MS, DRAIN_STEP);
        }
        for key in due {
            // On code 48, SDKs reconnect at once, to the gateway that the load balancer selects.
            let text = "the gateway is shutting down";
            self.end_session(wire, key, SessionCode::EXPIRED, text, false);
        }
    }
}
