//! Wire frames: how a record names the schema of its key or value.
//!
//! Confluent: magic byte 0 and a number, or magic byte 1 and a GUID, before the payload or in a
//! header; for Protobuf followed by the path of the message type. Azure: an id in a header.

use smallvec::SmallVec;
use thiserror::Error;

use super::format::Framing;
use super::id::SchemaKey;
use crate::record_part::RecordPart;
use crate::record_view::RecordView;

/// Maximum nesting of message types.
const INDEXES_MAX: usize = 64;
/// Maximum length of an id of an Azure registry, which are 32 digits today.
const NAME_BYTES_MAX: usize = 128;

const AZURE_JSON_HEADER: &str = "schemaId";
const AZURE_AVRO_HEADER: &str = "content-type";
const AZURE_AVRO_TYPE: &str = "avro/binary+";

/// Path of a message type in a Protobuf schema; empty for other formats.
pub(crate) type MessageIndexes = SmallVec<[i32; 4]>;

/// Schema of a payload and the position of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) id: SchemaKey<'a>,
    pub(crate) indexes: MessageIndexes,
    /// Position of the body in the payload.
    pub(crate) start: usize,
}

/// Reason why a payload has no valid frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe the variants
pub enum FrameError {
    #[error("{0} bytes are too few for a schema id")]
    Short(usize),
    #[error("byte {0} at the start is not the magic byte of a schema id, which is 0 or 1")]
    Magic(u8),
    #[error("invalid message indexes after the schema id")]
    Indexes,
    #[error("header {0} is missing")]
    NoHeader(&'static str),
    #[error("header {0} does not contain a schema id")]
    Header(&'static str),
}

/// Reads the frame of a key or value.
pub(crate) fn read_frame<'a>(
    framing: Framing,
    part: RecordPart,
    record: &RecordView<'a>,
) -> Result<Frame<'a>, FrameError> {
    match framing {
        Framing::Confluent { has_indexes } => confluent(part, record, has_indexes),
        Framing::AzureAvro => {
            let value = text_header(record, AZURE_AVRO_HEADER)?;
            azure(value.strip_prefix(AZURE_AVRO_TYPE), AZURE_AVRO_HEADER)
        }
        Framing::AzureJson => azure(
            Some(text_header(record, AZURE_JSON_HEADER)?),
            AZURE_JSON_HEADER,
        ),
    }
}

/// A header has precedence over the payload.
fn confluent<'a>(
    part: RecordPart,
    record: &RecordView<'a>,
    has_indexes: bool,
) -> Result<Frame<'a>, FrameError> {
    let name = match part {
        RecordPart::Key => "__key_schema_id",
        RecordPart::Value => "__value_schema_id",
    };
    if let Some(header) = last_header(record, name) {
        let (id, indexes, _) = prefix(header, has_indexes)?;
        return Ok(Frame {
            id,
            indexes,
            start: 0,
        });
    }
    let payload = match part {
        RecordPart::Key => record.key,
        RecordPart::Value => record.value,
    };
    let (id, indexes, start) = prefix(payload.unwrap_or_default(), has_indexes)?;
    Ok(Frame { id, indexes, start })
}

/// Reads a magic byte, an id and message indexes. Returns the position after them.
fn prefix(
    bytes: &[u8],
    has_indexes: bool,
) -> Result<(SchemaKey<'static>, MessageIndexes, usize), FrameError> {
    let short = || FrameError::Short(bytes.len());
    let (magic, rest) = bytes.split_first().ok_or_else(short)?;
    let (id, rest) = match magic {
        0 => {
            let (number, rest) = rest.split_first_chunk().ok_or_else(short)?;
            (SchemaKey::Number(i32::from_be_bytes(*number)), rest)
        }
        1 => {
            let (guid, rest) = rest.split_first_chunk().ok_or_else(short)?;
            (SchemaKey::Guid(u128::from_be_bytes(*guid)), rest)
        }
        other => return Err(FrameError::Magic(*other)),
    };
    let mut rest = rest;
    let mut indexes = MessageIndexes::new();
    if has_indexes {
        indexes = message_indexes(&mut rest).ok_or(FrameError::Indexes)?;
    }
    Ok((id, indexes, bytes.len() - rest.len()))
}

/// Reads a count and as many indexes; the count 0 means the first message.
fn message_indexes(bytes: &mut &[u8]) -> Option<MessageIndexes> {
    let count = usize::try_from(zigzag(bytes)?).ok()?;
    if count == 0 {
        return Some(MessageIndexes::from_elem(0, 1));
    }
    if count > INDEXES_MAX || count > bytes.len() {
        return None;
    }
    let mut indexes = MessageIndexes::with_capacity(count);
    for _ in 0..count {
        indexes.push(zigzag(bytes).filter(|index| *index >= 0)?);
    }
    Some(indexes)
}

/// Reads a zigzag varint of at most 32 bits.
fn zigzag(bytes: &mut &[u8]) -> Option<i32> {
    let mut value = 0_u64;
    for position in 0..5 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((value >> 1) as i32 ^ -((value & 1) as i32));
        }
    }
    None
}

fn azure<'a>(id: Option<&'a str>, header: &'static str) -> Result<Frame<'a>, FrameError> {
    let is_name = |name: &&str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain)
    };
    let name = id.filter(is_name).ok_or(FrameError::Header(header))?;
    Ok(Frame {
        id: SchemaKey::Name(name),
        indexes: MessageIndexes::new(),
        start: 0,
    })
}

fn text_header<'a>(record: &RecordView<'a>, name: &'static str) -> Result<&'a str, FrameError> {
    let value = last_header(record, name).ok_or(FrameError::NoHeader(name))?;
    std::str::from_utf8(value).map_err(|_| FrameError::Header(name))
}

/// Returns the value of the last header with a name, if it is not null.
fn last_header<'a>(record: &RecordView<'a>, name: &str) -> Option<&'a [u8]> {
    let mut headers = record.headers.iter().rev();
    headers.find(|(key, _)| *key == name)?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: Framing = Framing::Confluent { has_indexes: true };
    const AVRO: Framing = Framing::Confluent { has_indexes: false };

    type Headers<'a> = &'a [(&'a str, Option<&'a [u8]>)];

    fn view<'a>(value: &'a [u8], headers: Headers<'a>) -> RecordView<'a> {
        RecordView {
            topic: "t",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: None,
            value: Some(value),
            headers,
        }
    }

    fn frame<'a>(
        framing: Framing,
        value: &'a [u8],
        headers: Headers<'a>,
    ) -> Result<(SchemaKey<'a>, Vec<i32>, usize), FrameError> {
        let read = read_frame(framing, RecordPart::Value, &view(value, headers))?;
        Ok((read.id, read.indexes.to_vec(), read.start))
    }

    #[test]
    fn confluent_frames_are_read() {
        let number = |number| SchemaKey::Number(number);
        let guid = [&[1_u8][..], &[0; 15], &[9]].concat();
        let rows: &[(Framing, &[u8], _)] = &[
            (AVRO, &[0, 0, 0, 1, 2, 7], (number(258), vec![], 5)),
            (AVRO, &guid, (SchemaKey::Guid(9), vec![], 17)),
            (PROTOBUF, &[0, 0, 0, 0, 1, 0, 8], (number(1), vec![0], 6)),
            (
                PROTOBUF,
                &[0, 0, 0, 0, 1, 4, 2, 0],
                (number(1), vec![1, 0], 8),
            ),
            (
                PROTOBUF,
                &[0, 0, 0, 0, 1, 2, 0x90, 3],
                (number(1), vec![200], 8),
            ),
        ];
        for (framing, bytes, expected) in rows {
            assert_eq!(
                frame(*framing, bytes, &[]).as_ref(),
                Ok(expected),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn header_has_precedence_over_payload() {
        let header = [&[1_u8][..], &[0; 15], &[9], &[0]].concat();
        let headers: Headers<'_> = &[
            ("__value_schema_id", None),
            ("__value_schema_id", Some(&header)),
        ];
        let read = frame(PROTOBUF, &[0, 0, 0, 0, 1, 0], headers);
        assert_eq!(read, Ok((SchemaKey::Guid(9), vec![0], 0)));
        let null: Headers<'_> = &[("__value_schema_id", None)];
        let read = frame(AVRO, &[0, 0, 0, 0, 1], null);
        assert_eq!(read, Ok((SchemaKey::Number(1), vec![], 5)));
    }

    #[test]
    fn azure_ids_are_in_headers() {
        let id = SchemaKey::Name("0fa1");
        let read = frame(Framing::AzureJson, b"{}", &[("schemaId", Some(b"0fa1"))]);
        assert_eq!(read, Ok((id, vec![], 0)));
        let avro: Headers<'_> = &[("content-type", Some(b"avro/binary+0fa1"))];
        assert_eq!(frame(Framing::AzureAvro, b"", avro), Ok((id, vec![], 0)));
    }

    #[test]
    fn malformed_frames_are_errors() {
        let rows: &[(Framing, &[u8], FrameError)] = &[
            (AVRO, &[], FrameError::Short(0)),
            (AVRO, &[0, 0, 0, 1], FrameError::Short(4)),
            (AVRO, &[1, 0, 0, 1], FrameError::Short(4)),
            (AVRO, b"{\"a\":1}", FrameError::Magic(b'{')),
            (PROTOBUF, &[0, 0, 0, 0, 1], FrameError::Indexes),
            (PROTOBUF, &[0, 0, 0, 0, 1, 1], FrameError::Indexes),
            (
                PROTOBUF,
                &[0, 0, 0, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0xf],
                FrameError::Indexes,
            ),
            (
                PROTOBUF,
                &[0, 0, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff, 0xff],
                FrameError::Indexes,
            ),
            (PROTOBUF, &[0, 0, 0, 0, 1, 2, 1], FrameError::Indexes),
            (
                Framing::AzureAvro,
                b"",
                FrameError::NoHeader("content-type"),
            ),
            (Framing::AzureJson, b"", FrameError::NoHeader("schemaId")),
        ];
        for (framing, bytes, expected) in rows {
            assert_eq!(
                frame(*framing, bytes, &[]).as_ref(),
                Err(expected),
                "{bytes:?}"
            );
        }
        let rows: &[(Framing, &str, &[u8])] = &[
            (Framing::AzureAvro, "content-type", b"application/json"),
            (Framing::AzureAvro, "content-type", b"avro/binary+"),
            (Framing::AzureJson, "schemaId", b"../x"),
            (Framing::AzureJson, "schemaId", b"\xff"),
        ];
        for (framing, name, value) in rows {
            let error = frame(*framing, b"", &[(name, Some(value))]).unwrap_err();
            assert!(matches!(error, FrameError::Header(_)), "{name} {value:?}");
        }
    }
}
