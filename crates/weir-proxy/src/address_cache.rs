//! A per-loop cache of advertised addresses. Responses that name known brokers need no lock.

use std::collections::HashMap;
use std::sync::Arc;

use crate::broker_registry::{AdvertisedAddresses, BrokerRegistry};
use crate::config::HostPort;
use crate::wire::{AddressMapper, BrokerNode};

/// Maximum number of cached brokers. A cluster has fewer.
const ADDRESSES_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct AddressCache {
    broker_registry: Arc<BrokerRegistry>,
    version: u64,
    /// Addresses of the broker and of the proxy.
    cached: HashMap<i32, (HostPort, AdvertisedAddresses)>,
    /// The client selects brokers by server name.
    by_name: bool,
}

impl AddressCache {
    pub(crate) fn new(broker_registry: Arc<BrokerRegistry>) -> Self {
        Self {
            broker_registry,
            version: 0,
            cached: HashMap::new(),
            by_name: false,
        }
    }

    /// Returns the cache for `broker_registry`, and for clients that select brokers by server name
    /// or not. It starts empty if another cluster had its place, whose connections may not have
    /// ended yet.
    pub(crate) fn of(&mut self, broker_registry: &Arc<BrokerRegistry>, by_name: bool) -> &mut Self {
        if !Arc::ptr_eq(&self.broker_registry, broker_registry) {
            *self = Self::new(Arc::clone(broker_registry));
        }
        self.by_name = by_name;
        self
    }
}

impl AddressMapper for AddressCache {
    fn address_of(&mut self, node: BrokerNode<'_>) -> Option<HostPort> {
        let version = self.broker_registry.version();
        if version != self.version || self.cached.len() > ADDRESSES_MAX {
            self.version = version;
            self.cached.clear();
        }
        if let Some((broker, address)) = self.cached.get(&node.id) {
            if broker.is(node.host, node.port) {
                return address.of(self.by_name).cloned();
            }
        }
        let address = self.broker_registry.register_broker(node, false)?;
        let broker = HostPort::new(node.host, node.port);
        let advertised = address.of(self.by_name).cloned();
        self.cached.insert(node.id, (broker, address));
        advertised
    }
}
