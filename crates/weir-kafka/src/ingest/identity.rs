//! Detects topics that were deleted and created again under the same name. Such a topic gets a new
//! id. librdkafka knows the id but handles the change only in part and does not expose it, so the
//! ids are requested over a separate connection.

use std::collections::HashMap;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::protocol::Decodable;

use crate::exchange::BrokerStream;
use crate::wire::metadata;

/// Topic id; 0 is none.
type Id = u128;

/// Topic ids, requested over one connection.
#[derive(Debug)]
pub(super) struct Identities {
    client_id: String,
    /// Connection to a broker that responded before; others may not know of a change yet.
    stream: Option<BrokerStream>,
    known: HashMap<String, KnownTopic>,
}

#[derive(Debug, Default)]
struct KnownTopic {
    id: Id,
    /// Previous ids; a broker with outdated metadata may still return one of them.
    former: Vec<Id>,
}

impl Identities {
    pub(super) fn new(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            stream: None,
            known: HashMap::new(),
        }
    }

    /// Returns the topics whose id has changed since the last call. Brokers before Kafka 2.8, which
    /// return no ids, and failed requests change nothing.
    pub(super) fn replaced(&mut self, brokers: &[(String, u16)], topics: &[String]) -> Vec<String> {
        let ids = match self.request_ids(brokers, topics) {
            Ok(ids) => ids,
            Err(error) => {
                tracing::debug!(%error, "topic id request failed");
                return Vec::new();
            }
        };
        let changed = ids.into_iter().filter(|(topic, id)| self.note(topic, *id));
        changed.map(|(topic, _)| topic).collect()
    }

    /// Forgets the id of a deleted topic, so that its successor does not count as a replacement.
    pub(super) fn deleted(&mut self, topic: &str) {
        if let Some(known) = self.known.get_mut(topic) {
            known.retire();
        }
    }

    /// Stores a topic's id and returns `true` if it replaces another one.
    fn note(&mut self, topic: &str, id: Id) -> bool {
        let known = self.known.entry(topic.to_owned()).or_default();
        if id == 0 || id == known.id || known.former.contains(&id) {
            return false;
        }
        let is_replaced = known.id != 0;
        known.retire();
        known.id = id;
        is_replaced
    }

    fn request_ids(
        &mut self,
        brokers: &[(String, u16)],
        topics: &[String],
    ) -> std::io::Result<Vec<(String, Id)>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(brokers)?,
        };
        let request = metadata::request(topics.iter().map(String::as_str));
        let ids = read_ids(stream.exchange(&self.client_id, VERSION, &request)?)?;
        self.stream = Some(stream);
        Ok(ids)
    }
}

impl KnownTopic {
    fn retire(&mut self) {
        if self.id == 0 {
            return;
        }
        if self.former.len() >= FORMER_MAX {
            self.former.remove(0);
        }
        self.former.push(std::mem::take(&mut self.id));
    }
}

fn connect(brokers: &[(String, u16)]) -> std::io::Result<BrokerStream> {
    let mut last = Error::from(ErrorKind::NotFound);
    for (host, port) in brokers {
        match BrokerStream::connect(host, *port, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn read_ids(mut body: Bytes) -> std::io::Result<Vec<(String, Id)>> {
    let response = MetadataResponse::decode(&mut body, VERSION).map_err(Error::other)?;
    let topics = response.topics.into_iter();
    let found = topics.filter(|topic| topic.error_code == 0);
    let named = found.filter_map(|topic| Some((topic.name?.to_string(), topic.topic_id.as_u128())));
    Ok(named.collect())
}

/// First version whose responses contain topic ids; requests still name the topics.
const VERSION: i16 = 10;
/// Timeout of each operation on the connection to a broker.
const TIMEOUT: Duration = Duration::from_secs(1);
const FORMER_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_id_replaces_topic_once() {
        let mut identities = Identities::new("test");
        assert!(!identities.note("a", 1), "first id");
        assert!(!identities.note("a", 1));
        assert!(identities.note("a", 2));
        assert!(!identities.note("a", 1), "outdated metadata");
        assert!(!identities.note("a", 2));
        assert!(!identities.note("b", 3), "another topic");
        assert!(!identities.note("a", 0), "no id");
        assert!(identities.note("a", 4));
    }

    #[test]
    fn topic_after_deletion_is_not_a_replacement() {
        let mut identities = Identities::new("test");
        identities.note("a", 1);
        identities.deleted("a");
        assert!(!identities.note("a", 1), "outdated metadata");
        assert!(!identities.note("a", 2));
        assert!(identities.note("a", 3));
    }

    #[test]
    fn malformed_responses_are_errors() {
        assert!(read_ids(Bytes::from_static(b"\xff\xff")).is_err());
    }
}
