//! Filters against naive models, over batches and frames that the codec writes and reads.

mod frames;
mod limits;
mod refusals;
mod settings;
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
use super::{
    Filter, FilterBuffers, FilterChain, FilterConfig, FilterCounts, FilterError, FilterLimits,
};

const ALL: [Compression; 5] = [
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

fn parsed(toml: &str) -> Result<Vec<FilterConfig>, String> {
    let raw: Result<Raw, _> = toml::from_str(toml);
    raw.map(|raw| raw.filter).map_err(|error| error.to_string())
}

fn filters(toml: &str) -> FilterChain {
    try_filters(toml).unwrap()
}

fn try_filters(toml: &str) -> Result<FilterChain, FilterError> {
    FilterChain::new(&parsed(toml).unwrap())
}

/// `[[filter]]` tables of these types, with the keys behind each.
fn table(kind: &str, keys: &str) -> String {
    format!("[[filter]]\ntype = {kind:?}\non = [\"produce\", \"fetch\"]\n{keys}\n")
}

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
        // The codec keeps headers by name, so that no name can come twice.
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

/// Records that one batch can hold.
fn run() -> impl Strategy<Value = Vec<Record>> {
    (prop::collection::vec(record(), 1..8), 0_i32..1000).prop_map(|(mut records, first)| {
        for (record, place) in records.iter_mut().zip(0..) {
            record.offset = i64::from(place);
            record.sequence = first + place;
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

/// The records of all batches; the codec checks their checksums as well.
fn decode(batches: &[u8]) -> Vec<Record> {
    let mut bytes = Bytes::copy_from_slice(batches);
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("decodes");
    sets.into_iter().flat_map(|set| set.records).collect()
}

/// The same record at another place of its batch.
fn at(place: i32, record: Record) -> Record {
    Record {
        offset: i64::from(place),
        sequence: place - 1,
        ..record
    }
}

fn one(value: Option<&[u8]>) -> Record {
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

/// One batch through filters; what comes out, and what was done.
fn through(
    batch: &mut [u8],
    toml: &str,
    workspace: &mut FilterBuffers,
) -> (Result<BatchOutcome, BatchRejection>, Vec<u8>, FilterCounts) {
    let settings = parsed(toml).unwrap();
    let scoped: Vec<_> = settings.iter().map(|it| it.build().unwrap()).collect();
    let chain: Vec<&dyn Filter> = scoped.iter().map(|it| &*it.filter).collect();
    let mut out = Vec::new();
    let mut tally = FilterCounts::default();
    let outcome = batch::run(batch, &chain, &mut workspace.tools, &mut tally, &mut out);
    (outcome, out, tally)
}

/// The batch that goes on, which must not be refused.
fn passed(records: &[Record], compression: Compression, toml: &str) -> (BatchOutcome, Vec<u8>) {
    let mut batch = encode(records, compression);
    let mut workspace = FilterBuffers::default();
    let (outcome, out, _) = through(&mut batch, toml, &mut workspace);
    let outcome = outcome.expect("passes");
    match outcome {
        BatchOutcome::Rebuilt => (outcome, out),
        BatchOutcome::Untouched | BatchOutcome::Edited => (outcome, batch),
        BatchOutcome::Later => panic!("the meter is unlimited"),
    }
}

/// A workspace whose batches may have so many bytes.
fn bounded(batch_bytes: usize) -> FilterBuffers {
    FilterBuffers::new(FilterLimits {
        batch_bytes,
        ..FilterLimits::default()
    })
}
