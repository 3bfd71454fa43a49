//! A connection to one broker, with the API versions that the broker supports.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Request;

use crate::connect_error::ConnectError;
use crate::exchange::BrokerStream;
use crate::secure::BrokerSecurity;
use weir_wire::api_versions::{self, ApiVersions};
use weir_wire::{EncodeError, WireError, fetch_request};

/// Host and port of a broker.
pub(super) type Address = (String, u16);

pub(super) struct BrokerConnection {
    stream: BrokerStream,
    versions: ApiVersions,
}

impl BrokerConnection {
    /// Connects, logs in and asks for the supported versions. `read_timeout` bounds each wait for
    /// bytes.
    pub(super) fn open(
        security: &Arc<BrokerSecurity>,
        (host, port): &Address,
        client_id: &str,
        (connect_timeout, read_timeout): (Duration, Duration),
    ) -> Result<Self, ConnectError> {
        let mut stream = BrokerStream::connect(security, (host, *port), connect_timeout)?;
        stream.set_read_timeout(read_timeout)?;
        let request = ApiVersions::request();
        let body = stream.exchange(client_id, api_versions::VERSION, &request)?;
        let versions = ApiVersions::read(&body).map_err(|error| stream.invalid(error))?;
        if versions.error != 0 {
            let reason = format!("error code {} of ApiVersions", versions.error);
            return Err(stream.failed(std::io::Error::other(reason)));
        }
        if !versions.supports(ApiKey::Fetch, fetch_request::NAME_VERSION) {
            return Err(stream.failed(std::io::Error::other(TOO_OLD)));
        }
        Ok(Self { stream, versions })
    }

    pub(super) fn supports(&self, key: ApiKey, version: i16) -> bool {
        self.versions.supports(key, version)
    }

    /// Sends a request and returns the body of its response.
    pub(super) fn exchange<R: Request>(
        &mut self,
        client_id: &str,
        version: i16,
        body: &R,
    ) -> Result<Bytes, ConnectError> {
        self.stream.exchange(client_id, version, body)
    }

    /// Sends the request that `write` encodes with a correlation id, and reads the response with
    /// its header into `buffer`. Returns that id and the length of the frame.
    pub(super) fn exchange_into(
        &mut self,
        client_id: &str,
        (buffer, bytes_max): (&mut Vec<u8>, usize),
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
    ) -> Result<(i32, usize), ConnectError> {
        (self.stream).exchange_into(client_id, (buffer, bytes_max), write)
    }

    /// Returns an error of this connection.
    pub(super) fn failed(&self, error: std::io::Error) -> ConnectError {
        self.stream.failed(error)
    }

    /// Returns an error of this broker for an invalid response.
    pub(super) fn invalid(&self, error: WireError) -> ConnectError {
        self.stream.invalid(error)
    }

    /// Returns a handle by which another thread can close the connection.
    pub(super) fn socket(&self) -> Result<TcpStream, ConnectError> {
        self.stream.socket()
    }
}

const TOO_OLD: &str = "the broker is older than Kafka 2.3: set reader = \"librdkafka\" in [kafka]";
