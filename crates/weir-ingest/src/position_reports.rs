//! Reports of positions, which the reading thread posts after the records before them.

use std::time::{Duration, Instant};

use weir_fanout::{LayoutTopic, PositionReport};
use weir_kafka::{KafkaReader, TopicPositions};
use weir_mapping::OrderStrategy;

use crate::connection::KafkaConnection;
use crate::worker_pool::InFlightBatches;

/// Minimum time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(10);

/// Reports of one reading thread. A report is posted after all records before it.
pub(crate) struct PositionReporter {
    reported: u64,
    reported_at: Instant,
    pending: Option<(PositionReport, InFlightBatches)>,
}

impl PositionReporter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            reported: 0,
            reported_at: now.checked_sub(REPORT_INTERVAL).unwrap_or(now),
            pending: None,
        }
    }

    /// Returns the report that is due after records were passed to the workers. `requested` is the
    /// number of the last request before they were polled, and `in_flight` are their batches.
    pub(crate) fn report(
        &mut self,
        (connection, number): (&KafkaConnection, u16),
        reader: &KafkaReader<'_>,
        requested: u64,
        in_flight: impl FnOnce() -> InFlightBatches,
    ) -> Option<PositionReport> {
        if let Some((report, pending)) = self.pending.take() {
            if pending.is_done() {
                return Some(report);
            }
            self.pending = Some((report, pending));
            return None;
        }
        if requested == self.reported {
            return None;
        }
        let now = Instant::now();
        if now < self.reported_at + REPORT_INTERVAL {
            return None;
        }
        // Requests wait until all positions are known.
        let positions = reader.topic_positions()?;
        (self.reported, self.reported_at) = (requested, now);
        let report = make_report(connection, number, requested, positions);
        let in_flight = in_flight();
        if in_flight.is_done() {
            return Some(report);
        }
        self.pending = Some((report, in_flight));
        None
    }
}

fn make_report(
    connection: &KafkaConnection,
    number: u16,
    requested: u64,
    mut positions: Vec<TopicPositions>,
) -> PositionReport {
    positions.sort_by(|one, other| one.name.cmp(&other.name));
    let topics = positions.iter().map(|topic| LayoutTopic {
        name: topic.name.as_str().into(),
        id: topic.id,
        partitions: topic.next.len() as u32,
    });
    let topics = match has_order(connection) {
        true => topics.collect(),
        false => Vec::new(),
    };
    PositionReport {
        connection: number,
        number: requested,
        layout: connection.positions.update(&connection.config.name, topics),
        next: positions.into_iter().flat_map(|topic| topic.next).collect(),
    }
}

/// Returns `true` if the records of a partition are posted in their order, so that all records
/// before a posted one have been posted.
fn has_order(connection: &KafkaConnection) -> bool {
    connection.workers.len() == 1 || connection.config.order_strategy == OrderStrategy::ByPartition
}
