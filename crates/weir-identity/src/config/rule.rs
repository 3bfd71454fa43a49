//! The sections `[[authorize]]` and `[[session_rule]]`, checked.

use std::collections::{BTreeMap, BTreeSet};

use weir_formats::expression::{Expression, Root};

use super::duration::parse_ms;
use super::error::RuleConfigError;
use super::pattern::{ItemPattern, parse_placeholder};
use super::raw::{
    OneOrMany, RawAuthorize, RawScalar, RawSessionRule, RawSharedLimits, RawSnapshot,
};
use crate::claims::{ClaimPath, Claims, TooManyValues};
use crate::modes::{ItemMode, ItemModes};

/// Most rules of one kind.
const RULES_MAX: usize = 10_000;

/// Consequence of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleEffect {
    /// Allows what it covers.
    Allow,
    /// Rejects what it covers, whatever other rules allow.
    Deny,
}

/// A claim that must have one of several values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The claim.
    pub path: ClaimPath,
    /// Values in canonical text.
    pub values: BTreeSet<Box<str>>,
}

/// Snapshot that a rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotRule {
    /// Every snapshot.
    Allowed,
    /// At most this length in mode DISTINCT.
    LengthMax(u32),
    /// No snapshot.
    Excluded,
}

/// Records of a shared item that a client may see: those where an expression has a value of a
/// claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFilter {
    /// Expression on records.
    pub expression: Expression,
    /// The claim.
    pub claim: ClaimPath,
}

/// A section `[[authorize]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemRule {
    /// Unique name.
    pub name: Box<str>,
    /// Consequence. Default: allow.
    pub effect: RuleEffect,
    /// Names of Kafka connections; `None`, the default, for all.
    pub connections: Option<Vec<Box<str>>>,
    /// Items.
    pub items: Vec<ItemPattern>,
    /// Conditions, all of which must be met.
    pub conditions: Vec<Condition>,
    /// Modes. Default: all.
    pub modes: ItemModes,
    /// Fields; `None`, the default, for all.
    pub fields: Option<BTreeSet<Box<str>>>,
    /// Highest frequency, in updates per second and item.
    pub frequency_max: Option<f64>,
    /// Snapshot. Default: allowed.
    pub snapshot: SnapshotRule,
    /// Records that the client may see; `None`, the default, for all.
    pub filter: Option<RecordFilter>,
}

/// A section `[[session_rule]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRule {
    /// Unique name.
    pub name: Box<str>,
    /// Conditions, all of which must be met.
    pub conditions: Vec<Condition>,
    /// Highest bandwidth, in kbit/s.
    pub bandwidth_max_kbps: Option<f64>,
    /// Most subscriptions of a session.
    pub subscriptions_max: Option<u32>,
    /// Longest life of a session, in milliseconds.
    pub age_max_ms: Option<u64>,
    /// A session above the limit of its user ends the oldest one, instead of being rejected.
    pub end_oldest: bool,
    /// Limits of all sessions of a user.
    pub per_user: SharedLimits,
    /// Limits of all sessions of a tenant.
    pub per_tenant: SharedLimits,
}

/// Limits that the sessions of a user or tenant share; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SharedLimits {
    /// Most sessions.
    pub sessions_max: Option<u32>,
    /// Most subscriptions.
    pub subscriptions_max: Option<u32>,
    /// Most requests per second.
    pub requests_per_second: Option<f64>,
    /// Highest bandwidth, in kbit/s.
    pub bandwidth_max_kbps: Option<f64>,
}

impl SharedLimits {
    /// Returns `true` if nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    fn new(rule: &str, raw: &RawSharedLimits) -> Result<Self, RuleConfigError> {
        Ok(Self {
            sessions_max: raw.sessions,
            subscriptions_max: raw.subscriptions,
            requests_per_second: positive(rule, "requests_per_second", raw.requests_per_second)?,
            bandwidth_max_kbps: positive(rule, "bandwidth", raw.bandwidth)?,
        })
    }
}

impl Condition {
    /// Returns `true` if the claim has one of the values.
    pub fn is_met(&self, claims: &Claims) -> Result<bool, TooManyValues> {
        let texts = claims.texts(&self.path)?;
        Ok(texts.iter().any(|text| self.values.contains(&**text)))
    }
}

impl ItemRule {
    /// Checks the sections of a configuration.
    pub fn parse_all(raw: &[RawAuthorize]) -> Result<Vec<Self>, RuleConfigError> {
        check_names(raw.iter().map(|rule| &*rule.name), RULES_MAX)?;
        raw.iter().map(Self::new).collect()
    }

    /// Returns the modes in which the rule can allow anything. In mode COMMAND, `where` may use the
    /// key only: a row that changed its class would never be deleted in the former one.
    pub fn usable_modes(&self) -> ItemModes {
        let filter = self.filter.as_ref();
        let is_fixed = filter.is_none_or(|filter| filter.expression.root() == Root::Key);
        let is_usable = |mode: &ItemMode| is_fixed || *mode != ItemMode::Command;
        self.modes.iter().filter(is_usable).collect()
    }

    fn new(raw: &RawAuthorize) -> Result<Self, RuleConfigError> {
        let rule = || raw.name.clone();
        let effect = match raw.effect.as_deref() {
            None | Some("allow") => RuleEffect::Allow,
            Some("deny") => RuleEffect::Deny,
            Some(effect) => {
                let effect = effect.to_owned();
                return Err(RuleConfigError::Effect {
                    rule: rule(),
                    effect,
                });
            }
        };
        let patterns = raw.items.iter().map(|text| {
            ItemPattern::parse(text).map_err(|error| {
                let rule = rule();
                RuleConfigError::Pattern { rule, error }
            })
        });
        let connections = raw.connection.as_ref().map(OneOrMany::as_slice);
        for (key, is_empty) in [
            ("items", raw.items.is_empty()),
            ("connection", connections.is_some_and(<[_]>::is_empty)),
            ("fields", raw.fields.as_ref().is_some_and(Vec::is_empty)),
            ("modes", raw.modes.as_ref().is_some_and(Vec::is_empty)),
        ] {
            if is_empty {
                return Err(RuleConfigError::Empty { rule: rule(), key });
            }
        }
        if effect == RuleEffect::Deny {
            check_deny(raw)?;
        }
        let fields = raw.fields.as_ref();
        Ok(Self {
            name: raw.name.as_str().into(),
            effect,
            connections: connections.map(boxed),
            items: patterns.collect::<Result<_, _>>()?,
            conditions: conditions(&raw.name, &raw.when)?,
            modes: modes(raw)?,
            fields: fields.map(|names| boxed(names)),
            frequency_max: positive(&raw.name, "max_frequency", raw.max_frequency)?,
            snapshot: snapshot(raw)?,
            filter: raw
                .filter
                .as_deref()
                .map(|text| record_filter(raw, text))
                .transpose()?,
        })
    }
}

/// Rejects limits in a rule that denies.
fn check_deny(raw: &RawAuthorize) -> Result<(), RuleConfigError> {
    for (key, is_set) in [
        ("max_frequency", raw.max_frequency.is_some()),
        ("snapshot", raw.snapshot.is_some()),
        ("where", raw.filter.is_some()),
    ] {
        if is_set {
            let rule = raw.name.clone();
            return Err(RuleConfigError::DenyLimit { rule, key });
        }
    }
    Ok(())
}

fn boxed<C: FromIterator<Box<str>>>(texts: &[String]) -> C {
    texts.iter().map(|text| text.as_str().into()).collect()
}

pub(super) fn check_names<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
    count_max: usize,
) -> Result<(), RuleConfigError> {
    let count = names.len();
    if count > count_max {
        return Err(RuleConfigError::TooMany { count, count_max });
    }
    let mut seen = BTreeSet::new();
    for (number, name) in (1..).zip(names) {
        if name.is_empty() {
            return Err(RuleConfigError::NoName { number });
        }
        if !seen.insert(name) {
            return Err(RuleConfigError::DuplicateName(name.to_owned()));
        }
    }
    Ok(())
}

pub(super) fn conditions(
    rule: &str,
    when: &BTreeMap<String, OneOrMany<RawScalar>>,
) -> Result<Vec<Condition>, RuleConfigError> {
    let text = |value: &RawScalar| match value {
        RawScalar::Text(text) => text.as_str().into(),
        RawScalar::Integer(number) => number.to_string().into(),
        RawScalar::Bool(value) => value.to_string().into(),
    };
    let condition = |(path, values): (&String, &OneOrMany<RawScalar>)| {
        let path = ClaimPath::parse(path).map_err(|error| {
            let rule = rule.to_owned();
            RuleConfigError::ClaimPath { rule, error }
        })?;
        let values: BTreeSet<_> = values.as_slice().iter().map(text).collect();
        if values.is_empty() {
            let rule = rule.to_owned();
            return Err(RuleConfigError::Empty { rule, key: "when" });
        }
        Ok(Condition { path, values })
    };
    when.iter().map(condition).collect()
}

fn modes(raw: &RawAuthorize) -> Result<ItemModes, RuleConfigError> {
    let Some(names) = &raw.modes else {
        return Ok(ItemModes::ALL);
    };
    let modes = names.iter().map(|name| ItemMode::parse(name));
    modes.collect::<Result<_, _>>().map_err(|error| {
        let rule = raw.name.clone();
        RuleConfigError::Mode { rule, error }
    })
}

pub(super) fn positive(
    rule: &str,
    key: &'static str,
    value: Option<f64>,
) -> Result<Option<f64>, RuleConfigError> {
    match value {
        Some(value) if !value.is_finite() || value <= 0.0 => {
            let rule = rule.to_owned();
            Err(RuleConfigError::NotPositive { rule, key })
        }
        value => Ok(value),
    }
}

fn snapshot(raw: &RawAuthorize) -> Result<SnapshotRule, RuleConfigError> {
    match raw.snapshot {
        None => Ok(SnapshotRule::Allowed),
        Some(RawSnapshot::Allowed(false)) => Ok(SnapshotRule::Excluded),
        Some(RawSnapshot::Length(length)) if length > 0 => Ok(SnapshotRule::LengthMax(length)),
        Some(_) => Err(RuleConfigError::Snapshot {
            rule: raw.name.clone(),
        }),
    }
}

/// Parses `EXPRESSION = {claims.PATH}`.
fn record_filter(raw: &RawAuthorize, text: &str) -> Result<RecordFilter, RuleConfigError> {
    let error = |cause: String| RuleConfigError::RecordFilter {
        rule: raw.name.clone(),
        text: text.to_owned(),
        cause,
    };
    let sides = text.rsplit_once("= {").and_then(|(expression, rest)| {
        let placeholder = rest.trim_end().strip_suffix('}')?;
        Some((expression.trim(), placeholder))
    });
    let (expression, claim) = sides.ok_or_else(|| error("there is no \" = {\"".to_owned()))?;
    let expression = Expression::parse(expression).map_err(|cause| error(cause.to_string()))?;
    if expression.is_wildcard() {
        return Err(error("the expression has several values".to_owned()));
    }
    let claim = parse_placeholder(claim).map_err(|cause| error(cause.to_string()))?;
    Ok(RecordFilter { expression, claim })
}

impl SessionRule {
    /// Checks the sections of a configuration.
    pub fn parse_all(raw: &[RawSessionRule]) -> Result<Vec<Self>, RuleConfigError> {
        check_names(raw.iter().map(|rule| &*rule.name), RULES_MAX)?;
        raw.iter().map(Self::new).collect()
    }

    /// Returns the position of the rule that applies: the first one whose conditions are met.
    pub fn first(rules: &[Self], claims: &Claims) -> Result<Option<usize>, TooManyValues> {
        for (place, rule) in rules.iter().enumerate() {
            if all_met(&rule.conditions, claims)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn new(raw: &RawSessionRule) -> Result<Self, RuleConfigError> {
        let rule = || raw.name.clone();
        let age = raw.max_age.as_ref().map(|value| {
            parse_ms(value).ok_or_else(|| RuleConfigError::MaxAge {
                rule: rule(),
                value: value.clone(),
            })
        });
        let bandwidth = positive(&raw.name, "max_bandwidth", raw.max_bandwidth)?;
        let found = Self {
            name: raw.name.as_str().into(),
            conditions: conditions(&raw.name, &raw.when)?,
            bandwidth_max_kbps: bandwidth,
            subscriptions_max: raw.max_subscriptions,
            age_max_ms: age.transpose()?,
            end_oldest: raw.end_oldest,
            per_user: SharedLimits {
                sessions_max: raw.max_sessions.or(raw.per_user.sessions),
                ..SharedLimits::new(&raw.name, &raw.per_user)?
            },
            per_tenant: SharedLimits::new(&raw.name, &raw.per_tenant)?,
        };
        if raw.max_sessions.is_some() && raw.per_user.sessions.is_some() {
            return Err(RuleConfigError::TwoSessions { rule: rule() });
        }
        if found.end_oldest && found.per_user.sessions_max.is_none() {
            return Err(RuleConfigError::EndOldest { rule: rule() });
        }
        let own = found.subscriptions_max.is_some() || found.age_max_ms.is_some();
        let shared = !found.per_user.is_unlimited() || !found.per_tenant.is_unlimited();
        match own || shared || bandwidth.is_some() {
            true => Ok(found),
            false => Err(RuleConfigError::NoLimit { rule: rule() }),
        }
    }
}

/// Returns `true` if all conditions are met.
pub(crate) fn all_met(conditions: &[Condition], claims: &Claims) -> Result<bool, TooManyValues> {
    for condition in conditions {
        if !condition.is_met(claims)? {
            return Ok(false);
        }
    }
    Ok(true)
}
