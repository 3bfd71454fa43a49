//! One socket to one broker: a request, then its answer. Links and group members each have their own.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::{TcpSocket, TcpStream};

use super::state::LeanState;
use super::{LeanError, LeanSink};
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
    /// Connects for `consumer` when its turn comes; answers may have `frame_bytes_max` bytes.
    pub(super) async fn open<S: LeanSink>(
        shared: &LeanState<S>,
        consumer: usize,
        address: SocketAddr,
        frame_bytes_max: usize,
    ) -> Result<Self, LeanError> {
        shared.pacer.turn().await;
        let sources = &shared.config.source_addresses;
        let source = sources.get(consumer % sources.len().max(1)).copied();
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(address, source));
        let stream = match connecting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(lost(address, &error)),
            Err(_) => return Err(lost(address, &"no connection in time")),
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

    /// Sends one request and reads its answer, which the broker may hold for `held`.
    pub(super) async fn exchange<S: LeanSink>(
        &mut self,
        shared: &LeanState<S>,
        held: Duration,
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
                Err(error) => return Err(lost(self.address, &error)),
            }
        };
        if !unsent.is_empty() {
            self.send_rest(&unsent).await?;
        }
        let answer = self.receive(shared, &mut read);
        match tokio::time::timeout(held + ANSWER_TIMEOUT, answer).await {
            Ok(outcome) => outcome,
            Err(_) => Err(lost(self.address, &"no answer in time")),
        }
    }

    async fn send_rest(&self, mut bytes: &[u8]) -> Result<(), LeanError> {
        while !bytes.is_empty() {
            let ready = self.stream.writable().await;
            ready.map_err(|error| lost(self.address, &error))?;
            match self.stream.try_write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(lost(self.address, &error)),
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
            ready.map_err(|error| lost(address, &error))?;
            let mut buffer = shared.read_buffer.borrow_mut();
            let count = match self.stream.try_read(&mut buffer) {
                Ok(0) => return Err(lost(address, &"closed by the broker")),
                Ok(count) => count,
                Err(error) if would_block(&error) => continue,
                Err(error) => return Err(lost(address, &error)),
            };
            shared.on_bytes(self.consumer, count);
            let mut answered = false;
            self.frames.feed(&buffer[..count], |frame| {
                let (id, body) = read_response_v0(frame)?;
                if id != expected || answered {
                    return Err(lost(address, &"an answer that was not asked for"));
                }
                answered = true;
                read(body)
            })?;
            if answered {
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

fn lost(address: SocketAddr, reason: &dyn ToString) -> LeanError {
    LeanError::Connection {
        address: address.to_string(),
        reason: reason.to_string(),
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Beyond the time a broker may hold an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
