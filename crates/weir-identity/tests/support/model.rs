//! Model of the item rules: it compiles nothing. Tests of the gateway include this file, too.

use std::collections::{BTreeMap, BTreeSet};

use weir_identity::config::{ItemPattern, ItemRule, RuleEffect, ValuePattern};
use weir_identity::rules::ItemAccess;
use weir_identity::{Claims, ItemMode};
use weir_mapping::CanonicalItem;

/// Decides without an index: every rule, condition and pattern in turn. Returns the position of the
/// rule and, if it filters records, the values of those that the client may see.
pub(crate) fn naive(
    rules: &[ItemRule],
    claims: &Claims,
    item: &str,
    (connections, access): (&[&str], &ItemAccess<'_>),
) -> Result<(usize, Option<Vec<String>>), i32> {
    let item = CanonicalItem::parse(item).unwrap();
    let covering: Vec<_> = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| {
            let connection = rule.connections.as_ref();
            connection.is_none_or(|names| {
                names
                    .iter()
                    .any(|name| **name == *connections[access.connection])
            }) && rule.conditions.iter().all(|one| {
                let texts = claims.texts(&one.path).unwrap();
                texts
                    .iter()
                    .any(|text| one.values.iter().any(|value| **value == **text))
            }) && rule
                .items
                .iter()
                .any(|pattern| names(pattern, &item, claims))
                && visible(rule, claims).is_none_or(|values| !values.is_empty())
        })
        .collect();
    let has = |rule: &ItemRule, field: &str| {
        rule.fields
            .as_ref()
            .is_none_or(|own| own.iter().any(|one| **one == *field))
    };
    let denied = covering.iter().any(|(_, rule)| {
        rule.effect == RuleEffect::Deny
            && rule.modes.contains(access.mode)
            && access.fields.iter().any(|field| has(rule, field))
    });
    let allow: Vec<_> = covering
        .iter()
        .filter(|(_, rule)| rule.effect == RuleEffect::Allow)
        .collect();
    if denied || allow.is_empty() {
        return Err(-2);
    }
    let in_mode: Vec<_> = allow
        .iter()
        .filter(|(_, rule)| rule.modes.contains(access.mode) && is_possible(rule, access.mode))
        .collect();
    if in_mode.is_empty() {
        return Err(24);
    }
    let mut full = in_mode
        .iter()
        .filter(|(_, rule)| access.fields.iter().all(|field| has(rule, field)));
    match full.next() {
        None => Err(23),
        Some((_, rule)) if access.unfiltered && rule.frequency_max.is_some() => Err(26),
        Some((place, rule)) => Ok((*place, visible(rule, claims))),
    }
}

/// Returns `false` for mode COMMAND if a rule selects records by more than their keys.
fn is_possible(rule: &ItemRule, mode: ItemMode) -> bool {
    let filter = rule.filter.as_ref();
    mode != ItemMode::Command || filter.is_none_or(|one| one.expression.text().starts_with("KEY"))
}

/// Returns the values of records that a rule lets a client see, `None` for all records. A value
/// with a comma is none: a class of records has its values in a list.
fn visible(rule: &ItemRule, claims: &Claims) -> Option<Vec<String>> {
    let texts = claims.texts(&rule.filter.as_ref()?.claim).unwrap();
    let texts = texts
        .iter()
        .filter(|text| !text.is_empty() && !text.contains(','));
    let texts: BTreeSet<_> = texts.map(|text| text.clone().into_owned()).collect();
    Some(texts.into_iter().collect())
}

fn names(pattern: &ItemPattern, item: &CanonicalItem, claims: &Claims) -> bool {
    match pattern {
        ItemPattern::Any => true,
        ItemPattern::AnyParameters(prefix) => {
            item.prefix() == &**prefix && item.parameters().len() > 0
        }
        ItemPattern::Named { prefix, parameters } => {
            let wanted: BTreeMap<_, _> = parameters
                .iter()
                .map(|(name, value)| (&**name, value))
                .collect();
            item.prefix() == &**prefix
                && item.parameters().len() == wanted.len()
                && item
                    .parameters()
                    .all(|(name, value)| match wanted.get(name) {
                        None => false,
                        Some(ValuePattern::Any) => true,
                        Some(ValuePattern::Literal(text)) => **text == *value,
                        Some(ValuePattern::Claim(path)) => claims
                            .texts(path)
                            .unwrap()
                            .iter()
                            .any(|text| **text == *value),
                    })
        }
    }
}
