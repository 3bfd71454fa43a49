//! Reasons why item rules apply to a request, or do not, shown to the author of the rules.

use weir_mapping::CanonicalItem;

use super::compile::ItemRules;
use super::decision::{Allowance, Denial, ItemAccess};
use super::grants::GrantTable;
use crate::claims::{ClaimPath, Claims, TooManyValues};
use crate::config::{Condition, ItemPattern, ItemRule, RuleEffect, ValuePattern};

/// Decision about a request, with the reason of every rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleExplanation {
    /// Reasons, in the order of the rules.
    pub rules: Vec<RuleReason>,
    /// Decision.
    pub decision: Result<Allowance, Denial>,
}

/// Reason why a rule applies or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleReason {
    /// Name of the rule.
    pub rule: Box<str>,
    /// `true` if the decision is this rule's.
    pub applies: bool,
    /// Text that names claims, not their values.
    pub reason: String,
}

/// Explains the decision about an item. `connections` are the names of the Kafka connections.
pub fn explain_rules(
    rules: &[ItemRule],
    connections: &[&str],
    claims: &Claims,
    item: &CanonicalItem,
    access: &ItemAccess<'_>,
) -> Result<RuleExplanation, TooManyValues> {
    let compiled = ItemRules::new(rules.to_vec(), connections);
    let grants = compiled.grants(claims, &mut GrantTable::default())?;
    let decision = compiled.decide(&grants, item, access);
    let used = match &decision {
        Ok(allowance) => Some(allowance.rule),
        Err(Denial::Item { rule }) => *rule,
        Err(Denial::Unfiltered { rule }) => Some(*rule),
        Err(Denial::Mode | Denial::Field) => None,
    };
    let connection = connections.get(access.connection).copied();
    let mut reasons = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        let mismatch = rule_mismatch(rule, connection.unwrap_or_default(), claims, item, access)?;
        let applies = used == Some(index);
        reasons.push(RuleReason {
            rule: rule.name.clone(),
            applies,
            reason: match mismatch {
                Some(mismatch) => mismatch,
                None if applies => match rule.effect {
                    RuleEffect::Allow => "covers the request".to_owned(),
                    RuleEffect::Deny => "denies the item".to_owned(),
                },
                None => "covers the request, but another rule decides".to_owned(),
            },
        });
    }
    Ok(RuleExplanation {
        rules: reasons,
        decision,
    })
}

/// Returns why a rule does not cover a request; `None` if it does.
fn rule_mismatch(
    rule: &ItemRule,
    connection: &str,
    claims: &Claims,
    item: &CanonicalItem,
    access: &ItemAccess<'_>,
) -> Result<Option<String>, TooManyValues> {
    let connections = rule.connections.as_ref();
    if connections.is_some_and(|names| names.iter().all(|name| **name != *connection)) {
        return Ok(Some(format!("is not for connection \"{connection}\"")));
    }
    for condition in &rule.conditions {
        if !condition.is_met(claims)? {
            return Ok(Some(unmet_reason(condition, claims)?));
        }
    }
    let mut nearest = None;
    for pattern in &rule.items {
        match pattern_mismatch(pattern, claims, item)? {
            None => {
                nearest = None;
                break;
            }
            // The pattern that matches most of the item has the most useful reason.
            Some((rank, text)) if nearest.as_ref().is_none_or(|(best, _)| *best < rank) => {
                nearest = Some((rank, text));
            }
            Some(_) => {}
        }
    }
    if let Some((_, text)) = nearest {
        return Ok(Some(text));
    }
    if let Some(filter) = &rule.filter {
        if claims.texts(&filter.claim)?.is_empty() {
            return Ok(Some(format!(
                "claims.{} has no value for where",
                filter.claim
            )));
        }
    }
    if !rule.modes.contains(access.mode) {
        return Ok(Some(format!("does not name mode {}", access.mode.as_str())));
    }
    if !rule.usable_modes().contains(access.mode) {
        let text = "cannot apply in mode COMMAND, in which \"where\" may use KEY only";
        return Ok(Some(text.to_owned()));
    }
    let Some(fields) = &rule.fields else {
        return Ok(None);
    };
    let other = access.fields.iter().find(|field| !fields.contains(**field));
    Ok(match rule.effect {
        RuleEffect::Allow => other.map(|field| format!("does not name field \"{field}\"")),
        RuleEffect::Deny => {
            let none = access.fields.iter().all(|field| !fields.contains(*field));
            none.then(|| "names none of the fields".to_owned())
        }
    })
}

fn unmet_reason(condition: &Condition, claims: &Claims) -> Result<String, TooManyValues> {
    let path = &condition.path;
    Ok(match claims.texts(path)?.is_empty() {
        true => format!("there is no claims.{path}, which when compares"),
        false => format!("claims.{path} has none of the values in when"),
    })
}

/// Returns why a pattern does not match an item, with a rank: 0 if the prefix differs, 1 if the
/// parameters differ, 2 if a value differs. Returns `None` if the pattern matches.
fn pattern_mismatch(
    pattern: &ItemPattern,
    claims: &Claims,
    item: &CanonicalItem,
) -> Result<Option<(u32, String)>, TooManyValues> {
    let other = || Some((0, format!("names other items: {pattern}")));
    let (prefix, parameters) = match pattern {
        ItemPattern::Any => return Ok(None),
        ItemPattern::AnyParameters(prefix) => {
            let matches = **prefix == *item.prefix() && item.parameters().len() > 0;
            return Ok(if matches { None } else { other() });
        }
        ItemPattern::Named { prefix, parameters } => (prefix, parameters),
    };
    if **prefix != *item.prefix() {
        return Ok(other());
    }
    let names = parameters.iter().map(|(name, _)| &**name);
    if !names.eq(item.parameters().map(|(name, _)| name)) {
        return Ok(Some((1, format!("names other parameters: {pattern}"))));
    }
    for ((name, wanted), (_, value)) in parameters.iter().zip(item.parameters()) {
        let reason = match wanted {
            ValuePattern::Any => None,
            ValuePattern::Literal(text) => {
                (**text != *value).then(|| format!("\"{name}={value}\" is not \"{name}={text}\""))
            }
            ValuePattern::Claim(path) => claim_mismatch(path, claims, name, value)?,
        };
        if let Some(reason) = reason {
            return Ok(Some((2, reason)));
        }
    }
    Ok(None)
}

/// Returns the reason if `value` is not among the values of a claim.
fn claim_mismatch(
    path: &ClaimPath,
    claims: &Claims,
    name: &str,
    value: &str,
) -> Result<Option<String>, TooManyValues> {
    let texts = claims.texts(path)?;
    let count = texts.len();
    let is_among = texts.iter().any(|text| **text == *value);
    Ok((!is_among).then(|| {
        let values = if count == 1 { "value" } else { "values" };
        format!("\"{name}={value}\" is not in claims.{path} ({count} {values})")
    }))
}
