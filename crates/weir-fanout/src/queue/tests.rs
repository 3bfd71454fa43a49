use std::sync::Arc;

use weir_mapping::{FieldSet, FieldValues, ItemNames, Mapping, ParseOptions, RecordView};

use super::super::row_table::{RowStep, RowTable, RowTableCounters};
use super::super::work::visits;
use super::*;
use crate::interest::RowTableConfig;

const ADAPTERS: &str = r#"<adapters_conf id="S"><metadata_provider>
<adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
<param name="logging.configuration.path">l</param></metadata_provider>
<data_provider name="C">
<adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
<param name="bootstrap.servers">nowhere:9092</param><param name="map.t.to">item</param>
<param name="record.value.evaluator.type">KVP</param><param name="field.key">#{KEY}</param>
<param name="field.command">#{VALUE.c}</param><param name="field.v">#{VALUE.v}</param>
</data_provider></adapters_conf>"#;
const UNLIMITED: usize = usize::MAX;

/// A row table with its mapping.
struct Rows {
    mapping: Arc<Mapping>,
    table: RowTable,
    counts: RowTableCounters,
}

impl Rows {
    fn new(keys_max: usize) -> Self {
        let none = |_: &str| None;
        let options = ParseOptions::default();
        let mut report = weir_mapping::ConfigReport::of("a.xml", ADAPTERS, &none, options);
        let mapping = report.connections.remove(0).expect("valid file").mapping;
        let rules = RowTableConfig {
            mode: mapping.command_mode(),
            fields: mapping.command_fields(),
            keys_max,
        };
        Self {
            table: RowTable::new(rules, mapping.all_fields()),
            mapping,
            counts: RowTableCounters::default(),
        }
    }

    fn values(&self, key: &str, value: &str) -> Arc<FrozenValues> {
        let view = RecordView {
            topic: "t",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
        };
        let (mut names, mut values) = (ItemNames::new(), FieldValues::new());
        self.mapping
            .item_names(&view, &mut names)
            .expect("valid item name");
        let all = self.mapping.all_fields();
        let read = self.mapping.field_values(&view, &all, &mut values);
        read.expect("all fields are present");
        Arc::new(values.freeze())
    }

    fn change(&mut self, key: &str, command: &str, v: u32) -> Option<RowChange> {
        let values = self.values(key, &format!("c={command},v={v}"));
        let all: FieldSet = self.mapping.all_fields();
        match self.table.advance(&values, &all, &mut self.counts)? {
            RowStep::Row(change) => Some(change),
            other => panic!("{other:?}"),
        }
    }
}

fn shown(queue: &UpdateQueue) -> Vec<String> {
    let slots = (0..queue.len()).filter_map(|index| queue.get(index));
    let text = |slot: &QueuedUpdate| match slot {
        QueuedUpdate::Snapshot(values) => format!("past {}", values.get(2).unwrap_or("-")),
        QueuedUpdate::Missed(values) => format!("missed {}", values.get(2).unwrap_or("-")),
        QueuedUpdate::Update(values) => format!("update {}", values.get(2).unwrap_or("-")),
        QueuedUpdate::Row {
            key,
            command,
            values,
            ..
        } => format!(
            "{} {key} {}",
            command.as_str(),
            values.get(2).unwrap_or("-")
        ),
        QueuedUpdate::Lost(lost) => format!("lost {lost}"),
        QueuedUpdate::Clear => "clear".to_owned(),
        QueuedUpdate::EndOfSnapshot => "end".to_owned(),
        QueuedUpdate::Removed => "gone".to_owned(),
    };
    slots.map(text).collect()
}

#[test]
fn row_changes_merge_except_across_add_and_delete() {
    let mut rows = Rows::new(10);
    let mut queue = UpdateQueue::new(DeliveryMode::Rows, usize::MAX);
    rows.change("known", "ADD", 0);
    let mut overflow = Vec::new();
    for (key, command, v) in [
        ("known", "UPDATE", 1),
        ("new", "ADD", 2),
        ("new", "UPDATE", 3),
        ("known", "ADD", 4),
        ("brief", "ADD", 5),
        ("brief", "DELETE", 6),
        ("known", "DELETE", 7),
        ("known", "UPDATE", 8),
        ("known", "UPDATE", 9),
    ] {
        let change = rows.change(key, command, v).expect("row change");
        overflow.push(queue.push_row(&change, UNLIMITED).conflated);
    }
    assert_eq!(overflow, [0, 0, 1, 1, 0, 2, 1, 0, 1]);
    let expected = ["DELETE known -", "ADD new 3", "gone", "ADD known 9"];
    assert_eq!(shown(&queue), expected);
    let mut unfiltered = UpdateQueue::new(DeliveryMode::AllRows, usize::MAX);
    for (command, v) in [("UPDATE", 1), ("UPDATE", 2), ("DELETE", 3)] {
        let change = rows.change("known", command, v).expect("row change");
        assert_eq!(
            unfiltered.push_row(&change, UNLIMITED),
            OverflowCounts::default()
        );
    }
    let expected = ["UPDATE known 1", "UPDATE known 2", "DELETE known -"];
    assert_eq!(shown(&unfiltered), expected);
}

#[test]
fn rows_over_the_byte_limit_cause_resync() {
    let mut rows = Rows::new(10);
    let mut queue = UpdateQueue::new(DeliveryMode::Rows, usize::MAX);
    queue.push_end();
    let free_bytes = 2 * ENTRY_BYTES + 40;
    for (number, expected) in [(1, 0), (2, 0), (3, 3), (4, 1)] {
        let change = rows.change(&format!("k{number}"), "ADD", number);
        assert_eq!(
            queue.push_row(&change.expect("new"), free_bytes).lost,
            expected
        );
    }
    assert_eq!(shown(&queue), ["lost 4"]);
    assert!(queue.needs_resync() && queue.bytes() == 0);
    queue.mark_removed(0);
    let all = rows.table.rows();
    queue.resync(all.map(|row| (Arc::clone(&row.key), Arc::clone(&row.values))));
    let table = [
        "gone", "clear", "ADD k1 1", "ADD k2 2", "ADD k3 3", "ADD k4 4", "end",
    ];
    assert_eq!(shown(&queue), table);
    assert_eq!(queue.bytes(), 0, "rows of the table count no bytes");
    let change = rows.change("k2", "DELETE", 0).expect("known");
    queue.push_row(&change, free_bytes);
    assert_eq!(shown(&queue)[..3], ["clear", "ADD k1 1", "gone"]);
    queue.push_clear();
    assert_eq!(shown(&queue), ["clear", "end"]);
}

#[test]
fn rows_over_limit_are_forwarded_unstored() {
    let mut rows = Rows::new(1);
    let mut queue = UpdateQueue::new(DeliveryMode::Rows, usize::MAX);
    assert!(
        rows.change("c", "DELETE", 0).is_none(),
        "all keys are stored"
    );
    for (key, command, v) in [
        ("a", "ADD", 1),
        ("b", "ADD", 2),
        ("b", "UPDATE", 3),
        ("b", "DELETE", 4),
        ("a", "UPDATE", 5),
    ] {
        let change = rows.change(key, command, v).expect("row change");
        queue.push_row(&change, UNLIMITED);
    }
    assert_eq!(
        shown(&queue),
        ["ADD a 5", "ADD b 2", "ADD b 3", "DELETE b -"]
    );
    let RowTableCounters {
        stored: keys,
        not_stored: left_out,
        rejected: refused,
    } = rows.counts;
    assert_eq!((keys, left_out, refused), (1, 2, 1));
}

#[test]
fn full_queue_follows_the_delivery_mode() {
    let rows = Rows::new(1);
    let past = rows.values("", "c=,v=past");
    let run = |delivery, most, free_bytes| {
        let mut queue = UpdateQueue::new(delivery, most);
        queue.push_snapshot(Arc::clone(&past));
        let mut overflow = OverflowCounts::default();
        for v in 0..5 {
            let values = rows.values("", &format!("c=,v={v}"));
            let one = queue.push(&values, free_bytes);
            overflow.conflated += one.conflated;
            overflow.dropped += one.dropped;
            overflow.lost += one.lost;
        }
        (shown(&queue).join(", "), overflow)
    };
    let two = 2 * (ENTRY_BYTES + 1);
    let with = |text: &str| text.to_owned();
    for (delivery, most, free_bytes) in [
        (DeliveryMode::Buffered, 2, UNLIMITED),
        (DeliveryMode::Buffered, usize::MAX, two),
    ] {
        let (text, overflow) = run(delivery, most, free_bytes);
        assert_eq!(text, with("past past, update 0, update 4"));
        assert_eq!(overflow, OverflowCounts::conflated(3));
    }
    for (most, free_bytes) in [(2, UNLIMITED), (usize::MAX, two)] {
        let (text, overflow) = run(DeliveryMode::List, most, free_bytes);
        assert!(text.starts_with("past past, ") && text.ends_with("update 3, update 4"));
        assert_eq!((overflow.dropped, overflow.lost), (3, 0));
    }
    let (text, overflow) = run(DeliveryMode::Events, usize::MAX, two);
    assert_eq!(text, with("past past, update 0, update 1, lost 3"));
    assert_eq!(overflow, OverflowCounts::lost(3));
    let (text, overflow) = run(DeliveryMode::States, usize::MAX, two);
    assert_eq!(text, with("past past, update 0, lost 3, update 4"));
    assert_eq!(overflow, OverflowCounts::lost(3));
}

#[test]
fn delayed_row_cost_is_independent_of_queue_length() {
    let cost = |waiting: u32| {
        let mut rows = Rows::new(10_000);
        let mut queue = UpdateQueue::new(DeliveryMode::Rows, usize::MAX);
        for number in 0..waiting {
            rows.change(&format!("k{number}"), "ADD", 1);
            let change = rows.change(&format!("k{number}"), "UPDATE", 2);
            queue.push_row(&change.expect("known"), UNLIMITED);
        }
        while let Some(index) = queue.next(1_000) {
            queue.delay(index, 5_000);
        }
        let before = visits();
        for number in 0..20 {
            let change = rows.change(&format!("new{number}"), "ADD", 3);
            queue.push_row(&change.expect("new"), UNLIMITED);
            let index = queue.next(1_001).expect("sendable row");
            assert_eq!(index, (waiting + number) as usize);
            queue.mark_removed(index);
            assert_eq!((queue.next(1_001), queue.next_delayed_ms()), (None, 5_000));
        }
        visits() - before
    };
    assert_eq!(cost(100), cost(5_000));
}

#[test]
fn delayed_row_is_deleted_at_once() {
    let mut rows = Rows::new(10);
    let mut queue = UpdateQueue::new(DeliveryMode::Rows, usize::MAX);
    for key in ["a", "b"] {
        rows.change(key, "ADD", 1);
        let change = rows.change(key, "UPDATE", 2);
        queue.push_row(&change.expect("known"), UNLIMITED);
        let index = queue.next(0).expect("queued row");
        queue.delay(index, 500);
    }
    assert_eq!(queue.next(499), None);
    let change = rows.change("b", "DELETE", 3);
    queue.push_row(&change.expect("known"), UNLIMITED);
    assert_eq!(queue.next(499), Some(1));
    queue.mark_removed(1);
    assert_eq!((queue.next(499), queue.next_delayed_ms()), (None, 500));
    assert_eq!(queue.next(500), Some(0));
    queue.retry_delayed();
    assert_eq!(queue.next(0), Some(0));
    queue.mark_removed(0);
    assert!(queue.next(9_000).is_none() && queue.trim());
}

#[test]
fn short_lived_rows_leave_no_entries() {
    let mut rows = Rows::new(10);
    let mut queue = UpdateQueue::new(DeliveryMode::Rows, usize::MAX);
    let change = rows.change("stays", "ADD", 0).expect("new");
    queue.push_row(&change, UNLIMITED);
    for number in 0..1_000 {
        for command in ["ADD", "DELETE"] {
            let change = rows.change("brief", command, number).expect("row change");
            queue.push_row(&change, UNLIMITED);
        }
    }
    assert!(queue.len() <= 33, "{}", queue.len());
}

#[test]
fn clear_of_a_list_keeps_earlier_updates() {
    let values = Arc::new(FieldValues::new().freeze());
    let mut queue = UpdateQueue::new(DeliveryMode::List, 2);
    queue.push_snapshot(Arc::clone(&values));
    queue.push(&values, UNLIMITED);
    queue.push_clear();
    assert_eq!(queue.push(&values, UNLIMITED).dropped, 0);
    let kinds = |queue: &UpdateQueue| -> Vec<&'static str> {
        let entries = (0..queue.len()).filter_map(|index| queue.get(index));
        let kind = |entry: &QueuedUpdate| match entry {
            QueuedUpdate::Snapshot(_) => "snapshot",
            QueuedUpdate::Update(_) => "update",
            QueuedUpdate::Clear => "clear",
            QueuedUpdate::Removed => "gone",
            _ => "other",
        };
        entries.map(kind).collect()
    };
    assert_eq!(kinds(&queue), ["snapshot", "update", "clear", "update"]);
    for expected in [
        &["snapshot", "gone", "clear", "update", "update"][..],
        &["snapshot", "gone", "clear", "gone", "update", "update"],
    ] {
        assert_eq!(queue.push(&values, UNLIMITED).dropped, 1);
        assert_eq!(kinds(&queue), expected);
    }
}
