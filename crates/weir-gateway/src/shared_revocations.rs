//! Revocations that several gateways share through a compacted topic.
//!
//! The key of a record is that of the revocation as JSON, its value the whole revocation. A thread
//! reads the topic to its end, and then follows it. Calls of operators write to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use weir_access::Authenticator;
use weir_identity::config::RevocationTopic;
use weir_identity::{Revocation, RevocationKey};
use weir_kafka::{
    KafkaSettings, TableChange, TableWriteError, TableWriter, follow_table, librdkafka_security,
};
use weir_net::limited;

use crate::error::InvalidConfig;
use crate::trace::unix_ms;
use weir_ingest::KafkaConnection;

/// Time for brokers to acknowledge a record.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two removals of revocations whose tokens have expired: at least, and spread over
/// as much again, so that seldom two gateways remove the same ones.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Time after the end of the tokens until a revocation is removed from the topic. Meanwhile
/// an operator may revoke again, which must not be removed.
const KEPT_MS: u64 = 3_600_000;
/// Revocations that are removed at a time.
const REMOVED_MAX: usize = 100;
/// Revocations whose ends are remembered for that.
const ENDS_MAX: usize = 200_000;

/// Writes revocations for all gateways.
#[derive(Debug)]
pub(crate) struct SharedRevocations {
    writer: TableWriter,
}

/// Checks the topic's Kafka connection: one of `connections`, which are names, each with whether it
/// is enabled, and the settings of its client.
pub(crate) fn check(
    topic: &RevocationTopic,
    connections: &[(&str, bool, &KafkaSettings)],
) -> Result<(), InvalidConfig> {
    let name = topic.connection.to_string();
    match connections.iter().find(|one| *one.0 == *name) {
        // The client that reads items may support more than this one.
        Some((_, true, kafka)) => match librdkafka_security(&kafka.security) {
            Ok(_) => Ok(()),
            Err(error) => Err(InvalidConfig::RevocationClient { name, error }),
        },
        Some((_, false, _)) => Err(InvalidConfig::RevocationDisabled(name)),
        None => {
            let known: Vec<_> = connections.iter().map(|one| one.0).collect();
            let known = known.join(", ");
            Err(InvalidConfig::RevocationConnection { name, known })
        }
    }
}

/// Starts to read the topic, until `stopped` is disconnected. Returns `None` without a topic.
pub(crate) fn start(
    auth: &Arc<Authenticator>,
    connections: &[Arc<KafkaConnection>],
    stopped: &Receiver<()>,
) -> std::io::Result<Option<Arc<SharedRevocations>>> {
    let Some(topic) = auth.revocation_topic() else {
        return Ok(None);
    };
    // The configuration was checked.
    let mut all = connections.iter();
    let Some(connection) = all.find(|one| *one.config.name == *topic.connection) else {
        return Ok(None);
    };
    let settings = connection.cluster.producer_settings();
    let client = "weir-gateway-revocations";
    let writer = TableWriter::new(settings, client, &topic.topic, WRITE_TIMEOUT);
    let shared = Arc::new(SharedRevocations { writer });
    let mut reader = Reader {
        auth: Arc::clone(auth),
        shared: Arc::clone(&shared),
        topic: topic.topic.to_string(),
        ends: HashMap::new(),
        has_all: false,
        next_sweep: Instant::now(),
    };
    let (kafka, stopped) = (connection.cluster.kafka.clone(), stopped.clone());
    let run = move || {
        let is_stopped = || stopped.try_recv() == Err(TryRecvError::Disconnected);
        let topic = reader.topic.clone();
        follow_table(&kafka, &topic, &is_stopped, &mut |change| {
            reader.take(change)
        });
    };
    let thread = std::thread::Builder::new().name("revocations".to_owned());
    // Like those that fetch keys, the thread may end after the gateway.
    thread.spawn(run)?;
    Ok(Some(shared))
}

impl SharedRevocations {
    /// Writes a revocation and waits for the acknowledgement.
    pub(crate) fn write(&self, entry: &Revocation) -> Result<(), TableWriteError> {
        let value = serde_json::to_vec(entry).unwrap_or_default();
        self.writer.write(&record_key(&entry.key), Some(&value))
    }

    /// Deletes a revocation and waits for the acknowledgement.
    pub(crate) fn delete(&self, key: &RevocationKey) -> Result<(), TableWriteError> {
        self.writer.write(&record_key(key), None)
    }
}

fn record_key(key: &RevocationKey) -> Vec<u8> {
    serde_json::to_vec(key).unwrap_or_default()
}

/// Applies what is in the topic.
struct Reader {
    auth: Arc<Authenticator>,
    shared: Arc<SharedRevocations>,
    topic: String,
    /// Ends of the revocations in the topic, Unix time in milliseconds.
    ends: HashMap<RevocationKey, u64>,
    has_all: bool,
    next_sweep: Instant,
}

impl Reader {
    fn take(&mut self, change: TableChange<'_>) {
        match change {
            TableChange::Record { key, value } => self.take_record(key, value),
            TableChange::End => {
                if !self.has_all {
                    let (topic, count) = (&self.topic, self.ends.len());
                    tracing::info!(topic, count, "revocations read");
                }
                self.has_all = true;
                self.auth.revocations_are_known();
            }
            TableChange::Idle if self.has_all && Instant::now() >= self.next_sweep => self.sweep(),
            TableChange::Idle => {}
            TableChange::Failed(error) => {
                limited!(
                    warn, "revocation topic not read", %error,
                    "the topic with revocations was not read, trying again"
                );
                if !self.has_all {
                    let topic = &self.topic;
                    self.auth
                        .await_revocations(format!("topic {topic}: {error}"));
                }
            }
        }
    }

    fn take_record(&mut self, key: &[u8], value: Option<&[u8]>) {
        let applied = match value {
            None => serde_json::from_slice(key).map(|key: RevocationKey| {
                self.ends.remove(&key);
                self.auth.withdraw_revocation(&key);
            }),
            Some(value) => serde_json::from_slice(value).map(|entry| self.store(entry)),
        };
        if let Err(error) = applied {
            limited!(
                warn, "unreadable revocation", %error,
                "skipped a record of the topic with revocations"
            );
        }
    }

    fn store(&mut self, entry: Revocation) {
        if self.ends.len() < ENDS_MAX || self.ends.contains_key(&entry.key) {
            self.ends.insert(entry.key.clone(), entry.expires_ms);
        }
        if entry.expires_ms <= unix_ms() {
            return;
        }
        if let Err(error) = self.auth.revoke(entry) {
            limited!(
                error, "revocation not stored", %error,
                "a revocation of another gateway was not stored"
            );
        }
    }

    /// Removes revocations whose tokens have expired.
    fn sweep(&mut self) {
        let spread = rand::random_range(1.0..2.0);
        self.next_sweep = Instant::now() + SWEEP_INTERVAL.mul_f64(spread);
        let now_ms = unix_ms();
        self.auth.remove_expired_revocations(now_ms);
        let is_over = |(_, end_ms): &(_, &u64)| end_ms.saturating_add(KEPT_MS) <= now_ms;
        let over = self.ends.iter().filter(is_over).take(REMOVED_MAX);
        let over: Vec<_> = over.map(|(key, _)| key.clone()).collect();
        for key in over {
            if let Err(error) = self.shared.delete(&key) {
                limited!(
                    warn, "expired revocation not removed", %error,
                    "an expired revocation was not removed from its topic"
                );
                return;
            }
            self.ends.remove(&key);
        }
    }
}
