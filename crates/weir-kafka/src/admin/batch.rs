//! Operations on several topics, and ends of partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use kafka_protocol::protocol::{Decodable, Request};

use super::change::{UNKNOWN_TOPIC_OR_PARTITION, check, millis, topic_name};
use super::client::{Admin, POLL_MAX, POLL_MIN};
use super::error::{AdminError, InvalidResponse, reason, topic_error};
use super::topics::new_topic;
use super::view::TopicView;
use weir_wire::list_offsets;
use weir_wire::metadata::{BrokerAddress, Metadata};

impl Admin {
    /// Creates topics of one partition and one replica in one request. Waits until every broker
    /// reports a leader for each.
    ///
    /// # Errors
    /// Also if one of them exists; others may have been created then.
    pub fn create_topics(
        &self,
        names: &[String],
        configs: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        let topics = names.iter().map(|name| new_topic(name, 1, 1, configs));
        self.send_create(topics.collect(), first)?;
        names.iter().try_for_each(|name| self.wait_leaders(name, 1))
    }

    /// Deletes topics in one request and waits until no broker reports any of them. Topics that do
    /// not exist are ignored.
    pub fn delete_topics(&self, names: &[String]) -> Result<(), AdminError> {
        let Some(first) = names.first() else {
            return Ok(());
        };
        let names_only: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut results = self.send_delete(&names_only, first)?;
        results.retain(|result| result.code != UNKNOWN_TOPIC_OR_PARTITION);
        check("delete", first, results)?;
        let deleted = |view: &TopicView| *view == TopicView::Missing;
        names
            .iter()
            .try_for_each(|name| self.wait_everywhere(name, "deleted", deleted))
    }

    /// Deletes the records of a partition before `offset`.
    pub fn delete_records(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), AdminError> {
        let action = "delete records of";
        let wanted = DeleteRecordsPartition::default()
            .with_partition_index(partition)
            .with_offset(offset);
        let topics = DeleteRecordsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![wanted]);
        let request = DeleteRecordsRequest::default()
            .with_timeout_ms(millis(self.timeout))
            .with_topics(vec![topics]);
        self.ask_leader(
            (action, topic, partition),
            DELETE_VERSION,
            &request,
            |mut body| {
                let response = DeleteRecordsResponse::decode(&mut body, DELETE_VERSION);
                let response = response.map_err(InvalidResponse::of)?;
                let partitions = response
                    .topics
                    .into_iter()
                    .flat_map(|topic| topic.partitions);
                let codes = partitions.map(|partition| (partition.error_code, ()));
                codes
                    .into_iter()
                    .next()
                    .ok_or_else(|| InvalidResponse::of(NO_PARTITION))
            },
        )
    }

    /// Returns the offset of the next record of a partition. Retries while a leader is being
    /// elected.
    pub fn end_offset(&self, topic: &str, partition: i32) -> Result<u64, AdminError> {
        let request = list_offsets::request(topic, &[partition], list_offsets::LATEST);
        let version = list_offsets::VERSION;
        self.ask_leader(("look up", topic, partition), version, &request, |body| {
            let offsets = list_offsets::read(&body).map_err(InvalidResponse::of)?;
            let end = offsets.first();
            let end = end.ok_or_else(|| InvalidResponse::of(NO_PARTITION))?;
            Ok((end.error, u64::try_from(end.offset).unwrap_or(0)))
        })
    }

    /// Waits until the leaders of the first `count` partitions respond as such. Each leader gets
    /// one request, which is repeated for the partitions that it does not lead yet.
    pub(super) fn wait_responses(&self, topic: &str, count: usize) -> Result<(), AdminError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = POLL_MIN;
        let mut pending: BTreeSet<i32> = (0..).take(count).collect();
        loop {
            let metadata = self.metadata(Some(topic))?;
            let mut failure = "has no leader".to_owned();
            for (leader, partitions) in by_leader(&metadata, &pending) {
                for (partition, code) in self.end_codes(&leader, topic, &partitions)? {
                    match code {
                        0 => drop(pending.remove(&partition)),
                        code if TRANSIENT.contains(&code) => failure = reason(code, None),
                        code => return Err(topic_error("look up", topic, reason(code, None))),
                    }
                }
            }
            let Some(partition) = pending.first() else {
                return Ok(());
            };
            if Instant::now() + pause >= deadline {
                return Err(AdminError::NotSettled {
                    topic: topic.to_owned(),
                    wanted: "ready",
                    timeout_ms: self.timeout.as_millis(),
                    last: format!("partition {partition}: {failure}"),
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Requests the ends of partitions from a broker. Returns each partition with its error code.
    fn end_codes(
        &self,
        leader: &BrokerAddress,
        topic: &str,
        partitions: &[i32],
    ) -> Result<Vec<(i32, i16)>, AdminError> {
        let action = "look up";
        let request = list_offsets::request(topic, partitions, list_offsets::LATEST);
        let body = self.send(leader, list_offsets::VERSION, &request, (action, topic))?;
        let rows = list_offsets::read(&body);
        let rows = rows.map_err(|error| topic_error(action, topic, error.to_string()))?;
        Ok(rows.iter().map(|row| (row.partition, row.error)).collect())
    }

    /// Sends a request to the leader of a partition. Repeats it while there is none, or while the
    /// broker does not know yet that it is the leader.
    fn ask_leader<R: Request, T>(
        &self,
        (action, topic, partition): (&'static str, &str, i32),
        version: i16,
        request: &R,
        read: impl Fn(bytes::Bytes) -> Result<(i16, T), InvalidResponse>,
    ) -> Result<T, AdminError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = POLL_MIN;
        loop {
            let failure = match self.leader(topic, partition)? {
                None => "the partition has no leader".to_owned(),
                Some(leader) => {
                    let body = self.send(&leader, version, request, (action, topic))?;
                    let result = read(body);
                    let result =
                        result.map_err(|error| topic_error(action, topic, error.to_string()))?;
                    match result {
                        (0, value) => return Ok(value),
                        (code, _) if !TRANSIENT.contains(&code) => {
                            return Err(topic_error(action, topic, reason(code, None)));
                        }
                        (code, _) => reason(code, None),
                    }
                }
            };
            if Instant::now() + pause >= deadline {
                return Err(topic_error(action, topic, failure));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    fn leader(&self, topic: &str, partition: i32) -> Result<Option<BrokerAddress>, AdminError> {
        let metadata = self.metadata(Some(topic))?;
        let found = metadata
            .topic
            .as_ref()
            .filter(|found| found.error != UNKNOWN_TOPIC_OR_PARTITION);
        let Some(found) = found else {
            return Err(topic_error(
                "look up",
                topic,
                "the topic does not exist".to_owned(),
            ));
        };
        let mut partitions = found.partitions.iter();
        let leader = partitions.find(|one| one.partition == partition);
        let mut brokers = metadata.brokers.iter();
        let leader = leader.and_then(|one| brokers.find(|broker| broker.id == one.leader));
        Ok(leader.cloned())
    }
}

/// Returns the brokers that lead some of these partitions of the topic, with them.
fn by_leader(metadata: &Metadata, wanted: &BTreeSet<i32>) -> Vec<(BrokerAddress, Vec<i32>)> {
    let mut led: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let partitions = metadata.topic.iter().flat_map(|topic| &topic.partitions);
    for one in partitions.filter(|one| wanted.contains(&one.partition)) {
        led.entry(one.leader).or_default().push(one.partition);
    }
    let brokers = metadata.brokers.iter();
    brokers
        .filter_map(|broker| Some((broker.clone(), led.remove(&broker.id)?)))
        .collect()
}

/// Error codes of a broker whose metadata is not up to date yet: unknown partition, leader not
/// available, not leader, replica not available, fenced and unknown leader epoch.
const TRANSIENT: [i16; 6] = [UNKNOWN_TOPIC_OR_PARTITION, 5, 6, 9, 74, 75];
/// Latest version without compact encodings.
const DELETE_VERSION: i16 = 1;
const NO_PARTITION: &str = "the response lacks the partition";

#[cfg(test)]
mod tests {
    use weir_wire::metadata::{PartitionMetadata, TopicMetadata};

    use super::*;

    #[test]
    fn each_leader_gets_its_pending_partitions() {
        let broker = |id| BrokerAddress {
            id,
            host: "a".to_owned(),
            port: 1,
        };
        let partitions = [(0, 1), (1, 2), (2, 1), (3, -1), (4, 1)];
        let partition = |(partition, leader)| PartitionMetadata { partition, leader };
        let metadata = Metadata {
            brokers: vec![broker(1), broker(2), broker(3)],
            controller_id: 1,
            topic: Some(TopicMetadata {
                error: 0,
                name: "t".to_owned(),
                partitions: partitions.map(partition).into(),
            }),
        };
        let found = by_leader(&metadata, &BTreeSet::from([0, 1, 2, 3]));
        assert_eq!(found, [(broker(1), vec![0, 2]), (broker(2), vec![1])]);
    }
}
