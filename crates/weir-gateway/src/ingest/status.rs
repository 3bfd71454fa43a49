//! Reports of the reading thread about its source: readiness, lag, counters.

use std::sync::atomic::Ordering;

use weir_kafka::{KafkaReader, PartitionLag};

use crate::connection::KafkaConnection;
use crate::counters::UNKNOWN;

/// Copies the source's state for administration, and logs changes of readiness.
pub(super) fn report(connection: &KafkaConnection, reader: &KafkaReader<'_>) {
    let status = reader.status();
    let state = &connection.state;
    let (lag, is_known) = reader.lag();
    let records = lag.iter().filter_map(PartitionLag::records).sum();
    let records = if is_known { records } else { UNKNOWN };
    for (counter, value) in [
        (&state.lag, records),
        (&state.source_errors, status.errors),
        (&state.resets, status.resets),
        (&state.commits, status.commits),
        (&state.commit_errors, status.commit_errors),
    ] {
        counter.store(value, Ordering::Relaxed);
    }
    if status.ready != state.ready() {
        let name = &connection.config.name;
        match (status.ready, &status.problem) {
            (true, _) => tracing::info!(connection = %name, "connection became ready"),
            (false, Some(error)) => {
                tracing::warn!(connection = %name, %error, "connection became unready");
            }
            (false, None) => tracing::warn!(connection = %name, "connection became unready"),
        }
    }
    state.report(status.ready, status.problem);
}
