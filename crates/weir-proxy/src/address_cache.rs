//! A per-loop cache of advertised addresses. Responses that name known brokers need no lock.

use std::collections::HashMap;
use std::sync::Arc;

use crate::broker_registry::BrokerRegistry;
use crate::wire::{AddressMapper, AdvertisedAddress, BrokerNode};

/// Maximum number of cached brokers. A cluster has fewer.
const ADDRESSES_MAX: usize = 10_000;

/// Advertised addresses by node id.
#[derive(Debug)]
pub(crate) struct AddressCache {
    broker_registry: Arc<BrokerRegistry>,
    version: u64,
    cached: HashMap<i32, CachedAddress>,
}

#[derive(Debug)]
struct CachedAddress {
    host: Box<str>,
    port: u16,
    address: AdvertisedAddress,
}

impl AddressCache {
    pub(crate) fn new(broker_registry: Arc<BrokerRegistry>) -> Self {
        Self {
            broker_registry,
            version: 0,
            cached: HashMap::new(),
        }
    }
}

impl AddressMapper for AddressCache {
    fn address_of(&mut self, node: BrokerNode<'_>) -> Option<AdvertisedAddress> {
        let version = self.broker_registry.version();
        if version != self.version || self.cached.len() > ADDRESSES_MAX {
            self.version = version;
            self.cached.clear();
        }
        if let Some(cached) = self.cached.get(&node.id) {
            if cached.port == node.port && &*cached.host == node.host {
                return Some(cached.address.clone());
            }
        }
        let address = self.broker_registry.register_broker(node, false)?;
        let cached = CachedAddress {
            host: node.host.into(),
            port: node.port,
            address: address.clone(),
        };
        self.cached.insert(node.id, cached);
        Some(address)
    }
}
