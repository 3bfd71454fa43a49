//! Frame headers: values that the proxy needs before the rest of a frame has arrived.

use weir_wire::cluster::TopicId;
use weir_wire::header::RequestPeek;
use weir_wire::layout::{self, MessageLayout};
use weir_wire::reader::WireReader;
use weir_wire::{WireError, topic_ids};

use super::error::HEADER_BYTES_MAX;
use super::{SIZE_BYTES, StreamError};
use crate::versions::{API_VERSIONS, FETCH, PRODUCE, SASL_HANDSHAKE, flexible};

/// Bytes of a request up to the correlation id: size, API key, API version, correlation id.
pub(super) const REQUEST_PEEK_BYTES: usize = SIZE_BYTES + 8;
/// Bytes of a response up to the correlation id: size and correlation id.
pub(super) const RESPONSE_PEEK_BYTES: usize = SIZE_BYTES + 4;

/// A value of a frame that may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderPeek<T> {
    /// At least this many bytes, including the size prefix, are needed.
    Incomplete(usize),
    Complete(T),
}

/// Reads the fixed part of a request header. `frame` includes the size prefix.
pub(super) fn request(frame: &[u8]) -> Result<RequestPeek, WireError> {
    RequestPeek::read(frame.get(SIZE_BYTES..).unwrap_or_default())
}

/// Reads the acknowledgements that a Produce request asks for. `total` is the size of the frame
/// with its prefix.
pub(super) fn acks(
    frame: &[u8],
    total: usize,
    version: i16,
) -> Result<HeaderPeek<i16>, StreamError> {
    let frame = &frame[..frame.len().min(total)];
    match read_acks(frame, version) {
        Ok(acks) => Ok(HeaderPeek::Complete(acks)),
        Err(WireError::Truncated { .. }) if frame.len() < total => {
            if frame.len() >= HEADER_BYTES_MAX {
                return Err(StreamError::HeaderTooLong(frame.len()));
            }
            let more = (frame.len() * 2).clamp(64, HEADER_BYTES_MAX);
            Ok(HeaderPeek::Incomplete(more.min(total)))
        }
        Err(error) => Err(StreamError::Client(error)),
    }
}

fn read_acks(frame: &[u8], version: i16) -> Result<i16, WireError> {
    let mut reader = after_header(frame, PRODUCE, version)?;
    if flexible(PRODUCE, version) {
        reader.compact_bytes("transactional id")?;
    } else if version >= 3 {
        skip_string(&mut reader, "transactional id")?;
    }
    reader.i16("acks")
}

/// Returns the topic ids in a whole Produce or Fetch request of a version with ids.
pub(super) fn topic_ids(frame: &[u8], key: i16, version: i16) -> Result<Vec<TopicId>, WireError> {
    let body = &frame[request_body_at(frame, key, version)?..];
    let mut ids = Vec::new();
    match key {
        FETCH => topic_ids::fetch_request(body, version, &mut ids)?,
        _ => {
            let mut layout = MessageLayout::default();
            layout::produce(body, version, &mut layout)?;
            let mut topics = layout.topics.iter().map(|topic| &body[topic.topic.clone()]);
            ids.extend(
                topics
                    .by_ref()
                    .filter_map(<[u8]>::first_chunk)
                    .copied()
                    .map(TopicId::from_be_bytes),
            );
        }
    }
    Ok(ids)
}

/// Returns the position of the body in a request frame.
pub(super) fn request_body_at(frame: &[u8], key: i16, version: i16) -> Result<usize, WireError> {
    let reader = after_header(frame, key, version)?;
    Ok(frame.len() - reader.rest().len())
}

/// Returns the position of the body in a response frame.
pub(super) fn response_body_at(frame: &[u8], key: i16, version: i16) -> Result<usize, WireError> {
    let mut reader = WireReader::new(frame);
    reader.bytes(RESPONSE_PEEK_BYTES, "header")?;
    // The header of ApiVersions responses never has tagged fields, so that every client can read
    // it.
    if flexible(key, version) && key != API_VERSIONS {
        reader.skip_tags("header tags")?;
    }
    Ok(frame.len() - reader.rest().len())
}

fn after_header(frame: &[u8], key: i16, version: i16) -> Result<WireReader<'_>, WireError> {
    let mut reader = WireReader::new(frame);
    reader.bytes(REQUEST_PEEK_BYTES, "header")?;
    // The client id is not compact even in flexible versions. It is not used here.
    skip_string(&mut reader, "client id")?;
    if flexible(key, version) {
        reader.skip_tags("header tags")?;
    }
    Ok(reader)
}

fn skip_string(reader: &mut WireReader<'_>, what: &'static str) -> Result<(), WireError> {
    let length = reader.i16(what)?;
    match usize::try_from(length) {
        Ok(length) => reader.bytes(length, what).map(drop),
        Err(_) if length == -1 => Ok(()),
        Err(_) => Err(WireError::Length {
            what,
            value: i64::from(length),
        }),
    }
}

/// Returns the mechanism of a SaslHandshake frame, which must be complete.
pub(super) fn mechanism(frame: &[u8]) -> Result<&[u8], WireError> {
    let mut reader = after_header(frame, SASL_HANDSHAKE, 0)?;
    let length = reader.i16("mechanism")?;
    let length = usize::try_from(length).map_err(|_| WireError::Length {
        what: "mechanism",
        value: i64::from(length),
    })?;
    reader.bytes(length, "mechanism")
}

/// Returns the name and the version of the client software from an ApiVersions frame; `None` before
/// version 3 or if they are invalid.
pub(super) fn software(frame: &[u8], version: i16) -> Option<(&str, &str)> {
    let mut reader = after_header(frame, API_VERSIONS, version).ok()?;
    if !flexible(API_VERSIONS, version) {
        return None;
    }
    let name = reader.compact_string("client software name").ok()?;
    let version = reader.compact_string("client software version").ok()?;
    Some((name, version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};
    use kafka_protocol::messages::{ApiKey, ProduceRequest, RequestHeader, TransactionalId};
    use kafka_protocol::protocol::{Encodable, StrBytes};

    fn produce(version: i16, client: Option<&str>, txn: Option<&str>, acks: i16) -> Vec<u8> {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let mut body = BytesMut::new();
        let header = RequestHeader::default()
            .with_request_api_key(PRODUCE)
            .with_request_api_version(version)
            .with_correlation_id(7)
            .with_client_id(client.map(text));
        let header_version = ApiKey::Produce.request_header_version(version);
        header.encode(&mut body, header_version).expect("header");
        ProduceRequest::default()
            .with_acks(acks)
            .with_transactional_id(txn.map(|id| TransactionalId(text(id))))
            .encode(&mut body, version)
            .expect("body");
        let mut frame = BytesMut::new();
        frame.put_i32(body.len() as i32);
        frame.extend_from_slice(&body);
        frame.to_vec()
    }

    #[test]
    fn acks_are_found_in_every_header_format() {
        let long = "x".repeat(300);
        for version in 3..=13 {
            for client in [None, Some(""), Some("c"), Some(long.as_str())] {
                for txn in [None, Some(""), Some("t"), Some(long.as_str())] {
                    for wanted in [0, 1, -1] {
                        let frame = produce(version, client, txn, wanted);
                        let total = frame.len();
                        let found = acks(&frame, total, version);
                        assert_eq!(found, Ok(HeaderPeek::Complete(wanted)), "{version}");
                        // A shorter frame needs more bytes, and the number is always above its
                        // length.
                        for cut in REQUEST_PEEK_BYTES..total {
                            match acks(&frame[..cut], total, version).expect("no error") {
                                HeaderPeek::Complete(acks) => assert_eq!(acks, wanted),
                                HeaderPeek::Incomplete(more) => {
                                    assert!(more > cut && more <= total.max(64))
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn old_produce_requests_begin_with_acks() {
        let mut frame = vec![0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 7];
        frame.extend([0xff, 0xff, 0, 0]);
        assert_eq!(acks(&frame, 16, 1), Ok(HeaderPeek::Complete(0)));
    }

    #[test]
    fn invalid_headers_are_rejected() {
        let mut frame = produce(9, Some("c"), None, 0);
        frame[12..14].copy_from_slice(&[0xff, 0xfe]);
        assert!(matches!(
            acks(&frame, frame.len(), 9),
            Err(StreamError::Client(WireError::Length { .. }))
        ));
        let short = produce(9, Some("c"), None, 0);
        let error = acks(&short[..16], 16, 9).expect_err("acks are missing");
        assert!(matches!(
            error,
            StreamError::Client(WireError::Truncated { .. })
        ));
        // Many header tags are read up to a limit.
        let mut tags = short[..15].to_vec();
        tags.extend([0xff, 0xff, 0xff, 0x0f, 0, 0xff, 0xff, 0xff, 0x0f]);
        tags.resize(HEADER_BYTES_MAX, 0);
        assert_eq!(
            acks(&tags, 1 << 28, 9),
            Err(StreamError::HeaderTooLong(HEADER_BYTES_MAX))
        );
    }
}
