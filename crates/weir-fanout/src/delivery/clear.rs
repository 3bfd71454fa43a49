//! The end of an item's snapshot, because the item was idle.

use std::sync::Arc;

use super::Delivery;
use crate::delivery_mode::PayloadSource;
use crate::interest::ItemKey;
use crate::item_table::ItemTable;
use crate::notice::ItemNotice;
use crate::output::{Output, SessionTable};

impl Delivery {
    /// Clears an item and notifies its subscribers: in mode MERGE all values become null, in modes
    /// DISTINCT and COMMAND the snapshot is cleared.
    ///
    /// Connections with snapshots allow one mode only, so all classes of the item are of it.
    pub fn clear<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        key: ItemKey,
    ) {
        let Some(item) = items.get_mut(key) else {
            return;
        };
        if item.classes.has(PayloadSource::State) {
            let known = Arc::clone(&item.known);
            if let Some(nulls) = item.null_update() {
                self.fan_out(output, sessions, items, key, nulls, &known);
            }
            return;
        }
        let removed = item.clear_retained() as u64;
        for class in &mut item.classes {
            if class.delivery.payload_source() == PayloadSource::Event {
                // No delta may refer to an update before the end.
                class.require_full();
            }
            self.send_class_notice(output, sessions, class, ItemNotice::Clear);
        }
        items.rows.stored = items.rows.stored.wrapping_sub(removed);
        self.arm_timer(output);
    }
}
