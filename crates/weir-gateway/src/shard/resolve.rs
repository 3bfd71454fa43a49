//! Resolves a subscription request to the items and fields of a connection.

use std::sync::Arc;

use foldhash::{HashSet, HashSetExt};
use weir_fanout::ItemName;
use weir_mapping::{
    COMMAND_FIELD, CanonicalItem, DynamicField, KEY_FIELD, SnapshotMode, split_fields, split_items,
};
use weir_net::limited;
use weir_net::log::Truncated;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::error::shortened;
use weir_tlcp::request::{Add, Mode};

use super::context::ShardContext;
use crate::admission::AdmissionLimit;
use crate::config::UnknownNames;
use crate::error::SubscriptionError;
use weir_ingest::KafkaConnection;

/// Data adapter name of a request without one.
pub(super) const DEFAULT_ADAPTER: &str = "DEFAULT";

#[derive(Debug)]
pub(super) struct ResolvedItems {
    pub(super) connection: u16,
    /// Canonical item names in the client's order; `None` if no template matches, so that updates
    /// will never come (only with [`UnknownNames::Accept`]).
    pub(super) items: Vec<Option<ItemName>>,
    /// The same names with their parts, including those that no template matches.
    pub(super) canonical: Vec<CanonicalItem>,
    /// Dynamic fields that keep their indexes until the subscription's schema has been resolved.
    pub(super) _dynamic: Vec<Arc<DynamicField>>,
}

fn refuse<T>(code: ControlCode, message: String) -> Result<T, SubscriptionError> {
    Err(SubscriptionError { code, message })
}

/// Checks a subscription request against the configuration.
pub(super) fn resolve(
    add: &Add<'_>,
    shared: &ShardContext,
) -> Result<ResolvedItems, SubscriptionError> {
    let wanted = add.data_adapter.as_deref().unwrap_or(DEFAULT_ADAPTER);
    let mut numbered = shared.connections.iter().enumerate();
    let Some((number, connection)) = numbered.find(|(_, one)| one.config.name == wanted) else {
        let message = format!("no data adapter \"{wanted}\" in this adapter set");
        return refuse(ControlCode::BAD_DATA_ADAPTER, message);
    };
    if !connection.config.enabled {
        let message = format!("Connection [{wanted}] not enabled");
        return refuse(ControlCode::REFUSED, message);
    }
    check_mode(add, connection)?;
    if let Some(selector) = add.selector.as_deref() {
        let message = format!("selectors are not supported: {selector}");
        return refuse(ControlCode::BAD_SELECTOR, message);
    }
    let fields = split_fields(&add.schema).count();
    let most = shared.limits.fields_per_subscription;
    if fields == 0 || fields > most {
        shared.admission.note(AdmissionLimit::SubscriptionFields);
        let message = format!("{fields} fields; from 1 to {most} are allowed");
        return refuse(ControlCode::BAD_SCHEMA, message);
    }
    let dynamic = use_dynamic_fields(add, connection)?;
    if shared.unknown_names == UnknownNames::Refuse {
        check_fields(add, connection)?;
    }
    let number = number as u16;
    let (items, canonical) = resolve_items(add, number, connection, shared)?;
    Ok(ResolvedItems {
        connection: number,
        items,
        canonical,
        _dynamic: dynamic,
    })
}

/// Checks the mode: COMMAND needs its two fields, and a connection with snapshots or with evaluated
/// commands allows only one mode.
fn check_mode(add: &Add<'_>, connection: &KafkaConnection) -> Result<(), SubscriptionError> {
    if let Some(mode) = only_mode(connection).filter(|mode| *mode != add.mode) {
        let name = &connection.config.name;
        let message = format!(
            "items of connection [{name}] are for mode {}",
            mode.as_str()
        );
        return refuse(ControlCode::MODE_NOT_ALLOWED, message);
    }
    if add.mode != Mode::Command {
        return Ok(());
    }
    for (field, code) in [
        (KEY_FIELD, ControlCode::NO_KEY_FIELD),
        (COMMAND_FIELD, ControlCode::NO_COMMAND_FIELD),
    ] {
        if !split_fields(&add.schema).any(|name| name == field) {
            return refuse(code, code.text().to_owned());
        }
    }
    Ok(())
}

/// Returns the mode that all subscriptions of a connection must have, if there is one.
pub(crate) fn only_mode(connection: &KafkaConnection) -> Option<Mode> {
    let config = &connection.config;
    match config.snapshots.map(|snapshots| snapshots.mode) {
        Some(SnapshotMode::Merge) => Some(Mode::Merge),
        Some(SnapshotMode::Distinct) => Some(Mode::Distinct),
        Some(SnapshotMode::Command) => Some(Mode::Command),
        None => (config.mapping.command_mode().is_enforced()).then_some(Mode::Command),
    }
}

/// Gives an index to the fields that records may have without being configured.
fn use_dynamic_fields(
    add: &Add<'_>,
    connection: &KafkaConnection,
) -> Result<Vec<Arc<DynamicField>>, SubscriptionError> {
    let mapping = &connection.config.mapping;
    let fields = mapping.use_dynamic_fields(split_fields(&add.schema));
    fields.or_else(|error| {
        let name = &connection.config.name;
        limited!(warn, "dynamic fields", connection = %name, %error, "subscription refused");
        refuse(
            ControlCode::BAD_SCHEMA,
            format!("connection [{name}]: {error}"),
        )
    })
}

/// Checks that all fields are mapped; an unmapped field would always be null.
fn check_fields(add: &Add<'_>, connection: &KafkaConnection) -> Result<(), SubscriptionError> {
    let mapping = &connection.config.mapping;
    let mut fields = split_fields(&add.schema);
    match fields.find(|field| mapping.field_index(field).is_none()) {
        None => Ok(()),
        Some(field) => {
            let (name, field) = (&connection.config.name, shortened(field));
            let message = format!("connection [{name}] has no field \"{field}\"");
            refuse(ControlCode::BAD_SCHEMA, message)
        }
    }
}

/// Item names, and the same with their parts.
type NamedItems = (Vec<Option<ItemName>>, Vec<CanonicalItem>);

fn resolve_items(
    add: &Add<'_>,
    number: u16,
    connection: &KafkaConnection,
    shared: &ShardContext,
) -> Result<NamedItems, SubscriptionError> {
    let mapping = &connection.config.mapping;
    let (mut items, mut canonical) = (Vec::new(), Vec::new());
    let mut named = HashSet::new();
    for written in split_items(&add.group) {
        let most = shared.limits.items_per_subscription;
        if items.len() == most {
            shared.admission.note(AdmissionLimit::SubscriptionItems);
            let message = format!("more than {most} items in one subscription");
            return refuse(ControlCode::BAD_GROUP, message);
        }
        let item = CanonicalItem::parse(written);
        // Each duplicate would add a line per update.
        if item
            .as_ref()
            .is_ok_and(|item| !named.insert(item.as_str().to_owned()))
        {
            let message = format!("item \"{written}\" is named twice: name each item once");
            return refuse(ControlCode::BAD_GROUP, message);
        }
        match item {
            Err(error) => return refuse(ControlCode::BAD_GROUP, error.to_string()),
            Ok(item) if mapping.admits(&item) => {
                items.push(Some((number, Arc::from(item.as_str()))));
                canonical.push(item);
            }
            Ok(item) if shared.unknown_names == UnknownNames::Accept => {
                note_unmatched(connection, &item);
                items.push(None);
                canonical.push(item);
            }
            Ok(_) => {
                let (name, written) = (&connection.config.name, shortened(written));
                let message = format!("no topic of connection [{name}] has an item \"{written}\"");
                return refuse(ControlCode::BAD_GROUP, message);
            }
        }
    }
    if items.is_empty() {
        return refuse(ControlCode::BAD_GROUP, "the item group is empty".to_owned());
    }
    Ok((items, canonical))
}

/// Logs an accepted item that no template matches, so that the operator can find out why a client
/// gets no updates.
fn note_unmatched(connection: &KafkaConnection, item: &CanonicalItem) {
    let connection = &connection.config.name;
    let item = Truncated(item.as_str());
    limited!(
        warn, "item without a template", %connection, %item, "no template matches subscribed item"
    );
}
