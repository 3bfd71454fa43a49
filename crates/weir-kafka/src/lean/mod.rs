//! Thousands of consumers in one thread: a socket, a task and a few numbers each.
//!
//! Each consumer reads all partitions of one topic from their end on, over one connection per
//! partition leader; as a member of a group (`group`), its share of them from what was committed.
//! Partitions added later are not read.

mod cluster;
mod connect_pacer;
mod connection;
mod fetcher;
mod group;
mod state;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::records::{Headers, RecordSlice, RecordsError};
use crate::wire::{EncodeError, WireError};
use state::LeanState;

/// Settings of [`run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeanConfig {
    /// Comma-separated `host:port` list; plain TCP only.
    pub bootstrap_servers: String,
    /// The topic that every consumer reads. It must exist.
    pub topic: String,
    /// Number of consumers.
    pub consumers: usize,
    /// How long a broker may hold a fetch, in milliseconds. Default 500.
    pub max_wait_ms: i32,
    /// Bytes that make it answer sooner. Default 1.
    pub min_bytes: i32,
    /// Begin at the oldest records kept where nothing is committed. Default: at the end.
    pub from_oldest: bool,
    /// Bound of one fetch answer in bytes. Default 1 MiB.
    pub fetch_max_bytes: i32,
    /// Local addresses to connect from, taken in turn: one address has some 28,000 ports. Empty:
    /// the system chooses.
    pub source_addresses: Vec<IpAddr>,
    /// New connections per second, first ones and reconnects together. Default 1000.
    pub connect_rate_per_s: usize,
    /// Name shown in broker logs and quotas.
    pub client_id: String,
    /// Makes each consumer a member of a group; `None`: they stand alone and commit nothing.
    pub groups: Option<LeanGroups>,
}

/// How consumers form groups: the first `members` of them the first group, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeanGroups {
    /// Group ids are this and a number counted from 0.
    pub prefix: String,
    /// Consumers per group. Default 1, so that every consumer gets every record.
    pub members: usize,
    /// Time between two commits. Default 1 s.
    pub commit_every: Duration,
    /// Time between two signs of life. Default 3 s.
    pub heartbeat_every: Duration,
    /// Silence after which the coordinator removes a member. Default 45 s, as in the Java client.
    pub session_timeout: Duration,
}

impl LeanGroups {
    /// One group per consumer, with the Java client's heartbeat and session timeout.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            members: 1,
            commit_every: Duration::from_secs(1),
            heartbeat_every: Duration::from_secs(3),
            session_timeout: Duration::from_secs(45),
        }
    }

    fn group_of(&self, consumer: usize) -> String {
        format!("{}{}", self.prefix, consumer / self.members.max(1))
    }
}

impl Default for LeanConfig {
    fn default() -> Self {
        Self {
            bootstrap_servers: "localhost:9092".to_owned(),
            topic: String::new(),
            consumers: 1,
            max_wait_ms: 500,
            min_bytes: 1,
            from_oldest: false,
            fetch_max_bytes: 1 << 20,
            source_addresses: Vec::new(),
            connect_rate_per_s: 1000,
            client_id: "weir-lean".to_owned(),
            groups: None,
        }
    }
}

/// A record as a lean consumer got it; borrowed from the thread's read buffer.
#[derive(Debug, Clone, Copy)]
pub struct LeanRecord<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, -1 for none.
    pub timestamp_ms: i64,
    /// The broker set it (`LogAppendTime`), not the producer.
    pub log_append_time: bool,
    /// Key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    slice: RecordSlice<'a>,
}

impl<'a> LeanRecord<'a> {
    fn new(topic: &'a str, partition: i32, slice: RecordSlice<'a>) -> Self {
        Self {
            topic,
            partition,
            offset: slice.offset,
            timestamp_ms: slice.timestamp_ms,
            log_append_time: slice.log_append_time,
            key: slice.key,
            value: slice.value,
            slice,
        }
    }

    /// The headers in order, read only now.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        self.slice.headers()
    }

    /// The last header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.slice.header(name)
    }
}

/// What the consumers tell. Calls come one at a time from the thread of [`run`]; a slow one delays
/// all consumers.
pub trait LeanSink {
    /// The consumer knows its position everywhere: whatever is produced from now on will come.
    /// Called once per consumer.
    fn on_ready(&mut self, consumer: usize);
    /// One record, in offset order within its partition, each once.
    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>);
    /// Something went wrong; the consumer goes on trying.
    fn on_error(&mut self, consumer: usize, error: &LeanError);
    /// Bytes read from a consumer's socket.
    fn on_bytes(&mut self, consumer: usize, n: usize);
}

/// Lets the caller keep what the sink gathered.
impl<T: LeanSink> LeanSink for Rc<RefCell<T>> {
    fn on_ready(&mut self, consumer: usize) {
        self.borrow_mut().on_ready(consumer);
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        self.borrow_mut().on_record(consumer, record);
    }

    fn on_error(&mut self, consumer: usize, error: &LeanError) {
        self.borrow_mut().on_error(consumer, error);
    }

    fn on_bytes(&mut self, consumer: usize, n: usize) {
        self.borrow_mut().on_bytes(consumer, n);
    }
}

/// Why a consumer lost its connection, or why [`run`] could not start.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LeanError {
    /// A setting that cannot work.
    #[error("{key} = \"{value}\": {remedy}")]
    Config {
        /// Field of [`LeanConfig`].
        key: &'static str,
        /// Its value.
        value: String,
        /// What to do.
        remedy: &'static str,
    },
    /// No bootstrap server gave a usable answer.
    #[error("no Kafka broker usable at \"{bootstrap_servers}\": {reason}")]
    Unreachable {
        /// Servers asked.
        bootstrap_servers: String,
        /// What happened with the last one.
        reason: String,
    },
    /// The connection to a broker failed or ended.
    #[error("connection to {address}: {reason}")]
    Connection {
        /// Address of the broker.
        address: String,
        /// What happened.
        reason: String,
    },
    /// A broker answered with an error code.
    #[error("{what}: kafka error code {code}")]
    Kafka {
        /// What was asked, and about what.
        what: String,
        /// Kafka's error code.
        code: i16,
    },
    /// An answer that is not what the protocol says.
    #[error("broken answer: {0}")]
    Wire(#[from] WireError),
    /// Record batches that cannot be read.
    #[error("broken records: {0}")]
    Records(#[from] RecordsError),
    /// A request that could not be built.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Sums over all consumers of one [`run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeanReport {
    /// Consumers that became ready.
    pub ready: usize,
    /// Connections opened, first ones included.
    pub connections: u64,
    /// Connections lost.
    pub disconnects: u64,
    /// Fetch answers read.
    pub fetches: u64,
    /// Records delivered.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Errors told to the sink.
    pub errors: u64,
    /// Times a member got a share of its group's partitions, first ones included.
    pub assignments: u64,
    /// Commits that the coordinators took.
    pub commits: u64,
}

/// Runs the consumers on the calling task until `stop` turns true or its sender is gone. Meant
/// for a current-thread runtime with time and I/O enabled.
///
/// # Errors
/// Only at the start: settings, no broker, no such topic.
pub async fn run(
    config: LeanConfig,
    sink: impl LeanSink + 'static,
    mut stop: watch::Receiver<bool>,
) -> Result<LeanReport, LeanError> {
    check(&config)?;
    let shared = Rc::new(LeanState::new(config, sink));
    let tasks = LocalSet::new();
    let outcome = tasks
        .run_until(async {
            tokio::select! {
                outcome = supervise(Rc::clone(&shared)) => outcome,
                // An error means that nobody is left who could say stop.
                _ = stop.wait_for(|stop| *stop) => {
                    group::leave_all(&shared).await;
                    Ok(())
                }
            }
        })
        .await;
    drop(tasks);
    outcome.map(|()| shared.report.get())
}

/// Finds the cluster, starts the members of groups, then a link for each consumer and leader, again
/// whenever leaders change. Ends only with an error.
async fn supervise<S: LeanSink + 'static>(shared: Rc<LeanState<S>>) -> Result<(), LeanError> {
    shared.cluster.start().await?;
    shared.begin();
    if let Some(groups) = &shared.config.groups {
        for consumer in 0..shared.config.consumers {
            group::start(&shared, groups, consumer);
        }
    }
    let mut changes = shared.cluster.changes();
    loop {
        changes.borrow_and_update();
        for consumer in 0..shared.config.consumers {
            start_fetchers(&shared, consumer);
        }
        if changes.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Starts what the consumer needs to read all it owns.
fn start_fetchers<S: LeanSink + 'static>(shared: &Rc<LeanState<S>>, consumer: usize) {
    for leader in shared.cluster.leaders() {
        if shared.claim_fetcher(consumer, leader) {
            let task = fetcher::run(Rc::clone(shared), consumer, leader);
            tokio::task::spawn_local(task);
        }
    }
}

fn check(config: &LeanConfig) -> Result<(), LeanError> {
    let wrong = |key, value: &dyn ToString, remedy| {
        let value = value.to_string();
        Err(LeanError::Config { key, value, remedy })
    };
    if config.topic.is_empty() || config.topic.len() > 249 {
        return wrong(
            "topic",
            &config.topic,
            "a topic name has 1 to 249 characters",
        );
    }
    if config.client_id.len() > 1000 {
        return wrong(
            "client_id",
            &config.client_id,
            "use at most 1000 characters",
        );
    }
    if config.connect_rate_per_s == 0 {
        return wrong("connect_rate_per_s", &0, "must be at least 1");
    }
    if config.fetch_max_bytes <= 0 {
        let value = config.fetch_max_bytes;
        return wrong("fetch_max_bytes", &value, "must be at least 1");
    }
    if config.max_wait_ms < 0 || config.min_bytes < 0 {
        let value = config.max_wait_ms.min(config.min_bytes);
        return wrong("max_wait_ms or min_bytes", &value, "must not be negative");
    }
    config.groups.as_ref().map_or(Ok(()), check_groups)
}

fn check_groups(groups: &LeanGroups) -> Result<(), LeanError> {
    let wrong = |key, value: String, remedy| Err(LeanError::Config { key, value, remedy });
    if groups.prefix.is_empty() || groups.prefix.len() > 200 {
        let remedy = "a group's name begins with 1 to 200 characters of your choice";
        return wrong("groups.prefix", groups.prefix.clone(), remedy);
    }
    if groups.members == 0 {
        return wrong("groups.members", "0".to_owned(), "must be at least 1");
    }
    if groups.commit_every.is_zero() || groups.heartbeat_every.is_zero() {
        let remedy = "must be longer than nothing";
        return wrong(
            "groups.commit_every or heartbeat_every",
            "0".to_owned(),
            remedy,
        );
    }
    if groups.session_timeout <= groups.heartbeat_every {
        let value = format!("{} ms", groups.session_timeout.as_millis());
        return wrong(
            "groups.session_timeout",
            value,
            "must be longer than heartbeat_every",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;

    impl LeanSink for Silent {
        fn on_ready(&mut self, _: usize) {}
        fn on_record(&mut self, _: usize, _: &LeanRecord<'_>) {}
        fn on_error(&mut self, _: usize, _: &LeanError) {}
        fn on_bytes(&mut self, _: usize, _: usize) {}
    }

    fn run_now(config: LeanConfig) -> Result<LeanReport, LeanError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("runtime");
        let (_stop, stopped) = watch::channel(false);
        runtime.block_on(run(config, Silent, stopped))
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        let error = run_now(LeanConfig::default()).expect_err("no topic");
        assert!(error.to_string().starts_with("topic = \"\""), "{error}");
        let config = LeanConfig {
            topic: "t".to_owned(),
            connect_rate_per_s: 0,
            ..LeanConfig::default()
        };
        let error = run_now(config).expect_err("no connections");
        assert_eq!(
            error.to_string(),
            "connect_rate_per_s = \"0\": must be at least 1"
        );
    }

    #[test]
    fn a_missing_broker_is_named() {
        let config = LeanConfig {
            bootstrap_servers: "127.0.0.1:1".to_owned(),
            topic: "t".to_owned(),
            ..LeanConfig::default()
        };
        let error = run_now(config).expect_err("nothing listens there");
        let text = error.to_string();
        assert!(
            text.starts_with("no Kafka broker usable at \"127.0.0.1:1\""),
            "{text}"
        );
    }
}
