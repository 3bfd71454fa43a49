//! Fetch requests of a session, version 11 with topic names and version 13 with topic ids. Encoded
//! without intermediate structures, because each response is followed by one.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::ApiKey;

use super::EncodeError;
use super::cluster::TopicId;
use super::frame::SIZE_BYTES;

/// Version with topic names.
pub const NAME_VERSION: i16 = super::fetch::VERSION;
/// Version with topic ids and compact encodings.
pub const ID_VERSION: i16 = 13;

/// Parameters of a request, except its partitions.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct SessionFetch<'a> {
    pub client_id: &'a str,
    /// Rack of the client; empty for none.
    pub rack: &'a str,
    /// Maximum time the broker waits for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    /// Only committed records are read.
    pub committed_only: bool,
    /// Session id and number of the request.
    pub session: (i32, i32),
}

/// One partition of a request.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct FetchRow<'a> {
    pub topic: &'a str,
    pub topic_id: TopicId,
    pub partition: i32,
    pub leader_epoch: i32,
    pub offset: i64,
    pub max_bytes: i32,
}

/// Appends a request. Rows of a topic must be next to each other.
pub fn write(
    out: &mut BytesMut,
    (version, correlation_id): (i16, i32),
    query: &SessionFetch<'_>,
    rows: &[FetchRow<'_>],
    forgotten: &[FetchRow<'_>],
) -> Result<(), EncodeError> {
    let start = out.len();
    let mut writer = Writer {
        out,
        by_id: version >= ID_VERSION,
    };
    writer.out.put_i32(0);
    writer.out.put_i16(ApiKey::Fetch as i16);
    writer.out.put_i16(version);
    writer.out.put_i32(correlation_id);
    // The client id of the header is never compact.
    put_string(writer.out, query.client_id)?;
    writer.tags();
    writer.out.put_i32(-1); // replica id: a consumer
    writer.out.put_i32(query.max_wait_ms);
    writer.out.put_i32(query.min_bytes);
    writer.out.put_i32(query.max_bytes);
    writer.out.put_i8(i8::from(query.committed_only));
    writer.out.put_i32(query.session.0);
    writer.out.put_i32(query.session.1);
    writer.topics(rows, |writer, row| {
        writer.out.put_i32(row.partition);
        writer.out.put_i32(row.leader_epoch);
        writer.out.put_i64(row.offset);
        if writer.by_id {
            // Epoch of the last record: positions are checked by another request.
            writer.out.put_i32(-1);
        }
        writer.out.put_i64(-1); // log start offset: for followers only
        writer.out.put_i32(row.max_bytes);
        writer.tags();
    })?;
    writer.topics(forgotten, |writer, row| writer.out.put_i32(row.partition))?;
    match writer.by_id {
        true => {
            put_uvarint(writer.out, length(query.rack.len() + 1)?);
            writer.out.put_slice(query.rack.as_bytes());
        }
        false => put_string(writer.out, query.rack)?,
    }
    writer.tags();
    let size = length(out.len() - start - SIZE_BYTES)?;
    let size = i32::try_from(size).map_err(|_| too_large("the request"))?;
    out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

struct Writer<'a> {
    out: &'a mut BytesMut,
    by_id: bool,
}

impl Writer<'_> {
    fn topics(
        &mut self,
        rows: &[FetchRow<'_>],
        mut put: impl FnMut(&mut Self, &FetchRow<'_>),
    ) -> Result<(), EncodeError> {
        let is_same = |one: &FetchRow<'_>, other: &FetchRow<'_>| {
            one.topic == other.topic && one.topic_id == other.topic_id
        };
        self.count(rows.chunk_by(is_same).count())?;
        for topic in rows.chunk_by(is_same) {
            match self.by_id {
                true => self.out.put_u128(topic[0].topic_id),
                false => put_string(self.out, topic[0].topic)?,
            }
            self.count(topic.len())?;
            for row in topic {
                put(self, row);
            }
            self.tags();
        }
        Ok(())
    }

    fn count(&mut self, count: usize) -> Result<(), EncodeError> {
        match self.by_id {
            true => put_uvarint(self.out, length(count + 1)?),
            false => self.out.put_u32(length(count)?),
        }
        Ok(())
    }

    /// Ends a structure of a flexible version, without tagged fields.
    fn tags(&mut self) {
        if self.by_id {
            self.out.put_u8(0);
        }
    }
}

fn put_string(out: &mut BytesMut, text: &str) -> Result<(), EncodeError> {
    let length = i16::try_from(text.len()).map_err(|_| too_large("a string"))?;
    out.put_i16(length);
    out.put_slice(text.as_bytes());
    Ok(())
}

fn put_uvarint(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn length(length: usize) -> Result<u32, EncodeError> {
    let length = i32::try_from(length).map_err(|_| too_large("the request"))?;
    Ok(length.unsigned_abs())
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
    use proptest::prelude::*;

    fn row(topic: &str, partition: i32, offset: i64) -> FetchRow<'_> {
        FetchRow {
            topic,
            topic_id: topic.len() as TopicId,
            partition,
            leader_epoch: 3,
            offset,
            max_bytes: 1 << 20,
        }
    }

    fn decoded(version: i16, rows: &[FetchRow<'_>], forgotten: &[FetchRow<'_>]) -> FetchRequest {
        let query = SessionFetch {
            client_id: "me",
            rack: "rack",
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
            committed_only: true,
            session: (77, 5),
        };
        let mut out = BytesMut::new();
        write(&mut out, (version, 9), &query, rows, forgotten).expect("fits");
        let size = i32::from_be_bytes(out[..4].try_into().expect("four bytes"));
        let mut bytes = out.freeze().slice(4..);
        assert_eq!(bytes.len(), size as usize);
        let header_version = if version >= ID_VERSION { 2 } else { 1 };
        let header = RequestHeader::decode(&mut bytes, header_version).expect("header");
        assert_eq!(
            (header.correlation_id, header.client_id.as_deref()),
            (9, Some("me"))
        );
        let body = FetchRequest::decode(&mut bytes, version).expect("body");
        assert!(bytes.is_empty(), "trailing bytes");
        assert_eq!((body.session_id, body.session_epoch), (77, 5));
        assert_eq!((body.isolation_level, body.rack_id.as_str()), (1, "rack"));
        body
    }

    proptest! {
        #[test]
        fn written_request_is_decodable(
            by_id in any::<bool>(),
            names in prop::collection::btree_set("[a-z]{1,9}", 0..5),
            partitions in prop::collection::btree_map(0_i32..300, any::<i64>(), 1..200),
        ) {
            let version = if by_id { ID_VERSION } else { NAME_VERSION };
            let rows: Vec<_> = names.iter()
                .flat_map(|name| partitions.iter().map(move |(it, offset)| row(name, *it, *offset)))
                .collect();
            let forgotten = [row("gone", 4, 0)];
            let body = decoded(version, &rows, &forgotten);
            let found: Vec<_> = body.topics.iter()
                .flat_map(|topic| topic.partitions.iter().map(|it| (it.partition, it.fetch_offset)))
                .collect();
            let expected: Vec<_> = rows.iter().map(|row| (row.partition, row.offset)).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(body.topics.iter().flat_map(|it| &it.partitions)
                .all(|it| it.current_leader_epoch == 3 && it.partition_max_bytes == 1 << 20));
            prop_assert_eq!(&body.forgotten_topics_data[0].partitions, &[4]);
            // Names of one length have one id, and rows of different names are different topics.
            prop_assert_eq!(body.topics.len(), names.len());
        }
    }
}
