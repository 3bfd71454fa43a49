//! Detects topics that were deleted and created again under the same name. Such a topic gets a new
//! id. librdkafka knows the id but handles the change only in part and does not expose it, so the
//! ids are requested over a separate connection.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ResponseHeader;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiKey, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Decodable, StrBytes};

use crate::wire::WireError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::write_request;

/// Topic id; 0 is none.
type Id = u128;

/// Topic ids, requested over one connection.
#[derive(Debug)]
pub(super) struct Identities {
    client_id: String,
    /// Connection to a broker that responded before; others may not know of a change yet.
    stream: Option<TcpStream>,
    correlation_id: i32,
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
            correlation_id: 0,
            known: HashMap::new(),
        }
    }

    /// Returns the topics whose id has changed since the last call. Brokers before Kafka 2.8, which
    /// return no ids, and failed requests change nothing.
    pub(super) fn replaced(&mut self, brokers: &[(String, u16)], topics: &[String]) -> Vec<String> {
        let ids = match self.request_ids(brokers, topics) {
            Ok(ids) => ids,
            Err(error) => {
                self.stream = None;
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
        let names = topics.iter().map(|topic| {
            let name = TopicName(StrBytes::from_string(topic.clone()));
            MetadataRequestTopic::default().with_name(Some(name))
        });
        let body = MetadataRequest::default()
            .with_allow_auto_topic_creation(false)
            .with_topics(Some(names.collect()));
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let mut request = BytesMut::new();
        let (api, number) = (ApiKey::Metadata, self.correlation_id);
        write_request(&mut request, api, VERSION, number, &self.client_id, &body)
            .map_err(Error::other)?;
        if self.stream.is_none() {
            self.stream = Some(connect(brokers)?);
        }
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        stream.write_all(&request)?;
        let frame = read_frame(stream)?;
        read_ids(frame, number)
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

fn connect(brokers: &[(String, u16)]) -> std::io::Result<TcpStream> {
    let mut last = Error::from(ErrorKind::NotFound);
    for (host, port) in brokers {
        let addresses = (host.as_str(), *port).to_socket_addrs();
        let connected = addresses.and_then(|mut addresses| {
            let address = addresses.next().ok_or(ErrorKind::NotFound)?;
            let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Bytes> {
    let mut frames = KafkaFrameReader::new(FRAME_BYTES_MAX);
    let mut buffer = vec![0; 16 << 10];
    let mut complete = None;
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let fed = frames.feed::<WireError>(&buffer[..count], |frame| {
            complete = Some(Bytes::copy_from_slice(frame));
            Ok(())
        });
        fed.map_err(Error::other)?;
        if let Some(frame) = complete.take() {
            return Ok(frame);
        }
    }
}

fn read_ids(mut frame: Bytes, correlation_id: i32) -> std::io::Result<Vec<(String, Id)>> {
    let version = ApiKey::Metadata.response_header_version(VERSION);
    let header = ResponseHeader::decode(&mut frame, version).map_err(Error::other)?;
    if header.correlation_id != correlation_id {
        return Err(Error::other("response to another request"));
    }
    let response = MetadataResponse::decode(&mut frame, VERSION).map_err(Error::other)?;
    let topics = response.topics.into_iter();
    let found = topics.filter(|topic| topic.error_code == 0);
    let named = found.filter_map(|topic| Some((topic.name?.to_string(), topic.topic_id.as_u128())));
    Ok(named.collect())
}

/// First version whose responses contain topic ids; requests still name the topics.
const VERSION: i16 = 10;
/// Timeout of each operation on the connection to a broker.
const TIMEOUT: Duration = Duration::from_secs(1);
const FRAME_BYTES_MAX: usize = 16 << 20;
/// Former ids stored per topic.
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
        assert!(read_ids(Bytes::from_static(b"\0\0\0\x01\0\xff\xff"), 1).is_err());
        assert!(read_ids(Bytes::from_static(b"\0\0\0\x02\0"), 1).is_err());
    }
}
