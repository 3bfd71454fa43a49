//! Tests of filters against naive models. The crate `kafka_protocol` encodes and decodes batches
//! and frames independently of Weir.

mod config;
mod frames;
mod limits;
mod rejections;
mod topic_ids;
mod values;

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use proptest::prelude::*;
use serde::Deserialize;

use super::batch::{self, BatchOutcome, BatchRejection};
use super::{Filter, FilterBuffers, FilterChain, FilterConfig, FilterError, FilterLimits};
use crate::FilterCounts;

const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    filter: Vec<FilterConfig>,
}

fn parse_filters(toml: &str) -> Result<Vec<FilterConfig>, String> {
    let raw: Result<Raw, _> = toml::from_str(toml);
    raw.map(|raw| raw.filter).map_err(|error| error.to_string())
}

fn filters(toml: &str) -> FilterChain {
    try_filters(toml).unwrap()
}

fn try_filters(toml: &str) -> Result<FilterChain, FilterError> {
    FilterChain::new(&parse_filters(toml).unwrap())
}

/// Returns a `[[filter]]` table of type `kind` with further `keys`.
fn table(kind: &str, keys: &str) -> String {
    format!("[[filter]]\ntype = {kind:?}\non = [\"produce\", \"fetch\"]\n{keys}\n")
}

/// Generates a key, a value or the value of a header.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-zA-Z {}\":,0-9]{0,40}".prop_map(String::into_bytes),
        2 => "[aAÄäßİıΣσςÉ€ŉ🦀Ⱥ]{0,12}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..30),
        1 => Just(br#"{"a":{"b":"Secret"},"c":[1,{"B":2}]}"#.to_vec()),
    ]
}

fn header_list() -> impl Strategy<Value = Vec<(String, Option<Vec<u8>>)>> {
    let name = prop_oneof![Just("by".to_owned()), "[a-zé]{0,4}"];
    prop::collection::vec((name, prop::option::of(text())), 0..4)
        // `kafka_protocol` stores headers by name, so no name can occur twice.
        .prop_map(|mut list| {
            list.sort();
            list.dedup_by(|a, b| a.0 == b.0);
            list
        })
}

fn record() -> impl Strategy<Value = Record> {
    let value = prop::option::weighted(0.9, text());
    let key = prop::option::of(text());
    (key, value, header_list(), 0_i64..2_000_000_000_000).prop_map(
        |(key, value, headers, timestamp)| Record {
            transactional: true,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 5,
            producer_id: 77,
            producer_epoch: 3,
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

/// Generates the records of one batch.
fn batch_records() -> impl Strategy<Value = Vec<Record>> {
    (prop::collection::vec(record(), 1..8), 0_i32..1000).prop_map(|(mut records, first)| {
        for (record, index) in records.iter_mut().zip(0..) {
            record.offset = i64::from(index);
            record.sequence = first + index;
        }
        records
    })
}

fn encode(records: &[Record], compression: Compression) -> Vec<u8> {
    let options = RecordEncodeOptions {
        version: 2,
        compression,
    };
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, records, &options).expect("encodes");
    out.to_vec()
}

/// Decodes the records of all batches; the codec verifies their checksums.
fn decode(batches: &[u8]) -> Vec<Record> {
    let mut bytes = Bytes::copy_from_slice(batches);
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("decodes");
    sets.into_iter().flat_map(|set| set.records).collect()
}

/// Returns the record at another index of a batch, whose first sequence number is -1.
fn at_index(index: i32, record: Record) -> Record {
    Record {
        offset: i64::from(index),
        sequence: index - 1,
        ..record
    }
}

/// Returns the record with this value, without a key, at index 0 of a batch without a producer id.
fn record_of(value: Option<&[u8]>) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 0,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: -1,
        timestamp: 9,
        key: None,
        value: value.map(Bytes::copy_from_slice),
        headers: IndexMap::new(),
    }
}

/// Filters one batch. Returns the outcome, the rebuilt batch and the counters.
fn filter_batch(
    batch: &mut [u8],
    toml: &str,
    buffers: &mut FilterBuffers,
) -> (Result<BatchOutcome, BatchRejection>, Vec<u8>, FilterCounts) {
    let configs = parse_filters(toml).unwrap();
    let scoped: Vec<_> = configs.iter().map(|it| it.build().unwrap()).collect();
    let chain: Vec<&dyn Filter> = scoped.iter().map(|it| &*it.filter).collect();
    let mut out = Vec::new();
    let mut counts = FilterCounts::default();
    let outcome = batch::run(
        batch,
        &chain,
        &mut buffers.batch_buffers,
        &mut counts,
        &mut out,
    );
    (outcome, out, counts)
}

/// Returns the outcome and the batch to forward, which must not be rejected.
fn forwarded(records: &[Record], compression: Compression, toml: &str) -> (BatchOutcome, Vec<u8>) {
    let mut batch = encode(records, compression);
    let mut buffers = FilterBuffers::default();
    let (outcome, out, _) = filter_batch(&mut batch, toml, &mut buffers);
    let outcome = outcome.expect("passes");
    match outcome {
        BatchOutcome::Rebuilt => (outcome, out),
        BatchOutcome::Untouched | BatchOutcome::Edited => (outcome, batch),
        BatchOutcome::Deferred => panic!("the work is not limited"),
    }
}

/// Returns buffers that limit the size of a batch.
fn limited_buffers(batch_bytes: usize) -> FilterBuffers {
    FilterBuffers::new(FilterLimits {
        batch_bytes,
        ..FilterLimits::default()
    })
}
