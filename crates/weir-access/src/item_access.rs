//! Item rules at a subscription, and the limits that they set to it.

use std::sync::Arc;

use weir_identity::ItemMode;
use weir_identity::config::SnapshotRule;
use weir_identity::rules::{Denial, ItemAccess, RecordClass};
use weir_mapping::CanonicalItem;
use weir_tlcp::codes::ControlCode;
use weir_tlcp::request::{Add, Frequency, Mode, Snapshot};

use crate::access::{SessionAccess, lower};
use crate::authenticator::Authenticator;

/// Parameters of a subscription, without its items.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionAccess<'a> {
    /// Number of the Kafka connection.
    pub connection: u16,
    /// Mode of the subscription.
    pub mode: Mode,
    /// Names of its fields.
    pub fields: &'a [&'a str],
    /// Updates must not be conflated, delayed or dropped.
    pub unfiltered: bool,
}

/// Limits that item rules set to a subscription.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemLimits {
    /// Highest frequency, in updates per second and item.
    pub frequency_max: Option<f64>,
    snapshot: SnapshotRule,
    /// Class of records of each item; empty if the client may see all records of all items.
    records: Vec<Option<Arc<RecordClass>>>,
}

/// Code and text for the client.
pub(crate) type ItemDenial = (ControlCode, &'static str);

impl Authenticator {
    /// Decides about a subscription: all items must be allowed, and the tightest limits of their
    /// rules apply. `items` are the names that are subscribed, not those that the client wrote.
    pub fn decide<'a>(
        &self,
        access: &SessionAccess,
        items: impl Iterator<Item = &'a CanonicalItem>,
        wanted: SubscriptionAccess<'_>,
    ) -> Result<ItemLimits, ItemDenial> {
        let mut limits = ItemLimits {
            frequency_max: None,
            snapshot: SnapshotRule::Allowed,
            records: Vec::new(),
        };
        let (Some(rules), Some(grants)) = (self.item_rules(), &access.grants) else {
            return Ok(limits);
        };
        let wanted = ItemAccess {
            connection: usize::from(wanted.connection),
            mode: item_mode(wanted.mode),
            fields: wanted.fields,
            // Mode RAW knows no limits.
            unfiltered: wanted.unfiltered || wanted.mode == Mode::Raw,
        };
        for (position, item) in items.enumerate() {
            let decided = rules.decide(grants, item, &wanted);
            self.count_decision(&decided);
            let allowed = decided.map_err(denial)?;
            limits.frequency_max = lower(limits.frequency_max, allowed.frequency_max);
            limits.snapshot = tighter(limits.snapshot, allowed.snapshot);
            if allowed.records.is_some() {
                limits.records.resize(position, None);
                limits.records.push(allowed.records);
            }
        }
        Ok(limits)
    }
}

fn denial(denial: Denial) -> ItemDenial {
    (ControlCode::from_code(denial.code()), denial.text())
}

fn item_mode(mode: Mode) -> ItemMode {
    match mode {
        Mode::Raw => ItemMode::Raw,
        Mode::Merge => ItemMode::Merge,
        Mode::Distinct => ItemMode::Distinct,
        Mode::Command => ItemMode::Command,
    }
}

fn tighter(one: SnapshotRule, other: SnapshotRule) -> SnapshotRule {
    match (one, other) {
        (SnapshotRule::Excluded, _) | (_, SnapshotRule::Excluded) => SnapshotRule::Excluded,
        (SnapshotRule::LengthMax(one), SnapshotRule::LengthMax(other)) => {
            SnapshotRule::LengthMax(one.min(other))
        }
        (SnapshotRule::Allowed, limit) | (limit, SnapshotRule::Allowed) => limit,
    }
}

impl ItemLimits {
    /// Returns `true` if the client may see a class of records only of an item.
    pub fn has_classes(&self) -> bool {
        !self.records.is_empty()
    }

    /// Returns the class of records of the item at a position; `None` for all records.
    pub fn class(&self, position: usize) -> Option<&RecordClass> {
        self.records.get(position)?.as_deref()
    }

    /// Returns the request with these limits.
    pub fn restrict<'a>(&self, add: &Add<'a>) -> Add<'a> {
        let mut add = add.clone();
        if let Some(most) = self.frequency_max {
            add.requested_max_frequency = Frequency::PerSecond(match add.requested_max_frequency {
                Frequency::PerSecond(wanted) => wanted.min(most),
                Frequency::Unlimited | Frequency::Unfiltered => most,
            });
        }
        add.snapshot = match (self.snapshot, add.snapshot) {
            (SnapshotRule::Excluded, _) => Snapshot::No,
            (SnapshotRule::LengthMax(most), Snapshot::Yes) if add.mode == Mode::Distinct => {
                Snapshot::Length(most)
            }
            (SnapshotRule::LengthMax(most), Snapshot::Length(wanted)) => {
                Snapshot::Length(wanted.min(most))
            }
            (_, wanted) => wanted,
        };
        add
    }
}
