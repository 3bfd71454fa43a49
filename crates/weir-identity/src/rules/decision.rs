//! Requests to rules, and what they decide.

use std::sync::Arc;

use super::record_class::RecordClass;
use crate::config::SnapshotRule;
use crate::modes::ItemMode;

/// Request of a client, without the item.
#[derive(Debug, Clone, Copy)]
pub struct ItemAccess<'a> {
    /// Number of the Kafka connection.
    pub connection: usize,
    /// Subscription mode.
    pub mode: ItemMode,
    /// Field names.
    pub fields: &'a [&'a str],
    /// Updates must not be conflated or delayed.
    pub unfiltered: bool,
}

/// Permission to get an item, with its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    /// Position of the rule.
    pub rule: usize,
    /// Highest frequency, in updates per second.
    pub frequency_max: Option<f64>,
    /// Snapshot.
    pub snapshot: SnapshotRule,
    /// Records that the client may see; `None` for all.
    pub records: Option<Arc<RecordClass>>,
}

/// Reason why a client does not get an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// No rule allows the item, or this one denies it.
    Item {
        /// Position of the rule that denies it.
        rule: Option<usize>,
    },
    /// The item is allowed in other modes.
    Mode,
    /// The item is allowed with other fields.
    Field,
    /// The item is allowed with a frequency limit, which excludes unfiltered delivery.
    Unfiltered {
        /// Position of the rule.
        rule: usize,
    },
}

impl Denial {
    /// Returns the code of `REQERR`.
    pub fn code(self) -> i32 {
        match self {
            Self::Item { .. } => -2,
            Self::Field => 23,
            Self::Mode => 24,
            Self::Unfiltered { .. } => 26,
        }
    }

    /// Returns the text for the client. It is the same whatever exists.
    pub fn text(self) -> &'static str {
        match self {
            Self::Item { .. } => "Not authorized",
            Self::Field => "Field not authorized",
            Self::Mode => "Mode not authorized",
            Self::Unfiltered { .. } => "Unfiltered delivery not authorized",
        }
    }
}

/// Reason why a client does not get a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionDenial {
    /// Position of the item.
    pub item: usize,
    /// Cause.
    pub denial: Denial,
}
