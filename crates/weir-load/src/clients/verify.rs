//! Checking one update without keeping its values: fields, key, stamp.

use thiserror::Error;
use weir_stats::CompactHistogram;
use weir_tlcp::client::{FieldToken, field_tokens};
use weir_tlcp::text::percent_decode;

use super::FieldMap;
use crate::delivery::{Conflation, DeliveryChecker};
use crate::local_time::LocalTime;
use crate::stamp::{Stamp, due_from_value};

/// What a client knows of its item; some hundred bytes.
#[derive(Debug, Clone)]
pub(super) struct ClientCheck {
    started: bool,
    /// The stamp last received, which an unchanged mark repeats.
    last_stamp: Option<Stamp>,
    /// Partition and offset last received, where there is no stamp.
    last_position: Option<(u64, u64)>,
    pub(super) checker: DeliveryChecker,
    pub(super) latency: CompactHistogram,
}

impl ClientCheck {
    pub(super) fn new(conflation: Conflation) -> Self {
        Self {
            started: false,
            last_stamp: None,
            last_position: None,
            checker: DeliveryChecker::new(conflation),
            latency: CompactHistogram::default(),
        }
    }

    /// Reads one update of the item of `key`. After an error the update counts for nothing.
    pub(super) fn read(
        &mut self,
        payload: &[u8],
        key: &str,
        fields: &FieldMap,
        local: &mut LocalTime,
    ) -> Result<Received, Fault> {
        let found = Found::scan(payload, key, fields, self.started)?;
        self.started = true;
        if fields.stamp.is_none() {
            return self.unstamped(&found, local);
        }
        let stamp = match found.stamp {
            Some(FieldToken::Raw(text)) => Stamp::parse_text(text).ok_or(Fault::BadStamp)?,
            Some(FieldToken::Unchanged { .. }) => self.last_stamp.ok_or(Fault::BadStamp)?,
            _ => return self.unstamped(&found, local),
        };
        self.last_stamp = Some(stamp);
        Ok(Received::Stamped(stamp))
    }

    /// Without a stamp the text in front of the value tells when the record was due, and offsets
    /// tell whether it came in order.
    fn unstamped(&mut self, found: &Found<'_>, local: &mut LocalTime) -> Result<Received, Fault> {
        let last = self.last_position;
        let partition = number(found.partition, last.map(|(partition, _)| partition));
        let offset = number(found.offset, last.map(|(_, offset)| offset));
        self.last_position = partition.zip(offset);
        if let (Some((last_partition, last_offset)), Some(now)) = (last, self.last_position) {
            if now.0 == last_partition && now.1 <= last_offset {
                return Err(Fault::OffsetBack);
            }
        }
        let due_unix_ns = match found.value {
            Some(FieldToken::Raw(text)) => due_from_value(text, local),
            _ => None,
        };
        Ok(Received::Unstamped { due_unix_ns })
    }
}

/// What an update tells about its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Stamped(Stamp),
    Unstamped { due_unix_ns: Option<u64> },
}

/// What is wrong with an update. The texts are those of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Fault {
    #[error("update with a malformed mark")]
    BadMark,
    #[error("update whose number of fields is not that of the schema")]
    FieldCount,
    #[error("first update of an item with an unchanged mark")]
    NotExplicit,
    #[error("update with a diff although the session allowed none")]
    Diff,
    #[error("update whose key field is not the key of its item")]
    ForeignKey,
    #[error("update with a malformed stamp")]
    BadStamp,
    #[error("update whose offset is not above the one before")]
    OffsetBack,
}

/// The tokens of the fields that matter.
#[derive(Debug, Default)]
struct Found<'a> {
    value: Option<FieldToken<'a>>,
    partition: Option<FieldToken<'a>>,
    offset: Option<FieldToken<'a>>,
    stamp: Option<FieldToken<'a>>,
}

impl<'a> Found<'a> {
    /// Goes through all tokens once.
    fn scan(payload: &'a [u8], key: &str, fields: &FieldMap, started: bool) -> Result<Self, Fault> {
        let mut found = Self::default();
        let mut end = 0;
        for token in field_tokens(payload) {
            let (first, token) = token.map_err(|_| Fault::BadMark)?;
            let width = match token {
                FieldToken::Unchanged { .. } if !started => return Err(Fault::NotExplicit),
                FieldToken::Unchanged { count } => count,
                FieldToken::JsonPatch(_) | FieldToken::TlcpDiff(_) => return Err(Fault::Diff),
                FieldToken::Raw(text) if fields.key == Some(first) && !is_text(text, key) => {
                    return Err(Fault::ForeignKey);
                }
                _ => 1,
            };
            end = first - 1 + width;
            let covers = |field: Option<usize>| field.is_some_and(|at| (first..=end).contains(&at));
            for (field, slot) in [
                (fields.value, &mut found.value),
                (fields.partition, &mut found.partition),
                (fields.offset, &mut found.offset),
                (fields.stamp, &mut found.stamp),
            ] {
                if covers(field) {
                    *slot = Some(token);
                }
            }
        }
        if end != fields.count {
            return Err(Fault::FieldCount);
        }
        Ok(found)
    }
}

/// Whether an escaped text stands for `expected`.
fn is_text(escaped: &[u8], expected: &str) -> bool {
    if !escaped.contains(&b'%') {
        return escaped == expected.as_bytes();
    }
    std::str::from_utf8(escaped).is_ok_and(|text| percent_decode(text) == expected)
}

/// A number, or the one before if it is marked as unchanged.
fn number(token: Option<FieldToken<'_>>, last: Option<u64>) -> Option<u64> {
    match token? {
        FieldToken::Unchanged { .. } => last,
        FieldToken::Raw(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(names: &str) -> FieldMap {
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        FieldMap::new(&names)
    }

    fn read(check: &mut ClientCheck, fields: &FieldMap, text: &str) -> Result<Received, Fault> {
        check.read(text.as_bytes(), "Apple", fields, &mut LocalTime::utc())
    }

    fn stamped(seq: u64) -> Result<Received, Fault> {
        Ok(Received::Stamped(Stamp {
            due_unix_ns: 5,
            producer: 1,
            seq,
            sent_unix_ns: Some(9),
        }))
    }

    #[test]
    fn stamps_are_found_whatever_is_unchanged() {
        let fields = fields("key value ts partition offset weir");
        let mut check = ClientCheck::new(Conflation::Forbidden);
        assert_eq!(
            read(&mut check, &fields, "Apple|v|1|0|7|5.1.0.9"),
            stamped(0)
        );
        assert_eq!(read(&mut check, &fields, "^5|5.1.1.9"), stamped(1));
        assert_eq!(read(&mut check, &fields, "|#|$|^2|5.1.2.9"), stamped(2));
        assert_eq!(
            read(&mut check, &fields, "|v2|^4"),
            stamped(2),
            "the stamp is unchanged"
        );
        assert_eq!(
            read(&mut check, &fields, "%41pple|v|1|0|8|5.1.3.9"),
            stamped(3)
        );
    }

    #[test]
    fn faults() {
        let fields = fields("key value weir");
        let mut fresh = ClientCheck::new(Conflation::Forbidden);
        assert_eq!(
            read(&mut fresh, &fields, "Apple||5.1.0.9"),
            Err(Fault::NotExplicit)
        );
        for (text, fault) in [
            ("Apple|v", Fault::FieldCount),
            ("Apple|v|5.1.0.9|x", Fault::FieldCount),
            ("Apple|v|5.1.0", Fault::BadStamp),
            ("Pear|v|5.1.0.9", Fault::ForeignKey),
            ("Apple|^Px|5.1.0.9", Fault::Diff),
            ("Apple|^x|5.1.0.9", Fault::BadMark),
        ] {
            assert_eq!(read(&mut fresh, &fields, text), Err(fault), "{text}");
        }
        assert_eq!(read(&mut fresh, &fields, "Apple|v|5.1.0.9"), stamped(0));
        assert_eq!(read(&mut fresh, &fields, "^4"), Err(Fault::FieldCount));
    }

    #[test]
    fn published_configurations_fall_back_to_the_text() {
        let fields = fields("key value partition offset");
        let mut check = ClientCheck::new(Conflation::Forbidden);
        let due = Ok(Received::Unstamped {
            due_unix_ns: Some(3_600_000_000_000),
        });
        let value = "1970-01-01 01:00:00.000-pid-0-xyz";
        assert_eq!(
            read(&mut check, &fields, &format!("Apple|{value}|0|7")),
            due
        );
        assert_eq!(read(&mut check, &fields, &format!("|{value}||8")), due);
        assert_eq!(
            read(&mut check, &fields, &format!("|{value}||")),
            Err(Fault::OffsetBack)
        );
        assert_eq!(
            read(&mut check, &fields, "|no time||9"),
            Ok(Received::Unstamped { due_unix_ns: None })
        );
    }
}
