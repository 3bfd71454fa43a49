//! What a shard wants from ingest: told to every worker of the connection.

use std::sync::Arc;

use super::item::ItemInterest;
use crate::connection::KafkaConnection;
use crate::interest::{Interest, ItemKey};

/// A shard's voice. Told before the client gets its `SUBOK`, a wish covers every record that is
/// written afterwards.
#[derive(Debug)]
pub(super) struct InterestSender {
    shard: u16,
}

impl InterestSender {
    pub(super) fn new(shard: u16) -> Self {
        Self { shard }
    }

    /// The shard wants an item it did not want before.
    pub(super) fn subscribe(
        &self,
        connection: &KafkaConnection,
        name: Arc<str>,
        interest: ItemInterest,
    ) {
        connection.set_interest(self.interest(name, interest), true);
    }

    /// The shard wants something else of an item than before.
    pub(super) fn change(
        &self,
        connection: &KafkaConnection,
        name: Arc<str>,
        interest: ItemInterest,
    ) {
        connection.set_interest(self.interest(name, interest), false);
    }

    /// Nobody in the shard wants the item any more.
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
