//! Who leads which partition. Asked once and again when a consumer meets a wrong leader; however
//! many consumers notice at the same time, one request is sent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::{LeanConfig, LeanError};
use crate::wire::WireError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::read_response_v0;
use crate::wire::metadata::{self, Metadata};

pub(super) struct ClusterCache {
    bootstrap_servers: String,
    client_id: String,
    topic: String,
    view: RefCell<View>,
    /// Raised by every attempt, so that waiting tasks know theirs was made for them.
    attempts: Cell<u64>,
    asking: Mutex<()>,
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
            asking: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }

    /// Asks until every partition has a leader; gives up after a while.
    pub(super) async fn start(&self) -> Result<(), LeanError> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let outcome = self.ask_any().await;
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

    /// Stamp to hand to [`refresh`](Self::refresh) later.
    pub(super) fn attempts(&self) -> u64 {
        self.attempts.get()
    }

    /// Asks again, unless someone did so since `seen` was taken.
    pub(super) async fn refresh(&self, seen: u64) {
        let _turn = self.asking.lock().await;
        if self.attempts.get() > seen {
            return;
        }
        let outcome = self.ask_any().await;
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

    /// Turns when leaders or addresses change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Number of the present view.
    pub(super) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(super) fn leaders(&self) -> BTreeSet<i32> {
        let view = self.view.borrow();
        let leaders = view.leaders.iter().map(|(_, leader)| *leader);
        leaders.filter(|leader| *leader >= 0).collect()
    }

    /// Partitions below `limit` that `broker` leads.
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

    /// The address of one of the brokers, spread by `consumer`.
    pub(super) fn some_address(&self, consumer: usize) -> Option<SocketAddr> {
        let view = self.view.borrow();
        let index = consumer.checked_rem(view.brokers.len())?;
        view.brokers.get(index).map(|(_, address)| *address)
    }

    async fn ask_any(&self) -> Result<View, String> {
        let mut servers: Vec<String> = self
            .bootstrap_servers
            .split(',')
            .map(str::to_owned)
            .collect();
        let known = self.view.borrow().brokers.clone();
        servers.extend(known.iter().map(|(_, address)| address.to_string()));
        let mut last = "no server named".to_owned();
        for server in servers {
            let asked = tokio::time::timeout(ASK_TIMEOUT, self.ask(server.trim())).await;
            match asked {
                Ok(Ok(metadata)) => match self.view_of(metadata).await {
                    Ok(view) => return Ok(view),
                    Err(reason) => last = format!("{server}: {reason}"),
                },
                Ok(Err(error)) => last = format!("{server}: {error}"),
                Err(_) => last = format!("{server}: no answer in {} s", ASK_TIMEOUT.as_secs()),
            }
        }
        Err(last)
    }

    async fn ask(&self, server: &str) -> std::io::Result<Metadata> {
        let mut stream = TcpStream::connect(server).await?;
        let mut request = BytesMut::new();
        metadata::write(&mut request, 1, &self.client_id, &self.topic)
            .map_err(std::io::Error::other)?;
        stream.write_all(&request).await?;
        let mut frames = KafkaFrameReader::new(ANSWER_BYTES_MAX);
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let mut answer = None;
            frames
                .feed::<WireError>(&buffer[..count], |frame| {
                    let (_, body) = read_response_v0(frame)?;
                    answer = Some(metadata::read(body, &self.topic)?);
                    Ok(())
                })
                .map_err(std::io::Error::other)?;
            if let Some(metadata) = answer {
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

/// A topic just created needs a moment; a wrong address should be told soon.
const START_TIMEOUT: Duration = Duration::from_secs(5);
const START_PAUSE: Duration = Duration::from_millis(100);
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_BYTES_MAX: usize = 16 << 20;
