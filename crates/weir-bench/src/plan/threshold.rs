//! Declared limits on results: one metric of one architecture, alone or relative to another.

use serde::Deserialize;
use weir_stats::metric;
use weir_stats::run::{Cell, Repetitions, ThresholdResult};

use super::Architecture;

/// A limit that decides the exit code.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// What is looked at.
    pub metric: ThresholdMetric,
    /// Whose.
    pub of: Architecture,
    /// If given, the figure is the ratio to this architecture's at the same level.
    pub relative_to: Option<Architecture>,
    /// The level it holds for; absent: every level measured.
    pub clients: Option<u64>,
    /// Only the highest level that both held, and only if `relative_to` did not hold the next one:
    /// its end was reached.
    #[serde(default)]
    pub highest: bool,
    /// The limit.
    pub at_most: f64,
}

/// Figures a threshold can look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdMetric {
    /// Processor time of the delivering role for each delivery.
    CpuUsPerDelivered,
    /// Mean response time.
    ResponseMeanMs,
    /// 99th percentile of the response time.
    ResponseP99Ms,
    /// Bytes that a client receives for each delivery.
    ReceivedBytesPerDelivered,
    /// Deliveries that never arrived.
    Lost,
    /// User memory of the delivering role for each client.
    UserMemoryPerClientBytes,
}

impl ThresholdMetric {
    fn name(self) -> &'static str {
        match self {
            Self::CpuUsPerDelivered => "cpu_us_per_delivered",
            Self::ResponseMeanMs => "response_mean_ms",
            Self::ResponseP99Ms => "response_p99_ms",
            Self::ReceivedBytesPerDelivered => "received_bytes_per_delivered",
            Self::Lost => "lost",
            Self::UserMemoryPerClientBytes => "user_memory_per_client_bytes",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::CpuUsPerDelivered => "us",
            Self::ResponseMeanMs | Self::ResponseP99Ms => "ms",
            Self::Lost => "deliveries",
            Self::ReceivedBytesPerDelivered | Self::UserMemoryPerClientBytes => "bytes",
        }
    }

    /// The value over all repetitions, as tables show it: losses are summed.
    fn of(self, repetitions: &Repetitions<'_>) -> Option<f64> {
        let metric = metric::Metric::named(self.name())?;
        match self {
            Self::Lost => {
                let values = repetitions.valid().filter_map(|cell| metric.of(cell));
                values.reduce(|a, b| a + b)
            }
            _ => repetitions.mean(|cell| metric.of(cell)),
        }
    }
}

/// Looks at the valid cells of a run. A threshold whose level was not part of the run is left out;
/// one whose level was, but has no figure, does not hold.
pub fn evaluate(thresholds: &[Threshold], cells: &[Cell]) -> Vec<ThresholdResult> {
    thresholds
        .iter()
        .flat_map(|threshold| threshold.evaluate(cells))
        .collect()
}

impl Threshold {
    fn evaluate(&self, cells: &[Cell]) -> Vec<ThresholdResult> {
        let name = self.of.name();
        let of_us = cells.iter().filter(|cell| cell.architecture == name);
        let mut levels: Vec<u64> = of_us.map(|cell| cell.clients).collect();
        levels.sort_unstable();
        levels.dedup();
        levels.retain(|level| self.clients.is_none_or(|clients| clients == *level));
        if self.highest {
            let end = levels
                .iter()
                .position(|level| !self.held_by_other(*level, cells));
            levels.truncate(end.unwrap_or(0));
            levels.retain(|level| is_held(self.of, *level, cells));
            levels = levels.split_off(levels.len().saturating_sub(1));
        }
        levels
            .into_iter()
            .map(|level| self.at_level(level, cells))
            .collect()
    }

    fn held_by_other(&self, clients: u64, cells: &[Cell]) -> bool {
        let other = self.relative_to.unwrap_or(self.of);
        is_held(other, clients, cells)
    }

    fn at_level(&self, clients: u64, cells: &[Cell]) -> ThresholdResult {
        let (metric, us) = (self.metric.name(), self.of.name());
        let own = self.value(self.of, clients, cells);
        let (expression, actual, unit) = match self.relative_to {
            None => (format!("{us}.{metric}"), own, self.metric.unit()),
            Some(other) => {
                let base = self.value(other, clients, cells).filter(|base| *base > 0.0);
                let ratio = own.zip(base).map(|(own, base)| own / base);
                (
                    format!("{us}.{metric} / {}.{metric}", other.name()),
                    ratio,
                    "x",
                )
            }
        };
        ThresholdResult {
            expression: format!("{expression} <= {}", self.at_most),
            scope: format!("{clients} clients"),
            actual,
            limit: self.at_most,
            unit: unit.to_owned(),
            passed: actual.is_some_and(|actual| actual <= self.at_most),
        }
    }

    fn value(&self, architecture: Architecture, clients: u64, cells: &[Cell]) -> Option<f64> {
        self.metric.of(&repetitions(architecture, clients, cells))
    }
}

fn repetitions(architecture: Architecture, clients: u64, cells: &[Cell]) -> Repetitions<'_> {
    let name = architecture.name();
    let same = |cell: &&Cell| cell.architecture == name && cell.clients == clients;
    Repetitions {
        cells: cells.iter().filter(same).collect(),
    }
}

fn is_held(architecture: Architecture, clients: u64, cells: &[Cell]) -> bool {
    repetitions(architecture, clients, cells).is_held()
}
