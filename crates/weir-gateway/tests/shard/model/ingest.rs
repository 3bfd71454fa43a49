//! Ingest in the model: workers that store interest and map records.

use std::sync::Arc;

use weir_fanout::{
    HistoryInterest, Interest, InterestChange, ItemInterest, ItemKey, RowInterest, RowTableConfig,
};
use weir_mapping::{FieldSet, FieldValues, ItemNames, RecordView};

use super::values::{FIELDS, HISTORY, ITEMS, ModelRow, WORKERS, as_row};
use super::{TestEnv, rows};
use crate::limits::GatewayLimits;
use crate::shard::wire::Wire;
use weir_ingest::ItemEvent;

impl TestEnv {
    /// Adds another shard with an interest in all fields and rows of all items.
    pub(super) fn add_shard(&mut self) {
        let mapping = &self.connection.config.mapping;
        let rules = RowTableConfig {
            mode: mapping.command_mode(),
            fields: mapping.command_fields(),
            keys_max: GatewayLimits::default().command_rows,
        };
        for item in 0..ITEMS {
            let interest = ItemInterest {
                item: ItemKey { slot: 0, epoch: 0 },
                fields: FieldSet::all(FIELDS.len()),
                rows: Some(RowInterest {
                    generation: 0,
                    rules,
                }),
                history: Some(HistoryInterest {
                    generation: 0,
                    updates_max: HISTORY,
                }),
                positions: false,
            };
            let interest = Interest {
                name: format!("item-[key={item}]").into(),
                shard: 1,
                change: InterestChange::Subscribe(interest),
            };
            for table in &mut self.tables {
                table.apply(interest.clone());
            }
        }
    }

    /// Sends the backfill of a worker that has values of the item for another shard.
    pub(super) fn send_backfill(&mut self, worker: usize, interest: &Interest) {
        let Some(ItemInterest { item, fields, .. }) = interest.subscribed() else {
            return;
        };
        let name = &interest.name;
        let route = self.tables[worker].route(name);
        let Some((update, fields)) = route.and_then(|route| route.cached(fields)) else {
            return;
        };
        let row = as_row(&update);
        let event = ItemEvent::Backfill {
            item: *item,
            update,
            fields,
        };
        self.events[worker].push_back((number(name), event, row));
    }

    /// Sends the rows and last updates of a worker, which may be empty.
    pub(super) fn send_past(&mut self, worker: usize, interest: &Interest) {
        for event in self.tables[worker].backfill_events(interest) {
            let item = number(&interest.name);
            if let ItemEvent::HistoryBackfill(backfill) = &event {
                let records = self.records[worker][item].iter();
                assert_eq!(backfill.updates.len(), records.len());
                for (update, record) in backfill.updates.iter().zip(records) {
                    let row = as_row(&update.values);
                    assert!(
                        update
                            .fields
                            .iter()
                            .all(|index| row[index] == record[index])
                    );
                }
            }
            let event = (item, event, ModelRow::default());
            self.events[worker].push_back(event);
        }
    }

    /// Maps a record as ingest does. All records of a row are mapped by one worker.
    pub(super) fn produce(&mut self, item: usize, row: ModelRow) {
        let worker = rows::number_of(&row) % WORKERS;
        if self.has_other_shard {
            let records = &mut self.records[worker][item];
            records.push_back(row.clone());
            records.drain(..records.len().saturating_sub(HISTORY));
        }
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
        mapping
            .item_names(&view, &mut names)
            .expect("valid item name");
        let name = names.iter().next().expect("one item");
        let Some(route) = self.tables[worker].route(name) else {
            return;
        };
        for client in &self.clients {
            client.check_route(item, &route.fields);
        }
        let fields = Arc::clone(&route.fields);
        mapping
            .field_values(&view, &fields, &mut values)
            .expect("failed fields are skipped");
        let update = Arc::new(values.freeze());
        route.store(&update, &fields, self.wire.now_ms() as i64);
        for target in route.targets.iter().filter(|target| target.shard == 0) {
            let event = ItemEvent::Update {
                item: target.interest.item,
                update: Arc::clone(&update),
                fields: Arc::clone(&fields),
                record_ms: -1,
            };
            self.events[worker].push_back((item, event, row.clone()));
        }
    }
}

/// Returns the number of an item in the model.
fn number(name: &str) -> usize {
    let number = (0..ITEMS).find(|number| *name == *format!("item-[key={number}]"));
    number.expect("item of the model")
}
