//! Requests the state of a topic from one broker, over a separate connection.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;

use crate::wire::WireError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::read_response_v0;
use crate::wire::metadata::{self, Metadata};

/// State of a topic as one broker reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopicView {
    /// The topic does not exist.
    Missing,
    /// The topic exists; `with_leader` of its `partitions` have a leader.
    Led {
        with_leader: usize,
        partitions: usize,
    },
    /// The topic has this Kafka error code.
    Failed(i16),
}

impl fmt::Display for TopicView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("topic missing"),
            Self::Led {
                with_leader,
                partitions,
            } => write!(f, "{with_leader} of {partitions} partitions have a leader"),
            Self::Failed(code) => write!(f, "Kafka error code {code}"),
        }
    }
}

/// Requests the state of `topic` from the broker at `host:port`.
pub(super) fn request_view(
    host: &str,
    port: i32,
    topic: &str,
    timeout: Duration,
) -> Result<TopicView, String> {
    let text = |error: &dyn fmt::Display| format!("{host}:{port}: {error}");
    let metadata = exchange(host, port, topic, timeout).map_err(|error| text(&error))?;
    Ok(view(&metadata))
}

fn view(metadata: &Metadata) -> TopicView {
    let Some(topic) = &metadata.topic else {
        return TopicView::Missing;
    };
    match topic.error {
        0 => TopicView::Led {
            with_leader: topic.partitions.iter().filter(|it| it.leader >= 0).count(),
            partitions: topic.partitions.len(),
        },
        UNKNOWN_TOPIC_OR_PARTITION => TopicView::Missing,
        code => TopicView::Failed(code),
    }
}

fn exchange(host: &str, port: i32, topic: &str, timeout: Duration) -> std::io::Result<Metadata> {
    let port = u16::try_from(port).map_err(std::io::Error::other)?;
    let mut addresses = (host, port).to_socket_addrs()?;
    let address = addresses
        .next()
        .ok_or_else(|| std::io::Error::other("host name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut request = BytesMut::new();
    metadata::write(&mut request, 1, "weir-admin", topic).map_err(std::io::Error::other)?;
    stream.write_all(&request)?;
    read_response(&mut stream, topic)
}

fn read_response(stream: &mut TcpStream, topic: &str) -> std::io::Result<Metadata> {
    let mut frames = KafkaFrameReader::new(FRAME_BYTES_MAX);
    let mut buffer = vec![0; 16 << 10];
    let mut response = None;
    while response.is_none() {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        frames
            .feed::<WireError>(&buffer[..count], |frame| {
                let (_, body) = read_response_v0(frame)?;
                response = Some(metadata::read(body, topic)?);
                Ok(())
            })
            .map_err(std::io::Error::other)?;
    }
    response.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

const FRAME_BYTES_MAX: usize = 16 << 20;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
