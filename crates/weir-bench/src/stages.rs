//! Splits the mean response time into the stages of a record's path.

use weir_stats::run::{Cell, STAGE_SERVICE, STAGE_STORED_TO_CLIENT, StageMean};

use super::child::ProcessRole;

/// Sum in microseconds, and number, of the update ages that the gateway reports for the window.
pub(super) type GatewayAges = Option<(f64, f64)>;

/// Returns the stages of a cell with broker timestamps; empty if a value is missing.
pub(super) fn of(cell: &Cell, receiving: ProcessRole, gateway: GatewayAges) -> Vec<StageMean> {
    stages(cell, receiving, gateway).unwrap_or_default()
}

fn stages(cell: &Cell, receiving: ProcessRole, gateway: GatewayAges) -> Option<Vec<StageMean>> {
    let (response, service) = (cell.response()?, cell.latency.get(STAGE_SERVICE)?);
    let stored = cell.latency.get(STAGE_STORED_TO_CLIENT)?;
    // The means can only be subtracted if they cover the same deliveries.
    if stored.count != response.count || service.count != response.count {
        return None;
    }
    let (response_us, service_us, stored_us) =
        (response.mean_us?, service.mean_us?, stored.mean_us?);
    let stage = |name: &str, mean_us: f64, derivation: &str| StageMean {
        name: name.to_owned(),
        mean_us,
        derivation: derivation.to_owned(),
    };
    let schedule = "due time to actual send: response time minus service time";
    let publish = "actual send to the broker's timestamp: service time minus the following stages";
    let mut stages = vec![
        stage("schedule", response_us - service_us, schedule),
        stage("publish", service_us - stored_us, publish),
    ];
    // The gateway uses the start of the timestamp's millisecond, the other stages use its middle.
    let age_us = gateway
        .filter(|(_, count)| *count > 0.0)
        .map(|(sum_us, count)| (sum_us / count - HALF_MS_US).max(0.0));
    match (receiving, age_us) {
        (ProcessRole::Consume, _) => stages.push(stage(
            "broker_to_consumer",
            stored_us,
            "broker timestamp, middle of its millisecond, to the consumer's read",
        )),
        (_, Some(age_us)) if age_us <= stored_us => {
            stages.push(stage(
                "broker_to_gateway",
                age_us,
                "age of updates when they left the gateway, counted by the gateway for all its \
                 clients; from the middle of the timestamp's millisecond",
            ));
            stages.push(stage(
                "gateway_to_client",
                stored_us - age_us,
                "remaining time from the broker timestamp to the client's read",
            ));
        }
        // The gateway's age is missing, or exceeds the whole time, which is possible because it
        // covers all updates and not only timed ones.
        (_, _) => stages.push(stage(
            "broker_to_client",
            stored_us,
            "broker timestamp, middle of its millisecond, to the client's read",
        )),
    }
    Some(stages)
}

const HALF_MS_US: f64 = 500.0;

#[cfg(test)]
mod tests {
    use weir_stats::run::{LatencySummary, STAGE_RESPONSE};

    use super::*;

    fn cell(stored_count: u64) -> Cell {
        let summary = |count, mean_us| LatencySummary {
            count,
            mean_us: Some(mean_us),
            ..LatencySummary::default()
        };
        let mut cell = Cell::default();
        for (stage, summary) in [
            (STAGE_RESPONSE, summary(100, 5000.0)),
            (STAGE_SERVICE, summary(100, 4900.0)),
            (STAGE_STORED_TO_CLIENT, summary(stored_count, 3000.0)),
        ] {
            cell.latency.insert(stage.to_owned(), summary);
        }
        cell
    }

    #[test]
    fn stages_add_up_to_the_response() {
        let ages = Some((290_000.0, 100.0));
        for (receiving, gateway, last) in [
            (ProcessRole::Consume, None, "broker_to_consumer"),
            (ProcessRole::Clients, ages, "gateway_to_client"),
            (ProcessRole::Clients, None, "broker_to_client"),
            (ProcessRole::Clients, Some((0.0, 0.0)), "broker_to_client"),
            (
                ProcessRole::Clients,
                Some((400_000.0, 100.0)),
                "broker_to_client",
            ),
        ] {
            let found = of(&cell(100), receiving, gateway);
            let sum: f64 = found.iter().map(|stage| stage.mean_us).sum();
            assert!((sum - 5000.0).abs() < 1e-6, "{found:?}");
            assert_eq!(found.last().map(|stage| stage.name.as_str()), Some(last));
        }
        let split = of(&cell(100), ProcessRole::Clients, ages);
        let means: Vec<f64> = split.iter().map(|stage| stage.mean_us).collect();
        assert_eq!(means, [100.0, 1900.0, 2400.0, 600.0]);
    }

    #[test]
    fn missing_broker_timestamps_mean_no_stages() {
        assert!(of(&cell(99), ProcessRole::Consume, None).is_empty());
        assert!(of(&Cell::default(), ProcessRole::Consume, None).is_empty());
    }
}
