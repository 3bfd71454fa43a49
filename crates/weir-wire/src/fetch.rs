//! Fetch responses of version 11, with topic names and without compact encodings, and version 13,
//! with topic ids. They are read without copies.

use super::WireError;
use super::cluster::{TopicId, topic_id};
use super::reader::WireReader;

/// Latest version without compact encodings (13 and later have topic ids only).
pub const VERSION: i16 = 11;

/// One partition of a response, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct FetchedPartition<'a> {
    /// Topic name; empty in versions with topic ids.
    pub topic: &'a str,
    /// Topic id; 0 in versions with names.
    pub topic_id: TopicId,
    pub partition: i32,
    pub error: i16,
    /// Offset after the last record that all in-sync replicas have.
    pub high_watermark: i64,
    /// First offset of the earliest open transaction, otherwise the high watermark; -1 if unknown.
    pub last_stable_offset: i64,
    /// Node id of a follower to read from instead.
    pub preferred_replica: Option<i32>,
    /// Record batches; the last one may be truncated.
    pub records: &'a [u8],
    /// Number of bytes of the response after the records.
    pub bytes_after_records: usize,
    aborted: AbortedList<'a>,
}

impl<'a> FetchedPartition<'a> {
    /// Returns the aborted transactions among the records, if only committed ones were requested.
    pub fn aborted(&self) -> impl Iterator<Item = AbortedTransaction> + 'a {
        self.aborted
    }
}

/// A transaction whose records must not be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
}

/// Encoded list of aborted transactions whose length was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AbortedList<'a> {
    encoded: &'a [u8],
    count: usize,
    is_flexible: bool,
}

impl<'a> AbortedList<'a> {
    fn read(fields: &mut Fields<'a>) -> Result<Self, WireError> {
        let what = "aborted transactions";
        let count = fields.count(16, what)?;
        let encoded = fields.reader.rest();
        for _ in 0..count {
            fields.reader.bytes(16, what)?;
            fields.skip_tags()?;
        }
        Ok(Self {
            encoded,
            count,
            is_flexible: fields.is_flexible,
        })
    }
}

impl Iterator for AbortedList<'_> {
    type Item = AbortedTransaction;

    fn next(&mut self) -> Option<AbortedTransaction> {
        self.count = self.count.checked_sub(1)?;
        let mut fields = Fields {
            reader: WireReader::new(self.encoded),
            is_flexible: self.is_flexible,
        };
        // These reads cannot fail, because `AbortedList::read` has done them once.
        let producer_id = fields.reader.i64("producer id").ok()?;
        let first_offset = fields.reader.i64("first offset").ok()?;
        fields.skip_tags().ok()?;
        self.encoded = fields.reader.rest();
        Some(AbortedTransaction {
            producer_id,
            first_offset,
        })
    }
}

/// Top-level fields of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchResponseFields {
    /// Milliseconds for which the broker throttles the client.
    pub throttle_ms: i32,
    /// Kafka error code, 0 for none.
    pub error: i16,
    /// Id of the fetch session, 0 for none.
    pub session_id: i32,
}

/// Returns the body of a response frame of `version`, or an error if the correlation id differs.
pub fn body_of(frame: &[u8], version: i16, correlation_id: i32) -> Result<&[u8], WireError> {
    let mut fields = Fields::new(frame, version);
    let found = fields.reader.i32("correlation id")?;
    if found != correlation_id {
        return Err(WireError::CorrelationId {
            found,
            expected: correlation_id,
        });
    }
    fields.skip_tags()?;
    Ok(fields.reader.rest())
}

/// Reads the body of a response of `version` and calls `sink` for each partition.
pub fn read<'a, E: From<WireError>>(
    version: i16,
    body: &'a [u8],
    mut sink: impl FnMut(FetchedPartition<'a>) -> Result<(), E>,
) -> Result<FetchResponseFields, E> {
    let mut fields = Fields::new(body, version);
    let head = FetchResponseFields {
        throttle_ms: fields.reader.i32("throttle time")?,
        error: fields.reader.i16("error code")?,
        session_id: fields.reader.i32("session id")?,
    };
    for _ in 0..fields.count(6, "topics")? {
        let topic = fields.topic()?;
        for _ in 0..fields.count(37, "partitions")? {
            sink(fields.partition(topic)?)?;
        }
        fields.skip_tags()?;
    }
    Ok(head)
}

/// Reader of the fields whose encoding depends on the version.
struct Fields<'a> {
    reader: WireReader<'a>,
    is_flexible: bool,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], version: i16) -> Self {
        Self {
            reader: WireReader::new(bytes),
            is_flexible: version >= FLEXIBLE_VERSION,
        }
    }

    fn count(&mut self, bytes_min: usize, what: &'static str) -> Result<usize, WireError> {
        match self.is_flexible {
            true => self.reader.compact_count(bytes_min, what),
            false => self.reader.count(bytes_min, what),
        }
    }

    fn skip_tags(&mut self) -> Result<(), WireError> {
        match self.is_flexible {
            true => self.reader.skip_tags("tagged fields"),
            false => Ok(()),
        }
    }

    fn topic(&mut self) -> Result<(&'a str, TopicId), WireError> {
        match self.is_flexible {
            true => Ok(("", topic_id(&mut self.reader)?)),
            false => Ok((self.reader.string("topic name")?, 0)),
        }
    }

    fn partition(
        &mut self,
        (topic, topic_id): (&'a str, TopicId),
    ) -> Result<FetchedPartition<'a>, WireError> {
        let partition = self.reader.i32("partition")?;
        let error = self.reader.i16("partition error")?;
        let high_watermark = self.reader.i64("high watermark")?;
        let last_stable_offset = self.reader.i64("last stable offset")?;
        self.reader.i64("log start offset")?;
        let aborted = AbortedList::read(self)?;
        let preferred_replica = self.reader.i32("preferred read replica")?;
        let records = match self.is_flexible {
            true => self.reader.compact_bytes("records")?,
            false => self.reader.nullable_bytes("records")?,
        };
        let bytes_after_records = self.reader.rest().len();
        self.skip_tags()?;
        Ok(FetchedPartition {
            topic,
            topic_id,
            partition,
            error,
            high_watermark,
            last_stable_offset,
            preferred_replica: (preferred_replica >= 0).then_some(preferred_replica),
            records: records.unwrap_or_default(),
            bytes_after_records,
            aborted,
        })
    }
}

/// First version with compact encodings and tagged fields. Of these, only 13 and later are used.
const FLEXIBLE_VERSION: i16 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::fetch_response::AbortedTransaction as EncodedTransaction;
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::{BrokerId, FetchResponse, ProducerId, TopicName};
    use kafka_protocol::protocol::{Encodable, StrBytes};
    use proptest::prelude::*;

    type Row = (i32, i16, i64, Option<Vec<u8>>, bool);

    const ID: TopicId = 0xfeed;

    fn encoded(version: i16, rows: &[Row]) -> BytesMut {
        let partition = |(partition, error, high, records, aborted): &Row| {
            let one = |number: i64| {
                EncodedTransaction::default()
                    .with_producer_id(ProducerId(number))
                    .with_first_offset(number * 10)
            };
            let aborted = aborted.then(|| vec![one(1), one(2)]);
            PartitionData::default()
                .with_partition_index(*partition)
                .with_error_code(*error)
                .with_high_watermark(*high)
                .with_preferred_read_replica(BrokerId(2))
                .with_aborted_transactions(aborted)
                .with_records(records.as_ref().map(|bytes| Bytes::copy_from_slice(bytes)))
        };
        let mut topic =
            FetchableTopicResponse::default().with_partitions(rows.iter().map(partition).collect());
        match version >= FLEXIBLE_VERSION {
            true => topic.topic_id = format!("{ID:032x}").parse().expect("an id"),
            false => topic.topic = TopicName(StrBytes::from_static_str("t")),
        }
        let response = FetchResponse::default()
            .with_error_code(3)
            .with_session_id(4)
            .with_throttle_time_ms(5)
            .with_responses(vec![topic]);
        let mut out = BytesMut::new();
        response.encode(&mut out, version).expect("encodes");
        out
    }

    fn collect(
        version: i16,
        body: &[u8],
    ) -> Result<(FetchResponseFields, Vec<FetchedPartition<'_>>), WireError> {
        let mut rows = Vec::new();
        let head = read::<WireError>(version, body, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok((head, rows))
    }

    fn row() -> impl Strategy<Value = Row> {
        let records = prop::option::of(prop::collection::vec(any::<u8>(), 0..30));
        (
            any::<i32>(),
            any::<i16>(),
            any::<i64>(),
            records,
            any::<bool>(),
        )
    }

    proptest! {
        #[test]
        fn encoded_response_round_trips(
            rows in prop::collection::vec(row(), 0..5), cut in 0_usize..300, by_id in any::<bool>(),
        ) {
            let version = if by_id { 13 } else { VERSION };
            let bytes = encoded(version, &rows);
            let (head, found) = collect(version, &bytes)?;
            prop_assert_eq!((head.error, head.session_id, head.throttle_ms), (3, 4, 5));
            prop_assert_eq!(found.len(), rows.len());
            for (found, row) in found.iter().zip(&rows) {
                let topic = if by_id { ("", ID) } else { ("t", 0) };
                prop_assert_eq!((found.topic, found.topic_id), topic);
                let fields = (found.partition, found.error, found.high_watermark);
                prop_assert_eq!(fields, (row.0, row.1, row.2));
                let records = row.3.as_deref().unwrap_or_default();
                prop_assert_eq!(found.records, records);
                let end = bytes.len() - found.bytes_after_records;
                prop_assert_eq!(&bytes[end - records.len()..end], records);
                prop_assert_eq!(found.preferred_replica, Some(2));
                let aborted: Vec<_> = found.aborted()
                    .map(|it| (it.producer_id, it.first_offset)).collect();
                prop_assert_eq!(aborted, if row.4 { vec![(1, 10), (2, 20)] } else { vec![] });
            }
            if cut + 1 < bytes.len() {
                prop_assert!(collect(version, &bytes[..cut]).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = collect(VERSION, &bytes);
            let _ = collect(13, &bytes);
            let _ = body_of(&bytes, 13, 0);
        }
    }
}
