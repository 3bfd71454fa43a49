//! `/dashboard`: a page with the current state of a product and its last hour. The admin thread
//! takes a sample every two seconds; the page requests those that it does not have.
//!
//! A product gives its columns, their values and a script with the titles of charts and tables.
//! Time, CPU usage and memory are measured here.

mod host;
mod page;
mod ring;
mod timeline;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

pub use self::timeline::Problem;

use self::ring::{Sample, SampleRing};
use self::timeline::Timeline;
use super::metrics::json_page;
use crate::http1::Response;

/// Time between two samples.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of columns of one kind, such as cores; others are only in the sums.
pub const COLUMNS_MAX: usize = 64;

/// Derivation of a column from the values of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The current value.
    Now,
    /// The increase per second.
    PerSecond,
}

/// Columns and texts of a product.
pub struct DashboardLayout {
    /// Script that defines `PRODUCT`: titles, tiles, charts and tables.
    pub script: &'static str,
    /// Name and kind of each value of [`DashboardSource::read`].
    pub columns: Vec<(String, ColumnKind)>,
    /// Groups of threads with a column `cpu.GROUP` each, in cores.
    pub thread_groups: Vec<String>,
    /// Returns the group of a thread name.
    pub thread_group: fn(&str) -> &str,
}

/// Source of a product's values.
pub trait DashboardSource: Send + 'static {
    /// Appends the current value of each column; NaN if it is unknown.
    fn read(&mut self, values: &mut Vec<f64>);
    /// Returns what is wrong at present, in the order of its importance.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
    /// Returns further facts that the page shows.
    fn facts(&self) -> Map<String, Value>;
}

/// The samples of the last hour and their source.
pub struct Dashboard {
    layout: DashboardLayout,
    source: Box<dyn DashboardSource>,
    columns: Vec<String>,
    ring: SampleRing,
    timeline: Timeline,
    started: Instant,
    started_unix: Duration,
    last: LastSample,
}

struct LastSample {
    at: Instant,
    values: Vec<f64>,
    /// CPU time of each group of threads, in clock ticks.
    groups: Vec<u64>,
    cores: Vec<[u64; 2]>,
}

impl Dashboard {
    /// Creates a dashboard without samples.
    pub fn new(layout: DashboardLayout, mut source: impl DashboardSource) -> Self {
        let now = Instant::now();
        let mut cores = host::cores();
        // The number of columns is constant, even if cores go offline.
        cores.truncate(COLUMNS_MAX);
        let names = layout.columns.iter().map(|(name, _)| name.clone());
        let mut columns = vec!["seconds".to_owned()];
        columns.extend(names);
        columns.extend(["resident", "anonymous"].map(str::to_owned));
        columns.extend(
            layout
                .thread_groups
                .iter()
                .map(|name| format!("cpu.{name}")),
        );
        columns.extend((0..cores.len()).map(|number| format!("core.{number}")));
        let mut values = Vec::new();
        source.read(&mut values);
        let started_unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            timeline: Timeline::new(started_unix.as_millis() as u64, source.problems()),
            last: LastSample {
                at: now,
                values,
                groups: group_ticks(&layout),
                cores,
            },
            layout,
            source: Box::new(source),
            columns,
            ring: SampleRing::default(),
            started: now,
            started_unix,
        }
    }

    /// Takes a sample; must be called every [`SAMPLE_INTERVAL`] with the numbers of successful and
    /// failed reloads of certificates.
    pub(super) fn sample(&mut self, reloads: [u64; 2]) {
        let now = Instant::now();
        let now_ms = (self.started_unix + (now - self.started)).as_millis() as u64;
        let problems = self.source.problems();
        self.timeline.update(now_ms, problems, reloads);
        let seconds = (now - self.last.at).as_secs_f32().max(0.001);
        self.last.at = now;
        // Seconds since the start, which an f32 represents exactly for years.
        let mut sample: Sample = vec![(now - self.started).as_secs_f32()];
        let mut values = Vec::with_capacity(self.layout.columns.len());
        self.source.read(&mut values);
        let columns = self.layout.columns.iter().zip(&values);
        sample.extend(
            columns
                .zip(&self.last.values)
                .map(|(((_, kind), now), last)| match kind {
                    ColumnKind::Now => *now as f32,
                    ColumnKind::PerSecond => (now - last).max(0.0) as f32 / seconds,
                }),
        );
        self.last.values = values;
        let bytes = host::memory().map(|both| both.map(|bytes| bytes as f32));
        sample.extend(bytes.unwrap_or([f32::NAN; 2]));
        let groups = group_ticks(&self.layout);
        let ticks_per_s = procfs::ticks_per_second() as f32;
        sample.extend(
            groups
                .iter()
                .zip(&self.last.groups)
                .map(|(now, last)| now.saturating_sub(*last) as f32 / ticks_per_s / seconds),
        );
        self.last.groups = groups;
        let cores = host::cores();
        for (number, last) in self.last.cores.iter_mut().enumerate() {
            let [busy, all] = cores.get(number).copied().unwrap_or_default();
            let passed = all.saturating_sub(last[1]);
            let busy_ticks = busy.saturating_sub(last[0]);
            sample.push(match passed {
                0 => f32::NAN,
                _ => busy_ticks as f32 / passed as f32,
            });
            if all > 0 {
                *last = [busy, all];
            }
        }
        self.ring.push(sample);
    }

    pub(super) fn part(&self, path: &str) -> Option<Response> {
        page::part(path, self.layout.script)
    }

    /// Returns the current state and the samples after the number in the query `after=NUMBER`,
    /// which the page already has.
    pub(super) fn samples(&self, query: &str, draining: bool) -> Response {
        let after = query.strip_prefix("after=");
        let after = after.and_then(|number| number.parse().ok()).unwrap_or(0);
        let (rows, next) = self.ring.after(after);
        // A clock that does not jump.
        let now = self.started_unix + self.started.elapsed();
        let mut response = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "started_unix_ms": self.started_unix.as_millis() as u64,
            "now_unix_ms": now.as_millis() as u64,
            "period_ms": SAMPLE_INTERVAL.as_millis() as u64,
            "draining": draining,
            "problems": self.timeline.problems(),
            "events": self.timeline.events(),
            "log": crate::log::recent_lines(),
            "columns": self.columns,
            "rows": rows,
            "next": next,
        });
        if let Some(response) = response.as_object_mut() {
            response.extend(self.source.facts());
        }
        json_page(response.to_string())
    }
}

/// Returns the CPU time of each group of threads, in clock ticks.
fn group_ticks(layout: &DashboardLayout) -> Vec<u64> {
    let mut ticks = vec![0; layout.thread_groups.len()];
    for (name, used) in host::threads() {
        let group = (layout.thread_group)(&name);
        let number = layout.thread_groups.iter().position(|one| one == group);
        if let Some(number) = number {
            ticks[number] += used;
        }
    }
    ticks
}
