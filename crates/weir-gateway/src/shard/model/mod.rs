//! The real shard against a naive model of its clients, under random schedules of records, lag,
//! subscribing and unsubscribing. Whatever the schedule: a MERGE client sees states in order and ends
//! in the newest one; a RAW or DISTINCT client sees every update in order, or the `END` of its session.

mod client;
mod wire;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use weir_mapping::{AdaptersFile, FieldValues, ItemNames, ParseOptions, RecordView};
use weir_tlcp::server::SessionConfig;

use self::client::{Client, Kind, Want};
use self::wire::{MemoryWire, conn_id};
use super::session::SessionKey;
use super::wire::Wire;
use super::{Shard, ShardMail, Shared};
use crate::config::Limits;
use crate::connection::Connection;
use crate::metrics::ShardMetrics;
use crate::routing::RoutingTable;

/// Fields of the mapping, each a header that a record may lack.
const FIELDS: [&str; 3] = ["a", "b", "c"];
const SCHEMAS: [&[&str]; 5] = [
    &["a"],
    &["a", "b"],
    &["b", "c"],
    &["a", "b", "c"],
    &["x", "c"],
];
const KINDS: [Kind; 4] = [
    Kind::Raw,
    Kind::Distinct,
    Kind::Merge,
    Kind::MergeUnfiltered,
];
const CLIENTS: usize = 3;
const ITEMS: usize = 2;
const WORKERS: usize = 2;

const ADAPTERS: &str = r#"<adapters_conf id="Set"><metadata_provider>
<adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
<param name="logging.configuration.path">log4j.properties</param></metadata_provider>
<data_provider name="Data"><adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
<param name="bootstrap.servers">nowhere:9092</param>
<param name="item-template.item">item-#{key=KEY}</param><param name="map.topic.to">item-template.item</param>
<param name="fields.skip.failed.mapping.enable">true</param>
<param name="field.a">#{HEADERS.a}</param><param name="field.b">#{HEADERS.b}</param>
<param name="field.c">#{HEADERS.c}</param></data_provider></adapters_conf>"#;

/// A value per field; `None` is a header the record lacks.
type Row = [Option<String>; FIELDS.len()];

/// What the model knows of an item: per field, unknown, or a value.
pub(super) type Known = [Option<Option<String>>; FIELDS.len()];

#[derive(Debug, Clone)]
enum Op {
    Subscribe {
        client: usize,
        sub_id: u32,
        item: usize,
        schema: usize,
        kind: usize,
        snapshot: bool,
    },
    Unsubscribe {
        client: usize,
        sub_id: u32,
    },
    Produce {
        worker: usize,
        item: usize,
        row: Row,
    },
    /// The shard takes so many mails of a worker.
    Deliver {
        worker: usize,
        count: usize,
    },
    /// The client's side takes so many bytes more.
    Room {
        client: usize,
        bytes: usize,
    },
    /// The end of a turn.
    Flush,
}

/// The world around the shard, and what is expected of it.
struct World {
    shard: Shard,
    wire: MemoryWire,
    connection: Arc<Connection>,
    table: RoutingTable,
    /// Per ingest worker: what it has posted.
    mails: [VecDeque<(usize, ShardMail, Row)>; WORKERS],
    clients: Vec<Client>,
    /// Per item of the shard; forgotten when nobody is subscribed.
    known: [Known; ITEMS],
}

impl World {
    fn new() -> Self {
        let none = |_: &str| None;
        let parsed = AdaptersFile::parse("adapters.xml", ADAPTERS, &none, ParseOptions::default());
        let config = parsed.expect("a good file").connections.remove(0);
        let connection = Arc::new(Connection::new(config));
        let shared = Arc::new(Shared {
            set_id: "Set".to_owned(),
            connections: vec![Arc::clone(&connection)],
            session: SessionConfig::default(),
            limits: Limits::default(),
            simulator: None,
            peers: OnceLock::new(),
        });
        let mut world = Self {
            shard: Shard::new(0, shared, Arc::new(ShardMetrics::new())),
            wire: MemoryWire::new(CLIENTS),
            connection,
            table: RoutingTable::new(),
            mails: Default::default(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            known: Default::default(),
        };
        let create =
            "create_session\r\nLS_adapter_set=Set&LS_cid=x&LS_reduce_head=true&LS_send_sync=false";
        (0..CLIENTS).for_each(|client| world.request(client, create));
        world
    }

    fn request(&mut self, client: usize, text: &str) {
        self.shard
            .handle_message(&mut self.wire, conn_id(client), text);
        let mut wishes = Vec::new();
        let worker = &self.connection.workers[0];
        worker.wishes.take(|wish| wishes.push(wish));
        wishes.into_iter().for_each(|wish| self.table.apply(wish));
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Subscribe {
                client,
                sub_id,
                item,
                schema,
                kind,
                snapshot,
            } => {
                let want = Want {
                    item,
                    fields: SCHEMAS[schema],
                    kind: KINDS[kind],
                    snapshot,
                };
                self.subscribe(client, sub_id, want);
            }
            Op::Unsubscribe { client, sub_id } => {
                if self.wire.is_open(client) && self.clients[client].unsubscribe(sub_id) {
                    let text = format!(
                        "control\r\nLS_reqId=1&LS_op=delete&LS_subId={sub_id}&LS_ack=false"
                    );
                    self.request(client, &text);
                    self.forget_unwanted();
                }
            }
            Op::Produce { worker, item, row } => self.produce(worker, item, row),
            Op::Deliver { worker, count } => (0..count).for_each(|_| self.deliver(worker)),
            Op::Room { client, bytes } => self.wire.set_room(client, bytes),
            Op::Flush => self.wire.flush_all(),
        }
        while let Some((_, tag)) = self.wire.roomy() {
            self.shard
                .catch_up(&mut self.wire, SessionKey::from_bits(tag));
            self.wire.flush_all();
        }
        self.note_ends();
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.read(&self.wire.take_lines(number));
        }
        self.forget_unwanted();
    }

    fn subscribe(&mut self, client: usize, sub_id: u32, want: Want) {
        if !self.wire.is_open(client) || self.clients[client].is_active(sub_id) {
            return;
        }
        let text = format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_data_adapter=Data&LS_ack=false\
             &LS_group=item-[key={}]&LS_schema={}&LS_mode={}&LS_snapshot={}{}",
            want.item,
            want.fields.join("%20"),
            want.kind.mode(),
            want.snapshot,
            want.kind.frequency(),
        );
        // Values of a field that nobody wanted any more may be too old.
        for index in 0..FIELDS.len() {
            let mut clients = self.clients.iter();
            if want.has(index) && !clients.any(|client| client.wants(want.item, index)) {
                self.known[want.item][index] = None;
            }
        }
        self.clients[client].subscribe(sub_id, want, &self.known[want.item]);
        self.request(client, &text);
    }

    /// What ingest does with a record.
    fn produce(&mut self, worker: usize, item: usize, row: Row) {
        let key = item.to_string();
        let headers: Vec<(&str, Option<&[u8]>)> = FIELDS
            .iter()
            .zip(&row)
            .filter_map(|(name, value)| Some((*name, Some(value.as_ref()?.as_bytes()))))
            .collect();
        let view = RecordView {
            topic: "topic",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(key.as_bytes()),
            value: None,
            headers: &headers,
        };
        let mapping = &self.connection.config.mapping;
        let (mut names, mut values) = (ItemNames::default(), FieldValues::default());
        mapping.item_names(&view, &mut names).expect("a name");
        let name = names.iter().next().expect("one item");
        let Some(route) = self.table.route(name) else {
            return;
        };
        for client in &self.clients {
            client.check_route(item, route.fields());
        }
        let fields = Arc::clone(route.fields());
        mapping
            .field_values(&view, &fields, &mut values)
            .expect("skipped at worst");
        let update = Arc::new(values.freeze());
        for target in route.targets() {
            let mail = ShardMail::Update {
                item: target.item,
                update: Arc::clone(&update),
                fields: Arc::clone(&fields),
            };
            self.mails[worker].push_back((item, mail, row.clone()));
        }
    }

    /// The shard takes one mail, the model takes it too.
    fn deliver(&mut self, worker: usize) {
        let Some((item, mail, row)) = self.mails[worker].pop_front() else {
            return;
        };
        let ShardMail::Update {
            item: key,
            update,
            fields,
        } = mail
        else {
            unreachable!("only updates are posted here");
        };
        // An item that changed hands since is another one.
        if self.shard.items.get_mut(key).is_some() {
            let wanted = |index| {
                let mut clients = self.clients.iter();
                clients.any(|client| client.wants(item, index))
            };
            for (index, value) in row.iter().enumerate() {
                let known = &mut self.known[item][index];
                match (fields.contains(index), value) {
                    (true, Some(value)) => *known = Some(Some(value.clone())),
                    (true, None) => *known = Some(known.take().flatten()),
                    (false, _) if !wanted(index) => *known = None,
                    (false, _) => {}
                }
            }
            for client in &mut self.clients {
                client.expect(item, &row, &fields, &self.known[item]);
            }
        }
        self.shard.fan_out(&mut self.wire, key, update, &fields);
        self.note_ends();
    }

    fn note_ends(&mut self) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            if !self.wire.is_open(number) {
                client.end();
            }
        }
    }

    fn forget_unwanted(&mut self) {
        for item in 0..ITEMS {
            if !self.clients.iter().any(|client| client.has(item)) {
                self.known[item] = Known::default();
            }
        }
    }

    /// Everybody reads everything; then everything must be as expected.
    fn finish(&mut self) {
        for worker in 0..WORKERS {
            let count = self.mails[worker].len();
            self.run(Op::Deliver { worker, count });
        }
        for client in 0..CLIENTS {
            self.run(Op::Room {
                client,
                bytes: usize::MAX,
            });
        }
        self.run(Op::Flush);
        assert_eq!(
            self.shard.backlog.len(),
            0,
            "nothing waits for a client that reads"
        );
        for (number, client) in self.clients.iter().enumerate() {
            client.check(&self.known);
            let tag = Wire::tag(&mut self.wire, conn_id(number));
            let entry = tag.and_then(|tag| self.shard.sessions.get_mut(SessionKey::from_bits(tag)));
            if let Some(entry) = entry {
                assert_eq!(
                    entry.core.data_count(),
                    client.data_lines,
                    "data notifications"
                );
            }
        }
    }
}

fn value() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(String::new())),
        4 => (0u8..4, 0usize..90).prop_map(|(n, len)| Some(format!("{n}{}", "|".repeat(len)))),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..CLIENTS;
    prop_oneof![
        4 => (client.clone(), 1u32..3, 0..ITEMS, 0..SCHEMAS.len(), 0..KINDS.len(), any::<bool>())
            .prop_map(|(client, sub_id, item, schema, kind, snapshot)| Op::Subscribe {
                client, sub_id, item, schema, kind, snapshot,
            }),
        1 => (client.clone(), 1u32..3)
            .prop_map(|(client, sub_id)| Op::Unsubscribe { client, sub_id }),
        8 => (0..WORKERS, 0..ITEMS, [value(), value(), value()])
            .prop_map(|(worker, item, row)| Op::Produce { worker, item, row }),
        6 => (0..WORKERS, 1usize..4).prop_map(|(worker, count)| Op::Deliver { worker, count }),
        4 => (client, prop_oneof![Just(0), 0usize..500, Just(usize::MAX)])
            .prop_map(|(client, bytes)| Op::Room { client, bytes }),
        2 => Just(Op::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn clients_see_what_their_mode_promises(ops in proptest::collection::vec(op(), 1..80)) {
        let mut world = World::new();
        ops.into_iter().for_each(|op| world.run(op));
        world.finish();
    }
}
