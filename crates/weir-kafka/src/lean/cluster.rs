//! Cached metadata: brokers and partition leaders. It is requested at the start and again when a
//! consumer meets a wrong leader. Concurrent refreshes share one request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::config::LeanConfig;
use super::error::LeanError;
use super::link::{BrokerAddress, BrokerLink, LinkContext};
use weir_wire::header::write_request;
use weir_wire::metadata::{self, Metadata};

pub(super) struct ClusterCache {
    links: Rc<LinkContext>,
    bootstrap_servers: String,
    client_id: String,
    topic: String,
    view: RefCell<View>,
    /// Incremented with each attempt, so that a waiting task sees that another one refreshed
    /// the metadata.
    attempts: Cell<u64>,
    refreshing: Mutex<()>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct View {
    /// Node id and resolved address.
    brokers: Vec<(i32, BrokerAddress)>,
    /// Partition and its leader, -1 for none; ascending.
    leaders: Vec<(i32, i32)>,
}

/// Reason why a broker did not return the metadata of the topic.
#[derive(Debug, Error)]
enum MetadataError {
    #[error("no bootstrap server configured")]
    NoServer,
    #[error("{server}: is not HOST:PORT")]
    Server { server: String },
    #[error("{host}: {reason}")]
    Unresolved { host: String, reason: String },
    #[error("{server}: no response within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout { server: String },
    #[error("{server}: {error}")]
    Failed { server: String, error: LeanError },
    #[error("{server}: topic \"{topic}\" does not exist")]
    TopicMissing { server: String, topic: String },
    #[error(
        "{server}: the user may not read topic \"{topic}\": grant the operations Describe and Read"
    )]
    NotAuthorized { server: String, topic: String },
    #[error("not all partitions have a leader")]
    NoLeader,
}

impl MetadataError {
    /// Returns the rejection by a broker, if that is the reason.
    fn rejection(&self) -> Option<&LeanError> {
        match self {
            Self::Failed { error, .. } if error.is_rejection() => Some(error),
            _ => None,
        }
    }
}

impl ClusterCache {
    pub(super) fn new(config: &LeanConfig, links: &Rc<LinkContext>) -> Self {
        Self {
            links: Rc::clone(links),
            bootstrap_servers: config.kafka.bootstrap_servers.clone(),
            client_id: config.client_id.clone(),
            topic: config.topic.clone(),
            view: RefCell::default(),
            attempts: Cell::new(0),
            refreshing: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }

    /// Requests metadata until every partition has a leader, for at most `START_TIMEOUT`. A
    /// rejected login or certificate is final.
    pub(super) async fn start(&self) -> Result<(), LeanError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let error = match self.request_view().await {
                Ok(view) if view.is_led() => {
                    self.view.replace(view);
                    return Ok(());
                }
                Ok(_) => MetadataError::NoLeader,
                Err(error) => error,
            };
            if let Some(rejection) = error.rejection() {
                return Err(rejection.clone());
            }
            if Instant::now() >= deadline {
                return Err(LeanError::Unreachable {
                    bootstrap_servers: self.bootstrap_servers.clone(),
                    reason: error.to_string(),
                });
            }
            tokio::time::sleep(START_PAUSE).await;
        }
    }

    /// Returns the number of attempts, to be passed to [`refresh`](Self::refresh) later.
    pub(super) fn attempts(&self) -> u64 {
        self.attempts.get()
    }

    /// Requests metadata again, unless another task did so since `seen` was read.
    pub(super) async fn refresh(&self, seen: u64) {
        let _guard = self.refreshing.lock().await;
        if self.attempts.get() > seen {
            return;
        }
        let outcome = self.request_view().await;
        self.attempts.set(self.attempts.get() + 1);
        match outcome {
            Ok(view) => {
                let changed = *self.view.borrow() != view;
                self.view.replace(view);
                if changed {
                    self.changes.send_modify(|version| *version += 1);
                }
            }
            Err(error) => tracing::debug!(%error, "metadata refresh failed"),
        }
    }

    /// Returns a receiver that is notified when leaders or addresses change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(super) fn leaders(&self) -> BTreeSet<i32> {
        let view = self.view.borrow();
        let leaders = view.leaders.iter().map(|(_, leader)| *leader);
        leaders.filter(|leader| *leader >= 0).collect()
    }

    /// Returns the partitions below `limit` that `broker` leads.
    pub(super) fn led_by(&self, broker: i32, limit: usize) -> Vec<i32> {
        let view = self.view.borrow();
        let led = view.leaders.iter().take(limit);
        let led = led.filter(|(_, leader)| *leader == broker);
        led.map(|(partition, _)| *partition).collect()
    }

    pub(super) fn partition_count(&self) -> usize {
        self.view.borrow().leaders.len()
    }

    pub(super) fn address(&self, broker: i32) -> Option<BrokerAddress> {
        let view = self.view.borrow();
        let found = view.brokers.iter().find(|(id, _)| *id == broker);
        found.map(|(_, address)| address.clone())
    }

    /// Returns the address of one of the brokers; `consumer` selects which one.
    pub(super) fn some_address(&self, consumer: usize) -> Option<BrokerAddress> {
        let view = self.view.borrow();
        let index = consumer.checked_rem(view.brokers.len())?;
        let broker = view.brokers.get(index);
        broker.map(|(_, address)| address.clone())
    }

    /// Asks the bootstrap servers and the known brokers in turn. If none responds, the error is a
    /// rejection if there was one.
    async fn request_view(&self) -> Result<View, MetadataError> {
        let mut last = MetadataError::NoServer;
        let configured = self.bootstrap_servers.split(',').map(str::trim);
        for server in configured.filter(|server| !server.is_empty()) {
            match self.view_from(server).await {
                Ok(view) => return Ok(view),
                Err(error) if last.rejection().is_some() => {
                    tracing::debug!(%error, "metadata request failed");
                }
                Err(error) => last = error,
            }
        }
        let known = self.view.borrow().brokers.clone();
        for (_, address) in known {
            match self.view_at(&address).await {
                Ok(view) => return Ok(view),
                Err(error) => tracing::debug!(%error, "metadata request failed"),
            }
        }
        Err(last)
    }

    /// Asks the addresses of a bootstrap server in turn.
    async fn view_from(&self, server: &str) -> Result<View, MetadataError> {
        let invalid = || MetadataError::Server {
            server: server.to_owned(),
        };
        let (host, port) = server.rsplit_once(':').ok_or_else(invalid)?;
        let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let host = inner.unwrap_or(host);
        let port: u16 = port.parse().map_err(|_| invalid())?;
        let mut last = unresolved(host, &"host name has no address");
        for address in resolve(host, port).await? {
            match self.view_at(&address).await {
                Ok(view) => return Ok(view),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn view_at(&self, address: &BrokerAddress) -> Result<View, MetadataError> {
        let server = format!("{}:{}", address.host, address.socket.port());
        let metadata = self.request_metadata(address).await;
        let metadata = metadata.map_err(|error| match error {
            Some(error) => MetadataError::Failed {
                server: server.clone(),
                error,
            },
            None => MetadataError::Timeout {
                server: server.clone(),
            },
        })?;
        self.view_of(metadata, &server).await
    }

    /// Returns `None` as an error if there is no response before a timeout.
    async fn request_metadata(
        &self,
        address: &BrokerAddress,
    ) -> Result<Metadata, Option<LeanError>> {
        let opening = BrokerLink::open(
            &self.links,
            address,
            None,
            RESPONSE_BYTES_MAX,
            REQUEST_TIMEOUT,
        );
        let mut link = opening.await?;
        let body = metadata::request([self.topic.as_str()]);
        let write = |out: &mut BytesMut, id| {
            write_request(out, metadata::VERSION, id, &self.client_id, &body)
        };
        let mut response = Metadata::default();
        let read = |body: &[u8]| {
            response = metadata::read(body, &self.topic)?;
            Ok(())
        };
        let exchange = link.exchange(&self.links, Duration::ZERO, write, read, |_| ());
        match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(outcome) => outcome.map(|()| response).map_err(Some),
            Err(_) => Err(None),
        }
    }

    async fn view_of(&self, metadata: Metadata, server: &str) -> Result<View, MetadataError> {
        let (server, topic) = (server.to_owned(), self.topic.clone());
        let topic = match metadata.topic {
            Some(found) if found.error == 0 => found,
            Some(found) if found.error == TOPIC_AUTHORIZATION_FAILED => {
                return Err(MetadataError::NotAuthorized { server, topic });
            }
            _ => return Err(MetadataError::TopicMissing { server, topic }),
        };
        let mut view = View::default();
        for broker in metadata.brokers {
            let addresses = resolve(&broker.host, broker.port).await?;
            let address = addresses.into_iter().next();
            let address = address.ok_or_else(|| unresolved(&broker.host, &"no address"))?;
            view.brokers.push((broker.id, address));
        }
        let leaders = topic.partitions.iter().map(|it| (it.partition, it.leader));
        view.leaders = leaders.collect();
        view.leaders.sort_unstable();
        view.brokers.sort_unstable();
        Ok(view)
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<BrokerAddress>, MetadataError> {
    let addresses = tokio::net::lookup_host((host, port)).await;
    let addresses = addresses.map_err(|error| unresolved(host, &error))?;
    let host: Rc<str> = host.into();
    let address = |socket| BrokerAddress {
        host: Rc::clone(&host),
        socket,
    };
    Ok(addresses.map(address).collect())
}

fn unresolved(host: &str, reason: &dyn ToString) -> MetadataError {
    MetadataError::Unresolved {
        host: host.to_owned(),
        reason: reason.to_string(),
    }
}

impl View {
    fn is_led(&self) -> bool {
        !self.leaders.is_empty() && self.leaders.iter().all(|(_, leader)| *leader >= 0)
    }
}

/// A new topic needs some time to get leaders; a wrong address should be reported soon.
const START_TIMEOUT: Duration = Duration::from_secs(5);
const START_PAUSE: Duration = Duration::from_millis(100);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const RESPONSE_BYTES_MAX: usize = 16 << 20;
