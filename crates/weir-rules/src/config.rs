//! The table `[cluster.access]` of `proxy.toml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use thiserror::Error;
use weir_identity::acl::{
    AclOperation, AclRule, AclSet, AddressRange, AddressRangeError, Effect, ListingError,
    NamePattern, ResourceType, UnknownWord, parse_listing,
};

use super::rules::{AccessRules, DecisionCounts};

/// Access rules that cannot be used.
#[derive(Debug, Error)]
pub enum AclConfigError {
    #[error("access.{key}: cannot read {path}: {error}")]
    Read {
        key: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("access.acls: {path}: {error}")]
    Listing { path: PathBuf, error: ListingError },
    #[error("access.rule {0}: {1}")]
    Word(usize, UnknownWord),
    #[error("access.rule {0}: {1}")]
    Address(usize, AddressRangeError),
    #[error("access.rule {0}: set at least one of {1}")]
    Missing(usize, &'static str),
    #[error("access: principal \"{0}\": write KIND:NAME, such as User:alice")]
    Principal(String),
    #[error("access: {0} rules, at most {RULES_MAX} are supported")]
    TooMany(usize),
}

/// Keys of a rule that name resources.
const RESOURCE_KEYS: &str =
    "topics, groups, transactional_ids, delegation_tokens, users or cluster";

/// Maximum number of rules of a cluster, each for one principal, operation and name.
const RULES_MAX: usize = 1_000_000;

/// Access rules as written. Without this table, the brokers alone decide.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AclConfig {
    /// `enforce`, or `dry-run` to only count and log what would be denied.
    mode: AccessMode,
    /// Principals that may do everything.
    super_users: Vec<String>,
    /// File with the output of `kafka-acls.sh --list`.
    acls: Option<PathBuf>,
    /// `auto.create.topics.enable` of the brokers, by default `true`.
    auto_create_topics: Option<bool>,
    /// Rules in addition to those of the file.
    rule: Vec<RuleConfig>,
}

/// Effect of the rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum AccessMode {
    #[default]
    Enforce,
    DryRun,
}

/// Rule as written: each principal gets or loses each operation on each resource.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct RuleConfig {
    /// `allow`, which is the default, or `deny`; rules that deny win.
    effect: RuleEffect,
    /// Principals such as `User:alice`; `User:*` is everyone.
    principals: Vec<String>,
    /// Client addresses or networks, by default all.
    addresses: Vec<String>,
    /// Operations as in Kafka, such as `read`, `describe-configs` or `all`.
    operations: Vec<String>,
    /// Topic names; `orders-*` is a prefix, `*` any name.
    topics: Vec<String>,
    /// Group ids.
    groups: Vec<String>,
    /// Transactional ids.
    transactional_ids: Vec<String>,
    /// Ids of delegation tokens.
    delegation_tokens: Vec<String>,
    /// Principals for which delegation tokens are created or described.
    users: Vec<String>,
    /// The cluster itself.
    cluster: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum RuleEffect {
    #[default]
    Allow,
    Deny,
}

impl AclConfig {
    /// Reads the file, if any, and compiles all rules. Paths are relative to `directory`.
    pub fn build(&self, directory: &Path) -> Result<AccessRules, AclConfigError> {
        let mut rules = Vec::new();
        if let Some(path) = &self.acls {
            let path = directory.join(path);
            let text = std::fs::read_to_string(&path).map_err(|error| AclConfigError::Read {
                key: "acls",
                path: path.clone(),
                error,
            })?;
            let listed = parse_listing(&text, &path.display().to_string());
            rules = listed.map_err(|error| AclConfigError::Listing { path, error })?;
        }
        for (index, rule) in self.rule.iter().enumerate() {
            rule.expand(index + 1, &mut rules)?;
        }
        if rules.len() > RULES_MAX {
            return Err(AclConfigError::TooMany(rules.len()));
        }
        let super_users = self.super_users.iter().map(|text| principal(text));
        let super_users: Vec<_> = super_users.collect::<Result<_, _>>()?;
        Ok(AccessRules {
            set: Arc::new(AclSet::new(rules, super_users)),
            is_dry_run: self.mode == AccessMode::DryRun,
            auto_create_topics: self.auto_create_topics.unwrap_or(true),
            counts: DecisionCounts::default(),
        })
    }
}

/// Checks that a principal has the form KIND:NAME.
fn principal(text: &str) -> Result<Box<str>, AclConfigError> {
    let is_valid = text.split_once(':').is_some_and(|(kind, name)| {
        kind.chars().all(|c| c.is_ascii_alphanumeric()) && !kind.is_empty() && !name.is_empty()
    });
    match is_valid {
        true => Ok(text.into()),
        false => Err(AclConfigError::Principal(text.to_owned())),
    }
}

impl RuleConfig {
    /// Returns the patterns of the names of resources.
    fn resources(&self) -> impl Iterator<Item = (ResourceType, NamePattern)> {
        let named = [
            (ResourceType::Topic, &self.topics),
            (ResourceType::Group, &self.groups),
            (ResourceType::TransactionalId, &self.transactional_ids),
            (ResourceType::DelegationToken, &self.delegation_tokens),
            (ResourceType::User, &self.users),
        ];
        let named = named.into_iter().flat_map(|(kind, names)| {
            names
                .iter()
                .map(move |name| (kind, NamePattern::from_config(name)))
        });
        let cluster = NamePattern::Literal(AclRule::CLUSTER.into());
        named.chain(self.cluster.then_some((ResourceType::Cluster, cluster)))
    }

    /// Appends one rule per combination of principal, resource, operation and address range.
    /// `number` is the position of this rule in the table, from 1.
    fn expand(&self, number: usize, rules: &mut Vec<AclRule>) -> Result<(), AclConfigError> {
        let missing = |keys| Err(AclConfigError::Missing(number, keys));
        if self.principals.is_empty() {
            return missing("principals");
        }
        if self.operations.is_empty() {
            return missing("operations");
        }
        if self.resources().next().is_none() {
            return missing(RESOURCE_KEYS);
        }
        let operations = self
            .operations
            .iter()
            .map(|word| word.parse::<AclOperation>());
        let operations = operations.collect::<Result<Vec<_>, _>>();
        let operations = operations.map_err(|error| AclConfigError::Word(number, error))?;
        let addresses = self.addresses.iter().map(|text| text.parse());
        let addresses = addresses.collect::<Result<Vec<_>, _>>();
        let mut addresses = addresses.map_err(|error| AclConfigError::Address(number, error))?;
        if addresses.is_empty() {
            addresses.push(AddressRange::Any);
        }
        let effect = match self.effect {
            RuleEffect::Allow => Effect::Allow,
            RuleEffect::Deny => Effect::Deny,
        };
        let origin: Box<str> = format!("rule {number}").into();
        for name in &self.principals {
            let name = principal(name)?;
            for (resource_type, names) in self.resources() {
                for operation in &operations {
                    rules.extend(addresses.iter().map(|addresses| AclRule {
                        principal: name.clone(),
                        addresses: *addresses,
                        operation: *operation,
                        effect,
                        resource_type,
                        names: names.clone(),
                        origin: origin.clone(),
                    }));
                }
                if rules.len() > RULES_MAX {
                    return Err(AclConfigError::TooMany(rules.len()));
                }
            }
        }
        Ok(())
    }
}
