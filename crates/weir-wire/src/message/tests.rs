//! Messages with all fields, compared with the codec.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};
use proptest::prelude::*;

use super::definition::{FieldDefinition, FieldKind, StructDefinition};
use super::*;

/// Fills messages with values derived from a number.
struct Filler {
    seed: u64,
    version: i16,
    nulls: bool,
}

impl Filler {
    fn next(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695);
        self.seed >> 33
    }

    fn row(&mut self, definition: &StructDefinition) -> MessageRow<'static> {
        let values = definition.fields.iter().map(|field| self.value(field));
        MessageRow {
            values: values.collect(),
            unknown: Vec::new(),
        }
    }

    fn text(&mut self) -> Cow<'static, [u8]> {
        Cow::Owned("x".repeat(self.next() as usize % 5).into_bytes())
    }

    fn value(&mut self, field: &FieldDefinition) -> Value<'static> {
        if !field.versions.contains(&self.version) {
            return Value::Absent;
        }
        let null = self.nulls && field.is_nullable && self.next() % 2 == 0;
        let count = self.next() % 3;
        let bytes = field.kind.fixed_bytes();
        match (&field.kind, field.is_array) {
            (FieldKind::Struct(structure), true) => {
                let rows = (0..count).map(|_| self.row(structure));
                let rows = rows.collect();
                Value::Rows((!null).then_some(rows))
            }
            (FieldKind::Struct(structure), false) => {
                let row = Box::new(self.row(structure));
                Value::Row((!null).then_some(row))
            }
            (FieldKind::Text, true) => {
                let texts = (0..count).map(|_| self.text()).collect();
                Value::Texts((!null).then_some(texts))
            }
            (_, true) => {
                let bytes = vec![7; count as usize * bytes.expect("a fixed size")];
                Value::Packed((!null).then_some(bytes.into()))
            }
            (FieldKind::Text, _) => Value::Bytes((!null).then(|| self.text())),
            // The codec looks into records, so there are none.
            (FieldKind::Bytes, _) if field.name == "Records" => Value::Bytes(Some(Cow::default())),
            (FieldKind::Bytes, _) => Value::Bytes((!null).then(|| self.text())),
            (FieldKind::Uuid, _) => Value::Uuid(u128::from(self.next()) << 70),
            (FieldKind::Bool, _) => Value::Int(self.next() as i64 % 2),
            (FieldKind::F64, _) => Value::Int((self.next() as f64).to_bits() as i64),
            _ => Value::Int(self.next() as i64 % 100),
        }
    }
}

fn encoded(
    row: &MessageRow<'_>,
    definition: &StructDefinition,
    version: i16,
    flexible: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    encode(row, definition, version, flexible, &mut out);
    out
}

/// Calls `check` with every message of every version.
fn for_each(check: impl Fn(&ApiDefinition, i16, bool, &StructDefinition)) {
    for api in (0..100).filter_map(api) {
        for version in api.versions.clone() {
            check(api, version, true, &api.request);
            check(api, version, false, &api.response);
        }
    }
}

/// Returns `true` for versions that the codec does not know, or has from a draft: OffsetCommit and
/// OffsetFetch 10, InitProducerId 6.
fn is_unknown_to_codec(key: ApiKey, version: i16) -> bool {
    let range = key.valid_versions();
    let is_draft = [(8, 10), (9, 10), (22, 6)].contains(&(key as i16, version));
    is_draft || version < range.min || version > range.max
}

#[test]
fn messages_match_reference_codec() {
    let compared = std::cell::Cell::new(0);
    for_each(|api, version, is_request, definition| {
        let Ok(key) = ApiKey::try_from(api.key) else {
            return;
        };
        if is_unknown_to_codec(key, version) {
            return;
        }
        for seed in 0..8 {
            let nulls = false;
            let row = Filler {
                seed,
                version,
                nulls,
            }
            .row(definition);
            let ours = encoded(&row, definition, version, api.is_flexible(version));
            let mut bytes = Bytes::from(ours.clone());
            let mut theirs = BytesMut::new();
            let place = format!("{} {version}, request: {is_request}", api.name);
            match is_request {
                true => {
                    let message = RequestKind::decode(key, &mut bytes, version);
                    let message = message.unwrap_or_else(|error| panic!("{place}: {error}"));
                    message.encode(&mut theirs, version).expect("encodes");
                }
                false => {
                    let message = ResponseKind::decode(key, &mut bytes, version);
                    let message = message.unwrap_or_else(|error| panic!("{place}: {error}"));
                    message.encode(&mut theirs, version).expect("encodes");
                }
            }
            assert!(bytes.is_empty(), "{place}: {} bytes left", bytes.len());
            assert_eq!(theirs, ours, "{place}");
        }
        compared.set(compared.get() + 1);
    });
    assert!(compared.get() > 500, "{} messages", compared.get());
}

#[test]
fn all_messages_round_trip() {
    for_each(|api, version, _, definition| {
        let flexible = api.is_flexible(version);
        for seed in 0..8 {
            let nulls = true;
            let mut row = Filler {
                seed,
                version,
                nulls,
            }
            .row(definition);
            if flexible {
                row.unknown.push((99, Cow::Borrowed(b"new")));
            }
            let bytes = encoded(&row, definition, version, flexible);
            let decoded = decode(definition, version, flexible, &bytes).expect("decodes");
            assert_eq!(decoded, row, "{} {version}", api.name);
            assert_eq!(decoded.into_owned(), row);
            let cut = &bytes[..bytes.len().saturating_sub(1)];
            assert!(bytes.is_empty() || decode(definition, version, flexible, cut).is_err());
        }
    });
}

#[test]
fn values_of_a_message_are_bounded() {
    let api = api(3).expect("Metadata");
    let count: i32 = 600_000;
    let mut body = count.to_be_bytes().to_vec();
    body.extend(vec![0; 2 * count as usize]);
    body.push(0);
    assert!(decode(&api.request, 4, false, &body).is_err());
    let few = [0, 0, 0, 2, 0, 1, b'a', 0, 1, b'b', 0];
    let row = decode(&api.request, 4, false, &few).expect("decodes");
    assert_eq!(row.get(&api.request, "Topics").rows().len(), 2);
    let impossible = [0x7f, 0xff, 0xff, 0xff, 0];
    assert!(decode(&api.request, 4, false, &impossible).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        key in 0..93_i16,
        version in 0..14_i16,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        crate::fuzz::message(&[&[key as u8, version as u8], &bytes[..]].concat());
    }
}
