//! Decoded records, compared with the encoder of `kafka-protocol`, and invalid bytes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, Record as Encoded, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;

use super::*;

/// A batch of one producer; `None` is a marker that aborts its transaction.
type TestBatch = (i64, Option<Vec<u8>>);

fn encoded(producer_id: i64, offset: i64, value: Option<&[u8]>, codec: Compression) -> BytesMut {
    let is_marker = value.is_none();
    let record = Encoded {
        transactional: producer_id >= 0,
        control: is_marker,
        delete_horizon: false,
        partition_leader_epoch: 5,
        producer_id,
        producer_epoch: 0,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: if is_marker { -1 } else { offset as i32 },
        timestamp: 1000 + offset,
        key: Some(Bytes::from_static(&[0, 0, 0, 0])),
        value: Some(Bytes::copy_from_slice(value.unwrap_or(&[0; 6]))),
        headers: std::iter::once(("name".into(), None)).collect(),
    };
    let options = RecordEncodeOptions {
        version: 2,
        compression: codec,
    };
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, &[record], &options).expect("encodes");
    out
}

fn fetched(bytes: &[u8], from: i64, aborted: Option<Vec<AbortedTransaction>>) -> FetchedRecords {
    let pool = Arc::new(BufferPool::default());
    let mut response = pool.take();
    // Old bytes before and after.
    response.bytes = [&[9; 7], bytes, &[9; 5]].concat();
    FetchedRecords {
        key: (3, 1),
        generation: 8,
        topic: "t".into(),
        from,
        response: Arc::new(response),
        range: 7..7 + bytes.len(),
        aborted,
    }
}

fn decoder() -> RecordDecoder {
    RecordDecoder::new(Arc::default(), true)
}

/// Returns offsets and values up to the end or an error.
fn read_all(decoder: &mut RecordDecoder) -> (Vec<(i64, Vec<u8>)>, Option<DecodeFailure>) {
    let mut found = Vec::new();
    while let Some(next) = decoder.next() {
        match next {
            Ok(record) => {
                let view = record.record(&mut 0);
                assert_eq!((view.topic, view.partition), ("t", 1));
                assert_eq!(view.timestamp_ms, 1000 + view.offset);
                assert_eq!(view.headers.as_slice(), [("name", None)]);
                assert_eq!(record.key(), Some(&[0; 4][..]));
                found.push((record.offset(), view.value.unwrap_or_default().to_vec()));
            }
            Err(failure) => return (found, Some(failure)),
        }
    }
    (found, None)
}

#[test]
fn records_of_all_codecs_outlive_the_decoder() {
    let mut bytes = BytesMut::new();
    let codecs = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for (codec, offset) in codecs.into_iter().zip(10..) {
        bytes.extend_from_slice(&encoded(-1, offset, Some(b"value"), codec));
    }
    let mut decoder = decoder();
    decoder.open(fetched(&bytes, 11, None));
    assert_eq!(decoder.current(), Some(((3, 1), 8)));
    let records: Vec<_> = std::iter::from_fn(|| decoder.next()).collect();
    assert_eq!(decoder.current(), None);
    drop(decoder);
    let records: Vec<_> = records.into_iter().map(|it| it.expect("valid")).collect();
    let offsets: Vec<_> = records.iter().map(BatchRecord::offset).collect();
    assert_eq!(offsets, [11, 12, 13, 14], "from the requested offset");
    for record in &records {
        assert_eq!(record.without_headers().value, Some(&b"value"[..]));
    }
    let scanned = scan(&bytes).expect("valid");
    assert_eq!(scanned, Some(ScannedRecords { next: 15, epoch: 5 }));
}

#[test]
fn corrupt_batch_names_the_offset_after_the_last_record() {
    let first = encoded(-1, 4, Some(b"good"), Compression::None);
    let mut second = encoded(-1, 5, Some(b"bad"), Compression::None);
    let last = second.len() - 1;
    second[last] ^= 1;
    let mut decoder = decoder();
    decoder.open(fetched(&[first, second].concat(), 4, None));
    let (found, failure) = read_all(&mut decoder);
    assert_eq!(found, [(4, b"good".to_vec())]);
    let failure = failure.expect("checksum");
    assert_eq!((failure.key, failure.generation), ((3, 1), 8));
    assert_eq!(failure.position, 5);
    let text = failure.to_string();
    assert!(
        text.starts_with("topic \"t\" partition 1: offset 5: record batch"),
        "{text}"
    );
    assert_eq!(decoder.current(), None);
}

#[test]
fn truncated_batch_at_the_end_is_left() {
    let whole = encoded(-1, 4, Some(b"good"), Compression::None);
    let bytes = [&whole[..], &whole[..30]].concat();
    let mut decoder = decoder();
    decoder.open(fetched(&bytes, 0, None));
    let (found, failure) = read_all(&mut decoder);
    assert_eq!((found.len(), failure.is_none()), (1, true));
    assert_eq!(scan(&whole[..30]), Ok(None));
}

/// Returns the records that are not of aborted transactions, and the list that a broker adds.
fn model(batches: &[TestBatch]) -> (Vec<(i64, Vec<u8>)>, Vec<AbortedTransaction>) {
    let (mut kept, mut aborted) = (Vec::new(), Vec::new());
    for ((producer_id, value), offset) in batches.iter().zip(0_i64..) {
        match value {
            Some(value) => kept.push((*producer_id, offset, value.clone())),
            None => {
                let is_of = |it: &(i64, i64, Vec<u8>)| it.0 == *producer_id;
                if let Some(first) = kept.iter().find(|it| is_of(it)) {
                    aborted.push(AbortedTransaction {
                        producer_id: *producer_id,
                        first_offset: first.1,
                    });
                }
                kept.retain(|it| !is_of(it));
            }
        }
    }
    let kept = kept.into_iter().map(|(_, offset, value)| (offset, value));
    (kept.collect(), aborted)
}

proptest! {
    /// Every marker aborts all earlier records of its producer.
    #[test]
    fn aborted_records_are_left_out(
        batches in prop::collection::vec(
            (0_i64..3, prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 1..9))),
            0..20,
        ),
    ) {
        let mut bytes = BytesMut::new();
        for ((producer_id, value), offset) in batches.iter().zip(0_i64..) {
            let batch = encoded(*producer_id, offset, value.as_deref(), Compression::None);
            bytes.extend_from_slice(&batch);
        }
        let (expected, aborted) = model(&batches);
        let mut decoder = decoder();
        decoder.open(fetched(&bytes, 0, Some(aborted)));
        let (found, failure) = read_all(&mut decoder);
        prop_assert!(failure.is_none());
        prop_assert_eq!(found, expected);
        // Without the list, only markers are left out.
        decoder.open(fetched(&bytes, 0, None));
        let all = batches.iter().filter(|(_, value)| value.is_some()).count();
        prop_assert_eq!(read_all(&mut decoder).0.len(), all);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300), flip in any::<usize>(),
    ) {
        crate::fuzz::fetched(&bytes);
        let mut valid = encoded(1, 4, Some(b"good"), Compression::Lz4).to_vec();
        let at = flip % valid.len();
        valid[at] ^= 1 << (flip % 8);
        crate::fuzz::fetched(&valid);
    }
}
