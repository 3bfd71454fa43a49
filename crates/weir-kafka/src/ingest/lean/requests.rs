//! Requests that are not fetches: metadata, offsets of partitions, offsets of a group. Each kind of
//! caller has its own connections, so a slow one does not delay another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Request;

use super::super::partition_client::RequestError;
use super::connection::{Address, BrokerConnection};
use crate::connect_error::ConnectError;
use crate::exchange::servers;
use crate::secure::BrokerSecurity;
use weir_wire::WireError;
use weir_wire::cluster::{self, ClusterMetadata};
use weir_wire::group::{self, GroupCoordinator};

/// Connections to several brokers, for one caller at a time.
pub(super) struct Requester {
    security: Arc<BrokerSecurity>,
    bootstrap_servers: String,
    client_id: String,
    timeout: Duration,
    connections: BTreeMap<Address, BrokerConnection>,
    /// Broker that responded last.
    preferred: Option<Address>,
    coordinator: Option<Address>,
}

impl Requester {
    pub(super) fn new(
        security: &Arc<BrokerSecurity>,
        bootstrap_servers: &str,
        client_id: &str,
        timeout: Duration,
    ) -> Self {
        Self {
            security: Arc::clone(security),
            bootstrap_servers: bootstrap_servers.to_owned(),
            client_id: client_id.to_owned(),
            timeout,
            connections: BTreeMap::new(),
            preferred: None,
            coordinator: None,
        }
    }

    /// Sends a request to a broker and reads its response. A failed connection is closed; one that
    /// the broker may have closed while it was idle is opened again once.
    pub(super) fn call<T>(
        &mut self,
        address: &Address,
        call: impl Fn(&mut BrokerConnection, &str) -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        if let Some(mut connection) = self.connections.remove(address) {
            if let Ok(result) = call(&mut connection, &self.client_id) {
                self.connections.insert(address.clone(), connection);
                return Ok(result);
            }
        }
        let timeouts = (self.timeout, self.timeout);
        let opened = BrokerConnection::open(&self.security, address, &self.client_id, timeouts);
        let mut connection = opened?;
        let result = call(&mut connection, &self.client_id)?;
        if self.connections.len() >= CONNECTIONS_MAX {
            self.connections.clear();
        }
        self.connections.insert(address.clone(), connection);
        Ok(result)
    }

    /// Calls the broker that responded last, then `known` ones and the bootstrap servers, until one
    /// responds. If none does, returns a login or other permanent error if there was one.
    fn call_any<T>(
        &mut self,
        known: &[Address],
        call: impl Fn(&mut BrokerConnection, &str) -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        let mut last = ConnectError::Io {
            broker: self.bootstrap_servers.clone(),
            reason: "no broker is known: check bootstrap.servers".to_owned(),
        };
        let list = self.bootstrap_servers.clone();
        let preferred = self.preferred.take().into_iter();
        let mut addresses: Vec<Address> = preferred.chain(known.iter().cloned()).collect();
        for server in servers(&list) {
            match server {
                Ok((host, port)) => addresses.push((host.to_owned(), port)),
                Err(error) => last = error,
            }
        }
        for (index, address) in addresses.iter().enumerate() {
            if addresses[..index].contains(address) {
                continue;
            }
            match self.call(address, &call) {
                Ok(result) => {
                    self.preferred = Some(address.clone());
                    return Ok(result);
                }
                Err(_) if last.is_permanent() || last.is_login_failure() => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Requests brokers and some topics, or all of them.
    pub(super) fn metadata(
        &mut self,
        known: &[Address],
        topics: Option<&[&str]>,
    ) -> Result<ClusterMetadata, ConnectError> {
        self.call_any(known, |connection, client_id| {
            let has_new = connection.supports(ApiKey::Metadata, cluster::VERSION);
            let version = match has_new {
                true => cluster::VERSION,
                false => cluster::OLD_VERSION,
            };
            let request = cluster::request(topics);
            let body = connection.exchange(client_id, version, &request)?;
            cluster::read(version, &body).map_err(|error| connection.invalid(error))
        })
    }

    /// Sends a request to a broker, and reads the body of its response with `read`.
    pub(super) fn exchange<R: Request, T>(
        &mut self,
        address: &Address,
        (version, request): &(i16, R),
        read: impl Fn(Bytes) -> Result<T, WireError>,
    ) -> Result<T, ConnectError> {
        self.call(address, |connection, client_id| {
            let body = connection.exchange(client_id, *version, request)?;
            read(body).map_err(|error| connection.invalid(error))
        })
    }

    /// Sends a request to the coordinator of a group. After an error, the coordinator is looked up
    /// again with the next request.
    pub(super) fn group<R: Request, T>(
        &mut self,
        (known, group): (&[Address], &str),
        request: &(i16, R),
        read: impl Fn(Bytes) -> Result<T, WireError>,
    ) -> Result<T, GroupError> {
        let address = match self.coordinator.take() {
            Some(address) => address,
            None => self.find_coordinator(known, group)?,
        };
        let result = self.exchange(&address, request, read)?;
        self.coordinator = Some(address);
        Ok(result)
    }

    /// Forgets the coordinator, so that the next request looks it up again.
    pub(super) fn forget_coordinator(&mut self) {
        self.coordinator = None;
    }

    fn find_coordinator(&mut self, known: &[Address], name: &str) -> Result<Address, GroupError> {
        let (version, request) = group::find_coordinator(name);
        let found = self.call_any(known, |connection, client_id| {
            let body = connection.exchange(client_id, version, &request)?;
            let found = group::read_find_coordinator(&body);
            found.map_err(|error| connection.invalid(error))
        })?;
        let GroupCoordinator { error, host, port } = found;
        match error {
            0 => Ok((host, port)),
            code => Err(GroupError::Kafka(code)),
        }
    }
}

impl From<GroupError> for RequestError {
    fn from(error: GroupError) -> Self {
        Self::of(error)
    }
}

/// Reason why a request to a group's coordinator failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupError {
    #[error(transparent)]
    Connection(#[from] ConnectError),
    #[error("{}", code_text(*.0))]
    Kafka(i16),
}

fn code_text(code: i16) -> String {
    match code {
        15 => "the group has no coordinator yet".to_owned(),
        16 => "the broker does not coordinate the group any more".to_owned(),
        30 => "the user may not use the group: grant the operation Read".to_owned(),
        code => format!("Kafka error {code}"),
    }
}

/// Maximum number of open connections; more than the brokers of a cluster.
const CONNECTIONS_MAX: usize = 1000;
