//! Edits of responses of single APIs: elements that the client may not see, and errors that the
//! table of APIs does not cover.

use std::collections::HashSet;

use weir_identity::acl::{AclOperation, ResourceType};
use weir_wire::message::{MessageRow, StructDefinition, Value};

use super::error_element::{element_definition, retain, text};
use super::pending::ResponseChanges;
use super::session::AccessSession;
use super::table::TOPIC_DENIED;
use weir_filters::TopicNames;

/// Removes elements that the client may not see, and sets errors in nested elements.
pub(super) fn edit(
    pending: &mut ResponseChanges,
    session: &mut AccessSession,
    names: &TopicNames,
    version: i16,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    // By API key.
    match pending.access.key {
        // Metadata
        3 => metadata(pending, session, version, definition, row),
        // OffsetFetch
        9 if version < 8 => offsets(pending, session, names, definition, row),
        // OffsetFetch, DescribeShareGroupOffsets
        9 | 90 => retain(definition, row, "Groups", |inner, group| {
            offsets(pending, session, names, inner, group);
            add_topics(pending, inner, group);
            true
        }),
        // CreateTopics
        19 => created_topics(session, definition, row),
        // DescribeDelegationToken
        41 => tokens(session, definition, row),
        // DescribeTransactions
        65 => retain(definition, row, "TransactionStates", |inner, state| {
            retain(inner, state, "Topics", |topic, row| {
                may_describe(session, row.get(topic, "Topic"))
            });
            true
        }),
        // ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe
        69 | 77 | 89 => retain(definition, row, "Groups", |inner, group| {
            hide_group(session, inner, group);
            true
        }),
        // DescribeTopicPartitions
        75 => retain(definition, row, "Topics", |inner, topic| {
            !pending.is_about_all || may_describe(session, topic.get(inner, "Name"))
        }),
        _ => {}
    }
}

fn may_describe(session: &mut AccessSession, name: &Value<'_>) -> bool {
    let name = name.as_text();
    name.is_some_and(|name| session.allows(AclOperation::Describe, ResourceType::Topic, name))
}

fn metadata(
    pending: &mut ResponseChanges,
    session: &mut AccessSession,
    version: i16,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    let only = pending.only.take();
    let mut seen = HashSet::new();
    let replaces_all = pending.replaces_all;
    retain(definition, row, "Topics", |inner, topic| {
        let name = topic.get(inner, "Name").as_text().map(str::to_owned);
        let Some(name) = name else {
            // The broker does not know the topic id either.
            return !replaces_all;
        };
        let is_wanted = only
            .as_ref()
            .is_none_or(|only| only.iter().any(|one| **one == *name));
        if replaces_all || !is_wanted {
            return false;
        }
        if !may_describe(session, topic.get(inner, "Name")) {
            let id = topic.get(inner, "TopicId").clone();
            if !pending.is_by_id {
                return false;
            }
            *topic = MessageRow::new(inner, version);
            topic.set(inner, "ErrorCode", Value::Int(TOPIC_DENIED.into()));
            topic.set(inner, "Name", Value::Bytes(None));
            topic.set(inner, "TopicId", id);
            return true;
        }
        let is_missing = topic.get(inner, "ErrorCode").as_int() == UNKNOWN_TOPIC;
        if is_missing && pending.not_created.iter().any(|one| **one == *name) {
            topic.set(inner, "ErrorCode", Value::Int(TOPIC_DENIED.into()));
        }
        seen.insert(name);
        true
    });
    let inner = element_definition(definition, "Topics");
    let (Some(only), Some(inner)) = (only, inner) else {
        return;
    };
    for name in only.iter().filter(|name| !seen.contains(&***name)) {
        let mut missing = MessageRow::new(inner, version);
        let is_denied = pending.not_created.contains(name);
        let error = if is_denied {
            TOPIC_DENIED.into()
        } else {
            UNKNOWN_TOPIC
        };
        missing.set(inner, "ErrorCode", Value::Int(error));
        missing.set(inner, "Name", text(name));
        pending.add.push(missing);
    }
}

const UNKNOWN_TOPIC: i64 = 3;

/// Removes topics that the client may not describe, if the request was for the offsets of all
/// topics.
fn offsets(
    pending: &ResponseChanges,
    session: &mut AccessSession,
    names: &TopicNames,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    if !pending.is_about_all {
        return;
    }
    retain(definition, row, "Topics", |inner, topic| {
        let name = ["Name", "TopicName"].map(|field| topic.get(inner, field).clone());
        let [name, other] = name;
        match (&name, &other, topic.get(inner, "TopicId")) {
            (Value::Absent, Value::Absent, id) => names
                .name(id.as_uuid())
                .is_some_and(|name| may_describe(session, &text(&name))),
            (Value::Absent, other, _) => may_describe(session, other),
            (name, ..) => may_describe(session, name),
        }
    });
}

/// Adds the denied topics of a group.
fn add_topics(
    pending: &mut ResponseChanges,
    definition: &'static StructDefinition,
    group: &mut MessageRow<'_>,
) {
    let id = group.get(definition, "GroupId").clone().into_owned();
    let Some(at) = pending.into_groups.iter().position(|(one, _)| *one == id) else {
        return;
    };
    let (_, rows) = pending.into_groups.swap_remove(at);
    if group.get(definition, "ErrorCode").as_int() != 0 {
        return;
    }
    if let Some(Value::Rows(Some(topics))) = group.get_mut(definition, "Topics") {
        topics.extend(rows);
    }
}

/// Hides the configuration of new topics that the client may not describe.
fn created_topics(
    session: &mut AccessSession,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    retain(definition, row, "Topics", |inner, topic| {
        let name = topic.get(inner, "Name").as_text().unwrap_or_default();
        let (operation, kind) = (AclOperation::DescribeConfigs, ResourceType::Topic);
        let is_created = topic.get(inner, "ErrorCode").as_int() == 0;
        if is_created && !session.allows(operation, kind, name) {
            topic.set(
                inner,
                "TopicConfigErrorCode",
                Value::Int(TOPIC_DENIED.into()),
            );
            topic.set(inner, "NumPartitions", Value::Int(-1));
            topic.set(inner, "ReplicationFactor", Value::Int(-1));
            topic.set(inner, "Configs", Value::Rows(Some(Vec::new())));
        }
        true
    });
}

/// Removes delegation tokens that the client neither owns nor may describe.
fn tokens(
    session: &mut AccessSession,
    definition: &'static StructDefinition,
    row: &mut MessageRow<'_>,
) {
    let own = session
        .subject
        .principals()
        .first()
        .cloned()
        .unwrap_or_default();
    retain(definition, row, "Tokens", |inner, token| {
        let part = |row: &MessageRow<'_>, of, field| {
            row.get(of, field).as_text().unwrap_or_default().to_owned()
        };
        let owner = format!(
            "{}:{}",
            part(token, inner, "PrincipalType"),
            part(token, inner, "PrincipalName")
        );
        let id = part(token, inner, "TokenId");
        *owner == *own
            || session.allows(AclOperation::Describe, ResourceType::DelegationToken, &id)
            || session.allows(AclOperation::DescribeTokens, ResourceType::User, &owner)
    });
}

/// Hides the members of a group that has topics which the client may not describe.
fn hide_group(
    session: &mut AccessSession,
    definition: &'static StructDefinition,
    group: &mut MessageRow<'_>,
) {
    let mut topics = Vec::new();
    collect_topics(definition, group, &mut topics);
    let mut topics = topics.iter();
    let is_shown =
        topics.all(|name| session.allows(AclOperation::Describe, ResourceType::Topic, name));
    if is_shown {
        return;
    }
    group.set(definition, "ErrorCode", Value::Int(TOPIC_DENIED.into()));
    group.set(definition, "ErrorMessage", text(HIDDEN_GROUP));
    group.set(definition, "Members", Value::Rows(Some(Vec::new())));
    group.set(definition, "Topology", Value::Row(None));
}

const HIDDEN_GROUP: &str =
    "The group has described topic(s) that the client is not authorized to describe.";

/// Collects the names of topics in all parts of a description.
fn collect_topics(definition: &StructDefinition, row: &MessageRow<'_>, topics: &mut Vec<String>) {
    for (field, value) in definition.fields.iter().zip(&row.values) {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match (field.name, value, field.structure()) {
            ("TopicName", Value::Bytes(Some(name)), _) => topics.push(lossy(name)),
            ("SourceTopics" | "RepartitionSinkTopics", Value::Texts(_), _) => {
                topics.extend(value.texts().iter().map(|name| lossy(name)));
            }
            ("StateChangelogTopics" | "RepartitionSourceTopics", _, Some(inner)) => {
                let names = value.rows().iter().map(|row| row.get(inner, "Name"));
                topics.extend(names.filter_map(|name| Some(name.as_text()?.to_owned())));
            }
            (_, Value::Rows(_), Some(inner)) => {
                value
                    .rows()
                    .iter()
                    .for_each(|row| collect_topics(inner, row, topics));
            }
            (_, Value::Row(Some(row)), Some(inner)) => collect_topics(inner, row, topics),
            _ => {}
        }
    }
}
