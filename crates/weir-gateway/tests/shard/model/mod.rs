//! Tests the shard against a simple model of its clients, under random schedules of records, lag,
//! subscriptions and limits.
//!
//! Under any schedule, a MERGE client receives states in order and ends with the latest one. A
//! client that must receive every update receives all in order, or the number of lost ones. A
//! COMMAND client ends with the same rows as the item.

mod client;
mod compressed;
mod differences;
mod fanout;
mod ingest;
mod item;
mod ops;
mod refusals;
mod rows;
mod values;
mod want;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use weir_fanout::{HistoryBackfill, RowBackfill, SessionKey};
use weir_mapping::{ConfigReport, FieldSet, ParseOptions};
use weir_tlcp::server::SessionConfig;

use self::client::ModelClient;
use self::item::Item;
use self::ops::{Op, op};
use self::rows::Rows;
use self::values::{
    CLIENTS, FIELDS, HISTORY, ITEMS, ModelRow, ROW_SCHEMAS, SCHEMAS, WORKERS, as_row,
};
use self::want::{KINDS, SubscriptionKind, SubscriptionSpec};
use self::wire::{MemoryWire, QUEUE_BYTES};
use super::timers::SESSION_TIMERS;
use super::wire::Wire;
use super::{Placement, Shard, ShardContext};
use crate::admission::{Admission, Origins};
use crate::compression::CompressionConfig;
use crate::config::UnknownNames;
use crate::limits::GatewayLimits;
use crate::metrics::ShardMetrics;
use crate::session_handles::SessionHandles;
use weir_ingest::Cluster;
use weir_ingest::ItemEvent;
use weir_ingest::KafkaConnection;
use weir_ingest::RoutingTable;

/// Small enough to be exceeded at times.
const RECOVERY_BYTES: usize = 2_000;
const ADAPTERS: &str = r#"<adapters_conf id="Set"><metadata_provider>
<adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
<param name="logging.configuration.path">log4j.properties</param></metadata_provider>
<data_provider name="Data">
<adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
<param name="bootstrap.servers">nowhere:9092</param>
<param name="item-template.item">item-#{key=KEY}</param>
<param name="map.topic.to">item-template.item</param>
<param name="fields.skip.failed.mapping.enable">true</param>
<param name="record.consume.with.num.threads">2</param>
<param name="field.a">#{HEADERS.a}</param><param name="field.b">#{HEADERS.b}</param>
<param name="field.c">#{HEADERS.c}</param><param name="field.key">#{HEADERS.key}</param>
<param name="field.command">#{HEADERS.command}</param></data_provider></adapters_conf>"#;

/// A shard and its expected state.
struct TestEnv {
    shard: Shard,
    wire: MemoryWire,
    connection: Arc<KafkaConnection>,
    /// Routing table per ingest worker.
    tables: [RoutingTable; WORKERS],
    /// Posted events per ingest worker.
    events: [VecDeque<(usize, ItemEvent, ModelRow)>; WORKERS],
    clients: Vec<ModelClient>,
    items: [Item; ITEMS],
    /// `true` if another shard has an interest in all fields, rows and last updates of all items
    /// from the start.
    has_other_shard: bool,
    /// Last records, per ingest worker and item.
    records: [[VecDeque<ModelRow>; ITEMS]; WORKERS],
}

impl TestEnv {
    fn new(has_other_shard: bool) -> Self {
        Self::limited(has_other_shard, GatewayLimits::default())
    }

    fn limited(has_other_shard: bool, limits: GatewayLimits) -> Self {
        Self::of(ADAPTERS, has_other_shard, limits)
    }

    fn of(adapters: &str, has_other_shard: bool, limits: GatewayLimits) -> Self {
        let none = |_: &str| None;
        let options = ParseOptions::default();
        let mut report = ConfigReport::of("adapters.xml", adapters, &none, options);
        let config = report.connections.remove(0).expect("valid file");
        let cluster = Cluster::of(&config, &[], Default::default()).expect("valid settings");
        let connection = Arc::new(KafkaConnection::new(
            config,
            cluster,
            None,
            &differences::settings(),
        ));
        let shared = Arc::new(ShardContext {
            example_fields: BTreeMap::default(),
            audit: None,
            handles: SessionHandles::default(),
            set_id: "Set".to_owned(),
            connections: vec![Arc::clone(&connection)],
            session: SessionConfig::default(),
            limits: GatewayLimits {
                distinct_snapshot: HISTORY,
                queue_bytes: QUEUE_BYTES,
                recovery_bytes: RECOVERY_BYTES,
                ..limits
            },
            unknown_names: UnknownNames::Accept,
            admission: Arc::new(Admission::new(
                &GatewayLimits::default(),
                Origins::default(),
                CLIENTS,
            )),
            simulator: None,
            adapter: None,
            messages: None,
            auth: None,
            compression: CompressionConfig {
                enabled: true,
                min_bytes: 0,
                budget_bytes_per_second: u64::MAX,
                ..CompressionConfig::default()
            },
            diff_bytes_per_second: u64::MAX,
            shards: 1 + usize::from(has_other_shard),
            placement: Placement::new(1, 1),
            inboxes: Arc::default(),
        });
        let mut env = Self {
            shard: Shard::new(0, shared, Arc::new(ShardMetrics::new(Default::default()))),
            wire: MemoryWire::new(CLIENTS),
            connection,
            tables: [(); WORKERS].map(|()| RoutingTable::default()),
            events: Default::default(),
            clients: (0..CLIENTS).map(|_| ModelClient::default()).collect(),
            items: Default::default(),
            has_other_shard,
            records: Default::default(),
        };
        if has_other_shard {
            env.add_shard();
        }
        let create = "create_session\r\nLS_adapter_set=Set&LS_cid=x&LS_send_sync=false";
        for client in 0..CLIENTS {
            let (diffs, parameter) = differences::accepted(client);
            env.clients[client].diffs = diffs;
            env.request(client, &format!("{create}{parameter}"));
        }
        env
    }

    fn request(&mut self, client: usize, text: &str) {
        let conn = self.wire.id(client);
        self.shard.handle_message(&mut self.wire, conn, text);
        for worker in 0..WORKERS {
            let mut interests = Vec::new();
            let inbox = &self.connection.workers[worker].interests;
            inbox.take(|interest| interests.push(interest));
            for interest in interests {
                self.send_backfill(worker, &interest);
                self.send_past(worker, &interest);
                self.tables[worker].apply(interest);
            }
        }
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
                let want = SubscriptionSpec {
                    item,
                    fields: match KINDS[kind].is_command() {
                        true => ROW_SCHEMAS[schema % ROW_SCHEMAS.len()],
                        false => SCHEMAS[schema],
                    },
                    kind: KINDS[kind],
                    // Mode RAW has no snapshot.
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
                    self.remove_unneeded();
                }
            }
            Op::Produce { item, row } => self.produce(item, row),
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
            Op::Return => (0..CLIENTS).for_each(|client| self.reconnect(client)),
            Op::Flush => self.wire.flush_all(),
            Op::Pass { millis } => self.pass(millis),
        }
        self.settle();
        self.remove_unneeded();
    }

    /// Loses a connection, as the event loop does.
    fn cut(&mut self, client: usize) {
        // A session unknown to its client would stay until it times out.
        if !self.wire.is_connected(client) || !self.clients[client].has_session() {
            return;
        }
        let (conn, tag) = self.wire.cut(client);
        let key = SessionKey::from_bits(tag);
        let entry = self.shard.clients.sessions.get_mut(key);
        if entry.is_some_and(|entry| entry.is_bound_to(conn)) {
            self.shard.clients.lost(&mut self.wire, key);
        }
    }

    /// Reconnects a client. It continues its session or, where that is not possible, creates
    /// another one.
    fn reconnect(&mut self, client: usize) {
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
            self.clients[client] = ModelClient::default();
            self.request(client, &request);
        }
    }

    /// Sends all unsent output for which there is capacity, and lets the clients read.
    fn settle(&mut self) {
        while let Some((_, tag)) = self.wire.next_writable() {
            self.shard
                .clients
                .resume(&mut self.wire, SessionKey::from_bits(tag));
            self.wire.flush_all();
        }
        self.note_ends();
        let now_ms = self.wire.now_ms();
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.read(&self.wire.take_lines(number), now_ms);
        }
    }

    /// Advances the time in steps of at most one tick.
    fn pass(&mut self, millis: u64) {
        let until_ms = self.wire.now_ms() + millis;
        while self.wire.now_ms() < until_ms {
            self.wire.pass(until_ms);
            for token in self.wire.due() {
                if token == SESSION_TIMERS {
                    self.shard.clients.on_session_timers(&mut self.wire);
                }
            }
            self.wire.flush_all();
            self.settle();
        }
    }

    fn subscribe(&mut self, client: usize, sub_id: u32, want: SubscriptionSpec) {
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
        // Values of a field that was not needed may be too old.
        for index in 0..FIELDS.len() {
            if want.has(index) && !self.is_wanted(want.item, index) {
                self.items[want.item].known[index] = None;
            }
        }
        let item = &mut self.items[want.item];
        if want.kind.is_command() && item.rows.is_none() {
            item.rows = Some(Rows::default());
            item.pending_workers = if self.has_other_shard { WORKERS } else { 0 };
        }
        if want.kind.is_distinct() && item.history.is_none() {
            item.history = Some(VecDeque::new());
            item.backfill.clear();
            item.pending_history_workers = if self.has_other_shard { WORKERS } else { 0 };
        }
        let now_ms = self.wire.now_ms();
        self.clients[client].subscribe(sub_id, want, item, now_ms);
        self.request(client, &text);
    }

    fn wants(&self, item: usize) -> impl Iterator<Item = &SubscriptionSpec> {
        let all = self.clients.iter().flat_map(ModelClient::wants);
        all.filter(move |want| want.item == item)
    }

    fn is_wanted(&self, item: usize, index: usize) -> bool {
        self.wants(item).any(|want| want.has(index))
    }

    /// Delivers one event to the shard and to the model.
    fn deliver(&mut self, worker: usize) {
        let Some((item, event, row)) = self.events[worker].pop_front() else {
            return;
        };
        match event {
            ItemEvent::Update {
                item: key,
                update,
                fields,
                ..
            } => {
                // Events of an earlier item in the same slot are ignored.
                if self.shard.clients.items.get(key).is_some() {
                    self.note_update(item, &row, &fields);
                }
                let (clients, wire) = (&mut self.shard.clients, &mut self.wire);
                clients.fan_out(wire, key, update, &fields);
            }
            ItemEvent::Positioned(_) | ItemEvent::Positions(_) | ItemEvent::ReadBack(_) => {
                unreachable!("the model has no clients of events")
            }
            ItemEvent::Traced(_) => unreachable!("the model traces no records"),
            ItemEvent::Backfill {
                item: key,
                update,
                fields,
            } => {
                let known = self.shard.clients.items.get(key);
                if known.is_some_and(|known| !known.has_all_values()) {
                    self.note_known(item, &row, &fields);
                }
                let (clients, wire) = (&mut self.shard.clients, &mut self.wire);
                clients.backfill(wire, key, update, &fields);
            }
            ItemEvent::RowBackfill(backfill) => {
                let known = self.shard.clients.items.get(backfill.item);
                if known.is_some_and(|item| item.awaits_rows(backfill.generation)) {
                    self.note_rows(item, &backfill);
                }
                let (clients, wire) = (&mut self.shard.clients, &mut self.wire);
                clients.backfill_rows(wire, &backfill);
            }
            ItemEvent::HistoryBackfill(backfill) => {
                let known = self.shard.clients.items.get(backfill.item);
                if known.is_some_and(|item| item.awaits_history(backfill.generation)) {
                    self.note_history(item, &backfill);
                }
                let (clients, wire) = (&mut self.shard.clients, &mut self.wire);
                clients.backfill_history(wire, *backfill);
            }
            other => unreachable!("unexpected event {other:?}"),
        }
        self.note_ends();
    }

    fn note_known(&mut self, number: usize, row: &ModelRow, fields: &FieldSet) {
        let known = &mut self.items[number].known;
        for index in fields
            .iter()
            .filter(|index| known[*index].is_none())
            .collect::<Vec<_>>()
        {
            known[index] = Some(row[index].clone());
        }
        for client in &mut self.clients {
            client.backfill(number, &self.items[number]);
        }
    }

    fn note_rows(&mut self, number: usize, backfill: &RowBackfill) {
        let item = &mut self.items[number];
        for row in &backfill.rows {
            let row = as_row(row);
            let change = item.rows.as_mut().and_then(|rows| rows.apply(&row));
            let change = change.expect("row has a key");
            for client in &mut self.clients {
                client.backfill_row(number, &row, &change);
            }
        }
        item.pending_workers -= 1;
        if item.pending_workers == 0 {
            for client in &mut self.clients {
                client.complete_rows(number);
            }
        }
    }

    fn note_history(&mut self, number: usize, backfill: &HistoryBackfill) {
        let item = &mut self.items[number];
        for update in &backfill.updates {
            let (row, fields) = (as_row(&update.values), FieldSet::clone(&update.fields));
            item.backfill.push((update.record_ms, row, fields));
        }
        item.pending_history_workers -= 1;
        if item.pending_history_workers > 0 {
            return;
        }
        let mut backfill = std::mem::take(&mut item.backfill);
        backfill.sort_by_key(|(at_ms, ..)| *at_ms);
        let backfill = backfill.split_off(backfill.len().saturating_sub(HISTORY));
        let history = item
            .history
            .as_mut()
            .expect("a subscriber needs the history");
        for (_, row, fields) in backfill.iter().rev() {
            if history.len() < HISTORY {
                history.push_front((row.clone(), fields.clone()));
            }
        }
        for client in &mut self.clients {
            client.backfill_history(number, &backfill);
        }
    }

    /// Merges values into the expected values of an item.
    fn merge(&mut self, number: usize, row: &ModelRow, fields: &FieldSet) {
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

    fn note_update(&mut self, number: usize, row: &ModelRow, fields: &FieldSet) {
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

    fn remove_unneeded(&mut self) {
        for number in 0..ITEMS {
            let has = |of: fn(&SubscriptionSpec) -> bool| self.wants(number).any(of);
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

    /// Delivers all output and compares the final state.
    fn finish(&mut self) {
        for worker in 0..WORKERS {
            let count = self.events[worker].len();
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
            if self.shard.clients.delivery.publish(0).lagging == 0 {
                break;
            }
            self.pass(100);
        }
        assert_eq!(
            self.shard.clients.delivery.publish(0).lagging,
            0,
            "no lagging item is left for a reading client"
        );
        let rows = self.items.iter().filter_map(|item| item.rows.as_ref());
        let rows: usize = rows.map(Rows::len).sum();
        assert_eq!(self.shard.clients.items.rows.stored, rows as u64);
        for (number, client) in self.clients.iter().enumerate() {
            client.check(&self.items);
            let conn = self.wire.id(number);
            let tag = Wire::tag(&mut self.wire, conn);
            let entry = tag.and_then(|tag| {
                self.shard
                    .clients
                    .sessions
                    .get_mut(SessionKey::from_bits(tag))
            });
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

/// Returns a limit in the notation of requests.
fn limit(number: u32) -> String {
    match number {
        0 => "unlimited".to_owned(),
        number => number.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn deliveries_meet_mode_guarantees(
        has_other_shard in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let mut env = TestEnv::new(has_other_shard);
        ops.into_iter().for_each(|op| env.run(op));
        env.finish();
    }
}

/// A client without a snapshot receives a record that lacks a field, before the earlier row arrives
/// in a backfill. Then it receives the row again.
#[test]
fn backfilled_row_is_sent_again() {
    let command = KINDS.iter().position(|kind| kind.is_command());
    let subscribe = |client, kind| Op::Subscribe {
        client,
        sub_id: 1,
        item: 0,
        schema: 0,
        kind,
        snapshot: false,
    };
    let text = |text: &str| Some(text.to_owned());
    let produce = |a| Op::Produce {
        item: 0,
        row: [a, None, None, text("k0"), text("ADD")],
    };
    let mut env = TestEnv::new(true);
    env.run(subscribe(0, 0));
    env.run(produce(text("value")));
    env.run(Op::Deliver {
        worker: 0,
        count: 1,
    });
    env.run(produce(None));
    env.run(subscribe(1, command.expect("COMMAND kind")));
    env.finish();
}

/// An unfiltered client with little bandwidth loses updates and receives all rows again, before a
/// worker has sent the row that it had earlier. Then it receives that row too, although it has
/// requested no snapshot.
#[test]
fn outstanding_row_follows_rows_sent_again() {
    let unfiltered = |kind| matches!(kind, SubscriptionKind::CommandUnfiltered);
    let command = KINDS.into_iter().position(unfiltered);
    let subscribe = |client, sub_id, kind| Op::Subscribe {
        client,
        sub_id,
        item: 1,
        schema: 0,
        kind,
        snapshot: false,
    };
    let text = |count: usize| Some(format!("{{\"n\":0,\"text\":\"{}\"}}", "|".repeat(count)));
    let produce = |key: &str, first, third| Op::Produce {
        item: 1,
        row: [
            first,
            None,
            third,
            Some(key.to_owned()),
            Some("ADD".to_owned()),
        ],
    };
    let deliver = |worker, count| Op::Deliver { worker, count };
    let mut env = TestEnv::new(true);
    for op in [
        subscribe(0, 1, 0),
        subscribe(2, 2, 0),
        Op::Constrain { client: 2, kbps: 6 },
        produce("k0", text(40), None),
        produce("k1", text(80), None),
        deliver(0, 1),
        produce("k1", text(40), text(80)),
        produce("k1", None, text(8)),
        subscribe(2, 1, command.expect("unfiltered COMMAND kind")),
        deliver(1, 3),
        deliver(0, 1),
        Op::Pass { millis: 151 },
        Op::Pass { millis: 146 },
    ] {
        env.run(op);
    }
    env.finish();
}
