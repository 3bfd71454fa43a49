//! Changes responses: adds errors for what was denied, and removes what the client may not see.

use weir_identity::acl::{AclOperation, AclRule, OperationSet, ResourceType};
use weir_wire::WireError;
use weir_wire::message::{self, ApiDefinition, MessageRow, StructDefinition, Value};

use super::error_element::retain;
use super::pending::ResponseChanges;
use super::session::AccessSession;
use super::shown;
use super::table::{OperationBits, ShownItems};
use weir_filters::TopicNames;

/// Returns the changed body of a response.
pub(super) fn apply(
    mut pending: ResponseChanges,
    session: &mut AccessSession,
    names: &TopicNames,
    api: &'static ApiDefinition,
    version: i16,
    body: &[u8],
) -> Result<Vec<u8>, WireError> {
    let flexible = api.is_flexible(version);
    let definition = &api.response;
    let mut row = message::decode(definition, version, flexible, body)?;
    for items in pending.access.shown {
        show(session, items, definition, &mut row);
    }
    shown::edit(&mut pending, session, names, version, definition, &mut row);
    // A response without any elements has one error for all.
    let has_failed = row.get(definition, "ErrorCode").as_int() != 0;
    if !pending.add.is_empty() && !has_failed {
        let add = std::mem::take(&mut pending.add);
        if let Some(Value::Rows(Some(rows))) = row.get_mut(definition, pending.into) {
            rows.extend(add);
        }
    }
    for bits in pending.access.bits {
        limit_bits(session, bits, definition, &mut row);
    }
    let mut out = Vec::with_capacity(body.len());
    message::encode(&row, definition, version, flexible, &mut out);
    Ok(out)
}

/// Removes elements that the client may not see.
fn show(
    session: &mut AccessSession,
    shown: &ShownItems,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    if shown.by_cluster && session.allows_cluster(shown.operation) {
        return;
    }
    retain(definition, row, shown.array, |inner, element| {
        let name = element.get(inner, shown.name).as_text();
        name.is_some_and(|name| session.allows(shown.operation, shown.kind, name))
    });
}

/// Removes the bits of operations that are denied.
fn limit_bits(
    session: &mut AccessSession,
    bits: &OperationBits,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    if bits.array.is_empty() {
        limit(session, bits, definition, row, AclRule::CLUSTER);
        return;
    }
    retain(definition, row, bits.array, |inner, element| {
        let name = element.get(inner, bits.name).as_text().map(str::to_owned);
        let name = name.unwrap_or_default();
        limit(session, bits, inner, element, &name);
        true
    });
}

fn limit(
    session: &mut AccessSession,
    bits: &OperationBits,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
    name: &str,
) {
    let found = row.get(definition, bits.field).as_int();
    if found == NO_BITS {
        return;
    }
    // Brokers report no bits of the cluster to those who may not describe it.
    let is_hidden =
        bits.kind == ResourceType::Cluster && !session.allows_cluster(AclOperation::Describe);
    let mut allowed = OperationSet::default();
    for operation in AclOperation::ALL.iter().filter(|_| !is_hidden) {
        let is_set = found & i64::from(OperationSet::bit(*operation)) != 0;
        if is_set && session.allows(*operation, bits.kind, name) {
            allowed.insert(*operation);
        }
    }
    row.set(definition, bits.field, Value::Int(allowed.bits().into()));
}

/// Value of authorized operations that were not requested.
const NO_BITS: i64 = i32::MIN as i64;
