//! Fetch requests of lean consumers: version 11, one topic, no session.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiKey;

use super::EncodeError;
use super::fetch::VERSION;
use super::frame::SIZE_BYTES;

/// Parameters of a fetch request, except its partitions.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct FetchQuery<'a> {
    pub client_id: &'a str,
    pub topic: &'a str,
    /// Maximum time the broker waits for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Minimum size of the records in the response, unless `max_wait_ms` elapses.
    pub min_bytes: i32,
    /// Maximum size of the records in the response. A larger first batch is returned whole.
    pub max_bytes: i32,
    /// Return only records of committed transactions, and of none.
    pub committed_only: bool,
}

/// Appends a fetch request without a fetch session. `partitions` contains partitions and their next
/// offsets. Encoded here without allocations, because each consumer sends one per response.
pub fn write(
    out: &mut BytesMut,
    correlation_id: i32,
    query: &FetchQuery<'_>,
    partitions: impl ExactSizeIterator<Item = (i32, i64)>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_i32(0);
    out.put_i16(ApiKey::Fetch as i16);
    out.put_i16(VERSION);
    out.put_i32(correlation_id);
    put_string(out, query.client_id)?;
    out.put_i32(-1); // replica id: a consumer
    out.put_i32(query.max_wait_ms);
    out.put_i32(query.min_bytes);
    out.put_i32(query.max_bytes);
    out.put_i8(query.committed_only.into()); // isolation level
    out.put_i32(0); // session id
    out.put_i32(-1); // session epoch: none
    out.put_i32(1);
    put_string(out, query.topic)?;
    out.put_i32(count(partitions.len())?);
    for (partition, offset) in partitions {
        out.put_i32(partition);
        out.put_i32(-1); // leader epoch: unchecked
        out.put_i64(offset);
        out.put_i64(-1); // log start offset: for followers only
        out.put_i32(query.max_bytes);
    }
    out.put_i32(0); // forgotten topics
    put_string(out, "")?; // rack
    let size = count(out.len() - start - SIZE_BYTES)?;
    out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

fn put_string(out: &mut BytesMut, text: &str) -> Result<(), EncodeError> {
    let length = i16::try_from(text.len()).map_err(|_| too_large("a string"))?;
    out.put_i16(length);
    out.put_slice(text.as_bytes());
    Ok(())
}

fn count(count: usize) -> Result<i32, EncodeError> {
    i32::try_from(count).map_err(|_| too_large("the request"))
}

fn too_large(what: &str) -> EncodeError {
    EncodeError {
        api: "Fetch".to_owned(),
        reason: format!("{what} is too large"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{FetchRequest, RequestHeader};
    use kafka_protocol::protocol::Decodable;

    #[test]
    fn written_request_is_decodable() {
        let query = FetchQuery {
            client_id: "me",
            topic: "t",
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
            committed_only: true,
        };
        let mut out = BytesMut::new();
        write(&mut out, 9, &query, [(0, 5), (3, 70)].into_iter()).expect("fits");
        let size = i32::from_be_bytes(out[..4].try_into().expect("four bytes"));
        let mut bytes = out.freeze().slice(4..);
        assert_eq!(bytes.len(), size as usize);
        let header = RequestHeader::decode(&mut bytes, 1).expect("header");
        assert_eq!(
            (header.correlation_id, header.client_id.as_deref()),
            (9, Some("me"))
        );
        let body = FetchRequest::decode(&mut bytes, VERSION).expect("body");
        assert!(bytes.is_empty(), "trailing bytes");
        assert_eq!(
            (body.max_wait_ms, body.min_bytes, body.session_epoch),
            (500, 1, -1)
        );
        assert_eq!(body.isolation_level, 1);
        let topic = &body.topics[0];
        assert_eq!(topic.topic.as_str(), "t");
        let found: Vec<_> = topic
            .partitions
            .iter()
            .map(|it| {
                (
                    it.partition,
                    it.fetch_offset,
                    it.current_leader_epoch,
                    it.partition_max_bytes,
                )
            })
            .collect();
        assert_eq!(found, [(0, 5, -1, 1 << 20), (3, 70, -1, 1 << 20)]);
    }
}
