//! Topics by id, resources with configurations, and users.

use std::collections::BTreeSet;

use weir_identity::acl::{AclOperation, ResourceType};
use weir_wire::message::{MessageRow, Value};

use crate::check::{CheckResult, RequestCheck};
use crate::error_element::{element_definition, elements, text};
use crate::table::{
    CLUSTER_DENIED, ErrorElement, GROUP_DENIED, ItemCheck, TOKEN_DENIED, TOPIC_DENIED,
    message as error_text,
};

const DELETE_TOPICS: ItemCheck = ItemCheck {
    array: "Topics",
    name: "Name",
    kind: ResourceType::Topic,
    operation: AclOperation::Delete,
    cluster: None,
    error: TOPIC_DENIED,
    into: "Responses",
    error_element: ErrorElement {
        copy: &[("Name", "Name"), ("TopicId", "TopicId")],
        has_message: true,
        ..ErrorElement::EMPTY
    },
};

const DELETE_TOPIC_NAMES: ItemCheck = ItemCheck {
    array: "TopicNames",
    name: "",
    error_element: ErrorElement {
        copy: &[("", "Name")],
        has_message: true,
        ..ErrorElement::EMPTY
    },
    ..DELETE_TOPICS
};

/// With a right on the cluster, topics that the client may describe.
const DELETE_BY_CLUSTER: [ItemCheck; 2] = [
    ItemCheck {
        operation: AclOperation::Describe,
        ..DELETE_TOPICS
    },
    ItemCheck {
        operation: AclOperation::Describe,
        ..DELETE_TOPIC_NAMES
    },
];

pub(super) fn delete_topics(check: &mut RequestCheck<'_, '_>) -> CheckResult {
    let by_cluster = check.session.allows_cluster(AclOperation::Delete);
    let items: &'static ItemCheck = match (check.version, by_cluster) {
        (6.., false) => &DELETE_TOPICS,
        (_, false) => &DELETE_TOPIC_NAMES,
        (6.., true) => &DELETE_BY_CLUSTER[0],
        (_, true) => &DELETE_BY_CLUSTER[1],
    };
    check.items(items)
}

const RESOURCES: ItemCheck = ItemCheck {
    array: "Resources",
    name: "ResourceName",
    into: "Responses",
    error_element: ErrorElement {
        copy: &[
            ("ResourceType", "ResourceType"),
            ("ResourceName", "ResourceName"),
        ],
        has_message: true,
        ..ErrorElement::EMPTY
    },
    ..DELETE_TOPICS
};

const DESCRIBED_RESOURCES: ItemCheck = ItemCheck {
    into: "Results",
    ..RESOURCES
};

/// Checks resources whose configuration is described or changed.
pub(super) fn resources(check: &mut RequestCheck<'_, '_>) -> CheckResult {
    let (items, operation) = match check.api.key {
        DESCRIBE_CONFIGS => (&DESCRIBED_RESOURCES, AclOperation::DescribeConfigs),
        _ => (&RESOURCES, AclOperation::AlterConfigs),
    };
    let found = elements(&check.row, &check.api.request, items.array).into_iter();
    let found = found.map(|one| (one.value("ResourceType").as_int(), one.value(items.name)));
    let found: Vec<_> = found.collect();
    let errors: Vec<_> = found
        .into_iter()
        .map(|(kind, name)| {
            let name = name.as_text().unwrap_or_default();
            let (is_allowed, error) = match kind {
                TOPIC => (
                    check.allows(operation, ResourceType::Topic, name),
                    TOPIC_DENIED,
                ),
                GROUP => (
                    check.allows(operation, ResourceType::Group, name),
                    GROUP_DENIED,
                ),
                _ => (check.allows_cluster(operation), CLUSTER_DENIED),
            };
            (!is_allowed).then_some(error)
        })
        .collect();
    check.remove(items, &errors)
}

const DESCRIBE_CONFIGS: i16 = 32;
/// Types of resources with configurations; all others belong to the cluster.
const TOPIC: i64 = 2;
const GROUP: i64 = 32;

/// Checks the owner of a delegation token, if it is not the client.
pub(super) fn create_token(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let part = |field| check.field(field).as_text().unwrap_or_default().to_owned();
    let (kind, name) = (part("OwnerPrincipalType"), part("OwnerPrincipalName"));
    let owner = format!("{kind}:{name}");
    let own = check.session.subject.principals().first();
    if name.is_empty() || own.is_some_and(|own| **own == *owner) {
        return None;
    }
    let is_allowed = check.allows(AclOperation::CreateTokens, ResourceType::User, &owner);
    (!is_allowed).then_some(CheckResult::Denied(TOKEN_DENIED))
}

/// Adds the topics of all directories to a denied AlterReplicaLogDirs response.
pub(super) fn denied_log_dirs(
    check: &RequestCheck<'_, '_>,
    row: &mut MessageRow<'static>,
    error: i16,
) {
    let (request, response) = (&check.api.request, &check.api.response);
    let definitions = || {
        let dir = element_definition(request, "Dirs")?;
        let topic = element_definition(dir, "Topics")?;
        let result = element_definition(response, "Results")?;
        Some((
            dir,
            topic,
            result,
            element_definition(result, "Partitions")?,
        ))
    };
    let Some((dir, topic, result, partition)) = definitions() else {
        return;
    };
    let version = check.version;
    let dirs = check.field("Dirs").rows().iter();
    let topics = dirs.flat_map(|row| row.get(dir, "Topics").rows());
    let results = topics.map(|row| {
        let partitions = row.get(topic, "Partitions").numbers().map(|number| {
            let mut made = MessageRow::new(partition, version);
            made.set(partition, "PartitionIndex", Value::Int(number));
            made.set(partition, "ErrorCode", Value::Int(error.into()));
            made
        });
        let mut made = MessageRow::new(result, version);
        made.set(
            result,
            "TopicName",
            row.get(topic, "Name").clone().into_owned(),
        );
        made.set(
            result,
            "Partitions",
            Value::Rows(Some(partitions.collect())),
        );
        made
    });
    row.set(response, "Results", Value::Rows(Some(results.collect())));
}

/// Adds each user to a denied AlterUserScramCredentials response.
pub(super) fn denied_users(
    check: &RequestCheck<'_, '_>,
    row: &mut MessageRow<'static>,
    error: i16,
) {
    let (request, response) = (&check.api.request, &check.api.response);
    let Some(result) = element_definition(response, "Results") else {
        return;
    };
    let names = ["Deletions", "Upsertions"].into_iter().flat_map(|array| {
        let found = elements(&check.row, request, array).into_iter();
        found.filter_map(|one| Some(one.value("Name").as_text()?.to_owned()))
    });
    let names: BTreeSet<_> = names.collect();
    let results = names.iter().map(|name| {
        let mut made = MessageRow::new(result, check.version);
        made.set(result, "User", text(name));
        made.set(result, "ErrorCode", Value::Int(error.into()));
        made.set(result, "ErrorMessage", text(error_text(error)));
        made
    });
    row.set(response, "Results", Value::Rows(Some(results.collect())));
}
