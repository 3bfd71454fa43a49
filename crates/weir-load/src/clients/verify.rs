//! Checks fields, key and stamp of an update, normally without storing its values.

use thiserror::Error;
use weir_stats::CompactHistogram;
use weir_tlcp::client::{FieldToken, ItemState, field_tokens};
use weir_tlcp::text::percent_decode;

use super::diff_choice::DiffChoice;
use super::target::{DUE, FIELDS, FieldMap, KEY, OFFSET, PARTITION, RequestTexts, STAMP, STORED};
use crate::delivery::{Conflation, DeliveryChecker};
use crate::due_text::{DueReader, DueTimestamp};
use crate::keys::{KeyId, KeyTable};
use crate::stamp::{Stamp, parse_decimal};

/// Received state of a client's item; some hundred bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientCheck {
    started: bool,
    /// Diff formats that the server may use.
    diffs: DiffChoice,
    /// All values, if they are compared or if diffs have to be applied.
    state: Option<Box<ItemState>>,
    /// Last received contents, which unchanged marks repeat.
    last_stamp: Option<Stamp>,
    last_due: Option<DueTimestamp>,
    last_key: Option<KeyId>,
    last_position: Option<(u64, u64)>,
    last_stored_ms: Option<u64>,
    /// Due time of the previous record, whose state a conflated update replaces.
    pub(super) state_due_unix_ns: Option<u64>,
    pub(super) checker: DeliveryChecker,
    pub(super) latency: CompactHistogram,
}

/// Records that a client may receive.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExpectedUpdate<'a> {
    /// Records of this key.
    Key(&'a str, KeyId),
    /// All records. Records without a key, or with a null key, get this one.
    All(KeyId),
}

#[derive(Debug)]
pub(super) struct DecodeContext<'a> {
    pub(super) due: &'a mut DueReader,
    pub(super) keys: &'a mut KeyTable,
    /// Read the mark of probe records.
    pub(super) marks: bool,
}

impl ClientCheck {
    pub(super) fn new(conflation: Conflation) -> Self {
        Self {
            checker: DeliveryChecker::new(conflation),
            ..Self::default()
        }
    }

    /// Allows diffs. Values are stored if they are compared, or if the due time is in a field that
    /// may be sent as a diff.
    pub(super) fn with_diffs(mut self, diffs: DiffChoice, target: &RequestTexts<'_>) -> Self {
        self.diffs = diffs;
        let inside = diffs.any() && !target.fields.has_stamp();
        if inside || target.options.verify_values {
            let state = ItemState::accepting(target.fields.count, diffs.accepted());
            self.state = Some(Box::new(state));
        }
        self
    }

    /// Returns the values after the last update, if they are stored.
    pub(super) fn values(&self) -> Option<impl Iterator<Item = Option<&str>>> {
        self.state.as_ref().map(|state| state.values())
    }

    /// Reads one update. After an error the update does not count.
    pub(super) fn read(
        &mut self,
        payload: &[u8],
        expected_update: ExpectedUpdate<'_>,
        fields: &FieldMap,
        context: &mut DecodeContext<'_>,
    ) -> Result<ReceivedUpdate, UpdateFault> {
        let expected = match expected_update {
            ExpectedUpdate::Key(key, _) => Some(key),
            ExpectedUpdate::All(_) => None,
        };
        let found = self.scan(payload, expected, fields)?;
        if let Some(state) = &mut self.state {
            state.apply(payload).map_err(|_| UpdateFault::Undecodable)?;
        }
        self.started = true;
        let key = match expected_update {
            ExpectedUpdate::Key(_, id) => Some(id),
            ExpectedUpdate::All(no_key) => self.key(found[KEY], no_key, context.keys),
        };
        let stamp = match found[STAMP] {
            Some(FieldToken::Raw(text)) => {
                Some(Stamp::parse_text(text).ok_or(UpdateFault::BadStamp)?)
            }
            Some(FieldToken::Unchanged { .. }) => self.last_stamp,
            _ => None,
        };
        self.last_stamp = stamp;
        let text = match found[DUE] {
            // The stamp is more exact and cheaper to read.
            _ if stamp.is_some() && !context.marks => None,
            Some(FieldToken::Raw(text)) => {
                Some(context.due.read(text)).filter(|due| due.unix_ns.is_some())
            }
            Some(FieldToken::JsonPatch(_) | FieldToken::TlcpDiff(_)) => {
                let value = self.state.as_ref().zip(fields.positions[DUE]);
                let value = value.and_then(|(state, field)| state.value(field));
                let due = value.map(|value| context.due.read(value.as_bytes()));
                due.filter(|due| due.unix_ns.is_some())
            }
            Some(FieldToken::Unchanged { .. }) => self.last_due,
            _ => None,
        };
        self.last_due = text;
        let last = self.last_position;
        let partition = number(found[PARTITION], last.map(|(partition, _)| partition));
        let offset = number(found[OFFSET], last.map(|(_, offset)| offset));
        self.last_position = partition.zip(offset);
        self.last_stored_ms = number(found[STORED], self.last_stored_ms);
        Ok(ReceivedUpdate {
            identity: match (stamp, self.last_position) {
                (Some(stamp), _) => RecordIdentity::Stamp(stamp),
                (None, Some((partition, offset))) => RecordIdentity::Position { partition, offset },
                (None, None) => RecordIdentity::Unknown,
            },
            due_unix_ns: stamp
                .map(|stamp| stamp.due_unix_ns)
                .or_else(|| text.and_then(|due| due.unix_ns)),
            stored_ms: self.last_stored_ms,
            marked: text.is_some_and(|due| due.marked),
            key,
        })
    }

    /// Returns the key of an update that may have any key; `None` if the key table is full.
    fn key(
        &mut self,
        token: Option<FieldToken<'_>>,
        no_key: KeyId,
        keys: &mut KeyTable,
    ) -> Option<KeyId> {
        self.last_key = match token {
            Some(FieldToken::Raw(text)) if text.contains(&b'%') => {
                let text = std::str::from_utf8(text).ok()?;
                keys.id(percent_decode(text).as_bytes())
            }
            Some(FieldToken::Raw(text)) => keys.id(text),
            Some(FieldToken::Unchanged { .. }) => self.last_key,
            _ => Some(no_key),
        };
        self.last_key
    }

    /// Returns the tokens of the fields that clients read.
    fn scan<'a>(
        &self,
        payload: &'a [u8],
        key: Option<&str>,
        fields: &FieldMap,
    ) -> Result<[Option<FieldToken<'a>>; FIELDS], UpdateFault> {
        let (started, diffs) = (self.started, self.diffs);
        let mut found = [None; FIELDS];
        let mut end = 0;
        for token in field_tokens(payload) {
            let (first, token) = token.map_err(|_| UpdateFault::BadMark)?;
            let width = match token {
                FieldToken::Unchanged { .. } if !started => return Err(UpdateFault::NotExplicit),
                FieldToken::Unchanged { count } => count,
                FieldToken::JsonPatch(_) if !diffs.json_patch => return Err(UpdateFault::Diff),
                FieldToken::TlcpDiff(_) if !diffs.tlcp_diff => return Err(UpdateFault::Diff),
                FieldToken::Raw(text)
                    if fields.positions[KEY] == Some(first)
                        && key.is_some_and(|key| !is_text(text, key)) =>
                {
                    return Err(UpdateFault::ForeignKey);
                }
                _ => 1,
            };
            end = first - 1 + width;
            for (position, slot) in fields.positions.iter().zip(&mut found) {
                if position.is_some_and(|at| (first..=end).contains(&at)) {
                    *slot = Some(token);
                }
            }
        }
        match end == fields.count {
            true => Ok(found),
            false => Err(UpdateFault::FieldCount),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceivedUpdate {
    pub(super) identity: RecordIdentity,
    pub(super) due_unix_ns: Option<u64>,
    /// Timestamp of the record, if the update has it.
    pub(super) stored_ms: Option<u64>,
    /// The record has the mark of probe records.
    pub(super) marked: bool,
    pub(super) key: Option<KeyId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordIdentity {
    Stamp(Stamp),
    Position { partition: u64, offset: u64 },
    Unknown,
}

/// Error in an update. The texts appear in the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum UpdateFault {
    #[error("update with a malformed mark")]
    BadMark,
    #[error("update whose number of fields differs from the schema")]
    FieldCount,
    #[error("first update of an item with an unchanged mark")]
    NotExplicit,
    #[error("update with a diff although the session allowed none")]
    Diff,
    #[error("update that cannot be applied to the previous values")]
    Undecodable,
    #[error("update whose key field differs from the key of its item")]
    ForeignKey,
    #[error("update with a malformed stamp")]
    BadStamp,
}

/// Returns `true` if an escaped text equals `expected` after decoding.
fn is_text(escaped: &[u8], expected: &str) -> bool {
    if !escaped.contains(&b'%') {
        return escaped == expected.as_bytes();
    }
    std::str::from_utf8(escaped).is_ok_and(|text| percent_decode(text) == expected)
}

/// Returns the number of a token, or `last` for an unchanged mark.
fn number(token: Option<FieldToken<'_>>, last: Option<u64>) -> Option<u64> {
    match token? {
        FieldToken::Unchanged { .. } => last,
        FieldToken::Raw(text) => parse_decimal(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
