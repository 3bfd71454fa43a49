//! Delivery of updates of one item to many subscribers that accept everything.
//!
//! The same test measures the cost of a delivery: `bench/instructions` counts the instructions of
//! two numbers of updates.

use std::collections::HashMap;
use std::net::IpAddr;

use bytes::Bytes;
use weir_mapping::{FieldValues, FrozenValues, RecordView};
use weir_net::http1::Response;
use weir_net::server::{ConnId, TrySend};
use weir_net::tls::CertificateNames;
use weir_net::websocket::DeflateWindow;

use super::*;

const SUBSCRIBERS: usize = 1_000;

/// Returns the number of updates, which `bench/instructions` chooses.
fn updates() -> usize {
    let chosen = std::env::var("WEIR_FANOUT_UPDATES").ok();
    chosen.map_or(50, |text| text.parse().expect("a number of updates"))
}

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
    fn close_with(&mut self, _conn: ConnId, _code: u16, _last: Option<Bytes>, _drop: bool) {}
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

    fn queued_bytes(&mut self, _conn: ConnId) -> usize {
        0
    }
    fn client_names(&mut self, _conn: ConnId) -> Option<CertificateNames> {
        None
    }

    fn deflate_window(&mut self, _conn: ConnId) -> Option<DeflateWindow> {
        None
    }
}

#[test]
fn each_subscriber_gets_each_update() {
    for mode in ["RAW", "MERGE", "DISTINCT", "COMMAND"] {
        deliver_all(mode, false);
    }
}

#[test]
fn each_subscriber_of_dynamic_fields_gets_each_update() {
    for mode in ["RAW", "MERGE", "DISTINCT", "COMMAND"] {
        deliver_all(mode, true);
    }
}

/// Delivers updates of configured fields, or of members that `field.*` finds.
fn deliver_all(mode: &str, is_dynamic: bool) {
    let mut adapters = ADAPTERS.to_owned();
    if is_dynamic {
        let members = "<param name=\"record.value.evaluator.type\">JSON</param>\
                       <param name=\"field.*\">#{VALUE.*}</param><param name=\"field.a\">";
        adapters = adapters.replace("<param name=\"field.a\">", members);
    }
    let (a, b) = if is_dynamic { ("d", "e") } else { ("a", "b") };
    let mut env = TestEnv::of(&adapters, false, GatewayLimits::default());
    let mut sink = Sink::default();
    for number in 0..SUBSCRIBERS {
        let conn = ConnId::from_parts(10 + number as u32, 1);
        for text in [
            "create_session\r\nLS_adapter_set=Set&LS_cid=x&LS_supported_diffs=".to_owned(),
            format!(
                "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_data_adapter=Data\
                 &LS_group=item-[key=0]&LS_schema=key%20command%20{a}%20{b}&LS_mode={mode}"
            ),
        ] {
            env.shard.handle_message(&mut sink, conn, &text);
        }
    }
    let mut key = None;
    env.connection.workers[0].interests.take(|interest| {
        if let Some(wanted) = interest.subscribed() {
            key = Some(wanted.item);
        }
    });
    let key = key.expect("interest in the item");
    let all = Arc::new(env.connection.config.mapping.all_fields());
    sink.deliveries = 0;
    let updates = updates();
    for number in 0..updates {
        let texts = [number.to_string(), "b".repeat(100)];
        let value = format!(r#"{{"d": "{}", "x": [], "e": "{}"}}"#, texts[0], texts[1]);
        let headers: [(&str, Option<&[u8]>); 4] = [
            ("a", Some(texts[0].as_bytes())),
            ("b", Some(texts[1].as_bytes())),
            ("key", Some(b"row")),
            ("command", Some(b"UPDATE")),
        ];
        let update = Arc::new(env.values(&headers, &value));
        env.shard.clients.fan_out(&mut sink, key, update, &all);
    }
    assert_eq!(sink.deliveries, SUBSCRIBERS * updates, "{mode}");
}

impl TestEnv {
    /// Returns the values of a record with these headers and this value.
    fn values(&self, headers: &[(&str, Option<&[u8]>)], value: &str) -> FrozenValues {
        let view = RecordView {
            topic: "topic",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(b"0"),
            value: Some(value.as_bytes()),
            headers,
        };
        let (mapping, mut values) = (&self.connection.config.mapping, FieldValues::default());
        mapping
            .field_values(&view, &mapping.all_fields(), &mut values)
            .expect("all fields are present");
        values.freeze()
    }
}
