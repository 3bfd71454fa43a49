//! Rules that can never match, or never as intended, given the Kafka connections.

use weir_identity::rules::{ConnectionFacts, ItemShape, rule_findings};
use weir_identity::{ItemMode, ItemModes};
use weir_mapping::{ConnectionConfig, SnapshotMode};

use crate::config::AccessConfig;

impl AccessConfig {
    /// Returns the faults of the rules, for the operator.
    pub fn findings(&self, connections: &[ConnectionConfig]) -> Vec<String> {
        let facts: Vec<_> = connections.iter().map(facts).collect();
        let has_claims = !self.auth.issuers.is_empty();
        let findings = rule_findings(&self.item_rules, &facts, has_claims);
        let findings = findings
            .iter()
            .map(|finding| format!("authorize: {finding}"));
        findings.collect()
    }
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
