//! Asks one broker, over its own connection, how it sees a topic.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;

use crate::wire::WireError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::read_response_v0;
use crate::wire::metadata::{self, Metadata};

/// A topic in the eyes of one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopicView {
    /// Not there.
    Missing,
    /// There, with so many of its partitions led.
    Led {
        with_leader: usize,
        partitions: usize,
    },
    /// There, but with this Kafka error code.
    Failed(i16),
}

impl fmt::Display for TopicView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("topic missing"),
            Self::Led {
                with_leader,
                partitions,
            } => write!(f, "{with_leader} of {partitions} partitions led"),
            Self::Failed(code) => write!(f, "kafka error code {code}"),
        }
    }
}

/// Asks the broker at `host:port` about `topic`.
pub(super) fn ask(
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
        .ok_or_else(|| std::io::Error::other("the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut request = BytesMut::new();
    metadata::write(&mut request, 1, "weir-admin", topic).map_err(std::io::Error::other)?;
    stream.write_all(&request)?;
    read_answer(&mut stream, topic)
}

fn read_answer(stream: &mut TcpStream, topic: &str) -> std::io::Result<Metadata> {
    let mut frames = KafkaFrameReader::new(FRAME_BYTES_MAX);
    let mut buffer = vec![0; 16 << 10];
    let mut answer = None;
    while answer.is_none() {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        frames
            .feed::<WireError>(&buffer[..count], |frame| {
                let (_, body) = read_response_v0(frame)?;
                answer = Some(metadata::read(body, topic)?);
                Ok(())
            })
            .map_err(std::io::Error::other)?;
    }
    answer.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

const FRAME_BYTES_MAX: usize = 16 << 20;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
