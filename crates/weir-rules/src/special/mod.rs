//! Checks of single APIs beyond the table.

mod configs;
mod fetch;
mod groups;
mod metadata;
mod producer;

use weir_wire::message::{MessageRow, Value};

use super::check::{CheckResult, RequestCheck};
use super::pending::ResponseChanges;

/// Checks a request. `None`: the table's check of its elements follows.
pub(super) fn check(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    match check.api.key {
        1 => fetch::fetch(check),
        3 => metadata::metadata(check),
        9 => Some(groups::offset_fetch(check)),
        10 => groups::find_coordinator(check),
        20 => Some(configs::delete_topics(check)),
        22 => producer::init(check),
        24 => producer::add_partitions(check),
        32 | 33 | 44 => Some(configs::resources(check)),
        38 => configs::create_token(check),
        68 | 76 => groups::heartbeat(check),
        75 => metadata::describe_partitions(check),
        78 | 79 => fetch::share(check),
        88 => groups::streams_heartbeat(check),
        90 => Some(groups::share_offsets(check)),
        _ => None,
    }
}

/// Completes the response to a request that is denied as a whole.
pub(super) fn complete_denied(
    check: &RequestCheck<'_, '_>,
    row: &mut MessageRow<'static>,
    error: i16,
) {
    let response = &check.api.response;
    let minus_one: &[&str] = match check.api.key {
        10 => &["NodeId", "Port"],
        22 => &["ProducerEpoch"],
        38 => &["IssueTimestampMs", "ExpiryTimestampMs", "MaxTimestampMs"],
        _ => &[],
    };
    for field in minus_one {
        row.set(response, field, Value::Int(-1));
    }
    match check.api.key {
        11 if check.version >= 7 => row.set(response, "ProtocolName", Value::Bytes(None)),
        34 => configs::denied_log_dirs(check, row, error),
        48 => row.set(response, "Entries", Value::Rows(None)),
        51 => configs::denied_users(check, row, error),
        _ => {}
    }
}

/// Returns `true` if a request without elements is forwarded, because its response has more.
pub(super) fn is_forwarded_empty(key: i16) -> bool {
    [3, 9, 47].contains(&key)
}

/// Returns `true` if the response to an unchanged request must be read.
pub(super) fn reads_response(pending: &ResponseChanges) -> bool {
    let access = pending.access;
    pending.opens_session
        || pending.is_about_all
        || pending.is_by_id
        || !access.shown.is_empty()
        || !access.bits.is_empty()
        || [19, 41, 65].contains(&access.key)
}
