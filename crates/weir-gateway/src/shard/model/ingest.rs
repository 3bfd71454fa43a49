//! Ingest in the model: workers that answer wishes, and map records for those who want them.

use std::sync::Arc;

use weir_mapping::{FieldSet, FieldValues, ItemNames, RecordView};

use super::values::{FIELDS, HISTORY, ITEMS, ModelRow, WORKERS, as_row};
use super::{TestEnv, rows};
use crate::config::GatewayLimits;
use crate::interest::{HistoryInterest, Interest, ItemKey, RowInterest, RowTableConfig};
use crate::shard::ShardEvent;
use crate::shard::wire::Wire;

impl TestEnv {
    /// Another shard comes to want all fields and rows of all items.
    pub(super) fn add_shard(&mut self) {
        let mapping = &self.connection.config.mapping;
        let rules = RowTableConfig {
            mode: mapping.command_mode(),
            fields: mapping.command_fields(),
            keys_max: GatewayLimits::default().command_rows,
        };
        for item in 0..ITEMS {
            let wish = Interest::Subscribe {
                name: format!("item-[key={item}]").into(),
                shard: 1,
                item: ItemKey { slot: 0, epoch: 0 },
                fields: FieldSet::all(FIELDS.len()),
                rows: Some(RowInterest {
                    generation: 0,
                    rules,
                }),
                history: Some(HistoryInterest {
                    generation: 0,
                    most: HISTORY,
                }),
            };
            for table in &mut self.tables {
                table.apply(wish.clone());
            }
        }
    }

    /// What a worker answers to a wish, if it knows the item for another shard.
    pub(super) fn tell_known(&mut self, worker: usize, wish: &Interest) {
        let Interest::Subscribe {
            name, item, fields, ..
        } = wish
        else {
            return;
        };
        let route = self.tables[worker].route(name);
        let Some((update, fields)) = route.and_then(|route| route.known(fields)) else {
            return;
        };
        let row = as_row(&update);
        let event = ShardEvent::Known {
            item: *item,
            update,
            fields,
        };
        self.events[worker].push_back((number(name), event, row));
    }

    /// What it answers to a wish for rows and last updates, also where it knows none.
    pub(super) fn tell_past(&mut self, worker: usize, wish: &Interest) {
        for event in self.tables[worker].answers(wish) {
            let item = number(wish.name());
            if let ShardEvent::History(told) = &event {
                let records = self.records[worker][item].iter();
                assert_eq!(told.updates.len(), records.len());
                for (update, record) in told.updates.iter().zip(records) {
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

    /// What ingest does with a record. All records of a row come to one worker.
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
        if self.has_other_shard {
            route.cache_row(&update, &fields);
            route.keep_update(&update, &fields, self.wire.now_ms() as i64);
        }
        for target in route.targets().iter().filter(|target| target.shard == 0) {
            let event = ShardEvent::Update {
                item: target.item,
                update: Arc::clone(&update),
                fields: Arc::clone(&fields),
                record_ms: -1,
            };
            self.events[worker].push_back((item, event, row.clone()));
        }
    }
}

/// The number of an item in the model.
fn number(name: &str) -> usize {
    let number = (0..ITEMS).find(|number| *name == *format!("item-[key={number}]"));
    number.expect("an item of the model")
}
