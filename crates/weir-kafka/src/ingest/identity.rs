//! Detects topics that were deleted and created again under the same name. Such a topic gets a new
//! id. librdkafka knows the id but handles the change only in part and does not expose it, so its
//! ids are requested over a separate connection.

use std::collections::HashMap;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::protocol::Decodable;
use weir_security::{KafkaSettings, Security};

use crate::connect_error::ConnectError;
use crate::exchange::BrokerStream;
use crate::secure::BrokerSecurity;
use weir_wire::metadata;

/// Topic id; 0 is none.
pub(super) type Id = u128;

/// Topic ids, requested over one connection.
#[derive(Debug)]
pub(super) struct Identities {
    client_id: String,
    /// `None` if only librdkafka can connect with these settings.
    security: Option<Arc<BrokerSecurity>>,
    /// Connection to a broker that responded before; other brokers may have older metadata.
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
    pub(super) fn new(kafka: &KafkaSettings, client_id: &str) -> Self {
        let mut identities = Self {
            client_id: client_id.to_owned(),
            security: None,
            stream: None,
            known: HashMap::new(),
        };
        identities.set_security(&kafka.security);
        identities
    }

    /// Sets encryption and login of the next connection.
    pub(super) fn set_security(&mut self, security: &Security) {
        let security = BrokerSecurity::new(security).inspect_err(|error| {
            tracing::warn!(%error, "cannot detect topics that are deleted and created again");
        });
        self.security = security.ok().map(Arc::new);
    }

    /// Requests the ids of topics; a failed request returns none.
    pub(super) fn request(
        &mut self,
        brokers: &[(String, u16)],
        topics: &[String],
    ) -> Vec<(String, Id)> {
        let ids = self.request_ids(brokers, topics);
        ids.unwrap_or_else(|error| {
            tracing::debug!(%error, "topic id request failed");
            Vec::new()
        })
    }

    /// Returns the topics whose id has changed since the last call. Brokers before Kafka 2.8 return
    /// no ids, which changes nothing.
    pub(super) fn replaced(&mut self, ids: Vec<(String, Id)>) -> Vec<String> {
        let changed = ids.into_iter().filter(|(topic, id)| self.note(topic, *id));
        changed.map(|(topic, _)| topic).collect()
    }

    /// Returns the current id of a topic.
    pub(super) fn id_of(&self, topic: &str) -> Option<Id> {
        let known = self.known.get(topic)?;
        (known.id != 0).then_some(known.id)
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
    ) -> Result<Vec<(String, Id)>, ConnectError> {
        let Some(security) = &self.security else {
            return Ok(Vec::new());
        };
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(security, brokers)?,
        };
        let request = metadata::request(topics.iter().map(String::as_str));
        let body = stream.exchange(&self.client_id, VERSION, &request)?;
        let ids = read_ids(body).map_err(|error| stream.failed(error))?;
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

fn connect(
    security: &Arc<BrokerSecurity>,
    brokers: &[(String, u16)],
) -> Result<BrokerStream, ConnectError> {
    let no_broker = Error::from(ErrorKind::NotFound);
    let mut last = ConnectError::io("(none)", no_broker);
    for (host, port) in brokers {
        match BrokerStream::connect(security, (host, *port), TIMEOUT) {
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
        let mut identities = Identities::new(&KafkaSettings::plaintext("a:1"), "test");
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
        let mut identities = Identities::new(&KafkaSettings::plaintext("a:1"), "test");
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
