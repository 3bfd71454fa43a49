//! Events of the remote adapter, and ends that it must know of.

use std::sync::Arc;

use weir_fanout::SessionKey;
use weir_identity::UserIdentity;

use crate::adapter::{AdapterCall, AdapterEvent};
use crate::shard::clients::Clients;
use crate::shard::session::AdapterSet;
use crate::shard::state::Shard;
use crate::shard::wire::Wire;

impl Shard {
    /// Handles an outcome or a notification of the adapter.
    pub(in crate::shard) fn adapter_event(&mut self, wire: &mut impl Wire, event: AdapterEvent) {
        match event {
            AdapterEvent::Complete(call, outcome) => match call {
                AdapterCall::User(number) => self.user_decided(wire, number, &outcome),
                AdapterCall::Session(number) => self.session_decided(wire, number, &outcome),
                AdapterCall::Subscription(number, method) => {
                    self.subscription_decided(wire, number, method, outcome);
                }
                AdapterCall::Message(index) => {
                    self.clients.adapter_replied(wire, index, &outcome);
                }
            },
            AdapterEvent::Notified(ticket, notification) => {
                self.clients.forced(wire, ticket, &notification);
            }
            AdapterEvent::Conflict(session) => self.clients.end_conflicting(wire, &session),
        }
    }
}

impl Clients {
    /// Returns `true` if the adapter decides about sessions of an adapter set.
    pub(in crate::shard) fn asks_adapter(&self, adapter_set: &str) -> bool {
        let shared = &self.shared;
        shared.adapter.is_some() && shared.adapter_set(adapter_set) == Some(AdapterSet::Kafka)
    }

    /// Returns `true` if the adapter has accepted a session.
    pub(in crate::shard) fn has_adapter(&self, key: SessionKey) -> bool {
        let adapter = self.adapter.as_ref();
        adapter.is_some_and(|adapter| adapter.session(key).is_some())
    }

    /// Returns the identity of a session, if its client is identified.
    pub(in crate::shard) fn identity_of(&mut self, key: SessionKey) -> Option<Arc<UserIdentity>> {
        let own = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.identity());
        let adapter = self.adapter.as_ref();
        let other = || adapter?.session(key)?.identity.as_ref();
        own.or_else(other).cloned()
    }

    /// Informs the adapter of the end of a session and its subscriptions.
    pub(in crate::shard) fn close_adapter_session(&mut self, key: SessionKey) {
        if let Some(adapter) = &mut self.adapter {
            let requests = adapter.sessions.close(key.to_bits());
            adapter.notify_all(requests);
        }
    }

    /// Informs the adapter of the end of a subscription.
    pub(in crate::shard) fn close_adapter_subscription(&mut self, key: SessionKey, sub_id: u32) {
        if let Some(adapter) = &mut self.adapter {
            let request = adapter.sessions.unsubscribed(key.to_bits(), sub_id);
            adapter.notify_all(request);
        }
    }
}
