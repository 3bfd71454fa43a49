//! Message rules compiled for one client.

use std::sync::Arc;

use super::check::implies;
use crate::claims::Claims;
use crate::config::{MessageDestination, MessageKey, MessageRule};
use crate::identity::UserIdentity;

/// Messages that a client may send, and the identity that their records state. Sessions of clients
/// with the same rights can share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRights {
    /// Issuer of the client's identity; empty for anonymous clients.
    pub issuer: Box<str>,
    /// User name; empty for anonymous clients.
    pub user: Box<str>,
    grants: Box<[MessageGrant]>,
}

/// A rule whose conditions a client meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageGrant {
    /// Index of the rule.
    pub rule: usize,
    /// Key of the records, if it is the value of a claim.
    pub key: Option<Arc<str>>,
}

impl MessageRights {
    /// Selects the rules whose conditions are met. A claim with too many values meets none.
    pub fn compile(rules: &[MessageRule], claims: &Claims, identity: &UserIdentity) -> Self {
        let grants = (0..)
            .zip(rules)
            .filter_map(|(index, rule)| grant(index, rule, claims));
        Self {
            issuer: identity.issuer().into(),
            user: identity.user().into(),
            grants: grants.collect(),
        }
    }

    /// Returns the rule that decides about a sequence: the first that covers it. `None` stands for
    /// unordered messages. `rules` are those that were compiled.
    pub fn find(&self, rules: &[MessageRule], sequence: Option<&str>) -> Option<&MessageGrant> {
        let covers = |grant: &&MessageGrant| rules[grant.rule].covers(sequence);
        self.grants.iter().find(covers)
    }
}

fn grant(index: usize, rule: &MessageRule, claims: &Claims) -> Option<MessageGrant> {
    let mut conditions = rule.conditions.iter();
    if !conditions.all(|condition| condition.is_met(claims).unwrap_or(false)) {
        return None;
    }
    let key = match key(rule) {
        MessageKey::Absent | MessageKey::Sequence => None,
        MessageKey::Claim(path) => match claims.texts(path).as_deref() {
            Ok([text]) => Some(Arc::from(&**text)),
            _ => return None,
        },
    };
    Some(MessageGrant { rule: index, key })
}

/// Returns the key of the records of a rule.
fn key(rule: &MessageRule) -> &MessageKey {
    match &rule.destination {
        MessageDestination::Topic { key, .. } => key,
        MessageDestination::Adapter => &MessageKey::Absent,
    }
}

/// Returns the rules that never decide, each with an earlier one that always does. It may miss
/// cases.
pub fn shadowed_messages(rules: &[MessageRule]) -> Vec<(&MessageRule, &MessageRule)> {
    let later = (0..).zip(rules);
    let earlier_of = |(index, rule): (usize, _)| {
        let earlier = rules[..index].iter().find(|by| is_covered(by, rule));
        earlier.map(|by| (rule, by))
    };
    later.filter_map(earlier_of).collect()
}

/// Returns `true` if `by` surely applies to every message that `rule` covers.
fn is_covered(by: &MessageRule, rule: &MessageRule) -> bool {
    let sequences = match (&by.sequences, &rule.sequences) {
        (None, _) => true,
        (Some(by), None) => by
            .iter()
            .any(|one| one.covers(None) && one.covers(Some(""))),
        (Some(by), Some(own)) => own.iter().all(|own| by.iter().any(|by| by.includes(own))),
    };
    sequences
        && !matches!(key(by), MessageKey::Claim(_))
        && implies(&rule.conditions, &by.conditions)
}
