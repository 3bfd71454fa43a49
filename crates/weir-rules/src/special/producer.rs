//! InitProducerId and AddPartitionsToTxn.

use weir_identity::acl::{AclOperation, AclRule, ResourceType};
use weir_wire::message::{MessageRow, Value};

use crate::check::{CheckResult, RequestCheck};
use crate::error_element::{element_definition, elements, error_element};
use crate::table::{CLUSTER_DENIED, NOT_ATTEMPTED, TRANSACTION_DENIED};

pub(super) fn init(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let id = check.field("TransactionalId");
    if !id.is_none() {
        let id = id.as_text().unwrap_or_default().to_owned();
        let is_two_phase = check.field("Enable2Pc").as_int() != 0;
        let kind = ResourceType::TransactionalId;
        let is_allowed = !is_two_phase || check.allows(AclOperation::TwoPhaseCommit, kind, &id);
        return (!is_allowed).then_some(CheckResult::Denied(TRANSACTION_DENIED));
    }
    let (write, topic) = (AclOperation::Write, ResourceType::Topic);
    let subject = &check.session.subject;
    let is_allowed = subject
        .decide(
            AclOperation::IdempotentWrite,
            ResourceType::Cluster,
            AclRule::CLUSTER,
        )
        .is_allowed()
        || subject.decide_by_resource_type(write, topic).is_allowed();
    if !is_allowed {
        check.allows_cluster(AclOperation::IdempotentWrite);
        return Some(CheckResult::Denied(CLUSTER_DENIED));
    }
    None
}

/// Adds all partitions or none.
pub(super) fn add_partitions(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    if check.version >= 4 {
        // Requests between brokers.
        let is_allowed = check.allows_cluster(AclOperation::ClusterAction);
        return Some(match is_allowed {
            true => CheckResult::Checked,
            false => CheckResult::Denied(CLUSTER_DENIED),
        });
    }
    let items = check.access.items?;
    let id = check.field("V3AndBelowTransactionalId");
    let id = id.as_text().unwrap_or_default().to_owned();
    let kind = ResourceType::TransactionalId;
    let errors = match check.allows(AclOperation::Write, kind, &id) {
        true => check.errors(items),
        false => vec![Some(TRANSACTION_DENIED); check.field(items.array).rows().len()],
    };
    if errors.iter().all(Option::is_none) {
        return Some(CheckResult::Checked);
    }
    let response = &check.api.response;
    let inner = element_definition(response, items.into)?;
    let topics = elements(&check.row, &check.api.request, items.array);
    let rows = topics.into_iter().zip(errors).map(|(topic, error)| {
        let error = error.unwrap_or(NOT_ATTEMPTED);
        error_element(&items.error_element, topic, inner, check.version, error)
    });
    let rows = rows.collect();
    let mut row = MessageRow::new(response, check.version);
    row.set(response, items.into, Value::Rows(Some(rows)));
    Some(CheckResult::Respond(row))
}
