//! Requests with client messages: refused, put in order, passed on.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use weir_fanout::SessionKey;
use weir_identity::AuthMethod;
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_identity::rules::{MessageGrant, MessageRights};
use weir_identity::token::IdentifiedClient;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::request::Message;
use weir_tlcp::server::{Arrival, MessageMark, SequenceId, write_reqerr};

use super::session::{ReadyMessage, SessionMessages};
use crate::messages::Messages;
use crate::shard::clients::Clients;
use crate::shard::control_requests::acknowledge;
use crate::shard::responses::ResponseBatch;
use crate::shard::state::Shard;
use crate::shard::wire::Wire;

const BUSY: &str = "the gateway has too many messages: try again later";
const TOO_MANY: &str = "too many messages: try again later";
impl Shard {
    /// Handles a client message: the first rule that covers its sequence decides. Without one, it
    /// is refused.
    pub(in crate::shard) fn message(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        message: &Message<'_>,
        responses: &mut ResponseBatch,
    ) {
        let Some((key, messages, grant)) = self.clients.grant(key, message) else {
            if let Some(key) = key {
                let denied = (AuditEvent::Message, AuditOutcome::Deny);
                let code = ControlCode::UNSUPPORTED.code();
                self.clients.audit(wire, key, denied, |record| {
                    record.reason("no_rule").code(code)
                });
            }
            return self.refuse_message(wire, key, message, responses);
        };
        let accepted = self.clients.accept(wire, key, &messages, message, grant);
        match accepted {
            Ok((sequence, first)) => {
                acknowledge(
                    message.request_id.as_deref(),
                    message.ack,
                    &mut responses.lines,
                );
                self.flush_before(wire, key, responses);
                self.clients.proceed(wire, key, sequence, first);
            }
            // Without a wanted outcome, older SDKs take an error for that of another message.
            Err(_) if !message.outcome => {
                acknowledge(
                    message.request_id.as_deref(),
                    message.ack,
                    &mut responses.lines,
                );
            }
            Err((code, text)) => {
                self.clients.counters.requests_refused += 1;
                if let Some(id) = message.request_id.as_deref() {
                    write_reqerr(&mut responses.lines, id, code, text);
                }
            }
        }
    }
}

/// The message of a request, if it is its turn.
type FirstMessage = Option<(Option<u32>, ReadyMessage)>;

impl Clients {
    /// Gives a session its client's rights to send messages.
    pub(in crate::shard) fn set_message_rights(
        &mut self,
        key: SessionKey,
        client: &IdentifiedClient,
    ) {
        let (Some(messages), Some(entry)) = (&self.shared.messages, self.sessions.get_mut(key))
        else {
            return;
        };
        let (claims, identity) = (&client.claims, &client.identity);
        // All anonymous clients have the same rights.
        if identity.method() == AuthMethod::Anonymous {
            return;
        }
        let rights = Arc::new(MessageRights::compile(&messages.rules, claims, identity));
        match &mut entry.messages {
            Some(own) => own.set_rights(&rights),
            None => {
                let handle = self.shared.handles.of(entry.core.id());
                entry.messages = Some(Box::new(SessionMessages::new(&rights, handle)));
            }
        }
    }

    /// Returns the grant for a message, if there are rules and one of them covers it.
    fn grant(
        &mut self,
        key: Option<SessionKey>,
        message: &Message<'_>,
    ) -> Option<(SessionKey, Arc<Messages>, MessageGrant)> {
        let messages = Arc::clone(self.shared.messages.as_ref()?);
        let entry = self.sessions.get_mut(key?)?;
        let own = entry.messages.as_ref().map(|own| &own.sender.rights);
        let rights = own.unwrap_or_else(|| messages.anonymous());
        let grant = rights.find(&messages.rules, message.sequence.as_deref())?;
        let grant = grant.clone();
        if entry.messages.is_none() {
            let handle = self.shared.handles.of(entry.core.id());
            let own = SessionMessages::new(messages.anonymous(), handle);
            entry.messages = Some(Box::new(own));
        }
        Some((entry.key(), messages, grant))
    }

    /// Puts a message in order. An error refuses the request, and the number stays unused.
    fn accept(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        messages: &Messages,
        message: &Message<'_>,
        grant: MessageGrant,
    ) -> Result<(SequenceId, FirstMessage), (ControlCode, &'static str)> {
        let session = self.sessions.get_mut(key);
        let Some(own) = session.and_then(|entry| entry.messages.as_deref_mut()) else {
            let code = ControlCode::SESSION_NOT_FOUND;
            return Err((code, code.text()));
        };
        let limits = &messages.limits;
        let sequence = match message.sequence.as_deref() {
            Some(name) => own.order.sequence(name, limits.sequences_per_session),
            None => Some(SequenceId::UNORDERED),
        };
        let sequence = sequence.ok_or((ControlCode::MESSAGE_LIMIT, "too many sequences"))?;
        let share = match own.pending() >= limits.pending_per_session {
            true => Err((ControlCode::MESSAGE_LIMIT, TOO_MANY)),
            false => messages
                .claim(message.text.len())
                .ok_or((ControlCode::MESSAGE_FAILED, BUSY)),
        };
        let ready = ReadyMessage {
            text: message.text.as_ref().into(),
            grant,
            has_outcome: message.outcome,
            share,
        };
        let Some(prog) = message.prog else {
            return Ok((sequence, Some((None, ready))));
        };
        let mut hasher = DefaultHasher::new();
        message.text.hash(&mut hasher);
        let digest = hasher.finish();
        let wait_ms = message
            .max_wait_ms
            .unwrap_or(u64::MAX)
            .min(limits.max_wait_ms);
        let (until_ms, has_space) = (wire.now_ms() + wait_ms, ready.share.is_ok());
        let mark = MessageMark { prog, digest };
        match own.order.arrive(sequence, mark, until_ms, ready, has_space) {
            Arrival::Process(ready) => Ok((sequence, Some((Some(prog), ready)))),
            Arrival::Waits | Arrival::Repeated => Ok((sequence, None)),
            Arrival::InUse => Err((ControlCode::PROG_USED, ControlCode::PROG_USED.text())),
            Arrival::TooLow => Err((ControlCode::PROG_TOO_LOW, ControlCode::PROG_TOO_LOW.text())),
            Arrival::NoSpace => Err((ControlCode::MESSAGE_LIMIT, TOO_MANY)),
        }
    }
}
