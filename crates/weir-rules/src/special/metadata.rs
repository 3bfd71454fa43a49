//! Metadata and DescribeTopicPartitions.

use weir_identity::acl::{AclOperation, ResourceType};
use weir_wire::message::Value;

use crate::check::{CheckResult, RequestCheck};

pub(super) fn metadata(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let items = check.access.items?;
    let topics = check.field(items.array);
    // Version 0 has no null.
    if topics.is_none() || (check.version == 0 && topics.rows().is_empty()) {
        check.pending.is_about_all = true;
        return Some(CheckResult::Checked);
    }
    let mut errors = check.errors(items);
    let inner = crate::error_element::element_definition(&check.api.request, items.array)?;
    let rows = check.field(items.array).rows().iter();
    let asked = rows.map(|row| row.get(inner, items.name).as_text());
    let mut names: Vec<Box<str>> = Vec::new();
    let mut is_by_id = false;
    for (name, error) in asked.zip(&mut errors) {
        match name {
            Some(name) if error.is_none() => names.push(name.into()),
            Some(_) => {}
            // What is asked for by id is decided about when the response has its name.
            None => {
                is_by_id = true;
                *error = None;
            }
        }
    }
    check.pending.is_by_id = is_by_id;
    let _ = check.remove(items, &errors);
    check.pending.replaces_all = check.is_empty;
    forbid_creation(check, names);
    Some(CheckResult::Checked)
}

/// Keeps brokers from creating topics that the client may not create.
fn forbid_creation(check: &mut RequestCheck<'_, '_>, names: Vec<Box<str>>) {
    let is_asked = match check.field("AllowAutoTopicCreation") {
        Value::Absent => true,
        allow => allow.as_int() != 0,
    };
    let brokers_create = check.session.rules.auto_create_topics;
    if !is_asked || !brokers_create || check.session.allows_cluster(AclOperation::Create) {
        return;
    }
    let (create, topic) = (AclOperation::Create, ResourceType::Topic);
    let not_created: Vec<_> = names
        .iter()
        .filter(|name| !check.session.allows(create, topic, name))
        .cloned()
        .collect();
    if not_created.is_empty() {
        return;
    }
    let request = &check.api.request;
    if check.version >= 4 {
        check
            .row
            .set(request, "AllowAutoTopicCreation", Value::Int(0));
    } else {
        // Requests of these versions create what they name, so all topics are requested.
        let all = match check.version {
            0 => Value::Rows(Some(Vec::new())),
            _ => Value::Rows(None),
        };
        check.row.set(request, "Topics", all);
        check.pending.only = Some(names);
        check.pending.into = "Topics";
    }
    check.is_edited = true;
    check.pending.not_created = not_created;
}

pub(super) fn describe_partitions(check: &mut RequestCheck<'_, '_>) -> Option<CheckResult> {
    let is_about_all = check.field("Topics").rows().is_empty();
    check.pending.is_about_all = is_about_all;
    is_about_all.then_some(CheckResult::Checked)
}
