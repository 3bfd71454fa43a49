//! Adds and removes subscriptions, and changes their frequency.

use std::sync::Arc;

use weir_fanout::{
    ClassKey, DeliveryMode, FrequencyLimit, InterestChange, InterestUpdate, ItemName,
    ItemSubscription, NewSubscriber, Retention, SessionKey,
};
use weir_ingest::item_of;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::request::{Add, Frequency, Mode, Snapshot};
use weir_tlcp::server::{Subscription, push_end_of_snapshot};

use super::admission::{NO_MEMORY, over_limit};
use super::clients::{Clients, TEXT_PER_ITEM};
use super::context::ShardContext;
use super::resolve::{ResolvedItems, resolve};
use super::session::{AdapterSet, SessionEntry};
use super::simulator;
use crate::admission::AdmissionLimit;
use crate::error::SubscriptionError;

impl Clients {
    /// Makes a subscription, appends its confirmation to `out`, and returns its number.
    /// `frequency_max` is the limit of a remote adapter, which the request respects.
    pub(super) fn subscribe(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        frequency_max: Option<f64>,
        out: &mut Vec<u8>,
    ) -> Result<u32, SubscriptionError> {
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(add.sub_id);
        };
        if entry.adapter_set == Some(AdapterSet::StartItem) {
            let updates = simulator::subscribe(&self.shared, &mut entry.core, add, out)?;
            self.counters.subscriptions += 1;
            self.delivery.count_sent(updates);
            return Ok(add.sub_id);
        }
        if self.shared.admission.overload.is_on() {
            self.shared.admission.note(AdmissionLimit::Memory);
            return Err(over_limit(NO_MEMORY));
        }
        // Resolving names costs CPU time, even if they are refused.
        self.work.items += add.group.len() / TEXT_PER_ITEM;
        let mut resolved = resolve(add, &self.shared)?;
        self.check_subscription(key, &resolved.items, &add.schema)?;
        let limits = self.authorize(key, add, &resolved)?;
        match limits {
            None => self.add_subscription(key, add, resolved, frequency_max, out),
            Some(limits) => {
                self.select_records((key, &add.schema), &mut resolved.items, &limits)?;
                let (add, most) = (limits.restrict(add), limits.frequency_max);
                let most = lower(most, frequency_max);
                self.add_subscription(key, &add, resolved, most, out)
            }
        }
    }

    /// Adds a subscription to resolved items. `frequency_max` is the limit of item rules and of a
    /// remote adapter, which the request respects.
    fn add_subscription(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        resolved: ResolvedItems,
        frequency_max: Option<f64>,
        out: &mut Vec<u8>,
    ) -> Result<u32, SubscriptionError> {
        let shared = Arc::clone(&self.shared);
        let form = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.event_form);
        let numbered = form
            .map(|_| self.number_events(key, add, &resolved))
            .transpose()?;
        let add = numbered.as_ref().unwrap_or(add);
        let ResolvedItems {
            connection, items, ..
        } = resolved;
        let kafka = &shared.connections[usize::from(connection)];
        let (mapping, in_rows) = (&kafka.config.mapping, add.mode == Mode::Command);
        let schema = self.schemas.get(connection, &add.schema, mapping, in_rows);
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(add.sub_id);
        };
        let (sub_id, delivery) = (add.sub_id, DeliveryMode::of(add));
        let diffs = kafka.diffs.of(entry.diffs);
        let class = |index: usize| ClassKey {
            schema: &schema,
            sub_id,
            position: index as u32 + 1,
            delivery,
            diffs,
            form,
        };
        let most = shared.limits.frame_classes_per_item;
        let is_full = |(index, name): (usize, &Option<ItemName>)| {
            let name = name.as_ref();
            name.is_some_and(|name| self.items.is_full(name, class(index), most))
        };
        if items.iter().enumerate().any(is_full) {
            shared.admission.note(AdmissionLimit::FrameClasses);
            let text = "too many different subscriptions to one item, try again later";
            return Err(over_limit(text));
        }
        let handle = ItemSubscription {
            connection,
            schema: Arc::clone(&schema),
            delivery,
            diffs: diffs.cloned(),
            form,
            frequency_limit: FrequencyLimit::of(add, frequency_max),
            slots: items.iter().map(|_| None).collect(),
            charged: 0,
        };
        let counts = (items.len() as u32, schema.field_count() as u32);
        confirm(entry, add, handle, counts, &shared, out)?;
        if let Some(access) = &mut entry.access {
            access.add_subscription();
        }
        self.counters.subscriptions += 1;
        let retention = shared.retention(add.mode, connection);
        let mut new_items = 0;
        for (index, name) in items.into_iter().enumerate() {
            let class = class(index);
            match name {
                Some(name) => {
                    let is_new = self.join(key, &name, class, retention, add.snapshot);
                    new_items += u64::from(is_new);
                }
                // No update will ever come, so the snapshot is complete.
                None if add.snapshot != Snapshot::No && delivery.has_end_of_snapshot() => {
                    push_end_of_snapshot(out, sub_id, class.position);
                }
                None => {}
            }
        }
        kafka.subscribed_items.add(new_items);
        self.work.items += counts.0 as usize;
        self.charge_subscription(key, sub_id);
        Ok(sub_id)
    }

    /// Adds a session to an item's class, and reports new interest to ingest. Returns `true` if
    /// the shard had no interest in the item before.
    fn join(
        &mut self,
        key: SessionKey,
        name: &ItemName,
        class: ClassKey<'_>,
        retention: Retention,
        snapshot: Snapshot,
    ) -> bool {
        let is_held = self.continues(key, class);
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        let subscriber = NewSubscriber {
            session: key,
            shown: item_of(&name.1),
            class,
            retention,
            snapshot,
            is_held,
        };
        let change = (self.delivery).join(entry, &mut self.items, name, subscriber);
        self.shared.connections[usize::from(name.0)].late.note();
        let is_first = change.as_ref().is_some_and(|update| update.is_new);
        if let Some(InterestUpdate { interest, is_new }) = change {
            let change = InterestChange::Subscribe(interest);
            self.report_interest(name.clone(), change, is_new);
        }
        self.begin_recovery(key, name, class, snapshot);
        is_first
    }

    /// Changes the frequency limit of a subscription; `None` changes nothing. The response contains
    /// the limit in effect.
    pub(super) fn reconfigure(
        &mut self,
        key: SessionKey,
        sub_id: u32,
        wanted: Option<Frequency>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), SubscriptionError> {
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(());
        };
        let Some(subscription) = entry.core.subscription_mut(sub_id) else {
            return Err(ControlCode::SUBSCRIPTION_NOT_FOUND.into());
        };
        if subscription.unfiltered {
            return Err(ControlCode::UNFILTERED.into());
        }
        let subscribed = &mut subscription.handle;
        let limit = subscribed.frequency_limit.as_ref();
        let before = limit.and_then(|limit| limit.frequency);
        let most = limit.and_then(|limit| limit.frequency_max);
        let frequency = match wanted {
            None => before,
            Some(Frequency::PerSecond(frequency)) => {
                Some(most.map_or(frequency, |most| frequency.min(most)))
            }
            Some(Frequency::Unlimited | Frequency::Unfiltered) => most,
        };
        if frequency != before {
            let items = &mut self.items;
            (self.delivery).set_frequency(subscribed, items, (key, sub_id), frequency, now_ms);
        }
        entry.core.write_conf(sub_id, frequency, out);
        Ok(())
    }

    /// Ends a subscription, and appends its confirmation to `out`.
    pub(super) fn unsubscribe(
        &mut self,
        key: SessionKey,
        sub_id: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SubscriptionError> {
        let entry = self.sessions.get_mut(key);
        let removed = entry.and_then(|entry| {
            let subscription = entry.core.remove_subscription(sub_id)?;
            entry.core.write_unsub(sub_id, out);
            if let Some(access) = &mut entry.access {
                access.remove_subscription();
            }
            Some(subscription)
        });
        match removed {
            Some(subscription) => {
                self.release(key, subscription);
                self.close_adapter_subscription(key, sub_id);
                Ok(())
            }
            None => Err(SubscriptionError {
                code: ControlCode::SUBSCRIPTION_NOT_FOUND,
                message: format!("no subscription {sub_id} in this session"),
            }),
        }
    }
}

/// Returns the lower one of two limits, of which any may be absent.
pub(super) fn lower(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

/// Adds a subscription with these numbers of items and fields to its session, and confirms it.
fn confirm(
    entry: &mut SessionEntry,
    add: &Add<'_>,
    handle: ItemSubscription,
    (items, fields): (u32, u32),
    shared: &ShardContext,
    out: &mut Vec<u8>,
) -> Result<(), SubscriptionError> {
    let limit = handle.frequency_limit.as_ref();
    let frequency = limit.and_then(|limit| limit.frequency);
    let command = handle.schema.command;
    let unfiltered = add.requested_max_frequency == Frequency::Unfiltered;
    let subscription = Subscription {
        sub_id: add.sub_id,
        mode: add.mode,
        unfiltered: unfiltered || add.mode == Mode::Raw,
        handle,
    };
    let most = shared.limits.subscriptions_per_session;
    if let Err(code) = entry.core.add_subscription(subscription, most) {
        if code == ControlCode::TOO_MANY_SUBSCRIPTIONS {
            shared.admission.note(AdmissionLimit::SessionSubscriptions);
        }
        return Err(code.into());
    }
    match command {
        Some(at) => (entry.core).write_subcmd(add.sub_id, (items, fields), at, out),
        None => entry.core.write_subok(add.sub_id, items, fields, out),
    }
    entry.core.write_conf(add.sub_id, frequency, out);
    Ok(())
}
