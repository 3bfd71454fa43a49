//! Client messages for the adapter: one at a time of a sequence.

use weir_adapter::decision::message_refusal;
use weir_adapter::{AdapterFailure, AdapterOutcome, WhileDown};
use weir_identity::ari::AdapterRequest;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::server::SequenceId;

use super::state::AdapterMessage;
use crate::adapter::AdapterCall;
use crate::messages::MessageOutcome;
use crate::shard::clients::Clients;
use crate::shard::wire::Wire;

impl Clients {
    /// Sends a message to the adapter, after those before it in its sequence.
    pub(in crate::shard) fn pass_to_adapter(
        &mut self,
        wire: &mut impl Wire,
        message: AdapterMessage,
    ) {
        let Some(adapter) = &mut self.adapter else {
            return;
        };
        let (session, sequence) = (message.pending.session, message.pending.sequence);
        let first = match sequence == SequenceId::UNORDERED {
            true => Some(message),
            false => adapter.lanes.enter((session, sequence), message),
        };
        if let Some(message) = first {
            self.send_to_adapter(wire, message);
        }
    }

    /// Sends a message, or the first one after it that can be sent.
    fn send_to_adapter(&mut self, wire: &mut impl Wire, message: AdapterMessage) {
        let mut next = Some(message);
        while let Some(message) = next.take() {
            if let Err((index, failure)) = self.try_send_to_adapter(message) {
                next = self.report_reply(wire, index, &Err(failure));
            }
        }
    }

    fn try_send_to_adapter(
        &mut self,
        message: AdapterMessage,
    ) -> Result<(), (usize, AdapterFailure)> {
        let AdapterMessage {
            pending,
            share,
            text,
        } = message;
        let index = self.pending_messages.insert((pending, share));
        let adapter = self.adapter.as_ref();
        let session =
            adapter.and_then(|adapter| Some((adapter, adapter.session(pending.session)?)));
        let (adapter, session) = session.ok_or((index, AdapterFailure::Down))?;
        let request = AdapterRequest::NotifyUserMessage {
            user: session.user.clone(),
            session: session.id.clone(),
            message: text.into(),
        };
        let sent = adapter.request(request, AdapterCall::Message(index), WhileDown::Fail);
        sent.map_err(|failure| (index, failure))
    }

    /// Handles the outcome of a message.
    pub(super) fn adapter_replied(
        &mut self,
        wire: &mut impl Wire,
        index: usize,
        outcome: &AdapterOutcome,
    ) {
        if let Some(next) = self.report_reply(wire, index, outcome) {
            self.send_to_adapter(wire, next);
        }
    }

    /// Reports the outcome of a message. Returns the next one of its sequence.
    fn report_reply(
        &mut self,
        wire: &mut impl Wire,
        index: usize,
        outcome: &AdapterOutcome,
    ) -> Option<AdapterMessage> {
        let messages = self.shared.messages.clone()?;
        let (pending, _) = self.pending_messages.try_remove(index)?;
        let age_ms = wire.now_ms().saturating_sub(pending.began_ms);
        messages.count_age(self.sessions.shard, age_ms);
        let failure = outcome.as_ref().err();
        let refusal = failure.map(message_refusal);
        let refusal = refusal
            .as_ref()
            .map(|refusal| (ControlCode::from_code(refusal.code), &*refusal.text));
        let outcome = match failure {
            None => MessageOutcome::Delivered,
            Some(AdapterFailure::Timeout) => MessageOutcome::Unconfirmed,
            Some(_) => MessageOutcome::Refused,
        };
        self.finish_message(wire, &messages, pending, (outcome, refusal));
        let lane = (pending.session, pending.sequence);
        self.adapter.as_mut()?.lanes.leave(&lane)
    }
}
