//! Declared limits on results: a metric of one architecture, absolute or relative to another.

use serde::Deserialize;
use weir_stats::metric::Metric;
use weir_stats::run::{Cell, Repetitions, ThresholdResult, ThresholdStatus};

use super::Architecture;
use crate::experiment::names::names;

/// Declared limit that affects the exit code.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Threshold {
    pub(crate) metric: ThresholdMetric,
    pub(crate) of: Architecture,
    /// If set, the limit applies to the ratio to this architecture's value at the same level.
    pub(crate) relative_to: Option<Architecture>,
    /// Level to which the limit applies; absent: every measured level.
    pub(crate) clients: Option<u64>,
    /// Applies only to the highest level that both architectures sustained, and only if
    /// `relative_to` did not sustain the next one.
    #[serde(default)]
    pub(crate) highest: bool,
    pub(crate) at_most: f64,
}

/// Metrics that a threshold can limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThresholdMetric {
    CpuUsPerDelivered,
    ResponseMeanMs,
    ResponseP99Ms,
    ReceivedBytesPerDelivered,
    Lost,
    UserMemoryPerClientBytes,
}

names!(ThresholdMetric, "metric": CpuUsPerDelivered = "cpu_us_per_delivered",
    ResponseMeanMs = "response_mean_ms", ResponseP99Ms = "response_p99_ms",
    ReceivedBytesPerDelivered = "received_bytes_per_delivered", Lost = "lost",
    UserMemoryPerClientBytes = "user_memory_per_client_bytes");

impl ThresholdMetric {
    fn unit(self) -> &'static str {
        Metric::named(self.name()).map_or("", |metric| metric.unit)
    }

    /// Returns the value over all repetitions, as tables show it: losses are summed.
    fn of(self, repetitions: &Repetitions<'_>) -> Option<f64> {
        let metric = Metric::named(self.name())?;
        match self {
            Self::Lost => {
                let values = repetitions.valid().filter_map(|cell| metric.of(cell));
                values.reduce(|a, b| a + b)
            }
            _ => repetitions.mean(|cell| metric.of(cell)),
        }
    }
}

/// Evaluates thresholds on the valid cells of a run. A threshold without a measurement is not
/// checked: it has neither passed nor failed.
pub(crate) fn evaluate(thresholds: &[Threshold], cells: &[Cell]) -> Vec<ThresholdResult> {
    thresholds
        .iter()
        .flat_map(|threshold| threshold.evaluate(cells))
        .collect()
}

impl Threshold {
    fn evaluate(&self, cells: &[Cell]) -> Vec<ThresholdResult> {
        let name = self.of.name();
        let own_cells = cells.iter().filter(|cell| cell.architecture == name);
        let mut levels: Vec<u64> = own_cells.map(|cell| cell.clients).collect();
        levels.sort_unstable();
        levels.dedup();
        levels.retain(|level| self.clients.is_none_or(|clients| clients == *level));
        if self.highest {
            let other = self.relative_to.unwrap_or(self.of);
            let mut all = levels.iter();
            let end = all.position(|level| !is_sustained(other, *level, cells));
            levels.truncate(end.unwrap_or(0));
            levels.retain(|level| is_sustained(self.of, *level, cells));
            levels = levels.split_off(levels.len().saturating_sub(1));
        }
        if levels.is_empty() {
            return vec![self.not_checked()];
        }
        levels
            .into_iter()
            .map(|level| self.at_level(level, cells))
            .collect()
    }

    /// Returns the result without a cell to which the threshold applies.
    fn not_checked(&self) -> ThresholdResult {
        let (scope, reason) = match (self.clients, self.highest) {
            (Some(clients), _) => (format!("{clients} clients"), "this level was not measured"),
            (None, true) => (
                "highest level".to_owned(),
                "no level was reached that only one of them sustains",
            ),
            (None, false) => ("every level".to_owned(), "no level was measured"),
        };
        ThresholdResult {
            expression: self.expression(),
            scope,
            actual: None,
            limit: self.at_most,
            unit: self.unit().to_owned(),
            status: ThresholdStatus::NotChecked,
            reason: Some(reason.to_owned()),
        }
    }

    fn expression(&self) -> String {
        let (metric, own) = (self.metric.name(), self.of.name());
        match self.relative_to {
            None => format!("{own}.{metric} <= {}", self.at_most),
            Some(other) => {
                format!(
                    "{own}.{metric} / {}.{metric} <= {}",
                    other.name(),
                    self.at_most
                )
            }
        }
    }

    fn unit(&self) -> &'static str {
        match self.relative_to {
            None => self.metric.unit(),
            Some(_) => "x",
        }
    }

    fn at_level(&self, clients: u64, cells: &[Cell]) -> ThresholdResult {
        let own = self.value(self.of, clients, cells);
        let actual = match self.relative_to {
            None => own,
            Some(other) => {
                let base = self.value(other, clients, cells).filter(|base| *base > 0.0);
                own.zip(base).map(|(own, base)| own / base)
            }
        };
        let without = || match self.value_is_missing(self.of, clients, cells) {
            true => self.of,
            false => self.relative_to.unwrap_or(self.of),
        };
        ThresholdResult {
            expression: self.expression(),
            scope: format!("{clients} clients"),
            actual,
            limit: self.at_most,
            unit: self.unit().to_owned(),
            status: actual.map_or(ThresholdStatus::NotChecked, |actual| {
                ThresholdStatus::of(actual <= self.at_most)
            }),
            reason: match actual {
                Some(_) => None,
                None => Some(format!("{} has no value at this level", without().name())),
            },
        }
    }

    fn value_is_missing(&self, architecture: Architecture, clients: u64, cells: &[Cell]) -> bool {
        self.value(architecture, clients, cells).is_none()
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

fn is_sustained(architecture: Architecture, clients: u64, cells: &[Cell]) -> bool {
    repetitions(architecture, clients, cells).is_sustained()
}
