//! Runs Weir's consumer through one subject: all records of a topic at the maximum rate.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_kafka::{IngestConfig, KafkaIngest, LentRecord, StartFrom};
use weir_stats::run::Cell;

use super::context::{ClientSide, OverheadContext, RunFailure};
use super::measure::ResourceMeter;
use super::servers::Server;

/// Reads `records` records of `topic` and sets the results of the cell.
pub(super) fn run(
    context: &OverheadContext<'_>,
    server: &Server,
    (topic, records): (&str, u64),
    cell: &mut Cell,
) -> Result<(), RunFailure> {
    let mut meter = ResourceMeter::start(server, context.broker_pids, context.clock);
    // The consumer runs in this process.
    meter.client(ClientSide::Consume.name(), std::process::id());
    let failed = |error: weir_kafka::SourceError| RunFailure::Failed(error.to_string());
    let mut source = KafkaIngest::start(&IngestConfig {
        bootstrap_servers: server.address.clone(),
        client_id: "weir-bench-consume".to_owned(),
        topics: vec![topic.to_owned()],
        from: StartFrom::Earliest,
        properties: vec![("check.crcs".to_owned(), "true".to_owned())],
        ..IngestConfig::default()
    })
    .map_err(failed)?;
    let mut reader = source.reader();
    let mut batch: Vec<LentRecord<'_>> = Vec::with_capacity(RECORDS_PER_POLL);
    let (mut seen, mut bytes) = (0_u64, 0_u64);
    let (mut first, mut last) = (None, Instant::now());
    while seen < records {
        if context.stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        if last.elapsed() > IDLE_TIMEOUT {
            return Err(RunFailure::Failed(format!(
                "received {seen} of {records} records, then none for {} s",
                IDLE_TIMEOUT.as_secs()
            )));
        }
        batch.clear();
        reader
            .poll(POLL, RECORDS_PER_POLL, &mut batch)
            .map_err(failed)?;
        for lent in &batch {
            let record = lent.record(&mut 0);
            bytes += record.value.map_or(0, <[u8]>::len) as u64;
        }
        if !batch.is_empty() {
            // Time starts with the first batch, which does not count: the assignment is not part of
            // fetching.
            last = Instant::now();
            first.get_or_insert((last, bytes, batch.len() as u64));
            seen += batch.len() as u64;
        }
        meter.sample();
    }
    meter.finish(cell, bytes);
    let Some((start, bytes_before, records_before)) = first else {
        return Ok(());
    };
    let seconds = last.duration_since(start).as_secs_f64().max(1e-3);
    let per_s = (seen - records_before) as f64 / seconds;
    let mib = (bytes - bytes_before) as f64 / f64::from(1 << 20) / seconds;
    cell.hold_s = seconds;
    cell.record_bytes_mean = Some(bytes as f64 / seen.max(1) as f64);
    cell.achieved_records_per_s = Some(per_s);
    cell.figures.insert("records_per_s".to_owned(), per_s);
    cell.figures.insert("mib_per_s".to_owned(), mib);
    Ok(())
}

const RECORDS_PER_POLL: usize = 500;
const POLL: Duration = Duration::from_millis(50);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
