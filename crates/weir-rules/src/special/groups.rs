//! Access to the offsets of groups, to coordinators, and to the topics of consumer, share and
//! Streams groups.

use weir_identity::acl::{AclOperation, ResourceType};
use weir_wire::message::{MessageRow, StructDefinition, Value};

use crate::check::{CheckResult, RequestCheck};
use crate::error_element::{Element, element_definition, elements, error_element};
use crate::table::{
    CLUSTER_DENIED, ErrorElement, GROUP_DENIED, ItemCheck, NestedErrorElement, TOPIC_DENIED,
    TRANSACTION_DENIED, UNKNOWN_TOPIC_ID,
};

/// Topics of `OffsetFetch`.
const OFFSETS: ItemCheck = ItemCheck {
    array: "Topics",
    name: "Name",
    kind: ResourceType::Topic,
    operation: AclOperation::Describe,
    cluster: None,
    error: TOPIC_DENIED,
    into: "Topics",
    error_element: ErrorElement::topic(
        &[("Name", "Name"), ("TopicId", "TopicId")],
        &NestedErrorElement {
            from: "PartitionIndexes",
            into: "Partitions",
            error_element: ErrorElement {
                copy: &[("", "PartitionIndex")],
                set: &[("CommittedOffset", -1), ("CommittedLeaderEpoch", -1)],
                ..ErrorElement::EMPTY
            },
        },
    ),
};

/// Topics of `DescribeShareGroupOffsets`.
const SHARE_OFFSETS: ItemCheck = ItemCheck {
    name: "TopicName",
    error_element: ErrorElement::topic(
        &[("TopicName", "TopicName")],
        &NestedErrorElement {
            from: "Partitions",
            into: "Partitions",
            error_element: ErrorElement {
                copy: &[("", "PartitionIndex")],
                set: &[("StartOffset", -1)],
                has_message: true,
                ..ErrorElement::EMPTY
            },
        },
    ),
    ..OFFSETS
};

/// Checks `OffsetFetch`, whose requests name several groups since version 8.
pub(super) fn offset_fetch(check: &mut RequestCheck<'_, '_>) -> CheckResult {
    if check.version >= 8 {
        return groups(check, &OFFSETS);
    }
    let group = check
        .field("GroupId")
        .as_text()
        .unwrap_or_default()
        .to_owned();
    if !check.allows(AclOperation::Describe, ResourceType::Group, &group) {
        if check.version >= 2 {
            return CheckResult::Denied(GROUP_DENIED);
        }
        // Responses of versions 0 and 1 have errors only in their partitions.
        let rows = check.error_elements(&OFFSETS, GROUP_DENIED);
        let mut row = MessageRow::new(&check.api.response, check.version);
        row.set(&check.api.response, "Topics", Value::Rows(Some(rows)));
        return CheckResult::Respond(row);
    }
    if check.field("Topics").is_none() {
        check.pending.is_about_all = true;
        return CheckResult::Checked;
    }
    check.items(&OFFSETS)
}

/// Checks `DescribeShareGroupOffsets`.
pub(super) fn share_offsets(check: &mut RequestCheck<'_, '_>) -> CheckResult {
    groups(check, &SHARE_OFFSETS)
}

/// Checks an array of groups, each with an array of topics, in which null stands for all. Removes
/// denied groups and topics from the request.
fn groups(check: &mut RequestCheck<'_, '_>, topics: &'static ItemCheck) -> CheckResult {
    let (request, response) = (&check.api.request, &check.api.response);
    let (Some(request_group), Some(response_group)) = (
        element_definition(request, "Groups"),
        element_definition(response, "Groups"),
    ) else {
        return CheckResult::Checked;
    };
    if let Some(ids) = unknown_ids(check, request_group, topics) {
        return CheckResult::LookUp(ids);
    }
    let Some(Value::Rows(Some(rows))) = check.row.get_mut(request, "Groups").map(take) else {
        return CheckResult::Checked;
    };
    let count = rows.len();
    let mut allowed = Vec::with_capacity(count);
    for mut group in rows {
        let id = group.get(request_group, "GroupId").clone().into_owned();
        let name = id.as_text().unwrap_or_default();
        if check.allows(AclOperation::Describe, ResourceType::Group, name) {
            group_topics(check, topics, (request_group, response_group), &mut group);
            allowed.push(group);
            continue;
        }
        let mut denied = MessageRow::new(response_group, check.version);
        denied.set(response_group, "GroupId", id);
        denied.set(response_group, "ErrorCode", Value::Int(GROUP_DENIED.into()));
        if check.api.key == DESCRIBE_SHARE_GROUP_OFFSETS {
            let text = crate::table::message(GROUP_DENIED);
            denied.set(
                response_group,
                "ErrorMessage",
                crate::error_element::text(text),
            );
        }
        check.pending.add.push(denied);
        check.pending.into = "Groups";
        check.is_edited = true;
    }
    check.is_empty = allowed.is_empty() && count > 0;
    check.row.set(request, "Groups", Value::Absent);
    if let Some(at) = request.position("Groups") {
        check.row.values[at] = Value::Rows(Some(allowed));
    }
    CheckResult::Checked
}

/// Takes the value and replaces it by a null array.
fn take<'a>(value: &mut Value<'a>) -> Value<'a> {
    std::mem::replace(value, Value::Rows(None))
}

/// Removes the denied topics of one group from the request, and adds their errors to the response.
fn group_topics(
    check: &mut RequestCheck<'_, '_>,
    topics: &'static ItemCheck,
    (request_group, response_group): (&'static StructDefinition, &'static StructDefinition),
    group: &mut MessageRow<'_>,
) {
    let (Some(request_topic), Some(response_topic)) = (
        element_definition(request_group, topics.array),
        element_definition(response_group, topics.into),
    ) else {
        return;
    };
    let id = group.get(request_group, "GroupId").clone().into_owned();
    let version = check.version;
    match group.get_mut(request_group, topics.array) {
        Some(Value::Rows(Some(rows))) => {
            let mut denied = Vec::new();
            rows.retain(|topic| {
                let element = Element::Row(topic, request_topic);
                let error = match check.name_of(element, topics) {
                    Some(name) if check.allows(topics.operation, topics.kind, &name) => {
                        return true;
                    }
                    Some(_) => TOPIC_DENIED,
                    None => UNKNOWN_TOPIC_ID,
                };
                denied.push(error_element(
                    &topics.error_element,
                    element,
                    response_topic,
                    version,
                    error,
                ));
                false
            });
            if !denied.is_empty() {
                check.is_edited = true;
                check.pending.into_groups.push((id, denied));
            }
        }
        _ => check.pending.is_about_all = true,
    }
}

/// Returns the topic ids of all groups whose names are neither known nor requested yet; `None` if
/// there are none.
fn unknown_ids(
    check: &RequestCheck<'_, '_>,
    group: &'static StructDefinition,
    topics: &ItemCheck,
) -> Option<Vec<u128>> {
    let mut ids = Vec::new();
    for row in check
        .field("Groups")
        .rows()
        .iter()
        .filter(|_| !check.names_requested)
    {
        let found = elements(row, group, topics.array).into_iter();
        ids.extend(found.filter_map(|topic| match topic.value("TopicId") {
            Value::Uuid(id) => Some(id),
            _ => None,
        }));
    }
    check.names.retain_unknown(&mut ids);
    (!ids.is_empty()).then_some(ids)
}

const DESCRIBE_SHARE_GROUP_OFFSETS: i16 = 90;

const COORDINATOR_OF_GROUP: ItemCheck = ItemCheck {
    array: "CoordinatorKeys",
    name: "",
    kind: ResourceType::Group,
    operation: AclOperation::Describe,
    cluster: None,
    error: GROUP_DENIED,
    into: "Coordinators",
    error_element: ErrorElement {
        copy: &[("", "Key")],
        set: &[("NodeId", -1), ("Port", -1)],
        has_message: true,
        ..ErrorElement::EMPTY
    },
};

const COORDINATOR_OF_TRANSACTION: ItemCheck = ItemCheck {
    kind: ResourceType::TransactionalId,
    error: TRANSACTION_DENIED,
    ..COORDINATOR_OF_GROUP
};

/// Checks `FindCoordinator`, whose requests have several keys since version 4.
pub(super) fn find_coordinator(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let items = match check.field("KeyType").as_int() {
        0 => &COORDINATOR_OF_GROUP,
        1 => &COORDINATOR_OF_TRANSACTION,
        // Share coordinators, which brokers reject before version 6.
        _ if check.version < 6 => return Some(CheckResult::Checked),
        _ if check.allows_cluster(AclOperation::ClusterAction) => {
            return Some(CheckResult::Checked);
        }
        _ => {
            let count = check.field("CoordinatorKeys").texts().len();
            let errors = vec![Some(CLUSTER_DENIED); count];
            return Some(check.remove(&COORDINATOR_OF_GROUP, &errors));
        }
    };
    if check.version >= 4 {
        return Some(check.items(items));
    }
    let key = check.field("Key").as_text().unwrap_or_default().to_owned();
    Some(match check.allows(items.operation, items.kind, &key) {
        true => CheckResult::Checked,
        false => CheckResult::Denied(items.error),
    })
}

/// Checks the topics to which a member of a consumer or share group subscribes.
pub(super) fn heartbeat(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let names = texts(check.field("SubscribedTopicNames"));
    denied_topics(check, AclOperation::Describe, &names)
}

/// Checks the topics in the topology of a Kafka Streams application.
pub(super) fn streams_heartbeat(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let request = &check.api.request;
    let at = request.position("Topology")?;
    let topology = request.fields[at].structure()?;
    let Value::Row(Some(row)) = &check.row.values[at] else {
        return None;
    };
    let inner = element_definition(topology, "Subtopologies")?;
    let mut sources = Vec::new();
    let mut internal = Vec::new();
    let mut has_regex = false;
    for subtopology in row.get(topology, "Subtopologies").rows() {
        has_regex |= !subtopology
            .get(inner, "SourceTopicRegex")
            .texts()
            .is_empty();
        sources.extend(texts(subtopology.get(inner, "SourceTopics")));
        sources.extend(texts(subtopology.get(inner, "RepartitionSinkTopics")));
        for array in ["StateChangelogTopics", "RepartitionSourceTopics"] {
            let topic = element_definition(inner, array)?;
            let rows = subtopology.get(inner, array).rows().iter();
            internal.extend(rows.map(|row| name_text(row.get(topic, "Name"))));
        }
    }
    let (describe, topic) = (AclOperation::Describe, ResourceType::Topic);
    if has_regex && !check.session.subject.allows_all(describe, topic) {
        return Some(CheckResult::Denied(TOPIC_DENIED));
    }
    sources.extend(internal.iter().cloned());
    if let Some(denied) = denied_topics(check, describe, &sources) {
        return Some(denied);
    }
    // Brokers create internal topics on behalf of the client.
    match check.session.allows_cluster(AclOperation::Create) {
        true => None,
        false => denied_topics(check, AclOperation::Create, &internal),
    }
}

fn texts(value: &Value<'_>) -> Vec<String> {
    let texts = value.texts().iter();
    texts
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

fn name_text(value: &Value<'_>) -> String {
    value.as_text().unwrap_or_default().to_owned()
}

/// Returns an error if the operation is denied on one of the topics.
fn denied_topics(
    check: &mut RequestCheck<'_, '_>,
    operation: AclOperation,
    names: &[String],
) -> Option<CheckResult> {
    let mut names = names.iter();
    let is_allowed = names.all(|name| check.allows(operation, ResourceType::Topic, name));
    (!is_allowed).then_some(CheckResult::Denied(TOPIC_DENIED))
}
