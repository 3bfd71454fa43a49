//! The start item of the published load test's client simulator.
//!
//! Before it opens sessions, the simulator reads from item `CONFIGURATION` of adapter set
//! `LOAD_TESTS` what to subscribe to. Without that item it waits forever.

use weir_tlcp::codes::ControlCode;
use weir_tlcp::request::{Add, Mode, Snapshot};
use weir_tlcp::server::{Subscription, push_full_payload, push_line_end, push_update_prefix};

use super::Shard;
use super::delivery::DeliveryMode;
use super::keys::SessionKey;
use super::schema::FieldSchema;
use super::session::ItemSubscription;
use crate::config::Simulator;
use crate::resolve::SubscriptionError;

/// Name of the adapter set.
pub(super) const ADAPTER_SET: &str = "LOAD_TESTS";
const ITEM: &str = "CONFIGURATION";

/// Returns the value of a field. It is null where the simulator uses its own default, because the
/// simulator rejects a frequency or buffer size of 0.
fn value(simulator: &Simulator, field: &str) -> Option<String> {
    Some(match field {
        "numberOfItems" => simulator.number_of_items.to_string(),
        "numberOfFields" => simulator.number_of_fields.to_string(),
        "subscriptionMode" => simulator.subscription_mode.clone(),
        "unfilteredSubscription" => simulator.unfiltered_subscription.to_string(),
        "resamplingFrequency" if simulator.resampling_frequency > 0.0 => {
            format!("{:?}", simulator.resampling_frequency)
        }
        "resamplingBufferSize" if simulator.resampling_buffer_size > 0 => {
            simulator.resampling_buffer_size.to_string()
        }
        _ => return None,
    })
}

fn refuse(code: ControlCode, message: String) -> Result<(), SubscriptionError> {
    Err(SubscriptionError { code, message })
}

impl Shard {
    /// Handles a subscription of a `LOAD_TESTS` session. The values never change, so the
    /// subscription has no entry in the item table.
    pub(super) fn subscribe_start_item(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), SubscriptionError> {
        let (Some(simulator), Some(entry)) = (&self.shared.simulator, self.sessions.get_mut(key))
        else {
            return Ok(());
        };
        if add.mode != Mode::Merge {
            let message = format!("item {ITEM} requires mode MERGE");
            return refuse(ControlCode::MODE_NOT_ALLOWED, message);
        }
        if add.group.trim() != ITEM {
            let message = format!("adapter set {ADAPTER_SET} has only item {ITEM}");
            return refuse(ControlCode::BAD_GROUP, message);
        }
        let names = add.schema.split_whitespace();
        let values: Vec<Option<String>> = names.map(|name| value(simulator, name)).collect();
        if values.is_empty() || values.len() > self.shared.limits.fields_per_subscription {
            let message = format!("{} fields", values.len());
            return refuse(ControlCode::BAD_SCHEMA, message);
        }
        let subscription = Subscription {
            sub_id: add.sub_id,
            mode: add.mode,
            unfiltered: false,
            handle: ItemSubscription {
                connection: u16::MAX,
                schema: FieldSchema::of([]).into(),
                delivery: DeliveryMode::Newest,
                diffs: None,
                frequency_limit: None,
                places: [None].into_iter().collect(),
                charged: 0,
            },
        };
        let most = self.shared.limits.subscriptions_per_session;
        let core = &mut entry.core;
        if let Err(code) = core.add_subscription(subscription, most) {
            return refuse(code, code.text().to_owned());
        }
        self.counters.subscriptions += 1;
        core.write_subok(add.sub_id, 1, values.len() as u32, out);
        core.write_conf(add.sub_id, None, out);
        if add.snapshot != Snapshot::No {
            push_update_prefix(out, add.sub_id, 1);
            push_full_payload(out, values.iter().map(Option::as_deref));
            push_line_end(out);
            self.counters.updates_out += 1;
        }
        Ok(())
    }
}
