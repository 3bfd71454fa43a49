//! The parts of a record's way, as means that add up to the mean response.

use weir_stats::run::{Cell, STAGE_SERVICE, STAGE_STORED_TO_CLIENT, StageMean};

use super::child::ProcessRole;

/// Sum in microseconds and number of what the gateway says about the age of updates that leave it, inside the window.
pub(super) type GatewayAges = Option<(f64, f64)>;

/// The stages of a cell whose records carry the broker's time; empty if something is not known.
pub(super) fn of(cell: &Cell, receiving: ProcessRole, gateway: GatewayAges) -> Vec<StageMean> {
    stages(cell, receiving, gateway).unwrap_or_default()
}

fn stages(cell: &Cell, receiving: ProcessRole, gateway: GatewayAges) -> Option<Vec<StageMean>> {
    let (response, service) = (cell.response()?, cell.latency.get(STAGE_SERVICE)?);
    let stored = cell.latency.get(STAGE_STORED_TO_CLIENT)?;
    // Of the same deliveries, or the differences mean nothing.
    if stored.count != response.count || service.count != response.count {
        return None;
    }
    let (response_us, service_us, stored_us) =
        (response.mean_us?, service.mean_us?, stored.mean_us?);
    let stage = |name: &str, mean_us: f64, how: &str| StageMean {
        name: name.to_owned(),
        mean_us,
        how: how.to_owned(),
    };
    let mut stages = vec![
        stage(
            "schedule",
            response_us - service_us,
            "due instant to actual send: response without service",
        ),
        stage(
            "publish",
            service_us - stored_us,
            "actual send to the broker's time stamp: service without what comes after it",
        ),
    ];
    // The gateway takes the broker's time stamp as it is; ours is the middle of its millisecond.
    let age_us = gateway
        .filter(|(_, count)| *count > 0.0)
        .map(|(sum_us, count)| (sum_us / count - HALF_MS_US).max(0.0));
    match (receiving, age_us) {
        (ProcessRole::Consume, _) => stages.push(stage(
            "broker_to_consumer",
            stored_us,
            "the broker's time stamp, in the middle of its millisecond, to the consumer's read",
        )),
        (_, Some(age_us)) if age_us <= stored_us => {
            stages.push(stage(
                "broker_to_gateway",
                age_us,
                "age of updates when they left the gateway, as it counted them itself, for all its clients; from the \
                 middle of the time stamp's millisecond",
            ));
            stages.push(stage(
                "gateway_to_client",
                stored_us - age_us,
                "the rest of the way from the broker's time stamp to the client's read",
            ));
        }
        // Without the gateway's count; or with one that, being of all updates and not only of those that are timed,
        // leaves less than nothing for the rest of the way.
        (_, _) => stages.push(stage(
            "broker_to_client",
            stored_us,
            "the broker's time stamp, in the middle of its millisecond, to the client's read",
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
    fn without_the_brokers_time_of_every_delivery_there_are_none() {
        assert!(of(&cell(99), ProcessRole::Consume, None).is_empty());
        assert!(of(&Cell::default(), ProcessRole::Consume, None).is_empty());
    }
}
