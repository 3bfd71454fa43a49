//! Renews the token of a session: a client message of the sequence `weir_auth`, whose text is the
//! token. It is never logged or forwarded to another recipient.

use weir_fanout::SessionKey;
use weir_mapping::CanonicalItem;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::request::{Frequency, Message};
use weir_tlcp::server::{write_msgdone, write_msgfail};

use super::clients::Clients;
use super::control_requests::accept_message;
use super::credentials::{WAIT_MS, WAITING_MAX, WaitingRefresh, access_time};
use super::responses::ResponseBatch;
use super::state::Shard;
use super::subscribe::lower;
use super::timers::KEYS_TIMEOUT;
use super::wire::Wire;
use weir_access::{AuthFailure, SubscriptionAccess};
use weir_ingest::{ClassName, item_of};

/// Sequence of the messages that renew a token.
const SEQUENCE: &str = "weir_auth";
/// Code of a token that is not accepted. The session continues with the old one.
const REFUSED: i32 = -10;
impl Shard {
    /// Returns `true` if a client message is a new token.
    pub(super) fn is_refresh(&self, message: &Message<'_>) -> bool {
        self.clients.shared.auth.is_some() && message.sequence.as_deref() == Some(SEQUENCE)
    }

    /// Renews the token of a session.
    pub(super) fn refresh(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        message: &Message<'_>,
        responses: &mut ResponseBatch,
    ) {
        let Some(key) = accept_message(key, message, &mut responses.lines) else {
            return;
        };
        self.flush_before(wire, key, responses);
        let waiting = WaitingRefresh {
            token: message.text.to_string(),
            prog: message.prog.filter(|_| message.outcome),
            until_ms: wire.now_ms() + WAIT_MS,
        };
        self.try_refresh(wire, key, waiting);
    }

    /// Renews the token of a session, or waits for its key.
    fn try_refresh(&mut self, wire: &mut impl Wire, key: SessionKey, waiting: WaitingRefresh) {
        let done = self.clients.refresh(wire, key, &waiting.token);
        let may_wait = wire.now_ms() < waiting.until_ms;
        let refreshes = &mut self.credentials.refreshes;
        if done == Err(AuthFailure::KeysPending) && may_wait && refreshes.len() < WAITING_MAX {
            wire.set_timer(waiting.until_ms, KEYS_TIMEOUT);
            refreshes.insert(key, waiting);
            return;
        }
        let failure = done.as_ref().err().map(AuthFailure::reason);
        self.clients.audit_refresh(wire, key, failure);
        let Some(prog) = waiting.prog else { return };
        let mut line = Vec::new();
        match done {
            Ok(()) => write_msgdone(&mut line, Some(SEQUENCE), prog),
            Err(_) => {
                let (code, text) = (ControlCode::from_code(REFUSED), "Token refused");
                write_msgfail(&mut line, Some(SEQUENCE), prog, code, text);
            }
        }
        self.clients.notify(wire, key, &line);
    }

    /// Repeats a renewal that waits for keys.
    pub(super) fn retry_refresh(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let waiting = self.credentials.refreshes.remove(&key);
        if let Some(waiting) = waiting.filter(|_| self.clients.sessions.get_mut(key).is_some()) {
            self.try_refresh(wire, key, waiting);
        }
    }
}

impl Clients {
    /// Gives a session the rights of a new token of the same user, and ends the subscriptions that
    /// it does not allow.
    fn refresh(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        token: &str,
    ) -> Result<(), AuthFailure> {
        let now = access_time(wire);
        let (Some(auth), Some(entry)) = (&self.shared.auth, self.sessions.get_mut(key)) else {
            return Err(AuthFailure::NoCredentials);
        };
        let Some(access) = &mut entry.access else {
            return Err(AuthFailure::NoCredentials);
        };
        let client = auth.refresh(access, token, now, rand::random())?;
        entry.arm(wire);
        self.set_message_rights(key, &client);
        self.authorize_again(wire, key);
        Ok(())
    }

    /// Decides again about all subscriptions of a session.
    fn authorize_again(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let ids: Vec<u32> = entry
            .core
            .subscriptions()
            .iter()
            .map(|one| one.sub_id)
            .collect();
        let mut lines = Vec::new();
        for sub_id in ids {
            // The session has the subscription.
            let _ = match self.still_allowed(key, sub_id) {
                Err(()) => {
                    self.audit_grant_lost(wire, key);
                    self.unsubscribe(key, sub_id, &mut lines)
                }
                Ok(most) => self.limit_frequency(key, sub_id, most, wire.now_ms(), &mut lines),
            };
        }
        if !lines.is_empty() {
            self.notify(wire, key, &lines);
        }
    }

    /// Decides again about a subscription. Returns the highest frequency if it is still allowed.
    fn still_allowed(&mut self, key: SessionKey, sub_id: u32) -> Result<Option<f64>, ()> {
        let (Some(auth), Some(entry)) = (&self.shared.auth, self.sessions.get_mut(key)) else {
            return Err(());
        };
        let (Some(access), Some(subscription)) = (&entry.access, entry.core.subscription(sub_id))
        else {
            return Err(());
        };
        let subscribed = &subscription.handle;
        let names = subscribed.slots.iter().flatten();
        let names = names.filter_map(|slot| self.items.name(slot.slot));
        let classes: Vec<_> = names
            .clone()
            .map(|name| ClassName::parse(&name.1))
            .collect();
        // Canonical names stay as they are.
        let items: Vec<_> = names
            .filter_map(|name| CanonicalItem::parse(item_of(&name.1)).ok())
            .collect();
        let fields: Vec<&str> = subscribed.schema.names().collect();
        let wanted = SubscriptionAccess {
            connection: subscribed.connection,
            mode: subscription.mode,
            fields: &fields,
            unfiltered: subscription.unfiltered,
        };
        let limits = auth.decide(access, items.iter(), wanted).map_err(|_| ())?;
        let is_same = |(position, class): (usize, &Option<ClassName<'_>>)| {
            let allowed = limits.class(position);
            let allowed = allowed.map(|class| (class.filter(), class.as_str()));
            allowed == class.map(|class| (class.filter, class.values))
        };
        // Other records than those that the client has got need another subscription.
        match classes.iter().enumerate().all(is_same) {
            true => Ok(limits.frequency_max),
            false => Err(()),
        }
    }

    /// Sets the highest frequency of a subscription, which may lower the frequency in effect.
    fn limit_frequency(
        &mut self,
        key: SessionKey,
        sub_id: u32,
        most: Option<f64>,
        now_ms: u64,
        lines: &mut Vec<u8>,
    ) -> Result<(), crate::error::SubscriptionError> {
        let most = lower(most, self.adapter_frequency(key, sub_id));
        let entry = self.sessions.get_mut(key);
        let subscription = entry.and_then(|entry| entry.core.subscription_mut(sub_id));
        let Some(subscription) = subscription else {
            return Ok(());
        };
        let limit = &mut subscription.handle.frequency_limit;
        if let Some(limit) = limit {
            limit.frequency_max = most;
        }
        let Some(most) = most else { return Ok(()) };
        let limit = limit.get_or_insert_default();
        limit.frequency_max = Some(most);
        match limit.frequency.is_none_or(|frequency| frequency > most) {
            true => {
                let wanted = Some(Frequency::PerSecond(most));
                self.reconfigure(key, sub_id, wanted, now_ms, lines)
            }
            false => Ok(()),
        }
    }
}
