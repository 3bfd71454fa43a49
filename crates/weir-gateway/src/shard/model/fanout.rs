//! Delivery of updates of one item to many subscribers that accept everything.
//!
//! The same test measures the cost of a delivery, as the instructions of `Shard::fan_out` under
//! callgrind.

use std::collections::HashMap;
use std::net::IpAddr;

use bytes::Bytes;
use weir_mapping::{FieldValues, FrozenValues, RecordView};
use weir_net::http1::Response;
use weir_net::server::{ConnId, TrySend};
use weir_net::websocket::DeflateWindow;

use super::*;

const SUBSCRIBERS: usize = 1_000;
const UPDATES: usize = 50;

/// Connections that accept everything at once.
#[derive(Default)]
struct Sink {
    tags: HashMap<ConnId, u64>,
    deliveries: usize,
}

impl Wire for Sink {
    fn now_ms(&self) -> u64 {
        1_000
    }
    fn send(&mut self, _conn: ConnId, _chunk: Bytes) -> bool {
        self.deliveries += 1;
        true
    }
    fn try_send(&mut self, _conn: ConnId, _chunk: Bytes) -> TrySend {
        self.deliveries += 1;
        TrySend::Queued
    }
    fn notify_writable(&mut self, _conn: ConnId) {}
    fn close(&mut self, _conn: ConnId, _last: Option<Bytes>, _drop_queued: bool) {}
    fn begin_body(&mut self, _conn: ConnId, _head: &Response) {}
    fn finish(&mut self, _conn: ConnId) {}
    fn respond(&mut self, _conn: ConnId, _response: &Response) {}
    fn detach(&mut self, _conn: ConnId) {}
    fn pause_input(&mut self, _conn: ConnId) {}
    fn resume_input(&mut self, _conn: ConnId) {}
    fn tag(&mut self, conn: ConnId) -> Option<u64> {
        self.tags.get(&conn).copied()
    }
    fn set_tag(&mut self, conn: ConnId, tag: u64) {
        self.tags.insert(conn, tag);
    }
    fn set_timer(&mut self, _at_ms: u64, _token: u64) {}
    fn peer_ip(&mut self, _conn: ConnId) -> Option<IpAddr> {
        None
    }
    fn admission_id(&mut self, _conn: ConnId) -> u32 {
        0
    }
    fn deflate_window(&mut self, _conn: ConnId) -> Option<DeflateWindow> {
        None
    }
}

#[test]
fn each_subscriber_gets_each_update() {
    for mode in ["RAW", "MERGE", "DISTINCT", "COMMAND"] {
        deliver_all(mode);
    }
}

fn deliver_all(mode: &str) {
    let (mut env, mut sink) = (TestEnv::new(false), Sink::default());
    for number in 0..SUBSCRIBERS {
        let conn = ConnId::from_parts(10 + number as u32, 1);
        for text in [
            "create_session\r\nLS_adapter_set=Set&LS_cid=x&LS_supported_diffs=".to_owned(),
            format!(
                "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_data_adapter=Data\
                 &LS_group=item-[key=0]&LS_schema=key%20command%20a%20b&LS_mode={mode}"
            ),
        ] {
            env.shard.handle_message(&mut sink, conn, &text);
        }
    }
    let mut key = None;
    env.connection.workers[0].interests.take(|interest| {
        if let Some(wanted) = interest.wanted() {
            key = Some(wanted.item);
        }
    });
    let key = key.expect("interest in the item");
    let all = Arc::new(FieldSet::all(FIELDS.len()));
    sink.deliveries = 0;
    for number in 0..UPDATES {
        let texts = [number.to_string(), "b".repeat(100)];
        let headers: [(&str, Option<&[u8]>); 4] = [
            ("a", Some(texts[0].as_bytes())),
            ("b", Some(texts[1].as_bytes())),
            ("key", Some(b"row")),
            ("command", Some(b"UPDATE")),
        ];
        let update = Arc::new(env.values(&headers));
        let shard = &mut env.shard;
        let (sessions, items) = (&mut shard.clients.sessions, &mut shard.clients.items);
        (shard.clients.delivery).fan_out(&mut sink, sessions, items, key, update, &all);
    }
    assert_eq!(sink.deliveries, SUBSCRIBERS * UPDATES, "{mode}");
}

impl TestEnv {
    /// Returns the values of a record with these headers.
    fn values(&self, headers: &[(&str, Option<&[u8]>)]) -> FrozenValues {
        let view = RecordView {
            topic: "topic",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(b"0"),
            value: None,
            headers,
        };
        let (mapping, mut values) = (&self.connection.config.mapping, FieldValues::default());
        let all = FieldSet::all(FIELDS.len());
        mapping
            .field_values(&view, &all, &mut values)
            .expect("all fields are present");
        values.freeze()
    }
}
