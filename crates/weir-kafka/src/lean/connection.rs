//! A consumer's connection to one broker: paced, counted, and watched for errors that end the run.
//! Fetchers and group members each have their own.

use std::time::Duration;

use bytes::BytesMut;

use super::error::LeanError;
use super::link::{BrokerAddress, BrokerLink};
use super::sink::LeanSink;
use super::state::LeanState;
use weir_wire::EncodeError;

pub(super) struct BrokerConnection {
    link: BrokerLink,
    consumer: usize,
    /// The broker is known to accept this program.
    is_accepted: bool,
}

impl BrokerConnection {
    /// Connects for `consumer` at the rate of the pacer. Responses may have up to `frame_bytes_max`
    /// bytes.
    pub(super) async fn open<S: LeanSink>(
        shared: &LeanState<S>,
        consumer: usize,
        address: &BrokerAddress,
        frame_bytes_max: usize,
    ) -> Result<Self, LeanError> {
        shared.pacer.wait().await;
        let sources = &shared.config.source_addresses;
        let source = sources.get(consumer % sources.len().max(1)).copied();
        let opening = BrokerLink::open(
            &shared.links,
            address,
            source,
            frame_bytes_max,
            CONNECT_TIMEOUT,
        );
        let link = opening.await;
        let link = link.inspect_err(|error| shared.end_if_rejected(address, error))?;
        shared.count(|report| report.connections += 1);
        Ok(Self {
            link,
            consumer,
            is_accepted: false,
        })
    }

    pub(super) fn address(&self) -> &BrokerAddress {
        self.link.address()
    }

    /// Sends one request and reads its response. The broker may delay the response by `max_wait`.
    pub(super) async fn exchange<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        max_wait: Duration,
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
        read: impl FnMut(&[u8]) -> Result<(), LeanError>,
    ) -> Result<(), LeanError> {
        let consumer = self.consumer;
        let count = |bytes| shared.on_bytes(consumer, bytes);
        let exchange = self
            .link
            .exchange(&shared.links, max_wait, write, read, count);
        let outcome = exchange.await;
        if !self.is_accepted {
            // With TLS 1.3 a broker rejects a client certificate after the handshake.
            match &outcome {
                Ok(()) => shared.accepted_by(self.link.address()),
                Err(error) => shared.end_if_rejected(self.link.address(), error),
            }
            self.is_accepted = outcome.is_ok();
        }
        outcome
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
