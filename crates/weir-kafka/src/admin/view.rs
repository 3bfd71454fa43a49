//! Requests the state of a topic from one broker, over a separate connection.

use std::fmt;
use std::io::Error;
use std::time::Duration;

use crate::exchange::BrokerStream;
use crate::wire::metadata;

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

pub(super) fn request_view(
    host: &str,
    port: i32,
    topic: &str,
    timeout: Duration,
) -> std::io::Result<TopicView> {
    let port = u16::try_from(port).map_err(Error::other)?;
    let mut stream = BrokerStream::connect(host, port, timeout)?;
    let request = metadata::request([topic]);
    let body = stream.exchange("weir-admin", metadata::VERSION, &request)?;
    let Some(topic) = metadata::read(&body, topic).map_err(Error::other)?.topic else {
        return Ok(TopicView::Missing);
    };
    Ok(match topic.error {
        0 => TopicView::Led {
            with_leader: topic.partitions.iter().filter(|it| it.leader >= 0).count(),
            partitions: topic.partitions.len(),
        },
        UNKNOWN_TOPIC_OR_PARTITION => TopicView::Missing,
        code => TopicView::Failed(code),
    })
}

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
