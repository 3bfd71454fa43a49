//! Values, rows and updates from before a shard's interest in an item. They are not updates: they
//! go only to subscribers that wait for a snapshot or for missing fields.

use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};

use super::Delivery;
use crate::delivery_mode::PayloadSource;
use crate::interest::ItemKey;
use crate::item::Emission;
use crate::item_history::HistoryBackfill;
use crate::item_table::ItemTable;
use crate::notice::ItemNotice;
use crate::output::{Output, SessionTable};
use crate::row_table::{BackfilledRow, RowBackfill, RowTable};

impl Delivery {
    /// Stores current values of an item.
    pub fn backfill<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        key: ItemKey,
        values: Arc<FrozenValues>,
        fields: &Arc<FieldSet>,
    ) {
        let Some(item) = items.get_mut(key).filter(|item| !item.has_all_values()) else {
            return;
        };
        let transition = item.backfill(values, fields);
        for class in &mut item.classes {
            let is_state = class.delivery.payload_source() == PayloadSource::State;
            if is_state && class.schema.field_set().is_subset(&item.known) {
                if let Some(emission) = transition.emission(class.delivery) {
                    self.send_to_class(output, sessions, class, &emission.as_backfill());
                }
            }
        }
        self.arm_timer(output);
    }

    /// Stores the rows of one worker. The end of the snapshot is sent when all workers have
    /// responded.
    pub fn backfill_rows<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        backfill: &RowBackfill,
    ) {
        let Some((item, backfilled, is_complete)) = items.backfill_rows(backfill) else {
            return;
        };
        let is_pending = item.table().is_some_and(RowTable::is_pending);
        for class in &mut item.classes {
            if class.delivery.payload_source() != PayloadSource::Row {
                continue;
            }
            for BackfilledRow { change, previous } in &backfilled {
                let emission = Emission::of_row(change);
                let previous = previous.as_ref();
                if previous.is_some_and(|previous| class.schema.differs(previous, &change.values)) {
                    // Send it also to members that have received the previous row.
                    self.send_to_class(output, sessions, class, &emission);
                } else {
                    self.send_to_class(output, sessions, class, &emission.as_backfill());
                }
            }
            if is_complete {
                self.send_class_notice(output, sessions, class, ItemNotice::EndOfSnapshot);
            }
            if !is_pending {
                let members = class.members.iter_mut();
                members.for_each(|member| member.awaits_rows = false);
            }
        }
        self.arm_timer(output);
    }

    /// Stores the last updates of one worker. When all workers have responded, they are sent,
    /// followed by the updates queued since.
    pub fn backfill_history<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        backfill: HistoryBackfill,
    ) {
        let item = items.get_mut(backfill.item);
        let awaiting = item.filter(|item| item.awaits_history(backfill.generation));
        let Some((item, past)) = awaiting.and_then(|item| {
            let history = &mut item.retained.as_mut()?.history;
            let past = history.note_backfill(backfill.updates)?;
            Some((item, past))
        }) else {
            return;
        };
        let mut ready = Vec::new();
        for class in &mut item.classes {
            if class.delivery.payload_source() != PayloadSource::Event {
                continue;
            }
            let (wanted, at) = (class.schema.field_set(), class.at());
            let read = past.iter().filter(|one| wanted.is_subset(&one.fields));
            let read: Vec<_> = read.map(|one| &one.values).collect();
            for member in &mut class.members {
                if std::mem::take(&mut member.awaits_snapshot) {
                    self.backlog.release(member.session, at, |queue| {
                        let newest_first = read.iter().rev();
                        newest_first.for_each(|values| queue.push_backfill(values));
                    });
                    ready.push(member.session);
                }
            }
        }
        for session in ready {
            self.catch_up(output, sessions, items, session);
        }
    }
}
