//! The metrics of a cell that limits and comparisons use, by name.

use std::collections::BTreeMap;

use crate::run::{Cell, LatencySummary, STAGE_PUBLISH_ACK};

/// One metric of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name, including the unit.
    pub name: &'static str,
    /// Human-readable unit.
    pub unit: &'static str,
    /// The metric decides the overall result of a comparison.
    pub is_headline: bool,
    of: fn(&Cell) -> Option<f64>,
}

impl Metric {
    /// Returns the value in a cell, or `None` if it was not measured.
    pub fn of(&self, cell: &Cell) -> Option<f64> {
        (self.of)(cell)
    }

    /// Returns the metric with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}

/// Lists metrics.
macro_rules! metrics {
    ($($name:literal $unit:literal, headline $is_headline:literal, |$cell:ident| $of:expr;)*) => {
        &[$(Metric {
            name: $name,
            unit: $unit,
            is_headline: $is_headline,
            of: |$cell| $of,
        }),*]
    };
}

/// All metrics, in the order of tables.
pub static METRICS: &[Metric] = metrics! {
    "response_mean_ms" "ms", headline true, |cell| ms(cell.response()?.mean_us);
    "response_p50_ms" "ms", headline false, |cell| ms(cell.response()?.p50_us);
    "response_p99_ms" "ms", headline true, |cell| ms(cell.response()?.p99_us);
    "response_p999_ms" "ms", headline false, |cell| ms(cell.response()?.p999_us);
    "publish_ack_p50_ms" "ms", headline false, |cell| ms(acknowledged(cell)?.p50_us);
    "publish_ack_p99_ms" "ms", headline false, |cell| ms(acknowledged(cell)?.p99_us);
    "achieved_records_per_s" "/s", headline true, |cell| cell.achieved_records_per_s;
    "delivered_per_s" "/s", headline false, |cell| cell.delivery.as_ref()?.delivered_per_s;
    "cpu_us_per_delivered" "us", headline true,
        |cell| cell.delivering_role()?.cpu_us_per_delivered;
    "user_memory_per_client_bytes" "bytes", headline false,
        |cell| cell.delivering_role()?.user_memory_per_client_bytes;
    "received_bytes_per_delivered" "bytes", headline false, |cell| received_per_wanted(cell);
    "lost" "deliveries", headline true, |cell| Some(cell.delivery.as_ref()?.lost as f64);
};

/// Returns `true` if lower values are better for a metric known by its name only. Higher rates are
/// better.
pub fn lower_is_better(name: &str) -> bool {
    !name.ends_with("_per_s")
}

/// Returns every metric of a cell by name: the [`METRICS`] that it has, then its own
/// [`Cell::figures`].
pub fn all_of(cell: &Cell) -> BTreeMap<&str, f64> {
    let known = METRICS
        .iter()
        .filter_map(|metric| Some((metric.name, metric.of(cell)?)));
    let own = cell.figures.iter().map(|(name, v)| (name.as_str(), *v));
    known.chain(own).filter(|(_, v)| v.is_finite()).collect()
}

fn acknowledged(cell: &Cell) -> Option<&LatencySummary> {
    cell.latency.get(STAGE_PUBLISH_ACK)
}

fn received_per_wanted(cell: &Cell) -> Option<f64> {
    let delivery = cell.delivery.as_ref()?;
    let wanted = Some(delivery.wanted()).filter(|count| *count > 0)?;
    Some(delivery.received_bytes as f64 / wanted as f64)
}

fn ms(us: Option<f64>) -> Option<f64> {
    us.map(|us| us / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{DeliveryTotals, RoleUsage, STAGE_RESPONSE};

    #[test]
    fn metrics_are_found_by_name() {
        let summary = LatencySummary {
            mean_us: Some(1500.0),
            ..LatencySummary::default()
        };
        let cell = Cell {
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            delivery: Some(DeliveryTotals {
                delivered: 4,
                received_bytes: 10,
                ..DeliveryTotals::default()
            }),
            roles: vec![RoleUsage {
                role: "gateway".to_owned(),
                cpu_us_per_delivered: Some(3.0),
                ..RoleUsage::default()
            }],
            figures: BTreeMap::from([("fetch_time_ms".to_owned(), 7.0)]),
            ..Cell::default()
        };
        let all = all_of(&cell);
        assert_eq!(all["response_mean_ms"], 1.5);
        assert_eq!(all["received_bytes_per_delivered"], 2.5);
        assert_eq!(all["cpu_us_per_delivered"], 3.0);
        assert_eq!((all["lost"], all["fetch_time_ms"]), (0.0, 7.0));
        assert!(!all.contains_key("response_p99_ms"), "never measured");
        assert!(all_of(&Cell::default()).is_empty());
    }

    #[test]
    fn unwanted_deliveries_are_stated_per_wanted_one() {
        let delivery = DeliveryTotals {
            delivered: 4000,
            wanted: Some(100),
            received_bytes: 4_000_000,
            ..DeliveryTotals::default()
        };
        assert_eq!(delivery.unwanted_per_wanted(), Some(39.0));
        assert_eq!(delivery.unwanted_bytes_per_wanted(), Some(39_000.0));
        let cell = Cell {
            delivery: Some(delivery),
            ..Cell::default()
        };
        assert_eq!(all_of(&cell)["received_bytes_per_delivered"], 40_000.0);
        assert_eq!(DeliveryTotals::default().unwanted_per_wanted(), None);
    }

    #[test]
    fn names_are_unique_and_imply_the_better_direction() {
        for metric in METRICS {
            assert!(std::ptr::eq(Metric::named(metric.name).unwrap(), metric));
            let is_rate = metric.unit == "/s";
            assert_eq!(lower_is_better(metric.name), !is_rate, "{}", metric.name);
        }
        assert!(Metric::named("other").is_none());
    }
}
