//! The lean client: Weir's own implementation of what ingest needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::config::{IngestConfig, OWNED, REQUEST_TIMEOUT, check_topics};
use super::super::error::SourceError;
use super::super::offsets::Offsets;
use super::super::partition_client::{
    ClusterView, Committed, FoundOffset, OffsetAt, PartitionClient, RequestError, TopicPartition,
    TopicView,
};
use super::super::state::IngestState;
use super::connection::Address;
use super::fetch_thread;
use super::options::LeanOptions;
use super::requests::Requester;
use super::shared::{LeanShared, QueueEntry};
use crate::fetch::{BufferPool, DecodeFailure, RecordDecoder};
use crate::properties::PropertyError;
use crate::secure::BrokerSecurity;
use weir_wire::cluster::{ClusterMetadata, TopicMetadata};
use weir_wire::group::{MemberIdentity, offsets};
use weir_wire::list_offsets;

pub(crate) struct LeanClient {
    shared: Arc<LeanShared>,
    group: Option<String>,
    /// For the discovery thread.
    requests: Mutex<Requester>,
    /// For the group's coordinator.
    group_requests: Mutex<Requester>,
    decoder: Mutex<RecordDecoder>,
}

impl LeanClient {
    /// Returns an error if [`new`](Self::new) would reject the configuration.
    pub(crate) fn check(config: &IngestConfig) -> Result<(), SourceError> {
        Self::parts(config).map(drop)
    }

    fn parts(config: &IngestConfig) -> Result<(LeanOptions, BrokerSecurity), SourceError> {
        check_topics(config)?;
        for (name, value) in &config.kafka.properties {
            if OWNED.contains(&name.as_str()) {
                return Err(PropertyError::new(name, value).into());
            }
        }
        let options = LeanOptions::read(config)?;
        Ok((options, BrokerSecurity::new(&config.kafka.security)?))
    }

    /// Creates a client without connections.
    pub(crate) fn new(
        config: &IngestConfig,
        ingest: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        let (options, security) = Self::parts(config)?;
        let security = Arc::new(security);
        let servers = &config.kafka.bootstrap_servers;
        let requester = |timeout| {
            let client_id = &options.client_id;
            Mutex::new(Requester::new(&security, servers, client_id, timeout))
        };
        let (requests, group_requests) = (requester(REQUEST_TIMEOUT), requester(GROUP_TIMEOUT));
        let pool = Arc::<BufferPool>::default();
        Ok(Self {
            decoder: Mutex::new(RecordDecoder::new(pool, options.checks_crc)),
            shared: Arc::new(LeanShared::new(options, security, ingest)),
            group: config.group_id.clone(),
            requests,
            group_requests,
        })
    }

    /// Returns the decoder. If its partition is not assigned any more, its records are dropped.
    pub(crate) fn decoder(&self) -> MutexGuard<'_, RecordDecoder> {
        let mut decoder = lock(&self.decoder);
        if let Some((key, generation)) = decoder.current() {
            if !self
                .shared
                .with(|state| state.table.is_current(key, generation))
            {
                decoder.close();
            }
        }
        decoder
    }

    /// Waits up to `timeout` for fetched records or an event.
    pub(crate) fn take(&self, timeout: Duration) -> Option<QueueEntry> {
        self.shared.take(timeout)
    }

    /// Fetches a partition again from the offset whose records could not be decoded.
    pub(crate) fn fetch_again(&self, failure: &DecodeFailure) {
        let (key, generation) = (failure.key, failure.generation);
        let from = (failure.position, Instant::now());
        self.shared
            .change(|state| state.table.fetch_again(key, generation, from));
    }

    fn addresses(&self) -> Vec<Address> {
        let all = |brokers: &BTreeMap<i32, Address>| brokers.values().cloned().collect();
        self.shared.with(|state| all(&state.brokers))
    }

    /// Starts a thread for each broker that partitions are read from.
    fn start_threads(&self) -> Result<(), SourceError> {
        fetch_thread::start_all(&self.shared).map_err(|error| SourceError::Thread {
            reason: error.to_string(),
        })
    }

    fn apply(&self, metadata: &ClusterMetadata) {
        self.shared.change(|state| {
            for broker in &metadata.brokers {
                let address = (broker.host.clone(), broker.port);
                state.brokers.insert(broker.id, address);
            }
            for topic in metadata.topics.iter().filter(|topic| topic.error == 0) {
                let leaders = &topic.partitions;
                state.table.update_topic(&topic.name, topic.id, leaders);
            }
        });
    }

    /// Requests offsets from one leader.
    fn offsets_at(
        &self,
        node: i32,
        partitions: &[(TopicPartition, i32)],
        at: OffsetAt,
    ) -> Result<Vec<FoundOffset>, RequestError> {
        let address = self.shared.with(|state| state.brokers.get(&node).cloned());
        let unknown = || RequestError::new("the address of the leader is not known");
        let address = address.ok_or_else(unknown)?;
        let rows = partitions
            .iter()
            .map(|((topic, partition), epoch)| (topic.as_str(), *partition, *epoch));
        let timestamp = match at {
            OffsetAt::Beginning => list_offsets::EARLIEST,
            OffsetAt::End => list_offsets::LATEST,
        };
        let committed_only = self.shared.options.committed_only;
        let request = list_offsets::request_with_epochs(rows, timestamp, committed_only);
        let request = (list_offsets::EPOCH_VERSION, request);
        let read = |body: bytes::Bytes| {
            let mut found = Vec::new();
            list_offsets::read_with_epochs(&body, |topic, row| {
                let offset = match row.error {
                    0 => Ok(row.offset),
                    code => Err(RequestError::new(format!("Kafka error {code}"))),
                };
                found.push(((topic.to_owned(), row.partition), offset));
            })?;
            Ok(found)
        };
        Ok(lock(&self.requests).exchange(&address, &request, read)?)
    }
}

impl PartitionClient for LeanClient {
    fn cluster(&self, topic: Option<&str>) -> Result<ClusterView, RequestError> {
        let known = self.addresses();
        let one = topic.map(|topic| [topic]);
        let topics = one.as_ref().map(<[&str; 1]>::as_slice);
        let response = lock(&self.requests).metadata(&known, topics);
        let metadata = response.inspect_err(|error| {
            if error.is_permanent() || error.is_login_failure() {
                self.shared.ingest.note_refusal(error.clone());
            }
        })?;
        self.apply(&metadata);
        self.start_threads()
            .map_err(|error| RequestError::new(error.to_string()))?;
        let brokers = metadata.brokers.into_iter();
        Ok(ClusterView {
            brokers: brokers.map(|broker| (broker.host, broker.port)).collect(),
            topics: metadata.topics.into_iter().map(view).collect(),
        })
    }

    fn has_topic_ids(&self) -> bool {
        true
    }

    fn replaced(&self) -> Vec<String> {
        self.shared
            .with(|state| state.table.replaced().map(str::to_owned).collect())
    }

    fn offsets(&self, partitions: &[TopicPartition], at: OffsetAt) -> Vec<FoundOffset> {
        let mut by_leader: BTreeMap<i32, Vec<(TopicPartition, i32)>> = BTreeMap::new();
        let mut found = Vec::new();
        self.shared.with(|state| {
            for (topic, partition) in partitions {
                let key = (topic.clone(), *partition);
                match state.table.leader(topic, *partition) {
                    Some(leader) => {
                        let rows = by_leader.entry(leader.leader).or_default();
                        rows.push((key, leader.epoch));
                    }
                    None => found.push((key, Err(RequestError::new("no leader")))),
                }
            }
        });
        for (node, rows) in by_leader {
            match self.offsets_at(node, &rows, at) {
                Ok(offsets) => found.extend(offsets),
                Err(error) => {
                    let keys = rows.into_iter().map(|(key, _)| key);
                    found.extend(keys.map(|key| (key, Err(error.clone()))));
                }
            }
        }
        found
    }

    fn committed(&self, partitions: &[TopicPartition]) -> Result<Vec<Committed>, RequestError> {
        let Some(group) = &self.group else {
            return Ok(Vec::new());
        };
        let known = self.addresses();
        let rows = partitions
            .iter()
            .map(|(topic, partition)| (topic.as_str(), *partition));
        let request = offsets::fetch_all(member(group), rows);
        let mut requester = lock(&self.group_requests);
        let read = |body: bytes::Bytes| {
            let mut found = Vec::new();
            let error = offsets::read_fetch_all(&body, |topic, partition, offset| {
                found.push(((topic.to_owned(), partition), offset));
            })?;
            Ok((error, found))
        };
        let (error, found) = requester.group((&known, group), &request, read)?;
        match error {
            0 => Ok(found),
            code => {
                requester.forget_coordinator();
                Err(super::requests::GroupError::Kafka(code).into())
            }
        }
    }

    fn commit(&self, positions: &Offsets) -> Result<(), RequestError> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        let known = self.addresses();
        let request = offsets::commit_all(member(group), positions.iter());
        let mut requester = lock(&self.group_requests);
        let read = |body: bytes::Bytes| {
            let codes = offsets::read_commit(&body)?;
            let failed = codes.iter().map(|(_, code)| *code);
            Ok(failed.into_iter().find(|code| *code != 0).unwrap_or(0))
        };
        match requester.group((&known, group), &request, read)? {
            0 => Ok(()),
            code => {
                requester.forget_coordinator();
                Err(super::requests::GroupError::Kafka(code).into())
            }
        }
    }

    fn assign(&self, starts: &[(TopicPartition, i64)]) -> Result<(), SourceError> {
        self.shared.change(|state| {
            for ((topic, partition), start) in starts {
                state.table.assign(topic, *partition, *start);
            }
        });
        self.start_threads()
    }

    fn unassign(&self, partitions: &[TopicPartition]) -> Result<(), SourceError> {
        self.shared.change(|state| {
            for (topic, partition) in partitions {
                state.table.unassign(topic, *partition);
            }
        });
        Ok(())
    }
}

impl Drop for LeanClient {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

fn view(topic: TopicMetadata) -> TopicView {
    let partitions = match topic.error {
        0 => Ok(Some(
            i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        )),
        UNKNOWN_TOPIC_OR_PARTITION => Ok(None),
        TOPIC_AUTHORIZATION_FAILED => Err(RequestError::new(
            "the user may not read the topic: grant the operations Describe and Read",
        )),
        code => Err(RequestError::new(format!("Kafka error {code}"))),
    };
    TopicView {
        name: topic.name,
        id: topic.id,
        partitions,
    }
}

fn member(group: &str) -> MemberIdentity<'_> {
    MemberIdentity {
        group,
        member: "",
        generation: -1,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
/// Timeout of each step of a request to a group's coordinator.
const GROUP_TIMEOUT: Duration = Duration::from_secs(5);
