//! Access rules of a cluster, compiled for look-ups by principal and resource.

use core::net::IpAddr;
use std::collections::{HashMap, HashSet};

use super::operation::{AclOperation, OperationSet, ResourceType};
use super::prefixes::PrefixTable;
use super::rule::{AclRule, Effect, NamePattern};

/// Decision about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclDecision<'a> {
    /// The principal is a super user.
    SuperUser,
    /// This rule allows.
    Allowed(&'a AclRule),
    /// This rule denies.
    Denied(&'a AclRule),
    /// No rule matches, so the request is denied.
    NoRule,
}

impl AclDecision<'_> {
    /// Returns `true` if the request is allowed.
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::SuperUser | Self::Allowed(_))
    }
}

/// Rules of a cluster. A check costs a few look-ups, whatever the number of rules.
#[derive(Debug, Default)]
pub struct AclSet {
    rules: Vec<AclRule>,
    super_users: HashSet<Box<str>>,
    by_principal: HashMap<Box<str>, PrincipalRules>,
}

/// Rules of one principal, by resource type.
type PrincipalRules = HashMap<ResourceType, TypeRules>;

/// Rules of one principal for one resource type, by name pattern.
#[derive(Debug)]
struct TypeRules {
    any: Vec<CompiledRule>,
    literals: HashMap<Box<str>, Vec<CompiledRule>>,
    prefixes: PrefixTable<Vec<CompiledRule>>,
}

#[derive(Debug, Clone, Copy)]
struct CompiledRule {
    /// Position in [`AclSet::rules`].
    index: usize,
    /// Operations to which the rule applies.
    covers: OperationSet,
}

impl AclSet {
    /// Compiles rules.
    pub fn new(rules: Vec<AclRule>, super_users: impl IntoIterator<Item = Box<str>>) -> Self {
        let mut grouped: HashMap<_, HashMap<_, Vec<usize>>> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            let of_principal = grouped.entry(rule.principal.clone()).or_default();
            let of_type = of_principal.entry(rule.resource_type);
            of_type.or_default().push(index);
        }
        let compiled = grouped.into_iter().map(|(principal, types)| {
            let types = types.into_iter();
            let types = types.map(|(kind, indexes)| (kind, TypeRules::new(&rules, &indexes)));
            (principal, types.collect())
        });
        Self {
            by_principal: compiled.collect(),
            super_users: super_users.into_iter().collect(),
            rules,
        }
    }

    /// Returns the rules in their order.
    pub fn rules(&self) -> &[AclRule] {
        &self.rules
    }

    /// Returns `true` if one of the principals is a super user.
    pub fn is_super_user(&self, principals: &[Box<str>]) -> bool {
        principals.iter().any(|one| self.super_users.contains(one))
    }

    /// Decides about an operation on a resource.
    pub fn decide(
        &self,
        principals: &[Box<str>],
        address: IpAddr,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> AclDecision<'_> {
        if self.is_super_user(principals) {
            return AclDecision::SuperUser;
        }
        let mut decision = AclDecision::NoRule;
        for rules in self.rules_for(principals, resource_type) {
            for compiled in rules.matching(name) {
                let rule = &self.rules[compiled.index];
                if !compiled.covers.contains(operation) || !rule.addresses.contains(address) {
                    continue;
                }
                match rule.effect {
                    Effect::Deny => return AclDecision::Denied(rule),
                    Effect::Allow if decision == AclDecision::NoRule => {
                        decision = AclDecision::Allowed(rule);
                    }
                    Effect::Allow => {}
                }
            }
        }
        decision
    }

    /// Decides if there may be a resource of a type on which an operation is allowed, like Kafka's
    /// `authorizeByResourceType`: only rules for the operation itself or for all operations count.
    pub fn decide_by_resource_type(
        &self,
        principals: &[Box<str>],
        address: IpAddr,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> AclDecision<'_> {
        if self.is_super_user(principals) {
            return AclDecision::SuperUser;
        }
        let relevant = || {
            self.rules_for(principals, resource_type)
                .flat_map(TypeRules::all)
                .map(|compiled| &self.rules[compiled.index])
                .filter(|rule| rule.addresses.contains(address))
                .filter(|rule| [operation, AclOperation::All].contains(&rule.operation))
        };
        let denying = || relevant().filter(|rule| rule.effect == Effect::Deny);
        let deny_all = denying().find(|rule| rule.names == NamePattern::Any);
        if let Some(rule) = deny_all {
            return AclDecision::Denied(rule);
        }
        let is_effective = |rule: &&AclRule| {
            match &rule.names {
            NamePattern::Any => true,
            NamePattern::Literal(name) => !denying().any(|other| other.names.contains(name)),
            NamePattern::Prefix(prefix) => !denying().any(|other| {
                matches!(&other.names, NamePattern::Prefix(theirs) if prefix.starts_with(&**theirs))
            }),
        }
        };
        let mut allowing = relevant().filter(|rule| rule.effect == Effect::Allow);
        allowing
            .find(is_effective)
            .map_or(AclDecision::NoRule, AclDecision::Allowed)
    }

    /// Returns `true` if an operation is allowed on all resources of a type.
    pub fn allows_all(
        &self,
        principals: &[Box<str>],
        address: IpAddr,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool {
        if self.is_super_user(principals) {
            return true;
        }
        let mut allowed = false;
        for rules in self.rules_for(principals, resource_type) {
            for compiled in rules.all() {
                let rule = &self.rules[compiled.index];
                if !compiled.covers.contains(operation) || !rule.addresses.contains(address) {
                    continue;
                }
                match rule.effect {
                    Effect::Deny => return false,
                    Effect::Allow => allowed |= rule.names == NamePattern::Any,
                }
            }
        }
        allowed
    }

    /// Returns the rules for a resource type, of these principals and of everyone.
    fn rules_for(
        &self,
        principals: &[Box<str>],
        resource_type: ResourceType,
    ) -> impl Iterator<Item = &TypeRules> {
        let principals = principals.iter().map(|one| &**one);
        let all = principals.chain([AclRule::ANYONE]);
        all.filter_map(move |one| self.by_principal.get(one)?.get(&resource_type))
    }
}

impl TypeRules {
    fn new(rules: &[AclRule], indexes: &[usize]) -> Self {
        let mut any = Vec::new();
        let mut literals: HashMap<_, Vec<_>> = HashMap::new();
        let mut prefixes: HashMap<_, Vec<_>> = HashMap::new();
        for &index in indexes {
            let rule = &rules[index];
            let allows = rule.effect == Effect::Allow;
            let compiled = CompiledRule {
                index,
                covers: rule.operation.implied_operations(allows),
            };
            match &rule.names {
                NamePattern::Any => any.push(compiled),
                NamePattern::Literal(name) => {
                    literals.entry(name.clone()).or_default().push(compiled);
                }
                NamePattern::Prefix(prefix) => {
                    prefixes.entry(prefix.clone()).or_default().push(compiled);
                }
            }
        }
        Self {
            any,
            literals,
            prefixes: PrefixTable::new(prefixes.into_iter().collect()),
        }
    }

    fn matching(&self, name: &str) -> impl Iterator<Item = &CompiledRule> {
        let literals = self.literals.get(name).into_iter().flatten();
        let prefixes = self.prefixes.of(name).flatten();
        literals.chain(prefixes).chain(&self.any)
    }

    fn all(&self) -> impl Iterator<Item = &CompiledRule> {
        let literals = self.literals.values().flatten();
        let prefixes = self.prefixes.values().flatten();
        self.any.iter().chain(literals).chain(prefixes)
    }
}
