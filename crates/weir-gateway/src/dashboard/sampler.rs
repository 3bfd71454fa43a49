//! Takes samples: current metrics and their increase since the previous sample.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::columns::{CONNECTIONS, ColumnSource, LAG, SHARDS};
use super::procfs::{self, CoreTicks, TICKS_PER_S, Thread};
use super::ring::Sample;
use crate::counters::UNKNOWN;
use crate::latency::AgeHistogram;
use crate::metrics::MetricSources;

/// Maximum number of shards and of cores with a column; others are only in the sums.
const COLUMNS_MAX: usize = 64;

/// State of the previous sample.
#[derive(Debug)]
pub(super) struct DashboardSampler {
    columns: Vec<String>,
    started: Instant,
    started_unix: Duration,
    last: Instant,
    shards: Vec<u64>,
    connections: Vec<u64>,
    limits: u64,
    latency: AgeHistogram,
    threads: Vec<Thread>,
    cores: Vec<CoreTicks>,
}

impl DashboardSampler {
    pub(super) fn new(sources: &MetricSources) -> Self {
        let now = Instant::now();
        let cores = procfs::cores();
        Self {
            columns: columns(sources, cores.len()),
            started: now,
            started_unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            last: now,
            shards: SHARDS
                .iter()
                .map(|(.., metric)| sources.of_shards(metric))
                .collect(),
            connections: CONNECTIONS
                .iter()
                .map(|(.., metric)| sources.of_connections(metric))
                .collect(),
            limits: limits(sources),
            latency: sources.latency(),
            threads: procfs::threads(),
            cores,
        }
    }

    /// Returns the names of the values of a sample, in order.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the current time, from a clock that does not jump.
    pub(super) fn unix_ms(&self) -> u64 {
        let unix = self.started_unix + self.started.elapsed();
        u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn sample(&mut self, sources: &MetricSources) -> Sample {
        let now = Instant::now();
        let seconds = (now - self.last).as_secs_f32().max(0.001);
        self.last = now;
        let mut sample = Sample::with_capacity(self.columns.len());
        // Seconds since the start, which an f32 represents exactly for years.
        sample.push((now - self.started).as_secs_f32());
        for ((_, how, metric), last) in SHARDS.iter().zip(&mut self.shards) {
            sample.push(value(*how, sources.of_shards(metric), last, seconds));
        }
        for ((_, how, metric), last) in CONNECTIONS.iter().zip(&mut self.connections) {
            sample.push(value(*how, sources.of_connections(metric), last, seconds));
        }
        sample.push(value(
            ColumnSource::PerSecond,
            limits(sources),
            &mut self.limits,
            seconds,
        ));
        self.push_latency(sources, &mut sample);
        let memory = procfs::memory();
        let bytes = |of: fn((u64, u64)) -> u64| memory.map_or(f32::NAN, |both| of(both) as f32);
        sample.push(bytes(|(resident, _)| resident));
        sample.push(bytes(|(_, anonymous)| anonymous));
        self.push_threads(sources.shards.len(), seconds, &mut sample);
        self.push_cores(&mut sample);
        sample.extend(
            sources
                .each_connection(LAG)
                .take(COLUMNS_MAX)
                .map(|lag| match lag {
                    UNKNOWN => f32::NAN,
                    known => known as f32,
                }),
        );
        sample.resize(self.columns.len(), f32::NAN);
        sample
    }

    fn push_latency(&mut self, sources: &MetricSources, sample: &mut Sample) {
        let latency = sources.latency();
        let between = latency.since(&self.latency);
        self.latency = latency;
        for share in [0.5, 0.99, 1.0] {
            sample.push(between.quantile(share).map_or(f32::NAN, |ms| ms as f32));
        }
    }

    /// Adds CPU usage in cores: of each shard, ingest, the Kafka client and all other threads.
    fn push_threads(&mut self, shards: usize, seconds: f32, sample: &mut Sample) {
        let threads = procfs::threads();
        let used = |wanted: &dyn Fn(&str) -> bool| {
            let sum = |threads: &[Thread]| -> u64 {
                let wanted = threads.iter().filter(|thread| wanted(&thread.name));
                wanted.map(|thread| thread.ticks).sum()
            };
            let ticks = sum(&threads).saturating_sub(sum(&self.threads));
            ticks as f32 / TICKS_PER_S / seconds
        };
        for number in 0..shards.min(COLUMNS_MAX) {
            let name = format!("shard-{number}");
            sample.push(used(&|thread| thread == name));
        }
        sample.push(used(&is_ingest));
        sample.push(used(&is_kafka));
        sample.push(used(&|name| {
            !name.starts_with("shard-") && !is_ingest(name) && !is_kafka(name)
        }));
        self.threads = threads;
    }

    /// Adds the utilization of each core of the machine.
    fn push_cores(&mut self, sample: &mut Sample) {
        let cores = procfs::cores();
        let count = self.cores.len().min(COLUMNS_MAX);
        for number in 0..count {
            let (now, last) = (
                cores.get(number).copied().unwrap_or_default(),
                self.cores[number],
            );
            let all = now.all.saturating_sub(last.all);
            let busy = now.busy.saturating_sub(last.busy);
            sample.push(if all > 0 {
                busy as f32 / all as f32
            } else {
                f32::NAN
            });
        }
        // The number of columns is constant, even if cores go offline.
        for (last, now) in self.cores.iter_mut().zip(cores) {
            *last = now;
        }
    }
}

fn is_ingest(name: &str) -> bool {
    ["ingest", "worker", "discovery", "commit"]
        .iter()
        .any(|kind| name.starts_with(kind))
}

fn is_kafka(name: &str) -> bool {
    name.starts_with("rdk:")
}

fn limits(sources: &MetricSources) -> u64 {
    let all = crate::admission::AdmissionLimit::ALL.iter();
    all.map(|limit| sources.admission.hits(*limit)).sum()
}

fn value(how: ColumnSource, now: u64, last: &mut u64, seconds: f32) -> f32 {
    let before = std::mem::replace(last, now);
    match how {
        ColumnSource::Now => now as f32,
        ColumnSource::PerSecond => now.saturating_sub(before) as f32 / seconds,
    }
}

fn columns(sources: &MetricSources, cores: usize) -> Vec<String> {
    let mut columns = vec!["seconds".to_owned()];
    let metrics = SHARDS.iter().chain(CONNECTIONS);
    columns.extend(metrics.map(|(column, ..)| (*column).to_owned()));
    let fixed = [
        "limited",
        "latency_p50",
        "latency_p99",
        "latency_max",
        "resident",
        "anonymous",
    ];
    columns.extend(fixed.map(str::to_owned));
    let shards = sources.shards.len().min(COLUMNS_MAX);
    columns.extend((0..shards).map(|number| format!("cpu.shard-{number}")));
    columns.extend(["cpu.ingest", "cpu.kafka", "cpu.other"].map(str::to_owned));
    columns.extend((0..cores.min(COLUMNS_MAX)).map(|number| format!("core.{number}")));
    let connections = sources.connections.iter().take(COLUMNS_MAX);
    columns.extend(connections.map(|connection| format!("lag.{}", connection.config.name)));
    columns
}
