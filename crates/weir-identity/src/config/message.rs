//! The sections `[[message]]`, checked: which client messages go where.

use super::error::RuleConfigError;
use super::pattern::parse_placeholder;
use super::raw::{RawDestination, RawMessage};
use super::rule::{Condition, check_names, conditions, positive};
use crate::claims::ClaimPath;

/// Most rules; a message is compared with all of its client.
const RULES_MAX: usize = 1_000;
/// Name under which rules list unordered messages.
const UNORDERED: &str = "UNORDERED_MESSAGES";
/// Sequence of token refreshes, which no rule covers.
pub const TOKEN_REFRESH_SEQUENCE: &str = "weir_auth";
/// Default of `max_bytes`.
const BYTES_MAX_DEFAULT: u32 = 10_000;
/// Default of `rate_per_session`, in messages per second.
const SESSION_RATE_DEFAULT: f64 = 10.0;

/// A section `[[message]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRule {
    /// Unique name.
    pub name: Box<str>,
    /// Conditions, all of which must be met.
    pub conditions: Vec<Condition>,
    /// Sequences; `None`, the default, for all and for unordered messages.
    pub sequences: Option<Vec<SequencePattern>>,
    /// Where messages go.
    pub destination: MessageDestination,
    /// Longest message in bytes.
    pub bytes_max: usize,
    /// Most messages per second of a session.
    pub session_rate: f64,
    /// Most messages per second of all sessions of a user; `None` is no limit.
    pub user_rate: Option<f64>,
}

/// Destination of client messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageDestination {
    /// A Kafka topic.
    Topic {
        /// Name of the Kafka connection whose brokers have the topic.
        connection: Box<str>,
        /// Name of the topic.
        topic: Box<str>,
        /// Key of the records.
        key: MessageKey,
    },
    /// The remote adapter.
    Adapter,
}

/// Key of the records of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageKey {
    /// No key.
    Absent,
    /// Name of the sequence; unordered messages have no key.
    Sequence,
    /// The value of a claim. The rule applies only to clients with exactly one.
    Claim(ClaimPath),
}

/// Sequences that a rule covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SequencePattern {
    /// One sequence; the reserved name stands for unordered messages.
    Named(Box<str>),
    /// `PREFIX*`.
    Prefix(Box<str>),
}

impl SequencePattern {
    /// Returns `true` if the pattern covers a sequence; `None` stands for unordered messages.
    pub fn covers(&self, sequence: Option<&str>) -> bool {
        let name = sequence.unwrap_or(UNORDERED);
        match self {
            Self::Named(own) => **own == *name,
            Self::Prefix(own) => own.is_empty() || (sequence.is_some() && name.starts_with(&**own)),
        }
    }

    /// Returns `true` if the pattern covers all that another one does.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(own), Self::Prefix(other)) => other.starts_with(&**own),
            (_, Self::Named(name)) => self.covers((**name != *UNORDERED).then_some(name)),
            (Self::Named(_), Self::Prefix(_)) => false,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_valid = name.bytes().all(is_plain) && name != TOKEN_REFRESH_SEQUENCE;
        match (is_valid, is_prefix) {
            (true, true) => Some(Self::Prefix(name.into())),
            (true, false) if !name.is_empty() => Some(Self::Named(name.into())),
            _ => None,
        }
    }
}

impl MessageRule {
    /// Checks the sections of a configuration.
    pub fn parse_all(raw: &[RawMessage]) -> Result<Vec<Self>, RuleConfigError> {
        check_names(raw.iter().map(|rule| &*rule.name), RULES_MAX)?;
        raw.iter().map(Self::new).collect()
    }

    /// Returns `true` if the rule covers a sequence; `None` stands for unordered messages.
    pub fn covers(&self, sequence: Option<&str>) -> bool {
        let patterns = self.sequences.as_deref();
        sequence != Some(TOKEN_REFRESH_SEQUENCE)
            && patterns.is_none_or(|all| all.iter().any(|one| one.covers(sequence)))
    }

    fn new(raw: &RawMessage) -> Result<Self, RuleConfigError> {
        let rule = || raw.name.clone();
        if raw.sequences.as_ref().is_some_and(Vec::is_empty) {
            let key = "sequences";
            return Err(RuleConfigError::Empty { rule: rule(), key });
        }
        let pattern = |text: &String| {
            SequencePattern::parse(text).ok_or_else(|| RuleConfigError::Sequence {
                rule: rule(),
                sequence: text.clone(),
            })
        };
        let patterns = raw.sequences.as_ref();
        let patterns = patterns.map(|all| all.iter().map(pattern).collect::<Result<_, _>>());
        let session_rate = positive(&raw.name, "rate_per_session", raw.rate_per_session)?;
        Ok(Self {
            name: raw.name.as_str().into(),
            conditions: conditions(&raw.name, &raw.when)?,
            sequences: patterns.transpose()?,
            destination: destination(raw)?,
            bytes_max: raw.max_bytes.unwrap_or(BYTES_MAX_DEFAULT) as usize,
            session_rate: session_rate.unwrap_or(SESSION_RATE_DEFAULT),
            user_rate: positive(&raw.name, "rate_per_user", raw.rate_per_user)?,
        })
    }
}

fn destination(raw: &RawMessage) -> Result<MessageDestination, RuleConfigError> {
    let rule = || raw.name.clone();
    let of_topic = [
        ("connection", raw.connection.is_empty()),
        ("topic", raw.topic.is_empty()),
        ("key", raw.key.is_none()),
    ];
    if raw.destination == RawDestination::Adapter {
        let mut of_topic = of_topic.into_iter();
        return match of_topic.find(|(_, is_absent)| !is_absent) {
            None => Ok(MessageDestination::Adapter),
            Some((key, _)) => Err(RuleConfigError::OfTopic { rule: rule(), key }),
        };
    }
    let mut required = of_topic.into_iter().take(2);
    if let Some((key, _)) = required.find(|(_, is_absent)| *is_absent) {
        return Err(RuleConfigError::Missing { rule: rule(), key });
    }
    Ok(MessageDestination::Topic {
        connection: raw.connection.as_str().into(),
        topic: raw.topic.as_str().into(),
        key: message_key(raw)?,
    })
}

fn message_key(raw: &RawMessage) -> Result<MessageKey, RuleConfigError> {
    let Some(text) = &raw.key else {
        return Ok(MessageKey::Absent);
    };
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    match inner {
        Some("sequence") => Ok(MessageKey::Sequence),
        Some(placeholder) => parse_placeholder(placeholder)
            .map(MessageKey::Claim)
            .map_err(|error| {
                let rule = raw.name.clone();
                RuleConfigError::ClaimPath { rule, error }
            }),
        None => Err(RuleConfigError::MessageKey {
            rule: raw.name.clone(),
            key: text.clone(),
        }),
    }
}
