//! Rules that can never match, or never as intended.

use thiserror::Error;
use weir_mapping::nearest;

use crate::claims::ClaimPath;
use crate::config::{Condition, ItemPattern, ItemRule, RuleEffect, ValuePattern};
use crate::modes::{ItemMode, ItemModes};

/// Items that a Kafka connection may have: a plain name, or a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemShape {
    /// Prefix.
    pub prefix: Box<str>,
    /// Parameter names, sorted; none for a plain name.
    pub parameters: Vec<Box<str>>,
}

/// Names in a Kafka connection that rules may refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// Name.
    pub name: Box<str>,
    /// Items.
    pub items: Vec<ItemShape>,
    /// Field names; `None` if records may have others.
    pub fields: Option<Vec<Box<str>>>,
    /// Modes that its items allow.
    pub modes: ItemModes,
}

/// A fault in rules that parse.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum RuleFinding {
    #[error(
        "rule \"{rule}\": there is no connection \"{connection}\"{}",
        hint(nearest)
    )]
    Connection {
        rule: Box<str>,
        connection: Box<str>,
        nearest: Option<Box<str>>,
    },
    #[error("rule \"{rule}\": no item can match \"{pattern}\"{}", hint(nearest))]
    NoItem {
        rule: Box<str>,
        pattern: String,
        nearest: Option<Box<str>>,
    },
    #[error("rule \"{rule}\": \"{pattern}\" must name the parameters {}", .expected.join(", "))]
    Parameters {
        rule: Box<str>,
        pattern: String,
        expected: Vec<Box<str>>,
    },
    #[error("rule \"{rule}\" never applies: rule \"{by}\" covers all that it does")]
    Shadowed { rule: Box<str>, by: Box<str> },
    #[error("rule \"{rule}\": its connections do not allow mode {}", mode.as_str())]
    Mode { rule: Box<str>, mode: ItemMode },
    #[error(
        "rule \"{rule}\": its connections have no field \"{field}\"{}",
        hint(nearest)
    )]
    Field {
        rule: Box<str>,
        field: Box<str>,
        nearest: Option<Box<str>>,
    },
    #[error("rule \"{rule}\": mode COMMAND needs the fields \"key\" and \"command\"")]
    CommandFields { rule: Box<str> },
    #[error("rule \"{rule}\": in mode COMMAND, where may use KEY only; leave the mode out")]
    CommandFilter { rule: Box<str> },
    #[error("rule \"{rule}\" uses claims, but there is no [auth] with an issuer")]
    NoClaims { rule: Box<str> },
    #[error(
        "rule \"{rule}\" uses claims.tls of certificates, but auth.sources has no \"certificate\""
    )]
    NoCertificates { rule: Box<str> },
}

/// Claims that clients can have, in addition to `weir.auth` and `weir.user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimSources {
    /// Those of tokens.
    pub tokens: bool,
    /// Those of certificates.
    pub certificates: bool,
}

fn hint(nearest: &Option<Box<str>>) -> String {
    let nearest = nearest.as_ref();
    nearest.map_or_else(String::new, |name| format!("; the nearest is \"{name}\""))
}

/// Returns the faults of rules.
pub fn rule_findings(
    rules: &[ItemRule],
    connections: &[ConnectionFacts],
    sources: ClaimSources,
) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        check_connections(rule, connections, &mut findings);
        let named = |one: &&ConnectionFacts| {
            let own = rule.connections.as_ref();
            own.is_none_or(|names| names.contains(&one.name))
        };
        let own: Vec<_> = connections.iter().filter(named).collect();
        if !own.is_empty() {
            for pattern in &rule.items {
                findings.extend(check_pattern(rule, pattern, &own));
            }
            check_modes(rule, &own, &mut findings);
            check_fields(rule, &own, &mut findings);
        }
        let name = || rule.name.clone();
        if !sources.tokens && uses_claims(rule, |group| !matches!(group, "weir" | "tls")) {
            findings.push(RuleFinding::NoClaims { rule: name() });
        }
        if !sources.certificates && uses_claims(rule, |group| group == "tls") {
            findings.push(RuleFinding::NoCertificates { rule: name() });
        }
        let mut others = rules.iter().enumerate();
        let by = others.find(|(other, by)| match (by.effect, rule.effect) {
            (RuleEffect::Deny, RuleEffect::Allow) => covers(by, rule),
            // What is denied is denied, whatever an earlier rule allows.
            (RuleEffect::Allow, RuleEffect::Deny) => false,
            _ => *other < index && covers(by, rule),
        });
        findings.extend(by.map(|(_, by)| RuleFinding::Shadowed {
            rule: rule.name.clone(),
            by: by.name.clone(),
        }));
    }
    findings
}

fn check_connections(
    rule: &ItemRule,
    connections: &[ConnectionFacts],
    findings: &mut Vec<RuleFinding>,
) {
    for name in rule.connections.iter().flatten() {
        if !connections.iter().any(|one| one.name == *name) {
            let names = connections.iter().map(|one| &*one.name);
            findings.push(RuleFinding::Connection {
                rule: rule.name.clone(),
                connection: name.clone(),
                nearest: nearest(name, names).map(Into::into),
            });
        }
    }
}

fn check_pattern(
    rule: &ItemRule,
    pattern: &ItemPattern,
    connections: &[&ConnectionFacts],
) -> Option<RuleFinding> {
    let shapes = || connections.iter().flat_map(|one| &one.items);
    let (prefix, names) = match pattern {
        ItemPattern::Any => return None,
        ItemPattern::AnyParameters(prefix) => (prefix, None),
        ItemPattern::Named { prefix, parameters } => {
            let names: Vec<_> = parameters.iter().map(|(name, _)| name).collect();
            (prefix, Some(names))
        }
    };
    let mut own = shapes().filter(|shape| shape.prefix == *prefix).peekable();
    let Some(first) = own.peek().copied() else {
        return Some(RuleFinding::NoItem {
            rule: rule.name.clone(),
            pattern: pattern.to_string(),
            nearest: nearest(prefix, shapes().map(|shape| &*shape.prefix)).map(Into::into),
        });
    };
    let fits = own.any(|shape| match &names {
        None => !shape.parameters.is_empty(),
        Some(names) => shape.parameters.iter().eq(names.iter().copied()),
    });
    (!fits).then(|| match first.parameters.is_empty() {
        true => RuleFinding::NoItem {
            rule: rule.name.clone(),
            pattern: pattern.to_string(),
            nearest: Some(prefix.clone()),
        },
        false => RuleFinding::Parameters {
            rule: rule.name.clone(),
            pattern: pattern.to_string(),
            expected: first.parameters.clone(),
        },
    })
}

fn check_modes(rule: &ItemRule, connections: &[&ConnectionFacts], findings: &mut Vec<RuleFinding>) {
    let has = |mode| connections.iter().any(|one| one.modes.contains(mode));
    // All modes is the default and means those that there are.
    let named = rule.modes != ItemModes::ALL;
    for mode in rule.modes.iter().filter(|mode| named && !has(*mode)) {
        let rule = rule.name.clone();
        findings.push(RuleFinding::Mode { rule, mode });
    }
    let lost = rule.usable_modes() != rule.modes && has(ItemMode::Command);
    let has_other = rule.usable_modes().iter().any(has);
    if lost && (named || !has_other) {
        let rule = rule.name.clone();
        findings.push(RuleFinding::CommandFilter { rule });
    }
}

fn check_fields(
    rule: &ItemRule,
    connections: &[&ConnectionFacts],
    findings: &mut Vec<RuleFinding>,
) {
    let Some(fields) = &rule.fields else {
        return;
    };
    let known = connections.iter().map(|one| one.fields.as_ref());
    if let Some(known) = known.collect::<Option<Vec<_>>>() {
        let known = || known.iter().copied().flatten();
        for field in fields
            .iter()
            .filter(|field| !known().any(|one| one == *field))
        {
            findings.push(RuleFinding::Field {
                rule: rule.name.clone(),
                field: field.clone(),
                nearest: nearest(field, known().map(|name| &**name)).map(Into::into),
            });
        }
    }
    let is_command = rule.modes != ItemModes::ALL && rule.modes.contains(ItemMode::Command);
    let has_both = ["key", "command"].iter().all(|name| fields.contains(*name));
    if rule.effect == RuleEffect::Allow && is_command && !has_both {
        let rule = rule.name.clone();
        findings.push(RuleFinding::CommandFields { rule });
    }
}

/// Returns `true` if a rule uses a claim whose first name `is_wanted`.
fn uses_claims(rule: &ItemRule, is_wanted: impl Fn(&str) -> bool) -> bool {
    let is_used = |path: &ClaimPath| path.steps().next().is_some_and(&is_wanted);
    let placeholder = |pattern: &ItemPattern| match pattern {
        ItemPattern::Named { parameters, .. } => parameters.iter().any(|(_, value)| match value {
            ValuePattern::Claim(path) => is_used(path),
            _ => false,
        }),
        _ => false,
    };
    rule.items.iter().any(placeholder)
        || rule.conditions.iter().any(|one| is_used(&one.path))
        || rule.filter.as_ref().is_some_and(|one| is_used(&one.claim))
}

/// Returns `true` if `by` surely applies to every request that `rule` covers. It may miss cases.
fn covers(by: &ItemRule, rule: &ItemRule) -> bool {
    let connections = match (&by.connections, &rule.connections) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(by), Some(own)) => own.iter().all(|name| by.contains(name)),
    };
    let fields = match (&by.fields, &rule.fields) {
        (None, _) => true,
        // A rule that denies needs one of its fields in the request, and requests may have others.
        (Some(by_fields), Some(own)) => by.effect == RuleEffect::Allow && own.is_subset(by_fields),
        (Some(_), None) => false,
    };
    let items = || {
        let covered = |own: &ItemPattern| by.items.iter().any(|by| pattern_covers(by, own));
        rule.items.iter().all(covered)
    };
    connections
        && fields
        && by.modes.and(rule.modes) == rule.modes
        && by.filter.is_none()
        && implies(&rule.conditions, &by.conditions)
        && items()
}

/// Returns `true` if clients that meet `conditions` surely meet `others`.
pub(super) fn implies(conditions: &[Condition], others: &[Condition]) -> bool {
    let implied = |other: &Condition| {
        let mut same = conditions.iter().filter(|one| one.path == other.path);
        same.any(|one| one.values.is_subset(&other.values))
    };
    others.iter().all(implied)
}

fn pattern_covers(by: &ItemPattern, own: &ItemPattern) -> bool {
    match (by, own) {
        (ItemPattern::Any, _) => true,
        (ItemPattern::AnyParameters(by), ItemPattern::AnyParameters(own)) => by == own,
        (ItemPattern::AnyParameters(by), ItemPattern::Named { prefix, parameters }) => {
            by == prefix && !parameters.is_empty()
        }
        (
            ItemPattern::Named {
                prefix: by,
                parameters: by_values,
            },
            ItemPattern::Named {
                prefix: own,
                parameters: own_values,
            },
        ) => {
            let mut pairs = by_values.iter().zip(own_values);
            by == own
                && by_values.len() == own_values.len()
                && pairs.all(|((by_name, by), (own_name, own))| {
                    by_name == own_name && (*by == ValuePattern::Any || by == own)
                })
        }
        (_, _) => false,
    }
}
