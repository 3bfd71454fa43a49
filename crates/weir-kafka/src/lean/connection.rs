//! A connection to one broker that sends one request at a time and reads its response. Fetchers and
//! group members each have their own.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpSocket, TcpStream};

use super::error::LeanError;
use super::sink::LeanSink;
use super::state::LeanState;
use crate::wire::EncodeError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::read_response_v0;

pub(super) struct BrokerConnection {
    stream: TcpStream,
    frames: KafkaFrameReader,
    consumer: usize,
    correlation_id: i32,
    address: SocketAddr,
}

impl BrokerConnection {
    /// Connects for `consumer` at the rate of the pacer. Responses may have up to `frame_bytes_max`
    /// bytes.
    pub(super) async fn open<S: LeanSink>(
        shared: &LeanState<S>,
        consumer: usize,
        address: SocketAddr,
        frame_bytes_max: usize,
    ) -> Result<Self, LeanError> {
        shared.pacer.wait().await;
        let sources = &shared.config.source_addresses;
        let source = sources.get(consumer % sources.len().max(1)).copied();
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(address, source));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(connection_error(address, &error)),
            Err(_) => return Err(connection_error(address, &"connect timed out")),
        };
        shared.count(|report| report.connections += 1);
        Ok(Self {
            stream,
            frames: KafkaFrameReader::new(frame_bytes_max),
            consumer,
            correlation_id: 0,
            address,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends one request and reads its response. The broker may delay the response by `max_wait`.
    pub(super) async fn exchange<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        max_wait: Duration,
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
        mut read: impl FnMut(&[u8]) -> Result<(), LeanError>,
    ) -> Result<(), LeanError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let unsent = {
            let mut out = shared.write_buffer.borrow_mut();
            out.clear();
            write(&mut out, self.correlation_id)?;
            match self.stream.try_write(&out) {
                Ok(sent) if sent == out.len() => Vec::new(),
                Ok(sent) => out[sent..].to_vec(),
                Err(error) if would_block(&error) => out.to_vec(),
                Err(error) => return Err(connection_error(self.address, &error)),
            }
        };
        if !unsent.is_empty() {
            self.send_remaining(&unsent).await?;
        }
        let response = self.receive(shared, &mut read);
        match tokio::time::timeout(max_wait + RESPONSE_TIMEOUT, response).await {
            Ok(outcome) => outcome,
            Err(_) => Err(connection_error(
                self.address,
                &"no response before the timeout",
            )),
        }
    }

    async fn send_remaining(&self, mut bytes: &[u8]) -> Result<(), LeanError> {
        while !bytes.is_empty() {
            let ready = self.stream.writable().await;
            ready.map_err(|error| connection_error(self.address, &error))?;
            match self.stream.try_write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(connection_error(self.address, &error)),
            }
        }
        Ok(())
    }

    async fn receive<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        read: &mut impl FnMut(&[u8]) -> Result<(), LeanError>,
    ) -> Result<(), LeanError> {
        let expected = self.correlation_id;
        let address = self.address;
        loop {
            let ready = self.stream.readable().await;
            ready.map_err(|error| connection_error(address, &error))?;
            let mut buffer = shared.read_buffer.borrow_mut();
            let count = match self.stream.try_read(&mut buffer) {
                Ok(0) => return Err(connection_error(address, &"closed by the broker")),
                Ok(count) => count,
                Err(error) if would_block(&error) => continue,
                Err(error) => return Err(connection_error(address, &error)),
            };
            shared.on_bytes(self.consumer, count);
            let mut received = false;
            self.frames.feed(&buffer[..count], |frame| {
                let (id, body) = read_response_v0(frame)?;
                if id != expected || received {
                    return Err(connection_error(
                        address,
                        &"response without a matching request",
                    ));
                }
                received = true;
                read(body)
            })?;
            if received {
                return Ok(());
            }
        }
    }
}

async fn connect(address: SocketAddr, source: Option<IpAddr>) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn would_block(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}

fn connection_error(address: SocketAddr, reason: &dyn ToString) -> LeanError {
    LeanError::Connection {
        address: address.to_string(),
        reason: reason.to_string(),
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a response, in addition to the time the broker may delay it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
