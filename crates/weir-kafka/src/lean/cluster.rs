//! Cached metadata: brokers and partition leaders. It is requested at the start and again when a
//! consumer meets a wrong leader. Concurrent refreshes share one request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::config::LeanConfig;
use super::error::LeanError;
use crate::wire::WireError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::{read_response_v0, write_request};
use crate::wire::metadata::{self, Metadata};

pub(super) struct ClusterCache {
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
    brokers: Vec<(i32, SocketAddr)>,
    /// Partition and its leader, -1 for none; ascending.
    leaders: Vec<(i32, i32)>,
}

impl ClusterCache {
    pub(super) fn new(config: &LeanConfig) -> Self {
        Self {
            bootstrap_servers: config.bootstrap_servers.clone(),
            client_id: config.client_id.clone(),
            topic: config.topic.clone(),
            view: RefCell::default(),
            attempts: Cell::new(0),
            refreshing: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }

    /// Requests metadata until every partition has a leader, for at most `START_TIMEOUT`.
    pub(super) async fn start(&self) -> Result<(), LeanError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let outcome = self.request_view().await;
            let reason = match outcome {
                Ok(view) if view.is_led() => {
                    self.view.replace(view);
                    return Ok(());
                }
                Ok(_) => "not all partitions have a leader".to_owned(),
                Err(reason) => reason,
            };
            if Instant::now() >= deadline {
                return Err(LeanError::Unreachable {
                    bootstrap_servers: self.bootstrap_servers.clone(),
                    reason,
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
            Err(reason) => tracing::debug!(reason, "metadata refresh failed"),
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

    pub(super) fn address(&self, broker: i32) -> Option<SocketAddr> {
        let view = self.view.borrow();
        let found = view.brokers.iter().find(|(id, _)| *id == broker);
        found.map(|(_, address)| *address)
    }

    /// Returns the address of one of the brokers; `consumer` selects which one.
    pub(super) fn some_address(&self, consumer: usize) -> Option<SocketAddr> {
        let view = self.view.borrow();
        let index = consumer.checked_rem(view.brokers.len())?;
        view.brokers.get(index).map(|(_, address)| *address)
    }

    async fn request_view(&self) -> Result<View, String> {
        let configured = self
            .bootstrap_servers
            .split(',')
            .map(str::trim)
            .map(str::to_owned);
        let mut servers: Vec<String> = configured.collect();
        let known = self.view.borrow().brokers.clone();
        servers.extend(known.iter().map(|(_, address)| address.to_string()));
        let mut last_error = "no bootstrap server configured".to_owned();
        for server in servers {
            let request = self.request_metadata(&server);
            let view = match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
                Ok(Ok(metadata)) => self.view_of(metadata).await,
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!(
                    "no response within {} s",
                    REQUEST_TIMEOUT.as_secs()
                )),
            };
            match view {
                Ok(view) => return Ok(view),
                Err(reason) => last_error = format!("{server}: {reason}"),
            }
        }
        Err(last_error)
    }

    async fn request_metadata(&self, server: &str) -> std::io::Result<Metadata> {
        let mut stream = TcpStream::connect(server).await?;
        let mut request = BytesMut::new();
        let body = metadata::request([self.topic.as_str()]);
        write_request(&mut request, metadata::VERSION, 1, &self.client_id, &body)
            .map_err(std::io::Error::other)?;
        stream.write_all(&request).await?;
        let mut frames = KafkaFrameReader::new(RESPONSE_BYTES_MAX);
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let mut response = None;
            frames
                .feed::<WireError>(&buffer[..count], |frame| {
                    let (_, body) = read_response_v0(frame)?;
                    response = Some(metadata::read(body, &self.topic)?);
                    Ok(())
                })
                .map_err(std::io::Error::other)?;
            if let Some(metadata) = response {
                return Ok(metadata);
            }
        }
    }

    async fn view_of(&self, metadata: Metadata) -> Result<View, String> {
        let topic = metadata.topic.filter(|topic| topic.error == 0);
        let Some(topic) = topic else {
            return Err(format!("topic \"{}\" does not exist", self.topic));
        };
        let mut view = View::default();
        for broker in metadata.brokers {
            let host = (broker.host.as_str(), broker.port);
            let addresses = tokio::net::lookup_host(host).await;
            let mut addresses = addresses.map_err(|error| format!("{}: {error}", broker.host))?;
            let address = addresses.next();
            let address = address.ok_or_else(|| format!("{} has no address", broker.host))?;
            view.brokers.push((broker.id, address));
        }
        let leaders = topic.partitions.iter().map(|it| (it.partition, it.leader));
        view.leaders = leaders.collect();
        view.leaders.sort_unstable();
        view.brokers.sort_unstable();
        Ok(view)
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
const RESPONSE_BYTES_MAX: usize = 16 << 20;
