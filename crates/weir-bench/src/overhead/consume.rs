//! Our consumer through one subject: all records of a topic, as fast as they come.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_kafka::{IngestConfig, KafkaIngest, LentRecord, StartFrom};
use weir_stats::run::Cell;

use super::measure::ResourceMeter;
use super::servers::Server;
use super::{ClientSide, OverheadContext, RunFailure};

/// Reads `records` records of `topic` and fills the cell in.
pub(super) fn run(
    context: &OverheadContext<'_>,
    server: &Server,
    (topic, records): (&str, u64),
    cell: &mut Cell,
) -> Result<(), RunFailure> {
    let mut meter = ResourceMeter::start(server, context.broker_pids, context.clock);
    // The consumer is a part of this program.
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
        if last.elapsed() > SILENCE_MAX {
            return Err(RunFailure::Failed(format!(
                "{seen} of {records} records came, then nothing for {} s",
                SILENCE_MAX.as_secs()
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
            // The clock starts with the first records, which do not count: joining is not fetching.
            last = Instant::now();
            first.get_or_insert((last, bytes, batch.len() as u64));
            seen += batch.len() as u64;
        }
        meter.turn();
    }
    meter.finish(cell, bytes);
    let Some((begin, bytes_before, records_before)) = first else {
        return Ok(());
    };
    let seconds = last.duration_since(begin).as_secs_f64().max(1e-3);
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
const SILENCE_MAX: Duration = Duration::from_secs(60);
