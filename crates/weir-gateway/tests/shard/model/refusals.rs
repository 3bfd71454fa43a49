//! Refusal of subscriptions that are too expensive.

use super::TestEnv;
use crate::admission::AdmissionLimit;
use crate::limits::GatewayLimits;

/// Returns the lines that a client receives after a subscription.
fn subscribe(env: &mut TestEnv, sub_id: u32, group: &str) -> String {
    env.request(
        0,
        &format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_data_adapter=Data&LS_ack=false\
             &LS_group={group}&LS_schema=a&LS_mode=RAW"
        ),
    );
    env.wire.flush_all();
    env.wire.take_lines(0)
}

#[test]
fn repeated_item_is_refused() {
    let mut env = TestEnv::new(false);
    subscribe(&mut env, 1, "item-[key=0]");
    let refused = subscribe(&mut env, 2, "item-[key=0]%20item-[key=1]%20item-[key=0]");
    assert!(refused.starts_with("REQERR,1,21,"), "{refused}");
    assert!(refused.contains("named twice"), "{refused}");
    let taken = subscribe(&mut env, 2, "item-[key=0]%20item-[key=1]");
    assert!(taken.starts_with("SUBOK,2,2,1"), "{taken}");
}

#[test]
fn frame_classes_per_item_are_limited() {
    let limits = GatewayLimits {
        frame_classes_per_item: 3,
        ..GatewayLimits::default()
    };
    let mut env = TestEnv::limited(false, limits);
    for sub_id in 1..=3 {
        let taken = subscribe(&mut env, sub_id, "item-[key=0]");
        assert!(taken.contains("SUBOK"), "{taken}");
    }
    let refused = subscribe(&mut env, 4, "item-[key=1]%20item-[key=0]");
    assert!(refused.starts_with("REQERR,1,68,"), "{refused}");
    assert_eq!(
        env.shard
            .clients
            .shared
            .admission
            .hits(AdmissionLimit::FrameClasses),
        1
    );
    assert_eq!(
        env.shard.clients.items.len(),
        1,
        "the refused subscription adds no item"
    );
    // Other items accept new classes, and so does this one after a class was removed.
    assert!(subscribe(&mut env, 4, "item-[key=1]").contains("SUBOK"));
    env.request(
        0,
        "control\r\nLS_reqId=1&LS_op=delete&LS_subId=2&LS_ack=false",
    );
    let taken = subscribe(&mut env, 5, "item-[key=0]");
    assert!(taken.contains("SUBOK,5,1,1"), "{taken}");
}
