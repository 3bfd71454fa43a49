//! Access to a cluster: requests to the bootstrap servers, the controller and single brokers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::protocol::Request;
use weir_security::KafkaSettings;

use super::change::{CLIENT_ID, TopicChange, TopicResult, UNKNOWN_TOPIC_OR_PARTITION, check};
use super::error::{AdminError, reason, topic_error};
use crate::connect_error::ConnectError;
use crate::exchange::BrokerStream;
use crate::secure::BrokerSecurity;
use weir_wire::metadata::{self, BrokerAddress, Metadata};

/// Administrative access to a cluster.
#[derive(Debug)]
pub struct Admin {
    bootstrap_servers: String,
    pub(super) security: Arc<BrokerSecurity>,
    pub(super) timeout: Duration,
}

impl Admin {
    /// Connects and waits for the response of a broker. `timeout` also bounds each later call.
    ///
    /// # Errors
    /// At once if a broker rejects the login or its certificate is rejected.
    pub fn connect(kafka: &KafkaSettings, timeout: Duration) -> Result<Self, AdminError> {
        let security = BrokerSecurity::new(&kafka.security).map_err(ConnectError::from)?;
        let admin = Self {
            bootstrap_servers: kafka.bootstrap_servers.clone(),
            security: Arc::new(security),
            timeout,
        };
        admin.metadata(None)?;
        Ok(admin)
    }

    /// Returns the node ids of all brokers in ascending order.
    pub fn broker_ids(&self) -> Result<Vec<i32>, AdminError> {
        let metadata = self.metadata(None)?;
        let mut ids: Vec<_> = metadata.brokers.iter().map(|broker| broker.id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Returns the number of partitions, or `None` if the topic does not exist.
    pub fn partitions(&self, topic: &str) -> Result<Option<usize>, AdminError> {
        match self.metadata(Some(topic))?.topic {
            None => Ok(None),
            Some(found) => match found.error {
                0 => Ok(Some(found.partitions.len())),
                UNKNOWN_TOPIC_OR_PARTITION => Ok(None),
                code => Err(topic_error("look up", topic, reason(code, None))),
            },
        }
    }

    /// Returns `true` if the topic exists.
    pub fn topic_exists(&self, topic: &str) -> Result<bool, AdminError> {
        Ok(self.partitions(topic)?.is_some())
    }

    /// Requests brokers, the controller and up to one topic from any bootstrap server, until one
    /// responds.
    pub(super) fn metadata(&self, topic: Option<&str>) -> Result<Metadata, AdminError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = POLL_MIN;
        loop {
            let reason = match self.request_metadata(topic, deadline) {
                Ok(metadata) => return Ok(metadata),
                Err(error) if error.is_permanent() => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            if Instant::now() + pause >= deadline {
                return Err(AdminError::Unreachable {
                    bootstrap_servers: self.bootstrap_servers.clone(),
                    timeout_ms: self.timeout.as_millis(),
                    reason,
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Sends a change to the controller and fails with the first failed topic.
    pub(super) fn change_topics<R: TopicChange>(
        &self,
        action: &'static str,
        topic: &str,
        version: i16,
        request: &R,
    ) -> Result<(), AdminError> {
        check(
            action,
            topic,
            self.request_change(action, topic, version, request)?,
        )
    }

    /// Sends a change to the controller; again if another broker has become controller.
    pub(super) fn request_change<R: TopicChange>(
        &self,
        action: &'static str,
        topic: &str,
        version: i16,
        request: &R,
    ) -> Result<Vec<TopicResult>, AdminError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = POLL_MIN;
        loop {
            let metadata = self.metadata(None)?;
            let controller = metadata.controller();
            let mut body = match controller {
                Some(broker) => self.send(broker, version, request, (action, topic))?,
                None => return Err(topic_error(action, topic, NO_CONTROLLER.to_owned())),
            };
            let results = R::results(&mut body, version);
            let results = results.map_err(|error| topic_error(action, topic, error.to_string()))?;
            let moved = results.iter().any(|result| result.code == NOT_CONTROLLER);
            if !moved || Instant::now() + pause >= deadline {
                return Ok(results);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Sends a request to one broker and returns the body of the response.
    pub(super) fn send<R: Request>(
        &self,
        broker: &BrokerAddress,
        version: i16,
        request: &R,
        (action, topic): (&'static str, &str),
    ) -> Result<Bytes, AdminError> {
        let address = (broker.host.as_str(), broker.port);
        // The broker itself waits for up to the timeout before it responds.
        let timeout = self.timeout + RESPONSE_SPARE;
        let sent = BrokerStream::connect(&self.security, address, timeout)
            .and_then(|mut stream| stream.exchange(CLIENT_ID, version, request));
        sent.map_err(|error| match error.is_permanent() {
            true => error.into(),
            false => topic_error(action, topic, error.to_string()),
        })
    }

    /// Requests metadata from the bootstrap servers in turn until one responds.
    fn request_metadata(
        &self,
        topic: Option<&str>,
        deadline: Instant,
    ) -> Result<Metadata, ConnectError> {
        let request = metadata::request(topic);
        let mut last = ConnectError::io(
            &self.bootstrap_servers,
            std::io::Error::other("no bootstrap server configured"),
        );
        for server in crate::exchange::servers(&self.bootstrap_servers) {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left.clamp(ATTEMPT_MIN, ATTEMPT_MAX);
            let attempt = server.and_then(|(host, port)| {
                let mut stream = BrokerStream::connect(&self.security, (host, port), timeout)?;
                let body = stream.exchange(CLIENT_ID, metadata::VERSION, &request)?;
                let address = format!("{host}:{port}");
                metadata::read(&body, topic.unwrap_or_default())
                    .map_err(|error| ConnectError::io(&address, std::io::Error::other(error)))
            });
            match attempt {
                Ok(found) => return Ok(found),
                Err(error) if last.is_permanent() => {
                    tracing::debug!(%error, "metadata request failed")
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

pub(super) const POLL_MIN: Duration = Duration::from_millis(5);
pub(super) const POLL_MAX: Duration = Duration::from_millis(200);
const NOT_CONTROLLER: i16 = 41;
const NO_CONTROLLER: &str = "the cluster has no controller at the moment";
/// Bounds of one attempt to get metadata: another server may respond.
const ATTEMPT_MIN: Duration = Duration::from_millis(100);
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
const RESPONSE_SPARE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_broker_error_names_address_and_timeout() {
        let kafka = KafkaSettings::plaintext("127.0.0.1:1");
        let Err(error) = Admin::connect(&kafka, Duration::from_millis(200)) else {
            panic!("nothing listens on port 1");
        };
        let text = error.to_string();
        let start = "no response from a Kafka broker at \"127.0.0.1:1\" within 200 ms (";
        assert!(text.starts_with(start), "{text}");
    }
}
