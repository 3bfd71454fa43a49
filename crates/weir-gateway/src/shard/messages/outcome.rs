//! Messages whose turn has come, and their outcomes.

use weir_fanout::SessionKey;
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_identity::config::MessageDestination;
use weir_identity::rules::MessageGrant;
use weir_kafka::DeliveryError;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::server::{Release, SequenceId, write_msgdone, write_msgfail};

use super::session::{PendingMessage, ReadyMessage, SessionMessages};
use crate::messages::{MessageOutcome, MessageParts, MessageResult, Messages};
use crate::shard::adapter::AdapterMessage;
use crate::shard::clients::Clients;
use crate::shard::wire::Wire;

const TOO_FAST: &str = "too many messages per second: try again later";
const STOPPING: &str = "the gateway is shutting down";
const REFUSED: &str = "the message was not accepted";
const UNCONFIRMED: &str = "the message was not confirmed in time and may have been stored";

/// Outcome of a message that is not passed on, with code and text for the client.
type Denial = (MessageOutcome, ControlCode, &'static str);

impl Clients {
    /// Passes on a message whose turn has come, then those that have waited for it.
    pub(super) fn proceed(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        sequence: SequenceId,
        first: Option<(Option<u32>, ReadyMessage)>,
    ) {
        let mut lines = Vec::new();
        if let Some((prog, ready)) = first {
            self.pass_on(wire, key, (sequence, prog), ready, &mut lines);
        }
        self.release_waiting(wire, key, sequence, &mut lines);
        if !lines.is_empty() {
            self.notify(wire, key, &lines);
        }
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.arm(wire);
        }
    }

    /// Skips the missing messages of a session that have not arrived in time.
    pub(in crate::shard) fn skip_missing(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let own = self.messages_of(key);
        let overdue = own.map_or_else(Vec::new, |own| own.order.overdue(wire.now_ms()));
        let mut lines = Vec::new();
        for sequence in overdue {
            self.release_waiting(wire, key, sequence, &mut lines);
        }
        if !lines.is_empty() {
            self.notify(wire, key, &lines);
        }
    }

    fn release_waiting(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        sequence: SequenceId,
        lines: &mut Vec<u8>,
    ) {
        while let Some(own) = self.messages_of(key) {
            match own.order.release(sequence, wire.now_ms()) {
                None => break,
                Some(Release::Message { prog, message }) => {
                    self.pass_on(wire, key, (sequence, Some(prog)), message, lines);
                }
                Some(Release::Skipped { last, count }) => {
                    let name = own.order.name(sequence);
                    // SDKs read the number of skipped messages from the text of code 39.
                    let (code, text) = match count {
                        1 => (ControlCode::MESSAGE_TIMED_OUT, None),
                        _ => (ControlCode::MESSAGES_TIMED_OUT, Some(count.to_string())),
                    };
                    let text = text.as_deref().unwrap_or_else(|| code.text());
                    write_msgfail(lines, name, last, code, text);
                    if let Some(messages) = &self.shared.messages {
                        messages.count_skipped(count);
                    }
                }
            }
        }
    }

    /// Passes a message on to its destination, or denies it.
    fn pass_on(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        (sequence, prog): (SequenceId, Option<u32>),
        ready: ReadyMessage,
        lines: &mut Vec<u8>,
    ) {
        let Some(messages) = self.shared.messages.clone() else {
            return;
        };
        let pending = PendingMessage {
            session: key,
            sequence,
            prog,
            has_outcome: ready.has_outcome,
            rule: ready.grant.rule,
            began_ms: wire.now_ms(),
        };
        let Err((outcome, code, text)) = self.try_pass_on(wire, &messages, pending, ready) else {
            return;
        };
        self.settle(wire, &messages, pending, (outcome, Some(code)));
        if let (Some(own), Some(prog)) = (self.messages_of(key), prog) {
            own.order.finish(sequence, prog);
            if pending.has_outcome {
                write_msgfail(lines, own.order.name(sequence), prog, code, text);
            }
        }
    }

    fn try_pass_on(
        &mut self,
        wire: &mut impl Wire,
        messages: &Messages,
        pending: PendingMessage,
        ready: ReadyMessage,
    ) -> Result<(), Denial> {
        let shard = self.sessions.shard;
        let entry = self.sessions.get_mut(pending.session);
        let Some(own) = entry.and_then(|entry| entry.messages.as_deref_mut()) else {
            return Ok(());
        };
        let share = ready
            .share
            .map_err(|(code, text)| (MessageOutcome::OverLimit, code, text))?;
        admit(own, messages, (&ready.text, &ready.grant), pending.began_ms)?;
        if messages.rules[ready.grant.rule].destination == MessageDestination::Adapter {
            own.unnumbered += usize::from(pending.prog.is_none());
            let text = ready.text;
            let message = AdapterMessage {
                pending,
                share,
                text,
            };
            self.pass_to_adapter(wire, message);
            return Ok(());
        }
        let index = self.pending_messages.insert((pending, share));
        let parts = MessageParts {
            text: ready.text,
            sender: &own.sender,
            grant: &ready.grant,
            sequence: own.order.name(pending.sequence),
            prog: pending.prog,
        };
        if messages.send(parts, shard, index) {
            own.unnumbered += usize::from(pending.prog.is_none());
            return Ok(());
        }
        self.pending_messages.remove(index);
        Err((
            MessageOutcome::Refused,
            ControlCode::MESSAGE_FAILED,
            STOPPING,
        ))
    }

    /// Reports the results of messages since the last call.
    pub(in crate::shard) fn report_messages(&mut self, wire: &mut impl Wire) {
        let Some(messages) = self.shared.messages.clone() else {
            return;
        };
        for MessageResult { index, result } in messages.take_results(self.sessions.shard) {
            let Some((pending, _)) = self.pending_messages.try_remove(index) else {
                continue;
            };
            let age_ms = wire.now_ms().saturating_sub(pending.began_ms);
            messages.count_age(self.sessions.shard, age_ms);
            self.report_message(wire, &messages, pending, &result);
        }
    }

    fn report_message(
        &mut self,
        wire: &mut impl Wire,
        messages: &Messages,
        pending: PendingMessage,
        result: &Result<(), DeliveryError>,
    ) {
        let (outcome, failure) = match result {
            Ok(()) => (MessageOutcome::Delivered, None),
            Err(DeliveryError::Refused(_)) => (
                MessageOutcome::Refused,
                Some((ControlCode::MESSAGE_FAILED, REFUSED)),
            ),
            Err(DeliveryError::Unconfirmed(_)) => {
                let code = ControlCode::MESSAGE_ADAPTER_EXCEPTION;
                (MessageOutcome::Unconfirmed, Some((code, UNCONFIRMED)))
            }
        };
        self.finish_message(wire, messages, pending, (outcome, failure));
    }

    /// Reports the outcome of a message; a failure has code and text.
    pub(in crate::shard) fn finish_message(
        &mut self,
        wire: &mut impl Wire,
        messages: &Messages,
        pending: PendingMessage,
        (outcome, failure): (MessageOutcome, Option<(ControlCode, &str)>),
    ) {
        self.settle(
            wire,
            messages,
            pending,
            (outcome, failure.map(|(code, _)| code)),
        );
        let Some(own) = self.messages_of(pending.session) else {
            return;
        };
        let Some(prog) = pending.prog else {
            own.unnumbered -= 1;
            return;
        };
        own.order.finish(pending.sequence, prog);
        if pending.has_outcome {
            let (mut line, name) = (Vec::new(), own.order.name(pending.sequence));
            match failure {
                None => write_msgdone(&mut line, name, prog),
                Some((code, text)) => write_msgfail(&mut line, name, prog, code, text),
            }
            self.notify(wire, pending.session, &line);
        }
    }

    /// Counts and audits the outcome of a message that a rule covers.
    fn settle(
        &mut self,
        wire: &mut impl Wire,
        messages: &Messages,
        pending: PendingMessage,
        (outcome, code): (MessageOutcome, Option<ControlCode>),
    ) {
        messages.count(pending.rule, outcome);
        let audited = match outcome {
            MessageOutcome::Delivered => AuditOutcome::Allow,
            MessageOutcome::Refused | MessageOutcome::Unconfirmed => AuditOutcome::Error,
            MessageOutcome::TooLong | MessageOutcome::OverLimit => AuditOutcome::Deny,
        };
        let rule = &messages.rules[pending.rule].name;
        self.audit(
            wire,
            pending.session,
            (AuditEvent::Message, audited),
            |record| {
                let record = record.rule(rule);
                match code {
                    Some(code) => record.reason(outcome.label()).code(code.code()),
                    None => record,
                }
            },
        );
    }

    fn messages_of(&mut self, key: SessionKey) -> Option<&mut SessionMessages> {
        self.sessions.get_mut(key)?.messages.as_deref_mut()
    }
}

/// Checks length and rates of a message.
fn admit(
    own: &mut SessionMessages,
    messages: &Messages,
    (text, grant): (&str, &MessageGrant),
    now_ms: u64,
) -> Result<(), Denial> {
    let rule = &messages.rules[grant.rule];
    if text.len() > rule.bytes_max {
        let code = ControlCode::MESSAGE_TOO_LONG;
        return Err((MessageOutcome::TooLong, code, code.text()));
    }
    let admitted = own.take(grant.rule, rule.session_rate, now_ms)
        && messages.take_user(grant, &own.sender.rights, now_ms);
    match admitted {
        true => Ok(()),
        false => Err((
            MessageOutcome::OverLimit,
            ControlCode::MESSAGE_LIMIT,
            TOO_FAST,
        )),
    }
}
