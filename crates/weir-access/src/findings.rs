//! Rules that can never match, or never as intended, given the Kafka connections.

use weir_identity::config::{ItemPattern, ItemRule, TokenSource};
use weir_identity::rules::{ClaimSources, ConnectionFacts, ItemShape, rule_findings};
use weir_identity::{ItemMode, ItemModes};
use weir_mapping::{ConnectionConfig, SnapshotMode};

use crate::config::AccessConfig;

impl AccessConfig {
    /// Returns the faults of the rules, for the operator.
    pub fn findings(&self, connections: &[ConnectionConfig]) -> Vec<String> {
        let facts: Vec<_> = connections.iter().map(facts).collect();
        let sources = ClaimSources {
            tokens: !self.auth.issuers.is_empty(),
            certificates: self.auth.sources.contains(&TokenSource::Certificate),
        };
        let findings = rule_findings(&self.item_rules, &facts, sources);
        let findings = findings.iter().map(ToString::to_string);
        let filters = self.item_rules.iter().flat_map(|rule| {
            let own = connections.iter().filter(|one| concerns(rule, one));
            own.filter_map(|one| filter_fault(rule, one))
        });
        findings
            .chain(filters)
            .map(|text| format!("authorize: {text}"))
            .collect()
    }
}

/// Returns `true` if a rule names a connection, and an item that it can have.
fn concerns(rule: &ItemRule, connection: &ConnectionConfig) -> bool {
    let named = rule.connections.as_ref();
    let is_named = named.is_none_or(|names| names.iter().any(|name| **name == *connection.name));
    let has = |wanted: &str| {
        let mut shapes = connection.mapping.item_shapes();
        shapes.any(|(prefix, _)| prefix == wanted)
    };
    let mut items = rule.items.iter();
    is_named
        && items.any(|pattern| match pattern {
            ItemPattern::Any => true,
            ItemPattern::AnyParameters(prefix) | ItemPattern::Named { prefix, .. } => has(prefix),
        })
}

/// Returns why `where` of a rule selects no record of a connection.
fn filter_fault(rule: &ItemRule, connection: &ConnectionConfig) -> Option<String> {
    let expression = &rule.filter.as_ref()?.expression;
    let error = connection.mapping.check_record_filter(expression).err()?;
    let (rule, connection) = (&rule.name, &connection.name);
    Some(format!(
        "rule \"{rule}\": where selects no record of connection \"{connection}\": {error}"
    ))
}

fn facts(connection: &ConnectionConfig) -> ConnectionFacts {
    let mapping = &connection.mapping;
    let shape = |(prefix, names): (&str, Vec<&str>)| ItemShape {
        prefix: prefix.into(),
        parameters: names.into_iter().map(Into::into).collect(),
    };
    let fields = mapping.fields().map(Into::into);
    ConnectionFacts {
        name: connection.name.as_str().into(),
        items: mapping.item_shapes().map(shape).collect(),
        fields: mapping.wildcard().is_none().then(|| fields.collect()),
        modes: modes(connection),
    }
}

fn modes(connection: &ConnectionConfig) -> ItemModes {
    let only = match connection.snapshots.map(|snapshots| snapshots.mode) {
        Some(SnapshotMode::Merge) => ItemMode::Merge,
        Some(SnapshotMode::Distinct) => ItemMode::Distinct,
        Some(SnapshotMode::Command) => ItemMode::Command,
        None if connection.mapping.command_mode().is_enforced() => ItemMode::Command,
        None => return ItemModes::ALL,
    };
    [only].into_iter().collect()
}
