//! The real shard against a naive model of its clients, under random schedules of records, lag,
//! subscribing, unsubscribing and limits. Whatever the schedule: a MERGE client sees states in order
//! and ends in the newest one; a client that is owed every update gets all in order, or is told how
//! many it has lost; a COMMAND client ends with the same rows as the item.

mod client;
mod differences;
mod rows;
mod want;
mod wire;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use weir_mapping::{AdaptersFile, FieldSet, FieldValues, ItemNames, ParseOptions, RecordView};
use weir_tlcp::server::SessionConfig;

use self::client::Client;
use self::rows::Rows;
use self::want::{KINDS, Want};
use self::wire::{MemoryWire, QUEUE_BYTES};
use super::catch_up::ALARM;
use super::session::SessionKey;
use super::wire::Wire;
use super::{Shard, ShardMail, Shared};
use crate::config::Limits;
use crate::connection::Connection;
use crate::guard::{Guard, Origins};
use crate::metrics::ShardMetrics;
use crate::routing::{ItemKey, RoutingTable, Wish};

/// Fields of the mapping, each a header that a record may lack.
const FIELDS: [&str; 5] = ["a", "b", "c", "key", "command"];
const SCHEMAS: [&[&str]; 5] = [
    &["a"],
    &["a", "b"],
    &["b", "c"],
    &["a", "b", "c"],
    &["x", "c"],
];
/// Of mode COMMAND.
const ROW_SCHEMAS: [&[&str]; 2] = [&["key", "command", "a"], &["key", "command", "x", "b", "c"]];
const CLIENTS: usize = 3;
const ITEMS: usize = 2;
const WORKERS: usize = 2;
/// So little that it is not always enough.
const RECOVERY_BYTES: usize = 2_000;
/// Updates kept as snapshot of mode DISTINCT.
const HISTORY: usize = 3;

const ADAPTERS: &str = r#"<adapters_conf id="Set"><metadata_provider>
<adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
<param name="logging.configuration.path">log4j.properties</param></metadata_provider>
<data_provider name="Data"><adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
<param name="bootstrap.servers">nowhere:9092</param>
<param name="item-template.item">item-#{key=KEY}</param><param name="map.topic.to">item-template.item</param>
<param name="fields.skip.failed.mapping.enable">true</param>
<param name="field.a">#{HEADERS.a}</param><param name="field.b">#{HEADERS.b}</param>
<param name="field.c">#{HEADERS.c}</param><param name="field.key">#{HEADERS.key}</param>
<param name="field.command">#{HEADERS.command}</param></data_provider></adapters_conf>"#;

/// A value per field; `None` is a header the record lacks.
type Row = [Option<String>; FIELDS.len()];

/// What is known of an item's values: per field, unknown, or a value.
type Known = [Option<Option<String>>; FIELDS.len()];

/// What the model knows of an item; forgotten when nobody is subscribed.
#[derive(Debug, Default)]
struct Item {
    known: Known,
    /// While it has subscribers in mode COMMAND.
    rows: Option<Rows>,
    /// The last updates with the fields that were read, since somebody needs them.
    history: Option<VecDeque<(Row, FieldSet)>>,
}

impl Item {
    /// The last updates that were read with these fields.
    fn past(&self, wanted: &FieldSet) -> Vec<&Row> {
        let history = self.history.iter().flatten();
        let read = history.filter(|(_, fields)| wanted.is_subset(fields));
        read.map(|(row, _)| row).collect()
    }
}

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
    /// Another frequency; 0 is none.
    Reconfigure {
        client: usize,
        sub_id: u32,
        frequency: u32,
    },
    /// Another bandwidth; 0 is none.
    Constrain {
        client: usize,
        kbps: u32,
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
    /// The connection is lost, with all that has not been read.
    Cut {
        client: usize,
    },
    /// Those whose connection is lost come back.
    Return,
    /// The end of a turn.
    Flush,
    /// Time passes.
    Pass {
        millis: u64,
    },
}

/// The world around the shard, and what is expected of it.
struct World {
    shard: Shard,
    wire: MemoryWire,
    connection: Arc<Connection>,
    /// Per ingest worker: who wants what.
    tables: [RoutingTable; WORKERS],
    /// Per ingest worker: what it has posted.
    mails: [VecDeque<(usize, ShardMail, Row)>; WORKERS],
    clients: Vec<Client>,
    items: [Item; ITEMS],
}

impl World {
    fn new() -> Self {
        let none = |_: &str| None;
        let parsed = AdaptersFile::parse("adapters.xml", ADAPTERS, &none, ParseOptions::default());
        let config = parsed.expect("a good file").connections.remove(0);
        let connection = Arc::new(Connection::new(config, &differences::settings()));
        let shared = Arc::new(Shared {
            set_id: "Set".to_owned(),
            connections: vec![Arc::clone(&connection)],
            session: SessionConfig::default(),
            limits: Limits {
                distinct_snapshot: HISTORY,
                queue_bytes: QUEUE_BYTES,
                recovery_bytes: RECOVERY_BYTES,
                ..Limits::default()
            },
            guard: Arc::new(Guard::new(&Limits::default(), Origins::default(), CLIENTS)),
            simulator: None,
            diff_bytes_per_second: u64::MAX,
            peers: OnceLock::new(),
        });
        let mut world = Self {
            shard: Shard::new(0, shared, Arc::new(ShardMetrics::new())),
            wire: MemoryWire::new(CLIENTS),
            connection,
            tables: [(); WORKERS].map(|()| RoutingTable::new()),
            mails: Default::default(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            items: Default::default(),
        };
        let create = "create_session\r\nLS_adapter_set=Set&LS_cid=x&LS_send_sync=false";
        for client in 0..CLIENTS {
            let (diffs, parameter) = differences::accepted(client);
            world.clients[client].diffs = diffs;
            world.request(client, &format!("{create}{parameter}"));
        }
        world
    }

    fn request(&mut self, client: usize, text: &str) {
        let conn = self.wire.id(client);
        self.shard.handle_message(&mut self.wire, conn, text);
        let mut wishes = Vec::new();
        let worker = &self.connection.workers[0];
        worker.wishes.take(|wish| wishes.push(wish));
        for wish in wishes {
            for worker in 0..WORKERS {
                self.tell_known(worker, &wish);
                self.tables[worker].apply(wish.clone());
            }
        }
    }

    /// Another shard wants all fields of all items from the beginning.
    fn add_shard(&mut self) {
        for item in 0..ITEMS {
            let wish = Wish::Subscribe {
                name: format!("item-[key={item}]").into(),
                shard: 1,
                item: ItemKey { slot: 0, epoch: 0 },
                fields: FieldSet::all(FIELDS.len()),
                rows: None,
            };
            for table in &mut self.tables {
                table.apply(wish.clone());
            }
        }
    }

    /// What a worker answers to a wish, if it knows the item for another shard.
    fn tell_known(&mut self, worker: usize, wish: &Wish) {
        let Wish::Subscribe {
            name, item, fields, ..
        } = wish
        else {
            return;
        };
        let route = self.tables[worker].route(name);
        let Some((update, fields)) = route.and_then(|route| route.known(fields)) else {
            return;
        };
        let row: Row = std::array::from_fn(|index| update.get(index).map(str::to_owned));
        let number = (0..ITEMS).find(|number| **name == *format!("item-[key={number}]"));
        let mail = ShardMail::Known {
            item: *item,
            update,
            fields,
        };
        self.mails[worker].push_back((number.expect("an item of the model"), mail, row));
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
                    fields: match KINDS[kind].is_command() {
                        true => ROW_SCHEMAS[schema % ROW_SCHEMAS.len()],
                        false => SCHEMAS[schema],
                    },
                    kind: KINDS[kind],
                    // There is none in mode RAW, whatever is asked for.
                    snapshot: snapshot && KINDS[kind].mode() != "RAW",
                };
                self.subscribe(client, sub_id, want);
            }
            Op::Unsubscribe { client, sub_id } => {
                if self.wire.is_connected(client) && self.clients[client].unsubscribe(sub_id) {
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
            Op::Reconfigure {
                client,
                sub_id,
                frequency,
            } => {
                if self.wire.is_connected(client) && self.clients[client].reconfigure(sub_id) {
                    let frequency = limit(frequency);
                    let text = format!(
                        "control\r\nLS_reqId=1&LS_op=reconf&LS_subId={sub_id}\
                         &LS_requested_max_frequency={frequency}"
                    );
                    self.request(client, &text);
                }
            }
            Op::Constrain { client, kbps } => {
                if self.wire.is_connected(client) {
                    let kbps = limit(kbps);
                    let text = format!(
                        "control\r\nLS_reqId=1&LS_op=constrain&LS_requested_max_bandwidth={kbps}"
                    );
                    self.request(client, &text);
                }
            }
            Op::Cut { client } => self.cut(client),
            Op::Return => (0..CLIENTS).for_each(|client| self.come_back(client)),
            Op::Flush => self.wire.flush_all(),
            Op::Pass { millis } => self.pass(millis),
        }
        self.settle();
        self.forget_unwanted();
    }

    /// As the event loop does when a connection is lost.
    fn cut(&mut self, client: usize) {
        // A session of which the client does not know would stay until its time runs out.
        if !self.wire.is_connected(client) || !self.clients[client].has_session() {
            return;
        }
        let (conn, tag) = self.wire.cut(client);
        let key = SessionKey::from_bits(tag);
        let entry = self.shard.sessions.get_mut(key);
        if entry.is_some_and(|entry| entry.is_bound_to(conn)) {
            self.shard.lost(&mut self.wire, key);
        }
    }

    /// A client whose connection is lost goes on with its session or, where that is not possible
    /// any more, begins another one.
    fn come_back(&mut self, client: usize) {
        if !self.wire.is_cut(client) {
            return;
        }
        self.wire.connect(client);
        let request = self.clients[client].recover();
        self.request(client, &request);
        self.wire.flush_all();
        self.settle();
        if self.clients[client].is_ended() && self.wire.is_connected(client) {
            let request = self.clients[client].replace();
            self.clients[client] = Client::default();
            self.request(client, &request);
        }
    }

    /// Who has room catches up; who has got something reads it.
    fn settle(&mut self) {
        while let Some((_, tag)) = self.wire.roomy() {
            self.shard
                .resume(&mut self.wire, SessionKey::from_bits(tag));
            self.wire.flush_all();
        }
        self.note_ends();
        let now_ms = self.wire.now_ms();
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.read(&self.wire.take_lines(number), now_ms);
        }
    }

    /// Time passes in steps, each no longer than a tick.
    fn pass(&mut self, millis: u64) {
        let until_ms = self.wire.now_ms() + millis;
        while self.wire.now_ms() < until_ms {
            self.wire.pass(until_ms);
            for token in self.wire.due() {
                if token == ALARM {
                    self.shard.on_alarm(&mut self.wire);
                }
            }
            self.wire.flush_all();
            self.settle();
        }
    }

    fn subscribe(&mut self, client: usize, sub_id: u32, want: Want) {
        if !self.wire.is_connected(client) || self.clients[client].is_active(sub_id) {
            return;
        }
        let text = format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_data_adapter=Data&LS_ack=false\
             &LS_group=item-[key={}]&LS_schema={}&LS_mode={}&LS_snapshot={}{}",
            want.item,
            want.fields.join("%20"),
            want.kind.mode(),
            want.snapshot,
            want.kind.limits(),
        );
        // Values of a field that nobody wanted any more may be too old.
        for index in 0..FIELDS.len() {
            if want.has(index) && !self.is_wanted(want.item, index) {
                self.items[want.item].known[index] = None;
            }
        }
        let item = &mut self.items[want.item];
        if want.kind.is_command() {
            item.rows.get_or_insert_default();
        }
        if want.kind.is_distinct() {
            item.history.get_or_insert_default();
        }
        let now_ms = self.wire.now_ms();
        self.clients[client].subscribe(sub_id, want, item, now_ms);
        self.request(client, &text);
    }

    fn wants(&self, item: usize) -> impl Iterator<Item = &Want> {
        let all = self.clients.iter().flat_map(Client::wants);
        all.filter(move |want| want.item == item)
    }

    fn is_wanted(&self, item: usize, index: usize) -> bool {
        self.wants(item).any(|want| want.has(index))
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
        let Some(route) = self.tables[worker].route(name) else {
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
        route.keep(&update, &fields);
        for target in route.targets().iter().filter(|target| target.shard == 0) {
            let mail = ShardMail::Update {
                item: target.item,
                update: Arc::clone(&update),
                fields: Arc::clone(&fields),
                record_ms: -1,
            };
            self.mails[worker].push_back((item, mail, row.clone()));
        }
    }

    /// The shard takes one mail, the model takes it too.
    fn deliver(&mut self, worker: usize) {
        let Some((item, mail, row)) = self.mails[worker].pop_front() else {
            return;
        };
        match mail {
            ShardMail::Update {
                item: key,
                update,
                fields,
                ..
            } => {
                // An item that changed hands since is another one.
                if self.shard.items.get_mut(key).is_some() {
                    self.note_update(item, &row, &fields);
                }
                let wire = &mut self.wire;
                self.shard.fan_out(wire, key, update, &fields);
            }
            ShardMail::Known {
                item: key,
                update,
                fields,
            } => {
                let known = self.shard.items.get_mut(key);
                if known.is_some_and(|known| !known.knows_all()) {
                    self.note_known(item, &row, &fields);
                }
                self.shard.learn(&mut self.wire, key, update, &fields);
            }
            other => unreachable!("nobody posts {other:?} here"),
        }
        self.note_ends();
    }

    fn note_known(&mut self, number: usize, row: &Row, fields: &FieldSet) {
        let known = &mut self.items[number].known;
        for index in fields
            .iter()
            .filter(|index| known[*index].is_none())
            .collect::<Vec<_>>()
        {
            known[index] = Some(row[index].clone());
        }
        for client in &mut self.clients {
            client.learn(number, &self.items[number]);
        }
    }

    /// What is known of an item after values have come.
    fn merge(&mut self, number: usize, row: &Row, fields: &FieldSet) {
        let wanted: FieldSet = (0..FIELDS.len())
            .filter(|index| self.is_wanted(number, *index))
            .collect();
        for (index, value) in row.iter().enumerate() {
            let known = &mut self.items[number].known[index];
            match (fields.contains(index), value) {
                (true, Some(value)) => *known = Some(Some(value.clone())),
                (true, None) => *known = Some(known.take().flatten()),
                (false, _) if !wanted.contains(index) => *known = None,
                (false, _) => {}
            }
        }
    }

    fn note_update(&mut self, number: usize, row: &Row, fields: &FieldSet) {
        self.merge(number, row, fields);
        let item = &mut self.items[number];
        if let Some(history) = &mut item.history {
            history.push_back((row.clone(), fields.clone()));
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        let whole = fields.len() == FIELDS.len();
        let rows = item.rows.as_mut().filter(|_| whole);
        let change = rows.and_then(|rows| rows.apply(row));
        for client in &mut self.clients {
            client.expect(number, row, fields, item, change.as_ref());
        }
    }

    fn note_ends(&mut self) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            if !self.wire.is_open(number) {
                client.end();
            }
        }
    }

    fn forget_unwanted(&mut self) {
        for number in 0..ITEMS {
            let has = |of: fn(&Want) -> bool| self.wants(number).any(of);
            let (any, rows) = (has(|_| true), has(|want| want.kind.is_command()));
            let events = has(|want| !want.kind.is_command() && !want.kind.is_merge());
            let item = &mut self.items[number];
            if !any {
                *item = Item::default();
            }
            if !rows {
                item.rows = None;
            }
            if !events {
                item.history = None;
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
        self.run(Op::Return);
        self.run(Op::Flush);
        for _ in 0..5_000 {
            if self.shard.backlog.len() == 0 {
                break;
            }
            self.pass(100);
        }
        assert_eq!(
            self.shard.backlog.len(),
            0,
            "nothing waits for a client that reads"
        );
        let rows = self.items.iter().filter_map(|item| item.rows.as_ref());
        let rows: usize = rows.map(Rows::len).sum();
        assert_eq!(self.shard.counters.rows.keys, rows as u64);
        for (number, client) in self.clients.iter().enumerate() {
            client.check(&self.items);
            let conn = self.wire.id(number);
            let tag = Wire::tag(&mut self.wire, conn);
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

/// A limit as a request says it.
fn limit(number: u32) -> String {
    match number {
        0 => "unlimited".to_owned(),
        number => number.to_string(),
    }
}

fn value() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(String::new())),
        4 => (0u8..4, 0usize..90).prop_map(|(n, len)| Some(format!("{n}{}", "|".repeat(len)))),
        5 => differences::similar_value().prop_map(Some),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let key = prop_oneof![
        9 => (0u8..3).prop_map(|key| Some(format!("k{key}"))),
        1 => Just(None),
    ];
    let command = prop_oneof![
        2 => Just(Some("ADD")),
        4 => Just(Some("UPDATE")),
        2 => Just(Some("DELETE")),
        1 => Just(Some("OTHER")),
        1 => Just(None),
    ];
    let command = command.prop_map(|word| word.map(str::to_owned));
    (value(), value(), value(), key, command)
        .prop_map(|(a, b, c, key, command)| [a, b, c, key, command])
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..CLIENTS;
    prop_oneof![
        5 => (client.clone(), 1u32..3, 0..ITEMS, 0..SCHEMAS.len(), 0..KINDS.len(), any::<bool>())
            .prop_map(|(client, sub_id, item, schema, kind, snapshot)| Op::Subscribe {
                client, sub_id, item, schema, kind, snapshot,
            }),
        1 => (client.clone(), 1u32..3)
            .prop_map(|(client, sub_id)| Op::Unsubscribe { client, sub_id }),
        1 => (client.clone(), 1u32..3, 0u32..8).prop_map(|(client, sub_id, frequency)| {
            Op::Reconfigure { client, sub_id, frequency }
        }),
        1 => (client.clone(), prop_oneof![Just(0), 1u32..20])
            .prop_map(|(client, kbps)| Op::Constrain { client, kbps }),
        9 => (0..WORKERS, 0..ITEMS, row())
            .prop_map(|(worker, item, row)| Op::Produce { worker, item, row }),
        7 => (0..WORKERS, 1usize..4).prop_map(|(worker, count)| Op::Deliver { worker, count }),
        4 => (client, prop_oneof![Just(0), 0usize..500, Just(usize::MAX)])
            .prop_map(|(client, bytes)| Op::Room { client, bytes }),
        2 => Just(Op::Flush),
        1 => (0..CLIENTS).prop_map(|client| Op::Cut { client }),
        1 => Just(Op::Return),
        3 => prop_oneof![1u64..40, 50u64..400].prop_map(|millis| Op::Pass { millis }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn clients_see_what_their_mode_promises(
        has_other_shard in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let mut world = World::new();
        if has_other_shard {
            world.add_shard();
        }
        ops.into_iter().for_each(|op| world.run(op));
        world.finish();
    }
}
