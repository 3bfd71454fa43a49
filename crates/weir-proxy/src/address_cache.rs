//! One loop's copy of a cluster's directory: an answer that names brokers as they were needs no lock.

use std::collections::HashMap;
use std::sync::Arc;

use crate::broker_registry::BrokerRegistry;
use crate::wire::{AddressMapper, AdvertisedAddress, BrokerNode};

/// The most brokers a copy holds; a cluster has fewer.
const MOST: usize = 10_000;

/// Places by broker.
#[derive(Debug)]
pub(crate) struct AddressCache {
    directory: Arc<BrokerRegistry>,
    version: u64,
    known: HashMap<i32, CachedAddress>,
}

#[derive(Debug)]
struct CachedAddress {
    host: Box<str>,
    port: u16,
    place: AdvertisedAddress,
}

impl AddressCache {
    pub(crate) fn new(directory: Arc<BrokerRegistry>) -> Self {
        Self {
            directory,
            version: 0,
            known: HashMap::new(),
        }
    }
}

impl AddressMapper for AddressCache {
    fn place(&mut self, node: BrokerNode<'_>) -> Option<AdvertisedAddress> {
        let version = self.directory.version();
        if version != self.version || self.known.len() > MOST {
            self.version = version;
            self.known.clear();
        }
        if let Some(known) = self.known.get(&node.id) {
            if known.port == node.port && &*known.host == node.host {
                return Some(known.place.clone());
            }
        }
        let place = self.directory.learn(node, false)?;
        let known = CachedAddress {
            host: node.host.into(),
            port: node.port,
            place: place.clone(),
        };
        self.known.insert(node.id, known);
        Some(place)
    }
}
