//! Traces of sampled records, from Kafka to the inboxes of the shards.

use std::sync::Arc;
use std::time::Instant;

use weir_mapping::RecordView;
use weir_net::otlp::{ActiveTrace, Attributes, Sampler, SpanKind, TraceParent, unix_ns};

/// Begins the traces of one worker's records.
#[derive(Debug)]
pub(crate) struct RecordTraces {
    pub(crate) sampler: Sampler,
    /// Name of the Kafka connection.
    pub(crate) connection: String,
}

impl RecordTraces {
    /// Returns the trace of a mapped record if it is sampled. Its batch was taken at `taken`.
    pub(crate) fn begin(
        &self,
        record: &RecordView<'_>,
        taken: Instant,
    ) -> Option<Arc<ActiveTrace>> {
        let mut trace = self.sampler.select(|| parent(record))?;
        let now_ns = unix_ns();
        let since = u64::try_from(taken.elapsed().as_nanos()).unwrap_or(0);
        let taken_ns = now_ns.saturating_sub(since);
        let record_ns = u64::try_from(record.timestamp_ms).ok();
        let record_ns = record_ns.and_then(|ms| ms.checked_mul(1_000_000));
        // The clock of the producer may be ahead.
        let record_ns = record_ns.map_or(taken_ns, |ns| ns.min(taken_ns));
        let attributes = self.attributes(record);
        trace.begin("record", SpanKind::Consumer, record_ns, attributes);
        trace.add("read", (record_ns, taken_ns), []);
        trace.add("map", (taken_ns, now_ns), []);
        Some(Arc::new(trace))
    }

    fn attributes(&self, record: &RecordView<'_>) -> Attributes {
        let partition = record.partition.to_string();
        vec![
            ("messaging.system", "kafka".into()),
            ("messaging.operation.type", "process".into()),
            ("messaging.destination.name", record.topic.into()),
            ("messaging.destination.partition.id", (&*partition).into()),
            ("messaging.kafka.offset", record.offset.into()),
            ("weir.connection", (&*self.connection).into()),
        ]
    }
}

/// Returns the trace of which the record's producer was a part.
fn parent(record: &RecordView<'_>) -> Option<TraceParent> {
    let mut headers = record.headers.iter();
    let (_, value) = headers.find(|(name, _)| *name == TraceParent::HEADER)?;
    TraceParent::parse((*value)?)
}
