//! Reports the interest of a shard to all ingest workers of a Kafka connection.

use std::sync::Arc;

use super::item::ItemInterest;
use crate::connection::KafkaConnection;
use crate::interest::{Interest, ItemKey};

/// Sends interest changes to the ingest workers. They are sent before `SUBOK`, so every record
/// written after `SUBOK` is covered.
#[derive(Debug)]
pub(super) struct InterestSender {
    shard: u16,
}

impl InterestSender {
    pub(super) fn new(shard: u16) -> Self {
        Self { shard }
    }

    /// Reports interest in an item that is new in the shard.
    pub(super) fn subscribe(
        &self,
        connection: &KafkaConnection,
        name: Arc<str>,
        interest: ItemInterest,
    ) {
        connection.set_interest(self.interest(name, interest), true);
    }

    /// Reports a changed interest in an item.
    pub(super) fn change(
        &self,
        connection: &KafkaConnection,
        name: Arc<str>,
        interest: ItemInterest,
    ) {
        connection.set_interest(self.interest(name, interest), false);
    }

    /// Reports that the shard has no subscriber of the item any more.
    pub(super) fn unsubscribe(&self, connection: &KafkaConnection, name: Arc<str>, item: ItemKey) {
        let shard = self.shard;
        connection.set_interest(Interest::Unsubscribe { name, shard, item }, false);
    }

    fn interest(&self, name: Arc<str>, interest: ItemInterest) -> Interest {
        let ItemInterest {
            item,
            fields,
            rows,
            history,
        } = interest;
        Interest::Subscribe {
            name,
            shard: self.shard,
            item,
            fields,
            rows,
            history,
        }
    }
}
