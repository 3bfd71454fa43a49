//! Raw requests, for batches that librdkafka would not build and for what the crate has no client
//! of.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName};
use kafka_protocol::protocol::{Decodable, Request, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use weir_wire::header::write_request;

/// Encodes a batch of values, with one header per record.
pub(crate) fn batch(values: &[String], compression: Compression) -> Bytes {
    let record = |(offset, value): (usize, &String)| Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: offset as i64,
        sequence: offset as i32,
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: [(StrBytes::from_static_str("name"), None)].into(),
    };
    let records: Vec<_> = values.iter().enumerate().map(record).collect();
    let options = RecordEncodeOptions {
        version: 2,
        compression,
    };
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, &records, &options).expect("encodes");
    out.freeze()
}

/// Replaces the first occurrence of `from` and updates the checksum.
pub(crate) fn patch(batch: &Bytes, from: &[u8], to: &[u8]) -> Bytes {
    let mut bytes = batch.to_vec();
    let at = bytes.windows(from.len()).position(|window| window == from);
    let at = at.expect("pattern found");
    bytes[at..at + to.len()].copy_from_slice(to);
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

/// Stores a batch in partition 0 of `topic`.
pub(crate) fn store(bootstrap: &str, topic: &str, batch: Bytes) {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(batch));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![partition]);
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(10_000)
        .with_topic_data(vec![topic]);
    let mut body = exchange(bootstrap, 8, &request);
    let response = ProduceResponse::decode(&mut body, 8).expect("decodes");
    let code = response.responses[0].partition_responses[0].error_code;
    assert_eq!(code, 0, "Kafka error code");
}

/// Sends a request of a version without compact encodings to the first server, and returns the body
/// of the response.
pub(crate) fn exchange<R: Request>(bootstrap: &str, version: i16, request: &R) -> Bytes {
    let mut out = BytesMut::new();
    write_request(&mut out, version, 1, "raw", request).expect("encodes");
    let server = bootstrap.split(',').next().expect("one server");
    let mut stream = TcpStream::connect(server).expect("broker listens");
    stream.write_all(&out).expect("sent");
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("response size");
    let mut response_bytes = vec![0; u32::from_be_bytes(size) as usize];
    stream
        .read_exact(&mut response_bytes)
        .expect("whole response");
    Bytes::from(response_bytes).slice(4..)
}
