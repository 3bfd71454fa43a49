//! The start item of the published load test's client simulator.
//!
//! Before it opens sessions, the simulator reads from item `CONFIGURATION` of adapter set
//! `LOAD_TESTS` what to subscribe to. Without that item it waits forever.

use weir_fanout::{DeliveryMode, FieldSchema, ItemSubscription};
use weir_tlcp::codes::ControlCode;
use weir_tlcp::request::{Add, Mode, Snapshot};
use weir_tlcp::server::{
    Session, Subscription, push_full_payload, push_line_end, push_update_prefix,
};

use super::context::ShardContext;
use crate::error::SubscriptionError;
use crate::simulator::ADAPTER_SET;

const ITEM: &str = "CONFIGURATION";

/// Handles a subscription of a `LOAD_TESTS` session. The values never change, so the subscription
/// has no entry in the item table. Returns the number of updates sent.
pub(super) fn subscribe(
    context: &ShardContext,
    core: &mut Session<ItemSubscription>,
    add: &Add<'_>,
    out: &mut Vec<u8>,
) -> Result<u64, SubscriptionError> {
    let refuse = |code, message| Err(SubscriptionError { code, message });
    if add.mode != Mode::Merge {
        let message = format!("item {ITEM} requires mode MERGE");
        return refuse(ControlCode::MODE_NOT_ALLOWED, message);
    }
    if add.group.trim() != ITEM {
        let message = format!("adapter set {ADAPTER_SET} has only item {ITEM}");
        return refuse(ControlCode::BAD_GROUP, message);
    }
    let names = add.schema.split_whitespace();
    let simulator = context.simulator.as_ref();
    let values: Vec<_> = names.map(|name| simulator?.value(name)).collect();
    if values.is_empty() || values.len() > context.limits.fields_per_subscription {
        return refuse(ControlCode::BAD_SCHEMA, format!("{} fields", values.len()));
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
            form: None,
            frequency_limit: None,
            slots: [None].into_iter().collect(),
            charged: 0,
        },
    };
    core.add_subscription(subscription, context.limits.subscriptions_per_session)?;
    core.write_subok(add.sub_id, 1, values.len() as u32, out);
    core.write_conf(add.sub_id, None, out);
    let has_snapshot = add.snapshot != Snapshot::No;
    if has_snapshot {
        push_update_prefix(out, add.sub_id, 1);
        push_full_payload(out, values.iter().map(Option::as_deref));
        push_line_end(out);
    }
    Ok(u64::from(has_snapshot))
}
