//! What a shard wants from the ingest threads but could not post yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::TrySendError;
use weir_net::server::Io;

use crate::connection::Connection;
use crate::routing::{ItemKey, Wish};

/// Posts wishes in order; those that find an ingest thread's queue full wait here, one per item at
/// most, so that the list is bounded by the items themselves and a shard never blocks.
#[derive(Debug)]
pub(super) struct WishList {
    shard: u16,
    waiting: Vec<BTreeMap<Arc<str>, Wish>>,
}

impl WishList {
    pub(super) fn new(shard: u16, connections: usize) -> Self {
        Self {
            shard,
            waiting: vec![BTreeMap::new(); connections],
        }
    }

    pub(super) fn subscribe(
        &mut self,
        connections: &[Arc<Connection>],
        connection: u16,
        name: Arc<str>,
        item: ItemKey,
    ) {
        self.post(
            connections,
            connection,
            Wish::Subscribe {
                name,
                shard: self.shard,
                item,
            },
        );
    }

    pub(super) fn unsubscribe(
        &mut self,
        connections: &[Arc<Connection>],
        connection: u16,
        name: Arc<str>,
    ) {
        self.post(
            connections,
            connection,
            Wish::Unsubscribe {
                name,
                shard: self.shard,
            },
        );
    }

    fn post(&mut self, connections: &[Arc<Connection>], connection: u16, wish: Wish) {
        let number = usize::from(connection);
        let (Some(target), Some(waiting)) = (connections.get(number), self.waiting.get_mut(number))
        else {
            return;
        };
        if waiting.is_empty() {
            match target.wishes.try_send(wish) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(wish)) => {
                    waiting.insert(Arc::clone(wish.name()), wish);
                }
            }
        } else {
            // The newest wish about an item replaces the older one: only the last one counts.
            waiting.insert(Arc::clone(wish.name()), wish);
        }
    }

    /// Posts what waits, as far as there is room.
    pub(super) fn retry(&mut self, connections: &[Arc<Connection>], io: &mut Io) {
        for (connection, waiting) in connections.iter().zip(&mut self.waiting) {
            while let Some((name, wish)) = waiting.pop_first() {
                if let Err(TrySendError::Full(wish)) = connection.wishes.try_send(wish) {
                    waiting.insert(name, wish);
                    io.wake_soon();
                    break;
                }
            }
        }
    }
}
