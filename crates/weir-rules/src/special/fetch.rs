//! Fetch and share requests with their sessions.
//!
//! A broker checks all topics of a session with each request; here they are checked when they are
//! added. So a session is used only if it was opened on this connection under the current rules and
//! with rights on all its topics.

use weir_identity::acl::AclOperation;
use weir_wire::message::Value;

use crate::check::{CheckResult, RequestCheck};
use crate::table::{FETCH_SESSION_NOT_FOUND, SHARE_SESSION_NOT_FOUND, TOPIC_DENIED};

pub(super) fn fetch(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let items = check.access.items?;
    if is_follower(check) {
        if check.allows_cluster(AclOperation::ClusterAction) {
            return Some(CheckResult::Checked);
        }
        let count = check.field(items.array).rows().len();
        return Some(check.remove(items, &vec![Some(TOPIC_DENIED); count]));
    }
    let epoch = check.field("SessionEpoch").clone().into_owned();
    let id = check.field("SessionId").as_int();
    if epoch.as_int() > 0 && check.session.fetch_session.map(i64::from) != Some(id) {
        return Some(CheckResult::Denied(FETCH_SESSION_NOT_FOUND));
    }
    let result = check.items(items);
    if !matches!(result, CheckResult::Checked) {
        return Some(result);
    }
    match epoch {
        Value::Int(0) if check.is_edited => {
            // Without a session, the client names all topics each time.
            let request = &check.api.request;
            check.row.set(request, "SessionEpoch", Value::Int(-1));
            check.session.fetch_session = None;
        }
        Value::Int(0) => {
            check.session.fetch_session = None;
            check.pending.opens_session = true;
        }
        Value::Int(1..) if check.is_edited => {
            check.session.fetch_session = None;
            return Some(CheckResult::Denied(FETCH_SESSION_NOT_FOUND));
        }
        _ => {}
    }
    Some(CheckResult::Checked)
}

fn is_follower(check: &RequestCheck<'_, '_>) -> bool {
    let replica = match check.field("ReplicaState") {
        Value::Row(Some(row)) => row.values.first().map_or(-1, Value::as_int),
        _ => -1,
    };
    let old = check.field("ReplicaId");
    replica >= 0 || (*old != Value::Absent && old.as_int() >= 0)
}

pub(super) fn share(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let items = check.access.items?;
    let bytes = |field| match check.field(field) {
        Value::Bytes(Some(bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    };
    let (group, member) = (bytes("GroupId"), bytes("MemberId"));
    let epoch = check.field("ShareSessionEpoch").as_int();
    if epoch > 0 && !check.session.has_share_session(&group, &member) {
        return Some(CheckResult::Denied(SHARE_SESSION_NOT_FOUND));
    }
    let result = check.items(items);
    if epoch == 0 && matches!(result, CheckResult::Checked) && !check.is_empty {
        check.session.open_share_session(&group, &member);
    }
    // Brokers need the epoch of a session even if no topic is left.
    check.is_empty = check.is_empty && epoch == 0;
    Some(result)
}
