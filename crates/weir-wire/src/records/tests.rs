//! The batch reader against batches that `kafka-protocol` encodes, and against invalid bytes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use super::*;

const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn record() -> impl Strategy<Value = Record> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..60));
    let headers = prop::collection::vec(("[a-zé]{0,6}", bytes()), 0..4);
    (bytes(), bytes(), headers, -1_i64..2_000_000_000_000).prop_map(
        |(key, value, headers, timestamp)| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 5,
            producer_id: -1,
            producer_epoch: -1,
            timestamp_type: TimestampType::Creation,
            offset: 0,
            sequence: 0,
            timestamp,
            key: key.map(Bytes::from),
            value: value.map(Bytes::from),
            headers: headers
                .into_iter()
                .map(|(name, value)| (StrBytes::from_string(name), value.map(Bytes::from)))
                .collect(),
        },
    )
}

/// Generates records with ascending offsets and with gaps, as after compaction.
fn run() -> impl Strategy<Value = Vec<Record>> {
    let rows = prop::collection::vec((record(), 1_i64..4), 1..12);
    (rows, 0_i64..1 << 40).prop_map(|(rows, mut offset)| {
        let with_offset = |(mut record, step): (Record, i64)| {
            offset += step;
            record.offset = offset;
            record.sequence = offset as i32;
            record
        };
        rows.into_iter().map(with_offset).collect()
    })
}

fn encode(records: &[Record], compression: Compression) -> BytesMut {
    let options = RecordEncodeOptions {
        version: 2,
        compression,
    };
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, records, &options).expect("encodes");
    out
}

type Flat = (
    i64,
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(String, Option<Vec<u8>>)>,
);

fn flat(record: &Record) -> Flat {
    let header = |(name, value): (&StrBytes, &Option<Bytes>)| {
        (name.to_string(), value.as_ref().map(|value| value.to_vec()))
    };
    (
        record.offset,
        record.timestamp,
        record.key.as_ref().map(|key| key.to_vec()),
        record.value.as_ref().map(|value| value.to_vec()),
        record.headers.iter().map(header).collect(),
    )
}

fn read_all(bytes: &[u8]) -> Result<Vec<Flat>, RecordsError> {
    let mut buffer = DecompressBuffer::new(1 << 20);
    let mut seen = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch?;
        batch.verify_crc()?;
        for record in batch.records(&mut buffer)? {
            let record = record?;
            let headers = record.headers().map(|header| {
                header.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
            });
            seen.push((
                record.offset,
                record.timestamp_ms,
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                headers.collect::<Result<_, _>>()?,
            ));
        }
    }
    Ok(seen)
}

proptest! {
    #[test]
    fn encoded_batches_round_trip(runs in prop::collection::vec((run(), 0_usize..5), 1..3)) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (records, codec) in &runs {
            bytes.extend_from_slice(&encode(records, ALL[*codec]));
            expected.extend(records.iter().map(flat));
        }
        prop_assert_eq!(read_all(&bytes)?, expected);
    }

    #[test]
    fn truncated_last_batch_is_ignored(
        first in run(), second in run(), cut in any::<prop::sample::Index>(),
    ) {
        let whole = encode(&first, Compression::None);
        let last = encode(&second, Compression::None);
        let mut bytes = whole.to_vec();
        bytes.extend_from_slice(&last[..cut.index(last.len())]);
        let expected: Vec<_> = first.iter().map(flat).collect();
        prop_assert_eq!(read_all(&bytes)?, expected);
    }

    #[test]
    fn corrupted_bytes_fail_crc(records in run(), at in any::<prop::sample::Index>()) {
        let mut bytes = encode(&records, Compression::None).to_vec();
        let crc_end = 21;
        let at = crc_end + at.index(bytes.len() - crc_end);
        bytes[at] ^= 0x10;
        let batch = Batches::new(&bytes).next();
        if let Some(Ok(batch)) = batch {
            prop_assert!(batch.verify_crc().is_err());
        }
    }

    #[test]
    fn corrupted_bytes_never_panic(
        records in run(), codec in 0_usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&records, ALL[codec]).to_vec();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        crate::fuzz::records(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzz::records(&bytes);
    }
}

fn sample(value: &[u8]) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 0,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: 3,
        sequence: 3,
        timestamp: 9,
        key: None,
        value: Some(Bytes::copy_from_slice(value)),
        headers: [(
            StrBytes::from_static_str("h"),
            Some(Bytes::from_static(b"1")),
        )]
        .into(),
    }
}

#[test]
fn batch_reports_flags_and_offsets() {
    let mut record = sample(b"v");
    record.control = true;
    record.transactional = true;
    let bytes = encode(&[record], Compression::None);
    let batch = Batches::new(&bytes).next().expect("one").expect("good");
    assert!(batch.is_control() && !batch.log_append_time());
    assert_eq!((batch.base_offset, batch.next_offset()), (3, Ok(4)));
    assert_eq!(batch.codec(), Ok(Codec::None));
}

#[test]
fn log_append_time_applies_to_all_records() {
    let mut bytes = encode(&[sample(b"v")], Compression::None).to_vec();
    bytes[22] |= 0x08;
    bytes[35..43].copy_from_slice(&77_i64.to_be_bytes());
    let batch = Batches::new(&bytes).next().expect("one").expect("good");
    let mut buffer = DecompressBuffer::default();
    let record = batch.records(&mut buffer).expect("plain").next();
    assert_eq!(record.expect("one").expect("good").timestamp_ms, 77);
}

#[test]
fn headers_are_found_by_name() {
    let bytes = encode(&[sample(b"v")], Compression::None);
    let batch = Batches::new(&bytes).next().expect("one").expect("good");
    let mut buffer = DecompressBuffer::default();
    let mut records = batch.records(&mut buffer).expect("plain");
    let record = records.next().expect("one").expect("good");
    assert_eq!(record.header("h"), Some(&b"1"[..]));
    assert_eq!(record.header("other"), None);
}

#[test]
fn batch_over_decompression_limit_is_rejected() {
    let zeros = vec![0_u8; 100_000];
    for compression in &ALL[1..] {
        let bytes = encode(&[sample(&zeros)], *compression);
        assert!(bytes.len() < 10_000, "{compression:?} does not compress");
        let batch = Batches::new(&bytes).next().expect("one").expect("good");
        let mut buffer = DecompressBuffer::new(50_000);
        let error = batch
            .records(&mut buffer)
            .map(|_| ())
            .expect_err("above the limit");
        assert!(matches!(error, RecordsError::TooLarge { .. }), "{error}");
        assert!(batch.records(&mut DecompressBuffer::new(200_000)).is_ok());
    }
}

#[test]
fn unknown_format_and_codec_errors_name_them() {
    let mut bytes = encode(&[sample(b"v")], Compression::None).to_vec();
    bytes[22] = 0x07;
    let batch = Batches::new(&bytes).next().expect("one").expect("good");
    assert_eq!(batch.codec(), Err(RecordsError::UnknownCodec { code: 7 }));
    bytes[16] = 1;
    let error = Batches::new(&bytes).next().expect("one").expect_err("old");
    assert_eq!(
        error.to_string(),
        "record batch at offset 3 has format 1; only format 2 is supported"
    );
}
