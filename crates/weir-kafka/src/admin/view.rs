//! Requests the state of a topic from one broker, over a separate connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::change::{CLIENT_ID, UNKNOWN_TOPIC_OR_PARTITION};
use crate::connect_error::ConnectError;
use crate::exchange::BrokerStream;
use crate::secure::BrokerSecurity;
use weir_wire::metadata::{self, BrokerAddress};

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
    security: &Arc<BrokerSecurity>,
    broker: &BrokerAddress,
    topic: &str,
    timeout: Duration,
) -> Result<TopicView, ConnectError> {
    let address = (broker.host.as_str(), broker.port);
    let mut stream = BrokerStream::connect(security, address, timeout)?;
    let request = metadata::request([topic]);
    let body = stream.exchange(CLIENT_ID, metadata::VERSION, &request)?;
    let read = metadata::read(&body, topic);
    let read = read.map_err(|error| stream.failed(std::io::Error::other(error)))?;
    let Some(topic) = read.topic else {
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
