use super::*;
use crate::{Histogram, NegativeCount};

pub(crate) fn run() -> Run {
    let mut histogram = Histogram::new();
    histogram.record_n(2_500_000, 400);
    let summary = LatencySummary::of(&histogram, NegativeCount::default(), 0.001);
    let cell = Cell {
        architecture: "gateway".into(),
        clients: 1000,
        repetition: 1,
        hold_s: 20.0,
        offered_records_per_s: 100.0,
        latency: BTreeMap::from([(STAGE_RESPONSE.into(), summary)]),
        delivery: Some(DeliveryTotals {
            delivered_per_s: Some(f64::NAN),
            ..DeliveryTotals::default()
        }),
        series: vec![SeriesPoint {
            t_s: 1.0,
            ..SeriesPoint::default()
        }],
        ..Cell::default()
    };
    let skipped = Cell {
        clients: 500,
        status: CellStatus::Skipped {
            reason: "after an invalid level".into(),
        },
        ..cell.clone()
    };
    Run {
        schema: SCHEMA.into(),
        plan: "keyed".into(),
        title: "t".into(),
        question: "q".into(),
        started_utc: crate::utc::rfc3339(0),
        finished_utc: crate::utc::rfc3339(60),
        command_line: vec!["weir".into()],
        weir_version: "0.1.0".into(),
        outcome: RunOutcome::Complete,
        confidence: Confidence::default(),
        answer: "a".into(),
        headline: None,
        aa_test: None,
        verdict: "v".into(),
        thresholds: vec![],
        machine: Machine::default(),
        placement: vec![],
        clock: ClockInfo {
            mode: ClockMode::SameHost,
            bound_ns: 0,
        },
        versions: BTreeMap::new(),
        settings: vec![SettingGroup::new("producer").with("linger.ms", 0)],
        cells: vec![cell, skipped],
        comparisons: vec![],
        find_max: None,
        libraries: None,
        derived: Vec::new(),
        reference: None,
        notes: vec![],
        warnings: vec![],
        files: vec![],
    }
}

#[test]
fn json_round_trip_keeps_undefined_values() {
    let read = Run::from_json(&run().to_json()).unwrap();
    let delivery = read.cells[0].delivery.as_ref().unwrap();
    assert_eq!(delivery.delivered_per_s, None);
    assert_eq!(Run::from_json(&read.to_json()).unwrap(), read);
    assert_eq!(read.cells[0].response().unwrap().p999_us, None);
    assert!(read.cells[0].response().unwrap().p99_us.is_some());
}

#[test]
fn architectures_are_named_once() {
    assert_eq!(run().architectures(), ["gateway"]);
}

#[test]
fn other_schema_is_reported() {
    let text = run().to_json().replace(SCHEMA, "weir.run/9");
    let error = Run::from_json(&text).unwrap_err().to_string();
    assert_eq!(
        error,
        r#"run file has schema "weir.run/9", this version reads "weir.run/3""#
    );
    assert!(Run::from_json("[1]").is_err());
    assert!(Run::from_json("{}").is_err());
}

#[test]
fn later_fields_are_ignored() {
    let text = run().to_json().replacen('{', "{\"later_bytes\": 3,", 1);
    assert!(Run::from_json(&text).is_ok());
}

#[test]
fn ids_are_valid_file_names() {
    let cell = Cell {
        architecture: "../x y".into(),
        clients: 7,
        repetition: 2,
        ..Cell::default()
    };
    assert_eq!(cell.id(), "___x_y-7-2");
    let grid = Cell {
        variant: Some("threads/4".into()),
        parameters: BTreeMap::from([("rate_per_s".into(), 0.5), ("size_bytes".into(), 100.0)]),
        ..cell
    };
    assert_eq!(
        grid.id(),
        "___x_y-threads_4-7-rate_per_s_0_5-size_bytes_100-2"
    );
    assert_eq!(grid.name(), "../x y threads/4");
}
