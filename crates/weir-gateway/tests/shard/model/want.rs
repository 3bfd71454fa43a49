//! Subscriptions of the model's clients.

use weir_mapping::FieldSet;

use super::values::{FIELDS, KnownValues, ModelRow};

/// Mode and limits of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionKind {
    Raw,
    Distinct,
    DistinctOne,
    DistinctUnfiltered,
    DistinctPaced,
    Merge,
    MergeTwo,
    MergeUnfiltered,
    MergePaced,
    Command,
    CommandUnfiltered,
    CommandPaced,
}

pub(super) const KINDS: [SubscriptionKind; 12] = [
    SubscriptionKind::Raw,
    SubscriptionKind::Distinct,
    SubscriptionKind::DistinctOne,
    SubscriptionKind::DistinctUnfiltered,
    SubscriptionKind::DistinctPaced,
    SubscriptionKind::Merge,
    SubscriptionKind::MergeTwo,
    SubscriptionKind::MergeUnfiltered,
    SubscriptionKind::MergePaced,
    SubscriptionKind::Command,
    SubscriptionKind::CommandUnfiltered,
    SubscriptionKind::CommandPaced,
];

/// Milliseconds between two updates of a subscription with a frequency limit.
pub(super) const PERIOD_MS: u64 = 200;

impl SubscriptionKind {
    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::Raw => "RAW",
            Self::Distinct | Self::DistinctOne | Self::DistinctUnfiltered | Self::DistinctPaced => {
                "DISTINCT"
            }
            Self::Merge | Self::MergeTwo | Self::MergeUnfiltered | Self::MergePaced => "MERGE",
            Self::Command | Self::CommandUnfiltered | Self::CommandPaced => "COMMAND",
        }
    }

    pub(super) fn limits(self) -> &'static str {
        match self {
            Self::DistinctOne => "&LS_requested_buffer_size=1",
            Self::MergeTwo => "&LS_requested_buffer_size=2",
            Self::DistinctUnfiltered | Self::MergeUnfiltered | Self::CommandUnfiltered => {
                "&LS_requested_max_frequency=unfiltered"
            }
            Self::DistinctPaced | Self::MergePaced | Self::CommandPaced => {
                "&LS_requested_max_frequency=5"
            }
            _ => "",
        }
    }

    pub(super) fn is_merge(self) -> bool {
        self.mode() == "MERGE"
    }

    pub(super) fn is_command(self) -> bool {
        self.mode() == "COMMAND"
    }

    pub(super) fn is_distinct(self) -> bool {
        self.mode() == "DISTINCT"
    }

    /// Returns `true` if every update is sent or reported as lost.
    pub(super) fn is_lossless(self) -> bool {
        matches!(
            self,
            Self::Raw | Self::DistinctUnfiltered | Self::MergeUnfiltered | Self::CommandUnfiltered
        )
    }

    pub(super) fn is_paced(self) -> bool {
        matches!(
            self,
            Self::DistinctPaced | Self::MergePaced | Self::CommandPaced
        )
    }
}

/// Parameters of a subscription.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubscriptionSpec {
    pub(super) item: usize,
    pub(super) fields: &'static [&'static str],
    pub(super) kind: SubscriptionKind,
    pub(super) snapshot: bool,
}

pub(super) type Values = Vec<Option<String>>;

impl SubscriptionSpec {
    /// Returns the fields that are read for it; for rows, all fields.
    pub(super) fn wanted(&self) -> FieldSet {
        match self.kind.is_command() {
            true => FieldSet::all(FIELDS.len()),
            false => self.indexes().flatten().collect(),
        }
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.wanted().contains(index)
    }

    /// Returns the indexes of the mapped fields of the schema.
    pub(super) fn indexes(&self) -> impl Iterator<Item = Option<usize>> {
        let names = self.fields.iter();
        names.map(|name| FIELDS.iter().position(|field| field == name))
    }

    pub(super) fn project(&self, row: &ModelRow) -> Values {
        self.indexes().map(|index| row[index?].clone()).collect()
    }

    /// Returns the current values if all are known.
    pub(super) fn current(&self, known: &KnownValues) -> Option<Values> {
        self.indexes()
            .map(|index| match index {
                None => Some(None),
                Some(index) => known[index].clone(),
            })
            .collect()
    }
}
