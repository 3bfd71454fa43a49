//! Handles control requests, and refuses client messages that no rule covers.

use weir_fanout::SessionKey;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Control, ControlOp, Message};
use weir_tlcp::server::{write_error, write_msgfail, write_reqerr, write_reqok};

use super::responses::ResponseBatch;
use super::state::{SUBSCRIBE, Shard, UNSUBSCRIBE};
use super::wire::Wire;
use crate::error::SubscriptionError;

impl Shard {
    /// Handles a control request for a session of this shard. The response is sent before the
    /// notifications that the request causes.
    pub(super) fn control(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        control: &Control<'_>,
        responses: &mut ResponseBatch,
    ) {
        let Some(key) = key else {
            let refusal = ControlCode::SESSION_NOT_FOUND.into();
            return self.refuse(control, &refusal, &mut responses.lines);
        };
        if let Some(cause) = &control.cause {
            let (session, op) = (Truncated(&control.session), Truncated(&control.op));
            let cause = Truncated(cause);
            limited!(debug, "control request", ?session, %cause, ?op, "received control request");
        }
        match &control.op {
            ControlOp::Add(add) if self.clients.has_adapter(key) => {
                return self.ask_about_subscription(wire, key, (control, add), responses);
            }
            _ => {}
        }
        let mut notifications = std::mem::take(&mut self.notifications);
        notifications.clear();
        let done = match &control.op {
            ControlOp::Add(add) => {
                self.metrics.heartbeat.begin(SUBSCRIBE);
                let added = (self.clients).subscribe(key, add, None, &mut notifications);
                added.map(|_| ())
            }
            ControlOp::Delete { sub_id } if self.cancel_add(wire, key, *sub_id) => {
                if let Some(entry) = self.clients.sessions.get_mut(key) {
                    entry.core.write_unsub(*sub_id, &mut notifications);
                }
                Ok(())
            }
            ControlOp::Delete { sub_id } => {
                self.metrics.heartbeat.begin(UNSUBSCRIBE);
                self.clients.unsubscribe(key, *sub_id, &mut notifications)
            }
            ControlOp::Reconf {
                sub_id,
                requested_max_frequency: wanted,
            } => self
                .clients
                .reconfigure(key, *sub_id, *wanted, wire.now_ms(), &mut notifications),
            ControlOp::Destroy { .. }
            | ControlOp::ForceRebind { .. }
            | ControlOp::Constrain { .. } => Ok(()),
        };
        match done {
            Ok(()) => {
                let id = control.request_id.as_deref();
                acknowledge(id, control.ack, &mut responses.lines);
                self.flush_before(wire, key, responses);
                if !notifications.is_empty() {
                    self.clients.notify(wire, key, &notifications);
                }
                self.affect(wire, key, &control.op);
                // Snapshots follow the confirmations of their subscriptions.
                self.clients.catch_up(wire, key);
            }
            Err(refusal) => self.refuse(control, &refusal, &mut responses.lines),
        }
        self.notifications = notifications;
    }

    /// Applies a request that concerns the session as a whole.
    fn affect(&mut self, wire: &mut impl Wire, key: SessionKey, op: &ControlOp<'_>) {
        match op {
            ControlOp::Add(_) | ControlOp::Delete { .. } | ControlOp::Reconf { .. } => {}
            ControlOp::Destroy {
                cause_code,
                cause_message,
                close_socket,
            } => {
                let code = SessionCode::from_code(*cause_code);
                self.clients
                    .destroy(wire, key, code, cause_message, *close_socket);
            }
            ControlOp::ForceRebind { close_socket, .. } => {
                self.clients.send_loop(wire, key, *close_socket);
            }
            ControlOp::Constrain {
                requested_max_bandwidth: wanted,
            } => {
                let mut line = Vec::new();
                let wanted = &self.clients.adapter_bandwidth(key, *wanted);
                if let Some(entry) = self.clients.sessions.get_mut(key) {
                    let auth = self
                        .clients
                        .shared
                        .auth
                        .as_ref()
                        .zip(entry.access.as_deref())
                        .filter(|_| wanted.is_some());
                    let granted = auth.map(|(auth, access)| auth.bandwidth(access, *wanted));
                    entry.core.set_bandwidth(granted.unwrap_or(*wanted));
                    entry.limit_bandwidth(wire.now_ms());
                    entry.core.write_cons(&mut line);
                }
                self.clients.write_control_lines(wire, key, &line);
            }
        }
    }

    /// Refuses a client message. The request is accepted and the message fails, because an SDK
    /// reports code and text to its application only for a failed message. Without a requested
    /// outcome, no failure is sent.
    pub(super) fn refuse_message(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        message: &Message<'_>,
        responses: &mut ResponseBatch,
    ) {
        self.clients.counters.requests_refused += 1;
        let Some(key) = accept_message(key, message, &mut responses.lines) else {
            return;
        };
        if let Some(prog) = message.prog.filter(|_| message.outcome) {
            self.flush_before(wire, key, responses);
            let (mut note, sequence) = (Vec::new(), message.sequence.as_deref());
            let text = "this gateway takes no messages";
            write_msgfail(&mut note, sequence, prog, ControlCode::UNSUPPORTED, text);
            self.clients.notify(wire, key, &note);
        }
    }

    pub(super) fn refuse(
        &mut self,
        control: &Control<'_>,
        refusal: &SubscriptionError,
        out: &mut Vec<u8>,
    ) {
        self.clients.counters.requests_refused += 1;
        match &control.request_id {
            Some(id) => write_reqerr(out, id, refusal.code, &refusal.message),
            None => write_error(out, ControlCode::MALFORMED, &refusal.message),
        }
    }
}

/// Accepts the request with a client message, whose outcome follows, and returns its session.
/// Without a session the request is refused.
pub(super) fn accept_message(
    key: Option<SessionKey>,
    message: &Message<'_>,
    out: &mut Vec<u8>,
) -> Option<SessionKey> {
    let id = message.request_id.as_deref();
    match (key, id) {
        (Some(_), _) => acknowledge(id, message.ack, out),
        (None, Some(id)) => {
            let code = ControlCode::SESSION_NOT_FOUND;
            write_reqerr(out, id, code, code.text());
        }
        (None, None) => {}
    }
    key
}

pub(super) fn acknowledge(request_id: Option<&str>, ack: bool, out: &mut Vec<u8>) {
    if let Some(id) = request_id.filter(|_| ack) {
        write_reqok(out, Some(id));
    }
}
