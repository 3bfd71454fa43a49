//! Topics of a sweep.

use weir_kafka::Admin;

use super::super::cell::CellContext;

/// Creates a topic and returns its name.
pub(super) fn new_topic(context: &CellContext<'_>, id: &str) -> Result<String, String> {
    let now_ms = context.clock.now_unix_ns() / 1_000_000;
    let topic = format!("weir-{}-{id}-{now_ms}", context.plan.name);
    let partitions = i32::try_from(context.plan.workload.partitions).unwrap_or(i32::MAX);
    let created = context.admin.create_topic(&topic, partitions, 1, &[]);
    created.map_err(|error| error.to_string())?;
    Ok(topic)
}

/// Deletes a topic, because topics of a sweep are large. A failure is logged and ignored.
pub(super) fn delete_topic(admin: &Admin, topic: &str) {
    if let Err(error) = admin.delete_topic(topic) {
        tracing::warn!(%error, topic, "deleting the topic failed");
    }
}
